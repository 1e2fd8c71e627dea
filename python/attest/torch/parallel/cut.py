"""cut.py: which rank has which rows of a sequence, and helpers that split and join tensors, positions and lengths
accordingly."""

from __future__ import annotations

from typing import List, Optional, Sequence

import torch
from torch import Tensor

from ..._parallel import layout


class Cut(layout.Layout):
    """Pieces of a sequence, in order. A rank holds its pieces one after the other, in the same order.

    Answers depend only on the pieces, not on which rank holds them: the same pieces on another number of ranks give the
    same bits.
    """

    __slots__ = ()

    def __new__(cls, lengths: Sequence[int], owners: Sequence[int], ranks: int) -> "Cut":
        return super().__new__(cls, *layout.checked(lengths, owners, ranks))

    def shard(self, x: Tensor, rank: int, dim: int = 1) -> Tensor:
        """The rows of a rank, from a tensor with all rows along `dim`."""
        if x.shape[dim] != self.rows:
            raise ValueError(f"x has {x.shape[dim]} rows along dim {dim}, the cut {self.rows}")
        pieces = self.pieces_of(rank)
        if not pieces:
            return x.narrow(dim, 0, 0)
        return torch.cat([x.narrow(dim, self.starts[piece], self.lengths[piece]) for piece in pieces], dim)

    def split(self, x: Tensor, rank: int, dim: int) -> List[Tensor]:
        """The pieces, as views of a rank's shard."""
        return list(x.split([self.lengths[piece] for piece in self.pieces_of(rank)], dim))

    def join(self, shards: Sequence[Tensor], dim: int = 1) -> Tensor:
        """All rows, from the shards of every rank in order."""
        if len(shards) != self.ranks:
            raise ValueError(f"shards has {len(shards)} tensors, the cut {self.ranks} ranks")
        pieces: List[Optional[Tensor]] = [None] * len(self.lengths)
        for rank, shard in enumerate(shards):
            if shard.shape[dim] != self.rows_of(rank):
                raise ValueError(f"the shard of rank {rank} has {shard.shape[dim]} rows, the cut {self.rows_of(rank)}")
            for piece, rows in zip(self.pieces_of(rank), self.split(shard, rank, dim)):
                pieces[piece] = rows
        return torch.cat(pieces, dim) if pieces else shards[0]

    def positions(self, rank: int, device=None) -> Tensor:
        """The position in the sequence of each row of a rank: position_ids for models."""
        return self.shard(torch.arange(self.rows, device=device), rank, 0)

    def lengths_of(self, rank: int, lens: Tensor) -> Tensor:
        """How many of a rank's rows are within the first `lens` rows of each sequence."""
        counts = [(lens - self.starts[piece]).clamp(0, self.lengths[piece]) for piece in self.pieces_of(rank)]
        return torch.stack(counts).sum(0) if counts else torch.zeros_like(lens)

    def of_ranks(self, first: int, count: int) -> "Cut":
        """The pieces of ranks first .. first + count - 1, as if there were no others."""
        kept = [(rows, owner - first) for rows, owner in zip(self.lengths, self.owners) if first <= owner < first + count]
        return Cut(tuple(rows for rows, _ in kept), tuple(owner for _, owner in kept), count)

    def of_groups(self, size: int) -> "Cut":
        """The cut with `size` adjacent ranks as one; adjacent pieces of one owner become one piece."""
        lengths: List[int] = []
        owners: List[int] = []
        for rows, owner in zip(self.lengths, self.owners):
            if owners and owners[-1] == owner // size:
                lengths[-1] += rows
            else:
                lengths.append(rows)
                owners.append(owner // size)
        return Cut(tuple(lengths), tuple(owners), self.ranks // size)


def contiguous(rows: int, ranks: int, pieces: Optional[int] = None) -> Cut:
    """Every rank has adjacent rows: for attention without `causal`, and for Ulysses.

    pieces  a multiple of `ranks`; `ranks` by default. The same number on fewer ranks gives the same bits.
    """
    return Cut(*layout.contiguous(rows, ranks, pieces))


def zigzag(rows: int, ranks: int, pieces: Optional[int] = None) -> Cut:
    """Every rank has rows from the beginning and as many from the end, so that causal attention is equal work for all.

    pieces  a multiple of 2 x `ranks`; 2 x `ranks` by default. The same number on fewer ranks gives the same bits.
    """
    return Cut(*layout.zigzag(rows, ranks, pieces))
