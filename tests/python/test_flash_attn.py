"""test_flash_attn.py: attest.flash_attn passes what the published tests of flash_attn assert, for what it supports.

In those tests the error of O, and of every gradient, against float32 is at most 2 times (for gradients with grouped
heads 3 times) that of a plain PyTorch program in the same type, plus a small tolerance; no NaN for large numbers;
equal bits if `deterministic` is set. On a GPU the lengths and their combinations are the same; a CPU uses some of
both, with fewer heads.
"""

import importlib
import importlib.metadata
import importlib.util
import inspect
import itertools
import subprocess
import sys
import types

import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not here: its tests are left out")

import attest  # noqa: E402
import attest.flash_attn as fa  # noqa: E402
import flash_reference  # noqa: E402

GPU = torch.cuda.is_available()
DEVICE = "cuda" if GPU else "cpu"
DTYPES = [torch.float16, torch.bfloat16]
BATCH, HEADS = (4, 6) if GPU else (2, 3)
HEADS_KV = [6, 2, 1] if GPU else [3, 1]
MASKS = ["full", "causal", "local"]
SCORES = [(False, 0.0), (False, 50.0), (True, 0.0)]  # ALiBi, softcap
LENGTHS = [(113, 203), (128, 217), (113, 211), (108, 256), (256, 512), (512, 256), (1024, 1024), (1023, 1024), (1024, 1023),
           (2048, 2048)] if GPU else [(113, 203), (128, 217), (108, 256), (203, 113)]
CAUSAL_LENGTHS = [(1, 239), (3, 799), (127, 512), (127, 513), (113, 203), (128, 217), (113, 211), (108, 256), (256, 512),
                  (1023, 1024)] if GPU else [(1, 239), (3, 199), (127, 128), (113, 203)]
SELF_LENGTHS = [97, 128, 200, 384, 768, 1024, 1025, 2048] if GPU else [97, 128, 200]
DIMS = [32, 40, 59, 64, 80, 96, 111, 128, 160, 192, 224, 256] if GPU else [40, 59, 64, 80, 111, 128]


def combinations(*lists):
    """All of them on a GPU; on a CPU as few as cover every value of every list, and every adjacent pair of the first
    two."""
    if GPU:
        return list(itertools.product(*lists))
    chosen = []
    for n, (first, second) in enumerate(itertools.product(*lists[:2])):
        chosen.append((first, second, *(values[(n + i) % len(values)] for i, values in enumerate(lists[2:]))))
    return chosen


@pytest.fixture(autouse=True)
def seed():
    torch.manual_seed(0)


def randn(*shape, dtype=torch.float16, grad=True):
    return torch.randn(shape, device=DEVICE, dtype=dtype).requires_grad_(grad)


def window_of(local, keys):
    return tuple(torch.randint(0, keys, (2,)).tolist()) if local else (-1, -1)


def slopes_of(alibi):
    return torch.rand(BATCH, HEADS, device=DEVICE) * 0.3 if alibi else None


def check(leaves, ours, reference, factor_o=2.0, factor_grads=2.0, atol=1e-5):
    """Compare the errors of O and of the gradients with those of the plain program."""
    o, exact, plain = ours(), reference(plain=False), reference(plain=True)

    def error(x, y):
        return (x.float() - y.float()).abs().max().item() if x.numel() else 0.0

    assert o.dtype == exact.dtype and torch.isfinite(o).all()
    assert error(o, exact) <= factor_o * error(plain, exact) + atol
    d_o = torch.randn_like(o)
    grads, of_exact, of_plain = (torch.autograd.grad(x, leaves, d_o) for x in (o, exact, plain))
    for mine, right, theirs in zip(grads, of_exact, of_plain):
        assert torch.isfinite(mine).all() and mine.dtype == right.dtype and mine.shape == right.shape
        assert error(mine, right) <= factor_grads * error(theirs, right) + atol
    return d_o, grads


@pytest.mark.parametrize("mask, alibi, dtype, d, rows", combinations(MASKS, [False, True], DTYPES, DIMS, SELF_LENGTHS))
def test_qkvpacked(rows, d, alibi, mask, dtype):
    qkv = randn(BATCH, rows, 3, HEADS, d, dtype=dtype)
    options = {"causal": mask == "causal", "window_size": window_of(mask == "local", rows)}
    slopes = slopes_of(alibi)
    check([qkv], lambda: fa.flash_attn_qkvpacked_func(qkv, alibi_slopes=slopes, deterministic=True, **options),
          lambda plain: flash_reference.attention(*qkv.unbind(2), causal=options["causal"], window=options["window_size"],
                                                  slopes=slopes, plain=plain)[0])


@pytest.mark.parametrize("mask, scores, dtype, heads_kv, packed, lengths",
                         combinations(MASKS, SCORES, DTYPES, HEADS_KV, [False, True], LENGTHS))
