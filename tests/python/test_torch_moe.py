"""attest.torch.moe: the operator compared with a loop over experts, its gradients, and torch.compile."""

import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not here: its tests are left out")

import attest  # noqa: E402
import attest.torch  # noqa: E402
from attest._torch_moe import _Expert, _weigh  # noqa: E402

TOKENS, HIDDEN, INNER, EXPERTS, TOP_K = 19, 24, 16, 5, 2
DEVICES = ["cpu"] + ["cuda"] * torch.cuda.is_available()
EXACT = {"cpu": torch.float32, "cuda": torch.float16}  # the most precise type that attest multiplies there
BARS = {torch.float32: 1e-5, torch.float16: 2e-3, torch.bfloat16: 2e-2}


@pytest.fixture(autouse=True, params=DEVICES)
def device(request):
    return request.param


def layer(device, dtype=None, seed=3, rows=2 * INNER):
    torch.manual_seed(seed)
    x, w1, w2 = (torch.randn(*shape).mul(0.3).to(device, dtype or EXACT[device])
                 for shape in ((TOKENS, HIDDEN), (EXPERTS, rows, HIDDEN), (EXPERTS, HIDDEN, INNER)))
    return x, w1, w2, torch.randn(TOKENS, EXPERTS).to(device)


def reference(x, w1, w2, logits, routing="softmax", renormalise=True, activation="swiglu", b1=None, b2=None, ids=None, weights=None):
    """A loop over experts, which PyTorch differentiates."""
    if ids is None:
        ids = torch.topk(logits, TOP_K, -1).indices
        weights = _weigh(logits, ids, routing, renormalise, 1.0)
    y = torch.zeros(TOKENS, HIDDEN, device=x.device)
    for e in range(EXPERTS):
        token, slot = torch.nonzero(ids == e, as_tuple=True)
        out = _Expert(x[token], w1, w2, None, b1, b2, None, e, activation, 1.702, 7.0, False, False).out
        y = y.index_add(0, token, out * weights[token, slot].unsqueeze(-1))
    return y


def close(got, wanted, bar=None):
    bar = bar or BARS[got.dtype]
    torch.testing.assert_close(got.float(), wanted.float(), atol=bar, rtol=bar)


@pytest.mark.parametrize("dtype", list(BARS))
def test_value(device, dtype):
    if device == "cuda" and dtype == torch.float32:
        pytest.skip("attest multiplies no float32 on a GPU here")
    x, w1, w2, logits = layer(device, dtype)
    y = attest.torch.moe(x, w1, w2, logits=logits, top_k=TOP_K)
    assert y.dtype == dtype and y.device == x.device
    close(y, reference(x, w1, w2, logits))


def test_axes_before_the_last_and_ids_of_int64(device):
    x, w1, w2, logits = layer(device)
    y = attest.torch.moe(x, w1, w2, logits=logits, top_k=TOP_K)
    x3, logits3 = x[:18].reshape(2, 9, HIDDEN), logits[:18].reshape(2, 9, EXPERTS)
    got, ids, weights, counts = attest.torch.moe(x3, w1, w2, logits=logits3, top_k=TOP_K, return_routing=True)
    close(got.reshape(18, HIDDEN), y[:18])
    assert got.shape == x3.shape and ids.shape == weights.shape == (2, 9, TOP_K) and counts.sum() == 18 * TOP_K
    assert torch.equal(attest.torch.moe(x3, w1, w2, ids=ids.long(), weights=weights), got)


@pytest.mark.parametrize("wrong", [2**32 + 1, -2**32, 2**31, -5, EXPERTS])
def test_ids_that_no_expert_has(device, wrong):
    """An error on the CPU, with the slot; on a GPU they are ignored and counted. None becomes another expert's."""
    x, w1, w2, logits = layer(device)
    ids = torch.topk(logits, TOP_K, -1).indices
    ids[4, 1] = wrong
    call = dict(ids=ids, weights=torch.ones(TOKENS, TOP_K, device=device), return_routing=True)
    if device == "cpu":
        with pytest.raises(ValueError, match=r"given_ids\[4\]\[1\]=.* is not in -1 \.\. 4"):
            attest.torch.moe(x, w1, w2, **call)
    else:
        y, _, _, counts = attest.torch.moe(x, w1, w2, **call)
        assert counts[EXPERTS] == 1 and counts[:EXPERTS].sum() == TOKENS * TOP_K - 1
        call["ids"] = torch.where(ids == wrong, -1, ids)
        assert torch.equal(y, attest.torch.moe(x, w1, w2, **call)[0])


