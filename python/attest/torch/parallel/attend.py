"""attend.py: attest.torch.parallel.attention()."""

from __future__ import annotations

import math
from typing import Any, Dict, NamedTuple, Optional, Sequence, Tuple, Union

import torch
import torch.distributed as dist
from torch import Tensor

from ..._parallel.band import Mask, mask_of
from ..._parallel.parts import parts_of
from ..._torch_attention import attention as _attention_alone
from ..._torch_attention import refuse_gradient
from ..._torch_layout import autocast, plain_rows
from .agreement import header_of, next_call, pass_on
from .cut import Cut
from .faults import RankError
from .pieces import Lengths, packing
from .shapes import check
from .sharded import Job, Sharded
from .ulysses import HeadsGroup, begin

METHODS = ("ring", "gather", "ulysses")


class _Call(NamedTuple):
    """The arguments for the whole sequences."""

    cut: Cut
    cut_k: Cut
    mask: Mask
    options: Dict[str, Any]  # scale and softcap
    lengths: Lengths
    sinks: Optional[Tensor]
    alibi: Optional[Tensor]

    def of_heads(self, heads: slice) -> "_Call":
        one = self._replace(sinks=None if self.sinks is None else self.sinks[heads])
        return one._replace(alibi=None if self.alibi is None else self.alibi[..., heads])


@torch.compiler.disable
def attention(q: Tensor, k: Tensor, v: Tensor, cut: Cut, *, group: Any = None, method: str = "ring", heads_group: Any = None,
              cut_k: Optional[Cut] = None, causal: Union[None, bool, str] = None, scale: Optional[float] = None,
              window: Optional[Tuple[Optional[int], Optional[int]]] = None, align: Optional[str] = None,
              softcap: Optional[float] = None, alibi: Optional[Tensor] = None, sinks: Optional[Tensor] = None,
              lens_k: Optional[Tensor] = None, starts_k: Optional[Tensor] = None, documents: Optional[Sequence[int]] = None,
              return_lse: bool = False, layout: str = "bhsd") -> Any:
    """Attention of this rank's rows over the keys of every rank of a group. Every rank calls it, with its own rows.

    q, k, v    the rows of this rank according to `cut`: (batch, heads, rows, d), or (batch, rows, heads, d)
               with layout="bshd"
    cut        which rank has which rows of q; also of k and v, unless cut_k is given
    group      of torch.distributed; None: all processes
    method     "ring": one shard of K and V arrives while another is computed; "gather": all are requested at
               once; "ulysses": an all-to-all gives each rank all rows of some heads
    heads_group
               with "ring" or "gather" over `group`: a second group, which shares heads like "ulysses". The cut is
               over all ranks of both: rank r of `group` and u of heads_group have shard r x (size of heads_group) + u
    causal, window, align, lens_k, starts_k
               as in attest.attention(), for the whole sequences: lengths are the same numbers on every rank. With
               lens_k or starts_k the diagonal is at the top left
    documents  packed sequences: the start of each in the whole, and the end, as numbers; the batch is 1
    sinks, alibi
               (heads,); slopes also (batch, heads). The same on every rank, with all heads
    Differentiable in q, k, v, sinks and alibi, through O and the log-sum-exp. The gradients of sinks and alibi are what
    this rank computed of them: sum them over the ranks, as those of weights.
    """
    for name, x in (("q", q), ("k", k), ("v", v)):
        if not isinstance(x, Tensor) or x.dim() != 4:
            raise TypeError(f"{name} is {tuple(x.shape) if isinstance(x, Tensor) else type(x).__name__}; "
                            "expected a torch.Tensor of four axes")
    if method not in METHODS:
        raise ValueError(f"method is {method!r}; expected one of {', '.join(map(repr, METHODS))}")
    if layout not in ("bhsd", "bshd"):
        raise ValueError(f"layout is {layout!r}; expected 'bhsd' or 'bshd'")
    group = dist.group.WORLD if group is None else group
    cut_k = cut if cut_k is None else cut_k
    for name, each in (("group", group), ("heads_group", heads_group)):
        if each is dist.GroupMember.NON_GROUP_MEMBER:
            raise ValueError(f"this process is not a member of {name}: only its members call attention()")
    if heads_group is not None and method == "ulysses":
        raise ValueError("heads_group is given with method='ulysses'; expected 'ring' or 'gather', or no heads_group")
    ranks = dist.get_world_size(group) * (1 if heads_group is None else dist.get_world_size(heads_group))
    for name, each in (("cut", cut), ("cut_k", cut_k)):
        if not isinstance(each, Cut):
            raise TypeError(f"{name} is a {type(each).__name__}; expected zigzag(), contiguous() or Cut()")
        if each.ranks != ranks:
            raise ValueError(f"{name} is for {each.ranks} ranks, the group has {ranks}")
    mask = mask_of(cut, cut_k, causal, window, align, documents, lens_k is not None or starts_k is not None)
    if documents is not None and alibi is not None and alibi.dim() == 2:
        alibi = alibi[0]  # of the only batch entry
    sinks, alibi = (None if x is None else x.float() for x in (sinks, alibi))
    for name, x in (("starts_k", starts_k), ("lens_k", lens_k)):
        if x is not None and (not isinstance(x, Tensor) or x.is_floating_point()):
            raise TypeError(f"{name} is {x.dtype if isinstance(x, Tensor) else type(x).__name__}; expected a torch.Tensor of integers")
    starts_k, lens_k = (None if x is None else x.to(torch.int32) for x in (starts_k, lens_k))
    q, k, v = autocast(q, k, v)
    refuse_gradient(q, k, v, sinks, alibi)
    if layout == "bshd":
        q, k, v = (x.transpose(1, 2) for x in (q, k, v))
    options = {"scale": 1.0 / math.sqrt(q.shape[-1]) if scale is None else float(scale),
               "softcap": float(softcap) if softcap else None}
    call = _Call(cut, cut_k, mask, options, Lengths(starts_k, lens_k), sinks, alibi)
    q, k, v = plain_rows(q), plain_rows(k), plain_rows(v)
    if method == "ulysses":
        o, lse = _over_heads(call, group, None, method, q, k, v, return_lse)
    elif heads_group is not None:
        o, lse = _over_heads(call, heads_group, group, method, q, k, v, return_lse)
    else:
        o, lse = _over_rows(call, group, method, q, k, v)
    o = o.transpose(1, 2) if layout == "bshd" else o
    return (o, lse) if return_lse else o


