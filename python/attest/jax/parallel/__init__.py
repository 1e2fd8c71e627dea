"""attest.jax.parallel: attention over the devices of a mesh axis: rows and keys of one sequence on several devices.

    from attest.jax import parallel

    cut = parallel.zigzag(rows=16384, ranks=8)
    ring = functools.partial(parallel.attention, cut=cut, axis_name="ring", causal=True)
    ring = jax.shard_map(ring, mesh=mesh, in_specs=(P(None, None, "ring"),) * 3, out_specs=P(None, None, "ring"))
    o = cut.join(ring(*(cut.shard(x, axis=2) for x in (q, k, v))), axis=2)

docs/parallel.md describes the guarantees.
"""

from .mesh_cut import Cut, contiguous, zigzag
from .ring_attention import attention

__all__ = ["Cut", "attention", "contiguous", "zigzag"]
