"""test_torch_gpu.py: PyTorch's CUDA tensors on a real GPU; `make gpu-test` runs it. Skipped if there is none."""

import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not here: its tests are left out")
if not torch.cuda.is_available():
    pytest.skip("PyTorch finds no GPU: its GPU tests are left out", allow_module_level=True)

import attest  # noqa: E402
import attest.torch as at  # noqa: E402
from attest import _transformers  # noqa: E402
from torch.nn import functional  # noqa: E402

theirs = functional.scaled_dot_product_attention
BARS = {torch.float16: 4e-3, torch.bfloat16: 3e-2}


@pytest.fixture(autouse=True)
def seed():
    torch.manual_seed(3)
    yield
    at.disable()


def qkv(batch=2, heads=8, heads_kv=None, rows=130, keys=None, d=64, dtype=torch.bfloat16):
    kv = (batch, heads_kv or heads, keys or rows, d)
    make = {"device": "cuda", "dtype": dtype}
    return torch.randn(batch, heads, rows, d, **make), torch.randn(kv, **make), torch.randn(kv, **make)


def exact(q, k, v, **options):
    """PyTorch's answer in float64 on the CPU."""
    options = {key: value.cpu().double() if isinstance(value, torch.Tensor) and value.is_floating_point()
               else value.cpu() if isinstance(value, torch.Tensor) else value for key, value in options.items()}
    return theirs(*(x.detach().cpu().double() for x in (q, k, v)), **options)


def close(got, wanted, dtype):
    torch.testing.assert_close(got.cpu().double(), wanted, rtol=0, atol=BARS[dtype])


@pytest.mark.parametrize("dtype", list(BARS))
@pytest.mark.parametrize("d", [40, 64, 128, 256])
@pytest.mark.parametrize("options", [{}, {"is_causal": True}, {"scale": 0.05}])
def test_types(dtype, d, options):
    q, k, v = qkv(d=d, dtype=dtype)
    o = at.scaled_dot_product_attention(q, k, v, **options)
    assert o.device == q.device and o.dtype == dtype
    close(o, exact(q, k, v, **options), dtype)
    launch = attest.last_launch()
    assert "sm" in launch.kernel and len(launch.code_sha256) == 64 and launch.registers > 0


@pytest.mark.parametrize("rows, keys, heads_kv", [(1, 9000, 2), (1, 1, 8), (7, 300, 1), (300, 77, 4)])
def test_shapes(rows, keys, heads_kv):
    q, k, v = qkv(rows=rows, keys=keys, heads_kv=heads_kv)
    close(at.scaled_dot_product_attention(q, k, v, enable_gqa=True), exact(q, k, v, enable_gqa=True), q.dtype)


@pytest.mark.parametrize("mask", [lambda: torch.rand(130, 77, device="cuda") > 0.3,
                                  lambda: torch.randn(2, 1, 1, 77, device="cuda"),
                                  lambda: torch.randn(8, 130, 77, device="cuda", dtype=torch.bfloat16)])
def test_masks(mask):
    q, k, v = qkv(keys=77)
    mask = mask()
    close(at.scaled_dot_product_attention(q, k, v, attn_mask=mask), exact(q, k, v, attn_mask=mask), q.dtype)


def test_strides_and_alignment():
    q, k, v = qkv()
    turned = [x.transpose(1, 2).contiguous().transpose(1, 2) for x in (q, k, v)]
    close(at.scaled_dot_product_attention(*turned), exact(q, k, v), q.dtype)
    odd = torch.empty(q.numel() + 1, device="cuda", dtype=q.dtype)[1:].view_as(q).copy_(q)
    assert odd.data_ptr() % 16
    close(at.scaled_dot_product_attention(odd, k, v), exact(q, k, v), q.dtype)
    close(at.scaled_dot_product_attention(q, k[:1].expand_as(k), v), exact(q, k[:1].expand_as(k), v), q.dtype)


def test_current_stream():
    """The inputs are ready only on the side stream, and late; an answer from another stream would miss them."""
    q, k, v = qkv(rows=512)
    wanted = exact(q, k, v)
    late = [torch.zeros_like(x) for x in (q, k, v)]
    side = torch.cuda.Stream()
    at.scaled_dot_product_attention(*late)  # the plan is made
    torch.cuda.synchronize()
    with torch.cuda.stream(side):
        torch.cuda._sleep(100_000_000)
        for x, y in zip(late, (q, k, v)):
            x.copy_(y)
        o = at.scaled_dot_product_attention(*late)
    side.synchronize()
    close(o, wanted, q.dtype)


