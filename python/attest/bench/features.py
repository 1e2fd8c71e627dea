"""features.py: what models add to the scores, in the form that each timed subject takes.

The masks are those of the laboratory's `biasfill`: padding, causal after padding, documents, a prefix, blocks, a random
tenth.
"""

from __future__ import annotations

import functools
from typing import Callable, Dict, Optional

import torch

from .problems import SOFTCAP, TILE, Problem

TYPES = {"f32": torch.float32, "fp16": torch.float16, "bf16": torch.bfloat16}
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
    """The boolean mask for a feature that has one, in its own shape, such as (batch, 1, rows, keys): True where a key is
    visible."""
    row = torch.arange(problem.sq, device=device)[:, None]
    key = torch.arange(problem.sk, device=device)
    if problem.feature == "padding":
        seen = key < problem.sk - padding(problem, device)[:, None, None, None]
    elif problem.feature == "padded-causal":
        seen = (key <= row) & (key >= padding(problem, device)[:, None, None, None])
    elif problem.feature == "documents":
        of = _documents(problem, device)
        seen = (of[:, None] == of) & (key <= row)
    elif problem.feature == "prefix":
        seen = (key <= row) | (key < problem.sk // 3)
    elif problem.feature == "blocks":
        seen = (row // TILE == key // TILE) | ((row // TILE + key // TILE) % 3 == 0)
    else:
        generator = torch.Generator(device).manual_seed(3)
        seen = torch.rand(_shape(problem), device=device, generator=generator) >= 0.1
    return seen.expand(_shape(problem)).contiguous()


def _shape(problem: Problem):
    """The shape of the bias or mask."""
    sizes = (problem.b, problem.hq, problem.sq, problem.sk)
    return tuple(1 if letter == "1" else size for letter, size in zip(problem.bias_shape, sizes))


def _integers(values, device) -> torch.Tensor:
    return torch.tensor(values, device=device, dtype=torch.int32)


def _bias(problem: Problem, device, dtype) -> torch.Tensor:
    """An additive bias."""
    generator = torch.Generator(device).manual_seed(5)
    return torch.randn(_shape(problem), device=device, generator=generator).to(TYPES.get(problem.bias_dtype, dtype))


def sinks(problem: Problem, device) -> torch.Tensor:
    """A logit per head that has a weight and no value."""
    return torch.linspace(-1.0, 2.0, problem.hq, device=device)


def for_attest(problem: Problem, device, dtype) -> Dict[str, object]:
    """The arguments of attest.attention()."""
    made: Dict[str, object] = {}
    if problem.feature == "alibi":
        made["alibi"] = slopes(problem, device)
    elif problem.feature == "softcap":
        made["softcap"] = SOFTCAP
    elif problem.feature == "bias":
        made["bias"] = _bias(problem, device, dtype)
    elif problem.feature == "starts":
        made["starts_k"] = _integers(problem.starts, device)
    elif problem.is_mask:
        made["bias"] = visible(problem, device)
    if problem.window:
        made["window"] = (problem.window - 1, 0)
    if problem.sinks:
        made["sinks"] = sinks(problem, device)
    if problem.used:
        made["lens_k"] = _integers(problem.ends, device)
    return made


def _seen(problem: Problem, device) -> Optional[torch.Tensor]:
    """Everything that hides keys, including causality, as one mask; None if nothing does."""
    row = torch.arange(problem.sq, device=device)[:, None]
    key = torch.arange(problem.sk, device=device)
    parts = [visible(problem, device)] if problem.is_mask else []
    if problem.causal:
        parts.append((key <= row)[None, None])
    if problem.window:
        parts.append((key > row - problem.window)[None, None])
    if problem.feature == "starts":
        parts.append(key >= _integers(problem.starts, device)[:, None, None, None])
    if problem.used:
        parts.append(key < _integers(problem.ends, device)[:, None, None, None])
    return functools.reduce(torch.logical_and, parts) if parts else None


def masked(problem: Problem, device, dtype) -> Optional[torch.Tensor]:
    """A bias, ALiBi and everything that hides keys, including causality, as one additive or boolean mask; None if there
    is nothing."""
    added = None
    additive = problem.feature in ("alibi", "bias")
    shape = _shape(problem) if problem.is_mask or problem.feature == "bias" else (1, problem.hq if additive else 1)
    copies = (problem.b if problem.used or problem.feature == "starts" else shape[0]) * shape[1]
    if (torch.finfo(dtype).bits // 8 if additive else 1) * copies * problem.sq * problem.sk > MASK_BYTES:
        raise ValueError(f"its mask would take more than {MASK_BYTES >> 30} GiB")
    if problem.feature == "bias":
        added = _bias(problem, device, dtype)
    elif problem.feature == "alibi":
        row = torch.arange(problem.sq, device=device)[:, None]
        key = torch.arange(problem.sk, device=device)
        added = (slopes(problem, device)[:, None, None] * -(row - key).abs().float()).to(dtype)[None]
    seen = _seen(problem, device)
    if added is None or seen is None:
        return seen if added is None else added
    return torch.where(seen, added, torch.tensor(-torch.inf, device=device, dtype=added.dtype))


def scores(problem: Problem, device, dtype) -> Optional[torch.Tensor]:
    """The problem's mask for PyTorch; None for a softcap and sinks, which no mask can express."""
    return None if problem.feature == "softcap" or problem.sinks else masked(problem, device, dtype)


def for_flex(problem: Problem, device, dtype):
    """(score_mod, mask_mod) for FlexAttention."""
    change: Optional[Callable] = None
    masks = [lambda b, h, row, key: row >= key] if problem.causal else []
    whole = (problem.b, problem.hq, problem.sq, problem.sk)
    if problem.feature == "alibi":
        slope = slopes(problem, device)
        change = lambda score, b, h, row, key: score - slope[h] * (row - key).abs()  # noqa: E731
    elif problem.feature == "softcap":
        change = lambda score, b, h, row, key: SOFTCAP * torch.tanh(score / SOFTCAP)  # noqa: E731
    elif problem.feature == "bias":
        bias = _bias(problem, device, dtype).expand(whole)
        change = lambda score, b, h, row, key: score + bias[b, h, row, key]  # noqa: E731
    elif problem.feature == "starts":
        first = _integers(problem.starts, device)
        masks.append(lambda b, h, row, key: key >= first[b])
    elif problem.is_mask:
        seen = visible(problem, device).expand(whole)
        masks.append(lambda b, h, row, key: seen[b, h, row, key])
    if problem.window:
        window = problem.window
        masks.append(lambda b, h, row, key: row - key < window)
    if problem.used:
        ends = _integers(problem.ends, device)
        masks.append(lambda b, h, row, key: key < ends[b])
    if len(masks) < 2:
        return change, masks[0] if masks else None
    return change, lambda b, h, row, key: functools.reduce(lambda x, y: x & y, (mask(b, h, row, key) for mask in masks))
