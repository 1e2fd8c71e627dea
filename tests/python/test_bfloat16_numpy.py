"""test_bfloat16_numpy.py: bfloat16 in NumPy arrays: from ml_dtypes if installed, and as the two bytes that np.load()
returns."""

import io

import attest
import formula
import numpy as np
import pytest

RNG = np.random.default_rng(7)
BAR = 3e-2


def bits(x):
    """The nearest bfloat16 of each float32, as 16 bits."""
    whole = np.ascontiguousarray(x, np.float32).view(np.uint32)
    return ((whole + 0x7FFF + ((whole >> 16) & 1)) >> 16).astype(np.uint16)


def wide(x):
    return (np.ascontiguousarray(x).view(np.uint16).astype(np.uint32) << 16).view(np.float32)


def loaded(x):
    """Through a file whose header says <V2."""
    file = io.BytesIO()
    np.save(file, bits(x).view("V2"))
    file.seek(0)
    return np.load(file)


def of_ml_dtypes(x):
    return x.astype(pytest.importorskip("ml_dtypes", reason="ml_dtypes is not here: its bfloat16 is left out").bfloat16)


@pytest.fixture(params=[loaded, of_ml_dtypes])
def make(request):
    return lambda *shape: request.param(RNG.standard_normal(shape, dtype=np.float32))


def check(got, wanted):
    np.testing.assert_allclose(wide(got), wanted, rtol=0, atol=BAR)


def test_attention(make):
    q, k, v = make(2, 4, 19, 40), make(2, 2, 33, 40), make(2, 2, 33, 24)
    o, lse = attest.attention(q, k, v, return_lse=True)
    assert isinstance(o, np.ndarray) and o.dtype == q.dtype and lse.dtype == np.float32
    wanted, wanted_lse = formula.attention(wide(q), wide(k), wide(v))
    check(o, wanted)
    np.testing.assert_allclose(lse, wanted_lse, rtol=0, atol=BAR)


def test_strides_bias_and_read_only_arrays(make):
    q, k, v = (make(2, 19, 4, 16).transpose(0, 2, 1, 3) for _ in range(3))
    bias = make(19, 19)
    for x in (q, bias):
        x.flags.writeable = False
    o = attest.attention(q, k, v, bias=bias, causal=True)
    check(o, formula.attention(wide(q), wide(k), wide(v), bias=wide(bias), causal="top-left")[0])


def test_out(make):
    q, k, v = (make(2, 4, 19, 16) for _ in range(3))
    wanted = formula.attention(wide(q), wide(k), wide(v))[0]
    for out in (np.empty_like(q), np.empty(q.shape, np.float32), np.empty(q.shape, np.float16)):
        assert attest.attention(q, k, v, out=out) is out
        check(out if out.dtype == q.dtype else bits(out), wanted)
    out = np.empty_like(q)
    attest.attention(*(wide(x) for x in (q, k, v)), out=out)
    check(out, wanted)
    out.flags.writeable = False
    with pytest.raises(ValueError, match="out is read-only"):
        attest.attention(q, k, v, out=out)


def test_mistakes(make):
    q, k, v = (make(2, 4, 19, 16) for _ in range(3))
    with pytest.raises(TypeError, match="k is float32, q is bfloat16"):
        attest.attention(q, wide(k), v)
    with pytest.raises(TypeError, match="sinks is bfloat16; expected float32"):
        attest.attention(q, k, v, sinks=make(4))


@pytest.mark.parametrize("dtype", [np.dtype([("low", "u1"), ("high", "u1")]), "V4", "S2"])
def test_other_bytes_are_refused(dtype):
    x = np.zeros((1, 1, 2, 8), dtype)
    with pytest.raises(TypeError, match="^q"):
        attest.attention(x, x, x)