def test_output(lengths, packed, heads_kv, scores, mask, dtype):
    (rows, keys), (alibi, softcap) = lengths, scores
    d, slopes = 64 if not GPU else 128, slopes_of(alibi)
    q = randn(BATCH, rows, HEADS, d, dtype=dtype)
    if softcap:
        q = (q.detach() * softcap).requires_grad_()  # so that it matters
    kv = randn(BATCH, keys, 2, heads_kv, d, dtype=dtype)
    k, v = (x.detach().requires_grad_() for x in kv.unbind(2))
    options = {"causal": mask == "causal", "window_size": window_of(mask == "local", keys), "softcap": softcap,
               "alibi_slopes": slopes}

    def reference(plain):
        own = (q, *kv.unbind(2)) if packed else (q, k, v)
        return flash_reference.attention(*own, causal=options["causal"], window=options["window_size"], softcap=softcap,
                                         slopes=slopes, plain=plain)[0]

    if packed:
        check([q, kv], lambda: fa.flash_attn_kvpacked_func(q, kv, **options), reference, factor_grads=3.0, atol=2e-4)
    else:
        check([q, k, v], lambda: fa.flash_attn_func(q, k, v, **options), reference, factor_grads=3.0, atol=2e-4)


@pytest.mark.parametrize("lengths, swapped, dtype, local", combinations(CAUSAL_LENGTHS, [False, True], DTYPES, [False, True, True]))
def test_causal(lengths, swapped, local, dtype):
    """Also with more rows than keys, where the first rows see nothing."""
    rows, keys = lengths[::-1] if swapped else lengths
    q, k, v = (randn(BATCH, n, HEADS, 64, dtype=dtype) for n in (rows, keys, keys))
    window = window_of(local, keys)
    check([q, k, v], lambda: fa.flash_attn_func(q, k, v, causal=True, window_size=window),
          lambda plain: flash_reference.attention(q, k, v, causal=True, window=window, plain=plain)[0])


# -------------------------------------------------------------------------------------------- lengths that vary


def packed_of(x, lengths):
    """The used rows as packed sequences, and the start of each."""
    rows = torch.cat([entry[:n] for entry, n in zip(x.detach(), lengths.tolist())]).requires_grad_()
    return rows, torch.nn.functional.pad(lengths.cumsum(0), (1, 0)).to(torch.int32).to(DEVICE)


def padded_of(x, lengths, most):
    made = x.new_zeros((len(lengths), most, *x.shape[1:]))
    at = 0
    for entry, n in enumerate(lengths.tolist()):
        made[entry, :n] = x[at:at + n]
        at += n
    return made


@pytest.mark.parametrize("mask, how, dtype, scores, lengths", combinations(MASKS, ["apart", "kv", "qkv"], DTYPES, SCORES, LENGTHS))
def test_varlen(lengths, how, scores, mask, dtype):
    (rows, keys), (alibi, softcap) = lengths, scores
    if how == "qkv":
        keys = rows
    heads_kv = HEADS if how == "qkv" else HEADS_KV[1]
    q, k, v = (randn(BATCH, n, heads, 64, dtype=dtype) for n, heads in ((rows, HEADS), (keys, heads_kv), (keys, heads_kv)))
    lengths_q = torch.randint(max(1, rows - 20), rows + 1, (BATCH,))
    lengths_k = lengths_q if how == "qkv" else torch.randint(max(1, keys - 20), keys + 1, (BATCH,))
    slopes, window = slopes_of(alibi), window_of(mask == "local", keys)
    options = {"causal": mask == "causal", "window_size": window, "softcap": softcap, "alibi_slopes": slopes,
               "return_attn_probs": True}
    (q_flat, starts_q), (k_flat, starts_k), (v_flat, _) = (packed_of(q, lengths_q), packed_of(k, lengths_k), packed_of(v, lengths_k))
    if how == "apart":
        o, lse, none = fa.flash_attn_varlen_func(q_flat, k_flat, v_flat, starts_q, starts_k, rows, keys, **options)
        leaves = [q_flat, k_flat, v_flat]
    elif how == "kv":
        kv = torch.stack((k_flat, v_flat), 1).detach().requires_grad_()
        o, lse, none = fa.flash_attn_varlen_kvpacked_func(q_flat, kv, starts_q, starts_k, rows, keys, **options)
        leaves = [q_flat, kv]
    else:
        qkv = torch.stack((q_flat, k_flat, v_flat), 1).detach().requires_grad_()
        o, lse, none = fa.flash_attn_varlen_qkvpacked_func(qkv, starts_q, rows, **options)
        leaves = [qkv]
    assert lse.shape == (HEADS, int(lengths_q.sum())) and none.numel() == 0
    d_o = torch.randn_like(o)
    grads = torch.autograd.grad(o, leaves, d_o)
    if how != "apart":
        grads = [x for each, leaf in zip(grads, leaves) for x in (each.unbind(1) if leaf.dim() == 4 else (each,))]

    def reference(plain):
        made, sums = flash_reference.attention(q, k, v, causal=options["causal"], window=window, softcap=softcap, slopes=slopes,
                                               lengths_q=lengths_q, lengths_k=lengths_k, plain=plain)
        return made, torch.autograd.grad(made, (q, k, v), padded_of(d_o, lengths_q, rows)), sums

    (exact, of_exact, sums), (plain, of_plain, _) = reference(False), reference(True)

    def error(x, y):
        return (x.float() - y.float()).abs().max().item()

    assert error(padded_of(o, lengths_q, rows), exact) <= 2 * error(plain, exact) + 1e-5
    for mine, right, theirs, lengths in zip(grads, of_exact, of_plain, (lengths_q, lengths_k, lengths_k)):
        mine = padded_of(mine, lengths, right.shape[1])
        assert torch.isfinite(mine).all() and error(mine, right) <= 3 * error(theirs, right) + 2e-4
    for entry, n in enumerate(lengths_q.tolist()):
        part = lse[:, starts_q[entry]:starts_q[entry] + n]
        torch.testing.assert_close(part, sums[entry, :, :n], rtol=1e-3, atol=1e-2)


