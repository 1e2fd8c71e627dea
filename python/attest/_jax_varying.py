"""_jax_varying.py: the mesh axes along which a value differs between devices, from shard_map's types in releases of
JAX that check them."""

from __future__ import annotations

from typing import Any, FrozenSet

import jax
from jax import lax


def _axes(x: Any) -> FrozenSet[str]:
    kind = jax.typeof(x) if hasattr(jax, "typeof") else None
    told = getattr(kind, "manual_axis_type", None)  # from 0.10 on; before that the type itself has it
    return getattr(kind, "vma", frozenset()) if told is None else told.varying


def _marked(x: Any, wanted: FrozenSet[str]) -> Any:
    missing = tuple(sorted(wanted - _axes(x)))
    if not missing:
        return x
    return lax.pcast(x, missing, to="varying") if hasattr(lax, "pcast") else lax.pvary(x, missing)


def varying(arrays: Any, *like: Any) -> Any:
    """The arrays, marked as differing between devices wherever one of `like` does. Nothing is computed."""
    wanted = frozenset().union(*map(_axes, like))
    return jax.tree.map(lambda x: _marked(x, wanted), arrays)
