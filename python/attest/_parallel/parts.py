"""parts.py: which rank computes and sends what: the parts of a cut with a mask, each a piece of rows x a piece of
keys. Only numbers."""

from __future__ import annotations

from functools import lru_cache
from typing import Dict, FrozenSet, List, Optional, Tuple

from .band import Band, Mask, band_of
from .layout import Layout
from .tree import Node, nodes_of


class Parts:
    """The parts of a call, the same on every rank."""

    def __init__(self, cut_q: Layout, cut_k: Layout, mask: Mask) -> None:
        self.cut_q, self.cut_k, self.mask = cut_q, cut_k, mask
        rows, keys = _spans(cut_q), _spans(cut_k)
        self._bands: Dict[Tuple[int, int], Band] = {}
        for i, of_rows in enumerate(rows):
            for j, of_keys in enumerate(keys):
                band = band_of(mask, of_rows, of_keys)
                if band is not None:
                    self._bands[i, j] = band
        self.keys_of = [frozenset(j for j in range(len(keys)) if (i, j) in self._bands) for i in range(len(rows))]
        self.rows_of = [frozenset(i for i in range(len(rows)) if (i, j) in self._bands) for j in range(len(keys))]

    def band(self, rows: int, keys: int) -> Optional[Band]:
        return self._bands.get((rows, keys))

    @lru_cache(maxsize=None)  # noqa: B019, of an object that is itself kept in a cache
    def wanted(self, rank: int, owner: int) -> Tuple[int, ...]:
        """The key pieces of `owner` that rows of `rank` see."""
        own = self._rows(rank)
        return tuple(j for j in self.cut_k.pieces_of(owner) if own & self.rows_of[j])

    @lru_cache(maxsize=None)  # noqa: B019
    def gifts(self, rank: int, owner: int) -> Tuple[Tuple[int, Node], ...]:
        """(key piece of `owner`, node) for each sum of gradients that `rank` has for it."""
        count, own = len(self.cut_q.lengths), self._rows(rank)
        return tuple((j, node) for j in self.wanted(rank, owner) for node in nodes_of(count, self.rows_of[j], own))

    def _rows(self, rank: int) -> FrozenSet[int]:
        return frozenset(self.cut_q.pieces_of(rank))


def _spans(cut: Layout) -> List[Tuple[int, int]]:
    starts = cut.starts
    return list(zip(starts, starts[1:]))


parts_of = lru_cache(maxsize=64)(Parts)
