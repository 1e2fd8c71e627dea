"""parallel_odd.py: attention over a group in unusual calls, each compared with one process; test_parallel.py runs it.

    parallel_odd.py RANKS ...
"""

import re
import sys

import torch
import torch.distributed as dist
from torch.utils.checkpoint import checkpoint

import attest
import attest.torch as at
from attest.torch import parallel
from parallel_ranks import on_ranks

METHODS = ("ring", "gather", "ulysses")


def tensors(batch=2, heads=(4, 4), rows=50, dtype=torch.float32):
    torch.manual_seed(1)
    return [torch.randn(batch, h, rows, 16).to(dtype) for h in (heads[0], heads[1], heads[1])]


def shards(cut, rank, given):
    return [cut.shard(x, rank, 2).requires_grad_() for x in given]


def compare(rank, cut, given, function, alone, tolerance=2e-5):
    """The outputs and gradients of function(q, k, v) on shards with those of alone(q, k, v) on the whole."""
    mine, whole = shards(cut, rank, given), [x.clone().requires_grad_() for x in given]
    o, wanted = function(*mine), alone(*whole)
    torch.manual_seed(2)
    d_o = torch.randn_like(wanted)
    wanted.backward(d_o)
    o.backward(cut.shard(d_o, rank, 2))
    for found, its in ((o, wanted), *((x.grad, y.grad) for x, y in zip(mine, whole))):
        torch.testing.assert_close(found, cut.shard(its, rank, 2), rtol=tolerance, atol=tolerance)


def causal(cut, method, **more):
    return lambda q, k, v: parallel.attention(q, k, v, cut, causal=True, method=method, **more)


def one_call(**more):
    return lambda q, k, v: at.attention(q, k, v, **{"causal": "top-left", **more})


def sizes(rank, size, method):
    """More ranks than rows, no rows, no batch, few heads of k, float16; sequences of which nothing is visible; windows
    with -1 for no limit."""
    for cut in (parallel.zigzag(1, size), parallel.contiguous(size - 1, size), parallel.zigzag(0, size)):
        compare(rank, cut, tensors(rows=cut.rows), causal(cut, method), one_call())
    cut = parallel.zigzag(50, size)
    compare(rank, cut, tensors(batch=0), causal(cut, method), one_call())
    compare(rank, cut, tensors(heads=(4, 1)), causal(cut, method), one_call())
    compare(rank, cut, tensors(dtype=torch.float16), causal(cut, method), one_call(), 5e-3)
    for window in ((9, -1), (-1, None), (-1, 0)):
        compare(rank, cut, tensors(), causal(cut, method, window=window), one_call(window=window))
    compare(rank, cut, tensors(), causal(cut, method, softcap=8.0 if rank else 8), one_call(softcap=8.0))
    lens = torch.tensor([0, 50])  # of any integer type
    compare(rank, cut, tensors(), causal(cut, method, lens_k=lens), one_call(lens_k=lens.int()))
    sinks, slopes = (torch.ones(4, dtype=torch.bfloat16, requires_grad=True) for _ in range(2))  # of any floating type
    parallel.attention(*shards(cut, rank, tensors(batch=0)), cut, sinks=sinks, alibi=slopes, method=method).sum().backward()
    assert not sinks.grad.any() and not slopes.grad.any() and sinks.grad.dtype == torch.bfloat16


def memory(rank, size, method):
    """Inputs of any strides: transposed, expanded, every second number; the other layout."""
    cut = parallel.zigzag(50, size)
    q, k, v = (x.detach() for x in shards(cut, rank, tensors()))
    wanted = causal(cut, method)(q, k, v)
    strided = q.transpose(1, 2).contiguous().transpose(1, 2), k.mT.contiguous().mT, torch.stack([v, v], -1)[..., 0]
    assert torch.equal(causal(cut, method)(*strided), wanted)
    turned = causal(cut, method, layout="bshd")(*(x.transpose(1, 2) for x in (q, k, v)))
    assert torch.equal(turned.transpose(1, 2), wanted)
    given = [x[:1, :1] for x in tensors()]
    compare(rank, cut, given, lambda *three: causal(cut, method)(*(x.expand(2, 4, -1, -1) for x in three)),
            lambda *three: one_call()(*(x.expand(2, 4, -1, -1) for x in three)))


def with_log_sums(call):
    """The log-sum-exp as a factor of O, so that both have gradients."""
    def both(q, k, v):
        o, lse = call(q, k, v)
        return o * lse.unsqueeze(-1)
    return both


def wide_values(rank, size, method):
    """The log-sum-exp of values with 256 columns has no gradient, and says so when one is computed."""
    cut = parallel.zigzag(50, size)
    q, k, _ = shards(cut, rank, tensors())
    v = torch.ones(2, 4, cut.rows_of(rank), 256)
    o, lse = causal(cut, method, return_lse=True)(q, k, v)
    torch.autograd.grad(o.sum(), q, retain_graph=True)
    try:
        torch.autograd.grad(lse.sum(), q)
        raise AssertionError("there is a gradient")
    except attest.UnsupportedError as refused:
        assert "248 columns, not 256" in str(refused)


