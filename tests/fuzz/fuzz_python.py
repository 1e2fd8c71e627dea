"""fuzz_python.py: the Python extension with random, unusual, wrong and hostile arguments.

    fuzz_python.py [--seed N] [--seconds S | --count N] [--only I] [--json FILE]

Every call must return an answer or raise one of the errors that docs/python.md names. Answers to ordinary arguments
are compared with the formula in float64. A child process makes the calls; if it dies, the parent says which call it
was, and how to repeat it.
"""

import argparse
import ctypes
import faulthandler
import json
import mmap
import os
import random
import struct
import sys
import time
import warnings

os.environ.setdefault("ATTEST_ROWS", "")
os.environ.setdefault("ATTEST_LIBCUDA", "/nonexistent/libcuda.so.1")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # the references are small

import attest
import numpy as np

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../python"))
import formula

class Finding(Exception):
    """A violation."""


class Own(Exception):
    """An error raised by an argument itself, which may propagate."""


ERRORS = (TypeError, ValueError, attest.Error, MemoryError, OverflowError, BufferError, Own)


# ------------------------------------------------------------------------------------------ what is right

def shown(draw):
    """The mask of rows i and keys j, and the distance of j from the diagonal."""
    causal, align, window = draw.options.get("causal"), draw.options.get("align"), draw.options.get("window")
    bottom = causal == "bottom-right" or (causal in (None, False) and align == "bottom-right")
    i = np.arange(draw.rows)[:, None] + (draw.keys - draw.rows if bottom else 0)
    j = np.arange(draw.keys)[None, :]
    seen = np.ones((draw.rows, draw.keys), bool)
    if causal not in (None, False):
        seen &= j <= i
    left, right = window or (None, None)
    if left is not None and left >= 0:
        seen &= i - j <= left
    if right is not None and right >= 0:
        seen &= j - i <= right
    return seen, np.abs(i - j)


def reference(draw):
    """O, LSE and the largest error of float32 sums in them."""
    q, k, v = (np.asarray(x, np.float64) for x in (draw.q, draw.k, draw.v))
    group = q.shape[1] // k.shape[1]
    k, v = (np.repeat(x, group, axis=1) for x in (k, v))
    options = draw.options
    scale = options.get("scale")
    scale = np.float32(1 / np.sqrt(q.shape[3]) if scale is None else scale).astype(np.float64)
    scores = np.einsum("bhid,bhjd->bhij", q, k) * scale
    sizes = np.einsum("bhid,bhjd->bhij", np.abs(q), np.abs(k)) * abs(scale)
    if options.get("softcap"):
        scores = options["softcap"] * np.tanh(scores / options["softcap"])
    seen, distance = shown(draw)
    seen = np.broadcast_to(seen, scores.shape).copy()
    if options.get("alibi") is not None:
        slopes = np.asarray(options["alibi"], np.float64)
        scores = scores - (slopes if slopes.ndim == 2 else slopes[None])[:, :, None, None] * distance
    bias = options.get("bias")
    if bias is not None and bias.dtype == bool:
        seen &= np.broadcast_to(bias, scores.shape)
    elif bias is not None:
        scores = scores + np.asarray(bias, np.float64)
    scores = np.where(seen, scores, -np.inf)
    return weigh(draw, scores, v, np.where(seen, sizes + np.abs(scores), 0.0).max(initial=0.0))


def weigh(draw, scores, v, size):
    top = scores.max(axis=3, keepdims=True, initial=-np.inf)
    sinks = draw.options.get("sinks")
    if sinks is not None:
        sinks = np.asarray(sinks, np.float64)[None, :, None, None]
        top = np.maximum(top, sinks)
    top = np.where(np.isfinite(top), top, 0.0)
    weights = np.exp(scores - top)
    total = weights.sum(axis=3, keepdims=True) + (0.0 if sinks is None else np.exp(sinks - top))
    o = np.einsum("bhij,bhjd->bhid", weights, v) / np.where(total > 0, total, 1.0)
    with np.errstate(divide="ignore"):
        lse = (np.log(total) + top)[..., 0]
    error = (4 * size * (draw.d + 8) + 4 * draw.keys + 200) * 2.0**-24
    return o, lse, error


# ------------------------------------------------------------------------------------- ordinary arguments

