"""_torch_attention.py: attest.torch.attention(): every feature of attest.attention(), with gradients.

torch.ops.attest.attention is the operator for everything that intercepts calls: compilers, tracers, modes. If nothing
does, an autograd.Function calls the extension directly, which takes a fraction of the time.
"""

from __future__ import annotations

from typing import Any, Optional, Tuple, Union

import torch
from torch import Tensor

from . import UnsupportedError
from ._core import attention as _core_attention
from ._torch_backward import (TENSORS, Extras, Options, TransformedBackward, arguments_of, attention_backward, can_fold,
                              compute, fold, is_packed, one_by_one, scale_of)
from ._torch_layout import LAID_OUT, autocast, call_with_rows, lying_as, strides_like
from ._torch_quick import is_compiling, quick_attention

# ----------------------------------------------------------------------------------------------------- forward


def forward(q, k, v, extras, options, return_lse=True, zeroed=False):
    """(O, log-sum-exp), or O, from a kernel of attest; for calls that nothing intercepts or records. If zeroed, the rows
    of O that belong to no sequence are 0."""
    named = arguments_of(extras, options)
    named["return_lse"] = return_lse
    if zeroed and q.dim() == 3:
        named["out"] = q.new_zeros((*q.shape[:-1], v.shape[-1]))
    answer = call_with_rows(_core_attention, (q, k, v), named)
    if q.dim() == 3 or (LAID_OUT and (q.stride(-1) == 1 or q.shape[-1] == 1)):
        return answer
    return (lying_as(q, answer[0]), answer[1]) if return_lse else lying_as(q, answer)


@torch.library.custom_op("attest::attention", mutates_args=())
def operator(q: Tensor, k: Tensor, v: Tensor, alibi: Optional[Tensor], bias: Optional[Tensor], sinks: Optional[Tensor],
             cu_seqlens_q: Optional[Tensor], cu_seqlens_k: Optional[Tensor], lens_k: Optional[Tensor],
             starts_k: Optional[Tensor], page_table: Optional[Tensor], q_offsets: Optional[Tensor],
             k_offsets: Optional[Tensor], causal: Optional[str], scale: Optional[float], window_left: int, window_right: int,
             align: Optional[str], softcap: float, max_seqlen_q: Optional[int], max_seqlen_k: Optional[int], layout: str,
             q_offset: int, k_offset: int) -> Tuple[Tensor, Tensor]:
    """(O, log-sum-exp); a window of -1 means no limit."""
    extras = Extras(alibi, bias, sinks, cu_seqlens_q, cu_seqlens_k, lens_k, starts_k, page_table, q_offsets, k_offsets)
    options = Options(causal, scale, window_left, window_right, align, softcap, max_seqlen_q, max_seqlen_k, layout, q_offset,
                      k_offset)
    with torch.no_grad():
        return forward(q, k, v, extras, options, zeroed=cu_seqlens_q is not None)


@operator.register_fake
def _(q, k, v, *rest):
    layout, sizes = Options(*rest[TENSORS - 3:]).layout, (*q.shape[:-1], v.shape[-1])
    if q.dim() == 3:
        return q.new_empty(sizes), q.new_empty((q.shape[1], q.shape[0]), dtype=torch.float32)
    batch, one, other, _ = q.shape
    lse = (batch, other, one) if layout == "bshd" else (batch, one, other)
    return q.new_empty_strided(sizes, strides_like(q, sizes)), q.new_empty(lse, dtype=torch.float32)


# --------------------------------------------------------------------------------------------------- gradients


def keep(ctx, inputs, output):
    """Save what a backward pass of (q, k, v, *extras, *options) needs."""
    tensors, ctx.options = inputs[:TENSORS], Options(*inputs[TENSORS:])
    ctx.set_materialize_grads(False)
    ctx.save_for_backward(*tensors, *output)


def gradients_of(ctx, grad_o, grad_lse, by, needs=None):
    """The gradients of (q, k, v, alibi, bias, sinks), computed by an operator or a function with its arguments."""
    *tensors, o, lse = ctx.saved_tensors
    needs = tuple(ctx.needs_input_grad[:6]) if needs is None else needs
    if not any(needs) or (grad_o is None and grad_lse is None):
        return (None,) * 6
    grad_o = torch.zeros_like(o) if grad_o is None else grad_o
    of_alibi, of_bias, of_sinks = needs[3:]
    grads = by(grad_o, o, lse, grad_lse, of_bias, of_sinks, of_alibi, *tensors, *ctx.options)
    in_order = (*grads[:3], grads[5], grads[3], grads[4])
    return tuple(grad if need else None for grad, need in zip(in_order, needs))


def _backward(ctx, grad_o, grad_lse):
    grads = gradients_of(ctx, grad_o, grad_lse, attention_backward)
    return (*grads, *(None,) * (TENSORS - 6 + len(Options._fields)))


operator.register_autograd(_backward, setup_context=keep)


def is_watched() -> bool:
    """Whether a compiler, a tracer or a mode intercepts calls."""
    return torch.compiler.is_compiling() or torch._C._len_torch_dispatch_stack() > 0 or torch._C._is_tracing()


