"""_torch_quick.py: the common case of scaled_dot_product_attention and attention(), with and without gradients, in few
steps.

Plain tensors of four axes, no other tensors, nothing that intercepts calls. The extension decides what is common
(core/sdpa.c). Eager training of small problems is limited by the time that a step takes on the CPU, most of which is
autograd's own; so this path calls no more Python than it must.
"""

from __future__ import annotations

from typing import Any, Optional, Tuple

import torch
from torch import Tensor

from ._core import sdpa, sdpa_backward, sdpa_setup
from ._torch_backward import Extras, Options, attention_backward, scale_of

_any_autocast = getattr(torch._C, "_is_any_autocast_enabled", lambda: True)  # True: check more closely
is_compiling = torch.compiler.is_dynamo_compiling  # other tracers have their own mode or tensors, which sdpa() sees
_is_grad_enabled, _transform = torch.is_grad_enabled, torch._C._functorch.peek_interpreter_stack
_is_tracing = torch._C._is_tracing
# Transforms of torch.func need no check: their tensors have no memory that sdpa() could read.
sdpa_setup(Tensor, (torch._C._len_torch_dispatch_stack, _is_tracing, _any_autocast))

_ABSENT = (None,) * 6


class _NotCommon(Exception):
    """The call must take the general path."""


class _Recorded(torch.autograd.Function):
    """(query, key, value, options, enable_gqa) to O; the options are those of quick_attention()."""

    @staticmethod
    def forward(ctx, query, key, value, options, enable_gqa):
        answer = sdpa(query, key, value, options, enable_gqa, True)
        if answer is None:
            raise _NotCommon
        ctx.save_for_backward(query, key, value, *answer)
        ctx.options = options
        return answer[0]

    @staticmethod
    def backward(ctx, d_o):
        tensors = ctx.saved_tensors
        # With its own graph there would be a second derivative, which the operator refuses.
        grads = None if _is_grad_enabled() else sdpa_backward(*tensors, d_o, ctx.options)
        if grads is None:
            grads = _by_operator(*tensors, d_o, ctx.options)
        return (*grads, None, None)


# Function.apply() prepares for torch.func, whose transforms do not come here: this is the rest of it.
_record = super(torch.autograd.Function, _Recorded).apply


def _by_operator(q, k, v, o, lse, d_o, options):
    causal, scale, window, align, softcap, layout = (*options, *_ABSENT[len(options):])
    left, right = (-1 if side is None else side for side in window or (None, None))
    general = Options("top-left" if causal is True else causal or None, scale_of(scale, q), left, right, align, softcap or 0.0,
                      layout=layout or "bhsd")
    return attention_backward(d_o, o, lse, None, False, False, False, q, k, v, *Extras(), *general)[:3]


def quick_attention(q, k, v, options: Tuple[Any, ...], enable_gqa: bool = True) -> Optional[Tensor]:
    """O, or None if this is not the common case. attest.Error if the machine refuses.

    `options` are (causal, scale, window, align, softcap, layout) as attest.attention() has them, None for those that
    are not given; the tuple may end early.
    """
    if not _is_grad_enabled() or type(q) is not Tensor or type(k) is not Tensor or type(v) is not Tensor or \
            not (q.requires_grad or k.requires_grad or v.requires_grad):
        return sdpa(q, k, v, options, enable_gqa, False)
    if _transform() is not None or _is_tracing():  # torch.jit.trace would record the Function before it declines
        return None
    if q.is_cuda and q.dtype == torch.float32:  # without gradients, which the general path says
        return None
    try:
        return _record(q, k, v, options, enable_gqa)
    except _NotCommon:
        return None


def quick(query, key, value, is_causal, scale, enable_gqa) -> Optional[Tensor]:
    """quick_attention() with the arguments of scaled_dot_product_attention()."""
    if is_causal is True:
        return quick_attention(query, key, value, ("top-left", scale), enable_gqa)
    return quick_attention(query, key, value, (None, scale), enable_gqa) if is_causal is False else None
