"""attest.torch: PyTorch's scaled_dot_product_attention, computed by attest.

    import attest.torch
    o = attest.torch.scaled_dot_product_attention(q, k, v, is_causal=True)

    with attest.torch.enable() as report:       # every torch.nn.functional.scaled_dot_product_attention
        model(x)
    print(report)                               # which calls were served, which passed on, and why

The operator is torch.ops.attest.sdpa: it has a fake kernel, so torch.compile(fullgraph=True) works, and gradients.
attest has no backward kernel yet: gradients are computed by PyTorch's own operators from the log-sum-exp that the
forward pass keeps, a block of rows at a time. The first backward says so by a RecomputeWarning.
"""

from __future__ import annotations

import math
import os
import threading
import warnings
from typing import Iterator, List, NamedTuple, Optional, Tuple

import torch
from torch import Tensor
from torch.autograd import forward_ad
from torch.nn import functional
from torch.nn.attention.bias import CausalBias, CausalVariant

from . import Error, UnsupportedError, _core
from ._core import attention as _attention
from ._core import sdpa as _quick

__all__ = ["Call", "RecomputeWarning", "Report", "disable", "enable", "register_transformers",
           "scaled_dot_product_attention", "why_not"]

_DTYPES = (torch.float32, torch.float16, torch.bfloat16)
_BACKWARD_ELEMENTS = 1 << 24  # of scores at once in a backward pass


class RecomputeWarning(UserWarning):
    """A gradient is computed by PyTorch's operators, not by a kernel of attest."""


# ------------------------------------------------------------------------------------------------- the operator


@torch.library.custom_op("attest::sdpa", mutates_args=())
def _sdpa(q: Tensor, k: Tensor, v: Tensor, mask: Optional[Tensor], is_causal: bool,
          scale: float) -> Tuple[Tensor, Tensor]:
    """(O, log-sum-exp) of 4-dimensional q, k and v."""
    _count_served(q, k, mask, is_causal)
    with torch.no_grad():
        o, lse = _attention(_rows(q), _rows(k), _rows(v), bias=_bias(mask), scale=scale, return_lse=True,
                            causal="top-left" if is_causal else None)
    return o, lse


@_sdpa.register_fake
def _(q, k, v, mask, is_causal, scale):
    batch, heads, rows, _ = q.shape
    if heads > 1 and rows > 1 and 0 < q.stride(1) < q.stride(2):  # O lies as q does: outputs_build.c has the same rule
        o = q.new_empty((batch, rows, heads, v.shape[-1])).transpose(1, 2)
    else:
        o = q.new_empty((batch, heads, rows, v.shape[-1]))
    return o, q.new_empty((batch, heads, rows), dtype=torch.float32)


def _rows(x: Tensor) -> Tensor:
    """With a contiguous last axis and plain signs, copied where it has them not."""
    x = x.resolve_neg()
    return x if x.stride(-1) == 1 or x.shape[-1] == 1 else x.contiguous()


def _bias(mask: Optional[Tensor]) -> Optional[Tensor]:
    return None if mask is None else mask.resolve_neg()


def _keep(ctx, inputs, output):
    q, k, v, mask, ctx.is_causal, ctx.scale = inputs
    ctx.save_for_backward(q, k, v, mask, *output)


def _backward(ctx, grad_o, grad_lse):
    if not torch.compiler.is_compiling():
        _say_recompute()
    q, k, v, mask, o, lse = ctx.saved_tensors
    needs = ctx.needs_input_grad
    if not any(needs[:4]):
        return None, None, None, None, None, None
    grads = _gradients(q, k, v, mask, o, lse, grad_o, grad_lse, ctx.is_causal, ctx.scale, needs[3])
    return (*(grad if need else None for grad, need in zip(grads, needs)), None, None)


_sdpa.register_autograd(_backward, setup_context=_keep)


