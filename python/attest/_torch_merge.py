"""_torch_merge.py: attest.torch.merge(), the operator torch.ops.attest.merge with its gradient.

PyTorch's operators compute the gradient in float32: a merge is a weighted mean, and so is its gradient.
"""

from __future__ import annotations

from typing import List, Sequence, Tuple, Union

import torch
from torch import Tensor

from ._core import merge as _core_merge
from ._torch_layout import lying_as, plain_rows, strides_like


@torch.library.custom_op("attest::merge", mutates_args=())
def _merge(parts_o: List[Tensor], parts_lse: List[Tensor], layout: str) -> Tuple[Tensor, Tensor]:
    """(O, log-sum-exp) of parts in the form of attest.merge()."""
    with torch.no_grad():
        o, lse = _compute(parts_o, parts_lse, layout, True)
    return (lying_as(parts_o[0], o) if o.dim() == 4 else o), lse


@_merge.register_fake
def _(parts_o, parts_lse, layout):
    first = parts_o[0]
    lse = parts_lse[0].new_empty(parts_lse[0].shape)
    if first.dim() == 4:
        return first.new_empty_strided(first.shape, strides_like(first, first.shape)), lse
    return first.new_empty(first.shape), lse


def _compute(parts_o, parts_lse, layout, return_lse):
    return _core_merge([plain_rows(x) for x in parts_o], [x.resolve_neg() for x in parts_lse], layout=layout,
                       return_lse=return_lse)


def _weights(sums: Tensor, lse: Tensor) -> Tensor:
    """The weight of each part from the stacked log-sums: exp(sums - lse), and its limits."""
    infinite = (sums == torch.inf).float()
    finite = torch.exp(torch.where(torch.isinf(sums), torch.zeros_like(sums), sums) -
                       torch.where(torch.isinf(lse), torch.zeros_like(lse), lse))
    shared = infinite / infinite.sum(0).clamp(min=1)
    return torch.where(lse == torch.inf, shared, torch.where(sums == -torch.inf, torch.zeros_like(sums), finite))


def _gradients(parts_o, parts_lse, o, lse, grad_o, grad_lse, layout):
    """The gradients of every O and every log-sum: w_i * grad_o and w_i * (grad_o . (o_i - o) + grad_lse)."""
    rows_first = layout == "bshd" or o.dim() == 3  # O may have its rows before its heads; the log-sums never do
    weights = _weights(torch.stack(tuple(parts_lse)), lse)
    grads_o, grads_lse = [], []
    grad = grad_o.float()
    for part, weight in zip(parts_o, weights):
        share = weight.transpose(-1, -2) if rows_first else weight
        along = (grad * (part.float() - o.float())).sum(-1)
        along = along.transpose(-1, -2) if rows_first else along
        if grad_lse is not None:
            along = along + grad_lse
        empty = weight == 0  # the contents of such a part may be NaN
        grads_o.append((share.unsqueeze(-1) * grad).to(part.dtype))
        grads_lse.append(torch.where(empty, torch.zeros_like(weight), weight * along))
    return grads_o, grads_lse


def _keep(ctx, inputs, output):
    parts_o, parts_lse, ctx.layout = inputs
    ctx.count = len(parts_o)
    ctx.save_for_backward(*parts_o, *parts_lse, *output)


def _backward(ctx, grad_o, grad_lse):
    *parts, o, lse = ctx.saved_tensors
    grads = _gradients(parts[:ctx.count], parts[ctx.count:], o, lse, grad_o, grad_lse, ctx.layout)
    return (*grads, None)


_merge.register_autograd(_backward, setup_context=_keep)


class _Transformed(torch.autograd.Function):
    """The operator for torch.func, whose transforms need the rules of an autograd.Function: (layout, *parts_o,
    *parts_lse)."""

    @staticmethod
    def forward(layout, *parts):
        half = len(parts) // 2
        return _merge(list(parts[:half]), list(parts[half:]), layout)

    @staticmethod
    def setup_context(ctx, inputs, output):
        half = len(inputs) // 2
        _keep(ctx, (inputs[1:1 + half], inputs[1 + half:], inputs[0]), output)

    @staticmethod
    def backward(ctx, grad_o, grad_lse):
        grads_o, grads_lse, _ = _backward(ctx, grad_o, grad_lse)
        return (None, *grads_o, *grads_lse)

    @staticmethod
    def vmap(info, in_dims, layout, *parts):
        """vmap's axis becomes part of the batch; packed rows have no batch, so it becomes their batch."""
        count = info.batch_size
        whole = [x.expand(count, *x.shape) if axis is None else x.movedim(axis, 0) for x, axis in zip(parts, in_dims[1:])]
        if whole[0].dim() == 4:
            return _Transformed.apply("bshd", *whole), (0, 0)
        o, lse = _Transformed.apply(layout, *(x.flatten(0, 1) for x in whole))
        return (o.unflatten(0, (count, -1)), lse.unflatten(0, (count, -1))), (0, 0)


def _is_plain(tensors) -> bool:
    """Whether the tensors are plain memory and nothing intercepts calls."""
    return not (torch.compiler.is_compiling() or torch._C._len_torch_dispatch_stack() or torch._C._is_tracing()) and \
        all(type(x) is Tensor or type(x) is torch.nn.Parameter for x in tensors)


def merge(parts_o: Union[Tensor, Sequence[Tensor]], parts_lse: Union[Tensor, Sequence[Tensor]], *, layout: str = "bhsd",
          return_lse: bool = True) -> Union[Tensor, Tuple[Tensor, Tensor]]:
    """attest.merge() for PyTorch's tensors, with gradients, also under torch.compile and torch.func.

    The arguments are those of attest.merge(), without `out`. A last axis that is not contiguous is copied.
    """
    listed_o, listed_lse = (list(x.unbind(0)) if isinstance(x, Tensor) else list(x) for x in (parts_o, parts_lse))
    tensors = (*listed_o, *listed_lse)
    for x in tensors:
        if not isinstance(x, Tensor):
            raise TypeError(f"parts_o and parts_lse have a {type(x).__name__}; expected torch.Tensor")
    if not torch.compiler.is_compiling() and torch._C._functorch.peek_interpreter_stack() is not None:
        _check_counts(listed_o, listed_lse)
        o, lse = _Transformed.apply(layout, *tensors)
    elif not _is_plain(tensors) or (torch.is_grad_enabled() and any(x.requires_grad for x in tensors)):
        _check_counts(listed_o, listed_lse)
        o, lse = _merge(listed_o, listed_lse, layout)
    else:
        return _compute(listed_o, listed_lse, layout, return_lse)
    return (o, lse) if return_lse else o


def _check_counts(parts_o, parts_lse) -> None:
    """Check what a tracer's shapes need before the extension sees the parts; the extension raises the same error."""
    if not parts_o or len(parts_o) != len(parts_lse):
        raise ValueError(f"parts_lse has {len(parts_lse)} parts, parts_o {len(parts_o)}: expected the same number, one or more")
