"""experts.py: the group `experts`: layers of experts from router logits to output, beside PyTorch.

`grouped_mm` chooses and sorts experts with PyTorch's operators, gathers rows, and computes two grouped products with
the activation between them, then the weighted sum. `loop`, on a CPU, is what models do without it: for each expert that
has tokens, gather them, two matrix products with the activation between them, and add the weighted result to the
output. Calls rotate through sets of tokens that go to different experts.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Callable, Dict, List, Sequence, Tuple

import torch
from torch.nn import functional

import attest

from .layers import Problem
from .rivals import DTYPES
from .samples import Subject

TOKEN_BYTES = 64 << 20  # of all sets of tokens together, approximately
SETS_MOST = 16
CHECKED = 3  # number of tokens whose answer is compared with float32 math
ALPHA, LIMIT = 1.702, 7.0  # gpt-oss


@dataclass
class Inputs:
    """Weights, and sets of tokens: (x, logits)."""

    problem: Problem
    w1: torch.Tensor
    w2: torch.Tensor
    biases: Dict[str, torch.Tensor]
    tensors: List[Tuple[torch.Tensor, torch.Tensor]]
    outputs: List[torch.Tensor]


_kept: Dict[Tuple[str, str], Any] = {}  # the weights of the last model and type


def _weights(problem: Problem, device: str):
    key = problem.model, problem.dtype
    if key not in _kept:
        _kept.clear()
        torch.cuda.empty_cache()
        layer, generator = problem.layer, torch.Generator(device).manual_seed(7)

        def make(*shape, scale=1.0, dtype=DTYPES[problem.dtype]):
            made = torch.empty(shape, device=device, dtype=dtype)
            return made.normal_(generator=generator).mul_(scale)

        e, h, i = layer.experts, layer.hidden, layer.inner
        biases = {}
        if "b1" in layer.words:
            biases = {"b1": make(e, 2 * i), "b2": make(e, h)}
        if "correction" in layer.words:
            biases["correction"] = make(e, scale=1e-3, dtype=torch.float32)
        _kept[key] = make(e, 2 * i, h, scale=h**-0.5), make(e, h, i, scale=i**-0.5), biases
    return _kept[key]


def make_inputs(problem: Problem, device: str, copies: int) -> Inputs:
    """Seeded normal data. There are enough sets of tokens that the weights used by one set leave the cache before
    they are used again."""
    del copies
    layer, generator = problem.layer, torch.Generator(device).manual_seed(problem.tokens)
    sets = max(2, min(SETS_MOST, TOKEN_BYTES // problem.input_bytes))
    shift = -torch.arange(1, layer.experts + 1, device=device).log() if problem.zipf else 0.0
    tensors = []
    for _ in range(sets):
        x = torch.randn(problem.tokens, layer.hidden, device=device, generator=generator).to(DTYPES[problem.dtype])
        uniform = torch.rand(problem.tokens, layer.experts, device=device, generator=generator)
        # taking the k largest is drawing k without replacement
        tensors.append((x, shift - (-uniform.clamp_min(1e-30).log()).log()))
    outputs = [torch.full_like(x, float("nan")) for x, _ in tensors]
    return Inputs(problem, *_weights(problem, device), tensors, outputs)


def _options(inputs: Inputs) -> Dict[str, Any]:
    """The arguments of attest.moe()."""
    problem, made = inputs.problem, dict(inputs.biases)
    made["top_k"] = problem.layer.k
    if problem.model == "gpt-oss":
        made.update(activation="swiglu-clamped", interleaved=True, routing="topk", alpha=ALPHA, limit=LIMIT)
    if problem.model == "deepseek-v3":
        made.update(routing="sigmoid", scaling=2.5, groups=8, groups_kept=4)
    return made


def _attest(inputs: Inputs) -> Callable:
    options, calls, outputs = _options(inputs), inputs.tensors, inputs.outputs

    def call(i):
        x, logits = calls[i % len(calls)]
        return attest.moe(x, inputs.w1, inputs.w2, logits=logits, out=outputs[i % len(calls)], **options)

    return call


def route(inputs: Inputs, logits: torch.Tensor) -> Tuple[torch.Tensor, torch.Tensor]:
    """(weights, ids) of the experts of the tokens, with PyTorch's operators."""
    layer, model = inputs.problem.layer, inputs.problem.model
    if model == "gpt-oss":
        best, ids = logits.topk(layer.k, -1)
        return best.softmax(-1), ids
    if model != "deepseek-v3":
        weights, ids = logits.softmax(-1).topk(layer.k, -1)
        return weights / weights.sum(-1, keepdim=True), ids
    scores = logits.sigmoid()
    chosen = (scores + inputs.biases["correction"]).view(len(logits), 8, -1)
    kept = chosen.topk(2, -1)[0].sum(-1).topk(4, -1)[1]
    open_groups = torch.zeros_like(chosen[..., 0]).scatter_(1, kept, 1.0)[..., None].expand_as(chosen)
    ids = chosen.masked_fill(open_groups == 0, -torch.inf).flatten(1).topk(layer.k, -1)[1]
    weights = scores.gather(1, ids)
    return weights / weights.sum(-1, keepdim=True) * 2.5, ids


