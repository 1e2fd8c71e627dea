"""test_jax_cpu.py: JAX arrays on the CPU, if JAX is installed."""

import pytest

jax = pytest.importorskip("jax", reason="JAX is not here: its tests are left out")

import attest  # noqa: E402
import formula  # noqa: E402
import numpy as np  # noqa: E402


@pytest.fixture(autouse=True)
def on_the_cpu():
    with jax.default_device(jax.devices("cpu")[0]):
        yield


def qkv(dtype="float32"):
    return tuple(jax.random.normal(jax.random.key(i), (2, 4, 19, 16)).astype(dtype) for i in range(3))


@pytest.mark.parametrize("dtype, bar", [("float32", 3e-6), ("float16", 3e-3), ("bfloat16", 3e-2)])
def test_types(dtype, bar):
    q, k, v = qkv(dtype)
    o, lse = attest.attention(q, k, v, causal=True, return_lse=True)
    assert isinstance(o, jax.Array) and o.dtype == dtype and lse.dtype == "float32"
    wanted = formula.attention(*(np.asarray(x, np.float64) for x in (q, k, v)), causal="top-left")[0]
    np.testing.assert_allclose(np.asarray(o, np.float64), wanted, atol=bar)


def test_masks_and_mistakes():
    q, k, v = qkv()
    mask = jax.numpy.tril(jax.numpy.ones((19, 19), bool))
    np.testing.assert_array_equal(attest.attention(q, k, v, bias=mask), attest.attention(q, k, v, causal=True))
    with pytest.raises(ValueError, match="out is read-only"):
        attest.attention(q, k, v, out=jax.numpy.zeros_like(q))
    with pytest.raises(TypeError, match="q is being traced"):
        jax.jit(attest.attention)(q, k, v)


@pytest.mark.parametrize("dtype, bar", [("float32", 3e-6), ("float16", 3e-3), ("bfloat16", 2e-2)])
def test_merge(dtype, bar):
    q, k, v = qkv(dtype)
    halves = [attest.attention(q, k[:, :, keys], v[:, :, keys], return_lse=True) for keys in (slice(0, 7), slice(7, 19))]
    o, lse = attest.merge([o for o, _ in halves], [lse for _, lse in halves])
    assert isinstance(o, jax.Array) and o.dtype == dtype and o.shape == q.shape and lse.dtype == "float32"
    wanted = formula.attention(*(np.asarray(x, np.float64) for x in (q, k, v)))
    np.testing.assert_allclose(np.asarray(o, np.float64), wanted[0], atol=bar)
    np.testing.assert_allclose(lse, wanted[1], atol=bar)
    stacked = attest.merge(jax.numpy.stack([o for o, _ in halves]), jax.numpy.stack([lse for _, lse in halves]))
    assert (stacked[0] == o).all() and (stacked[1] == lse).all()
    with pytest.raises(TypeError, match=r"parts_o\[0\] is being traced"):
        jax.jit(lambda o, lse: attest.merge([o], [lse]))(o, lse)
