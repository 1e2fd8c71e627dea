"""samples.py: what was timed: raw samples, and nothing that is derived from them (laboratory.py)."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any, Callable, Dict, List, Optional, Tuple

from .problems import Row


@dataclass(frozen=True)
class Subject:
    """A timed subject."""

    rival: str
    name: str  #: with its version, as in the laboratory's files
    prepare: Callable[[Any], Callable]
    judged: bool = True  #: it computes the problem; otherwise it is only a reference for the problem's time
    graph: bool = True  #: its calls can be captured in a CUDA graph; otherwise they are timed with the wall clock


@dataclass
class Result:
    """One subject on one row, timed or not."""

    subject: str  #: its name in the laboratory's files: "attest", "PyTorch 2.11.0 flash" …
    rival: str  #: short: "attest", "flash" …
    timer: str = "cpu"  #: "cpu", "graph" or "wall"
    mode: str = "warm"  #: "warm" (interleaved), "sustained" or "burst"
    samples_ns: List[float] = field(default_factory=list)
    calls: int = 1  #: per sample
    kernel: str = ""
    launch: Optional[dict] = None
    error: float = math.nan  #: the largest, against float32 math
    plain: float = math.nan  #: the same for a plain computation in the problem's type
    bar: float = math.nan
    trouble: str = ""  #: why it was not timed
    wrong: bool = False  #: its answer was wrong


@dataclass
class Timed:
    """A row with its results, by (rival, mode, timer)."""

    row: Row
    results: Dict[Tuple[str, str, str], Result] = field(default_factory=dict)
    input_sets: int = 1

    def add(self, result: Result) -> Result:
        self.results[result.rival, result.mode, result.timer] = result
        return result

    def line(self) -> str:
        """A line for the waiting user: how many samples each subject has."""
        counts = {}
        for (rival, _, _), result in self.results.items():
            counts[rival] = counts.get(rival, 0) + len(result.samples_ns)
        said = [f"{self.row.name}: samples of " + ", ".join(f"{rival} {n}" for rival, n in counts.items() if n)]
        said += [f"    {result.rival}: {'' if result.wrong else 'refused: '}{result.trouble}"
                 for result in self.results.values() if result.trouble]
        return "\n".join(said)
