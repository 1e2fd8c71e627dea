"""band.py: what a piece of rows sees of a piece of keys, as one call with the diagonal at the top left.

Row i of the part sees the keys j with low <= j - i <= high. Rows and keys that take no part are cut off; then
low <= 0 <= high, which is a window around the diagonal of the first row and the first key.
"""

from __future__ import annotations

import operator
from typing import Any, Dict, NamedTuple, Optional, Tuple

from .layout import Layout


class Mask(NamedTuple):
    """The mask of the whole sequence; the same on every rank."""

    causal: bool = False
    left: Optional[int] = None  # keys visible left of the diagonal
    right: Optional[int] = None
    shift: int = 0  # the key on the diagonal of row 0
    documents: Optional[Tuple[int, ...]] = None  # start positions of packed sequences, and the end of the last

    @property
    def nearest_right(self) -> Optional[int]:
        """How far right of the diagonal keys are visible; None: to the end."""
        sides = ([0] if self.causal else []) + ([] if self.right is None else [self.right])
        return min(sides, default=None)


def _sides(window: Any) -> Tuple[Optional[int], Optional[int]]:
    """The pair (left, right) of a call, None for no limit."""
    if window is None:
        return None, None
    try:
        left, right = (-1 if side is None else operator.index(side) for side in window)
    except (TypeError, ValueError):
        left, right = -2, -2
    if min(left, right) < -1:
        raise ValueError(f"window is {window!r}; expected a pair (left, right) of keys, None or -1 for no limit")
    return None if left == -1 else left, None if right == -1 else right


def mask_of(cut: Layout, cut_k: Layout, causal: Any, window: Any, align: Any, documents: Any, has_lengths: bool) -> Mask:
    """The mask of the whole sequence from the arguments of a call; rows and keys are counted from its beginning."""
    side = align if causal in (None, False, True) else causal
    left, right = _sides(window)
    diagonal = bool(causal) or left is not None or right is not None
    if side not in (None, "top-left", "bottom-right"):
        raise ValueError(f"{'causal' if side == causal else 'align'} is {side!r}; expected 'top-left' or 'bottom-right'")
    if diagonal and side is None and cut.rows != cut_k.rows:
        raise ValueError(f"q has {cut.rows} rows and k {cut_k.rows}: say 'top-left' or 'bottom-right'")
    if diagonal and side == "bottom-right" and has_lengths:
        raise ValueError("lens_k and starts_k need a diagonal at the top left; expected 'top-left'")
    if documents is not None:
        documents = tuple(int(each) for each in documents)
        if cut != cut_k or has_lengths:
            raise ValueError("documents cannot be combined with cut_k, lens_k or starts_k")
        if not documents or documents[0] != 0 or documents[-1] != cut.rows or any(a > b for a, b in zip(documents, documents[1:])):
            raise ValueError(f"documents are {documents}; expected numbers from 0 to {cut.rows}, non-decreasing")
    return Mask(bool(causal), left, right, cut_k.rows - cut.rows if side == "bottom-right" else 0, documents)


class Band(NamedTuple):
    """The part of two pieces that is computed; counted from their beginnings."""

    rows: Tuple[int, int]
    keys: Tuple[int, int]
    left: Optional[int]  # relative to the diagonal of its first row and first key
    right: Optional[int]
    documents: Optional[Tuple[int, ...]] = None  # packed sequences in it, the same for rows and keys
    distance: int = 0  # of its first row's position from its first key's, in the whole sequence

    def placed(self) -> Dict[str, Any]:
        """The same keys, with rows and keys at their positions: for slopes, which count distances."""
        left = None if self.left is None else self.left + self.distance
        right = None if self.right is None else self.right - self.distance
        return {**self._around(left, right), "q_offset": max(0, self.distance), "k_offset": max(0, -self.distance)}

    def placed_anywhere(self, mask: "Mask") -> Dict[str, Any]:
        """placed() without the offsets, which the caller knows: the diagonal is that of the whole sequence."""
        return self._around(None if self.left is None else mask.left, None if self.right is None else mask.nearest_right)

    def _around(self, left: Optional[int], right: Optional[int]) -> Dict[str, Any]:
        named = Band(self.rows, self.keys, left, right).arguments()
        return named if "causal" in named else {**named, "align": "top-left"}

    def arguments(self) -> Dict[str, Any]:
        """Its diagonal, as attest.attention() takes it."""
        if self.right == 0:
            return {"causal": "top-left"} if self.left is None else {"causal": "top-left", "window": (self.left, None)}
        if self.left is None and self.right is None:
            return {}
        return {"window": (self.left, self.right), "align": "top-left"}


def band_of(mask: Mask, rows: Tuple[int, int], keys: Tuple[int, int]) -> Optional[Band]:
    """The band of rows and keys with these positions (first, end); None if no row sees a key."""
    if rows[0] >= rows[1] or keys[0] >= keys[1]:
        return None
    if mask.documents is None:
        return _banded(mask, rows, keys, rows, keys)
    if rows == keys:
        return _packed(mask, rows)
    for first, end in zip(mask.documents, mask.documents[1:]):  # disjoint pieces share at most one
        seen_rows, seen_keys = _within(rows, first, end), _within(keys, first, end)
        if seen_rows[0] < seen_rows[1] and seen_keys[0] < seen_keys[1]:
            return _banded(mask, seen_rows, seen_keys, rows, keys)
    return None


def _within(positions: Tuple[int, int], first: int, end: int) -> Tuple[int, int]:
    return max(positions[0], first), min(positions[1], end)


def _banded(mask, rows, keys, rows_of_piece, keys_of_piece) -> Optional[Band]:
    count_rows, count_keys = rows[1] - rows[0], keys[1] - keys[0]
    diagonal = rows[0] + mask.shift - keys[0]
    high = count_keys if mask.nearest_right is None else diagonal + mask.nearest_right
    low = -count_rows if mask.left is None else diagonal - mask.left
    first_row, end_row = max(0, -high), min(count_rows, count_keys - low)
    first_key, end_key = max(0, low), min(count_keys, count_rows + high)
    if first_row >= end_row or first_key >= end_key:
        return None
    moved = first_row - first_key
    low, high = low + moved, high + moved
    before_rows, before_keys = rows[0] - rows_of_piece[0], keys[0] - keys_of_piece[0]
    return Band((before_rows + first_row, before_rows + end_row), (before_keys + first_key, before_keys + end_key),
                None if -low >= end_row - first_row - 1 else -low, None if high >= end_key - first_key - 1 else high,
                distance=diagonal + moved)


def _packed(mask: Mask, rows: Tuple[int, int]) -> Band:
    """A piece with itself: its documents as packed sequences."""
    ends = {max(rows[0], min(rows[1], at)) - rows[0] for at in mask.documents}
    count = rows[1] - rows[0]
    starts = tuple(sorted(ends | {0, count}))
    return Band((0, count), (0, count), mask.left, mask.nearest_right, starts if len(starts) > 2 else None)
