"""gradients.py: the groups of gradients: the subjects, how each is called, and the check of their answers against
float32 math.

Each subject makes its own forward pass before the clock starts; then only its gradients are timed, with the operators
that autograd would call, so that they fit in a CUDA graph. A call returns d_q, d_k and d_v as (batch, seq, heads, d).
"""

from __future__ import annotations

import math
from typing import Callable, Dict, Sequence, Tuple

import torch

import attest

from .problems import Problem
from .rivals import Inputs, Refused, import_flash_3
from .samples import Subject

ROWS_AT_ONCE = 2048
RIVAL_SLACK = 4  # as in check.py
aten = torch.ops.aten


def _attest(inputs: Inputs) -> Callable:
    options = {"causal": "top-left" if inputs.problem.causal else None, "layout": "bshd"}
    forward = [attest.attention(*tensors, return_lse=True, **options) for tensors in inputs.tensors]
    calls = list(zip(inputs.tensors, forward, inputs.d_o, inputs.outputs))

    def call(i):
        tensors, (o, lse), d_o, out = calls[i % len(calls)]
        return attest.backward(*tensors, o, lse, d_o, out=out, **options)

    return call


def _flash(q, k, v, causal):
    """The forward pass of PyTorch's FlashAttention-2, and the call for its gradients."""
    if not q.is_cuda:
        o, lse = aten._scaled_dot_product_flash_attention_for_cpu(q, k, v, 0.0, causal)
        return lambda d_o: aten._scaled_dot_product_flash_attention_for_cpu_backward(d_o, q, k, v, o, lse, 0.0, causal)
    o, lse, cum_q, cum_k, max_q, max_k, seed, offset, _ = aten._scaled_dot_product_flash_attention(q, k, v, 0.0, causal, False)
    return lambda d_o: aten._scaled_dot_product_flash_attention_backward(
        d_o, q, k, v, o, lse, cum_q, cum_k, max_q, max_k, 0.0, causal, seed, offset)


def _cudnn(q, k, v, causal):
    o, lse, cum_q, cum_k, max_q, max_k, seed, offset, _ = aten._scaled_dot_product_cudnn_attention(
        q, k, v, None, True, 0.0, causal, False)
    return lambda d_o: aten._scaled_dot_product_cudnn_attention_backward(
        d_o, q, k, v, o, lse, seed, offset, None, cum_q, cum_k, max_q, max_k, 0.0, causal)


def _efficient(q, k, v, causal):
    o, lse, seed, offset = aten._scaled_dot_product_efficient_attention(q, k, v, None, True, 0.0, causal)
    return lambda d_o: aten._scaled_dot_product_efficient_attention_backward(
        d_o, q, k, v, None, o, lse, seed, offset, 0.0, [True, True, True, False], causal)[:3]


def _by_operator(forward) -> Callable:
    def prepare(inputs: Inputs) -> Callable:
        heads_first = [[x.transpose(1, 2) for x in tensors] for tensors in inputs.tensors]
        backward = [forward(*tensors, inputs.problem.causal) for tensors in heads_first]
        d_o = [x.transpose(1, 2) for x in inputs.d_o]
        return lambda i: tuple(x.transpose(1, 2) for x in backward[i % len(backward)](d_o[i % len(d_o)]))

    return prepare


def _deterministic(prepare) -> Callable:
    """FlashAttention-2 gives the same bits every time if PyTorch is set to be deterministic."""

    def prepared(inputs: Inputs) -> Callable:
        call = prepare(inputs)

        def asked(i):
            before = torch.are_deterministic_algorithms_enabled()
            torch.use_deterministic_algorithms(True)
            try:
                return call(i)
            finally:
                torch.use_deterministic_algorithms(before)

        return asked

    return prepared


def _flash_3(interface, deterministic: bool) -> Callable:
    """With the interface of FlashAttention-3's package. O and the log-sums come from attest: only its gradients are
    timed."""

    def prepare(inputs: Inputs) -> Callable:
        problem = inputs.problem
        causal = "top-left" if problem.causal else None
        if problem.causal and problem.sq != problem.sk:
            raise Refused("its causal mask is aligned with the last key")
        forward = [attest.attention(*tensors, causal=causal, layout="bshd", return_lse=True) for tensors in inputs.tensors]
        outputs = [tuple(torch.empty_like(x) for x in tensors) for tensors in inputs.tensors]

        def call(i):
            i %= len(outputs)
            (q, k, v), (o, lse), (d_q, d_k, d_v) = inputs.tensors[i], forward[i], outputs[i]
            interface._flash_attn_backward(inputs.d_o[i], q, k, v, o, lse, dq=d_q, dk=d_k, dv=d_v, softmax_scale=problem.d**-0.5,
                                           is_causal=problem.causal, deterministic=deterministic)
            return outputs[i]

        return call

    return prepare


