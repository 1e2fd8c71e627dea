"""features.py: what models add to the scores, in the form that each timed subject takes.

The masks are those of the laboratory's `biasfill`: padding, causal after padding, documents, a random tenth.
"""

from __future__ import annotations

from typing import Callable, Dict, Optional

import torch

from .problems import SOFTCAP, Problem

MASK_BYTES = 4 << 30  # the largest additive mask for a feature that PyTorch is given


def slopes(problem: Problem, device) -> torch.Tensor:
    """The slopes of ALiBi, one per head."""
    return 0.5 / torch.arange(1, problem.hq + 1, device=device, dtype=torch.float32)


def padding(problem: Problem, device) -> torch.Tensor:
    """Padding keys per batch entry: none in every fourth, up to three eighths in the others."""
    return problem.sk * (torch.arange(problem.b, device=device) % 4) // 8


def _documents(problem: Problem, device) -> torch.Tensor:
    """The document that contains each position; each is longer than the one before."""
    where = torch.arange(problem.sk, device=device) * 64
    ends = problem.sk * torch.arange(1, 8, device=device) ** 2
    return (where[:, None] >= ends).sum(-1)


def visible(problem: Problem, device) -> torch.Tensor:
    """The boolean mask for a feature that has one: (batch, 1, rows, keys), True where a key is visible."""
    row = torch.arange(problem.sq, device=device)[:, None]
    key = torch.arange(problem.sk, device=device)
    hidden = padding(problem, device)[:, None, None]
    shape = (problem.b, problem.sq, problem.sk)
    if problem.feature == "padding":
        seen = (key < problem.sk - hidden).expand(shape)
    elif problem.feature == "padded-causal":
        seen = ((key <= row) & (key >= hidden)).expand(shape)
    elif problem.feature == "documents":
        of = _documents(problem, device)
        seen = ((of[:, None] == of) & (key <= row)).expand(shape)
    else:
        generator = torch.Generator(device).manual_seed(3)
        seen = torch.rand(shape, device=device, generator=generator) >= 0.1
    return seen[:, None].contiguous()


def _starts(problem: Problem, device) -> torch.Tensor:
    return torch.tensor(problem.starts, device=device, dtype=torch.int32)


def for_attest(problem: Problem, device, dtype) -> Dict[str, object]:
    """The arguments of attest.attention()."""
    if problem.feature == "alibi":
        return {"alibi": slopes(problem, device)}
    if problem.feature == "softcap":
        return {"softcap": SOFTCAP}
    if problem.feature == "bias":
        return {"bias": _bias(problem, device, dtype)}
    if problem.feature == "starts":
        return {"starts_k": _starts(problem, device)}
    if problem.feature == "window":
        return {"window": (problem.window - 1, 0)}
    return {"bias": visible(problem, device)}


def _bias(problem: Problem, device, dtype) -> torch.Tensor:
    """An additive bias, shared by the batch."""
    generator = torch.Generator(device).manual_seed(5)
    return torch.randn(1, problem.hq, problem.sq, problem.sk, device=device, generator=generator).to(dtype)


def scores(problem: Problem, device, dtype) -> Optional[torch.Tensor]:
    """The feature as an additive or boolean mask for PyTorch, including causality; None for a softcap, which is
    neither."""
    if problem.feature == "softcap":
        return None
    boolean = problem.is_mask or problem.feature in ("starts", "window")
    copies = 1 if problem.feature == "window" else problem.b if boolean else problem.hq
    size = 1 if boolean else torch.finfo(dtype).bits // 8
    if size * copies * problem.sq * problem.sk > MASK_BYTES:
        raise ValueError(f"its mask would take more than {MASK_BYTES >> 30} GiB")
    row = torch.arange(problem.sq, device=device)[:, None]
    key = torch.arange(problem.sk, device=device)
    if problem.is_mask:
        return visible(problem, device)
    if problem.feature == "window":
        return ((key <= row) & (key > row - problem.window))[None, None]
    if problem.feature == "starts":
        seen = key >= _starts(problem, device)[:, None, None, None]
        return (seen & (key <= row)) if problem.causal else seen.expand(-1, 1, problem.sq, -1)
    added = (_bias(problem, device, dtype) if problem.feature == "bias" else
             (slopes(problem, device)[:, None, None] * -(row - key).abs().float()).to(dtype)[None])
    return added.masked_fill(key > row, -torch.inf) if problem.causal else added


def for_flex(problem: Problem, device, dtype):
    """(score_mod, mask_mod) for FlexAttention."""
    change: Optional[Callable] = None
    mask: Optional[Callable] = (lambda b, h, row, key: row >= key) if problem.causal else None
    if problem.feature == "alibi":
        slope = slopes(problem, device)
        change = lambda score, b, h, row, key: score - slope[h] * (row - key).abs()  # noqa: E731
    elif problem.feature == "softcap":
        change = lambda score, b, h, row, key: SOFTCAP * torch.tanh(score / SOFTCAP)  # noqa: E731
    elif problem.feature == "bias":
        bias = _bias(problem, device, dtype)
        change = lambda score, b, h, row, key: score + bias[0, h, row, key]  # noqa: E731
    elif problem.feature == "starts":
        first, causal = _starts(problem, device), problem.causal
        mask = lambda b, h, row, key: (key >= first[b]) & ((row >= key) | (not causal))  # noqa: E731
    elif problem.feature == "window":
        window = problem.window
        mask = lambda b, h, row, key: (row >= key) & (row - key < window)  # noqa: E731
    else:
        seen = visible(problem, device)
        mask = lambda b, h, row, key: seen[b, 0, row, key]  # noqa: E731
    return change, mask