class Draw:
    """One call with valid arguments."""

    def __init__(self, rng):
        self.rng = rng
        self.np = np.random.default_rng(rng.getrandbits(32))
        self.dtype = rng.choice([np.float32, np.float16])
        self.batch, self.heads_kv = rng.randint(0, 3), rng.randint(1, 3)
        self.heads = self.heads_kv * rng.randint(1, 3)
        self.rows = rng.choice([0, 1, 2, rng.randint(1, 40)])
        self.keys = rng.choice([0, 1, self.rows, rng.randint(1, 90)])
        self.d, self.d_v = rng.randint(1, 70), rng.randint(1, 70)
        self.q = self.array(self.batch, self.heads, self.rows, self.d)
        self.k = self.array(self.batch, self.heads_kv, self.keys, self.d)
        self.v = self.array(self.batch, self.heads_kv, self.keys, self.d_v)
        self.options = {}
        self.draw_options()

    def numbers(self, *shape, dtype=None):
        return self.np.standard_normal(shape, np.float32).astype(dtype or self.dtype, copy=False)

    def array(self, *shape):
        """Contiguous, transposed, a slice of a larger one, or broadcast."""
        kind = self.rng.randrange(4)
        if kind == 0:
            return self.numbers(shape[0], shape[2], shape[1], shape[3]).transpose(0, 2, 1, 3)
        if kind == 1:
            larger = self.numbers(*(n + self.rng.randint(0, 2) for n in shape))
            return larger[tuple(slice(0, n) for n in shape)]
        if kind == 2:
            return np.broadcast_to(self.numbers(1, shape[1], 1, shape[3]), shape)
        return self.numbers(*shape)

    def draw_options(self):
        rng, o = self.rng, self.options
        o["return_lse"] = rng.random() < 0.5
        if rng.random() < 0.4:
            o["causal"] = rng.choice(["top-left", "bottom-right"])
        else:
            o["align"] = rng.choice(["top-left", "bottom-right"])
        if rng.random() < 0.3:
            o["window"] = (rng.choice([None, rng.randint(0, 20)]), rng.choice([None, rng.randint(0, 20)]))
        if rng.random() < 0.2:
            o["scale"] = rng.uniform(-1, 1)
        if rng.random() < 0.2:
            o["softcap"] = float(rng.randint(1, 30))
        if rng.random() < 0.2:
            o["alibi"] = self.numbers(*rng.choice([(self.heads,), (self.batch, self.heads)]), dtype=np.float32)
        if rng.random() < 0.2:
            o["sinks"] = self.numbers(self.heads, dtype=np.float32)
        if rng.random() < 0.3:
            shape = [n if rng.random() < 0.6 else 1 for n in (self.batch, self.heads, self.rows, self.keys)]
            bias = self.numbers(*shape, dtype=rng.choice([np.float32, np.float16]))
            o["bias"] = bias > 0 if rng.random() < 0.5 else bias

    def check(self, got):
        o, lse = got if self.options["return_lse"] else (got, None)
        wanted, wanted_lse, error = reference(self)
        if o.shape != wanted.shape or o.dtype != self.dtype:
            raise Finding(f"o is {o.dtype} {o.shape}, not {self.dtype} {wanted.shape}")
        largest = np.abs(np.asarray(self.v, np.float64)).max(initial=0.0)
        rounding = {np.float32: 2.0**-24, np.float16: 2.0**-11}[self.dtype]
        bound = largest * (error + rounding) + 2.0**-24
        off = np.abs(np.asarray(o, np.float64) - wanted).max(initial=0.0)
        if not off <= bound:
            raise Finding(f"o is off by {off}, more than {bound}: {self}")
        if lse is not None:
            with np.errstate(invalid="ignore"):
                off = np.where(lse == wanted_lse, 0.0, np.abs(lse - wanted_lse))
            if not (off <= error + 1e-6 * np.abs(np.where(np.isfinite(wanted_lse), wanted_lse, 0.0))).all():
                raise Finding(f"lse is off by {off.max()}: {self}")

    def __str__(self):
        return f"q {self.q.shape} k {self.k.shape} v {self.v.shape} {self.dtype.__name__} {sorted(self.options)}"


def attend(rng):
    draw = Draw(rng)
    draw.check(attest.attention(draw.q, draw.k, draw.v, **draw.options))


