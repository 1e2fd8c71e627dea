"""_moe_names.py: names, defaults and checks of experts' layers that more than one framework needs."""

UNGATED = ("relu2", "silu", "gelu", "gelu-tanh")  #: activations of one product, without a gate
ALPHA, LIMIT = 1.702, 7.0  #: of "swiglu-clamped"


def check_axes(x, **others):
    """Tokens of (batch, rows) must not meet the logits of (rows, batch): what has as many axes as x has the same ones.
    Others may name the tokens along one axis. `x` is a shape; `others` are arrays, or None."""
    for name, array in others.items():
        axes = None if array is None else array.shape if name == "mask" else array.shape[:-1]
        if axes is not None and len(axes) == len(x) - 1 and tuple(axes) != tuple(x[:-1]):
            raise ValueError(f"{name} has the shape {tuple(array.shape)}, but x has {tuple(x)}: the axes before the last must agree")
