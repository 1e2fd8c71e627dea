"""jax_path.py: a call from XLA through the extension, on a driver that launches nothing; prints the results.

A separate process: test_gpu_path.py names the driver in its environment.
"""

import threading

import attest
import attest._core as core
import fake_xla
import numpy as np
from gpu_path import launches


def described(array):
    return array.dtype.name, "cpu", array.shape


def problem_of(*arrays, **options):
    return core.describe(*map(described, arrays), **options)


def attend(platform, *arrays, lse=False, **options):
    """The outcome of a call, and its outputs."""
    o_shape, lse_shape, problem = problem_of(*arrays, return_lse=lse, **options)
    outputs = [np.zeros(o_shape, arrays[0].dtype)] + [np.zeros(lse_shape, np.float32)] * lse
    return fake_xla.call(platform, arrays, outputs, problem), outputs


x = np.ones((2, 8, 300, 64), np.float16)
print("jax-metadata", fake_xla.metadata("CUDA"), fake_xla.metadata("cpu"))
print("jax-metadata-older", fake_xla.metadata("CUDA", False), fake_xla.metadata("cpu", False))
before = launches()[0]
failed, _ = attend("CUDA", x, x, x, lse=True, causal=True)
print("jax-launched", failed, launches()[0] - before, "on", launches()[1], core.jax_last_launch()[0])


def turn_back(platform, arrays, **options):
    """The outcome of the gradients of a call, and the gradients."""
    o, lse = np.ones_like(arrays[0]), np.ones(arrays[0].shape[:3], np.float32)
    shapes, problem = core.describe_backward(*map(described, (*arrays, o, lse, o)), **options)
    outputs = [np.full(shape, np.nan, dtype) for shape, dtype in shapes]
    return fake_xla.call(platform, [*arrays, o, lse, o], outputs, problem, operation="backward"), outputs


before = launches()[0]
failed, _ = turn_back("CUDA", [x, x, x], causal=True)
print("jax-backward", failed, launches()[0] > before, "on", launches()[1], core.jax_last_launch()[0].partition("_f16")[0])
print("jax-backward-float32", turn_back("CUDA", [x.astype(np.float32)] * 3)[0])
failed, grads = turn_back("cpu", [np.ones((1, 2, 5, 8), np.float32)] * 3)
print("jax-backward-cpu", failed, [bool(np.isfinite(each).all()) for each in grads], core.jax_last_launch()[0][:7])
_, short = core.describe_backward(*map(described, (x, x, x, x, x[..., 0].astype("f4"), x)))
print("jax-backward-missing", fake_xla.call("cpu", [x, x, x], [x.copy()] * 3, short, operation="backward"))


def merged(platform, count=2):
    """The outcome of a merge of ones and threes with equal weights."""
    parts = [np.full((1, 2, 5, 8), 1 + 2 * i, np.float32) for i in range(2)]
    outputs = [np.zeros_like(parts[0]), np.zeros((1, 2, 5), np.float32)]
    sums = [np.zeros((1, 2, 5), np.float32)] * 2
    return fake_xla.call(platform, [*parts, *sums][:2 * count], outputs, core.describe_merge(2, 1, 2, 5, 8), operation="merge"), outputs


before = launches()[0]
print("jax-merge", merged("CUDA")[0], launches()[0] - before, core.jax_last_launch()[0].partition("_sm")[0])
failed, (o, lse) = merged("cpu")
print("jax-merge-cpu", failed, o.min(), o.max(), f"{lse.max():.4f}")
print("jax-merge-missing", merged("cpu", 1)[0])


def experts(platform, dtype, most=None):
    """The outcome of a mixture of two experts, with one per token."""
    arrays = [np.ones((3, 64), dtype), np.ones((2, 128, 64), dtype), np.ones((2, 64, 64), dtype), np.eye(3, 2, dtype=np.float32)]
    shapes, problem = core.describe_moe(*map(described, arrays[:3]), logits=described(arrays[3]), top_k=1, return_routing=True)
    outputs = [np.zeros(shape, dtype) for shape, dtype in shapes]
    return fake_xla.call(platform, arrays[:most], outputs, problem, operation="moe"), outputs


before = launches()[0]
print("jax-moe", experts("CUDA", np.float16)[0], launches()[0] > before, core.jax_last_launch()[0].partition("_")[0])
failed, (y, ids, weights, counts) = experts("cpu", np.float32)
print("jax-moe-cpu", failed, y.min() == y.max() > 0, ids.ravel().tolist(), weights.ravel().tolist(), counts.tolist())
print("jax-moe-missing", experts("cpu", np.float32, 3)[0])
print("jax-moe-other", fake_xla.call("cpu", [], [], core.describe_merge(2, 1, 2, 5, 8), operation="moe"))
del fake_xla.allocated[:], fake_xla.freed[:]
few, many = np.ones((1, 8, 1, 64), np.float16), np.ones((1, 8, 32768, 64), np.float16)
failed, _ = attend("CUDA", few, many, many)
print("jax-workspace", failed, [size > 0 for size in fake_xla.allocated], fake_xla.freed == fake_xla.allocated)
fake_xla.ordinal = 1
before = launches()[0]
print("jax-second", attend("CUDA", x, x, x)[0], launches()[0] - before)
fake_xla.ordinal = 77
print("jax-nowhere", attend("CUDA", x, x, x)[0])
fake_xla.ordinal = 0
wide = np.ones((1, 1, 8, 8), np.float32)
print("jax-float32", attend("CUDA", wide, wide, wide)[0])
failed, (o,) = attend("cpu", wide, wide, wide)
print("jax-cpu", failed, float(o.min()), float(o.max()), "cpu" in core.jax_last_launch()[0])
_, _, problem = problem_of(x, x, x)
print("jax-missing", fake_xla.call("cpu", [x, x], [x.copy()], problem))
print("jax-more", fake_xla.call("cpu", [x, x, x, x], [x.copy()], problem))
print("jax-older", fake_xla.call("cpu", [x, x, x], [x.copy()], problem[:-8]))
print("jax-stages", fake_xla.call("cpu", [], [], problem, stage=1))
for keys in range(300):  # more problems than the cache keeps
    k = np.ones((1, 1, 1 + keys, 8), np.float32)
    assert attend("cpu", wide, k, k)[0] is None
print("jax-many", attend("cpu", wide, wide, wide)[0])

core.cache_clear()
attest.attention(wide, wide, wide)
attend("cpu", wide, wide, wide)
print("jax-shares", attest.cache_info()[:3])
attest.set_threads(1)
attend("cpu", wide, wide, wide)
print("jax-threads", attest.cache_info()[:3], core.jax_last_launch()[2])
attest.set_threads(0)


def hammer(first):
    """Calls without the GIL, as on XLA's threads: shared problems, and more of them than the cache keeps."""
    for step in range(200):
        k = np.ones((1, 1, 1 + (first + step) % 300, 8), np.float32)
        failed, (o,) = attend("cpu", wide, k, k)
        wrong.extend([failed] if failed or not np.allclose(o, 1) else [])


wrong: list = []
threads = [threading.Thread(target=hammer, args=(first,)) for first in (0, 0, 100, 200)]
for each in threads:
    each.start()
for step in range(200):
    attest.attention(wide, wide, wide)
    (lambda: None, core.cache_clear, lambda: attest.set_threads(step % 3))[step % 3]()
for each in threads:
    each.join()
attest.set_threads(0)
print("jax-hammer", wrong, attest.cache_info().plans <= attest.cache_info().limit)
