"""_torch_moe.py: attest.torch.moe(), the operator torch.ops.attest.moe with its gradient.

Plain tensors without a gradient go to the extension directly: for few tokens the operator costs more than the layer.
PyTorch's operators compute the gradient, expert by expert, in a separate operator: attest has no kernel for it yet.
"""

from __future__ import annotations

from typing import Optional, Tuple, Union

import torch
import torch.nn.functional as functional
from torch import Tensor

from . import UnsupportedError
from ._core import moe as _core_moe
from ._moe_names import ALPHA, LIMIT, UNGATED, check_axes
from ._torch_attention import is_plain, is_transformed, needs_gradient
from ._torch_backward import one_by_one
from ._torch_layout import autocast


@torch.library.custom_op("attest::moe", mutates_args=())
def _moe(x: Tensor, w1: Tensor, w2: Tensor, logits: Optional[Tensor], ids: Optional[Tensor], weights: Optional[Tensor],
         w3: Optional[Tensor], b1: Optional[Tensor], b2: Optional[Tensor], b3: Optional[Tensor], correction: Optional[Tensor],
         mask: Optional[Tensor], top_k: Optional[int], activation: str, routing: Optional[str], renormalise: Optional[bool],
         scaling: float, alpha: Optional[float], limit: Optional[float], groups: int, groups_kept: int, interleaved: bool,
         transposed: bool, experts: int, first_expert: int) -> Tuple[Tensor, Tensor, Tensor, Tensor]:
    """(y, ids, weights, counts) for tokens in the form of attest.moe()."""
    with torch.no_grad():
        return _core_moe(x, w1, w2, logits=logits, ids=ids, weights=weights, w3=w3, b1=b1, b2=b2, b3=b3, correction=correction,
                         mask=mask, top_k=top_k, activation=activation, routing=routing, renormalise=renormalise, scaling=scaling,
                         alpha=alpha, limit=limit, groups=groups, groups_kept=groups_kept, interleaved=interleaved,
                         transposed=transposed, experts=experts, first_expert=first_expert, return_routing=True)


@_moe.register_fake
def _(x, w1, w2, logits, ids, weights, w3, b1, b2, b3, correction, mask, top_k, activation, routing, renormalise, scaling, alpha,
      limit, groups, groups_kept, interleaved, transposed, experts, first_expert):
    slots = (x.shape[0], top_k) if ids is None else ids.shape
    return (x.new_empty(x.shape), x.new_empty(slots, dtype=torch.int32), x.new_empty(slots, dtype=torch.float32),
            x.new_empty((experts + 1,), dtype=torch.int32))


def _gelu_kind(name: str) -> str:
    return "tanh" if name.endswith("-tanh") else "none"


def _activate(name: str, gate: Tensor, up: Optional[Tensor], alpha: float, limit: float) -> Tensor:
    if name == "swiglu-clamped":
        gate, up = gate.clamp(max=limit), up.clamp(-limit, limit)
        return (up + 1) * gate * torch.sigmoid(alpha * gate)
    if name == "relu2":
        return functional.relu(gate)**2
    shaped = functional.silu(gate) if name in ("swiglu", "silu") else functional.gelu(gate, approximate=_gelu_kind(name))
    return shaped if up is None else shaped * up


def _activate_backward(name: str, grad: Tensor, gate: Tensor, up: Optional[Tensor], alpha: float,
                       limit: float) -> Tuple[Tensor, Optional[Tensor]]:
    """Gradients of gate and up."""
    if name == "swiglu-clamped":
        g, u = gate.clamp(max=limit), up.clamp(-limit, limit)
        gated = torch.sigmoid(alpha * g)
        d_gate = grad * (u + 1) * gated * (1 + alpha * g * (1 - gated))
        return torch.where(gate <= limit, d_gate, 0.0), torch.where(up.abs() <= limit, grad * g * gated, 0.0)
    if name == "relu2":
        return grad * 2 * functional.relu(gate), None
    is_silu = name in ("swiglu", "silu")
    kind = _gelu_kind(name)
    d_shaped = grad if up is None else grad * up
    d_gate = torch.ops.aten.silu_backward(d_shaped, gate) if is_silu else torch.ops.aten.gelu_backward(d_shaped, gate, approximate=kind)
    if up is None:
        return d_gate, None
    return d_gate, grad * (functional.silu(gate) if is_silu else functional.gelu(gate, approximate=kind))


