"""formula.py: attention as the header of the library defines it, in float64."""

import numpy as np


def attention(q, k, v, *, scale=None, causal=None, window=(-1, -1), align="top-left", softcap=0.0, alibi=None,
              bias=None, sinks=None):
    """(O, LSE) of (batch, heads, rows, d) arrays."""
    q, k, v = (np.asarray(x, dtype=np.float64) for x in (q, k, v))
    group = q.shape[1] // k.shape[1]
    k, v = np.repeat(k, group, 1), np.repeat(v, group, 1)
    rows, keys = q.shape[2], k.shape[2]
    s = q @ np.swapaxes(k, -1, -2) * (q.shape[-1] ** -0.5 if scale is None else scale)
    if softcap:
        s = softcap * np.tanh(s / softcap)
    shift = keys - rows if (causal or align) == "bottom-right" else 0
    distance = np.arange(keys) - (np.arange(rows)[:, None] + shift)  # right of the diagonal
    if alibi is not None:
        s = s - np.reshape(alibi, (-1, q.shape[1], 1, 1)) * np.abs(distance)
    seen = np.ones((rows, keys), bool)
    if causal:
        seen &= distance <= 0
    if window[0] >= 0:
        seen &= -distance <= window[0]
    if window[1] >= 0:
        seen &= distance <= window[1]
    if bias is not None:
        if bias.dtype == bool:
            seen = seen & bias
        else:
            s = s + bias
    s = np.where(seen, s, -np.inf)
    if sinks is not None:
        column = np.broadcast_to(np.reshape(sinks, (1, -1, 1, 1)), (*s.shape[:3], 1))
        s = np.concatenate([s, column], -1)
        v = np.concatenate([v, np.zeros_like(v[:, :, :1])], 2)
    most = s.max(-1, keepdims=True, initial=-np.inf)
    p = np.exp(s - np.where(np.isinf(most), 0, most))
    total = p.sum(-1, keepdims=True)
    with np.errstate(divide="ignore"):
        lse = np.log(total[..., 0]) + np.where(np.isinf(most), 0, most)[..., 0]
    return p @ v / np.where(total == 0, 1, total), lse


def merge(parts_o, parts_lse):
    """(O, LSE) of parts along the first axis, as the header defines it."""
    o, lse = (np.asarray(x, dtype=np.float64) for x in (parts_o, parts_lse))
    top = lse.max(0)
    with np.errstate(invalid="ignore", divide="ignore"):
        weights = np.where(lse == top, 1.0, np.exp(lse - top))
        weights = np.where(lse == -np.inf, 0.0, weights)
        total = weights.sum(0)
        shares = np.where(weights == 0, 0.0, weights / np.where(total == 0, 1.0, total))[..., None]
        merged = np.where(shares == 0, 0.0, shares * np.where(shares == 0, 0.0, o)).sum(0)
        return merged, np.where(total == 0, -np.inf, top + np.log(total))
