"""unequal_lengths.py: the group `lengths`: sequences of unequal lengths, beside as many equal ones.

The sequences of a prefill are packed one after the other; a decode uses some keys of each entry of a cache. The rival
`equal` is attest with equal lengths and the same operations (prefill) or bytes (decode), up to rounding the length;
`flash` is PyTorch's FlashAttention-2 for packed sequences.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import accumulate
from typing import Callable, Dict, List, Sequence, Tuple

import torch

import attest

from . import check, rivals
from .problems import Problem
from .rivals import DTYPES, Inputs, Refused
from .samples import Subject


def make_inputs(problem: Problem, device: str, copies: int) -> Inputs:
    """Seeded normal data: packed as (rows, heads, d), or a cache whose unused keys are poisoned. The outputs are
    poisoned too."""
    if not problem.packed:
        made = rivals.make_inputs(problem, device, copies)
        for _, *caches in made.tensors:
            for cache in caches:
                for entry, length in enumerate(problem.lengths):
                    cache[entry, length:] = torch.nan
        return made
    generator = torch.Generator(device).manual_seed(problem.keys)

    def make(heads, d):
        return torch.randn(problem.keys, heads, d, device=device, generator=generator).to(DTYPES[problem.dtype])

    tensors = [(make(problem.hq, problem.d), make(problem.hkv, problem.d), make(problem.hkv, problem.dv)) for _ in range(copies)]
    return Inputs(problem, tensors, [make(problem.hq, problem.dv).fill_(torch.nan) for _ in range(copies)])


def _starts(problem: Problem) -> List[int]:
    """The first row of each packed sequence, and the end."""
    return [0, *accumulate(problem.lengths)]


def _offsets(inputs: Inputs) -> torch.Tensor:
    return torch.tensor(_starts(inputs.problem), dtype=torch.int32, device=inputs.tensors[0][0].device)


def _attest(inputs: Inputs) -> Callable:
    problem, calls = inputs.problem, list(zip(inputs.tensors, inputs.outputs))
    if problem.packed:
        offsets = _offsets(inputs)
        options = {"cu_seqlens_q": offsets, "cu_seqlens_k": offsets, "max_seqlen_q": problem.sq, "max_seqlen_k": problem.sk}
    else:
        used = torch.tensor(problem.lengths, dtype=torch.int32, device=inputs.tensors[0][0].device)
        options = {"lens_k": used, "layout": "bshd"}
    causal = "top-left" if problem.causal else None

    def call(i):
        (q, k, v), out = calls[i % len(calls)]
        return attest.attention(q, k, v, causal=causal, out=out, **options)

    return call


def _equal(inputs: Inputs) -> Callable:
    device = inputs.tensors[0][0].device.type
    return rivals.ATTEST.prepare(rivals.make_inputs(inputs.problem.equal, device, len(inputs.tensors)))


def _flash(inputs: Inputs) -> Callable:
    problem, calls = inputs.problem, inputs.tensors
    if not problem.packed:
        raise Refused("it takes no lengths of a cache")
    offsets = _offsets(inputs)

    def call(i):
        return torch.ops.aten._flash_attention_forward(*calls[i % len(calls)], offsets, offsets, problem.sq, problem.sk, 0.0,
                                                       problem.causal, False)[0]

    return call


ATTEST = Subject("attest", "attest", _attest)


def find(names: Sequence[str], device: str) -> Dict[str, Subject]:
    version = torch.__version__.partition("+")[0]
    found = {"equal": Subject("equal", "attest, equal lengths", _equal, judged=False)} if "equal" in names else {}
    if "flash" in names and device != "cpu":
        found["flash"] = Subject("flash", f"PyTorch {version} flash", _flash)
    return found


class Checker:
    """Judges every sequence as a problem of its own."""

    def __init__(self, inputs: Inputs) -> None:
        self._problem = inputs.problem
        self._checkers = [check.Checker(self._alone(inputs, entry)) for entry in range(inputs.problem.b)]
        self.plain = max(each.plain for each in self._checkers)
        self.bar = max(each.bar for each in self._checkers)

    def _rows(self, x: torch.Tensor, entry: int) -> torch.Tensor:
        """The rows of a sequence, (1, rows, heads, d)."""
        if not self._problem.packed:
            return x[entry:entry + 1]
        starts = _starts(self._problem)
        return x[starts[entry]:starts[entry + 1]][None]

    def _alone(self, inputs: Inputs, entry: int) -> Inputs:
        length = self._problem.lengths[entry]
        q, k, v = (self._rows(x, entry) for x in inputs.tensors[0])
        problem = replace(self._problem, b=1, sq=min(self._problem.sq, length), sk=length, lengths=())
        return Inputs(problem, [(q, k[:, :length], v[:, :length])], [])

    def judge(self, output: torch.Tensor, rival: bool) -> Tuple[float, str]:
        """(largest error, "") or (error, what is wrong with a sequence)."""
        largest = 0.0
        for entry, checker in enumerate(self._checkers):
            error, trouble = checker.judge(self._rows(output, entry), rival)
            if trouble:
                return error, f"sequence {entry}: {trouble}"
            largest = max(largest, error)
        return largest, ""
