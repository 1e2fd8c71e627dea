"""mask_calls.py: the groups `masks`, `masks_inf` and `masks_min`: calls of PyTorch's scaled_dot_product_attention as models
make them, with attest.torch.enable() and without.

The masks are boolean or float, with -inf or the type's least number where they hide, and are expanded to the shape of
the scores without a copy. A call that attest passes on to PyTorch is not timed; the reason is shown.
"""

from __future__ import annotations

from typing import Callable, Dict, Optional, Sequence

import torch
from torch.nn import functional

import attest.torch

from . import check, features
from .problems import Problem
from .rivals import Inputs, Refused
from .samples import Subject


def mask_of(problem: Problem, device, dtype) -> Optional[torch.Tensor]:
    """attn_mask; None for a causal call."""
    if not problem.is_mask:
        return None
    seen = features.visible(problem, device)
    if problem.call != "bool":
        hidden = -torch.inf if problem.call == "inf" else torch.finfo(dtype).min
        seen = torch.zeros(seen.shape, device=device, dtype=dtype).masked_fill_(~seen, hidden)
    return seen.expand(problem.b, problem.hq, problem.sq, problem.sk)


def _call(inputs: Inputs) -> Callable:
    problem, first = inputs.problem, inputs.tensors[0][0]
    heads_first = [[x.transpose(1, 2) for x in tensors] for tensors in inputs.tensors]
    options = {"attn_mask": mask_of(problem, first.device, first.dtype), "is_causal": problem.causal,
               "enable_gqa": problem.hq != problem.hkv}

    def call(i):  # the function is looked up here: enable() replaces it
        return functional.scaled_dot_product_attention(*heads_first[i % len(heads_first)], **options).transpose(1, 2)

    return call


def _enabled(inputs: Inputs) -> Callable:
    call = _call(inputs)

    def enabled(i):
        with attest.torch.enable():
            return call(i)

    with attest.torch.enable() as report:
        call(0)
    passed_on = [each.reason for each, _ in report.calls() if each.reason]
    if passed_on:
        raise Refused(f"passed on to PyTorch: {passed_on[0]}")
    return enabled


ATTEST = Subject("attest", "attest", _enabled)
Checker = check.Checker


def find(names: Sequence[str], device: str) -> Dict[str, Subject]:
    del device
    version = torch.__version__.partition("+")[0]
    return {"default": Subject("default", f"PyTorch {version}", _call)} if "default" in names else {}
