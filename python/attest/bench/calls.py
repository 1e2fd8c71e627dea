"""calls.py: what a call costs the host.

On the CPU: a call from Python beside the same call from C (build/bench/call_cost), on small problems and one thread, and the
import. What is asked for is the cost of the way, not of what else the machine does, so the least of many blocks counts.

On a GPU, over the seed suite, in turn with PyTorch's scaled_dot_product_attention as it is by default:
    host   until the call returns, the GPU being busy elsewhere: what the extension takes, and under it
               run      the same run called from C: the library's checks and the driver's launch
               empty    PyTorch's making of an array as large as the answer
           What is left of attention() without the two is the extension's own, and has a goal.
    eager  wall time of a call among many that are made one after the other without waiting
    loop   the same with the wait at the end: the larger of the host's and the GPU's time
    alone  one call and the wait for it
"""

from __future__ import annotations

import functools
import json
import os
import random
import statistics
import subprocess
import sys
import time
import timeit
from typing import Any, Dict, List, Optional

from . import problems

CALL_GOAL_US, IMPORT_GOAL_MS, HOST_GOAL_US, EAGER_GOAL = 3.0, 50.0, 5.0, 0.5
SMALL = ((1, 1, 1, 8), (8, 1, 64, 64), (8, 16, 16, 64))  # heads, rows, keys, d
ROUNDS, BLOCKS, CALLS = 7, 100, 100
GPU_ROUNDS, GPU_CALLS, GPU = 15, 100, "cuda"
SLEEP_CYCLES = 20_000_000  # of the GPU: some 10 ms
SCHEMA = "attest-python-calls-1"


def least_us(function) -> float:
    return min(timeit.repeat(function, number=CALLS, repeat=BLOCKS)) / CALLS * 1e6


def frameworks():
    """(name, a function that makes an array of ones) of each that is here."""
    try:
        import numpy

        yield f"numpy {numpy.__version__}", lambda *shape: numpy.ones(shape, numpy.float32)
    except ImportError:
        pass
    try:
        import torch

        yield f"torch {torch.__version__}", torch.ones
    except ImportError:
        pass


def import_ms() -> float:
    """A process of its own, without any framework."""
    code = "import time; start = time.perf_counter(); import attest; print((time.perf_counter() - start) * 1e3)"
    return min(float(subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout)
               for _ in range(7))


def _c_us(build: str, shape) -> float:
    said = subprocess.run([os.path.join(build, "bench", "call_cost"), *map(str, shape)], check=True, capture_output=True,
                          text=True).stdout
    return float(said) / 1e3


def _say(good: bool) -> str:
    return "holds" if good else "MISSED"


def measure_cpu(build: str) -> Dict:
    """Rows of calls from C and from Python, and the import."""
    import attest

    took = import_ms()
    kept: Dict[str, Any] = {"import_ms": took, "rows": [], "holds": took <= IMPORT_GOAL_MS}
    print(f"import attest: {took:.1f} ms (must be under {IMPORT_GOAL_MS:.0f}): {_say(kept['holds'])}")
    print(f"{'framework':20} {'problem':>14} {'C us':>8} {'Python us':>10} {'more us':>8}   (must be at most "
          f"{CALL_GOAL_US:.0f} more)")
    attest.set_threads(1)
    for name, ones in frameworks():
        for heads, rows, keys, d in SMALL:
            q, k, v = ones(1, heads, rows, d), ones(1, heads, keys, d), ones(1, heads, keys, d)
            c = python = float("inf")
            for _ in range(ROUNDS):
                c = min(c, _c_us(build, (heads, rows, keys, d)))
                python = min(python, least_us(lambda: attest.attention(q, k, v)))
            good = python - c <= CALL_GOAL_US
            kept["holds"] = kept["holds"] and good
            kept["rows"].append({"framework": name, "problem": f"h{heads}s{rows}sk{keys}d{d}", "c_us": c,
                                 "python_us": python})
            print(f"{name:20} {f'h{heads}s{rows}sk{keys}d{d}':>14} {c:8.2f} {python:10.2f} {python - c:8.2f}   {_say(good)}",
                  flush=True)
    attest.set_threads(0)
    return kept


# ------------------------------------------------------------------------------------------------------ GPU


def _calls_us(call, calls: int, *, asleep: bool = False, waited: bool = False) -> float:
    """Of one of `calls` calls: until all are made, or until the GPU is done with them too (waited)."""
    import torch

    torch.cuda.synchronize()
    if asleep:  # on the stream, for some 10 ms, in which the calls are all made: nothing of them is waited for
        torch.cuda._sleep(SLEEP_CYCLES)
    start = time.perf_counter_ns()
    for _ in range(calls):
        call()
    if waited:
        torch.cuda.synchronize()
    spent = time.perf_counter_ns() - start
    torch.cuda.synchronize()
    return spent / calls / 1e3


