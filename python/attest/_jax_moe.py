"""_jax_moe.py: attest.jax.moe(), a mixture of experts as a foreign function of XLA.

JAX's operators compute the gradient, in blocks of the tokens of one expert: attest has no kernel for it yet.
"""

from __future__ import annotations

import functools
from typing import Any, Dict, NamedTuple, Optional, Tuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from . import _core
from ._jax_varying import varying
from ._moe_names import ALPHA, LIMIT, UNGATED, check_axes

_ORDER = ("logits", "ids", "weights", "w3", "b1", "b2", "b3", "correction", "mask")  # in XLA's order, after x, w1, w2
_OF_EXPERTS = ("w1", "w2", "w3", "b1", "b2", "b3")
_BLOCK = 64  # rows of an expert that the gradient processes at once


class _Options(NamedTuple):
    """The arguments that are not arrays; hashable, because they are part of the program."""

    top_k: Optional[int]
    activation: str
    routing: Optional[str]
    renormalise: Optional[bool]
    scaling: float
    alpha: Optional[float]
    limit: Optional[float]
    groups: int
    groups_kept: int
    interleaved: bool
    transposed: bool
    experts: Optional[int]
    first_expert: int


def _described(x):
    return x.dtype.name, "cpu", x.shape


def _forward(options: _Options, arrays: Dict[str, jax.Array]):
    """(y, ids, weights, counts) from XLA's foreign function."""
    named = {name: value for name, value in options._asdict().items() if value is not None}
    given = [name for name in _ORDER if name in arrays]
    named.update((name, _described(arrays[name])) for name in given)
    results, problem = _core.describe_moe(*(_described(arrays[name]) for name in ("x", "w1", "w2")), return_routing=True, **named)
    structs = [jax.ShapeDtypeStruct(shape, dtype) for shape, dtype in results]
    foreign = jax.ffi.ffi_call("attest_moe", structs, vmap_method="sequential")
    found = foreign(*(arrays[name] for name in ("x", "w1", "w2", *given)), problem=np.frombuffer(problem, np.int64))
    return tuple(varying(found, arrays["x"]))


# ------------------------------------------------------------------------------------------------- gradients


def _activate(options: _Options, gate, up):
    name = options.activation
    if name == "swiglu-clamped":
        alpha, limit = ALPHA if options.alpha is None else options.alpha, LIMIT if options.limit is None else options.limit
        gate, up = jnp.minimum(gate, limit), jnp.clip(up, -limit, limit)
        return (up + 1) * gate * jax.nn.sigmoid(alpha * gate)
    if name == "relu2":
        return jax.nn.relu(gate)**2
    shaped = jax.nn.silu(gate) if name in ("swiglu", "silu") else jax.nn.gelu(gate, approximate=name.endswith("-tanh"))
    return shaped if up is None else shaped * up


def _expert(options: _Options, x, own: Dict[str, jax.Array]):
    """The output of an expert for its rows, in float32."""

    def product(of, weight: str, bias: str):
        w = own[weight].astype(jnp.float32)
        out = jnp.matmul(of, w if options.transposed else w.T, precision="highest")
        return out + own[bias].astype(jnp.float32) if bias in own else out

    gate, up = product(x.astype(jnp.float32), "w1", "b1"), None
    if "w3" in own:
        up = product(x.astype(jnp.float32), "w3", "b3")
    elif options.activation not in UNGATED:
        gate, up = (gate[:, ::2], gate[:, 1::2]) if options.interleaved else jnp.split(gate, 2, -1)
    return product(_activate(options, gate, up), "w2", "b2")


def _softmax(numbers):
    """As the routing defines it: +inf share the weight among themselves, and if all are -inf, all have the same."""
    top = numbers.max(-1, keepdims=True)
    return jax.nn.softmax(jnp.where(jnp.isinf(top), jnp.where(numbers == top, 0.0, -jnp.inf), numbers), -1)