def is_plain(*tensors) -> bool:
    """Whether the tensors are plain memory and nothing intercepts calls."""
    if is_watched():
        return False
    for x in tensors:
        if x is not None and type(x) is not Tensor and type(x) is not torch.nn.Parameter:
            return False
    return True


_is_batched = getattr(torch._C._functorch, "is_legacy_batchedtensor", lambda x: False)


def are_plain_gradients(*gradients) -> bool:
    """is_plain(), for what a backward pass receives: with is_grads_batched and vectorize of torch.autograd, plain tensors
    by type that have no memory."""
    return is_plain(*gradients) and not any(x is not None and _is_batched(x) for x in gradients)


def is_transformed() -> bool:
    return torch._C._functorch.peek_interpreter_stack() is not None


def needs_gradient(*tensors) -> bool:
    if torch.is_grad_enabled():
        for x in tensors:
            if x is not None and x.requires_grad:
                return True
    return False


def gradient_reason(q: Tensor, *others: Optional[Tensor]) -> Optional[str]:
    """Why attest cannot compute the gradients that these tensors require, or None: known before the forward pass."""
    if q.dtype != torch.float32 or q.device.type != "cuda" or not (needs_gradient(q, *others) or _is_differentiated()):
        return None
    return ("float32 tensors on a GPU require a gradient: attest's GPU kernels compute gradients of float16 and bfloat16 only "
            "(torch.autocast casts to them)")


def _is_differentiated() -> bool:
    """Whether torch.func differentiates the call: its tensors do not tell when vmap has wrapped them."""
    if torch.compiler.is_compiling():
        return False
    stack = torch._C._functorch.get_interpreter_stack() or ()
    return any(each.key() == torch._C._functorch.TransformType.Grad for each in stack)


def refuse_gradient(q: Tensor, *others: Optional[Tensor]) -> None:
    """Raise now what backward() would raise later."""
    reason = gradient_reason(q, *others)
    if reason:
        raise UnsupportedError(reason)


def _by_extension(d_o, o, lse, d_lse, d_bias, d_sinks, d_alibi, q, k, v, *rest):
    extras, options = Extras(*rest[:TENSORS - 3]), Options(*rest[TENSORS - 3:])
    return compute(d_o, o, lse, q, k, v, extras, options, (d_bias, d_sinks, d_alibi), d_lse, is_packed(extras))


class Recorded(torch.autograd.Function):
    """(q, k, v, alibi, bias, sinks, the other extras, options, return_lse, zeroed) to (O, log-sum-exp), or to O, for plain
    tensors with no interception. Each output costs time in autograd, so a log-sum-exp that no one uses is not one. If
    zeroed, rows that belong to no sequence are 0 in O and in the gradients."""

    @staticmethod
    def forward(ctx, q, k, v, alibi, bias, sinks, others, options, return_lse, zeroed):
        output = forward(q, k, v, (alibi, bias, sinks, *others), options, zeroed=zeroed)
        ctx.options, ctx.zeroed = options, zeroed
        ctx.set_materialize_grads(False)
        ctx.save_for_backward(q, k, v, alibi, bias, sinks, *others, *output)
        return output if return_lse else output[0]

    @staticmethod
    def backward(ctx, grad_o, grad_lse=None):
        # Else a second backward, or an interception.
        quick = not torch.is_grad_enabled() and are_plain_gradients(grad_o, grad_lse)
        if quick and grad_lse is None and grad_o is not None and True not in ctx.needs_input_grad[3:6]:
            q, k, v, *extras, o, lse = ctx.saved_tensors
            grads = compute(grad_o, o, lse, q, k, v, extras, ctx.options, (False, False, False), zeroed=ctx.zeroed)
            return (*grads[:3], *(None,) * 7)
        return (*gradients_of(ctx, grad_o, grad_lse, _by_extension if quick else attention_backward), *(None,) * 4)


class Transformed(torch.autograd.Function):
    """The operator for torch.func: its transforms need the rules of an autograd.Function and do not know those of
    operators."""

    forward = staticmethod(lambda *arguments: operator(*arguments))
    setup_context = staticmethod(lambda ctx, inputs, output: keep(ctx, inputs, output))

    @staticmethod
    def backward(ctx, grad_o, grad_lse):
        grads = gradients_of(ctx, grad_o, grad_lse, TransformedBackward.apply)
        return (*grads, *(None,) * (TENSORS - 6 + len(Options._fields)))

    @staticmethod
    def vmap(info, in_dims, *arguments):
        """vmap's axis becomes part of the batch, if there is one."""
        tensors, options, axes = arguments[:TENSORS], arguments[TENSORS:], in_dims[:TENSORS]
        if not can_fold(tensors[3:], axes[3:]):
            return one_by_one(Transformed.apply, info.batch_size, arguments, in_dims)
        count, q = info.batch_size, tensors[0]
        batch = q.shape[0] if axes[0] is None or axes[0] > 0 else q.shape[1]
        names = ("q", "k", "v", *Extras._fields)
        folded = (fold(name, x, axis, count, batch) for name, x, axis in zip(names, tensors, axes))
        o, lse = Transformed.apply(*folded, *options)
        return (o.unflatten(0, (count, batch)), lse.unflatten(0, (count, batch))), (0, 0)