def gradients(rng):
    """backward() of the results of attention(), compared with the formula."""
    draw = Draw(rng)
    options = {**draw.options, "return_lse": True}
    o, lse = attest.attention(draw.q, draw.k, draw.v, **options)
    del options["return_lse"]
    d_o = draw.numbers(*o.shape)
    asked = [name for name in ("bias", "sinks", "alibi") if name in options and options[name].dtype != bool and rng.random() < 0.7]
    wide = rng.random() < 0.3
    named = {**options, **{f"d_{name}": True for name in asked}, **({"grad_dtype": "float32"} if wide else {})}
    got = attest.backward(draw.q, draw.k, draw.v, o, lse, d_o, **named)
    named = {**options, "window": options.get("window") or (-1, -1)}
    exact = formula.gradients(draw.q, draw.k, draw.v, d_o, **named)
    sizes = [np.abs(np.asarray(x, np.float64)).max(initial=1.0) for x in (draw.q, draw.k, draw.v, d_o)]
    size = np.prod(sizes) * draw.d_v * (draw.rows + draw.keys + draw.batch * draw.heads)
    for name, mine in zip(["q", "k", "v"] + asked, got):
        off = np.abs(np.asarray(mine, np.float64) - exact[name]).max(initial=0.0)
        if mine.shape != exact[name].shape or not off <= size * {np.float32: 2.0**-18, np.float16: 2.0**-9}[draw.dtype]:
            raise Finding(f"the gradient of {name} is off by {off}: {draw}")


def merge(rng):
    numbers = np.random.default_rng(rng.getrandbits(32))
    shape = tuple(rng.randint(0, 4) for _ in range(3)) + (rng.randint(1, 70),)
    count, dtype = rng.randint(1, rng.choice([4, 10, 30, 140])), rng.choice([np.float32, np.float16])
    parts = numbers.standard_normal((count,) + shape, np.float32).astype(dtype, copy=False)
    sums = numbers.standard_normal((count,) + shape[:3], np.float32) * 5
    sums[numbers.random(sums.shape) < 0.1] = -np.inf
    stacked = rng.random() < 0.5
    o, lse = attest.merge(parts if stacked else list(parts), sums if stacked else list(sums))
    top = np.where(np.isfinite(sums.max(axis=0)), sums.max(axis=0), 0.0).astype(np.float64)
    weights = np.exp(sums.astype(np.float64) - top)
    total = weights.sum(axis=0)
    wanted = (weights[..., None] * parts.astype(np.float64)).sum(axis=0) / np.where(total > 0, total, 1.0)[..., None]
    bound = np.abs(parts.astype(np.float64)).max(initial=0.0) * (1e-4 + {np.float32: 0.0, np.float16: 2.0**-11}[dtype])
    if o.shape != shape or not np.abs(o - wanted).max(initial=0.0) <= bound:
        raise Finding(f"a merge of {count} parts {shape} is wrong")
    with np.errstate(divide="ignore"):
        if not np.allclose(lse, np.log(total) + top, atol=1e-4):
            raise Finding("the log-sums of a merge are wrong")


# --------------------------------------------------------------------------------------- hostile arguments

class Tensor(ctypes.Structure):
    """DLTensor; see python/core/dlpack.h."""

    _fields_ = [("data", ctypes.c_void_p), ("device_type", ctypes.c_int32), ("device_id", ctypes.c_int32),
                ("ndim", ctypes.c_int32), ("code", ctypes.c_uint8), ("bits", ctypes.c_uint8),
                ("lanes", ctypes.c_uint16), ("shape", ctypes.c_void_p), ("strides", ctypes.c_void_p),
                ("byte_offset", ctypes.c_uint64)]


class Managed(ctypes.Structure):
    _fields_ = [("major", ctypes.c_uint32), ("minor", ctypes.c_uint32), ("manager", ctypes.c_void_p),
                ("deleter", ctypes.c_void_p), ("flags", ctypes.c_uint64), ("tensor", Tensor)]


NEW_CAPSULE = ctypes.pythonapi.PyCapsule_New
NEW_CAPSULE.restype = ctypes.py_object
NEW_CAPSULE.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
NAMES = [b"dltensor_versioned", b"dltensor", b"used_dltensor", b"nonsense"]


