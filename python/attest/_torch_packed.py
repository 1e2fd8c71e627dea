"""_torch_packed.py: attention of q, k and v that are parts of one tensor, whose gradient is one tensor too.

With views, autograd would stack the gradients of the parts, which copies them.
"""

from __future__ import annotations

from typing import Any, Callable, NamedTuple, Tuple

import torch
from torch import Tensor

from ._core import backward as _core_backward
from ._torch_attention import are_plain_gradients, forward, is_plain, is_transformed, needs_gradient, refuse_gradient, serve
from ._torch_backward import Extras, Options, arguments_of, attention_backward, is_packed
from ._torch_layout import is_aligned, plain_rows


class Packing(NamedTuple):
    parts: Callable[..., Tuple[Tensor, Tensor, Tensor]]  #: q, k and v from the tensors
    join: Callable[[Tensor, Tensor, Tensor], Tuple[Tensor, ...]]  #: and back


def _parts_of_qkv(qkv: Tensor) -> Tuple[Tensor, Tensor, Tensor]:
    _check(qkv, "qkv", 3)
    return qkv.unbind(-3)


def _parts_of_kv(q: Tensor, kv: Tensor) -> Tuple[Tensor, Tensor, Tensor]:
    _check(kv, "kv", 2)
    return (q, *kv.unbind(-3))


def _check(packed: Tensor, name: str, count: int) -> None:
    if packed.dim() not in (4, 5) or packed.shape[-3] != count:
        raise ValueError(f"{name} has the shape {tuple(packed.shape)}; expected (batch, rows, {count}, heads, d) or, for packed sequences, "
                         f"(all rows, {count}, heads, d)")


PACKED_QKV = Packing(_parts_of_qkv, lambda q, k, v: (torch.stack((q, k, v), -3),))
PACKED_KV = Packing(_parts_of_kv, lambda q, k, v: (q, torch.stack((k, v), -3)))


class _RecordedPacked(torch.autograd.Function):
    """(packing, extras, options, return_lse, the tensors) to (O, log-sum-exp), or to O, for plain tensors with no
    interception."""

    @staticmethod
    def forward(ctx, packing, extras, options, return_lse, *tensors):
        output = forward(*packing.parts(*tensors), extras, options, zeroed=is_packed(extras))
        ctx.packing, ctx.options = packing, options
        ctx.set_materialize_grads(False)
        ctx.save_for_backward(*extras, *tensors, *output)
        return output if return_lse else output[0]

    @staticmethod
    def backward(ctx, grad_o, grad_lse=None):
        *tensors, o, lse = ctx.saved_tensors
        extras, tensors = Extras(*tensors[:len(Extras._fields)]), tensors[len(Extras._fields):]
        if grad_o is None and grad_lse is None:
            return (None,) * (4 + len(tensors))
        if grad_lse is None and not torch.is_grad_enabled() and are_plain_gradients(grad_o):
            grads = [(torch.zeros_like if is_packed(extras) else torch.empty_like)(x) for x in tensors]
            _core_backward(*ctx.packing.parts(*tensors), o, lse, plain_rows(grad_o), out=ctx.packing.parts(*grads),
                           **arguments_of(extras, ctx.options))
        else:
            grad_o = torch.zeros_like(o) if grad_o is None else grad_o
            parts = attention_backward(grad_o, o, lse, grad_lse, False, False, False, *ctx.packing.parts(*tensors), *extras,
                                       *ctx.options)
            grads = ctx.packing.join(*parts[:3])
        return (None, None, None, None, *grads)


def serve_packed(packing: Packing, tensors: Tuple[Tensor, ...], extras: Extras, options: Options, return_lse: bool) -> Any:
    """(O, log-sum-exp), or O."""
    refuse_gradient(*tensors, extras.alibi)
    alone = is_plain(*tensors, *extras) and not is_transformed() and needs_gradient(*tensors)
    if alone and all(x.is_contiguous() and is_aligned(x) for x in tensors) and not needs_gradient(extras.alibi):
        return _RecordedPacked.apply(packing, extras, options, return_lse, *tensors)
    return serve(*packing.parts(*tensors), extras, options, return_lse)
