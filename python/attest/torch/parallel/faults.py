"""faults.py: the error of a rank that dies, hangs or calls with something else, the same text on every rank where it can be."""

from __future__ import annotations

import time
from typing import Tuple

import torch.distributed as dist

from ... import Error


class RankError(Error):
    """A rank of the group did not do its part."""

    def __init__(self, rank: int, field: str, text: str) -> None:
        super().__init__(text)
        self.rank = rank  #: of the group
        self.field = field  #: what differs, or what did not arrive


def silent(group, call: int, rank: int, field: str, cause: Exception) -> RankError:
    """The error for a message that did not come or go.

    A rank that is waited for may itself wait for another, or have given up because of it: every rank writes whom it waits for
    to the group's store, and the error names the end of the chain.
    """
    detail = " ".join(str(cause).split())
    timed_out = "imed out" in detail
    first, its_field = _end_of_chain(f"attest/{group.group_name}/{call}", dist.get_rank(group), rank, field,
                                     _GRACE if timed_out else 0.0)
    if first == rank:
        return RankError(rank, its_field, f"rank {rank} did not exchange {its_field}: {detail}")
    return RankError(first, its_field, f"rank {first} did not exchange {its_field}, which rank {rank} waited for: {detail}")


_GRACE = 1.0  # seconds for others to write, whose timeouts end about when the own one does


def _end_of_chain(key: str, own: int, rank: int, field: str, seconds: float) -> Tuple[int, str]:
    try:
        store = dist.distributed_c10d._get_default_store()
        store.set(f"{key}/{own}", f"{rank} {field}")
        until, passed = time.monotonic() + seconds, {own}
        while rank not in passed:
            if store.check([f"{key}/{rank}"]):
                passed.add(rank)
                following, _, field = store.get(f"{key}/{rank}").decode().partition(" ")
                rank = int(following)
            elif time.monotonic() < until:
                time.sleep(0.02)
            else:
                break
    except Exception:  # noqa: BLE001, of whichever kind: the store is gone with its rank, and the error at hand is to be told
        pass
    return rank, field
