"""test_torch_passed_on.py: what attest.torch.enable() must pass to PyTorch unchanged, and the compilers that see it."""

import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not here: its tests are left out")

import attest  # noqa: E402
import attest.torch as at  # noqa: E402
from attest import flash_attn  # noqa: E402
from torch._subclasses import FakeTensorMode  # noqa: E402
from torch.nn import functional  # noqa: E402
from torch.nn.attention import SDPBackend, sdpa_kernel  # noqa: E402
from torch.nn.attention.bias import causal_lower_right, causal_upper_left  # noqa: E402

theirs = functional.scaled_dot_product_attention


@pytest.fixture(autouse=True)
def seed():
    torch.manual_seed(3)
    yield
    at.disable()


def qkv(*shape):
    return [torch.randn(shape or (2, 4, 17, 16)) for _ in range(3)]


def nested(layout):
    parts = [torch.randn(2, rows, 8) for rows in (3, 5)]
    if layout is torch.strided:
        return torch.nested.nested_tensor(parts)
    return torch.nested.nested_tensor([x.transpose(0, 1) for x in parts], layout=layout).transpose(1, 2)


@pytest.mark.filterwarnings("ignore")  # PyTorch calls both kinds a prototype
@pytest.mark.parametrize("layout", [torch.strided, torch.jagged])
@pytest.mark.parametrize("autocast", [False, True])
def test_nested_tensors(layout, autocast):
    x = nested(layout)
    with torch.autocast("cpu", enabled=autocast):
        assert "nested" in at.why_not(x, x, x).lower()
        with pytest.raises(attest.UnsupportedError, match="(?i)nested"):
            at.scaled_dot_product_attention(x, x, x)
        with at.enable() as report:
            o = functional.scaled_dot_product_attention(x, x, x)
        wanted = theirs(x, x, x)
    assert o.is_nested and (report.served, report.passed_on) == (0, 1) and "nested" in str(report).lower()
    for got, want in zip(o.unbind(), wanted.unbind()):
        torch.testing.assert_close(got, want)


class Model(torch.nn.Module):
    def forward(self, q, k, v):
        return functional.scaled_dot_product_attention(q, k, v, is_causal=True) + q


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_script_compiles_pytorchs_function():
    q, k, v = qkv()
    layer = torch.nn.MultiheadAttention(16, 2, batch_first=True).eval()
    with at.enable():
        script = torch.jit.script(Model())
        scripted_layer = torch.jit.script(layer)
        assert "aten::scaled_dot_product_attention" in str(script.graph)
        torch.testing.assert_close(script(q, k, v), theirs(q, k, v, is_causal=True) + q)
    torch.testing.assert_close(script(q, k, v), theirs(q, k, v, is_causal=True) + q)
    torch.testing.assert_close(scripted_layer(q[0], q[0], q[0])[0], layer(q[0], q[0], q[0])[0])


def test_symbolic_traces_have_pytorchs_function():
    q, k, v = qkv()
    with at.enable():
        program = torch.fx.symbolic_trace(Model())
    assert any(node.target is theirs for node in program.graph.nodes)
    torch.testing.assert_close(program(q, k, v), theirs(q, k, v, is_causal=True) + q)


class OfASelection(torch.nn.Module):
    """Attention over as many batch entries, or as many rows, as the data say."""

    def __init__(self, over_rows, masked):
        super().__init__()
        self.over_rows, self.masked = over_rows, masked
        self.weights = torch.nn.ModuleList(torch.nn.Linear(24, 32) for _ in range(3))

    def forward(self, x):
        x = x[x.sum(-1) != 0]
        shape = (1, -1, 4, 8) if self.over_rows else (-1, 1, 4, 8)
        q, k, v = (weights(x).view(shape).transpose(1, 2) for weights in self.weights)
        ones = torch.ones((1, 1, x.shape[0], x.shape[0]) if self.over_rows else (x.shape[0], 1, 1, 1), dtype=torch.bool)
        return functional.scaled_dot_product_attention(q, k, v, ones if self.masked else None,
                                                       is_causal=self.over_rows and not self.masked)


