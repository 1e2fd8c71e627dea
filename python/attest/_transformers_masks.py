"""_transformers_masks.py: transformers' masks as the numbers of _torch_spans.py, if those suffice.

transformers describes a mask by a function of (batch, head, row, key), a padding mask of (batch, keys) and the start
positions of rows and keys. Causal, sliding-window, full and packed masks, and padding on either side, are recognised by
the functions that transformers builds them from; every other mask is made as for PyTorch's attention.
"""

from __future__ import annotations

import sys
from typing import Dict, NamedTuple, Optional, Union

import torch
from torch import Tensor
from transformers import PreTrainedModel, masking_utils

from . import UnsupportedError
from ._torch_attention import is_watched
from ._torch_serving import sharings
from ._torch_spans import encode, encode_packed


# Models that compute with the mask before it reaches the attention function; for them it must not be omitted. So do all
# that have layers of this type, which choose keys for each row among those that the mask shows.
_COMPUTE_WITH_MASKS = frozenset(("diffusion_gemma", "doge", "falcon"))
_CHOOSE_KEYS = "indexed_attention"


# Models that give the mask to other functions too; those of transformers' sdpa fit them.
_USE_ELSEWHERE = frozenset(("lasr_encoder", "nemotron_asr_streaming_encoder", "siglip2_vision_model"))

# Models that join the mask with another one, or with numbers to be added to the scores, as "eager" has them.
_ADD_TO_MASKS = frozenset(("deepseek_v4", "t5gemma2_decoder"))

# Models that drop rows between two layers, and the same rows of the mask: a mask of numbers, or none, has no rows to drop.
_DROP_ROWS = frozenset(("gemma4", "gemma4_text", "gemma4_unified", "gemma4_unified_text"))

# Models whose attention function is not told that a layer is causal.
_NOT_TOLD_CAUSAL = frozenset(("pegasus_x",))

# Models that call no attention function and fail where they get a mask that hides nothing.
_NEED_NO_MASK = frozenset(("autoformer",))

# A model that says none of these computes attention itself, or does not tell its attention function what is causal.
_SUPPORTS = ("_supports_attention_backend", "_supports_sdpa", "_supports_flash_attn", "_supports_flex_attn")
_own_attention: Dict[type, bool] = {}


@torch.compiler.assume_constant_result
def _has_own_attention(kind: type) -> bool:
    """Whether a model with this configuration needs the masks that "eager" gets: transformers lets any model choose a
    registered attention function, also those that never call it."""
    if kind not in _own_attention:
        names = kind.__module__, kind.__module__.rpartition(".")[0] + ".modeling_"
        found = [model for name, module in tuple(sys.modules.items()) if name.startswith(names)
                 for model in tuple(getattr(module, "__dict__", {}).values())
                 if isinstance(model, type) and issubclass(model, PreTrainedModel) and model.__module__ == name]
        models = [model for model in found if model.config_class is kind] or found
        if not models:
            return False
        _own_attention[kind] = not all(any(getattr(model, flag, False) for flag in _SUPPORTS) for model in models)
    return _own_attention[kind]


def _computes_with_masks(config) -> bool:
    return getattr(config, "model_type", None) in _COMPUTE_WITH_MASKS or _CHOOSE_KEYS in (getattr(config, "layer_types", None) or ())


class _Pattern(NamedTuple):
    causal: bool = False
    left: Optional[int] = None  # keys visible left of the diagonal
    around: Optional[int] = None  # and on both sides
    packed: Optional[Tensor] = None  # the sequence that a row belongs to


class _Unknown(Exception):
    """The mask must be made as for PyTorch's attention."""


def _pattern_of(function, found=_Pattern()) -> _Pattern:
    if function is masking_utils.causal_mask_function:
        return found._replace(causal=True)
    if function is masking_utils.bidirectional_mask_function:
        return found
    maker = getattr(function, "__qualname__", "").partition(".<locals>.")[0]
    if getattr(function, "__module__", None) != masking_utils.__name__ or not getattr(function, "__closure__", None):
        raise _Unknown
    made_with = dict(zip(function.__code__.co_freevars, (cell.cell_contents for cell in function.__closure__)))
    if maker == "and_masks":
        for each in made_with["mask_functions"]:
            found = _pattern_of(each, found)
        return found
    if maker == "sliding_window_overlay" and found.left is None:
        return found._replace(left=made_with["sliding_window"] - 1)
    if maker == "sliding_window_bidirectional_overlay" and found.around is None:
        return found._replace(around=made_with["sliding_window"])
    if maker == "packed_sequence_mask_function" and found.packed is None:
        return found._replace(packed=made_with["packed_sequence_mask"])
    if maker == "remap_positions_for_packed_sequence" and found.packed is not None:
        # Positions instead of indices. They count up by one within a sequence, so distances between its rows and keys are the same.
        found = _pattern_of(made_with["mask_function"], found)
        if found.causal:
            return found
    raise _Unknown


class _Padding(NamedTuple):
    """The keys that padding leaves in each batch entry: first .. end - 1."""

    first: Tensor
    end: Tensor
    on_left: bool
    on_right: bool  # some end is not where the rows end


def _read_padding(seen: Tensor, position: Union[int, Tensor]) -> _Padding:
    """The padding of a boolean (batch, keys) mask; reads the GPU's memory once, as transformers itself does."""
    keys, count = seen.shape[1], seen.sum(-1)
    numbers = seen.to(torch.int32)
    first = numbers.argmax(-1)
    end = torch.where(count > 0, keys - numbers.flip(-1).argmax(-1), 0)
    whole, on_left, on_right = torch.stack((
        (end - first == count).all(), (first > 0).any(), (end != position).any())).tolist()
    if not whole:
        raise _Unknown
    return _Padding(first, end, on_left, on_right)