class Liar:
    """A DLPack array with wrong metadata, in a way that can be detected without reading it."""

    def __init__(self, rng):
        self.memory = np.zeros(4096, np.float32)
        self.shape = (ctypes.c_int64 * 8)(*(rng.randint(1, 3) for _ in range(8)))
        self.strides = (ctypes.c_int64 * 8)(*(rng.choice([-1, -(2**62), 2**62, 2**63 - 1]) for _ in range(8)))
        t = Tensor(self.memory.ctypes.data, 1, 0, 4, 2, 32, 1, ctypes.addressof(self.shape), None, 0)
        self.managed = Managed(1, 0, None, None, 0, t)
        self.name = NAMES[0]
        self.lie(rng)

    def lie(self, rng):
        t, big = self.managed.tensor, rng.choice([-1, -(2**63), 2**63 - 1, 2**62])
        lies = {
            "shape": lambda: self.shape.__setitem__(rng.randrange(4), big),
            "strides": lambda: setattr(t, "strides", ctypes.addressof(self.strides)),
            "ndim": lambda: setattr(t, "ndim", rng.choice([-1, 0, 1, 2, 5, 6, 7, 100, 2**31 - 1, -(2**31)])),
            "type": lambda: (setattr(t, "code", rng.choice([0, 1, 3, 5, 255])), setattr(t, "bits", rng.choice([0, 1, 7, 64, 255]))),
            "lanes": lambda: setattr(t, "lanes", rng.choice([0, 2, 65535])),
            "device": lambda: setattr(t, "device_type", rng.choice([0, 3, 7, 99, -1])),
            "null": lambda: setattr(t, "data", None),
            "version": lambda: setattr(self.managed, "major", rng.choice([0, 2, 2**32 - 1])),
            "name": lambda: setattr(self, "name", rng.choice(NAMES[2:])),
        }
        lies[rng.choice(sorted(lies))]()

    def __dlpack__(self, **options):
        return NEW_CAPSULE(ctypes.addressof(self.managed), self.name, None)

    def __dlpack_device__(self):
        return (self.managed.tensor.device_type, self.managed.tensor.device_id)


class Raises:
    """Every access to it fails."""

    def __init__(self, error):
        self.error = error

    def fail(self, *arguments, **options):
        raise self.error

    __dlpack__ = __dlpack_device__ = __array__ = __len__ = __float__ = __int__ = __index__ = __bool__ = fail
    __iter__ = __getitem__ = __eq__ = fail
    __hash__ = None
    dtype = shape = strides = property(fail)


class Mute(Raises):
    """It cannot even be printed: an error about it has no text."""

    __str__ = __repr__ = Raises.fail


class Says:
    """Returns whatever it was given as an array."""

    def __init__(self, thing):
        self.thing = thing
        self.__array_interface__ = {"shape": (2**40, 2), "typestr": "<f4", "data": (16, False), "version": 3}
        self.__cuda_array_interface__ = dict(self.__array_interface__)

    def __dlpack__(self, **options):
        return self.thing

    def __dlpack_device__(self):
        return self.thing


def read_only(x):
    x.flags.writeable = False
    return x


RECORD = [("a", "<f4"), ("b", "<i8")]

# NumPy arrays that no call accepts, or that need care: each from an ordinary one of shape (2, 3, 5, 8) and float32.
HOSTILE_ARRAYS = [
    lambda x, rng: x[:, :, ::-1],
    lambda x, rng: x[..., ::-1],
    lambda x, rng: x[::-1],
    lambda x, rng: x[..., ::2],
    lambda x, rng: x.astype(np.float64),
    lambda x, rng: x.astype(">f4"),
    lambda x, rng: x.astype(np.int32),
    lambda x, rng: x.astype(np.complex64),
    lambda x, rng: x.astype(object),
    lambda x, rng: x.astype(str),
    lambda x, rng: x.astype(bool),
    lambda x, rng: np.zeros(x.shape, RECORD),
    lambda x, rng: np.zeros(x.shape, RECORD)["a"],
    lambda x, rng: read_only(x),
    lambda x, rng: np.zeros(()),
    lambda x, rng: np.zeros(0, np.float32),
    lambda x, rng: np.zeros((1,) * rng.randint(5, 30), np.float32),
    lambda x, rng: np.zeros((2, 0, 5, 8), np.float32),
    lambda x, rng: np.zeros((2, 3, 5, 0), np.float32),
    lambda x, rng: np.zeros((2, 3, 5, 257), np.float32),
    lambda x, rng: np.lib.stride_tricks.as_strided(x, x.shape, (0, 0, 0, 4)),
    lambda x, rng: np.ma.masked_array(x, x > 0),
    lambda x, rng: np.frombuffer(bytearray(961), np.uint8)[1:].view(np.float32).reshape(x.shape),
    lambda x, rng: np.matrix([[1.0]]),
    lambda x, rng: np.asfortranarray(x),
    lambda x, rng: x.view(np.float16),
    lambda x, rng: x.view("V4"),
    lambda x, rng: x[:0],
    lambda x, rng: np.float32(3),
    lambda x, rng: np.datetime64(1, "s"),
]