def _read(logits: Tensor, ids: Tensor) -> Tensor:
    """The logits in float32; 0 for masked tokens, whose logits may hold anything."""
    return torch.where((ids >= 0).any(-1, keepdim=True), logits.float(), 0.0)


def _softmax(numbers: Tensor) -> Tensor:
    """As the routing defines it: +inf share the weight among themselves, and if all are -inf, all have the same."""
    top = numbers.amax(-1, keepdim=True)
    return torch.softmax(torch.where(top.isinf(), torch.where(numbers == top, 0.0, -torch.inf), numbers), -1)


def _weigh(logits: Tensor, ids: Tensor, routing: str, renormalise: bool, scaling: float) -> Tensor:
    """The weights of the selected experts, from the logits."""
    chosen, numbers = ids.clamp(min=0).long(), _read(logits, ids)
    if routing == "topk":
        weights = _softmax(numbers.gather(1, chosen))
    else:
        weights = (torch.sigmoid(numbers) if routing == "sigmoid" else _softmax(numbers)).gather(1, chosen)
        if renormalise:
            weights = weights / (weights.sum(-1, keepdim=True) + 1e-20)
    return torch.where(ids >= 0, weights * scaling, 0.0)


def _softmax_backward(grad: Tensor, numbers: Tensor) -> Tensor:
    weights = _softmax(numbers)
    found = weights * (grad - (grad * weights).sum(-1, keepdim=True))
    return torch.where(numbers.amax(-1, keepdim=True).isinf(), 0.0, found)  # no finite change of a logit changes a weight


def _weigh_backward(grad: Tensor, logits: Tensor, ids: Tensor, routing: str, renormalise: bool, scaling: float) -> Tensor:
    """The gradient of the logits from that of the weights."""
    chosen, numbers = ids.clamp(min=0).long(), _read(logits, ids)
    grad = torch.where(ids >= 0, grad * scaling, 0.0)
    if routing == "topk":
        d_chosen = _softmax_backward(grad, numbers.gather(1, chosen))
        return torch.zeros_like(numbers).scatter_add(1, chosen, d_chosen).to(logits.dtype)
    shares = torch.sigmoid(numbers) if routing == "sigmoid" else _softmax(numbers)
    if renormalise:
        weights = shares.gather(1, chosen)
        total = weights.sum(-1, keepdim=True) + 1e-20
        grad = (grad - (grad * weights).sum(-1, keepdim=True) / total) / total
    d_shares = torch.zeros_like(numbers).scatter_add(1, chosen, grad)
    d_logits = d_shares * shares * (1 - shares) if routing == "sigmoid" else _softmax_backward(d_shares, numbers)
    return d_logits.to(logits.dtype)


class _Expert:
    """The output of an expert for its tokens, in float32, and its gradients."""

    def __init__(self, x, w1, w2, w3, b1, b2, b3, e, activation, alpha, limit, interleaved, transposed):
        def weight(w):
            return w[e].float().T if transposed else w[e].float()

        def product(w, b, of):
            out = of @ w.T
            return out if b is None else out + b[e].float()

        self.x, self.activation, self.alpha, self.limit = x.float(), activation, alpha, limit
        self.transposed, self.interleaved = transposed, interleaved
        self.w1, self.w2, self.w3 = weight(w1), weight(w2), None if w3 is None else weight(w3)
        self.gate, self.up = product(self.w1, b1, self.x), None
        if w3 is not None:
            self.up = product(self.w3, b3, self.x)
        elif activation not in UNGATED:
            self.gate, self.up = (self.gate[:, ::2], self.gate[:, 1::2]) if interleaved else self.gate.chunk(2, -1)
        self.h = _activate(activation, self.gate, self.up, alpha, limit)
        self.product_with_w2 = lambda: product(self.w2, b2, self.h)

    @property
    def out(self):
        return self.product_with_w2()

    def backward(self, grad, of_x, of_w1, of_w2, of_w3, of_b1, of_b2, of_b3):
        """The gradients of x, w1, w2, w3, b1, b2 and b3; None where it is not needed."""
        turn = (lambda w: w.T) if self.transposed else (lambda w: w)
        d_w2, d_b2 = turn(grad.T @ self.h) if of_w2 else None, grad.sum(0) if of_b2 else None
        if not (of_x or of_w1 or of_w3 or of_b1 or of_b3):
            return None, None, d_w2, None, None, d_b2, None
        d_first, d_up = _activate_backward(self.activation, grad @ self.w2, self.gate, self.up, self.alpha, self.limit)
        if self.w3 is None and d_up is not None:
            d_first = torch.stack((d_first, d_up), -1).flatten(1) if self.interleaved else torch.cat((d_first, d_up), -1)
        d_x = d_first @ self.w1 if of_x else None
        if of_x and self.w3 is not None:
            d_x = d_x + d_up @ self.w3
        return (d_x, turn(d_first.T @ self.x) if of_w1 else None, d_w2, turn(d_up.T @ self.x) if of_w3 else None,
                d_first.sum(0) if of_b1 else None, d_b2, d_up.sum(0) if of_b3 else None)