def test_without_a_gradient_the_extension_is_called_at_once(device, monkeypatch):
    """Inference does without the operator, and asks for y alone; with the same bits."""
    x, w1, w2, logits = layer(device)
    options = dict(logits=logits, top_k=TOP_K)
    by_operator = attest.torch.moe(x.clone().requires_grad_(), w1, w2, return_routing=True, **options)
    weights = [torch.nn.Parameter(w) for w in (w1, w2)]
    called = []
    monkeypatch.setattr("attest._torch_moe._core_moe", lambda *given, **named: called.append(named) or attest.moe(*given, **named))
    monkeypatch.setattr("attest._torch_moe._moe", None)
    for guard in (torch.no_grad, torch.inference_mode):
        with guard():
            assert torch.equal(attest.torch.moe(x, *weights, **options), by_operator[0])
            assert all(torch.equal(*pair) for pair in zip(attest.torch.moe(x, *weights, return_routing=True, **options), by_operator))
    assert [named["return_routing"] for named in called] == [False, True] * 2


@pytest.mark.parametrize("routing, renormalise, activation, biases", [
    ("softmax", True, "swiglu", False), ("softmax", False, "geglu", True), ("topk", True, "swiglu-clamped", True), ("sigmoid", True, "geglu-tanh", False),
    ("softmax", True, "relu2", False), ("softmax", True, "gelu-tanh", True)])
def test_gradients(device, routing, renormalise, activation, biases):
    """Through y, and through the returned weights, as a loss that balances the load of experts has them."""
    rows = 2 * INNER if "glu" in activation else INNER
    inputs = list(layer(device, rows=rows))
    if biases:
        inputs += [torch.randn(EXPERTS, n).mul(0.3).to(device, inputs[0].dtype) for n in (rows, HIDDEN)]
    grad, grad_weights = torch.randn(TOKENS, HIDDEN).to(device), torch.randn(TOKENS, TOP_K).to(device)
    ours, theirs = ([t.clone().requires_grad_() for t in inputs] for _ in range(2))
    names = ("b1", "b2")
    y, ids, weights, _ = attest.torch.moe(*ours[:3], logits=ours[3], top_k=TOP_K, routing=routing, renormalise=renormalise, activation=activation,
                                          return_routing=True, **dict(zip(names, ours[4:])))
    wanted = reference(*theirs[:4], routing, renormalise, activation, *theirs[4:])
    wanted_weights = _weigh(theirs[3], ids, routing, renormalise, 1.0)
    close(y, wanted)
    close(weights, wanted_weights)
    bar = 1e-4 if device == "cpu" else 5e-3
    for loss, wanted_loss in (((y.float() * grad).sum(), (wanted * grad).sum()),
                              ((y.float() * grad).sum() + (weights * grad_weights).sum(), (wanted * grad).sum() + (wanted_weights * grad_weights).sum())):
        for a, b in zip(torch.autograd.grad(loss, ours, retain_graph=True), torch.autograd.grad(wanted_loss, theirs, retain_graph=True)):
            close(a, b, bar)
    alone = torch.autograd.grad((weights * grad_weights).sum(), ours[3])[0]
    close(alone, torch.autograd.grad((wanted_weights * grad_weights).sum(), theirs[3])[0])


class _Sizes(torch.utils._python_dispatch.TorchDispatchMode):
    """The sizes of the gradients of moe()."""

    def __torch_dispatch__(self, function, types, given=(), named=None):
        answer = function(*given, **(named or {}))
        if function is torch.ops.attest.moe_backward.default:
            self.sizes = [t.numel() for t in answer]
        return answer


