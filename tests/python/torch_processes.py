"""torch_processes.py: two processes train a layer of attention together, with DDP or FSDP; test_torch_attention.py
runs it."""

import os
import socket
import sys

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch import nn
from torch.nn.parallel import DistributedDataParallel

import attest.torch as at


class Layer(nn.Module):
    def __init__(self):
        super().__init__()
        self.into, self.out, self.sinks = nn.Linear(32, 96), nn.Linear(32, 32), nn.Parameter(torch.zeros(4))

    def forward(self, x):
        q, k, v = self.into(x).unflatten(-1, (3, 4, 8)).unbind(2)
        return self.out(at.attention(q, k, v, causal=True, sinks=self.sinks, layout="bshd").flatten(2))


def gradients_of_one(x):
    torch.manual_seed(1)
    layer = Layer()
    layer(x).square().mean().backward()
    return {name: each.grad for name, each in layer.named_parameters()}


def work(rank, way, port):
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port), GLOO_SOCKET_IFNAME="lo")
    dist.init_process_group("gloo", rank=rank, world_size=2)
    torch.manual_seed(2)
    x = torch.randn(4, 12, 32)
    wanted = gradients_of_one(x)
    torch.manual_seed(1)
    layer = Layer()
    if way == "ddp":
        layer = DistributedDataParallel(layer)
    else:
        from torch.distributed.device_mesh import init_device_mesh
        from torch.distributed.fsdp import fully_shard

        fully_shard(layer, mesh=init_device_mesh("cpu", (2,)))
    layer(x[2 * rank:2 * rank + 2]).square().mean().backward()
    for name, each in layer.named_parameters():
        grad = each.grad.full_tensor() if way == "fsdp" else each.grad
        torch.testing.assert_close(grad, wanted[name.removeprefix("module.")], rtol=1e-4, atol=1e-6)
    print("equal\n", end="", flush=True)  # one write: the other process may print at the same time
    dist.destroy_process_group()


if __name__ == "__main__":
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        free = probe.getsockname()[1]
    mp.spawn(work, args=(sys.argv[1], free), nprocs=2)
