"""sequence_parallel.py: n processes of one thread, a ring with the zigzag cut, against one process of n threads, on the CPU.

    python -m attest.bench.sequence_parallel --rows 16384 --d 128

Both compute the same causal attention in turn; the time of the group is that of its slowest rank, from a barrier on. Prints the
times of every round and the ratio of their medians: above 1, the group is the faster one. Exits with 1 where --at-least is missed.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import statistics
import sys
import tempfile
import time


def _inputs(options, rows):
    import torch

    return [torch.randn(1, options.heads, rows, options.d).to(getattr(torch, options.dtype)).requires_grad_(options.backward)
            for _ in range(3)]


def _timed(call, given, backward, before=lambda: None):
    import torch

    before()
    start = time.perf_counter()
    with torch.set_grad_enabled(backward):
        o = call(*given)
        if backward:
            torch.autograd.grad(o, given, torch.ones_like(o))
    return time.perf_counter() - start


def _alone(pipe, options):
    import attest
    import attest.torch

    attest.set_threads(options.processes)
    given = _inputs(options, options.rows)
    while pipe.recv():
        pipe.send(_timed(lambda *x: attest.torch.attention(*x, causal=True), given, options.backward))


def _rank(pipe, options, rank, path):
    import torch.distributed as dist

    import attest
    from attest.torch import parallel

    attest.set_threads(1)
    dist.init_process_group("gloo", store=dist.FileStore(path, options.processes), rank=rank, world_size=options.processes)
    cut = parallel.zigzag(options.rows, options.processes)
    given = _inputs(options, cut.rows_of(rank))
    while pipe.recv():
        pipe.send(_timed(lambda *x: parallel.attention(*x, cut, causal=True), given, options.backward, dist.barrier))
    dist.destroy_process_group()


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m attest.bench.sequence_parallel", description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=16384)
    parser.add_argument("--heads", type=int, default=2)
    parser.add_argument("--d", type=int, default=128)
    parser.add_argument("--dtype", choices=("float32", "bfloat16", "float16"), default="float32")
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--backward", action="store_true", help="forward and backward")
    parser.add_argument("--at-least", type=float, help="the ratio to reach")
    return parser


def main(arguments=None) -> int:
    options = _parser().parse_args(arguments)
    os.environ.update(OMP_NUM_THREADS="1", GLOO_SOCKET_IFNAME=os.environ.get("GLOO_SOCKET_IFNAME", "lo"))
    context = multiprocessing.get_context("spawn")
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "store")
        jobs = [(_alone, (options,))] + [(_rank, (options, rank, path)) for rank in range(options.processes)]
        pipes = []
        for function, rest in jobs:
            here, there = context.Pipe()
            context.Process(target=function, args=(there, *rest), daemon=True).start()
            there.close()
            pipes.append(here)
        seconds = {"alone": [], "group": []}
        for turn in range(options.rounds + 1):  # the first makes plans and connections
            for name, whose in (("alone", pipes[:1]), ("group", pipes[1:])):
                for pipe in whose:
                    pipe.send(True)
                slowest = max(pipe.recv() for pipe in whose)
                if turn:
                    seconds[name].append(slowest)
        for pipe in pipes:
            pipe.send(False)
    return _report(options, seconds)


def _report(options, seconds) -> int:
    what = "forward and backward" if options.backward else "forward"
    print(f"b1h{options.heads}s{options.rows}d{options.d},{options.dtype},causal, {what}")
    for name, text in (("alone", f"1 process x {options.processes} threads"), ("group", f"{options.processes} processes x 1 thread")):
        print(f"{text:24s} median {statistics.median(seconds[name]):7.3f} s of", " ".join(f"{x:.3f}" for x in seconds[name]))
    ratio = statistics.median(seconds["alone"]) / statistics.median(seconds["group"])
    missed = options.at_least is not None and ratio < options.at_least
    print(f"the group's speed is {ratio:.3f} of one process's{', MISSED' if missed else ''}")
    return int(missed)


if __name__ == "__main__":
    sys.exit(main())