def test_gradients_that_are_asked_for(device):
    """Frozen weights cost no memory: each of these gradients is as large as all experts."""
    x, w1, w2, logits = layer(device)
    gate, up = (w.contiguous() for w in w1.chunk(2, 1))
    inputs = {"x": x, "w1": gate, "w2": w2, "logits": logits, "w3": up, "b1": torch.randn(EXPERTS, INNER).to(x), "b2": torch.randn(EXPERTS, HIDDEN).to(x),
              "b3": torch.randn(EXPERTS, INNER).to(x)}
    order = ("x", "w1", "w2", "logits", "weights", "w3", "b1", "b2", "b3")

    def gradients(*names):
        given = {key: t.clone().requires_grad_(key in names) for key, t in inputs.items()}
        with _Sizes() as seen:
            attest.torch.moe(**given, top_k=TOP_K).float().square().sum().backward()
        assert seen.sizes == [inputs[key].numel() if key in names else 0 for key in order]
        return {key: t.grad for key, t in given.items() if key in names}

    every = gradients(*inputs)
    for names in [("x",), ("x", "logits"), ("w2", "b2"), ("logits",), *((key,) for key in inputs)]:
        for key, grad in gradients(*names).items():
            assert torch.equal(grad, every[key])


@pytest.mark.parametrize("routing", ["softmax", "topk", "sigmoid"])
@pytest.mark.parametrize("name", ["x", "logits"])
def test_gradients_do_not_depend_on_masked_tokens(device, routing, name):
    """Padding may hold NaN, in the logits too."""
    x, w1, w2, logits = layer(device)
    mask = torch.arange(TOKENS, device=device) % 3 > 0
    found = []
    for padding in (0.0, torch.nan):
        inputs = {"x": x, "logits": logits, "w1": w1, "w2": w2}
        inputs[name] = torch.where(mask[:, None], inputs[name], padding)
        inputs = {key: t.clone().requires_grad_() for key, t in inputs.items()}
        y, _, weights, _ = attest.torch.moe(**inputs, mask=mask, top_k=TOP_K, routing=routing, return_routing=True)
        found.append(torch.autograd.grad(y.float().square().sum() + weights.square().sum(), list(inputs.values())))
    for wanted, got in zip(*found):
        assert torch.equal(got, wanted) and torch.isfinite(got).all()


@pytest.mark.parametrize("routing", ["softmax", "topk", "sigmoid"])
def test_gradients_where_logits_are_infinite(device, routing):
    """+inf share the weight, and if all are -inf, all have the same: gradients are those of these weights."""
    x, w1, w2, logits = layer(device)
    logits[2, [1, 3]], logits[5], logits[7, 0] = torch.inf, -torch.inf, -torch.inf
    ours = [t.clone().requires_grad_() for t in (x, w1, w2, logits)]
    y, ids, weights, _ = attest.torch.moe(*ours[:3], logits=ours[3], top_k=TOP_K, routing=routing, return_routing=True)
    grad = torch.randn(TOKENS, HIDDEN).to(device)
    found = torch.autograd.grad((y.float() * grad).sum(), ours)
    theirs = [t.clone().requires_grad_() for t in (x, w1, w2)]
    wanted = torch.autograd.grad((reference(*theirs, None, ids=ids, weights=weights.detach()) * grad).sum(), theirs)
    for got, exact in zip(found, wanted):
        close(got, exact, 1e-4 if device == "cpu" else 5e-3)
    assert torch.isfinite(found[3]).all() and not found[3][5].any() and found[3][3].any()


