"""test_jax_program.py: attest.jax inside compiled programs, on JAX's default device: a CPU here, a GPU elsewhere."""

import functools
import os

import pytest

os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")
jax = pytest.importorskip("jax", reason="JAX is not here: its tests are left out")

import attest  # noqa: E402
import attest.jax as aj  # noqa: E402
import formula  # noqa: E402
import jax.numpy as jnp  # noqa: E402
import numpy as np  # noqa: E402

GPU = jax.default_backend() == "gpu"
DTYPES = {"float16": 4e-3, "bfloat16": 3e-2} if GPU else {"float32": 3e-6, "float16": 4e-3, "bfloat16": 3e-2}
DTYPE = "bfloat16" if GPU else "float32"
BAR = DTYPES[DTYPE]


def qkv(batch=2, heads=4, heads_kv=None, rows=19, keys=None, d=16, dtype=DTYPE):
    shapes = ((batch, heads, rows, d), *[(batch, heads_kv or heads, keys or rows, d)] * 2)
    return tuple(jax.random.normal(jax.random.key(i), shape).astype(dtype) for i, shape in enumerate(shapes))


def wide(*arrays):
    return [np.asarray(x.astype(jnp.float32), np.float64) for x in arrays]


def check(q, k, v, bar=None, **options):
    static = {key: value for key, value in options.items() if not hasattr(value, "shape")}
    arrays = {key: value for key, value in options.items() if key not in static}
    run = jax.jit(lambda q, k, v, arrays: aj.attention(q, k, v, return_lse=True, **static, **arrays))
    o, lse = run(q, k, v, arrays)
    assert o.dtype == q.dtype and o.devices() == q.devices() and lse.dtype == jnp.float32
    named = {key: np.asarray(value) if hasattr(value, "shape") else value for key, value in options.items()}
    wanted, wanted_lse = formula.attention(*wide(q, k, v), **named)
    np.testing.assert_allclose(wide(o)[0], wanted, rtol=0, atol=bar or BAR)
    np.testing.assert_allclose(np.asarray(lse, np.float64), wanted_lse, rtol=1e-3, atol=BAR)
    return o


@pytest.mark.parametrize("dtype", list(DTYPES))
def test_types(dtype):
    check(*qkv(dtype=dtype), bar=DTYPES[dtype], causal="top-left")
    assert ("sm" if GPU else "cpu") in aj.last_launch().kernel


@pytest.mark.parametrize("options", [
    {}, {"scale": 0.3}, {"causal": "bottom-right"}, {"softcap": 5.0}, {"window": (4, 2), "align": "top-left"},
    {"alibi": jnp.linspace(0.1, 0.4, 4), "align": "top-left"}, {"sinks": jnp.linspace(-1.0, 1.0, 4)},
    {"bias": jax.random.normal(jax.random.key(9), (4, 19, 31))}, {"bias": jax.random.bernoulli(jax.random.key(9), 0.7, (2, 1, 19, 31))}],
    ids=str)
def test_options(options):
    check(*qkv(keys=31, heads_kv=2), **options)


@pytest.mark.skipif(GPU, reason="GPU kernels also round derivatives of scores to float16")
@pytest.mark.parametrize("size, far", [(1e6, 1e-4), (1e-9, 1e4)])
def test_gradients_of_log_sums_beyond_float16(size, far):
    """A d_lse that float16 cannot hold, whose gradient it can: keys are as small, or as large, as d_lse requires."""
    q, k, v = qkv(dtype="float16")
    q, k = (q if far < 1 else q / far), k * jnp.float16(far)
    d_lse = jax.random.normal(jax.random.key(5), (2, 4, 19)) * size
    o, pull = jax.vjp(lambda q: aj.attention(q, k, v, return_lse=True), q)
    got, = pull((jnp.zeros_like(o[0]), d_lse))
    exact = formula.gradients(*wide(q, k, v), np.zeros((2, 4, 19, 16)), np.asarray(d_lse))["q"]
    np.testing.assert_allclose(wide(got)[0], exact, rtol=0, atol=3e-3 * np.abs(exact).max() + 2.0 ** -25)


def test_a_long_row_has_a_workspace():
    check(*qkv(batch=1, rows=1, keys=20000, d=64, heads_kv=1))


def test_the_other_layout_and_no_jit():
    q, k, v = qkv()
    o = aj.attention(*(x.swapaxes(1, 2) for x in (q, k, v)), causal=True, layout="bshd")
    np.testing.assert_allclose(wide(o.swapaxes(1, 2))[0], wide(check(q, k, v, causal="top-left"))[0], atol=1e-6)


