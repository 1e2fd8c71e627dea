"""_torch_spans.py: torch.ops.attest.spans: attention whose mask is a few numbers instead of a tensor of rows x keys.

Such a mask is an int32 tensor of four axes, so that code that passes masks along accepts it:

    (batch, kind, window, 2)        the first used key of each batch entry, and the end of the used keys
    (1, kind, window, count + 1)    the first rows of `count` sequences, at least two, that are packed along the rows
                                    of all batch entries, and the end of the last

What must be known without reading memory is encoded in the sizes of the axes, along which the numbers are repeated:
`window` is 1 if there is none, otherwise 2 + the keys visible left of the diagonal; `kind` is 1 + the index in CAUSAL,
plus 3 x b for packed sequences, none of them longer than 2^b. A window without causal sees as many keys on the right.
"""

from __future__ import annotations

import weakref
from typing import NamedTuple, Optional, Tuple

import torch
from torch import Tensor

from ._torch_attention import forward, needs_gradient, Recorded
from ._torch_backward import Extras, Options, refuse_double_backward
from ._torch_backward import compute as compute_gradients
from ._torch_layout import gradient_strides, lying_as, strides_like, with_strides
from ._torch_report import count_served

CAUSAL = ("top-left", "bottom-right", None)


def encode(first: Tensor, end: Tensor, causal: Optional[str], window: Optional[int]) -> Tensor:
    """The mask of keys first .. end - 1 of each batch entry."""
    numbers = torch.stack((first, end)).to(torch.int32)  # each one contiguous, as attention() requires
    return numbers.t()[:, None, None, :].expand(-1, CAUSAL.index(causal) + 1, _window_size(window), -1)


def encode_packed(starts: Tensor, longest: int, causal: Optional[str], window: Optional[int]) -> Tensor:
    """The mask for sequences that begin and end at these rows."""
    kind = CAUSAL.index(causal) + 1 + 3 * max(longest - 1, 0).bit_length()
    return starts.to(torch.int32).expand(1, kind, _window_size(window), -1)


def _window_size(window: Optional[int]) -> int:
    return 1 if window is None else window + 2


def is_encoded(mask: Optional[Tensor]) -> bool:
    return mask is not None and mask.dtype == torch.int32 and mask.dim() == 4


class Spans(NamedTuple):
    """The meaning of the sizes of a mask's axes."""

    causal: Optional[str]
    window: Tuple[Optional[int], Optional[int]]
    longest: int  # the most rows of a packed sequence; 0: not packed


