"""test_arguments.py: every error names the argument at fault, and what is expected."""

import re

import attest
import numpy as np
import pytest

X = np.ones((2, 4, 6, 8), np.float32)
CU = np.array([0, 3, 6], np.int32)
PACKED = np.ones((6, 4, 8), np.float32)


def read_only(x):
    x = x.copy()
    x.flags.writeable = False
    return x


class Abroad:
    """An array that claims to be on another device."""

    def __dlpack__(self, **options):
        raise BufferError("on the moon")

    def __dlpack_device__(self):
        return (99, 0)


MISTAKES = [
    (TypeError, "needs v", (X, X), {}),
    (TypeError, "takes q, k and v by position", (X, X, X, True), {}),
    (TypeError, "unexpected argument 'casual'", (X, X, X), {"casual": True}),
    (TypeError, "two values for v", (X, X, X), {"v": X}),
    (TypeError, "q is a list; expected an array that offers DLPack", ([1.0], X, X), {}),
    (TypeError, "k is a str", (X, "k", X), {}),
    (TypeError, "k: on the moon", (X, Abroad(), X), {}),
    (TypeError, "q is float64; expected float32, float16 or bfloat16", (X.astype("f8"),) * 3, {}),
    (TypeError, "q is int32", (X.astype("i4"),) * 3, {}),
    (TypeError, "v is float16, q is float32: q, k and v must have one dtype", (X, X, X.astype("f2")), {}),
    (ValueError, r"q has the shape \(4, 6, 8\); expected \(batch, heads, rows, head dimension\)", (X[0], X, X), {}),
    (ValueError, r"k has the shape \(2, 4, 8\); expected \(batch, rows, heads, head", (X, X[:, :, 0], X), {"layout": "bshd"}),
    (ValueError, "q has 5 dimensions", (X[None], X, X), {}),
    (ValueError, "q has a head dimension of 300; expected 1 to 256", (np.ones((1, 1, 1, 300), "f4"),) * 3, {}),
    (ValueError, "k has a head dimension of 4, q of 8", (X, X[..., :4], X), {}),
    (ValueError, r"v has the shape \(2, 4, 5, 8\)", (X, X, X[:, :, :5]), {}),
    (ValueError, "q has 4 heads and k 3", (X, X[:, :3], X[:, :3]), {}),
    (ValueError, r"k has the shape \(1, 4, 6, 8\); expected 2 along the first axis", (X, X[:1], X[:1]), {}),
    (ValueError, "q has the shape .*; expected one head or more", (X[:, :0], X, X), {}),
    (ValueError, "k has a stride of 2 along the head dimension", (X, np.ones((2, 4, 6, 16), "f4")[..., ::2], X), {}),
    (ValueError, "v has negative strides", (X, X, X[:, :, ::-1]), {}),
    (ValueError, "causal is True, but q has 5 rows and k 6", (X[:, :, :5], X, X), {"causal": True}),
    (ValueError, "causal is 'left'; expected True, False, 'top-left'", (X, X, X), {"causal": "left"}),
    (ValueError, "align is 1; expected 'top-left'", (X, X, X), {"align": 1}),
    (ValueError, "align", (X[:, :, :5], X, X), {"window": (1, 1)}),
    (ValueError, "align contradicts causal", (X, X, X), {"causal": "top-left", "align": "bottom-right"}),
    (ValueError, r"window is 4; expected a pair \(left, right\)", (X, X, X), {"window": 4}),
    (ValueError, r"window is \(1, -2\)", (X, X, X), {"window": (1, -2)}),
    (TypeError, "scale is 'x': a number", (X, X, X), {"scale": "x"}),
    (ValueError, "scale=inf is not finite", (X, X, X), {"scale": float("inf")}),
    (ValueError, "softcap=-1", (X, X, X), {"softcap": -1}),
    (ValueError, "layout is 'bsdh'", (X, X, X), {"layout": "bsdh"}),
    (TypeError, "alibi is float64; expected float32", (X, X, X), {"alibi": np.ones(4)}),
    (ValueError, r"alibi has the shape \(3,\)", (X, X, X), {"alibi": np.ones(3, "f4")}),
    (ValueError, "alibi is not contiguous", (X, X, X), {"alibi": np.ones(8, "f4")[::2]}),
    (ValueError, r"sinks has the shape \(2, 4\)", (X, X, X), {"sinks": np.ones((2, 4), "f4")}),
    (TypeError, "bias is int64; expected bool, float32", (X, X, X), {"bias": np.ones((6, 6), int)}),
    (ValueError, r"bias has the shape \(5, 6\); expected one that broadcasts to \(2, 4, 6, 6\)", (X, X, X),
     {"bias": np.ones((5, 6), bool)}),
    (TypeError, "cu_seqlens_q is int64; expected int32", (PACKED,) * 3, {"cu_seqlens_q": CU.astype(int)}),
    (ValueError, r"q has the shape .*; expected \(total rows", (X, PACKED, PACKED), {"cu_seqlens_q": CU}),
    (ValueError, r"cu_seqlens_k has the shape \(2,\); expected 3 along", (PACKED,) * 3,
     {"cu_seqlens_q": CU, "cu_seqlens_k": CU[1:]}),
    (ValueError, "cu_seqlens_q", (PACKED,) * 3, {"cu_seqlens_q": CU[::-1].copy(), "cu_seqlens_k": CU}),
    (TypeError, "max_seqlen_q needs cu_seqlens_q", (X, X, X), {"max_seqlen_q": 6}),
    (TypeError, "max_seqlen_k needs cu_seqlens_k or page_table", (X, X, X), {"max_seqlen_k": 6}),
    (TypeError, "max_seqlen_q is 'x'", (PACKED,) * 3, {"cu_seqlens_q": CU, "cu_seqlens_k": CU, "max_seqlen_q": "x"}),
    (ValueError, r"lens_k has the shape \(3,\); expected 2 along", (X, X, X), {"lens_k": CU}),
    (ValueError, "lens_k", (X, X, X), {"lens_k": np.array([6, 7], "i4")}),
    (ValueError, r"starts_k has the shape \(3,\); expected 2 along", (X, X, X), {"starts_k": CU}),
    (ValueError, "starts_k", (X, X, X), {"starts_k": np.array([-1, 0], "i4")}),
    (ValueError, "q_offset=-1", (X, X, X), {"q_offset": -1, "causal": True}),
    (TypeError, "q_offset is 1.5; expected a whole number", (X, X, X), {"q_offset": 1.5, "causal": True}),
    (ValueError, "q_offset is 1267650600228229401496703205376", (X, X, X), {"q_offset": 1 << 100, "causal": True}),
    (ValueError, r"k_offset has the shape \(3,\); expected 2 along", (X, X, X), {"k_offset": CU}),
    (ValueError, "k_offsets", (X, X, X), {"k_offset": np.array([0, -1], "i4")}),
    (TypeError, "q_offset is float32; expected int32", (X, X, X), {"q_offset": np.zeros(2, "f4")}),
    (ValueError, "q_offset", (X, X, X), {"q_offset": 1, "causal": "bottom-right"}),
    (ValueError, r"page_table has the shape \(2,\); expected \(batch, pages\)", (X, X, X), {"page_table": CU[:2]}),
    (ValueError, "max_seqlen_k is 13: page_table has room for 12", (X, X, X),
     {"page_table": np.zeros((2, 2), "i4"), "max_seqlen_k": 13}),
    (ValueError, r"out has the shape \(2, 4, 6, 7\); expected \(2, 4, 6, 8\)", (X, X, X), {"out": X[..., :7]}),
    (TypeError, "out is float64", (X, X, X), {"out": X.astype("f8")}),
    (ValueError, "out is read-only", (X, X, X), {"out": read_only(X)}),
    (ValueError, "out overlaps q", (X, X, X), {"out": X}),
]