CLOCKS = {
    "host": lambda call: _calls_us(call, GPU_CALLS, asleep=True),
    "eager": lambda call: _calls_us(call, GPU_CALLS),
    "loop": lambda call: _calls_us(call, GPU_CALLS, waited=True),
    "alone": lambda call: _calls_us(call, 1, waited=True),
}


def _gpu_calls(problem: problems.Problem) -> Dict[str, Dict[str, Any]]:
    """By clock and name, functions that return microseconds: of attention(), the drop-in for PyTorch's function, and PyTorch's
    function, on the same tensors; and of what is under the first."""
    import torch

    import attest
    import attest.torch as drop_in

    dtype = {"fp16": torch.float16, "bf16": torch.bfloat16}[problem.dtype]
    q, k, v = (torch.randn(problem.b, problem.hq, problem.sq, problem.d, device=GPU).to(dtype) for _ in range(3))
    causal = problem.causal  # rows and keys are equally many
    theirs, ours = torch.nn.functional.scaled_dot_product_attention, drop_in.scaled_dot_product_attention
    calls = {"attention": lambda: attest.attention(q, k, v, causal=causal), "sdpa": lambda: ours(q, k, v, is_causal=causal),
             "torch": lambda: theirs(q, k, v, is_causal=causal)}
    for call in calls.values():
        for _ in range(20):
            call()

    def run_us():
        torch.cuda.synchronize()
        torch.cuda._sleep(SLEEP_CYCLES)
        spent = attest._core.run_seconds(GPU_CALLS, q, k, v, causal=causal)
        torch.cuda.synchronize()
        return spent * 1e6

    timers: Dict[str, Dict[str, Any]] = {clock: {name: functools.partial(measure_us, call) for name, call in calls.items()}
                                         for clock, measure_us in CLOCKS.items()}
    timers["host"].update(run=run_us, empty=functools.partial(CLOCKS["host"], lambda: torch.empty_like(q)))
    return timers


def _time_gpu_row(problem: problems.Problem) -> Dict:
    import torch

    with torch.no_grad():
        timers = _gpu_calls(problem)
        samples: Dict[str, Dict[str, List[float]]] = {clock: {name: [] for name in names} for clock, names in timers.items()}
        turns = [(clock, name) for clock, names in timers.items() for name in names]
        for _ in range(GPU_ROUNDS):
            for clock, name in random.sample(turns, len(turns)):
                samples[clock][name].append(timers[clock][name]())
    median = {clock: {name: statistics.median(x) for name, x in names.items()} for clock, names in samples.items()}
    host = median["host"]
    return {"problem": problem.spec, "samples_us": samples, "median_us": median,
            "own_us": host["attention"] - host["run"] - host["empty"],
            "eager_ratio": median["eager"]["sdpa"] / median["eager"]["torch"]}


def measure_gpu() -> Dict:
    """Rows of the seed suite."""
    import torch

    kept: Dict = {"gpu": torch.cuda.get_device_name(), "torch": torch.__version__, "rows": [], "holds": True}
    print(f"{kept['gpu']}, PyTorch {torch.__version__}; microseconds a call: attention(), the drop-in, PyTorch's default; of the "
          "first, the run from C, PyTorch's making of the output, and the rest, which is the extension's own")
    print(f"{'problem':24}" + "".join(f"{clock + ': ours':>12}{'drop-in':>9}{'torch':>8}" for clock in CLOCKS) +
          f"{'run':>8}{'empty':>7}{'own':>6}{'eager ratio':>13}")
    for row in problems.gpu_rows(["seed"]):
        timed = _time_gpu_row(row.problem)
        kept["rows"].append(timed)
        seen = timed["median_us"]
        good = timed["eager_ratio"] <= EAGER_GOAL and timed["own_us"] <= HOST_GOAL_US
        kept["holds"] = kept["holds"] and good
        print(f"{row.name:24}" + "".join(f"{t['attention']:>12.2f}{t['sdpa']:>9.2f}{t['torch']:>8.2f}" for t in seen.values()) +
              f"{seen['host']['run']:>8.2f}{seen['host']['empty']:>7.2f}{timed['own_us']:>6.2f}{timed['eager_ratio']:>13.2f}   "
              f"{_say(good)}", flush=True)
    print(f"must: the extension's own at most {HOST_GOAL_US:.0f} us, eager of the drop-in at most {EAGER_GOAL} of PyTorch's: "
          f"{_say(kept['holds'])}")
    return kept


def measure(build: str, device: Optional[str], path: Optional[str]) -> bool:
    """Print everything that can be measured here, and keep it in `path`; True where every goal holds."""
    import attest

    parts = {}
    if device != "cuda":
        parts["cpu"] = measure_cpu(build)
    if device != "cpu" and any(each.device.startswith("cuda") for each in attest.devices()):
        parts["cuda"] = measure_gpu()
    if not parts:
        raise LookupError("there is no GPU here")
    if path:
        with open(path, "w", encoding="utf-8") as file:
            json.dump({"schema": SCHEMA, "made": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
                       "attest": attest.__version__, **parts}, file, indent=1)
    return all(part["holds"] for part in parts.values())