@pytest.mark.parametrize("dtype", DTYPES)
def test_varlen_with_sequences_of_no_rows(dtype):
    """None of the gradients is NaN, whichever side is empty."""
    starts_q = torch.tensor([0, 0, 76, 110, 110, 256], dtype=torch.int32, device=DEVICE)
    starts_k = torch.tensor([0, 12, 88, 88, 122, 256], dtype=torch.int32, device=DEVICE)
    q, k, v = (randn(256, 5, 64, dtype=dtype) for _ in range(3))
    o = fa.flash_attn_varlen_func(q, k, v, starts_q, starts_k, 146, 134, causal=True)
    for grad in torch.autograd.grad(o, (q, k, v), torch.randn_like(o)):
        assert torch.isfinite(grad).all()
    assert not o[76:110].any()  # they see no key


# --------------------------------------------------------------------------------------------- numbers and bits


@pytest.mark.parametrize("rows, causal, dtype, d", combinations([1, 2, 5, 17, 128], [False, True], DTYPES, [16, 32, 64, 128, 256]))
def test_no_overflow_in_gradients(rows, d, causal, dtype):
    """For large sums of scores and a large dO."""
    q, k, v = (randn(BATCH, rows, HEADS, d, dtype=dtype, grad=False) for _ in range(3))
    q, k, v = ((x * 5).requires_grad_() for x in (q, k, v))
    o = fa.flash_attn_func(q, k, v, causal=causal)
    d_o = torch.randn_like(o)
    grads = torch.autograd.grad(o, (q, k, v), d_o)
    exact = torch.autograd.grad(flash_reference.attention(q, k, v, causal=causal)[0], (q, k, v), d_o)
    plain = torch.autograd.grad(flash_reference.attention(q, k, v, causal=causal, plain=True)[0], (q, k, v), d_o)
    for mine, right, theirs in zip(grads, exact, plain):
        assert torch.isfinite(mine).all()
        assert (mine - right).abs().max() <= 5 * (theirs - right).abs().max() + 1e-3


@pytest.mark.parametrize("dtype", DTYPES)
def test_tensors_that_lie_differently(dtype):
    """The gradient of O comes with its axes in another order."""
    q, k, v = (randn(64, BATCH, 2, HEADS, dtype=dtype, grad=False).permute(1, 0, 3, 2).requires_grad_() for _ in range(3))
    o = fa.flash_attn_func(q, k, v, causal=True)
    d_o = torch.randn(64, BATCH, 2, HEADS, device=DEVICE, dtype=dtype).permute(1, 0, 3, 2)
    grads = torch.autograd.grad(o, (q, k, v), d_o)
    exact = torch.autograd.grad(flash_reference.attention(q, k, v, causal=True)[0], (q, k, v), d_o)
    plain = torch.autograd.grad(flash_reference.attention(q, k, v, causal=True, plain=True)[0], (q, k, v), d_o)
    for mine, right, theirs in zip(grads, exact, plain):
        assert (mine - right).abs().max() <= 2 * (theirs - right).abs().max() + 1e-5


