#!/usr/bin/env python3
"""attest beside PyTorch's SDPA backends on a GPU: same tensors, CUDA-graph replays, interleaved in one process.

Every row of the forward table, the seed suite and the decode table: a graph of several calls over rotating inputs for
attest and for each backend, replayed in random order round after round; the ratio is of the medians. Each answer
is first held against float32 math: attest's error may be at most twice that of PyTorch's Flash backend, plus a
few ulp. Exit 1 if a "must" is missed.

    python3 bench/gpu_vs_torch.py [--build build] [--groups forward,seed,decode] [--rounds 15] [--json FILE]
"""
import argparse
import ctypes
import json
import math
import random
import statistics
import subprocess
import sys
import time

import torch
import torch.nn.functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel

import attest_api as api

BACKENDS = {"flash": SDPBackend.FLASH_ATTENTION, "cudnn": SDPBackend.CUDNN_ATTENTION}
TYPES = {"bf16": (api.BF16, torch.bfloat16, 2.0 ** -8), "fp16": (api.F16, torch.float16, 2.0 ** -11)}
MUST_TABLE, MUST_DECODE, MUST_COPY = 1.15, 1.5, 0.85  # geometric means against flash; share of the copy rate
GRAPH_SECONDS, INPUT_BYTES = 2e-3, 512 << 20


def rows(groups):
    """The tables of the anchors."""
    if "forward" in groups:
        for d in (128, 64):
            for causal in (False, True):
                for s in (512, 1024, 2048, 4096, 8192, 16384):
                    yield dict(group="forward", dtype="bf16", b=16384 // s, hq=2048 // d, hkv=2048 // d, sq=s, sk=s, d=d,
                               causal=causal)
    if "seed" in groups:
        for b, s, causal in ((1, 128, 0), (2, 256, 0), (2, 512, 0), (2, 512, 1), (4, 1024, 0), (1, 2048, 0), (1, 32, 1),
                             (1, 512, 0)):
            yield dict(group="seed", dtype="fp16", b=b, hq=8, hkv=8, sq=s, sk=s, d=64, causal=bool(causal))
    if "decode" in groups:
        for b, sk in ((1, 1024), (1, 8192), (1, 65536), (8, 8192), (64, 1024), (64, 8192)):
            yield dict(group="decode", dtype="bf16", b=b, hq=32, hkv=8, sq=1, sk=sk, d=128, causal=False)


def shape_of(r):
    """The row as `attest` would be told it."""
    hkv = f"hkv{r['hkv']}" if r["hkv"] != r["hq"] else ""
    sk = f"sk{r['sk']}" if r["sk"] != r["sq"] else ""
    return f"b{r['b']}h{r['hq']}{hkv}s{r['sq']}{sk}d{r['d']},{r['dtype']}" + (",causal" if r["causal"] else "")


def operations(r):
    return 4 * r["b"] * r["hq"] * r["sq"] * r["sk"] * r["d"] / (2 if r["causal"] else 1)


def key_bytes(r):
    return 2 * 2 * r["b"] * r["sk"] * r["hkv"] * r["d"]


class Attest(api.Context):
    """Runs on (batch, seq, heads, d) tensors of the GPU, on the current stream."""

    def prepare(self, r, tensors, outputs):
        """A closure that makes call i on the i-th tensors in turn, and one that names what ran."""
        p = self.problem(r["b"], r["hq"], r["hkv"], r["sq"], r["sk"], r["d"], TYPES[r["dtype"]][0])
        p.causal = 1 if r["causal"] else 0
        plan = self.plan(p)
        size = self.lib.att_plan_workspace(plan)
        workspace = torch.empty(max(size, 1), dtype=torch.uint8, device="cuda")
        launch = api.Launch()
        args = [api.Args(size=ctypes.sizeof(api.Args), q=q.data_ptr(), k=k.data_ptr(), v=v.data_ptr(), o=o.data_ptr(),
                         launch=ctypes.addressof(launch)) for (q, k, v), o in zip(tensors, outputs)]
        place = ctypes.c_void_p(workspace.data_ptr() if size else 0)

        def call(i, keep=(workspace, launch)):
            stream = ctypes.c_void_p(torch.cuda.current_stream().cuda_stream)
            self.check(self.lib.att_plan_run(plan, ctypes.byref(args[i % len(args)]), place, stream))

        return call, lambda: {"kernel": launch.kernel.decode(), "grid": list(launch.grid), "block": list(launch.block),
                              "shared_bytes": launch.shared_bytes, "registers": launch.registers,
                              "code_sha256": launch.code_sha256.decode()}


