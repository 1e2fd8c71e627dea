"""_flash_attn_padding.py: flash_attn.bert_padding: converts padded batches to packed sequences, and back."""

from __future__ import annotations

from typing import Optional, Tuple

import torch
from torch import Tensor
from torch.nn import functional


def index_first_axis(input: Tensor, indices: Tensor) -> Tensor:
    """The rows of a tensor with these indices."""
    return input[indices]


def index_put_first_axis(values: Tensor, indices: Tensor, first_axis_dim: int) -> Tensor:
    """A tensor with that many rows: these values at these indices, zeros elsewhere."""
    return values.new_zeros((first_axis_dim, *values.shape[1:])).index_put((indices,), values)


def unpad_input(hidden_states: Tensor, attention_mask: Tensor,
                unused_mask: Optional[Tensor] = None) -> Tuple[Tensor, Tensor, Tensor, int, Tensor]:
    """(used rows, their indices, cu_seqlens, the longest length, used rows per entry) of (batch, rows, ...).

    Rows of unused_mask are kept too, but not counted as used.
    """
    kept = attention_mask if unused_mask is None else attention_mask + unused_mask
    counts = kept.sum(-1, dtype=torch.int32)
    used = attention_mask.sum(-1, dtype=torch.int32)
    indices = torch.nonzero(kept.flatten()).flatten()
    starts = functional.pad(torch.cumsum(counts, 0, dtype=torch.int32), (1, 0))
    return hidden_states.flatten(0, 1)[indices], indices, starts, int(counts.max()), used


def pad_input(hidden_states: Tensor, indices: Tensor, batch: int, seqlen: int) -> Tensor:
    """The inverse: (batch, seqlen, ...), zeros where there is no row."""
    return index_put_first_axis(hidden_states, indices, batch * seqlen).unflatten(0, (batch, seqlen))