@pytest.mark.parametrize("kind, text, arrays, options", MISTAKES, ids=[mistake[1] for mistake in MISTAKES])
def test_mistakes(kind, text, arrays, options):
    for function in (attest.attention, attest.explain):
        if function is attest.explain and re.match("out overlaps|lens_k$|starts_k$|k_offsets$|cu_seqlens_q$", text):
            continue  # found by a run, which checks contents and addresses
        with pytest.raises(kind, match=text):
            function(*arrays, **options)


def test_numpys_bools_are_bools():
    for wanted in (True, False):
        assert np.array_equal(attest.attention(X, X, X, causal=np.bool_(wanted)), attest.attention(X, X, X, causal=wanted))
    with pytest.raises(ValueError, match="causal is True, but q has 5 rows and k 6"):
        attest.attention(X[:, :, :5], X, X, causal=np.True_)


def test_signature_and_text():
    import inspect

    assert "cu_seqlens_q" in inspect.signature(attest.attention).parameters
    assert "layout" in attest.attention.__doc__ and attest.__version__.count(".") == 2


def test_no_such_gpu():
    with pytest.raises(attest.Error):
        attest.kernels("cuda:63")
    with pytest.raises(ValueError, match="cuda:64"):
        attest.kernels("cuda:64")


@pytest.mark.parametrize("thing", [None, 3, (), ("float32",), ("float32", "cpu", [1, 1, 1, 8]), ("float32", "cpu", (1, 1, 1, None))])
def test_description_of_no_array(thing):
    with pytest.raises(TypeError):
        attest._core.describe(thing, thing, thing)


@pytest.mark.parametrize("shape", [(-1, 1, 1, 8), (1, 1, -(2**63), 8), (2**62, 2, 2, 8), (2**32, 2**31, 1, 8), (0, 2**62, 2**62, 8)])
def test_sizes_that_fit_no_memory(shape):
    array = ("float32", "cpu", shape)
    with pytest.raises(ValueError, match="q: axis .* does not fit in memory"):
        attest._core.describe(array, array, array)
