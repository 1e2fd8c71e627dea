"""_moe_names.py: names and defaults of experts' layers that every framework's gradient needs."""

UNGATED = ("relu2", "silu", "gelu", "gelu-tanh")  #: activations of one product, without a gate
ALPHA, LIMIT = 1.702, 7.0  #: of "swiglu-clamped"
