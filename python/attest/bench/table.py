"""table.py: a line a row, as it is timed."""

from __future__ import annotations

from typing import List, Optional, Sequence

from . import fa3
from .problems import Row
from .samples import Timed

WIDTH = 39


def shares(row: Row, seconds: float, peaks: Optional[dict], rate: Optional[float]) -> str:
    """Of the peaks measured in the same run, in per cent: FMA, AMX and third-level cache of a CPU; a GPU's copy rate."""
    if row.threads:
        peak = (peaks or {}).get(str(row.threads))
        if not peak:
            return ""
        rates = ((row.problem.operations, peak["fma_gflops"]), (row.problem.operations, peak["amx_gflops"]),
                 (row.problem.moved_bytes, peak["l3_gbs"]))
        return " ".join(f"{100 * work / seconds / 1e9 / most:5.0f}" if most else "    -" for work, most in rates)
    return f"{100 * row.problem.kv_bytes / seconds / rate:7.1f}" if rate else ""


class Table:
    """Prints the head, then rows as they come."""

    def __init__(self, rivals: Sequence[str], cpu: bool, modes: Sequence[str], facts: dict) -> None:
        self._rivals, self._cpu, self._modes, self._facts = rivals, cpu, modes, facts
        self._unit, self._scale = ("ms", 1e6) if cpu else ("us", 1e3)
        self._fa3 = not cpu and "cudnn" in rivals

    def head(self) -> str:
        text = f"{'problem':{WIDTH}}{'kernel':36}{'attest ' + self._unit:>11}{'TFLOP/s':>9}"
        for rival in self._rivals:
            text += f"{rival + ' ' + self._unit:>13}{'x':>7}"
        text += f"{'x FA3':>7}" if self._fa3 else ""
        text += "   % FMA   AMX    L3" if self._cpu and self._facts.get("peaks") else ""
        text += f"{'% copy':>8}" if self._facts.get("copy_bytes") else ""
        return text

    def _line(self, timed: Timed, mode: str) -> str:
        ours = timed.find("attest", mode)
        name = timed.row.name + (f" {mode}" if mode != "warm" and len(self._modes) > 1 else "")
        text = f"{name:{WIDTH}}"
        if ours:
            tflops = timed.row.problem.operations / ours.median_ns / 1e3
            text += f"{ours.kernel:36}{ours.median_ns / self._scale:>11.3f}{tflops:>9.{2 if self._cpu else 1}f}"
        else:
            text += f"{'-':36}{'-':>11}{'-':>9}"
        for rival in self._rivals:
            theirs = timed.find(rival, mode)
            ratio = timed.ratio(rival, mode)
            text += f"{theirs.median_ns / self._scale:>13.3f}" if theirs else f"{'-':>13}"
            text += f"{ratio:>7.2f}" if ratio else f"{'-':>7}"
        if self._fa3:
            placed = placed_ratio(timed, mode)
            text += f"{placed:>7.3f}" if placed else f"{'-':>7}"
        if ours:
            text += " " + shares(timed.row, ours.median_ns / 1e9, self._facts.get("peaks"), self._facts.get("copy_bytes"))
        return text.rstrip()

    def show(self, timed: Timed) -> None:
        for mode in self._modes:
            print(self._line(timed, mode), flush=True)
        for result in timed.results.values():
            if result.trouble:
                print(f"    {result.rival}: {result.trouble}", flush=True)


def placed_ratio(timed: Timed, mode: str) -> Optional[float]:
    """Times the speed at which FlashAttention-3 would be, placed by cuDNN's (fa3.py)."""
    over, ratio = fa3.over_cudnn(timed.row.problem), timed.ratio("cudnn", mode)
    return ratio / over if over and ratio else None


def rivals_of(done: List[Timed]) -> List[str]:
    names = dict.fromkeys(rival for timed in done for rival, _, _ in timed.results)
    return [name for name in names if name != "attest"]


def modes_of(done: List[Timed]) -> List[str]:
    return list(dict.fromkeys(mode for timed in done for mode in timed.modes())) or ["warm"]
