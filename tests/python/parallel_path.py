"""parallel_path.py: attention over a group compared with one process, on 1 to 8 ranks; test_parallel.py runs it.

    parallel_path.py SCENE=RANKS,RANKS ...
"""

import hashlib
import math
import sys

import torch
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh

import attest
import attest.torch as at
from attest.torch import parallel
from parallel_ranks import on_ranks

ROWS = 83
MASKS = {
    "full": {}, "causal": {"causal": True}, "window": {"causal": True, "window": (9, None)}, "band": {"window": (5, 12)},
    "softcap": {"causal": True, "softcap": 8.0}, "sinks": {"causal": True, "sinks": True},
    "lengths": {"causal": True, "lens_k": [61, 17]}, "padding": {"causal": True, "starts_k": [0, 40], "lens_k": [83, 70]},
    "documents": {"causal": True, "documents": [0, 7, 30, 31, 60, 83]},
    "documents_window": {"causal": True, "documents": [0, 70, 83], "window": (20, None)},
    "alibi": {"causal": True, "alibi": True, "sinks": True},
}
LEARNED = ("sinks", "alibi")  # one number per head, the same on every rank, with gradients that are summed over ranks
SLOPES = torch.tensor([0.5, 0.25, 0.125, 0.0625])


def tensors(mask, dtype, keys=ROWS, heads=(4, 2)):
    torch.manual_seed(5)
    batch = 1 if "documents" in mask else 2
    made = [torch.randn(batch, h, rows, d) for h, rows, d in
            ((heads[0], ROWS, 16), (heads[1], keys, 16), (heads[1], keys, 24), (heads[0], ROWS, 24))]
    return [x.to(dtype) for x in made]