def decode(mask: Tensor) -> Spans:
    kind, size = mask.shape[1] - 1, mask.shape[2]
    left = size - 2 if size > 1 else None
    causal = CAUSAL[kind % 3]
    return Spans(causal, (left, None if causal else left), 1 << kind // 3 if mask.shape[3] > 2 else 0)


def as_boolean(mask: Tensor, batch: int, rows: int, keys: int) -> Tensor:
    """The equivalent mask for PyTorch's functions: (batch, 1, rows, keys)."""
    spans = decode(mask)
    i, j = torch.arange(rows, device=mask.device)[:, None], torch.arange(keys, device=mask.device)
    if spans.longest:
        starts = mask[0, 0, 0]
        row = torch.arange(batch * rows, dtype=torch.int32, device=mask.device)
        sequence = torch.searchsorted(starts[1:].contiguous(), row, right=True).view(batch, 1, rows)
        seen, distance = sequence[..., :, None] == sequence[..., None, :], j - i
    else:
        first, end = (mask[:, 0, 0, n].view(-1, 1, 1, 1) for n in range(2))
        seen = (j >= first) & (j < end)
        distance = j - i - (end - rows if spans.causal == "bottom-right" else 0)
    if spans.causal:
        seen = seen & (distance <= 0)
    left, right = spans.window
    if left is not None:
        seen = seen & (distance >= -left)
    if right is not None:
        seen = seen & (distance <= right)
    return seen.expand(-1, 1, rows, keys)


class _Given(NamedTuple):
    """A call in the form of attention()."""

    q: Tensor
    k: Tensor
    v: Tensor
    extras: Extras
    options: Options
    packed: Optional[Tuple[int, int]]  # batch entries and rows per entry, of packed sequences


def _given(q, k, v, mask, scale, softcap, sinks) -> _Given:
    spans = decode(mask)
    left, right = (-1 if side is None else side for side in spans.window)
    options = Options(causal=spans.causal, scale=scale, window_left=left, window_right=right, softcap=softcap,
                      align="top-left" if left >= 0 and not spans.causal else None)
    if not spans.longest:
        first, end = _numbers_of(mask)
        return _Given(q, k, v, Extras(sinks=sinks, lens_k=end, starts_k=first), options, None)
    starts, longest = mask[0, 0, 0].contiguous(), min(spans.longest, q.shape[2])
    extras = Extras(sinks=sinks, cu_seqlens_q=starts, cu_seqlens_k=starts)
    options = options._replace(max_seqlen_q=longest, max_seqlen_k=longest)
    return _Given(_flat(q), _flat(k), _flat(v), extras, options, (q.shape[0], q.shape[2]))


def _flat(x: Tensor) -> Tensor:
    """(batch, heads, rows, d) as (all rows, heads, d)."""
    return x.transpose(1, 2).flatten(0, 1)


def _unflat(x: Tensor, packed: Optional[Tuple[int, int]]) -> Tensor:
    return x if packed is None else x.unflatten(0, packed).transpose(1, 2)


def compute(q, k, v, mask, scale, softcap=0.0, sinks=None):
    """O for plain tensors with no interception, with gradients if they require them."""
    given = _given(q, k, v, mask, scale, softcap, sinks)
    if needs_gradient(q, k, v, sinks):
        o = Recorded.apply(given.q, given.k, given.v, *given.extras[:3], given.extras[3:], given.options, False, False)
    else:
        o = forward(given.q, given.k, given.v, given.extras, given.options, return_lse=False)
    return lying_as(q, _unflat(o, given.packed)) if given.packed is None else _unflat(o, given.packed)


_latest = (lambda: None, (None, None))  # a mask and its numbers: the layers of a model share one


def _numbers_of(mask: Tensor) -> Tuple[Tensor, Tensor]:
    """The first key of each batch entry, and the end, in the form of attention()."""
    global _latest
    whose, numbers = _latest
    if whose() is not mask:
        numbers = mask[:, 0, 0, 0].contiguous(), mask[:, 0, 0, 1].contiguous()
        if mask.stride(0) == 1:  # they are views, which follow writes to the mask
            _latest = (weakref.ref(mask), numbers)
    return numbers


# ----------------------------------------------------------------------------------------------- the operator


@torch.library.custom_op("attest::spans", mutates_args=())
def spans(q: Tensor, k: Tensor, v: Tensor, mask: Tensor, scale: float, softcap: float = 0.0,
          sinks: Optional[Tensor] = None) -> Tuple[Tensor, Tensor]:
    """(O, log-sum-exp) of 4-dimensional q, k and v; sinks are float32, one per head."""
    count_served(q, k, mask, decode(mask).causal is not None)
    with torch.no_grad():
        given = _given(q, k, v, mask, scale, softcap, sinks)
        o, lse = forward(given.q, given.k, given.v, given.extras, given.options)
        if given.packed is not None:
            lse = lse.unflatten(1, given.packed).transpose(0, 1).contiguous()
        return lying_as(q, _unflat(o, given.packed)), lse


@spans.register_fake
def _(q, k, v, mask, scale, softcap=0.0, sinks=None):
    sizes = (*q.shape[:3], v.shape[-1])
    return q.new_empty_strided(sizes, strides_like(q, sizes)), q.new_empty(q.shape[:3], dtype=torch.float32)


@torch.library.custom_op("attest::spans_backward", mutates_args=())
def spans_backward(d_o: Tensor, o: Tensor, lse: Tensor, d_lse: Optional[Tensor], q: Tensor, k: Tensor, v: Tensor, mask: Tensor,
                   scale: float, softcap: float, sinks: Optional[Tensor], d_sinks: bool) -> Tuple[Tensor, Tensor, Tensor, Tensor]:
    """(d_q, d_k, d_v, d_sinks), the last empty if it is not asked for."""
    with torch.no_grad():
        given = _given(q, k, v, mask, scale, softcap, sinks)
        if given.packed is not None:
            d_o, o = _flat(d_o), _flat(o)
            lse, d_lse = (None if x is None else x.transpose(0, 1).flatten(1).contiguous() for x in (lse, d_lse))
        *grads, _, of_sinks, _ = compute_gradients(d_o, o, lse, given.q, given.k, given.v, given.extras, given.options,
                                                   (False, d_sinks, False), d_lse)
        own = (with_strides(_unflat(grad, given.packed), gradient_strides(x)) for grad, x in zip(grads, (q, k, v)))
        return (*own, lse.new_empty(0) if of_sinks is None else of_sinks)


@spans_backward.register_fake
def _(d_o, o, lse, d_lse, q, k, v, mask, scale, softcap, sinks, d_sinks):
    own = (x.new_empty_strided(x.shape, gradient_strides(x)) for x in (q, k, v))
    return (*own, sinks.new_empty(sinks.shape) if d_sinks else lse.new_empty(0))


def _keep(ctx, inputs, output):
    q, k, v, mask, ctx.scale, ctx.softcap, sinks = inputs
    ctx.set_materialize_grads(False)
    ctx.save_for_backward(q, k, v, mask, sinks, *output)


def _backward(ctx, grad_o, grad_lse):
    q, k, v, mask, sinks, o, lse = ctx.saved_tensors
    needs = (*ctx.needs_input_grad, False, False)  # arguments at their default are not listed
    if grad_o is None:
        grad_o = torch.zeros_like(o)
    *own, of_sinks = spans_backward(grad_o, o, lse, grad_lse, q, k, v, mask, ctx.scale, ctx.softcap, sinks, needs[6])
    own = (grad if need else None for grad, need in zip(own, needs))
    return (*own, None, None, None, of_sinks if needs[6] else None)


spans.register_autograd(_backward, setup_context=_keep)
spans_backward.register_autograd(refuse_double_backward, setup_context=lambda ctx, inputs, output: None)
