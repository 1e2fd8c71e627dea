"""parallel_faults.py: a rank that dies, hangs or calls with other arguments; test_parallel.py runs it.

Each scene ends on every other rank with an error that names rank and field, within the timeout of the group.
"""

import os
import sys
import time

import torch

import attest
from attest.torch import parallel
from parallel_ranks import on_ranks

TIMEOUT = 3.0  # seconds; for a rank that hangs
RANKS, CULPRIT = 3, 1
ROWS = 48


def shapes(size, rank, heads=4, dtype=torch.float32, rows=None, grad=False):
    rows = parallel.zigzag(ROWS, size).rows_of(rank) if rows is None else rows
    return [torch.randn(2, h, rows, 16, dtype=dtype, requires_grad=grad) for h in (heads, 2, 2)]


def caught(call):
    """(rank, field, text, seconds) of the error."""
    start = time.monotonic()
    try:
        call()
    except parallel.RankError as error:
        return error.rank, error.field, str(error), time.monotonic() - start
    return None


def other_shapes(rank, size):
    cut, found = parallel.zigzag(ROWS, size), {}
    wrong = rank == CULPRIT
    for method in ("ring", "ulysses"):
        group = {"method": method}
        heads = 6 if method == "ring" else 3
        for field, change in (("heads_q", {"heads": 2 * heads if wrong else heads}), ("rows_q", {"rows": 5 if wrong else None}),
                              ("dtype", {"dtype": torch.bfloat16 if wrong else torch.float32})):
            given = shapes(size, rank, **change)
            found[method, field] = caught(lambda: parallel.attention(*given, cut, causal=True, **group))
        given = shapes(size, rank)
        found[method, "mask"] = caught(lambda: parallel.attention(*given, cut, causal=not wrong, **group))
        found[method, "sinks"] = caught(lambda: parallel.attention(*given, cut, sinks=torch.zeros(4) if wrong else None, **group))
    return found


def dies_before(rank, size):
    cut = parallel.zigzag(ROWS, size)
    parallel.attention(*shapes(size, rank), cut)
    if rank == CULPRIT:
        os._exit(1)
    return caught(lambda: parallel.attention(*shapes(size, rank), cut))


def dies_within(rank, size):
    """While it computes: only the header was sent."""
    cut = parallel.zigzag(ROWS, size)
    if rank == CULPRIT:
        from attest.torch.parallel import sharded

        sharded._arrivals = lambda *_: os._exit(1)
    return caught(lambda: parallel.attention(*shapes(size, rank), cut))


def dies_in_backward(rank, size):
    cut = parallel.zigzag(ROWS, size)
    o = parallel.attention(*shapes(size, rank, grad=True), cut)
    if rank == CULPRIT:
        os._exit(1)
    return caught(lambda: o.sum().backward())


def hangs(rank, size):
    cut = parallel.zigzag(ROWS, size)
    parallel.attention(*shapes(size, rank), cut)
    if rank == CULPRIT:
        time.sleep(60)
    return caught(lambda: parallel.attention(*shapes(size, rank), cut))


def hangs_within(rank, size):
    cut = parallel.zigzag(ROWS, size)
    if rank == CULPRIT:
        from attest.torch.parallel import sharded

        sharded._arrivals = lambda *_: time.sleep(60)
    return caught(lambda: parallel.attention(*shapes(size, rank), cut))


if __name__ == "__main__":
    attest.set_threads(1)
    for name, scene, lost in (("shapes", other_shapes, ()), ("dies_before", dies_before, (CULPRIT,)),
                              ("dies_within", dies_within, (CULPRIT,)), ("dies_in_backward", dies_in_backward, (CULPRIT,)),
                              ("hangs", hangs, (CULPRIT,)), ("hangs_within", hangs_within, (CULPRIT,))):
        if len(sys.argv) == 1 or name in sys.argv[1:]:
            print(name, on_ranks(RANKS, scene, timeout=TIMEOUT, lost=lost), flush=True)
