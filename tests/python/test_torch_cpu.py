"""test_torch_cpu.py: attest.torch compared with PyTorch's own scaled_dot_product_attention, on the CPU."""

import itertools
import threading

import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not here: its tests are left out")

import attest  # noqa: E402
import attest.torch as at  # noqa: E402
from torch.nn import functional  # noqa: E402
from torch.nn.attention import SDPBackend, sdpa_kernel  # noqa: E402

theirs = functional.scaled_dot_product_attention
BARS = {torch.float32: 3e-6, torch.float16: 4e-3, torch.bfloat16: 3e-2}


@pytest.fixture(autouse=True)
def seed():
    torch.manual_seed(3)
    yield
    at.disable()


def qkv(batch=2, heads=4, heads_kv=None, rows=17, keys=None, d=16, dtype=torch.float32):
    kv = (batch, heads_kv or heads, keys or rows, d)
    return torch.randn(batch, heads, rows, d).to(dtype), torch.randn(kv).to(dtype), torch.randn(kv).to(dtype)


def check(*tensors, **options):
    wide = [x.float() for x in tensors]
    mask = options.get("attn_mask")
    wanted = theirs(*wide, **{**options, "attn_mask": mask.float() if mask is not None and mask.is_floating_point()
                              else mask})
    got = at.scaled_dot_product_attention(*tensors, **options)
    assert got.shape == wanted.shape and got.dtype == tensors[0].dtype and got.device == tensors[0].device
    torch.testing.assert_close(got.float(), wanted, rtol=0, atol=BARS[tensors[0].dtype])


@pytest.mark.parametrize("dtype", list(BARS))
@pytest.mark.parametrize("options", [{}, {"is_causal": True}, {"scale": 0.3}])
def test_types(dtype, options):
    check(*qkv(dtype=dtype, rows=19, keys=33), **options)


@pytest.mark.parametrize("shapes", [
    [(5, 8)] * 3, [(3, 5, 8)] * 3, [(2, 3, 4, 5, 8)] * 3, [(2, 4, 5, 8), (1, 4, 7, 8), (1, 4, 7, 8)],
    [(2, 4, 5, 8), (2, 1, 7, 8), (2, 1, 7, 8)], [(2, 1, 5, 8), (2, 4, 7, 8), (2, 4, 7, 6)],
    [(4, 5, 8), (2, 4, 7, 8), (7, 8)], [(2, 4, 0, 8), (2, 4, 7, 8), (2, 4, 7, 8)],
    [(0, 4, 5, 8), (0, 4, 7, 8), (0, 4, 7, 8)]])
def test_leading_axes(shapes):
    check(*(torch.randn(shape) for shape in shapes))


def test_no_keys():
    o = at.scaled_dot_product_attention(torch.randn(1, 2, 3, 8), torch.randn(1, 2, 0, 8), torch.randn(1, 2, 0, 8))
    assert o.shape == (1, 2, 3, 8) and not o.any()


@pytest.mark.parametrize("shape", [(17, 23), (4, 1, 23), (2, 1, 1, 23), (2, 4, 17, 23), (1, 17, 1)])
@pytest.mark.parametrize("boolean", [True, False])
def test_masks(shape, boolean):
    mask = torch.rand(shape) > 0.3 if boolean else torch.randn(shape)
    check(*qkv(keys=23), attn_mask=mask)


def test_masks_of_other_layouts():
    q, k, v = qkv(keys=23)
    check(q, k, v, attn_mask=torch.randn(23, 17).t())
    check(q, k, v, attn_mask=(torch.rand(1, 1, 17, 46) > 0.5)[..., ::2])
    check(torch.stack([q, q]), torch.stack([k, k]), torch.stack([v, v]), attn_mask=torch.randn(2, 1, 17, 23))
    low = torch.randn(17, 23).bfloat16()
    check(q.bfloat16(), k.bfloat16(), v.bfloat16(), attn_mask=low)


def test_masked_rows_are_zero():
    mask = torch.ones(17, 17, dtype=torch.bool)
    mask[3] = False
    check(*qkv(), attn_mask=mask)


@pytest.mark.parametrize("heads_kv", [1, 2, 4])
def test_grouped_heads(heads_kv):
    check(*qkv(heads_kv=heads_kv), enable_gqa=True)