class _Transformed(torch.autograd.Function):
    """The operator for torch.func: its transforms ask an autograd.Function for its rules, and know none of operators."""

    forward = staticmethod(lambda *arguments: _sdpa(*arguments))
    setup_context = staticmethod(lambda ctx, inputs, output: _keep(ctx, inputs, output))
    backward = staticmethod(lambda ctx, *grads: _backward(ctx, *grads))

    @staticmethod
    def vmap(info, in_dims, q, k, v, mask, is_causal, scale):
        """The axis becomes a part of the batch."""
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
        o, lse = _Transformed.apply(*map(fold, (q, k, v), in_dims[:3]), mask, is_causal, scale)
        return (o.unflatten(0, (count, batch)), lse.unflatten(0, (count, batch))), (0, 0)

_said_recompute = False


def _say_recompute() -> None:
    global _said_recompute
    if not _said_recompute:
        _said_recompute = True
        warnings.warn("attest has no backward kernel yet: this gradient, and those to come, are computed by "
                      "PyTorch's operators", RecomputeWarning, stacklevel=2)


def _gradients(q, k, v, mask, o, lse, grad_o, grad_lse, is_causal, scale, mask_needs):
    """Of q, k, v and the mask, in float32, from P = exp(S - lse) of a block of rows at a time."""
    batch, heads, rows, d = q.shape
    kv_heads, keys, group = k.shape[1], k.shape[2], heads // k.shape[1]
    k32, v32 = k.float(), v.float()
    if group > 1:
        k32, v32 = (x.repeat_interleave(group, 1) for x in (k32, v32))
    lse = torch.where(torch.isinf(lse), torch.zeros_like(lse), lse)  # rows that see nothing: P is 0 anyway
    delta = (grad_o.float() * o.float()).sum(-1)
    if grad_lse is not None:
        delta = delta - grad_lse
    step = max(1, _BACKWARD_ELEMENTS // max(1, batch * heads * keys))
    grads_q, grads_mask = [], []
    grad_k, grad_v = torch.zeros_like(k32), torch.zeros_like(v32)
    for start in range(0, rows, step):
        part = slice(start, min(start + step, rows))
        scores = torch.matmul(q[:, :, part].float() * scale, k32.transpose(-1, -2))
        scores = _masked(scores, mask, is_causal, part)
        weights = torch.exp(scores - lse[:, :, part, None])
        grad = grad_o[:, :, part].float()
        grad_v = grad_v + torch.matmul(weights.transpose(-1, -2), grad)
        grad_s = weights * (torch.matmul(grad, v32.transpose(-1, -2)) - delta[:, :, part, None])
        grads_q.append(torch.matmul(grad_s, k32) * scale)
        grad_k = grad_k + torch.matmul(grad_s.transpose(-1, -2), q[:, :, part].float()) * scale
        if mask_needs:
            grads_mask.append(grad_s)
    grad_q = torch.cat(grads_q, 2) if grads_q else torch.zeros_like(q)
    if group > 1:
        grad_k, grad_v = (x.unflatten(1, (kv_heads, group)).sum(2) for x in (grad_k, grad_v))
    grad_mask = None
    if mask_needs:
        grad_mask = torch.cat(grads_mask, 2).sum_to_size(mask.shape).to(mask.dtype)
    return grad_q.to(q.dtype), grad_k.to(k.dtype), grad_v.to(v.dtype), grad_mask


def _masked(scores, mask, is_causal, part):
    rows, keys = scores.shape[-2:]
    if is_causal:
        row = torch.arange(part.start, part.start + rows, device=scores.device)
        hidden = torch.arange(keys, device=scores.device) > row[:, None]
        scores = scores.masked_fill(hidden, -math.inf)
    if mask is not None:
        here = mask[..., part, :] if mask.dim() > 1 and mask.shape[-2] != 1 else mask
        scores = scores.masked_fill(~here, -math.inf) if mask.dtype == torch.bool else scores + here
    return scores


# ------------------------------------------------------------------------------------------------- the drop-in


def why_not(query: Tensor, key: Tensor, value: Tensor, attn_mask: Optional[Tensor] = None, dropout_p: float = 0.0,
            is_causal: bool = False, scale: Optional[float] = None, enable_gqa: bool = False) -> Optional[str]:
    """Why attest does not serve this call, or None where it does. A call that PyTorch refuses too is not its business:
    scaled_dot_product_attention() raises what PyTorch would."""
    own = next((type(x) for x in (query, key, value, attn_mask) if _has_own_way(x)), None)
    if own:
        return f"{own.__name__} has a way of its own with PyTorch's functions"
    if not torch.compiler.is_compiling() and _is_forward_mode(query, key, value, attn_mask):
        return "attest has no forward-mode derivative"
    if dropout_p != 0.0:
        return f"dropout_p={dropout_p}: attest has no dropout"
    if attn_mask is not None and is_causal:
        return "attn_mask and is_causal are both set, which PyTorch documents as an error"
    if query.dtype not in _DTYPES:
        return f"query is {query.dtype}: attest computes with float32, float16 and bfloat16"
    device = query.device.type
    if device == "cuda" and torch.version.hip:
        return "this PyTorch is for AMD's GPUs"
    if device != "cpu" and device != "cuda":
        return f"query is on {query.device}: attest computes on cpu and cuda"
    if query.layout is not torch.strided or key.layout is not torch.strided or value.layout is not torch.strided:
        return "query, key or value is a sparse or nested tensor"
    if not 1 <= query.shape[-1] <= 256 or not 1 <= value.shape[-1] <= 256:
        return f"a head dimension of {query.shape[-1]} and {value.shape[-1]} is not in 1 to 256"
    if device == "cuda" and query.dtype == torch.float32 and os.environ.get("ATTEST_ALLOW_SLOW") != "1":
        return "float32 on a GPU has slow kernels only, which ATTEST_ALLOW_SLOW=1 allows"
    if query.dim() > 2 and 0 in (query.shape[-3], key.shape[-3] if key.dim() > 2 else 1):
        return "there are no heads"
    if enable_gqa and key.dim() > 2 and value.dim() > 2 and key.shape[-3] != value.shape[-3]:
        return f"key has {key.shape[-3]} heads and value {value.shape[-3]}"
    return None


def _has_own_way(x) -> bool:
    """Whether a tensor's type intercepts functions; not whether a mode does, which sees what attest calls."""
    kind = type(x)
    return kind is not Tensor and kind is not torch.nn.Parameter and isinstance(x, Tensor) and \
        kind.__torch_function__ is not torch._C._disabled_torch_function_impl


def _is_forward_mode(*tensors) -> bool:
    stack = torch._C._functorch.get_interpreter_stack() or ()
    if any(each.key() == torch._C._functorch.TransformType.Jvp for each in stack):
        return True
    return forward_ad._current_level >= 0 and any(
        x is not None and forward_ad.unpack_dual(x).tangent is not None for x in tensors)


def _plain_mask(mask: Optional[Tensor], is_causal: bool, query: Tensor) -> Tuple[Optional[Tensor], bool]:
    """PyTorch's causal_upper_left() and causal_lower_right() as what they stand for."""
    if not isinstance(mask, CausalBias):
        return mask, is_causal
    if mask.variant == CausalVariant.UPPER_LEFT or mask.seq_len_q == mask.seq_len_kv:
        return None, True
    return mask._materialize(query.device), is_causal


def _check_types(query, key, value, attn_mask, is_causal, enable_gqa):
    """As PyTorch's function takes nothing else."""
    for name, x in (("query", query), ("key", key), ("value", value), ("attn_mask", attn_mask)):
        if not isinstance(x, Tensor) and not (x is None and name == "attn_mask"):
            raise TypeError(f"{name} is a {type(x).__name__}: a torch.Tensor would fit")
    for name, flag in (("is_causal", is_causal), ("enable_gqa", enable_gqa)):
        if not isinstance(flag, bool):
            raise TypeError(f"{name} is {flag!r}: True or False would fit")


def _validate(query, key, value, attn_mask):
    """What PyTorch refuses, refused with the same type of exception."""
    if not query.dtype == key.dtype == value.dtype:
        raise RuntimeError(f"query, key and value must have one dtype, not {query.dtype}, {key.dtype} and {value.dtype}")
    if not query.device == key.device == value.device:
        raise RuntimeError("query, key and value must be on one device, "
                           f"not {query.device}, {key.device} and {value.device}")
    if min(query.dim(), key.dim(), value.dim()) < 2:
        raise RuntimeError("query, key and value must have two dimensions or more, "
                           f"not {query.dim()}, {key.dim()} and {value.dim()}")
    if attn_mask is not None:
        if attn_mask.dtype not in (torch.bool, torch.float32, query.dtype):
            raise RuntimeError(f"attn_mask is {attn_mask.dtype}: bool, float32 or {query.dtype} would fit")
        if attn_mask.device != query.device:
            raise RuntimeError(f"attn_mask is on {attn_mask.device}, query on {query.device}")


def _mismatch(query, key, value):
    return RuntimeError(f"query {tuple(query.shape)}, key {tuple(key.shape)} and value {tuple(value.shape)} "
                        "do not fit each other")


def _four(query, key, value, mask, enable_gqa):
    """q, k and v with four dimensions, a mask that broadcasts to their scores, and the shape of O's leading axes."""
    tensors = [x[None] if x.dim() == 2 else x for x in (query, key, value)]
    heads_q, heads_k, heads_v = (x.shape[-3] for x in tensors)
    try:
        leads = torch.broadcast_shapes(*(x.shape[:-3] for x in tensors))
        heads = heads_q if enable_gqa else torch.broadcast_shapes((heads_q,), (heads_k,), (heads_v,))[0]
    except RuntimeError:
        raise _mismatch(query, key, value) from None
    own = (heads_q, heads_k, heads_v) if enable_gqa else (heads, heads, heads)
    q, k, v = (x.expand(*leads, h, *x.shape[-2:]).reshape(-1, h, *x.shape[-2:]) for x, h in zip(tensors, own))
    if mask is not None and len(leads) != 1:
        mask = mask.expand(*leads, heads, q.shape[-2], k.shape[-2]).reshape(-1, heads, q.shape[-2], k.shape[-2])
    two = query.dim() == key.dim() == value.dim() == 2
    return q, k, v, mask, () if two else (*leads, heads)


def _watched() -> bool:
    """Whether a compiler, a tracer or a mode looks at what is called."""
    return torch.compiler.is_compiling() or torch._C._len_torch_dispatch_stack() > 0 or torch._C._is_tracing()


_any_autocast = getattr(torch._C, "_is_any_autocast_enabled", lambda: True)  # True: look closer
_is_compiling = torch.compiler.is_dynamo_compiling  # other tracers have a mode or tensors of their own, which _quick sees
# Transforms of torch.func are not asked after: their tensors have no memory that _quick could read.
_core.sdpa_setup(Tensor, (torch._C._len_torch_dispatch_stack, torch._C._is_tracing, _any_autocast))


def _autocast(query, *others):
    """The tensors in the type that torch.autocast asks for here, as PyTorch casts those of its own function."""
    device = query.device.type
    if device not in ("cpu", "cuda") or not torch.is_autocast_enabled(device):
        return (query, *others)
    dtype = torch.get_autocast_dtype(device)
    return tuple(x.to(dtype) if x is not None and x.is_floating_point() and x.dtype != torch.float64 else x
                 for x in (query, *others))


def _plain(*tensors) -> bool:
    """Whether nothing but memory is behind the tensors."""
    return not _watched() and all(x is None or type(x) is Tensor or type(x) is torch.nn.Parameter for x in tensors)


def _serve(query, key, value, attn_mask, is_causal, scale, enable_gqa):
    _validate(query, key, value, attn_mask)
    q, k, v, mask, leads = query, key, value, attn_mask, None
    simple = query.dim() == key.dim() == value.dim() == 4 and query.shape[0] == key.shape[0] == value.shape[0]
    if not simple or (not enable_gqa and not query.shape[1] == key.shape[1] == value.shape[1]):
        q, k, v, mask, leads = _four(query, key, value, attn_mask, enable_gqa)
    if q.shape[-1] != k.shape[-1] or k.shape[-2] != v.shape[-2] or q.shape[1] % k.shape[1]:
        raise _mismatch(query, key, value)
    if scale is None:
        scale = 1.0 / math.sqrt(q.shape[-1])
    grad = torch.is_grad_enabled() and (q.requires_grad or k.requires_grad or v.requires_grad or
                                        (mask is not None and mask.requires_grad))
    if not torch.compiler.is_compiling() and torch._C._functorch.peek_interpreter_stack() is not None:
        o = _Transformed.apply(q, k, v, mask, is_causal, scale)[0]
    elif grad or not _plain(q, k, v, mask):
        o = _sdpa(q, k, v, mask, is_causal, scale)[0]
    else:
        _count_served(q, k, mask, is_causal)
        o = _attention(_rows(q), _rows(k), _rows(v), bias=_bias(mask), scale=scale, causal="top-left" if is_causal else None)
    return o if leads is None else o.reshape(*leads, *o.shape[-2:])


def scaled_dot_product_attention(query: Tensor, key: Tensor, value: Tensor, attn_mask: Optional[Tensor] = None,
                                 dropout_p: float = 0.0, is_causal: bool = False, *, scale: Optional[float] = None,
                                 enable_gqa: bool = False) -> Tensor:
    """torch.nn.functional.scaled_dot_product_attention, computed by attest or not at all.

    The arguments mean what they mean there: is_causal is aligned top-left, a boolean mask keeps where it is True,
    a float mask is added, masks broadcast. Raises attest.UnsupportedError where attest does not serve
    (why_not() says why beforehand) and RuntimeError where PyTorch would.
    """
    if attn_mask is None and dropout_p == 0.0 and not _is_compiling():
        o = _quick(query, key, value, is_causal, scale, enable_gqa)
        if o is not None:
            if _reports:
                _count(query, key, None, is_causal, None)
            return o
    _check_types(query, key, value, attn_mask, is_causal, enable_gqa)
    attn_mask, is_causal = _plain_mask(attn_mask, is_causal, query)
    query, key, value, attn_mask = _autocast(query, key, value, attn_mask)
    reason = why_not(query, key, value, attn_mask, dropout_p, is_causal, scale, enable_gqa)
    if reason:
        raise UnsupportedError(reason)
    return _serve(query, key, value, attn_mask, is_causal, scale, enable_gqa)


# ------------------------------------------------------------------------------------------------- in its place


class Call(NamedTuple):
    """Calls that were alike."""

    query: Tuple[int, ...]
    key: Tuple[int, ...]
    dtype: torch.dtype
    device: str
    mask: bool
    is_causal: bool
    reason: Optional[str]  #: why it was passed on; None: it was served

    def __str__(self) -> str:
        words = [f"q {self.query}", f"k {self.key}", str(self.dtype).replace("torch.", ""), self.device]
        words += ["mask"] * self.mask + ["causal"] * self.is_causal
        return " ".join(words) + (f": {self.reason}" if self.reason else "")


class Report:
    """Calls of scaled_dot_product_attention while it was patched: served by attest, or passed on to PyTorch.

    Calls in code that torch.compile has compiled are counted as they run where they are served; those that were passed
    on while it compiled are not counted. Ends the patch as a context manager, or by close().
    """

    _MOST = 1000  # kinds of calls; the rest are counted as one

    def __init__(self) -> None:
        self._counts: dict[Call, int] = {}
        self._lock = threading.Lock()

    def _add(self, call: Call) -> None:
        with self._lock:
            if len(self._counts) >= self._MOST and call not in self._counts:
                call = Call((), (), torch.float32, "others", False, False, call.reason and "others")
            self._counts[call] = self._counts.get(call, 0) + 1

    def _sum(self, served: bool) -> int:
        return sum(count for _, count in self._items(served))

    def _items(self, served: bool) -> List[Tuple[Call, int]]:
        with self._lock:
            return [(call, count) for call, count in self._counts.items() if (call.reason is None) == served]

    @property
    def served(self) -> int:
        """How many calls attest computed."""
        return self._sum(True)

    @property
    def passed_on(self) -> int:
        """How many calls went to PyTorch."""
        return self._sum(False)

    def calls(self) -> Iterator[Tuple[Call, int]]:
        """Every kind of call with its count."""
        yield from self._items(True)
        yield from self._items(False)

    def __str__(self) -> str:
        lines = [f"{self.served} served by attest, {self.passed_on} passed on to PyTorch"]
        for served, word in ((True, "served   "), (False, "passed on")):
            lines += [f"{word} {count:6d}  {call}" for call, count in self._items(served)]
        return "\n".join(lines)

    def close(self) -> None:
        """Undo the patch, if it is still this report's."""
        _close(self)

    def __enter__(self) -> "Report":
        return self

    def __exit__(self, *exception) -> None:
        self.close()


_original = functional.scaled_dot_product_attention
_reports: List[Report] = []  # the innermost last
_patching = threading.Lock()


def _count(query, key, mask, is_causal, reason):
    call = Call(tuple(query.shape), tuple(key.shape), query.dtype, str(query.device), mask is not None, is_causal, reason)
    for report in tuple(_reports):
        report._add(call)


def _count_served(query, key, mask, is_causal):
    if _reports:
        _count(query, key, mask, is_causal, None)


def _patched(query, key, value, attn_mask=None, dropout_p=0.0, is_causal=False, *, scale=None, enable_gqa=False):
    if attn_mask is None and dropout_p == 0.0 and not _is_compiling():
        try:
            o = _quick(query, key, value, is_causal, scale, enable_gqa)
        except Error:  # why, is asked and counted below
            o = None
        if o is not None:
            _count_served(query, key, None, is_causal)
            return o
    _check_types(query, key, value, attn_mask, is_causal, enable_gqa)
    attn_mask, is_causal = _plain_mask(attn_mask, is_causal, query)
    query, key, value, attn_mask = _autocast(query, key, value, attn_mask)
    reason = why_not(query, key, value, attn_mask, dropout_p, is_causal, scale, enable_gqa)
    if reason is None and torch.compiler.is_compiling():
        return _serve(query, key, value, attn_mask, is_causal, scale, enable_gqa)
    if reason is None:
        try:
            return _serve(query, key, value, attn_mask, is_causal, scale, enable_gqa)
        except Error as refused:
            reason = str(refused)
    if not torch.compiler.is_compiling():
        _count(query, key, attn_mask, is_causal, reason)
    return _original(query, key, value, attn_mask=attn_mask, dropout_p=dropout_p, is_causal=is_causal, scale=scale,
                     enable_gqa=enable_gqa)


def enable() -> Report:
    """Put attest in the place of torch.nn.functional.scaled_dot_product_attention until the report is closed.

    What attest does not serve goes to PyTorch as before. Names that were imported from torch.nn.functional earlier
    keep PyTorch's function.
    """
    report = Report()
    with _patching:
        _reports.append(report)
        functional.scaled_dot_product_attention = _patched  # type: ignore[assignment]  # PyTorch's stub knows no keyword-only
    return report


def _close(report: Report) -> None:
    with _patching:
        if report in _reports:
            _reports.remove(report)
        if not _reports:
            functional.scaled_dot_product_attention = _original


def disable() -> None:
    """Undo every enable()."""
    for report in tuple(_reports):
        report.close()


def register_transformers(name: str = "attest") -> None:
    """Make attn_implementation=`name` known to Hugging Face transformers. See attest._transformers."""
    from ._transformers import register

    register(name)
