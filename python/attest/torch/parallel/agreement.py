"""agreement.py: before anything large is sent, every rank sends its arguments to all others, and all compare.

On the CPU this is a message of a few numbers in every call. For tensors on a GPU the arguments are compared only when a
rank calls with new ones: the hosts then communicate through gloo, and known calls wait for nothing.
"""

from __future__ import annotations

import contextlib
import struct
import weakref
import zlib
from typing import Any, Callable, Dict, List, NamedTuple, Optional, Sequence, Tuple

import torch
import torch.distributed as dist
from torch import Tensor

from .exchange import Exchange
from .faults import RankError, name_of


class Header(NamedTuple):
    """The arguments of a rank's call, as numbers; anything else is represented by its checksum."""

    fault: int  # 0; otherwise which process does what wrong, as another group of this rank has found: fault_of()
    call: int  # number of earlier calls of the group
    direction: int  # 0 forward, 1 backward
    method: int
    dtype: int
    batch_q: int
    batch_k: int
    batch_v: int
    heads_q: int
    heads_k: int
    heads_v: int
    d_q: int
    d_k: int
    d_v: int
    rows_q: int
    rows_k: int
    rows_v: int
    cut: int
    mask: int
    scale: int
    softcap: int
    lens_k: int
    starts_k: int
    sinks: int
    alibi: int


_OWN = {"rows_q": 0, "rows_k": 1, "rows_v": 1}  # differs per rank, as the cut of q, or that of k and v, says
_CHECKSUMS = frozenset(("method", "dtype", "cut", "mask", "scale", "softcap", "lens_k", "starts_k", "sinks", "alibi"))


def checksum(what: Any) -> int:
    return zlib.crc32(struct.pack("d", what) if isinstance(what, float) else repr(what).encode())


def header_of(call: int, direction: int, method: str, q: Tensor, k: Tensor, v: Tensor, cuts: Any, mask: Any,
              options: Dict[str, Any], lengths: Sequence[Optional[Tensor]], sinks: Optional[Tensor], alibi: Optional[Tensor] = None) -> Header:
    """The header for tensors (batch, heads, rows, d); lengths: starts_k and lens_k, whose numbers are part of it on
    the CPU."""
    batch, heads, rows, columns = zip(q.shape, k.shape, v.shape)
    return Header(0, call, direction, checksum(method), checksum((q.dtype, k.dtype, v.dtype)), *batch, *heads, *columns, *rows,
                  checksum(cuts), checksum(mask), checksum(options["scale"]), checksum(options["softcap"]),
                  *(_told(x, x is not None and x.device.type == "cpu") for x in (lengths[1], lengths[0])),
                  *(_told(x, False) for x in (sinks, alibi)))


def _told(x: Optional[Tensor], with_numbers: bool) -> int:
    return 0 if x is None else checksum((x.dtype, tuple(x.shape), x.tolist() if with_numbers else None))


class _State:
    """What is stored per group."""

    def __init__(self) -> None:
        self.calls = 0
        self.known: set = set()
        self.host_group: Any = None


_states: "weakref.WeakKeyDictionary[Any, _State]" = weakref.WeakKeyDictionary()


def _state_of(group) -> _State:
    return _states.setdefault(group, _State())


def next_call(group) -> int:
    """The number of a call, the same on every rank that has made as many."""
    state = _state_of(group)
    state.calls += 1
    return state.calls


def agree(exchange: Exchange, header: Header, rows: Callable[[int], Tuple[int, int]], device: torch.device) -> None:
    """Raise RankError on every rank if one calls with other arguments; rows: a rank's rows of q and of k according
    to the cut."""
    headers: List[Optional[Header]] = [None] * exchange.size
    headers[exchange.rank] = header
    if device.type == "cpu":
        _tell(exchange, headers)
    else:
        state, known = _state_of(exchange.group), header._replace(call=0)
        if known not in state.known:
            _tell(Exchange(_host_group(exchange.group, state, device), exchange.call), headers)
            state.known.add(known)
    _compare(exchange.group, headers, rows)


def pass_on(group, error: RankError, device: torch.device) -> None:
    """Tell the ranks of `group`, which are about to call, what another group of this rank has found."""
    if device.type == "cpu":  # on a GPU, ranks whose call is known do not listen
        exchange = Exchange(group, next_call(group))
        headers: List[Optional[Header]] = [None] * exchange.size
        headers[exchange.rank] = Header(_fault_of(error), *(0 for _ in Header._fields[1:]))
        with contextlib.suppress(RankError):  # that of a third rank; `error` is raised
            _tell(exchange, headers)


_SILENT = "the header of the call"


def _fault_of(error: RankError) -> int:
    fields = Header._fields
    return 1 + error.global_rank * len(fields) + (fields.index(error.field) if error.field in fields else 0)


def _error_of(fault: int) -> RankError:
    rank, field = divmod(fault - 1, len(Header._fields))
    if field == 0:
        return RankError(rank, _SILENT, f"rank {rank} of all processes did not exchange {_SILENT} with its heads_group")
    name = Header._fields[field]
    return RankError(rank, name, f"rank {rank} of all processes: {name} differs from that of its heads_group")


def _tell(exchange: Exchange, headers: List[Optional[Header]]) -> None:
    """Send to all, and receive from all."""
    others = [rank for rank in range(exchange.size) if rank != exchange.rank]
    own = torch.tensor(headers[exchange.rank])
    theirs = {rank: torch.empty_like(own) for rank in others}
    exchange.post([(rank, own) for rank in others], list(theirs.items()), _SILENT).wait()
    for rank in others:
        headers[rank] = Header(*theirs[rank].tolist())
    exchange.finish()


def _host_group(group, state: _State, device: torch.device):
    """A group of the same ranks whose messages are in host memory."""
    if state.host_group is None:
        dist.all_reduce(torch.zeros(1, device=device), group=group)  # NCCL needs all ranks in a group's first call
        state.host_group = dist.new_group(dist.get_process_group_ranks(group), backend="gloo", use_local_synchronization=True,
                                          timeout=_timeout_of(group, device))
    return state.host_group


def _timeout_of(group, device: torch.device):
    options: Any = getattr(group._get_backend(device), "options", None)
    return getattr(options, "_timeout", None)


def _compare(group, headers: List[Optional[Header]], rows: Callable[[int], Tuple[int, int]]) -> None:
    """Find the first field that differs from that of the lowest rank, or from the cut; the same error on every rank."""
    told: Dict[int, Header] = {rank: header for rank, header in enumerate(headers) if header is not None}
    first_rank = min(told)
    for header in told.values():
        if header.fault:
            raise _error_of(header.fault)
    for field in Header._fields:
        for rank, header in told.items():
            found = getattr(header, field)
            if field in _OWN:
                wanted, whose = rows(rank)[_OWN[field]], "the cut"
            else:
                wanted, whose = getattr(told[first_rank], field), name_of(group, first_rank)
            if found != wanted:
                seen = f": {field} differs from that of {whose}" if field in _CHECKSUMS else \
                    f" has {field}={found}, {whose} has {wanted}"
                raise RankError(rank, field, name_of(group, rank) + seen, dist.get_global_rank(group, rank))
