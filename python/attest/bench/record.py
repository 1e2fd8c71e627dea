"""record.py: results as the laboratory's own document, schema attest-bench-2, and back."""

from __future__ import annotations

import functools
import json
import math
import os
import re
import shutil
import subprocess
import sys
import time
from typing import Dict, List, Optional, Tuple

import attest

from .problems import Problem, Row
from .samples import Result, Timed, interval, spread_percent

SCHEMA = "attest-bench-2"
_SPEC = re.compile(r"b(\d+)h(\d+)(?:hkv(\d+))?s(\d+)(?:sk(\d+))?d(\d+)(?:dv(\d+))?,(f32|fp16|bf16)(,causal(?:=top-left)?)?$")


def parse_spec(spec: str) -> Problem:
    """A problem from its line."""
    match = _SPEC.match(spec)
    if not match:
        raise ValueError(f"{spec!r} is no problem of this benchmark")
    b, hq, hkv, sq, sk, d, dv = (int(x or 0) for x in match.groups()[:7])
    return Problem(b, hq, hkv or hq, sq, sk or sq, d, dv or d, match.group(8), bool(match.group(9)))


def _gpu() -> Tuple[dict, str]:
    """The GPU as the laboratory lists it, and its driver."""
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


def _problem(problem: Problem) -> dict:
    return {"batch": problem.b, "heads_q": problem.hq, "heads_kv": problem.hkv, "seq_q": problem.sq, "seq_k": problem.sk,
            "d_qk": problem.d, "d_v": problem.dv, "dtype": problem.dtype, "dtype_o": problem.dtype, "spec": problem.spec}


def _result(timed: Timed, result: Result, isa: str) -> dict:
    outcome = "fail" if result.wrong else "refused" if result.trouble else "pass"
    made = {"problem": _problem(timed.row.problem), "subject": result.subject, "rival": result.rival,
            "group": timed.row.group, "isa": isa, "threads": timed.row.threads, "mode": result.mode,
            "timer": result.timer,
            "verify": {"outcome": outcome, "kernel": result.kernel, "message": result.trouble, "error_o": {
                "kernel": _number(result.error), "plain": _number(result.plain), "bar": _number(result.bar)}},
            "timed": bool(result.samples_ns), "flops": timed.row.problem.operations}
    if not result.samples_ns:
        return made
    low, high = interval(result.samples_ns)
    made.update(kernel=result.kernel or result.subject, median_ns=result.median_ns, low_ns=low, high_ns=high,
                spread_percent=spread_percent(result.samples_ns),
                gflops=timed.row.problem.operations / result.median_ns, calls_per_sample=result.calls,
                input_sets=timed.input_sets, samples_ns=result.samples_ns, process=[0] * len(result.samples_ns),
                round=list(range(len(result.samples_ns))))
    if result.launch:
        made["launch"] = result.launch
    return made


def document(done: List[Timed], device: str, facts: dict) -> dict:
    """`facts`: what else is known of the run; versions of the rivals, peaks, the command …"""
    isa = "auto" if device == "cuda" else attest.devices()[0].isa
    return {"schema": SCHEMA, "made": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()), "attest": attest.__version__,
            "compiler": attest._core.compiler, "machine": dict(machine(device)), **facts,
            "results": [_result(timed, result, isa) for timed in done for result in timed.results.values()]}


def command() -> str:
    return " ".join(["python -m attest.bench", *sys.argv[1:]])


def write(path: str, made: dict) -> None:
    """Whole or not at all."""
    with open(f"{path}.part", "w", encoding="utf-8") as file:
        json.dump(made, file, indent=1)
        file.write("\n")
    os.replace(f"{path}.part", path)


# --------------------------------------------------------------------------------------------------- reading


def _of_bench(kept: dict) -> List[Timed]:
    rows: Dict[Row, Timed] = {}
    for each in kept["results"]:
        row = Row(each.get("group", ""), parse_spec(each["problem"]["spec"]),
                  each["threads"] if kept["machine"]["device"] == "cpu" else 0)
        timed = rows.setdefault(row, Timed(row, input_sets=each.get("input_sets", 1)))
        verify = each["verify"]
        errors = {key: math.nan if value is None else value for key, value in verify["error_o"].items()}
        rival = each.get("rival") or each["subject"].split()[-1]
        timed.add(Result(each["subject"], rival, each["timer"], each["mode"], each.get("samples_ns", []),
                         each.get("calls_per_sample", 1), verify["kernel"] if rival == "attest" else "",
                         each.get("launch"), errors["kernel"], errors["plain"], errors["bar"], verify["message"],
                         verify["outcome"] == "fail"))
    return list(rows.values())


def _of_gpu(kept: dict) -> List[Timed]:
    """Of the script for GPUs that was before this, schema attest-gpu-vs-torch-1."""
    done = []
    for each in kept["rows"]:
        timed = Timed(Row(each["group"], parse_spec(each["problem"])))
        for rival, samples in each["samples_us"].items():
            subject = rival if rival == "attest" else f"PyTorch {kept['device']['torch'].partition('+')[0]} {rival}"
            timed.add(Result(subject, rival, "graph", "warm", [1e3 * x for x in samples], each["calls_per_sample"],
                             each["launch"]["kernel"] if rival == "attest" else "",
                             error=each["error"] if rival == "attest" else math.nan))
        done.append(timed)
    return done


def _of_cpu(kept: dict) -> List[Timed]:
    """Of the script for CPUs that was before this, schema attest-cpu-vs-torch-1."""
    done = []
    for each in kept["rows"]:
        dtype = each["dtype"].replace("f16", "fp16") if each["dtype"] == "f16" else each["dtype"]
        problem = Problem(each["b"], each["hq"], each["hkv"], each["sq"], each["sk"], each["d"], each["d"], dtype,
                          each["causal"])
        timed = Timed(Row("decode" if each["kind"] == "decode" else dtype, problem, each["threads"]))
        for rival, samples in each["samples_ns"].items():
            ours = rival == "attest"
            timed.add(Result(rival if ours else f"PyTorch {kept['torch'].partition('+')[0]}",
                             "attest" if ours else "default", "cpu", "warm", samples, 1, each["kernel"] if ours else "",
                             error=each["error" if ours else "error_torch"]))
        done.append(timed)
    return done


_READERS = {SCHEMA: _of_bench, "attest-gpu-vs-torch-1": _of_gpu, "attest-cpu-vs-torch-1": _of_cpu}


def read(paths: List[str]) -> Tuple[List[Timed], dict]:
    """The rows of kept files, of one that is in several the last one's; and the facts of the last file."""
    rows: Dict[Row, Timed] = {}
    facts: dict = {}
    for path in paths:
        with open(path, encoding="utf-8") as file:
            facts = json.load(file)
        reader = _READERS.get(str(facts.get("schema")))
        if not reader:
            raise ValueError(f"{path}: schema is {facts.get('schema')!r}: {', '.join(_READERS)} would fit")
        for timed in reader(facts):
            rows[timed.row] = timed
    return list(rows.values()), facts
