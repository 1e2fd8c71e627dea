"""merge_path.py: merge() of GPU arrays, on a driver that computes on the host; prints the results.

A separate process: test_merge_path.py names the driver in its environment.
"""

import attest
import fake_cupy
import fake_exchange
import formula
import numpy as np
from gpu_path import launches, refused

rng = np.random.default_rng(5)


def gpu(array, **options):
    return fake_cupy.ndarray(array, **options)


def parts(count, shape=(2, 3, 50, 64), dtype=np.float16):
    return (rng.standard_normal((count, *shape)).astype(dtype),
            (4 * rng.standard_normal((count, *shape[:-1]))).astype(np.float32))


def is_right(got, o, lse, bar=2e-3):
    wanted = formula.merge(o, lse)
    return bool(np.abs(got[0].astype(np.float64) - wanted[0]).max() < bar and np.allclose(got[1], wanted[1], atol=1e-5))


def merged(o, lse, **options):
    """Merge lists of GPU arrays: whether it is right, how many launches, and on which stream."""
    before = launches()[0]
    got = attest.merge([gpu(x) for x in o], [gpu(x) for x in lse], **options)
    return is_right([x.array for x in got], o, lse), launches()[0] - before, "on", launches()[1]


def main():
    o, lse = parts(3)
    print("merged", *merged(o, lse))
    launch = attest.last_launch()
    print("kernel", launch.kernel, "code", len(launch.code_sha256))
    print("float32", *merged(*parts(4, dtype=np.float32)), attest.last_launch().kernel)
    print("odd", *merged(*parts(2, (1, 2, 7, 33))))
    stacked = attest.merge(gpu(o), gpu(lse))
    listed = attest.merge([gpu(x) for x in o], [gpu(x) for x in lse])
    print("stacked", is_right([x.array for x in stacked], o, lse), all(
        np.array_equal(x.array, y.array) for x, y in zip(stacked, listed)))
    flat = np.empty(o.size + 1, np.float16)[1:].reshape(o.shape)
    flat[:] = o
    print("unaligned", flat.ctypes.data % 16, *merged(flat, lse))
    print("wide", *merged(o, lse, out=gpu(np.zeros(o.shape[1:], np.float32))))
    del fake_cupy.made[:]
    print("many", *merged(*parts(300, (1, 2, 5, 16))))
    print("between", [shape[0] >= 3 * 2 * 5 * 17 * 4 for shape, dtype in fake_cupy.made if dtype == "uint8"])
    turned = np.ascontiguousarray(o.transpose(0, 1, 3, 2, 4)).transpose(0, 1, 3, 2, 4)
    print("mixed", *merged([o[0], turned[1], o[2]], lse))
    lse[1], o[1] = -np.inf, np.nan
    lse[:, 0, 0, 0] = -np.inf
    got = attest.merge(gpu(o), gpu(lse))
    print("empty", is_right([x.array for x in got], o, lse), bool((got[0].array[0, 0, 0] == 0).all()))
    given = [gpu(x) for x in (*o, *lse)]
    attest.merge(given[:3], given[3:])
    print("streams", [set(x.streams) == {fake_cupy.STREAM} for x in given])

    q, k, v = (rng.standard_normal((1, 2, rows, 64)).astype(np.float16) for rows in (40, 100, 100))
    halves = [attest.attention(gpu(q), gpu(k[:, :, keys]), gpu(v[:, :, keys]), return_lse=True)
              for keys in (slice(0, 64), slice(64, 100))]
    got = attest.merge([o for o, _ in halves], [lse for _, lse in halves])
    wanted = formula.attention(q, k, v)
    print("split", bool(np.abs(got[0].array - wanted[0]).max() < 4e-3 and np.allclose(got[1].array, wanted[1], atol=1e-3)))

    print("other", refused(lambda: attest.merge([gpu(o[0]), gpu(o[1], device=(2, 1))], [gpu(x) for x in lse[:2]])))
    print("lse-on-cpu", refused(lambda: attest.merge([gpu(o[0])], [lse[0]])))
    print("too-wide", refused(lambda: attest.merge(*map(gpu, parts(2, (1, 1, 1, 5000))))))
    by_table()


def by_table():
    """Arrays exchanged through a table of functions, like PyTorch's."""
    o, lse = parts(2)
    turned = np.ascontiguousarray(o.transpose(0, 1, 3, 2, 4)).transpose(0, 1, 3, 2, 4)
    before = launches()[0]
    got = attest.merge([fake_exchange.array(x) for x in turned], [fake_exchange.array(x) for x in lse])
    print("table", is_right([x.memory for x in got], o, lse), launches()[0] - before, "on", launches()[1])
    print("table-lies", got[0].memory.strides == turned[0].strides, len(fake_exchange.made))
    out = fake_exchange.array(np.zeros(o.shape[1:], np.float16))
    alone = attest.merge([fake_exchange.array(x) for x in o], [fake_exchange.array(x) for x in lse], out=out, return_lse=False)
    print("table-out", alone is out, bool(np.abs(out.memory - got[0].memory).max() < 2e-3))
    many = attest.merge([fake_exchange.array(x) for x in o] * 100, [fake_exchange.array(x) for x in lse] * 100)
    print("table-many", is_right([many[0].memory, many[1].memory - np.float32(np.log(100))], o, lse, 4e-3))
    del got, many
    print("table-left", len(fake_exchange.made))
    fake_exchange.refuse_more_than = 10
    print("table-full", refused(lambda: attest.merge([fake_exchange.array(x) for x in o],
                                                     [fake_exchange.array(x) for x in lse])))


if __name__ == "__main__":
    main()
