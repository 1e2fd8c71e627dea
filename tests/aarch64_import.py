"""aarch64_import.py: the Python package of a build for aarch64 loads, computes, and agrees with NumPy; with the kernels for
NEON, which have no evidence, only if they are allowed."""

import os
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
allowed = os.environ.get("ATTEST_ALLOW_UNATTESTED") == "1"
assert attest.last_launch().kernel == ("fwd_cpu_neon" if allowed else "fwd_cpu_portable"), attest.last_launch()
kernels = {kernel.id: kernel for kernel in attest.kernels()}
assert attest.devices()[0].isa == "neon" and kernels["fwd_cpu_neon"].available and not kernels["fwd_cpu_neon"].attested
assert not kernels["fwd_cpu_avx2"].available
