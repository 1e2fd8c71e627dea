"""test_torch_attention.py: attest.torch.attention() and its gradients, by every way that PyTorch calls an operator."""

import subprocess
import sys
from pathlib import Path

import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not here: its tests are left out")

import attest  # noqa: E402
import attest.torch as at  # noqa: E402
from attest import flash_attn  # noqa: E402
import formula  # noqa: E402
import numpy as np  # noqa: E402
from torch.utils._python_dispatch import TorchDispatchMode  # noqa: E402
from torch.utils.checkpoint import checkpoint  # noqa: E402

DEVICES = ["cpu"] + ["cuda"] * torch.cuda.is_available()


@pytest.fixture(autouse=True)
def seed():
    torch.manual_seed(5)
    torch._dynamo.reset()


def qkv(rows=19, keys=31, heads_kv=2, d=16, d_v=16, dtype=torch.float32, device="cpu"):
    shapes = ((2, 4, rows, d), (2, heads_kv, keys, d), (2, heads_kv, keys, d_v))
    return [torch.randn(shape, device=device).to(dtype).requires_grad_() for shape in shapes]


def extras(device="cpu"):
    return {"bias": torch.randn(4, 19, 31, device=device), "sinks": torch.randn(4, device=device),
            "alibi": torch.rand(4, device=device)}


def wide(x):
    return x.detach().float().cpu().double().numpy() if x.dtype != torch.bool else x.cpu().numpy()


OPTIONS = [{}, {"causal": "bottom-right"}, {"softcap": 1.5, "scale": 0.4}, {"window": (4, None), "align": "top-left"}, {"bias": True},
           {"sinks": True}, {"alibi": True, "align": "bottom-right"},
           {"bias": True, "sinks": True, "alibi": True, "softcap": 3.0, "causal": "bottom-right", "window": (9, -1)}]


@pytest.mark.parametrize("device, dtype, bar", [("cpu", torch.float32, 1e-5)] +  # no GPU kernel has float32 gradients
                         [(device, torch.bfloat16, 3e-2) for device in DEVICES])
@pytest.mark.parametrize("options", OPTIONS, ids=lambda options: "+".join(options) or "plain")
def test_gradients(options, dtype, bar, device):
    """Through O and the log-sum-exp, for everything that has a gradient."""
    q, k, v = qkv(dtype=dtype, device=device)
    given = {name: x.requires_grad_() for name, x in extras(device).items() if options.get(name)}
    static = {name: value for name, value in options.items() if name not in given}
    d_o, d_lse = torch.randn(2, 4, 19, 16, device=device).to(dtype), torch.randn(2, 4, 19, device=device)
    leaves = {"q": q, "k": k, "v": v, **given}
    o, lse = at.attention(q, k, v, return_lse=True, **given, **static)
    plain = torch.autograd.grad(o, list(leaves.values()), d_o, retain_graph=True)
    both = torch.autograd.grad((o, lse), list(leaves.values()), (d_o, d_lse))
    numbers = {name: wide(x) for name, x in given.items()}
    for got, d_sums in ((plain, None), (both, wide(d_lse))):
        exact = formula.gradients(wide(q), wide(k), wide(v), wide(d_o), d_sums, **numbers, **static)
        for (name, leaf), mine in zip(leaves.items(), got):
            assert mine.shape == leaf.shape and mine.dtype == leaf.dtype
            np.testing.assert_allclose(wide(mine), exact[name], rtol=0, atol=bar * max(1.0, np.abs(exact[name]).max()))


def by_the_operator(grads):
    """A backward pass that a mode intercepts, which the operator then computes."""
    class Passing(TorchDispatchMode):
        def __torch_dispatch__(self, function, types, args=(), kwargs=None):
            seen.append(str(function))
            return function(*args, **(kwargs or {}))

    seen = []
    with Passing():
        got = grads()
    assert any("attention_backward" in name for name in seen)
    return got


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("layout", ["bhsd", "bshd"])
@pytest.mark.parametrize("options", [{}, {"causal": True}, {"causal": "bottom-right", "window": (4, None)},
                                     {"window": (3, 5), "align": "top-left"}, {"softcap": 1.5, "scale": 0.4}],
                         ids=lambda options: "+".join(options) or "plain")
