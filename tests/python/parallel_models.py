"""parallel_models.py: transformers' models and PyTorch's function over a group compared with one process;
test_parallel.py runs it."""

import sys
import warnings

import torch
import torch.distributed as dist
import transformers

import attest
import attest.torch
from attest.torch import parallel
from parallel_ranks import on_ranks
from torch._subclasses import FakeTensorMode

ROWS = 50
COMMON = {"vocab_size": 64, "hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2, "num_attention_heads": 4,
          "num_key_value_heads": 2, "use_cache": False}
MODELS = {
    "llama": lambda: transformers.LlamaConfig(**COMMON), "mistral": lambda: transformers.MistralConfig(**COMMON, sliding_window=11),
    "gemma2": lambda: transformers.Gemma2Config(**COMMON, head_dim=8, sliding_window=9, attn_logit_softcapping=4.0,
                                                query_pre_attn_scalar=8),
    "gpt_oss": lambda: transformers.GptOssConfig(**COMMON, head_dim=8, sliding_window=9, num_local_experts=4, num_experts_per_tok=2,
                                                 layer_types=["sliding_attention", "full_attention"]),
}


def model_of(name):
    torch.manual_seed(1)
    config = MODELS[name]()
    config._attn_implementation = "attest"
    return transformers.AutoModelForCausalLM.from_config(config, attn_implementation="attest").train()


def logits_and_gradients(model, weights, **inputs):
    logits = model(**inputs).logits
    (logits * weights).sum().backward()
    return logits.detach(), {name: each.grad for name, each in model.named_parameters()}


def models(rank, size):
    ids, weights = torch.randint(64, (2, ROWS)), torch.randn(2, ROWS, 64)
    for name in MODELS:
        wanted, wanted_grads = logits_and_gradients(model_of(name), weights, input_ids=ids)
        for cut, how in ((parallel.zigzag(ROWS, size), {}), (parallel.contiguous(ROWS, size), {"method": "ulysses"})):
            with parallel.enable(cut, **how) as report:
                found, grads = logits_and_gradients(model_of(name), cut.shard(weights, rank), input_ids=cut.shard(ids, rank),
                                                    position_ids=cut.positions(rank)[None])
            assert report.served == 2 and report.passed_on == 0
            torch.testing.assert_close(found, cut.shard(wanted, rank), rtol=1e-4, atol=1e-5)
            for each, grad in grads.items():
                dist.all_reduce(grad)
                torch.testing.assert_close(grad, wanted_grads[each], rtol=1e-3, atol=2e-4,
                                           msg=lambda text: f"{name} {each}: {text}")


SMALL = {**COMMON, "num_key_value_heads": 4}
ROPE = {"rope_theta": 10000.0}


def long_rope(known):
    """Other frequencies for sequences of more than `known` positions."""
    rope = {**ROPE, "rope_type": "longrope", "short_factor": [1.0] * 4, "long_factor": [4.0] * 4, "original_max_position_embeddings": known}
    return transformers.Phi3Config(**SMALL, pad_token_id=0, max_position_embeddings=96, original_max_position_embeddings=known,
                                   rope_parameters=rope)