def test_gradients_by_differences(device):
    x, w1, w2, logits = layer(device)
    weights = torch.full((TOKENS, TOP_K), 0.5, device=device, requires_grad=True)
    ids = torch.topk(logits, TOP_K, -1).indices
    y, _, scaled, _ = attest.torch.moe(x, w1, w2, ids=ids, weights=weights, scaling=2.0, return_routing=True)
    d_weights, = torch.autograd.grad(y.float().sum() + 3 * scaled.sum(), weights)
    step = torch.zeros_like(weights)
    step[4, 1] = 0.125  # y is linear in the weights
    with torch.no_grad():
        difference = (attest.torch.moe(x, w1, w2, ids=ids, weights=weights + step, scaling=2.0).float() - y.float()).sum() / 0.125
    close(d_weights[4, 1], difference + 6, 1e-4 if device == "cpu" else 2e-2)


def test_gradients_where_a_token_names_an_expert_twice(device):
    """The gradient of x is a sum of both, in the same order every time."""
    inputs, ids = layer(device)[:3], torch.randint(0, 2, (TOKENS, 3)).to(device)
    inputs = [*inputs, torch.rand(TOKENS, 3).to(device)]
    grad = torch.randn(TOKENS, HIDDEN).to(device, inputs[0].dtype)
    theirs, found = [t.clone().requires_grad_() for t in inputs], []
    for _ in range(3):
        ours = [t.clone().requires_grad_() for t in inputs]
        found.append(torch.autograd.grad(attest.torch.moe(*ours[:3], ids=ids, weights=ours[3]), ours, grad))
    wanted = torch.autograd.grad(reference(*theirs[:3], None, ids=ids, weights=theirs[3]), theirs, grad.float())
    for got, again, third, exact in zip(*found, wanted):
        close(got, exact, 1e-4 if device == "cpu" else 5e-3)
        assert torch.equal(got, again) and torch.equal(got, third)


def test_gradients_of_weights_apart_and_transposed(device):
    x, w1, w2, logits = layer(device)
    options, grad = dict(logits=logits, top_k=TOP_K), torch.randn(TOKENS, HIDDEN).to(device, x.dtype)
    whole = w1.clone().requires_grad_()
    wanted, = torch.autograd.grad(attest.torch.moe(x, whole, w2, **options), whole, grad)
    gate, up = (w.contiguous().requires_grad_() for w in w1.chunk(2, 1))
    got = torch.autograd.grad(attest.torch.moe(x, gate, w2, w3=up, **options), (gate, up), grad)
    close(torch.cat(got, 1), wanted)
    turned = w1.transpose(1, 2).contiguous().requires_grad_()
    got, = torch.autograd.grad(attest.torch.moe(x, turned, w2.transpose(1, 2).contiguous(), transposed=True, **options), turned, grad)
    close(got.transpose(1, 2), wanted)
    by_turns = torch.stack(w1.chunk(2, 1), 2).flatten(1, 2).requires_grad_()
    got, = torch.autograd.grad(attest.torch.moe(x, by_turns, w2, interleaved=True, **options), by_turns, grad)
    close(torch.cat((got[:, ::2], got[:, 1::2]), 1), wanted)


@pytest.mark.parametrize("gradient", [False, True])
def test_autocast(device, gradient):
    """x and the weights of the experts are cast, float32 parameters too; biases and logits keep their precision, and the
    gradients are those of float32, inside the region too."""
    x, w1, w2, logits = (t.float() for t in layer(device))
    b1, b2 = torch.randn(EXPERTS, 2 * INNER).to(device), torch.randn(EXPERTS, HIDDEN).to(device).bfloat16()
    inputs = [t.requires_grad_(gradient) for t in (x, w1, w2, logits, b1, b2)]
    with torch.autocast(device, dtype=torch.bfloat16):
        y = attest.torch.moe(x, w1, w2, logits=logits, top_k=TOP_K, b1=b1, b2=b2)
        assert y.dtype == torch.bfloat16
        grad = torch.randn_like(y)
        found = torch.autograd.grad(y, inputs, grad) if gradient else ()
    cast = [t.detach().bfloat16().float().requires_grad_() for t in (x, w1, w2)] + [t.detach().float().requires_grad_() for t in (logits, b1, b2)]
    wanted = reference(*cast[:4], b1=cast[4], b2=cast[5])
    close(y, wanted, 3e-2)
    for a, b, given in zip(found, torch.autograd.grad(wanted, cast, grad.float()), inputs):
        assert a.dtype == given.dtype
        close(a, b, 1e-2)


