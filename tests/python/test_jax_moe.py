"""attest.jax.moe: the foreign function compared with a formula over all experts that JAX differentiates, on JAX's
default device: a CPU here, a GPU elsewhere."""

import functools

import attest
import numpy as np
import pytest

jax = pytest.importorskip("jax", reason="JAX is not here: its tests are left out")
import attest.jax  # noqa: E402
import jax.numpy as jnp  # noqa: E402

TOKENS, HIDDEN, INNER, EXPERTS, TOP_K = 203, 24, 16, 5, 2  # more tokens per expert than a block of the gradient has
GIVEN = dict(ids=np.zeros((TOKENS, 1), np.int32), weights=np.ones((TOKENS, 1), np.float32))
GPU = jax.default_backend() == "gpu"
EXACT, BAR = (jnp.float16, 5e-3) if GPU else (jnp.float32, 1e-5)  # the most precise type that attest multiplies there
UNGATED = ("relu2", "silu", "gelu", "gelu-tanh")


def normal(seed, *shape, dtype=EXACT):
    return (jax.random.normal(jax.random.key(seed), shape) * 0.3).astype(dtype)


def layer(dtype=EXACT, activation="swiglu"):
    rows = INNER if activation in UNGATED else 2 * INNER
    return {"x": normal(0, TOKENS, HIDDEN, dtype=dtype), "w1": normal(1, EXPERTS, rows, HIDDEN, dtype=dtype),
            "w2": normal(2, EXPERTS, HIDDEN, INNER, dtype=dtype), "logits": 3 * normal(3, TOKENS, EXPERTS, dtype=jnp.float32)}


def shaped(name, gate, up, alpha=1.702, limit=7.0):
    if name == "swiglu-clamped":
        gate, up = jnp.minimum(gate, limit), jnp.clip(up, -limit, limit)
        return (up + 1) * gate * jax.nn.sigmoid(alpha * gate)
    if name == "relu2":
        return jnp.maximum(gate, 0)**2
    bent = jax.nn.gelu(gate, approximate="tanh" in name) if "ge" in name else gate * jax.nn.sigmoid(gate)
    return bent if up is None else bent * up


def weighed(logits, ids, routing, renormalise):
    """(tokens, experts): the weight of each expert."""
    is_chosen = jax.nn.one_hot(ids, EXPERTS).sum(1)
    if routing == "topk":
        return jax.nn.softmax(jnp.where(is_chosen > 0, logits, -jnp.inf), -1)
    found = (jax.nn.sigmoid(logits) if routing == "sigmoid" else jax.nn.softmax(logits, -1)) * is_chosen
    return found / found.sum(-1, keepdims=True) if renormalise else found


def formula(given, activation="swiglu", routing="softmax", renormalise=True):
    """Every expert computes every token; experts that a token did not select have weight 0."""
    given = {name: x.astype(jnp.float32) for name, x in given.items()}
    ids = jax.lax.top_k(given["logits"], TOP_K)[1]
    first = jnp.einsum("th,erh->etr", given["x"], given["w1"], precision="highest")
    first = first + given["b1"][:, None] if "b1" in given else first
    gate, up = (first, None) if activation in UNGATED else jnp.split(first, 2, -1)
    out = jnp.einsum("eti,ehi->eth", shaped(activation, gate, up), given["w2"], precision="highest")
    out = out + given["b2"][:, None] if "b2" in given else out
    return jnp.einsum("eth,te->th", out, weighed(given["logits"], ids, routing, renormalise), precision="highest")


def ours(given, **options):
    given = dict(given)
    return attest.jax.moe(given.pop("x"), given.pop("w1"), given.pop("w2"), top_k=TOP_K, **given, **options)


def close(got, wanted, bar=BAR):
    for one, other in zip(jax.tree.leaves(got), jax.tree.leaves(wanted)):
        one, other = (np.asarray(x, np.float64) for x in (one, other))
        np.testing.assert_allclose(one, other, atol=bar * max(1, abs(other).max()))


