"""_torch_backward.py: torch.ops.attest.attention_backward: the gradients of attention from a kernel of attest.

The operator has no derivative: a second backward through it raises UnsupportedError.
"""

from __future__ import annotations

import functools
import math
from typing import Any, Dict, NamedTuple, NoReturn, Optional, Sequence, Tuple

import torch
from torch import Tensor

from . import UnsupportedError
from ._core import backward as _core_backward
from ._torch_layout import call_with_rows, gradient_strides, with_strides


class Options(NamedTuple):
    """The arguments that are not tensors, as the operators take them."""

    causal: Optional[str] = None
    scale: Optional[float] = None
    window_left: int = -1
    window_right: int = -1
    align: Optional[str] = None
    softcap: float = 0.0
    max_seqlen_q: Optional[int] = None
    max_seqlen_k: Optional[int] = None
    layout: str = "bhsd"
    q_offset: int = 0
    k_offset: int = 0


class Extras(NamedTuple):
    """The tensors besides q, k and v."""

    alibi: Optional[Tensor] = None
    bias: Optional[Tensor] = None
    sinks: Optional[Tensor] = None
    cu_seqlens_q: Optional[Tensor] = None
    cu_seqlens_k: Optional[Tensor] = None
    lens_k: Optional[Tensor] = None
    starts_k: Optional[Tensor] = None
    page_table: Optional[Tensor] = None
    q_offsets: Optional[Tensor] = None  # per batch entry, in place of the options' number
    k_offsets: Optional[Tensor] = None


_EXTRAS = tuple({"q_offsets": "q_offset", "k_offsets": "k_offset"}.get(name, name) for name in Extras._fields)
TENSORS = 3 + len(Extras._fields)  # number of tensor arguments of an operator, which come first


@functools.lru_cache(maxsize=256)
def _named_options(options: Tuple[Any, ...]) -> Dict[str, Any]:
    """The options that are set, by the names of the extension's arguments."""
    causal, scale, left, right, align, softcap, most_q, most_k, layout, q_offset, k_offset = options
    named = {"causal": causal, "scale": scale, "align": align, "softcap": softcap or None, "max_seqlen_q": most_q,
             "max_seqlen_k": most_k, "window": (left, right) if left >= 0 or right >= 0 else None,
             "layout": None if layout == "bhsd" else layout, "q_offset": q_offset or None, "k_offset": k_offset or None}
    return {name: value for name, value in named.items() if value is not None}


def arguments_of(extras: Sequence[Optional[Tensor]], options: Tuple[Any, ...]) -> Dict[str, Any]:
    """The named arguments of the extension's calls."""
    named = _named_options(options).copy()
    for name, x in zip(_EXTRAS, extras):
        if x is not None:
            named[name] = x.resolve_neg() if name == "bias" else x
    return named


def is_packed(extras: Extras) -> bool:
    """Whether there may be rows, of q or of k and v, behind the last sequence."""
    return extras.cu_seqlens_q is not None or extras.cu_seqlens_k is not None


def compute(d_o, o, lse, q, k, v, extras, options, wanted, d_lse=None, zeroed=False) -> Tuple[Tensor, ...]:
    """(d_q, d_k, d_v, d_bias, d_sinks, d_alibi), None for those of the last three that are not wanted. If zeroed, rows that
    belong to no sequence are 0.

    The gradient of the log-sums comes out of the product of d_o and O per row: d_o gets columns that sum to d_lse, O
    columns of -1, V columns of zeros. Kernels leave out rows that see no key; these have a log-sum where there are sinks.
    """
    if Extras(*extras).page_table is not None:
        raise UnsupportedError("gradients of k and v in pages (page_table, or block_table in flash_attn) are not computed")
    d_sinks = _of_sinks(d_o, o, lse, d_lse, extras, options) if d_lse is not None and wanted[1] else None
    if _has_no_pair(q, k, extras, options):  # no batch entry would write what all share
        shared = (extras[1], extras[2], extras[0])
        zeros = [torch.zeros_like(x) if want else None for x, want in zip(shared, wanted)]
        return (*map(torch.zeros_like, (q, k, v)), zeros[0], zeros[1] if d_sinks is None else d_sinks, zeros[2])
    named = arguments_of(extras, options)
    columns = v.shape[-1]
    if d_lse is not None:
        if wanted[1]:
            wanted = wanted[0], False, wanted[2]
        v, o, d_o = with_columns(v, o, d_o, d_lse, options.layout)
    for name, want in zip(("d_bias", "d_sinks", "d_alibi"), wanted):
        if want:
            named[name] = True
    if wanted[0]:
        named["bias"] = _unexpanded(named["bias"])
    if wanted[2]:
        named["alibi"] = named["alibi"].contiguous()
    if zeroed:
        named["out"] = tuple(x.new_zeros(x.shape) for x in (q, k, v))
    d_q, d_k, d_v, *others = call_with_rows(_core_backward, (q, k, v, o, lse, d_o), named)
    if d_lse is not None:
        d_v = d_v[..., :columns]
    if not others:
        return d_q, d_k, d_v, None, d_sinks, None
    others.reverse()
    d_bias, of_sinks, d_alibi = (others.pop() if want else None for want in wanted)
    return d_q, d_k, d_v, d_bias, of_sinks if d_sinks is None else d_sinks, d_alibi


