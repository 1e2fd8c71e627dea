"""layout.py: which rank has which rows of a sequence."""

from __future__ import annotations

from itertools import accumulate
from typing import Iterable, List, NamedTuple, Optional, Tuple


class Layout(NamedTuple):
    """Pieces of a sequence, in order. A rank holds its pieces one after the other, in the same order.

    Answers depend only on the pieces, not on which rank holds them: the same pieces on another number of ranks give the
    same bits.
    """

    lengths: Tuple[int, ...]  #: rows of each piece; 0 is allowed
    owners: Tuple[int, ...]  #: the rank of each piece
    ranks: int  #: a rank may have no piece

    @property
    def rows(self) -> int:
        """The number of rows of the whole sequence."""
        return sum(self.lengths)

    @property
    def starts(self) -> Tuple[int, ...]:
        """The position at which each piece begins, and the end."""
        return (0, *accumulate(self.lengths))

    def pieces_of(self, rank: int) -> Tuple[int, ...]:
        return tuple(piece for piece, owner in enumerate(self.owners) if owner == rank)

    def rows_of(self, rank: int) -> int:
        return sum(self.lengths[piece] for piece in self.pieces_of(rank))


def _check_ranks(ranks: int) -> None:
    if ranks < 1:
        raise ValueError(f"ranks is {ranks}; expected 1 or more")


def checked(lengths: Iterable[int], owners: Iterable[int], ranks: int) -> Tuple[Tuple[int, ...], Tuple[int, ...], int]:
    """The fields of a Layout, with every row on a rank that exists."""
    lengths, owners = tuple(map(int, lengths)), tuple(map(int, owners))
    _check_ranks(ranks)
    if len(lengths) != len(owners):
        raise ValueError(f"there are {len(lengths)} lengths and {len(owners)} owners; expected one of each per piece")
    for piece, (rows, owner) in enumerate(zip(lengths, owners)):
        if rows < 0 or not 0 <= owner < ranks:
            raise ValueError(f"piece {piece} has {rows} rows on rank {owner}; expected 0 or more, on ranks 0 to {ranks - 1}")
    return lengths, owners, ranks


def even(rows: int, count: int) -> Tuple[int, ...]:
    return tuple(rows // count + (piece < rows % count) for piece in range(count))


def contiguous(rows: int, ranks: int, pieces: Optional[int]) -> Layout:
    """Every rank has neighbouring rows."""
    count = _pieces(pieces, ranks, 1)
    return Layout(even(rows, count), tuple(piece * ranks // count for piece in range(count)), ranks)


def zigzag(rows: int, ranks: int, pieces: Optional[int]) -> Layout:
    """Every rank has rows from the beginning and as many from the end."""
    count = _pieces(pieces, ranks, 2)
    runs: List[int] = [piece * 2 * ranks // count for piece in range(count)]
    return Layout(even(rows, count), tuple(min(run, 2 * ranks - 1 - run) for run in runs), ranks)


def _pieces(pieces: Optional[int], ranks: int, runs: int) -> int:
    _check_ranks(ranks)
    if pieces is None:
        return runs * ranks
    if pieces < 1 or pieces % (runs * ranks):
        raise ValueError(f"pieces is {pieces}; expected a multiple of {runs * ranks} for {ranks} ranks")
    return pieces
