"""attest.torch.moe: the operator compared with a loop over experts, its gradients, and torch.compile."""

import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not here: its tests are left out")

import attest  # noqa: E402
import attest.torch  # noqa: E402
from attest._torch_moe import _Expert, _weigh  # noqa: E402

TOKENS, HIDDEN, INNER, EXPERTS, TOP_K = 19, 24, 16, 5, 2


def layer(dtype=torch.float32, seed=3, rows=2 * INNER):
    torch.manual_seed(seed)
    x, w1, w2 = (torch.randn(*shape).mul(0.3).to(dtype) for shape in ((TOKENS, HIDDEN), (EXPERTS, rows, HIDDEN), (EXPERTS, HIDDEN, INNER)))
    return x, w1, w2, torch.randn(TOKENS, EXPERTS)


def reference(x, w1, w2, logits, routing="softmax", renormalise=True, activation="swiglu", b1=None, b2=None):
    """A loop over experts, which PyTorch differentiates."""
    ids = torch.topk(logits, TOP_K, -1).indices
    weights = _weigh(logits, ids, routing, renormalise, 1.0)
    y = torch.zeros(TOKENS, HIDDEN)
    for e in range(EXPERTS):
        token, slot = torch.nonzero(ids == e, as_tuple=True)
        out = _Expert(x[token], w1, w2, None, b1, b2, None, e, activation, 1.702, 7.0, False, False).out
        y = y.index_add(0, token, out * weights[token, slot].unsqueeze(-1))
    return y


@pytest.mark.parametrize("dtype, bar", [(torch.float32, 1e-5), (torch.bfloat16, 2e-2), (torch.float16, 2e-3)])
def test_value(dtype, bar):
    x, w1, w2, logits = layer(dtype)
    y = attest.torch.moe(x, w1, w2, logits=logits, top_k=TOP_K)
    assert y.dtype == dtype
    torch.testing.assert_close(y.float(), reference(x, w1, w2, logits), atol=bar, rtol=bar)


def test_axes_before_the_last_and_ids_of_int64():
    x, w1, w2, logits = layer()
    y = attest.torch.moe(x, w1, w2, logits=logits, top_k=TOP_K)
    x3, logits3 = x[:18].reshape(2, 9, HIDDEN), logits[:18].reshape(2, 9, EXPERTS)
    got, ids, weights, counts = attest.torch.moe(x3, w1, w2, logits=logits3, top_k=TOP_K, return_routing=True)
    assert torch.equal(got.reshape(18, HIDDEN), y[:18]) and ids.shape == weights.shape == (2, 9, TOP_K) and counts.sum() == 18 * TOP_K
    assert torch.equal(attest.torch.moe(x3, w1, w2, ids=ids.long(), weights=weights), got)


@pytest.mark.parametrize("routing, renormalise, activation, biases", [
    ("softmax", True, "swiglu", False), ("softmax", False, "geglu", True), ("topk", True, "swiglu-clamped", True), ("sigmoid", True, "geglu-tanh", False),
    ("softmax", True, "relu2", False), ("softmax", True, "gelu-tanh", True)])
def test_gradients(routing, renormalise, activation, biases):
    rows = 2 * INNER if "glu" in activation else INNER
    inputs = list(layer(rows=rows))
    if biases:
        inputs += [torch.randn(EXPERTS, rows) * 0.3, torch.randn(EXPERTS, HIDDEN) * 0.3]
    grad = torch.randn(TOKENS, HIDDEN)
    ours, theirs = ([t.clone().requires_grad_() for t in inputs] for _ in range(2))
    names = ("b1", "b2")
    y = attest.torch.moe(*ours[:3], logits=ours[3], top_k=TOP_K, routing=routing, renormalise=renormalise, activation=activation,
                         **dict(zip(names, ours[4:])))
    wanted = reference(*theirs[:4], routing, renormalise, activation, *theirs[4:])
    torch.testing.assert_close(y, wanted, atol=1e-5, rtol=1e-5)
    for a, b in zip(torch.autograd.grad(y, ours, grad), torch.autograd.grad(wanted, theirs, grad)):
        torch.testing.assert_close(a, b, atol=1e-5, rtol=1e-4)


