"""test_backward_numpy.py: backward() against the formula in float64, on NumPy's arrays; every mistake names its
argument."""

import attest
import formula
import numpy as np
import pytest

RNG = np.random.default_rng(7)
SLOPES = np.linspace(0.1, 0.4, 4, dtype=np.float32)
SINKS = np.linspace(-1, 1, 4, dtype=np.float32)


def draw(*shape):
    return RNG.standard_normal(shape).astype(np.float32)


def problem(rows=19, keys=31, heads_kv=2, d=16, d_v=24):
    return draw(2, 4, rows, d), draw(2, heads_kv, keys, d), draw(2, heads_kv, keys, d_v), draw(2, 4, rows, d_v)


def wanted_flags(options):
    return {f"d_{name}": True for name in ("bias", "sinks", "alibi") if options.get(name) is not None and
            np.asarray(options[name]).dtype != bool}


def close(got, wanted, bar=4e-6):
    assert got.shape == wanted.shape
    np.testing.assert_allclose(got, wanted, rtol=0, atol=bar * np.abs(wanted).max(initial=1.0))


@pytest.mark.parametrize("options", [
    {}, {"scale": 0.3}, {"causal": "top-left"}, {"causal": "bottom-right"}, {"softcap": 1.5},
    {"window": (4, 2), "align": "bottom-right"}, {"alibi": SLOPES, "align": "top-left"},
    {"alibi": np.stack([SLOPES, -SLOPES]), "causal": "bottom-right"}, {"sinks": SINKS},
    {"bias": draw(4, 19, 31)}, {"bias": draw(2, 1, 1, 31)}, {"bias": draw(19, 1)}, {"bias": RNG.random((2, 1, 19, 31)) > 0.4},
    {"bias": draw(1, 4, 19, 31), "sinks": SINKS, "alibi": SLOPES, "softcap": 3.0, "causal": "bottom-right", "window": (9, 9)}],
    ids=lambda options: "+".join(options) or "plain")
def test_gradients(options):
    q, k, v, d_o = problem()
    o, lse = attest.attention(q, k, v, return_lse=True, **options)
    flags = wanted_flags(options)
    got = attest.backward(q, k, v, o, lse, d_o, **options, **flags)
    assert isinstance(got, tuple) and len(got) == 3 + len(flags) and attest.last_launch().kernel.startswith("bwd_cpu")
    exact = formula.gradients(q, k, v, d_o, **options)
    for name, each in zip(["q", "k", "v"] + [name[2:] for name in flags], got):
        close(each, exact[name])


def test_the_other_layout_and_strides():
    q, k, v, d_o = problem()
    exact = formula.gradients(q, k, v, d_o)
    turned = [np.ascontiguousarray(np.swapaxes(x, 1, 2)) for x in (q, k, v, d_o)]
    o, lse = attest.attention(*turned[:3], layout="bshd", return_lse=True)
    for got, name in zip(attest.backward(*turned[:3], o, lse, turned[3], layout="bshd"), "qkv"):
        close(np.swapaxes(got, 1, 2), exact[name])
    views = [np.swapaxes(x, 1, 2) for x in turned]  # (batch, heads, rows, d) again, with gaps between rows
    for got, name in zip(attest.backward(*views[:3], np.swapaxes(o, 1, 2), lse, views[3]), "qkv"):
        close(got, exact[name])


def test_packed_sequences():
    lengths_q, lengths_k = [5, 0, 12], [7, 4, 9]
    cu_q, cu_k = (np.cumsum([0, *lengths]).astype(np.int32) for lengths in (lengths_q, lengths_k))
    q, k, v, d_o = draw(17, 4, 16), draw(20, 2, 16), draw(20, 2, 16), draw(17, 4, 16)
    options = {"cu_seqlens_q": cu_q, "cu_seqlens_k": cu_k, "causal": "bottom-right"}
    o, lse = attest.attention(q, k, v, return_lse=True, **options)
    got = attest.backward(q, k, v, o, lse, d_o, **options)
    for i in range(3):
        rows, keys = slice(cu_q[i], cu_q[i + 1]), slice(cu_k[i], cu_k[i + 1])
        own = [np.swapaxes(x, 0, 1)[None] for x in (q[rows], k[keys], v[keys], d_o[rows])]
        exact = formula.gradients(*own, causal="bottom-right")
        for each, part, name in zip(got, (rows, keys, keys), "qkv"):
            close(np.swapaxes(each[part], 0, 1)[None], exact[name])


