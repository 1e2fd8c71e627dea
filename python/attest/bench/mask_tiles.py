"""mask_tiles.py: what the laboratory's masks leave visible of square problems, in pairs and in tiles."""

from __future__ import annotations

TILE = 128


def _documents(s: int):
    """(first, end) of eight documents, each longer than the one before."""
    ends = [-(-s * n * n // 64) for n in range(9)]
    return zip(ends, ends[1:])


def _is_seen(mask: str, s: int, padding: int, row: int, key: int) -> bool:
    """Whether a tile of rows sees a key of a tile of keys."""
    last_row, last_key = min(s, row + TILE) - 1, min(s, key + TILE) - 1
    if mask == "padding":
        return key < s - padding
    if mask == "padded-causal":
        return max(key, padding) <= min(last_row, last_key)
    if mask == "prefix":
        return key < max(last_row + 1, s // 3)
    if mask == "documents":
        return any(max(row, first) < end and max(key, first) <= min(last_row, last_key, end - 1) for first, end in _documents(s))
    if mask == "blocks":
        return row == key or (row + key) // TILE % 3 == 0
    return True  # "tenth": a tenth of the keys is hidden at random


def share(mask: str, batch: int, s: int, causal: bool) -> float:
    """The share of a plain or causal problem's tiles in which something is visible; a batch entry has b % 4 eighths of
    padding."""
    tiles = range(0, s, TILE)
    seen = sum(_is_seen(mask, s, s * (b % 4) // 8, row, key) for b in range(batch) for row in tiles for key in tiles)
    return seen / batch / (len(tiles) * (len(tiles) + 1) // 2 if causal else len(tiles) ** 2)


def pairs(mask: str, s: int) -> int:
    """The visible pairs of a prefix or of blocks."""
    if mask == "prefix":
        return sum(max(row + 1, s // 3) for row in range(s))
    size = [min(TILE, s - at) for at in range(0, s, TILE)]
    return sum(rows * keys for r, rows in enumerate(size) for k, keys in enumerate(size) if r == k or (r + k) % 3 == 0)
