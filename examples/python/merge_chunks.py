"""merge_chunks.py: attention over keys that come in chunks, each computed alone, then merged."""

import attest
import numpy as np

rng = np.random.default_rng(0)
q = rng.standard_normal((2, 8, 100, 64), dtype=np.float32)  # (batch, heads, rows, d)
k, v = (rng.standard_normal((2, 2, 5000, 64), dtype=np.float32) for _ in range(2))

# One chunk in memory at a time: its result is as large as q, however many keys the chunk has.
parts = []
for start in range(0, 5000, 1024):
    keys = slice(start, start + 1024)
    parts.append(attest.attention(q, k[:, :, keys], v[:, :, keys], return_lse=True))
o, lse = attest.merge([o for o, _ in parts], [lse for _, lse in parts])

whole, whole_lse = attest.attention(q, k, v, return_lse=True)
error = max(np.abs(o - whole).max(), np.abs(lse - whole_lse).max())
print(f"{len(parts)} parts merged: largest difference from attention over all keys {error:.1e}")
assert error < 1e-5

# Or without keeping the parts: merge each chunk into the running result as it comes.
o, lse = parts[0]
for part in parts[1:]:
    o, lse = attest.merge([o, part[0]], [lse, part[1]])
error = np.abs(o - whole).max()
print(f"one after the other: {error:.1e}")
assert error < 1e-5