def whole_only(rank, size):
    """What a model computes outside attention from more than a shard is refused, on every rank: frequencies from the last
    position, unless they are the same, and layers other than attention; and positions that begin at 0 on every rank."""
    ids, cut = torch.randint(64, (1, ROWS)), parallel.zigzag(ROWS, size)
    dynamic = transformers.LlamaConfig(**SMALL, max_position_embeddings=16, rope_parameters={**ROPE, "rope_type": "dynamic", "factor": 4.0})
    convolution = transformers.Lfm2Config(**SMALL, layer_types=["conv", "full_attention"])
    found = []
    for config, positions in ((long_rope(ROWS - 5), True), (dynamic, True), (convolution, True), (transformers.LlamaConfig(**SMALL), False)):
        model = transformers.AutoModelForCausalLM.from_config(config, attn_implementation="attest")
        try:
            with warnings.catch_warnings(), parallel.enable(cut):
                model(input_ids=cut.shard(ids, rank), position_ids=cut.positions(rank)[None] if positions else None)
            found.append("nothing")
        except (attest.UnsupportedError, ValueError) as error:
            found.append(str(error))
    wanted = ("rope_type='longrope'", "rope_type='dynamic'", "layers of the type conv", "position_ids are 0 to 24 on rank")
    assert len(found) == len(wanted) and all(part in text for part, text in zip(wanted, found)), found
    model = transformers.AutoModelForCausalLM.from_config(long_rope(ROWS // 2), attn_implementation="attest")
    with torch.no_grad():
        wanted = model(input_ids=ids).logits
        with parallel.enable(cut):  # every rank has rows behind the middle
            logits = model(input_ids=cut.shard(ids, rank), position_ids=cut.positions(rank)[None]).logits
    torch.testing.assert_close(logits, cut.shard(wanted, rank), rtol=1e-4, atol=1e-5)


def padding(rank, size):
    """Lengths of the whole are given to enable(), and an attention_mask is refused."""
    model, ids, cut = model_of("llama"), torch.randint(64, (2, ROWS)), parallel.zigzag(ROWS, size)
    lens = torch.tensor([ROWS, 31])
    seen = torch.arange(ROWS) < lens[:, None]
    wanted = model(input_ids=ids, attention_mask=seen.long()).logits
    inputs = {"input_ids": cut.shard(ids, rank), "position_ids": cut.positions(rank)[None]}
    with parallel.enable(cut, lens_k=lens):
        found = model(**inputs).logits
        try:
            model(**inputs, attention_mask=cut.shard(seen, rank).long())
            raise AssertionError("an attention_mask was taken")
        except attest.UnsupportedError as refused:
            assert "attention_mask" in str(refused) and "lens_k" in str(refused)
    mine = cut.shard(seen, rank)
    torch.testing.assert_close(found[mine], cut.shard(wanted, rank)[mine], rtol=1e-4, atol=1e-5)


def function(rank, size):
    """torch.nn.functional.scaled_dot_product_attention, which is restored afterwards."""
    call = torch.nn.functional.scaled_dot_product_attention
    q, k, v = torch.randn(2, 4, ROWS, 8), torch.randn(2, 2, ROWS, 8), torch.randn(2, 2, ROWS, 8)
    wanted, cut = call(q, k, v, is_causal=True, enable_gqa=True), parallel.zigzag(ROWS, size)
    mine = [cut.shard(x, rank, 2) for x in (q, k, v)]
    with attest.torch.enable() as outer:
        with parallel.enable(cut) as report:
            o = torch.nn.functional.scaled_dot_product_attention(*mine, is_causal=True, enable_gqa=True)
            for wrong in ({"attn_mask": torch.ones(1, 1, dtype=torch.bool)}, {"dropout_p": 0.5}):
                try:
                    torch.nn.functional.scaled_dot_product_attention(*mine, enable_gqa=True, **wrong)
                    raise AssertionError(f"{wrong} was taken")
                except attest.UnsupportedError as refused:
                    assert next(iter(wrong)) in str(refused)
        torch.nn.functional.scaled_dot_product_attention(q, k, v, enable_gqa=True)
    assert torch.nn.functional.scaled_dot_product_attention is call and report.served == 1 and outer.served == 2
    torch.testing.assert_close(o, cut.shard(wanted, rank, 2), rtol=1e-5, atol=1e-5)


def nested(rank, size):
    """attest.torch.enable() within, opened and closed in any order: the group computes while parallel.enable() is open."""
    call, cut = torch.nn.functional.scaled_dot_product_attention, parallel.zigzag(ROWS, size)
    x = torch.randn(2, 4, ROWS, 8)
    mine, wanted = cut.shard(x, rank, 2), cut.shard(call(x, x, x, is_causal=True), rank, 2)

    def check():
        o = torch.nn.functional.scaled_dot_product_attention(mine, mine, mine, is_causal=True)
        torch.testing.assert_close(o, wanted, rtol=1e-5, atol=1e-5)

    with parallel.enable(cut) as report:
        with attest.torch.enable() as inner:
            check()
        check()
        later = attest.torch.enable()
        check()
    assert (report.served, inner.served, later.served) == (3, 1, 1)
    alone = torch.nn.functional.scaled_dot_product_attention(mine, mine, mine)
    torch.testing.assert_close(alone, call(mine, mine, mine), rtol=1e-5, atol=1e-5)
    assert later.served == 2
    later.close()
    assert torch.nn.functional.scaled_dot_product_attention is call


def float32_on_a_gpu(rank, size):
    """attest has no GPU kernel for its gradients: refused before anything is exchanged."""
    cut = parallel.zigzag(ROWS, size)
    with FakeTensorMode():
        x = torch.zeros(1, 4, cut.rows_of(rank), 8, device="cuda", requires_grad=True)
        try:
            parallel.attention(x, x, x, cut)
            raise AssertionError("float32 was taken")
        except attest.UnsupportedError as refused:
            assert "float32 tensors on a GPU require a gradient" in str(refused)


def axes(rank, size):
    """The function with any number of axes, and without a call."""
    call, cut = torch.nn.functional.scaled_dot_product_attention, parallel.zigzag(ROWS, size)
    for lead in ((), (3,), (2, 3), (2, 1, 3)):
        given = [torch.randn(*lead, ROWS, 8) for _ in range(3)]
        with parallel.enable(cut):
            o = torch.nn.functional.scaled_dot_product_attention(*(cut.shard(x, rank, -2) for x in given), is_causal=True)
        torch.testing.assert_close(o, cut.shard(call(*given, is_causal=True), rank, -2), rtol=1e-5, atol=1e-5)
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        with parallel.enable(cut):
            pass
    assert len(told) == 1 and "no attention was computed over the group" in str(told[0].message)


def layers(rank, size):
    """torch.nn's layers, also in evaluation, where they have a way of their own without the function."""
    cut, x = parallel.zigzag(ROWS, size), torch.randn(2, ROWS, 32)
    layer = torch.nn.TransformerEncoderLayer(32, 4, 48, dropout=0.0, batch_first=True).eval()
    with torch.no_grad():
        wanted = layer(x)
        with parallel.enable(cut) as report:
            found = layer(cut.shard(x, rank))
    assert report.served == 1 and torch.backends.mha.get_fastpath_enabled()
    torch.testing.assert_close(found, cut.shard(wanted, rank), rtol=1e-4, atol=1e-5)


def all_of_it(rank, size):
    torch.manual_seed(3)
    for each in (models, whole_only, padding, function, nested, float32_on_a_gpu, axes, layers):
        each(rank, size)


if __name__ == "__main__":
    attest.set_threads(1)
    attest.torch.register_transformers()
    for ranks in map(int, sys.argv[1:]):
        on_ranks(ranks, all_of_it)
        print(ranks, flush=True)
