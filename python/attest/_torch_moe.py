"""_torch_moe.py: attest.torch.moe(), the operator torch.ops.attest.moe with its gradient.

PyTorch's operators compute the gradient, expert by expert, in a separate operator: attest has no kernel for it yet.
"""

from __future__ import annotations

from typing import Optional, Tuple, Union

import torch
import torch.nn.functional as functional
from torch import Tensor

from ._core import moe as _core_moe
from ._moe_names import UNGATED


@torch.library.custom_op("attest::moe", mutates_args=())
def _moe(x: Tensor, w1: Tensor, w2: Tensor, logits: Optional[Tensor], ids: Optional[Tensor], weights: Optional[Tensor],
         w3: Optional[Tensor], b1: Optional[Tensor], b2: Optional[Tensor], b3: Optional[Tensor], correction: Optional[Tensor],
         mask: Optional[Tensor], top_k: int, activation: str, routing: str, renormalise: bool, scaling: float, alpha: float,
         limit: float, groups: int, groups_kept: int, interleaved: bool, transposed: bool, experts: int,
         first_expert: int) -> Tuple[Tensor, Tensor, Tensor, Tensor]:
    """(y, ids, weights, counts) for tokens in the form of attest.moe()."""
    given = dict(ids=ids, weights=weights) if ids is not None else \
        dict(logits=logits, top_k=top_k, routing=routing, renormalise=renormalise)
    with torch.no_grad():
        return _core_moe(x, w1, w2, **given, w3=w3, b1=b1, b2=b2, b3=b3, correction=correction, mask=mask, activation=activation,
                         scaling=scaling, alpha=alpha, limit=limit, groups=groups, groups_kept=groups_kept, interleaved=interleaved,
                         transposed=transposed, experts=experts, first_expert=first_expert, return_routing=True)


@_moe.register_fake
def _(x, w1, w2, logits, ids, weights, w3, b1, b2, b3, correction, mask, top_k, activation, routing, renormalise, scaling, alpha,
      limit, groups, groups_kept, interleaved, transposed, experts, first_expert):
    slots = (x.shape[0], top_k)
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


def _weigh(logits: Tensor, ids: Tensor, routing: str, renormalise: bool, scaling: float) -> Tensor:
    """The weights of the selected experts, from the logits."""
    chosen = ids.clamp(min=0).long()
    logits = logits.float()
    if routing == "topk":
        weights = torch.softmax(logits.gather(1, chosen), -1)
    else:
        weights = (torch.sigmoid(logits) if routing == "sigmoid" else torch.softmax(logits, -1)).gather(1, chosen)
        if renormalise:
            weights = weights / (weights.sum(-1, keepdim=True) + 1e-20)
    return torch.where(ids >= 0, weights * scaling, 0.0)


def _softmax_backward(grad: Tensor, weights: Tensor) -> Tensor:
    return weights * (grad - (grad * weights).sum(-1, keepdim=True))


