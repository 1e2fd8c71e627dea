"""jax_program.py: attention inside a compiled JAX program, with its gradient, on JAX's default device."""

import attest.jax
import jax
import jax.numpy as jnp

q, k, v = (jax.random.normal(jax.random.key(i), (2, 8, 300, 64)).astype(jnp.bfloat16) for i in range(3))


@jax.jit
def loss(q, k, v):
    return (attest.jax.attention(q, k, v, causal=True).astype(jnp.float32) ** 2).mean()


def plain(q, k, v):
    order = [x.swapaxes(1, 2) for x in (q, k, v)]
    return (jax.nn.dot_product_attention(*order, is_causal=True).astype(jnp.float32) ** 2).mean()


got, wanted = (jax.value_and_grad(f)(q, k, v) for f in (loss, plain))
apart = float(jnp.abs(got[1].astype(jnp.float32) - wanted[1].astype(jnp.float32)).max())
print(f"{jax.default_backend()}, {attest.jax.last_launch().kernel}: loss {got[0]:.5f} (JAX's own {wanted[0]:.5f}), "
      f"gradients at most {apart:.1e} apart")
assert abs(got[0] - wanted[0]) < 1e-3 and apart < 1e-4