def _has_no_pair(q, k, extras, options) -> bool:
    """Whether it is known without reading lengths that no row sees a key. Packed tensors may have rows of no sequence."""
    given, lengths = Extras(*extras), Options(*options)
    return q.numel() == 0 or k.numel() == 0 or (given.cu_seqlens_q is not None and lengths.max_seqlen_q == 0) or \
        (given.cu_seqlens_k is not None and lengths.max_seqlen_k == 0)


def sink_shares(sinks: Tensor, lse: Tensor) -> Tensor:
    """The weight of its head's sink in every row of log-sums (..., heads, rows); 0 in rows that nothing is summed for."""
    return torch.where(lse == -math.inf, 0.0, torch.exp(sinks.float().unsqueeze(-1) - lse))


def _of_sinks(d_o, o, lse, d_lse, extras, options) -> Tensor:
    """The gradient of the sinks through O and the log-sums."""
    given, packed = Extras(*extras), lse.dim() == 2
    product = (d_o.float() * o.float()).sum(-1)
    product = product if options.layout == "bhsd" and not packed else product.transpose(-1, -2)  # as lse lies
    terms = sink_shares(given.sinks, lse) * (d_lse.float() - product)
    if packed:  # rows behind the last sequence hold anything
        rows = torch.arange(lse.shape[1], device=lse.device)
        return torch.where(rows < given.cu_seqlens_q[-1], terms, 0.0).sum(-1)
    return terms.sum((0, 2))


def _unexpanded(bias: Tensor) -> Tensor:
    """The bias with its own element for each of its numbers."""
    return bias.contiguous() if any(size > 1 and step == 0 for size, step in zip(bias.shape, bias.stride())) else bias


_COLUMNS = 8  # keeps rows aligned


def has_lse_gradient(columns: int) -> bool:
    """Whether the log-sums of values of so many columns have a gradient."""
    return columns + _COLUMNS <= 256


def refuse_lse_gradient(columns: int) -> NoReturn:
    raise UnsupportedError(f"the gradient of the log-sum-exp is computed for values of up to {256 - _COLUMNS} columns, "
                           f"not {columns}: detach it")


def with_columns(v, o, d_o, d_lse, layout):
    """v, o and d_o with the columns from which kernels compute the gradient of the log-sums too."""
    if not has_lse_gradient(v.shape[-1]):
        refuse_lse_gradient(v.shape[-1])
    d_lse = (d_lse if layout == "bhsd" and d_lse.dim() == 3 else d_lse.transpose(-1, -2)).unsqueeze(-1)
    terms, left = [], d_lse.float()
    step = _steps(left) if d_o.dtype == torch.float16 else torch.ones_like(left)
    left = left / step
    for _ in range(3):  # enough terms for the digits of float32
        terms.append(left.to(d_o.dtype))
        left = left - terms[-1].float()
    none = v.new_zeros((*v.shape[:-1], _COLUMNS))
    minus = (-step).to(o.dtype).expand(*o.shape[:-1], _COLUMNS)
    return (torch.cat([v, none], -1), torch.cat([o, minus], -1),
            torch.cat([d_o, *terms, torch.zeros_like(minus[..., len(terms):])], -1))


def _steps(d_lse: Tensor) -> Tensor:
    """A power of two in float16 for each number: divided by it, the number has all its digits in three terms of float16,
    from 2^-24 to 2^31 in size, and fewer down to 2^-48. float16 itself ends at 65504."""
    exponents = (d_lse.view(torch.int32) >> 23 & 255) - 12
    return (exponents.clamp(127 - 24, 127 + 15) << 23).view(torch.float32)


# ---------------------------------------------------------------------------------------------------- the operator


@torch.library.custom_op("attest::attention_backward", mutates_args=())
def attention_backward(d_o: Tensor, o: Tensor, lse: Tensor, d_lse: Optional[Tensor], d_bias: bool, d_sinks: bool,
                       d_alibi: bool, q: Tensor, k: Tensor, v: Tensor, alibi: Optional[Tensor], bias: Optional[Tensor],
                       sinks: Optional[Tensor], cu_seqlens_q: Optional[Tensor], cu_seqlens_k: Optional[Tensor],
                       lens_k: Optional[Tensor], starts_k: Optional[Tensor], page_table: Optional[Tensor],
                       q_offsets: Optional[Tensor], k_offsets: Optional[Tensor], causal: Optional[str], scale: Optional[float], window_left: int, window_right: int,
                       align: Optional[str], softcap: float, max_seqlen_q: Optional[int], max_seqlen_k: Optional[int],
                       layout: str, q_offset: int, k_offset: int) -> Tuple[Tensor, Tensor, Tensor, Tensor, Tensor, Tensor]:
    """(d_q, d_k, d_v, d_bias, d_sinks, d_alibi); those not asked for are empty."""
    extras = Extras(alibi, bias, sinks, cu_seqlens_q, cu_seqlens_k, lens_k, starts_k, page_table, q_offsets, k_offsets)
    options = Options(causal, scale, window_left, window_right, align, softcap, max_seqlen_q, max_seqlen_k, layout, q_offset,
                      k_offset)
    with torch.no_grad():
        grads = compute(d_o, o, lse, q, k, v, extras, options, (d_bias, d_sinks, d_alibi), d_lse, is_packed(extras))
        own = (with_strides(grad, gradient_strides(x)) for grad, x in zip(grads, (q, k, v)))
        return (*own, *(lse.new_empty(0) if grad is None else grad for grad in grads[3:]))


