"""compare.py: the oracle against an independent float64 attention in NumPy, over random problems.

usage: compare.py DUMP_ORACLE [COUNT [SEED]]

The problems go to DUMP_ORACLE as specs; it hands back the raw buffers, the strides and its answers.
Everything else is done here, in another way than the oracle's: whole score matrices, masks as
boolean matrices, one softmax over an axis.
"""

import collections
import pathlib
import random
import subprocess
import sys
import tempfile

import numpy as np

ALIBI, BIAS, SINKS, CU_Q, CU_K, LENS_K, PAGED, STARTS_K, Q_OFFSETS, K_OFFSETS = (1 << n for n in range(1, 11))
F32, F16, BF16, BOOL8 = 1, 2, 3, 4
TOP_LEFT, BOTTOM_RIGHT = 1, 2
TOLERANCE = 1e-8  # relative to the largest value; float64 leaves about 1e-11 even with huge logits


# ------------------------------------------------------------------- random problems


def random_spec(rng):
    """One spec, and the names of the features in it."""
    pick = rng.choice
    kv, group = pick([1, 1, 2, 3]), pick([1, 1, 2, 4])
    batch = pick([1, 2, 3, 4])
    seq_q, d = pick([1, 2, 7, 16, 33]), pick([1, 3, 8, 16, 40])
    layout = pick(["bshd", "bshd", "bhsd", "packed"])
    seq_k = seq_q if layout == "packed" else pick([seq_q, 0, 1, 5, 18, 40])
    words = [f"b{batch}h{kv * group}hkv{kv}s{seq_q}sk{seq_k}d{d}dv{pick([d, d, 1, 9, 24])}"]
    words.append(pick(["f32", "bf16", "fp16"]))
    if layout != "bshd":
        words.append(f"layout={layout}")

    lengths = pick(["none", "none", "varlen", "cuq", "cuk", "lensk", "cuq,lensk", "cuk,lensk"])
    if layout == "packed":
        lengths = pick(["none", "varlen"])
    if lengths != "none":
        words.append(lengths)
    if rng.random() < 0.2:
        words.append("startsk")
    words.append(f"lenseed={rng.randrange(1000)}")
    if layout != "packed" and rng.random() < 0.25:
        words.append(f"paged={pick([1, 3, 8, 64])}")
    if layout != "packed" and rng.random() < 0.15 and not any("paged" in w for w in words):
        words.append(f"bcast={pick(['b', 'h', 'bh'])}")

    mask = pick(["none", "none", "causal=top-left", "causal=bottom-right"])
    words.append(mask if mask != "none" else f"align={pick(['top-left', 'bottom-right'])}")
    if "top-left" in words[-1] and rng.random() < 0.4:
        words += rng.sample([f"qoffset={rng.randrange(60)}", f"koffset={rng.randrange(60)}", "qoffsets", "koffsets"], pick([1, 2, 4]))
    if rng.random() < 0.3:
        words.append(f"window={pick([-1, 0, 1, 4, 100])}:{pick([-1, 0, 1, 4, 100])}")
    if rng.random() < 0.2:
        words.append(f"scale={pick(['0', '-0.7', '0.25', '3'])}")
    if rng.random() < 0.25:
        words.append(f"softcap={pick(['0.5', '5', '30'])}")
    if rng.random() < 0.3:
        words.append(pick(["alibi", "alibi=b"]))
    if rng.random() < 0.25:
        words.append("sinks")
    if rng.random() < 0.4:
        dims = "".join(letter if rng.random() < 0.7 else "1" for letter in "bhqk")
        words.append(f"bias={pick(['f32', 'bf16', 'fp16', 'bool'])}:{dims}")
        words.append(f"biasfill={pick(['normal', 'hide', 'hide-rows', '+inf'])}")
        words.append(f"biascol={pick([1, 1, 2])}")
    if rng.random() < 0.2:
        words.append(f"pad={pick([1, 8])}")
    if rng.random() < 0.2:
        words.append(f"offset={pick([1, 5])}")
    names = ["normal"] * 6 + ["huge", "onehot", "equal", "denormal", "zero", "ramp", "shift"]
    words.append(f"data={pick(names + ['nan-masked', 'nan-visible', 'inf-v'])}")
    return ",".join(words)


