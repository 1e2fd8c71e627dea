"""mesh_cut.py: which device has which rows of a sequence, and helpers that put arrays into that order and back.

Devices of a mesh axis have equal shards: the same number of pieces, all of one length.
"""

from __future__ import annotations

from typing import Any, Optional, Sequence

import jax
import jax.numpy as jnp
import numpy as np

from ..._parallel import layout


class Cut(layout.Layout):
    """Pieces of a sequence, in order. A device holds its pieces one after the other, in the same order.

    Answers depend only on the pieces, not on which device holds them: the same pieces on another number of devices give
    the same bits.
    """

    __slots__ = ()

    def __new__(cls, lengths: Sequence[int], owners: Sequence[int], ranks: int) -> "Cut":
        return super().__new__(cls, *layout.checked(lengths, owners, ranks))

    def _order(self) -> np.ndarray:
        """The position of each row, in the order of the shards."""
        starts = self.starts
        return np.concatenate([np.arange(starts[piece], starts[piece + 1]) for rank in range(self.ranks)
                               for piece in self.pieces_of(rank)])

    def shard(self, x: Any, axis: int = 1) -> jax.Array:
        """All rows, grouped by device: a PartitionSpec that splits `axis` evenly then gives the shards."""
        return self._taken(x, axis, self._order())

    def join(self, x: Any, axis: int = 1) -> jax.Array:
        """The rows in the order of the sequence: the inverse of shard()."""
        return self._taken(x, axis, np.argsort(self._order()))

    def positions(self) -> jax.Array:
        """The position in the sequence of each row, in the order of the shards: position ids, to be sharded like the
        tokens."""
        return jnp.asarray(self._order(), jnp.int32)

    def _taken(self, x: Any, axis: int, order: np.ndarray) -> jax.Array:
        if x.shape[axis] != self.rows:
            raise ValueError(f"x has {x.shape[axis]} rows along axis {axis}, the cut {self.rows}")
        return jnp.take(x, order, axis)


def _checked(found: layout.Layout) -> Cut:
    count = len(found.lengths)
    if found.rows % count:
        raise ValueError(f"rows is {found.rows}; expected a multiple of {count}, the number of pieces")
    return Cut(*found)


def contiguous(rows: int, ranks: int, pieces: Optional[int] = None) -> Cut:
    """Every device has adjacent rows: for attention without `causal`.

    pieces  a multiple of `ranks`, and a divisor of `rows`; `ranks` by default. The same number on fewer devices
            gives the same bits.
    """
    return _checked(layout.contiguous(rows, ranks, pieces))


def zigzag(rows: int, ranks: int, pieces: Optional[int] = None) -> Cut:
    """Every device has rows from the beginning and as many from the end, which balances causal attention.

    pieces  a multiple of 2 x `ranks`, and a divisor of `rows`; 2 x `ranks` by default. The same number on fewer
            devices gives the same bits.
    """
    return _checked(layout.zigzag(rows, ranks, pieces))
