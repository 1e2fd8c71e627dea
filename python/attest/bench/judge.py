"""judge.py: the goals that a run is held to. Each prints a line and says whether it holds."""

from __future__ import annotations

from typing import Callable, Dict, List, Optional, Tuple

from .problems import Row
from .samples import Timed, geometric, paired
from .table import placed_ratio

FLASH_WORST, FLASH_MEAN, DECODE_MEAN, COPY_SHARE = 1.0, 1.15, 1.5, 0.85
CPU_MEANS = {"f32": 1.15, "bf16": 2.0, "fp16": 2.0, "decode": 3.0}
CPU_WORST, CAUSAL_MOST = 1.0, 0.6
CLIFF = 0.15


class Verdict:
    def __init__(self) -> None:
        self.holds = True

    def least(self, text: str, value: float, must: float, detail: str = "") -> None:
        self.say(f"{text}: {value:.3f} (must {must:.2f})" + (f", {detail}" if detail else ""), value >= must)

    def say(self, text: str, good: bool) -> None:
        self.holds = self.holds and good
        print(f"{text}: {'holds' if good else 'MISSED'}")


def _ratios(done: List[Timed], groups, rival: str, mode: str) -> List[Tuple[float, str]]:
    found = [(timed.ratio(rival, mode), timed.row.name) for timed in done if timed.row.group in groups]
    return [(ratio, name) for ratio, name in found if ratio]


def wrong_answers(done: List[Timed], verdict: Verdict) -> None:
    """attest's own; a rival's is told in the table."""
    for timed in done:
        for result in timed.results.values():
            if result.rival == "attest" and result.trouble:
                verdict.say(f"{timed.row.name}: {result.trouble}", False)


def flash(done: List[Timed], facts: dict, verdict: Verdict, mode: str) -> None:
    """Against PyTorch's FlashAttention-2 backend."""
    for group in ("forward", "fp16", "gqa", "dims", "seed", "decode"):
        for rival in ("flash", "cudnn"):
            ratios = _ratios(done, (group,), rival, mode)
            if ratios:
                worst, where = min(ratios)
                print(f"{group}: geometric mean {geometric(r for r, _ in ratios):.3f} x {rival}, worst {worst:.3f}, {where}")
    table = _ratios(done, ("forward", "seed"), "flash", mode)
    if table:
        worst, where = min(table)
        verdict.least("forward and seed, worst cell against flash", worst, FLASH_WORST, where)
        verdict.least("forward and seed, geometric mean against flash", geometric(r for r, _ in table), FLASH_MEAN)
    decode = _ratios(done, ("decode",), "flash", mode)
    if decode:
        verdict.least("decode, geometric mean against flash", geometric(r for r, _ in decode), DECODE_MEAN)
    rate = facts.get("copy_bytes")
    large = [(timed.row.problem, timed.seconds(mode)) for timed in done if timed.row.group == "decode"]
    shares = [p.kv_bytes / seconds / rate for p, seconds in large if rate and seconds and p.b >= 8 and p.sk >= 8192]
    if shares:
        share = min(shares)
        verdict.least("decode at B >= 8, Sk >= 8192, least share of the copy rate", share, COPY_SHARE)


def _hopper_must(row: Row) -> Optional[float]:
    p = row.problem
    if row.group in ("forward", "fp16", "gqa"):
        if p.d == 64:
            return 1.12 if p.sq <= 1024 else 1.03
        if p.causal:
            return 1.04 if p.sq <= 2048 else 1.0
        return 1.05 if p.sq <= 1024 else 1.02
    if row.group == "seed":
        return 1.4 if p.sq <= 512 else 1.1
    if row.group == "decode":
        return 1.5 if p.b == 1 and p.sk <= 8192 else 1.0
    return 1.0 if row.group == "dims" else None


def best_rival(timed: Timed, mode: str) -> Optional[Tuple[float, str]]:
    """(attest's speed in times of it, its name) of the fastest of cuDNN, Flash and FlashAttention-3 as placed."""
    found = [(timed.ratio(rival, mode), rival) for rival in ("cudnn", "flash")] + [(placed_ratio(timed, mode), "FA3")]
    return min(((ratio, name) for ratio, name in found if ratio), default=None)


