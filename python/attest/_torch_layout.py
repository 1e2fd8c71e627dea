"""_torch_layout.py: types of tensors, and how they lie in memory: what the extension takes, and what it gives back."""

from __future__ import annotations

from typing import List, Tuple

import torch
from torch import Tensor

# attention() lays O out as q, whose last axis is the innermost; but not for a release without the exchange table.
LAID_OUT = hasattr(Tensor, "__dlpack_c_exchange_api__")


def autocast(query, *others):
    """The tensors in the type that torch.autocast asks for here, as PyTorch casts those of its own function."""
    device = query.device.type
    if query.is_nested or device not in ("cpu", "cuda") or not torch.is_autocast_enabled(device):
        return (query, *others)
    dtype = torch.get_autocast_dtype(device)
    return tuple(x.to(dtype) if x is not None and x.is_floating_point() and x.dtype != torch.float64 else x
                 for x in (query, *others))


def plain_rows(x: Tensor) -> Tensor:
    """With a contiguous last axis and plain signs, copied where it has them not."""
    x = x.resolve_neg()
    return x if x.stride(-1) == 1 or x.shape[-1] == 1 else x.contiguous()


def call_with_rows(function, tensors, named):
    """The function of the tensors as they are, which costs no look at them; where it refuses, of their plain rows."""
    try:
        return function(*tensors, **named)
    except (TypeError, ValueError):
        return function(*map(plain_rows, tensors), **named)  # raises the same where that was not the reason


def lying_as(query: Tensor, o: Tensor) -> Tensor:
    """O with its axes in the memory order of the query's, copied where they are not."""
    return with_strides(o, strides_like(query, o.shape))


def with_strides(x: Tensor, wanted: Tuple[int, ...]) -> Tensor:
    if all(size <= 1 or step == own for size, step, own in zip(x.shape, wanted, x.stride())):
        return x
    return x.new_empty_strided(x.shape, wanted).copy_(x)


def strides_like(query: Tensor, sizes) -> Tuple[int, ...]:
    """Dense strides for `sizes`, the axes ordered as the query's are. core/output.c has the same rule."""
    strides, step = [1] * len(sizes), 1
    for axis in _axes_inside_out(query):
        strides[axis] = step
        step = step * max(sizes[axis], 1)
    return tuple(strides)


def gradient_strides(x: Tensor) -> Tuple[int, ...]:
    """Those of the gradient of q, k or v: in the order of its axes, where it was not copied and has four; else contiguous."""
    if x.dim() == 4 and (x.stride(-1) == 1 or x.shape[-1] == 1):
        return strides_like(x, x.shape)
    strides, step = [1] * x.dim(), 1
    for axis in range(x.dim() - 1, -1, -1):
        strides[axis] = step
        step = step * max(x.shape[axis], 1)
    return tuple(strides)


def _axes_inside_out(x: Tensor) -> List[int]:
    """From the innermost to the outermost, as torch.empty_like() sorts them."""
    sizes, strides = x.shape, x.stride()
    last_inside = strides[-1] == 1 or sizes[-1] == 1
    order = list(range(x.dim() - 1 - last_inside, -1, -1))
    for i in range(1, len(order)):
        outer = i
        for inner in range(i - 1, -1, -1):
            a, b = order[inner], order[outer]
            if strides[a] == 0 or strides[b] == 0:  # they do not tell
                continue
            if strides[a] < strides[b]:
                break
            if strides[a] > strides[b] or sizes[a] > sizes[b]:
                order[inner], order[outer] = b, a
                outer = inner
    return [x.dim() - 1] * last_inside + order
