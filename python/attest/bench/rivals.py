"""rivals.py: the timed subjects, and how each is called on the same tensors.

A subject's `prepare` returns a function that makes call i, on the copies of the inputs in rotation, and returns its
output as (batch, seq, heads, d). A subject that does not support a problem raises; the text says why.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, field, replace
from typing import Any, Callable, Dict, List

import torch
from torch.nn import functional
from torch.nn.attention import SDPBackend, sdpa_kernel

import attest

from . import features
from .problems import CAUSAL_MASKS, Problem
from .samples import Subject

DTYPES = {"f32": torch.float32, "fp16": torch.float16, "bf16": torch.bfloat16}
MATH_BYTES = 16 << 30  # the most bytes of scores that PyTorch's math backend is given
BACKENDS = {"flash": SDPBackend.FLASH_ATTENTION, "cudnn": SDPBackend.CUDNN_ATTENTION,
            "efficient": SDPBackend.EFFICIENT_ATTENTION, "math": SDPBackend.MATH}


class Refused(Exception):
    """A subject does not support a problem."""


@dataclass
class Inputs:
    """Copies of q, k and v, each (batch, seq, heads, d), and an array for attest's output of each. If the problem has
    pages, attest reads the same keys from them; the rivals read the contiguous ones.

    In memory the heads come before the rows on a CPU, after them on a GPU: the usual layout on each."""

    problem: Problem
    tensors: List[tuple]
    outputs: List[Any]  #: for gradients, (d_q, d_k, d_v)
    d_o: List[torch.Tensor] = field(default_factory=list)  #: for gradients


def make_inputs(problem: Problem, device: str, copies: int) -> Inputs:
    """Seeded normal data; the outputs are poisoned."""
    generator = torch.Generator(device).manual_seed(problem.sk * 131 + problem.d)

    def make(s, h, d):
        first, second = (h, s) if device == "cpu" else (s, h)
        made = torch.randn(problem.b, first, second, d, device=device, generator=generator).to(DTYPES[problem.dtype])
        return made.transpose(1, 2) if device == "cpu" else made

    tensors = [(make(problem.sq, problem.hq, problem.d), make(problem.sk, problem.hkv, problem.d),
                make(problem.sk, problem.hkv, problem.dv)) for _ in range(copies)]
    if problem.backward:
        outputs = [tuple(torch.full_like(x, float("nan")) for x in each) for each in tensors]
        return Inputs(problem, tensors, outputs, [make(problem.sq, problem.hq, problem.dv) for _ in range(copies)])
    return Inputs(problem, tensors, [make(problem.sq, problem.hq, problem.dv).fill_(float("nan")) for _ in range(copies)])


def in_pages(problem: Problem, tensors):
    """q, then k and v as pages (pages, keys, heads, d) in random order, and the page table."""
    q, *keys = tensors
    count = problem.b * problem.sk // problem.page
    table = torch.randperm(count, device=q.device)
    pages = []
    for x in keys:
        cut = x.reshape(count, problem.page, *x.shape[2:])
        pages.append(torch.empty_like(cut).index_copy_(0, table, cut))
    return q, *pages, table.to(torch.int32).view(problem.b, -1)


def _attest(inputs: Inputs):
    problem = inputs.problem
    causal = "top-left" if problem.causal else None
    first = inputs.tensors[0][0]
    added = features.for_attest(problem, first.device, first.dtype)
    tensors = [in_pages(problem, each) if problem.page else (*each, None) for each in inputs.tensors]
    calls = list(zip(tensors, inputs.outputs))

    def call(i):
        (q, k, v, table), out = calls[i % len(calls)]
        return attest.attention(q, k, v, page_table=table, causal=causal, layout="bshd", out=out, **added)

    return call


def _contiguous(inputs: Inputs):
    if not inputs.problem.page:
        raise Refused("the keys lie in no pages")
    return _attest(replace(inputs, problem=replace(inputs.problem, page=0)))


def _plain(inputs: Inputs):
    """Whether PyTorch is told is_causal: if the feature is, which includes masks that hide what comes after a row."""
    problem = inputs.problem
    if not problem.feature:
        raise Refused("the problem is plain")
    causal = problem.causal or problem.feature in CAUSAL_MASKS
    window = 0 if problem.feature == "window" else problem.window
    return _attest(replace(inputs, problem=replace(problem, feature="", window=window, causal=causal)))


def _sdpa(backend):
    def prepare(inputs: Inputs):
        problem = inputs.problem
        first = inputs.tensors[0][0]
        if backend == SDPBackend.MATH and 4 * problem.b * problem.hq * problem.sq * problem.sk > MATH_BYTES:
            raise Refused("its scores would take more than 16 GiB")
        heads_first = [[x.transpose(1, 2) for x in tensors] for tensors in inputs.tensors]
        options = {"is_causal": problem.causal, "enable_gqa": problem.hq != problem.hkv}
        if not problem.is_plain:
            options.update(is_causal=False, attn_mask=features.scores(problem, first.device, first.dtype))
            if options["attn_mask"] is None:
                raise Refused("it has no softcap and no sinks")

        def call(i):
            return functional.scaled_dot_product_attention(*heads_first[i % len(heads_first)], **options).transpose(1, 2)

        def chosen(i):
            with sdpa_kernel(backend):
                return call(i)

        return chosen if backend else call

    return prepare


def _flex(inputs: Inputs):
    from torch.nn.attention.flex_attention import create_block_mask, flex_attention

    problem, first = inputs.problem, inputs.tensors[0][0]
    torch._dynamo.reset()  # after several recompilations it would silently fall back to a slow path
    change, seen = None, (lambda b, h, row, key: row >= key) if problem.causal else None
    if problem.sinks:
        raise Refused("it has no sinks")
    if not problem.is_plain:
        change, seen = features.for_flex(problem, first.device, first.dtype)
    batch = problem.b if problem.is_mask or problem.used or problem.feature == "starts" else None
    heads = problem.hq if problem.is_mask and problem.bias_shape[1] == "h" else None
    mask = create_block_mask(seen, batch, heads, problem.sq, problem.sk, device=first.device) if seen else None
    compiled = torch.compile(flex_attention, dynamic=False)
    heads_first = [[x.transpose(1, 2) for x in tensors] for tensors in inputs.tensors]

    def call(i):
        return compiled(*heads_first[i % len(heads_first)], score_mod=change, block_mask=mask,
                        enable_gqa=problem.hq != problem.hkv).transpose(1, 2)

    return call


def _flash_3(package):
    """FlashAttention-3; it decides itself into how many parts the keys are split (num_splits=0)."""

    def prepare(inputs: Inputs):
        problem = inputs.problem
        if problem.feature not in ("", "window") or problem.sinks or problem.used:
            raise Refused(f"it has no {problem.feature or 'sinks or lengths'}")
        if problem.causal and problem.sq != problem.sk:
            raise Refused("its causal mask is aligned to the last key")
        window = {"window_size": (problem.window - 1, 0)} if problem.window else {}
        calls = inputs.tensors

        def call(i):
            q, k, v = calls[i % len(calls)]
            call_of = package.flash_attn_with_kvcache if problem.sq < problem.sk else package.flash_attn_func
            made = call_of(q, k, v, causal=problem.causal, num_splits=0, **window)
            return made[0] if isinstance(made, tuple) else made

        return call

    return prepare


def import_flash_3():
    """FlashAttention-3's package, or None."""
    try:
        import flash_attn_interface
    except ImportError:
        return None
    return flash_attn_interface