@pytest.mark.filterwarnings("ignore:`torch.jit.script` is deprecated")
def test_torch_func(device):
    """vmap, grad and both; forward-mode derivatives are refused, not 0."""
    x, w1, w2, logits = layer(device)

    def loss(x, w1, logits):
        y, _, weights, _ = attest.torch.moe(x, w1, w2, logits=logits, top_k=TOP_K, return_routing=True)
        return y.float().square().sum() + weights.square().sum()

    twice = torch.stack([x, 2 * x])
    got = torch.func.vmap(torch.func.grad(loss, argnums=(0, 1, 2)), (0, None, None))(twice, w1, logits)
    values = torch.func.vmap(lambda x: attest.torch.moe(x, w1, w2, logits=logits, top_k=TOP_K))(twice)
    for i in range(2):
        leaves = [t.clone().requires_grad_() for t in (twice[i], w1, logits)]
        for mine, wanted in zip(got, torch.autograd.grad(loss(*leaves), leaves)):
            assert torch.equal(mine[i], wanted)
        assert torch.equal(values[i], attest.torch.moe(twice[i], w1, w2, logits=logits, top_k=TOP_K))
    with pytest.raises(NotImplementedError, match="forward mode"):
        torch.func.jvp(lambda x: loss(x, w1, logits), (x,), (x,))


def test_no_second_derivative(device):
    x, w1, w2, logits = layer(device)
    x.requires_grad_()
    first, = torch.autograd.grad(attest.torch.moe(x, w1, w2, logits=logits, top_k=TOP_K).sum(), x, create_graph=True)
    with pytest.raises(attest.UnsupportedError, match="no double backward"):
        first.sum().backward()


def test_correction_of_a_model_in_bfloat16(device):
    """Selection adds it in float32, as the models do."""
    x, w1, w2, logits = layer(device)
    call, correction = dict(logits=logits, top_k=TOP_K, routing="sigmoid"), torch.randn(EXPERTS).bfloat16().to(device)
    wanted = attest.torch.moe(x, w1, w2, correction=correction.float(), **call)
    assert torch.equal(attest.torch.moe(x, w1, w2, correction=correction, **call), wanted)
    assert not torch.equal(attest.torch.moe(x, w1, w2, **call), wanted)


def test_attest_moe_names_the_function_with_gradients(device):
    x, w1, w2, logits = layer(device)
    with pytest.raises(TypeError, match=r"w1 requires a gradient.*attest.torch.moe\(\)"):
        attest.moe(x, torch.nn.Parameter(w1), w2, logits=logits, top_k=TOP_K)


def test_tokens_along_the_same_axes(device):
    """Logits of (rows, batch) are not those of (batch, rows); flattened tokens are taken as they are."""
    x, w1, w2, logits = layer(device)
    x3, call = x[:18].reshape(2, 9, HIDDEN), dict(logits=logits[:18].reshape(2, 9, EXPERTS), top_k=TOP_K)
    y = attest.torch.moe(x3, w1, w2, **call)
    assert torch.equal(attest.torch.moe(x3, w1, w2, **call | dict(logits=logits[:18])), y)
    for name, other in (("logits", logits[:18].reshape(9, 2, EXPERTS)), ("mask", torch.ones(9, 2, dtype=torch.bool, device=device))):
        with pytest.raises(ValueError, match=rf"{name} has the shape .* but x has \(2, 9, {HIDDEN}\): the axes before the last must agree"):
            attest.torch.moe(x3, w1, w2, **call | {name: other})


def test_opcheck(device):
    x, w1, w2, logits = layer(device)
    arguments = (x.requires_grad_(), w1.requires_grad_(), w2, logits, None, None, None, None, None, None, None, None, TOP_K, "swiglu",
                 "softmax", True, 1.0, None, None, 1, 1, False, False, EXPERTS, 0)
    torch.library.opcheck(torch.ops.attest.moe.default, arguments)


