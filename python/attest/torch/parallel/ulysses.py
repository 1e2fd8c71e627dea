"""ulysses.py: all-to-all over heads: shards of rows with all heads become all rows of some heads, and back."""

from __future__ import annotations

from typing import Any, List, NamedTuple, Sequence, Tuple

import torch
import torch.distributed as dist
from torch import Tensor

from ..._torch_backward import has_lse_gradient, refuse_lse_gradient
from .agreement import Header, agree, next_call
from .cut import Cut
from .exchange import Exchange

Ranges = Tuple[Tuple[int, int], ...]  # for each rank: its first head, and the end


def head_ranges(heads_q: int, heads_kv: int, ranks: int) -> Tuple[Ranges, Ranges]:
    """The ranges for q, and for k and v; ranks share a head of k and v if there are fewer heads than ranks."""
    if heads_q % ranks or (heads_kv % ranks and ranks % heads_kv):
        raise ValueError(f"heads: {heads_q} of q and {heads_kv} of k cannot be dealt to {ranks} ranks alike")
    each, group = heads_q // ranks, heads_q // heads_kv
    of_q = tuple((rank * each, (rank + 1) * each) for rank in range(ranks))
    return of_q, tuple((first // group, (end - 1) // group + 1) for first, end in of_q)


class Swap(NamedTuple):
    """Which rank has which part of one tensor, (batch, heads, rows, d)."""

    name: str
    cut: Cut  # of the rows
    ranges: Ranges
    heads: int


def begin(group: Any, header: Header, cut_q: Cut, cut_k: Cut, device: torch.device) -> None:
    """All ranks agree on a call; RankError if one does not."""
    agree(Exchange(group, header.call), header, lambda rank: (cut_q.rows_of(rank), cut_k.rows_of(rank)), device)


def _to_heads(group: Any, swaps: Sequence[Swap], tensors: Sequence[Tensor], mark: str = "") -> List[Tensor]:
    """All rows of this rank's heads, from its rows of all heads."""
    exchange = Exchange(group, next_call(group))
    rank, others = exchange.rank, [each for each in range(exchange.size) if each != exchange.rank]
    shards, messages = [], []
    for swap, x in zip(swaps, tensors):
        own = swap.ranges[rank]
        mine = {peer: x.new_empty(x.shape[0], own[1] - own[0], swap.cut.rows_of(peer), x.shape[3]) for peer in others}
        sends = [(peer, x[:, slice(*swap.ranges[peer])].contiguous()) for peer in others]
        messages.append(exchange.post(sends, list(mine.items()), mark + swap.name))
        mine[rank] = x[:, slice(*own)]
        shards.append(mine)
    whole = []
    for swap, mine, message in zip(swaps, shards, messages):
        message.wait()
        whole.append(swap.cut.join([mine[peer] for peer in range(exchange.size)], 2))
    exchange.finish()
    return whole


def _to_rows(group: Any, swaps: Sequence[Swap], tensors: Sequence[Tensor], mark: str = "") -> List[Tensor]:
    """This rank's rows of all heads, from all rows of its heads; heads that ranks share are summed in the order of
    the ranks."""
    exchange = Exchange(group, next_call(group))
    rank, others = exchange.rank, [each for each in range(exchange.size) if each != exchange.rank]
    shares, messages = [], []
    for swap, y in zip(swaps, tensors):
        rows = swap.cut.rows_of(rank)
        mine = {peer: y.new_empty(y.shape[0], swap.ranges[peer][1] - swap.ranges[peer][0], rows, y.shape[3]) for peer in others}
        sends = [(peer, swap.cut.shard(y, peer, 2).contiguous()) for peer in others]
        messages.append(exchange.post(sends, list(mine.items()), mark + swap.name))
        mine[rank] = swap.cut.shard(y, rank, 2)
        shares.append(mine)
    found = []
    for swap, y, mine, message in zip(swaps, tensors, shares, messages):
        message.wait()
        ordered = [mine[peer] for peer in range(exchange.size)]
        if swap.ranges[-1][1] == sum(share.shape[1] for share in ordered):
            found.append(torch.cat(ordered, 1))
        else:
            total = y.new_zeros((y.shape[0], swap.heads, *ordered[0].shape[2:]), dtype=torch.float32)
            for (first, end), share in zip(swap.ranges, ordered):
                total[:, first:end] += share
            found.append(total.to(y.dtype))
    exchange.finish()
    return found


class ToHeads(torch.autograd.Function):
    """(group, swaps, tensors ...) to the tensors with all rows of this rank's heads."""

    @staticmethod
    def forward(ctx, group, swaps, *tensors):
        ctx.given = group, swaps
        return tuple(_to_heads(group, swaps, tensors))

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx, *grads):
        return (None, None, *_to_rows(*ctx.given, grads, "the gradient of "))


class ToRows(torch.autograd.Function):
    """(group, swaps, tensors ...) to the tensors with this rank's rows of all heads."""

    @staticmethod
    def forward(ctx, group, swaps, *tensors):
        ctx.given = group, swaps
        return tuple(_to_rows(group, swaps, tensors))

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx, *grads):
        return (None, None, *_to_heads(*ctx.given, grads, "the gradient of "))


class NoGradient(torch.autograd.Function):
    """(the log-sum-exp, O) to the former, whose use in a loss is refused when it is differentiated."""

    @staticmethod
    def forward(ctx, lse, o):
        ctx.columns = o.shape[3]
        return lse.clone()

    @staticmethod
    def backward(ctx, d_lse):
        refuse_lse_gradient(ctx.columns)


class HeadsGroup:
    """A group that shares heads, for one call: sends q, k and v, returns O and the log-sums."""

    def __init__(self, group: Any, cut_q: Cut, cut_k: Cut, q: Tensor, k: Tensor) -> None:
        self.group, self.cut_q, self.cut_k = group, cut_q, cut_k
        self.heads_q, self.heads_kv = q.shape[1], k.shape[1]
        self._of_q, self._of_k = head_ranges(self.heads_q, self.heads_kv, dist.get_world_size(group))

    @property
    def own_heads(self) -> slice:
        """This rank's heads of q."""
        return slice(*self._of_q[dist.get_rank(self.group)])

    def there(self, q: Tensor, k: Tensor, v: Tensor) -> Tuple[Tensor, ...]:
        swaps = (Swap("q", self.cut_q, self._of_q, self.heads_q), Swap("k", self.cut_k, self._of_k, self.heads_kv),
                 Swap("v", self.cut_k, self._of_k, self.heads_kv))
        return ToHeads.apply(self.group, swaps, q, k, v)

    def back(self, o: Tensor, lse: Tensor, with_lse: bool) -> Tuple[Tensor, Tensor]:
        swaps = [Swap(name, self.cut_q, self._of_q, self.heads_q) for name in ("o", "the log-sum-exp")]
        if with_lse and has_lse_gradient(o.shape[3]):
            o, lse = ToRows.apply(self.group, swaps, o, lse.unsqueeze(-1))
            return o, lse.squeeze(-1)
        o, = ToRows.apply(self.group, swaps[:1], o)
        if not with_lse:
            return o, lse
        return o, NoGradient.apply(_to_rows(self.group, swaps[1:], (lse.detach().unsqueeze(-1),))[0].squeeze(-1), o)