def _weigh_backward(grad: Tensor, logits: Tensor, ids: Tensor, routing: str, renormalise: bool, scaling: float) -> Tensor:
    """The gradient of the logits from that of the weights."""
    chosen = ids.clamp(min=0).long()
    numbers = logits.float()
    grad = torch.where(ids >= 0, grad * scaling, 0.0)
    if routing == "topk":
        d_chosen = _softmax_backward(grad, torch.softmax(numbers.gather(1, chosen), -1))
        return torch.zeros_like(numbers).scatter_add(1, chosen, d_chosen).to(logits.dtype)
    shares = torch.sigmoid(numbers) if routing == "sigmoid" else torch.softmax(numbers, -1)
    if renormalise:
        weights = shares.gather(1, chosen)
        total = weights.sum(-1, keepdim=True) + 1e-20
        grad = (grad - (grad * weights).sum(-1, keepdim=True) / total) / total
        grad = torch.where(ids >= 0, grad, 0.0)
    d_shares = torch.zeros_like(numbers).scatter_add(1, chosen, grad)
    d_logits = d_shares * shares * (1 - shares) if routing == "sigmoid" else _softmax_backward(d_shares, shares)
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
        self.out = product(self.w2, b2, self.h)

    def backward(self, grad):
        """The gradients of x, w1, w2, w3, b1, b2 and b3."""
        d_gate, d_up = _activate_backward(self.activation, grad @ self.w2, self.gate, self.up, self.alpha, self.limit)
        d_w2, d_w3, d_b3 = grad.T @ self.h, None, None
        if self.w3 is not None:
            d_first, d_w3, d_b3 = d_gate, d_up.T @ self.x, d_up.sum(0)
            d_x = d_gate @ self.w1 + d_up @ self.w3
        else:
            d_first = d_gate if d_up is None else torch.stack((d_gate, d_up), -1).flatten(1) if self.interleaved else \
                torch.cat((d_gate, d_up), -1)
            d_x = d_first @ self.w1
        turn = (lambda w: w.T) if self.transposed else (lambda w: w)
        return (d_x, turn(d_first.T @ self.x), turn(d_w2), None if d_w3 is None else turn(d_w3), d_first.sum(0), grad.sum(0), d_b3)


@torch.library.custom_op("attest::moe_backward", mutates_args=())
def _moe_backward(grad: Tensor, x: Tensor, w1: Tensor, w2: Tensor, logits: Optional[Tensor], weights: Optional[Tensor],
                  w3: Optional[Tensor], b1: Optional[Tensor], b2: Optional[Tensor], b3: Optional[Tensor], ids: Tensor, activation: str,
                  routing: str, renormalise: bool, scaling: float, alpha: float, limit: float, interleaved: bool, transposed: bool,
                  first_expert: int) -> Tuple[Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, Tensor]:
    """The gradients of x, w1, w2, logits, weights, w3, b1, b2 and b3; empty where there is no such input."""
    shares = weights * scaling if logits is None else _weigh(logits, ids, routing, renormalise, scaling)
    d_x, d_shares = x.new_zeros(x.shape, dtype=torch.float32), torch.zeros_like(shares)
    of_experts = [None if t is None else t.new_zeros(t.shape) for t in (w1, w2, w3, b1, b2, b3)]
    for e in range(w1.shape[0]):
        token, slot = torch.nonzero(ids == first_expert + e, as_tuple=True)
        if not len(token):
            continue
        expert = _Expert(x[token], w1, w2, w3, b1, b2, b3, e, activation, alpha, limit, interleaved, transposed)
        rows = grad[token].float()
        d_shares[token, slot] = (rows * expert.out).sum(-1)
        d_rows, *found = expert.backward(rows * shares[token, slot].unsqueeze(-1))
        d_x.index_add_(0, token, d_rows)
        for whole, part in zip(of_experts, found):
            if whole is not None:
                whole[e] = part.to(whole.dtype)
    nothing = grad.new_empty(0)
    d_w1, d_w2, d_w3, d_b1, d_b2, d_b3 = (nothing.clone() if t is None else t for t in of_experts)
    d_logits = nothing.clone() if logits is None else _weigh_backward(d_shares, logits, ids, routing, renormalise, scaling)
    d_weights = nothing.clone() if weights is None else torch.where(ids >= 0, d_shares * scaling, 0.0)
    return d_x.to(x.dtype), d_w1, d_w2, d_logits, d_weights, d_w3, d_b1, d_b2, d_b3


@_moe_backward.register_fake
def _(grad, x, w1, w2, logits, weights, w3, b1, b2, b3, ids, activation, routing, renormalise, scaling, alpha, limit, interleaved,
      transposed, first_expert):
    return tuple(grad.new_empty(0) if t is None else t.new_empty(t.shape) for t in (x, w1, w2, logits, weights, w3, b1, b2, b3))


