"""_torch_serving.py: what computes attention while attest.torch.parallel.enable() is open: a group instead of this
process."""

from __future__ import annotations

from typing import Any, List

sharings: List[Any] = []  # attest.torch.parallel.context.Sharing, the innermost last