def _add_rows(whole: Tensor, token: Tensor, rows: Tensor) -> None:
    """whole[token] += rows. `token` is sorted; rows of the same token are added in order, so that the bits are the same
    from run to run on a GPU too."""
    which, counts = torch.unique_consecutive(token, return_counts=True)
    whole.index_add_(0, which, torch.segment_reduce(rows, "sum", lengths=counts, axis=0))


@torch.library.custom_op("attest::moe_backward", mutates_args=())
def _moe_backward(grad: Optional[Tensor], grad_shares: Optional[Tensor], x: Tensor, w1: Tensor, w2: Tensor, logits: Optional[Tensor],
                  weights: Optional[Tensor], w3: Optional[Tensor], b1: Optional[Tensor], b2: Optional[Tensor], b3: Optional[Tensor],
                  ids: Tensor, activation: str, routing: str, renormalise: bool, scaling: float, alpha: float, limit: float,
                  interleaved: bool, transposed: bool, first_expert: int,
                  needs: int) -> Tuple[Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, Tensor]:
    """The gradients of x, w1, w2, logits, weights, w3, b1, b2 and b3, from those of y and of the weights of the selected
    experts; empty where the bit of the input is not set in `needs`."""
    with torch.autocast(x.device.type, enabled=False):
        return _gradients(grad, grad_shares, x, w1, w2, logits, weights, w3, b1, b2, b3, ids, activation, routing, renormalise, scaling,
                          alpha, limit, interleaved, transposed, first_expert, _bits(needs))


def _bits(needs: int) -> Tuple[bool, ...]:
    return tuple(bool(needs >> i & 1) for i in range(9))


def _gradients(grad, grad_shares, x, w1, w2, logits, weights, w3, b1, b2, b3, ids, activation, routing, renormalise, scaling, alpha,
               limit, interleaved, transposed, first_expert, needs):
    of_x, of_w1, of_w2, of_logits, of_weights, *of_others = needs
    of_shares, of_expert = of_logits or of_weights, (of_w1, of_w2, *of_others)
    shares = weights * scaling if logits is None else _weigh(logits, ids, routing, renormalise, scaling)
    d_x, d_shares = x.new_zeros(x.shape, dtype=torch.float32) if of_x else None, torch.zeros_like(shares)
    is_named_once = logits is not None  # a token's selected experts differ; ids of the caller need not
    of_experts = [t.new_zeros(t.shape) if need else None for need, t in zip(of_expert, (w1, w2, w3, b1, b2, b3))]
    for e in range(0 if grad is None else w1.shape[0]):
        token, slot = torch.nonzero(ids == first_expert + e, as_tuple=True)
        if not len(token):
            continue
        expert = _Expert(x[token], w1, w2, w3, b1, b2, b3, e, activation, alpha, limit, interleaved, transposed)
        rows = grad[token].float()
        if of_shares:
            d_shares[token, slot] = (rows * expert.out).sum(-1)
        d_rows, *found = expert.backward(rows * shares[token, slot].unsqueeze(-1), of_x, *of_expert)
        if of_x and is_named_once:
            d_x.index_add_(0, token, d_rows)
        elif of_x:
            _add_rows(d_x, token, d_rows)
        for whole, part in zip(of_experts, found):
            if whole is not None:
                whole[e] = part.to(whole.dtype)
    if grad_shares is not None:
        d_shares += grad_shares
    d_x = d_x.to(x.dtype) if of_x else None
    d_logits = _weigh_backward(d_shares, logits, ids, routing, renormalise, scaling) if of_logits else None
    d_weights = torch.where(ids >= 0, d_shares * scaling, 0.0) if of_weights else None
    every = (d_x, *of_experts[:2], d_logits, d_weights, *of_experts[2:])
    return tuple(x.new_empty(0) if t is None else t for t in every)