def test_the_short_path_is_that_of_the_operator(options, layout, device):
    """Plain tensors without extras take few steps; O and the gradients have the bits of the general path, and so do the
    gradients where something intercepts the backward pass."""
    tensors = [x.detach().transpose(1, 2).contiguous().requires_grad_() if layout == "bshd" else x
               for x in qkv(rows=31, device=device, dtype=torch.float32 if device == "cpu" else torch.bfloat16)]
    short = at.attention(*tensors, layout=layout, **options)
    general, _ = at.attention(*tensors, layout=layout, return_lse=True, **options)
    assert type(short.grad_fn).__name__ != type(general.grad_fn).__name__
    d_o = torch.randn_like(short)
    want = torch.autograd.grad(general, tensors, d_o)
    got = torch.autograd.grad(short, tensors, d_o, retain_graph=True)
    intercepted = by_the_operator(lambda: torch.autograd.grad(short, tensors, d_o, retain_graph=True))
    assert torch.equal(short, general)
    for mine, other, exact in zip(got, intercepted, want):
        assert torch.equal(mine, exact) and torch.equal(other, exact)
    with pytest.raises(attest.UnsupportedError, match="double backward"):
        first, = torch.autograd.grad(short, tensors[:1], d_o, create_graph=True)
        first.sum().backward()


@pytest.mark.parametrize("function", [at.attention, at.scaled_dot_product_attention], ids=lambda f: f.__name__)
def test_a_trace_of_tensors_that_require_gradients_has_the_operator(function):
    tensors = qkv(rows=31, heads_kv=4)
    traced = torch.jit.trace(lambda *x: function(*x), tensors)
    assert [node.kind() for node in traced.graph.nodes() if node.kind() != "prim::Constant"] == \
        ["attest::attention" if function is at.attention else "attest::sdpa"]
    assert torch.equal(traced(*tensors), function(*tensors))


@pytest.mark.parametrize("rows, keys", [(0, 5), (5, 0)])
def test_gradients_without_a_pair_are_zero(rows, keys):
    tensors = qkv(rows=rows, keys=keys)
    o = at.attention(*tensors)
    for x, grad in zip(tensors, torch.autograd.grad(o, tensors, torch.ones_like(o))):
        assert grad.shape == x.shape and not grad.any()


@pytest.mark.parametrize("size, far", [(1e6, 1e-4), (1e-9, 1e4), (0.0, 1.0)])
@pytest.mark.parametrize("layout", ["bhsd", "bshd"])
def test_gradients_of_log_sums_beyond_float16(layout, size, far):
    """A d_lse that float16 cannot hold, whose gradient it can: keys are as small, or as large, as d_lse requires. GPU
    kernels also round derivatives of scores to float16."""
    q, k, v = (x.detach() for x in qkv(heads_kv=4, dtype=torch.float16))
    q, k = (q if far < 1 else q / far), k * far
    d_lse = torch.randn(2, 4, 19) * size
    tensors = [x.transpose(1, 2).contiguous().requires_grad_() if layout == "bshd" else x.requires_grad_() for x in (q, k, v)]
    o, lse = at.attention(*tensors, layout=layout, return_lse=True)
    d_o = torch.zeros_like(o)
    got, = torch.autograd.grad((o, lse), tensors[:1], (d_o, d_lse))
    got = got.transpose(1, 2) if layout == "bshd" else got
    exact = formula.gradients(wide(q), wide(k), wide(v), np.zeros((2, 4, 19, 16)), wide(d_lse))["q"]
    np.testing.assert_allclose(wide(got), exact, rtol=0, atol=3e-3 * np.abs(exact).max() + 2.0 ** -25)


@pytest.fixture
def nan_where_nothing_is_written():
    torch.use_deterministic_algorithms(True)  # torch.empty() then fills its memory
    yield
    torch.use_deterministic_algorithms(False)


