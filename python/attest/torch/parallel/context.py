"""context.py: attest.torch.parallel.enable(): scaled_dot_product_attention and transformers' models over a process
group."""

from __future__ import annotations

import contextlib
import warnings
from typing import Any, Iterator, NamedTuple, Optional, Sequence, Tuple

import torch
import torch.distributed as dist
from torch import Tensor

from ... import UnsupportedError
from ..._torch_report import Report, count_served, put
from ..._torch_serving import sharings
from ..._torch_spans import decode, encode, is_encoded
from .attend import attention
from .cut import Cut
from .whole_sequence import refuse_layers, refuse_positions, refuse_rope


class Sharing(NamedTuple):
    """How the calls are computed: the arguments of attention() that a model does not know."""

    cut: Cut
    group: Any
    method: str
    heads_group: Any
    lens_k: Optional[Tensor]
    starts_k: Optional[Tensor]
    documents: Optional[Tuple[int, ...]]

    @property
    def rank(self) -> int:
        """The shard of this process."""
        rank = dist.get_rank(self.group)
        return rank if self.heads_group is None else rank * dist.get_world_size(self.heads_group) + dist.get_rank(self.heads_group)

    def serve(self, query: Tensor, key: Tensor, value: Tensor, **named: Any) -> Tensor:
        o = attention(query, key, value, **self._asdict(), **named)
        count_served(query, key, None, bool(named.get("causal")))
        return o

    def of_model(self, query, key, value, mask, dropout, scaling, is_causal, softcap, sinks, position_bias, position_ids=None) -> Tensor:
        """transformers' attention, (batch, heads, rows, d), with a mask made by mask()."""
        _refuse(dropout=dropout, position_bias=position_bias)
        if self.starts_k is None:
            refuse_positions(position_ids, self.cut, self.rank, self.documents)
        causal, window = is_causal, None
        if is_encoded(mask):
            spans = decode(mask)
            causal, window = spans.causal is not None, None if spans.window == (None, None) else spans.window
        elif mask is not None:
            _refuse(attention_mask=mask)
        return self.serve(query, key, value, causal=bool(causal), window=window, scale=scaling, softcap=softcap, sinks=sinks)

    def mask(self, config: Any, causal: bool, window: Optional[int], packed: Optional[Tensor], attention_mask: Optional[Tensor],
             batch: int, device) -> Tensor:
        """The mask for a model's layers: causal and the window; padding and documents are known here."""
        refuse_layers(config)
        refuse_rope(config, self.cut, self.documents)
        _refuse(attention_mask=attention_mask)
        if packed is not None and not self._has_positions(packed):
            raise UnsupportedError("position_ids start again within a sequence: enable(documents=...) says where")
        none = torch.zeros(batch, dtype=torch.int32, device=device)
        return encode(none, none, "top-left" if causal else None, window)

    def _has_positions(self, packed: Tensor) -> bool:
        """Whether positions jump exactly where those of some rank's rows do; documents must be given by the caller."""
        if self.documents is not None:
            return True
        rows = packed.shape[-1]
        found = {_jumps(self.cut, rank) for rank in range(self.cut.ranks) if self.cut.rows_of(rank) == rows}
        # The host waits for a GPU at each comparison; zigzag() and contiguous() need two at most.
        return any(torch.equal(packed[0], _counted(jumps, rows, packed)) for jumps in found)


def _jumps(cut: Cut, rank: int) -> Tuple[int, ...]:
    """The rows of a rank whose position is not that of the row before plus one."""
    row, next_position, jumps = 0, None, []
    for piece in cut.pieces_of(rank):
        if cut.lengths[piece] and next_position not in (None, cut.starts[piece]):
            jumps.append(row)
        if cut.lengths[piece]:
            row, next_position = row + cut.lengths[piece], cut.starts[piece] + cut.lengths[piece]
    return tuple(jumps)


def _counted(jumps: Tuple[int, ...], rows: int, like: Tensor) -> Tensor:
    """How many jumps there are up to each row, which is how transformers counts sequences."""
    count = torch.zeros(rows, dtype=like.dtype, device=like.device)
    for row in jumps:
        count[row:] += 1
    return count


def _refuse(**given: Any) -> None:
    """Refuse by name what would be wrong over shards of rows, instead of passing it on."""
    for name, value in given.items():
        if isinstance(value, Tensor) or value:
            fits = "enable(lens_k=..., starts_k=...) has padding of the whole" if name.endswith("mask") else "expected none"
            raise UnsupportedError(f"{name} is given within attest.torch.parallel.enable(): {fits}")


def _sdpa(query, key, value, attn_mask=None, dropout_p=0.0, is_causal=False, *, scale=None, enable_gqa=False):
    """The replacement of torch.nn.functional.scaled_dot_product_attention."""
    if not sharings:  # another report has been open longer
        from .. import _patched

        return _patched(query, key, value, attn_mask, dropout_p, is_causal, scale=scale, enable_gqa=enable_gqa)
    _refuse(attn_mask=attn_mask, dropout_p=dropout_p)
    before = query.shape[:-1]
    query, key, value = map(_four_axes, (query, key, value))
    if not enable_gqa and query.shape[1] != key.shape[1]:
        raise ValueError(f"query has {query.shape[1]} heads and key {key.shape[1]}; expected enable_gqa=True")
    return sharings[-1].serve(query, key, value, causal=is_causal, scale=scale).reshape(*before, value.shape[-1])


def _four_axes(x: Tensor) -> Tensor:
    """(batch, heads, rows, d): without a batch, or without heads, those are 1; more axes than one are a batch."""
    while x.dim() < 4:
        x = x.unsqueeze(0)
    return x.flatten(0, -4)


@contextlib.contextmanager
def enable(cut: Cut, *, group: Any = None, method: str = "ring", heads_group: Any = None, lens_k: Optional[Tensor] = None,
           starts_k: Optional[Tensor] = None, documents: Optional[Sequence[int]] = None) -> Iterator[Report]:
    """While it is open, torch.nn.functional.scaled_dot_product_attention and models with attn_implementation="attest"
    compute attention over the group, each rank with its rows of `cut`. The arguments are those of attention().

    A model gets its shard of the tokens, position_ids=cut.positions(rank)[None], and no attention_mask: padding of the
    whole is given by lens_k and starts_k. A mask tensor, dropout, a position bias, layers other than attention that
    relate rows, and rotary embeddings that would differ between ranks are refused. Backward may run outside, except with
    activation checkpointing, which computes forward again. Warns if it was not called at all: what computes attention in
    another way, sees the rows of this rank alone.
    """
    sharing = Sharing(cut, group, method, heads_group, lens_k, starts_k, None if documents is None else tuple(map(int, documents)))
    report = put(_sdpa)
    sharings.append(sharing)
    fast = torch.backends.mha.get_fastpath_enabled()
    torch.backends.mha.set_fastpath_enabled(False)  # of torch.nn.MultiheadAttention, which does without the function
    try:
        yield report
    finally:
        torch.backends.mha.set_fastpath_enabled(fast)
        sharings.remove(sharing)
        report.close()
    if not report.served:
        warnings.warn("attest.torch.parallel.enable(): no attention was computed over the group. Models of transformers need "
                      "attn_implementation=\"attest\"; others must call torch.nn.functional.scaled_dot_product_attention",
                      stacklevel=3)
