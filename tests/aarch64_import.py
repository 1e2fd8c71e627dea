"""aarch64_import.py: the Python package of a build for aarch64 loads, computes, and agrees with NumPy."""

import platform

import numpy as np

import attest

ROWS, D = 33, 64
assert platform.machine() == "aarch64", platform.machine()
q, k, v = (np.random.default_rng(i).standard_normal((1, 2, ROWS, D)).astype(np.float32) for i in range(3))
scores = np.where(np.tril(np.ones((ROWS, ROWS), bool)), np.einsum("bhqd,bhkd->bhqk", q, k) / D**0.5, -np.inf)
weights = np.exp(scores - scores.max(-1, keepdims=True))
wanted = np.einsum("bhqk,bhkd->bhqd", weights / weights.sum(-1, keepdims=True), v)
difference = abs(attest.attention(q, k, v, causal=True) - wanted).max()
assert difference < 1e-5, difference
assert attest.last_launch().kernel == "fwd_cpu_portable", attest.last_launch()