def test_cuda_graph():
    for rows in (512, 1):  # one row: a workspace too
        q, k, v = qkv(rows=rows, keys=4096)
        at.scaled_dot_product_attention(q, k, v)
        graph = torch.cuda.CUDAGraph()
        torch.cuda.synchronize()
        with torch.cuda.graph(graph):
            o = at.scaled_dot_product_attention(q, k, v)
        for x, y in zip((q, k, v), qkv(rows=rows, keys=4096)):
            x.copy_(y)
        graph.replay()
        torch.cuda.synchronize()
        close(o, exact(q, k, v), q.dtype)


def test_compiles_in_one_graph():
    q, k, v = qkv()
    compiled = torch.compile(lambda q, k, v: at.scaled_dot_product_attention(q + q, k, v, is_causal=True) + 1,
                             fullgraph=True)
    close(compiled(q, k, v) - 1, exact(q + q, k, v, is_causal=True), q.dtype)


def test_compiles_into_cuda_graphs():
    """mode="reduce-overhead" records the program; its replays must see new inputs."""
    compiled = torch.compile(lambda q, k, v: at.scaled_dot_product_attention(q, k, v) * 2, fullgraph=True,
                             mode="reduce-overhead")
    for seed in range(4):
        torch.manual_seed(seed)
        q, k, v = qkv()
        torch.compiler.cudagraph_mark_step_begin()
        close(compiled(q, k, v) / 2, exact(q, k, v), q.dtype)


@pytest.mark.parametrize("order", [(0, 1, 2, 3), (0, 2, 1, 3), (2, 0, 1, 3), (1, 2, 0, 3), (0, 1, 3, 2)])
def test_the_output_lies_as_q_does(order):
    back = [order.index(axis) for axis in range(4)]
    q, k, v = (x.permute(order).contiguous().permute(back) for x in qkv())
    o = at.scaled_dot_product_attention(q, k, v)
    assert o.stride() == q.stride()
    close(o, exact(q, k, v), q.dtype)


def test_the_operator():
    q, k, v = qkv()
    torch.library.opcheck(torch.ops.attest.sdpa, (q, k, v, None, True, 0.125))
    strange = (x.transpose(1, 2).contiguous().transpose(1, 2) for x in (q, k, v))
    torch.library.opcheck(torch.ops.attest.sdpa, (*strange, torch.rand(130, 130, device="cuda") > 0.2, False, 0.125))


def test_gradients():
    q, k, v = (x.requires_grad_() for x in qkv(heads_kv=2))
    weights = torch.randn(2, 8, 130, 64, device="cuda")
    (at.scaled_dot_product_attention(q, k, v, enable_gqa=True).float() * weights).sum().backward()
    wide = [x.detach().cpu().double().requires_grad_() for x in (q, k, v)]
    (theirs(*wide, enable_gqa=True) * weights.cpu()).sum().backward()
    for got, wanted in zip((q, k, v), wide):
        torch.testing.assert_close(got.grad.cpu().double(), wanted.grad, rtol=0.05,
                                   atol=0.02 * wanted.grad.abs().max().item())


def capped(q, k, v, softcap, sinks):
    """For float64 tensors, (batch, rows, heads, d)."""
    scores = softcap * torch.tanh(q @ k.transpose(-1, -2) / q.shape[-1] ** 0.5 / softcap)
    scores = torch.cat([scores, sinks[:, None, None].expand(*scores.shape[:3], 1)], -1)
    return (scores.softmax(-1)[..., :-1] @ v).transpose(1, 2)


@pytest.mark.parametrize("dtype, d, autocast, served", [
    (torch.bfloat16, 64, False, True), (torch.float32, 64, False, True), (torch.float32, 64, True, True),
    (torch.bfloat16, 320, False, False)])
def test_softcap_and_sinks(dtype, d, autocast, served):
    q, k, v = qkv(dtype=dtype, d=d)
    sinks = torch.randn(8, device="cuda", dtype=dtype)
    with at.enable() as report, torch.autocast("cuda", dtype=torch.bfloat16, enabled=autocast):
        o, _ = _transformers.attention_forward(torch.nn.Module(), q, k, v, None, is_causal=False, softcap=5.0, s_aux=sinks)
    assert (report.served, report.passed_on) == ((1, 0) if served else (0, 1))
    wanted = capped(*(x.cpu().double() for x in (q, k, v)), 5.0, sinks.cpu().double())
    torch.testing.assert_close(o.cpu().double(), wanted, rtol=0, atol=3e-2)


