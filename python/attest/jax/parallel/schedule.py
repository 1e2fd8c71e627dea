"""schedule.py: what every device does in every step of the ring, as tables of numbers for the one program that all
devices run.

Merges and sums follow a tree over the pieces (attest._parallel.tree). A value that waits for its sibling in a tree is
held in a register. Which registers each step reads and writes, on every device, is known before the program runs: it is
simulated here.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Dict, FrozenSet, Hashable, List, NamedTuple, Optional, Sequence, Tuple

from ..._parallel.band import Band
from ..._parallel.parts import Parts
from ..._parallel.tree import Node, Tree

# the position of a waiting value in the order of the pieces, relative to the one put in; 0: there is none
BEFORE, AFTER = 1, 2
PerRank = Tuple[int, ...]


class Put(NamedTuple):
    """What happens to a value that a device puts into its tree; each tuple has one number per device."""

    joins: Tuple[Tuple[PerRank, PerRank], ...]  # (0, BEFORE or AFTER; register): combined with what waits there
    register: PerRank  # where it waits afterwards


class Registers(NamedTuple):
    """A set of trees on every device."""

    count: int
    puts: Tuple[Optional[Put], ...]  # for every event; None if no device puts anything
    final: Tuple[Dict[Tuple[Hashable, Node], int], ...]  # per device: (tree, node): register of what waits at the end


Event = Optional[Tuple[Hashable, Node]]  # a tree and the node that is put in; None: nothing


class _Value:
    def __init__(self) -> None:
        self.register: Optional[int] = None  # of a waiting value
        self.joins: List[Tuple[int, int]] = []


def _simulate(trees: Dict[Hashable, Tuple[int, FrozenSet[int]]], events: Sequence[Event]):
    """(joins and register of every event, registers in use, what waits at the end) on one device."""
    free: List[int] = []
    used = 0

    def combine(left: _Value, right: _Value) -> _Value:
        now, waited = (right, left) if right.register is None else (left, right)
        now.joins.append((BEFORE if waited is left else AFTER, waited.register))
        free.append(waited.register)
        return now

    growing = {tree: Tree(count, leaves, combine) for tree, (count, leaves) in trees.items()}
    found: List[Any] = []
    for event in events:
        if event is None:
            found.append(None)
            continue
        value = _Value()
        growing[event[0]].put(event[1], value)
        if not free:
            free.append(used)
            used += 1
        value.register = min(free)
        free.remove(value.register)
        found.append((value.joins, value.register))
    final = {(tree, node): value.register for tree, each in growing.items() for node, value in each.waiting.items()}
    return found, used, final


def _registers(trees: Sequence[Dict[Hashable, Tuple[int, FrozenSet[int]]]], events: Sequence[Sequence[Event]]) -> Registers:
    """The registers for the trees and events of every device; all have the same number of events."""
    each = [_simulate(*pair) for pair in zip(trees, events)]
    spare = max(used for _, used, _ in each)  # written by devices that put nothing while others do
    puts: List[Optional[Put]] = []
    needs_spare = False
    for at in zip(*(found for found, _, _ in each)):
        if not any(at):
            puts.append(None)
            continue
        needs_spare = needs_spare or not all(at)
        depth = max(len(one[0]) for one in at if one)
        padded = [(one[0] if one else []) + [(0, 0)] * (depth - len(one[0] if one else [])) for one in at]
        joins = tuple((tuple(rank[level][0] for rank in padded), tuple(rank[level][1] for rank in padded))
                      for level in range(depth))
        puts.append(Put(joins, tuple(one[1] if one else spare for one in at)))
    return Registers(spare + needs_spare, tuple(puts), tuple(final for _, _, final in each))


@dataclass(frozen=True, eq=False)
class Step:
    """A shard of keys that is computed; the first is the device's own."""

    number: int  # it comes from the device this many places before
    wanted: Tuple[Tuple[int, ...], ...]  # for every slot of pieces in a shard: the devices that see the arriving piece
    bands: Dict[Tuple[int, int], PerRank]  # (slot of rows, slot of keys): index into Schedule.bands, 0 for none
    distances: Dict[Tuple[int, int], PerRank]  # of the band's first row from its first key, in the whole sequence
    first_key: Tuple[PerRank, ...]  # for every slot of keys: the position of its first key


class Gift(NamedTuple):
    """A sum of gradients of keys that goes back to their device, on the devices that have one."""

    givers: Tuple[int, ...]
    register: PerRank  # on the sending device