def sdpa(r, tensors, backend):
    heads_first = [[t.transpose(1, 2) for t in group] for group in tensors]

    def call(i):
        with sdpa_kernel(backend):
            return F.scaled_dot_product_attention(*heads_first[i % len(heads_first)], is_causal=r["causal"],
                                                  enable_gqa=r["hq"] != r["hkv"])

    return call


def truth(r, q, k, v):
    """Float32 math on one batch entry and one group of heads, in slices that fit."""
    group = r["hq"] // r["hkv"]
    qf, kf, vf = q[0, :, :group].float().transpose(0, 1), k[0, :, 0].float(), v[0, :, 0].float()
    out = torch.empty(group, r["sq"], r["d"], device="cuda")
    for start in range(0, r["sq"], 2048):
        s = qf[:, start:start + 2048] @ kf.T * r["d"] ** -0.5
        if r["causal"]:
            row = torch.arange(start, start + s.shape[1], device="cuda")[:, None]
            s.masked_fill_(torch.arange(r["sk"], device="cuda")[None, :] > row, float("-inf"))
        out[:, start:start + 2048] = s.softmax(-1) @ vf
    return out


def check_answer(r, output, tensors, flash):
    """attest's error and Flash's against float32 math; raises where attest's is too large."""
    group = r["hq"] // r["hkv"]
    want = truth(r, *tensors)
    error = (output[0, :, :group].float().transpose(0, 1) - want).abs().max().item()
    theirs = (flash[0, :group].float() - want).abs().max().item()
    bar = 2 * theirs + 4 * TYPES[r["dtype"]][2] * want.abs().max().item() / 2
    if not error <= bar or not torch.isfinite(output.float()).all():
        raise RuntimeError(f"{shape_of(r)}: error {error:.3g} is above {bar:.3g}: not timed")
    return error, theirs


def graph_of(call, count):
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        for i in range(2):
            call(i)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for i in range(count):
            call(i)
    return graph


def replay_us(graph, count):
    begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    begin.record()
    graph.replay()
    end.record()
    end.synchronize()
    return begin.elapsed_time(end) * 1e3 / count


