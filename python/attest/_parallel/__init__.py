"""attest._parallel: which rank computes which part of attention over several ranks, and the order of merging. Only
numbers, no arrays: attest.torch.parallel and attest.jax.parallel share it."""
