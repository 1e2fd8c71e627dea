"""test_attention_numpy.py: attention() on NumPy arrays against the formula in float64."""

import itertools
import platform
import subprocess
import sys
import threading

import attest
import formula
import numpy as np
import pytest

RNG = np.random.default_rng(7)
TOLERANCE = {np.float32: 3e-6, np.float16: 3e-3}


def random(*shape, dtype=np.float32):
    return RNG.standard_normal(shape).astype(dtype)


def qkv(batch=2, heads=4, heads_kv=None, rows=19, keys=None, d=16, d_v=None, dtype=np.float32):
    kv = (batch, heads_kv or heads, keys or rows)
    return (random(batch, heads, rows, d, dtype=dtype), random(*kv, d, dtype=dtype),
            random(*kv, d_v or d, dtype=dtype))


def check(got, wanted, dtype=np.float32):
    np.testing.assert_allclose(np.asarray(got, np.float64), wanted, rtol=0, atol=TOLERANCE[dtype])


@pytest.mark.parametrize("dtype", [np.float32, np.float16])
@pytest.mark.parametrize("rows, keys", [(1, 1), (1, 70), (7, 19), (65, 64), (33, 97)])
def test_shapes(rows, keys, dtype):
    q, k, v = qkv(rows=rows, keys=keys, d=40, d_v=24, heads_kv=2, dtype=dtype)
    o = attest.attention(q, k, v)
    assert o.dtype == dtype and isinstance(o, np.ndarray) and o.flags.c_contiguous
    check(o, formula.attention(q, k, v)[0], dtype)


@pytest.mark.parametrize("options", [
    {"scale": 0.5}, {"softcap": 2.0}, {"causal": "top-left"}, {"causal": "bottom-right"},
    {"window": (3, 2), "align": "bottom-right"}, {"window": (4, -1), "causal": "bottom-right"},
    {"alibi": random(4), "causal": "bottom-right"}, {"alibi": random(2, 4), "align": "top-left"},
    {"sinks": random(4)}, {"bias": random(2, 4, 19, 31)}, {"bias": random(4, 1, 31)},
    {"bias": RNG.random((19, 31)) > 0.4}, {"bias": RNG.random((2, 1, 1, 31)) > 0.4},
    {"bias": np.zeros((1, 1, 19, 31), bool), "sinks": random(4)},
    {"softcap": 5.0, "sinks": random(4), "bias": random(19, 31), "causal": "bottom-right", "scale": 0.2}])
def test_options(options):
    q, k, v = qkv(heads_kv=2, rows=19, keys=31)
    o, lse = attest.attention(q, k, v, return_lse=True, **options)
    wanted, wanted_lse = formula.attention(q, k, v, **options)
    check(o, wanted)
    assert lse.shape == (2, 4, 19) and lse.dtype == np.float32
    np.testing.assert_allclose(lse, wanted_lse, atol=1e-5)


def test_causal_true_needs_no_alignment_where_lengths_are_equal():
    q, k, v = qkv()
    np.testing.assert_array_equal(attest.attention(q, k, v, causal=True),
                                  attest.attention(q, k, v, causal="top-left"))


def test_rows_that_see_nothing_are_zero():
    q, k, v = qkv(rows=5, keys=3)
    o, lse = attest.attention(q, k, v, bias=np.zeros(3, bool), return_lse=True)
    assert not o.any() and (lse == -np.inf).all()


def test_layout_bshd():
    q, k, v = qkv(heads_kv=2, keys=31)
    turn = (0, 2, 1, 3)
    o = attest.attention(*(np.ascontiguousarray(x.transpose(turn)) for x in (q, k, v)), layout="bshd")
    assert o.shape == (2, 19, 4, 16)
    check(o.transpose(turn), formula.attention(q, k, v)[0])


def strided(how, x):
    if how == "transposed":
        return np.ascontiguousarray(x.transpose(0, 2, 1, 3)).transpose(0, 2, 1, 3)
    if how == "sliced":
        big = np.full((x.shape[0], x.shape[1], 2 * x.shape[2], x.shape[3] + 5), np.nan, x.dtype)
        big[:, :, ::2, 2:-3] = x
        return big[:, :, ::2, 2:-3]
    if how == "offset":
        flat = np.full(x.size + 3, np.nan, x.dtype)
        flat[3:] = x.ravel()
        return flat[3:].reshape(x.shape)
    if how == "read-only":
        x = x.copy()
        x.flags.writeable = False
        return x
    return np.broadcast_to(x[:1, :, :1], x.shape)


@pytest.mark.parametrize("how", ["transposed", "sliced", "offset", "read-only", "expanded"])
def test_strides(how):
    q, k, v = (strided(how, x) for x in qkv())
    check(attest.attention(q, k, v), formula.attention(q, k, v)[0])