def _activate(model: str, both: torch.Tensor) -> torch.Tensor:
    if model == "gpt-oss":
        gate, up = both[..., ::2].clamp(max=LIMIT), both[..., 1::2].clamp(-LIMIT, LIMIT)
        return (up + 1) * (gate * torch.sigmoid(ALPHA * gate))
    gate, up = both.chunk(2, -1)
    return functional.silu(gate) * up


def _grouped_mm(inputs: Inputs) -> Callable:
    """Fails if this PyTorch has no grouped_mm."""
    problem, layer, calls = inputs.problem, inputs.problem.layer, inputs.tensors
    product, biases = functional.grouped_mm, inputs.biases
    w1, w2 = inputs.w1.transpose(1, 2), inputs.w2.transpose(1, 2)
    experts = torch.arange(layer.experts, device=w1.device)

    def call(i):
        x, logits = calls[i % len(calls)]
        weights, ids = route(inputs, logits)
        sorted_ids, order = ids.flatten().sort(stable=True)
        ends = torch.searchsorted(sorted_ids, experts, right=True).to(torch.int32)
        both = product(x[order // layer.k], w1, offs=ends)
        if "b1" in biases:
            both = both + biases["b1"][sorted_ids]
        parts = product(_activate(problem.model, both), w2, offs=ends)
        if "b2" in biases:
            parts = parts + biases["b2"][sorted_ids]
        back = torch.empty_like(order).scatter_(0, order, torch.arange(len(order), device=order.device))
        slots = parts[back].view(len(x), layer.k, -1)
        return (slots * weights[..., None].to(slots.dtype)).sum(1)

    return call


def _loop(inputs: Inputs) -> Callable:
    """Without biases, which the CPU's problems do not have."""
    layer, calls, w1, w2 = inputs.problem.layer, inputs.tensors, inputs.w1, inputs.w2

    def call(i):
        x, logits = calls[i % len(calls)]
        weights, ids = route(inputs, logits)
        y = torch.zeros_like(x)
        for e in ids.unique().tolist():
            tokens, slots = torch.where(ids == e)
            h = _activate(inputs.problem.model, functional.linear(x[tokens], w1[e]))
            y.index_add_(0, tokens, functional.linear(h, w2[e]) * weights[tokens, slots, None].to(x.dtype))
        return y

    return call


ATTEST = Subject("attest", "attest", _attest)


def find(names: Sequence[str], device: str) -> Dict[str, Subject]:
    version = torch.__version__.partition("+")[0]
    found = {}
    if names and device == "cpu":
        found["loop"] = Subject("loop", f"PyTorch {version} loop over experts", _loop)
    if names and hasattr(functional, "grouped_mm"):
        found["grouped_mm"] = Subject("grouped_mm", f"PyTorch {version} grouped_mm", _grouped_mm)
    return found


class Checker:
    """Checks the answers for some tokens against exact math: float32 for bfloat16, float64 for float32. The bar is
    twice the error of plain math in the problem's type, plus four ulp of float32."""

    def __init__(self, inputs: Inputs) -> None:
        x, logits = (each[:CHECKED] for each in inputs.tensors[0])
        weights, ids = route(inputs, logits)
        self._exact = torch.stack([self._token(inputs, *each, rounded=False) for each in zip(x, weights, ids)])
        plain = torch.stack([self._token(inputs, *each, rounded=True) for each in zip(x, weights, ids)])
        self.plain = (plain - self._exact).abs().max().item()
        self.bar = 2 * self.plain + 4 * torch.finfo(torch.float32).eps * self._exact.abs().max().item()

    @staticmethod
    def _token(inputs: Inputs, x, weights, ids, rounded: bool):
        wide = torch.float64 if x.dtype == torch.float32 and not rounded else torch.float32
        y = torch.zeros(inputs.problem.layer.hidden, device=x.device, dtype=wide)
        for weight, e in zip(weights, ids.tolist()):
            both = inputs.w1[e].to(wide) @ x.to(wide)
            if "b1" in inputs.biases:
                both = both + inputs.biases["b1"][e].to(wide)
            h = _activate(inputs.problem.model, both)
            part = inputs.w2[e].to(wide) @ (h.to(x.dtype).to(wide) if rounded else h)
            if "b2" in inputs.biases:
                part = part + inputs.biases["b2"][e].to(wide)
            y += weight * part
        return y.to(x.dtype).to(wide) if rounded else y

    def judge(self, output, rival: bool):
        """(error, what is wrong with it)."""
        error = (output[:CHECKED].to(self._exact.dtype) - self._exact).abs().max().item()
        bar = self.bar * (4 if rival else 1)
        return error, "" if error <= bar else f"wrong: error {error:.3g}, bar {bar:.3g}"
