"""check.py: answers held against float32 math before anything is timed."""

from __future__ import annotations

import math

import torch
from torch.nn import functional

from .problems import Problem
from .rivals import Inputs

ROWS_AT_ONCE = 2048
RIVAL_SLACK = 4  # a rival's error may be so many times attest's bar: it is checked for sense, not judged


def _part(problem: Problem, tensors):
    """One batch entry and one group of heads: (heads, rows, d), (keys, d), (keys, dv)."""
    q, k, v = tensors
    group = problem.hq // problem.hkv
    return q[0, :, :group].transpose(0, 1), k[0, :, 0], v[0, :, 0]


def exact(problem: Problem, tensors) -> torch.Tensor:
    """Of the part, in float32 (float64 for float32 inputs), a block of rows at a time."""
    wide = torch.float64 if problem.dtype == "f32" else torch.float32
    q, k, v = (x.to(wide) for x in _part(problem, tensors))
    out = torch.empty(*q.shape[:2], problem.dv, device=q.device, dtype=wide)
    for start in range(0, problem.sq, ROWS_AT_ONCE):
        scores = q[:, start:start + ROWS_AT_ONCE] @ k.T * problem.d**-0.5
        if problem.causal:
            row = torch.arange(start, start + scores.shape[1], device=q.device)[:, None]
            scores.masked_fill_(torch.arange(problem.sk, device=q.device)[None, :] > row, -math.inf)
        out[:, start:start + ROWS_AT_ONCE] = scores.softmax(-1) @ v
    return out


def plain(problem: Problem, tensors) -> torch.Tensor:
    """Of the part, by PyTorch's own choice in the problem's own type."""
    q, k, v = _part(problem, tensors)
    k, v = (x[None, None].expand(1, q.shape[0], -1, -1) for x in (k, v))
    return functional.scaled_dot_product_attention(q[None], k, v, is_causal=problem.causal)[0]


class Checker:
    """Judges outputs of the first copy of the inputs."""

    def __init__(self, inputs: Inputs) -> None:
        self._problem, self._group = inputs.problem, inputs.problem.hq // inputs.problem.hkv
        self._wanted = exact(inputs.problem, inputs.tensors[0])
        self.plain = self._error(plain(inputs.problem, inputs.tensors[0]))
        ulps = 4 if inputs.problem.dtype == "f32" else 1
        ulp = torch.finfo(inputs.tensors[0][0].dtype).eps * self._wanted.abs().max().item()
        self.bar = 2 * self.plain + ulps * ulp

    def _error(self, part: torch.Tensor) -> float:
        return (part.to(self._wanted.dtype) - self._wanted).abs().max().item()

    def judge(self, output: torch.Tensor, rival: bool):
        """(error, "") or (error, why it is wrong) of an output (batch, seq, heads, d)."""
        error = self._error(output[0, :, :self._group].transpose(0, 1))
        bar = self.bar * (RIVAL_SLACK if rival else 1)
        if not error <= bar:
            return error, f"error {error:.3g} is above {bar:.3g}"
        if not bool(torch.isfinite(output.float().sum())):
            return error, "the output is not finite everywhere"
        return error, ""
