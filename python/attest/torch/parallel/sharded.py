"""sharded.py: attention whose rows and keys are split over a group: "ring" and "gather", forward and backward."""

from __future__ import annotations

from typing import Any, Dict, Iterable, List, NamedTuple, Optional, Tuple

import torch
from torch import Tensor

from ..._parallel.parts import Parts
from ..._parallel.tree import Tree
from ..._torch_backward import sink_shares, with_columns
from . import pieces
from .agreement import agree, header_of, next_call
from .exchange import Exchange
from .pieces import Lengths, Sizes
from .shapes import check
from .travel import Gifts, arrivals

Pieces = Dict[int, Tuple[Tensor, Tensor]]  # key piece: K and V


class Job(NamedTuple):
    """The arguments of a call except the tensors with gradients; (batch, heads, rows, d)."""

    group: Any
    method: str  # "ring" or "gather"
    parts: Parts
    options: Dict[str, Any]  # scale and softcap
    lengths: Lengths

    def with_slopes(self, alibi: Optional[Tensor]) -> "Job":
        return self._replace(options={**self.options, "alibi": alibi})


def _begin(job: Job, direction: int, q, k, v, sinks) -> Exchange:
    exchange = Exchange(job.group, next_call(job.group))
    cut_q, cut_k = job.parts.cut_q, job.parts.cut_k
    header = header_of(exchange.call, direction, job.method, q, k, v, (cut_q, cut_k), job.parts.mask, job.options,
                       job.lengths, sinks, job.options["alibi"])
    agree(exchange, header, lambda rank: (cut_q.rows_of(rank), cut_k.rows_of(rank)), q.device)
    check(q, k, v, job.lengths, sinks, job.options["alibi"], job.parts.mask, cut_k.rows)
    return exchange


def _arrivals(job: Job, exchange: Exchange, k: Tensor, v: Tensor):
    """K and V of each piece as it arrives: (owner, {piece: (k, v)})."""
    cut, sizes = job.parts.cut_k, Sizes(k.shape[0], k.shape[1], k.shape[3], v.shape[3])
    rank = exchange.rank
    own = {piece: pieces.flat(*both) for piece, *both in zip(cut.pieces_of(rank), cut.split(k, rank, 2), cut.split(v, rank, 2))}

    def empty(piece: int) -> Tensor:
        return k.new_empty(sizes.elements(cut.lengths[piece]))

    ahead = 1 if job.method == "ring" else exchange.size - 1
    for owner, arrived in arrivals(exchange, job.parts, own, empty, ahead):
        yield owner, {piece: sizes.unflat(buffer, cut.lengths[piece]) for piece, buffer in arrived.items()}


def attend(job: Job, rank: int, q: Tensor, d_v: int, arriving: Iterable[Tuple[int, Pieces]],
           sinks: Optional[Tensor]) -> Tuple[Tensor, Tensor]:
    """(O, log-sums) of the rows of `rank` over the keys that arrive: a part for each piece, and their merges."""
    parts, cut_q, cut_k = job.parts, job.parts.cut_q, job.parts.cut_k
    own = dict(zip(cut_q.pieces_of(rank), cut_q.split(q, rank, 2)))
    trees = {i: Tree(len(cut_k.lengths), parts.keys_of[i], pieces.merge) for i in own}
    for _, arrived in arriving:
        for j, (key, value) in arrived.items():
            for i, rows in own.items():
                band = parts.band(i, j)
                if band is not None:
                    trees[i].put((0, j), pieces.forward(rows, key, value, band, job.options, job.lengths, cut_k.starts[j]))
    o = q.new_zeros((*q.shape[:3], d_v))
    lse = q.new_full(q.shape[:3], -torch.inf, dtype=torch.float32)
    first = 0
    for i, rows in own.items():
        found, here = trees[i].root(), slice(first, first + rows.shape[2])
        first = here.stop
        if found is not None:
            found = found if sinks is None else pieces.with_sinks(found, sinks)
            o[:, :, here], lse[:, :, here] = found
        elif sinks is not None:
            lse[:, :, here] = sinks.float()[None, :, None]
    return o, lse


def forward(job: Job, q: Tensor, k: Tensor, v: Tensor, sinks: Optional[Tensor]) -> Tuple[Tensor, Tensor]:
    """(O, log-sums) of this rank's rows over all keys."""
    exchange = _begin(job, 0, q, k, v, sinks)
    found = attend(job, exchange.rank, q, v.shape[3], _arrivals(job, exchange, k, v), sinks)
    exchange.finish()
    return found