@_moe_backward.register_fake
def _(grad, grad_shares, x, w1, w2, logits, weights, w3, b1, b2, b3, ids, activation, routing, renormalise, scaling, alpha, limit,
      interleaved, transposed, first_expert, needs):
    every = (x, w1, w2, logits, weights, w3, b1, b2, b3)
    return tuple(t.new_empty(t.shape) if need else x.new_empty(0) for need, t in zip(_bits(needs), every))


def _keep(ctx, inputs, output):
    (x, w1, w2, logits, given_ids, weights, w3, b1, b2, b3, _, _, _, activation, routing, renormalise, scaling, alpha, limit, _, _,
     interleaved, transposed, _, first_expert) = inputs
    ctx.save_for_backward(x, w1, w2, logits, weights, w3, b1, b2, b3, output[1])
    ctx.options = (activation, routing or "softmax", renormalise is not False, scaling, ALPHA if alpha is None else alpha,
                   LIMIT if limit is None else limit, interleaved, transposed, first_expert)
    ctx.mark_non_differentiable(output[1], output[3])
    ctx.set_materialize_grads(False)


def _backward(ctx, grad, _ids, grad_shares, _counts, by=_moe_backward):
    needs = [ctx.needs_input_grad[i] for i in (0, 1, 2, 3, 5, 6, 7, 8, 9)]  # without the ids
    found = by(grad, grad_shares, *ctx.saved_tensors, *ctx.options, sum(need << i for i, need in enumerate(needs)))
    d_x, d_w1, d_w2, d_logits, d_weights, d_w3, d_b1, d_b2, d_b3 = (g if need else None for g, need in zip(found, needs))
    return (d_x, d_w1, d_w2, d_logits, None, d_weights, d_w3, d_b1, d_b2, d_b3) + (None,) * 15


_moe.register_autograd(_backward, setup_context=_keep)


def _refuse_double_backward(ctx, *grads):
    raise UnsupportedError("attest has no double backward: the gradients of attest.torch.moe() have no derivative of their own")


_moe_backward.register_autograd(_refuse_double_backward, setup_context=lambda ctx, inputs, output: None)


class _TransformedBackward(torch.autograd.Function):
    """The operator for torch.func, whose transforms need the rules of an autograd.Function."""

    forward = staticmethod(lambda *arguments: _moe_backward(*arguments))
    setup_context = staticmethod(lambda ctx, inputs, output: None)
    backward = staticmethod(_refuse_double_backward)

    @staticmethod
    def vmap(info, in_dims, *arguments):
        return one_by_one(_TransformedBackward.apply, info.batch_size, arguments, in_dims)


class _Transformed(torch.autograd.Function):
    """The operator for torch.func; without it, torch.func.jvp would find derivatives of 0."""

    forward = staticmethod(lambda *arguments: _moe(*arguments))
    setup_context = staticmethod(_keep)
    backward = staticmethod(lambda ctx, *grads: _backward(ctx, *grads, by=_TransformedBackward.apply))

    @staticmethod
    def vmap(info, in_dims, *arguments):
        return one_by_one(_Transformed.apply, info.batch_size, arguments, in_dims)


def _rows(t: Optional[Tensor]) -> Optional[Tensor]:
    """As (tokens, columns), its last axis contiguous."""
    if t is None:
        return None
    t = t if t.dim() == 2 else t.reshape(-1, t.shape[-1])
    return t if t.stride(-1) == 1 or t.shape[-1] == 1 else t.contiguous()


def _numbers(ids: Tensor) -> Tensor:
    """As int32; what int32 does not hold stays out of range."""
    if ids.dtype not in (torch.int32, torch.bool) and not ids.is_floating_point():  # the extension refuses these
        ids = ids.long().clamp(-2**31, 2**31 - 1).to(torch.int32)
    return _rows(ids).contiguous()