def _jax(jax):
    def prepare(inputs: Inputs):
        problem = inputs.problem
        if not problem.is_plain:
            raise Refused("its mask would be a tensor as large as the scores")
        on_gpu = inputs.tensors[0][0].is_cuda
        if on_gpu and jax.default_backend() != "gpu":
            raise Refused("this JAX has no GPU")
        arrays = [[jax.dlpack.from_dlpack(x.contiguous()) for x in tensors] for tensors in inputs.tensors]
        run = jax.jit(lambda q, k, v: jax.nn.dot_product_attention(
            q, k, v, is_causal=problem.causal, implementation="cudnn" if on_gpu else "xla"))

        def call(i):
            return run(*arrays[i % len(arrays)])

        return call

    return prepare


def _import_jax():
    os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")  # PyTorch needs memory too
    try:
        import jax
        import jax.dlpack  # noqa: F401
    except ImportError:
        return None
    return jax


ATTEST = Subject("attest", "attest", _attest)


def find(names, device: str) -> Dict[str, Subject]:
    """The available rivals of these names, without attest."""
    version = torch.__version__.partition("+")[0]
    found = {}
    for name in names:
        if name == "jax":
            jax = _import_jax()
            if jax:
                found[name] = Subject(name, f"JAX {jax.__version__}", _jax(jax), graph=False)
        elif name == "fa3":
            package = import_flash_3() if device != "cpu" else None
            if package:
                found[name] = Subject(name, "FlashAttention-3", _flash_3(package))
        elif name == "contiguous":
            found[name] = Subject(name, "attest, contiguous keys", _contiguous)
        elif name == "plain":
            found[name] = Subject(name, "attest, plain scores", _plain, judged=False)
        elif name == "flex":
            found[name] = Subject(name, f"PyTorch {version} flex", _flex)
        elif name == "default":
            found[name] = Subject(name, f"PyTorch {version}", _sdpa(None))
        elif name in BACKENDS and (device != "cpu" or name in ("flash", "math")):  # the others need a GPU
            found[name] = Subject(name, f"PyTorch {version} {name}", _sdpa(BACKENDS[name]))
    return found