@pytest.mark.usefixtures("nan_where_nothing_is_written")
@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("how", ["attention", "sinks", "lse", "intercepted", "varlen", "kv", "qkv"])
def test_rows_behind_the_last_sequence_are_zero_in_training(how, device):
    """In O and in the gradients: a NaN there would spoil the gradients of weights, which sum over the rows."""
    dtype = torch.float32 if device == "cpu" else torch.bfloat16
    q, k, v = (torch.randn(12, heads, 16, device=device).to(dtype).requires_grad_() for heads in (4, 4, 4))
    starts = torch.tensor([0, 3, 7], dtype=torch.int32, device=device)
    kv, qkv_ = (torch.stack(x, 1).detach().requires_grad_() for x in ((k, v), (q, k, v)))
    options = {"cu_seqlens_q": starts, "cu_seqlens_k": starts, "max_seqlen_q": 4, "max_seqlen_k": 4}
    leaves = {"kv": (q, kv), "qkv": (qkv_,)}.get(how, (q, k, v))
    if how == "varlen":
        o = flash_attn.flash_attn_varlen_func(q, k, v, starts, starts, 4, 4)
    elif how == "kv":
        o = flash_attn.flash_attn_varlen_kvpacked_func(q, kv, starts, starts, 4, 4)
    elif how == "qkv":
        o = flash_attn.flash_attn_varlen_qkvpacked_func(qkv_, starts, 4)
    else:
        sinks = torch.zeros(4, device=device).requires_grad_() if how == "sinks" else None
        o, lse = at.attention(q, k, v, **options, sinks=sinks, return_lse=True)
        o = o + lse[:, :7].sum() if how == "lse" else o

    def gradients():
        return torch.autograd.grad(o.float()[:7].square().sum(), leaves, retain_graph=True)

    assert how == "lse" or not o[7:].any()
    for grad in by_the_operator(gradients) if how == "intercepted" else gradients():
        assert grad[:7].any() and not grad[7:].any()


@pytest.mark.parametrize("window", [(-5, -5), (3, -2), [-2, None]])
def test_a_window_that_is_none_is_refused(window):
    q, k, v = qkv()
    for named in ({}, {"sinks": torch.zeros(4)}):
        with pytest.raises(ValueError, match=r"window is .*; expected a pair \(left, right\) of keys"):
            at.attention(q, k, v, window=window, align="top-left", **named)


def test_numpys_bools_are_bools():
    q, k, v = qkv(keys=19)
    for named in ({}, {"sinks": torch.zeros(4)}):
        for wanted in (True, False):
            assert torch.equal(at.attention(q, k, v, causal=np.bool_(wanted), **named), at.attention(q, k, v, causal=wanted, **named))


def test_only_what_is_asked_for():
    q, k, v = qkv()
    given = extras()
    o, lse = at.attention(q, k, v, return_lse=True, **given, align="top-left")
    got, = torch.autograd.grad(lse.sum(), q)  # O is not used
    exact = formula.gradients(wide(q), wide(k), wide(v), np.zeros((2, 4, 19, 16)), np.ones((2, 4, 19)),
                              **{name: wide(x) for name, x in given.items()})
    np.testing.assert_allclose(wide(got), exact["q"], atol=1e-5)
    given["sinks"].requires_grad_()
    o = at.attention(q.detach(), k.detach(), v.detach(), **given, align="top-left")
    assert [x is not None for x in torch.autograd.grad(o.sum(), (given["sinks"],))] == [True]


def test_the_gradient_of_log_sums_of_wide_values_is_refused():
    q, k, v = qkv(d_v=256)
    o, lse = at.attention(q, k, v, return_lse=True)
    o.sum().backward(retain_graph=True)
    with pytest.raises(attest.UnsupportedError, match="log-sum-exp"):
        lse.sum().backward()


def test_parts_merged_have_the_gradients_of_the_whole():
    q, k, v = qkv(keys=40)
    weights = torch.randn(2, 4, 19, 16)
    whole = torch.autograd.grad((at.attention(q, k, v) * weights).sum(), (q, k, v))
    parts = [at.attention(q, k[:, :, cut], v[:, :, cut], return_lse=True) for cut in (slice(0, 13), slice(13, 40))]
    o, _ = at.merge([o for o, _ in parts], [lse for _, lse in parts])
    for mine, wanted in zip(torch.autograd.grad((o * weights).sum(), (q, k, v)), whole):
        torch.testing.assert_close(mine, wanted, rtol=1e-4, atol=1e-5)


