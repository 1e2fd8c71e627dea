"""attest.jax: attention inside of JAX's programs.

    import attest.jax
    o = jax.jit(functools.partial(attest.jax.attention, causal=True))(q, k, v)

XLA calls attest as a foreign function: no callback into Python, no copy, on XLA's own stream of a GPU or on its CPU. It
works under jit, vmap and grad. Arrays that are sharded by batch or by heads stay so: every device computes its own part.
attest has no backward kernel yet: gradients are computed by JAX's operators, with as many scores in memory at once as one
batch entry has.
"""

from __future__ import annotations

import functools
import math
from typing import Any, Dict, NamedTuple, Optional, Tuple, Union

import jax
import jax.numpy as jnp
import numpy as np

from . import Launch, UnsupportedError, _core, _jax_sharding

__all__ = ["attention", "last_launch"]

_TARGET = "attest_attention"
_ARRAYS = ("alibi", "bias", "sinks", "cu_seqlens_q", "cu_seqlens_k", "lens_k", "starts_k",
           "page_table")  # as XLA is given them

for _platform, _handler in _core.jax_handlers().items():
    jax.ffi.register_ffi_target(_TARGET, _handler, platform=_platform, api_version=1)


class _Options(NamedTuple):
    """What is not an array; hashable, as a part of the program."""

    causal: Union[None, bool, str]
    scale: Optional[float]
    window: Optional[Tuple[Optional[int], Optional[int]]]
    align: Optional[str]
    softcap: Optional[float]
    max_seqlen_q: Optional[int]
    max_seqlen_k: Optional[int]
    layout: str


def last_launch() -> Optional[Launch]:
    """What the latest call in any program ran; None before the first."""
    latest = _core.jax_last_launch()
    return Launch(*latest) if latest else None


def attention(q: Any, k: Any, v: Any, *, causal: Union[None, bool, str] = None, scale: Optional[float] = None,
              window: Optional[Tuple[Optional[int], Optional[int]]] = None, align: Optional[str] = None,
              softcap: Optional[float] = None, alibi: Any = None, bias: Any = None, sinks: Any = None,
              cu_seqlens_q: Any = None, cu_seqlens_k: Any = None, max_seqlen_q: Optional[int] = None,
              max_seqlen_k: Optional[int] = None, lens_k: Any = None, starts_k: Any = None, page_table: Any = None,
              return_lse: bool = False, layout: str = "bhsd") -> Any:
    """attest.attention() for JAX's arrays and tracers: the same arguments, without `out`.

    Arrays are those of attest.attention(); everything else must be known when the program is traced. max_seqlen_q and
    max_seqlen_k are needed beside cu_seqlens. Differentiable in q, k, v, bias, alibi and sinks, with return_lse too; not
    with packed or paged sequences.
    """
    options = _Options(causal, scale, None if window is None else (window[0], window[1]), align, softcap, max_seqlen_q, max_seqlen_k, layout)
    extras = {"alibi": alibi, "bias": bias, "sinks": sinks, "cu_seqlens_q": cu_seqlens_q, "cu_seqlens_k": cu_seqlens_k,
              "lens_k": lens_k, "starts_k": starts_k, "page_table": page_table}
    given = {name: jnp.asarray(array) for name, array in extras.items() if array is not None}
    o, lse = _attention(options, jnp.asarray(q), jnp.asarray(k), jnp.asarray(v), given)
    return (o, lse) if return_lse else o


def _described(array):
    return array.dtype.name, "cpu", array.shape


def _forward(options: _Options, q, k, v, extras):
    """(O, LSE) by XLA's foreign function."""
    names = tuple(name for name in _ARRAYS if name in extras)
    return _call_of(options, names)(q, k, v, *(extras[name] for name in names))