def test_out():
    q, k, v = qkv()
    out = np.full((2, 19, 4, 16), np.nan, np.float32).transpose(0, 2, 1, 3)
    assert attest.attention(q, k, v, out=out) is out
    check(out, formula.attention(q, k, v)[0])
    half = np.empty_like(q, dtype=np.float16)
    check(attest.attention(q, k, v, out=half), formula.attention(q, k, v)[0], np.float16)


@pytest.mark.parametrize("shape_q, shape_k", [((0, 4, 5, 8), (0, 4, 5, 8)), ((2, 4, 0, 8), (2, 4, 5, 8)),
                                              ((2, 4, 5, 8), (2, 4, 0, 8))])
def test_empty(shape_q, shape_k):
    o, lse = attest.attention(random(*shape_q), random(*shape_k), random(*shape_k), return_lse=True)
    assert o.shape == shape_q and not o.any() and (lse == -np.inf).all()


def test_packed_sequences():
    lengths_q, lengths_k = [3, 0, 9], [5, 4, 17]
    cu_q, cu_k = (np.cumsum([0, *x], dtype=np.int32) for x in (lengths_q, lengths_k))
    q, k, v = random(12, 4, 16), random(26, 2, 16), random(26, 2, 16)
    o, lse = attest.attention(q, k, v, cu_seqlens_q=cu_q, cu_seqlens_k=cu_k, causal="bottom-right", return_lse=True)
    assert o.shape == q.shape and lse.shape == (4, 12)
    for i in range(3):
        one, keys = slice(cu_q[i], cu_q[i + 1]), slice(cu_k[i], cu_k[i + 1])
        batch = [x.transpose(1, 0, 2)[None] for x in (q[one], k[keys], v[keys])]
        wanted, wanted_lse = formula.attention(*batch, causal="bottom-right")
        check(o[one].transpose(1, 0, 2)[None], wanted)
        np.testing.assert_allclose(lse[None, :, one], wanted_lse, atol=1e-5)


def test_keys_in_use():
    q, k, v = qkv(rows=2, keys=20)
    o = attest.attention(q, k, v, lens_k=np.array([20, 7], np.int32))
    check(o[:1], formula.attention(q[:1], k[:1], v[:1])[0])
    check(o[1:], formula.attention(q[1:], k[1:, :, :7], v[1:, :, :7])[0])


def test_left_padding():
    q, k, v = qkv(rows=20, keys=20)
    k[1, :, :13] = v[1, :, :13] = np.nan
    o, lse = attest.attention(q, k, v, starts_k=np.array([0, 13], np.int32), causal=True, return_lse=True)
    check(o[:1], formula.attention(q[:1], k[:1], v[:1], causal=True)[0])
    check(o[1:, :, 13:], formula.attention(q[1:, :, 13:], k[1:, :, 13:], v[1:, :, 13:], causal=True)[0])
    assert (o[1, :, :13] == 0).all() and (lse[1, :, :13] == -np.inf).all()


@pytest.mark.parametrize("each", [False, True])
def test_positions_of_shards(each):
    """Parts over keys of a longer sequence, at their positions, merge to the rows of the whole."""
    q, k, v = qkv(rows=30, keys=30)
    alibi = np.array([0.5, 0.125, 0.0, 2.0], np.float32)
    whole, whole_lse = attest.attention(q, k, v, causal=True, window=(17, None), alibi=alibi, return_lse=True)

    def position(n):
        return np.full(2, n, np.int32) if each else n

    rows, parts = slice(11, 24), []
    for keys in (slice(0, 9), slice(9, 20), slice(20, 30)):
        parts.append(attest.attention(q[:, :, rows], k[:, :, keys], v[:, :, keys], causal=True, window=(17, None), alibi=alibi,
                                      q_offset=position(rows.start), k_offset=position(keys.start), return_lse=True))
    o, lse = attest.merge([o for o, _ in parts], [lse for _, lse in parts], return_lse=True)
    np.testing.assert_allclose(o, whole[:, :, rows], atol=2e-6)
    np.testing.assert_allclose(lse, whole_lse[:, :, rows], atol=2e-6)


@pytest.mark.parametrize("layout", ["bhsd", "bshd"])
def test_pages(layout):
    q, k, v = qkv(rows=2, keys=24, heads_kv=2)
    table = np.array([[5, 0, 3], [1, 4, 2]], np.int32)
    pages = [np.empty((6, 2, 8, 16), np.float32) for _ in range(2)]
    for batch, part in itertools.product(range(2), range(3)):
        for page, x in zip(pages, (k, v)):
            page[table[batch, part]] = x[batch, :, part * 8:part * 8 + 8]
    turn = (0, 2, 1, 3) if layout == "bshd" else (0, 1, 2, 3)
    o = attest.attention(*(x.transpose(turn) for x in (q, *pages)), page_table=table,
                         lens_k=np.array([24, 9], np.int32), layout=layout).transpose(turn)
    check(o[:1], formula.attention(q[:1], k[:1], v[:1])[0])
    check(o[1:], formula.attention(q[1:], k[1:, :, :9], v[1:, :, :9])[0])


