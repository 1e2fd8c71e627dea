"""Rotary embeddings of flash_attn_with_kvcache(): columns of q and of new keys, turned by their positions."""

from __future__ import annotations

from typing import Optional

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