@attention_backward.register_fake
def _(d_o, o, lse, d_lse, d_bias, d_sinks, d_alibi, q, k, v, alibi, bias, sinks, *rest):
    own = (x.new_empty_strided(x.shape, gradient_strides(x)) for x in (q, k, v))
    asked = ((d_bias, bias), (d_sinks, sinks), (d_alibi, alibi))
    return (*own, *(x.new_empty(x.shape) if wanted else lse.new_empty(0) for wanted, x in asked))


def refuse_double_backward(ctx, *grads):
    raise UnsupportedError("attest has no double backward: the gradients of attention have no derivative of their own. For "
                           "second derivatives use PyTorch's scaled_dot_product_attention under sdpa_kernel(SDPBackend.MATH)")


attention_backward.register_autograd(refuse_double_backward, setup_context=lambda ctx, inputs, output: None)


# -------------------------------------------------------------------------------------- rules of torch.func


def fold(name: str, x: Optional[Tensor], axis: Optional[int], count: int, batch: int) -> Optional[Tensor]:
    """A tensor of a call under vmap, with vmap's axis folded into its batch."""
    if x is None or name == "sinks" or (axis is None and _broadcasts(name, x)):
        return x
    own = {"bias": 4, "alibi": 2, "lens_k": 1, "starts_k": 1, "q_offsets": 1, "k_offsets": 1, "lse": 3, "d_lse": 3}.get(name, 4)
    x = x.expand(count, *x.shape) if axis is None else x.movedim(axis, 0)
    x = x.reshape(count, *(1,) * (own + 1 - x.dim()), *x.shape[1:])
    return x.expand(count, batch, *x.shape[2:]).flatten(0, 1)


def _broadcasts(name: str, x: Tensor) -> bool:
    """Whether it broadcasts to a larger batch without change."""
    return (name == "bias" and (x.dim() < 4 or x.shape[0] == 1)) or (name == "alibi" and x.dim() == 1)


def can_fold(extras: Sequence[Optional[Tensor]], axes: Sequence[Optional[int]]) -> bool:
    """Whether vmap's axis can be folded into the batch: packed and paged sequences have none, nor do sinks."""
    given = Extras(*extras)
    return given.cu_seqlens_q is None and given.cu_seqlens_k is None and given.page_table is None and \
        Extras(*axes).sinks is None


def one_by_one(function, count: int, arguments: Sequence[Any], axes: Sequence[Optional[int]]):
    """The function applied to each entry along vmap's axis, stacked."""
    each = [function(*(x if axis is None else x.select(axis, i) for x, axis in zip(arguments, axes))) for i in range(count)]
    return tuple(torch.stack(parts) for parts in zip(*each)), (0,) * len(each[0])


class TransformedBackward(torch.autograd.Function):
    """The operator for torch.func, whose transforms need the rules of an autograd.Function."""

    forward = staticmethod(lambda *arguments: attention_backward(*arguments))
    setup_context = staticmethod(lambda ctx, inputs, output: None)
    backward = staticmethod(refuse_double_backward)

    @staticmethod
    def vmap(info, in_dims, *arguments):
        """vmap's axis becomes part of the batch; entries are computed one by one if that would mix their gradients."""
        first, wanted, tensors, options = arguments[:4], arguments[4:7], arguments[7:7 + TENSORS], arguments[7 + TENSORS:]
        axes_first, axes = in_dims[:4], in_dims[7:7 + TENSORS]
        if any(wanted) or not can_fold(tensors[3:], axes[3:]):
            return one_by_one(TransformedBackward.apply, info.batch_size, arguments, in_dims)
        count, q = info.batch_size, tensors[0]
        batch = q.shape[0] if axes[0] is None or axes[0] > 0 else q.shape[1]
        names = ("d_o", "o", "lse", "d_lse", "q", "k", "v", *Extras._fields)
        folded = [fold(name, x, axis, count, batch) for name, x, axis in
                  zip(names, (*first, *tensors), (*axes_first, *axes))]
        grads = TransformedBackward.apply(*folded[:4], *wanted, *folded[4:], *options)
        own = (x.unflatten(0, (count, batch)) for x in grads[:3])
        return (*own, *grads[3:]), (0, 0, 0, None, None, None)


def scale_of(scale: Optional[float], q: Tensor) -> float:
    return 1.0 / math.sqrt(q.shape[-1]) if scale is None else scale