def hostile(rng, numbers):
    kind = rng.randrange(5)
    if kind == 0:
        return Liar(rng)
    if kind == 1:
        return rng.choice(HOSTILE_ARRAYS)(numbers.standard_normal((2, 3, 5, 8), np.float32), rng)
    if kind == 2:
        rng.mute = rng.random() < 0.2
        return (Mute if rng.mute else Raises)(rng.choice([ValueError("no"), MemoryError(), Own("own"), BufferError("b"), TypeError("t")]))
    if kind == 3:
        return Says(rng.choice([None, 3, "capsule", (1, 0), object(), b"", Says(1)]))
    return rng.choice([None, True, False, 0, -1, 2**31, 2**63, 2**64, -(2**63) - 1, 1e400, float("nan"), -0.0, 1e-320, "", "causal",
                       "top-left", "x" * 100, "\ud800", b"\0", (), (None,), (1, 2, 3), (-5, 2**70), [], [None], {}, set(), object,
                       len, 1j, range(3), memoryview(b"abcd"), bytearray(8), rng, sys, Ellipsis, NotImplemented])


ATTENTION = ["q", "k", "v", "causal", "scale", "window", "align", "softcap", "alibi", "bias", "sinks", "cu_seqlens_q", "cu_seqlens_k",
             "max_seqlen_q", "max_seqlen_k", "lens_k", "starts_k", "page_table", "return_lse", "out", "layout", "nonsense"]


def spoil_attention(rng):
    draw = Draw(rng)
    named = dict(q=draw.q, k=draw.k, v=draw.v, **draw.options)
    for name in rng.sample(ATTENTION, rng.randint(1, 3)):
        named[name] = hostile(rng, draw.np)
    if rng.random() < 0.2:
        named.pop(rng.choice(sorted(named)))
    call = rng.choice([attest.attention, attest.attention, attest.explain, attest._core.describe])
    call(*(named.pop(name) for name in ("q", "k", "v") if name in named and rng.random() < 0.7), **named)


BACKWARD = ["q", "k", "v", "o", "lse", "d_o"]


def spoil_backward(rng):
    draw = Draw(rng)
    options = {name: value for name, value in draw.options.items() if name != "return_lse"}
    o, lse = attest.attention(draw.q, draw.k, draw.v, **options, return_lse=True)
    named = dict(q=draw.q, k=draw.k, v=draw.v, o=o, lse=lse, d_o=draw.numbers(*o.shape), **options)
    others = ["d_bias", "d_sinks", "d_alibi", "grad_dtype", "out"]
    for name in rng.sample(BACKWARD + ATTENTION[3:] + others, rng.randint(1, 3)):
        named[name] = rng.choice([True, hostile(rng, draw.np)]) if name in others else hostile(rng, draw.np)
    if rng.random() < 0.2:
        named["out"] = [rng.choice([np.empty_like(x), x, hostile(rng, draw.np)]) for x in (draw.q, draw.k, draw.v)]
    call = rng.choice([attest.backward, attest.backward, attest.explain_backward, attest._core.describe_backward])
    call(*(named.pop(name) for name in BACKWARD), **named)


def lengths(rng, count, total):
    """Offsets that are mostly right."""
    cu = sorted(rng.randint(0, total) for _ in range(count - 1))
    cu = [0] + cu + [total]
    if rng.random() < 0.3:
        cu[rng.randrange(len(cu))] = rng.choice([-1, total + 1, 2**31 - 1, -(2**31), 0])
    return np.array(cu, rng.choice([np.int32] * 8 + [np.int64, np.float32]))


def spoil_lengths(rng):
    numbers = np.random.default_rng(rng.getrandbits(32))
    batch, total, heads, d = rng.randint(1, 3), rng.randint(0, 30), rng.randint(1, 3), rng.randint(1, 40)
    q = numbers.standard_normal((total, heads, d)).astype(np.float32)
    options = {"cu_seqlens_q": lengths(rng, batch, total), "causal": rng.choice([None, "top-left", "bottom-right"])}
    if rng.random() < 0.5:
        attest.attention(q, q, q, cu_seqlens_k=lengths(rng, batch, total), **options)
        return
    pages, page = rng.randint(1, 4), rng.randint(1, 9)
    k = numbers.standard_normal((pages, heads, page, d)).astype(np.float32)
    table = numbers.integers(-1 if rng.random() < 0.2 else 0, pages, (batch, rng.randint(1, 4))).astype(np.int32)
    lens = numbers.integers(0, table.shape[1] * page + (rng.random() < 0.2), batch).astype(np.int32)
    if rng.random() < 0.5:
        options["starts_k"] = numbers.integers(0, table.shape[1] * page + (rng.random() < 0.2), batch).astype(np.int32)
    attest.attention(q, k, k, page_table=table, lens_k=lens, **options)


