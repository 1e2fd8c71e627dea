"""_torch_layout.py: dtypes and memory layouts of tensors: what the extension accepts and what it returns."""

from __future__ import annotations

from typing import List, Tuple

import torch
from torch import Tensor

# The types that attest computes with.
DTYPES = (torch.float32, torch.float16, torch.bfloat16)

# attention() lays out O like q, whose last axis is the innermost; but not in a release without the exchange table.
LAID_OUT = hasattr(Tensor, "__dlpack_c_exchange_api__")


def autocast(query, *others):
    """The tensors in the dtype that torch.autocast asks for here, cast as PyTorch does for its own function."""
    device = query.device.type
    if query.is_nested or device not in ("cpu", "cuda") or not torch.is_autocast_enabled(device):
        return (query, *others)
    dtype = torch.get_autocast_dtype(device)
    return tuple(x.to(dtype) if x is not None and x.is_floating_point() and x.dtype != torch.float64 else x
                 for x in (query, *others))


def plain_rows(x: Tensor) -> Tensor:
    """The tensor with a contiguous last axis and no pending negation, copied if necessary."""
    x = x.resolve_neg()
    return x if x.stride(-1) == 1 or x.shape[-1] == 1 else x.contiguous()


def is_aligned(x: Tensor) -> bool:
    """Whether its elements are where their dtype's should be: views of bytes, as torch.frombuffer() makes them, may not be."""
    return x.data_ptr() % x.element_size() == 0


def call_with_rows(function, tensors, named):
    """Call the function with the tensors as they are, without checking them; if it refuses, with plain rows of aligned
    elements."""
    try:
        return function(*tensors, **named)
    except (TypeError, ValueError):
        if "bias" in named:
            named["bias"] = _aligned(named["bias"])
        # raises the same error if that was not the reason
        return function(*(_aligned(plain_rows(x)) for x in tensors), **named)


def _aligned(x: Tensor) -> Tensor:
    return x if is_aligned(x) else x.clone()


def lying_as(query: Tensor, o: Tensor) -> Tensor:
    """O with its axes in the memory order of the query's, copied if necessary."""
    return with_strides(o, strides_like(query, o.shape))


def with_strides(x: Tensor, wanted: Tuple[int, ...]) -> Tensor:
    if all(size <= 1 or step == own for size, step, own in zip(x.shape, wanted, x.stride())):
        return x
    return x.new_empty_strided(x.shape, wanted).copy_(x)


def strides_like(query: Tensor, sizes) -> Tuple[int, ...]:
    """Dense strides for `sizes`, with the axes ordered like the query's. core/output.c has the same rule."""
    strides, step = [1] * len(sizes), 1
    for axis in _axes_inside_out(query):
        strides[axis] = step
        step = step * _at_least_one(sizes[axis])
    return tuple(strides)


def gradient_strides(x: Tensor) -> Tuple[int, ...]:
    """The strides of the gradient of q, k or v: in the order of its axes if it was not copied and has four;
    otherwise contiguous."""
    if x.dim() == 4 and (x.stride(-1) == 1 or x.shape[-1] == 1):
        return strides_like(x, x.shape)
    strides, step = [1] * x.dim(), 1
    for axis in range(x.dim() - 1, -1, -1):
        strides[axis] = step
        step = step * _at_least_one(x.shape[axis])
    return tuple(strides)


def _axes_inside_out(x: Tensor) -> List[int]:
    """The axes from the innermost to the outermost, sorted as torch.empty_like() does."""
    sizes, strides = x.shape, x.stride()
    last_inside = strides[-1] == 1 or sizes[-1] == 1
    order = list(range(x.dim() - 1 - last_inside, -1, -1))
    for i in range(1, len(order)):
        outer = i
        for inner in range(i - 1, -1, -1):
            a, b = order[inner], order[outer]
            if _is_known(strides[a] == 0) or _is_known(strides[b] == 0):  # strides of 0 do not tell
                continue
            equal = _is_known(strides[a] == strides[b])
            if _is_known(sizes[a] > sizes[b]) if equal else _is_known(strides[a] > strides[b]):
                order[inner], order[outer] = b, a
                outer = inner
            elif not equal:
                break
    return [x.dim() - 1] * last_inside + order


def _is_known(condition) -> bool:
    """Whether it holds. A size that a compiler cannot know, such as that of a selection, is none that decides: where it
    would, the axis has at most one element, and its stride does not matter."""
    if type(condition) is bool:
        return condition
    from torch.fx.experimental import symbolic_shapes

    return getattr(symbolic_shapes, "guard_or_false", bool)(condition)


def _at_least_one(size):
    return max(size, 1) if type(size) is int else torch.sym_max(size, 1)
