"""shapes.py: whether the tensors of a call fit together. Called when all ranks have agreed on their shapes: every rank
then raises the same error, and nothing is in flight."""

from __future__ import annotations

from typing import Optional, Sequence

from torch import Tensor

from ..._parallel.band import Mask
from ..._torch_layout import DTYPES


def check(q: Tensor, k: Tensor, v: Tensor, lengths: Sequence[Optional[Tensor]], sinks: Optional[Tensor],
          alibi: Optional[Tensor], mask: Mask, keys: int) -> None:
    """Raise TypeError or ValueError for tensors (batch, heads, rows, d) that no call of attention could have; keys: of all
    ranks."""
    if q.dtype not in DTYPES or len({q.dtype, k.dtype, v.dtype}) > 1:
        raise TypeError(f"q, k and v are {q.dtype}, {k.dtype} and {v.dtype}; expected one of float32, bfloat16 and float16")
    for name, x in (("k", k), ("v", v)):
        if x.shape[0] != q.shape[0]:
            raise ValueError(f"{name} has a batch of {x.shape[0]}, q of {q.shape[0]}")
    if k.shape[1] != v.shape[1] or q.shape[1] % max(1, k.shape[1]) or (q.shape[1] and not k.shape[1]):
        raise ValueError(f"heads: {q.shape[1]} of q, {k.shape[1]} of k and {v.shape[1]} of v do not fit together")
    if q.shape[3] != k.shape[3]:
        raise ValueError(f"q has {q.shape[3]} columns, k {k.shape[3]}")
    batch, heads = q.shape[:2]
    if mask.documents is not None and batch != 1:
        raise ValueError(f"documents are given with a batch of {batch}; expected a batch of 1")
    for name, x, fits in (("starts_k", lengths[0], [(batch,)]), ("lens_k", lengths[1], [(batch,)]), ("sinks", sinks, [(heads,)]),
                          ("alibi", alibi, [(heads,), (batch, heads)])):
        if x is not None and tuple(x.shape) not in fits:
            raise ValueError(f"{name} is {tuple(x.shape)}; expected {' or '.join(map(str, fits))}")
    for name, x in (("starts_k", lengths[0]), ("lens_k", lengths[1])):
        if x is not None and x.device.type == "cpu" and bool(((x < 0) | (x > keys)).any()):
            raise ValueError(f"{name} is {x.tolist()}; expected numbers from 0 to {keys}, the keys of all ranks")
