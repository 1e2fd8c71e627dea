"""attest.moe against the formula in float64, and its mistakes."""

import attest
import numpy as np
import pytest

TOKENS, HIDDEN, INNER, EXPERTS, TOP_K = 37, 48, 40, 6, 2


@pytest.fixture
def rng():
    return np.random.default_rng(11)


def normal(rng, *shape, dtype="float32"):
    return (rng.standard_normal(shape) / 4).astype(dtype)


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def erf(x):
    from math import erf as of
    return np.vectorize(of)(x)


ACTIVATIONS = {
    "swiglu": lambda g, u: g * sigmoid(g) * u,
    "geglu": lambda g, u: 0.5 * g * (1 + erf(g / np.sqrt(2))) * u,
    "geglu-tanh": lambda g, u: 0.5 * g * (1 + np.tanh(np.sqrt(2 / np.pi) * (g + 0.044715 * g**3))) * u,
    "swiglu-clamped": lambda g, u: (np.clip(u, -7, 7) + 1) * np.minimum(g, 7) * sigmoid(1.702 * np.minimum(g, 7)),
    "relu2": lambda g, u: np.maximum(g, 0)**2,
    "silu": lambda g, u: g * sigmoid(g),
    "gelu": lambda g, u: 0.5 * g * (1 + erf(g / np.sqrt(2))),
    "gelu-tanh": lambda g, u: 0.5 * g * (1 + np.tanh(np.sqrt(2 / np.pi) * (g + 0.044715 * g**3))),
}
GIVEN = dict(logits=None, top_k=None, ids=np.zeros((TOKENS, TOP_K), "int32"), weights=np.zeros((TOKENS, TOP_K), "float32"))
UNGATED = ("relu2", "silu", "gelu", "gelu-tanh")


def route(logits, k, how="softmax", renormalise=True):
    logits = logits.astype("float64")
    ids = np.argsort(-logits, axis=1, kind="stable")[:, :k]
    chosen = np.take_along_axis(logits, ids, 1)
    if how == "sigmoid":
        weights = sigmoid(chosen)
    elif how == "topk":
        weights = np.exp(chosen - chosen.max(1, keepdims=True))
        weights /= weights.sum(1, keepdims=True)
    else:
        weights = np.exp(chosen - logits.max(1, keepdims=True)) / np.exp(logits - logits.max(1, keepdims=True)).sum(1, keepdims=True)
    return ids, weights / weights.sum(1, keepdims=True) if renormalise else weights


