"""parallel_faults.py: a rank that dies, hangs or calls with other arguments; test_parallel.py runs it.

Each scene ends on every other rank with an error that names rank and field, within the timeout of the group.
"""

import os
import sys
import time

import torch
from torch.distributed.device_mesh import init_device_mesh

import attest
from attest.torch import parallel
from parallel_ranks import on_ranks

TIMEOUT = 3.0  # seconds; for a rank that hangs
RANKS, CULPRIT = 3, 1
ROWS = 48


def shapes(size, rank, heads=4, dtype=torch.float32, rows=None, grad=False, heads_k=2):
    rows = parallel.zigzag(ROWS, size).rows_of(rank) if rows is None else rows
    return [torch.randn(2, h, rows, 16, dtype=dtype, requires_grad=grad) for h in (heads, heads_k, heads_k)]


def caught(call):
    """(rank, field, text, seconds) of the error."""
    start = time.monotonic()
    try:
        call()
    except parallel.RankError as error:
        return error.global_rank, error.field, str(error), time.monotonic() - start
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
        q, k, v = given
        for field, its in (("batch_k", (q, k[:1], v)), ("heads_v", (q, k, v[:, :1])), ("d_k", (q, k[..., :8], v)),
                           ("rows_v", (q, k, v[:, :, 1:])), ("dtype", (q, k, v.half())), ("batch_q", [x[:1] for x in given])):
            its = its if wrong else given
            found[method, field] = caught(lambda: parallel.attention(*its, cut, **group))
        for name, here, elsewhere in (("alibi", torch.zeros(4), torch.zeros(2, 4)), ("lens_k", torch.tensor([9, 40]), torch.tensor([9, 41])),
                                      ("scale", 0.5, 0.25), ("softcap", 5.0, None)):
            found[method, name] = caught(lambda: parallel.attention(*given, cut, **{name: here if wrong else elsewhere}, **group))
        other = parallel.zigzag(ROWS, size, pieces=4 * size) if wrong else cut
        found[method, "cut"] = caught(lambda: parallel.attention(*given, other, **group))
    found["either", "method"] = caught(lambda: parallel.attention(*given, cut, method="gather" if wrong else "ring"))
    return found


def two_groups(rank, size):
    """Of 2 x 2 ranks the last has other heads: its partner in the heads group knows, and tells the other pair."""
    mesh = init_device_mesh("cpu", (2, 2), mesh_dim_names=("ring", "heads"))
    cut, heads = parallel.zigzag(ROWS, size), 8 if rank == 3 else 4
    groups = {"group": mesh["ring"].get_group(), "heads_group": mesh["heads"].get_group()}
    return {"two groups": caught(lambda: parallel.attention(*shapes(size, rank, heads=heads), cut, causal=True, **groups))}


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


def ends_in_heads(rank, size, end):
    """Ulysses: while heads are exchanged."""
    cut = parallel.contiguous(ROWS, size)
    if rank == CULPRIT:
        from attest.torch.parallel import ulysses

        ulysses._to_heads = lambda *_: end()
    return caught(lambda: parallel.attention(*shapes(size, rank, heads=6, heads_k=3), cut, method="ulysses"))


def dies_in_heads(rank, size):
    return ends_in_heads(rank, size, lambda: os._exit(1))


def hangs_in_heads(rank, size):
    return ends_in_heads(rank, size, lambda: time.sleep(60))


def hangs_in_backward(rank, size):
    """After K and V have arrived: its gradients do not."""
    cut = parallel.zigzag(ROWS, size)
    o = parallel.attention(*shapes(size, rank, grad=True), cut)
    if rank == CULPRIT:
        from attest.torch.parallel import travel

        travel.Gifts.give = lambda *_: time.sleep(60)
    return caught(lambda: o.sum().backward())


def raises_alone(rank, size):
    """An error of its own, before it has told anything; then it leaves, as a program does."""
    cut = parallel.zigzag(ROWS, size)
    if rank == CULPRIT:
        try:
            parallel.attention(torch.zeros(1), torch.zeros(1), torch.zeros(1), cut)
        except TypeError:
            os._exit(1)
    return caught(lambda: parallel.attention(*shapes(size, rank), cut))


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
    if len(sys.argv) == 1:
        print("two_groups", on_ranks(4, two_groups, timeout=TIMEOUT))
    for name, scene, lost in (("shapes", other_shapes, ()), ("dies_before", dies_before, (CULPRIT,)),
                              ("dies_within", dies_within, (CULPRIT,)), ("dies_in_backward", dies_in_backward, (CULPRIT,)),
                              ("dies_in_heads", dies_in_heads, (CULPRIT,)), ("raises_alone", raises_alone, (CULPRIT,)),
                              ("hangs", hangs, (CULPRIT,)), ("hangs_within", hangs_within, (CULPRIT,)),
                              ("hangs_in_heads", hangs_in_heads, (CULPRIT,)), ("hangs_in_backward", hangs_in_backward, (CULPRIT,))):
        if len(sys.argv) == 1 or name in sys.argv[1:]:
            print(name, on_ranks(RANKS, scene, timeout=TIMEOUT, lost=lost), flush=True)
