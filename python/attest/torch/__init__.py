"""attest.torch: PyTorch's scaled_dot_product_attention, computed by attest.

    import attest.torch
    o = attest.torch.scaled_dot_product_attention(q, k, v, is_causal=True)

    with attest.torch.enable() as report:       # every torch.nn.functional.scaled_dot_product_attention
        model(x)
    print(report)                               # which calls attest computed, which it passed on, and why

    o = attest.torch.attention(q, k, v, softcap=30.0, sinks=sinks)      # every feature of attest.attention()

The operators are torch.ops.attest.sdpa and torch.ops.attest.attention. They have fake kernels, so
torch.compile(fullgraph=True) works, and gradients from attest's own kernels, with the same bits from run to run.
"""

from __future__ import annotations

import math
from typing import Optional, Tuple

import torch
from torch import Tensor
from torch.autograd import forward_ad
from torch.nn.attention.bias import CausalBias, CausalVariant

from .. import Error, UnsupportedError
from .. import _torch_formula as formula
from .. import _torch_spans as _spans
from .._torch_attention import (Recorded, Transformed, attention, forward, gradient_reason, is_plain, is_transformed,
                                needs_gradient)
from .._torch_layout import DTYPES as _DTYPES
from .._torch_layout import autocast as _autocast
from .._torch_merge import merge
from .._torch_moe import moe
from .._torch_operator import extras_of, options_of, sdpa
from .._torch_quick import is_compiling as _is_compiling
from .._torch_quick import quick as _quick
from .._torch_report import Call, Report, count, count_served, original, put, reports
from .._torch_serving import sharings

__all__ = ["Call", "Report", "attention", "disable", "enable", "merge", "moe", "register_transformers",
           "scaled_dot_product_attention", "why_not"]


# ------------------------------------------------------------------------------------------------- the drop-in


def why_not(query: Tensor, key: Tensor, value: Tensor, attn_mask: Optional[Tensor] = None, dropout_p: float = 0.0,
            is_causal: bool = False, scale: Optional[float] = None, enable_gqa: bool = False) -> Optional[str]:
    """Why attest does not support this call, or None if it does. Calls that PyTorch refuses too are not considered:
    scaled_dot_product_attention() raises what PyTorch would."""
    if attn_mask is not None and is_causal:
        return _BOTH
    attn_mask, is_causal = _plain_mask(attn_mask, is_causal, query)
    query, key, value, attn_mask = _autocast(query, key, value, attn_mask)
    return _reason(query, key, value, attn_mask, dropout_p, is_causal, scale, enable_gqa)


_BOTH = "attn_mask and is_causal are both set, which PyTorch documents as an error"


def _reason(query, key, value, attn_mask, dropout_p, is_causal, scale, enable_gqa, sinks=None) -> Optional[str]:
    """why_not(), for tensors after torch.autocast."""
    own = next((type(x) for x in (query, key, value, attn_mask, sinks) if _has_own_way(x)), None)
    if own:
        return f"{own.__name__} has a way of its own with PyTorch's functions"
    if query.is_nested or key.is_nested or value.is_nested:
        return "query, key or value is a nested tensor"
    if not torch.compiler.is_compiling() and _is_forward_mode(query, key, value, attn_mask):
        return "attest has no forward-mode derivative"
    if dropout_p != 0.0:
        return f"dropout_p={dropout_p}: attest has no dropout"
    if attn_mask is not None and is_causal:
        return _BOTH
    if isinstance(scale, float) and not torch.compiler.is_compiling() and not math.isfinite(scale):
        return f"scale={scale}: attest computes with a finite one"
    if query.dtype not in _DTYPES:
        return f"query is {query.dtype}: attest computes with float32, float16 and bfloat16"
    device = query.device.type
    if device == "cuda" and torch.version.hip:
        return "this PyTorch is for AMD's GPUs"
    if device != "cpu" and device != "cuda":
        return f"query is on {query.device}: attest computes on cpu and cuda"
    if query.layout is not torch.strided or key.layout is not torch.strided or value.layout is not torch.strided:
        return "query, key or value is a sparse tensor"
    if not 1 <= query.shape[-1] <= 256 or not 1 <= value.shape[-1] <= 256:
        return f"a head dimension of {query.shape[-1]} and {value.shape[-1]} is not in 1 to 256"
    if query.dim() > 2 and 0 in (query.shape[-3], key.shape[-3] if key.dim() > 2 else 1):
        return "there are no heads"
    if enable_gqa and key.dim() > 2 and value.dim() > 2 and key.shape[-3] != value.shape[-3]:
        return f"key has {key.shape[-3]} heads and value {value.shape[-3]}"
    return gradient_reason(query, key, value, attn_mask, sinks)