def hopper(done: List[Timed], facts: dict, verdict: Verdict, mode: str) -> None:
    """Against the better of cuDNN and FlashAttention-3, placed by its ratio to cuDNN where it is not in the run."""
    del facts
    groups: Dict[str, list] = {}
    for timed in done:
        must, best = _hopper_must(timed.row), best_rival(timed, mode)
        if must and best:
            groups.setdefault(timed.row.group, []).append((best[0] / must, best, must, timed.row.name))
    for group, cells in groups.items():
        missed = [cell for cell in cells if cell[0] < 1.0]
        mean = geometric(cell[1][0] for cell in cells)
        verdict.say(f"{group} ({mode}): geometric mean {mean:.3f} x the best rival, {len(cells) - len(missed)} of "
                    f"{len(cells)} cells at their goal", not missed)
        for _, (ratio, rival), must, name in sorted(missed):
            print(f"    {name}: {ratio:.3f} x {rival} (must {must:.2f})")


def cpu(done: List[Timed], facts: dict, verdict: Verdict, mode: str) -> None:
    """Against PyTorch's own choice on a CPU."""
    del facts
    for group, least in CPU_MEANS.items():
        ratios = _ratios(done, (group,), "default", mode)
        if ratios:
            mean, (worst, where) = geometric(r for r, _ in ratios), min(ratios)
            verdict.say(f"{group:8} geometric mean {mean:.2f} (must {least}), worst row {worst:.2f} (must {CPU_WORST}), "
                        f"{where}", mean >= least and worst >= CPU_WORST)
    at = {timed.row: timed.find("attest", mode) for timed in done}
    shares = []
    for row, causal in at.items():
        p = row.problem
        full = at.get(Row(row.group, type(p)(**{**vars(p), "causal": False}), row.threads))
        if p.causal and p.sq >= 2048 and causal and full:
            shares.append((paired(causal.samples_ns, full.samples_ns), row.name))
    if shares:
        worst, where = max(shares)
        verdict.say(f"causal   over full time at S >= 2048: worst {worst:.2f} (must {CAUSAL_MOST}), {where}",
                    worst <= CAUSAL_MOST)


def _below(line: List[Tuple[Row, float]]) -> List[Tuple[float, Row]]:
    """Points of a line that are lower than both their neighbours by more than CLIFF; the last has one neighbour."""
    found = []
    for i in range(1, len(line)):
        around = [line[j][1] for j in (i - 1, i + 1) if j < len(line)]
        share = line[i][1] / min(around)
        if share < 1.0 - CLIFF:
            found.append((share, line[i][0]))
    return found


def cliffs(done: List[Timed], mode: str) -> List[Tuple[float, str]]:
    """Points of the sweep that are more than 15 % below their neighbours along S or along the heads, the worst first."""
    lines: Dict[tuple, list] = {}
    for timed in done:
        row, p, seconds = timed.row, timed.row.problem, timed.seconds(mode)
        if row.group != "sweep" or not seconds:
            continue
        speed = p.operations / seconds
        lines.setdefault((p.d, p.causal, "heads", p.hq), []).append((p.sq, row, speed))
        lines.setdefault((p.d, p.causal, "s", p.sq), []).append((p.hq, row, speed))
    found: Dict[str, float] = {}
    for line in lines.values():
        for share, row in _below([(row, speed) for _, row, speed in sorted(line, key=lambda point: point[0])]):
            found[row.name] = min(share, found.get(row.name, 1.0))
    return sorted((share, name) for name, share in found.items())


def sweep(done: List[Timed], verdict: Verdict, mode: str) -> None:
    points = sum(1 for timed in done if timed.row.group == "sweep" and timed.seconds(mode))
    if not points:
        return
    found = cliffs(done, mode)
    verdict.say(f"sweep ({mode}): {len(found)} of {points} points more than {100 * CLIFF:.0f} % below their neighbours",
                not found)
    for share, name in found:
        print(f"    {name}: {share:.2f} of its neighbours")


GOALS: Dict[str, Callable] = {"flash": flash, "hopper": hopper, "cpu": cpu}


def judge(done: List[Timed], facts: dict, goals, modes) -> bool:
    """Print every goal; True where all hold. Goals are of the sustained samples where there are such."""
    verdict = Verdict()
    mode = "sustained" if "sustained" in modes else modes[0]
    wrong_answers(done, verdict)
    for goal in goals:
        GOALS[goal](done, facts, verdict, mode)
    sweep(done, verdict, mode)
    return verdict.holds
