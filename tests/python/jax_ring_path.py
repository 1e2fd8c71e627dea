"""jax_ring_path.py: attest.jax.parallel on CPU devices compared with one call; prints the results as JSON.

A separate process: test_jax_parallel.py sets the number of devices in its environment. The arguments are the scenes.
"""

import functools
import hashlib
import json
import re
import sys

import attest.jax as aj
import jax
import jax.numpy as jnp
import numpy as np
from attest.jax import parallel
from jax.sharding import Mesh
from jax.sharding import PartitionSpec as P

ROWS = 96
MASKS = {
    "full": {}, "causal": {"causal": True}, "window": {"causal": True, "window": (9, None)},
    "band": {"window": (5, 12), "align": "top-left"}, "softcap": {"causal": True, "softcap": 8.0},
    "sinks": {"causal": True, "sinks": np.linspace(-1, 2, 4, dtype=np.float32)},
    "padding": {"causal": "top-left", "starts_k": np.array([0, 40], np.int32), "lens_k": np.array([96, 70], np.int32)},
}
SLOPES = np.array([0.5, 0.25, 0.125, 0.0625], np.float32)
MASKS["alibi"] = {**MASKS["sinks"], "alibi": SLOPES}
MASKS["alibi_band"] = {**MASKS["band"], "lens_k": np.array([96, 70], np.int32), "alibi": np.stack([SLOPES, SLOPES[::-1]])}
LEARNED = ("sinks", "alibi")  # with gradients
EXTRAS = (*LEARNED, "starts_k", "lens_k")
SPEC = P(None, None, "ring")


def mesh_of(ranks):
    return Mesh(np.array(jax.devices()[:ranks]), ("ring",))


def arrays(dtype, keys=ROWS):
    made = np.random.default_rng(5)
    sizes = ((2, 4, ROWS, 16), (2, 2, keys, 16), (2, 2, keys, 24), (2, 4, ROWS, 24))
    return [jnp.asarray(made.standard_normal(size), dtype) for size in sizes]


def exact(q, k, v, d_o, options):
    """O and the gradients of q, k, v, sinks and slopes in float64, by the formula."""
    q, k, v, d_o = (np.asarray(x, np.float64) for x in (q, k, v, d_o))
    group = q.shape[1] // k.shape[1]
    wide_k, wide_v = (np.repeat(x, group, 1) for x in (k, v))
    rows, keys, scale = q.shape[2], k.shape[2], q.shape[3]**-0.5
    scores = q @ wide_k.swapaxes(2, 3) * scale
    slope = np.ones_like(scores)
    if "softcap" in options:
        bent = np.tanh(scores / options["softcap"])
        scores, slope = bent * options["softcap"], 1 - bent**2
    shift = keys - rows if "bottom-right" in (options.get("causal"), options.get("align")) else 0
    off = np.arange(keys) - np.arange(rows)[:, None] - shift
    slopes = np.broadcast_to(options.get("alibi", np.zeros(q.shape[1])), q.shape[:2])[:, :, None, None]
    scores = scores - slopes * np.abs(off)
    left, right = options.get("window", (None, None))
    seen = np.ones((q.shape[0], 1, rows, keys), bool)
    seen &= (off <= 0) | (not options.get("causal"))
    seen &= (left is None) | (off >= -(left or 0))
    seen &= (right is None) | (off <= (right or 0))
    lens, starts = options.get("lens_k", np.full(2, keys)), options.get("starts_k", np.zeros(2))
    at = np.arange(keys)[None, None, None]
    seen &= (at < lens[:, None, None, None]) & (at >= starts[:, None, None, None])
    sinks = options.get("sinks", np.full(q.shape[1], -np.inf))[None, :, None, None]
    top = np.maximum(np.where(seen, scores, -np.inf).max(-1, keepdims=True), sinks)
    top = np.where(np.isinf(top), 0, top)
    weights = np.where(seen, np.exp(scores - top), 0.0)
    total = weights.sum(-1, keepdims=True) + np.exp(sinks - top)
    shares = weights / np.where(total == 0, 1, total)
    o = shares @ wide_v
    along = (d_o * o).sum(-1, keepdims=True)
    d_biased = shares * (d_o @ wide_v.swapaxes(2, 3) - along)
    d_scores = d_biased * slope * scale

    def of_group(x):
        return x.reshape(x.shape[0], -1, group, *x.shape[2:]).sum(2)

    d_sinks = -(np.exp(sinks - top) / np.where(total == 0, 1, total) * along).sum((0, 2, 3))
    found = (o, d_scores @ wide_k, of_group(d_scores.swapaxes(2, 3) @ q), of_group(shares.swapaxes(2, 3) @ d_o))
    d_alibi = -(d_biased * np.abs(off)).sum((2, 3))
    learned = {"sinks": d_sinks, "alibi": d_alibi if np.ndim(options.get("alibi")) == 2 else d_alibi.sum(0)}
    return (*found, *(learned[name] for name in LEARNED if name in options))