def backward(job: Job, q, k, v, sinks, o, lse, d_o, with_slopes: bool) -> Tuple[Tensor, Tensor, Tensor, Optional[Tensor]]:
    """(d_q, d_k, d_v) of this rank's rows, and what its rows contribute to the gradient of the slopes, if wanted."""
    exchange = _begin(job, 1, q, k, v, sinks)
    parts, cut_q, cut_k, rank = job.parts, job.parts.cut_q, job.parts.cut_k, exchange.rank
    count_q, sizes = len(cut_q.lengths), Sizes(k.shape[0], k.shape[1], k.shape[3], v.shape[3])
    rows = {i: each for i, *each in zip(cut_q.pieces_of(rank), *(cut_q.split(x, rank, 2) for x in (q, o, lse, d_o)))}
    of_q = {i: Tree(len(cut_k.lengths), parts.keys_of[i], Tensor.add_) for i in rows}
    of_kv = {j: Tree(count_q, parts.rows_of[j], Tensor.add_) for j in cut_k.pieces_of(rank)}
    of_slopes = {i: Tree(len(cut_k.lengths), parts.keys_of[i], Tensor.add_) for i in rows}

    def empty(piece: int) -> Tensor:
        return k.new_empty(sizes.elements(cut_k.lengths[piece]), dtype=torch.float32)

    gifts = Gifts(exchange, parts, empty, lambda piece, node, value: of_kv[piece].put(node, value))
    for owner, arrived in _arrivals(job, exchange, k, v):
        sums = of_kv if owner == rank else {j: Tree(count_q, parts.rows_of[j], Tensor.add_) for j in arrived}
        for j, (key, value) in arrived.items():
            for i, (its_q, its_o, its_lse, its_d_o) in rows.items():
                band = parts.band(i, j)
                if band is not None:
                    d_q, d_kv, d_alibi = pieces.backward(its_q, key, value, its_o, its_lse, its_d_o, band, job.options,
                                                         job.lengths, cut_k.starts[j], with_slopes)
                    of_q[i].put((0, j), d_q)
                    sums[j].put((0, i), d_kv)
                    if d_alibi is not None:
                        of_slopes[i].put((0, j), d_alibi)
        if owner != rank:
            gifts.give(owner, {(j, node): value for j, tree in sums.items() for node, value in tree.waiting.items()})
    gifts.take()
    exchange.finish()
    d_q = _joined([of_q[i].root() for i in rows], [each[0] for each in rows.values()], q)
    own = [(j, tree.root()) for j, tree in of_kv.items()]
    pairs = [sizes.unflat(empty(j).zero_() if found is None else found, cut_k.lengths[j]) for j, found in own]
    d_k, d_v = (_joined([pair[n] for pair in pairs], [pair[n] for pair in pairs], x) for n, x in enumerate((k, v)))
    return d_q, d_k, d_v, _summed([tree.root() for tree in of_slopes.values()], job.options["alibi"]) if with_slopes else None


def _summed(found: List[Optional[Tensor]], like: Tensor) -> Tensor:
    """The sum, in the order of the pieces; zeros if there is nothing."""
    total = torch.zeros_like(like)
    for each in found:
        if each is not None:
            total += each
    return total


def _joined(found: List[Optional[Tensor]], shaped: List[Tensor], like: Tensor) -> Tensor:
    """The pieces joined, in the type of `like`; zeros where a piece is None."""
    if not found:
        return torch.zeros_like(like)
    return torch.cat([torch.zeros_like(x, dtype=torch.float32) if each is None else each
                      for each, x in zip(found, shaped)], 2).to(like.dtype)


class Sharded(torch.autograd.Function):
    """(job, q, k, v, sinks, slopes) to (O, log-sums). The gradients of sinks and slopes are what this rank's rows
    contribute: those of the whole are their sums over the ranks."""

    @staticmethod
    def forward(ctx, job, q, k, v, sinks, alibi):
        o, lse = forward(job.with_slopes(alibi), q, k, v, sinks)
        ctx.job = job
        ctx.set_materialize_grads(False)
        ctx.save_for_backward(q, k, v, sinks, alibi, o, lse)
        return o, lse

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx, d_o, d_lse):
        q, k, v, sinks, alibi, o, lse = ctx.saved_tensors
        d_o = torch.zeros_like(o) if d_o is None else d_o.contiguous()
        if d_lse is not None and d_lse.device.type == "cpu" and not d_lse.any():  # of a rank that did not use them
            d_lse = None
        job = ctx.job.with_slopes(alibi)
        both = (o, d_o) if d_lse is None else with_columns(v, o, d_o, d_lse, "bhsd")[1:]
        d_q, d_k, d_v, d_alibi = backward(job, q, k, v, sinks, both[0], lse, both[1], alibi is not None and ctx.needs_input_grad[5])
        d_sinks = None
        if sinks is not None and ctx.needs_input_grad[4]:
            delta = (d_o.float() * o.float()).sum(-1)
            d_sinks = (sink_shares(sinks, lse) * ((0 if d_lse is None else d_lse) - delta)).sum((0, 2))
        return None, d_q, d_k, d_v, d_sinks, d_alibi
