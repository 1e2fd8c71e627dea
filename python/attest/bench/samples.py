"""samples.py: what a row's samples say."""

from __future__ import annotations

import math
import statistics
from dataclasses import dataclass, field
from typing import Dict, List, Optional, Tuple

from .problems import Row


@dataclass
class Result:
    """One subject on one row, timed or not."""

    subject: str  #: as the laboratory's files name it: "attest", "PyTorch 2.11.0 flash" …
    rival: str  #: short: "attest", "flash" …
    timer: str = "cpu"  #: "cpu", "graph" or "wall"
    mode: str = "warm"  #: "warm" (in turn), "sustained" or "burst"
    samples_ns: List[float] = field(default_factory=list)
    calls: int = 1  #: of a sample
    kernel: str = ""
    launch: Optional[dict] = None
    error: float = math.nan  #: largest, against float32 math
    plain: float = math.nan  #: the same of a plain computation in the problem's type
    bar: float = math.nan
    trouble: str = ""  #: why it was not timed
    wrong: bool = False  #: its answer was

    @property
    def median_ns(self) -> float:
        return statistics.median(self.samples_ns)


@dataclass
class Timed:
    """A row with its results, by (rival, mode, timer)."""

    row: Row
    results: Dict[Tuple[str, str, str], Result] = field(default_factory=dict)
    input_sets: int = 1

    def add(self, result: Result) -> Result:
        self.results[result.rival, result.mode, result.timer] = result
        return result

    def find(self, rival: str, mode: str = "warm", timer: Optional[str] = None) -> Optional[Result]:
        """A rival's timed result: by that timer, or by the wall clock only where it has no other."""
        found = [result for (name, how, _), result in self.results.items()
                 if name == rival and how == mode and result.samples_ns and timer in (None, result.timer)]
        return min(found, key=lambda result: result.timer == "wall", default=None)

    def seconds(self, mode: str = "warm") -> Optional[float]:
        """Of one call of attest's."""
        ours = self.find("attest", mode)
        return ours.median_ns * 1e-9 if ours else None

    def modes(self) -> List[str]:
        return list(dict.fromkeys(mode for (_, mode, _), result in self.results.items() if result.samples_ns))

    def ratio(self, rival: str, mode: str = "warm") -> Optional[float]:
        """Times the rival's speed."""
        theirs = self.find(rival, mode)
        ours = self.find("attest", mode, theirs.timer if theirs else None)
        return paired(theirs.samples_ns, ours.samples_ns) if ours and theirs else None


def paired(above: List[float], below: List[float]) -> float:
    """The median of the rounds' own ratios: a machine's speed drifts from round to round far more than within one."""
    return statistics.median(a / b for a, b in zip(above, below))


def geometric(values) -> float:
    return math.exp(statistics.fmean(math.log(value) for value in values))


def interval(samples: List[float]) -> Tuple[float, float]:
    """95 % of the median by order statistics; least and most of fewer than six."""
    ordered, count = sorted(samples), len(samples)
    below, outside = 0.0, 0
    while outside < count // 2:
        below += math.comb(count, outside) / 2.0**count
        if below > 0.025:
            break
        outside += 1
    low = max(outside - 1, 0) if count >= 6 else 0
    return ordered[low], ordered[count - 1 - low]


def spread_percent(samples: List[float]) -> float:
    """Interquartile range over the median."""
    if len(samples) < 2:
        return 0.0
    low, middle, high = statistics.quantiles(samples, n=4, method="inclusive")
    return 100.0 * (high - low) / middle