def _seen_keys(attention_mask: Tensor, kv_length: int, kv_offset: int) -> Tensor:
    """The padding mask at the existing keys; keys past its end are hidden."""
    lacking = kv_length + kv_offset - attention_mask.shape[-1]
    if lacking > 0:
        attention_mask = torch.nn.functional.pad(attention_mask, (0, lacking))
    return attention_mask[:, kv_offset:kv_offset + kv_length].to(torch.bool)


def _packed_mask(pattern: _Pattern, window: Optional[int]) -> Tensor:
    sequence = pattern.packed.flatten()
    changes = torch.diff(sequence) != 0
    rows = pattern.packed.shape[-1]
    changes[rows - 1::rows] = True  # a sequence ends with its batch entry
    ends = torch.cat((changes.nonzero().flatten() + 1, sequence.new_tensor([sequence.numel()])))
    starts = torch.nn.functional.pad(ends, (1, 0))
    if starts.numel() < 3:
        raise _Unknown
    return encode_packed(starts, int(torch.diff(starts).max()), "top-left" if pattern.causal else None, window)


def _numbers(batch_size, q_length, kv_length, q_offset=0, kv_offset=0, mask_function=masking_utils.causal_mask_function,
             attention_mask=None, allow_is_causal_skip=True, allow_is_bidirectional_skip=False, device="cpu",
             **others) -> Optional[Tensor]:
    """The mask; None if the attention function needs none."""
    pattern = _pattern_of(mask_function)
    window = pattern.left if pattern.causal else pattern.around
    if others.get("use_vmap") or (pattern.around if pattern.causal else pattern.left) is not None:
        raise _Unknown
    if window is not None and window >= kv_length - 1:
        window = None
    static, computes = isinstance(q_offset, Tensor), _computes_with_masks(others.get("config"))
    if pattern.packed is not None:
        if computes or attention_mask is not None or static or q_offset != 0 or q_length != kv_length:
            raise _Unknown
        return _packed_mask(pattern, window)
    if pattern.causal:
        # While a static cache decodes, transformers does not omit the mask either: its shape must stay constant.
        decodes = not computes and not allow_is_causal_skip and q_length == 1 and (static or others.get("local_size") is not None)
        if not (allow_is_causal_skip or decodes):
            raise _Unknown
        position = q_offset - kv_offset + q_length  # past the last row's own key
    else:
        if not allow_is_bidirectional_skip or (window is not None and (static or q_offset != 0 or kv_offset != 0)):
            raise _Unknown
        decodes, position = False, kv_length
    padding = None
    if attention_mask is not None:
        padding = _read_padding(_seen_keys(attention_mask, kv_length, kv_offset), position)
        if padding.on_right and pattern.causal and not bool(q_offset == kv_offset):
            raise _Unknown  # a diagonal that matches neither the used keys nor the first row
        if not padding.on_left and not padding.on_right and not decodes:
            padding = None
    if padding is not None:
        first = padding.first
        end = padding.end if padding.on_right else torch.full_like(padding.end, 0) + position
        causal = None if not pattern.causal else "top-left" if padding.on_right else "bottom-right"
        return encode(first, end, causal, window)
    if window is None and not static and not decodes:
        if not pattern.causal or position == (kv_length if q_length == 1 else q_length):
            return None
    first = torch.zeros(batch_size, dtype=torch.int32, device=device)
    return encode(first, first + position, "bottom-right" if pattern.causal else None, window)


def _shared_mask(batch_size, q_length, kv_length, q_offset=0, mask_function=masking_utils.causal_mask_function, attention_mask=None,
                 device="cpu", **others) -> Tensor:
    """The mask for attention over a group, whose rows and keys are a shard of the whole."""
    config = others.get("config")
    model = getattr(config, "model_type", None)
    try:
        pattern = _pattern_of(mask_function)
    except _Unknown:
        pattern = None
    own = model in _USE_ELSEWHERE | _ADD_TO_MASKS | _DROP_ROWS or _computes_with_masks(config) or \
        (config is not None and _has_own_attention(type(config)))
    if pattern is None or own or q_length != kv_length or isinstance(q_offset, Tensor) or q_offset != 0 or \
            (pattern.around if pattern.causal else pattern.left) is not None:
        raise UnsupportedError("a mask other than causal, a sliding window or none within attest.torch.parallel.enable(), "
                               f"{'or a cache' if model is None else f'of the model {model}'}; expected none")
    window = pattern.left if pattern.causal else pattern.around
    return sharings[-1].mask(config, pattern.causal, window, pattern.packed, attention_mask, batch_size, device)


def span_mask(*arguments, **named) -> Optional[Tensor]:
    """A mask for attn_implementation="attest": as numbers if possible, otherwise as for PyTorch's attention, or
    for "eager" if the model computes with it."""
    if sharings:
        return _shared_mask(*arguments, **named)
    config = named.get("config")
    model = getattr(config, "model_type", None)
    if model in _ADD_TO_MASKS or (config is not None and _has_own_attention(type(config))):
        # without a mask, the attention function would ask the model what is causal
        skip = {} if model in _NEED_NO_MASK else {"allow_is_bidirectional_skip": False}
        return masking_utils.eager_mask(*arguments, **{**named, **skip})
    if model in _DROP_ROWS | _NOT_TOLD_CAUSAL and named.get("q_length") != 1:
        return masking_utils.sdpa_mask(*arguments, **{**named, "allow_is_causal_skip": False})
    if not arguments and "q_length" in named and not is_watched() and model not in _USE_ELSEWHERE:
        try:
            return _numbers(**named)
        except _Unknown:
            pass
    return masking_utils.sdpa_mask(*arguments, **named)