@pytest.mark.parametrize("over_rows", [False, True])
@pytest.mark.parametrize("masked", [False, True])
def test_sizes_that_depend_on_the_data(over_rows, masked):
    model, x = OfASelection(over_rows, masked).eval(), torch.randn(5, 24)
    others = torch.randn(7, 24)
    x[0], others[2:4] = 0, 0
    wanted, wanted_of_others = model(x), model(others)
    with at.enable(), torch._dynamo.config.patch(capture_dynamic_output_shape_ops=True):
        program = torch.export.export(model, (x,)).module()
        compiled = torch.compile(model, fullgraph=True, backend="aot_eager")
        for got in (program(x), compiled(x)):
            torch.testing.assert_close(got, wanted)
            assert got.stride() == wanted.stride()
            got.sum().backward()
        assert "attest" in str(program.graph)
        torch.testing.assert_close(compiled(others), wanted_of_others)


@pytest.mark.parametrize("scale", [float("nan"), float("inf"), -float("inf")])
@pytest.mark.parametrize("mask", [None, torch.zeros(17, 17)])
def test_a_scale_that_is_not_finite(scale, mask):
    q, k, v = (x.requires_grad_() for x in qkv())
    assert "scale" in at.why_not(q, k, v, mask, scale=scale)
    with pytest.raises(attest.UnsupportedError, match="scale"):
        at.scaled_dot_product_attention(q, k, v, mask, scale=scale)
    with at.enable() as report:
        o = functional.scaled_dot_product_attention(q, k, v, mask, scale=scale)
    assert torch.equal(o.isnan(), theirs(q, k, v, mask, scale=scale).isnan()) and (report.served, report.passed_on) == (0, 1)


@pytest.mark.parametrize("shape", [(3, 1, 17, 17), (1, 3, 17, 17), (2, 2, 4, 17, 17), (17, 16), (16, 17)])
def test_a_mask_that_does_not_broadcast(shape):
    """PyTorch raises a RuntimeError, and so does attest."""
    q, k, v = qkv()
    with at.enable():
        for function in (theirs, at.scaled_dot_product_attention, functional.scaled_dot_product_attention):
            for mask in (torch.zeros(shape), torch.ones(shape, dtype=torch.bool)):
                with pytest.raises(RuntimeError):
                    function(q, k, v, mask)


@pytest.mark.parametrize("bias", [causal_upper_left(17, 17), causal_upper_left(17, 23), causal_lower_right(17, 17)])
def test_a_causal_bias_and_is_causal(bias):
    """PyTorch refuses the two together."""
    q, k, v = qkv()
    assert "both set" in at.why_not(q, k, v, bias, is_causal=True)
    for function in (theirs, at.scaled_dot_product_attention):
        with pytest.raises(ValueError, match="CausalBias should not be used with causal=True"):
            function(q, k, v, bias, is_causal=True)
    with at.enable() as report, pytest.raises(ValueError, match="CausalBias should not be used with causal=True"):
        functional.scaled_dot_product_attention(q, k, v, bias, is_causal=True)
    assert report.served == 0


def test_why_not_sees_what_is_computed():
    """A causal bias, and types on a GPU with and without autocast, as scaled_dot_product_attention() accepts them."""
    q, k, v = qkv()
    assert at.why_not(q, k, v, causal_lower_right(17, 17)) is None
    enabled, dtype = torch.is_autocast_enabled("cuda"), torch.get_autocast_dtype("cuda")
    with FakeTensorMode():
        x = torch.zeros(1, 2, 5, 8, device="cuda")
        assert at.why_not(x, x, x) is None
        assert "float64" in at.why_not(x.double(), x.double(), x.double())
        try:
            torch.set_autocast_enabled("cuda", True)
            torch.set_autocast_dtype("cuda", torch.float16)
            assert at.why_not(x, x, x) is None
            with at.enable() as report:
                assert functional.scaled_dot_product_attention(x, x, x).dtype == torch.float16
        finally:
            torch.set_autocast_enabled("cuda", enabled)
            torch.set_autocast_dtype("cuda", dtype)
    assert report.passed_on == 0


