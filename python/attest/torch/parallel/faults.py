"""faults.py: the error for a rank that dies, hangs or calls with other arguments, with the same text on every rank
if possible."""

from __future__ import annotations

import time
from typing import Optional, Tuple

import torch.distributed as dist

from ... import Error


class RankError(Error):
    """A rank of the group did not do its part."""

    def __init__(self, rank: int, field: str, text: str, global_rank: Optional[int] = None) -> None:
        super().__init__(text)
        self.rank = rank  #: of the group; of all processes if it is in none of this process's groups
        self.global_rank = rank if global_rank is None else global_rank  #: of all processes
        self.field = field  #: what differs, or what did not arrive


def name_of(group, rank: int) -> str:
    """A rank of the group in a sentence, with its number among all processes if that is another."""
    everywhere = dist.get_global_rank(group, rank)
    return f"rank {rank}" if everywhere == rank else f"rank {rank} (of all processes, {everywhere})"


def silent(group, call: int, rank: int, field: str, cause: Exception) -> RankError:
    """The error for a message that did not arrive or could not be sent.

    A rank that others wait for may itself be waiting for another, or have given up because of it, and gloo may report
    the error of one connection to a rank that waits for another. So every rank that gives up writes to the group's
    store which rank it waited for, and the error names the rank that has written nothing.
    """
    detail = " ".join(str(cause).split())
    try:
        first, its_field = _at_fault(group, f"attest/{group.group_name}/{call}", rank, field)
    except Exception:  # noqa: BLE001, of whichever kind: the store is gone with its rank, and the error at hand is to be told
        first, its_field = rank, field
    waited = "" if first == rank else f", while {name_of(group, rank)} was waited for"
    return RankError(first, its_field, f"{name_of(group, first)} did not exchange {its_field}{waited}: {detail}",
                     dist.get_global_rank(group, first))


_GRACE = 1.0  # seconds for the others to give up too


def _at_fault(group, key: str, rank: int, field: str) -> Tuple[int, str]:
    store = dist.distributed_c10d._get_default_store()
    store.set(f"{key}/{dist.get_rank(group)}", f"{rank} {field}")
    until, ranks = time.monotonic() + _GRACE, range(dist.get_world_size(group))
    while True:
        written = {each for each in ranks if store.check([f"{key}/{each}"])}
        if len(written) >= len(ranks) - 1 or time.monotonic() > until:
            break
        time.sleep(0.02)
    waits = {each: store.get(f"{key}/{each}").decode().partition(" ")[::2] for each in written}
    passed = set()
    while rank in waits and rank not in passed:
        passed.add(rank)
        following, field = waits[rank]
        rank = int(following)
    missing = [each for each in ranks if each not in written]
    return (missing[0] if rank in written and missing else rank), field