def packed():
    starts_q, starts_k = torch.tensor([0, 5, 5, 17], dtype=torch.int32), torch.tensor([0, 7, 11, 20], dtype=torch.int32)
    q, k, v = (torch.randn(rows, heads, 16).requires_grad_() for rows, heads in ((17, 4), (20, 2), (20, 2)))
    return (q, k, v), {"cu_seqlens_q": starts_q, "cu_seqlens_k": starts_k, "causal": "bottom-right"}


def test_packed_sequences():
    tensors, options = packed()
    weights, of_sums = torch.randn(17, 4, 16), torch.randn(4, 17)
    o, lse = at.attention(*tensors, return_lse=True, **options)
    got = torch.autograd.grad((o * weights).sum() + (lse[:, :5] * of_sums[:, :5]).sum(), tensors)
    starts_q, starts_k = options["cu_seqlens_q"].tolist(), options["cu_seqlens_k"].tolist()
    total = 0
    for i in (0, 2):
        rows, keys = slice(starts_q[i], starts_q[i + 1]), slice(starts_k[i], starts_k[i + 1])
        own = (x[part].transpose(0, 1)[None] for x, part in zip(tensors, (rows, keys, keys)))
        o, lse = at.attention(*own, causal="bottom-right", return_lse=True)
        total = total + (o[0].transpose(0, 1) * weights[rows]).sum() + ((lse[0] * of_sums[:, rows]).sum() if i == 0 else 0)
    for mine, wanted in zip(got, torch.autograd.grad(total, tensors)):
        torch.testing.assert_close(mine, wanted, rtol=1e-4, atol=1e-5)


def test_the_other_layout_and_strides():
    q, k, v = qkv()
    weights = torch.randn(2, 4, 19, 16)
    wanted = torch.autograd.grad((at.attention(q, k, v, causal="top-left") * weights).sum(), (q, k, v))
    turned = [x.transpose(1, 2) for x in (q, k, v)]
    o = at.attention(*turned, causal="top-left", layout="bshd")
    for mine, right in zip(torch.autograd.grad((o.transpose(1, 2) * weights).sum(), (q, k, v)), wanted):
        torch.testing.assert_close(mine, right, rtol=0, atol=0)
    apart = [torch.stack((x, x), -1)[..., 0] for x in (q, k, v)]  # a last axis that is not contiguous
    for mine, right in zip(torch.autograd.grad((at.attention(*apart, causal="top-left") * weights).sum(), (q, k, v)), wanted):
        torch.testing.assert_close(mine, right, rtol=0, atol=0)
    o = at.attention(q, k, v)
    o.sum().backward()  # the gradient of a sum is one number, expanded
    assert torch.isfinite(q.grad).all()


def test_gradients_lie_as_their_tensors_do():
    x = torch.randn(2, 19, 3, 4, 16).requires_grad_()
    q, k, v = (part.transpose(1, 2).detach().requires_grad_() for part in x.unbind(2))
    for grad in torch.autograd.grad(at.attention(q, k, v).sum(), (q, k, v)):
        assert grad.transpose(1, 2).is_contiguous()


@pytest.mark.parametrize("device", DEVICES)
def test_equal_bits_from_run_to_run(device):
    q, k, v = qkv(rows=130, keys=130, d=64, d_v=64, dtype=torch.bfloat16, device=device)
    o = at.attention(q, k, v, causal=True)
    first, *others = (torch.autograd.grad(o, (q, k, v), o.detach(), retain_graph=True) for _ in range(3))
    for again in others:
        assert all(torch.equal(a, b) for a, b in zip(first, again))


# ------------------------------------------------------------------------------------------- operators


def arguments(q, k, v, *, alibi=None, bias=None, sinks=None, causal=None, softcap=0.0, cu_seqlens_q=None, cu_seqlens_k=None,
              most=None, layout="bhsd"):
    return (q, k, v, alibi, bias, sinks, cu_seqlens_q, cu_seqlens_k, None, None, None, None, None, causal, 0.25, -1, -1,
            "top-left" if alibi is not None else None, softcap, most, most, layout, 0, 0)


