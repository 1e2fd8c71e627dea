"""attest.jax: attention and mixtures of experts inside JAX programs.

    import attest.jax
    o = jax.jit(functools.partial(attest.jax.attention, causal=True))(q, k, v)

XLA calls attest as a foreign function: no callback into Python and no copy, on XLA's own GPU stream or on its CPU. It
works under jit, vmap and grad. Arrays that are sharded by batch or by heads stay sharded: every device computes its own
part. attest's kernels compute the gradients of attention, with the same bits from run to run; JAX's operators compute
those of moe(). `attest.jax.parallel` splits sequences over the devices of a mesh axis.
"""

from __future__ import annotations

import functools
from typing import Any, Dict, NamedTuple, Optional, Tuple, Union

import jax
import jax.numpy as jnp
import numpy as np

from .. import Launch, UnsupportedError, _core, _jax_sharding
from .._jax_moe import moe
from .._jax_varying import varying

__all__ = ["attention", "last_launch", "moe"]

_TARGET, _BACKWARD_TARGET = "attest_attention", "attest_backward"
_ARRAYS = ("alibi", "bias", "sinks", "cu_seqlens_q", "cu_seqlens_k", "lens_k", "starts_k",
           "q_offset", "k_offset", "page_table")  # in XLA's argument order

for _operation, _handlers in _core.jax_handlers().items():
    for _platform, _handler in _handlers.items():
        jax.ffi.register_ffi_target(f"attest_{_operation}", _handler, platform=_platform, api_version=1)


class _Options(NamedTuple):
    """The arguments that are not arrays; hashable, because they are part of the program."""

    causal: Union[None, bool, str]
    scale: Optional[float]
    window: Optional[Tuple[Optional[int], Optional[int]]]
    align: Optional[str]
    softcap: Optional[float]
    max_seqlen_q: Optional[int]
    max_seqlen_k: Optional[int]
    layout: str
    q_offset: Optional[int]
    k_offset: Optional[int]


def last_launch() -> Optional[Launch]:
    """What the last call in any program ran; None before the first."""
    latest = _core.jax_last_launch()
    return Launch(*latest) if latest else None


def attention(q: Any, k: Any, v: Any, *, causal: Union[None, bool, str] = None, scale: Optional[float] = None,
              window: Optional[Tuple[Optional[int], Optional[int]]] = None, align: Optional[str] = None,
              softcap: Optional[float] = None, alibi: Any = None, bias: Any = None, sinks: Any = None,
              cu_seqlens_q: Any = None, cu_seqlens_k: Any = None, max_seqlen_q: Optional[int] = None,
              max_seqlen_k: Optional[int] = None, lens_k: Any = None, starts_k: Any = None, q_offset: Any = None,
              k_offset: Any = None, page_table: Any = None, return_lse: bool = False, layout: str = "bhsd") -> Any:
    """attest.attention() for JAX's arrays and tracers: the same arguments, without `out`.

    Arrays are those of attest.attention(); everything else must be known when the program is traced. cu_seqlens require
    max_seqlen_q and max_seqlen_k. A number as q_offset or k_offset is part of the program, an array is not. Differentiable in q, k, v, bias, alibi and sinks, through O and the log-sum-exp;
    not with pages, and not twice.
    """
    options = _Options(causal, scale, None if window is None else (window[0], window[1]), align, softcap, max_seqlen_q, max_seqlen_k, layout,
                       q_offset if isinstance(q_offset, int) else None, k_offset if isinstance(k_offset, int) else None)
    extras = {"alibi": alibi, "bias": bias, "sinks": sinks, "cu_seqlens_q": cu_seqlens_q, "cu_seqlens_k": cu_seqlens_k,
              "lens_k": lens_k, "starts_k": starts_k, "q_offset": None if isinstance(q_offset, int) else q_offset,
              "k_offset": None if isinstance(k_offset, int) else k_offset, "page_table": page_table}
    given = {name: jnp.asarray(array) for name, array in extras.items() if array is not None}
    q, k, v = jnp.asarray(q), jnp.asarray(k), jnp.asarray(v)
    o, lse = _attention(options, *varying((q, k, v, given), q, k, v, *given.values()))
    return (o, lse) if return_lse else o