def test_keys_in_use():
    """Keys before the start and after the length hold NaN, and have gradients of 0."""
    q, k, v, d_o = problem(heads_kv=4)
    lens, starts = np.array([20, 31], np.int32), np.array([3, 31], np.int32)
    exact = formula.gradients(q, k, v, d_o, lens=lens, starts=starts, causal="bottom-right")
    for entry in range(2):
        hidden = np.ones(31, bool)
        hidden[starts[entry]:lens[entry]] = False
        k[entry][:, hidden] = v[entry][:, hidden] = np.nan
    options = {"lens_k": lens, "starts_k": starts, "causal": "bottom-right"}
    o, lse = attest.attention(q, k, v, return_lse=True, **options)
    for got, name in zip(attest.backward(q, k, v, o, lse, d_o, **options), "qkv"):
        close(got, exact[name])
        assert not got[1].any()


def test_positions_of_shards():
    """Gradients of keys summed over the parts of the rows that see them are those of the whole."""
    q, k, v, d_o = problem(heads_kv=4)
    k, v = k[:, :, :19].copy(), v[:, :, :19].copy()
    o, lse = attest.attention(q, k, v, causal=True, return_lse=True)
    whole = attest.backward(q, k, v, o, lse, d_o, causal=True)
    sums = [np.zeros_like(x) for x in whole]
    for rows in (slice(0, 7), slice(7, 19)):
        for keys in (slice(0, 10), slice(10, 19)):
            part = attest.backward(q[:, :, rows], k[:, :, keys], v[:, :, keys], o[:, :, rows], lse[:, :, rows], d_o[:, :, rows],
                                   causal=True, q_offset=rows.start, k_offset=np.full(2, keys.start, np.int32))
            for total, each, place in zip(sums, part, (rows, keys, keys)):
                total[:, :, place] += each
    for total, each in zip(sums, whole):
        np.testing.assert_allclose(total, each, atol=2e-5)


def test_types_of_gradients():
    q, k, v, d_o = (x.astype(np.float16) for x in problem())
    bias = draw(4, 19, 31).astype(np.float16)
    o, lse = attest.attention(q, k, v, bias=bias, return_lse=True)
    own = attest.backward(q, k, v, o, lse, d_o, bias=bias, d_bias=True)
    wide = attest.backward(q, k, v, o, lse, d_o, bias=bias, d_bias=True, grad_dtype="float32")
    assert {x.dtype for x in own} == {np.dtype("f2")} and {x.dtype for x in wide} == {np.dtype("f4")}
    for narrow, each in zip(own, wide):
        np.testing.assert_array_equal(narrow, each.astype(np.float16))


def test_arrays_for_the_gradients():
    q, k, v, d_o = problem(heads_kv=4, d_v=16, keys=19)
    o, lse = attest.attention(q, k, v, return_lse=True)
    wanted = attest.backward(q, k, v, o, lse, d_o)
    apart = [np.full((2, 19, 4, 20), np.nan, np.float32)[..., 2:18] for _ in range(3)]
    together = np.full((2, 19, 3, 4, 16), np.nan, np.float32)
    for places in (apart, [together[:, :, i] for i in range(3)]):
        places = [np.swapaxes(place, 1, 2) for place in places]
        got = attest.backward(q, k, v, o, lse, d_o, out=places)
        assert all(mine is place for mine, place in zip(got, places))
        for mine, other in zip(got, wanted):
            np.testing.assert_array_equal(mine, other)


def test_equal_bits_from_run_to_run_and_with_any_number_of_threads():
    q, k, v, d_o = (np.repeat(x, 4, 2) for x in problem(rows=64, keys=64))
    o, lse = attest.attention(q, k, v, return_lse=True)
    first = attest.backward(q, k, v, o, lse, d_o)
    try:
        for threads in (1, 2, 3):
            attest.set_threads(threads)
            for a, b in zip(first, attest.backward(q, k, v, o, lse, d_o)):
                np.testing.assert_array_equal(a, b)
    finally:
        attest.set_threads(0)


def test_no_rows_and_no_keys():
    for rows, keys in ((0, 5), (5, 0)):
        q, k, v, d_o = draw(1, 2, rows, 8), draw(1, 2, keys, 8), draw(1, 2, keys, 8), draw(1, 2, rows, 8)
        o, lse = attest.attention(q, k, v, return_lse=True)
        for got, like in zip(attest.backward(q, k, v, o, lse, d_o), (q, k, v)):
            assert got.shape == like.shape and not got.any()