@pytest.mark.parametrize("how", ["plain", "extras", "packed", "bshd", "strided"])
def test_operators(how):
    tensors, named = qkv(), {}
    if how == "extras":
        named = {name: x.requires_grad_() for name, x in extras().items()}
    if how == "packed":
        tensors, options = packed()
        named = {**options, "most": 12}
    if how == "bshd":
        tensors, named = [x.detach().transpose(1, 2).contiguous().requires_grad_() for x in tensors], {"layout": "bshd"}
    if how == "strided":
        tensors = [x.detach().transpose(1, 2).contiguous().transpose(1, 2).requires_grad_() for x in tensors]
    every = arguments(*tensors, **named)
    torch.library.opcheck(torch.ops.attest.attention, every)
    with torch.no_grad():
        o, lse = torch.ops.attest.attention(*every)
    asked = [x is not None and x.requires_grad for x in (named.get("bias"), named.get("sinks"), named.get("alibi"))]
    plain = [x.detach() if isinstance(x, torch.Tensor) else x for x in every]
    torch.library.opcheck(torch.ops.attest.attention_backward, (torch.randn_like(o), o, lse, None, *asked, *plain))


@pytest.mark.parametrize("dynamic", [False, True])
def test_compiles_in_one_graph(dynamic):
    def model(q, k, v, bias, sinks):
        o, lse = at.attention(q * 2, k, v, bias=bias, sinks=sinks, causal="top-left", softcap=9.0, return_lse=True)
        return o.sin().sum() + lse.sum()

    compiled = torch.compile(model, fullgraph=True, backend="aot_eager", dynamic=dynamic)
    for rows in (19, 23):
        leaves = [*qkv(rows=rows), torch.randn(4, rows, 31).requires_grad_(), torch.randn(4).requires_grad_()]
        for mine, wanted in zip(torch.autograd.grad(compiled(*leaves), leaves), torch.autograd.grad(model(*leaves), leaves)):
            torch.testing.assert_close(mine, wanted, rtol=1e-5, atol=1e-6)


