"""exchange.py: messages between the ranks of a group. Only Message.wait() waits; on a GPU the stream waits, not the
host."""

from __future__ import annotations

from typing import List, Sequence, Tuple

import torch.distributed as dist
from torch import Tensor

from .faults import silent

Packets = Sequence[Tuple[int, Tensor]]  # (rank of the group, contiguous tensor)


class Message:
    """Sends and receives in flight."""

    def __init__(self, exchange: "Exchange", works, sends: Packets, receives: Packets, field: str) -> None:
        self._exchange, self._field = exchange, field
        peers = [peer for peer, _ in (*sends, *receives)]
        if len(works) == len(peers):
            self._sends = list(zip(works, peers))[:len(sends)]
            self._receives = list(zip(works, peers))[len(sends):]
        else:  # one for all, as in NCCL
            self._sends, self._receives = [], [(work, peers[-1]) for work in works]
        self._kept = [x for _, x in sends]

    def wait(self) -> None:
        """Wait until everything has arrived."""
        self._wait(self._receives)

    def wait_sent(self) -> None:
        self._wait(self._sends)
        self._kept.clear()

    def _wait(self, works) -> None:
        for work, peer in works:
            try:
                work.wait()
            except RuntimeError as cause:
                raise silent(self._exchange.group, self._exchange.call, peer, self._field, cause) from cause


class Exchange:
    """The messages of one call on one group."""

    def __init__(self, group, call: int) -> None:
        self.group, self.call = group, call
        self.rank, self.size = dist.get_rank(group), dist.get_world_size(group)
        self._messages: List[Message] = []

    def post(self, sends: Packets, receives: Packets, field: str) -> Message:
        """Start sending and receiving; both must be in the same order as on the other side. Empty tensors are not
        sent."""
        sends, receives = ([(peer, x) for peer, x in packets if x.numel()] for packets in (sends, receives))
        ops = [dist.P2POp(call, x, dist.get_global_rank(self.group, peer), self.group)
               for call, packets in ((dist.isend, sends), (dist.irecv, receives)) for peer, x in packets]
        try:
            works = dist.batch_isend_irecv(ops) if ops else []
        except RuntimeError as cause:
            raise silent(self.group, self.call, (*sends, *receives)[0][0], field, cause) from cause
        message = Message(self, works, sends, receives, field)
        self._messages.append(message)
        return message

    def finish(self) -> None:
        """Wait until everything is sent: its memory may then be reused."""
        for message in self._messages:
            message.wait_sent()
        self._messages.clear()
