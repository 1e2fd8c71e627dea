"""played_ring.py: the groups `parallel_4` and `parallel_8`: a ring whose ranks are played one after another, beside one call.

The parts and merges of every rank are those of attest.torch.parallel, for a causal sequence in the zigzag cut; their
sum is timed. Nothing is sent: the K and V of each piece lie ready in the buffer in which they would arrive. The rival
`whole` computes O and the log-sums of the whole sequence in one call.
"""

from __future__ import annotations

from typing import Any, Callable, Dict, Iterator, List, Sequence, Tuple

import torch

import attest

from .._parallel.band import Mask
from .._parallel.parts import Parts, parts_of
from ..torch.parallel import pieces, sharded, zigzag
from ..torch.parallel.cut import Cut
from . import check
from .problems import Problem
from .rivals import Inputs
from .samples import Subject

LSE_BAR = 1e-3  # how far log-sums may be from those of one call; they are float32 in every type


def _cut(problem: Problem) -> Cut:
    return zigzag(problem.sq, problem.ranks)


def _shard(cut: Cut, x: torch.Tensor, rank: int) -> torch.Tensor:
    """The rows of a rank as (batch, heads, rows, d), with rows and heads in memory as in x, (batch, seq, heads, d)."""
    heads_first = x.transpose(1, 2)
    return cut.shard(heads_first, rank, 2) if heads_first.is_contiguous() else cut.shard(x, rank, 1).transpose(1, 2)


def _buffers(problem: Problem, cut: Cut, k: torch.Tensor, v: torch.Tensor) -> sharded.Pieces:
    """The K and V of every piece in the form in which they arrive."""
    sizes = pieces.Sizes(problem.b, problem.hkv, problem.d, problem.dv)
    cuts = (x.transpose(1, 2).split(cut.lengths, 2) for x in (k, v))
    return {piece: sizes.unflat(pieces.flat(*both), cut.lengths[piece]) for piece, both in enumerate(zip(*cuts))}


def _arriving(parts: Parts, rank: int, buffers: sharded.Pieces) -> Iterator[Tuple[int, sharded.Pieces]]:
    """What a rank sees, in the order of a ring: its own pieces, then those of the ranks before it."""
    for step in range(parts.cut_k.ranks):
        owner = (rank - step) % parts.cut_k.ranks
        yield owner, {piece: buffers[piece] for piece in parts.wanted(rank, owner)}


def _ring(inputs: Inputs) -> Callable:
    """Its calls return every rank's O, then every rank's log-sums."""
    problem, cut = inputs.problem, _cut(inputs.problem)
    parts = parts_of(cut, cut, Mask(causal=True))
    job = sharded.Job(None, "ring", parts, {"scale": problem.d**-0.5, "softcap": None}, pieces.Lengths(None, None))
    calls = [([_shard(cut, q, rank) for rank in range(cut.ranks)], _buffers(problem, cut, k, v))
             for q, k, v in inputs.tensors]

    def call(i):
        shards, buffers = calls[i % len(calls)]
        found = [sharded.attend(job, rank, q, problem.dv, _arriving(parts, rank, buffers), None)
                 for rank, q in enumerate(shards)]
        return tuple(o for o, _ in found) + tuple(lse for _, lse in found)

    return call


def _whole(inputs: Inputs) -> Callable:
    calls = list(zip(inputs.tensors, inputs.outputs))

    def call(i):
        (q, k, v), out = calls[i % len(calls)]
        return attest.attention(q, k, v, causal="top-left", layout="bshd", out=out, return_lse=True)

    return call


ATTEST = Subject("attest", "attest", _ring)


def find(names: Sequence[str], device: str) -> Dict[str, Subject]:
    del device
    return {"whole": Subject("whole", "attest, one call", _whole)} if "whole" in names else {}


class Checker(check.Checker):
    """Judges O against float32 math as elsewhere; then every row and head, and the log-sums, against one call."""

    def __init__(self, inputs: Inputs) -> None:
        super().__init__(inputs)
        self._cut = _cut(inputs.problem)
        self._one_call = tuple(x.clone() for x in _whole(inputs)(0))

    def _joined(self, output: Sequence[torch.Tensor]) -> List[torch.Tensor]:
        """O as (batch, seq, heads, d) and the log-sums of the whole sequence, from those of the ranks."""
        ranks = self._cut.ranks
        return [self._cut.join(output[:ranks], 2).transpose(1, 2), self._cut.join(output[ranks:], 2)]

    def judge(self, output: Any, rival: bool):
        o, lse = output if rival else self._joined(output)
        error, trouble = super().judge(o, rival)
        if trouble:
            return error, trouble
        for x, wanted, bar, name in zip((o, lse), self._one_call, (2 * self.bar, LSE_BAR), ("O", "the log-sums")):
            apart = (x.float() - wanted.float()).abs().max().item()
            if not apart <= bar:
                return error, f"{name} and that of one call are {apart:.3g} apart, above {bar:.3g}"
        return error, ""