def test_packed_sequences_compile_in_one_graph():
    tensors, options = packed()

    def model(q, k, v, starts_q, starts_k):
        return at.attention(q, k, v, cu_seqlens_q=starts_q, cu_seqlens_k=starts_k, max_seqlen_q=12, max_seqlen_k=9,
                            causal="bottom-right").square().sum()

    starts = options["cu_seqlens_q"], options["cu_seqlens_k"]
    got = torch.autograd.grad(torch.compile(model, fullgraph=True, backend="aot_eager")(*tensors, *starts), tensors)
    for mine, wanted in zip(got, torch.autograd.grad(model(*tensors, *starts), tensors)):
        torch.testing.assert_close(mine, wanted, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("reentrant", [False, True])
@pytest.mark.parametrize("function", [at.attention, at.scaled_dot_product_attention])
def test_activation_checkpointing(reentrant, function):
    q, k, v = qkv(heads_kv=4)

    def block(q, k, v):
        return function(q * 2, k, v).sin()

    wanted = torch.autograd.grad(block(q, k, v).sum(), (q, k, v))
    checkpoint(block, q, k, v, use_reentrant=reentrant).sum().backward()
    for leaf, right in zip((q, k, v), wanted):
        torch.testing.assert_close(leaf.grad, right, rtol=0, atol=0)


def test_torch_func():
    q, k, v = (x.detach() for x in qkv())
    given = extras()

    def loss(q, k, v, given):
        return at.attention(q, k, v, **given, align="top-left").square().sum()

    leaves = [x.clone().requires_grad_() for x in (q, k, v)]
    own = {name: x.clone().requires_grad_() for name, x in given.items()}
    wanted = torch.autograd.grad(loss(*leaves, own), [*leaves, *own.values()])
    got = torch.func.grad(loss, argnums=(0, 1, 2, 3))(q, k, v, given)
    for mine, right in zip((*got[:3], *got[3].values()), wanted):
        torch.testing.assert_close(mine, right, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("along", [{}, {"bias": 0}, {"bias": None}, {"sinks": 0}, {"sinks": None}, {"alibi": 0}, {"alibi": None}],
                         ids=str)
def test_vmap_of_gradients(along):
    """Every entry along vmap's axis has its own gradients, also for tensors that the entries share."""
    q = torch.randn(3, 2, 4, 19, 16)
    _, k, v = (x.detach() for x in qkv())
    name = next(iter(along), None)
    shapes = {"bias": (4, 19, 31), "sinks": (4,), "alibi": (4,)}
    extra = torch.rand((3, *shapes[name]) if along[name] == 0 else shapes[name]) if name else torch.zeros(())

    def loss(q, k, extra):
        named = {name: extra} if name else {}
        return at.attention(q, k, v, **named, align="top-left").square().sum()

    axis = along[name] if name else None
    got = torch.vmap(torch.func.grad(loss, argnums=(0, 1, 2) if name else (0, 1)), (0, None, axis))(q, k, extra)
    for i in range(3):
        wanted = torch.func.grad(loss, argnums=(0, 1, 2) if name else (0, 1))(q[i], k, extra[i] if axis == 0 else extra)
        for mine, right in zip(got, wanted):
            torch.testing.assert_close(mine[i], right, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("function", [at.attention, at.scaled_dot_product_attention])
def test_autocast(function):
    """Gradients come back in the types of the leaves."""
    q, k, v = qkv(heads_kv=4)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        o = function(q, k.bfloat16(), v)
    assert o.dtype == torch.bfloat16
    grads = torch.autograd.grad(o.float().square().sum(), (q, k, v))
    wanted = torch.autograd.grad(function(q, k, v).square().sum(), (q, k, v))
    for mine, right in zip(grads, wanted):
        assert mine.dtype == torch.float32
        torch.testing.assert_close(mine, right, rtol=0, atol=5e-2 * right.abs().max().item())


def test_batches_of_gradients():
    """is_grads_batched, and vectorize of torch.autograd.functional: as one after another."""
    leaves = q, k, v, bias, sinks = (*qkv(), *(torch.randn(shape).requires_grad_() for shape in ((4, 19, 31), (4,))))
    both = attest.torch.attention(q, k, v, bias=bias, sinks=sinks, return_lse=True)
    gradients = [torch.randn(3, *x.shape) for x in both]
    together = torch.autograd.grad(both, leaves, gradients, is_grads_batched=True, retain_graph=True)
    for i in range(3):
        for mine, other in zip(together, torch.autograd.grad(both, leaves, [x[i] for x in gradients], retain_graph=True)):
            assert torch.equal(mine[i], other)


def test_mistakes():
    q, k, v = qkv()
    with pytest.raises(TypeError, match="k is a list"):
        at.attention(q, [1], v)
    with pytest.raises(ValueError, match="causal is True, but q has 19 rows and k 31"):
        at.attention(q, k, v, causal=True)
    with pytest.raises(TypeError, match="page_table is given, and a tensor requires a gradient"):
        at.attention(q, k, v, page_table=torch.zeros(2, 1, dtype=torch.int32))
    with pytest.raises(TypeError, match="sinks is bfloat16; expected float32"):
        at.attention(q, k, v, sinks=torch.zeros(4, dtype=torch.bfloat16))
    o = at.attention(q, k, v)
    with torch.no_grad():
        q.add_(1)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        o.sum().backward()


@pytest.mark.parametrize("way", ["ddp", "fsdp"])
def test_processes_that_train_together(way):
    """Two processes, each with half of the batch, have the gradients of one with all of it."""
    if not torch.distributed.is_available() or not torch.distributed.is_gloo_available():
        pytest.skip("PyTorch has no gloo here")
    done = subprocess.run([sys.executable, str(Path(__file__).with_name("torch_processes.py")), way], capture_output=True,
                          text=True, timeout=300)
    assert done.returncode == 0, done.stderr[-3000:]
    assert done.stdout.split() == ["equal", "equal"]


@pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no GPU")
def test_a_training_step_in_a_cuda_graph():
    q, k, v = qkv(rows=128, keys=128, d=64, d_v=64, dtype=torch.bfloat16, device="cuda")
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):  # kernels are loaded before the capture
        torch.autograd.grad(at.attention(q, k, v, causal=True).float().square().sum(), (q, k, v))
    torch.cuda.current_stream().wait_stream(stream)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        captured = torch.autograd.grad(at.attention(q, k, v, causal=True).float().square().sum(), (q, k, v))
    with torch.no_grad():
        q.copy_(torch.randn_like(q))
    graph.replay()
    for mine, wanted in zip(captured, torch.autograd.grad(at.attention(q, k, v, causal=True).float().square().sum(), (q, k, v))):
        assert torch.equal(mine, wanted)


@pytest.mark.parametrize("each", [False, True])
def test_positions_of_shards(each):
    """Rows of a shard, at their positions, have the answers and gradients of the whole; compiled and under vmap too."""
    q, k, v = (torch.randn(2, 4, 24, 16, dtype=torch.float32) for _ in range(3))
    slopes = torch.tensor([0.5, 0.25, 0.0, 1.0])

    def position(n):
        return torch.full((2,), n, dtype=torch.int32) if each else n

    def shard(q, k, v):
        return at.attention(q[:, :, 9:20], k, v, causal=True, alibi=slopes, q_offset=position(9), k_offset=position(0))

    given = [x.clone().requires_grad_() for x in (q, k, v)]
    whole = at.attention(*given, causal=True, alibi=slopes)[:, :, 9:20]
    wanted = torch.autograd.grad(whole.square().sum(), given)
    for function in (shard, torch.compile(shard, backend="aot_eager", fullgraph=True)):
        mine = [x.clone().requires_grad_() for x in (q, k, v)]
        o = function(*mine)
        torch.testing.assert_close(o, whole, rtol=1e-5, atol=1e-5)
        for got, want in zip(torch.autograd.grad(o.square().sum(), mine), wanted):
            torch.testing.assert_close(got, want, rtol=1e-5, atol=1e-5)
    one = torch.func.vmap(lambda x: shard(x, k, v))(torch.stack([q, 2 * q]))
    torch.testing.assert_close(one[0], whole, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("layout", ["bhsd", "bshd", "packed"])
def test_the_log_sum_of_rows_that_see_nothing_but_a_sink(layout):
    """It is the sink, and so is its gradient."""
    torch.manual_seed(4)
    q, k, v = (torch.randn(2, 3, rows, 8) for rows in (7, 4, 4))
    sinks = torch.randn(3, requires_grad=True)
    named = {"causal": "bottom-right", "sinks": sinks, "return_lse": True}  # three rows are above the first key
    if layout == "packed":
        q, k, v = (x.transpose(1, 2).flatten(0, 1) for x in (q, k, v))
        q = torch.cat([q, torch.full((2, 3, 8), float("nan"))])  # rows behind the last sequence
        named.update(cu_seqlens_q=torch.tensor([0, 7, 14], dtype=torch.int32), cu_seqlens_k=torch.tensor([0, 4, 8], dtype=torch.int32))
    elif layout == "bshd":
        q, k, v = (x.transpose(1, 2).contiguous() for x in (q, k, v))
        named["layout"] = layout
    o, lse = at.attention(q, k, v, **named)
    if layout == "packed":
        o, lse = o[:14], lse[:, :14]
    weights = torch.randn(lse.shape)
    got, = torch.autograd.grad((lse * weights).sum() + o.square().sum(), sinks)

    def loss(sinks):
        with torch.no_grad():
            o, lse = at.attention(q, k, v, **{**named, "sinks": sinks})
        return (lse[:, :14] * weights).double().sum() + o[:14].double().square().sum() if layout == "packed" else \
            (lse * weights).double().sum() + o.double().square().sum()

    for head in range(3):
        step = torch.zeros(3)
        step[head] = 1e-2
        slope = (loss(sinks.detach() + step) - loss(sinks.detach() - step)) / 2e-2
        assert abs(slope - got[head]) < 2e-3 * max(1, abs(slope))