@pytest.mark.parametrize("batch, rows, keys", [(0, 5, 5), (2, 0, 5), (2, 5, 0)])
def test_what_every_batch_entry_shares_is_zero_without_rows_or_keys(batch, rows, keys):
    q, k, bias = draw(batch, 4, rows, 8), draw(batch, 4, keys, 8), draw(1, 4, 1, 1)
    options = {"bias": bias, "sinks": SINKS, "alibi": SLOPES, "causal": "bottom-right"}
    o, lse = attest.attention(q, k, k, return_lse=True, **options)
    for _ in range(5):  # in memory that was used before
        draw(4), np.full(4, np.nan, np.float32)
        grads = attest.backward(q, k, k, o, lse, o, **options, d_bias=True, d_sinks=True, d_alibi=True)
        assert [x.shape for x in grads[3:]] == [(1, 4, 1, 1), (4,), (4,)] and not any(x.any() for x in grads)


def test_explain():
    q, k, v, d_o = problem()
    o, lse = attest.attention(q, k, v, return_lse=True)
    assert "bwd_cpu" in attest.explain_backward(q, k, v, o, lse, d_o)


X = draw(2, 4, 6, 8)
O, LSE = attest.attention(X, X, X, return_lse=True)
BIAS = draw(4, 6, 6)
MISTAKES = [
    (TypeError, "backward.. needs d_o", (X, X, X, O, LSE), {}),
    (TypeError, "takes q, k, v, o, lse and d_o by position", (X, X, X, O, LSE, O, True), {}),
    (TypeError, "unexpected argument 'return_lse'", (X, X, X, O, LSE, O), {"return_lse": True}),
    (ValueError, r"o has the shape \(2, 4, 6, 7\); expected \(2, 4, 6, 8\)", (X, X, X, O[..., :7], LSE, O), {}),
    (ValueError, r"lse has the shape \(2, 6, 4\); expected \(2, 4, 6\)", (X, X, X, O, LSE.swapaxes(1, 2), O), {}),
    (TypeError, "lse is float16; expected float32", (X, X, X, O, LSE.astype("f2"), O), {}),
    (ValueError, r"d_o has the shape \(1, 4, 6, 8\); expected \(2, 4, 6, 8\)", (X, X, X, O, LSE, O[:1]), {}),
    (TypeError, "d_o is float16, o is float32: they must have one dtype", (X, X, X, O, LSE, O.astype("f2")), {}),
    (TypeError, "o is float64", (X, X, X, O.astype("f8"), LSE, O), {}),
    (ValueError, "d_o has a stride of 0 along the head dimension",
     (X, X, X, O, LSE, np.broadcast_to(np.float32(1), O.shape)), {}),
    (TypeError, "d_bias needs bias", (X, X, X, O, LSE, O), {"d_bias": True}),
    (TypeError, "d_sinks needs sinks", (X, X, X, O, LSE, O), {"d_sinks": True}),
    (TypeError, "d_alibi needs alibi", (X, X, X, O, LSE, O), {"d_alibi": True}),
    (TypeError, "d_bias needs a bias that is added: it is bool", (X, X, X, O, LSE, O), {"bias": BIAS > 0, "d_bias": True}),
    (ValueError, "bias has a stride of 0 along axis 0",
     (X, X, X, O, LSE, O), {"bias": np.broadcast_to(BIAS[0], BIAS.shape), "d_bias": True}),
    (ValueError, "alibi is not contiguous",
     (X, X, X, O, LSE, O), {"alibi": np.ones((2, 8), "f4")[:, :4], "align": "top-left", "d_alibi": True}),
    (TypeError, "page_table: gradients of k and v in pages are not computed",
     (X, X, X, O, LSE, O), {"page_table": np.zeros((2, 1), "i4")}),
    (ValueError, "grad_dtype is 'float16'; expected 'float32'", (X, X, X, O, LSE, O), {"grad_dtype": "float16"}),
    (TypeError, "grad_dtype and out are both given", (X, X, X, O, LSE, O), {"grad_dtype": "float32", "out": (X, X, X)}),
    (TypeError, "out is not three arrays", (X, X, X, O, LSE, O), {"out": (X, X)}),
    (ValueError, r"out has the shape \(4, 6, 8\)", (X, X, X, O, LSE, O), {"out": (X[0], X, X)}),
    (TypeError, "out is float16; expected the dtype of q, or float32", (X, X, X, O, LSE, O), {"out": (X.astype("f2"),) * 3}),
    (ValueError, "d_q overlaps", (X, X, X, O, LSE, O), {"out": (O, X.copy(), X.copy())}),
    (ValueError, "causal is True, but q has 5 rows", (X[:, :, :5], X, X, O[:, :, :5], LSE[:, :, :5], O[:, :, :5]), {"causal": True}),
]


@pytest.mark.parametrize("kind, text, arrays, options", MISTAKES, ids=[text for _, text, _, _ in MISTAKES])
def test_mistakes(kind, text, arrays, options):
    with pytest.raises(kind, match=text):
        attest.backward(*arrays, **options)
