"""calls.py: the host cost of a call.

On the CPU: a call from Python beside the same call from C (build/bench/call_cost), on small problems and one thread,
and the import. The cost of the call path matters, not what else the machine does, so the fastest of many blocks counts.

On a GPU, over the seed suite, alternating with PyTorch's default scaled_dot_product_attention:
    host   until the call returns, while the GPU is busy with other work: the cost of the extension, including
               run      the same run called from C: the library's checks and the driver's launch
               empty    PyTorch's allocation of an array as large as the answer
           attention() minus these two is the extension's own cost.
    eager  wall time per call of many calls made without waiting
    loop   the same with a wait at the end: the larger of the host's and the GPU's time
    alone  one call and the wait for it

Samples are taken and saved here; `attest judge` evaluates them against the goals.
"""

from __future__ import annotations

import functools
import os
import random
import subprocess
import sys
import time
import timeit
from typing import Any, Dict, List, Optional

from . import problems, record

SMALL = ((1, 1, 1, 8), (8, 1, 64, 64), (8, 16, 16, 64))  # heads, rows, keys, d
ROUNDS, BLOCKS, CALLS = 7, 100, 100
GPU_ROUNDS, GPU_CALLS, GPU = 15, 100, "cuda"
SLEEP_CYCLES = 20_000_000  # GPU cycles: about 10 ms
SCHEMA = "attest-python-calls-2"


def block_us(function) -> List[float]:
    """Microseconds per call, per block."""
    return [spent / CALLS * 1e6 for spent in timeit.repeat(function, number=CALLS, repeat=BLOCKS)]


def frameworks():
    """(name, a function that makes an array of ones) for each installed framework."""
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


def import_ms() -> List[float]:
    """Milliseconds of the import, in separate processes, without any framework."""
    code = "import time; start = time.perf_counter(); import attest; print((time.perf_counter() - start) * 1e3)"
    return [float(subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout)
            for _ in range(7)]


def _c_us(build: str, shape) -> float:
    said = subprocess.run([os.path.join(build, "bench", "call_cost"), *map(str, shape)], check=True, capture_output=True,
                          text=True).stdout
    return float(said) / 1e3


def measure_cpu(build: str) -> Dict:
    """Samples of calls from C and from Python, and of the import."""
    import attest

    kept: Dict[str, Any] = {"import_samples_ms": import_ms(), "rows": []}
    attest.set_threads(1)
    for name, ones in frameworks():
        for heads, rows, keys, d in SMALL:
            q, k, v = ones(1, heads, rows, d), ones(1, heads, keys, d), ones(1, heads, keys, d)
            row: Dict[str, Any] = {"framework": name, "problem": f"h{heads}s{rows}sk{keys}d{d}", "c_samples_us": [],
                                   "python_samples_us": []}
            for _ in range(ROUNDS):
                row["c_samples_us"].append(_c_us(build, (heads, rows, keys, d)))
                row["python_samples_us"] += block_us(lambda: attest.attention(q, k, v))
            kept["rows"].append(row)
            print(f"{name} {row['problem']}: {len(row['python_samples_us'])} samples", flush=True)
    attest.set_threads(0)
    return kept


# ------------------------------------------------------------------------------------------------------ GPU


def _calls_us(call, calls: int, *, asleep: bool = False, waited: bool = False) -> float:
    """Microseconds per call of `calls` calls: until all are made, or (waited) until the GPU has finished them too."""
    import torch

    torch.cuda.synchronize()
    if asleep:  # keeps the stream busy for about 10 ms, during which all calls are made: none of them waits
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
    """By clock and name, functions that return microseconds: for attention(), for the drop-in, and for PyTorch's
    function, on the same tensors; and for the parts of the first."""
    import torch

    import attest
    import attest.torch as drop_in

    dtype = {"fp16": torch.float16, "bf16": torch.bfloat16}[problem.dtype]
    q, k, v = (torch.randn(problem.b, problem.hq, problem.sq, problem.d, device=GPU).to(dtype) for _ in range(3))
    causal = problem.causal  # there are as many rows as keys
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
    return {"problem": problem.spec, "samples_us": samples}


def measure_gpu() -> Dict:
    """Samples of the seed suite."""
    import torch

    kept: Dict = {"gpu": torch.cuda.get_device_name(), "torch": torch.__version__, "rows": []}
    for row in problems.gpu_rows(["seed"]):
        kept["rows"].append(_time_gpu_row(row.problem))
        print(f"{row.name}: {GPU_ROUNDS} samples by each clock", flush=True)
    return kept


def measure(build: str, device: Optional[str], path: str) -> None:
    """Take every sample that is possible here, and save them to a file."""
    import attest

    parts = {}
    if device != "cuda":
        parts["cpu"] = measure_cpu(build)
    if device != "cpu" and any(each.device.startswith("cuda") for each in attest.devices()):
        parts["cuda"] = measure_gpu()
    if not parts:
        raise LookupError("there is no GPU here")
    record.write(path, {"schema": SCHEMA, **record.heading(), **parts})
