"""_torch_attention.py: attest.torch.attention(): every feature of attest.attention(), with gradients by kernels of attest.

torch.ops.attest.attention is the operator for everything that intercepts calls: compilers, tracers, modes. Where nothing does, an
autograd.Function calls the extension itself, which takes a fraction of the time.
"""

from __future__ import annotations

from typing import Any, Optional, Tuple, Union

import torch
from torch import Tensor

from ._core import attention as _core_attention
from ._torch_backward import (TENSORS, Extras, Options, TransformedBackward, arguments_of, attention_backward, can_fold,
                              compute, fold, one_by_one, scale_of)
from ._torch_layout import LAID_OUT, autocast, call_with_rows, lying_as, strides_like

# ----------------------------------------------------------------------------------------------------- forward


def forward(q, k, v, extras, options, return_lse=True):
    """(O, log-sum-exp), or O, by a kernel of attest; nobody watches, nothing is recorded."""
    named = arguments_of(extras, options)
    named["return_lse"] = return_lse
    answer = call_with_rows(_core_attention, (q, k, v), named)
    if q.dim() == 3 or (LAID_OUT and (q.stride(-1) == 1 or q.shape[-1] == 1)):
        return answer
    return (lying_as(q, answer[0]), answer[1]) if return_lse else lying_as(q, answer)


@torch.library.custom_op("attest::attention", mutates_args=())
def operator(q: Tensor, k: Tensor, v: Tensor, alibi: Optional[Tensor], bias: Optional[Tensor], sinks: Optional[Tensor],
             cu_seqlens_q: Optional[Tensor], cu_seqlens_k: Optional[Tensor], lens_k: Optional[Tensor],
             starts_k: Optional[Tensor], page_table: Optional[Tensor], causal: Optional[str], scale: Optional[float],
             window_left: int, window_right: int, align: Optional[str], softcap: float, max_seqlen_q: Optional[int],
             max_seqlen_k: Optional[int], layout: str) -> Tuple[Tensor, Tensor]:
    """(O, log-sum-exp); a window of -1 is no limit."""
    extras = Extras(alibi, bias, sinks, cu_seqlens_q, cu_seqlens_k, lens_k, starts_k, page_table)
    options = Options(causal, scale, window_left, window_right, align, softcap, max_seqlen_q, max_seqlen_k, layout)
    with torch.no_grad():
        return forward(q, k, v, extras, options)


@operator.register_fake
def _(q, k, v, *rest):
    layout, sizes = rest[-1], (*q.shape[:-1], v.shape[-1])
    if q.dim() == 3:
        return q.new_empty(sizes), q.new_empty((q.shape[1], q.shape[0]), dtype=torch.float32)
    batch, one, other, _ = q.shape
    lse = (batch, other, one) if layout == "bshd" else (batch, one, other)
    return q.new_empty_strided(sizes, strides_like(q, sizes)), q.new_empty(lse, dtype=torch.float32)


# --------------------------------------------------------------------------------------------------- gradients


def keep(ctx, inputs, output):
    """For a backward pass of (q, k, v, *extras, *options)."""
    tensors, ctx.options = inputs[:TENSORS], Options(*inputs[TENSORS:])
    ctx.set_materialize_grads(False)
    ctx.save_for_backward(*tensors, *output)


def gradients_of(ctx, grad_o, grad_lse, by, needs=None):
    """Of (q, k, v, alibi, bias, sinks), by an operator or a function with its arguments."""
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
    """Whether a compiler, a tracer or a mode looks at what is called."""
    return torch.compiler.is_compiling() or torch._C._len_torch_dispatch_stack() > 0 or torch._C._is_tracing()


def is_plain(*tensors) -> bool:
    """Whether nothing but memory is behind the tensors, and nobody watches."""
    return not is_watched() and all(x is None or type(x) is Tensor or type(x) is torch.nn.Parameter for x in tensors)


def is_transformed() -> bool:
    return torch._C._functorch.peek_interpreter_stack() is not None


def needs_gradient(*tensors) -> bool:
    return torch.is_grad_enabled() and any(x is not None and x.requires_grad for x in tensors)