def features_of(spec):
    return [word.split("=")[0] for word in spec.split(",")[1:]]


# ---------------------------------------------------------------------- one problem


def read_meta(path):
    meta = {}
    for line in path.read_text().splitlines():
        name, *values = line.split()
        if name in ("scale", "softcap"):
            meta[name] = float.fromhex(values[0])
        else:
            numbers = [int(v) for v in values]
            meta[name] = numbers if len(numbers) > 1 else numbers[0]
    return meta


def widen(raw, dtype):
    """Bytes of a dtype as float64; bool as 0 and 1."""
    if dtype == F32:
        return np.frombuffer(raw, "<f4").astype(np.float64)
    if dtype == F16:
        return np.frombuffer(raw, "<f2").astype(np.float64)
    if dtype == BF16:
        high = np.frombuffer(raw, "<u2").astype(np.uint32) << 16
        return high.view(np.float32).astype(np.float64)
    return (np.frombuffer(raw, np.uint8) != 0).astype(np.float64)


class Problem:
    def __init__(self, folder, n):
        self.meta = meta = read_meta(folder / f"{n}.meta")

        def raw(name):
            path = folder / f"{n}.{name}"
            return path.read_bytes() if path.exists() else b""

        def integers(name):
            return np.frombuffer(raw(name), "<i4")

        self.q = widen(raw("q"), meta["dtype"])
        if meta["packed"]:
            self.k, self.v = self.q[meta["k_offset"]:], self.q[meta["v_offset"]:]
        else:
            self.k, self.v = widen(raw("k"), meta["dtype"]), widen(raw("v"), meta["dtype"])
        self.bias = widen(raw("bias"), meta["bias_dtype"])
        self.alibi = np.frombuffer(raw("alibi"), "<f4").astype(np.float64)
        self.sinks = np.frombuffer(raw("sinks"), "<f4").astype(np.float64)
        self.cu_q, self.cu_k = integers("cu_q"), integers("cu_k")
        self.lens_k, self.starts_k, self.pages = integers("lens_k"), integers("starts_k"), integers("page_table")
        self.q_offsets, self.k_offsets = integers("q_offsets"), integers("k_offsets")
        self.answer = np.frombuffer(raw("answer"), "<f8").reshape(-1, meta["d_v"] + 1)

    def has(self, feature):
        return bool(self.meta["features"] & feature)

    def lengths(self, b):
        rows = np.diff(self.cu_q)[b] if self.has(CU_Q) else self.meta["seq_q"]
        keys = np.diff(self.cu_k)[b] if self.has(CU_K) else self.meta["seq_k"]
        if self.has(LENS_K):
            keys = min(keys, self.lens_k[b])
        return int(rows), int(keys)

    def matrix(self, flat, name, b, h, count, columns, cu, paged=False):
        """(count, columns) of one head of one sequence."""
        batch, head, row, _ = self.meta[name]
        n = np.arange(count)
        if paged:
            size = self.meta["page_size"]
            table = self.pages[b * self.meta["page_table_stride"]:]
            starts = table[n // size].astype(np.int64) * batch + n % size * row
        elif len(cu):
            starts = (cu[b] + n) * row
        else:
            starts = b * batch + n * row
        return flat[(starts + h * head)[:, None] + np.arange(columns)[None, :]]

    def scores(self, b, h, q, k):
        """Scores of all pairs, and which pairs are visible."""
        meta, rows, keys = self.meta, len(q), len(k)
        i, j = np.arange(rows)[:, None], np.arange(keys)[None, :]
        bottom_right = (meta["causal"] or meta["align"]) == BOTTOM_RIGHT
        row, key = meta["q_offset"], meta["key_offset"]  # positions of the first ones
        if self.has(Q_OFFSETS):
            row += int(self.q_offsets[b])
        if self.has(K_OFFSETS):
            key += int(self.k_offsets[b])
        distance = (key + j) - (row + i + (keys - rows if bottom_right else 0))  # right of the diagonal
        visible = np.ones((rows, keys), bool)
        if self.has(STARTS_K):
            visible &= j >= self.starts_k[b]
        if meta["causal"]:
            visible &= distance <= 0
        if meta["window_left"] >= 0:
            visible &= distance >= -meta["window_left"]
        if meta["window_right"] >= 0:
            visible &= distance <= meta["window_right"]

        s = meta["scale"] * np.einsum("ic,jc->ij", q, k)
        if meta["softcap"] > 0:
            s = meta["softcap"] * np.tanh(s / meta["softcap"])
        if self.has(ALIBI):
            s = s - self.alibi[b * meta["alibi_stride_batch"] + h] * np.abs(distance)
        if self.has(BIAS):
            strides = meta["bias"]
            bias = self.bias[b * strides[0] + h * strides[1] + i * strides[2] + j * strides[3]]
            if meta["bias_dtype"] == BOOL8:
                visible &= bias != 0
            else:
                visible &= bias != -np.inf
                s = s + bias
        return s, visible

    def head(self, b, h):
        """O with LSE as its last column, for every row of one head."""
        meta = self.meta
        rows, keys = self.lengths(b)
        h_kv = h * meta["heads_kv"] // meta["heads_q"]
        q = self.matrix(self.q, "q", b, h, rows, meta["d_qk"], self.cu_q)
        k = self.matrix(self.k, "k", b, h_kv, keys, meta["d_qk"], self.cu_k, self.has(PAGED))
        v = self.matrix(self.v, "v", b, h_kv, keys, meta["d_v"], self.cu_k, self.has(PAGED))
        s, visible = self.scores(b, h, q, k)
        s = np.where(visible, s, -np.inf)

        sink = self.sinks[h] if self.has(SINKS) else -np.inf
        s = np.concatenate([s, np.full((rows, 1), sink)], axis=1)  # a key without a value
        top = np.max(s, axis=1, keepdims=True)
        weights = np.exp(s - np.where(top == -np.inf, 0.0, top))
        total = weights.sum(axis=1, keepdims=True)
        parts = np.where(visible[:, :, None], weights[:, :-1, None] * v[None, :, :], 0.0)
        o = np.divide(parts.sum(axis=1), total, out=np.zeros((rows, meta["d_v"])), where=total != 0)
        return np.concatenate([o, top + np.log(total)], axis=1)

    def solve(self):
        heads = [self.head(b, h) for b in range(self.meta["batch"]) for h in range(self.meta["heads_q"])]
        return np.concatenate(heads)


def difference(got, want):
    """The largest difference relative to the largest value; inf if special values disagree."""
    if got.shape != want.shape:
        return np.inf
    finite = np.isfinite(want)
    same = np.array_equal(got[~finite], want[~finite], equal_nan=True)
    if not same or not np.isfinite(got[finite]).all():
        return np.inf
    if not finite.any():
        return 0.0
    largest = np.abs(want[finite]).max()
    return np.abs(got[finite] - want[finite]).max() / largest if largest else np.abs(got[finite]).max()


def main():
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    count = int(sys.argv[2]) if len(sys.argv) > 2 else 400
    rng = random.Random(int(sys.argv[3]) if len(sys.argv) > 3 else 1)
    specs = [random_spec(rng) for _ in range(count)]
    seen = collections.Counter(word for spec in specs for word in features_of(spec))
    failures, worst = 0, 0.0
    np.seterr(all="ignore")  # NaN and Inf are among the inputs
    with tempfile.TemporaryDirectory() as name:
        subprocess.run([sys.argv[1], name], input="\n".join(specs) + "\n", text=True, check=True)
        for n, spec in enumerate(specs):
            problem = Problem(pathlib.Path(name), n)
            want, d_v = problem.solve(), problem.meta["d_v"]
            for part, columns in (("o", slice(0, d_v)), ("lse", slice(d_v, None))):
                error = difference(problem.answer[:, columns], want[:, columns])
                worst = max(worst, error if np.isfinite(error) else 0.0)
                if not error <= TOLERANCE:
                    failures += 1
                    print(f"FAIL {spec} seed {n}: {part} differs by {error:.3g} of its largest value")
    wanted = "causal align window scale softcap alibi sinks bias pad offset paged lensk startsk qoffset koffset qoffsets koffsets varlen cuq cuk bcast"
    missing = [word for word in wanted.split() if seen[word] < count // 50]
    if missing:
        failures += 1
        print(f"FAIL too few problems with: {', '.join(missing)}")
    print(f"numpy: {count} problems, {failures} failures, largest difference {worst:.2g}")
    sys.exit(1 if failures else 0)


if __name__ == "__main__":
    main()
