"""ring_pieces.py: one part, a piece of rows with a piece of keys, forward and backward, with attest's foreign
functions.

A part's O is float32, so that merging rounds nothing; its gradients are sums over its own keys, with O and the log-sums
of the whole row. Arrays are (batch, heads, rows, d).
"""

from __future__ import annotations

from typing import Any, Dict, NamedTuple, Optional, Tuple

import jax
import jax.numpy as jnp
import numpy as np

from ... import _core
from ..._jax_varying import varying
from ..._parallel.band import Band

Partial = Tuple[jax.Array, jax.Array]  # O in float32 and the log-sums, for all rows of a piece
Gradients = Tuple[jax.Array, jax.Array, jax.Array]  # of q, k and v in float32, for all rows and keys of the pieces


class Options(NamedTuple):
    """Options for the scores; part of the program."""

    scale: float
    softcap: Optional[float]


Lengths = Dict[str, jax.Array]  # lens_k and starts_k, counted from the first key of the whole sequence


def _described(x: jax.Array) -> Tuple[str, str, Tuple[int, ...]]:
    return x.dtype.name, "cpu", x.shape


def _named(band: Band, options: Options) -> Dict[str, Any]:
    named: Dict[str, Any] = {"scale": options.scale, **band.arguments()}
    if options.softcap is not None:
        named["softcap"] = options.softcap
    return named


def _within(lengths: Lengths, first: Any, count: int) -> Lengths:
    """The lengths for keys first .. first + count - 1, counted from `first`; in XLA's argument order."""
    return {name: jnp.clip(lengths[name] - first, 0, count).astype(jnp.int32) for name in ("lens_k", "starts_k")
            if name in lengths}


def _foreign(operation: str, results, arrays, problem: bytes):
    structs = [jax.ShapeDtypeStruct(shape, dtype) for shape, dtype in results]
    call = jax.ffi.ffi_call(f"attest_{operation}", structs, vmap_method="sequential")
    return tuple(varying(call(*arrays, problem=np.frombuffer(problem, np.int64)), *arrays))


def forward(q, k, v, lengths: Lengths, first_key: Any, band: Band, options: Options) -> Partial:
    """O and the log-sums of all rows of q over the keys of k in the band; first_key: the position of the first key
    in k."""
    rows, keys = slice(*band.rows), slice(*band.keys)
    part = q[:, :, rows], k[:, :, keys], v[:, :, keys]
    used = _within(lengths, first_key + band.keys[0], band.keys[1] - band.keys[0])
    out = (*part[0].shape[:3], v.shape[3])
    shape, lse_shape, problem = _core.describe(*map(_described, part), return_lse=True, out=("float32", "cpu", out),
                                               **_named(band, options), **{name: _described(x) for name, x in used.items()})
    o, lse = _foreign("attention", [(shape, "float32"), (lse_shape, "float32")], (*part, *used.values()), problem)
    if band.rows == (0, q.shape[2]):
        return o, lse
    nothing_o, nothing_lse = nothing(q, v)
    return nothing_o.at[:, :, rows].set(o), nothing_lse.at[:, :, rows].set(lse)


def nothing(q, v) -> Partial:
    """The result for rows that see no key."""
    return varying((jnp.zeros((*q.shape[:3], v.shape[3]), jnp.float32), jnp.full(q.shape[:3], -jnp.inf, jnp.float32)), q, v)


def merge(left: Partial, right: Partial) -> Partial:
    """Merge the results of two sets of keys, those of `left` before those of `right`."""
    shape, lse_shape = left[0].shape, left[1].shape
    return _foreign("merge", [(shape, "float32"), (lse_shape, "float32")], (left[0], right[0], left[1], right[1]),
                    _core.describe_merge(2, *shape))


def with_sinks(part: Partial, sinks) -> Partial:
    """A sink is a key whose value is 0."""
    o, lse = part
    return merge((jnp.zeros_like(o), jnp.broadcast_to(sinks.astype(jnp.float32)[None, :, None], lse.shape)), part)


def backward(q, k, v, o, lse, d_o, lengths: Lengths, first_key: Any, band: Band, options: Options) -> Gradients:
    """The gradients of the band; o and lse are those of the whole rows."""
    rows, keys = slice(*band.rows), slice(*band.keys)
    part = q[:, :, rows], k[:, :, keys], v[:, :, keys]
    of_rows = o[:, :, rows], lse[:, :, rows], d_o[:, :, rows]
    used = _within(lengths, first_key + band.keys[0], band.keys[1] - band.keys[0])
    results, problem = _core.describe_backward(*map(_described, (*part, *of_rows)), grad_dtype="float32", **_named(band, options),
                                               **{name: _described(x) for name, x in used.items()})
    found = _foreign("backward", results, (*part, *used.values(), *of_rows), problem)
    return tuple(x if x.shape == none.shape else none.at[:, :, place].set(x)
                 for x, none, place in zip(found, no_gradients(q, k, v), (rows, keys, keys)))


def no_gradients(q, k, v) -> Gradients:
    return varying(tuple(jnp.zeros(x.shape, jnp.float32) for x in (q, k, v)), q, k, v)