@pytest.mark.parametrize("varlen", [False, True])
@pytest.mark.parametrize("mask", ["full", "causal", "local"])
def test_equal_bits_from_run_to_run(mask, varlen):
    rows, keys = (128, 217) if not GPU else (1024, 1023)
    q, k, v = (randn(BATCH, n, heads, 64, dtype=torch.bfloat16) for n, heads in ((rows, HEADS), (keys, 1), (keys, 1)))
    options = {"causal": mask == "causal", "window_size": window_of(mask == "local", keys), "deterministic": True}

    def run():
        if not varlen:
            o = fa.flash_attn_func(q, k, v, **options)
        else:
            starts = (torch.arange(0, (BATCH + 1) * n, n, dtype=torch.int32, device=DEVICE) for n in (rows, keys))
            o = fa.flash_attn_varlen_func(*(x.flatten(0, 1) for x in (q, k, v)), *starts, rows, keys, **options)
        torch.manual_seed(1)
        return (o, *torch.autograd.grad(o, (q, k, v), torch.randn_like(o)))

    first = run()
    for _ in range(3 if not GPU else 50):
        assert all(torch.equal(a, b) for a, b in zip(run(), first))


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("d", [64, 128])
@pytest.mark.parametrize("lengths", CAUSAL_LENGTHS + [(512, 256), (1024, 1024), (1024, 1023), (2048, 2048)] * GPU)
def test_no_races(lengths, d, causal):
    """O, the log-sums and the gradients have the same bits in call after call."""
    rows, keys = lengths
    q, k, v = (randn(60 if GPU else BATCH, n, 4 if GPU else HEADS, d) for n in (rows, keys, keys))
    d_o = torch.randn_like(q)
    first = None
    for _ in range(250 if GPU else 20):
        o, sums, _ = fa.flash_attn_func(q, k, v, causal=causal, return_attn_probs=True)
        got = (o, sums, *torch.autograd.grad(o, (q, k, v), d_o))
        first = first or got
        assert all(torch.equal(each, wanted) for each, wanted in zip(got, first))


@pytest.mark.parametrize("varlen", [False, True])
def test_packed_gradients_are_those_of_the_parts(varlen):
    """To the last bit, through O, through the log-sum-exp, and with gradients of slopes; a second derivative is
    refused."""
    qkv, slopes = randn(2, 24, 3, 4, 16), torch.rand(4, device=DEVICE)
    starts = torch.tensor([0, 20, 48], dtype=torch.int32, device=DEVICE)

    def packed(qkv, slopes):
        options = {"causal": True, "alibi_slopes": slopes, "return_attn_probs": True}
        return fa.flash_attn_varlen_qkvpacked_func(qkv.flatten(0, 1), starts, 28, **options) if varlen else \
            fa.flash_attn_qkvpacked_func(qkv, **options)

    def apart(qkv, slopes):
        options = {"causal": True, "alibi_slopes": slopes, "return_attn_probs": True}
        return fa.flash_attn_varlen_func(*(x.flatten(0, 1) for x in qkv.unbind(2)), starts, starts, 28, 28, **options) if varlen \
            else fa.flash_attn_func(*qkv.unbind(2), **options)

    for by in ((0,), (1,), (0, 1)):
        for leaves in ((qkv,), (qkv, slopes)):
            slopes.requires_grad_(len(leaves) > 1)
            got, wanted = (torch.autograd.grad(sum(f(qkv, slopes)[i].float().square().sum() for i in by), leaves)
                           for f in (packed, apart))
            assert all(torch.equal(mine, other) for mine, other in zip(got, wanted))
    first, = torch.autograd.grad(packed(qkv, slopes.detach())[0].float().sum(), qkv, create_graph=True)
    with pytest.raises(attest.UnsupportedError, match="double backward"):
        first.float().sum().backward()


def test_log_sums():
    q, k, v = (randn(BATCH, n, HEADS, 64, dtype=torch.bfloat16) for n in (113, 203, 203))
    _, lse, none = fa.flash_attn_func(q, k, v, causal=True, return_attn_probs=True)
    _, sums = flash_reference.attention(q, k, v, causal=True)
    assert lse.shape == (BATCH, HEADS, 113) and lse.dtype == torch.float32 and none.numel() == 0
    torch.testing.assert_close(lse, sums, rtol=1e-3, atol=1e-2)


# ------------------------------------------------------------------------------------------------- with a cache


@pytest.mark.parametrize("where, new, mask, dtype",
                         combinations(["contiguous", "pages", "indexed", "padded left"], [0, 1, 5], MASKS, DTYPES))