def _shares(options: _Options, ids, logits=None, weights=None):
    """The weights of the selected experts, from the logits or as given; 0 where there is none."""
    if weights is not None:
        return jnp.where(ids >= 0, weights * options.scaling, 0.0)
    is_routed = (ids >= 0).any(-1, keepdims=True)  # logits of masked tokens may hold anything
    chosen, numbers = jnp.maximum(ids, 0), jnp.where(is_routed, logits.astype(jnp.float32), 0.0)
    if options.routing == "topk":
        found = _softmax(jnp.take_along_axis(numbers, chosen, 1))
    else:
        every = jax.nn.sigmoid(numbers) if options.routing == "sigmoid" else _softmax(numbers)
        found = jnp.take_along_axis(every, chosen, 1)
        if options.renormalise is not False:
            total = found.sum(-1, keepdims=True) + 1e-20
            size = lax.stop_gradient(total)  # without it, the gradient divides by the square of a small sum, which is 0
            found = (found / size) / (total / size)
    return jnp.where(ids >= 0, found * options.scaling, 0.0)


class _Blocks(NamedTuple):
    """The slots of tokens, grouped by expert, in blocks of one expert each."""

    order: jax.Array  # slots, sorted by expert
    first: jax.Array  # the first slot of each expert in `order`; and the end
    ends: jax.Array  # the number of blocks of the experts up to and including each one

    @staticmethod
    def of(local, experts: int) -> "_Blocks":
        local = jnp.where((local >= 0) & (local < experts), local, experts)
        counts = jnp.zeros(experts + 1, jnp.int32).at[local].add(1)[:experts]
        first = jnp.concatenate([jnp.zeros(1, jnp.int32), jnp.cumsum(counts, dtype=jnp.int32)])
        return _Blocks(jnp.argsort(local, stable=True), first, jnp.cumsum((counts + _BLOCK - 1) // _BLOCK, dtype=jnp.int32))

    def block(self, number):
        """(expert, slots, which of them belong to it) of a block."""
        expert = jnp.searchsorted(self.ends, number, side="right")
        before = jnp.where(expert > 0, self.ends[expert - 1], 0)
        at = self.first[expert] + (number - before) * _BLOCK + jnp.arange(_BLOCK)
        return expert, self.order[jnp.minimum(at, self.order.shape[0] - 1)], at < self.first[expert + 1]


def _gradients(options: _Options, arrays, ids, shares, grad):
    """(of x, {of the experts' parameters}, of the shares) in float32."""
    x, own = arrays["x"], {name: arrays[name] for name in _OF_EXPERTS if name in arrays}
    slots, grad = ids.shape[1], grad.astype(jnp.float32)
    blocks = _Blocks.of(ids.reshape(-1) - options.first_expert, own["w1"].shape[0])
    flat = shares.reshape(-1)

    def add(number, found):
        d_x, d_own, d_shares = found
        expert, slot, is_own = blocks.block(number)
        token = slot // slots
        tokens = jnp.where(is_own[:, None], x[token], 0)  # rows of others may hold NaN
        out, pull = jax.vjp(functools.partial(_expert, options), tokens, {name: each[expert] for name, each in own.items()})
        rows = jnp.where(is_own[:, None], grad[token], 0.0)
        d_rows, d_here = pull(rows * jnp.where(is_own, flat[slot], 0.0)[:, None])
        d_shares = d_shares.at[slot].add(jnp.where(is_own, (rows * out).sum(-1), 0.0))
        d_own = {name: each.at[expert].add(d_here[name].astype(jnp.float32)) for name, each in d_own.items()}
        return d_x.at[token].add(jnp.where(is_own[:, None], d_rows.astype(jnp.float32), 0.0)), d_own, d_shares

    nothing = varying((jnp.zeros(x.shape, jnp.float32), {name: jnp.zeros(each.shape, jnp.float32) for name, each in own.items()},
                       jnp.zeros(flat.shape, jnp.float32)), x)
    d_x, d_own, d_shares = lax.fori_loop(0, blocks.ends[-1], add, nothing) if flat.size else nothing
    return d_x, d_own, d_shares.reshape(shares.shape)


@functools.partial(jax.custom_vjp, nondiff_argnums=(0,))
def _moe(options: _Options, arrays):
    return _forward(options, arrays)


def _keep(options, arrays):
    found = _moe(options, arrays)
    return found, (arrays, found[1])


def _backward(options, kept, gradients):
    arrays, ids = kept
    source = "weights" if "weights" in arrays else "logits"
    shares, pull = jax.vjp(lambda given: _shares(options, ids, **{source: given}), arrays[source])
    d_x, d_own, d_shares = _gradients(options, arrays, ids, shares, gradients[0])
    found = {"x": d_x, **d_own, source: pull(d_shares + gradients[2])[0]}

    def of(name, x):
        if not jnp.issubdtype(x.dtype, jnp.floating):
            return np.zeros(x.shape, jax.dtypes.float0)
        return found[name].astype(x.dtype) if name in found else jnp.zeros_like(x)

    return ({name: of(name, x) for name, x in arrays.items()},)


_moe.defvjp(_keep, _backward)


def _numbers(ids: Any) -> jax.Array:
    """Integers as int32; what int32 does not hold stays out of range, also where jnp.asarray() would drop its upper bits."""
    of = jnp if isinstance(ids, jax.Array) else np
    ids = of.asarray(ids)
    if not jnp.issubdtype(ids.dtype, jnp.integer):
        return jnp.asarray(ids)  # attest.moe() refuses them by name
    if ids.dtype != np.int32 and jnp.iinfo(ids.dtype).bits >= 32:
        ids = of.clip(ids, max(-2**31, jnp.iinfo(ids.dtype).min), 2**31 - 1)
    return jnp.asarray(ids.astype(np.int32))


def moe(x: Any, w1: Any, w2: Any, *, logits: Any = None, ids: Any = None, weights: Any = None, w3: Any = None, b1: Any = None,
        b2: Any = None, b3: Any = None, correction: Any = None, mask: Any = None, top_k: Optional[int] = None,
        activation: str = "swiglu", routing: Optional[str] = None, renormalise: Optional[bool] = None, scaling: float = 1.0,
        alpha: Optional[float] = None, limit: Optional[float] = None, groups: int = 1, groups_kept: int = 1,
        interleaved: bool = False, transposed: bool = False, experts: Optional[int] = None, first_expert: int = 0,
        return_routing: bool = False) -> Any:
    """attest.moe() for JAX's arrays and tracers: the same arguments, without `out`.

    x may have more axes before its last; logits, ids, weights and mask then have as many. Arguments that are not arrays
    must be known when the program is traced. Differentiable in x, all weights and biases, and logits or weights, through
    y and through the weights that return_routing=True returns; the selection, the ids and the counts have no gradient.
    JAX's own operators compute the gradients.
    """
    x = jnp.asarray(x)
    rows = {"logits": logits, "ids": None if ids is None else _numbers(ids), "weights": weights}
    rows = {name: None if each is None else jnp.asarray(each) for name, each in rows.items()}
    mask = None if mask is None else jnp.asarray(mask)
    if x.ndim > 2:
        check_axes(x.shape, **rows, mask=mask)
    arrays: Dict[str, Any] = {"x": x, "w1": w1, "w2": w2, **rows, "w3": w3, "b1": b1, "b2": b2, "b3": b3, "correction": correction,
                              "mask": None if mask is None else jnp.reshape(mask, -1)}
    arrays = {name: jnp.asarray(each) for name, each in arrays.items() if each is not None}
    for name in ("x", *(name for name in rows if name in arrays)):
        arrays[name] = arrays[name].reshape(-1, arrays[name].shape[-1])
    for name in ("weights", "correction"):
        if name in arrays and (name == "correction" or "ids" in arrays):
            arrays[name] = arrays[name].astype(jnp.float32)
    options = _Options(top_k, activation, routing, renormalise, float(scaling), None if alpha is None else float(alpha),
                       None if limit is None else float(limit), groups, groups_kept, interleaved, transposed, experts, first_expert)
    y, found_ids, shares, counts = _moe(options, varying(arrays, *arrays.values()))
    y = y.reshape(x.shape)
    if not return_routing:
        return y
    slots: Tuple[int, ...] = (*x.shape[:-1], found_ids.shape[-1])
    return y, found_ids.reshape(slots), shares.reshape(slots), counts