def serve(q, k, v, extras: Extras, options: Options, return_lse: bool):
    """(O, log-sum-exp), or O, by the path that the tensors require."""
    refuse_gradient(q, k, v, *extras[:3])
    if not torch.compiler.is_compiling() and is_transformed():
        answer = Transformed.apply(q, k, v, *extras, *options)
    elif not is_plain(q, k, v, *extras):
        answer = operator(q, k, v, *extras, *options)
    elif needs_gradient(q, k, v, *extras[:3]):
        return Recorded.apply(q, k, v, *extras[:3], extras[3:], options, return_lse, is_packed(extras))
    else:
        return forward(q, k, v, extras, options, return_lse)
    return answer if return_lse else answer[0]


# ------------------------------------------------------------------------------------------------- for callers


def _side(q, k, causal, extras, layout, placed) -> Optional[str]:
    """`causal` as an alignment: a plain True is unambiguous only if there are as many queries as keys, or if their
    positions are given."""
    if type(causal).__name__ in ("bool", "bool_"):  # NumPy's too
        causal = bool(causal)
    if causal is None or causal is False:
        return None
    if causal is not True:
        return causal
    if placed:
        return "top-left"
    rows_q, rows_k = (x.shape[0 if x.dim() == 3 else 1 if layout == "bshd" else 2] for x in (q, k))
    if extras.cu_seqlens_q is not extras.cu_seqlens_k or extras.lens_k is not None or extras.page_table is not None or \
            rows_q != rows_k:
        raise ValueError(f"causal is True, but q has {rows_q} rows and k {rows_k}, or lengths of their own: say 'top-left' or "
                         "'bottom-right'")
    return "top-left"


def attention(q: Tensor, k: Tensor, v: Tensor, *, causal: Union[None, bool, str] = None, scale: Optional[float] = None,
              window: Optional[Tuple[Optional[int], Optional[int]]] = None, align: Optional[str] = None,
              softcap: Optional[float] = None, alibi: Optional[Tensor] = None, bias: Optional[Tensor] = None,
              sinks: Optional[Tensor] = None, cu_seqlens_q: Optional[Tensor] = None, cu_seqlens_k: Optional[Tensor] = None,
              max_seqlen_q: Optional[int] = None, max_seqlen_k: Optional[int] = None, lens_k: Optional[Tensor] = None,
              starts_k: Optional[Tensor] = None, q_offset: Union[None, int, Tensor] = None,
              k_offset: Union[None, int, Tensor] = None, page_table: Optional[Tensor] = None, return_lse: bool = False,
              layout: str = "bhsd") -> Any:
    """attest.attention() for PyTorch's tensors, with gradients, also under torch.compile and torch.func.

    The arguments are those of attest.attention(), without `out`. Differentiable in q, k, v, bias, sinks and alibi,
    through O and the log-sum-exp; pages have no gradient, and there are no second derivatives. A last axis that is not
    contiguous is copied; torch.autocast casts q, k and v. The operator is torch.ops.attest.attention.
    """
    if alibi is None and bias is None and sinks is None and cu_seqlens_q is None and cu_seqlens_k is None and \
            max_seqlen_q is None and max_seqlen_k is None and lens_k is None and starts_k is None and page_table is None and \
            q_offset is None and k_offset is None and not return_lse and not is_compiling():
        o = quick_attention(q, k, v, (causal, scale, window, align, softcap or None, layout))
        if o is not None:
            return o
    for name, x in (("q", q), ("k", k), ("v", v)):
        if not isinstance(x, Tensor):
            raise TypeError(f"{name} is a {type(x).__name__}; expected a torch.Tensor")
    q, k, v = autocast(q, k, v)
    placed = q_offset is not None or k_offset is not None
    (q_start, q_offsets), (k_start, k_offsets) = ((0, x) if isinstance(x, Tensor) else (x or 0, None) for x in (q_offset, k_offset))
    extras = Extras(alibi, bias, sinks, cu_seqlens_q, cu_seqlens_k, lens_k, starts_k, page_table, q_offsets, k_offsets)
    left, right = (-1 if side is None else side for side in window) if window is not None else (-1, -1)
    if left < -1 or right < -1:
        raise ValueError(f"window is {window}; expected a pair (left, right) of keys, None or -1 for no limit")
    options = Options(_side(q, k, causal, extras, layout, placed), scale_of(scale, q), left, right, align, softcap or 0.0,
                      max_seqlen_q, max_seqlen_k, layout, q_start, k_start)
    if page_table is not None and needs_gradient(q, k, v, *extras[:3]):
        raise TypeError("page_table is given, and a tensor requires a gradient: those of k and v in pages are not computed")
    return serve(q, k, v, extras, options, return_lse)
