"""test_transformers_experts.py: models with experts give the same results with attest's as with their own; if
transformers is new enough."""

import copy

import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not here: its tests are left out")
transformers = pytest.importorskip("transformers", reason="transformers is not here: its tests are left out")
pytest.importorskip("transformers.integrations.moe", reason="transformers has no experts interface: its tests are left out")

import attest  # noqa: E402
import attest.torch as at  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore")

SMALL = dict(hidden_size=64, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2, vocab_size=128, max_position_embeddings=128)


def mixtral():
    return transformers.MixtralForCausalLM, transformers.MixtralConfig(intermediate_size=96, num_local_experts=4, num_experts_per_tok=2, **SMALL)


def qwen3():
    return transformers.Qwen3MoeForCausalLM, transformers.Qwen3MoeConfig(
        intermediate_size=96, moe_intermediate_size=48, num_experts=8, num_experts_per_tok=3, norm_topk_prob=True, head_dim=16, **SMALL)


def gpt_oss():
    return transformers.GptOssForCausalLM, transformers.GptOssConfig(
        intermediate_size=48, num_local_experts=4, num_experts_per_tok=2, head_dim=16, sliding_window=16, **SMALL)


def deepseek_v3():
    return transformers.DeepseekV3ForCausalLM, transformers.DeepseekV3Config(
        intermediate_size=96, moe_intermediate_size=32, n_routed_experts=8, num_experts_per_tok=4, n_group=4, topk_group=2, n_shared_experts=1,
        first_k_dense_replace=1, q_lora_rank=32, kv_lora_rank=32, qk_rope_head_dim=16, qk_nope_head_dim=16, v_head_dim=16,
        **{**SMALL, "num_key_value_heads": 4})


def both(make):
    """The same random weights with each implementation of the experts."""
    at.register_transformers()
    kind, config = make()
    models = []
    for name in ("eager", "attest"):
        torch.manual_seed(7)
        own = copy.deepcopy(config)
        own._attn_implementation = "eager"
        own._experts_implementation = name
        models.append(kind(own).eval())
    for parameter in models[0].parameters():
        if parameter.dim() > 1:  # some experts' weights are created uninitialised
            torch.nn.init.normal_(parameter, std=0.05)
        else:
            torch.nn.init.uniform_(parameter, 0.5, 1.0)
    models[1].load_state_dict(models[0].state_dict())
    return models


@pytest.mark.parametrize("make", [mixtral, qwen3, gpt_oss, deepseek_v3])
def test_logits_and_gradients(make):
    theirs, ours = both(make)
    assert ours.config._experts_implementation == "attest"
    tokens = torch.randint(0, 128, (2, 21))
    losses = []
    for model in (theirs, ours):
        result = model(tokens, labels=tokens)
        result.loss.backward()
        losses.append(result)
    assert attest.last_launch().kernel.startswith("moe_cpu")
    torch.testing.assert_close(losses[1].logits, losses[0].logits, rtol=1e-4, atol=1e-4)
    for (name, a), b in zip(theirs.named_parameters(), ours.parameters()):
        if a.grad is not None:
            torch.testing.assert_close(b.grad, a.grad, rtol=1e-3, atol=1e-5, msg=lambda m, name=name: f"{name}: {m}")


def test_generation_in_bfloat16():
    theirs, ours = both(qwen3)
    tokens = torch.randint(0, 128, (1, 9))
    with torch.no_grad():
        a, b = (model.to(torch.bfloat16)(tokens).logits.float() for model in (theirs, ours))
        torch.testing.assert_close(a, b, rtol=5e-2, atol=5e-2)
        out = ours.generate(tokens, max_new_tokens=6, do_sample=False, pad_token_id=0, eos_token_id=None)
    assert out.shape == (1, 15)


def test_what_is_not_understood_is_refused():
    _, ours = both(mixtral)
    experts = next(m for m in ours.modules() if type(m).__name__ == "MixtralExperts")
    experts.act_fn = torch.nn.Hardswish()
    with pytest.raises(attest.UnsupportedError, match="activation of MixtralExperts"):
        ours(torch.randint(0, 128, (1, 5)))
    experts.has_post_expert_norm = True
    with pytest.raises(attest.UnsupportedError, match="norm behind an expert"):
        ours(torch.randint(0, 128, (1, 5)))