def with_gradients(function, given, d_o):
    o, pull = jax.vjp(function, *given)
    return (o, *pull(d_o))


def of_ring(cut, cut_k, options, checked=True, **how):
    """(function of q, k, v and the arrays among the options, those that have a gradient) over a ring."""
    plain = {name: x for name, x in options.items() if name not in EXTRAS}
    given = {name: jnp.asarray(options[name]) for name in EXTRAS if name in options}

    def local(q, k, v, extras):
        return parallel.attention(q, k, v, cut, cut_k=cut_k, axis_name="ring", **plain, **extras, **how)

    mapped = jax.shard_map(local, mesh=mesh_of(cut.ranks), in_specs=(SPEC, SPEC, SPEC, P()), out_specs=SPEC, check_vma=checked)

    def whole(q, k, v, *learned):
        extras = {**given, **dict(zip([name for name in LEARNED if name in options], learned))}
        return cut.join(mapped(cut.shard(q, 2), cut_k.shard(k, 2), cut_k.shard(v, 2), extras), 2)

    return whole


def alone(options):
    plain, names = {name: x for name, x in options.items() if name not in LEARNED}, [name for name in LEARNED if name in options]
    return lambda q, k, v, *learned: aj.attention(q, k, v, **plain, **dict(zip(names, learned)))


def excess(cut, cut_k, options, dtype, keys=ROWS, **how):
    """The largest error relative to what is allowed: twice the error of one call, and a few ulp."""
    *given, d_o = arrays(dtype, keys)
    true = exact(*given, d_o, options)
    given += [jnp.asarray(options[name]) for name in LEARNED if name in options]
    found, one = (jax.jit(functools.partial(with_gradients, function))(given, d_o)
                  for function in (of_ring(cut, cut_k, options, **how), alone(options)))
    unit = float(jnp.finfo(dtype).eps)
    worst = 0.0
    assert len(found) == len(one) == len(true)
    for mine, its, exactly in zip(found, one, true):
        mine, its = (np.asarray(x, np.float64) for x in (mine, its))
        assert mine.shape == exactly.shape and np.isfinite(mine).all()
        bar = 2 * np.abs(its - exactly).max() + 4 * unit * np.abs(exactly).max()
        worst = max(worst, float(np.abs(mine - exactly).max() / bar))
    return worst


def every_mask():
    found = {}
    for ranks in (2, 4, 8):
        for name, options in MASKS.items():
            for dtype in (jnp.float32, jnp.bfloat16):
                if dtype == jnp.bfloat16 and (name != "causal" or ranks == 8) or (ranks == 8 and name not in ("causal", "window")):
                    continue
                make = parallel.contiguous if name in ("full", "band") or (name == "alibi_band" and ranks == 4) else parallel.zigzag
                cut = make(ROWS, ranks)
                found[f"{name} {ranks} {jnp.dtype(dtype).name}"] = excess(cut, cut, options, dtype)
    three = parallel.zigzag(ROWS, 3)
    found["causal 3"] = excess(three, three, MASKS["causal"], jnp.float32)
    found["alibi 3"] = excess(three, three, MASKS["alibi"], jnp.float32)
    found["unchecked"] = excess(three, three, MASKS["sinks"], jnp.float32, checked=False)
    for side in ("top-left", "bottom-right"):
        cut, cut_k = parallel.zigzag(ROWS, 2), parallel.contiguous(64, 2, pieces=4)
        found[f"other keys {side}"] = excess(cut, cut_k, {"causal": side, "alibi": SLOPES}, jnp.float32, keys=64)
    return found


