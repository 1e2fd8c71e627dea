"""_torch_spans.py: torch.ops.attest.spans: attention whose mask is a few numbers instead of a tensor of rows x keys.

A mask is then an int32 tensor of four axes, so that whatever passes masks on takes it for one:

    (batch, kind, window, 2)        the first key in use of each batch entry, and the end of those in use
    (1, kind, window, count + 1)    the first rows of `count` sequences, at least two, that lie one behind the other in the
                                    rows of all batch entries, and the end of the last

What must be known without looking into memory is in the sizes of the axes, along which the numbers are the same: `window` is 1
where there is none, else 2 + the keys seen left of the diagonal; `kind` is 1 + the index in CAUSAL, and of packed
sequences 3 x b more, none of them longer than 2^b. A window without causal sees as many keys on the right.
"""

from __future__ import annotations

import weakref
from typing import NamedTuple, Optional, Tuple

import torch
from torch import Tensor

from . import _torch_formula as formula
from ._core import attention
from ._torch_operator import lying_as, plain_rows, strides_like
from ._torch_report import count_served

CAUSAL = ("top-left", "bottom-right", None)


def encode(first: Tensor, end: Tensor, causal: Optional[str], window: Optional[int]) -> Tensor:
    """The mask of keys first .. end - 1 of each batch entry."""
    numbers = torch.stack((first, end)).to(torch.int32)  # each contiguous by itself, as attention() takes them
    return numbers.t()[:, None, None, :].expand(-1, CAUSAL.index(causal) + 1, _window_size(window), -1)


def encode_packed(starts: Tensor, longest: int, causal: Optional[str], window: Optional[int]) -> Tensor:
    """The mask of sequences that begin and end at these rows."""
    kind = CAUSAL.index(causal) + 1 + 3 * max(longest - 1, 0).bit_length()
    return starts.to(torch.int32).expand(1, kind, _window_size(window), -1)


def _window_size(window: Optional[int]) -> int:
    return 1 if window is None else window + 2


def is_encoded(mask: Optional[Tensor]) -> bool:
    return mask is not None and mask.dtype == torch.int32 and mask.dim() == 4


class Spans(NamedTuple):
    """What the sizes of a mask's axes say."""

    causal: Optional[str]
    window: Tuple[Optional[int], Optional[int]]
    longest: int  # of packed sequences, at most; 0: they are not packed


def decode(mask: Tensor) -> Spans:
    kind, size = mask.shape[1] - 1, mask.shape[2]
    left = size - 2 if size > 1 else None
    causal = CAUSAL[kind % 3]
    return Spans(causal, (left, None if causal else left), 1 << kind // 3 if mask.shape[3] > 2 else 0)


def as_boolean(mask: Tensor, batch: int, rows: int, keys: int) -> Tensor:
    """What it stands for, as PyTorch's functions take it: (batch, 1, rows, keys)."""
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


def compute(q, k, v, mask, scale, softcap=0.0, sinks=None, return_lse=False):
    """O, or (O, log-sum-exp), by a kernel of attest; nobody watches, nothing is recorded."""
    spans = decode(mask)
    options = {"scale": scale, "causal": spans.causal, "softcap": softcap or None, "sinks": sinks, "return_lse": return_lse}
    if spans.window[0] is not None:
        options["window"] = spans.window
        options["align"] = None if spans.causal else "top-left"
    if spans.longest:
        answer = _compute_packed(q, k, v, mask[0, 0, 0].contiguous(), min(spans.longest, q.shape[2]), options)
    else:
        first, end = _numbers_of(mask)
        answer = attention(plain_rows(q), plain_rows(k), plain_rows(v), starts_k=first, lens_k=end, **options)
    return (lying_as(q, answer[0]), answer[1]) if return_lse else lying_as(q, answer)


_latest = (lambda: None, (None, None))  # a mask, and its numbers: the layers of a model share one


def _numbers_of(mask: Tensor) -> Tuple[Tensor, Tensor]:
    """The first key of each batch entry, and the end, as attention() takes them."""
    global _latest
    whose, numbers = _latest
    if whose() is not mask:
        numbers = mask[:, 0, 0, 0].contiguous(), mask[:, 0, 0, 1].contiguous()
        if mask.stride(0) == 1:  # they are views, which follow what is written to the mask
            _latest = (weakref.ref(mask), numbers)
    return numbers


def _compute_packed(q, k, v, starts, longest, options):
    """Sequences one behind the other in the rows of all batch entries; none goes from one entry into the next."""
    batch, _, rows, _ = q.shape
    flat = (plain_rows(x).transpose(1, 2).flatten(0, 1) for x in (q, k, v))
    answer = attention(*flat, cu_seqlens_q=starts, cu_seqlens_k=starts, max_seqlen_q=longest, max_seqlen_k=longest, **options)
    o = (answer[0] if options["return_lse"] else answer).unflatten(0, (batch, rows)).transpose(1, 2)
    return (o, answer[1].unflatten(1, (batch, rows)).transpose(0, 1).contiguous()) if options["return_lse"] else o


@torch.library.custom_op("attest::spans", mutates_args=())
def spans(q: Tensor, k: Tensor, v: Tensor, mask: Tensor, scale: float, softcap: float = 0.0,
          sinks: Optional[Tensor] = None) -> Tuple[Tensor, Tensor]:
    """(O, log-sum-exp) of 4-dimensional q, k and v; sinks are float32, one a head."""
    count_served(q, k, mask, decode(mask).causal is not None)
    with torch.no_grad():
        return compute(q, k, v, mask, scale, softcap, sinks, return_lse=True)


@spans.register_fake
def _(q, k, v, mask, scale, softcap=0.0, sinks=None):
    sizes = (*q.shape[:3], v.shape[-1])
    return q.new_empty_strided(sizes, strides_like(q, sizes)), q.new_empty(q.shape[:3], dtype=torch.float32)


def _keep(ctx, inputs, output):
    q, k, v, mask, ctx.scale, ctx.softcap, sinks = inputs
    ctx.save_for_backward(q, k, v, mask, sinks)


def _backward(ctx, grad_o, grad_lse):
    q, k, v, mask, sinks = ctx.saved_tensors
    boolean = as_boolean(mask, q.shape[0], q.shape[2], k.shape[2])
    of_q, of_k, of_v, _, of_sinks = formula.gradients(q, k, v, boolean, sinks, grad_o, grad_lse, False, ctx.scale, ctx.softcap,
                                                      False)
    return of_q, of_k, of_v, None, None, None, of_sinks


spans.register_autograd(_backward, setup_context=_keep)
