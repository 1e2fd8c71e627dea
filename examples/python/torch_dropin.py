"""torch_dropin.py: a model of PyTorch's own layers whose attention attest computes, and a report of the calls."""

import torch

import attest.torch

device = "cuda" if torch.cuda.is_available() else "cpu"
dtype = torch.bfloat16 if device == "cuda" else torch.float32
layer = torch.nn.TransformerEncoderLayer(256, 4, 512, batch_first=True, device=device, dtype=dtype)
layer.train()  # in evaluation PyTorch takes a fused path without an attention call to replace
layer.dropout.p = layer.dropout1.p = layer.dropout2.p = layer.self_attn.dropout = 0.0
x = torch.randn(2, 100, 256, device=device, dtype=dtype)

with torch.no_grad():
    wanted = layer(x)
    with attest.torch.enable() as report:
        got = layer(x)
print(report)
error = (got - wanted).abs().max().item()
print(f"{attest.last_launch().kernel}: largest difference {error:.1e}")
assert report.served == 1 and error < (0.1 if device == "cuda" else 1e-5)
