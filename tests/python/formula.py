"""formula.py: attention and its gradients as defined in the library's header, in float64."""

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


def gradients(q, k, v, d_o, d_lse=None, *, scale=None, causal=None, window=(-1, -1), align="top-left", softcap=0.0,
              alibi=None, bias=None, sinks=None, lens=None, starts=None):
    """A dictionary of the gradients by the names q, k, v, bias, sinks and alibi, for (batch, heads, rows, d) arrays."""
    q, k, v, d_o = (np.asarray(x, dtype=np.float64) for x in (q, k, v, d_o))
    batch, heads, rows, d = q.shape
    heads_kv, keys, group = k.shape[1], k.shape[2], heads // k.shape[1]
    scale = d ** -0.5 if scale is None else scale
    each_k, each_v = np.repeat(k, group, 1), np.repeat(v, group, 1)
    used = np.full((batch, 1, 1, 1), keys) if lens is None else np.reshape(lens, (batch, 1, 1, 1))
    column = np.arange(keys)
    seen = (column < used) & (column >= (0 if starts is None else np.reshape(starts, (batch, 1, 1, 1))))
    shift = used - rows if (causal or align) == "bottom-right" else 0
    distance = column - (np.arange(rows)[:, None] + shift)
    seen = np.broadcast_to(seen, (batch, heads, rows, keys))
    if causal:
        seen = seen & (distance <= 0)
    left, right = (-1 if side is None else side for side in window)
    if left >= 0:
        seen = seen & (-distance <= left)
    if right >= 0:
        seen = seen & (distance <= right)
    if bias is not None and bias.dtype == bool:
        seen = seen & bias
    # Hidden elements may hold anything.
    visible = seen.any(2)[..., None]
    each_k, each_v = np.where(visible, each_k, 0), np.where(visible, each_v, 0)
    capped = s = q @ np.swapaxes(each_k, -1, -2) * scale
    if softcap:
        capped = s = softcap * np.tanh(s / softcap)
    if alibi is not None:
        s = s - np.reshape(alibi, (-1, heads, 1, 1)) * np.abs(distance)
    if bias is not None and bias.dtype != bool:
        s = s + np.asarray(bias, np.float64)
    s = np.where(seen, s, -np.inf)
    column_of_sinks = -np.inf if sinks is None else np.reshape(np.asarray(sinks, np.float64), (1, -1, 1, 1))
    most = np.maximum(s.max(-1, keepdims=True, initial=-np.inf), column_of_sinks)
    most = np.where(np.isinf(most), 0, most)
    p = np.exp(s - most)
    of_sinks = np.exp(column_of_sinks - most)
    total = p.sum(-1, keepdims=True) + of_sinks
    total = np.where(total == 0, 1, total)
    p, of_sinks = p / total, of_sinks / total
    d_p = d_o @ np.swapaxes(each_v, -1, -2)
    delta = (p * d_p).sum(-1, keepdims=True)
    if d_lse is not None:
        delta = delta - np.asarray(d_lse, np.float64)[..., None]
    d_s = p * (d_p - delta)
    d_x = d_s * (1 - (capped / softcap) ** 2) if softcap else d_s
    answer = {"q": d_x @ each_k * scale,
              "k": (np.swapaxes(d_x, -1, -2) @ q * scale).reshape(batch, heads_kv, group, keys, d).sum(2),
              "v": (np.swapaxes(p, -1, -2) @ d_o).reshape(batch, heads_kv, group, keys, v.shape[-1]).sum(2)}
    if bias is not None and bias.dtype != bool:
        answer["bias"] = _sum_to(d_s, bias.shape)
    if sinks is not None:
        answer["sinks"] = -(of_sinks * delta).sum((0, 2, 3))
    if alibi is not None:
        slopes = -(d_s * np.abs(distance)).sum((2, 3))
        answer["alibi"] = slopes.sum(0) if np.ndim(alibi) == 1 else slopes
    return answer


def _sum_to(x, shape):
    """Sum over the axes along which an array of this shape is broadcast."""
    x = x.sum(tuple(range(x.ndim - len(shape))))
    return x.sum(tuple(i for i, size in enumerate(shape) if size == 1 and x.shape[i] != 1), keepdims=True)


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
