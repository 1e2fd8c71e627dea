"""drawn_lengths.py: lengths of sequences as a server sees them; the same numbers in every run."""

from __future__ import annotations

import math
import random
from typing import Callable, Dict, Tuple

Lengths = Tuple[int, ...]


def _log_normal(count: int, short: int, longest: int) -> Lengths:
    """About half of them above four times `short`, a sixth above e times that."""
    chance = random.Random(0)
    drawn = (round(chance.lognormvariate(math.log(4 * short), 1.0)) for _ in range(count))
    return tuple(max(1, min(length, longest)) for length in drawn)


def _zipf(count: int, short: int, longest: int) -> Lengths:
    """The n-th longest has a length of longest / n."""
    del short
    return tuple(random.Random(0).sample([longest // n for n in range(1, count + 1)], count))


def _one_long(count: int, short: int, longest: int) -> Lengths:
    """One among many short ones."""
    return tuple(longest if n == count // 2 else short for n in range(count))


LAWS: Dict[str, Callable[[int, int, int], Lengths]] = {"log-normal": _log_normal, "zipf": _zipf, "one-long": _one_long}