def fake(*shape, dtype=torch.float32):
    return torch.zeros(*shape, device="cuda", dtype=dtype, requires_grad=True)


def test_float32_gradients_on_a_gpu_are_known_to_be_missing_before_the_forward_pass():
    """attest has float32 kernels for GPUs, but none that computes gradients."""
    with FakeTensorMode():
        x = fake(1, 2, 5, 8)
        assert "float32 tensors on a GPU require a gradient" in at.why_not(x, x, x)
        assert at.why_not(x.detach(), x.detach(), x.detach()) is None
        assert "float32" in at.why_not(*[x.detach()] * 3, attn_mask=fake(5, 5))
        half = fake(1, 2, 5, 8, dtype=torch.bfloat16)
        assert at.why_not(half, half, half) is None
        with torch.no_grad():
            assert at.why_not(x, x, x) is None
        with at.enable() as report:
            functional.scaled_dot_product_attention(x, x, x)
            assert report.passed_on == 1 and "float32 tensors on a GPU require a gradient" in str(report)
            functional.scaled_dot_product_attention(half, half, half)
            assert report.passed_on == 1
        reasons = []

        def differentiated(x):
            return torch.func.vjp(lambda x: reasons.append(at.why_not(x, x, x)) or x, x)[0]

        differentiated(x.detach())
        torch.func.vmap(differentiated)(x.detach())
        torch.func.vjp(torch.func.vmap(lambda x: reasons.append(at.why_not(x, x, x)) or x), x.detach())
        assert len(reasons) == 3 and all("require a gradient" in each for each in reasons)


def test_float32_gradients_on_a_gpu_are_refused_by_name():
    """Where there is nothing to pass the call on to."""
    with FakeTensorMode():
        x, packed, starts = fake(1, 5, 2, 8), fake(1, 5, 3, 2, 8), torch.zeros(2, device="cuda", dtype=torch.int32)
        for call in (lambda: at.attention(x, x, x), lambda: at.attention(*[x.detach()] * 3, bias=fake(5, 5)),
                     lambda: at.scaled_dot_product_attention(x, x, x), lambda: flash_attn.flash_attn_func(x, x, x),
                     lambda: flash_attn.flash_attn_qkvpacked_func(packed),
                     lambda: flash_attn.flash_attn_varlen_func(x[0], x[0], x[0], starts, starts, 5, 5)):
            with pytest.raises(attest.UnsupportedError, match="float32 tensors on a GPU require a gradient"):
                call()
            with torch.no_grad():
                call()


@pytest.mark.parametrize("backends, served", [
    (SDPBackend.MATH, False), (SDPBackend.FLASH_ATTENTION, False), ([SDPBackend.MATH, SDPBackend.FLASH_ATTENTION], False),
    ([SDPBackend.FLASH_ATTENTION, SDPBackend.EFFICIENT_ATTENTION, SDPBackend.MATH, SDPBackend.CUDNN_ATTENTION], True),
    ([SDPBackend.FLASH_ATTENTION, SDPBackend.EFFICIENT_ATTENTION, SDPBackend.MATH], True)])