@pytest.mark.parametrize("dtype, bar", [(jnp.float32, 1e-5)] * (not GPU) + [(jnp.bfloat16, 2e-2), (jnp.float16, 2e-3)])
def test_value_in_a_program(dtype, bar):
    given = layer(dtype)
    y = jax.jit(ours)(given)
    assert y.dtype == dtype and attest.jax.last_launch().kernel.startswith("moe_sm" if GPU else "moe_cpu")
    close(y, formula(given), bar)
    if GPU:
        return
    same = attest.moe(*(np.asarray(given[name]) for name in ("x", "w1", "w2")), logits=np.asarray(given["logits"]), top_k=TOP_K)
    assert np.array_equal(np.asarray(y).view(np.uint8), np.asarray(same).view(np.uint8))


@pytest.mark.parametrize("routing, renormalise, activation, biases", [
    ("softmax", True, "swiglu", False), ("softmax", False, "geglu", True), ("topk", True, "swiglu-clamped", True),
    ("sigmoid", True, "geglu-tanh", False), ("softmax", True, "relu2", False), ("softmax", True, "gelu-tanh", True)])
def test_gradients(routing, renormalise, activation, biases):
    given = layer(activation=activation)
    if biases:
        given.update(b1=normal(4, *given["w1"].shape[:2]), b2=normal(5, EXPERTS, HIDDEN))
    options = dict(routing=routing, renormalise=renormalise, activation=activation)
    grad = normal(6, TOKENS, HIDDEN)
    y, pull = jax.vjp(lambda given: ours(given, **options), given)
    wanted, theirs = jax.vjp(lambda given: formula(given, **options), given)
    close(y, wanted)
    got = jax.jit(pull)(grad)[0]
    assert got.keys() == given.keys()
    close(got, theirs(grad.astype(jnp.float32))[0], 2 * BAR)


def test_gradients_of_weights_apart_transposed_and_by_turns():
    given, grad = layer(), normal(6, TOKENS, HIDDEN)
    wanted = jax.vjp(lambda w1: ours({**given, "w1": w1}), given["w1"])[1](grad)[0]
    halves = tuple(jnp.split(given["w1"], 2, 1))
    got = jax.vjp(lambda w1, w3: ours({**given, "w1": w1}, w3=w3), *halves)[1](grad)
    close(jnp.concatenate(got, 1), wanted)
    turned = {**given, "w2": given["w2"].swapaxes(1, 2)}
    got = jax.vjp(lambda w1: ours({**turned, "w1": w1}, transposed=True), given["w1"].swapaxes(1, 2))[1](grad)[0]
    close(got.swapaxes(1, 2), wanted)
    by_turns = jnp.stack(halves, 2).reshape(given["w1"].shape)
    got = jax.vjp(lambda w1: ours({**given, "w1": w1}, interleaved=True), by_turns)[1](grad)[0]
    close(jnp.concatenate((got[:, ::2], got[:, 1::2]), 1), wanted)


def test_ids_that_are_given():
    """No expert for some tokens, experts that nobody selects, and a share of the experts; y is linear in the
    weights."""
    given = layer()
    ids = jax.random.randint(jax.random.key(7), (TOKENS, 3), -1, EXPERTS - 1)
    weights = normal(8, TOKENS, 3, dtype=jnp.float32)

    def run(weights, first=0, count=EXPERTS):
        part = slice(first, first + count)
        return attest.jax.moe(given["x"], given["w1"][part], given["w2"][part], ids=ids, weights=weights, experts=EXPERTS,
                              first_expert=first)

    y = run(weights)
    close(run(weights, 0, 2) + run(weights, 2, 3), y)
    grad, step = normal(9, TOKENS, HIDDEN), normal(10, TOKENS, 3)
    for first, count in ((0, EXPERTS), (2, 3)):
        d_weights = jax.vjp(lambda weights, first=first, count=count: run(weights, first, count), weights)[1](grad)[0]
        change = run(weights + step, first, count).astype(jnp.float32) - run(weights, first, count)
        np.testing.assert_allclose((d_weights * step).sum(), (change * grad).sum(), rtol=2e-2 if GPU else 2e-4)
        assert not np.asarray(d_weights)[np.asarray(ids) < first].any()