def _by_extension(d_o, o, lse, d_lse, d_bias, d_sinks, d_alibi, q, k, v, *rest):
    return compute(d_o, o, lse, q, k, v, rest[:TENSORS - 3], Options(*rest[TENSORS - 3:]), (d_bias, d_sinks, d_alibi), d_lse)


def gradients_by_operator(d_o, o, lse, q, k, v, extras: Extras, options: Options):
    """(d_q, d_k, d_v), for tracers, and with a second derivative that is refused."""
    return attention_backward(d_o, o, lse, None, False, False, False, q, k, v, *extras, *options)[:3]


class Recorded(torch.autograd.Function):
    """(q, k, v, alibi, bias, sinks, the other extras, options) to (O, log-sum-exp), of plain tensors that nobody watches."""

    @staticmethod
    def forward(ctx, q, k, v, alibi, bias, sinks, others, options):
        output = forward(q, k, v, (alibi, bias, sinks, *others), options)
        ctx.options = options
        ctx.set_materialize_grads(False)
        ctx.save_for_backward(q, k, v, alibi, bias, sinks, *others, *output)
        return output

    @staticmethod
    def backward(ctx, grad_o, grad_lse):
        quick = not torch.is_grad_enabled() and is_plain(grad_o, grad_lse)  # else a second backward, or someone who watches
        return (*gradients_of(ctx, grad_o, grad_lse, _by_extension if quick else attention_backward), None, None)


class Transformed(torch.autograd.Function):
    """The operator for torch.func: its transforms ask an autograd.Function for its rules, and know none of operators."""

    forward = staticmethod(lambda *arguments: operator(*arguments))
    setup_context = staticmethod(lambda ctx, inputs, output: keep(ctx, inputs, output))

    @staticmethod
    def backward(ctx, grad_o, grad_lse):
        grads = gradients_of(ctx, grad_o, grad_lse, TransformedBackward.apply)
        return (*grads, *(None,) * (TENSORS - 6 + len(Options._fields)))

    @staticmethod
    def vmap(info, in_dims, *arguments):
        """The axis becomes a part of the batch, where there is one."""
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
    """(O, log-sum-exp), or O, the way that the tensors ask for."""
    if not torch.compiler.is_compiling() and is_transformed():
        answer = Transformed.apply(q, k, v, *extras, *options)
    elif not is_plain(q, k, v, *extras):
        answer = operator(q, k, v, *extras, *options)
    elif needs_gradient(q, k, v, *extras[:3]):
        answer = Recorded.apply(q, k, v, *extras[:3], extras[3:], options)
    else:
        return forward(q, k, v, extras, options, return_lse)
    return answer if return_lse else answer[0]


# ------------------------------------------------------------------------------------------------- for callers


def _side(q, k, causal, extras, layout) -> Optional[str]:
    """`causal` as a side: a plain True has one meaning only where queries and keys are equally many."""
    if causal is None or causal is False:
        return None
    if causal is not True:
        return causal
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
              starts_k: Optional[Tensor] = None, page_table: Optional[Tensor] = None, return_lse: bool = False,
              layout: str = "bhsd") -> Any:
    """attest.attention() of PyTorch's tensors, with gradients, under torch.compile and torch.func too.

    The arguments are those of attest.attention(), without `out`. Differentiable in q, k, v, bias, sinks and alibi, by O and by
    the log-sum-exp; pages have no gradient, and gradients no derivative of their own. A last axis that is not contiguous is
    copied; torch.autocast casts q, k and v. The operator is torch.ops.attest.attention.
    """
    for name, x in (("q", q), ("k", k), ("v", v)):
        if not isinstance(x, Tensor):
            raise TypeError(f"{name} is a {type(x).__name__}: a torch.Tensor would fit")
    q, k, v = autocast(q, k, v)
    extras = Extras(alibi, bias, sinks, cu_seqlens_q, cu_seqlens_k, lens_k, starts_k, page_table)
    left, right = (-1 if side is None else side for side in window) if window is not None else (-1, -1)
    options = Options(_side(q, k, causal, extras, layout), scale_of(scale, q), left, right, align, softcap or 0.0, max_seqlen_q,
                      max_seqlen_k, layout)
    if page_table is not None and needs_gradient(q, k, v, *extras[:3]):
        raise TypeError("page_table is given, and a tensor requires a gradient: those of k and v in pages are not computed")
    return serve(q, k, v, extras, options, return_lse)
