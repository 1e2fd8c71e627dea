"""Rotary embeddings: columns turned by their positions, in flash_attn_with_kvcache() and as flash_attn.layers.rotary."""

from __future__ import annotations

from typing import Optional, Union

import torch
from torch import Tensor


def check_rotary(q: Tensor, k: Optional[Tensor], cos: Optional[Tensor], sin: Optional[Tensor], keys: int) -> None:
    """cos and sin are (positions, rotary dimensions / 2), for every position that the cache has room for."""
    if cos is None or sin is None:
        raise ValueError("rotary_cos and rotary_sin belong together: one is missing")
    if k is None:
        raise ValueError("rotary_cos, rotary_sin: they turn new keys, and k is missing")
    if cos.dim() != 2 or cos.shape != sin.shape:
        raise ValueError(f"rotary_cos and rotary_sin have the shapes {tuple(cos.shape)} and {tuple(sin.shape)}: both should be "
                         "(positions, rotary dimensions / 2)")
    if 2 * cos.shape[1] > q.shape[-1]:
        raise ValueError(f"rotary_cos: {2 * cos.shape[1]} dimensions are turned, and q has {q.shape[-1]}")
    if cos.shape[0] < keys:
        raise ValueError(f"rotary_cos: {cos.shape[0]} positions are fewer than the {keys} keys of the cache")


def turn(x: Tensor, cos: Tensor, sin: Tensor, positions: Tensor, interleaved: bool) -> Tensor:
    """x (batch, rows, heads, d) with its first columns turned; positions are (batch, rows).

    Columns that are turned together are neighbours if interleaved, else half the turned columns apart. The turn is
    computed in float32 and rounded once.
    """
    half = cos.shape[1]
    cos, sin = (t[positions].float().unsqueeze(2) for t in (cos, sin))
    turned = x[..., :2 * half].float()
    first, second = (turned[..., ::2], turned[..., 1::2]) if interleaved else (turned[..., :half], turned[..., half:])
    pair = first * cos - second * sin, first * sin + second * cos
    turned = torch.stack(pair, -1).flatten(-2) if interleaved else torch.cat(pair, -1)
    return torch.cat((turned.to(x.dtype), x[..., 2 * half:]), -1)


def apply_rotary_emb(x: Tensor, cos: Tensor, sin: Tensor, interleaved: bool = False, inplace: bool = False,
                     seqlen_offsets: Union[int, Tensor] = 0, cu_seqlens: Optional[Tensor] = None,
                     max_seqlen: Optional[int] = None) -> Tensor:
    """x (batch, rows, heads, d), or with cu_seqlens (all rows, heads, d), with its first columns turned, by PyTorch's
    operators. seqlen_offsets are the positions of the first rows, one or one per sequence."""
    rows = torch.arange(x.shape[-3], device=x.device)
    if cu_seqlens is None:
        longest, batch = x.shape[1], x.shape[0]
        positions = rows.expand(batch, -1) + (seqlen_offsets[:, None] if isinstance(seqlen_offsets, Tensor) else seqlen_offsets)
    else:
        longest, x = max_seqlen or 0, x[None]
        sequence = torch.searchsorted(cu_seqlens[1:].long(), rows, right=True).clamp(max=cu_seqlens.shape[0] - 2)
        first = seqlen_offsets[sequence] if isinstance(seqlen_offsets, Tensor) else seqlen_offsets
        # Rows behind the last sequence have any position that there is.
        positions = (rows - cu_seqlens[sequence] + first).clamp(max=cos.shape[0] - 1)[None]
    last = longest + (0 if isinstance(seqlen_offsets, Tensor) else seqlen_offsets)
    if cos.shape != sin.shape or 2 * cos.shape[-1] > x.shape[-1] or cos.shape[0] < last:
        raise ValueError(f"cos and sin have the shapes {tuple(cos.shape)} and {tuple(sin.shape)}: both should be (positions, rotary "
                         f"dimensions / 2), with {last} positions or more, for {x.shape[-1]} columns")
    turned = turn(x, cos, sin, positions.long(), interleaved)
    turned = x.copy_(turned) if inplace else turned
    return turned if cu_seqlens is None else turned[0]
