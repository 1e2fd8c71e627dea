"""mesh_cut.py: which device has which rows of a sequence, and helpers that put arrays into that order and back.

Devices of a mesh axis have equal shards: as many pieces each, of one length.
"""

from __future__ import annotations

from typing import Any, Optional

import jax
import jax.numpy as jnp
import numpy as np

from ..._parallel import layout


class Cut(layout.Layout):
    """Pieces of a sequence, in its order. A device holds its pieces one behind the other, in the same order.

    Answers depend on the pieces alone, not on who holds them: the same pieces on another number of devices give the same bits.
    """

    __slots__ = ()

    def _order(self) -> np.ndarray:
        """The position of each row, in the order of the shards."""
        starts = self.starts
        return np.concatenate([np.arange(starts[piece], starts[piece + 1]) for rank in range(self.ranks)
                               for piece in self.pieces_of(rank)])

    def shard(self, x: Any, axis: int = 1) -> jax.Array:
        """All rows, those of each device together: what a PartitionSpec then cuts evenly along `axis` are the shards."""
        return self._taken(x, axis, self._order())

    def join(self, x: Any, axis: int = 1) -> jax.Array:
        """The rows in the order of the sequence: the reverse of shard()."""
        return self._taken(x, axis, np.argsort(self._order()))

    def positions(self) -> jax.Array:
        """The position in the sequence of each row, in the order of the shards: position ids, to be cut as the tokens are."""
        return jnp.asarray(self._order(), jnp.int32)

    def _taken(self, x: Any, axis: int, order: np.ndarray) -> jax.Array:
        if x.shape[axis] != self.rows:
            raise ValueError(f"x has {x.shape[axis]} rows along axis {axis}, the cut {self.rows}")
        return jnp.take(x, order, axis)


def _checked(found: layout.Layout) -> Cut:
    count = len(found.lengths)
    if found.rows % count:
        raise ValueError(f"rows is {found.rows}: a multiple of {count}, as many as there are pieces, would fit")
    return Cut(*found)


def contiguous(rows: int, ranks: int, pieces: Optional[int] = None) -> Cut:
    """Every device has neighbouring rows: for attention without `causal`.

    pieces  a multiple of `ranks`, and a divisor of `rows`; `ranks` by default. The same number on fewer devices gives the same bits.
    """
    return _checked(layout.contiguous(rows, ranks, pieces))


def zigzag(rows: int, ranks: int, pieces: Optional[int] = None) -> Cut:
    """Every device has rows from the beginning and as many from the end, so that causal attention is equal work for all.

    pieces  a multiple of 2 x `ranks`, and a divisor of `rows`; 2 x `ranks` by default. The same number on fewer devices gives the
            same bits.
    """
    return _checked(layout.zigzag(rows, ranks, pieces))