def _has_own_way(x) -> bool:
    """Whether a tensor's type intercepts functions. Modes do not matter here: they see what attest calls."""
    kind = type(x)
    return kind is not Tensor and kind is not torch.nn.Parameter and isinstance(x, Tensor) and \
        kind.__torch_function__ is not torch._C._disabled_torch_function_impl


def _is_forward_mode(*tensors) -> bool:
    stack = torch._C._functorch.get_interpreter_stack() or ()
    if any(each.key() == torch._C._functorch.TransformType.Jvp for each in stack):
        return True
    return forward_ad._current_level >= 0 and any(
        x is not None and forward_ad.unpack_dual(x).tangent is not None for x in tensors)


def _plain_mask(mask: Optional[Tensor], is_causal: bool, query: Tensor) -> Tuple[Optional[Tensor], bool]:
    """PyTorch's causal_upper_left() and causal_lower_right() as plain arguments."""
    if not isinstance(mask, CausalBias):
        return mask, is_causal
    if is_causal:
        raise ValueError("CausalBias should not be used with causal=True")  # PyTorch's text
    if mask.variant == CausalVariant.UPPER_LEFT or mask.seq_len_q == mask.seq_len_kv:
        return None, True
    return mask._materialize(query.device), is_causal


def _wrong_type(query, key, value, attn_mask, is_causal, enable_gqa) -> Optional[str]:
    """Whether an argument has a type that PyTorch's function does not accept."""
    for name, x in (("query", query), ("key", key), ("value", value), ("attn_mask", attn_mask)):
        if not isinstance(x, Tensor) and not (x is None and name == "attn_mask"):
            return f"{name} is a {type(x).__name__}; expected a torch.Tensor"
    for name, flag in (("is_causal", is_causal), ("enable_gqa", enable_gqa)):
        if not isinstance(flag, bool):
            return f"{name} is {flag!r}; expected True or False"
    return None


def _validate(query, key, value, attn_mask):
    """Refuse what PyTorch refuses, with the same type of exception."""
    if not query.dtype == key.dtype == value.dtype:
        raise RuntimeError(f"query, key and value must have one dtype, not {query.dtype}, {key.dtype} and {value.dtype}")
    if not query.device == key.device == value.device:
        raise RuntimeError("query, key and value must be on one device, "
                           f"not {query.device}, {key.device} and {value.device}")
    if min(query.dim(), key.dim(), value.dim()) < 2:
        raise RuntimeError("query, key and value must have two dimensions or more, "
                           f"not {query.dim()}, {key.dim()} and {value.dim()}")
    if attn_mask is not None:
        if attn_mask.dtype not in (torch.bool, torch.float32, query.dtype):
            raise RuntimeError(f"attn_mask is {attn_mask.dtype}; expected bool, float32 or {query.dtype}")
        if attn_mask.device != query.device:
            raise RuntimeError(f"attn_mask is on {attn_mask.device}, query on {query.device}")


def _mismatch(query, key, value):
    return RuntimeError(f"query {tuple(query.shape)}, key {tuple(key.shape)} and value {tuple(value.shape)} "
                        "do not fit each other")


def _check_mask(mask, sizes):
    if mask.dim() > 4 or any(own != 1 and own != size for own, size in zip(reversed(mask.shape), reversed(sizes))):
        raise RuntimeError(f"attn_mask {tuple(mask.shape)} does not broadcast to the scores, {sizes}")


def _four(query, key, value, mask, enable_gqa):
    """q, k and v with four dimensions, a mask that broadcasts to their scores, and the shape of O's leading axes."""
    tensors = [x[None] if x.dim() == 2 else x for x in (query, key, value)]
    heads_q, heads_k, heads_v = (x.shape[-3] for x in tensors)
    try:
        leads = torch.broadcast_shapes(*(x.shape[:-3] for x in tensors))
        heads = heads_q if enable_gqa else torch.broadcast_shapes((heads_q,), (heads_k,), (heads_v,))[0]
    except RuntimeError:
        raise _mismatch(query, key, value) from None
    own = (heads_q, heads_k, heads_v) if enable_gqa else (heads, heads, heads)
    q, k, v = (x.expand(*leads, h, *x.shape[-2:]).reshape(-1, h, *x.shape[-2:]) for x, h in zip(tensors, own))
    if mask is not None and len(leads) != 1:
        mask = mask.expand(*leads, heads, q.shape[-2], k.shape[-2]).reshape(-1, heads, q.shape[-2], k.shape[-2])
    two = query.dim() == key.dim() == value.dim() == 2
    return q, k, v, mask, () if two else (*leads, heads)