@functools.lru_cache(maxsize=None)
def _call_of(options: _Options, names: Tuple[str, ...]):
    """A function of q, k, v and the arrays of these names; vmap makes its axis a part of the batch."""

    def call(q, k, v, *extras):
        named: Dict[str, Any] = {name: value for name, value in options._asdict().items() if value is not None}
        named.update((name, _described(array)) for name, array in zip(names, extras))
        shape, lse_shape, problem = _core.describe(_described(q), _described(k), _described(v), return_lse=True, **named)
        results = [jax.ShapeDtypeStruct(shape, q.dtype), jax.ShapeDtypeStruct(lse_shape, jnp.float32)]
        foreign = jax.ffi.ffi_call(_TARGET, results, vmap_method="sequential")
        return tuple(foreign(q, k, v, *extras, problem=np.frombuffer(problem, np.int64)))

    def shared(*arrays):
        jax.eval_shape(call, *arrays)  # a mistake is told before it is asked how to split the arrays
        return _jax_sharding.split_over_devices(call, _jax_sharding.arrays_of(options.layout, names,
                                                                             [x.shape for x in arrays]), arrays)

    mapped = jax.custom_batching.custom_vmap(shared)

    @mapped.def_vmap
    def rule(size, batched, *arrays):
        whole = [x if along else jnp.broadcast_to(x, (size, *x.shape)) for x, along in zip(arrays, batched)]
        given = dict(zip(names, batched[3:]))
        if given.get("sinks") or {"cu_seqlens_q", "cu_seqlens_k", "page_table"} & set(names):  # no batch to be a part of
            return jax.lax.map(lambda each: mapped(*each), tuple(whole)), (True, True)
        batch = arrays[0].shape[int(batched[0])]
        extras = [x if name == "sinks" else _fold_extra(name, y, batch) for name, x, y in
                  zip(names, arrays[3:], whole[3:])]
        folded = mapped(*(x.reshape(-1, *x.shape[2:]) for x in whole[:3]), *extras)
        return tuple(x.reshape(size, batch, *x.shape[1:]) for x in folded), (True, True)

    return mapped


def _fold_extra(name, x, batch):
    """An array with an axis of vmap's before its own, with both and the batch as one axis."""
    own = {"bias": 4, "alibi": 2, "lens_k": 1, "starts_k": 1}[name]
    x = x.reshape(x.shape[0], *(1,) * (own + 1 - x.ndim), *x.shape[1:])
    return jnp.broadcast_to(x, (x.shape[0], batch, *x.shape[2:])).reshape(-1, *x.shape[2:])


@functools.partial(jax.custom_vjp, nondiff_argnums=(0,))
def _attention(options, q, k, v, extras):
    return _forward(options, q, k, v, extras)


def _keep(options, q, k, v, extras):
    return _attention(options, q, k, v, extras), (q, k, v, extras)


def _backward(options, kept, gradients):
    q, k, v, extras = kept
    packed = [name for name in ("cu_seqlens_q", "cu_seqlens_k", "page_table") if name in extras]
    if packed:
        raise UnsupportedError(f"attest.jax has no gradient with {packed[0]}")
    floats = {name: array for name, array in extras.items() if jnp.issubdtype(array.dtype, jnp.floating)}
    others = {name: array for name, array in extras.items() if name not in floats}
    _, pull = jax.vjp(lambda *given: _formula(options, *given[:3], {**given[3], **others}), q, k, v, floats)
    *grads, grad_floats = pull(gradients)
    nothing = {name: np.zeros(array.shape, jax.dtypes.float0) for name, array in others.items()}
    return (*grads, {**grad_floats, **nothing})


_attention.defvjp(_keep, _backward)


# --------------------------------------------------------------------------------------------- for gradients