def graphs(rank, size, method):
    """Several calls in one graph, activation checkpointing, frozen inputs, a loss on one rank, autocast, inference."""
    cut = parallel.zigzag(50, size)
    call = causal(cut, method)

    def twice(q, k, v, attend, around):
        a = attend(q, k, v)
        return a + 2 * attend(a, k, v) + around(q, k, v)

    window = {"window": (3, 2), "align": "top-left"}
    banded = [lambda q, k, v: parallel.attention(q, k, v, cut, method=method, **window), lambda q, k, v: at.attention(q, k, v, **window)]
    compare(rank, cut, tensors(), lambda *x: twice(*x, call, banded[0]), lambda *x: twice(*x, one_call(), banded[1]), 1e-4)
    compare(rank, cut, tensors(), with_log_sums(causal(cut, method, return_lse=True)), with_log_sums(one_call(return_lse=True)), 1e-4)
    sinks = [torch.ones(4, requires_grad=True) for _ in range(2)]
    compare(rank, cut, tensors(), with_log_sums(causal(cut, method, return_lse=True, sinks=sinks[0])),
            with_log_sums(one_call(return_lse=True, sinks=sinks[1])), 1e-4)
    dist.all_reduce(sinks[0].grad)
    torch.testing.assert_close(sinks[0].grad, sinks[1].grad, rtol=1e-4, atol=1e-4)
    for reentrant in (False, True):
        compare(rank, cut, tensors(), lambda *x, r=reentrant: checkpoint(call, *x, use_reentrant=r), one_call())
    q, k, v = shards(cut, rank, tensors())
    call(q, k.detach(), v.detach()).sum().backward()
    assert q.grad is not None and k.grad is None
    (call(q, k, v).sum() * (rank == 0)).backward()  # the gradients of other ranks' keys arrive all the same
    assert k.grad.any()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        o = call(q, k, v)
    assert o.dtype == torch.bfloat16 and torch.autograd.grad(o.float().sum(), q)[0].dtype == torch.float32
    with torch.inference_mode():
        call(*(x.detach() for x in (q, k, v)))


def mistakes(rank, size, method):
    """The same mistake on every rank is told at once, and the next call is right."""
    cut, found = parallel.zigzag(50, size), []
    q, k, v = (x.detach() for x in shards(cut, rank, tensors()))
    for given, named in (((q.double(), k.double(), v.double()), {}), ((q, k[:, :3], v[:, :3]), {}), ((q, k[..., :8], v), {}),
                         ((q[:1], k, v), {}), ((q, k, v[:, :2]), {}), ((q, k, v), {"alibi": torch.ones(3)}),
                         ((q, k, v), {"lens_k": torch.ones(3, dtype=torch.int32)}), ((q, k, v), {"lens_k": torch.ones(2)}),
                         ((q, k, v), {"lens_k": torch.tensor([51, 3])}), ((q, k, v), {"starts_k": torch.tensor([0, -1])}),
                         ((q, k, v), {"cut_k": (50, 50)}), ((q, k, v), {"documents": [0, 9, 50]}), ((q, k, v), {"window": (-2, 3)}),
                         ((q, k, v), {"window": 3}), ((q.new_zeros(*q.shape[:3], 300),) * 3, {})):
        try:
            parallel.attention(*given, cut, method=method, **named)
            found.append("nothing")
        except (TypeError, ValueError) as error:
            found.append(str(error))
    wanted = ("float64", "heads: 4 of q, 3 of k", "16 columns, k 8", "k has a batch of 2, q of 1", "2 of v", "alibi is (3,)",
              "lens_k is (3,)", "lens_k is torch.float32; expected a torch.Tensor of integers", "lens_k is [51, 3]; expected numbers from 0 to 50",
              "starts_k is [0, -1]; expected", "cut_k is a tuple; expected zigzag()", "expected a batch of 1", "window is (-2, 3); expected a pair", "window is 3; expected a pair", "256")
    assert len(found) == len(wanted) and all(part in text for part, text in zip(wanted, found)), found
    compare(rank, cut, tensors(), causal(cut, method), one_call())


def other_groups(rank, size):
    """A group without this process, and two ways to share heads."""
    first = dist.new_group([0])
    cut, x = parallel.zigzag(8, 1), torch.zeros(1, 1, 8, 16)
    found = []
    for how in ({"group": first}, {"heads_group": first, "method": "ulysses"}):
        try:
            found.append(parallel.attention(x, x, x, cut, **how).shape)
        except ValueError as error:
            found.append(re.split("[:;]", str(error))[0])
    assert found == ([x.shape, "heads_group is given with method='ulysses'"] if rank == 0 else
                     ["this process is not a member of group", "this process is not a member of heads_group"]), found


def all_of_it(rank, size):
    for method in METHODS:
        for scene in (sizes, memory, graphs, wide_values, mistakes):
            if method != "ulysses" or 4 % size == 0:
                scene(rank, size, method)
    other_groups(rank, size)


if __name__ == "__main__":
    attest.set_threads(1)
    for ranks in map(int, sys.argv[1:]):
        on_ranks(ranks, all_of_it)
        print(ranks, flush=True)