def _described(array):
    return array.dtype.name, "cpu", array.shape


def _named(options: _Options, names, extras) -> Dict[str, Any]:
    """The named arguments for describing a call."""
    named: Dict[str, Any] = {name: value for name, value in options._asdict().items() if value is not None}
    named.update((name, _described(array)) for name, array in zip(names, extras))
    return named


def _forward(options: _Options, q, k, v, extras):
    """(O, LSE) from XLA's foreign function."""
    names = tuple(name for name in _ARRAYS if name in extras)
    return varying(_call_of(options, names)(q, k, v, *(extras[name] for name in names)), q)


@functools.lru_cache(maxsize=None)
def _call_of(options: _Options, names: Tuple[str, ...]):
    """A function of q, k, v and the arrays of these names; vmap folds its axis into the batch."""

    def call(q, k, v, *extras):
        named = _named(options, names, extras)
        shape, lse_shape, problem = _core.describe(_described(q), _described(k), _described(v), return_lse=True, **named)
        results = [jax.ShapeDtypeStruct(shape, q.dtype), jax.ShapeDtypeStruct(lse_shape, jnp.float32)]
        foreign = jax.ffi.ffi_call(_TARGET, results, vmap_method="sequential")
        return tuple(foreign(q, k, v, *extras, problem=np.frombuffer(problem, np.int64)))

    def shared(*arrays):
        jax.eval_shape(call, *arrays)  # report mistakes before deciding how to split the arrays
        return _jax_sharding.split_over_devices(call, _jax_sharding.arrays_of(options.layout, names,
                                                                             [x.shape for x in arrays]), arrays)

    mapped = jax.custom_batching.custom_vmap(shared)

    @mapped.def_vmap
    def rule(size, batched, *arrays):
        whole = [x if along else jnp.broadcast_to(x, (size, *x.shape)) for x, along in zip(arrays, batched)]
        given = dict(zip(names, batched[3:]))
        if given.get("sinks") or {"cu_seqlens_q", "cu_seqlens_k", "page_table"} & set(names):  # no batch to fold into
            return jax.lax.map(lambda each: mapped(*each), tuple(whole)), (True, True)
        batch = arrays[0].shape[int(batched[0])]
        extras = [x if name == "sinks" else _fold_extra(name, y, batch) for name, x, y in
                  zip(names, arrays[3:], whole[3:])]
        folded = mapped(*(x.reshape(-1, *x.shape[2:]) for x in whole[:3]), *extras)
        return tuple(x.reshape(size, batch, *x.shape[1:]) for x in folded), (True, True)

    return mapped


def _fold_extra(name, x, batch):
    """An array with vmap's axis before its own axes, folded into the batch."""
    own = {"bias": 4, "alibi": 2, "lens_k": 1, "starts_k": 1, "q_offset": 1, "k_offset": 1}[name]
    x = x.reshape(x.shape[0], *(1,) * (own + 1 - x.ndim), *x.shape[1:])
    return jnp.broadcast_to(x, (x.shape[0], batch, *x.shape[2:])).reshape(-1, *x.shape[2:])


# ------------------------------------------------------------------------------------------------- gradients


