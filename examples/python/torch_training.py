"""torch_training.py: a small causal model learns to repeat with attest's attention and gradients; PyTorch's gives
the same losses."""

import torch
from torch import nn
from torch.nn import functional

import attest.torch

device = "cuda" if torch.cuda.is_available() else "cpu"
dtype = torch.bfloat16 if device == "cuda" else torch.float32


class Model(nn.Module):
    """One layer with 8 query heads and 2 K/V heads."""

    def __init__(self, ours):
        super().__init__()
        self.ours = ours
        self.words, self.places = nn.Embedding(50, 256), nn.Embedding(64, 256)
        self.into, self.out, self.last = nn.Linear(256, 384), nn.Linear(256, 256), nn.Linear(256, 50)

    def forward(self, tokens):
        x = self.words(tokens) + self.places(torch.arange(tokens.shape[1], device=tokens.device))
        q, k, v = (each.unflatten(-1, (-1, 32)) for each in self.into(x).split((256, 64, 64), -1))
        if self.ours:
            o = attest.torch.attention(q, k, v, causal=True, layout="bshd")
        else:
            turned = (each.transpose(1, 2) for each in (q, k, v))
            o = functional.scaled_dot_product_attention(*turned, is_causal=True, enable_gqa=True).transpose(1, 2)
        return self.last(x + self.out(o.flatten(2)))


def losses(ours, steps=30):
    torch.manual_seed(1)
    model = Model(ours).to(device, dtype)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    half = torch.randint(0, 50, (16, 20), device=device)
    tokens = torch.cat([half, half], 1)
    found = []
    for _ in range(steps):
        loss = functional.cross_entropy(model(tokens[:, :-1]).float().flatten(0, 1), tokens[:, 1:].flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        found.append(loss.item())
    return found


mine, theirs = losses(True), losses(False)
print(f"{attest.last_launch().kernel}: loss {mine[0]:.4f} to {mine[-1]:.4f}, PyTorch's {theirs[0]:.4f} to {theirs[-1]:.4f}")
apart = max(abs(a - b) for a, b in zip(mine, theirs))
assert mine[-1] < 0.7 * mine[0] and apart < (0.2 if device == "cuda" else 1e-3), apart