def _keep(ctx, inputs, output):
    (x, w1, w2, logits, given_ids, weights, w3, b1, b2, b3, _, _, _, activation, routing, renormalise, scaling, alpha, limit, _, _,
     interleaved, transposed, _, first_expert) = inputs
    ctx.save_for_backward(x, w1, w2, logits, weights, w3, b1, b2, b3, output[1])
    ctx.options = (activation, routing, renormalise, scaling, alpha, limit, interleaved, transposed, first_expert)
    ctx.mark_non_differentiable(*output[1:])


def _backward(ctx, grad, *_):
    saved = ctx.saved_tensors
    d_x, d_w1, d_w2, d_logits, d_weights, d_w3, d_b1, d_b2, d_b3 = \
        (g if t is not None else None for g, t in zip(_moe_backward(grad, *saved, *ctx.options), saved))
    return (d_x, d_w1, d_w2, d_logits, None, d_weights, d_w3, d_b1, d_b2, d_b3) + (None,) * 15


_moe.register_autograd(_backward, setup_context=_keep)


def _rows(t: Optional[Tensor]) -> Optional[Tensor]:
    """As (tokens, columns), its last axis contiguous."""
    if t is None:
        return None
    t = t.reshape(-1, t.shape[-1])
    return t if t.stride(-1) == 1 or t.shape[-1] == 1 else t.contiguous()


def moe(x: Tensor, w1: Tensor, w2: Tensor, *, logits: Optional[Tensor] = None, ids: Optional[Tensor] = None,
        weights: Optional[Tensor] = None, w3: Optional[Tensor] = None, b1: Optional[Tensor] = None, b2: Optional[Tensor] = None,
        b3: Optional[Tensor] = None, correction: Optional[Tensor] = None, mask: Optional[Tensor] = None, top_k: Optional[int] = None,
        activation: str = "swiglu", routing: str = "softmax", renormalise: bool = True, scaling: float = 1.0, alpha: float = 1.702,
        limit: float = 7.0, groups: int = 1, groups_kept: int = 1, interleaved: bool = False, transposed: bool = False,
        experts: Optional[int] = None, first_expert: int = 0,
        return_routing: bool = False) -> Union[Tensor, Tuple[Tensor, Tensor, Tensor, Tensor]]:
    """attest.moe() for PyTorch's tensors, with gradients and under torch.compile.

    The arguments are those of attest.moe(), without `out`. x may have more axes before its last; logits, ids, weights
    and mask then have as many. ids may be int64. Differentiable in x, all weights and biases, and logits or weights:
    the weights of the selected experts have a gradient, the selection has none. PyTorch's own operators compute the
    gradients.
    """
    if ids is None and (logits is None or top_k is None):
        raise TypeError("logits and top_k are missing, or else ids and weights")
    if ids is not None:
        ids = _rows(ids).to(torch.int32).contiguous()
        weights = None if weights is None else _rows(weights).float().contiguous()
        if weights is None:
            raise TypeError("weights is missing: those of ids")
        if logits is not None:
            raise ValueError("logits is given, but ids say where tokens go")
        top_k, routing, renormalise = ids.shape[1], "softmax", False
    elif weights is not None:
        raise ValueError("weights is given, but ids are not")
    if experts is None:
        experts = logits.shape[-1] if logits is not None else first_expert + w1.shape[0]
    y, ids, shares, counts = _moe(_rows(x), w1, w2, _rows(logits), ids, weights, w3, b1, b2, b3, correction,
                                  None if mask is None else mask.reshape(-1).contiguous(), top_k, activation, routing, renormalise,
                                  float(scaling), float(alpha), float(limit), groups, groups_kept, interleaved, transposed, experts,
                                  first_expert)
    y = y.reshape(x.shape)
    if not return_routing:
        return y
    slots = (*x.shape[:-1], top_k)
    return y, ids.reshape(slots), shares.reshape(slots), counts