def exact(q, k, v, d_o, options):
    """O and the gradients of q, k and v, and of sinks and slopes if there are any, in float64, by the formula."""
    q, k, v = (x.double().requires_grad_() for x in (q, k, v))
    learned = {name: options[name].double().requires_grad_() for name in LEARNED if options.get(name) is not None}
    wide_k, wide_v = (x.repeat_interleave(q.shape[1] // k.shape[1], 1) for x in (k, v))
    scores = q @ wide_k.transpose(-1, -2) / math.sqrt(q.shape[-1])
    if options.get("softcap"):
        scores = torch.tanh(scores / options["softcap"]) * options["softcap"]
    rows, keys = scores.shape[-2:]
    i, j = torch.arange(rows)[:, None], torch.arange(keys)
    shift = keys - rows if options.get("causal") == "bottom-right" or options.get("align") == "bottom-right" else 0
    if "alibi" in learned:
        slopes = learned["alibi"]
        scores = scores - (slopes if slopes.dim() == 2 else slopes[None])[:, :, None, None] * (i + shift - j).abs()
    seen = torch.ones(q.shape[0], 1, rows, keys, dtype=torch.bool)
    if options.get("causal"):
        seen = seen & (j <= i + shift)
    left, right = options.get("window") or (None, None)
    if left is not None:
        seen = seen & (j >= i + shift - left)
    if right is not None:
        seen = seen & (j <= i + shift + right)
    if options.get("lens_k") is not None:
        seen = seen & (j < options["lens_k"][:, None, None, None])
    if options.get("starts_k") is not None:
        seen = seen & (j >= options["starts_k"][:, None, None, None])
    if options.get("documents") is not None:
        ends = torch.tensor(options["documents"][1:])
        seen = seen & (torch.searchsorted(ends, i, right=True) == torch.searchsorted(ends, j, right=True))
    scores = scores.masked_fill(~seen, -math.inf)
    if "sinks" in learned:
        scores = torch.cat([scores, learned["sinks"][None, :, None, None].expand(*scores.shape[:3], 1)], -1)
    weights = torch.nan_to_num(torch.softmax(scores, -1))[..., :keys]
    o = weights @ wide_v
    return o.detach(), *torch.autograd.grad(o, (q, k, v, *learned.values()), d_o.double())


def options_of(mask):
    options = dict(mask)
    for name in ("lens_k", "starts_k"):
        if name in options:
            options[name] = torch.tensor(options[name], dtype=torch.int32)
    if "sinks" in options:
        options["sinks"] = torch.linspace(-1, 2, 4)
    if options.get("alibi") is True:
        options["alibi"] = SLOPES
    return options


def with_learned(options):
    """(the options with sinks and slopes that have gradients, those)."""
    learned = {name: options[name].clone().requires_grad_() for name in LEARNED if name in options}
    return {**options, **learned}, list(learned.values())


def alone(q, k, v, d_o, options):
    """O and gradients from one process of attest."""
    options, learned = with_learned(options)
    documents = options.pop("documents", None)
    if documents is not None:
        starts = torch.tensor(documents, dtype=torch.int32)
        longest = int(starts.diff().max())
        options.update(cu_seqlens_q=starts, cu_seqlens_k=starts, max_seqlen_q=longest, max_seqlen_k=longest, causal="top-left")
        q, k, v, d_o = (x[0].transpose(0, 1) for x in (q, k, v, d_o))
    elif "lens_k" in options:
        options["causal"] = "top-left"
    q, k, v = (x.clone().requires_grad_() for x in (q, k, v))
    o = at.attention(q, k, v, **options)
    found = o.detach(), *torch.autograd.grad(o, (q, k, v, *learned), d_o)
    return found if documents is None else (*(x.transpose(0, 1)[None] for x in found[:4]), *found[4:])


def together(rank, cut, cut_k, q, k, v, d_o, options, **how):
    """This rank's O and gradients, from tensors of the whole; those of sinks and slopes are summed over the ranks."""
    options, learned = with_learned(options)
    mine = [cut.shard(q, rank, 2), cut_k.shard(k, rank, 2), cut_k.shard(v, rank, 2)]
    mine = [x.requires_grad_() for x in mine]
    o = parallel.attention(*mine, cut, cut_k=cut_k, **options, **how)
    grads = torch.autograd.grad(o, (*mine, *learned), cut.shard(d_o, rank, 2))
    for shared in grads[3:]:
        dist.all_reduce(shared)
    return o.detach(), *grads


def check(rank, cut, cut_k, q, k, v, d_o, options, name, **how):
    """Within twice the error of one process, and a few ulp."""
    found = together(rank, cut, cut_k, q, k, v, d_o, options, **how)
    unit = torch.finfo(q.dtype).eps
    names = ("o", "d_q", "d_k", "d_v", *(name for name in LEARNED if name in options))
    one, true = alone(q, k, v, d_o, options), exact(q, k, v, d_o, options)
    assert len(found) == len(one) == len(true) == len(names)
    for what, mine, one, true, its_cut in zip(names, found, one, true, (cut, cut, cut_k, cut_k, None, None)):
        bar = 2 * (one - true).abs().max() + 4 * unit * true.abs().max()
        wanted = true if its_cut is None else its_cut.shard(true, rank, 2)
        error = (mine - wanted).abs().max() if mine.numel() else 0.0
        assert mine.dtype == (torch.float32 if its_cut is None else q.dtype) and mine.shape == wanted.shape
        assert error <= bar, f"{name}: {what} is off by {error}, {bar} is allowed"
    return found


def cases(size):
    """Every mask in both types; for bfloat16 on many ranks, a few."""
    for dtype in (torch.float32, torch.bfloat16):
        for name, mask in MASKS.items():
            if dtype == torch.float32 or size < 4 or name in ("causal", "window"):
                yield dtype, name, mask


def every_mask(rank, size):
    for dtype, name, mask in cases(size):
        options, given = options_of(mask), tensors(mask, dtype)
        for method, cut in (("ring", parallel.zigzag(ROWS, size)), ("gather", parallel.contiguous(ROWS, size))):
            if method == "ring" or size < 4:
                check(rank, cut, cut, *given, options, f"{name} {method} {dtype}", method=method)


def alibi(rank, size):
    """ALiBi counts distances in the whole sequence; slopes of each batch entry too, and gradients of the slopes."""
    for cut in (parallel.zigzag(ROWS, size), parallel.contiguous(ROWS, size)):
        for mask in ({"causal": True}, {}, {"window": (17, 5)}, {"causal": True, "window": (11, None)},
                     {"causal": True, "lens_k": [61, 17], "alibi": torch.stack([SLOPES, SLOPES.flip(0)])},
                     {"causal": True, "documents": [0, 7, 30, 31, 60, 83]}):
            for method in ("ring", "gather"):
                check(rank, cut, cut, *tensors(mask, torch.float32), options_of({"alibi": True, **mask}), f"alibi {mask} {method}",
                      method=method)
    keys = parallel.Cut((1, 50, 20, 26), (size - 1, 0, 0, size - 1), size)
    for side in ("top-left", "bottom-right"):
        check(rank, cut, keys, *tensors({}, torch.float32, keys=97), {"causal": side, "alibi": SLOPES}, f"alibi {side}")


def heads(rank, size):
    """Ulysses, with fewer heads of k than ranks too, and a ring of Ulysses groups."""
    for dtype, name, mask in cases(size):
        options, given, cut = options_of(mask), tensors(mask, dtype), parallel.contiguous(ROWS, size)
        check(rank, cut, cut, *given, options, f"{name} {dtype}", method="ulysses")
    uneven = parallel.Cut((40, 0, 3, 40), (0, 1 % size, size - 1, 0), size)
    check(rank, uneven, uneven, *tensors({}, torch.float32), {"causal": True}, "uneven", method="ulysses")


def two_groups(rank, size):
    mesh = init_device_mesh("cpu", (size // 2, 2), mesh_dim_names=("ring", "heads"))
    groups = {"group": mesh["ring"].get_group(), "heads_group": mesh["heads"].get_group()}
    for dtype, name, mask in cases(size):
        options, given, cut = options_of(mask), tensors(mask, dtype), parallel.zigzag(ROWS, size)
        check(rank, cut, cut, *given, options, f"{name} {dtype}", **groups)
    empty = parallel.Cut((50, ROWS - 50), (0, 1), size)  # a heads group without rows
    check(rank, empty, empty, *tensors({}, torch.float32), {"causal": True}, "empty group", **groups)
    q, k, v, _ = tensors({}, torch.float32)
    mine = [cut.shard(x, rank, 2) for x in (q, k, v)]
    _, lse = parallel.attention(*mine, cut, causal=True, return_lse=True, **groups)
    _, wanted = at.attention(q, k, v, causal=True, return_lse=True)
    torch.testing.assert_close(lse, cut.shard(wanted, rank, 2), rtol=1e-5, atol=1e-5)


def unequal(rank, size):
    """Shards of different sizes, empty ones, and keys that are split differently from rows."""
    uneven = parallel.Cut((40, 0, 3, 40), (0, 1 % size, size - 1, 0), size)
    keys = parallel.Cut((1, 50, 20, 26), (size - 1, 0, 0, size - 1), size)
    for name, options in (("full", {}), ("causal", {"causal": True}), ("window", {"causal": True, "window": (9, None)})):
        check(rank, uneven, uneven, *tensors({}, torch.float32), options, name)
    for side in ("top-left", "bottom-right"):
        for options in ({"causal": side}, {"window": (5, 12), "align": side}, {"window": (0, 0), "align": side}):
            check(rank, uneven, keys, *tensors({}, torch.float32, keys=97), options, f"{side} {options}")


def digest(rank, size):
    """A digest of the results of sixteen pieces, on any number of ranks."""
    whole = hashlib.sha256()
    for dtype in (torch.float32, torch.bfloat16):
        for name, make, method in (("full", parallel.contiguous, "gather"), ("causal", parallel.zigzag, "ring"),
                                   ("window", parallel.zigzag, "ring"), ("full", parallel.zigzag, "ring"),
                                   ("alibi", parallel.zigzag, "ring"), ("padding", parallel.zigzag, "gather"),
                                   ("documents", parallel.contiguous, "ring"), ("softcap", parallel.zigzag, "ring")):
            options, given, cut = options_of(MASKS[name]), tensors(MASKS[name], dtype), make(ROWS, size, pieces=16)
            for x in together(rank, cut, cut, *given, options, method=method)[:4]:  # not what the caller sums
                shards = [None] * size
                dist.all_gather_object(shards, x)
                whole.update(cut.join(shards, 2).contiguous().view(torch.uint8).numpy().tobytes())
    return whole.hexdigest()


def bytes_sent(rank, size):
    """What each kind of step sends, according to the group's own calls: [bytes of each batch of messages]."""
    sent, real = [], dist.batch_isend_irecv

    def count(ops):
        sent.append(sum(op.tensor.nbytes for op in ops if op.op is dist.isend))
        return real(ops)

    dist.batch_isend_irecv = count
    found = {}
    for rows in (64, 128):
        cut = parallel.zigzag(rows, size)
        for name, options in (("causal", {"causal": True}), ("full", {}), ("window", {"causal": True, "window": (3, None)})):
            sent.clear()
            x = torch.randn(1, 2, cut.rows_of(rank), 16)
            with torch.no_grad():
                parallel.attention(x, x, x, cut, **options)
            found[name, rows] = list(sent)
    return found


SCENES = {"masks": every_mask, "alibi": alibi, "heads": heads, "two_groups": two_groups, "unequal": unequal, "digest": digest, "bytes": bytes_sent}

if __name__ == "__main__":
    attest.set_threads(1)
    for word in sys.argv[1:]:
        scene, _, counts = word.partition("=")
        for ranks in map(int, counts.split(",")):
            answers = on_ranks(ranks, SCENES[scene])
            print(scene, ranks, answers if scene == "bytes" else answers[0], flush=True)