def test_packed_and_paged():
    q, k, v = (x[0].swapaxes(0, 1) for x in qkv(rows=30))
    cu = jnp.array([0, 10, 30], jnp.int32)
    o = jax.jit(lambda q, k, v, cu: aj.attention(q, k, v, cu_seqlens_q=cu, cu_seqlens_k=cu, max_seqlen_q=20, max_seqlen_k=20,
                                                 causal="top-left"))(q, k, v, cu)
    for start, end in ((0, 10), (10, 30)):
        part = [x[start:end].swapaxes(0, 1)[None] for x in wide(q, k, v)]
        np.testing.assert_allclose(wide(o)[0][start:end].swapaxes(0, 1)[None], formula.attention(*part, causal="top-left")[0],
                                   atol=BAR)
    one, keys, values = qkv(rows=1, keys=64)
    pages = [x.reshape(2, 4, 4, 16, 16).swapaxes(1, 2).reshape(8, 4, 16, 16) for x in (keys, values)]
    got = jax.jit(lambda *x: aj.attention(*x[:3], page_table=x[3], lens_k=x[4]))(
        one, *pages, jnp.arange(8, dtype=jnp.int32).reshape(2, 4), jnp.array([64, 50], jnp.int32))
    for b, used in ((0, 64), (1, 50)):
        wanted = formula.attention(*wide(one[b:b + 1], keys[b:b + 1, :, :used], values[b:b + 1, :, :used]))[0]
        np.testing.assert_allclose(wide(got)[0][b:b + 1], wanted, atol=BAR)
    with pytest.raises(attest.UnsupportedError, match="no gradient with page_table"):
        jax.grad(lambda q: aj.attention(q, *pages, page_table=jnp.arange(8, dtype=jnp.int32).reshape(2, 4),
                                        lens_k=jnp.array([64, 50], jnp.int32)).sum())(one)


def test_rows_behind_the_last_sequence_are_zero_where_gradients_are_computed():
    """In memory that held NaN before."""
    arrays = tuple(jax.random.normal(jax.random.key(i), (64, 4, 64)).astype(DTYPE) for i in range(3))
    cu = jnp.array([0, 3, 7], jnp.int32)

    def used(q, k, v):
        o = aj.attention(q, k, v, cu_seqlens_q=cu, cu_seqlens_k=cu, max_seqlen_q=4, max_seqlen_k=4)
        return (o[:7].astype(jnp.float32) ** 2).sum(), o

    for _ in range(4):
        spoiled = [jnp.full_like(arrays[0], jnp.nan) for _ in range(20)]
        jax.block_until_ready(spoiled)
        del spoiled
        (_, o), gradients = jax.value_and_grad(used, argnums=(0, 1, 2), has_aux=True)(*arrays)
        for x in (o, *gradients):
            assert x[:7].any() and not x[7:].any()


def test_gradients_of_packed_sequences():
    """As for every sequence alone, through O and LSE."""
    q, k, v = (x[0].swapaxes(0, 1) for x in qkv(rows=30))
    starts = (0, 10, 30)

    def packed(q, k, v):
        cu = jnp.array(starts, jnp.int32)
        o, lse = aj.attention(q, k, v, cu_seqlens_q=cu, cu_seqlens_k=cu, max_seqlen_q=20, max_seqlen_k=20, causal="top-left",
                              return_lse=True)
        return (o.astype(jnp.float32) ** 2).sum() + jnp.sin(lse).sum()

    def apart(q, k, v):
        total = 0.0
        for first, end in zip(starts, starts[1:]):
            o, lse = aj.attention(*(x[first:end].swapaxes(0, 1)[None] for x in (q, k, v)), causal=True, return_lse=True)
            total += (o.astype(jnp.float32) ** 2).sum() + jnp.sin(lse).sum()
        return total

    got, wanted = (jax.jit(jax.grad(f, argnums=(0, 1, 2)))(q, k, v) for f in (packed, apart))
    for mine, other in zip(got, wanted):
        np.testing.assert_allclose(wide(mine)[0], wide(other)[0], atol=1e-2 if GPU else 1e-5)


