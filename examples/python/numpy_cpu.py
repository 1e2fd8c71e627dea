"""numpy_cpu.py: attention on NumPy arrays, checked against the formula."""

import attest
import numpy as np

rng = np.random.default_rng(0)
q = rng.standard_normal((2, 8, 200, 64), dtype=np.float32)  # (batch, heads, rows, d)
k, v = (rng.standard_normal((2, 2, 300, 64), dtype=np.float32) for _ in range(2))  # eight query heads share two

o, lse = attest.attention(q, k, v, causal="bottom-right", return_lse=True)

wide = [np.repeat(x, 4, axis=1).astype(np.float64) for x in (k, v)]
scores = q @ wide[0].swapaxes(-1, -2) / 8
scores[..., np.arange(300) > np.arange(200)[:, None] + 100] = -np.inf
weights = np.exp(scores - scores.max(-1, keepdims=True))
error = np.abs(o - weights @ wide[1] / weights.sum(-1, keepdims=True)).max()
print(f"{attest.last_launch().kernel}: o {o.shape}, largest error {error:.1e}")
assert error < 1e-5
