"""test_merge_numpy.py: merge() of NumPy arrays against the formula in float64, and split attention against the
whole."""

import attest
import formula
import numpy as np
import pytest

BARS = {"float32": 2e-6, "float16": 2e-3}


@pytest.fixture
def rng():
    return np.random.default_rng(7)


def parts(rng, count, shape=(2, 3, 5, 24), dtype="float32"):
    """Stacked parts with log-sums far apart."""
    return (rng.standard_normal((count, *shape)).astype(dtype),
            (8 * rng.standard_normal((count, *shape[:-1]))).astype(np.float32))


def check(got, o, lse, bar=2e-6):
    wanted_o, wanted_lse = formula.merge(o, lse)
    np.testing.assert_allclose(got[0].astype(np.float64), wanted_o, rtol=0, atol=bar)
    np.testing.assert_allclose(got[1], wanted_lse, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("dtype", list(BARS))
@pytest.mark.parametrize("count", [1, 2, 3, 8, 127, 128])
@pytest.mark.parametrize("d", [1, 7, 24, 64, 300])
def test_formula(rng, dtype, count, d):
    o, lse = parts(rng, count, (2, 3, 5, d), dtype)
    got = attest.merge(list(o), list(lse))
    assert got[0].dtype == dtype and got[0].shape == (2, 3, 5, d)
    assert got[1].dtype == np.float32 and got[1].shape == (2, 3, 5)
    check(got, o, lse, BARS[dtype])
    assert attest.last_launch().kernel.startswith("merge_cpu")


@pytest.mark.parametrize("count", [129, 256, 257, 128 * 128 + 1])
def test_more_parts_than_a_launch_takes(rng, count):
    o, lse = parts(rng, count, (1, 2, 3, 4), "float16")
    check(attest.merge(o, lse), o, lse, BARS["float16"])
    check(attest.merge(o.astype(np.float32), lse), o, lse)
    lse[:] = -np.inf
    merged, sums = attest.merge(o, lse)
    assert (merged == 0).all() and (sums == -np.inf).all()


@pytest.mark.parametrize("layout", ["bhsd", "bshd"])
@pytest.mark.parametrize("cuts", [[150], [1, 299], list(range(1, 300))])
def test_split_attention_is_whole_attention(rng, layout, cuts):
    q, k, v = (rng.standard_normal((2, 4, rows, 32), dtype=np.float32) for rows in (50, 300, 300))
    axis = 2
    if layout == "bshd":
        q, k, v = (np.ascontiguousarray(x.swapaxes(1, 2)) for x in (q, k, v))
        axis = 1
    pairs = [attest.attention(q, *kv, return_lse=True, layout=layout)
             for kv in zip(np.split(k, cuts, axis), np.split(v, cuts, axis))]
    o, lse = attest.merge([o for o, _ in pairs], [lse for _, lse in pairs], layout=layout)
    whole, whole_lse = attest.attention(q, k, v, return_lse=True, layout=layout)
    assert o.shape == whole.shape and lse.shape == whole_lse.shape
    np.testing.assert_allclose(o, whole, rtol=0, atol=2e-6)
    np.testing.assert_allclose(lse, whole_lse, rtol=0, atol=2e-6)


def test_packed_rows(rng):
    starts, most = np.array([0, 5, 12], np.int32), {"max_seqlen_q": 7}
    q = rng.standard_normal((12, 4, 16), dtype=np.float32)
    keys = [rng.standard_normal((2, 2, rows, 16), dtype=np.float32) for rows in (9, 20)]
    def attend(k):
        return attest.attention(q, k, k, cu_seqlens_q=starts, return_lse=True, **most)
    halves = [attend(k) for k in keys]
    o, lse = attest.merge([o for o, _ in halves], [lse for _, lse in halves])
    whole, whole_lse = attend(np.concatenate(keys, 2))
    assert o.shape == (12, 4, 16) and lse.shape == (4, 12)
    np.testing.assert_allclose(o, whole, rtol=0, atol=2e-6)
    np.testing.assert_allclose(lse, whole_lse, rtol=0, atol=2e-6)
    stacked = attest.merge(np.stack([o for o, _ in halves]), np.stack([lse for _, lse in halves]))
    assert np.array_equal(stacked[0], o) and np.array_equal(stacked[1], lse)


def test_same_bits_listed_stacked_and_again(rng):
    o, lse = parts(rng, 5, dtype="float16")
    first = attest.merge(list(o), list(lse))
    for again in (attest.merge(tuple(o), lse), attest.merge(o, list(lse)), attest.merge(o, lse)):
        assert all(np.array_equal(x, y) for x, y in zip(first, again))
    check(attest.merge(o[::-1], lse[::-1]), o, lse, BARS["float16"])


def test_no_copy_of_stacked_parts(rng):
    """What is between the parts is ignored."""
    room = np.full((6, 2, 3, 7, 32), np.nan, np.float32)
    sums = np.full((6, 2, 3, 9), np.nan, np.float32)
    o, lse = parts(rng, 3)
    room[1::2, :, :, 1:6, 4:28], sums[1::2, :, :, 2:7] = o, lse
    got = attest.merge(room[1::2, :, :, 1:6, 4:28], sums[1::2, :, :, 2:7])
    check(got, o, lse)


def test_strides(rng):
    o, lse = parts(rng, 4)
    turned = [np.ascontiguousarray(x.transpose(2, 0, 1, 3)).transpose(1, 2, 0, 3) for x in o]
    sums = [np.ascontiguousarray(x.T).T for x in lse]
    check(attest.merge(turned, sums), o, lse)
    mixed = [x if i % 2 else y for i, (x, y) in enumerate(zip(o, turned))]  # no two adjacent ones have the same layout
    check(attest.merge(mixed, lse), o, lse)
    check(attest.merge(o, [lse[0], sums[1], sums[2], lse[3]]), o, lse)
    same = np.broadcast_to(o[0, :1], o[0].shape)
    check(attest.merge([same, same], lse[:2]), np.stack([same, same]), lse[:2])


def test_out(rng):
    o, lse = parts(rng, 3, dtype="float16")
    out = np.full((2, 5, 3, 24), 9, np.float32).swapaxes(1, 2)
    got = attest.merge(o, lse, out=out)
    assert got[0] is out
    check(got, o, lse)
    alone = attest.merge(list(o), lse, return_lse=False)
    assert isinstance(alone, np.ndarray) and alone.dtype == np.float16
    np.testing.assert_array_equal(alone, out.astype(np.float16))


def test_empty_parts(rng):
    o, lse = parts(rng, 3)
    lse[1] = -np.inf
    o[1] = np.nan  # whatever it holds
    lse[:, 0, 0, 0] = -np.inf  # a row that no part saw
    got = attest.merge(o, lse)
    check(got, o, lse)
    assert (got[0][0, 0, 0] == 0).all() and got[1][0, 0, 0] == -np.inf and np.isfinite(got[0]).all()
    check(attest.merge(o[[0, 2]], lse[[0, 2]]), o, lse)


def test_no_rows_of_many_parts():
    """More parts than one launch takes, and nothing in them."""
    o, lse = attest.merge(np.zeros((140, 1, 0, 3, 8), np.float32), np.zeros((140, 1, 0, 3), np.float32))
    assert o.shape == (1, 0, 3, 8) and lse.shape == (1, 0, 3)


def test_infinite_sums(rng):
    o, lse = parts(rng, 4)
    lse[0, 0, 0, 0] = lse[2, 0, 0, 0] = np.inf
    got = attest.merge(o, lse)
    check(got, o, lse)
    assert got[1][0, 0, 0] == np.inf
    np.testing.assert_allclose(got[0][0, 0, 0], (o[0] + o[2])[0, 0, 0] / 2, atol=1e-6)


def test_nan_reaches_its_row_alone(rng):
    o, lse = parts(rng, 3)
    lse[:, 1] = 0
    clean = attest.merge(o, lse)
    o[1, 1, 1, 2, 3], lse[2, 1, 2, 4] = np.nan, np.nan
    got = attest.merge(o, lse)
    assert np.isnan(got[0][1, 1, 2, 3]) and np.isnan(got[0][1, 2, 4]).all() and np.isnan(got[1][1, 2, 4])
    o_bad, lse_bad = np.isnan(got[0]), np.isnan(got[1])
    assert o_bad.sum() == 1 + 24 and lse_bad.sum() == 1
    assert np.array_equal(got[0][~o_bad], clean[0][~o_bad]) and np.array_equal(got[1][~lse_bad], clean[1][~lse_bad])


@pytest.mark.parametrize("shape", [(0, 3, 5, 8), (2, 0, 5, 8), (2, 3, 0, 8)])
def test_nothing_to_do(shape):
    o, lse = attest.merge(np.ones((2, *shape), np.float32), np.ones((2, *shape[:-1]), np.float32))
    assert o.shape == shape and lse.shape == shape[:-1]


def test_plans_are_kept_with_those_of_attention(rng):
    o, lse = parts(rng, 2)
    attest.cache_clear()
    attest.attention(o[0], o[0], o[0])
    for _ in range(3):
        attest.merge(list(o), list(lse))
    assert attest.cache_info()[:3] == (2, 2, 2)
    assert {kernel.operation for kernel in attest.kernels()} >= {"attention", "merge"}


O, LSE = np.ones((2, 4, 6, 8), np.float32), np.ones((2, 4, 6), np.float32)
FROZEN = O.copy()
FROZEN.flags.writeable = False

MISTAKES = [
    (TypeError, r"merge\(\) needs parts_lse", ([O],), {}),
    (TypeError, "takes parts_o and parts_lse by position", ([O], [LSE], "bhsd"), {}),
    (TypeError, "unexpected argument 'lse'", ([O], [LSE]), {"lse": LSE}),
    (ValueError, "layout is 'hd'", ([O], [LSE]), {"layout": "hd"}),
    (ValueError, "parts_o has no parts", ([], []), {}),
    (ValueError, "parts_lse has no parts", ([O], ()), {}),
    (ValueError, "parts_lse has 1 parts, parts_o 2", ([O, O], [LSE]), {}),
    (TypeError, "parts_o is a str", ("parts", [LSE]), {}),
    (TypeError, r"parts_o\[1\] is a list", ([O, [1.0]], [LSE, LSE]), {}),
    (TypeError, r"parts_lse\[0\] is a float", ([O], [1.0]), {}),
    (TypeError, r"parts_o\[0\] is float64; expected float32, float16 or bfloat16", ([O.astype("f8")], [LSE]), {}),
    (TypeError, r"parts_o\[1\] is float16, parts_o\[0\] is float32: parts must have one dtype",
     ([O, O.astype("f2")], [LSE, LSE]), {}),
    (TypeError, r"parts_lse\[1\] is float16; expected float32", ([O, O], [LSE, LSE.astype("f2")]), {}),
    (ValueError, r"parts_o\[0\] has the shape \(6, 8\); expected \(batch, heads, rows, head dimension\)", ([O[0, 0]], [LSE]), {}),
    (ValueError, r"parts_o\[0\] has the shape \(6, 8\); expected \(batch, rows, heads,", ([O[0, 0]], [LSE]), {"layout": "bshd"}),
    (ValueError, r"parts_o has the shape \(4, 6, 8\); expected a list of arrays, or one array", (O[0], [LSE]), {}),
    (ValueError, "parts_o has 6 dimensions; expected at most 5", (O[None, None], [LSE]), {}),
    (ValueError, r"parts_o\[1\] has the shape \(2, 4, 5, 8\); expected that of parts_o\[0\], \(2, 4, 6, 8\)",
     ([O, O[:, :, :5]], [LSE, LSE]), {}),
    (ValueError, r"parts_lse\[0\] has the shape \(2, 6, 4\); expected \(2, 4, 6\)", ([O], [LSE.reshape(2, 6, 4)]), {}),
    (ValueError, r"a part of parts_lse has the shape \(2, 6, 4\); expected \(2, 4, 6\)", ([O], LSE.reshape(1, 2, 6, 4)), {}),
    (ValueError, r"parts_lse\[0\] has the shape \(2, 4, 6\); expected \(2, 6, 4\)", ([O], [LSE]), {"layout": "bshd"}),
    (ValueError, r"parts_o\[0\] has the shape .*; expected a head dimension of 1 or more", ([O[..., :0]], [LSE]), {}),
    (ValueError, r"parts_o\[1\] has a stride of 2 along the head dimension",
     ([O, np.ones((2, 4, 6, 16), "f4")[..., ::2]], [LSE, LSE]), {}),
    (ValueError, r"parts_o\[0\] has negative strides", ([O[:, ::-1]], [LSE]), {}),
    (ValueError, r"parts_lse\[0\] has negative strides", ([O], [LSE[::-1]]), {}),
    (ValueError, r"out has the shape \(2, 4, 6, 7\); expected \(2, 4, 6, 8\)", ([O], [LSE]), {"out": O[..., :7]}),
    (ValueError, "out is read-only", ([O], [LSE]), {"out": FROZEN}),
    (ValueError, "out overlaps parts_o", ([O, O], [LSE, LSE]), {"out": O}),
    (TypeError, "out is int32", ([O], [LSE]), {"out": O.astype("i4")}),
]


@pytest.mark.parametrize("kind, text, arrays, options", MISTAKES, ids=[mistake[1] for mistake in MISTAKES])
def test_mistakes(kind, text, arrays, options):
    with pytest.raises(kind, match=text):
        attest.merge(*arrays, **options)


def test_signature_and_text():
    import inspect

    assert list(inspect.signature(attest.merge).parameters) == ["parts_o", "parts_lse", "layout", "out", "return_lse"]
    assert "parts_lse" in attest.merge.__doc__
