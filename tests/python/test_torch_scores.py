"""test_torch_scores.py: attention with a softcap or sinks, as transformers' models call it, computed and passed on."""

import math

import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not here: its tests are left out")

import attest.torch as at  # noqa: E402
from attest import _transformers  # noqa: E402
from torch._subclasses import FakeTensorMode  # noqa: E402

KINDS = [{"softcap": 3.0}, {"s_aux": True}, {"softcap": 3.0, "s_aux": True}]


@pytest.fixture(autouse=True)
def seed():
    torch.manual_seed(3)
    yield
    at.disable()


def tensors(kind, d=16, dtype=torch.float32, grad=False, **where):
    """q, k, v and the arguments of the kind."""
    q, k, v = (torch.randn(2, heads, 11, d, **where).to(dtype).requires_grad_(grad) for heads in (4, 2, 2))
    options = dict(kind)
    if "s_aux" in kind:
        options["s_aux"] = torch.randn(4, **where).requires_grad_(grad)
    return q, k, v, options


def exact(q, k, v, mask=None, causal=False, softcap=None, s_aux=None):
    """In float64 by the definition, (batch, rows, heads, d)."""
    q, k, v = (x.double() for x in (q, k, v))
    k, v = (x.repeat_interleave(q.shape[1] // x.shape[1], 1) for x in (k, v))
    scores = q @ k.transpose(-1, -2) / math.sqrt(q.shape[-1])
    if softcap:
        scores = softcap * torch.tanh(scores / softcap)
    if causal:
        scores = scores.masked_fill(torch.ones(scores.shape[-2:], dtype=torch.bool).triu(1), -math.inf)
    if mask is not None:
        scores = scores.masked_fill(~mask, -math.inf) if mask.dtype == torch.bool else scores + mask
    if s_aux is not None:
        scores = torch.cat([scores, s_aux.double()[:, None, None].expand(*scores.shape[:3], 1)], -1)
    return (scores.softmax(-1)[..., :k.shape[2]] @ v).transpose(1, 2)


def forward(q, k, v, mask=None, causal=False, **options):
    o, weights = _transformers.attention_forward(torch.nn.Module(), q, k, v, mask, is_causal=causal, **options)
    assert weights is None and o.is_contiguous()
    return o


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("dtype, bar", [(torch.float32, 3e-6), (torch.bfloat16, 3e-2)])
@pytest.mark.parametrize("hidden", ["none", "causal", "mask"])
def test_served(kind, dtype, bar, hidden):
    q, k, v, options = tensors(kind, dtype=dtype)
    mask = torch.randn(11, 11) if hidden == "mask" else None
    with at.enable() as report:
        o = forward(q, k, v, mask, hidden == "causal", **options)
    assert o.dtype == dtype and (report.served, report.passed_on) == (1, 0)
    torch.testing.assert_close(o.double(), exact(q, k, v, mask, hidden == "causal", **options), rtol=0, atol=bar)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("shape, reason", [({"d": 320}, "320"), ({"dtype": torch.float64}, "float64")])
@pytest.mark.parametrize("hidden", ["causal", "mask"])
def test_passed_on(kind, shape, reason, hidden):
    q, k, v, options = tensors(kind, **shape)
    mask = torch.rand(2, 1, 11, 11) > 0.3 if hidden == "mask" else None
    with at.enable() as report:
        o = forward(q, k, v, mask, hidden == "causal", **options)
    assert (report.served, report.passed_on) == (0, 1) and reason in str(report)
    torch.testing.assert_close(o.double(), exact(q, k, v, mask, hidden == "causal", **options),
                               rtol=0, atol=3e-6 if o.dtype == torch.float32 else 1e-7)


def test_passed_on_rows_that_see_nothing_are_zero():
    q, k, v, options = tensors({"softcap": 2.0}, d=300)
    mask = torch.ones(11, 11, dtype=torch.bool)
    mask[4] = False
    o = forward(q, k, v, mask, **options)
    assert not o[:, 4].any() and torch.isfinite(o).all() and o[:, 5].any()


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("hidden", ["none", "causal", "mask", "bool"])
@pytest.mark.parametrize("d", [16, 320])
def test_gradients(kind, hidden, d):
    """From attest's kernels and from PyTorch's operators: q, k, v, the sinks and an additive mask."""
    q, k, v, options = tensors(kind, d=d, grad=True)
    mask = {"mask": torch.randn(1, 4, 11, 11).requires_grad_(), "bool": torch.rand(11, 11) > 0.3}.get(hidden)
    leaves = [x for x in (q, k, v, options.get("s_aux"), mask) if x is not None and x.requires_grad]
    weights = torch.randn(2, 11, 4, d)
    with at.enable() as report:
        o = forward(q, k, v, mask, hidden == "causal", **options)
    assert (report.served, report.passed_on) == ((1, 0) if d == 16 else (0, 1))
    got = torch.autograd.grad((o * weights).sum(), leaves)
    wanted = torch.autograd.grad((exact(q, k, v, mask, hidden == "causal", **options) * weights).sum(), leaves)
    for mine, right in zip(got, wanted):
        torch.testing.assert_close(mine, right, rtol=1e-4, atol=1e-5 * right.abs().max().item())


@pytest.mark.parametrize("kind", KINDS)
def test_dropout_is_honoured(kind):
    """Every batch entry is one draw: they differ, and their mean is the result without dropout."""
    q, k, v, options = tensors(kind)
    draws = [x[:1].expand(512, *x.shape[1:]) for x in (q, k, v)]
    with at.enable() as report:
        dropped = forward(*draws, dropout=0.5, **options)
        plain = forward(q[:1], k[:1], v[:1], **options)
    assert (report.served, report.passed_on) == (1, 1) and "dropout_p=0.5" in str(report)
    assert dropped.std(0).min() > 0.01
    torch.testing.assert_close(dropped.mean(0), plain[0], rtol=0, atol=6 * dropped.std(0).max().item() / math.sqrt(512))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_autocast(kind, dtype):
    q, k, v, options = tensors(kind)
    with torch.autocast("cpu", dtype=dtype), at.enable() as report:
        o, wide = forward(q, k, v, **options), forward(q, k, v, dropout=1e-9, **options)
    assert o.dtype == wide.dtype == dtype and (report.served, report.passed_on) == (1, 1)
    for x in (o, wide):
        torch.testing.assert_close(x.double(), exact(q, k, v, **options), rtol=0, atol=3e-2)


@pytest.mark.parametrize("kind, d, dropout, grad", [
    (KINDS[0], 16, 0.0, False), (KINDS[1], 16, 0.0, True), (KINDS[2], 16, 0.0, True), (KINDS[2], 320, 0.0, True),
    (KINDS[0], 16, 1e-9, False)])
def test_compiles_in_one_graph(kind, d, dropout, grad):
    torch._dynamo.reset()
    q, k, v, options = tensors(kind, d=d, grad=grad)
    compiled = torch.compile(lambda q, k, v, **named: forward(q * 2, k, v, causal=True, dropout=dropout, **named),
                             fullgraph=True, backend="aot_eager")
    o = compiled(q, k, v, **options)
    torch.testing.assert_close(o.double(), exact(q * 2, k, v, causal=True, **options), rtol=0, atol=1e-5)
    if grad:
        leaves = [x for x in (q, k, v, options.get("s_aux")) if x is not None]
        got = torch.autograd.grad((o ** 2).sum(), leaves)
        wanted = torch.autograd.grad((exact(q * 2, k, v, causal=True, **options) ** 2).sum(), leaves)
        for mine, right in zip(got, wanted):
            torch.testing.assert_close(mine, right, rtol=1e-4, atol=1e-5 * right.abs().max().item())


@pytest.mark.parametrize("kind", KINDS)
def test_every_type_on_a_gpu_is_served(kind):
    """The decision, for GPU tensors without memory."""
    with FakeTensorMode(), at.enable() as report:
        q, k, v, options = tensors(kind, device="cuda")
        o = forward(q, k, v, **options)
        assert o.shape == (2, 11, 4, 16) and o.device.type == "cuda" and o.dtype == torch.float32
        assert report.passed_on == 0
        for dtype in (torch.float32, torch.float16, torch.bfloat16):
            x = [each.to(dtype) for each in (q, k, v)]
            assert at._reason(*x, None, 0.0, False, None, True, options.get("s_aux")) is None


def test_transforms_of_torch_func():
    """For q alone, and for sinks, which have no batch to fold vmap's axis into."""
    q, k, v, options = tensors({"softcap": 3.0, "s_aux": True})
    with at.enable() as report:
        for named in (options, {"softcap": 3.0}):
            got = torch.vmap(lambda q, named=named: forward(q, k, v, **named))(torch.stack([q, -q]))
            for mine, x in zip(got, (q, -q)):
                torch.testing.assert_close(mine.double(), exact(x, k, v, **named), rtol=0, atol=3e-6)
        sinks = torch.stack([options["s_aux"], -options["s_aux"]])
        got = torch.vmap(lambda s_aux: forward(q, k, v, softcap=3.0, s_aux=s_aux))(sinks)
        for mine, own in zip(got, sinks):
            torch.testing.assert_close(mine.double(), exact(q, k, v, softcap=3.0, s_aux=own), rtol=0, atol=3e-6)
    assert report.served > 0 and report.passed_on == 0


def test_the_operator():
    q, k, v, options = tensors(KINDS[2], grad=True)
    torch.library.opcheck(torch.ops.attest.sdpa, (q, k, v, None, True, 0.25, options["softcap"], options["s_aux"]))