@pytest.mark.parametrize("wrong", [2**32 + 1, 2**31, -2**32, EXPERTS])
def test_ids_that_no_expert_has(wrong):
    """None becomes another expert's, whatever int32 makes of it."""
    given, ids = layer(), np.zeros((TOKENS, 1), np.int64)
    ids[4] = wrong
    in_64_bits = jax.enable_x64 if hasattr(jax, "enable_x64") else jax.experimental.enable_x64
    call = functools.partial(attest.jax.moe, given["x"], given["w1"], given["w2"], weights=np.ones((TOKENS, 1), np.float32))
    if GPU:  # it ignores and counts them
        with in_64_bits(True):
            y, _, _, counts = call(ids=ids, return_routing=True)
        assert counts[EXPERTS] == 1 and np.array_equal(y, call(ids=np.where(ids == wrong, -1, ids).astype(np.int32)))
        return
    with in_64_bits(True), pytest.raises(jax.errors.JaxRuntimeError, match=r"given_ids\[4\]\[0\]=.* is not in -1 \.\. 4"):
        call(ids=ids).block_until_ready()
    with pytest.raises(jax.errors.JaxRuntimeError, match=r"given_ids\[4\]\[0\]=.* is not in -1 \.\. 4"):  # NumPy's, where JAX has no int64
        call(ids=ids).block_until_ready()


def test_correction_of_a_model_in_bfloat16():
    given, correction = layer(), normal(11, EXPERTS, dtype=jnp.bfloat16)
    wanted = ours(given, routing="sigmoid", correction=correction.astype(jnp.float32))
    assert np.array_equal(ours(given, routing="sigmoid", correction=correction), wanted)
    assert not np.array_equal(ours(given, routing="sigmoid"), wanted)


def test_tokens_along_the_same_axes():
    given = layer()
    x3, logits = given["x"][:200].reshape(2, 100, HIDDEN), given["logits"][:200].reshape(100, 2, EXPERTS)
    with pytest.raises(ValueError, match=r"logits has the shape \(100, 2, 5\), but x has \(2, 100, 24\): the axes before the last must agree"):
        ours({**given, "x": x3, "logits": logits})


@pytest.mark.parametrize("routing, renormalise", [("softmax", True), ("sigmoid", False), ("topk", None)])
def test_gradients_of_the_returned_weights(routing, renormalise):
    """As a loss that balances the load of experts has them; with those of y, and alone."""
    given, grad = layer(), normal(6, TOKENS, TOP_K, dtype=jnp.float32)
    options = dict(routing=routing, renormalise=renormalise)

    def mine(logits, through_y):
        y, _, weights, _ = ours({**given, "logits": logits}, return_routing=True, **options)
        return (weights * grad).sum() + through_y * y.astype(jnp.float32).sum()

    def theirs(logits, through_y):
        ids = jax.lax.top_k(logits, TOP_K)[1]
        weights = jnp.take_along_axis(weighed(logits, ids, routing, renormalise is not False), ids, 1)
        return (weights * grad).sum() + through_y * formula({**given, "logits": logits}, **{**options, "renormalise": renormalise is not False}).sum()

    for through_y in (0.0, 1.0):
        close(jax.jit(jax.grad(mine))(given["logits"], through_y), jax.grad(theirs)(given["logits"], through_y), 2 * BAR)


def test_axes_before_the_last_routing_and_mask():
    given = layer()
    y, ids, weights, counts = ours(given, return_routing=True)
    x3, logits3 = given["x"][:200].reshape(2, 100, HIDDEN), given["logits"][:200].reshape(2, 100, EXPERTS)
    got, ids3, weights3, counts3 = ours({**given, "x": x3, "logits": logits3}, return_routing=True)
    close(got.reshape(200, HIDDEN), y[:200])
    assert np.array_equal(ids3.reshape(200, TOP_K), ids[:200])
    assert ids3.shape == weights3.shape == (2, 100, TOP_K) and int(counts3.sum()) == 400 and int(counts.sum()) == TOKENS * TOP_K
    mask = jnp.arange(TOKENS) % 3 > 0
    d_x = jax.grad(lambda x: ours({**given, "x": x}, mask=mask).sum())(given["x"])
    close(ours(given, mask=mask), jnp.where(mask[:, None], y, 0))
    assert np.array_equal(np.asarray(d_x).any(-1), np.asarray(mask))


