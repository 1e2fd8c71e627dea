"""plot.py: the speeds that the laboratory computed, drawn as SVG."""

from __future__ import annotations

import math
import re
from html import escape
from typing import Dict, List, Tuple

_SPEC = re.compile(r"b(?P<b>\d+)h(?P<h>\d+)(?:hkv\d+)?s(?P<s>\d+)(?:sk(?P<sk>\d+))?d(?P<d>\d+)(?:dv(?P<dv>\d+))?,"
                   r"(?P<dtype>f32|fp16|bf16)(?P<causal>,causal)?")
COLOURS = ("#1b6ca8", "#d1495b", "#3c8d5a", "#b8860b", "#6f5499", "#7f7f7f", "#222222", "#c06014")
PANEL_WIDTH, PANEL_HEIGHT, LEFT, TOP, GAP = 360, 220, 56, 34, 60

Line = List[Tuple[float, float]]


def _series(rows: List[dict], mode: str) -> Dict[str, Dict[str, Line]]:
    """Panels of lines: TFLOP/s over the length. A sweep has one line per number of heads, the others one per
    subject."""
    panels: Dict[str, Dict[str, Line]] = {}
    for each in rows:
        match = _SPEC.match(each["problem"])
        if each["mode"] != mode or each["timer"] == "wall" or not match or "gflops" not in each:
            continue
        b, hq, sq, sk, d, dv = (int(x or 0) for x in match.group("b", "h", "s", "sk", "d", "dv"))
        sizes = f"D={d}" + (f"/{dv}" if dv else "")
        title = f"{each['group']}, {match.group('dtype')}, {sizes}" + (", causal" if match.group("causal") else "")
        title += f", {each['threads']} threads" if each["timer"] == "cpu" else ""
        length = (sk or sq) if sq == 1 else sq
        label = each["rival"] if each["group"] != "sweep" else f"{each['rival']} BH={b * hq}"
        panels.setdefault(title, {}).setdefault(label, []).append((length, each["gflops"] / 1e3))
    return panels


def _panel(title: str, lines: Dict[str, Line], x0: float, y0: float) -> List[str]:
    xs = [x for line in lines.values() for x, _ in line]
    top = max(y for line in lines.values() for _, y in line) * 1.05
    low, high = math.log(min(xs)), math.log(max(xs))

    def place(x, y):
        across = (math.log(x) - low) / (high - low) if high > low else 0.5
        return x0 + PANEL_WIDTH * across, y0 + PANEL_HEIGHT * (1 - y / top)

    parts = [f'<text x="{x0}" y="{y0 - 12}" font-weight="bold">{escape(title)}</text>',
             f'<rect x="{x0}" y="{y0}" width="{PANEL_WIDTH}" height="{PANEL_HEIGHT}" fill="none" stroke="#999"/>']
    for part in (0, 0.25, 0.5, 0.75, 1):
        value = top * part
        _, y = place(xs[0], value)
        parts.append(f'<text x="{x0 - 6}" y="{y + 4:.1f}" text-anchor="end">{value:.3g}</text>')
    for x in sorted(set(xs))[:: max(1, len(set(xs)) // 6)]:
        parts.append(f'<text x="{place(x, 0)[0]:.1f}" y="{y0 + PANEL_HEIGHT + 16}" text-anchor="middle">{x:g}</text>')
    for i, (label, line) in enumerate(lines.items()):
        colour = COLOURS[i % len(COLOURS)]
        placed = [place(*point) for point in sorted(line)]
        points = " ".join(f"{x:.1f},{y:.1f}" for x, y in placed)
        parts.append(f'<polyline points="{points}" fill="none" stroke="{colour}" stroke-width="1.5"/>')
        parts += [f'<circle cx="{x:.1f}" cy="{y:.1f}" r="2.5" fill="{colour}"/>' for x, y in placed]
        parts.append(f'<text x="{x0 + PANEL_WIDTH + 8}" y="{y0 + 12 + 15 * i}" fill="{colour}">{escape(label)}</text>')
    return parts


def svg(rows: List[dict], mode: str) -> str:
    """One picture of the rows that the program judged: TFLOP/s over the length, one panel per kind of problem."""
    panels = _series(rows, mode)
    step = PANEL_HEIGHT + TOP + GAP
    width, height = LEFT + PANEL_WIDTH + 150, step * max(1, len(panels))
    parts = [f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" '
             f'viewBox="0 0 {width} {height}" font-family="sans-serif" font-size="12">',
             f"<title>attest.bench: TFLOP/s over the length ({escape(mode)})</title>",
             f'<rect width="{width}" height="{height}" fill="#fff"/>']
    for i, (title, lines) in enumerate(panels.items()):
        parts += _panel(title, lines, LEFT, step * i + TOP)
    return "\n".join([*parts, "</svg>"]) + "\n"
