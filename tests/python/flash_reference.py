"""flash_reference.py: attention as in the tests of flash_attn: in float32, and in the type itself like a plain
program."""

import torch


def attention(q, k, v, *, causal=False, window=(-1, -1), softcap=0.0, slopes=None, lengths_q=None, lengths_k=None, plain=False):
    """(O, log-sum-exp) of (batch, rows, heads, d): in float32, or with plain=True in the type of q, with the scale on
    k.

    lengths_q and lengths_k are the used rows and keys of each batch entry, which determine the diagonal.
    """
    dtype, (batch, rows, heads, d) = q.dtype, q.shape
    keys = k.shape[1]
    if not plain:
        q, k, v = q.float(), k.float(), v.float()
    k, v = (x.repeat_interleave(heads // x.shape[2], 2) for x in (k, v))
    scores = torch.einsum("bqhd,bkhd->bhqk", q, k * d ** -0.5) if plain else torch.einsum("bqhd,bkhd->bhqk", q * d ** -0.5, k)
    if softcap:
        scores = torch.tanh(scores / softcap) * softcap
    used_q, used_k = (torch.full((batch,), most, device=q.device) if lengths is None else lengths.to(q.device)
                      for lengths, most in ((lengths_q, rows), (lengths_k, keys)))
    row, column = torch.arange(rows, device=q.device)[:, None], torch.arange(keys, device=q.device)
    distance = column - row - (used_k - used_q)[:, None, None, None]
    if slopes is not None:
        scores = scores - slopes.reshape(-1, heads, 1, 1) * distance.abs()
    left, right = window[0], 0 if causal else window[1]
    hidden = column >= used_k[:, None, None, None]
    if left >= 0:
        hidden = hidden | (distance < -left)
    if right >= 0:
        hidden = hidden | (distance > right)
    hidden = hidden.expand_as(scores)
    nothing = hidden.all(-1, keepdim=True)
    scores = scores.masked_fill(hidden, float("-inf")).masked_fill(nothing, 0.0)
    sums = torch.logsumexp(scores.float(), -1).masked_fill(nothing[..., 0], float("-inf"))
    weights = torch.softmax(scores, -1).to(v.dtype).masked_fill(nothing, 0.0)
    outside = (row >= used_q[:, None, None, None]).squeeze(1)[..., None]  # rows outside the sequence
    o = torch.einsum("bhqk,bkhd->bqhd", weights, v).masked_fill(outside, 0.0)
    return o.to(dtype), sums
