"""_torch_quick.py: the common case of scaled_dot_product_attention, with and without gradients, in few steps.

Plain tensors of four axes, no mask, nothing that intercepts calls. The extension decides what is common (core/sdpa.c).
"""

from __future__ import annotations

from typing import Optional

import torch
from torch import Tensor

from ._core import sdpa, sdpa_backward, sdpa_setup
from ._torch_attention import gradients_by_operator
from ._torch_backward import Extras, Options, scale_of

_any_autocast = getattr(torch._C, "_is_any_autocast_enabled", lambda: True)  # True: check more closely
is_compiling = torch.compiler.is_dynamo_compiling  # other tracers have their own mode or tensors, which sdpa() sees
_is_grad_enabled, _transform = torch.is_grad_enabled, torch._C._functorch.peek_interpreter_stack
# Transforms of torch.func need no check: their tensors have no memory that sdpa() could read.
sdpa_setup(Tensor, (torch._C._len_torch_dispatch_stack, torch._C._is_tracing, _any_autocast))


class _NotCommon(Exception):
    """The call must take the general path."""


class _Recorded(torch.autograd.Function):
    """(query, key, value, is_causal, scale, enable_gqa) to O."""

    @staticmethod
    def forward(ctx, query, key, value, is_causal, scale, enable_gqa):
        answer = sdpa(query, key, value, is_causal, scale, enable_gqa, True)
        if answer is None:
            raise _NotCommon
        ctx.save_for_backward(query, key, value, *answer)
        ctx.is_causal, ctx.scale = is_causal, scale
        return answer[0]

    @staticmethod
    def backward(ctx, d_o):
        tensors = ctx.saved_tensors
        # With its own graph there would be a second derivative, which the operator refuses.
        grads = None if _is_grad_enabled() else sdpa_backward(*tensors, d_o, ctx.is_causal, ctx.scale)
        if grads is None:
            q, k, v, o, lse = tensors
            options = Options(causal="top-left" if ctx.is_causal else None, scale=scale_of(ctx.scale, q))
            grads = gradients_by_operator(d_o, o, lse, q, k, v, Extras(), options)
        return (*grads, None, None, None)


def quick(query, key, value, is_causal, scale, enable_gqa) -> Optional[Tensor]:
    """O, or None if this is not the common case. attest.Error if the machine refuses."""
    if not _is_grad_enabled() or type(query) is not Tensor or type(key) is not Tensor or type(value) is not Tensor or \
            not (query.requires_grad or key.requires_grad or value.requires_grad):
        return sdpa(query, key, value, is_causal, scale, enable_gqa, False)
    if _transform() is not None:
        return None
    try:
        return _Recorded.apply(query, key, value, is_causal, scale, enable_gqa)
    except _NotCommon:
        return None
