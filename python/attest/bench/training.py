"""training.py: training with attest compared with PyTorch's scaled_dot_product_attention.

    step   tokens per second of a whole training step (forward, backward, AdamW) of a Llama-shaped decoder and of a
           ViT, with transformers' own attention "sdpa" and with attn_implementation="attest"; both have the same random
           weights
    call   wall time of forward and backward of attention alone, on the seed suite on a GPU and on two small problems
           on a CPU, over many steps in a row; and of an operation with the same inputs that computes nothing, which is
           the time that autograd itself takes

Before the clock starts both models take some steps on the same data: their losses are recorded, and how many calls
attest computed. Samples are interleaved, in random order. `attest judge` evaluates them and compares the losses.
"""

from __future__ import annotations

import copy
import random
import time
from typing import Any, Dict, List, NamedTuple, Optional

from . import problems, record

SCHEMA = "attest-python-training-1"
NAMES = ("sdpa", "attest")
STEPS_COMPARED = 4


class Size(NamedTuple):
    """A Llama, a ViT, and the sizes of their inputs."""

    llama: Dict[str, int]
    vit: Dict[str, int]
    batch: int
    rows: int
    images: int
    dtype: str


SIZES = {
    "tiny": Size({"hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 2, "num_attention_heads": 4,
                  "num_key_value_heads": 2, "vocab_size": 256},
                 {"hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 128, "image_size": 32,
                  "patch_size": 8}, 2, 32, 4, "float32"),
    "small": Size({"hidden_size": 256, "intermediate_size": 704, "num_hidden_layers": 4, "num_attention_heads": 4,
                   "num_key_value_heads": 2, "vocab_size": 4096},
                  {"hidden_size": 192, "num_hidden_layers": 6, "num_attention_heads": 3, "intermediate_size": 768}, 2, 512, 4,
                  "float32"),
    "1b": Size({"hidden_size": 2048, "intermediate_size": 8192, "num_hidden_layers": 16, "num_attention_heads": 32,
                "num_key_value_heads": 8, "vocab_size": 32000},
               {"hidden_size": 768, "num_hidden_layers": 12, "num_attention_heads": 12, "intermediate_size": 3072}, 4, 4096, 64,
               "bfloat16"),
}
BARS = {"float32": 1e-3, "bfloat16": 3e-2}  # the allowed difference of a loss from the other's


def _wait(device: str) -> None:
    if device == "cuda":
        import torch

        torch.cuda.synchronize()


def _both(kind, config, device: str, dtype) -> Dict[str, Any]:
    """The same random weights with each attention."""
    import torch

    models = {}
    for name in NAMES:
        torch.manual_seed(5)
        own = copy.deepcopy(config)  # a model reads its configuration when it runs
        own._attn_implementation = name
        with torch.device(device):
            models[name] = kind(own).to(dtype).train()
    models["attest"].load_state_dict(models["sdpa"].state_dict())
    return models


class Trainer:
    """A model, its optimizer, and one step."""

    def __init__(self, model, inputs: Dict[str, Any]):
        import torch

        self.model, self.inputs = model, inputs
        self.optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)

    def step(self):
        loss = self.model(**self.inputs).loss
        loss.backward()
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)
        return loss.detach()


