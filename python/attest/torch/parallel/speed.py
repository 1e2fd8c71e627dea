"""speed.py: n processes of one thread, a ring with the zigzag cut, against one process of n threads, on the CPU.

    python -m attest.torch.parallel.speed --rows 16384 --d 128

Both compute the same causal attention alternately; the time of the group is that of its slowest rank, from a barrier
on. Prints the times of every round and the ratio of their medians: above 1, the group is faster. Exits with 1 if
--at-least is missed.

With --predict it compares the model of `attest plan --ranks` with the group's time, for 2 and then for 4 processes, for
each way that the model says is possible: one thread computes the whole, two ranks exchange messages to measure their
link, and the error of each prediction is printed. With --backward the prediction is that of both passes, which are
2 : 5 in operations.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import shutil
import statistics
import subprocess
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


def _alone(pipe, options, threads):
    import attest
    import attest.torch

    attest.set_threads(threads)
    given = _inputs(options, options.rows)
    while pipe.recv():
        pipe.send(_timed(lambda *x: attest.torch.attention(*x, causal=True), given, options.backward))


def _exchange(rank, count):
    """Seconds for ranks 0 and 1 to send `count` bytes to each other, the median of several; the others wait."""
    import torch
    import torch.distributed as dist

    out, back = torch.zeros(count, dtype=torch.uint8), torch.empty(count, dtype=torch.uint8)
    times = []
    for _ in range(9):
        dist.barrier()
        start = time.perf_counter()
        if rank < 2:
            for work in (dist.isend(out, 1 - rank), dist.irecv(back, 1 - rank)):
                work.wait()
        times.append(time.perf_counter() - start)
    return statistics.median(times)


def _link(rank):
    """Bytes per second, and the seconds of an empty message."""
    few, many = 1, 1 << 24
    latency, seconds = _exchange(rank, few), _exchange(rank, many)
    return many / max(seconds - latency, 1e-9), latency


def _groups_of(way, rank):
    """How this rank calls parallel.attention() for one of the ways of `attest plan`."""
    import torch.distributed as dist

    if way["way"] != "both":
        return {"method": way["way"]}
    heads, ring, named = way["heads"], way["ring"], {}
    for whose, lists in (("heads_group", [range(first * heads, (first + 1) * heads) for first in range(ring)]),
                         ("group", [range(u, ring * heads, heads) for u in range(heads)])):
        for ranks in lists:  # every rank makes every group
            made = dist.new_group(list(ranks))
            if rank in ranks:
                named[whose] = made
    return named


def _rank(pipe, options, rank, path):
    import torch.distributed as dist

    import attest
    from attest.torch import parallel

    attest.set_threads(1)
    dist.init_process_group("gloo", store=dist.FileStore(path, options.processes), rank=rank, world_size=options.processes)
    cut = parallel.zigzag(options.rows, options.processes)
    given = _inputs(options, cut.rows_of(rank))
    named = {}
    while (order := pipe.recv()):
        if isinstance(order, dict):
            named = _groups_of(order, rank)
        pipe.send(_link(rank) if order == "link" else
                  _timed(lambda *x: parallel.attention(*x, cut, causal=True, **named), given, options.backward, dist.barrier))
    dist.destroy_process_group()


def _counts(text: str):
    counts = [int(each) for each in text.split(",")]
    if min(counts) < 2:
        raise argparse.ArgumentTypeError(f"{text}; expected 2 or more")
    return counts


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m attest.torch.parallel.speed", description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=16384)
    parser.add_argument("--heads", type=int, default=2)
    parser.add_argument("--d", type=int, default=128)
    parser.add_argument("--dtype", choices=("float32", "bfloat16", "float16"), default="float32")
    parser.add_argument("--processes", type=_counts, metavar="N[,N...]", help="2; with --predict, 2 and then 4")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--backward", action="store_true", help="forward and backward")
    parser.add_argument("--at-least", type=float, help="the ratio to reach")
    parser.add_argument("--predict", metavar="PROGRAM", nargs="?", const="attest",
                        help="hold `PROGRAM plan --ranks` against the group's time (attest)")
    return parser


def _ask(pipes, order=True):
    for pipe in pipes:
        pipe.send(order)
    return [pipe.recv() for pipe in pipes]


def main(arguments=None) -> int:
    parser = _parser()
    options = parser.parse_args(arguments)
    if options.predict and not shutil.which(options.predict):
        parser.error(f"--predict {options.predict}: there is no such program")
    os.environ.update(OMP_NUM_THREADS="1", GLOO_SOCKET_IFNAME=os.environ.get("GLOO_SOCKET_IFNAME", "lo"))
    counts = options.processes or ([2, 4] if options.predict else [2])
    return max([_compare(argparse.Namespace(**{**vars(options), "processes": count})) for count in counts])


def _compare(options) -> int:
    """Measure and report one number of processes; 1 if the ratio is missed."""
    context = multiprocessing.get_context("spawn")
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "store")
        jobs = [(_alone, (options, options.processes))] + [(_rank, (options, rank, path)) for rank in range(options.processes)]
        if options.predict:
            jobs.append((_alone, (options, 1)))
        pipes, running = [], []
        for function, rest in jobs:
            here, there = context.Pipe()
            running.append(context.Process(target=function, args=(there, *rest), daemon=True))
            running[-1].start()
            there.close()
            pipes.append(here)
        groups = {"alone": pipes[:1], "group": pipes[1:1 + options.processes], "whole": pipes[1 + options.processes:]}
        seconds = {name: [] for name, whose in groups.items() if whose}
        for turn in range(options.rounds + 1):  # the first round makes plans and connections
            for name, taken in seconds.items():
                slowest = max(_ask(groups[name]))
                if turn:
                    taken.append(slowest)
        ways = []
        if options.predict:
            link = _ask(groups["group"], "link")[0]
            ways = _predicted(options, statistics.median(seconds["whole"]), link)
            for way in ways:
                if way["way"] == "ring":
                    way["measured"] = statistics.median(seconds["group"])
                elif way["possible"]:
                    taken = [max(_ask(groups["group"], order)) for order in [way] + [True] * options.rounds]
                    way["measured"] = statistics.median(taken[1:])  # the first makes groups, plans and connections
        for pipe in pipes:
            pipe.send(False)
        for process in running:  # the next comparison must have the machine to itself
            process.join()
    missed = _report(options, seconds)
    if options.predict:
        _report_prediction(options, seconds, link, ways)
    return missed


def _share(options) -> float:
    """Processes per processor."""
    return max(1.0, options.processes / len(os.sched_getaffinity(0)))


def _plan(options, operation, whole, link):
    """The ways of `attest plan`, whose time on one device is `whole`."""
    dtype = {"float32": "f32", "bfloat16": "bf16", "float16": "fp16"}[options.dtype]
    command = [options.predict, "plan", f"{operation}b1h{options.heads}s{options.rows}d{options.d},{dtype},causal", "--ranks",
               str(options.processes), "--link", f"{link[0] / 1e9:.6g},{link[1] * 1e6:.6g}", "--whole", f"{whole:.9g}", "--json", "-"]
    document = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    return document["results"][0]["ranks"][0]["ways"]


def _predicted(options, whole, link):
    """What `attest plan` predicts for each way, of the passes that are timed."""
    whole *= _share(options)
    if not options.backward:
        return _plan(options, "", whole, link)
    ways = _plan(options, "", whole * 2 / 7, link)
    for way, back in zip(ways, _plan(options, "backward:", whole * 5 / 7, link)):
        if way["possible"]:
            same = way["heads"] == back["heads"]  # the best groups of both may differ in size: they are not mixed
            way.update({"seconds": way["seconds"] + back["seconds"]} if same else {"possible": False, "why": "each pass has groups of its own"})
    return ways


def _report_prediction(options, seconds, link, ways):
    whole, share = statistics.median(seconds["whole"]), _share(options)
    print(f"one thread {whole:.3f} s{f', {share:g} processes to a processor' if share > 1 else ''}; the link {link[0] / 1e9:.2f} GB/s, "
          f"{link[1] * 1e6:.0f} us")
    for way in ways:
        if not way["possible"]:
            print(f"{way['way']}: {way['why']}")
            continue
        print(f"attest plan predicts {way['seconds']:.3f} s for {way['way']}; measured {way['measured']:.3f} s: the error is "
              f"{100 * (way['seconds'] / way['measured'] - 1):+.1f} %")


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
