"""_torch_operator.py: torch.ops.attest.sdpa, the operator of scaled_dot_product_attention, with a fake kernel and
gradients."""

from __future__ import annotations

from typing import Optional, Tuple

import torch
from torch import Tensor

from ._torch_attention import forward, gradients_of, keep
from ._torch_backward import Extras, Options, attention_backward
from ._torch_layout import strides_like
from ._torch_report import count_served


def extras_of(mask: Optional[Tensor], sinks: Optional[Tensor]) -> Extras:
    return Extras(bias=mask, sinks=sinks)


def options_of(is_causal: bool, scale: float, softcap: float = 0.0) -> Options:
    return Options(causal="top-left" if is_causal else None, scale=scale, softcap=softcap)


@torch.library.custom_op("attest::sdpa", mutates_args=())
def sdpa(q: Tensor, k: Tensor, v: Tensor, mask: Optional[Tensor], is_causal: bool, scale: float, softcap: float = 0.0,
         sinks: Optional[Tensor] = None) -> Tuple[Tensor, Tensor]:
    """(O, log-sum-exp) of 4-dimensional q, k and v; sinks are float32, one per head."""
    count_served(q, k, mask, is_causal)
    with torch.no_grad():
        return forward(q, k, v, extras_of(mask, sinks), options_of(is_causal, scale, softcap))


@sdpa.register_fake
def _(q, k, v, mask, is_causal, scale, softcap=0.0, sinks=None):
    batch, heads, rows, _ = q.shape
    sizes = (batch, heads, rows, v.shape[-1])
    return q.new_empty_strided(sizes, strides_like(q, sizes)), q.new_empty((batch, heads, rows), dtype=torch.float32)


def _keep(ctx, inputs, output):
    q, k, v, mask, is_causal, scale, softcap, sinks = inputs
    keep(ctx, (q, k, v, *extras_of(mask, sinks), *options_of(is_causal, scale, softcap)), output)


def _backward(ctx, grad_o, grad_lse):
    needs = (*ctx.needs_input_grad, False, False)  # arguments at their default are not listed
    of_q, of_k, of_v, _, of_mask, of_sinks = gradients_of(ctx, grad_o, grad_lse, attention_backward,
                                                          (*needs[:3], False, needs[3], needs[7]))
    return of_q, of_k, of_v, of_mask, None, None, None, of_sinks


sdpa.register_autograd(_backward, setup_context=_keep)
