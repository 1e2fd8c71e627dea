"""problems.py: the problems that are timed, in groups."""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass, replace
from typing import Iterable, Iterator, List, Tuple

from . import decode_cells, drawn_lengths, layers, mask_tiles

FORWARD_SIZES = (512, 1024, 2048, 4096, 8192, 16384)
SWEEP_SIZES = (256, 357, 512, 723, 1024, 1449, 2048, 2897, 4096, 5793, 8192, 11585, 16384, 23171, 32768)
SWEEP_HEADS = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512)
SOFTCAP = 30.0
MASKS = ("padding", "padded-causal", "documents", "tenth")  # the laboratory's names for what a boolean mask hides
MORE_MASKS = ("prefix", "blocks")
CAUSAL_MASKS = ("padded-causal", "documents")
FEATURES = ("alibi", "softcap", "bias", "starts", *MASKS)
WINDOWS = (128, 256, 512, 1024, 2048, 4096)
TILE = mask_tiles.TILE
RINGS = {"parallel_4": 4, "parallel_8": 8}  # groups, and the ranks of their rings
SWEEP_MOST = 2e13  # the most operations of a point: some tens of milliseconds on the largest GPU


@dataclass(frozen=True)
class Problem:
    """Sizes and mask of one attention; causal is aligned top-left."""

    b: int
    hq: int
    hkv: int
    sq: int
    sk: int
    d: int
    dv: int
    dtype: str  #: "f32", "fp16" or "bf16"
    causal: bool = False
    page: int = 0  #: keys per page, which divides sk; 0: K and V are contiguous
    feature: str = ""  #: one of FEATURES, of MORE_MASKS, or "window"; "": none
    window: int = 0  #: of a square causal problem: the keys that a row sees, its own the last
    shape: str = ""  #: of a bias or mask, as the laboratory has it: "b1qk" is the same for all heads; "": the usual one
    bias_dtype: str = ""  #: "": that of the problem
    sinks: bool = False
    used: bool = False  #: a cache of which sequences use up to three eighths less
    call: str = ""  #: passed to PyTorch's function as a "bool" mask, or as a float one with "inf" or "min" where it hides
    backward: bool = False  #: its gradients are timed
    lengths: Tuple[int, ...] = ()  #: used keys of each batch entry, at most sk; with more rows than one, its rows too
    ranks: int = 0  #: ranks of a ring that is played in one process; 0: one call

    @property
    def spec(self) -> str:
        """The problem in the notation of the program `attest`."""
        text = ("backward:" if self.backward else "") + f"b{self.b}h{self.hq}" + (f"hkv{self.hkv}" if self.hkv != self.hq else "") + f"s{self.sq}"
        text += (f"sk{self.sk}" if self.sk != self.sq else "") + f"d{self.d}"
        text += (f"dv{self.dv}" if self.dv != self.d else "") + f",{self.dtype}"
        text += ",causal" if self.causal and self.sq == self.sk and not self.used else ",causal=top-left" if self.causal else ""
        return text + self._feature + self._lengths + (f",paged={self.page}" if self.page else "")

    @property
    def _lengths(self) -> str:
        return (",lens=" if self.packed else ",lensk=") + ":".join(map(str, self.lengths)) if self.lengths else ""

    @property
    def packed(self) -> bool:
        """Whether the sequences lie one after the other, without padding."""
        return bool(self.lengths) and self.sq > 1

    @property
    def _feature(self) -> str:
        text = f",window={self.window - 1}:0" if self.window else ""
        if self.is_mask:
            text += f",bias={self.dtype if self.call in ('inf', 'min') else 'bool'}:{self.bias_shape},biasfill={self.feature}"
        elif self.feature == "bias":
            text += f",bias={self.bias_dtype or self.dtype}" + (f":{self.bias_shape}" if "1" in self.bias_shape else "")
        else:
            text += {"alibi": ",alibi", "softcap": f",softcap={SOFTCAP:g}"}.get(self.feature, "")
        text += ",sinks" if self.sinks else ""
        text += ",lensk=" + ":".join(map(str, self.ends)) if self.used else ""
        return text + (",startsk=" + ":".join(map(str, self.starts)) if self.feature == "starts" else "")

    @property
    def bias_shape(self) -> str:
        """The dimensions in which the bias or mask differs; 1: it is the same for all."""
        return self.shape or ("b1qk" if self.is_mask else "1hqk")

    @property
    def is_mask(self) -> bool:
        return self.feature in MASKS + MORE_MASKS

    @property
    def is_plain(self) -> bool:
        """Whether nothing but causality changes the scores."""
        return not (self.feature or self.window or self.sinks or self.used)

    @property
    def equal(self) -> "Problem":
        """As many sequences of equal lengths, with the same operations if they are packed, or else the same bytes."""
        if not self.packed:
            return replace(self, sk=round(self.keys / self.b), lengths=())
        pairs = self.pairs / self.b
        length = round(math.sqrt(2 * pairs + 0.25) - 0.5 if self.causal else math.sqrt(pairs))
        return replace(self, sq=length, sk=length, lengths=())

    @property
    def starts(self) -> Tuple[int, ...]:
        """The first used keys of sequences with padding on the left."""
        return tuple(self.sk * (b % 4) // 8 if self.feature == "starts" else 0 for b in range(self.b))

    @property
    def ends(self) -> Tuple[int, ...]:
        """The number of used keys of each sequence of a cache."""
        return tuple(self.sk - (self.sk * (b % 4) // 8 if self.used else 0) for b in range(self.b))

    @property
    def pairs(self) -> int:
        """The number of visible (row, key) pairs per head, over all batch entries; for a random mask, all pairs."""
        if self.feature in MORE_MASKS:
            return self.b * mask_tiles.pairs(self.feature, self.sk)
        if self.feature in ("padding", "padded-causal"):
            return sum(self._padded(self.sk * (b % 4) // 8) for b in range(self.b))
        if self.feature == "documents":
            ends = [-(-self.sk * n * n // 64) for n in range(9)]  # start of the n-th document
            return self.b * sum(n * (n + 1) // 2 for n in (end - start for start, end in zip(ends, ends[1:])))
        if self.lengths:
            return sum(n * (n + 1) // 2 if self.causal else n * (n if self.packed else self.sq) for n in self.lengths)
        if self.window or self.used:
            least = [max(0, row + 1 - self.window) if self.window else 0 for row in range(self.sq)]
            return sum(max(0, (min(end, row + 1) if self.causal else end) - max(first, least[row]))
                       for first, end in zip(self.starts, self.ends) for row in range(self.sq))
        return sum(self._pairs(first) for first in self.starts)

    def _padded(self, padding: int) -> int:
        """The pairs of a square problem with that many padding keys, at the end or, if causal, at the start."""
        seen = self.sk - padding
        return seen * (seen + 1) // 2 if self.feature == "padded-causal" else self.sq * seen

    def _pairs(self, first: int) -> int:
        if not self.causal:
            return self.sq * (self.sk - first)
        full, keys = min(self.sq, self.sk) - first, self.sk - first
        return full * (full + 1) // 2 + max(0, self.sq - self.sk) * keys if full > 0 else 0

    @property
    def visible_tiles(self) -> float:
        """The share of the plain problem's tiles of TILE rows x TILE keys that a window or mask leaves: those with a
        visible key. Masks that hide what comes after a row are compared with plain causal."""
        if self.is_mask:
            return mask_tiles.share(self.feature, self.b, self.sq, self.feature in CAUSAL_MASKS)
        rows = range(0, self.sq, TILE)
        return sum(row // TILE + 1 - max(0, row + 1 - self.window) // TILE for row in rows) / sum(row // TILE + 1 for row in rows)

    @property
    def operations(self) -> int:
        products = 3 * self.d + 2 * self.dv if self.backward else self.d + self.dv
        return 2 * products * self.hq * self.pairs

    @property
    def fields(self) -> dict:
        """The fields of the laboratory's files; visible_tiles is not one of its own."""
        made = {"batch": self.b, "heads_q": self.hq, "heads_kv": self.hkv, "seq_q": self.sq, "seq_k": self.sk, "d_qk": self.d,
                "d_v": self.dv, "dtype": self.dtype, "dtype_o": self.dtype, "spec": self.spec}
        return {**made, "visible_tiles": self.visible_tiles} if self.feature == "window" or self.is_mask else made

    @property
    def element(self) -> int:
        return layers.element_bytes(self.dtype)

    @property
    def rows(self) -> int:
        return sum(self.lengths) if self.packed else self.b * self.sq

    @property
    def keys(self) -> int:
        return sum(self.lengths) if self.lengths else self.b * self.sk

    @property
    def kv_bytes(self) -> int:
        return self.element * self.keys * self.hkv * (self.d + self.dv)

    @property
    def input_bytes(self) -> int:
        return self.kv_bytes + self.element * self.rows * self.hq * self.d

    @property
    def moved_bytes(self) -> int:
        """Bytes with everything read and written once; for gradients, O and its gradient are read and those of q, k
        and v written."""
        if self.backward:
            return 2 * (self.input_bytes + self.element * self.rows * self.hq * self.dv)
        return self.input_bytes + self.element * self.rows * self.hq * self.dv


@dataclass(frozen=True)
class Row:
    """A problem of a group, on that many threads of the CPU (0: a GPU)."""

    group: str
    problem: Problem
    threads: int = 0

    @property
    def name(self) -> str:
        return self.problem.spec + (f" t{self.threads}" if self.threads else "")


def square(b, heads, s, d, dtype, causal=False, *, hkv=None, dv=None) -> Problem:
    return Problem(b, heads, hkv or heads, s, s, d, dv or d, dtype, causal)


def _forward(dtype: str) -> Iterator[Problem]:
    """H x D = 2048, B x S = 16384: the table in which attention is usually shown."""
    for d in (128, 64):
        for causal in (False, True):
            for s in FORWARD_SIZES:
                yield square(16384 // s, 2048 // d, s, d, dtype, causal)


def _gqa() -> Iterator[Problem]:
    for dtype in ("bf16", "fp16"):
        yield square(2, 32, 8192, 128, dtype, True, hkv=8)


def _dims() -> Iterator[Problem]:
    for d, dv, heads in ((96, 96, 21), (192, 192, 10), (256, 256, 8), (192, 128, 16)):
        for causal in (False, True):
            for s in (2048, 8192):
                yield square(16384 // s, heads, s, d, "bf16", causal, dv=dv)


def _seed() -> Iterator[Problem]:
    for b, s, causal in ((1, 128, False), (2, 256, False), (2, 512, False), (2, 512, True), (4, 1024, False),
                         (1, 2048, False), (1, 32, True), (1, 512, False)):
        yield square(b, 8, s, 64, "fp16", causal)


def _decode() -> Iterator[Problem]:
    for b, sk in ((1, 1024), (1, 8192), (1, 65536), (8, 8192), (64, 1024), (64, 8192)):
        yield Problem(b, 32, 8, 1, sk, 128, 128, "bf16")


def _decode_sweep() -> Iterator[Problem]:
    for d, cells in decode_cells.CELLS.items():
        for b, hq, hkv, sk in cells:
            yield Problem(b, hq, hkv, 1, sk, d, d, "bf16")


def _chunk() -> Iterator[Problem]:
    """A few new rows over a long cache."""
    for b, hq, hkv, rows, keys in ((1, 32, 8, (2, 4, 8, 16, 32, 64, 128, 256), (1024, 4096, 16384, 131072)),
                                   (8, 32, 8, (4, 16, 64), (4096, 16384)), (32, 32, 8, (4, 16, 64), (1024, 4096)),
                                   (1, 32, 32, (4, 16, 64), (8192,)), (1, 64, 8, (4, 16, 64), (8192,)),
                                   (1, 32, 2, (4, 16, 64), (8192,))):
        for sq in rows:
            for sk in keys:
                yield Problem(b, hq, hkv, sq, sk, 128, 128, "bf16")
    for d, hq, hkv in ((64, 32, 8), (256, 16, 4)):
        for sq in (4, 16, 64, 256):
            for sk in (4096, 16384):
                yield Problem(1, hq, hkv, sq, sk, d, d, "bf16")


def _few_heads() -> Iterator[Problem]:
    for d in (128, 64, 256):
        for causal in (False, True):
            for heads in (1, 2, 4, 8):
                for s in (1024, 2048, 4096, 8192, 16384, 131072):
                    if s < 131072 or (d == 128 and heads in (1, 8)):
                        yield square(1, heads, s, d, "bf16", causal)


def _pages() -> Iterator[Problem]:
    """Decode, prefill and chunks from a paged cache; the rival `contiguous` is attest without pages."""
    for b, sq, sk, causal in ((1, 1, 8192, False), (16, 1, 4096, False), (1, 1, 65536, False), (64, 1, 1024, False),
                              (2, 4, 8192, False), (1, 8192, 8192, True), (2, 512, 8192, False)):
        for page in (16, 32, 64, 128, 256):
            yield Problem(b, 32, 8, sq, sk, 128, 128, "bf16", causal, page)
    for d in (64, 256):
        for page in (16, 64):
            yield Problem(2, 16, 16, 4096, 4096, d, d, "bf16", True, page)


def _sweep() -> Iterator[Problem]:
    for d in (64, 128):
        for causal in (False, True):
            for heads in SWEEP_HEADS:
                for s in SWEEP_SIZES:
                    point = square(1, heads, s, d, "bf16", causal)
                    if point.operations <= SWEEP_MOST:
                        yield point


def _features(s=8192, b=4, heads=16, dims=(64, 128, 256), dtype="bf16") -> Iterator[Problem]:
    """What models add to the scores; the rival `plain` is attest without it."""
    for d in dims:
        for feature in FEATURES:
            for causal in ((False,) if feature in MASKS else (True,) if feature == "starts" else (True, False)):
                yield Problem(b, heads, heads, s, s, d, d, dtype, causal, feature=feature)
        for feature in ("padding", "padded-causal"):  # no padding in a single entry; causal as a mask
            yield Problem(1, b * heads, b * heads, s, s, d, d, dtype, feature=feature)


def _patterns() -> Iterator[Problem]:
    """Masks of other kinds and shapes, and features in float16."""
    for d in (64, 128, 256):
        for feature in MORE_MASKS:
            yield Problem(4, 16, 16, 8192, 8192, d, d, "bf16", feature=feature)
    for feature, shape in (("padding", "b11k"), ("documents", "11qk"), ("prefix", "1hqk"), ("blocks", "11qk"), ("tenth", "11qk"),
                           ("tenth", "1hqk")):
        yield Problem(4, 16, 16, 8192, 8192, 128, 128, "bf16", feature=feature, shape=shape)


def _bias() -> Iterator[Problem]:
    """Additive biases: every shape and type."""
    for d, types in ((128, (("bf16", "bf16"), ("fp16", "fp16"), ("bf16", "f32"), ("fp16", "f32"))), (64, (("bf16", "bf16"),)),
                     (256, (("bf16", "bf16"),))):
        for dtype, of in types:
            for shape in ("1hqk", "b1qk", "bhqk", "1h1k"):
                for causal in (False, True):
                    yield Problem(4, 16, 16, 4096, 4096, d, d, dtype, causal, feature="bias", shape=shape, bias_dtype=of)


def _combinations(s=8192, dtype="bf16", d=128, window=1024, page=64) -> Iterator[Problem]:
    """A feature together with something else that models have; the rival `plain` has the rest too."""
    for feature in ("alibi", "softcap", "bias"):
        plain = Problem(4, 16, 16, s, s, d, d, dtype, True, feature=feature)
        yield replace(plain, window=window)
        yield replace(plain, sinks=True)
        yield replace(plain, hkv=4)
        yield replace(plain, used=True)
        yield replace(plain, page=page)
    for feature in ("padded-causal", "documents"):
        plain = Problem(4, 16, 16, s, s, d, d, dtype, feature=feature)
        yield replace(plain, sinks=True)
        yield replace(plain, hkv=4)
        yield replace(plain, page=page)


def _mask_calls(call: str) -> Iterator[Problem]:
    """Calls of PyTorch's function as models make them: masks that are expanded, boolean or float."""
    for b, hq, hkv, s, d, dtype in ((8, 32, 8, 2048, 128, "bf16"), (4, 16, 16, 4096, 64, "bf16"), (2, 8, 8, 4096, 256, "bf16"),
                                    (4, 16, 16, 4096, 128, "fp16")):
        for feature, shape in (("padding", "b11k"), ("padded-causal", "b1qk"), ("documents", "11qk"), ("prefix", "b1qk"), ("tenth", "b1qk")):
            if call == "bool" or feature != "padded-causal":  # it has rows that see nothing, whose answer depends on the kind
                yield Problem(b, hq, hkv, s, s, d, d, dtype, feature=feature, shape=shape, call=call)
        if call == "bool":  # is_causal, with as many keys and with more
            yield Problem(b, hq, hkv, s, s, d, d, dtype, True, call=call)
            yield Problem(b, hq, hkv, s // 4, s, d, d, dtype, True, call=call)


def _float32() -> Iterator[Problem]:
    for problem in _seed():
        yield replace(problem, dtype="f32")
    for d in (64, 128):
        for causal in (False, True):
            yield square(4, 16, 2048, d, "f32", causal)


def _windows() -> Iterator[Problem]:
    """Sliding windows; the rival `plain` is attest without them."""
    for b in (1, 4):
        for d in (64, 128):
            for window in WINDOWS:
                yield Problem(b, 16, 16, 16384, 16384, d, d, "bf16", True, feature="window", window=window)


def _lengths() -> Iterator[Problem]:
    """Prefill and decode with unequal lengths; the rival `equal` is attest with equal ones."""
    for law in drawn_lengths.LAWS.values():
        for d in (64, 128):
            for count in (8, 32):
                lengths = law(count, 512, 16384)
                for causal in (False, True):
                    yield Problem(count, 16, 16, max(lengths), max(lengths), d, d, "bf16", causal, lengths=lengths)
            for count in (16, 64):
                lengths = law(count, 1024, 32768)
                yield Problem(count, 32, 8, 1, max(lengths), d, d, "bf16", lengths=lengths)


def _parallel(ranks: int, s=65536, heads=((16, 16), (16, 4)), d=128, dtype="bf16") -> Iterator[Problem]:
    """A ring whose ranks are played one after another; the rival `whole` is one call."""
    for hq, hkv in heads:
        yield Problem(1, hq, hkv, s, s, d, d, dtype, True, ranks=ranks)


def _backward(of: Iterable[Problem]) -> Iterator[Problem]:
    return (replace(problem, backward=True) for problem in of)


GPU_GROUPS = {"forward": lambda: _forward("bf16"), "fp16": lambda: _forward("fp16"), "gqa": _gqa, "dims": _dims,
              "seed": _seed, "decode": _decode, "decode_sweep": _decode_sweep, "chunk": _chunk,
              "few_heads": _few_heads, "pages": _pages, "features": _features, "windows": _windows,
              "features_fp16": lambda: _features(dtype="fp16", dims=(128,)), "patterns": _patterns, "bias": _bias,
              "combinations": _combinations, "masks": lambda: _mask_calls("bool"), "masks_inf": lambda: _mask_calls("inf"),
              "masks_min": lambda: _mask_calls("min"), "float32": _float32,
              "lengths": _lengths, "sweep": _sweep,
              **{group: functools.partial(_parallel, ranks) for group, ranks in RINGS.items()},
              "backward": lambda: _backward(_forward("bf16")), "backward_fp16": lambda: _backward(_forward("fp16")),
              "backward_gqa": lambda: _backward(_gqa()), "backward_dims": lambda: _backward(_dims()),
              "backward_seed": lambda: _backward(_seed()), "experts": layers.problems}
GPU_DEFAULT = ("forward", "seed", "decode")


def gpu_rows(groups: Iterable[str]) -> List[Row]:
    return [Row(group, problem) for group in groups for problem in GPU_GROUPS[group]()]


def cpu_features(threads: Iterable[int], sizes: Iterable[int]) -> List[List[Row]]:
    return [[Row("features", problem, count)] for count in threads for s in sizes
            for problem in _features(s, 4, 4, (64,), "f32")]


def cpu_experts(dtypes: Iterable[str], threads: Iterable[int]) -> List[List[Row]]:
    return [[Row("experts", problem, count)] for count in threads
            for problem in layers.cpu_problems(dtype for dtype in dtypes if dtype != "fp16")]


def cpu_parallel(groups: Iterable[str], dtypes: Iterable[str], threads: Iterable[int], sizes: Iterable[int]) -> List[List[Row]]:
    return [[Row(group, problem, count)] for group in groups for count in threads for dtype in dtypes for s in sizes
            for problem in _parallel(RINGS[group], s, ((4, 4), (4, 1)), 64, dtype)]


def cpu_rows(dtypes: Iterable[str], threads: Iterable[int], sizes: Iterable[int], backward: bool = False) -> List[List[Row]]:
    """Rows that are timed together: a shape both full and causal, so that their times can be compared too."""
    if backward:
        return [[Row(f"backward {dtype}", problem, count)
                 for problem in _backward(square(1, 8, s, d, dtype, causal) for causal in (False, True))]
                for count in threads for dtype in dtypes for s in sizes for d in (64, 128)]
    together = []
    for count in threads:
        for dtype in dtypes:
            for s in sizes:
                for d in (64, 128):
                    together.append([Row(dtype, square(1, 8, s, d, dtype, causal), count) for causal in (False, True)])
            if dtype != "f32":
                for sk in (4096, 16384):
                    together.append([Row("decode", Problem(1, 32, 8, 1, sk, 128, 128, dtype), count)])
    return together