@pytest.mark.parametrize("which", ["q", "k"])
def test_gradients_where_q_or_k_alone_is_packed(which):
    """Of O and LSE: q has three axes and v four, or the other way round."""
    q, k, v = qkv(rows=12)
    starts, rows = jnp.array([0, 12, 24], jnp.int32), {"q": (0,), "k": (1, 2)}[which]
    packed = {f"cu_seqlens_{which}": starts, f"max_seqlen_{which}": 12}

    def loss(arrays, options):
        o, lse = aj.attention(*arrays, causal="top-left", return_lse=True, **options)
        return (o.astype(jnp.float32) ** 2).sum() + jnp.sin(lse).sum()

    def flat(x):
        return x.swapaxes(1, 2).reshape(24, 4, 16)

    wanted = jax.grad(loss)((q, k, v), {})
    got = jax.grad(loss)(tuple(flat(x) if i in rows else x for i, x in enumerate((q, k, v))), packed)
    for i, (mine, other) in enumerate(zip(got, wanted)):
        np.testing.assert_allclose(wide(mine)[0], wide(flat(other) if i in rows else other)[0], atol=1e-2 if GPU else 1e-5)


@pytest.mark.parametrize("side", ["q", "k"])
def test_gradients_where_every_packed_sequence_is_empty(side):
    """There are rows, but they belong to no sequence: a bias that is broadcast has a gradient, which no kernel writes. In
    memory that held NaN before."""
    q, k, v = qkv(batch=1, rows=4)
    pack = {"q": (0,), "k": (1, 2)}[side]
    arrays = [x[0].swapaxes(0, 1) if i in pack else x for i, x in enumerate((q, k, v))]
    empty = {f"cu_seqlens_{side}": jnp.zeros(2, jnp.int32), f"max_seqlen_{side}": 0}
    extras = {"bias": jnp.ones((1, 4, 1, 1)), "sinks": jnp.linspace(-1.0, 1.0, 4), "alibi": jnp.ones(4)}

    def loss(arrays, extras, through_lse):
        o, lse = aj.attention(*arrays, **extras, **empty, causal="top-left", return_lse=True)
        return o[:0 if side == "q" else None].astype(jnp.float32).sum() + (lse.sum() if through_lse else 0.0)

    for through_lse in (False,) if side == "q" else (False, True):
        gradient = jax.jit(jax.grad(functools.partial(loss, through_lse=through_lse), argnums=(0, 1)))
        for _ in range(4):
            spoiled = [jnp.full(size, jnp.nan) for size in (1, 4, 16, 256) for _ in range(50)]
            jax.block_until_ready(spoiled)
            del spoiled
            own, of_extras = gradient(arrays, extras)
            assert not any(x.any() for x in (*own, of_extras["bias"], of_extras["alibi"]))
            np.testing.assert_allclose(of_extras["sinks"], 4.0 * through_lse)  # the log-sum of each of four rows is the sink


@pytest.mark.parametrize("dtype", list(DTYPES))
@pytest.mark.parametrize("options", [{"sinks": True}, {"alibi": True, "align": "top-left"},
                                     {"bias": True, "sinks": True, "alibi": True, "softcap": 3.0, "causal": "bottom-right"}],
                         ids=lambda options: "+".join(options))
def test_gradients_of_extras(options, dtype):
    """Compared with the formula, through O and the log-sum-exp; a kernel of attest computes them."""
    q, k, v = qkv(keys=23, heads_kv=2, dtype=dtype)
    extras = {"bias": jax.random.normal(jax.random.key(7), (2, 1, 19, 23)), "sinks": jnp.linspace(-1.0, 1.0, 4),
              "alibi": jnp.linspace(0.1, 0.4, 4)}
    extras = {name: x for name, x in extras.items() if options.get(name)}
    static = {name: value for name, value in options.items() if name not in extras}
    d_o, d_lse = (jax.random.normal(jax.random.key(i), shape) for i, shape in ((8, (2, 4, 19, 16)), (9, (2, 4, 19))))
    d_o = d_o.astype(dtype)
    _, pull = jax.vjp(lambda q, k, v, extras: aj.attention(q, k, v, **extras, **static, return_lse=True), q, k, v, extras)
    *own, of_extras = pull((d_o, d_lse))
    assert aj.last_launch().kernel.startswith("bwd_")
    exact = formula.gradients(*wide(q, k, v, d_o), np.asarray(d_lse), **{name: np.asarray(x) for name, x in extras.items()}, **static)
    for name, mine in (*zip("qkv", own), *of_extras.items()):
        bar = (1e-5 if dtype == "float32" else 3e-2) * max(1.0, np.abs(exact[name]).max())
        np.testing.assert_allclose(wide(mine)[0], exact[name], rtol=0, atol=bar)


def test_a_second_derivative_is_refused():
    q, k, v = qkv()
    with pytest.raises(Exception, match="cannot be differentiated|not implemented|Differentiation"):
        jax.grad(lambda q: jax.grad(lambda q: aj.attention(q, k, v).astype(jnp.float32).sum())(q).astype(jnp.float32).sum())(q)


