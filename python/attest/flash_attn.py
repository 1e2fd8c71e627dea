"""attest.flash_attn: the functions of the flash_attn package, computed by attest, forward and backward.

    from attest.flash_attn import flash_attn_func, flash_attn_varlen_func
    o = flash_attn_func(q, k, v, causal=True)           # (batch, rows, heads, d)

    attest.flash_attn.install()                         # from here on `import flash_attn` finds these functions

Names, signatures and meaning are those of flash_attn 2.8: causal and windows are aligned bottom-right, fewer heads of k
and v are grouped, a row that sees no key gives 0. In addition it supports the CPU, float32, head dimensions that are
not a multiple of 8, and values with another head dimension. Gradients are the same from run to run, with or without
`deterministic`. Dropout is refused by name.

If return_attn_probs or return_softmax_lse ask for the log-sum-exp, that of a row without keys is -inf, and it has
gradients. Probabilities are not returned: where flash_attn returns them for its tests, this returns an empty tensor.
"""

from __future__ import annotations

from typing import Any, Optional, Tuple, Union

import torch
from torch import Tensor

from . import UnsupportedError
from ._flash_attn_install import install, uninstall
from ._flash_attn_rotary import check_rotary, turn
from ._torch_attention import serve
from ._torch_backward import Extras, Options, scale_of
from ._torch_packed import PACKED_KV, PACKED_QKV, serve_packed
from ._torch_quick import is_compiling, quick_attention

__all__ = ["flash_attn_func", "flash_attn_kvpacked_func", "flash_attn_qkvpacked_func", "flash_attn_varlen_func",
           "flash_attn_varlen_kvpacked_func", "flash_attn_varlen_qkvpacked_func", "flash_attn_with_kvcache", "install",
           "uninstall"]

Window = Tuple[int, int]


def _options(q, dropout_p, softmax_scale, causal, window_size, softcap, alibi_slopes, max_seqlen_q=None, max_seqlen_k=None,
             layout="bshd") -> Options:
    if dropout_p > 0:
        raise UnsupportedError(f"dropout_p={dropout_p}: attest has no dropout")
    left, right = window_size
    sided = left >= 0 or right >= 0 or alibi_slopes is not None
    return Options(causal="bottom-right" if causal else None, scale=scale_of(softmax_scale, q), window_left=max(left, -1),
                   window_right=-1 if causal else max(right, -1), align="bottom-right" if sided and not causal else None,
                   softcap=_softcap(softcap) or 0.0, max_seqlen_q=max_seqlen_q, max_seqlen_k=max_seqlen_k, layout=layout)


def _quick(q, k, v, softmax_scale, causal, window_size, softcap) -> Optional[Tensor]:
    """O, or None if the call must take the general path."""
    left, right = window_size
    side, window = "bottom-right" if causal else None, None
    if left >= 0 or (right >= 0 and not causal):
        window = max(left, -1), -1 if causal else max(right, -1)
    align = None if causal or window is None else "bottom-right"
    return quick_attention(q, k, v, (side, softmax_scale, window, align, _softcap(softcap), "bshd"))


def _softcap(softcap) -> Optional[float]:
    """flash_attn has none where it is not positive."""
    return softcap if softcap and not softcap <= 0 else None


def _answer(answer: Any, return_attn_probs: bool) -> Any:
    return (*answer, answer[0].new_empty(0)) if return_attn_probs else answer


def flash_attn_func(q: Tensor, k: Tensor, v: Tensor, dropout_p: float = 0.0, softmax_scale: Optional[float] = None,
                    causal: bool = False, window_size: Window = (-1, -1), softcap: float = 0.0,
                    alibi_slopes: Optional[Tensor] = None, deterministic: bool = False,
                    return_attn_probs: bool = False) -> Any:
    """Attention of q (batch, rows, heads, d) over k and v (batch, keys, heads of k, d).

    Returns O, or (O, log-sum-exp (batch, heads, rows), an empty tensor) with return_attn_probs.
    """
    if alibi_slopes is None and dropout_p == 0 and not return_attn_probs and not is_compiling():
        o = _quick(q, k, v, softmax_scale, causal, window_size, softcap)
        if o is not None:
            return o
    options = _options(q, dropout_p, softmax_scale, causal, window_size, softcap, alibi_slopes)
    return _answer(serve(q, k, v, Extras(alibi=alibi_slopes), options, return_attn_probs), return_attn_probs)


