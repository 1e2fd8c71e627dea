"""ring.py: attention whose rows and keys are split over a mesh axis, forward and backward, inside shard_map.

In step s a device sends its own pieces to the device s places after it, but only those that the receiver sees, while it
computes the part that the previous step brought.
"""

from __future__ import annotations

import functools
from typing import Any, Callable, Iterator, List, NamedTuple, Optional, Tuple

import jax
import jax.numpy as jnp
from jax import lax

from . import ring_pieces as pieces
from .lookup import File, branch, of_rank
from .ring_pieces import Extras, Options, Place
from .schedule import Schedule, Step


class Job(NamedTuple):
    """The arguments of a call except the arrays; part of the program."""

    axis_name: str
    schedule: Schedule
    options: Options


def _split(x, slots: int) -> List[jax.Array]:
    return jnp.split(x, slots, 2)


def _send(job: Job, step: Step, own: List[Tuple[jax.Array, ...]]) -> List[Any]:
    """The pieces of the device that many places before this one; zeros if it has none that is visible here."""
    ranks = job.schedule.ranks
    routes = [[((rank - step.number) % ranks, rank) for rank in wanted] for wanted in step.wanted]
    return [lax.ppermute(both, job.axis_name, route) if route else both for both, route in zip(own, routes)]


def _arrivals(job: Job, own: List[Tuple[jax.Array, ...]], files: List[File]) -> Iterator[Tuple[Step, List[Any]]]:
    """(step, K and V of every slot). A step's message starts when the previous one has arrived and its contents are
    being computed."""
    steps = job.schedule.steps
    coming: Any = own
    for step, following in zip(steps, [*steps[1:], None]):
        arrived = coming
        if following is not None:
            own, arrived, states = lax.optimization_barrier((own, arrived, [file.state for file in files]))
            for file, state in zip(files, states):
                file.state = state
            coming = _send(job, following, own)
        yield step, arrived


def _place(step: Step, slots: Tuple[int, int], rank: Any) -> Place:
    return Place(of_rank(step.first_key[slots[1]], rank), of_rank(step.distances[slots], rank))


def forward(job: Job, q, k, v, sinks: Optional[jax.Array], extras: Extras) -> Tuple[jax.Array, jax.Array]:
    """(O, log-sums) of this device's rows over all keys."""
    plan, rank = job.schedule, lax.axis_index(job.axis_name)
    slots_q, slots_k = len(plan.rows[0]), len(plan.keys[0])
    rows = _split(q, slots_q)
    file = File(plan.of_rows.count, pieces.nothing(rows[0], v), rank, pieces.merge)
    puts = iter(plan.of_rows.puts)

    def part(band) -> Callable[..., Any]:
        if band is None:
            return lambda its_q, key, value, *_: pieces.nothing(its_q, value)
        return lambda *arrays: pieces.forward(*arrays, band, job.options)

    branches = [part(band) for band in plan.bands]
    for step, arrived in _arrivals(job, list(zip(_split(k, slots_k), _split(v, slots_k))), [file]):
        for (a, b), bands in step.bands.items():
            put = next(puts)
            if put is not None:
                file.put(put, branch(bands, rank, branches, rows[a], *arrived[b], extras, _place(step, (a, b), rank)))
    found = [file.read(plan.root_of_rows(a)) for a in range(slots_q)]
    if sinks is not None:
        found = [pieces.with_sinks(each, sinks) for each in found]
    return tuple(jnp.concatenate(each, 2) for each in zip(*found))


def _add(left: Any, right: Any) -> Any:
    return tuple(x + y for x, y in zip(left, right))


def backward(job: Job, q, k, v, o, lse, d_o, extras: Extras) -> Tuple[jax.Array, ...]:
    """(d_q, d_k, d_v) of this device's rows in float32, and what its rows contribute to the gradient of the slopes, if
    there are any."""
    plan, rank = job.schedule, lax.axis_index(job.axis_name)
    slots_q, slots_k = len(plan.rows[0]), len(plan.keys[0])
    rows = list(zip(*(_split(x, slots_q) for x in (q, o, lse, d_o))))
    own = list(zip(_split(k, slots_k), _split(v, slots_k)))
    none = pieces.no_gradients(rows[0][0], *own[0], *([extras["alibi"]] if "alibi" in extras else []))
    of_own = plan.of_own_keys()
    of_q, of_kv = File(plan.of_rows.count, (none[0], *none[3:]), rank, _add), File(of_own.count, none[1:3], rank, _add)
    puts_q, puts_kv = iter(plan.of_rows.puts), iter(of_own.puts)

    def part(band) -> Callable[..., Any]:
        if band is None:
            return lambda *_: none
        return lambda its_q, its_o, its_lse, its_d_o, key, value, *rest: pieces.backward(
            its_q, key, value, its_o, its_lse, its_d_o, *rest, band, job.options)

    branches = [part(band) for band in plan.bands]
    gifts: List[Any] = []
    for step, arrived in _arrivals(job, own, [of_q, of_kv]):
        of_step = plan.of_foreign_keys(step)
        sums, puts = (of_kv, puts_kv) if step.number == 0 else (File(of_step.count, none[1:3], rank, _add), iter(of_step.puts))
        for (a, b), bands in step.bands.items():
            put_q, put_kv = next(puts_q), next(puts)
            if put_q is not None:
                d_q, d_k, d_v, *d_alibi = branch(bands, rank, branches, *rows[a], *arrived[b], extras, _place(step, (a, b), rank))
                of_q.put(put_q, (d_q, *d_alibi))
                sums.put(put_kv, (d_k, d_v))
        for value in gifts:  # from the previous step: they travelled while this one was computed
            of_kv.put(next(puts_kv), value)
        gifts = [] if step.number == 0 else _give(job, step, sums)
    for value in gifts:
        of_kv.put(next(puts_kv), value)
    d_q = [of_q.read(plan.root_of_rows(a)) for a in range(slots_q)]
    d_kv = [of_kv.read(plan.root_of_keys(of_own, b)) for b in range(slots_k)]
    of_rows = tuple(jnp.concatenate(each, 2) for each in ([each[0] for each in d_q], *zip(*d_kv)))
    return (*of_rows, functools.reduce(jnp.add, [each[1] for each in d_q])) if "alibi" in extras else of_rows


def _give(job: Job, step: Step, sums: File) -> List[Any]:
    """The sums of gradients for this device, in exchange for those that it has for the device that sent it keys."""
    ranks = job.schedule.ranks
    return [lax.ppermute(sums.read(gift.register), job.axis_name, [(rank, (rank - step.number) % ranks) for rank in gift.givers])
            for gift in job.schedule.gifts(step)]