def test_gradients_of_softcap_and_sinks():
    q, k, v = (x.requires_grad_() for x in qkv())
    sinks = torch.randn(8, device="cuda").requires_grad_()
    o, _ = _transformers.attention_forward(torch.nn.Module(), q, k, v, None, is_causal=False, softcap=5.0, s_aux=sinks)
    weights = torch.randn(o.shape, device="cuda")
    (o.float() * weights).sum().backward()
    wide = [x.detach().cpu().double().requires_grad_() for x in (q, k, v, sinks)]
    (capped(*wide[:3], 5.0, wide[3]) * weights.cpu()).sum().backward()
    for got, wanted in zip((q, k, v, sinks), wide):
        torch.testing.assert_close(got.grad.cpu().double(), wanted.grad, rtol=0.05,
                                   atol=0.02 * wanted.grad.abs().max().item())


def test_packed_and_paged():
    q, k, v = (x[0].transpose(0, 1).contiguous() for x in qkv(rows=300))
    cu = torch.tensor([0, 100, 300], dtype=torch.int32, device="cuda")
    o = attest.attention(q, k, v, cu_seqlens_q=cu, cu_seqlens_k=cu, max_seqlen_q=200, max_seqlen_k=200, causal=True)
    for start, end in ((0, 100), (100, 300)):
        part = [x[start:end].transpose(0, 1)[None] for x in (q, k, v)]
        close(o[start:end].transpose(0, 1)[None], exact(*part, is_causal=True), q.dtype)
    with pytest.raises(TypeError, match="max_seqlen_q is needed"):
        attest.attention(q, k, v, cu_seqlens_q=cu, cu_seqlens_k=cu)
    one, keys, values = qkv(rows=1, keys=64, heads_kv=2)
    pages = [x.reshape(2, 2, 4, 16, 64).transpose(1, 2).reshape(8, 2, 16, 64) for x in (keys, values)]
    table = torch.arange(8, dtype=torch.int32, device="cuda").view(2, 4)
    lens = torch.tensor([64, 50], dtype=torch.int32, device="cuda")
    got = attest.attention(one, *pages, page_table=table, lens_k=lens)
    close(got[:1], exact(one[:1], keys[:1], values[:1], enable_gqa=True), one.dtype)
    close(got[1:], exact(one[1:], keys[1:, :, :50], values[1:, :, :50], enable_gqa=True), one.dtype)


def test_mistakes_and_refusals():
    q, k, v = qkv()
    with pytest.raises(ValueError, match="k is on cpu, q is on cuda:0"):
        attest.attention(q, k.cpu(), v)
    with pytest.raises(TypeError, match="q is float64"):
        attest.attention(q.double(), k.double(), v.double())
    with at.enable() as report:
        functional.scaled_dot_product_attention(q, k, v)
        functional.scaled_dot_product_attention(q.double(), k.double(), v.double())
    assert (report.served, report.passed_on) == (1, 1)


def test_float32():
    """Served without gradients; with them PyTorch computes the call."""
    q, k, v = qkv(dtype=torch.float32)
    torch.testing.assert_close(at.scaled_dot_product_attention(q, k, v).cpu().double(), exact(q, k, v), rtol=0, atol=1e-4)
    q.requires_grad_()
    with pytest.raises(attest.UnsupportedError, match="float32 tensors on a GPU require a gradient"):
        at.scaled_dot_product_attention(q, k, v)
    with at.enable() as report:
        functional.scaled_dot_product_attention(q, k, v).sum().backward()
    assert (report.served, report.passed_on) == (0, 1) and q.grad is not None


def test_pinned_memory_is_the_cpus():
    x = torch.randn(1, 2, 5, 8).pin_memory()
    torch.testing.assert_close(attest.attention(x, x, x), theirs(x, x, x))
    assert "cpu" in attest.last_launch().kernel


def test_nothing_leaks():
    q, k, v = qkv()
    at.scaled_dot_product_attention(q, k, v)
    torch.cuda.synchronize()
    before = torch.cuda.memory_allocated()
    for _ in range(200):
        attest.attention(q, k, v, return_lse=True)
    torch.cuda.synchronize()
    assert torch.cuda.memory_allocated() == before