@pytest.mark.parametrize("routing", ["softmax", "topk", "sigmoid"])
@pytest.mark.parametrize("name", ["x", "logits"])
def test_gradients_do_not_depend_on_masked_tokens(routing, name):
    """Padding may hold NaN, in the logits too."""
    given, mask = layer(), jnp.arange(TOKENS) % 3 > 0

    @jax.jit
    @jax.grad
    def gradients(given):
        y, _, weights, _ = ours(given, mask=mask, routing=routing, return_routing=True)
        return (y.astype(jnp.float32)**2).sum() + (weights**2).sum()

    wanted, got = (gradients({**given, name: jnp.where(mask[:, None], given[name], padding)}) for padding in (0, jnp.nan))
    for key in given:
        assert np.isfinite(got[key]).all() and np.array_equal(got[key], wanted[key]), key


@pytest.mark.parametrize("routing", ["softmax", "topk", "sigmoid"])
def test_gradients_where_logits_are_infinite(routing):
    """+inf share the weight, and if all are -inf, all have the same: gradients are those of these weights."""
    given, grad = layer(), normal(6, TOKENS, HIDDEN)
    given["logits"] = given["logits"].at[2, jnp.array([1, 3])].set(jnp.inf).at[5].set(-jnp.inf).at[7, 0].set(-jnp.inf)
    _, ids, weights, _ = ours(given, routing=routing, return_routing=True)
    logits = given["logits"]
    wanted = jax.vjp(lambda x, w1, w2: attest.jax.moe(x, w1, w2, ids=ids, weights=weights), given["x"], given["w1"], given["w2"])[1](grad)
    got = jax.vjp(lambda x, w1, w2, logits: ours({"x": x, "w1": w1, "w2": w2, "logits": logits}, routing=routing), given["x"], given["w1"],
                  given["w2"], logits)[1](grad)
    close(got[:3], wanted)
    assert np.isfinite(got[3]).all() and not got[3][5].any() and got[3][3].any()


def test_no_tokens_and_vmap():
    given = layer()
    empty = {**given, "x": given["x"][:0], "logits": given["logits"][:0]}
    assert jax.grad(lambda w1: ours({**empty, "w1": w1}).sum())(given["w1"]).shape == given["w1"].shape
    twice = jax.vmap(lambda x: ours({**given, "x": x}))(jnp.stack([given["x"], 2 * given["x"]]))
    assert np.array_equal(twice[0], ours(given)) and np.array_equal(twice[1], ours({**given, "x": 2 * given["x"]}))


@pytest.mark.parametrize("kind, text, options", [
    (TypeError, "logits is missing", {}), (TypeError, "weights is missing", dict(ids=np.zeros((TOKENS, 1), np.int32))),
    (ValueError, "logits is given, but ids", dict(ids=np.zeros((TOKENS, 1), np.int32), weights=np.ones((TOKENS, 1)),
                                                  logits=np.zeros((TOKENS, EXPERTS), np.float32))),
    (ValueError, "top_k is given, but ids", GIVEN | dict(top_k=99)), (ValueError, "routing is given, but ids", GIVEN | dict(routing="topk")),
    (ValueError, "renormalise is given, but weights", GIVEN | dict(renormalise=False)),
    (ValueError, "alpha is given, but only", GIVEN | dict(alpha=1.0)), (ValueError, "limit is given, but only", GIVEN | dict(limit=-1.0)),
    (TypeError, "ids is float32; expected int32", GIVEN | dict(ids=np.zeros((TOKENS, 1), np.float32))),
    (ValueError, "activation is 'tanh'", dict(logits=np.zeros((TOKENS, EXPERTS), np.float32), top_k=1, activation="tanh")),
    (ValueError, "b1 has the shape", dict(logits=np.zeros((TOKENS, EXPERTS), np.float32), top_k=1, b1=np.zeros((EXPERTS, 3), np.float32)))])
def test_mistakes(kind, text, options):
    given = layer()
    with pytest.raises(kind, match=text):
        jax.jit(lambda x: attest.jax.moe(x, given["w1"], given["w2"], **options))(given["x"])
