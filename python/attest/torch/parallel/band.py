"""band.py: what a piece of rows sees of a piece of keys, as one call with the diagonal at the top left.

Row i of the part sees the keys j with low <= j - i <= high. Rows and keys that have no part in it are cut off; then
low <= 0 <= high, which is a window around the diagonal of the first row and the first key.
"""

from __future__ import annotations

from typing import NamedTuple, Optional, Tuple


class Mask(NamedTuple):
    """Of the whole sequence; the same on every rank."""

    causal: bool = False
    left: Optional[int] = None  # keys seen left of the diagonal
    right: Optional[int] = None
    shift: int = 0  # the key on the diagonal of row 0
    documents: Optional[Tuple[int, ...]] = None  # where packed sequences begin, and the end of the last


class Band(NamedTuple):
    """The part of two pieces that is computed; counted from their beginnings."""

    rows: Tuple[int, int]
    keys: Tuple[int, int]
    left: Optional[int]  # of the diagonal of its first row and first key
    right: Optional[int]
    documents: Optional[Tuple[int, ...]] = None  # packed sequences in it, rows and keys alike


def band_of(mask: Mask, rows: Tuple[int, int], keys: Tuple[int, int]) -> Optional[Band]:
    """Of rows and keys of these positions, first and end; None where no row sees a key."""
    if rows[0] >= rows[1] or keys[0] >= keys[1]:
        return None
    if mask.documents is None:
        return _banded(mask, rows, keys, rows, keys)
    if rows == keys:
        return _packed(mask, rows)
    for first, end in zip(mask.documents, mask.documents[1:]):  # pieces that do not overlap share at most one
        seen_rows, seen_keys = _within(rows, first, end), _within(keys, first, end)
        if seen_rows[0] < seen_rows[1] and seen_keys[0] < seen_keys[1]:
            return _banded(mask, seen_rows, seen_keys, rows, keys)
    return None


def _within(positions: Tuple[int, int], first: int, end: int) -> Tuple[int, int]:
    return max(positions[0], first), min(positions[1], end)


def _banded(mask, rows, keys, rows_of_piece, keys_of_piece) -> Optional[Band]:
    count_rows, count_keys = rows[1] - rows[0], keys[1] - keys[0]
    diagonal = rows[0] + mask.shift - keys[0]
    rights = ([0] if mask.causal else []) + ([] if mask.right is None else [mask.right])
    high = diagonal + min(rights) if rights else count_keys
    low = -count_rows if mask.left is None else diagonal - mask.left
    first_row, end_row = max(0, -high), min(count_rows, count_keys - low)
    first_key, end_key = max(0, low), min(count_keys, count_rows + high)
    if first_row >= end_row or first_key >= end_key:
        return None
    moved = first_row - first_key
    low, high = low + moved, high + moved
    before_rows, before_keys = rows[0] - rows_of_piece[0], keys[0] - keys_of_piece[0]
    return Band((before_rows + first_row, before_rows + end_row), (before_keys + first_key, before_keys + end_key),
                None if -low >= end_row - first_row - 1 else -low, None if high >= end_key - first_key - 1 else high)


def _packed(mask: Mask, rows: Tuple[int, int]) -> Band:
    """Of a piece with itself: the documents in it side by side."""
    ends = {max(rows[0], min(rows[1], at)) - rows[0] for at in mask.documents}
    count = rows[1] - rows[0]
    starts = tuple(sorted(ends | {0, count}))
    rights = ([0] if mask.causal else []) + ([] if mask.right is None else [mask.right])
    return Band((0, count), (0, count), mask.left, min(rights) if rights else None, starts if len(starts) > 2 else None)
