"""Continuous batching of transformers (`generate_batch`) through attest.flash_attn.install(): the tokens of eager attention.

transformers allows FlashAttention on GPUs only. The program below lifts that, so that the calls it makes, of packed
sequences and of a cache in pages, are tested on the CPU.
"""

import json
import subprocess
import sys

import pytest

PROGRAM = """
import functools, json, sys
import torch
import attest.flash_attn as fa

called = set()
def counted(name, function):
    @functools.wraps(function)
    def call(*arguments, **named):
        called.add(name)
        return function(*arguments, **named)
    return call
for name in ("flash_attn_varlen_func", "flash_attn_with_kvcache"):
    setattr(fa, name, counted(name, getattr(fa, name)))
fa.install()

import transformers
from transformers.generation.configuration_utils import ContinuousBatchingConfig
from transformers.generation.continuous_batching import initialization
from transformers.modeling_utils import PreTrainedModel
from transformers.utils import import_utils

has_gpu, import_utils.is_torch_cuda_available = import_utils.is_torch_cuda_available, lambda: True
import_utils.is_flash_attn_2_available.cache_clear()
assert import_utils.is_flash_attn_2_available()  # which it remembers
import_utils.is_torch_cuda_available = has_gpu
PreTrainedModel._flash_attn_can_dispatch = lambda self, *arguments, **named: True
initialization.is_torch_xpu_available = lambda: True  # another kind of device that reads pages in decode

model_type, options = sys.argv[1], json.loads(sys.argv[2])
torch.manual_seed(0)
config = getattr(transformers, model_type + "Config")(
    vocab_size=97, hidden_size=64, intermediate_size=96, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2,
    max_position_embeddings=256, attn_implementation="flash_attention_2", **options)
model = getattr(transformers, model_type + "ForCausalLM")(config).to(torch.float32).eval()
how = transformers.GenerationConfig(max_new_tokens=9, do_sample=False, eos_token_id=96, pad_token_id=0)
prompts = [[5, 6, 7], list(range(8, 17)), [3] * 40, [1]]
batched = model.generate_batch(inputs=prompts, generation_config=how, continuous_batching_config=ContinuousBatchingConfig(
    page_size=16, num_blocks=64, max_batch_tokens=64, max_blocks_per_request=4))
batched = [batched[name].generated_tokens for name in sorted(batched)]
model.set_attn_implementation("eager")
alone = [model.generate(torch.tensor([prompt]), generation_config=how)[0, len(prompt):].tolist() for prompt in prompts]
print(json.dumps({"equal": batched == alone, "lengths": [len(each) for each in alone], "called": sorted(called)}))
"""


@pytest.mark.parametrize("model, options, called", [
    ("Llama", {}, ["flash_attn_varlen_func", "flash_attn_with_kvcache"]),
    ("Mistral", {"sliding_window": 16}, ["flash_attn_varlen_func"]),  # transformers reads no pages of windows
])
def test_continuous_batching(model, options, called):
    reason = "transformers with continuous batching is not here: its tests are left out"
    pytest.importorskip("transformers.generation.continuous_batching.initialization", reason=reason)
    done = subprocess.run([sys.executable, "-c", PROGRAM, model, json.dumps(options)], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr[-2000:]
    found = json.loads(done.stdout.splitlines()[-1])
    assert found["equal"] and min(found["lengths"]) > 1
    assert found["called"] == called
