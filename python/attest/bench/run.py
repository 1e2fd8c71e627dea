"""run.py: times rows, alternating between the subjects."""

from __future__ import annotations

import os
import random
import sys
import time
import warnings
from typing import Any, Callable, Iterable, List, NamedTuple, Sequence

import torch

import attest

from . import clocks, experts, gradients, layers, mask_calls, played_ring, rivals, unequal_lengths
from .check import Checker
from .problems import Row
from .samples import Result, Timed

INPUT_BYTES, COPIES_MOST = 512 << 20, 4


class Kind(NamedTuple):
    """What is timed: the subjects, the inputs, and how answers are checked."""

    module: Any  #: has ATTEST and find()
    make_inputs: Callable
    checker: Callable


FORWARD = Kind(rivals, rivals.make_inputs, Checker)
BACKWARD = Kind(gradients, rivals.make_inputs, gradients.Checker)
EXPERTS = Kind(experts, experts.make_inputs, experts.Checker)
PARALLEL = Kind(played_ring, rivals.make_inputs, played_ring.Checker)
LENGTHS = Kind(unequal_lengths, unequal_lengths.make_inputs, unequal_lengths.Checker)
MASK_CALLS = Kind(mask_calls, rivals.make_inputs, mask_calls.Checker)
KINDS = (FORWARD, BACKWARD, EXPERTS, PARALLEL, LENGTHS, MASK_CALLS)


def _kind(row: Row) -> Kind:
    if isinstance(row.problem, layers.Problem):
        return EXPERTS
    if row.problem.ranks:
        return PARALLEL
    if row.problem.call:
        return MASK_CALLS
    if row.problem.lengths:
        return LENGTHS
    return BACKWARD if row.problem.backward else FORWARD


class Progress:
    """The progress of the run, on the last line of a terminal; nothing elsewhere."""

    def __init__(self, total: int) -> None:
        self._total, self._done, self._start = total, 0, time.monotonic()
        self._shown = sys.stderr.isatty()

    def say(self, text: str) -> None:
        if self._shown:
            spent = time.monotonic() - self._start
            left = f", {spent / self._done * (self._total - self._done):.0f} s to go" if self._done else ""
            sys.stderr.write(f"\r\x1b[K{self._done}/{self._total} {text}{left}")
            sys.stderr.flush()

    def clear(self) -> None:
        if self._shown:
            sys.stderr.write("\r\x1b[K")
            sys.stderr.flush()

    def next(self) -> None:
        self._done += 1


def _first_line(error: BaseException) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0][:200]


def _as_torch(output):
    if isinstance(output, tuple):
        return tuple(_as_torch(each) for each in output)
    return output if isinstance(output, torch.Tensor) else torch.from_dlpack(output)


def _first(output):
    return output[0] if isinstance(output, tuple) else output


def _finish_of(subject) -> Callable:
    """The function that waits for the work behind an output."""
    if subject.rival == "jax":
        return lambda output: output.block_until_ready()
    return lambda output: torch.cuda.synchronize() if _first(output).is_cuda else None


def _check(timed: Timed, subject, inputs, checker):
    """A call that gives right answers, or None with a result that says why not."""
    result = Result(subject.name, subject.rival, plain=checker.plain, bar=checker.bar)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of backends without support; the first line is kept below
            call = subject.prepare(inputs)
            output = call(0)
        _finish_of(subject)(output)
        if subject.judged:
            result.error, result.trouble = checker.judge(_as_torch(output), rival=subject.rival != "attest")
        result.wrong = bool(result.trouble)
    except Exception as error:  # from any framework: it is reported, and the others continue
        result.trouble = _first_line(error)
    if not result.trouble:
        if subject.rival == "attest":
            launch = attest.last_launch()
            assert launch, "attest was called"
            result.launch, result.kernel = launch._asdict(), launch.kernel
        return call, result
    timed.add(result)
    return None, result


def _clock_of(subject, call, row: Row):
    if row.threads:
        return [clocks.CpuClock(call, _finish_of(subject))]
    floor = max(row.problem.operations / 3e14, row.problem.kv_bytes / 4e12, 4e-6)
    calls = max(2, min(50, int(clocks.GRAPH_SECONDS / floor)))
    if not subject.graph:
        return [clocks.WallClock(call, calls, _finish_of(subject))]
    return [clocks.GraphClock(call, calls)]


def _prepare(row: Row, subjects: Sequence, device: str):
    """The row, and (clock, result) for every subject that supports it and is right."""
    copies = max(1, min(COPIES_MOST, INPUT_BYTES // row.problem.input_bytes)) if device == "cuda" else 1
    inputs = _kind(row).make_inputs(row.problem, device, copies)
    timed, ready = Timed(row, input_sets=copies), []
    checker = _kind(row).checker(inputs)
    walls = any(not subject.graph for subject in subjects)
    for subject in subjects:
        call, result = _check(timed, subject, inputs, checker)
        if not call:
            continue
        try:
            clock = _clock_of(subject, call, row)
            if subject.rival == "attest" and walls and not row.threads:  # for comparison with rivals without graphs
                clock.append(clocks.WallClock(call, clock[0].calls, _finish_of(subject)))
        except Exception as error:
            result.trouble = _first_line(error)
            timed.add(result)
            continue
        ready += [(each, result) for each in clock]
    return timed, ready


def _place(timed: Timed, clock, like: Result, mode: str) -> Result:
    found = timed.results.get((like.rival, mode, clock.timer))
    if not found:
        found = timed.add(Result(**{**vars(like), "timer": clock.timer, "mode": mode, "samples_ns": [],
                                    "calls": clock.calls}))
    return found


def time_rows(rows: Sequence[Row], subjects: Sequence, device: str, modes: Iterable[str], rounds: int, budget: float,
              progress: Progress) -> List[Timed]:
    """Time rows together: every subject of every row once per round, in random order."""
    prepared = []
    for row in rows:
        progress.say(f"{row.name}: answers")
        prepared.append(_prepare(row, subjects, device))
    for mode in modes:
        turns = [(timed, clock, result) for timed, ready in prepared for clock, result in ready]
        places = [_place(timed, clock, result, mode) for timed, clock, result in turns]
        end = time.monotonic() + budget
        for done in range(10 * rounds):
            if done >= rounds and (not budget or time.monotonic() > end):
                break
            progress.say(f"{rows[0].name}: {mode}, round {done + 1}")
            for i in random.sample(range(len(turns)), len(turns)):
                places[i].samples_ns.append(turns[i][1].sample(mode))
    progress.next()
    return [timed for timed, _ in prepared]


def run(groups: List[List[Row]], names: Sequence[str], device: str, modes: Sequence[str], rounds: int, budget: float,
        show: Callable[[Timed], None]) -> List[Timed]:
    """Every row in its group, shown when it is done."""
    subjects = {kind: [kind.module.ATTEST, *kind.module.find(names, device).values()] for kind in KINDS}
    progress, done = Progress(len(groups)), []
    for rows in groups:
        if rows[0].threads:
            attest.set_threads(rows[0].threads)
            torch.set_num_threads(rows[0].threads)
        timed = time_rows(rows, subjects[_kind(rows[0])], device, modes, rounds, budget, progress)
        progress.clear()
        for each in timed:
            show(each)
        done += timed
        if device == "cuda":
            torch.cuda.empty_cache()
    attest.set_threads(0)
    return done


def load_average() -> float:
    return os.getloadavg()[0]