def digests():
    """Digests of the results of the same pieces on any number of devices, each twice."""
    found = {}
    for name, make, pieces, counts in (("full", parallel.contiguous, 8, (1, 2, 4, 8)), ("causal", parallel.zigzag, 8, (1, 2, 4)),
                                       ("window", parallel.zigzag, 16, (4, 8))):
        *given, d_o = arrays(jnp.bfloat16 if name == "full" else jnp.float32)
        for ranks in counts:
            cut = make(ROWS, ranks, pieces)
            program = jax.jit(functools.partial(with_gradients, of_ring(cut, cut, MASKS[name])))
            for _ in range(2):
                whole = hashlib.sha256(b"".join(np.asarray(x).tobytes() for x in program(given, d_o)))
                found.setdefault(name, []).append(whole.hexdigest())
    return found


def messages():
    """For compiled forward programs: [bytes that all devices send together] per step, by distance."""
    found = {}
    for name, make in (("causal", parallel.zigzag), ("full", parallel.contiguous), ("window", parallel.contiguous)):
        for rows in (96, 192):
            cut = make(rows, 4)
            x = jax.ShapeDtypeStruct((1, 2, rows, 16), jnp.float32)
            mapped = jax.shard_map(lambda q, k, v, cut=cut, name=name: parallel.attention(q, k, v, cut, axis_name="ring", **MASKS[name]),
                                   mesh=mesh_of(4), in_specs=(SPEC,) * 3, out_specs=SPEC)
            text = jax.jit(mapped).lower(x, x, x).compile().as_text()
            sent = {}
            pattern = r"f32\[([\d,]+)\][^\n]* collective-permute(?:-start)?\([^\n]*source_target_pairs=\{(.*?)\}\}"
            for shape, pairs in re.findall(pattern, text):
                pairs = [tuple(map(int, pair)) for pair in re.findall(r"(\d+),(\d+)", pairs)]
                far, = {(to - source) % 4 for source, to in pairs}
                sent[far] = sent.get(far, 0) + len(pairs) * 4 * int(np.prod([int(n) for n in shape.split(",")]))
            assert not re.search("all-gather|all-reduce|all-to-all", text)
            found[f"{name} {rows}"] = {"sent": sent, "shards": 2 * 2 * rows * 16 * 4}
    return found


def outputs():
    """The log-sums, the other layout, vmap, a call outside jit, and a window with -1 for no limit."""
    q, k, v, _ = arrays(jnp.float32)
    cut = parallel.zigzag(ROWS, 4)
    o, lse = aj.attention(q, k, v, causal=True, return_lse=True)
    mine = [cut.shard(x, 2) for x in (q, k, v)]
    local = functools.partial(parallel.attention, cut=cut, axis_name="ring", causal=True)
    both = jax.jit(jax.shard_map(functools.partial(local, return_lse=True), mesh=mesh_of(4), in_specs=(SPEC,) * 3,
                                 out_specs=(SPEC, SPEC)))(*mine)
    rows_first = P(None, "ring")
    turned = jax.jit(jax.shard_map(functools.partial(local, layout="bshd"), mesh=mesh_of(4), in_specs=(rows_first,) * 3,
                                   out_specs=rows_first))(*(x.swapaxes(1, 2) for x in mine))
    many = jax.jit(jax.shard_map(jax.vmap(local), mesh=mesh_of(4), in_specs=(P(None, None, None, "ring"),) * 3,
                                 out_specs=P(None, None, None, "ring")))(*(jnp.stack([x, 2 * x]) for x in mine))
    two = parallel.zigzag(ROWS, 2)
    eager = jax.shard_map(functools.partial(parallel.attention, cut=two, axis_name="ring", causal=True, alibi=SLOPES), mesh=mesh_of(2),
                          in_specs=(SPEC,) * 3, out_specs=SPEC)(*(two.shard(x, 2) for x in (q, k, v)))
    sloped = aj.attention(q, k, v, causal=True, alibi=SLOPES)
    window = dict(causal=True, window=(9, -1))
    unlimited = jax.jit(jax.shard_map(functools.partial(parallel.attention, cut=cut, axis_name="ring", **window), mesh=mesh_of(4),
                                      in_specs=(SPEC,) * 3, out_specs=SPEC))(*mine)
    return {"window": float(jnp.abs(cut.join(unlimited, 2) - aj.attention(q, k, v, **window)).max()),
            "eager": float(jnp.abs(two.join(eager, 2) - sloped).max()),
            "lse": float(jnp.abs(cut.join(both[1], 2) - lse).max()), "o": float(jnp.abs(cut.join(both[0], 2) - o).max()),
            "bshd": float(jnp.abs(cut.join(turned, 1).swapaxes(1, 2) - o).max()),
            "vmap": float(jnp.abs(cut.join(many[0], 2) - o).max()), "positions": cut.positions().tolist()}


