"""clocks.py: one sample of a subject: on a GPU by replaying a CUDA graph, elsewhere with the wall clock."""

from __future__ import annotations

import time

import torch

GRAPH_SECONDS = 2e-3  # target duration of a graph
IDLE_SECONDS = 0.012  # before a burst: lets the GPU's clock and temperature recover
LEAD_SECONDS, SUSTAINED_SECONDS = 0.06, 0.03  # back-to-back replays: first untimed, then timed
SETTLE_SECONDS = 0.01  # threads of the other library spin for some milliseconds after a call


class GraphClock:
    """Replays a graph of `calls` calls. Times are nanoseconds per call."""

    timer = "graph"

    def __init__(self, call, calls: int) -> None:
        self.calls, self._call = calls, call  # kept alive: the graph reads and writes its arrays
        side = torch.cuda.Stream()
        with torch.cuda.stream(side):
            for i in range(2):
                call(i)
        torch.cuda.synchronize()
        self._graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self._graph):
            for i in range(calls):
                call(i)
        self._replay_ns = self.sample("warm") * calls

    def _events(self, lead: int, replays: int) -> float:
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        for _ in range(lead):
            self._graph.replay()
        begin.record()
        for _ in range(replays):
            self._graph.replay()
        end.record()
        end.synchronize()
        return begin.elapsed_time(end) * 1e6 / replays / self.calls

    def sample(self, mode: str) -> float:
        if mode == "sustained":
            return self._events(max(1, int(LEAD_SECONDS * 1e9 / self._replay_ns)),
                                max(1, int(SUSTAINED_SECONDS * 1e9 / self._replay_ns)))
        if mode == "burst":
            time.sleep(IDLE_SECONDS)
        return self._events(0, 1)


class WallClock:
    """Calls made one after the other, then waited for; `finish` waits for the last output."""

    timer = "wall"

    def __init__(self, call, calls: int, finish) -> None:
        self.calls, self._call, self._finish = calls, call, finish
        for i in range(2):
            finish(call(i))

    def sample(self, mode: str) -> float:
        if mode == "burst":
            time.sleep(IDLE_SECONDS)
        start = time.perf_counter_ns()
        for i in range(self.calls):
            last = self._call(i)
        self._finish(last)
        return (time.perf_counter_ns() - start) / self.calls


class CpuClock:
    """Calls on the CPU, after a pause that lets the machine settle and one untimed call."""

    timer = "cpu"

    def __init__(self, call, finish) -> None:
        self._call, self._finish = call, finish
        finish(call(0))
        self.calls = 1
        self.calls = max(1, int(2e6 / self._time()))

    def _time(self) -> float:
        start = time.perf_counter_ns()
        for i in range(self.calls):
            last = self._call(i)
        self._finish(last)
        return (time.perf_counter_ns() - start) / self.calls

    def sample(self, mode: str) -> float:
        del mode
        time.sleep(SETTLE_SECONDS)
        self._finish(self._call(0))
        return self._time()


def copy_rate() -> float:
    """Bytes per second of a large device copy, counting reads and writes."""
    x = torch.randn(1 << 28, device="cuda")
    y = torch.empty_like(x)
    clock = GraphClock(lambda i: torch.mul(x, 1.0, out=y), 4)  # a kernel: graphs run plain copies on slower engines
    times = sorted([clock.sample("warm") for _ in range(30)][-9:])  # the first run at a low memory clock
    return 2 * 4 * x.numel() / (times[4] * 1e-9)