def test_strides():
    q, k, v = qkv()
    check(*(x.transpose(1, 2).contiguous().transpose(1, 2) for x in (q, k, v)))
    check(*(x.transpose(-1, -2).contiguous().transpose(-1, -2) for x in (q, k, v)))
    check(*(torch.cat([x, x], -1)[:, :, ::2, 16:] for x in (q, k, v)))
    check(q, k[:1, :1].expand_as(k), v[:1].expand_as(v))
    check(*torch.randn(2, 17, 3, 4, 16).permute(2, 0, 3, 1, 4).unbind())


@pytest.mark.parametrize("order", list(itertools.permutations(range(4))))
def test_the_output_lies_as_q_does(order):
    """For any order of the axes of q: a model with rows before heads or batch has nothing to copy."""
    back = [order.index(axis) for axis in range(4)]
    q, k, v = (x.permute(order).contiguous().permute(back) for x in qkv())
    mask = torch.zeros(17, 17)
    for o in (at.scaled_dot_product_attention(q, k, v), at.scaled_dot_product_attention(q, k, v, attn_mask=mask),
              at.scaled_dot_product_attention(q.requires_grad_(), k, v)):
        assert o.stride() == q.stride()
        torch.testing.assert_close(o, theirs(q, k, v))
    if order[-1] == 3:
        o, _ = attest.attention(q.detach(), k, v, return_lse=True)
        assert o.stride() == q.stride()
    narrow = at.scaled_dot_product_attention(q, k, v[..., :5])
    assert narrow.permute(order).is_contiguous()
    with torch._subclasses.FakeTensorMode() as mode:
        fake = [mode.from_tensor(x) for x in (q, k, v)]
        assert at.scaled_dot_product_attention(*fake).stride() == q.stride()


@pytest.mark.parametrize("q", [
    lambda: torch.randn(2, 17, 3, 4, 16).permute(2, 0, 3, 1, 4)[0], lambda: torch.randn(1, 4, 17, 16).expand(3, 4, 17, 16),
    lambda: torch.randn(17, 4, 16).transpose(0, 1).expand(3, 4, 17, 16), lambda: torch.randn(2, 1, 17, 16).expand(2, 4, 17, 16),
    lambda: torch.randn(2, 17, 1, 16).transpose(1, 2), lambda: torch.randn(2, 1, 4, 16).transpose(1, 2),
    lambda: torch.randn(1, 1, 1, 16), lambda: torch.randn(17, 2, 4, 32)[..., 16:].permute(1, 2, 0, 3),
    lambda: torch.randn(40).as_strided((1, 1, 5, 8), (7777, 3, 8, 1))])
def test_the_output_of_a_part_lies_as_empty_like_would(q):
    """For a q with gaps or expanded axes."""
    q = q()
    o = at.scaled_dot_product_attention(q, q, q)
    like = torch.empty_like(q)
    assert [n for n, size in zip(o.stride(), o.shape) if size > 1] == [n for n, size in zip(like.stride(), q.shape) if size > 1]
    torch.library.opcheck(torch.ops.attest.sdpa, (q, q, q, None, False, 0.25), test_utils=("test_schema", "test_faketensor"))


@pytest.mark.parametrize("tensors, options, kind", [
    (lambda q, k, v: (q, k.half(), v), {}, RuntimeError),
    (lambda q, k, v: (q, k[..., :8], v), {}, RuntimeError),
    (lambda q, k, v: (q, k[:, :2], v[:, :2]), {}, RuntimeError),
    (lambda q, k, v: (q, k[:, :3], v[:, :3]), {"enable_gqa": True}, RuntimeError),
    (lambda q, k, v: (q[0, 0, 0], k, v), {}, RuntimeError),
    (lambda q, k, v: (q, k, v), {"attn_mask": torch.ones(17, 17).int()}, RuntimeError),
    (lambda q, k, v: (q.to("meta"), k, v), {}, (RuntimeError, attest.UnsupportedError)),
    (lambda q, k, v: (q, k, v), {"attn_mask": torch.ones(16, 17)}, (RuntimeError, ValueError))])
def test_mistakes_are_pytorchs(tensors, options, kind):
    tensors = tensors(*qkv())
    with pytest.raises(Exception):
        theirs(*tensors, **options)
    with pytest.raises(kind):
        at.scaled_dot_product_attention(*tensors, **options)


