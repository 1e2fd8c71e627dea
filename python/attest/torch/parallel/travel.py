"""travel.py: the K and V of other ranks arrive while the present ones are computed; gradients go back to their owners.

In step s a rank sends its own pieces to the rank s places after it and receives those of the rank s places before it: K
and V of a shard once per step, but only the pieces that the receiver sees. The ring has one step in flight; "gather"
has all of them.
"""

from __future__ import annotations

from collections import deque
from typing import Callable, Deque, Dict, Iterator, Tuple

from torch import Tensor

from ..._parallel.parts import Parts
from ..._parallel.tree import Node
from .exchange import Exchange, Message

Pieces = Dict[int, Tensor]  # key piece: K and V, flat


def arrivals(exchange: Exchange, parts: Parts, own: Pieces, empty: Callable[[int], Tensor],
             ahead: int) -> Iterator[Tuple[int, Pieces]]:
    """(rank, its pieces that rows here see), this rank's own first. empty: a buffer for a piece; ahead: steps in
    flight."""
    rank, size = exchange.rank, exchange.size

    def post(step: int) -> Tuple[int, Pieces, Message]:
        to, source = (rank + step) % size, (rank - step) % size
        arriving = {piece: empty(piece) for piece in parts.wanted(rank, source)}
        message = exchange.post([(to, own[piece]) for piece in parts.wanted(to, rank)],
                                [(source, buffer) for buffer in arriving.values()], "k and v")
        return source, arriving, message

    under_way: Deque[Tuple[int, Pieces, Message]] = deque(post(step) for step in range(1, min(size, ahead + 1)))
    yield rank, {piece: own[piece] for piece in parts.wanted(rank, rank)}
    for step in range(1, size):
        source, arriving, message = under_way.popleft()
        message.wait()
        if step + ahead < size:
            under_way.append(post(step + ahead))
        yield source, arriving


class Gifts:
    """Gradients of pieces: sent to their owner, and received from the ranks that have some for this rank's pieces."""

    def __init__(self, exchange: Exchange, parts: Parts, empty: Callable[[int], Tensor],
                 take: Callable[[int, Node, Tensor], None]) -> None:
        self._exchange, self._parts, self._empty, self._take = exchange, parts, empty, take
        self._coming: Dict[Tuple[int, Node], Tensor] = {}
        self._message: Message = exchange.post([], [], "d_k and d_v")

    def give(self, owner: int, values: Dict[Tuple[int, Node], Tensor]) -> None:
        """Send what belongs to `owner`; receive what the rank as far away on the other side sends in the same step."""
        self.take()
        rank, size = self._exchange.rank, self._exchange.size
        giver = (rank + (rank - owner)) % size
        self._coming = {gift: self._empty(gift[0]) for gift in self._parts.gifts(giver, rank)}
        self._message = self._exchange.post([(owner, values[gift]) for gift in self._parts.gifts(rank, owner)],
                                            [(giver, buffer) for buffer in self._coming.values()], "d_k and d_v")

    def take(self) -> None:
        """What the previous step brought."""
        self._message.wait()
        for (piece, node), buffer in self._coming.items():
            self._take(piece, node, buffer)
        self._coming = {}
