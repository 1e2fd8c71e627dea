"""attend.py: attest.torch.parallel.attention()."""

from __future__ import annotations

import math
from typing import Any, Optional, Sequence, Tuple, Union

import torch
import torch.distributed as dist
from torch import Tensor

from ..._torch_layout import autocast, plain_rows
from .band import Mask
from .cut import Cut
from .parts import parts_of
from .pieces import Lengths
from .sharded import Job, Sharded

METHODS = ("ring", "gather")


@torch.compiler.disable
def attention(q: Tensor, k: Tensor, v: Tensor, cut: Cut, *, group: Any = None, method: str = "ring", cut_k: Optional[Cut] = None,
              causal: Union[None, bool, str] = None, scale: Optional[float] = None,
              window: Optional[Tuple[Optional[int], Optional[int]]] = None, align: Optional[str] = None,
              softcap: Optional[float] = None, sinks: Optional[Tensor] = None, lens_k: Optional[Tensor] = None,
              starts_k: Optional[Tensor] = None, documents: Optional[Sequence[int]] = None, return_lse: bool = False,
              layout: str = "bhsd") -> Any:
    """Attention of the rows here over the keys of every rank of a group. Every rank calls it, with its own rows.

    q, k, v    the rows of this rank as `cut` has them: (batch, heads, rows, d), or (batch, rows, heads, d) with layout="bshd"
    cut        which rank has which rows of q; of k and v too, where cut_k does not say otherwise
    group      of torch.distributed; None: all processes
    method     "ring": one shard of K and V comes while another is computed; "gather": all are asked for at once
    causal, window, align, lens_k, starts_k
               as of attest.attention(), of the whole sequences: lengths are the same numbers on every rank. With lens_k or
               starts_k the diagonal is at the top left
    documents  packed sequences: where each begins in the whole, and the end, as numbers; the batch is 1
    sinks      float32, one a head
    Differentiable in q, k, v and sinks. The log-sum-exp has no gradient.
    """
    for name, x in (("q", q), ("k", k), ("v", v)):
        if not isinstance(x, Tensor) or x.dim() != 4:
            raise TypeError(f"{name} is {tuple(x.shape) if isinstance(x, Tensor) else type(x).__name__}: "
                            "a torch.Tensor of four axes would fit")
    if method not in METHODS:
        raise ValueError(f"method is {method!r}: one of {', '.join(map(repr, METHODS))} would fit")
    if layout not in ("bhsd", "bshd"):
        raise ValueError(f"layout is {layout!r}: 'bhsd' or 'bshd' would fit")
    group = dist.group.WORLD if group is None else group
    cut_k = cut if cut_k is None else cut_k
    for name, each in (("cut", cut), ("cut_k", cut_k)):
        if each.ranks != dist.get_world_size(group):
            raise ValueError(f"{name} is for {each.ranks} ranks, the group has {dist.get_world_size(group)}")
    mask = _mask(cut, cut_k, causal, window, align, documents, lens_k is not None or starts_k is not None)
    q, k, v = autocast(q, k, v)
    if layout == "bshd":
        q, k, v = (x.transpose(1, 2) for x in (q, k, v))
    options = {"scale": 1.0 / math.sqrt(q.shape[-1]) if scale is None else float(scale), "softcap": softcap or None}
    job = Job(group, method, parts_of(cut, cut_k, mask), options, Lengths(starts_k, lens_k))
    o, lse = Sharded.apply(job, plain_rows(q), plain_rows(k), plain_rows(v), sinks)
    o = o.transpose(1, 2) if layout == "bshd" else o
    return (o, lse) if return_lse else o


def _mask(cut: Cut, cut_k: Cut, causal, window, align, documents, has_lengths: bool) -> Mask:
    """The mask of the whole; rows and keys are counted from the beginning of the sequence."""
    side = align if causal in (None, False, True) else causal
    left, right = window if window is not None else (None, None)
    diagonal = bool(causal) or left is not None or right is not None
    if side not in (None, "top-left", "bottom-right"):
        raise ValueError(f"{'causal' if side == causal else 'align'} is {side!r}: 'top-left' or 'bottom-right' would fit")
    if diagonal and side is None and cut.rows != cut_k.rows:
        raise ValueError(f"q has {cut.rows} rows and k {cut_k.rows}: say 'top-left' or 'bottom-right'")
    if diagonal and side == "bottom-right" and has_lengths:
        raise ValueError("lens_k or starts_k with a diagonal at the bottom right: 'top-left' would fit")
    if documents is not None:
        documents = tuple(int(each) for each in documents)
        if cut != cut_k or has_lengths:
            raise ValueError("documents are given: cut_k, lens_k and starts_k would be others")
        if documents[0] != 0 or documents[-1] != cut.rows or any(a > b for a, b in zip(documents, documents[1:])):
            raise ValueError(f"documents are {documents}: from 0 to {cut.rows}, non-decreasing, would fit")
    return Mask(bool(causal), left, right, cut_k.rows - cut.rows if side == "bottom-right" else 0, documents)