def trainers(size: Size, device: str) -> Dict[str, Dict[str, Any]]:
    """By model: the trainers by attention, and the tokens per step."""
    import torch
    import transformers

    import attest.torch

    attest.torch.register_transformers()
    transformers.utils.logging.set_verbosity_error()
    dtype = getattr(torch, size.dtype)
    torch.manual_seed(7)
    tokens = torch.randint(0, size.llama["vocab_size"], (size.batch, size.rows), device=device)
    llama = _both(transformers.LlamaForCausalLM, transformers.LlamaConfig(**size.llama, max_position_embeddings=size.rows),
                  device, dtype)
    config = transformers.ViTConfig(**size.vit, num_labels=10, hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0)
    vit = _both(transformers.ViTForImageClassification, config, device, dtype)
    images = torch.randn(size.images, 3, config.image_size, config.image_size, device=device, dtype=dtype)
    classes = torch.randint(0, 10, (size.images,), device=device)
    patches = size.images * ((config.image_size // config.patch_size) ** 2 + 1)
    return {"llama": {"tokens": tokens.numel(), "problem": f"{size.batch} x {size.rows} tokens",
                      "jobs": {name: Trainer(model, {"input_ids": tokens, "labels": tokens}) for name, model in llama.items()}},
            "vit": {"tokens": patches, "problem": f"{size.images} images, {patches} tokens",
                    "jobs": {name: Trainer(model, {"pixel_values": images, "labels": classes}) for name, model in vit.items()}}}


def compare(jobs: Dict[str, Trainer], steps: int) -> Dict[str, Any]:
    """The losses of that many steps with each attention, and how many calls attest computed and passed on."""
    import attest.torch

    losses = {"sdpa": [jobs["sdpa"].step().item() for _ in range(steps)]}
    with attest.torch.enable() as report:
        losses["attest"] = [jobs["attest"].step().item() for _ in range(steps)]
    return {"losses": losses, "served": report.served, "passed_on": report.passed_on}


def _in_turn(jobs: Dict[str, Any], rounds: int, repeat: int, device: str) -> Dict[str, List[float]]:
    """Seconds of each job, round by round."""
    spent: Dict[str, List[float]] = {name: [] for name in jobs}
    for _ in range(rounds):
        for name in random.sample(list(jobs), len(jobs)):
            _wait(device)
            start = time.perf_counter()
            for _ in range(repeat):
                jobs[name]()
            _wait(device)
            spent[name].append((time.perf_counter() - start) / repeat)
    return spent


def measure_steps(size: Size, device: str, rounds: int) -> List[Dict[str, Any]]:
    kept = []
    for name, each in trainers(size, device).items():
        row: Dict[str, Any] = {"model": name, "problem": each["problem"], "tokens": each["tokens"], "dtype": size.dtype}
        row.update(compare(each["jobs"], STEPS_COMPARED), bar=BARS[size.dtype])
        row["seconds"] = _in_turn({attention: job.step for attention, job in each["jobs"].items()}, rounds, 1, device)
        print(f"{name}, {each['problem']}, {size.dtype}: {rounds} samples of each", flush=True)
        kept.append(row)
    return kept


def _attention_step(function, q, k, v, d_o, causal):
    import torch

    def step():
        torch.autograd.grad(function(q, k, v, is_causal=causal), (q, k, v), d_o)

    return step


def _nothing():
    """An operation of three tensors that computes nothing, forward or backward."""
    import torch

    class Nothing(torch.autograd.Function):
        @staticmethod
        def forward(ctx, q, k, v):
            return torch.empty_like(q)

        @staticmethod
        def backward(ctx, d_o):
            return d_o, d_o, d_o

    return lambda q, k, v, is_causal: Nothing.apply(q, k, v)


def measure_calls(device: str, rounds: int) -> List[Dict[str, Any]]:
    """Forward and backward of attention alone, and of nothing."""
    import torch

    import attest.torch

    gpu, kept = device == "cuda", []
    chosen = ([row.problem for row in problems.gpu_rows(["seed"])] if gpu else
              [problems.square(1, 8, 128, 64, "f32", False), problems.square(1, 8, 512, 64, "f32", True)])
    dtypes = {"f32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}
    for problem in chosen:
        shape = problem.b, problem.hq, problem.sq, problem.d
        q, k, v, d_o = (torch.randn(shape, device=device).to(dtypes[problem.dtype]) for _ in range(4))
        leaves = [x.requires_grad_() for x in (q, k, v)]
        functions = {"sdpa": torch.nn.functional.scaled_dot_product_attention,
                     "attest": attest.torch.scaled_dot_product_attention, "autograd": _nothing()}
        jobs = {name: _attention_step(each, *leaves, d_o, problem.causal) for name, each in functions.items()}
        for job in jobs.values():
            for _ in range(5):
                job()
        spent = _in_turn(jobs, rounds, 100 if gpu else 5, device)
        kept.append({"problem": problem.spec, "seconds": spent})
        print(f"forward and backward, {problem.spec}: {rounds} samples of each", flush=True)
    return kept


def measure(device: Optional[str], rounds: Optional[int], size: Optional[str], path: str) -> None:
    """Take every sample and save them to a file."""
    import torch

    device = device or ("cuda" if torch.cuda.is_available() else "cpu")
    if device == "cuda" and not torch.cuda.is_available():
        raise LookupError("PyTorch finds no GPU here")
    rounds = rounds or (15 if device == "cuda" else 5)
    record.write(path, {"schema": SCHEMA, **record.heading(), "command": record.command(), "torch": torch.__version__,
                        "machine": dict(record.machine(device)),
                        "steps": measure_steps(SIZES[size or ("1b" if device == "cuda" else "small")], device, rounds),
                        "calls": measure_calls(device, rounds)})