def _serve(query, key, value, attn_mask, is_causal, scale, enable_gqa, softcap=0.0, sinks=None):
    _validate(query, key, value, attn_mask)
    q, k, v, mask, leads = query, key, value, attn_mask, None
    simple = query.dim() == key.dim() == value.dim() == 4 and query.shape[0] == key.shape[0] == value.shape[0]
    if not simple or (not enable_gqa and not query.shape[1] == key.shape[1] == value.shape[1]):
        q, k, v, mask, leads = _four(query, key, value, attn_mask, enable_gqa)
    if q.shape[-1] != k.shape[-1] or k.shape[-2] != v.shape[-2] or q.shape[1] % k.shape[1]:
        raise _mismatch(query, key, value)
    if mask is not None and not torch.compiler.is_compiling():
        _check_mask(mask, (*q.shape[:3], k.shape[2]))
    if scale is None:
        scale = 1.0 / math.sqrt(q.shape[-1])
    if not torch.compiler.is_compiling() and is_transformed():
        count_served(q, k, mask, is_causal)
        o = Transformed.apply(q, k, v, *extras_of(mask, sinks), *options_of(is_causal, scale, softcap))[0]
    elif not is_plain(q, k, v, mask, sinks):
        o = sdpa(q, k, v, mask, is_causal, scale, softcap, sinks)[0]
    else:
        count_served(q, k, mask, is_causal)
        extras, options = extras_of(mask, sinks), options_of(is_causal, scale, softcap)
        if needs_gradient(q, k, v, mask, sinks):
            o = Recorded.apply(q, k, v, *extras[:3], extras[3:], options, False, False)
        else:
            o = forward(q, k, v, extras, options, return_lse=False)
    return o if leads is None else o.reshape(*leads, *o.shape[-2:])


def scaled_dot_product_attention(query: Tensor, key: Tensor, value: Tensor, attn_mask: Optional[Tensor] = None,
                                 dropout_p: float = 0.0, is_causal: bool = False, *, scale: Optional[float] = None,
                                 enable_gqa: bool = False) -> Tensor:
    """torch.nn.functional.scaled_dot_product_attention, computed by attest or not at all.

    The arguments have the same meaning as there: is_causal is aligned top-left, a boolean mask keeps where it is True,
    a float mask is added, masks broadcast. Raises attest.UnsupportedError if attest does not support the call
    (why_not() says why beforehand) and RuntimeError where PyTorch would.
    """
    if attn_mask is None and dropout_p == 0.0 and not _is_compiling():
        o = _quick(query, key, value, is_causal, scale, enable_gqa)
        if o is not None:
            count_served(query, key, None, is_causal)
            return o
    mistake = _wrong_type(query, key, value, attn_mask, is_causal, enable_gqa)
    if mistake:
        raise TypeError(mistake)
    attn_mask, is_causal = _plain_mask(attn_mask, is_causal, query)
    query, key, value, attn_mask = _autocast(query, key, value, attn_mask)
    reason = _reason(query, key, value, attn_mask, dropout_p, is_causal, scale, enable_gqa)
    if reason:
        raise UnsupportedError(reason)
    return _serve(query, key, value, attn_mask, is_causal, scale, enable_gqa)


# ------------------------------------------------------------------------------------------------- in its place


_flash, _efficient, _math = (getattr(torch._C, f"_get_{name}_sdp_enabled") for name in ("flash", "mem_efficient", "math"))


@torch.compiler.assume_constant_result  # during compilation, like PyTorch's own choice of a backend
def _some_forbidden() -> bool:
    """Whether sdpa_kernel() or torch.backends.cuda forbids one of the backends that PyTorch has everywhere."""
    return not (_flash() and _efficient() and _math())


_FORBIDDEN = "sdpa_kernel() or torch.backends.cuda forbids some of PyTorch's backends, so the choice is PyTorch's"