def _autocast(x, w1, w2, w3, *others):
    """The tensors as torch.autocast asks for here: x and the weights of the experts in its dtype, others in float32,
    which the extension takes with every type."""
    if x.device.type not in ("cpu", "cuda") or not torch.is_autocast_enabled(x.device.type):
        return (x, w1, w2, w3, *others)
    x, w1, w2, w3 = autocast(x, w1, w2, w3)
    return (x, w1, w2, w3, *(None if t is None else t.float() for t in others))


_is_any_autocast = getattr(torch._C, "_is_any_autocast_enabled", lambda: True)  # True: look at the device's


def moe(x: Tensor, w1: Tensor, w2: Tensor, *, logits: Optional[Tensor] = None, ids: Optional[Tensor] = None,
        weights: Optional[Tensor] = None, w3: Optional[Tensor] = None, b1: Optional[Tensor] = None, b2: Optional[Tensor] = None,
        b3: Optional[Tensor] = None, correction: Optional[Tensor] = None, mask: Optional[Tensor] = None, top_k: Optional[int] = None,
        activation: str = "swiglu", routing: Optional[str] = None, renormalise: Optional[bool] = None, scaling: float = 1.0,
        alpha: Optional[float] = None, limit: Optional[float] = None, groups: int = 1, groups_kept: int = 1,
        interleaved: bool = False, transposed: bool = False, experts: Optional[int] = None, first_expert: int = 0,
        return_routing: bool = False) -> Union[Tensor, Tuple[Tensor, Tensor, Tensor, Tensor]]:
    """attest.moe() for PyTorch's tensors, with gradients and under torch.compile.

    The arguments are those of attest.moe(), without `out`. x may have more axes before its last; logits, ids, weights
    and mask then have as many. ids may be int64, and correction of any floating-point type. torch.autocast casts x, w1,
    w2 and w3, so y has its dtype.

    Differentiable in x, all weights and biases, and logits or weights, through y and through the weights that
    return_routing=True returns; the selection, the ids and the counts have no gradient. PyTorch's own operators compute
    the gradients. torch.func.vmap computes one entry after another.
    """
    if ids is None and (logits is None or top_k is None):
        raise TypeError("logits and top_k are missing, or else ids and weights")
    if x.dim() > 2:
        check_axes(x.shape, logits=logits, ids=ids, weights=weights, mask=mask)
    is_compiling = torch.compiler.is_compiling()
    if is_compiling or _is_any_autocast():
        x, w1, w2, w3, b1, b2, b3, logits = _autocast(x, w1, w2, w3, b1, b2, b3, logits)
    if ids is not None:
        ids = _numbers(ids)
        weights = None if weights is None else _rows(weights).float().contiguous()
    correction = None if correction is None else correction.float()  # model.to(bfloat16) casts it too
    rows, logits, mask = _rows(x), _rows(logits), None if mask is None else mask.reshape(-1).contiguous()
    if not is_compiling and is_plain(rows, w1, w2, logits, ids, weights, w3, b1, b2, b3, correction, mask) and \
            not is_transformed() and not needs_gradient(rows, w1, w2, logits, weights, w3, b1, b2, b3):
        answer = _core_moe(rows, w1, w2, logits=logits, ids=ids, weights=weights, w3=w3, b1=b1, b2=b2, b3=b3, correction=correction,
                           mask=mask, top_k=top_k, activation=activation, routing=routing, renormalise=renormalise, scaling=scaling,
                           alpha=alpha, limit=limit, groups=groups, groups_kept=groups_kept, interleaved=interleaved,
                           transposed=transposed, experts=experts, first_expert=first_expert, return_routing=return_routing)
    else:
        if experts is None:
            experts = logits.shape[-1] if logits is not None else first_expert + w1.shape[0]
        operator = _Transformed.apply if not is_compiling and is_transformed() else _moe
        answer = operator(rows, w1, w2, logits, ids, weights, w3, b1, b2, b3, correction, mask, top_k, activation, routing, renormalise,
                          float(scaling), None if alpha is None else float(alpha), None if limit is None else float(limit), groups,
                          groups_kept, interleaved, transposed, experts, first_expert)
        answer = answer if return_routing else answer[0]
    if not return_routing:
        return answer if x.dim() == 2 else answer.reshape(x.shape)
    y, ids, shares, counts = answer
    slots = (*x.shape[:-1], ids.shape[-1])
    return y.reshape(x.shape), ids.reshape(slots), shares.reshape(slots), counts