def formula(x, w1, w2, ids, weights, activation="swiglu", b1=None, b2=None):
    x, w1, w2 = (a.astype("float64") for a in (x, w1, w2))
    y = np.zeros(x.shape)
    for t in range(len(x)):
        for e, weight in zip(ids[t], weights[t]):
            if e < 0:
                continue
            h = w1[e] @ x[t] + (b1[e] if b1 is not None else 0)
            g, u = (h, None) if activation in UNGATED else (h[:len(h) // 2], h[len(h) // 2:])
            y[t] += weight * (w2[e] @ ACTIVATIONS[activation](g, u) + (b2[e] if b2 is not None else 0))
    return y


def layer(rng, activation="swiglu", dtype="float32"):
    rows = INNER if activation in UNGATED else 2 * INNER
    return (normal(rng, TOKENS, HIDDEN, dtype=dtype), normal(rng, EXPERTS, rows, HIDDEN, dtype=dtype),
            normal(rng, EXPERTS, HIDDEN, INNER, dtype=dtype), normal(rng, TOKENS, EXPERTS))


def close(y, wanted, dtype="float32"):
    np.testing.assert_allclose(y.astype("float64"), wanted, atol={"float32": 2e-6, "float16": 2e-3}[dtype] * max(1, abs(wanted).max()))


@pytest.mark.parametrize("dtype", ["float32", "float16"])
@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_activations(rng, activation, dtype):
    x, w1, w2, logits = layer(rng, activation, dtype)
    y = attest.moe(x, w1, w2, logits=logits, top_k=TOP_K, activation=activation)
    assert y.dtype == dtype and attest.last_launch().kernel.startswith("moe_cpu")
    close(y, formula(x, w1, w2, *route(logits, TOP_K), activation), dtype)


@pytest.mark.parametrize("how, renormalise", [("softmax", True), ("softmax", False), ("topk", True), ("sigmoid", True), ("sigmoid", False)])
def test_routing(rng, how, renormalise):
    x, w1, w2, logits = layer(rng)
    wanted_ids, wanted_weights = route(logits, TOP_K, how, renormalise)
    y, ids, weights, counts = attest.moe(x, w1, w2, logits=logits, top_k=TOP_K, routing=how, renormalise=renormalise, return_routing=True)
    assert ids.dtype == "int32" and counts.dtype == "int32" and weights.dtype == "float32"
    np.testing.assert_array_equal(ids, wanted_ids)
    np.testing.assert_allclose(weights, wanted_weights, rtol=1e-5)
    np.testing.assert_array_equal(counts, np.append(np.bincount(wanted_ids.ravel(), minlength=EXPERTS), 0))
    close(y, formula(x, w1, w2, wanted_ids, wanted_weights))


def test_ids_and_weights_given(rng):
    x, w1, w2, logits = layer(rng)
    y, ids, weights, _ = attest.moe(x, w1, w2, logits=logits, top_k=3, return_routing=True)
    np.testing.assert_array_equal(attest.moe(x, w1, w2, ids=ids, weights=weights), y)
    ids[5] = -1
    again = attest.moe(x, w1, w2, ids=ids, weights=weights)
    assert not again[5].any()
    np.testing.assert_array_equal(np.delete(again, 5, 0), np.delete(y, 5, 0))


def test_weights_as_models_store_them(rng):
    x, w1, w2, logits = layer(rng)
    options = dict(logits=logits, top_k=TOP_K)
    y = attest.moe(x, w1, w2, **options)
    gate, up = w1[:, :INNER], w1[:, INNER:]
    by_turns = np.stack((gate, up), axis=2).reshape(w1.shape)
    np.testing.assert_array_equal(attest.moe(x, np.ascontiguousarray(gate), w2, w3=up, **options), y)
    np.testing.assert_array_equal(attest.moe(x, by_turns, w2, interleaved=True, **options), y)
    turned = [np.ascontiguousarray(w.transpose(0, 2, 1)) for w in (w1, w2)]
    close(attest.moe(x, *turned, transposed=True, **options), y.astype("float64"))
    wide = np.zeros((EXPERTS, 2 * INNER, HIDDEN + 8), "float32")
    wide[..., :HIDDEN] = w1
    np.testing.assert_array_equal(attest.moe(x, wide[..., :HIDDEN], w2, **options), y)


def test_biases(rng):
    x, w1, w2, logits = layer(rng)
    b1, b2 = normal(rng, EXPERTS, 2 * INNER), normal(rng, EXPERTS, HIDDEN)
    y = attest.moe(x, w1, w2, logits=logits, top_k=TOP_K, b1=b1, b2=b2)
    close(y, formula(x, w1, w2, *route(logits, TOP_K), b1=b1, b2=b2))
    apart = attest.moe(x, w1[:, :INNER], w2, w3=w1[:, INNER:], b1=b1[:, :INNER], b3=b1[:, INNER:], b2=b2, logits=logits, top_k=TOP_K)
    np.testing.assert_array_equal(apart, y)


def test_groups_and_correction(rng):
    x, w1, w2, logits = layer(rng)
    correction = normal(rng, EXPERTS)
    scores = sigmoid(logits.astype("float64")) + correction
    best = scores.reshape(TOKENS, 3, 2).sum(2)
    kept = np.argsort(-best, axis=1, kind="stable")[:, :1]
    masked = np.where(np.arange(EXPERTS) // 2 == kept, scores, -np.inf)
    ids = np.argsort(-masked, axis=1, kind="stable")[:, :TOP_K]
    weights = np.take_along_axis(sigmoid(logits.astype("float64")), ids, 1)
    weights = 2.5 * weights / weights.sum(1, keepdims=True)
    y, got, _, _ = attest.moe(x, w1, w2, logits=logits, top_k=TOP_K, routing="sigmoid", correction=correction, groups=3, groups_kept=1,
                              scaling=2.5, return_routing=True)
    np.testing.assert_array_equal(got, ids)
    close(y, formula(x, w1, w2, ids, weights))


def test_mask_out_and_parts_of_the_experts(rng):
    x, w1, w2, logits = layer(rng)
    options = dict(logits=logits, top_k=TOP_K)
    y = attest.moe(x, w1, w2, **options)
    mask = rng.random(TOKENS) < 0.5
    out = np.full((TOKENS, HIDDEN), np.nan, "float32")
    assert attest.moe(x, w1, w2, mask=mask, out=out, **options) is out
    np.testing.assert_array_equal(out, np.where(mask[:, None], y, 0))
    low = attest.moe(x, w1[:2], w2[:2], **options)
    high = attest.moe(x, w1[2:], w2[2:], first_expert=2, **options)
    close(low + high, y.astype("float64"))


def test_nothing_to_do(rng):
    _, w1, w2, _ = layer(rng)
    y = attest.moe(np.zeros((0, HIDDEN), "float32"), w1, w2, logits=np.zeros((0, EXPERTS), "float32"), top_k=1)
    assert y.shape == (0, HIDDEN)


@pytest.mark.parametrize("kind, text, change", [
    (TypeError, "logits is missing", dict(logits=None)),
    (TypeError, "top_k is missing", dict(top_k=None)),
    (ValueError, "weights is given, but ids are not", dict(weights=np.zeros((TOKENS, TOP_K), "float32"))),
    (TypeError, "ids is int64; expected int32", dict(logits=None, top_k=None, ids=np.zeros((TOKENS, 2), "int64"), weights=np.zeros((TOKENS, 2), "float32"))),
    (ValueError, r"w1 has the shape \(6, 80, 48\); expected \(6, 96, 48\)", dict(w2=np.zeros((EXPERTS, INNER, HIDDEN), "float32"))),
    (TypeError, "w1 is float16; expected float32", dict(w1=np.zeros((EXPERTS, 2 * INNER, HIDDEN), "float16"))),
    (ValueError, r"x has the shape \(37, 48, 1\); expected \(tokens, hidden\)", dict(x=np.zeros((TOKENS, HIDDEN, 1), "float32"))),
    (ValueError, "activation is 'swish'; expected one of 'swiglu'", dict(activation="swish")),
    (ValueError, "routing is 'top-k'; expected one of 'softmax'", dict(routing="top-k")),
    (ValueError, r"mask has the shape \(3,\); expected \(37,\)", dict(mask=np.ones(3, bool))),
    (ValueError, r"b1 has the shape \(6, 40\); expected \(6, 80\)", dict(b1=np.zeros((EXPERTS, INNER), "float32"))),
    (ValueError, "experts_per_token=7 is above experts=6", dict(top_k=EXPERTS + 1)),
    (ValueError, "scaling=nan is not finite", dict(scaling=float("nan"))),
    (TypeError, "top_k is '2': a whole number is needed", dict(top_k="2")),
    (TypeError, "limit is 'x': a number is needed", dict(limit="x")),
    (ValueError, "w2 has a stride of 2 along its last axis", dict(w2=np.zeros((EXPERTS, HIDDEN, 2 * INNER), "float32")[..., ::2])),
    (ValueError, "top_k is given, but ids say", GIVEN | dict(top_k=99)),
    (ValueError, "routing is given, but ids say", GIVEN | dict(routing="topk")),
    (ValueError, "renormalise is given, but weights", GIVEN | dict(renormalise=True)),
    (ValueError, "alpha is given, but only activation='swiglu-clamped'", dict(alpha=1.702)),
    (ValueError, "limit is given, but only activation='swiglu-clamped'", dict(limit=-1, activation="relu2")),
    (ValueError, "limit=-1 is not a finite number above 0", dict(limit=-1, activation="swiglu-clamped")),
    (ValueError, "w3 is given, but interleaved", dict(interleaved=True, w3=np.zeros((EXPERTS, INNER, HIDDEN), "float32"))),
])
def test_mistakes(rng, kind, text, change):
    x, w1, w2, logits = layer(rng)
    given = dict(x=x, w1=w1, w2=w2, logits=logits, top_k=TOP_K) | change
    with pytest.raises(kind, match=text):
        attest.moe(given.pop("x"), given.pop("w1"), given.pop("w2"), **given)


def test_signature_and_text():
    import inspect
    parameters = inspect.signature(attest.moe).parameters
    assert list(parameters)[:4] == ["x", "w1", "w2", "logits"] and parameters["top_k"].kind == inspect.Parameter.KEYWORD_ONLY
    for name in parameters:
        assert name in attest.moe.__doc__