@functools.lru_cache(maxsize=None)
def _gradients_of(options: _Options, names: Tuple[str, ...], wanted: Tuple[str, ...]):
    """A function of q, k, v, the arrays of these names, o, lse and d_o: the gradients of q, k, v and of the wanted
    ones."""
    flags = {f"d_{name}": True for name in wanted}

    def call(*arrays):
        extras, of_forward = arrays[3:-3], arrays[-3:]
        described = [_described(x) for x in (*arrays[:3], *of_forward)]
        results, problem = _core.describe_backward(*described, **_named(options, names, extras), **flags)
        structs = [jax.ShapeDtypeStruct(shape, dtype) for shape, dtype in results]
        foreign = jax.ffi.ffi_call(_BACKWARD_TARGET, structs, vmap_method="sequential")
        return tuple(foreign(*arrays, problem=np.frombuffer(problem, np.int64)))

    def shared(*arrays):
        shapes = [x.shape for x in arrays]
        forward = _jax_sharding.arrays_of(options.layout, names, shapes[:3 + len(names)])
        return _jax_sharding.split_over_devices(
            call, _jax_sharding.arrays_of_gradients(forward, names, wanted, shapes), arrays)

    mapped = jax.custom_batching.custom_vmap(shared)

    @mapped.def_vmap
    def rule(size, batched, *arrays):
        """vmap's axis becomes part of the batch; entries are computed one by one if that would mix their gradients."""
        whole = [x if along else jnp.broadcast_to(x, (size, *x.shape)) for x, along in zip(arrays, batched)]
        given = dict(zip(names, batched[3:]))
        results = (True,) * (3 + len(wanted))
        if wanted or given.get("sinks") or {"cu_seqlens_q", "cu_seqlens_k"} & set(names):
            return jax.lax.map(lambda each: mapped(*each), tuple(whole)), results
        batch = arrays[0].shape[int(batched[0])]
        last = 3 + len(names)
        extras = [x if name == "sinks" else _fold_extra(name, y, batch) for name, x, y in
                  zip(names, arrays[3:last], whole[3:last])]
        own = [x.reshape(-1, *x.shape[2:]) for x in (*whole[:3], *whole[last:])]
        folded = mapped(*own[:3], *extras, *own[3:])
        return tuple(x.reshape(size, batch, *x.shape[1:]) for x in folded), results

    return mapped


_COLUMNS = 8  # keeps rows aligned


def _with_columns(options, packed, v, o, d_o, d_lse):
    """V, O and d_o with columns that make the gradient of the log-sums part of the product of d_o and O per row."""
    if v.shape[-1] + _COLUMNS > 256:
        raise UnsupportedError(f"the gradient of the log-sum-exp is computed for values of up to {256 - _COLUMNS} columns, "
                               f"not {v.shape[-1]}: use jax.lax.stop_gradient")
    left = (d_lse.swapaxes(-1, -2) if packed or options.layout == "bshd" else d_lse)[..., None].astype(jnp.float32)
    step = _steps(left) if d_o.dtype == jnp.float16 else jnp.ones_like(left)
    left, terms = left / step, []
    for _ in range(3):  # enough terms for the digits of float32
        terms.append(left.astype(d_o.dtype))
        left = left - terms[-1].astype(jnp.float32)

    def widened(x, count):  # V may have another number of axes: one of q and k may be packed alone
        return jnp.pad(x, [(0, 0)] * (x.ndim - 1) + [(0, count)])

    minus = jnp.broadcast_to((-step).astype(o.dtype), (*o.shape[:-1], _COLUMNS))
    return (widened(v, _COLUMNS), jnp.concatenate([o, minus], -1),
            widened(jnp.concatenate([d_o, *terms], -1), _COLUMNS - len(terms)))


def _steps(d_lse):
    """A power of two in float16 for each number: divided by it, the number has all its digits in three terms of float16,
    from 2^-24 to 2^31 in size, and fewer down to 2^-48. float16 itself ends at 65504."""
    exponents = (jax.lax.bitcast_convert_type(d_lse, jnp.int32) >> 23 & 255) - 12
    return jax.lax.bitcast_convert_type(jnp.clip(exponents, 127 - 24, 127 + 15) << 23, jnp.float32)


