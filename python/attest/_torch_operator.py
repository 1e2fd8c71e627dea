"""_torch_operator.py: torch.ops.attest.sdpa, with a fake kernel, gradients, and a rule for torch.func."""

from __future__ import annotations

import warnings
from typing import List, Optional, Tuple

import torch
from torch import Tensor

from . import _torch_formula as formula
from ._core import attention
from ._torch_report import count_served


class RecomputeWarning(UserWarning):
    """A gradient is computed by PyTorch's operators, not by a kernel of attest."""


@torch.library.custom_op("attest::sdpa", mutates_args=())
def sdpa(q: Tensor, k: Tensor, v: Tensor, mask: Optional[Tensor], is_causal: bool, scale: float, softcap: float = 0.0,
         sinks: Optional[Tensor] = None) -> Tuple[Tensor, Tensor]:
    """(O, log-sum-exp) of 4-dimensional q, k and v; sinks are float32, one a head."""
    count_served(q, k, mask, is_causal)
    with torch.no_grad():
        o, lse = compute(q, k, v, mask, is_causal, scale, softcap, sinks, return_lse=True)
    return o, lse


@sdpa.register_fake
def _(q, k, v, mask, is_causal, scale, softcap=0.0, sinks=None):
    batch, heads, rows, _ = q.shape
    sizes = (batch, heads, rows, v.shape[-1])
    return q.new_empty_strided(sizes, strides_like(q, sizes)), q.new_empty((batch, heads, rows), dtype=torch.float32)


def compute(q, k, v, mask, is_causal, scale, softcap=0.0, sinks=None, return_lse=False):
    """O, or (O, log-sum-exp), by a kernel of attest; nobody watches, nothing is recorded."""
    answer = attention(plain_rows(q), plain_rows(k), plain_rows(v), bias=None if mask is None else mask.resolve_neg(), scale=scale,
                       causal="top-left" if is_causal else None, softcap=softcap or None, sinks=sinks,
                       return_lse=return_lse)
    if _LAID_OUT and (q.stride(-1) == 1 or q.shape[-1] == 1):
        return answer
    return (lying_as(q, answer[0]), answer[1]) if return_lse else lying_as(q, answer)


def plain_rows(x: Tensor) -> Tensor:
    """With a contiguous last axis and plain signs, copied where it has them not."""
    x = x.resolve_neg()
    return x if x.stride(-1) == 1 or x.shape[-1] == 1 else x.contiguous()


# -------------------------------------------------------------------------------------------- how O lies in memory


# attention() lays O out as q, whose last axis is the innermost; but not for a release without the exchange table.
_LAID_OUT = hasattr(Tensor, "__dlpack_c_exchange_api__")


def lying_as(query: Tensor, o: Tensor) -> Tensor:
    """O with its axes in the memory order of the query's, copied where they are not."""
    wanted = strides_like(query, o.shape)
    if all(size <= 1 or step == own for size, step, own in zip(o.shape, wanted, o.stride())):
        return o
    return o.new_empty_strided(o.shape, wanted).copy_(o)


def strides_like(query: Tensor, sizes) -> Tuple[int, ...]:
    """Dense strides for `sizes`, the axes ordered as the query's are. core/output.c has the same rule."""
    strides, step = [1] * len(sizes), 1
    for axis in _axes_inside_out(query):
        strides[axis] = step
        step = step * max(sizes[axis], 1)
    return tuple(strides)


def _axes_inside_out(x: Tensor) -> List[int]:
    """From the innermost to the outermost, as torch.empty_like() sorts them."""
    sizes, strides = x.shape, x.stride()
    last_inside = strides[-1] == 1 or sizes[-1] == 1
    order = list(range(x.dim() - 1 - last_inside, -1, -1))
    for i in range(1, len(order)):
        outer = i
        for inner in range(i - 1, -1, -1):
            a, b = order[inner], order[outer]
            if strides[a] == 0 or strides[b] == 0:  # they do not tell
                continue
            if strides[a] < strides[b]:
                break
            if strides[a] > strides[b] or sizes[a] > sizes[b]:
                order[inner], order[outer] = b, a
                outer = inner
    return [x.dim() - 1] * last_inside + order


# ------------------------------------------------------------------------------------------------------- gradients


def _keep(ctx, inputs, output):
    q, k, v, mask, ctx.is_causal, ctx.scale, ctx.softcap, sinks = inputs
    ctx.save_for_backward(q, k, v, mask, sinks)


def _backward(ctx, grad_o, grad_lse):
    if not torch.compiler.is_compiling():
        _say_recompute()
    q, k, v, mask, sinks = ctx.saved_tensors
    needs = (*ctx.needs_input_grad, False, False)  # arguments at their default are not told of
    grads = (None,) * 5
    if any(needs):
        grads = formula.gradients(q, k, v, mask, sinks, grad_o, grad_lse, ctx.is_causal, ctx.scale, ctx.softcap, needs[3])
    of_q, of_k, of_v, of_mask, of_sinks = (grad if need else None for grad, need in zip(grads, (*needs[:4], needs[7])))
    return of_q, of_k, of_v, of_mask, None, None, None, of_sinks


sdpa.register_autograd(_backward, setup_context=_keep)

_said_recompute = False


def _say_recompute() -> None:
    global _said_recompute
    if not _said_recompute:
        _said_recompute = True
        warnings.warn("attest has no backward kernel yet: this gradient, and those to come, are computed by "
                      "PyTorch's operators", RecomputeWarning, stacklevel=2)


class Transformed(torch.autograd.Function):
    """The operator for torch.func: its transforms ask an autograd.Function for its rules, and know none of operators."""

    forward = staticmethod(lambda *arguments: sdpa(*arguments))
    setup_context = staticmethod(lambda ctx, inputs, output: _keep(ctx, inputs, output))
    backward = staticmethod(lambda ctx, *grads: _backward(ctx, *grads))

    @staticmethod
    def vmap(info, in_dims, q, k, v, mask, is_causal, scale, softcap, sinks):
        """The axis becomes a part of the batch. Sinks, which have no batch, do not come here with an axis of their own."""
        count = info.batch_size

        def fold(x, axis):
            return (x.expand(count, *x.shape) if axis is None else x.movedim(axis, 0)).flatten(0, 1)

        batch = q.shape[0 if in_dims[0] is None or in_dims[0] > 0 else 1]
        if mask is not None:
            rest = mask if in_dims[3] is None else mask.movedim(in_dims[3], 0)
            own = () if in_dims[3] is None else (count,)
            sizes = rest.shape[len(own):]
            rest = rest.reshape(*own, *(1,) * (4 - len(sizes)), *sizes)
            if own or rest.shape[0] > 1:  # else it broadcasts to a larger batch as well
                rest = rest.expand(count, batch, *rest.shape[-3:]).flatten(0, 1)
            mask = rest
        o, lse = Transformed.apply(*map(fold, (q, k, v), in_dims[:3]), mask, is_causal, scale, softcap, sinks)
        return (o.unflatten(0, (count, batch)), lse.unflatten(0, (count, batch))), (0, 0)
