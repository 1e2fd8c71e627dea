"""sharded_path.py: attest.jax on arrays that are split over four CPU devices; prints the results as JSON.

A separate process: test_jax_sharded.py sets the number of devices in its environment. For each case: how the results
are split, which collectives the compiled program has, and how far results are from those of one device.
"""

import json
import re

import attest.jax as aj
import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

MESH = Mesh(np.array(jax.devices()).reshape(2, 2), ("x", "y"))
LINE = Mesh(np.array(jax.devices()), ("z",))
COLLECTIVES = r"all-gather|all-reduce|all-to-all|collective-permute|reduce-scatter"
BATCH, HEADS = P("x"), P(None, ("x", "y"))
BOTH = P("x", "y")


def normal(seed, *shape):
    return jax.random.normal(jax.random.key(seed), shape)


def qkv(batch=4, heads=4, heads_kv=None, rows=19, keys=23, d=16):
    kv = (batch, heads_kv or heads, keys, d)
    return [normal(0, batch, heads, rows, d), normal(1, *kv), normal(2, *kv)]


def ours(names=(), **options):
    def run(q, k, v, *extras):
        return aj.attention(q, k, v, return_lse=True, **dict(zip(names, extras)), **options)

    return run


def gradients(function, count):
    def loss(*arrays):
        o, lse = function(*arrays)
        return (o ** 2).sum() + jnp.where(jnp.isinf(lse), 0.0, lse).sum()

    return jax.grad(loss, argnums=tuple(range(count)))


def spec(array):
    """How an array is split: an axis of the mesh, several, or - for each of its axes, without the last ones that are
    not."""
    said = list(array.sharding.spec)
    while said and said[-1] is None:
        said.pop()
    return " ".join("".join(each) if each else "-" for each in said)


def outcome(function, arrays, specs, mesh=MESH):
    placed = [jax.device_put(x, NamedSharding(mesh, each)) for x, each in zip(arrays, specs)]
    program = jax.jit(function)
    got, alone = program(*placed), jax.jit(function)(*arrays)
    apart = max(float(jnp.abs(jnp.asarray(np.asarray(one)) - other).max()) for one, other in zip(got, alone))
    found = re.findall(COLLECTIVES, program.lower(*placed).compile().as_text())
    return {"specs": [spec(x) for x in got], "collectives": sorted(set(found)), "apart": apart}


def extra_cases():
    """(arrays, specs) of every optional array, as a call with q, k and v has them."""
    lens = jnp.array([23, 1, 17, 9], jnp.int32)
    return {"alibi of heads": ("alibi", jnp.linspace(0.1, 0.4, 4), P("y")),
            "alibi of batch": ("alibi", normal(3, 4, 4), P("x", "y")),
            "sinks": ("sinks", jnp.linspace(-1.0, 1.0, 4), P("y")), "lens_k": ("lens_k", lens, P("x")),
            "starts_k": ("starts_k", lens, P("x")),
            "bias of all": ("bias", normal(3, 4, 4, 19, 23), P("x", "y")),
            "bias of heads": ("bias", normal(3, 4, 19, 23), P("y")),
            "bias of none": ("bias", normal(3, 19, 1), P())}


def packed():
    """Packed sequences: heads are split, and the rows are not."""
    cu = jnp.array([0, 10, 30], jnp.int32)
    arrays = [normal(seed, 30, 4, 16) for seed in range(3)]

    def run(q, k, v, cu):
        return aj.attention(q, k, v, cu_seqlens_q=cu, cu_seqlens_k=cu, max_seqlen_q=20, max_seqlen_k=20, return_lse=True,
                            causal="top-left")

    return outcome(run, [*arrays, cu], [P(None, "y")] * 3 + [P()])


def paged():
    """The batch of q is split; pages belong to no entry of it."""
    pool = [normal(seed, 16, 2, 8, 16) for seed in (1, 2)]
    table = jnp.arange(16, dtype=jnp.int32).reshape(4, 4)

    def run(q, k, v, table, lens):
        return aj.attention(q, k, v, page_table=table, lens_k=lens, return_lse=True)

    return outcome(run, [normal(0, 4, 4, 1, 16), *pool, table, jnp.array([32, 3, 20, 8], jnp.int32)],
                   [P("x", "y"), P(None, "y"), P(None, "y"), P("x"), P("x")])