def test_gradients_by_differences():
    x, w1, w2, logits = layer()
    weights = torch.full((TOKENS, TOP_K), 0.5, requires_grad=True)
    ids = torch.topk(logits, TOP_K, -1).indices
    y = attest.torch.moe(x, w1, w2, ids=ids, weights=weights)
    d_weights, = torch.autograd.grad(y.sum(), weights)
    step = torch.zeros_like(weights)
    step[4, 1] = 0.125  # y is linear in the weights
    with torch.no_grad():
        difference = (attest.torch.moe(x, w1, w2, ids=ids, weights=weights + step) - y).sum() / 0.125
    torch.testing.assert_close(d_weights[4, 1], difference, atol=1e-4, rtol=1e-4)


def test_gradients_of_weights_apart_and_transposed():
    x, w1, w2, logits = layer()
    options, grad = dict(logits=logits, top_k=TOP_K), torch.randn(TOKENS, HIDDEN)
    whole = w1.clone().requires_grad_()
    wanted, = torch.autograd.grad(attest.torch.moe(x, whole, w2, **options), whole, grad)
    gate, up = (w.contiguous().requires_grad_() for w in w1.chunk(2, 1))
    got = torch.autograd.grad(attest.torch.moe(x, gate, w2, w3=up, **options), (gate, up), grad)
    torch.testing.assert_close(torch.cat(got, 1), wanted)
    turned = w1.transpose(1, 2).contiguous().requires_grad_()
    got, = torch.autograd.grad(attest.torch.moe(x, turned, w2.transpose(1, 2).contiguous(), transposed=True, **options), turned, grad)
    torch.testing.assert_close(got.transpose(1, 2), wanted, atol=1e-5, rtol=1e-5)
    by_turns = torch.stack(w1.chunk(2, 1), 2).flatten(1, 2).requires_grad_()
    got, = torch.autograd.grad(attest.torch.moe(x, by_turns, w2, interleaved=True, **options), by_turns, grad)
    torch.testing.assert_close(torch.cat((got[:, ::2], got[:, 1::2]), 1), wanted)


def test_opcheck():
    x, w1, w2, logits = layer()
    arguments = (x.requires_grad_(), w1.requires_grad_(), w2, logits, None, None, None, None, None, None, None, None, TOP_K, "swiglu",
                 "softmax", True, 1.0, 1.702, 7.0, 1, 1, False, False, EXPERTS, 0)
    torch.library.opcheck(torch.ops.attest.moe.default, arguments)


def test_compile_whole():
    x, w1, w2, logits = layer()
    x.requires_grad_()

    def step(x):
        return torch.relu(attest.torch.moe(x * 2, w1, w2, logits=logits, top_k=TOP_K)).sum()

    compiled = torch.compile(step, fullgraph=True, backend="aot_eager")
    for function in (step, compiled):
        value = function(x)
        gradient, = torch.autograd.grad(value, x)
        if function is step:
            wanted = value.detach(), gradient
    torch.testing.assert_close(value, wanted[0])
    torch.testing.assert_close(gradient, wanted[1])


@pytest.mark.parametrize("kind, text, options", [
    (TypeError, "logits and top_k are missing", {}),
    (ValueError, "logits is given, but ids", dict(ids=torch.zeros(TOKENS, 1, dtype=torch.int64), weights=torch.ones(TOKENS, 1), logits=torch.zeros(TOKENS, EXPERTS))),
    (TypeError, "weights is missing", dict(ids=torch.zeros(TOKENS, 1, dtype=torch.int64))),
    (ValueError, "weights is given, but ids are not", dict(logits=torch.zeros(TOKENS, EXPERTS), top_k=1, weights=torch.ones(TOKENS, 1))),
])
def test_mistakes(kind, text, options):
    x, w1, w2, _ = layer()
    with pytest.raises(kind, match=text):
        attest.torch.moe(x, w1, w2, **options)