def time_row(attest, r, rounds):
    elements = r["b"] * r["d"] * (r["sq"] * r["hq"] + 2 * r["sk"] * r["hkv"])
    copies = max(1, min(4, INPUT_BYTES // (2 * elements)))
    make = lambda s, h: torch.randn(r["b"], s, h, r["d"], device="cuda", dtype=TYPES[r["dtype"]][1])
    tensors = [(make(r["sq"], r["hq"]), make(r["sk"], r["hkv"]), make(r["sk"], r["hkv"])) for _ in range(copies)]
    outputs = [torch.full_like(q, float("nan")) for q, _, _ in tensors]
    ours, launched = attest.prepare(r, tensors, outputs)
    calls = {"attest": ours, **{name: sdpa(r, tensors, backend) for name, backend in BACKENDS.items()}}
    ours(0)
    torch.cuda.synchronize()
    error, theirs = check_answer(r, outputs[0], tensors[0], calls["flash"](0))

    floor = max(operations(r) / 3e14, key_bytes(r) / 4e12, 4e-6)
    count = max(2, min(50, int(GRAPH_SECONDS / floor)))
    graphs = {name: graph_of(call, count) for name, call in calls.items()}
    samples = {name: [] for name in graphs}
    for graph in graphs.values():
        replay_us(graph, count)
    for _ in range(rounds):
        for name in random.sample(list(graphs), len(graphs)):
            samples[name].append(replay_us(graphs[name], count))
    median = {name: statistics.median(s) for name, s in samples.items()}
    return dict(r, problem=shape_of(r), launch=launched(), error=error, flash_error=theirs, calls_per_sample=count,
                attest_us=median["attest"], rivals={n: median[n] for n in BACKENDS}, samples_us=samples,
                ratio_flash=median["flash"] / median["attest"], ratio_cudnn=median["cudnn"] / median["attest"],
                tflops=operations(r) / median["attest"] / 1e6)


def copy_rate():
    """Bytes a second of a large device copy, reads and writes counted."""
    x = torch.randn(1 << 28, device="cuda")
    y = torch.empty_like(x)
    graph = graph_of(lambda i: torch.mul(x, 1.0, out=y), 4)  # a kernel: graphs leave plain copies to slower engines
    times = [replay_us(graph, 4) for _ in range(30)]  # the first ones find the memory's clock asleep
    return 2 * 4 * x.numel() / (statistics.median(times[-9:]) * 1e-6)


def geometric(values):
    return math.exp(statistics.mean(math.log(v) for v in values))


def judge(done, rate):
    """Print the musts; true where all of those that were measured hold."""
    holds = True

    def say(text, value, must):
        nonlocal holds
        holds = holds and value >= must
        print(f"{text}: {value:.3f} (must {must:.2f}): {'holds' if value >= must else 'MISSED'}")

    table = [r["ratio_flash"] for r in done if r["group"] != "decode"]
    decode = [r for r in done if r["group"] == "decode"]
    for group in ("forward", "seed"):
        ratios = [r["ratio_flash"] for r in done if r["group"] == group]
        if ratios:
            print(f"{group}: geometric mean {geometric(ratios):.3f} x flash, worst {min(ratios):.3f}")
    if table:
        say("forward and seed, worst cell against flash", min(table), 1.0)
        say("forward and seed, geometric mean against flash", geometric(table), MUST_TABLE)
    if decode:
        say("decode, geometric mean against flash", geometric(r["ratio_flash"] for r in decode), MUST_DECODE)
        large = [key_bytes(r) / r["attest_us"] * 1e6 / rate for r in decode if r["b"] >= 8 and r["sk"] >= 8192]
        say("decode at B >= 8, Sk >= 8192, least share of the copy rate", min(large), MUST_COPY)
    return holds


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--build", default="build")
    parser.add_argument("--groups", default="forward,seed,decode")
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--json")
    a = parser.parse_args()
    torch.manual_seed(0)
    random.seed(0)
    attest = Attest(a.build, device=api.CUDA)
    card = subprocess.run(["nvidia-smi", "--query-gpu=name,uuid,driver_version,power.limit,clocks.max.sm",
                           "--format=csv,noheader"], capture_output=True, text=True).stdout.strip()
    rate = copy_rate()
    print(f"{card}; torch {torch.__version__}, cuDNN {torch.backends.cudnn.version()}; copy {rate / 1e12:.2f} TB/s")
    print(f"{'problem':<38}{'kernel':<36}{'attest us':>10}{'flash us':>10}{'cudnn us':>10}{'x flash':>9}{'x cudnn':>9}"
          f"{'TFLOP/s':>9}{'% copy':>8}")
    done = []
    for r in rows(a.groups.split(",")):
        row = time_row(attest, r, a.rounds)
        row["share_of_copy"] = key_bytes(r) / row["attest_us"] * 1e6 / rate
        done.append(row)
        print(f"{row['problem']:<38}{row['launch']['kernel']:<36}{row['attest_us']:>10.2f}{row['rivals']['flash']:>10.2f}"
              f"{row['rivals']['cudnn']:>10.2f}{row['ratio_flash']:>9.3f}{row['ratio_cudnn']:>9.3f}{row['tflops']:>9.1f}"
              f"{100 * row['share_of_copy']:>8.1f}", flush=True)
        torch.cuda.empty_cache()
    holds = judge(done, rate)
    if a.json:
        device = dict(card=card, torch=torch.__version__, cudnn=torch.backends.cudnn.version(), copy_bytes=rate)
        with open(a.json, "w") as f:
            json.dump(dict(schema="attest-gpu-vs-torch-1", made=time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()), attest=attest.lib.att_version().decode(), device=device,
                           command=" ".join(["python3"] + sys.argv), rounds=a.rounds, rows=done), f, indent=1)
    return 0 if holds else 1


if __name__ == "__main__":
    sys.exit(main())