def test_a_mask_and_is_causal():
    """PyTorch documents an error; some of its backends have computed both."""
    q, k, v = qkv()
    mask = torch.ones(17, 17).bool()
    with pytest.raises(RuntimeError, match="both set"):
        at.scaled_dot_product_attention(q, k, v, attn_mask=mask, is_causal=True)
    with at.enable() as report, pytest.raises(RuntimeError), sdpa_kernel(SDPBackend.MATH):
        functional.scaled_dot_product_attention(q, k, v, attn_mask=mask, is_causal=True)
    assert report.passed_on == 1


def test_values_for_fewer_keys_are_a_mistake():
    """PyTorch does not check this on every path."""
    q, k, v = qkv()
    with pytest.raises(RuntimeError, match="do not fit each other"):
        at.scaled_dot_product_attention(q, k, v[:, :, :3])


@pytest.mark.parametrize("options, reason", [({"dropout_p": 0.1}, "dropout"), ({"dtype": torch.float64}, "float64"),
                                             ({"d": 300}, "300")])
def test_refusals(options, reason):
    dropout = {key: value for key, value in options.items() if key == "dropout_p"}
    q, k, v = qkv(**{key: value for key, value in options.items() if key != "dropout_p"})
    assert reason in at.why_not(q, k, v, **dropout)
    with pytest.raises(attest.UnsupportedError, match=reason):
        at.scaled_dot_product_attention(q, k, v, **dropout)


@pytest.mark.parametrize("options", [{}, {"is_causal": True}, {"enable_gqa": True}, {"scale": 0.7}, {"mask": (17, 23)},
                                     {"mask": (2, 1, 1, 23)}, {"bool": (17, 23)}])
def test_gradients(options):
    tensors = [x.requires_grad_() for x in qkv(keys=23, heads_kv=2 if "enable_gqa" in options else 4)]
    named = {key: value for key, value in options.items() if key not in ("mask", "bool")}
    if "mask" in options:
        tensors.append(torch.randn(options["mask"]).requires_grad_())
    weights = torch.randn(2, 4, 17, 16)
    hidden = torch.rand(17, 23) > 0.3
    hidden[4] = False

    def gradients(function):
        mask = tensors[3] if "mask" in options else hidden if "bool" in options else None
        o = function(*tensors[:3], attn_mask=mask, **named)
        return (o, *torch.autograd.grad((o * weights).sum(), tensors))

    with sdpa_kernel(SDPBackend.MATH):
        wanted = gradients(theirs)
    for got, want in zip(gradients(at.scaled_dot_product_attention), wanted):
        torch.testing.assert_close(got, want, rtol=1e-4, atol=1e-5 * want.abs().max().item())
    assert attest.last_launch().kernel.startswith("bwd_")


