"""cupy_gpu.py: attention on CuPy arrays, on CuPy's current stream."""

import attest
import cupy

with cupy.cuda.Stream() as stream:
    q, k, v = (cupy.random.standard_normal((2, 8, 1000, 64), dtype=cupy.float32).astype(cupy.float16) for _ in range(3))
    o = attest.attention(q, k, v)
    scores = (q.astype(cupy.float32) @ k.astype(cupy.float32).swapaxes(-1, -2)) / 8
    weights = cupy.exp(scores - scores.max(-1, keepdims=True))
    wanted = weights @ v.astype(cupy.float32) / weights.sum(-1, keepdims=True)
    error = float(cupy.abs(o.astype(cupy.float32) - wanted).max())
stream.synchronize()
print(f"{attest.last_launch().kernel}: {type(o).__name__} {o.shape} {o.dtype}, largest error {error:.1e}")
assert error < 2e-3