def spoil_merge(rng):
    numbers = np.random.default_rng(rng.getrandbits(32))
    parts = [numbers.standard_normal((1, 2, 3, 8)).astype(np.float32) for _ in range(rng.randint(0, 3))]
    sums = [numbers.standard_normal((1, 2, 3)).astype(np.float32) for _ in range(rng.randint(0, 3))]
    for things in (parts, sums):
        if things and rng.random() < 0.5:
            things[rng.randrange(len(things))] = hostile(rng, numbers)
    named = {"parts_o": parts, "parts_lse": sums}
    for name in rng.sample(["parts_o", "parts_lse", "layout", "out", "return_lse"], rng.randint(0, 2)):
        named[name] = hostile(rng, numbers)
    attest.merge(named.pop("parts_o"), named.pop("parts_lse"), **named)


def spoil_other(rng):
    numbers = np.random.default_rng(rng.getrandbits(32))
    calls = [attest.set_threads, attest._core.kernels, attest._core.run_seconds, attest._core.sdpa, attest._core.sdpa_backward,
             attest.cache_info, attest.devices, attest.last_launch]
    call = rng.choice(calls)
    arguments = [hostile(rng, numbers) for _ in range(rng.randint(0, 8))]
    if call in (attest.set_threads, attest._core.run_seconds) and arguments and isinstance(arguments[0], int):
        arguments[0] = min(arguments[0], 3)  # threads are really started, runs are really made
    call(*arguments)


WRONG = [spoil_attention, spoil_backward, spoil_lengths, spoil_merge, spoil_other]


def one(seed, index):
    """Make the call with that number; returns whether an answer was compared."""
    rng = random.Random(f"{seed}:{index}")
    if rng.random() < 0.4:
        rng.choice([attend, attend, gradients, merge])(rng)
        return True
    try:
        rng.choice([spoil_attention, spoil_attention] + WRONG)(rng)
    except ERRORS as error:
        if not str(error) and not isinstance(error, MemoryError) and not hasattr(rng, "mute"):
            raise Finding(f"{type(error).__name__} without a text") from error
    return False


# ------------------------------------------------------------------------------------------------ campaign

def calls(options, memory):
    """In the child: make calls until the time is up."""
    faulthandler.enable()
    warnings.simplefilter("ignore")  # NumPy's warnings about operations on its arrays
    end = time.monotonic() + options.seconds
    indices = [options.only] if options.only is not None else range(options.count)
    compared = 0
    for done, index in enumerate(indices):
        if options.only is None and time.monotonic() > end:
            break
        memory[:24] = struct.pack("<qqq", index, done, compared)
        compared += one(options.seed, index)
        memory[:24] = struct.pack("<qqq", index, done + 1, compared)
    attest.set_threads(1)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--seed", type=int, default=int.from_bytes(os.urandom(4), "little"))
    parser.add_argument("--seconds", type=float, default=30.0)
    parser.add_argument("--count", type=int, default=10**12)
    parser.add_argument("--only", type=int)
    parser.add_argument("--json")
    options = parser.parse_args()
    memory = mmap.mmap(-1, 4096)
    began = time.monotonic()
    sys.stdout.flush()
    child = os.fork()
    if child == 0:
        calls(options, memory)
        sys.stdout.flush()
        os._exit(0)
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    index, done, compared = struct.unpack("<qqq", memory[:24])
    seconds = time.monotonic() - began
    if options.json:
        with open(options.json, "w") as file:
            json.dump({"executions": done, "seconds": round(seconds, 1), "compared": compared, "seed": options.seed}, file)
    print(f"fuzz_python: seed {options.seed}: {done} calls, {compared} answers compared, {seconds:.1f} s")
    if status:
        print(f"fuzz_python: call {index} ended the process ({status}); again: fuzz_python.py --seed {options.seed} --only {index}")
    return 1 if status else 0


if __name__ == "__main__":
    sys.exit(main())
