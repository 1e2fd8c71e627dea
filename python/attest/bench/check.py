"""check.py: answers compared with float32 math before anything is timed."""

from __future__ import annotations

import math

import torch
from torch.nn import functional

from . import features
from .problems import SOFTCAP, Problem
from .rivals import Inputs

ROWS_AT_ONCE = 2048
RIVAL_SLACK = 4  # a rival's error may be this many times attest's bar: this is a sanity check, not a verdict


def _part(problem: Problem, tensors):
    """The last batch entry, which has the most padding, and one group of heads: (heads, rows, d), (keys, d), (keys,
    dv)."""
    q, k, v = tensors
    group = problem.hq // problem.hkv
    return q[-1, :, :group].transpose(0, 1), k[-1, :, 0], v[-1, :, 0]


def _added(problem: Problem, q: torch.Tensor):
    """The feature's mask or bias for the part, (1 or heads, 1 or rows, keys); None if it has none."""
    if problem.is_plain:
        return None
    mask = features.masked(problem, q.device, q.dtype)
    if mask is None:
        return None
    mask = mask[-1]
    return mask[:q.shape[0]] if mask.shape[0] > 1 else mask


def _with_feature(problem: Problem, scores: torch.Tensor, added, rows: slice) -> torch.Tensor:
    if problem.feature == "softcap":
        scores = SOFTCAP * torch.tanh(scores / SOFTCAP)
    if added is None:
        return scores
    part = added[:, rows] if added.shape[1] > 1 else added
    return scores.masked_fill(~part, -math.inf) if part.dtype == torch.bool else scores + part.to(scores.dtype)


def _weights(problem: Problem, scores: torch.Tensor) -> torch.Tensor:
    """The weights of scores (heads, rows, keys), of the first heads; those of rows that see no key are 0."""
    if problem.sinks:
        logits = features.sinks(problem, scores.device)[:scores.shape[0], None, None].to(scores.dtype)
        scores = torch.cat([scores, logits.expand(-1, scores.shape[1], 1)], -1)
        return scores.softmax(-1)[..., :-1]
    return scores.softmax(-1).nan_to_num(0.0)


def exact(problem: Problem, tensors) -> torch.Tensor:
    """The exact answer for the part, in float32 (float64 for float32 inputs), a block of rows at a time."""
    wide = torch.float64 if problem.dtype == "f32" else torch.float32
    q, k, v = (x.to(wide) for x in _part(problem, tensors))
    out = torch.empty(*q.shape[:2], problem.dv, device=q.device, dtype=wide)
    added = _added(problem, tensors[0][-1].transpose(0, 1)[:q.shape[0]])
    for start in range(0, problem.sq, ROWS_AT_ONCE):
        scores = q[:, start:start + ROWS_AT_ONCE] @ k.T * problem.d**-0.5
        scores = _with_feature(problem, scores, added, slice(start, start + scores.shape[1]))
        if problem.causal:
            row = torch.arange(start, start + scores.shape[1], device=q.device)[:, None]
            scores.masked_fill_(torch.arange(problem.sk, device=q.device)[None, :] > row, -math.inf)
        out[:, start:start + ROWS_AT_ONCE] = _weights(problem, scores) @ v
    return out


def plain(problem: Problem, tensors) -> torch.Tensor:
    """The answer for the part from PyTorch's own choice, in the problem's own type."""
    q, k, v = _part(problem, tensors)
    if not problem.is_plain:
        return _plain_formula(problem, q, k, v)
    k, v = (x[None, None].expand(1, q.shape[0], -1, -1) for x in (k, v))
    return functional.scaled_dot_product_attention(q[None], k, v, is_causal=problem.causal)[0]


def _plain_formula(problem: Problem, q, k, v) -> torch.Tensor:
    """The formula in float32, a block of rows at a time, with weights and answers in the problem's own type."""
    added, parts = _added(problem, q), []
    for start in range(0, problem.sq, ROWS_AT_ONCE):
        scores = q[:, start:start + ROWS_AT_ONCE].float() @ k.T.float() * problem.d**-0.5
        scores = _with_feature(problem, scores, added, slice(start, start + scores.shape[1]))
        if problem.causal:
            row = torch.arange(start, start + scores.shape[1], device=q.device)[:, None]
            scores.masked_fill_(torch.arange(problem.sk, device=q.device)[None, :] > row, -math.inf)
        weights = _weights(problem, scores).to(q.dtype)
        parts.append((weights.float() @ v.float()).to(q.dtype))
    return torch.cat(parts, 1)


class Checker:
    """Judges outputs for the first copy of the inputs."""

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
        """(error, "") or (error, what is wrong) for an output (batch, seq, heads, d)."""
        error = self._error(output[-1, :, :self._group].transpose(0, 1))
        bar = self.bar * (RIVAL_SLACK if rival else 1)
        if not error <= bar:
            return error, f"error {error:.3g} is above {bar:.3g}"
        if not bool(torch.isfinite(output.float().sum())):
            return error, "the output is not finite everywhere"
        return error, ""