def _patched(query, key, value, attn_mask=None, dropout_p=0.0, is_causal=False, *, scale=None, enable_gqa=False):
    if sharings:  # attest.torch.parallel.enable() is open too: rows of this rank alone would be wrong
        from .parallel.context import _sdpa

        return _sdpa(query, key, value, attn_mask, dropout_p, is_causal, scale=scale, enable_gqa=enable_gqa)
    if attn_mask is None and dropout_p == 0.0 and not _is_compiling() and _flash() and _efficient() and _math():
        try:
            o = _quick(query, key, value, is_causal, scale, enable_gqa)
        except Error:  # the reason is found and counted below
            o = None
        if o is not None:
            count_served(query, key, None, is_causal)
            return o
    named = {"dropout_p": dropout_p, "scale": scale, "enable_gqa": enable_gqa}
    if _wrong_type(query, key, value, attn_mask, is_causal, enable_gqa):  # a tracer's proxy, or PyTorch says it
        return original(query, key, value, attn_mask=attn_mask, is_causal=is_causal, **named)
    attn_mask, is_causal = _plain_mask(attn_mask, is_causal, query)
    o = _attempt(query, key, value, attn_mask, is_causal=is_causal, **named, forbidden=_some_forbidden())
    if o is not None:
        return o
    return original(query, key, value, attn_mask=attn_mask, is_causal=is_causal, **named)


def _attempt(query, key, value, attn_mask, dropout_p, is_causal, scale, enable_gqa, softcap=0.0, sinks=None,
             forbidden=False) -> Optional[Tensor]:
    """O, or None if attest does not support the call, which is then counted with the reason."""
    cast = _autocast(query, key, value, attn_mask)
    reason = _FORBIDDEN if forbidden else _reason(*cast, dropout_p, is_causal, scale, enable_gqa, sinks)
    if torch.compiler.is_compiling():
        return None if reason else _serve(*cast, is_causal, scale, enable_gqa, softcap, sinks)
    if reason is None:
        try:
            return _serve(*cast, is_causal, scale, enable_gqa, softcap, sinks)
        except Error as refused:
            reason = str(refused)
    count(query, key, attn_mask, is_causal, reason)
    return None


def _with_scores_changed(query, key, value, attn_mask, dropout_p, is_causal, scale, softcap, sinks) -> Tensor:
    """Attention with a softcap or sinks, which PyTorch's function does not have: what attest does not support is
    computed with PyTorch's operators."""
    o = _attempt(query, key, value, attn_mask, dropout_p, is_causal, scale, True, softcap or 0.0,
                 None if sinks is None else sinks.float())
    if o is not None:
        return o
    if scale is None:
        scale = 1.0 / math.sqrt(query.shape[-1])
    cast = _autocast(query, key, value, attn_mask)
    return formula.attention(*cast, dropout_p, is_causal, scale, softcap, sinks)


def _with_spans(query, key, value, spans, dropout_p, scale, softcap, sinks) -> Tensor:
    """Attention whose mask is the numbers of _torch_spans.py; if attest does not support it, PyTorch gets the
    equivalent mask."""
    q, k, v = _autocast(query, key, value)
    reason = _reason(q, k, v, None, dropout_p, False, scale, True, sinks)
    if reason is None and (torch.compiler.is_compiling() or not is_transformed()):
        step = scale if scale is not None else 1.0 / math.sqrt(q.shape[-1])
        arguments = (q, k, v, spans, step, softcap or 0.0, None if sinks is None else sinks.float())
        try:
            if not is_plain(q, k, v, spans, arguments[-1]):
                return _spans.spans(*arguments)[0]
            o = _spans.compute(*arguments)
            count_served(q, k, spans, _spans.decode(spans).causal is not None)
            return o
        except Error:  # the reason is found and counted below
            pass
    mask = _spans.as_boolean(spans, query.shape[0], query.shape[2], key.shape[2])
    if softcap is not None or sinks is not None:
        return _with_scores_changed(query, key, value, mask, dropout_p, False, scale, softcap, sinks)
    return _patched(query, key, value, attn_mask=mask, dropout_p=dropout_p, scale=scale,
                    enable_gqa=query.shape[1] != key.shape[1])


def _tell_script() -> None:
    """Make torch.jit.script use PyTorch's operator for the replacement function."""
    from torch.jit import _builtins

    _builtins._register_builtin(_patched, "aten::scaled_dot_product_attention")


def enable() -> Report:
    """Replace torch.nn.functional.scaled_dot_product_attention with attest until the report is closed.

    Calls that attest does not support go to PyTorch as before, and so do all calls while sdpa_kernel() forbids
    PyTorch's flash, memory-efficient or math backend. Names imported from torch.nn.functional earlier keep PyTorch's
    function, and torch.jit.script compiles PyTorch's.
    """
    _tell_script()
    return put(_patched)


def disable() -> None:
    """Undo every enable()."""
    for report in tuple(reports):
        report.close()


def register_transformers(name: str = "attest") -> None:
    """Register attn_implementation=`name` and experts_implementation=`name` with Hugging Face transformers. See
    attest._transformers and attest._transformers_experts."""
    from .. import _transformers, _transformers_experts

    _transformers.register(name)
    _transformers_experts.register(name)
