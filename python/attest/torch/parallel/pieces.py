"""pieces.py: one part, a piece of rows with a piece of keys, forward and backward, with the kernels of attest.

K and V of a piece travel as one flat buffer, K before V; so do their gradients, in float32. A part's O is float32, so
that merging rounds nothing; its gradients are sums over its own keys, with O and the log-sums of the whole row.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any, Dict, NamedTuple, Optional, Tuple

import torch
from torch import Tensor
from torch.nn import functional

from ..._core import attention as _core_attention
from ..._core import backward as _core_backward
from ..._core import merge as _core_merge
from ..._parallel.band import Band

Partial = Tuple[Tensor, Tensor]  # O in float32 and the log-sums, for all rows of a piece


class Sizes(NamedTuple):
    """The sizes of K and V, which are the same on every rank."""

    batch: int
    heads: int
    d_qk: int
    d_v: int

    def elements(self, rows: int) -> int:
        return self.batch * self.heads * rows * (self.d_qk + self.d_v)

    def unflat(self, flat: Tensor, rows: int) -> Tuple[Tensor, Tensor]:
        """K and V, (batch, heads, rows, d), as views of a flat buffer."""
        of_k, of_v = flat.split([self.batch * self.heads * rows * d for d in (self.d_qk, self.d_v)])
        return of_k.view(self.batch, self.heads, rows, self.d_qk), of_v.view(self.batch, self.heads, rows, self.d_v)


def flat(k: Tensor, v: Tensor) -> Tensor:
    return torch.cat([k.reshape(-1), v.reshape(-1)])


class Lengths(NamedTuple):
    """The used keys of each batch entry, counted from the first of the whole sequence."""

    first: Optional[Tensor]
    end: Optional[Tensor]

    def within(self, first: int, count: int) -> Dict[str, Tensor]:
        """The lengths for keys first .. first + count - 1, counted from `first`."""
        given = (("starts_k", self.first), ("lens_k", self.end))
        return {name: (x - first).clamp(0, count).to(torch.int32) for name, x in given if x is not None}


@lru_cache(maxsize=256)
def packing(documents: Tuple[int, ...], device: torch.device) -> Dict[str, Any]:
    """Packed sequences as attention() takes them. Kept: to copy numbers to a GPU, the host waits for it."""
    with torch.inference_mode(False):
        starts = torch.tensor(documents, dtype=torch.int32, device=device)
    longest = max((end - start for start, end in zip(documents, documents[1:])), default=0)
    return {"cu_seqlens_q": starts, "cu_seqlens_k": starts, "max_seqlen_q": longest, "max_seqlen_k": longest}


def _arguments(band: Band, options: Dict[str, Any], lengths: Lengths, first_key: int, like: Tensor) -> Dict[str, Any]:
    named = {**options, **(band.arguments() if options.get("alibi") is None else band.placed())}
    if band.documents is not None:
        named.update(packing(band.documents, like.device))
    else:
        named.update(lengths.within(first_key + band.keys[0], band.keys[1] - band.keys[0]))
    return named


def _packed(x: Tensor) -> Tensor:
    """(1, heads, rows, d) as (rows, heads, d)."""
    return x[0].transpose(0, 1)


def forward(q: Tensor, k: Tensor, v: Tensor, band: Band, options: Dict[str, Any], lengths: Lengths, first_key: int) -> Partial:
    """O and the log-sums of all rows of q over the keys of k in the band; first_key: the position of the first key
    in k."""
    rows, keys = slice(*band.rows), slice(*band.keys)
    named = _arguments(band, options, lengths, first_key, q)
    whole = band.rows == (0, q.shape[2])
    sizes = (*q.shape[:3], v.shape[3])
    o = q.new_empty(sizes, dtype=torch.float32) if whole else q.new_zeros(sizes, dtype=torch.float32)
    part = q[:, :, rows], k[:, :, keys], v[:, :, keys]
    if band.documents is not None:
        _, lse = _core_attention(*map(_packed, part), out=_packed(o), return_lse=True, **named)
        return o, lse[None]
    _, found = _core_attention(*part, out=o[:, :, rows], return_lse=True, **named)
    if whole:
        return o, found
    lse = q.new_full(q.shape[:3], -torch.inf, dtype=torch.float32)
    lse[:, :, rows] = found
    return o, lse


def merge(left: Partial, right: Partial) -> Partial:
    """Merge the results of two sets of keys, those of `left` before those of `right`."""
    return _core_merge([left[0], right[0]], [left[1], right[1]])


def with_sinks(part: Partial, sinks: Tensor) -> Partial:
    """A sink is a key whose value is 0."""
    o, lse = part
    return _core_merge([torch.zeros_like(o), o], [sinks.float()[None, :, None].expand_as(lse).contiguous(), lse])


def backward(q: Tensor, k: Tensor, v: Tensor, o: Tensor, lse: Tensor, d_o: Tensor, band: Band, options: Dict[str, Any],
             lengths: Lengths, first_key: int, with_slopes: bool = False) -> Tuple[Tensor, Tensor, Optional[Tensor]]:
    """(d_q, d_k and d_v as a flat buffer, the gradient of the slopes if wanted) in float32, for all rows and keys of
    the pieces. o and lse are those of the whole rows; o and d_o may have more columns than v, for the gradient of the
    log-sums."""
    rows, keys = slice(*band.rows), slice(*band.keys)
    named = _arguments(band, options, lengths, first_key, q)
    if with_slopes:
        named["d_alibi"] = True
    more = o.shape[3] - v.shape[3]
    part = (q[:, :, rows], k[:, :, keys], functional.pad(v[:, :, keys], (0, more)) if more else v[:, :, keys], o[:, :, rows])
    its_lse, its_d_o = lse[:, :, rows].contiguous(), d_o[:, :, rows]
    sizes = Sizes(k.shape[0], k.shape[1], k.shape[3], v.shape[3])
    d_q = q.new_zeros(q.shape, dtype=torch.float32)
    d_kv = k.new_zeros(sizes.elements(k.shape[2]), dtype=torch.float32)
    d_k, d_v = sizes.unflat(d_kv, k.shape[2])
    wide = d_kv.new_zeros(part[2].shape) if more else d_v[:, :, keys]
    out = d_q[:, :, rows], d_k[:, :, keys], wide
    if band.documents is not None:
        part, its_lse, its_d_o, out = tuple(map(_packed, part)), its_lse[0], _packed(its_d_o), tuple(map(_packed, out))
    _, _, _, *of_slopes = _core_backward(*part, its_lse, its_d_o, out=out, **named)
    if more:
        d_v[:, :, keys] = wide[..., :sizes.d_v]
    return d_q, d_kv, of_slopes[0] if with_slopes else None
