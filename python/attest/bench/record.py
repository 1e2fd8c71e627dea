"""record.py: raw samples as the laboratory's own document, schema attest-bench-2; the program computes the rest."""

from __future__ import annotations

import functools
import json
import math
import os
import shutil
import subprocess
import sys
import time
from typing import List, Optional, Tuple

import attest

from .samples import Result, Timed

SCHEMA = "attest-bench-2"


def _gpu() -> Tuple[dict, str]:
    """The GPU in the laboratory's form, and its driver."""
    import torch

    device = next(each for each in attest.devices() if each.device == "cuda:0")
    seen, driver = torch.cuda.get_device_properties(0), ""
    if shutil.which("nvidia-smi"):
        asked = ["nvidia-smi", "--id=0", "--query-gpu=driver_version", "--format=csv,noheader"]
        driver = subprocess.run(asked, check=False, capture_output=True, text=True).stdout.strip()
    return {"index": 0, "name": device.name, "uuid": device.uuid, "compute_capability": device.compute_capability,
            "multiprocessors": seen.multi_processor_count, "memory_bytes": device.memory_bytes}, driver


@functools.lru_cache(maxsize=None)
def machine(device: str) -> dict:
    cpu, system = attest.devices()[0], os.uname()
    made = {"processor": cpu.name, "device": device, "threads": cpu.threads, "isa": cpu.isa, "os": system.sysname,
            "os_release": system.release}
    if device == "cuda":
        made["gpu"], made["driver"] = _gpu()
    return made


def _number(value: float) -> Optional[float]:
    return value if math.isfinite(value) else None


def _result(timed: Timed, result: Result, isa: str) -> dict:
    outcome = "fail" if result.wrong else "refused" if result.trouble else "pass"
    made = {"problem": timed.row.problem.fields, "subject": result.subject, "rival": result.rival,
            "group": timed.row.group, "isa": isa, "threads": timed.row.threads, "mode": result.mode,
            "timer": result.timer,
            "verify": {"outcome": outcome, "kernel": result.kernel, "message": result.trouble, "error_o": {
                "kernel": _number(result.error), "plain": _number(result.plain), "bar": _number(result.bar)}},
            "timed": bool(result.samples_ns), "flops": timed.row.problem.operations}
    if not result.samples_ns:
        return made
    made.update(kernel=result.kernel or result.subject, calls_per_sample=result.calls, input_sets=timed.input_sets,
                samples_ns=result.samples_ns, process=[0] * len(result.samples_ns),
                round=list(range(len(result.samples_ns))))
    if result.launch:
        made["launch"] = result.launch
    return made


def heading() -> dict:
    """The date and the version of attest."""
    return {"made": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()), "attest": attest.__version__}


def document(done: List[Timed], device: str, facts: dict) -> dict:
    """`facts`: other information about the run; versions of the rivals, peaks, the command …"""
    isa = "auto" if device == "cuda" else attest.devices()[0].isa
    return {"schema": SCHEMA, **heading(), "compiler": attest._core.compiler, "machine": dict(machine(device)), **facts,
            "results": [_result(timed, result, isa) for timed in done for result in timed.results.values()]}


def command() -> str:
    return " ".join(["python -m attest.bench", *sys.argv[1:]])


def write(path: str, made: dict) -> None:
    """Write the file whole or not at all."""
    with open(f"{path}.part", "w", encoding="utf-8") as file:
        json.dump(made, file, indent=1)
        file.write("\n")
    os.replace(f"{path}.part", path)
