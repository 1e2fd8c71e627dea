"""_torch_formula.py: attention and its gradients by PyTorch's operators, for what no kernel of attest computes."""

from __future__ import annotations

import math

import torch
from torch.nn import functional

BLOCK_ELEMENTS = 1 << 24  # of scores at once in a backward pass


def attention(query, key, value, mask, dropout_p, is_causal, scale, softcap, sinks):
    """O of (batch, heads, rows, d) tensors, with dropout and in any type; float16 and bfloat16 are computed in float32."""
    wide = torch.float32 if query.dtype in (torch.float16, torch.bfloat16) else query.dtype
    with torch.autocast(query.device.type, enabled=False):
        q, k, v = (x.to(wide) for x in (query, key, value))
        k, v = _for_each_head(q, k, v)
        scores = _scores(q, k, scale, softcap)
        scores = _masked(scores, mask, is_causal, 0)
        weights, _ = _weights(scores, mask is not None, sinks)
        o = torch.matmul(functional.dropout(weights, dropout_p), v)
    return o.to(query.dtype)


def gradients(q, k, v, mask, sinks, grad_o, grad_lse, is_causal, scale, softcap, mask_needs):
    """Of q, k, v, the mask and the sinks, in float32, from the weights P of a block of rows at a time.

    The sum of P dP, which every dS needs, is taken over the keys: from O, which is rounded, it would lose digits.
    """
    batch, heads, rows, _ = q.shape
    kv_heads, keys, group = k.shape[1], k.shape[2], heads // k.shape[1]
    k32, v32 = _for_each_head(q, k.float(), v.float())
    step = max(1, BLOCK_ELEMENTS // max(1, batch * heads * keys))
    grads_q, grads_mask = [], []
    grad_k, grad_v = torch.zeros_like(k32), torch.zeros_like(v32)
    grad_sinks = None if sinks is None else torch.zeros_like(sinks)
    for start in range(0, rows, step):
        part = slice(start, min(start + step, rows))
        q32, grad = q[:, :, part].float(), grad_o[:, :, part].float()
        capped = _scores(q32, k32, scale, softcap)
        weights, of_sinks = _weights(_masked(capped, mask, is_causal, start), mask is not None, sinks)
        grad_p = torch.matmul(grad, v32.transpose(-1, -2))
        delta = (weights * grad_p).sum(-1, keepdim=True)
        if grad_lse is not None:
            delta = delta - grad_lse[:, :, part, None]
        grad_s = weights * (grad_p - delta)
        if mask_needs:
            grads_mask.append(grad_s)
        if sinks is not None:
            grad_sinks = grad_sinks - (of_sinks * delta).sum((0, 2, 3))
        if softcap:
            grad_s = grad_s * (1 - (capped / softcap) ** 2)
        grad_v = grad_v + torch.matmul(weights.transpose(-1, -2), grad)
        grads_q.append(torch.matmul(grad_s, k32) * scale)
        grad_k = grad_k + torch.matmul(grad_s.transpose(-1, -2), q32) * scale
    grad_q = torch.cat(grads_q, 2) if grads_q else torch.zeros_like(q)
    if group > 1:
        grad_k, grad_v = (x.unflatten(1, (kv_heads, group)).sum(2) for x in (grad_k, grad_v))
    grad_mask = None
    if mask_needs:
        all_rows = torch.cat(grads_mask, 2) if grads_mask else grad_o.new_zeros((batch, heads, rows, keys))
        grad_mask = all_rows.sum_to_size(mask.shape).to(mask.dtype)
    return grad_q.to(q.dtype), grad_k.to(k.dtype), grad_v.to(v.dtype), grad_mask, grad_sinks


def _for_each_head(q, *others):
    """k and v with as many heads as q."""
    return (x if x.shape[1] == q.shape[1] else x.repeat_interleave(q.shape[1] // x.shape[1], 1) for x in others)


def _scores(q, k, scale, softcap):
    scores = torch.matmul(q * scale, k.transpose(-1, -2))
    return torch.tanh(scores / softcap) * softcap if softcap else scores


def _masked(scores, mask, is_causal, first_row):
    rows, keys = scores.shape[-2:]
    if is_causal:
        row = torch.arange(first_row, first_row + rows, device=scores.device)
        hidden = torch.arange(keys, device=scores.device) > row[:, None]
        scores = scores.masked_fill(hidden, -math.inf)
    if mask is not None:
        one = mask.dim() < 2 or mask.shape[-2] == 1
        here = mask if one else mask[..., first_row:first_row + rows, :]
        scores = scores.masked_fill(~here, -math.inf) if mask.dtype == torch.bool else scores + here
    return scores


def _weights(scores, may_hide_all, sinks):
    """P of the keys, and that of the sinks or None. A row that sees nothing has no weights."""
    keys = scores.shape[-1]
    if sinks is not None:
        column = sinks.to(scores.dtype)[:, None, None].expand(*scores.shape[:-1], 1)
        scores = torch.cat([scores, column], -1)
    if may_hide_all:
        nothing = (scores == -math.inf).all(-1, keepdim=True)
        weights = torch.softmax(scores.masked_fill(nothing, 0.0), -1).masked_fill(nothing, 0.0)
    else:
        weights = torch.softmax(scores, -1)
    return (weights, None) if sinks is None else (weights[..., :keys], weights[..., keys:])
