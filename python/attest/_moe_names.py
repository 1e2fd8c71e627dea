"""_moe_names.py: names of experts' layers that every framework's gradient needs."""

UNGATED = ("relu2", "silu", "gelu", "gelu-tanh")  #: activations of one product, without a gate
