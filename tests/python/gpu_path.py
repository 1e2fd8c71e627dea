"""gpu_path.py: a GPU array's path through the extension, on a driver that launches nothing; prints the results.

A separate process: test_gpu_path.py names the driver in its environment.
"""

import ctypes
import os
import sys

import attest
import fake_cupy
import fake_exchange
import numpy as np


def launches():
    """Launches so far, and the stream of the last."""
    fake = ctypes.CDLL(os.environ["ATTEST_LIBCUDA"])
    fake.fake_cuda_launches.restype = ctypes.c_long
    fake.fake_cuda_stream.restype = ctypes.c_void_p
    return fake.fake_cuda_launches(), fake.fake_cuda_stream()


def array(*shape, dtype=np.float16, **options):
    return fake_cupy.ndarray(np.ones(shape, dtype), **options)


def refused(function):
    try:
        function()
    except Exception as error:  # it is printed
        return f"{type(error).__name__}: {error}"
    return "no error"


def by_table():
    """Arrays exchanged through a table of functions: O and a small workspace are one allocation, laid out as
    requested."""
    def ones(*shape):
        return fake_exchange.array(np.ones(shape, np.float16))

    q, k, v = (ones(2, 8, 300, 64) for _ in range(3))
    before = launches()[0]
    o, lse = attest.attention(q, k, v, return_lse=True)
    print("table-launched", launches()[0] - before, "on", launches()[1])
    asked = len(fake_exchange.allocations)
    before = launches()[0]
    grads = attest.backward(q, k, v, o, lse, ones(2, 8, 300, 64), bias=ones(8, 300, 300), d_bias=True)
    print("table-backward", launches()[0] > before, "on", launches()[1], [x.memory.shape for x in grads])
    del grads, fake_exchange.allocations[asked:]
    print("table-answer", o.memory.shape, o.memory.strides, lse.memory.shape, lse.memory.dtype, fake_exchange.allocations)
    turned = [fake_exchange.array(np.ones((2, 300, 8, 64), np.float16).transpose(0, 2, 1, 3)) for _ in range(3)]
    print("table-turned", attest.attention(*turned).memory.strides == turned[0].memory.strides)
    outside = [fake_exchange.array(np.ones((300, 2, 8, 64), np.float16).transpose(1, 2, 0, 3)) for _ in range(3)]
    print("table-rows-outside", attest.attention(*outside).memory.strides == outside[0].memory.strides)
    del fake_exchange.allocations[:]
    few, many, most = ones(1, 1, 1, 64), ones(1, 1, 1024, 64), ones(1, 8, 32768, 64)
    attest.attention(few, many, many)
    beside = list(fake_exchange.allocations)
    attest.attention(ones(1, 8, 1, 64), most, most)
    print("table-workspace", beside[0] > 64, len(beside), [n > 1 << 14 for n in fake_exchange.allocations[1:]])
    out = ones(1, 1, 1, 64)
    print("table-out", attest.attention(few, many, many, out=out) is out)
    del o, lse
    print("table-left", len(fake_exchange.made))
    fake_exchange.refuse_more_than = 1000
    print("table-full", refused(lambda: attest.attention(q, k, v)))
    print("table-scratch", refused(lambda: attest.attention(few, many, many, out=out)))
    fake_exchange.refuse_more_than = None
    fake_exchange.without_strides = True
    print("table-strides", refused(lambda: attest.attention(q, k, v)), len(fake_exchange.made))
    fake_exchange.without_strides = False
    attest.explain(q, k, v)
    print("table-explained", len(fake_exchange.made))


def main():
    q, k, v = (array(2, 8, 300, 64) for _ in range(3))
    before = launches()[0]
    o, lse = attest.attention(q, k, v, causal=True, return_lse=True)
    launch = attest.last_launch()
    print("launched", launches()[0] - before, "on", launches()[1])
    print("kernel", launch.kernel, "code", len(launch.code_sha256), "registers", launch.registers)
    print("answer", type(o).__name__, o.array.shape, o.array.dtype, lse.array.shape, lse.array.dtype)
    print("streams", set(q.streams + k.streams + v.streams))

    del fake_cupy.made[:]
    before = launches()[0]
    grads = attest.backward(q, k, v, o, lse, array(2, 8, 300, 64))
    print("backward", launches()[0] > before, "on", launches()[1], [(x.array.shape, str(x.array.dtype)) for x in grads],
          attest.last_launch().kernel.partition("_f16")[0])
    print("backward-workspace", [shape[0] > 0 for shape, dtype in fake_cupy.made if dtype == "uint8"])
    print("backward-mixed", refused(lambda: attest.backward(q, k, v, o, lse, np.ones((2, 8, 300, 64), np.float16))))

    del fake_cupy.made[:]
    few = array(1, 8, 1, 64)
    many = array(1, 8, 32768, 64)
    attest.attention(few, many, many)
    print("workspace", [shape[0] > 0 for shape, dtype in fake_cupy.made if dtype == "uint8"])

    second = [array(2, 8, 300, 64, device=(2, 1)) for _ in range(3)]  # the first GPU is the current one
    o = attest.attention(*second)
    print("second-gpu", o.place, "on", launches()[1], second[0].streams)

    flat = fake_cupy.ndarray(np.ones(2 * 8 * 300 * 64 + 1, np.float16)[1:].reshape(2, 8, 300, 64))
    print("unaligned", attest.attention(flat, k, v) is not None, attest.cache_info().plans)
    print("devices", [device.device for device in attest.devices()])
    print("kernels", any(kernel.available and kernel.device == "cuda" for kernel in attest.kernels("cuda:1")))
    print("float32", refused(lambda: attest.attention(*(array(1, 1, 8, 8, dtype=np.float32) for _ in range(3)))))
    print("mixed", refused(lambda: attest.attention(q, np.ones((2, 8, 300, 64), np.float16), v)))
    print("other", refused(lambda: attest.attention(q, array(2, 8, 300, 64, device=(2, 1)), v)))
    print("moon", refused(lambda: attest.attention(array(2, 8, 300, 64, device=(10, 0)), k, v)))
    cu = array(3, dtype=np.int32)
    packed = array(6, 2, 64)
    print("longest", refused(lambda: attest.attention(packed, packed, packed, cu_seqlens_q=cu, cu_seqlens_k=cu)))
    print("given", refused(lambda: attest.attention(packed, packed, packed, cu_seqlens_q=cu, cu_seqlens_k=cu,
                                                     max_seqlen_q=6, max_seqlen_k=6)))
    by_table()
    sys.stdout.flush()


if __name__ == "__main__":
    main()
