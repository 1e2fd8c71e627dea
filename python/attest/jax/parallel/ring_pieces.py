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
from ..._parallel.band import Band, Mask

Partial = Tuple[jax.Array, jax.Array]  # O in float32 and the log-sums, for all rows of a piece
Gradients = Tuple[jax.Array, ...]  # of q, k and v, and of slopes, in float32, for all rows and keys of the pieces


class Options(NamedTuple):
    """Options for the scores; part of the program."""

    scale: float
    softcap: Optional[float]
    mask: Mask


Extras = Dict[str, jax.Array]  # slopes, and lens_k and starts_k, counted from the first key of the whole sequence


class Place(NamedTuple):
    """Where a part is in the whole sequence; numbers of the running program."""

    first_key: Any  # the position of the first key of the piece
    distance: Any  # of the band's first row from its first key


def _described(x: jax.Array) -> Tuple[str, str, Tuple[int, ...]]:
    return x.dtype.name, "cpu", x.shape


def _named(band: Band, options: Options, extras: Extras) -> Dict[str, Any]:
    diagonal = band.placed_anywhere(options.mask) if "alibi" in extras else band.arguments()
    named: Dict[str, Any] = {"scale": options.scale, **diagonal}
    if options.softcap is not None:
        named["softcap"] = options.softcap
    return named


def _of_part(extras: Extras, q, band: Band, place: Place) -> Extras:
    """The arrays of a part, in XLA's argument order: slopes with the offsets of rows and keys, and lengths that are
    counted from the band's first key."""
    first, count = place.first_key + band.keys[0], band.keys[1] - band.keys[0]
    lengths = {name: jnp.clip(extras[name] - first, 0, count).astype(jnp.int32) for name in ("lens_k", "starts_k") if name in extras}
    if "alibi" not in extras:
        return lengths
    offsets = {name: varying(jnp.full(q.shape[0], jnp.maximum(0, sign * place.distance), jnp.int32), q)
               for name, sign in (("q_offset", 1), ("k_offset", -1))}
    return {"alibi": extras["alibi"], **lengths, **offsets}


def _foreign(operation: str, results, arrays, problem: bytes):
    structs = [jax.ShapeDtypeStruct(shape, dtype) for shape, dtype in results]
    call = jax.ffi.ffi_call(f"attest_{operation}", structs, vmap_method="sequential")
    return tuple(varying(call(*arrays, problem=np.frombuffer(problem, np.int64)), *arrays))


def forward(q, k, v, extras: Extras, place: Place, band: Band, options: Options) -> Partial:
    """O and the log-sums of all rows of q over the keys of k in the band."""
    rows, keys = slice(*band.rows), slice(*band.keys)
    part = q[:, :, rows], k[:, :, keys], v[:, :, keys]
    used = _of_part(extras, q, band, place)
    out = (*part[0].shape[:3], v.shape[3])
    shape, lse_shape, problem = _core.describe(*map(_described, part), return_lse=True, out=("float32", "cpu", out),
                                               **_named(band, options, extras), **{name: _described(x) for name, x in used.items()})
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


def backward(q, k, v, o, lse, d_o, extras: Extras, place: Place, band: Band, options: Options) -> Gradients:
    """The gradients of the band; o and lse are those of the whole rows."""
    rows, keys = slice(*band.rows), slice(*band.keys)
    part = q[:, :, rows], k[:, :, keys], v[:, :, keys]
    of_rows = o[:, :, rows], lse[:, :, rows], d_o[:, :, rows]
    used, wanted = _of_part(extras, q, band, place), {"d_alibi": True} if "alibi" in extras else {}
    results, problem = _core.describe_backward(*map(_described, (*part, *of_rows)), grad_dtype="float32",
                                               **_named(band, options, extras), **wanted,
                                               **{name: _described(x) for name, x in used.items()})
    found = _foreign("backward", results, (*part, *used.values(), *of_rows), problem)
    own = tuple(x if x.shape == none.shape else none.at[:, :, place].set(x)
                for x, none, place in zip(found, no_gradients(q, k, v), (rows, keys, keys)))
    return (*own, *found[3:])


def no_gradients(q, k, v, *slopes) -> Gradients:
    return varying(tuple(jnp.zeros(x.shape, jnp.float32) for x in (q, k, v, *slopes)), q, k, v)