def _over_rows(call: _Call, group: Any, method: str, q: Tensor, k: Tensor, v: Tensor) -> Tuple[Tensor, Tensor]:
    job = Job(group, method, parts_of(call.cut, call.cut_k, call.mask), call.options, call.lengths)
    return Sharded.apply(job, q, k, v, call.sinks, None if call.alibi is None else call.alibi.contiguous())


def _over_heads(call: _Call, group: Any, rows_group: Any, method: str, q, k, v, with_lse: bool) -> Tuple[Tensor, Tensor]:
    """Ulysses on `group`; the resulting heads are computed on this rank alone, or by the ranks of rows_group."""
    size, first = dist.get_world_size(group), 0
    if rows_group is not None:
        first = dist.get_rank(rows_group) * size
    cut, cut_k = call.cut.of_ranks(first, size), call.cut_k.of_ranks(first, size)
    header = header_of(next_call(group), 0, method, q, k, v, (call.cut, call.cut_k), call.mask, call.options, call.lengths,
                       call.sinks, call.alibi)
    try:
        begin(group, header, cut, cut_k, q.device)
    except RankError as error:
        if rows_group is not None:
            pass_on(rows_group, error, q.device)
        raise
    check(q, k, v, call.lengths, call.sinks, call.alibi, call.mask, call.cut_k.rows)
    heads = HeadsGroup(group, cut, cut_k, q, k)
    q, k, v = heads.there(q, k, v)
    here = call.of_heads(heads.own_heads)
    if rows_group is None:
        o, lse = _alone(here, q, k, v)
    else:
        o, lse = _over_rows(here._replace(cut=call.cut.of_groups(size), cut_k=call.cut_k.of_groups(size)), rows_group, method,
                            q, k, v)
    return heads.back(o, lse, with_lse)


def _alone(call: _Call, q: Tensor, k: Tensor, v: Tensor) -> Tuple[Tensor, Tensor]:
    """All rows and keys on this rank, with the gradients of attest.torch.attention()."""
    mask, named = call.mask, {**call.options, "sinks": call.sinks, "alibi": call.alibi, "return_lse": True}
    side = "top-left" if mask.shift == 0 else "bottom-right"
    if mask.left is not None or mask.right is not None:
        named["window"] = mask.left, mask.right
    if mask.documents is not None:
        named.update(packing(mask.documents, q.device))
        q, k, v = (x[0].transpose(0, 1) for x in (q, k, v))
    else:
        named.update(lens_k=call.lengths.end, starts_k=call.lengths.first)
    o, lse = _attention_alone(q, k, v, **named, **({"causal": side} if mask.causal else {"align": side}))
    return (o, lse) if mask.documents is None else (o.transpose(0, 1)[None], lse[None])