def test_queries():
    q, k, v = qkv()
    attest.attention(q, k, v)
    launch = attest.last_launch()
    assert launch.kernel in attest.explain(q, k, v) and launch.grid[0] > 0 and launch.code_sha256 == ""
    assert attest.devices()[0].device == "cpu" and attest.devices()[0].threads >= 1
    kernels = {kernel.id: kernel for kernel in attest.kernels()}
    assert kernels[launch.kernel].available and kernels[launch.kernel].device == "cpu"
    assert not any(kernel.available for kernel in kernels.values() if kernel.device == "cuda")
    neon = platform.machine() == "aarch64"
    assert neon == (attest.devices()[0].isa == "neon")
    assert kernels["fwd_cpu_neon"].available == neon and not kernels["fwd_cpu_neon"].attested
    assert kernels["fwd_cpu_avx2"].attested and kernels["fwd_cpu_portable"].attested
    with pytest.raises(ValueError, match="device is 'tpu'"):
        attest.kernels("tpu")


def test_launches_are_of_their_thread():
    seen = []
    attest.attention(*qkv())
    thread = threading.Thread(target=lambda: seen.append(attest.last_launch()))
    thread.start()
    thread.join()
    assert seen == [None]


def test_plan_cache():
    attest.cache_clear()
    limit = attest.cache_info().limit
    for rows in range(1, limit + 20):
        x = np.ones((1, 1, rows, 1), np.float32)
        attest.attention(x, x, x)
    assert attest.cache_info() == (0, limit + 19, limit, limit)
    attest.attention(x, x, x)
    assert attest.cache_info().hits == 1
    attest.cache_clear()
    assert attest.cache_info().plans == 0


def test_threads_share_plans_while_they_are_forgotten():
    problems = [qkv(rows=rows, d=8) for rows in (1, 9, 40)]
    wanted = [formula.attention(*problem)[0] for problem in problems]
    failures = []

    def work(seed):
        for i in range(200):
            which = (i * 7 + seed) % 3
            if not np.allclose(attest.attention(*problems[which]), wanted[which], atol=3e-6):
                failures.append(which)
            if i % 50 == seed:
                attest.cache_clear()

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures


def test_the_interpreter_goes_on_during_a_run():
    """While one thread computes for long, another one counts."""
    q, k, v = qkv(batch=1, heads=8, rows=1500, d=128)
    counted, done = [0], threading.Event()

    def count():
        while not done.is_set():
            counted[0] += 1

    thread = threading.Thread(target=count)
    thread.start()
    before = counted[0]
    attest.attention(q, k, v)
    during = counted[0] - before
    done.set()
    thread.join()
    assert during > 100


def test_nothing_leaks():
    """References to the arrays, and memory of the process, stay constant; also after failures."""
    q, k, v = qkv(rows=8)
    mask, ids = np.ones((8, 8), bool), np.zeros((2, 1), np.int64)

    def calls():
        attest.attention(q, k, v, bias=mask, return_lse=True)
        attest.explain(q, k, v)
        for bad in ({"page_table": ids}, {"bias": mask[:3]}, {"out": q}, {"window": (1,)}):
            with pytest.raises((TypeError, ValueError)):
                attest.attention(q, k, v, **bad)

    def resident():
        with open("/proc/self/statm", encoding="ascii") as file:
            return int(file.read().split()[1])

    calls()
    counts = [sys.getrefcount(x) for x in (q, k, v, mask, ids, None)]
    for _ in range(300):
        calls()
    pages = resident()
    for _ in range(1500):
        calls()
    assert [sys.getrefcount(x) for x in (q, k, v, mask, ids)] == counts[:-1]
    assert abs(sys.getrefcount(None) - counts[-1]) < 100 or sys.version_info >= (3, 12)
    assert (resident() - pages) * 4096 < 4 << 20


def test_import_is_quick_and_alone():
    """Imports neither NumPy nor PyTorch. The time is a loose bound: attest.bench measures it."""
    code = ("import sys, time; start = time.perf_counter(); import attest; took = time.perf_counter() - start;"
            "assert not {'numpy', 'torch', 'jax'} & set(sys.modules); print(took)")
    took = min(float(subprocess.run([sys.executable, "-c", code], check=True, capture_output=True,
                                    text=True).stdout) for _ in range(3))
    assert took < 0.5