@pytest.mark.parametrize("mask", [False, True])
def test_forbidden_backends_leave_the_choice_to_pytorch(backends, served, mask):
    q, k, v = qkv()
    mask = torch.rand(17, 17) > 0.3 if mask else None
    with at.enable() as report, sdpa_kernel(backends):
        o = functional.scaled_dot_product_attention(q, k, v, attn_mask=mask)
        assert torch.equal(o, theirs(q, k, v, attn_mask=mask)) or served
        assert at.scaled_dot_product_attention(q, k, v, attn_mask=mask) is not None  # by name it is attest
    assert (report.served, report.passed_on) == ((2, 0) if served else (1, 1))
    assert served or "sdpa_kernel() or torch.backends.cuda forbids" in str(report)
    with at.enable() as report:
        functional.scaled_dot_product_attention(q, k, v, attn_mask=mask)
    assert report.served == 1


def test_forbidden_backends_in_a_compiled_program():
    def model(q, k, v):
        with sdpa_kernel(SDPBackend.MATH):
            return functional.scaled_dot_product_attention(q, k, v)

    q, k, v = qkv()
    with at.enable() as report:
        compiled = torch.compile(model, fullgraph=True, backend="aot_eager")
        torch.testing.assert_close(compiled(q, k, v), theirs(q, k, v))
        torch.testing.assert_close(torch.compile(Model(), fullgraph=True, backend="aot_eager")(q, k, v),
                                   theirs(q, k, v, is_causal=True) + q)
    assert report.served == 1


@pytest.mark.parametrize("mistake", [{"query": "words"}, {"attn_mask": True}, {"is_causal": 1}, {"enable_gqa": None}])
def test_wrong_types_are_told_by_pytorch(mistake):
    q, k, v = qkv()
    arguments = (mistake.pop("query", q), k, v)
    with pytest.raises(TypeError) as wanted:
        theirs(*arguments, **mistake)
    with at.enable(), pytest.raises(TypeError) as got:
        functional.scaled_dot_product_attention(*arguments, **mistake)
    assert str(got.value) == str(wanted.value)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
@pytest.mark.parametrize("least", [float("-inf"), "finfo"])
@pytest.mark.parametrize("expanded", [False, True])
@pytest.mark.parametrize("all_hidden", [False, True])
def test_masks_as_models_make_them(dtype, least, expanded, all_hidden):
    """Additive, hiding with -inf or the lowest number, one row of keys or expanded without a copy; a row may see
    nothing."""
    q, k, v = (x.to(dtype) for x in qkv())
    hidden = torch.rand(2, 1, 1 if expanded else 17, 17) > 0.6
    if all_hidden:
        hidden[1, :, 0] = True
    mask = torch.zeros(hidden.shape, dtype=dtype).masked_fill(hidden, torch.finfo(dtype).min if least == "finfo" else least)
    mask = mask.expand(2, 4, 17, 17) if expanded else mask
    wanted = theirs(q.float(), k.float(), v.float(), attn_mask=mask.float())
    with at.enable() as report:
        o = functional.scaled_dot_product_attention(q, k, v, attn_mask=mask)
    assert report.served == 1
    torch.testing.assert_close(o.float(), wanted, rtol=0, atol={2: 3e-2 if dtype is torch.bfloat16 else 4e-3}.get(dtype.itemsize, 3e-6))


@pytest.mark.parametrize("least", [float("-inf"), torch.finfo(torch.float32).min])
def test_gradients_of_rows_that_see_nothing(least):
    """A row hidden by the lowest number sees every key equally; as for padding, the loss ignores it."""
    tensors = [x.requires_grad_() for x in qkv()]
    mask = torch.zeros(17, 17).masked_fill(torch.rand(17, 17) > 0.6, least)
    mask[3] = least
    gradients = []
    for function in (at.scaled_dot_product_attention, theirs):
        with sdpa_kernel(SDPBackend.MATH):
            o = function(*tensors, attn_mask=mask).index_fill(2, torch.tensor([3]), 0)
            gradients.append(torch.autograd.grad((o ** 2).sum(), tensors))
    for got, wanted in zip(*gradients):
        torch.testing.assert_close(got, wanted.nan_to_num(), rtol=1e-4, atol=1e-5)
