"""_torch_formula.py: attention with PyTorch's operators, for cases without a kernel of attest: a softcap or sinks with
dropout, or in float64."""

from __future__ import annotations

import math

import torch
from torch.nn import functional


def attention(query, key, value, mask, dropout_p, is_causal, scale, softcap, sinks):
    """O for (batch, heads, rows, d) tensors, with dropout and in any type; float16 and bfloat16 are computed in
    float32."""
    wide = torch.float32 if query.dtype in (torch.float16, torch.bfloat16) else query.dtype
    with torch.autocast(query.device.type, enabled=False):
        q, k, v = (x.to(wide) for x in (query, key, value))
        k, v = _for_each_head(q, k, v)
        scores = _scores(q, k, scale, softcap)
        weights = _weights(_masked(scores, mask, is_causal), mask is not None, sinks)
        o = torch.matmul(functional.dropout(weights, dropout_p), v)
    return o.to(query.dtype)


def _for_each_head(q, *others):
    """k and v repeated to as many heads as q."""
    return (x if x.shape[1] == q.shape[1] else x.repeat_interleave(q.shape[1] // x.shape[1], 1) for x in others)


def _scores(q, k, scale, softcap):
    scores = torch.matmul(q * scale, k.transpose(-1, -2))
    return torch.tanh(scores / softcap) * softcap if softcap else scores


def _masked(scores, mask, is_causal):
    rows, keys = scores.shape[-2:]
    if is_causal:
        hidden = torch.ones(rows, keys, dtype=torch.bool, device=scores.device).triu(1)
        scores = scores.masked_fill(hidden, -math.inf)
    if mask is None:
        return scores
    return scores.masked_fill(~mask, -math.inf) if mask.dtype == torch.bool else scores + mask


def _weights(scores, may_hide_all, sinks):
    """P over the keys. A row that sees no key has no weights."""
    keys = scores.shape[-1]
    if sinks is not None:
        column = sinks.to(scores.dtype)[:, None, None].expand(*scores.shape[:-1], 1)
        scores = torch.cat([scores, column], -1)
    if may_hide_all:
        nothing = (scores == -math.inf).all(-1, keepdim=True)
        weights = torch.softmax(scores.masked_fill(nothing, 0.0), -1).masked_fill(nothing, 0.0)
    else:
        weights = torch.softmax(scores, -1)
    return weights[..., :keys]
