"""_torch_report.py: replaces PyTorch's function and records which calls attest computed, which it passed on, and
why."""

from __future__ import annotations

import functools
import threading
from typing import Any, Callable, Iterator, List, NamedTuple, Optional, Tuple

import torch
from torch.nn import functional


class Call(NamedTuple):
    """Calls with the same properties."""

    query: Tuple[int, ...]  #: -1: a length that is not a single number, as in a nested tensor
    key: Tuple[int, ...]
    dtype: torch.dtype
    device: str
    mask: bool
    is_causal: bool
    reason: Optional[str]  #: why it was passed on; None: attest computed it

    def __str__(self) -> str:
        words = [f"q {self.query}", f"k {self.key}", str(self.dtype).replace("torch.", ""), self.device]
        words += ["mask"] * self.mask + ["causal"] * self.is_causal
        return " ".join(words) + (f": {self.reason}" if self.reason else "")


class Report:
    """Calls of scaled_dot_product_attention while it was patched: computed by attest, or passed on to PyTorch.

    In code that torch.compile has compiled, calls that attest computes are counted as they run; calls that were passed
    on during compilation are not counted. The patch ends with the context manager, or with close().
    """

    _MOST = 1000  # kinds of calls; the rest are counted together

    def __init__(self, replacement: Optional[Callable[..., Any]] = None) -> None:
        self._replacement = replacement
        self._counts: dict[Call, int] = {}
        self._lock = threading.Lock()

    def _add(self, call: Call) -> None:
        with self._lock:
            if len(self._counts) >= self._MOST and call not in self._counts:
                call = Call((), (), torch.float32, "others", False, False, call.reason and "others")
            self._counts[call] = self._counts.get(call, 0) + 1

    def _sum(self, served: bool) -> int:
        return sum(count for _, count in self._items(served))

    def _items(self, served: bool) -> List[Tuple[Call, int]]:
        with self._lock:
            return [(call, count) for call, count in self._counts.items() if (call.reason is None) == served]

    @property
    def served(self) -> int:
        """How many calls attest computed."""
        return self._sum(True)

    @property
    def passed_on(self) -> int:
        """How many calls were passed on to PyTorch."""
        return self._sum(False)

    def calls(self) -> Iterator[Tuple[Call, int]]:
        """Every kind of call with its count."""
        yield from self._items(True)
        yield from self._items(False)

    def __str__(self) -> str:
        lines = [f"{self.served} served by attest, {self.passed_on} passed on to PyTorch"]
        for served, word in ((True, "served   "), (False, "passed on")):
            lines += [f"{word} {count:6d}  {call}" for call, count in self._items(served)]
        return "\n".join(lines)

    def close(self) -> None:
        """Undo the patch, unless another report still needs it."""
        close(self)

    def __enter__(self) -> "Report":
        return self

    def __exit__(self, *exception) -> None:
        self.close()


original = functional.scaled_dot_product_attention
reports: List[Report] = []  # open reports, the innermost last
_changing = threading.Lock()


def put(replacement) -> Report:
    """Replace PyTorch's function with `replacement` until the last report is closed."""
    report = Report(replacement)
    with _changing:
        reports.append(report)
        functional.scaled_dot_product_attention = replacement
    return report


def close(report: Report) -> None:
    """Restore the function of the report that is now the innermost, or PyTorch's if none is open."""
    with _changing:
        if report in reports:
            reports.remove(report)
        functional.scaled_dot_product_attention = reports[-1]._replacement if reports else original


def count(query, key, mask, is_causal, reason) -> None:
    """Count one more call; it was computed by attest if there is no reason."""
    call = Call(_sizes(query), _sizes(key), query.dtype, str(query.device), mask is not None, is_causal, reason)
    for report in tuple(reports):
        report._add(call)


@functools.lru_cache(maxsize=256)
def _served(query, key, dtype, device, mask, is_causal) -> Call:
    return Call(tuple(query), tuple(key), dtype, str(device), mask, is_causal, None)


def count_served(query, key, mask, is_causal) -> None:
    """Count a call that attest computed. Models repeat their calls, so the records of the latest kinds are kept."""
    if not reports:
        return
    try:
        call = _served(query.shape, key.shape, query.dtype, query.device, mask is not None, is_causal)
    except TypeError:  # a tracer's sizes, which have no hash
        return count(query, key, mask, is_causal, None)
    for report in tuple(reports):
        report._add(call)


def _sizes(x) -> Tuple[int, ...]:
    if x.is_nested and x.layout is torch.strided:  # it has no shape
        return (x.size(0), *(-1 for _ in range(x.dim() - 1)))
    return tuple(size if type(size) is int else -1 for size in x.shape)
