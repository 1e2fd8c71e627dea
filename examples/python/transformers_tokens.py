"""transformers_tokens.py: tokens per second of Hugging Face models with PyTorch's attention and with attest's.

    python3 examples/python/transformers_tokens.py [--device cpu|cuda] [--size small|1b] [--prompt 512] [--new 64]
                                                   [--rounds 5] [--json FILE]

A Llama-shaped decoder and a ViT with random weights, the same for both. Outputs are compared first; then prefill,
generation with a cache, and images are timed alternately, in random order, round by round. Exit status 1 if outputs
differ or attest did not compute the attention.
"""

import argparse
import copy
import json
import random
import statistics
import sys
import time

import torch
import transformers

import attest
import attest.torch

SIZES = {
    "tiny": {"hidden_size": 128, "intermediate_size": 256, "num_hidden_layers": 2, "num_attention_heads": 4,
             "num_key_value_heads": 2, "vocab_size": 512},
    "small": {"hidden_size": 512, "intermediate_size": 1408, "num_hidden_layers": 8, "num_attention_heads": 8,
              "num_key_value_heads": 4, "vocab_size": 8192},
    "1b": {"hidden_size": 2048, "intermediate_size": 8192, "num_hidden_layers": 16, "num_attention_heads": 32,
           "num_key_value_heads": 8, "vocab_size": 32000},
}
VIT = {"tiny": {"hidden_size": 96, "num_hidden_layers": 2, "num_attention_heads": 3, "intermediate_size": 192,
                "image_size": 64, "patch_size": 16},
       "small": {"hidden_size": 384, "num_hidden_layers": 12, "num_attention_heads": 6, "intermediate_size": 1536},
       "1b": {"hidden_size": 768, "num_hidden_layers": 12, "num_attention_heads": 12, "intermediate_size": 3072}}
NAMES = ("sdpa", "attest")
SAMPLE_SECONDS = 0.1


def both(kind, config, device, dtype):
    """The same random weights with each attention."""
    models = {}
    for name in NAMES:
        torch.manual_seed(5)
        own = copy.deepcopy(config)  # a model reads its configuration when it runs
        own._attn_implementation = name
        with torch.device(device):
            models[name] = kind(own).to(dtype).eval()
    models["attest"].load_state_dict(models["sdpa"].state_dict())
    return models


def wait(device):
    if device == "cuda":
        torch.cuda.synchronize()


def seconds_of(job, repeat, device):
    wait(device)
    start = time.perf_counter()
    for _ in range(repeat):
        job()
    wait(device)
    return (time.perf_counter() - start) / repeat


def in_turn(jobs, rounds, device):
    """Seconds of each job, round by round; short jobs are repeated, so that a sample is long enough."""
    repeat = max(1, int(SAMPLE_SECONDS / max(seconds_of(job, 1, device) for job in jobs.values())))
    spent = {name: [] for name in jobs}
    for _ in range(rounds):
        for name in random.sample(list(jobs), len(jobs)):
            spent[name].append(seconds_of(jobs[name], repeat, device))
    return spent


def far_apart(theirs, ours):
    """The largest difference, relative to the largest value."""
    return ((ours.float() - theirs.float()).abs().max() / theirs.float().abs().max()).item()


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--size", choices=list(SIZES), help="1b on a GPU, small on a CPU")
    parser.add_argument("--batch", type=int, default=1)
    parser.add_argument("--prompt", type=int, default=512)
    parser.add_argument("--new", type=int, default=32)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--json")
    a = parser.parse_args()
    size = a.size or ("1b" if a.device == "cuda" else "small")
    dtype = torch.bfloat16 if a.device == "cuda" else torch.float32
    bar = 0.05 if dtype == torch.bfloat16 else 1e-3
    attest.torch.register_transformers()
    transformers.utils.logging.set_verbosity_error()
    llama = both(transformers.LlamaForCausalLM, transformers.LlamaConfig(
        **SIZES[size], max_position_embeddings=a.prompt + a.new), a.device, dtype)
    vit = both(transformers.ViTModel, transformers.ViTConfig(**VIT[size]), a.device, dtype)
    tokens = torch.randint(0, SIZES[size]["vocab_size"], (a.batch, a.prompt), device=a.device)
    side = vit["sdpa"].config.image_size
    images = torch.randn(8, 3, side, side, device=a.device, dtype=dtype)
    generation = {"max_new_tokens": a.new, "min_new_tokens": a.new, "do_sample": False, "pad_token_id": 0,
                  "eos_token_id": None}
    kinds = {
        "prefill, tokens/s": (a.batch * a.prompt, lambda m: (lambda: llama[m](tokens, logits_to_keep=1).logits)),
        "generation with cache, tokens/s": (a.batch * a.new, lambda m: (lambda: llama[m].generate(tokens, **generation))),
        "ViT, images/s": (len(images), lambda m: (lambda: vit[m](images).last_hidden_state)),
    }
    kept, failed = [], False
    with torch.no_grad():
        for kind, (units, make) in kinds.items():
            jobs = {name: make(name) for name in NAMES}
            outputs = {"sdpa": jobs["sdpa"]()}
            with attest.torch.enable() as report:
                outputs["attest"] = jobs["attest"]()
            apart = far_apart(*(outputs[name] for name in NAMES)) if "generation" not in kind else (
                (outputs["sdpa"] != outputs["attest"]).float().mean().item())
            good = report.served > 0 and (apart <= bar or "generation" in kind and a.device == "cuda")
            failed = failed or not good
            spent = in_turn(jobs, a.rounds, a.device)
            rate = {name: units / statistics.median(spent[name]) for name in NAMES}
            ratio = statistics.median(s / o for s, o in zip(spent["sdpa"], spent["attest"]))
            kept.append({"kind": kind, "units": units, "seconds": spent, "apart": apart, "served": report.served,
                         "passed_on": report.passed_on, "times_sdpa": ratio})
            print(f"{kind:34} sdpa {rate['sdpa']:10.1f}   attest {rate['attest']:10.1f}   x {ratio:.3f}   "
                  f"{'tokens' if 'generation' in kind else 'outputs'} apart {apart:.1e}, {report.served} served"
                  f"{'' if good else ': WRONG'}", flush=True)
    if a.json:
        with open(a.json, "w", encoding="utf-8") as file:
            json.dump({"schema": "attest-transformers-1", "attest": attest.__version__, "torch": torch.__version__,
                       "transformers": transformers.__version__, "device": attest.devices()[-1].name, "size": size,
                       "prompt": a.prompt, "new": a.new, "batch": a.batch, "dtype": str(dtype), "rows": kept}, file, indent=1)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
