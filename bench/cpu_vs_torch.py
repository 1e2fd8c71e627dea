#!/usr/bin/env python3
"""attest beside PyTorch's CPU SDPA: same tensors, same threads, interleaved in one process.

For every row both are run in random order, round after round; the ratio is of the medians. attest's answer is
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

DTYPES = {"f32": (1, torch.float32), "f16": (2, torch.float16), "bf16": (3, torch.bfloat16)}
MUST = {"f32": 1.15, "bf16": 2.0, "f16": 2.0, "decode": 3.0}  # geometric means; no row below 1
ROW_LEAST = 1.0


class Strides(ctypes.Structure):
    _fields_ = [(n, ctypes.c_int64) for n in ("batch", "head", "row", "col")]


class Problem(ctypes.Structure):
    _fields_ = (
        [("size", ctypes.c_size_t), ("features", ctypes.c_uint32), ("dtype", ctypes.c_int), ("dtype_o", ctypes.c_int)]
        + [(n, ctypes.c_int64) for n in ("batch", "heads_q", "heads_kv", "seq_q", "seq_k", "d_qk", "d_v")]
        + [(n, Strides) for n in ("q", "k", "v", "o", "lse")]
        + [("scale", ctypes.c_float), ("causal", ctypes.c_int), ("align", ctypes.c_int)]
        + [("window_left", ctypes.c_int64), ("window_right", ctypes.c_int64), ("softcap", ctypes.c_float)]
        + [("alibi_stride_batch", ctypes.c_int64), ("bias_dtype", ctypes.c_int), ("bias", Strides)]
        + [(n, ctypes.c_int64) for n in ("total_q", "total_k", "page_size", "num_pages", "page_table_stride")]
    )


class Options(ctypes.Structure):
    _fields_ = [("size", ctypes.c_size_t), ("device", ctypes.c_int), ("device_index", ctypes.c_int32),
                ("threads", ctypes.c_int32), ("isa", ctypes.c_int), ("flags", ctypes.c_uint32),
                ("cache_dir", ctypes.c_char_p)]


class Launch(ctypes.Structure):
    _fields_ = [("kernel", ctypes.c_char_p), ("grid", ctypes.c_uint32 * 3), ("block", ctypes.c_uint32 * 3),
                ("shared_bytes", ctypes.c_uint64), ("registers", ctypes.c_uint32), ("code_sha256", ctypes.c_char * 65)]


class Args(ctypes.Structure):
    _fields_ = [("size", ctypes.c_size_t)] + [(n, ctypes.c_void_p) for n in (
        "q", "k", "v", "o", "lse", "alibi", "bias", "sinks", "cu_seqlens_q", "cu_seqlens_k", "lens_k", "page_table",
        "launch")]


class Error(ctypes.Structure):
    _fields_ = [("status", ctypes.c_int), ("cuda_code", ctypes.c_int), ("field", ctypes.c_char * 48),
                ("text", ctypes.c_char * 464)]


class Attest:
    """The four calls, by ctypes."""

    def __init__(self, build, threads):
        self.lib = ctypes.CDLL(os.path.join(build, "libattest.so"))
        self.lib.att_plan_workspace.restype = ctypes.c_size_t
        self.lib.att_last_error.restype = ctypes.POINTER(Error)
        self.ctx = ctypes.c_void_p()
        options = Options(size=ctypes.sizeof(Options), threads=threads, device=1)
        self.check(self.lib.att_context_create(ctypes.byref(self.ctx), ctypes.byref(options)))

    def check(self, status):
        if status:
            raise RuntimeError(self.lib.att_last_error().contents.text.decode())

    def prepare(self, q, k, v, o, dtype, causal):
        """A closure that runs one problem on (batch, heads, seq, d) tensors, and one that names what ran."""
        p = Problem()
        b, hq, sq, d = q.shape
        self.lib.att_problem_init(ctypes.byref(p), *(ctypes.c_int64(x) for x in (
            b, hq, k.shape[1], sq, k.shape[2], d, v.shape[3])), DTYPES[dtype][0])
        self.lib.att_problem_layout_bhsd(ctypes.byref(p))
        p.causal = 1 if causal else 0
        plan = ctypes.c_void_p()
        self.check(self.lib.att_plan_create(ctypes.byref(plan), self.ctx, ctypes.byref(p)))
        size = self.lib.att_plan_workspace(plan)
        raw = torch.empty(size + 64, dtype=torch.uint8)
        aligned = ctypes.c_void_p((raw.data_ptr() + 63) // 64 * 64)
        launch = Launch()
        args = Args(size=ctypes.sizeof(Args), q=q.data_ptr(), k=k.data_ptr(), v=v.data_ptr(), o=o.data_ptr(),
                    launch=ctypes.addressof(launch))
        ref, run, check = ctypes.byref(args), self.lib.att_plan_run, self.check

        def call(keep=(raw, q, k, v, o, launch, args)):
            check(run(plan, ref, aligned, None))

        return call, lambda: launch.kernel.decode()


def rows(dtypes, threads, sizes):
    for n in threads:
        for dtype in dtypes:
            for s in sizes:
                for d in (64, 128):
                    for causal in (False, True):
                        yield dict(kind=dtype, dtype=dtype, threads=n, b=1, hq=8, hkv=8, sq=s, sk=s, d=d, causal=causal)
            if dtype != "f32":
                for sk in (4096, 16384):
                    yield dict(kind="decode", dtype=dtype, threads=n, b=1, hq=32, hkv=8, sq=1, sk=sk, d=128,
                               causal=False)


def operations(r):
    pairs = r["sq"] * r["sk"] if not r["causal"] else r["sq"] * (r["sq"] + 1) // 2
    return 4 * r["b"] * r["hq"] * pairs * r["d"]


def timed(call, repeat):
    start = time.perf_counter_ns()
    for _ in range(repeat):
        call()
    return (time.perf_counter_ns() - start) / repeat


def measure(r, attest, rounds, budget):
    generator = torch.Generator().manual_seed(r["sk"] * 131 + r["d"])
    kind = DTYPES[r["dtype"]][1]
    q, k, v = (torch.randn(r["b"], h, s, r["d"], generator=generator).to(kind) for h, s in (
        (r["hq"], r["sq"]), (r["hkv"], r["sk"]), (r["hkv"], r["sk"])))
    o = torch.full_like(q, math.nan)
    ours, kernel = attest.prepare(q, k, v, o, r["dtype"], r["causal"])
    gqa = r["hq"] != r["hkv"]

    def theirs():
        return F.scaled_dot_product_attention(q, k, v, is_causal=r["causal"], enable_gqa=gqa)

    ours()
    heads = slice(0, 2)  # the float64 answer of two heads is enough here: `attest verify` checks the rest
    group = r["hq"] // r["hkv"]
    exact = F.scaled_dot_product_attention(
        q[:, heads].double(), k[:, :1].double().expand(-1, 2, -1, -1) if group > 1 else k[:, heads].double(),
        v[:, :1].double().expand(-1, 2, -1, -1) if group > 1 else v[:, heads].double(), is_causal=r["causal"])
    error = (o[:, heads].double() - exact).abs().max().item()
    error_theirs = (theirs()[:, heads].double() - exact).abs().max().item()
    limit = 2 * error_theirs + 4 * torch.finfo(kind).eps * exact.abs().max().item()
    if not error <= limit:
        raise SystemExit(f"wrong answer: {r}: error {error:.3g}, limit {limit:.3g}")

    calls = {"attest": ours, "torch": theirs}
    repeat = {n: max(1, int(2e6 / timed(c, 1))) for n, c in calls.items()}
    samples = {n: [] for n in calls}
    end = time.perf_counter() + budget
    for done in range(10 * rounds):
        if done >= rounds and time.perf_counter() > end:
            break
        for name in random.sample(list(calls), 2):
            samples[name].append(timed(calls[name], repeat[name]))
    return kernel(), error, error_theirs, samples


def peaks(build, threads):
    program = os.path.join(build, "bench", "cpu_peaks")
    return json.loads(subprocess.run([program, str(threads)], check=True, capture_output=True, text=True).stdout)


def shares(r, seconds, peak):
    """Of the FMA peak, of the AMX peak, and of the memory's, in per cent."""
    flops = operations(r) / seconds / 1e9
    size = 4 if r["dtype"] == "f32" else 2
    moved = size * r["d"] * (2 * r["hkv"] * r["sk"] + 2 * r["hq"] * r["sq"]) * r["b"] / seconds / 1e9
    of = lambda x, y: f"{100 * x / y:5.0f}" if y else "    -"
    return f"{of(flops, peak['fma_gflops'])} {of(flops, peak['amx_gflops'])} {of(moved, peak['l3_gbs'])}"


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--build", default="build")
    parser.add_argument("--dtypes", default="f32,bf16,f16")
    parser.add_argument("--threads", default="1,2")
    parser.add_argument("--sizes", default="512,2048,4096")
    parser.add_argument("--rounds", type=int, default=5, help="least samples a row")
    parser.add_argument("--budget", type=float, default=1.0, help="seconds a row once it has them")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--json", default=None)
    a = parser.parse_args()
    random.seed(a.seed)
    counts = [int(x) for x in a.threads.split(",")]
    contexts = {n: Attest(a.build, n) for n in counts}
    peak = {n: peaks(a.build, n) for n in counts}
    results = []
    for n in counts:
        print(f"peaks, {n} threads: {json.dumps(peak[n])}")
    print(f"torch {torch.__version__}")
    print(f"{'row':42} {'kernel':18} {'attest ms':>10} {'torch ms':>10} {'ratio':>6} {'GFLOP/s':>8}  % of FMA   AMX    L3"
          f"   error  (torch)")
    for r in rows(a.dtypes.split(","), counts, [int(x) for x in a.sizes.split(",")]):
        torch.set_num_threads(r["threads"])
        kernel, error, error_theirs, samples = measure(r, contexts[r["threads"]], a.rounds, a.budget)
        mid = {k: statistics.median(s) for k, s in samples.items()}
        ratio = mid["torch"] / mid["attest"]
        name = f"{r['kind']} {r['dtype']} t{r['threads']} h{r['hq']}/{r['hkv']} s{r['sq']}x{r['sk']} d{r['d']}" + (
            " causal" if r["causal"] else "")
        print(f"{name:42} {kernel:18} {mid['attest'] / 1e6:10.3f} {mid['torch'] / 1e6:10.3f} {ratio:6.2f} "
              f"{operations(r) / mid['attest']:8.0f}     {shares(r, mid['attest'] / 1e9, peak[r['threads']])}   {error:.1e} "
              f"({error_theirs:.1e})", flush=True)
        results.append(dict(r, row=name, kernel=kernel, ratio=ratio, error=error, error_torch=error_theirs,
                            samples_ns=samples))
    met = True
    for kind, least in MUST.items():
        ratios = [r["ratio"] for r in results if r["kind"] == kind]
        if not ratios:
            continue
        mean, worst = math.exp(statistics.fmean(map(math.log, ratios))), min(ratios)
        good = mean >= least and worst >= ROW_LEAST
        met = met and good
        print(f"{kind:8} geometric mean {mean:.2f} (must {least}), worst row {worst:.2f} (must {ROW_LEAST}): "
              f"{'holds' if good else 'MISSED'}")
    long = [(r, next((x for x in results if {**x, "causal": True, "row": 0, "kernel": 0, "ratio": 0, "error": 0,
                                             "error_torch": 0, "samples_ns": 0} == {
        **r, "row": 0, "kernel": 0, "ratio": 0, "error": 0, "error_torch": 0, "samples_ns": 0} and not x["causal"]), None))
        for r in results if r["causal"] and r["sq"] >= 2048]
    worst = max((statistics.median(c["samples_ns"]["attest"]) / statistics.median(f["samples_ns"]["attest"])
                 for c, f in long if f), default=None)
    if worst is not None:
        met = met and worst <= 0.6
        print(f"causal over full time at S >= 2048: worst {worst:.2f} (must 0.60): {'holds' if worst <= 0.6 else 'MISSED'}")
    if a.json:
        with open(a.json, "w") as f:
            json.dump(dict(schema="attest-cpu-vs-torch-1", torch=torch.__version__, peaks=peak, rows=results), f)
    return 0 if met else 1


if __name__ == "__main__":
    sys.exit(main())