def flash_attn_kvpacked_func(q: Tensor, kv: Tensor, dropout_p: float = 0.0, softmax_scale: Optional[float] = None,
                             causal: bool = False, window_size: Window = (-1, -1), softcap: float = 0.0,
                             alibi_slopes: Optional[Tensor] = None, deterministic: bool = False,
                             return_attn_probs: bool = False) -> Any:
    """The same with k and v in one tensor (batch, keys, 2, heads of k, d); so is their gradient, without a copy."""
    options = _options(q, dropout_p, softmax_scale, causal, window_size, softcap, alibi_slopes)
    return _answer(serve_packed(PACKED_KV, (q, kv), Extras(alibi=alibi_slopes), options, return_attn_probs), return_attn_probs)


def flash_attn_qkvpacked_func(qkv: Tensor, dropout_p: float = 0.0, softmax_scale: Optional[float] = None, causal: bool = False,
                              window_size: Window = (-1, -1), softcap: float = 0.0, alibi_slopes: Optional[Tensor] = None,
                              deterministic: bool = False, return_attn_probs: bool = False) -> Any:
    """The same with q, k and v in one tensor (batch, rows, 3, heads, d); so is their gradient, without a copy."""
    options = _options(qkv, dropout_p, softmax_scale, causal, window_size, softcap, alibi_slopes)
    return _answer(serve_packed(PACKED_QKV, (qkv,), Extras(alibi=alibi_slopes), options, return_attn_probs), return_attn_probs)


def flash_attn_varlen_func(q: Tensor, k: Tensor, v: Tensor, cu_seqlens_q: Tensor, cu_seqlens_k: Tensor, max_seqlen_q: int,
                           max_seqlen_k: int, dropout_p: float = 0.0, softmax_scale: Optional[float] = None,
                           causal: bool = False, window_size: Window = (-1, -1), softcap: float = 0.0,
                           alibi_slopes: Optional[Tensor] = None, deterministic: bool = False,
                           return_attn_probs: bool = False, block_table: Optional[Tensor] = None) -> Any:
    """Packed sequences of any length: q (all rows, heads, d), k and v (all keys, heads of k, d).

    cu_seqlens are int32, (sequences + 1): the start of each sequence, and the end of the last. With block_table k and v
    are pages, (pages, keys per page, heads of k, d), and backward() raises UnsupportedError. The log-sum-exp is (heads,
    all rows).
    """
    options = _options(q, dropout_p, softmax_scale, causal, window_size, softcap, alibi_slopes, max_seqlen_q, max_seqlen_k)
    extras = Extras(alibi=alibi_slopes, cu_seqlens_q=cu_seqlens_q, cu_seqlens_k=cu_seqlens_k, page_table=block_table)
    return _answer(serve(q, k, v, extras, options, return_attn_probs), return_attn_probs)


def flash_attn_varlen_kvpacked_func(q: Tensor, kv: Tensor, cu_seqlens_q: Tensor, cu_seqlens_k: Tensor, max_seqlen_q: int,
                                    max_seqlen_k: int, dropout_p: float = 0.0, softmax_scale: Optional[float] = None,
                                    causal: bool = False, window_size: Window = (-1, -1), softcap: float = 0.0,
                                    alibi_slopes: Optional[Tensor] = None, deterministic: bool = False,
                                    return_attn_probs: bool = False) -> Any:
    """The same with k and v in one tensor (all keys, 2, heads of k, d)."""
    options = _options(q, dropout_p, softmax_scale, causal, window_size, softcap, alibi_slopes, max_seqlen_q, max_seqlen_k)
    extras = Extras(alibi=alibi_slopes, cu_seqlens_q=cu_seqlens_q, cu_seqlens_k=cu_seqlens_k)
    return _answer(serve_packed(PACKED_KV, (q, kv), extras, options, return_attn_probs), return_attn_probs)


def flash_attn_varlen_qkvpacked_func(qkv: Tensor, cu_seqlens: Tensor, max_seqlen: int, dropout_p: float = 0.0,
                                     softmax_scale: Optional[float] = None, causal: bool = False,
                                     window_size: Window = (-1, -1), softcap: float = 0.0,
                                     alibi_slopes: Optional[Tensor] = None, deterministic: bool = False,
                                     return_attn_probs: bool = False) -> Any:
    """The same with q, k and v in one tensor (all rows, 3, heads, d)."""
    options = _options(qkv, dropout_p, softmax_scale, causal, window_size, softcap, alibi_slopes, max_seqlen, max_seqlen)
    extras = Extras(alibi=alibi_slopes, cu_seqlens_q=cu_seqlens, cu_seqlens_k=cu_seqlens)
    return _answer(serve_packed(PACKED_QKV, (qkv,), extras, options, return_attn_probs), return_attn_probs)


# ------------------------------------------------------------------------------------------------- with a cache


