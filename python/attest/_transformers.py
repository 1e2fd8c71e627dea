"""_transformers.py: attn_implementation="attest" for Hugging Face transformers; attest.torch.register_transformers()
calls it."""

from __future__ import annotations

import torch

from . import UnsupportedError
from . import torch as attest_torch
from ._torch_serving import sharings
from ._torch_spans import as_boolean, is_encoded

# Arguments that models pass to every attention function and that do not affect the scores: requests for other outputs
# of the model, inputs from which the keys and the mask were made, and choices among other kernels.
_HARMLESS = frozenset((
    "cache_params", "cache_position", "deterministic", "encoder_attention_mask", "encoder_hidden_states",
    "generation_mode", "image_position_ids", "labels", "logits_to_keep", "max_length_k", "max_length_q",
    "mm_token_type_ids", "num_items_in_batch", "output_attentions", "output_hidden_states", "output_router_logits",
    "past_key_values", "pixel_values", "position_ids", "return_dict", "seq_idx", "shift_labels", "use_cache",
    "vision_feature_layer", "vision_feature_select_strategy"))


def _check_others(key, attention_mask, sliding_window, others):
    """An argument that is not understood may change the scores: UnsupportedError names it."""
    for name, value in others.items():
        if value is None or value is False or name in _HARMLESS:
            continue
        if name in ("cu_seq_lens_q", "cu_seq_lens_k") and attention_mask is not None:
            continue  # the mask keeps the sequences apart
        raise UnsupportedError(f"attn_implementation='attest' does not know the argument {name}, which may change the "
                               "scores: use 'eager' or 'sdpa' for this model")
    if attention_mask is None and isinstance(sliding_window, int) and sliding_window < key.shape[2]:
        raise UnsupportedError(f"sliding_window={sliding_window} is given for {key.shape[2]} keys without a mask that has it")


def _numbers_in(mask, query, key):
    """Whether the mask is numbers of _torch_spans.py; masks of int32 that a user made are refused."""
    if not is_encoded(mask):
        return False
    rows, keys = query.shape[2], key.shape[2]
    of_scores = rows > 1 and mask.shape[2:] == (rows, keys) and mask.stride(2) != 0  # numbers are repeated there
    if of_scores or (mask.shape[3] != 2 and rows != keys):
        raise TypeError(f"attention_mask is {mask.dtype} of the shape {tuple(mask.shape)}; expected bool, float32 or {query.dtype}")
    return True


def _chosen_keys(module, query, key, indices, block_indices):
    """The keys that a model has chosen for each row, as a boolean mask: `indices` (batch, rows, n) are keys, `block_indices`
    (batch, groups of heads, rows, n) blocks of keys, -1 none."""
    keys = key.shape[2]
    if indices is not None:
        none = torch.zeros(*indices.shape[:2], keys, dtype=torch.bool, device=query.device)
        return none.scatter(-1, indices.long(), True)[:, None]
    size = module.indexer.block_size
    blocks = -(-keys // size)
    none = torch.zeros(*block_indices.shape[:3], blocks + 1, dtype=torch.bool, device=query.device)
    chosen = none.scatter(-1, torch.where(block_indices < 0, blocks, block_indices), True)[..., :blocks]
    return chosen.repeat_interleave(size, -1)[..., :keys].repeat_interleave(query.shape[1] // block_indices.shape[1], 1)


def _with_chosen(chosen, mask, is_causal, query, key):
    """The mask without the keys that were not chosen."""
    rows, keys = query.shape[2], key.shape[2]
    if _numbers_in(mask, query, key):
        mask = as_boolean(mask, query.shape[0], rows, keys)
    elif mask is None and is_causal and rows > 1:
        mask = torch.arange(keys, device=query.device) <= torch.arange(rows, device=query.device)[:, None]
    if mask is None:
        return chosen
    return mask & chosen if mask.dtype == torch.bool else mask.masked_fill(~chosen, torch.finfo(mask.dtype).min)


def _with_bias(position_bias, mask, is_causal, query, key):
    """A position bias and hidden keys combined into one additive mask; transformers' sdpa also hides with the lowest
    number."""
    rows, keys = query.shape[2], key.shape[2]
    if position_bias.dtype not in (torch.float32, query.dtype):
        position_bias = position_bias.to(query.dtype)
    if mask is not None and mask.dtype != torch.bool:
        return position_bias + mask
    if mask is None and is_causal:
        mask = torch.arange(keys, device=query.device) <= torch.arange(rows, device=query.device)[:, None]
    return position_bias if mask is None else torch.where(mask, position_bias, torch.finfo(position_bias.dtype).min)


def attention_forward(module, query, key, value, attention_mask, dropout=0.0, scaling=None, is_causal=None,
                      softcap=None, s_aux=None, position_bias=None, sliding_window=None, indices=None, block_indices=None,
                      **others):
    """transformers' attention interface: (batch, heads, rows, d) in, (batch, rows, heads, d) and no weights out.

    What attest does not support, such as dropout in training, goes to PyTorch. An argument that may change the scores
    and is not understood is refused by name.
    """
    _check_others(key, attention_mask, sliding_window, others)
    if indices is not None or block_indices is not None:
        if sharings:
            raise UnsupportedError("keys that are chosen for each row, within attest.torch.parallel.enable(); expected none")
        causal = getattr(module, "is_causal", True) if is_causal is None else is_causal
        chosen = _chosen_keys(module, query, key, indices, block_indices)
        attention_mask = _with_chosen(chosen, attention_mask, causal, query, key)
        if block_indices is not None and attention_mask.dtype == torch.bool:
            # Rows may be left without keys; the model gives them the average of all values, and later chooses keys by it.
            lowest = torch.finfo(query.dtype).min
            attention_mask = torch.zeros_like(attention_mask, dtype=query.dtype).masked_fill(~attention_mask, lowest)
    if sharings:
        causal = getattr(module, "is_causal", True) if is_causal is None else is_causal
        o = sharings[-1].of_model(query, key, value, attention_mask, dropout, scaling, causal, softcap, s_aux, position_bias,
                                   others.get("position_ids"))
        return o.transpose(1, 2).contiguous(), None
    if _numbers_in(attention_mask, query, key):
        if position_bias is None:
            o = attest_torch._with_spans(query, key, value, attention_mask, dropout, scaling, softcap, s_aux)
            return o.transpose(1, 2).contiguous(), None
        attention_mask = as_boolean(attention_mask, query.shape[0], query.shape[2], key.shape[2])
    if is_causal is None:
        is_causal = getattr(module, "is_causal", True)
    causal = True if is_causal and attention_mask is None and query.shape[2] > 1 else False  # no SymBool, no tensor
    if position_bias is not None:
        attention_mask, causal = _with_bias(position_bias, attention_mask, causal, query, key), False
    if softcap is not None or s_aux is not None:
        o = attest_torch._with_scores_changed(query, key, value, attention_mask, dropout, causal, scaling, softcap, s_aux)
    else:
        o = attest_torch._patched(query, key, value, attn_mask=attention_mask, dropout_p=dropout, is_causal=causal,
                                  scale=scaling, enable_gqa=query.shape[1] != key.shape[1])
    return o.transpose(1, 2).contiguous(), None


def register(name):
    """Register the function and its mask maker with transformers."""
    from transformers import AttentionInterface, AttentionMaskInterface

    from ._transformers_masks import span_mask

    AttentionInterface.register(name, attention_forward)
    AttentionMaskInterface.register(name, span_mask)
