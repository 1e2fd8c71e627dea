"""ring_attention.py: attention(), its arguments and its derivative."""

from __future__ import annotations

import functools
import math
from typing import Any, Dict, Optional, Tuple, Union

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from ..._jax_varying import varying
from ..._parallel.band import mask_of
from ..._parallel.parts import parts_of
from . import ring
from .mesh_cut import Cut
from .ring import Job
from .ring_pieces import Options
from .schedule import schedule_of


def attention(q: Any, k: Any, v: Any, cut: Cut, *, axis_name: str, cut_k: Optional[Cut] = None,
              causal: Union[None, bool, str] = None, window: Optional[Tuple[Optional[int], Optional[int]]] = None,
              align: Optional[str] = None, scale: Optional[float] = None, softcap: Optional[float] = None, alibi: Any = None,
              sinks: Any = None, lens_k: Any = None, starts_k: Any = None, layout: str = "bhsd", return_lse: bool = False) -> Any:
    """Attention of this device's rows over the keys of all devices of a mesh axis, inside jax.shard_map.

    q, k, v          (batch, heads, rows of this device, d), or as `layout` says; k and v may have fewer heads
    cut              which device has which rows: zigzag() or contiguous()
    axis_name        the mesh axis along which the rows are split; the cut must have as many ranks
    cut_k            the cut of the keys, if it differs
    lens_k, starts_k (batch,), int32: used keys, counted in the whole sequence; the diagonal is then at the top left
    sinks, alibi     (heads,); slopes also (batch, heads). The same on every device; shard_map sums their gradients

    The others are those of attest.jax.attention(), for the whole sequence. Differentiable in q, k, v, sinks and alibi,
    through O; not twice.
    """
    cut_k = cut if cut_k is None else cut_k
    if layout not in ("bhsd", "bshd"):
        raise ValueError(f"layout is {layout!r}; expected 'bhsd' or 'bshd'")
    if layout == "bshd":
        q, k, v = (x.swapaxes(1, 2) for x in (q, k, v))
    _check(q, k, v, cut, cut_k, axis_name)
    mask = mask_of(cut, cut_k, causal, window, align, None, lens_k is not None or starts_k is not None)
    options = Options(1.0 / math.sqrt(q.shape[-1]) if scale is None else float(scale), None if not softcap else float(softcap), mask)
    job = Job(axis_name, schedule_of(parts_of(cut, cut_k, mask)), options)
    given = (("sinks", sinks), ("alibi", alibi), ("lens_k", lens_k), ("starts_k", starts_k))
    extras = {name: jnp.asarray(x) for name, x in given if x is not None}
    for name in ("lens_k", "starts_k"):
        if name in extras and not jnp.issubdtype(extras[name].dtype, jnp.integer):
            raise TypeError(f"{name} is {extras[name].dtype}; expected integers")
    extras.update({name: extras[name].astype(jnp.float32) for name in _LEARNED if name in extras})
    o, lse = _attention(job, *varying((q, k, v, extras), q, k, v))
    o = o.swapaxes(1, 2) if layout == "bshd" else o
    return (o, lax.stop_gradient(lse)) if return_lse else o


def _check(q, k, v, cut: Cut, cut_k: Cut, axis_name: str) -> None:
    ranks = lax.axis_size(axis_name) if hasattr(lax, "axis_size") else lax.psum(1, axis_name)
    for name, each, x in (("cut", cut, q), ("cut_k", cut_k, k), ("cut_k", cut_k, v)):
        if each.ranks != ranks:
            raise ValueError(f"{name} is for {each.ranks} devices, the axis {axis_name!r} has {ranks}")
        if len(set(each.lengths)) != 1 or len({each.rows_of(rank) for rank in range(ranks)}) != 1:
            raise ValueError(f"{name} has shards or pieces of different length: zigzag() and contiguous() make equal ones")
        if x.ndim != 4 or x.shape[2] != each.rows // ranks:
            raise ValueError(f"an array is {x.shape}; expected four axes, and {each.rows // ranks} rows on each device")


_LEARNED = ("sinks", "alibi")  # float32, with gradients


def _parted(extras: Dict[str, jax.Array]):
    return extras.get("sinks"), {name: x for name, x in extras.items() if name != "sinks"}


@functools.partial(jax.custom_vjp, nondiff_argnums=(0,))
def _attention(job: Job, q, k, v, extras):
    o, lse = ring.forward(job, q, k, v, *_parted(extras))
    return o.astype(q.dtype), lse


def _keep(job: Job, q, k, v, extras):
    o, lse = _attention(job, q, k, v, extras)
    return (o, lse), (q, k, v, extras, o, lse)


def _backward(job: Job, kept, gradients):
    q, k, v, extras, o, lse = kept
    d_o = gradients[0]
    sinks, others = _parted(extras)
    *found, d_alibi = (*ring.backward(job, q, k, v, o, lse, d_o, others), None)[:4]
    of_extras: Dict[str, Any] = {name: np.zeros(x.shape, jax.dtypes.float0) for name, x in others.items()}
    if d_alibi is not None:
        of_extras["alibi"] = d_alibi
    if sinks is not None:
        along = (d_o.astype(jnp.float32) * o.astype(jnp.float32)).sum(-1)
        shares = jnp.where(lse == -jnp.inf, 0, jnp.exp(sinks[None, :, None] - lse))  # 0 for rows that see nothing
        of_extras["sinks"] = -(shares * along).sum((0, 2))
    return (*(x.astype(like.dtype) for x, like in zip(found, (q, k, v))), of_extras)


# Without symbolic_zeros, which an eager shard_map does not have: the gradient of slopes is computed wherever there are any.
_attention.defvjp(_keep, _backward)