@torch.no_grad()
def flash_attn_with_kvcache(q: Tensor, k_cache: Tensor, v_cache: Tensor, k: Optional[Tensor] = None,
                            v: Optional[Tensor] = None, rotary_cos: Optional[Tensor] = None,
                            rotary_sin: Optional[Tensor] = None,
                            cache_seqlens: Optional[Union[int, Tensor]] = None, cache_batch_idx: Optional[Tensor] = None,
                            cache_leftpad: Optional[Tensor] = None, block_table: Optional[Tensor] = None,
                            softmax_scale: Optional[float] = None, causal: bool = False, window_size: Window = (-1, -1),
                            softcap: float = 0.0, rotary_interleaved: bool = True, alibi_slopes: Optional[Tensor] = None,
                            num_splits: int = 0, return_softmax_lse: bool = False) -> Any:
    """Attention of q (batch, rows, heads, d) over a cache.

    New k and v (batch, new keys, heads of k, d) are written to it first.

    k_cache and v_cache are (batch, keys, heads of k, d), or with block_table (pages, keys per page, heads of k, d).
    cache_seqlens is the number of keys of each entry before the new ones. Forward only: as in flash_attn, no gradient is
    recorded. num_splits is ignored: attest chooses.

    rotary_cos and rotary_sin (positions, rotary dimensions / 2) turn new keys by their positions in the cache, before
    they are written to it, and rows of q by the same, or all by the first of them where nothing hides keys: neither
    causal nor a window.
    """
    batch = q.shape[0]
    pages = cache_batch_idx.view(-1, 1) if cache_batch_idx is not None else block_table
    if cache_batch_idx is not None and block_table is not None:
        raise UnsupportedError("cache_batch_idx and block_table cannot be combined: block_table alone selects the pages")
    lens = _lengths(cache_seqlens, k_cache, batch, pages)
    if k is not None:
        _check_room(cache_seqlens, lens, k.shape[1], _room(k_cache, pages))
    if rotary_cos is not None or rotary_sin is not None:
        check_rotary(q, k, rotary_cos, rotary_sin, _room(k_cache, pages))
        by_row = causal or tuple(window_size) != (-1, -1)
        q, k = (turn(x, rotary_cos, rotary_sin, _positions(lens, x, moves), rotary_interleaved) for x, moves in ((q, by_row), (k, True)))
    if k is not None:
        _append(k_cache, v_cache, k, v, lens, pages)
        lens = lens + k.shape[1]
    options = _options(q, 0.0, softmax_scale, causal, window_size, softcap, alibi_slopes)
    extras = Extras(alibi=alibi_slopes, lens_k=lens, starts_k=cache_leftpad,
                    page_table=None if pages is None else pages.to(torch.int32))
    o, lse = serve(q, k_cache, v_cache, extras, options, True)
    return (o, lse) if return_softmax_lse else o


def _room(k_cache, pages) -> int:
    """The keys that an entry of the cache has room for."""
    return k_cache.shape[1] * (1 if pages is None else pages.shape[1])


def _lengths(cache_seqlens, k_cache, batch, pages) -> Tensor:
    if cache_seqlens is None:
        cache_seqlens = _room(k_cache, pages)
    if isinstance(cache_seqlens, int):
        return torch.full((batch,), cache_seqlens, dtype=torch.int32, device=k_cache.device)
    return cache_seqlens.to(torch.int32).contiguous()


def _check_room(cache_seqlens, lens: Tensor, new: int, room: int) -> None:
    """Whether new keys fit behind those of the cache, if that is known without waiting for a GPU."""
    if cache_seqlens is None or isinstance(cache_seqlens, int):
        most = room if cache_seqlens is None else cache_seqlens
    elif lens.device.type == "cpu" and lens.numel() and not is_compiling():
        most = int(lens.max())
    else:
        return
    if most + new > room:
        raise ValueError(f"cache_seqlens is {most} at most: {new} new keys do not fit behind, as k_cache has room for {room}")


def _positions(lens: Tensor, x: Tensor, moves: bool) -> Tensor:
    """(batch, rows): those of x after `lens` keys, or of its first row for all."""
    return lens.long()[:, None] + torch.arange(x.shape[1], device=lens.device) * int(moves)


def _append(k_cache, v_cache, k, v, lens, pages) -> None:
    """Append new keys and values to the existing ones."""
    at = _positions(lens, k, True)
    entry = torch.arange(k.shape[0], device=lens.device)[:, None].expand_as(at)
    if pages is not None:
        size = k_cache.shape[1]
        entry, at = pages.long().gather(1, at // size), at % size
    k_cache[entry, at] = k
    v_cache[entry, at] = v