def by_batch():
    """Gradients of calls of one device each, for arrays that are split and some that all share: the difference from
    one call."""
    q, k, v, _ = (jnp.tile(x, (2, 1, 1, 1)) for x in arrays(jnp.float32))
    bias, cut, shared = jnp.asarray(np.random.default_rng(6).standard_normal((4, ROWS, ROWS)), jnp.float32), P("ring"), P()
    x, logits = jax.random.normal(jax.random.key(0), (32, 64)), jax.random.normal(jax.random.key(1), (32, 8))
    weights = [jax.random.normal(jax.random.key(2 + i), shape) / 8 for i, shape in enumerate(((8, 96, 64), (8, 64, 48)))]
    calls = {"attention": (lambda q, k, v, bias: aj.attention(q, k, v, bias=bias), (q, k, v, bias), (cut, cut, cut, shared)),
             "moe": (lambda x, logits, *w: aj.moe(x, *w, logits=logits, top_k=2), (x, logits, *weights), (cut, cut, shared, shared))}
    found = {}
    for name, (call, given, specs) in calls.items():
        def loss(*arrays, call=call):
            return (call(*arrays)**2).sum()

        def mapped(*arrays, call=call, specs=specs):
            return (jax.shard_map(call, mesh=mesh_of(4), in_specs=specs, out_specs=cut)(*arrays)**2).sum()

        both = [jax.jit(jax.grad(each, argnums=tuple(range(4))))(*given) for each in (mapped, loss)]
        found[name] = max(float(jnp.abs(mine - one).max() / jnp.abs(one).max()) for mine, one in zip(*both))
    return found


def refusals():
    """The message for each mistake."""
    x, found = jnp.zeros((1, 2, 8, 16)), []
    cut = parallel.zigzag(16, 2)
    for given, named in (((x, x, x, parallel.zigzag(16, 4)), {}), ((x, x[:, :, 1:], x, cut), {}),
                         ((x, x, x, parallel.Cut((12, 4), (0, 1), 2)), {}), ((x, x, x, cut), {"layout": "hbsd"}),
                         ((x, x, x, cut), {"causal": "middle"}), ((x, x, x, cut), {"causal": True, "window": (4, -2)}),
                         ((x, x, x, cut), {"causal": "bottom-right", "lens_k": jnp.ones(1, jnp.int32)}),
                         ((x, x, x, cut), {"lens_k": jnp.ones(1)}), ((x, x, x, cut), {"cut_k": parallel.zigzag(16, 2)._replace(lengths=(8, 8, 8, 8)), "causal": True})):
        q, k, v, its = given
        try:
            jax.eval_shape(jax.shard_map(lambda q, k, v, its=its, named=named: parallel.attention(q, k, v, its, axis_name="ring", **named),
                                         mesh=mesh_of(2), in_specs=(P(),) * 3, out_specs=P(), check_vma=False), q, k, v)
            found.append("nothing")
        except (TypeError, ValueError) as error:
            found.append(str(error))
    return found


print(json.dumps({name: globals()[name]() for name in sys.argv[1:]}))