def _of_sinks(options, extras, o, lse, d_o, d_lse):
    """The gradient of the sinks through O and the log-sums, whose share of a row is exp(sink - log-sum)."""
    packed = "cu_seqlens_q" in extras
    product = (d_o.astype(jnp.float32) * o.astype(jnp.float32)).sum(-1)
    product = product.swapaxes(-1, -2) if packed or options.layout == "bshd" else product  # as lse lies
    share = jnp.where(lse == -jnp.inf, 0.0, jnp.exp(extras["sinks"].astype(jnp.float32)[:, None] - lse))
    terms = share * (d_lse.astype(jnp.float32) - product)
    if packed:  # rows behind the last sequence hold anything
        return jnp.where(jnp.arange(lse.shape[1]) < extras["cu_seqlens_q"][-1], terms, 0.0).sum(-1).astype(extras["sinks"].dtype)
    return terms.sum((0, 2)).astype(extras["sinks"].dtype)


@functools.partial(jax.custom_vjp, nondiff_argnums=(0,))
def _attention(options, q, k, v, extras):
    return _forward(options, q, k, v, extras)


def _keep(options, q, k, v, extras):
    """Arguments record whether a gradient is requested for them; those of extras are named by the keys of a
    dictionary."""
    values = {name: each.value for name, each in extras.items()}
    wanted = {name: None for name, each in extras.items() if each.perturbed and name in ("bias", "sinks", "alibi") and
              jnp.issubdtype(each.value.dtype, jnp.floating)}
    o, lse = _attention(options, q.value, k.value, v.value, values)
    o = _zeroed(o, values.get("cu_seqlens_q"))
    return (o, lse), (q.value, k.value, v.value, values, o, lse, wanted)


def _zeroed(x, starts):
    """x with 0 in the rows that belong to no sequence, which no kernel writes: NaN there would spoil sums over the rows."""
    return x if starts is None else jnp.where((jnp.arange(x.shape[0]) < starts[-1])[:, None, None], x, 0)


def _has_no_pair(options, q, k, extras):
    """Whether no row sees a key by the sizes alone. Packed arrays may have rows of no sequence."""
    return q.size == 0 or k.size == 0 or ("cu_seqlens_q" in extras and options.max_seqlen_q == 0) or \
        ("cu_seqlens_k" in extras and options.max_seqlen_k == 0)


def _nothing(extras):
    """Zero gradients; those of integers have their own type."""
    return {name: jnp.zeros_like(x) if jnp.issubdtype(x.dtype, jnp.floating) else np.zeros(x.shape, jax.dtypes.float0)
            for name, x in extras.items()}


def _backward(options, kept, gradients):
    q, k, v, extras, o, lse, asked = kept
    if "page_table" in extras:
        raise UnsupportedError("attest.jax has no gradient with page_table")
    names = tuple(name for name in _ARRAYS if name in extras)
    wanted = tuple(name for name in ("bias", "sinks", "alibi") if name in asked)
    d_o, d_lse = (None if isinstance(x, jax.custom_derivatives.SymbolicZero) else x for x in gradients)
    d_o = jnp.zeros_like(o) if d_o is None else d_o
    own_v, of_sinks = v, {}
    if d_lse is not None:
        if "sinks" in wanted:  # kernels leave out rows that see no key, whose log-sum is the sink
            of_sinks = {"sinks": varying(_of_sinks(options, extras, o, lse, d_o, d_lse), q)}
            wanted = tuple(name for name in wanted if name != "sinks")
        v, o, d_o = _with_columns(options, "cu_seqlens_q" in extras, v, o, d_o, d_lse)
    if _has_no_pair(options, q, k, extras):  # no batch entry would write what all share
        return varying((jnp.zeros_like(q), jnp.zeros_like(k), jnp.zeros_like(own_v)), q) + ({**_nothing(extras), **of_sinks},)
    found = _gradients_of(options, names, wanted)(q, k, v, *(extras[name] for name in names), o, lse, d_o)
    d_q, d_k, d_v, *others = varying(found, q)
    d_q, d_k, d_v = (_zeroed(x, extras.get(f"cu_seqlens_{side}")) for x, side in zip((d_q, d_k, d_v), "qkk"))
    return d_q, d_k, d_v[..., :own_v.shape[-1]], {**_nothing(extras), **dict(zip(wanted, others)), **of_sinks}


_attention.defvjp(_keep, _backward, symbolic_zeros=True)
