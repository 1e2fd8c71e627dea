"""python_calls.py: what a call from Python costs above the same call from C, on the CPU; and what the import costs.

    make bench-python            or: PYTHONPATH=build/python python3 bench/python_calls.py --build build

For each small problem C and Python take turns on one thread, and the least mean of many blocks counts: what is asked for is
the cost of the way, not of what else the machine does. Exit status 1 where a goal is missed.
"""

import argparse
import os
import subprocess
import sys
import timeit

CALL_GOAL_US = 3.0
IMPORT_GOAL_MS = 50.0
PROBLEMS = ((1, 1, 1, 8), (8, 1, 64, 64), (8, 16, 16, 64))  # heads, rows, keys, d
ROUNDS, BLOCKS, CALLS = 7, 20, 500


def least_us(function):
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


def import_ms():
    code = "import time; start = time.perf_counter(); import attest; print((time.perf_counter() - start) * 1e3)"
    return min(float(subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout)
               for _ in range(7))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--build", default="build")
    build = parser.parse_args().build
    os.environ["ATTEST_THREADS"] = "1"
    import attest

    missed = 0
    took = import_ms()
    missed += took > IMPORT_GOAL_MS
    print(f"import attest: {took:.1f} ms (goal: under {IMPORT_GOAL_MS:.0f})")
    print(f"{'framework':16} {'problem':>14} {'C us':>8} {'Python us':>10} {'more us':>8}   goal: at most {CALL_GOAL_US:.0f} more")
    for name, ones in frameworks():
        for heads, rows, keys, d in PROBLEMS:
            q, k, v = ones(1, heads, rows, d), ones(1, heads, keys, d), ones(1, heads, keys, d)
            c = python = float("inf")
            for _ in range(ROUNDS):
                said = subprocess.run([f"{build}/bench/call_cost", *map(str, (heads, rows, keys, d))], check=True,
                                      capture_output=True, text=True).stdout
                c = min(c, float(said) / 1e3)
                python = min(python, least_us(lambda: attest.attention(q, k, v)))
            missed += python - c > CALL_GOAL_US
            print(f"{name:16} {f'h{heads}s{rows}sk{keys}d{d}':>14} {c:8.2f} {python:10.2f} {python - c:8.2f}")
    print("every goal holds" if not missed else f"{missed} goals missed")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
