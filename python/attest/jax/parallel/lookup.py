"""lookup.py: what depends on the device, in a program that all devices run: numbers from a table, branches, registers.

If a table has the same number for all devices, it is a constant of the program.
"""

from __future__ import annotations

from typing import Any, Callable, Sequence, Tuple, Union

import jax
import jax.numpy as jnp
from jax import lax

from .schedule import PerRank, Put

Number = Union[int, jax.Array]


def of_rank(table: PerRank, rank: Any) -> Number:
    return table[0] if len(set(table)) == 1 else jnp.asarray(table, jnp.int32)[rank]


def branch(table: PerRank, rank: Any, branches: Sequence[Callable[..., Any]], *operands: Any) -> Any:
    """The branch with this device's number, among those that any device takes."""
    taken = sorted(set(table))
    if len(taken) == 1:
        return branches[taken[0]](*operands)
    number = of_rank(tuple(taken.index(each) for each in table), rank)
    return lax.switch(number, [branches[each] for each in taken], *operands)


class File:
    """Registers, each a tuple of arrays; a register that was not written yet is `empty`."""

    def __init__(self, count: int, empty: Tuple[jax.Array, ...], rank: Any, combine: Callable[[Any, Any], Any]) -> None:
        self.state = tuple(jnp.broadcast_to(x, (count, *x.shape)) for x in empty)
        self._empty, self._rank, self._combine = empty, rank, combine

    def read(self, register: PerRank) -> Any:
        """The contents of a register; `empty` where the number is -1."""
        if set(register) == {-1}:
            return self._empty
        number = of_rank(tuple(max(each, 0) for each in register), self._rank)
        found = tuple(lax.dynamic_index_in_dim(x, number, 0, keepdims=False) for x in self.state)
        if -1 not in register:
            return found
        is_there = of_rank(tuple(int(each >= 0) for each in register), self._rank)
        return tuple(jnp.where(is_there > 0, x, none) for x, none in zip(found, self._empty))

    def put(self, put: Put, value: Any) -> None:
        for kinds, registers in put.joins:
            waited = self.read(registers)
            value = branch(kinds, self._rank, (lambda _, now: now, self._combine, lambda other, now: self._combine(now, other)),
                           waited, value)
        number = of_rank(put.register, self._rank)
        self.state = tuple(lax.dynamic_update_index_in_dim(x, new, number, 0) for x, new in zip(self.state, value))