def cases():
    yield "batch", lambda: outcome(ours(causal="top-left"), qkv(), [BATCH] * 3)
    yield "heads", lambda: outcome(ours(causal="top-left"), qkv(), [HEADS] * 3)
    yield "batch and heads", lambda: outcome(ours(causal="top-left"), qkv(), [BOTH] * 3)
    yield "other layout", lambda: outcome(ours(layout="bshd"), [x.swapaxes(1, 2) for x in qkv()], [P("x", None, "y")] * 3)
    yield "grouped heads", lambda: outcome(ours(), qkv(heads=8, heads_kv=2), [P("x", "y")] * 3)
    yield "one head of keys", lambda: outcome(ours(), qkv(heads_kv=1), [HEADS, P(), P()])
    yield "too few heads of keys", lambda: outcome(ours(), qkv(heads=8, heads_kv=2), [P(None, ("y", "x")), P(), P()])
    yield "heads that cannot be cut", lambda: outcome(ours(), qkv(heads=8, heads_kv=2), [P(None, "z"), P(), P()], LINE)
    yield "rows", lambda: outcome(ours(), qkv(rows=20), [P("x", None, "y"), P("x"), P("x")])
    yield "keys elsewhere", lambda: outcome(ours(), qkv(), [P("x"), P(), P()])
    yield "packed", packed
    yield "paged", paged
    for name, (argument, array, each) in extra_cases().items():
        options = {"align": "top-left"} if argument == "alibi" else {}
        yield name, lambda argument=argument, array=array, each=each, options=options: outcome(
            ours([argument], **options), [*qkv(), array], [BOTH] * 3 + [each])
    yield "vmap", lambda: outcome(jax.vmap(ours(causal="top-left")), [x.reshape(2, 2, *x.shape[1:]) for x in qkv()],
                                  [P("x")] * 3)
    yield "gradients, batch", lambda: outcome(gradients(ours(causal="bottom-right"), 3), qkv(), [BATCH] * 3)
    yield "gradients, heads", lambda: outcome(gradients(ours(causal="bottom-right"), 3), qkv(heads=8, heads_kv=4), [HEADS] * 3)
    yield "gradients, sinks", lambda: outcome(gradients(ours(["sinks"]), 4), [*qkv(), jnp.linspace(-1.0, 1.0, 4)],
                                              [BATCH] * 3 + [P()])
    yield "gradients, one head of keys", lambda: outcome(gradients(ours(), 3), qkv(heads_kv=1), [HEADS, P(), P()])
    yield "gradients, bias of heads", lambda: outcome(gradients(ours(["bias"]), 4), [*qkv(), normal(3, 4, 19, 23)],
                                                      [BOTH] * 3 + [P("y")])
    yield "without jit", lambda: {"specs": [spec(x) for x in ours()(*(jax.device_put(y, NamedSharding(MESH, BOTH))
                                                                     for y in qkv()))]}
    if not hasattr(jax, "shard_map"):  # nor the cases below, of older releases
        return
    yield "manual", lambda: outcome(jax.shard_map(ours(), mesh=MESH, in_specs=(BOTH,) * 3, out_specs=(BOTH,) * 2), qkv(),
                                    [BOTH] * 3)
    yield "partly manual", lambda: outcome(jax.shard_map(ours(), mesh=MESH, in_specs=(P("x"),) * 3, out_specs=(P("x"),) * 2,
                                                         axis_names={"x"}, check_vma=False), qkv(), [BOTH] * 3)
    mesh = jax.make_mesh((2, 2), ("x", "y"), axis_types=(jax.sharding.AxisType.Explicit,) * 2)
    yield "explicit", lambda: outcome(ours(causal="top-left"), qkv(), [BOTH] * 3, mesh)
    yield "explicit, keys elsewhere", lambda: outcome(ours(), qkv(), [BOTH, P(), P()], mesh)
    yield "explicit, gradients", lambda: outcome(gradients(ours(causal="top-left"), 3), qkv(), [BOTH] * 3, mesh)


found = {}
for name, run in cases():
    try:
        found[name] = run()
    except Exception as error:  # reported by the test of this case
        found[name] = {"failed": f"{type(error).__name__}: {error}"[:2000]}
print(json.dumps(found, indent=1))
