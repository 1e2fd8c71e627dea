"""_transformers.py: attn_implementation="attest" for Hugging Face transformers; attest.torch.register_transformers() calls it."""

from __future__ import annotations

import torch

from . import UnsupportedError
from . import torch as attest_torch
from ._core import attention


def _scores_changed(query, key, value, mask, causal, scaling, softcap, sinks):
    """Models that cap their scores or have sinks, which PyTorch's function knows nothing of."""
    if torch.is_grad_enabled() and (query.requires_grad or key.requires_grad or value.requires_grad):
        raise UnsupportedError("softcap and sinks have no gradient in attest: use attn_implementation='eager' to train")
    if sinks is not None:
        sinks = sinks.detach().float()
    return attention(query, key, value, bias=mask, causal="top-left" if causal else None, scale=scaling,
                     softcap=softcap, sinks=sinks)


def attention_forward(module, query, key, value, attention_mask, dropout=0.0, scaling=None, is_causal=None,
                      softcap=None, s_aux=None, **_):
    """transformers' attention interface: (batch, heads, rows, d) in, (batch, rows, heads, d) and no weights out.

    What attest does not serve, dropout while training among it, goes to PyTorch.
    """
    if is_causal is None:
        is_causal = getattr(module, "is_causal", True)
    is_causal = bool(is_causal) and attention_mask is None and query.shape[2] > 1
    if softcap is not None or s_aux is not None:
        o = _scores_changed(query, key, value, attention_mask, is_causal, scaling, softcap, s_aux)
    else:
        o = attest_torch._patched(query, key, value, attn_mask=attention_mask, dropout_p=dropout, is_causal=is_causal,
                                  scale=scaling, enable_gqa=query.shape[1] != key.shape[1])
    return o.transpose(1, 2).contiguous(), None


def register(name):
    """Tell transformers of the function, and that it takes the masks of PyTorch's."""
    from transformers import AttentionInterface, AttentionMaskInterface
    from transformers.masking_utils import sdpa_mask

    AttentionInterface.register(name, attention_forward)
    AttentionMaskInterface.register(name, sdpa_mask)
