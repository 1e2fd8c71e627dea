"""whole_sequence.py: what a model of transformers computes outside attention from more rows than a rank has: refused by name."""

from __future__ import annotations

import weakref
from functools import lru_cache
from typing import Any, Dict, Iterator, Optional, Tuple

import torch
from torch import Tensor

from ... import UnsupportedError
from .cut import Cut

Documents = Optional[Tuple[int, ...]]

# Layers of which only attention, which the group computes, relates rows to each other.
_OF_ATTENTION = frozenset(("attention", "full_attention", "sliding_attention", "chunked_attention", "moe", "mlp", "sparse", "dense"))


def refuse_layers(config: Any) -> None:
    """Convolutions and recurrent layers would start again in every shard."""
    for kind in getattr(config, "layer_types", None) or ():
        if kind not in _OF_ATTENTION:
            raise UnsupportedError(f"the model {config.model_type} has layers of the type {kind}, which within "
                                   "attest.torch.parallel.enable() would see the rows of one rank alone; expected attention")


def refuse_rope(config: Any, cut: Cut, documents: Documents) -> None:
    """Rotary embeddings whose frequencies follow from the last position: those of every rank must be those of the whole."""
    whole = _longest(cut, documents, None)
    ranks = [_longest(cut, documents, rank) for rank in range(cut.ranks) if cut.rows_of(rank)]
    for rope in _ropes(config):
        kind, known = rope.get("rope_type"), getattr(config, "max_position_embeddings", None)
        if kind == "longrope":  # two sets of frequencies
            known = rope.get("original_max_position_embeddings", getattr(config, "original_max_position_embeddings", known))
            differ = known is not None and any((rows > known) != (whole > known) for rows in ranks)
        else:
            differ = kind == "dynamic" and known is not None and whole > known and any(rows != whole for rows in ranks)
        if differ:
            raise UnsupportedError(f"rope_type={kind!r}: frequencies depend on the last position, and a rank whose rows end at {min(ranks)} "
                                   f"would take other ones than the sequence of {whole} rows; the limit of this model is {known}")


def _ropes(config: Any) -> Iterator[Dict[str, Any]]:
    """The parameters of rotary embeddings; some models have one set per type of layers."""
    found = getattr(config, "rope_parameters", None) or getattr(config, "rope_scaling", None) or {}
    if "rope_type" in found:
        yield found
    else:
        yield from (each for each in found.values() if isinstance(each, dict))


@lru_cache(maxsize=256)
def _longest(cut: Cut, documents: Documents, rank: Optional[int]) -> int:
    """The last position plus one among the rows of a rank, or of all ranks, counted from the start of each document."""
    bounds = (0, cut.rows) if documents is None else documents
    pieces = range(len(cut.lengths)) if rank is None else cut.pieces_of(rank)
    return max((min(end, cut.starts[piece + 1]) - first for piece in pieces for first, end in zip(bounds, bounds[1:])
                if max(first, cut.starts[piece]) < min(end, cut.starts[piece + 1])), default=0)


_checked: Tuple[Any, Any] = (lambda: None, None)  # position_ids, which the layers of a model share, and the rest of the call


@torch.compiler.disable
def refuse_positions(position_ids: Any, cut: Cut, rank: int, documents: Documents) -> None:
    """A model that is not given positions counts the rows of every shard from 0."""
    global _checked
    rows, call = cut.rows_of(rank), (cut, rank, documents)
    if not isinstance(position_ids, Tensor) or position_ids.dim() != 2 or position_ids.shape[1] != rows or _begins_at_0(*call):
        return
    if _checked[0]() is position_ids and _checked[1] == call:
        return
    if bool((position_ids == torch.arange(rows, device=position_ids.device)).all()):
        raise ValueError(f"position_ids are 0 to {rows - 1} on rank {rank}, whose rows have other positions in the sequence; "
                         "expected cut.positions(rank)[None]")
    _checked = weakref.ref(position_ids), call


@lru_cache(maxsize=256)
def _begins_at_0(cut: Cut, rank: int, documents: Documents) -> bool:
    """Whether the rows of a rank are the first of the sequence, or of their document."""
    positions = cut.positions(rank)
    if documents is not None:
        starts = torch.tensor(documents)
        positions = positions - starts[torch.searchsorted(starts, positions, right=True) - 1]
    return torch.equal(positions, torch.arange(len(positions)))
