"""faults.py: the error of a rank that dies, hangs or calls with something else, the same text on every rank where it can be."""

from __future__ import annotations

from typing import Optional

import torch.distributed as dist

from ... import Error


class RankError(Error):
    """A rank of the group did not do its part."""

    def __init__(self, rank: int, field: str, text: str) -> None:
        super().__init__(text)
        self.rank = rank  #: of the group
        self.field = field  #: what differs, or what did not arrive


def silent(group, call: int, rank: int, field: str, cause: Exception) -> RankError:
    """The error for a message that did not come or go. The first rank that a call of the group failed by is told to all others,
    who else would name the one that gave up because of it."""
    detail = " ".join(str(cause).split())
    told = _first_told(f"attest/{group.group_name}/{call}", f"{rank} {field}")
    if told is not None and told != f"{rank} {field}":
        first, _, its_field = told.partition(" ")
        text = f"rank {first} did not exchange {its_field}, as another rank found; here rank {rank} was waited for: {detail}"
        return RankError(int(first), its_field, text)
    return RankError(rank, field, f"rank {rank} did not exchange {field}: {detail}")


def _first_told(key: str, found: str) -> Optional[str]:
    """What the group's first failing rank wrote; None where the store is gone with its rank."""
    try:
        return dist.distributed_c10d._get_default_store().compare_set(key, "", found).decode()
    except Exception:  # noqa: BLE001, of whichever kind: the error at hand is to be told
        return None
