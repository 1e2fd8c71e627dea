"""experts_layer.py: a layer of experts in one call, checked against a loop over the experts; then split over two
workers."""

import attest
import numpy as np

TOKENS, HIDDEN, INNER, EXPERTS, TOP_K = 256, 128, 96, 16, 4

rng = np.random.default_rng(0)
x = rng.standard_normal((TOKENS, HIDDEN), dtype=np.float32)
w1 = rng.standard_normal((EXPERTS, 2 * INNER, HIDDEN), dtype=np.float32) / HIDDEN**0.5  # gate rows, then up rows
w2 = rng.standard_normal((EXPERTS, HIDDEN, INNER), dtype=np.float32) / INNER**0.5
logits = rng.standard_normal((TOKENS, EXPERTS), dtype=np.float32)  # from the router

y, ids, weights, counts = attest.moe(x, w1, w2, logits=logits, top_k=TOP_K, return_routing=True)
print(f"{attest.last_launch().kernel}: {TOKENS} tokens, between {counts[:-1].min()} and {counts[:-1].max()} per expert")

# The same, expert by expert.
expected = np.zeros_like(y)
for expert in range(EXPERTS):
    token, slot = np.nonzero(ids == expert)
    gate, up = np.split(x[token] @ w1[expert].T, 2, axis=1)
    expected[token] += weights[token, slot, None] * ((gate / (1 + np.exp(-gate)) * up) @ w2[expert].T)
error = np.abs(y - expected).max()
print(f"largest difference from a loop over the experts: {error:.1e}")
assert error < 1e-4

# Expert parallelism: each worker has half of the experts and sees all tokens; the results are added.
half = EXPERTS // 2
parts = [attest.moe(x, w1[first:first + half], w2[first:first + half], logits=logits, top_k=TOP_K, first_expert=first)
         for first in (0, half)]
error = np.abs(sum(parts) - y).max()
print(f"two workers with {half} experts each: {error:.1e}")
assert error < 1e-5
