"""arrays.py: `attest run` on .npy files compared with attention in NumPy, in float64.

Prints a line `pass NAME` or `FAILED NAME: why` per case, and `done` at the end. Run by test_arrays.sh.
"""
import subprocess

import numpy as np

rng = np.random.default_rng(0)
BARS = {"float32": 2e-5, "float16": 4e-3, "bfloat16": 3e-2}


def to_bfloat16(x):
    bits = np.asarray(x, np.float32).view(np.uint32).astype(np.uint64)
    return ((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16).astype(np.uint16)


def from_bfloat16(x):
    return (x.astype(np.uint32) << 16).view(np.float32)


def visible(rows, keys, causal, window, align):
    """Which keys each row sees, and the row's position on the diagonal."""
    shift = keys - rows if "bottom-right" in (causal, align) else 0
    diagonal = np.arange(rows)[:, None] + shift
    j = np.arange(keys)[None, :]
    seen = np.ones((rows, keys), bool)
    if causal:
        seen &= j <= diagonal
    left, right = window
    if left >= 0:
        seen &= j >= diagonal - left
    if right >= 0:
        seen &= j <= diagonal + right
    return seen, np.abs(diagonal - j)


def attention(q, k, v, scale=None, causal=None, window=(-1, -1), align=None, softcap=0.0,
              slopes=None, bias=None, sinks=None, keys=None, start=0):
    """One sequence: q (rows, heads, d), k and v (keys, heads_kv, d) -> o (rows, heads, d), lse (heads, rows)."""
    q, k, v = (x.astype(np.float64) for x in (q, k, v))
    k, v = k[:keys], v[:keys]
    group = q.shape[1] // k.shape[1]
    k, v = np.repeat(k, group, axis=1), np.repeat(v, group, axis=1)
    s = np.einsum("ihd,jhd->hij", q, k) * (q.shape[2] ** -0.5 if scale is None else scale)
    if softcap:
        s = softcap * np.tanh(s / softcap)
    seen, distance = visible(len(q), len(k), causal, window, align)
    seen &= np.arange(len(k)) >= start
    if slopes is not None:
        s = s - slopes[:, None, None] * distance
    if bias is not None:
        bias = bias[..., : len(k)]
        s = np.where(bias, s, -np.inf) if bias.dtype == bool else s + bias
    s = np.where(seen, s, -np.inf)
    sink = np.full(q.shape[1], -np.inf) if sinks is None else sinks
    top = np.maximum(s.max(axis=2, initial=-np.inf), sink[:, None])
    top = np.where(np.isfinite(top), top, 0.0)
    p = np.exp(s - top[..., None])
    total = p.sum(axis=2) + np.exp(sink[:, None] - top)
    with np.errstate(divide="ignore", invalid="ignore"):
        o = np.nan_to_num(np.einsum("hij,jhd->ihd", p, v) / total.T[..., None])
        return o, np.log(total) + top


class Case:
    """Arrays on disk, the flags that name them, and the expected answer."""

    def __init__(self, name, dtype="float32", batch=2, heads=4, heads_kv=2, rows=19, keys=23, d=16,
                 d_v=24, layout="bshd", flags=(), cu=None, lens=None, starts=None, lse=True, **features):
        self.name, self.dtype, self.layout, self.flags = name, dtype, layout, list(flags)
        self.cu, self.lens, self.starts, self.lse, self.features = cu, lens, starts, lse, features
        self.batch = batch
        total_q, total_k = (cu[0][-1], cu[1][-1]) if cu else (rows, keys)
        lead = () if cu else (batch,)
        self.q = self.make(lead + (total_q, heads, d))
        self.k = self.make(lead + (total_k, heads_kv, d))
        self.v = self.make(lead + (total_k, heads_kv, d_v))

    def make(self, shape):
        """Random values that the dtype represents exactly, as float32."""
        x = rng.standard_normal(shape).astype(np.float32)
        if self.dtype == "float16":
            return x.astype(np.float16).astype(np.float32)
        return from_bfloat16(to_bfloat16(x)) if self.dtype == "bfloat16" else x

    def save(self, name, x, packed):
        if self.layout == "bhsd" and not packed:
            x = x.transpose(0, 2, 1, 3)
        x = to_bfloat16(x) if self.dtype == "bfloat16" else x.astype(self.dtype)
        np.save(name, np.ascontiguousarray(x))

    def load(self, name):
        x = np.load(name)
        want = "uint16" if self.dtype == "bfloat16" else self.dtype
        assert x.dtype == want, f"O is {x.dtype}, not {want}"
        x = from_bfloat16(x) if self.dtype == "bfloat16" else x
        return x.transpose(0, 2, 1, 3) if self.layout == "bhsd" and not self.cu else x

    def run(self):
        arguments = ["attest", "run", "--q", "cq.npy", "--k", "ck.npy", "--v", "cv.npy", "-o", "co.npy"]
        arguments += self.flags + (["--lse", "cl.npy"] if self.lse else [])
        for name, x in (("cq.npy", self.q), ("ck.npy", self.k), ("cv.npy", self.v)):
            self.save(name, x, packed=bool(self.cu))
        for flag, key in (("--alibi", "slopes"), ("--bias", "bias"), ("--sinks", "sinks")):
            if key in self.features:
                np.save(f"c_{key}.npy", self.features[key])
                arguments += [flag, f"c_{key}.npy"]
        if self.cu:
            for side, offsets in zip("qk", self.cu):
                np.save(f"c_cu_{side}.npy", offsets)
                arguments += [f"--cu-seqlens-{side}", f"c_cu_{side}.npy"]
        if self.lens is not None:
            np.save("c_lens.npy", self.lens)
            arguments += ["--lens-k", "c_lens.npy"]
        if self.starts is not None:
            np.save("c_starts.npy", self.starts)
            arguments += ["--starts-k", "c_starts.npy"]
        if self.layout != "bshd":
            arguments += ["--layout", self.layout]
        if self.dtype == "bfloat16":
            arguments += ["--bf16"]
        result = subprocess.run(arguments, capture_output=True, text=True)
        assert result.returncode == 0, result.stderr.strip()
        assert "kernel " in result.stdout and "GFLOP/s" in result.stdout, result.stdout

    def sequences(self):
        """(rows of q, rows of k, features of that sequence) for every batch entry."""
        for b in range(self.batch):
            own = dict(self.features)
            for key, dims in (("slopes", 1), ("bias", 3)):
                if key in own and own[key].ndim > dims:
                    own[key] = own[key][b if len(own[key]) > 1 else 0]
            if self.lens is not None:
                own["keys"] = int(self.lens[b])
            if self.starts is not None:
                own["start"] = int(self.starts[b])
            if self.cu:
                (q0, q1), (k0, k1) = self.cu[0][b : b + 2], self.cu[1][b : b + 2]
                yield b, slice(q0, q1), slice(k0, k1), own
            else:
                yield b, slice(None), slice(None), own

    def check(self):
        o = self.load("co.npy")
        lse = np.load("cl.npy") if self.lse else None
        for b, rows, keys, own in self.sequences():
            pick = (lambda x: x) if self.cu else (lambda x: x[b])
            want, want_lse = attention(pick(self.q)[rows], pick(self.k)[keys], pick(self.v)[keys], **own)
            got = pick(o)[rows]
            assert got.shape == want.shape, f"O is {got.shape}, not {want.shape}"
            error = np.abs(got - want).max(initial=0.0)
            assert error <= BARS[self.dtype], f"O of sequence {b} is off by {error}"
            if self.lse:
                got_lse = (lse if self.cu else lse[b])[:, rows]
                assert np.array_equal(np.isinf(got_lse), np.isinf(want_lse)), "LSE infinities differ"
                finite = np.isfinite(want_lse)
                error = np.abs(got_lse[finite] - want_lse[finite]).max(initial=0.0)
                assert error <= 1e-4, f"LSE of sequence {b} is off by {error}"


def offsets(*lengths, dtype=np.int32):
    return np.concatenate([[0], np.cumsum(lengths)]).astype(dtype)


CASES = [
    Case("float32"),
    Case("float16", "float16"),
    Case("bfloat16", "bfloat16"),
    Case("bhsd", layout="bhsd"),
    Case("bhsd bfloat16", "bfloat16", layout="bhsd"),
    Case("no lse", lse=False),
    Case("one row", rows=1, keys=300),
    Case("repeated", flags=["--repeat", "3"]),
    Case("plain causal", rows=21, keys=21, flags=["--causal"], causal="top-left"),
    Case("causal top-left", flags=["--causal=top-left"], causal="top-left"),
    Case("causal bottom-right", flags=["--causal=bottom-right"], causal="bottom-right"),
    Case("causal, fully masked rows", rows=23, keys=9, flags=["--causal=bottom-right"], causal="bottom-right"),
    Case("window", rows=30, keys=30, flags=["--window", "4,2"], window=(4, 2)),
    Case("window without a left limit", rows=30, keys=30, flags=["--window", "-1,0"], window=(-1, 0)),
    Case("window aligned", flags=["--window", "3,3", "--align", "bottom-right"], window=(3, 3), align="bottom-right"),
    Case("softcap", flags=["--softcap", "1.5"], softcap=1.5),
    Case("scale", flags=["--scale", "-0.125"], scale=-0.125),
    Case("alibi", rows=20, keys=20, flags=["--causal"], causal="top-left", slopes=rng.random(4).astype(np.float32)),
    Case("alibi a batch entry, float64", rows=20, keys=20, slopes=rng.random((2, 4))),
    Case("bias (q, k)", bias=rng.standard_normal((19, 23)).astype(np.float32)),
    Case("bias (h, q, k)", bias=rng.standard_normal((4, 19, 23)).astype(np.float16)),
    Case("bias (1, h, 1, k)", bias=rng.standard_normal((1, 4, 1, 23)).astype(np.float32)),
    Case("bias (b, 1, q, k)", bias=rng.standard_normal((2, 1, 19, 23)).astype(np.float32)),
    Case("boolean mask", bias=rng.random((2, 1, 19, 23)) < 0.6),
    Case("sinks", sinks=rng.standard_normal(4).astype(np.float32)),
    Case("sinks, float64", sinks=rng.standard_normal(4)),
    Case("keys in use", lens=np.array([23, 5], np.int32)),
    Case("keys in use, int64", lens=np.array([0, 11])),
    Case("left padding", rows=21, keys=21, flags=["--causal"], causal="top-left", starts=np.array([0, 13], np.int32)),
    Case("left padding, int64, a cache, hidden rows", flags=["--causal=bottom-right"], causal="bottom-right",
         lens=np.array([20, 5]), starts=np.array([9, 5])),
    Case("packed", batch=3, cu=(offsets(5, 0, 9), offsets(7, 3, 9))),
    Case("packed, int64, bfloat16", "bfloat16", batch=3, cu=(offsets(5, 0, 9, dtype=np.int64), offsets(7, 3, 9, dtype=np.int64))),
    Case("packed causal", batch=3, cu=(offsets(5, 1, 9), offsets(5, 1, 9)), flags=["--causal"], causal="top-left"),
    Case("packed, bottom-right", batch=2, cu=(offsets(5, 9), offsets(8, 12)), flags=["--causal=bottom-right"], causal="bottom-right"),
    Case("empty batch", batch=0),
    Case("no keys", keys=0),
    Case("no rows", rows=0),
]

for case in CASES:
    try:
        case.run()
        case.check()
        print("pass", case.name)
    except AssertionError as problem:
        print(f"FAILED {case.name}: {problem}")

# O in another type, over an older file: that is replaced, not written into.
np.save("own.npy", CASES[0].q)
np.save("older.npy", CASES[0].q)
result = subprocess.run(["attest", "run", "--q", "own.npy", "--k", "own.npy", "--v", "own.npy", "-o", "older.npy",
                         "--dtype-o", "fp16"], capture_output=True, text=True)
x = CASES[0].q[0]
right = result.returncode == 0 and np.load("older.npy").dtype == np.float16 and \
    np.abs(np.load("older.npy")[0] - attention(x, x, x)[0]).max() < 4e-3
print("pass over an older output" if right else f"FAILED over an older output: {result.stderr}")
print("done")
