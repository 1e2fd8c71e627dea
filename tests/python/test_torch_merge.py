"""test_torch_merge.py: merge() of PyTorch's tensors: types, gradients, torch.compile, torch.func."""

import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not here: its tests are left out")

import attest  # noqa: E402
import attest.torch as at  # noqa: E402

DEVICES = ["cpu"] + ["cuda"] * torch.cuda.is_available()
BARS = {torch.float32: 3e-6, torch.float16: 3e-3, torch.bfloat16: 2e-2}


@pytest.fixture(autouse=True, params=DEVICES)
def device(request):
    torch.manual_seed(5)
    return request.param


def parts(device, count=3, shape=(2, 3, 5, 8), dtype=torch.float32, **options):
    return ([torch.randn(shape, device=device, dtype=dtype, **options) for _ in range(count)],
            [3 * torch.randn(shape[:-1], device=device, **options) for _ in range(count)])


def leaves(x):
    return [each.detach().clone().requires_grad_() for each in x]


def exact(o, lse, swapped=False):
    """With PyTorch's operators in float64, differentiable."""
    o, lse = torch.stack(tuple(o)).double(), torch.stack(tuple(lse)).double()
    total = torch.logsumexp(lse, 0)
    weights = torch.exp(lse - total)
    return ((weights.transpose(-1, -2) if swapped else weights)[..., None] * o).sum(0), total


@pytest.mark.parametrize("dtype", list(BARS))
@pytest.mark.parametrize("function", [attest.merge, at.merge])
def test_types(device, dtype, function):
    o, lse = parts(device, dtype=dtype)
    got = function(o, lse)
    assert got[0].dtype == dtype and got[1].dtype == torch.float32 and got[0].device == o[0].device
    for x, y in zip(got, exact(o, lse)):
        torch.testing.assert_close(x.double(), y, rtol=0, atol=BARS[dtype])
    again = function(torch.stack(o), torch.stack(lse))
    assert all(torch.equal(x, y) for x, y in zip(got, again))
    assert torch.equal(function(o, lse, return_lse=False), got[0])


def test_split_attention_with_gradients(device):
    """Keys in chunks: the gradients through the merge are those of the whole."""
    dtype = torch.float32 if device == "cpu" else torch.bfloat16
    q, k, v = (torch.randn(2, 4, rows, 16, device=device, dtype=dtype) for rows in (10, 30, 30))
    own, theirs = leaves((q, k, v)), leaves((q, k, v))
    chunks = [torch.ops.attest.sdpa(own[0], kk, vv, None, False, 0.25) for kk, vv in
              zip(own[1].split(12, 2), own[2].split(12, 2))]
    o, lse = at.merge([o for o, _ in chunks], [lse for _, lse in chunks])
    wanted = torch.nn.functional.scaled_dot_product_attention(*theirs, scale=0.25)
    torch.testing.assert_close(o, wanted, rtol=0, atol=BARS[dtype])
    (o * o).sum().backward()
    (wanted * wanted).sum().backward()
    for x, y in zip(own, theirs):
        torch.testing.assert_close(x.grad, y.grad, rtol=0, atol=20 * BARS[dtype])


@pytest.mark.parametrize("layout, shape, sums", [("bhsd", (2, 3, 5, 8), (2, 3, 5)), ("bshd", (2, 5, 3, 8), (2, 3, 5)),
                                                 ("bhsd", (5, 3, 8), (3, 5))])
def test_gradients(device, layout, shape, sums):
    o = [torch.randn(shape, device=device) for _ in range(3)]
    lse = [torch.randn(sums, device=device) for _ in range(3)]
    own, theirs = (leaves(o), leaves(lse)), (leaves(o), leaves(lse))
    weight = torch.randn(shape, device=device)
    got = at.merge(*own, layout=layout)
    ((got[0] * weight).sum() + (got[1] ** 2).sum()).backward()
    wanted = exact(*theirs, swapped=layout == "bshd" or len(shape) == 3)
    ((wanted[0] * weight).sum() + (wanted[1] ** 2).sum()).backward()
    for x, y in zip(own[0] + own[1], theirs[0] + theirs[1]):
        torch.testing.assert_close(x.grad, y.grad, rtol=1e-4, atol=1e-5)


def test_gradients_of_empty_parts(device):
    o, lse = parts(device)
    o[1][:] = float("nan")
    lse[1][:] = -torch.inf
    for x in lse:
        x[0, 0, 0] = -torch.inf
    o, lse = leaves(o), leaves(lse)
    merged, sums = at.merge(o, lse)
    (merged.sum() + sums[torch.isfinite(sums)].sum()).backward()
    assert all(torch.isfinite(x.grad).all() for x in (*o, *lse))
    assert not o[1].grad.any() and not lse[1].grad.any() and not o[0].grad[0, 0, 0].any() and o[0].grad[1].any()


def test_a_gradient_is_refused_by_name(device):
    o, lse = parts(device)
    o[1].requires_grad_()
    with pytest.raises(TypeError, match=r"parts_o\[1\] requires a gradient.*attest.torch.merge\(\)"):
        attest.merge(o, lse)
    with torch.no_grad():
        assert torch.equal(attest.merge(o, lse)[0], at.merge(o, lse)[0])


def test_operator(device):
    o, lse = parts(device)
    torch.library.opcheck(torch.ops.attest.merge.default, (leaves(o), leaves(lse), "bhsd"))
    turned = [x.transpose(1, 2).contiguous().transpose(1, 2) for x in o]
    torch.library.opcheck(torch.ops.attest.merge.default, (turned, lse, "bhsd"))


def test_compile(device):
    @torch.compile(fullgraph=True, backend="aot_eager")
    def half(o, lse):
        merged, sums = at.merge(o, lse)
        return merged * 2, sums

    o, lse = parts(device)
    got, wanted = half(o, lse), at.merge(o, lse)
    assert torch.equal(got[0], wanted[0] * 2) and torch.equal(got[1], wanted[1])
    own, theirs = (leaves(o), leaves(lse)), (leaves(o), leaves(lse))
    half(*own)[0].sum().backward()
    (at.merge(*theirs)[0] * 2).sum().backward()
    for x, y in zip(own[0] + own[1], theirs[0] + theirs[1]):
        torch.testing.assert_close(x.grad, y.grad)


@pytest.mark.parametrize("shape, sums", [((2, 3, 5, 8), (2, 3, 5)), ((5, 3, 8), (3, 5))])
def test_vmap_and_grad(device, shape, sums):
    o, lse = (torch.randn(3, 4, *sizes, device=device) for sizes in (shape, sums))  # 3 parts of 4 problems
    got = torch.func.vmap(lambda a, b: at.merge(a, b), in_dims=1)(o, lse)
    for i in range(4):
        for x, y in zip(got, at.merge(o[:, i], lse[:, i])):
            torch.testing.assert_close(x[i], y)
    grad = torch.func.grad(lambda a: at.merge(a, lse[:, 0])[0].square().sum())(o[:, 0])
    leaf = o[:, 0].clone().requires_grad_()
    at.merge(leaf, lse[:, 0])[0].square().sum().backward()
    torch.testing.assert_close(grad, leaf.grad)


def test_mistakes(device):
    o, lse = parts(device)
    with pytest.raises(ValueError, match="parts_lse has 2 parts, parts_o 3"):
        at.merge(leaves(o), lse[:2])
    with pytest.raises(TypeError, match="parts_o and parts_lse have a int"):
        at.merge(o, [1, 2, 3])
    with pytest.raises(TypeError, match="float64"):
        at.merge([x.double() for x in o], lse)
