"""fa3.py: where FlashAttention-3 would stand in a run without it.

FlashAttention-3 has to be built for hours, so it is not in every run; cuDNN is. Its speed over cuDNN's is known cell by
cell, measured beside FA3, 2026-11-15, on an H200 with cuDNN 9.19: TFLOP/s of both in two runs, FA3 then cuDNN. The larger
of the runs' ratios counts, so that FA3 is placed where it looked best.
"""

from __future__ import annotations

from typing import Optional

from .problems import FORWARD_SIZES, Problem

SOURCE = "measured beside FA3, 2026-11-15"

#: (d, causal): for each size of the forward table, ((FA3, cuDNN) of the first run, of the second)
TFLOPS = {
    (128, False): (((503, 492), (472, 468)), ((570, 554), (551, 527)), ((613, 580), (599, 565)),
                   ((648, 606), (631, 587)), ((675, 602), (656, 590)), ((684, 616), (662, 599))),
    (128, True): (((325, 324), (305, 302)), ((441, 407), (418, 381)), ((528, 469), (517, 440)),
                  ((589, 510), (595, 481)), ((634, 549), (627, 505)), ((669, 564), (645, 527))),
    (64, False): (((326, 375), (309, 365)), ((368, 415), (352, 407)), ((462, 438), (445, 427)),
                  ((484, 450), (473, 438)), ((522, 466), (512, 438)), ((532, 458), (516, 438))),
    (64, True): (((210, 259), (214, 246)), ((290, 329), (281, 318)), ((396, 373), (387, 361)),
                 ((447, 412), (438, 399)), ((491, 429), (490, 417)), ((514, 440), (511, 427))),
}


def over_cudnn(problem: Problem) -> Optional[float]:
    """FA3's speed in times of cuDNN's for a cell of the forward table, with either 16-bit type; None elsewhere."""
    cells = TFLOPS.get((problem.d, problem.causal))
    in_table = (problem.sq == problem.sk and problem.dv == problem.d and problem.sq in FORWARD_SIZES and
                problem.b * problem.sq == 16384 and problem.dtype != "f32")
    if not cells or not in_table:
        return None
    return max(ours / theirs for ours, theirs in cells[FORWARD_SIZES.index(problem.sq)])