@pytest.mark.parametrize("options", [{}, {"causal": "bottom-right"}, {"softcap": 5.0, "scale": 0.3}, {"layout": "bshd"},
                                     {"window": (5, 5), "align": "top-left"}], ids=str)
def test_gradients(options):
    """Compared with JAX's own, through a loss of O and LSE."""
    q, k, v = qkv(keys=23, heads_kv=2)
    bias = jax.random.normal(jax.random.key(7), (4, 19, 23))
    if options.get("layout"):
        q, k, v = (x.swapaxes(1, 2) for x in (q, k, v))

    def loss(attention, q, k, v, bias):
        o, lse = attention(q, k, v, bias)
        return (o.astype(jnp.float32) ** 2).sum() + lse.sum()

    def ours(q, k, v, bias):
        return aj.attention(q, k, v, bias=bias, return_lse=True, **options)

    def plain(q, k, v, bias):
        if options.get("layout"):
            q, k, v = (x.swapaxes(1, 2) for x in (q, k, v))
        with jax.default_matmul_precision("highest"):
            scores = jnp.einsum("bhrd,bhkd->bhrk", q.astype(jnp.float32), jnp.repeat(k.astype(jnp.float32), 2, 1))
        scores = scores * options.get("scale", 0.25)
        if "softcap" in options:
            scores = options["softcap"] * jnp.tanh(scores / options["softcap"])
        distance = jnp.arange(23) - jnp.arange(19)[:, None] - (4 if "causal" in options else 0)
        seen = distance <= 0 if "causal" in options else abs(distance) <= (5 if "window" in options else 99)
        scores = jnp.where(seen, scores + bias, -jnp.inf)
        with jax.default_matmul_precision("highest"):
            o = jnp.einsum("bhrk,bhkd->bhrd", jax.nn.softmax(scores, -1), jnp.repeat(v.astype(jnp.float32), 2, 1))
        return o.swapaxes(1, 2) if options.get("layout") else o, jax.nn.logsumexp(scores, -1)

    got, wanted = (jax.jit(jax.grad(functools.partial(loss, f), argnums=(0, 1, 2, 3)))(q, k, v, bias) for f in (ours, plain))
    for mine, other in zip(got, wanted):
        assert mine.dtype == other.dtype
        other = wide(other)[0]
        np.testing.assert_allclose(wide(mine)[0], other, atol=(0.03 if GPU else 1e-5) * np.abs(other).max())


def test_gradients__left_padding__as_with_a_mask():
    q, k, v = qkv()
    starts = jnp.array([4, 19], jnp.int32)[:q.shape[0]]
    seen = (jnp.arange(19) >= starts[:, None])[:, None, None]

    def loss(q, k, v, **options):
        return (aj.attention(q, k, v, causal=True, **options).astype(jnp.float32) ** 2).sum()

    got, wanted = (jax.grad(functools.partial(loss, **options), argnums=(0, 1, 2))(q, k, v)
                   for options in ({"starts_k": starts}, {"bias": seen}))
    for mine, other in zip(got, wanted):
        np.testing.assert_allclose(wide(mine)[0], wide(other)[0], atol=1e-6)
        assert (wide(mine)[0][1] == 0).all()


def stacked(count, seed, *shape):
    return jax.random.normal(jax.random.key(seed), (count, *shape))


@pytest.mark.parametrize("extras, along", [
    ({}, {}), ({"bias": (3, 4, 19, 19)}, {"bias": 0}), ({"bias": (2, 1, 1, 19)}, {"bias": None}),
    ({"bias": (3, 2, 4, 19, 19)}, {"bias": 0}), ({"alibi": (3, 4)}, {"alibi": 0}), ({"alibi": (2, 4)}, {"alibi": None}),
    ({"sinks": (4,)}, {"sinks": None}), ({"sinks": (3, 4)}, {"sinks": 0})], ids=str)