@pytest.mark.parametrize("given", [False, True])
def test_compile_whole(device, given):
    """With the router's logits, and with ids of int64; gradients through the returned weights too."""
    x, w1, w2, logits = layer(device)
    inputs = [x.requires_grad_(), logits.requires_grad_()]
    ids = torch.topk(logits.detach(), TOP_K, -1).indices

    def step(x, logits):
        options = dict(ids=ids, weights=logits[:, :TOP_K].sigmoid()) if given else dict(logits=logits, top_k=TOP_K)
        y, _, weights, _ = attest.torch.moe(x * 2, w1, w2, return_routing=True, **options)
        return torch.relu(y).sum() + (weights * weights).sum()

    compiled = torch.compile(step, fullgraph=True, backend="aot_eager")
    for function in (step, compiled):
        value = function(*inputs)
        gradients = torch.autograd.grad(value, inputs)
        if function is step:
            wanted = value.detach(), gradients
    torch.testing.assert_close(value, wanted[0])
    torch.testing.assert_close(gradients, wanted[1])


@pytest.mark.skipif(not torch.cuda.is_available(), reason="PyTorch finds no GPU: its GPU tests are left out")
def test_cuda_graph(device):
    """A captured layer computes what is in its inputs when it is replayed, routing included."""
    if device == "cpu":
        pytest.skip("a CPU has no graphs")
    x, w1, w2, logits = layer(device)
    other = [t.clone() for t in layer(device, seed=4)]
    ids = torch.topk(logits, TOP_K, -1).indices
    weights = torch.rand(TOKENS, TOP_K, device=device)

    def run():
        return (attest.torch.moe(x, w1, w2, logits=logits, top_k=TOP_K), *attest.torch.moe(x, w1, w2, ids=ids, weights=weights, return_routing=True))

    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        run()  # modules are loaded before a capture
    torch.cuda.current_stream().wait_stream(stream)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        captured = run()
    for _ in range(2):
        graph.replay()
        assert all(torch.equal(*pair) for pair in zip(captured, run()))
        x.copy_(other[0])
        logits.copy_(other[3])
        ids.copy_(torch.topk(logits, TOP_K, -1).indices)


GIVEN = dict(ids=torch.zeros(TOKENS, 1, dtype=torch.int64), weights=torch.ones(TOKENS, 1))


@pytest.mark.parametrize("gradient", [False, True])
@pytest.mark.parametrize("kind, text, options", [
    (TypeError, "logits and top_k are missing", {}),
    (ValueError, "logits is given, but ids", GIVEN | dict(logits=torch.zeros(TOKENS, EXPERTS))),
    (TypeError, "weights is missing", dict(ids=torch.zeros(TOKENS, 1, dtype=torch.int64))),
    (ValueError, "weights is given, but ids are not", dict(logits=torch.zeros(TOKENS, EXPERTS), top_k=1, weights=torch.ones(TOKENS, 1))),
    (ValueError, "top_k is given, but ids", GIVEN | dict(top_k=-3)),
    (ValueError, "routing is given, but ids", GIVEN | dict(routing="softmax")),
    (ValueError, "renormalise is given, but weights", GIVEN | dict(renormalise=True)),
    (ValueError, "alpha is given, but only", GIVEN | dict(alpha=1.7)),
    (ValueError, "limit is given, but only", dict(logits=torch.zeros(TOKENS, EXPERTS), top_k=1, limit=-1.0)),
    (TypeError, "ids is float32; expected int32", dict(ids=torch.zeros(TOKENS, 1), weights=torch.ones(TOKENS, 1))),
    (TypeError, "ids is bool; expected int32", dict(ids=torch.zeros(TOKENS, 1, dtype=torch.bool), weights=torch.ones(TOKENS, 1))),
])
def test_mistakes(device, gradient, kind, text, options):
    x, w1, w2, _ = layer(device)
    with pytest.raises(kind, match=text):
        attest.torch.moe(x.requires_grad_(gradient), w1, w2, **{name: v.to(device) if isinstance(v, torch.Tensor) else v for name, v in options.items()})
