"""parallel_training.py: a small Llama learns to repeat, with every sequence split over the processes.

    torchrun --nproc-per-node 4 examples/python/parallel_training.py

Context parallelism from attest.torch.parallel, weights in DistributedDataParallel. Rank 0 also trains the same model
alone and checks that the losses are the same. Uses gloo on CPUs, and NCCL if every process has its own GPU.
"""

import os

import torch
import torch.distributed as dist
from torch.nn import functional
from torch.nn.parallel import DistributedDataParallel
from transformers import LlamaConfig, LlamaForCausalLM

import attest.torch
from attest.torch import parallel

STEPS, ROWS = 12, 96


def llama(device):
    torch.manual_seed(1)
    config = LlamaConfig(vocab_size=32, hidden_size=64, intermediate_size=128, num_hidden_layers=2, num_attention_heads=8,
                         num_key_value_heads=4, use_cache=False)
    return LlamaForCausalLM._from_config(config, attn_implementation="attest").to(device)


def train(model, tokens, labels, positions):
    """The loss of each step, for the given rows."""
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    losses = []
    for _ in range(STEPS):
        logits = model(input_ids=tokens, position_ids=positions).logits
        loss = functional.cross_entropy(logits.flatten(0, 1), labels.flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.detach())
    return torch.stack(losses)


def main():
    rank, ranks, local = (int(os.environ[name]) for name in ("RANK", "WORLD_SIZE", "LOCAL_RANK"))
    on_gpu = torch.cuda.device_count() >= int(os.environ["LOCAL_WORLD_SIZE"])
    device = torch.device("cuda", local) if on_gpu else torch.device("cpu")
    if on_gpu:
        torch.cuda.set_device(device)
    else:
        attest.set_threads(1)
    dist.init_process_group("nccl" if on_gpu else "gloo")
    attest.torch.register_transformers()

    torch.manual_seed(2)
    half = torch.randint(0, 32, (4, ROWS // 2 + 1), device=device)
    tokens = torch.cat([half, half], 1)
    inputs, labels = tokens[:, :ROWS], tokens[:, 1:ROWS + 1]         # labels are shifted before the rows are split

    cut = parallel.zigzag(ROWS, ranks)                               # equal row counts: the mean of means is the mean
    model = DistributedDataParallel(llama(device))
    with parallel.enable(cut) as report:
        losses = train(model, cut.shard(inputs, rank), cut.shard(labels, rank), cut.positions(rank, device)[None])
    dist.all_reduce(losses)
    losses /= ranks

    if rank == 0:
        alone = train(llama(device), inputs, labels, None)
        apart = (losses - alone).abs().max().item()
        print(f"{ranks} processes: loss {losses[0]:.4f} to {losses[-1]:.4f}, one: {alone[0]:.4f} to {alone[-1]:.4f}, apart by at "
              f"most {apart:.1e}; {report.served} calls served")
        assert losses[-1] < 0.9 * losses[0] and apart < 1e-3, apart
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