def test_a_mask_that_is_expanded_has_a_gradient_for_every_element():
    q, k, v = qkv()
    mask = torch.randn(1, 1, 17, 17).requires_grad_()
    wide = mask.expand(2, 4, 17, 17)
    wide.retain_grad()
    at.scaled_dot_product_attention(q, k, v, attn_mask=wide).square().sum().backward()
    own = wide.grad
    mask.grad = None
    theirs(q, k, v, attn_mask=mask.expand(2, 4, 17, 17).clone()).square().sum().backward()
    torch.testing.assert_close(own.sum((0, 1), keepdim=True), mask.grad, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("d", [64, 128])
def test_gradients_of_inputs_that_saturate(d):
    """Inputs within 9 of 0: no further from float64 than twice the gradients of PyTorch's operators in the same
    type."""
    q, k, v, weights = (torch.rand(1, 4, 256, d).sub(0.5).mul(18).half() for _ in range(4))

    def gradients(function, dtype):
        own = [x.to(dtype).requires_grad_() for x in (q, k, v)]
        with sdpa_kernel(SDPBackend.MATH):
            function(*own).backward(weights.to(dtype))
        return [x.grad for x in own]

    exact, plain = gradients(theirs, torch.float64), gradients(theirs, torch.float16)
    for got, wanted, rounded in zip(gradients(at.scaled_dot_product_attention, torch.float16), exact, plain):
        bar = (rounded.double() - wanted).abs().max()
        assert torch.isfinite(got).all() and (got.double() - wanted).abs().max() <= 2 * bar


def test_a_second_derivative_is_refused_by_its_name():
    q, k, v = (x.requires_grad_() for x in qkv())
    for function in (at.scaled_dot_product_attention, at.attention):
        first, = torch.autograd.grad(function(q, k, v).sum(), q, create_graph=True)
        with pytest.raises(attest.UnsupportedError, match="double backward"):
            first.sum().backward()
    with pytest.raises(attest.UnsupportedError, match="double backward"):
        torch.func.grad(lambda q: torch.func.grad(lambda q: at.attention(q, k, v).sum())(q).sum())(q.detach())


def test_attention_itself_computes_no_gradient():
    q, k, v = qkv()
    q.requires_grad_()
    with pytest.raises(TypeError, match="q requires a gradient"):
        attest.attention(q, k, v)
    with torch.no_grad():
        assert not attest.attention(torch.nn.Parameter(q), k, v).requires_grad
    with torch.inference_mode():
        assert at.scaled_dot_product_attention(q, k, v).is_inference()


@pytest.mark.parametrize("how", [{}, {"grad": True}, {"mask": True}, {"rows_outside": True}])
def test_operator(how):
    q, k, v = qkv()
    if "rows_outside" in how:
        q, k, v = (x.transpose(1, 2).contiguous().transpose(1, 2) for x in (q, k, v))
    if "grad" in how:
        q, k, v = (x.requires_grad_() for x in (q, k, v))
    mask = torch.rand(17, 17) > 0.2 if "mask" in how else None
    torch.library.opcheck(torch.ops.attest.sdpa, (q, k, v, mask, mask is None, 0.25))


def test_compiles_in_one_graph():
    q, k, v = qkv()

    def model(q, k, v):
        return at.scaled_dot_product_attention(q * 2, k, v, is_causal=True) + 1

    compiled = torch.compile(model, fullgraph=True, backend="aot_eager")
    torch.testing.assert_close(compiled(q, k, v), theirs(q * 2, k, v, is_causal=True) + 1)
    own = [x.clone().requires_grad_() for x in (q, k, v)]
    compiled(*own).sum().backward()
    other = [x.clone().requires_grad_() for x in (q, k, v)]
    (theirs(other[0] * 2, *other[1:], is_causal=True) + 1).sum().backward()
    for x, y in zip(own, other):
        torch.testing.assert_close(x.grad, y.grad, rtol=1e-4, atol=1e-4)


def test_a_patched_model_compiles_in_one_graph():
    def model(q, k, v):
        return functional.scaled_dot_product_attention(q * 2, k, v, is_causal=True) + 1

    with at.enable() as report:
        compiled = torch.compile(model, fullgraph=True, backend="aot_eager", dynamic=True)
        for rows in (5, 7, 9):
            q, k, v = qkv(rows=rows)
            torch.testing.assert_close(compiled(q, k, v), theirs(q * 2, k, v, is_causal=True) + 1)
    assert (report.served, report.passed_on) == (3, 0)


def test_tensors_without_memory():
    from torch._subclasses import FakeTensorMode

    with FakeTensorMode():
        q = torch.zeros(2, 4, 5, 8)
        assert at.scaled_dot_product_attention(q, q, q).shape == q.shape
        with pytest.raises(TypeError, match="FakeTensor"):
            attest.attention(q, q, q)
    with pytest.raises(TypeError, match="^q: [^\n]*$"):
        attest.attention(torch.eye(4).to_sparse(), q, q)
    with pytest.raises((TypeError, ValueError), match="q"):
        attest.attention(torch.zeros(1, 1, 2, 8, device="meta"), *[torch.zeros(1, 1, 2, 8)] * 2)


def test_enable():
    q, k, v = qkv()
    with at.enable() as report:
        assert functional.scaled_dot_product_attention is not theirs
        torch.testing.assert_close(functional.scaled_dot_product_attention(q, k, v), theirs(q, k, v))
        torch.testing.assert_close(functional.scaled_dot_product_attention(q.double(), k.double(), v.double()).float(),
                                   theirs(q, k, v))
        functional.scaled_dot_product_attention(q, k, v, dropout_p=0.5)
        layer = torch.nn.MultiheadAttention(16, 2, batch_first=True)
        layer(q[0], k[0], v[0], need_weights=False)
        with at.enable() as inner:
            functional.scaled_dot_product_attention(q, k, v)
        assert (inner.served, inner.passed_on) == (1, 0)
    assert functional.scaled_dot_product_attention is theirs
    assert (report.served, report.passed_on) == (3, 2)
    text = str(report)
    assert text.startswith("3 served by attest, 2 passed on to PyTorch") and "no dropout" in text and "float64" in text
    functional.scaled_dot_product_attention(q, k, v)
    assert report.served == 3 and len(list(report.calls())) == 4


def test_enable_passes_mistakes_on_as_pytorchs():
    q, k, v = qkv()
    with at.enable(), pytest.raises(RuntimeError):
        functional.scaled_dot_product_attention(q, k[:, :3], v[:, :3])


def test_reports_are_bounded_and_of_every_thread():
    report = at.Report()
    for rows in range(1100):
        report._add(at.Call((rows,), (), torch.float32, "cpu", False, False, None))
    assert report.served == 1100 and len(list(report.calls())) == 1001
    q, k, v = qkv()
    with at.enable() as shared:
        threads = [threading.Thread(target=lambda: [functional.scaled_dot_product_attention(q, k, v)
                                                    for _ in range(50)]) for _ in range(3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert shared.served == 150


@pytest.mark.parametrize("rows, keys", [(17, 17), (17, 23), (23, 17)])
def test_pytorchs_causal_biases(rows, keys):
    from torch.nn.attention.bias import causal_lower_right, causal_upper_left

    q, k, v = qkv(rows=rows, keys=keys)
    for bias in (causal_upper_left(rows, keys), causal_lower_right(rows, keys)):
        side = "top-left" if bias.variant.name == "UPPER_LEFT" else "bottom-right"
        wanted = attest.attention(q, k, v, causal=side)
        torch.testing.assert_close(at.scaled_dot_product_attention(q, k, v, attn_mask=bias), wanted)
        with at.enable() as report:
            torch.testing.assert_close(functional.scaled_dot_product_attention(q, k, v, attn_mask=bias), wanted)
        assert report.served == 1


class Own(torch.Tensor):
    """A tensor that overrides PyTorch's functions."""

    @classmethod
    def __torch_function__(cls, function, types, args=(), kwargs=None):
        if getattr(function, "__name__", "") == "scaled_dot_product_attention":
            return "its own way"
        return super().__torch_function__(function, types, args, kwargs or {})


def test_tensors_with_their_own_way_keep_it():
    q, k, v = qkv()
    own = q.as_subclass(Own)
    with at.enable() as report:
        assert functional.scaled_dot_product_attention(own, k, v) == "its own way"
    assert report.passed_on == 1 and "Own has a way of its own" in str(report)
    with pytest.raises(attest.UnsupportedError, match="Own has a way of its own"):
        at.scaled_dot_product_attention(own, k, v)


def test_axes_of_length_one_have_any_stride():
    q, k, v = (torch.randn(40).as_strided((1, 1, 5, 8), (7777, 3, 8, 1)) for _ in range(3))
    check(q, k, v)
    check(*(torch.randn(2, 3, 1, 8).expand(2, 3, 4, 8) for _ in range(3)))


def test_types_stay_in_the_framework():
    q, k, v = qkv(dtype=torch.bfloat16)
    o, lse = attest.attention(q, k, v, return_lse=True, sinks=torch.zeros(4))
    assert type(o) is torch.Tensor and o.dtype == torch.bfloat16 and lse.dtype == torch.float32
    assert attest.attention(q, k, v, out=torch.empty_like(q, dtype=torch.float32)).dtype == torch.float32
    del q, k, v
    assert torch.isfinite(o).all() and o.add_(1).sum() != 0


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_autocast(dtype):
    q, k, v = qkv()
    mask = torch.randn(17, 17)
    with torch.autocast("cpu", dtype=dtype):
        for options in ({}, {"attn_mask": mask}):
            got, wanted = (f(q, k, v, **options) for f in (at.scaled_dot_product_attention, theirs))
            assert got.dtype == wanted.dtype == dtype
            torch.testing.assert_close(got, wanted, rtol=0, atol=BARS[dtype])
        with at.enable() as report:
            assert functional.scaled_dot_product_attention(q, k, v).dtype == dtype
        assert report.served == 1
        compiled = torch.compile(lambda q: at.scaled_dot_product_attention(q, k, v), fullgraph=True, backend="aot_eager")
        assert compiled(q).dtype == dtype


def test_signs_to_be_turned():
    q, k, v = qkv()
    for d in (1, 16):
        turned = torch.randn(2, 4, 17, d, dtype=torch.complex64).conj().imag
        assert turned.is_neg()
        check(turned, k[..., :d], v)
        with pytest.raises(TypeError, match="q is a view with its sign to be turned"):
            attest.attention(turned, k[..., :d], v)
    mask = torch.randn(17, 17, dtype=torch.complex64).conj().imag
    check(q, k, v, attn_mask=mask)
    with pytest.raises(TypeError, match="bias is a view with its sign to be turned"):
        attest.attention(q, k, v, bias=mask)


def unaligned(*shape):
    count = torch.Size(shape).numel()
    x = torch.frombuffer(bytearray(4 * count + 4), dtype=torch.float32, offset=1, count=count).view(shape)
    assert x.data_ptr() % 4
    return x.copy_(torch.randn(shape))


def test_elements_that_are_not_aligned():
    """PyTorch computes with them, so attest.torch must."""
    q, k, v = (unaligned(2, 4, 17, 16) for _ in range(3))
    check(q, k, v)
    check(q, k, v, attn_mask=unaligned(17, 17))
    with at.enable() as report:
        torch.testing.assert_close(functional.scaled_dot_product_attention(q, k, v), theirs(q, k, v))
    assert (report.served, report.passed_on) == (1, 0)
    torch.testing.assert_close(at.attention(q, k, v), theirs(q, k, v))
    import attest.flash_attn

    qkv = unaligned(2, 9, 3, 4, 16).requires_grad_()
    plain = qkv.detach().clone().requires_grad_()
    for x in (qkv, plain):
        attest.flash_attn.flash_attn_qkvpacked_func(x, causal=True).square().sum().backward()
    torch.testing.assert_close(qkv.grad, plain.grad)


class Older(torch.Tensor):
    """A tensor of a release without the exchange table: read through __dlpack__."""

    __dlpack_c_exchange_api__ = None


def test_tensors_without_the_exchange_table():
    q, k, v = qkv()
    o, lse = attest.attention(*(x.as_subclass(Older) for x in (q, k, v)), return_lse=True)
    wanted, wanted_lse = attest.attention(q, k, v, return_lse=True)
    assert torch.equal(o.as_subclass(torch.Tensor), wanted) and torch.equal(lse.as_subclass(torch.Tensor), wanted_lse)
    with torch.no_grad():
        attest.attention(q.as_subclass(Older).requires_grad_(), k, v)


@pytest.mark.parametrize("in_dims", [(0, 0, 0), (1, None, 0), (None, 2, 4), (2, 3, 0)])
@pytest.mark.parametrize("mask, mask_dim", [(None, None), ((5, 7), None), ((2, 1, 1, 7), None), ((3, 5, 7), 0),
                                            ((2, 4, 5, 3, 7), 3), ((1, 3, 1, 5, 7), 1)])
def test_vmap_is_a_part_of_the_batch(in_dims, mask, mask_dim):
    def make(axis, *shape):
        return torch.randn(shape) if axis is None else torch.randn(*shape[:axis], 3, *shape[axis:])

    q, k, v = (make(axis, 2, 4, rows, 8) for axis, rows in zip(in_dims, (5, 7, 7)))
    if mask is not None:
        mask = torch.randn(mask) > -0.5
    got, wanted = (torch.vmap(lambda q, k, v, mask: f(q, k, v, attn_mask=mask), (*in_dims, mask_dim))(q, k, v, mask)
                   for f in (at.scaled_dot_product_attention, theirs))
    torch.testing.assert_close(got, wanted.nan_to_num())  # a row that sees nothing is 0, and NaN in PyTorch's vmap
    twice = torch.vmap(torch.vmap(at.scaled_dot_product_attention))(*(torch.randn(2, 3, 2, 4, 5, 8) for _ in range(3)))
    assert twice.shape == (2, 3, 2, 4, 5, 8)


def test_gradients_of_torch_func():
    q, k, v = (torch.randn(3, 2, 4, 5, 8) for _ in range(3))

    def loss(f):
        return lambda q, k, v: (f(q, k, v, is_causal=True) ** 2).sum()

    mine, their = (torch.func.grad(loss(f), argnums=(0, 1, 2)) for f in (at.scaled_dot_product_attention, theirs))
    torch.testing.assert_close(mine(q[0], k[0], v[0]), their(q[0], k[0], v[0]))
    torch.testing.assert_close(torch.vmap(mine)(q, k, v), torch.vmap(their)(q, k, v))


def test_forward_mode_is_refused_and_passed_on():
    """A lost tangent would be a wrong derivative."""
    from torch.autograd import forward_ad

    q, k, v = qkv()
    with forward_ad.dual_level():
        dual = forward_ad.make_dual(q, k)
        with at.enable() as report:
            with pytest.raises(NotImplementedError, match="forward AD"):  # PyTorch's own: of its backend for the CPU
                functional.scaled_dot_product_attention(dual, k, v)
            functional.scaled_dot_product_attention(q, k, v)
        assert (report.served, report.passed_on) == (1, 1)
    with sdpa_kernel(SDPBackend.MATH):
        with forward_ad.dual_level():
            dual = forward_ad.make_dual(q, k)
            assert forward_ad.unpack_dual(theirs(dual, k, v)).tangent is not None
            with pytest.raises(attest.UnsupportedError, match="forward-mode"):
                at.scaled_dot_product_attention(dual, k, v)
            with pytest.raises(TypeError, match="v has a tangent"):
                attest.attention(q, k, dual)
            with at.enable() as report:
                o = functional.scaled_dot_product_attention(dual, k, v)
            assert forward_ad.unpack_dual(o).tangent is not None and report.passed_on == 1
        with pytest.raises(attest.UnsupportedError, match="forward-mode"):
            torch.func.jvp(lambda q: at.scaled_dot_product_attention(q, k, v), (q,), (k,))
        assert attest.attention(q, k, v) is not None


@pytest.mark.filterwarnings("ignore")  # PyTorch's warnings about its own tracers
def test_tracers_see_the_operator():
    from torch.fx.experimental.proxy_tensor import make_fx

    class Model(torch.nn.Module):
        def forward(self, q, k, v):
            return at.scaled_dot_product_attention(q, k, v, is_causal=True) + q

    inputs, others = qkv(), qkv()
    wanted = theirs(*others, is_causal=True) + others[0]
    traced = torch.jit.trace(Model(), inputs, check_trace=False)
    for program in (traced, make_fx(Model())(*inputs), torch.export.export(Model(), inputs).module()):
        torch.testing.assert_close(program(*others), wanted)


def test_a_default_device_changes_nothing():
    """It is a PyTorch mode, which sees every function."""
    q, k, v = qkv()
    mask = torch.rand(17, 17) > 0.3
    try:
        torch.set_default_device("cpu")
        check(q, k, v, attn_mask=mask)
        with at.enable() as report:
            functional.scaled_dot_product_attention(q, k, v, attn_mask=mask)
        assert (report.served, report.passed_on) == (1, 0)
    finally:
        torch.set_default_device(None)


def test_a_meta_tensor_is_passed_on():
    q, k, v = (x.to("meta") for x in qkv())
    with pytest.raises(attest.UnsupportedError, match="query is on meta"):
        at.scaled_dot_product_attention(q, k, v)
    with at.enable() as report:
        assert functional.scaled_dot_product_attention(q, k, v).device.type == "meta"
    assert report.passed_on == 1


@pytest.mark.parametrize("mistake, match", [
    ({"query": None}, "query is a NoneType"), ({"key": [1.0]}, "key is a list"), ({"value": 3}, "value is a int"),
    ({"attn_mask": True}, "attn_mask is a bool"), ({"is_causal": 1}, "is_causal is 1"),
    ({"enable_gqa": None}, "enable_gqa is None"), ({"scale": "much"}, "scale is 'much'")])
def test_wrong_types(mistake, match):
    q, k, v = qkv()
    arguments = {"query": q, "key": k, "value": v, **mistake}
    with pytest.raises(TypeError):
        theirs(**arguments)
    with pytest.raises(TypeError, match=match):
        at.scaled_dot_product_attention(**arguments)


def test_the_signature_is_pytorchs():
    q, k, v = qkv()
    for function in (theirs, at.scaled_dot_product_attention):
        function(q, k, v, None, 0.0, False)
        with pytest.raises(TypeError, match="positional"):
            function(q, k, v, None, 0.0, False, 0.5)


def test_nothing_leaks():
    q, k, v = qkv(rows=64)

    def resident():
        with open("/proc/self/statm", encoding="ascii") as file:
            return int(file.read().split()[1])

    for _ in range(300):
        at.scaled_dot_product_attention(q, k, v)
    pages = resident()
    for _ in range(2000):
        attest.attention(q, k, v, return_lse=True)
    assert (resident() - pages) * 4096 < 8 << 20