def test_kvcache(mask, new, where, dtype):
    keys, page, heads_kv, d = 96, 16, 1, 64
    q = randn(BATCH, max(new, 1), HEADS, d, dtype=dtype, grad=False)
    k_cache, v_cache = (randn(BATCH + 1, keys, heads_kv, d, dtype=dtype, grad=False) for _ in range(2))
    k_new, v_new = (randn(BATCH, new, heads_kv, d, dtype=dtype, grad=False) for _ in range(2)) if new else (None, None)
    lens = torch.tensor([70, 33, 90, 64][:BATCH], dtype=torch.int32, device=DEVICE)
    options = {"causal": mask == "causal", "window_size": (20, 0) if mask == "local" else (-1, -1)}
    entries = torch.arange(BATCH, device=DEVICE)
    named = {}
    own_k, own_v = k_cache[:BATCH].clone(), v_cache[:BATCH].clone()
    if where == "indexed":
        entries = (torch.arange(BATCH, device=DEVICE) + 1).int()
        named = {"cache_batch_idx": entries}
        own_k, own_v = k_cache[entries.long()].clone(), v_cache[entries.long()].clone()
    if where == "pages":
        order = torch.randperm(BATCH * keys // page, device=DEVICE)
        table = order.view(BATCH, -1).int()
        made = []
        for x in (own_k, own_v):
            pages = torch.empty(BATCH * keys // page, page, heads_kv, d, dtype=dtype, device=DEVICE)
            pages[order] = x.reshape(-1, page, heads_kv, d)
            made.append(pages)
        named = {"block_table": table}
        given_k, given_v = made
    else:
        given_k, given_v = (k_cache, v_cache) if where == "indexed" else (own_k.clone(), own_v.clone())
    starts = torch.tensor([3, 0, 11, 64][:BATCH], dtype=torch.int32, device=DEVICE)
    if where == "padded left":
        named = {"cache_leftpad": starts}
    o, lse = fa.flash_attn_with_kvcache(q, given_k, given_v, k_new, v_new, cache_seqlens=lens, return_softmax_lse=True, **options,
                                        **named)
    for entry in range(BATCH):
        used = int(lens[entry])
        if new:
            own_k[entry, used:used + new], own_v[entry, used:used + new] = k_new[entry], v_new[entry]
        first, end = int(starts[entry]) if where == "padded left" else 0, used + new
        part = (q[entry:entry + 1], own_k[entry:entry + 1, first:end], own_v[entry:entry + 1, first:end])
        exact, sums = flash_reference.attention(*part, causal=options["causal"], window=options["window_size"])
        plain, _ = flash_reference.attention(*part, causal=options["causal"], window=options["window_size"], plain=True)
        bar = 3 * (plain - exact).abs().max() + 1e-3
        assert (o[entry:entry + 1] - exact).abs().max() <= bar
        torch.testing.assert_close(lse[entry:entry + 1], sums, rtol=1e-3, atol=1e-2)
    if where == "contiguous":  # the new keys are in the cache, and nothing else changed
        assert torch.equal(given_k, own_k) and torch.equal(given_v, own_v)


def turned(x, angles, positions, interleaved):
    """x with its first columns turned, as complex numbers in float64; angles are (positions, turned columns / 2)."""
    half = angles.shape[1]
    wide = x.double()
    pairs = wide[..., :2 * half].unflatten(-1, (half, 2) if interleaved else (2, half))
    pairs = pairs if interleaved else pairs.transpose(-1, -2)
    numbers = torch.view_as_complex(pairs.contiguous()) * torch.polar(torch.ones_like(angles), angles)[positions].unsqueeze(2)
    pairs = torch.view_as_real(numbers)
    pairs = pairs if interleaved else pairs.transpose(-1, -2)
    return torch.cat((pairs.flatten(-2), wide[..., 2 * half:]), -1).to(x.dtype)


@pytest.mark.parametrize("columns", [64, 32])
@pytest.mark.parametrize("interleaved", [True, False])
@pytest.mark.parametrize("mask", ["full", "causal", "local"])
@pytest.mark.parametrize("where", ["contiguous", "pages", "padded left"])
def test_kvcache_rotary(where, mask, interleaved, columns):
    keys, page, new, d = 96, 16, 5, 64
    q = randn(BATCH, new, HEADS, d, dtype=torch.float32, grad=False)
    k_cache, v_cache = (randn(BATCH, keys, 1, d, dtype=torch.float32, grad=False) for _ in range(2))
    k_new, v_new = (randn(BATCH, new, 1, d, dtype=torch.float32, grad=False) for _ in range(2))
    lens = torch.tensor([70, 33, 90, 64][:BATCH], dtype=torch.int32, device=DEVICE)
    angles = torch.arange(keys, device=DEVICE).double()[:, None] * torch.logspace(0, -3, columns // 2, device=DEVICE).double()
    options = {"causal": mask == "causal", "window_size": (20, 0) if mask == "local" else (-1, -1), "cache_seqlens": lens}
    if where == "pages":
        k_cache, v_cache = (x.reshape(-1, page, 1, d) for x in (k_cache, v_cache))
        options["block_table"] = torch.arange(BATCH * keys // page, device=DEVICE).view(BATCH, -1).int()
    if where == "padded left":
        options["cache_leftpad"] = torch.tensor([3, 0, 11, 64][:BATCH], dtype=torch.int32, device=DEVICE)
    positions = lens[:, None].long() + torch.arange(new, device=DEVICE)
    own_k, own_v = k_cache.clone(), v_cache.clone()
    expected = fa.flash_attn_with_kvcache(turned(q, angles, positions if mask != "full" else positions[:, :1], interleaved), own_k, own_v,
                                          turned(k_new, angles, positions, interleaved), v_new, **options)
    found = fa.flash_attn_with_kvcache(q, k_cache, v_cache, k_new, v_new, angles.cos().float(), angles.sin().float(),
                                       rotary_interleaved=interleaved, **options)
    torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(k_cache, own_k, rtol=1e-5, atol=1e-5)
    assert torch.equal(v_cache, own_v)


def test_kvcache_rotary__what_does_not_fit__is_named():
    q, k, v = (randn(2, 8, 4, 16, grad=False) for _ in range(3))
    cos = torch.ones(8, 8, device=DEVICE)
    for words, message in (((None, cos, cos), "k is missing"), ((k, cos, None), "one is missing"), ((k, cos, cos[:, :4]), "shapes"),
                           ((k, cos[:4], cos[:4]), "4 positions are fewer than the 8 keys"),
                           ((k, torch.ones(8, 9), torch.ones(8, 9)), "18 dimensions are turned, and q has 16")):
        new, c, s = words
        with pytest.raises(ValueError, match=message):
            fa.flash_attn_with_kvcache(q, k, v, new, new, c, s, cache_seqlens=0)


def test_kvcache_records_no_gradient():
    """As in flash_attn, also where tensors require one; the cache may be one of them."""
    q, k, v = (randn(2, 8, 4, 16) for _ in range(3))
    new = randn(2, 1, 4, 16)
    o = fa.flash_attn_with_kvcache(q, k, v, new, new, cache_seqlens=3)
    assert not o.requires_grad and torch.equal(k[:, 3:4], new)


def test_kvcache_windows_are_any_pair():
    q, k, v, new = *(randn(2, 8, 4, 16, grad=False) for _ in range(3)), randn(2, 1, 4, 16, grad=False)
    angles = torch.rand(8, 8, device=DEVICE)

    def attend(window):
        return fa.flash_attn_with_kvcache(q, k.clone(), v.clone(), new, new, angles.cos(), angles.sin(), cache_seqlens=3,
                                          window_size=window)

    assert torch.equal(attend([-1, -1]), attend((-1, -1)))


@pytest.mark.parametrize("lengths", [6, None, torch.tensor([2, 6], dtype=torch.int32)])
def test_kvcache_without_room_is_named(lengths):
    q, k, v, new = *(torch.randn(2, 7, 4, 16) for _ in range(3)), torch.randn(2, 2, 4, 16)
    pages = torch.arange(2, dtype=torch.int32).view(2, 1)
    for table in (None, pages):
        with pytest.raises(ValueError, match=r"cache_seqlens is [67] at most: 2 new keys do not fit .* room for 7"):
            fa.flash_attn_with_kvcache(q, k, v, new, new, cache_seqlens=lengths, block_table=table)


# ---------------------------------------------------------------------------------------------------- refusals


def test_refusals_name_what_is_refused():
    q, k, v = (randn(2, 8, 4, 16) for _ in range(3))
    starts = torch.tensor([0, 8, 16], dtype=torch.int32, device=DEVICE)
    flat = [x.detach().flatten(0, 1).requires_grad_() for x in (q, k, v)]
    packed = torch.stack((q, k, v), 2)
    for call in (lambda: fa.flash_attn_func(q, k, v, 0.17), lambda: fa.flash_attn_qkvpacked_func(packed, dropout_p=0.17),
                 lambda: fa.flash_attn_varlen_func(*flat, starts, starts, 8, 8, dropout_p=0.17)):
        with pytest.raises(attest.UnsupportedError, match="dropout_p=0.17"):
            call()
    with pytest.raises(ValueError, match=r"qkv has the shape \(2, 8, 4, 16\)"):
        fa.flash_attn_qkvpacked_func(q)
    with pytest.raises(ValueError, match="q has 4 heads and k 3"):
        fa.flash_attn_func(q, k[:, :, :3], v[:, :, :3])


@pytest.mark.parametrize("compiled", [False, True])
def test_pages_are_served_forward_where_gradients_are_on(compiled):
    """As in flash_attn: a model in evaluation need not be under torch.no_grad(). Only backward() is refused."""
    q, k, v = randn(16, 4, 16), randn(2, 256, 2, 16), randn(2, 256, 2, 16)
    starts, keys = (torch.tensor(x, dtype=torch.int32, device=DEVICE) for x in ([0, 8, 16], [0, 100, 356]))
    table = torch.tensor([[1], [0]], dtype=torch.int32, device=DEVICE)

    def call(q, k, v):
        return fa.flash_attn_varlen_func(q, k, v, starts, keys, 8, 256, causal=True, block_table=table, return_attn_probs=True)[:2]

    with torch.no_grad():
        wanted = call(q, k, v)
    found = (torch.compile(call, fullgraph=True, backend="aot_eager") if compiled else call)(q, k, v)
    assert found[0].requires_grad and all(torch.equal(mine, other) for mine, other in zip(found, wanted))
    with pytest.raises(attest.UnsupportedError, match="block_table"):
        found[0].sum().backward()


def test_a_softcap_that_is_not_positive_is_none():
    q, k, v = (randn(2, 8, 4, 16) for _ in range(3))
    for more in ({}, {"return_attn_probs": True}):
        plain, capped = (fa.flash_attn_func(q, k, v, softcap=softcap, **more) for softcap in (0.0, -1.0))
        assert torch.equal(capped[0], plain[0])
    with pytest.raises(ValueError, match="softcap"):
        fa.flash_attn_func(q, k, v, softcap=float("nan"))


# --------------------------------------------------------------------------------- in the place of flash_attn


@pytest.fixture
def installed():
    fa.install()
    yield
    fa.uninstall()


def test_install(installed):
    import flash_attn
    from flash_attn import flash_attn_func, flash_attn_varlen_func
    from flash_attn.bert_padding import index_first_axis, pad_input, unpad_input
    from flash_attn.flash_attn_interface import flash_attn_with_kvcache

    assert flash_attn_func is fa.flash_attn_func and flash_attn_varlen_func is fa.flash_attn_varlen_func
    assert flash_attn_with_kvcache is fa.flash_attn_with_kvcache and index_first_axis
    assert importlib.util.find_spec("flash_attn") is not None and importlib.util.find_spec("flash_attn.bert_padding") is not None
    assert importlib.metadata.version("flash_attn") == importlib.metadata.version("flash-attn") == flash_attn.__version__
    assert "flash-attn" in importlib.metadata.packages_distributions()["flash_attn"]
    fa.install()  # once is enough
    x = torch.randn(2, 7, 3).requires_grad_()
    mask = torch.tensor([[1] * 5 + [0] * 2, [1] * 7])
    rows, indices, starts, most, used = unpad_input(x, mask)
    assert rows.shape == (12, 3) and starts.tolist() == [0, 5, 12] and starts.dtype == torch.int32 and most == 7
    assert used.tolist() == [5, 7]
    back = pad_input(rows, indices, 2, 7)
    assert torch.equal(back, x * mask[..., None])
    back.sum().backward()
    assert torch.equal(x.grad, mask[..., None].expand_as(x).float())


@pytest.mark.parametrize("columns", [16, 8])
@pytest.mark.parametrize("interleaved", [False, True])
@pytest.mark.parametrize("offsets", [0, 3, [5, 0]])
def test_rotary_layer(installed, offsets, interleaved, columns):
    """Batches and packed sequences, whose last rows belong to none, with gradients, and in place."""
    from flash_attn.layers.rotary import apply_rotary_emb, apply_rotary_emb_func

    assert apply_rotary_emb_func is apply_rotary_emb
    x = torch.randn(2, 7, 3, 16, device=DEVICE)
    angles = torch.rand(12, columns // 2, device=DEVICE).double() * 6
    named = {"interleaved": interleaved, "seqlen_offsets": torch.tensor(offsets, device=DEVICE) if isinstance(offsets, list) else offsets}
    tables = angles.cos().float(), angles.sin().float()
    positions = torch.arange(7, device=DEVICE) + torch.as_tensor(offsets, device=DEVICE).expand(2)[:, None]
    wanted = turned(x, angles, positions, interleaved)
    leaf = x.clone().requires_grad_()
    found = apply_rotary_emb(leaf, *tables, **named)
    torch.testing.assert_close(found, wanted, rtol=1e-5, atol=1e-5)
    back, = torch.autograd.grad(found, leaf, found.detach())  # a turn's transpose is its inverse
    torch.testing.assert_close(back, x, rtol=1e-5, atol=1e-5)
    starts = torch.tensor([0, 5, 12], dtype=torch.int32, device=DEVICE)
    packed = torch.cat((x[0, :5], x[1], x[0, 5:]))
    found = apply_rotary_emb(packed, *tables, cu_seqlens=starts, max_seqlen=7, **named)
    torch.testing.assert_close(found[:12], torch.cat((wanted[0, :5], wanted[1])), rtol=1e-5, atol=1e-5)
    assert apply_rotary_emb(packed, *tables, inplace=True, cu_seqlens=starts, max_seqlen=7, **named).data_ptr() == packed.data_ptr()
    assert torch.equal(packed, found)
    with pytest.raises(ValueError, match="13 positions or more"):
        apply_rotary_emb(x, *tables, seqlen_offsets=6)


def test_uninstall():
    fa.install()
    fa.uninstall()
    fa.uninstall()
    assert "flash_attn" not in sys.modules and importlib.util.find_spec("flash_attn") is None
    with pytest.raises(importlib.metadata.PackageNotFoundError):
        importlib.metadata.version("flash_attn")


def test_uninstall_gives_transformers_back_what_it_had(tmp_path, monkeypatch):
    """Where flash_attn itself is installed: its distribution is in the table of transformers again."""
    metadata = tmp_path / "flash_attn-2.7.0.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: flash-attn\nVersion: 2.7.0\n")
    (metadata / "top_level.txt").write_text("flash_attn\n")
    monkeypatch.syspath_prepend(tmp_path)
    table = {"flash_attn": ["flash-attn"], "torch": ["torch"]}
    monkeypatch.setitem(sys.modules, "transformers.utils.import_utils", types.SimpleNamespace(PACKAGE_DISTRIBUTION_MAPPING=table))
    fa.install()
    fa.uninstall()
    assert table == {"flash_attn": ["flash-attn"], "torch": ["torch"]} and importlib.metadata.version("flash-attn") == "2.7.0"


def test_signatures(installed):
    """The names, their order and their defaults, as in 2.8."""
    tail = ["dropout_p", "softmax_scale", "causal", "window_size", "softcap", "alibi_slopes", "deterministic", "return_attn_probs"]
    lengths = ["cu_seqlens_q", "cu_seqlens_k", "max_seqlen_q", "max_seqlen_k"]
    import flash_attn

    for name, first in (("flash_attn_func", ["q", "k", "v"]), ("flash_attn_kvpacked_func", ["q", "kv"]),
                        ("flash_attn_qkvpacked_func", ["qkv"]), ("flash_attn_varlen_func", ["q", "k", "v", *lengths]),
                        ("flash_attn_varlen_kvpacked_func", ["q", "kv", *lengths]),
                        ("flash_attn_varlen_qkvpacked_func", ["qkv", "cu_seqlens", "max_seqlen"])):
        parameters = inspect.signature(getattr(flash_attn, name)).parameters
        rest = ["block_table"] if name == "flash_attn_varlen_func" else []
        assert list(parameters) == first + tail + rest
        assert [parameters[name].default for name in tail] == [0.0, None, False, (-1, -1), 0.0, None, False, False]
        assert all(parameters[name].default is None for name in rest)
        assert all(parameters[name].default is inspect.Parameter.empty for name in parameters if name not in tail + rest)
    parameters = inspect.signature(flash_attn.flash_attn_with_kvcache).parameters
    assert [(name, each.default) for name, each in list(parameters.items())[3:]] == [
        ("k", None), ("v", None), ("rotary_cos", None), ("rotary_sin", None), ("cache_seqlens", None), ("cache_batch_idx", None),
        ("cache_leftpad", None), ("block_table", None), ("softmax_scale", None), ("causal", False), ("window_size", (-1, -1)),
        ("softcap", 0.0), ("rotary_interleaved", True), ("alibi_slopes", None), ("num_splits", 0), ("return_softmax_lse", False)]
    assert list(parameters)[:3] == ["q", "k_cache", "v_cache"]


TRANSFORMERS = """
import sys
if sys.argv[1] == "before":
    import attest.flash_attn
    attest.flash_attn.install()
from transformers.utils import import_utils
import_utils.is_torch_cuda_available = lambda: True  # what the test of availability asks on a machine with a GPU
if sys.argv[1] == "after":
    import_utils.is_flash_attn_2_available()
    import attest.flash_attn
    attest.flash_attn.install()
from transformers.modeling_flash_attention_utils import _lazy_imports
functions = _lazy_imports("flash_attention_2")
print(import_utils.is_flash_attn_2_available(), functions[0] is attest.flash_attn.flash_attn_func)
"""


@pytest.mark.parametrize("order", ["before", "after"])
def test_transformers_finds_it(order):
    pytest.importorskip("transformers", reason="transformers is not here: its tests are left out")
    done = subprocess.run([sys.executable, "-c", TRANSFORMERS, order], capture_output=True, text=True, timeout=300)
    assert done.stdout.split() == ["True", "True"], done.stderr[-2000:]


def test_transforms_and_compilation():
    q, k, v = (randn(2, 24, 4, 16, dtype=torch.bfloat16 if GPU else torch.float32) for _ in range(3))

    def model(q, k, v):
        return fa.flash_attn_func(q, k, v, causal=True, window_size=(7, 0)).square().sum()

    wanted = torch.autograd.grad(model(q, k, v), (q, k, v))
    compiled = torch.compile(model, fullgraph=True, backend="aot_eager")
    for mine, right in zip(torch.autograd.grad(compiled(q, k, v), (q, k, v)), wanted):
        torch.testing.assert_close(mine, right)
    torch.testing.assert_close(torch.func.grad(model)(q.detach(), k.detach(), v.detach()), wanted[0])


def test_batches_of_gradients_of_packed_tensors():
    qkv = randn(2, 8, 3, 4, 16)
    o = fa.flash_attn_qkvpacked_func(qkv, causal=True)
    d_o = torch.randn(3, *o.shape, dtype=o.dtype, device=DEVICE)
    together, = torch.autograd.grad(o, qkv, d_o, is_grads_batched=True, retain_graph=True)
    for mine, each in zip(together, d_o):
        assert torch.equal(mine, torch.autograd.grad(o, qkv, each, retain_graph=True)[0])