ATTEST = Subject("attest", "attest", _attest)
NAMES = ("flash", "flash-deterministic", "cudnn", "efficient", "fa3", "fa3-deterministic")


def find(names: Sequence[str], device: str) -> Dict[str, Subject]:
    """The available rivals of these names, and the deterministic forms of those that have one."""
    version = torch.__version__.partition("+")[0]
    found = {}
    if "flash" in names or "default" in names:
        found["flash"] = Subject("flash", f"PyTorch {version} flash", _by_operator(_flash))
    if device == "cpu":
        return found
    if "flash" in names:
        found["flash-deterministic"] = Subject("flash-deterministic", f"PyTorch {version} flash, deterministic",
                                               _deterministic(_by_operator(_flash)))
    for name, forward in (("cudnn", _cudnn), ("efficient", _efficient)):
        if name in names:
            found[name] = Subject(name, f"PyTorch {version} {name}", _by_operator(forward))
    package = import_flash_3()
    if not package:
        return found
    for name, deterministic in (("fa3", False), ("fa3-deterministic", True)):
        found[name] = Subject(name, "FlashAttention-3" + (", deterministic" if deterministic else ""),
                              _flash_3(package, deterministic))
    return found


def _parts(problem: Problem, tensors, d_o, wide):
    """One batch entry and one group of heads: (heads, rows, d), (keys, d), (keys, dv), (heads, rows, dv)."""
    q, k, v = tensors
    group = problem.hq // problem.hkv
    return (q[0, :, :group].transpose(0, 1).to(wide), k[0, :, 0].to(wide), v[0, :, 0].to(wide),
            d_o[0, :, :group].transpose(0, 1).to(wide))


def by_formula(problem: Problem, tensors, d_o, wide, rounded=lambda x: x) -> Tuple[torch.Tensor, ...]:
    """d_q, d_k and d_v of the part in the type `wide`, a block of rows at a time. `rounded` is applied where a fused
    kernel rounds to its type: to P and dS before their products, and to O."""
    q, k, v, d_o = _parts(problem, tensors, d_o, wide)
    scale = problem.d**-0.5
    d_q, d_k, d_v = torch.empty_like(q), torch.zeros_like(k), torch.zeros_like(v)
    for start in range(0, problem.sq, ROWS_AT_ONCE):
        rows = slice(start, start + ROWS_AT_ONCE)
        scores = q[:, rows] @ k.T * scale
        if problem.causal:
            row = torch.arange(start, start + scores.shape[1], device=q.device)[:, None]
            scores.masked_fill_(torch.arange(problem.sk, device=q.device)[None, :] > row, -math.inf)
        p = scores.softmax(-1)
        delta = (rounded(p @ v) * d_o[:, rows]).sum(-1, keepdim=True)
        d_s = rounded(p * (d_o[:, rows] @ v.T - delta))
        d_q[:, rows] = d_s @ k * scale
        d_k += torch.einsum("hij,hid->jd", d_s, q[:, rows]) * scale
        d_v += torch.einsum("hij,hid->jd", rounded(p), d_o[:, rows])
    return d_q, d_k, d_v


class Checker:
    """Judges gradients for the first copy of the inputs: the largest error of each relative to its largest number,
    then the largest of the three."""

    def __init__(self, inputs: Inputs) -> None:
        problem, self._group = inputs.problem, inputs.problem.hq // inputs.problem.hkv
        dtype = inputs.tensors[0][0].dtype
        first = inputs.tensors[0], inputs.d_o[0]
        self._wanted = by_formula(problem, *first, torch.float64 if dtype == torch.float32 else torch.float32)
        plain = by_formula(problem, *first, torch.float32, lambda x: x.to(dtype).to(x.dtype))
        self.plain = self._error([x.to(dtype) for x in plain])
        self.bar = 2 * self.plain + (4 if problem.dtype == "f32" else 1) * torch.finfo(dtype).eps

    def _error(self, parts: Sequence[torch.Tensor]) -> float:
        return max(((part.to(wanted.dtype) - wanted).abs().max() / wanted.abs().max().clamp(min=1e-30)).item()
                   for part, wanted in zip(parts, self._wanted))

    def judge(self, output: Sequence[torch.Tensor], rival: bool) -> Tuple[float, str]:
        """(error, "") or (error, what is wrong)."""
        d_q, d_k, d_v = output
        error = self._error((d_q[0, :, :self._group].transpose(0, 1), d_k[0, :, 0], d_v[0, :, 0]))
        bar = self.bar * (RIVAL_SLACK if rival else 1)
        if not error <= bar:
            return error, f"error {error:.3g} is above {bar:.3g}"
        if not all(bool(torch.isfinite(each.float().sum())) for each in output):
            return error, "a gradient is not finite everywhere"
        return error, ""