class Schedule:
    """The schedule of a call; the same for forward and backward."""

    def __init__(self, parts: Parts) -> None:
        self.parts = parts
        cut_q, cut_k = parts.cut_q, parts.cut_k
        self.ranks = cut_q.ranks
        self.rows = [cut_q.pieces_of(rank) for rank in range(self.ranks)]
        self.keys = [cut_k.pieces_of(rank) for rank in range(self.ranks)]
        self.bands: List[Optional[Band]] = [None]
        self.steps = [step for step in map(self._step, range(self.ranks)) if any(step.wanted) or step.number == 0]
        self.of_rows = self._of_rows()

    def _source(self, rank: int, number: int) -> int:
        return (rank - number) % self.ranks

    def _band(self, i: int, j: int) -> int:
        """Bands that differ only in their distance, a number of the running program, are one: each is compiled."""
        band = self.parts.band(i, j)
        band = band if band is None else band._replace(distance=0)
        if band not in self.bands:
            self.bands.append(band)
        return self.bands.index(band)

    def _distance(self, i: int, j: int) -> int:
        band = self.parts.band(i, j)
        return 0 if band is None else band.distance

    def _step(self, number: int) -> Step:
        slots_q, slots_k = range(len(self.rows[0])), range(len(self.keys[0]))
        sources = [self._source(rank, number) for rank in range(self.ranks)]
        pairs = {(a, b): [(self.rows[rank][a], self.keys[sources[rank]][b]) for rank in range(self.ranks)]
                 for b in slots_k for a in slots_q}
        bands = {slots: tuple(self._band(i, j) for i, j in each) for slots, each in pairs.items()}
        distances = {slots: tuple(self._distance(i, j) for i, j in each) for slots, each in pairs.items()}
        wanted = tuple(tuple(rank for rank in range(self.ranks) if any(bands[a, b][rank] for a in slots_q)) for b in slots_k)
        starts = self.parts.cut_k.starts
        return Step(number, wanted, bands, distances,
                    tuple(tuple(starts[self.keys[source][b]] for source in sources) for b in slots_k))

    def _of_rows(self) -> Registers:
        """The trees of the rows over their keys, one per slot; one event per step, slot of keys and slot of rows."""
        count, seen = len(self.parts.cut_k.lengths), self.parts.keys_of
        trees = [{a: (count, seen[i]) for a, i in enumerate(rows)} for rows in self.rows]
        events = [[(a, (0, self.keys[self._source(rank, step.number)][b])) if bands[rank] else None
                   for step in self.steps for (a, b), bands in step.bands.items()] for rank in range(self.ranks)]
        return _registers(trees, events)

    def root_of_rows(self, a: int) -> PerRank:
        """The register of a whole row's value, for every device; -1 if there is none."""
        top = (max(len(self.parts.cut_k.lengths) - 1, 0).bit_length(), 0)
        return tuple(final.get((a, top), -1) for final in self.of_rows.final)

    # ------------------------------------------------------------------------------------------ gradients of keys

    @property
    def _leaves_q(self) -> int:
        return len(self.parts.cut_q.lengths)

    @lru_cache(maxsize=None)  # noqa: B019, of an object that is itself kept in a cache
    def of_foreign_keys(self, step: Step) -> Registers:
        """The trees of keys that arrived, over this device's rows; one event per slot of keys and slot of rows."""
        trees, events = [], []
        for rank in range(self.ranks):
            keys = self.keys[self._source(rank, step.number)]
            trees.append({j: (self._leaves_q, self.parts.rows_of[j]) for j in keys})
            events.append([(keys[b], (0, self.rows[rank][a])) if bands[rank] else None for (a, b), bands in step.bands.items()])
        return _registers(trees, events)

    def _gifts_of(self, rank: int, step: Step) -> Tuple[Tuple[int, Node], ...]:
        return self.parts.gifts(rank, self._source(rank, step.number))

    @lru_cache(maxsize=None)  # noqa: B019
    def gifts(self, step: Step) -> Tuple[Gift, ...]:
        final, given = self.of_foreign_keys(step).final, [self._gifts_of(rank, step) for rank in range(self.ranks)]
        return tuple(Gift(tuple(rank for rank in range(self.ranks) if n < len(given[rank])),
                          tuple(final[rank][given[rank][n]] if n < len(given[rank]) else 0 for rank in range(self.ranks)))
                     for n in range(max(map(len, given))))

    def of_own_keys(self) -> Registers:
        """The trees of a device's own keys: one event per part of its own rows, then one per gift of each step."""
        trees = [{j: (self._leaves_q, self.parts.rows_of[j]) for j in keys} for keys in self.keys]
        events: List[List[Event]] = []
        for rank, own in enumerate(self.keys):
            here: List[Event] = [(own[b], (0, self.rows[rank][a])) if bands[rank] else None
                                 for (a, b), bands in self.steps[0].bands.items()]
            for step in self.steps[1:]:
                arriving = self._gifts_of((rank + step.number) % self.ranks, step)
                here += [arriving[n] if n < len(arriving) else None for n in range(len(self.gifts(step)))]
            events.append(here)
        return _registers(trees, events)

    def root_of_keys(self, registers: Registers, b: int) -> PerRank:
        top = (max(self._leaves_q - 1, 0).bit_length(), 0)
        return tuple(final.get((self.keys[rank][b], top), -1) for rank, final in enumerate(registers.final))


schedule_of = lru_cache(maxsize=64)(Schedule)
