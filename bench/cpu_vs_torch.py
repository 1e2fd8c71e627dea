#!/usr/bin/env python3
"""attest beside PyTorch's CPU SDPA: same tensors, same threads, interleaved in one process.

For every row both are run in random order, round after round; the ratio is the median of the rounds' ratios. attest's answer is
checked against PyTorch's math in float64 before it is timed. Exit 1 if a "must" of the table is missed.

    python3 bench/cpu_vs_torch.py [--build build] [--dtypes f32,bf16,f16] [--threads 1,2] [--json FILE]
"""
import argparse
import ctypes
import json
import math
import os
import random
import statistics
import subprocess
import sys
import time

import torch
import torch.nn.functional as F

import attest_api as api

DTYPES = {"f32": (api.F32, torch.float32), "f16": (api.F16, torch.float16), "bf16": (api.BF16, torch.bfloat16)}
MUST = {"f32": 1.15, "bf16": 2.0, "f16": 2.0, "decode": 3.0}  # geometric means; no row below 1
ROW_LEAST = 1.0
CAUSAL_MOST = 0.6
SETTLE = 0.01  # seconds


class Attest(api.Context):
    """Runs on (batch, heads, seq, d) tensors of the CPU."""

    def prepare(self, q, k, v, o, dtype, causal):
        """A closure that runs one problem on (batch, heads, seq, d) tensors, and one that names what ran."""
        b, hq, sq, d = q.shape
        p = self.problem(b, hq, k.shape[1], sq, k.shape[2], d, DTYPES[dtype][0])
        self.lib.att_problem_layout_bhsd(ctypes.byref(p))
        p.causal = 1 if causal else 0
        plan = self.plan(p)
        size = self.lib.att_plan_workspace(plan)
        raw = torch.empty(size + 64, dtype=torch.uint8)
        aligned = ctypes.c_void_p((raw.data_ptr() + 63) // 64 * 64)
        launch = api.Launch()
        args = api.Args(size=ctypes.sizeof(api.Args), q=q.data_ptr(), k=k.data_ptr(), v=v.data_ptr(), o=o.data_ptr(),
                        launch=ctypes.addressof(launch))
        ref, run, check = ctypes.byref(args), self.lib.att_plan_run, self.check

        def call(keep=(raw, q, k, v, o, launch, args)):
            check(run(plan, ref, aligned, None))

        return call, lambda: launch.kernel.decode()


def groups(dtypes, threads, sizes):
    """Rows that are timed together: a shape full and causal, so that their times can be compared too."""
    for n in threads:
        for dtype in dtypes:
            for s in sizes:
                for d in (64, 128):
                    shape = dict(kind=dtype, dtype=dtype, threads=n, b=1, hq=8, hkv=8, sq=s, sk=s, d=d)
                    yield [dict(shape, causal=False), dict(shape, causal=True)]
            if dtype != "f32":
                for sk in (4096, 16384):
                    yield [dict(kind="decode", dtype=dtype, threads=n, b=1, hq=32, hkv=8, sq=1, sk=sk, d=128,
                                causal=False)]


def name_of(r):
    heads = f"h{r['hq']}" if r["hq"] == r["hkv"] else f"h{r['hq']}/{r['hkv']}"
    return f"{r['dtype']} t{r['threads']} {heads} s{r['sq']}" + (f"x{r['sk']}" if r["sq"] != r["sk"] else "") + (
        f" d{r['d']}") + (" causal" if r["causal"] else "")


def operations(r):
    pairs = r["sq"] * r["sk"] if not r["causal"] else r["sq"] * (r["sq"] + 1) // 2
    return 4 * r["b"] * r["hq"] * pairs * r["d"]


def timed(call, repeat):
    start = time.perf_counter_ns()
    for _ in range(repeat):
        call()
    return (time.perf_counter_ns() - start) / repeat


def settled(call, repeat):
    """A sample from a quiet machine: the other side's idle threads spin for some milliseconds after its call, and would
    take a core from this one."""
    time.sleep(SETTLE)
    call()
    return timed(call, repeat)


def tensors(r):
    generator = torch.Generator().manual_seed(r["sk"] * 131 + r["d"])
    sizes = ((r["hq"], r["sq"]), (r["hkv"], r["sk"]), (r["hkv"], r["sk"]))
    return [torch.randn(r["b"], h, s, r["d"], generator=generator).to(DTYPES[r["dtype"]][1]) for h, s in sizes]


def check(r, q, k, v, ours, theirs):
    """Errors of both against float64 on two heads (`attest verify` checks the rest); raises on a wrong answer."""
    heads, group = slice(0, 2), r["hq"] // r["hkv"]
    k, v = ((x[:, :1].expand(-1, 2, -1, -1) if group > 1 else x[:, heads]).double() for x in (k, v))
    exact = F.scaled_dot_product_attention(q[:, heads].double(), k, v, is_causal=r["causal"])
    error, error_theirs = ((o[:, heads].double() - exact).abs().max().item() for o in (ours, theirs))
    limit = 2 * error_theirs + 4 * torch.finfo(q.dtype).eps * exact.abs().max().item()
    if not error <= limit:
        raise SystemExit(f"wrong answer: {name_of(r)}: error {error:.3g}, limit {limit:.3g}")
    return error, error_theirs


def prepare(r, attest):
    """Calls of both on the same tensors, checked."""
    q, k, v = tensors(r)
    o = torch.full_like(q, math.nan)
    ours, kernel = attest.prepare(q, k, v, o, r["dtype"], r["causal"])

    def theirs():
        return F.scaled_dot_product_attention(q, k, v, is_causal=r["causal"], enable_gqa=r["hq"] != r["hkv"])

    ours()
    r["error"], r["error_torch"] = check(r, q, k, v, o, theirs())
    r["kernel"] = kernel()
    return {"attest": ours, "torch": theirs}


def measure(group, attest, rounds, budget):
    """Fill in the samples of the rows of a group: all calls of a round in random order."""
    calls = [(r, who, call) for r in group for who, call in prepare(r, attest).items()]
    repeat = [max(1, int(2e6 / timed(call, 1))) for _, _, call in calls]
    for r in group:
        r["samples_ns"] = {"attest": [], "torch": []}
    end = time.perf_counter() + budget
    for done in range(10 * rounds):
        if done >= rounds and time.perf_counter() > end:
            break
        for i in random.sample(range(len(calls)), len(calls)):
            r, who, call = calls[i]
            r["samples_ns"][who].append(settled(call, repeat[i]))
    for r in group:
        r["ms"] = {who: statistics.median(s) / 1e6 for who, s in r["samples_ns"].items()}
        r["ratio"] = paired(r["samples_ns"]["torch"], r["samples_ns"]["attest"])


def paired(above, below):
    """The median of the rounds' own ratios: a shared host's speed drifts from round to round far more than within one."""
    return statistics.median(a / b for a, b in zip(above, below))


def peaks(build, threads):
    program = os.path.join(build, "bench", "cpu_peaks")
    return json.loads(subprocess.run([program, str(threads)], check=True, capture_output=True, text=True).stdout)


def shares(r, peak):
    """Of the measured FMA, AMX and L3 peaks, in per cent."""
    seconds = r["ms"]["attest"] / 1e3
    size = 4 if r["dtype"] == "f32" else 2
    moved = size * r["d"] * (2 * r["hkv"] * r["sk"] + 2 * r["hq"] * r["sq"]) * r["b"]
    rates = (operations(r), peak["fma_gflops"]), (operations(r), peak["amx_gflops"]), (moved, peak["l3_gbs"])
    return " ".join(f"{100 * work / seconds / 1e9 / most:5.0f}" if most else "    -" for work, most in rates)


def show(r, peak):
    print(f"{name_of(r):30} {r['kernel']:18} {r['ms']['attest']:10.3f} {r['ms']['torch']:10.3f} {r['ratio']:6.2f} "
          f"{operations(r) / r['ms']['attest'] / 1e6:8.0f}   {shares(r, peak)}   {r['error']:.1e} {r['error_torch']:.1e}",
          flush=True)


def verdict(results):
    """Print the musts; True where all of them hold."""
    met = True

    def line(text, good):
        nonlocal met
        met = met and good
        print(f"{text}: {'holds' if good else 'MISSED'}")

    for kind, least in MUST.items():
        ratios = [r["ratio"] for r in results if r["kind"] == kind]
        if ratios:
            mean, worst = math.exp(statistics.fmean(map(math.log, ratios))), min(ratios)
            line(f"{kind:8} geometric mean {mean:.2f} (must {least}), worst row {worst:.2f} (must {ROW_LEAST})",
                 mean >= least and worst >= ROW_LEAST)
    pairs = [(c, f) for f, c in zip(results, results[1:]) if c["causal"] and c["sq"] >= 2048]
    if pairs:
        worst = max(paired(c["samples_ns"]["attest"], f["samples_ns"]["attest"]) for c, f in pairs)
        line(f"causal   over full time at S >= 2048: worst {worst:.2f} (must {CAUSAL_MOST})", worst <= CAUSAL_MOST)
    return met


def table(version, peak):
    for n in peak:
        print(f"peaks, {n} threads: {json.dumps(peak[n])}")
    print(f"torch {version}; median of interleaved calls, and of the rounds' own ratios\n"
          f"{'row':30} {'kernel':18} {'attest ms':>10} {'torch ms':>10} {'ratio':>6} {'GFLOP/s':>8}   % FMA   AMX    L3"
          f"   errors")


def read(files):
    """The rows of earlier runs, judged by today's rule."""
    rows = {}
    for name in files:
        with open(name) as f:
            kept = json.load(f)
        print(name)
        table(kept["torch"], kept["peaks"])
        for r in kept["rows"]:
            r["ratio"] = paired(r["samples_ns"]["torch"], r["samples_ns"]["attest"])
            show(r, kept["peaks"][str(r["threads"])])
            rows[name_of(r)] = r
    return list(rows.values())


def run(a):
    """Measure everything; the rows."""
    random.seed(a.seed)
    counts = [int(x) for x in a.threads.split(",")]
    contexts = {n: Attest(a.build, device=api.CPU, threads=n) for n in counts}
    peak = {n: peaks(a.build, n) for n in counts}
    table(torch.__version__, peak)
    results = []
    for group in groups(a.dtypes.split(","), counts, [int(x) for x in a.sizes.split(",")]):
        n = group[0]["threads"]
        torch.set_num_threads(n)
        measure(group, contexts[n], a.rounds, a.budget)
        for r in group:
            show(r, peak[n])
        results += group
    if a.json:
        with open(a.json, "w") as f:
            json.dump(dict(schema="attest-cpu-vs-torch-1", made=time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
                           torch=torch.__version__, peaks=peak, rows=results), f)
    return results


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--build", default="build")
    parser.add_argument("--dtypes", default="f32,bf16,f16")
    parser.add_argument("--threads", default="1,2")
    parser.add_argument("--sizes", default="512,2048,4096")
    parser.add_argument("--rounds", type=int, default=5, help="least samples a row")
    parser.add_argument("--budget", type=float, default=1.0, help="seconds a group of rows may take once it has them")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--json", default=None)
    parser.add_argument("--read", nargs="+", metavar="FILE", help="judge kept samples instead; of a row that is in several "
                        "files, the last one's")
    a = parser.parse_args()
    return 0 if verdict(read(a.read) if a.read else run(a)) else 1


if __name__ == "__main__":
    sys.exit(main())