def _formula(options, q, k, v, extras):
    """(O, LSE) by JAX's operators in float32.

    Some rows of every batch entry at a time, so that there are as many scores at once as one entry has: batch and heads stay
    whole axes, which XLA can split over devices.
    """
    if options.layout == "bshd":
        q, k, v = (x.swapaxes(1, 2) for x in (q, k, v))
    batch, heads, rows, d = q.shape
    heads_kv, keys = k.shape[1], k.shape[2]
    step = -(-rows // max(batch, 1)) or 1
    parts = -(-rows // step) or 1

    def cut(x, axis):
        """The rows of an array as a first axis of parts and one of steps; those past the end are zero."""
        widths = [(0, parts * step - rows if i == axis else 0) for i in range(x.ndim)]
        x = jnp.pad(x, widths).reshape(*x.shape[:axis], parts, step, *x.shape[axis + 1:])
        return jnp.moveaxis(x, axis, 0)

    # Heads are (heads of k, heads that share one of them) below.
    each = {"q": cut(q.reshape(batch, heads_kv, heads // heads_kv, rows, d), 3), "first": jnp.arange(parts) * step}
    every = {"k": k.astype(jnp.float32), "v": v.astype(jnp.float32)}
    if "bias" in extras:
        bias = extras["bias"]
        bias = _split_heads(bias.reshape((1,) * (4 - bias.ndim) + bias.shape), 1, heads_kv)
        if bias.shape[3] == 1:
            every["bias"] = bias
        else:
            each["bias"] = cut(bias, 3)
    if "alibi" in extras:
        every["alibi"] = _split_heads(jnp.atleast_2d(extras["alibi"]), 1, heads_kv)[..., None, None]
    if "sinks" in extras:
        every["sinks"] = extras["sinks"].reshape(1, heads_kv, heads // heads_kv, 1, 1)
    if "lens_k" in extras:
        every["used"] = extras["lens_k"].reshape(batch, 1, 1, 1, 1)
    if "starts_k" in extras:
        every["start"] = extras["starts_k"].reshape(batch, 1, 1, 1, 1)
    some = jax.checkpoint(functools.partial(_some_rows, options, rows))
    o, lse = jax.lax.map(lambda part: some(**part, **every), each)
    o = jnp.moveaxis(o, 0, 3).reshape(batch, heads, parts * step, v.shape[-1])[:, :, :rows]
    lse = jnp.moveaxis(lse, 0, 3).reshape(batch, heads, parts * step)[:, :, :rows]
    return (o.swapaxes(1, 2) if options.layout == "bshd" else o).astype(q.dtype), lse


def _split_heads(x, axis, heads_kv):
    """An axis of heads of q, or of 1 for all of them, as two."""
    own = x.shape[axis]
    return x.reshape(*x.shape[:axis], *((1, 1) if own == 1 else (heads_kv, own // heads_kv)), *x.shape[axis + 1:])


def _some_rows(options, rows, q, first, k, v, bias=None, alibi=None, sinks=None, used=None, start=0):
    """Rows from `first` on, of `rows` in all; scores are (batch, heads of k, heads of q to each, rows, keys)."""
    keys, step = k.shape[2], q.shape[3]
    scale = 1.0 / math.sqrt(q.shape[-1]) if options.scale is None else options.scale
    scores = jnp.einsum("bhgrd,bhkd->bhgrk", q.astype(jnp.float32), k, precision="highest") * scale
    if options.softcap:
        scores = options.softcap * jnp.tanh(scores / options.softcap)
    used = keys if used is None else used
    side = options.causal if isinstance(options.causal, str) else options.align
    shift = used - rows if side == "bottom-right" else 0
    column = jnp.arange(keys)
    distance = column - (first + jnp.arange(step)[:, None] + shift)  # right of the diagonal
    if alibi is not None:
        scores = scores - alibi * jnp.abs(distance)
    seen = (column < used) & (column >= start) & jnp.full((step, keys), True)
    if options.causal:
        seen = seen & (distance <= 0)
    left, right = options.window or (None, None)
    if left is not None and left >= 0:
        seen = seen & (-distance <= left)
    if right is not None and right >= 0:
        seen = seen & (distance <= right)
    if bias is not None and bias.dtype == jnp.bool_:
        seen = seen & bias
    elif bias is not None:
        scores = scores + bias.astype(jnp.float32)
    scores = jnp.where(seen, scores, -jnp.inf)
    most = jnp.max(scores, -1, keepdims=True, initial=-jnp.inf)
    if sinks is not None:
        most = jnp.maximum(most, sinks)
    most = jax.lax.stop_gradient(jnp.where(jnp.isinf(most), 0.0, most))
    weights = jnp.where(jnp.isinf(scores), 0.0, jnp.exp(jnp.where(jnp.isinf(scores), 0.0, scores) - most))
    total = weights.sum(-1, keepdims=True)
    if sinks is not None:
        total = total + jnp.exp(sinks - most)
    lse = jnp.where(total > 0, jnp.log(jnp.where(total > 0, total, 1.0)) + most, -jnp.inf)[..., 0]
    return jnp.einsum("bhgrk,bhkd->bhgrd", weights / jnp.where(total > 0, total, 1.0), v, precision="highest"), lse
