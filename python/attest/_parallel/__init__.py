"""attest._parallel: which rank computes what of attention over several, and in which order it is merged. Numbers alone, no arrays:
attest.torch.parallel and attest.jax.parallel share it."""