def test_vmap(extras, along):
    """Every array with or without vmap's axis; the answer is that of one call after the other."""
    q, v = stacked(3, 0, 2, 4, 19, 16).astype(DTYPE), stacked(3, 2, 2, 4, 19, 16).astype(DTYPE)
    k = qkv()[1]
    extras = {name: jax.random.normal(jax.random.key(5), shape) for name, shape in extras.items()}
    run = jax.vmap(lambda q, k, v, extras: aj.attention(q, k, v, return_lse=True, causal=True, **extras),
                   in_axes=(0, None, 0, along))
    o, lse = jax.jit(run)(q, k, v, extras)
    for i in range(3):
        own = {name: x[i] if along[name] == 0 else x for name, x in extras.items()}
        wanted = aj.attention(q[i], k, v[i], return_lse=True, causal=True, **own)
        for got, other in zip((o[i], lse[i]), wanted):
            np.testing.assert_allclose(wide(got)[0], wide(other)[0], atol=1e-6)
    if along.get("sinks", 1) != 0:
        assert "scan" not in str(jax.make_jaxpr(run)(q, k, v, extras))  # one call for all


def test_vmap_of_vmap_and_of_lengths_and_gradients():
    q = stacked(2, 0, 3, 2, 4, 19, 16).astype(DTYPE)
    lens = jnp.array([[19, 7], [1, 12], [4, 5]], jnp.int32)
    run = jax.vmap(jax.vmap(lambda q, lens: aj.attention(q, q, q, lens_k=lens)), in_axes=(0, None))
    o = jax.jit(run)(q, lens)
    np.testing.assert_allclose(wide(o[1, 2])[0], wide(aj.attention(*[q[1, 2]] * 3, lens_k=lens[2]))[0], atol=1e-6)
    run = jax.vmap(jax.vmap(lambda q, starts: aj.attention(q, q, q, starts_k=starts)), in_axes=(0, None))
    o = jax.jit(run)(q, lens)
    np.testing.assert_allclose(wide(o[1, 2])[0], wide(aj.attention(*[q[1, 2]] * 3, starts_k=lens[2]))[0], atol=1e-6)

    def loss(q):
        return (aj.attention(q, q, q, causal=True).astype(jnp.float32) ** 2).sum()

    apart = jax.vmap(jax.grad(loss))(q[0])
    together = jax.grad(lambda q: jax.vmap(loss)(q).sum())(q[0])
    for i in range(3):
        wanted = wide(jax.grad(loss)(q[0, i]))[0]
        for got in (apart[i], together[i]):
            np.testing.assert_allclose(wide(got)[0], wanted, atol=1e-5 * np.abs(wanted).max())


def test_mistakes_are_told_when_the_program_is_traced():
    q, k, v = qkv()
    for kind, text, arrays, options in (
            (TypeError, "v is float16, q is", (q, k, v.astype("float16")), {}),
            (ValueError, "q has 4 heads and k 3", (q, k[:, :3], v[:, :3]), {}),
            (ValueError, "causal is 'left'", (q, k, v), {"causal": "left"}),
            (TypeError, "max_seqlen_q is needed: the values in cu_seqlens_q are not known before the call runs", (q[0], k[0], v[0]),
             {"cu_seqlens_q": jnp.zeros(3, jnp.int32)}),
            (TypeError, "q is int32", (q.astype("int32"),) * 3, {})):
        with pytest.raises(kind, match=text):
            jax.jit(functools.partial(aj.attention, **options))(*arrays)


def test_what_a_run_finds_is_an_error_of_the_program():
    q, k, v = qkv()
    if GPU:
        pytest.skip("a GPU does not look at lengths before it runs")
    with pytest.raises(Exception, match="lens_k"):
        jax.block_until_ready(aj.attention(q, k, v, lens_k=jnp.array([19, 20], jnp.int32)))
    assert jnp.isfinite(aj.attention(q, k, v)).all()


@pytest.mark.parametrize("layout", ["bhsd", "bshd"])
def test_the_log_sum_of_rows_that_see_nothing_but_a_sink(layout):
    """It is the sink, and so is its gradient."""
    rng = np.random.default_rng(4)
    q, k, v = (jnp.asarray(rng.standard_normal((2, 3, rows, 8)), jnp.float32) for rows in (7, 4, 4))
    if layout == "bshd":
        q, k, v = (x.swapaxes(1, 2) for x in (q, k, v))
    sinks, weights = jnp.asarray(rng.standard_normal(3), jnp.float32), rng.standard_normal((2, 3, 7)).astype(np.float32)

    def loss(sinks):  # three rows are above the first key
        o, lse = attest.jax.attention(q, k, v, causal="bottom-right", sinks=sinks, layout=layout, return_lse=True)
        return (lse * weights).sum() + (o ** 2).sum()

    got = jax.grad(loss)(sinks)
    for head in range(3):
        step = np.zeros(3, np.float32)
        step[head] = 1e-2
        slope = float(loss(sinks + step) - loss(sinks - step)) / 2e-2
        assert abs(slope - float(got[head])) < 5e-3 * max(1, abs(slope))
