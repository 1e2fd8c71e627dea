"""test_transformers_experts.py: models with experts give the same results with attest's as with their own; if
transformers is new enough."""

import copy
import importlib
import types

import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not here: its tests are left out")
transformers = pytest.importorskip("transformers", reason="transformers is not here: its tests are left out")
if tuple(int(number) for number in transformers.__version__.split(".")[:2]) < (5, 7):
    pytest.skip("transformers before 5.7 takes no experts but its own: these tests are left out", allow_module_level=True)

import attest  # noqa: E402
import attest.torch as at  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore")

DEVICES = ["cpu"] + ["cuda"] * torch.cuda.is_available()
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


def experts_of(model):
    """The first layer's experts."""
    return next(m for m in model.modules() if type(m).__name__.endswith("Experts"))


def routed(device, dtype, experts=4, top_k=2):
    """Hidden states, and ids and weights as a router gives them."""
    torch.manual_seed(2)
    ids = torch.rand(21, experts).topk(top_k).indices
    return torch.randn(21, 64).to(device, dtype), ids.to(device), torch.rand(21, top_k).to(device, dtype)


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


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("make", [mixtral, qwen3, gpt_oss])
def test_experts_alone(make, device):
    """The same ids and weights for both: no selection depends on rounding."""
    dtype, bar = (torch.float32, 1e-4) if device == "cpu" else (torch.float16, 1e-2)
    results = []
    for model in both(make):
        experts = experts_of(model).to(device, dtype)
        inputs = [x.requires_grad_(x.is_floating_point()) for x in routed(device, dtype)]
        y = experts(*inputs)
        torch.manual_seed(3)
        y.backward(torch.randn(y.shape).to(y))
        results.append([y, inputs[0].grad, inputs[2].grad, *(p.grad for p in experts.parameters())])
    assert attest.last_launch().kernel.startswith("moe_cpu" if device == "cpu" else "moe_sm")
    for theirs, ours in zip(*results):
        torch.testing.assert_close(ours, theirs, rtol=bar, atol=bar)


CONSTANTS = types.SimpleNamespace(
    hidden_size=64, moe_hidden_size=64, moe_latent_size=None, intermediate_size=48, moe_intermediate_size=48, num_experts=4,
    num_local_experts=4, n_routed_experts=4, moe_num_experts=4, hidden_act="silu", hidden_activation="gelu_pytorch_tanh",
    mlp_hidden_act="relu2", swiglu_alpha=1.3, swiglu_limit=0.5, post_norm_eps=1e-6, mlp_bias=False)


def experts_named(module, name, implementation):
    """The experts of a model, without the model; skipped where this release of transformers does not have them."""
    at.register_transformers()
    try:
        made = getattr(importlib.import_module(f"transformers.models.{module}.modeling_{module}"), name)
    except ImportError:
        pytest.skip(f"this release of transformers has no {module}")
    experts = made(types.SimpleNamespace(**vars(CONSTANTS), _experts_implementation=implementation))
    torch.manual_seed(5)
    for parameter in experts.parameters():
        torch.nn.init.normal_(parameter, std=0.3)
    return experts


@pytest.mark.parametrize("module, name", [
    ("aria", "AriaExperts"), ("gemma4", "Gemma4TextExperts"), ("nemotron_h", "NemotronHExperts"), ("lfm2_moe", "Lfm2MoeExperts"),
    ("minimax_m3_vl", "MiniMaxM3VLExperts"), ("openai_privacy_filter", "OpenAIPrivacyFilterExperts"), ("beam", "BeamExperts")])
def test_experts_of_other_forms(module, name):
    """Transposed, without a gate, with GELU, with the activation as a function, with a gate of their own."""
    results = []
    for implementation in ("eager", "attest"):
        experts = experts_named(module, name, implementation)
        inputs = [x.requires_grad_(x.is_floating_point()) for x in routed("cpu", torch.float32)]
        y = experts(*inputs)
        torch.manual_seed(3)
        y.backward(torch.randn(y.shape))
        results.append([y, inputs[0].grad, inputs[2].grad, *(p.grad for p in experts.parameters())])
    assert attest.last_launch().kernel.startswith("moe_cpu")
    for theirs, ours in zip(*results):
        torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=1e-4 * theirs.abs().max().item())


@pytest.mark.parametrize("module, name, text", [
    ("deepseek_v4", "DeepseekV4Experts", "activation of DeepseekV4Experts"), ("glm5_next", "Glm5NextTextExperts", "activation of Glm5NextTextExperts"),
    ("muse_spark", "MuseSparkExperts", "norm behind an expert, which MuseSparkExperts has")])
def test_experts_of_forms_that_attest_lacks(module, name, text):
    experts = experts_named(module, name, "attest")
    with pytest.raises(attest.UnsupportedError, match=text):
        experts(*routed("cpu", torch.float32))


def test_experts_in_fp8_are_refused():
    fp8 = pytest.importorskip("transformers.integrations.finegrained_fp8")
    if not hasattr(fp8, "ALL_FP8_EXPERTS_FUNCTIONS"):
        pytest.skip("this release of transformers has no interface for experts in FP8")
    at.register_transformers()
    config = transformers.MixtralConfig(intermediate_size=128, num_local_experts=4, **{**SMALL, "hidden_size": 128})
    config._experts_implementation = "attest"
    made = transformers.integrations.moe.use_experts_implementation(experts_class=fp8.FP8Experts, experts_interface=fp8.ALL_FP8_EXPERTS_FUNCTIONS)
    experts = made(config=config, block_size=(128, 128))
    with pytest.raises(attest.UnsupportedError, match="experts in FP8"):
        experts(torch.zeros(3, 128), torch.zeros(3, 1, dtype=torch.int64), torch.ones(3, 1))


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("make", [mixtral, qwen3, gpt_oss])
def test_autocast(make, device):
    """Weights in float32 under autocast(bfloat16): values, types and gradients of the model's own loop."""
    theirs, ours = (experts_of(model).to(device) for model in both(make))
    results = []
    for experts in (theirs, ours):
        hidden, ids, weights = routed(device, torch.float32)
        hidden.requires_grad_()
        with torch.autocast(device, dtype=torch.bfloat16):
            y = experts(hidden, ids, weights)
            torch.manual_seed(3)
            y.backward(torch.randn(y.shape).to(y))
        results.append([y, hidden.grad, *(p.grad for p in experts.parameters())])
    for theirs, ours in zip(*results):
        assert ours.dtype == theirs.dtype == torch.float32
        torch.testing.assert_close(ours, theirs, rtol=3e-2, atol=2e-2 * max(1, theirs.abs().max()))


@pytest.mark.parametrize("make", [mixtral, qwen3, gpt_oss])
def test_models_under_autocast(make):
    tokens = torch.randint(0, 128, (2, 21))
    found = []
    for model in both(make):
        with torch.autocast("cpu", dtype=torch.bfloat16):
            result = model(tokens, labels=tokens)
        result.loss.backward()
        found.append(result)
    assert found[1].logits.dtype == found[0].logits.dtype
    torch.testing.assert_close(found[1].loss, found[0].loss, rtol=1e-2, atol=1e-2)


@pytest.mark.parametrize("device", DEVICES)
def test_hidden_states_of_another_type(device):
    """As a norm in float32 in front of weights in bfloat16 makes them; the answer has their type."""
    experts = experts_of(both(mixtral)[1]).to(device, torch.bfloat16)
    hidden, ids, weights = routed(device, torch.float32)
    with torch.no_grad():
        y = experts(hidden, ids, weights)
        assert y.dtype == torch.float32
        assert torch.equal(y, experts(hidden.bfloat16(), ids, weights).float())
        with torch.autocast(device, dtype=torch.bfloat16):
            assert torch.equal(experts(hidden, ids, weights), y)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("wrong", [4, 7, 2**33])
def test_experts_of_other_processes(device, wrong):
    """Ids from the number of experts on add nothing, whether or not the module says that others have some."""
    experts = experts_of(both(mixtral)[1]).to(device, torch.float32 if device == "cpu" else torch.float16)
    hidden, ids, weights = routed(device, experts.down_proj.dtype)
    ids[3] = torch.tensor([wrong, 2])
    with torch.no_grad():
        y = experts(hidden, ids, weights)
        ids[3, 0], weights[3, 0] = 1, 0
        torch.testing.assert_close(y, experts(hidden, ids, weights))


@pytest.mark.parametrize("make", [mixtral, gpt_oss])
def test_modules_that_say_less(make):
    """Releases before 5.17 have neither of these attributes."""
    theirs, ours = (experts_of(model) for model in both(make))
    for name in ("has_post_expert_norm", "_is_expert_parallel"):
        ours.__dict__.pop(name, None)
    with torch.no_grad():
        given = routed("cpu", torch.float32)
        torch.testing.assert_close(ours(*given), theirs(*given), rtol=1e-4, atol=1e-4)


def test_weights_of_gpt_oss_transposed_once():
    """docs/moe.md: the flag says how they are stored."""
    experts = experts_of(both(gpt_oss)[1])
    with torch.no_grad():
        given = routed("cpu", torch.float32)
        wanted = experts(*given)
        for name in ("gate_up_proj", "down_proj"):
            setattr(experts, name, torch.nn.Parameter(getattr(experts, name).transpose(1, 2).contiguous()))
        experts.is_transposed = False
        torch.testing.assert_close(experts(*given), wanted, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("device", DEVICES)
def test_compile_whole(device):
    experts = experts_of(both(qwen3)[1]).to(device, torch.bfloat16)
    given = routed(device, torch.float32)
    with torch.no_grad(), torch.autocast(device, dtype=torch.bfloat16):
        torch.testing.assert_close(torch.compile(experts, fullgraph=True, backend="aot_eager")(*given), experts(*given))


@pytest.mark.parametrize("device", DEVICES)
def test_generation_in_bfloat16(device):
    theirs, ours = both(qwen3)
    tokens = torch.randint(0, 128, (1, 9)).to(device)
    with torch.no_grad():
        a, b = (model.to(device, torch.bfloat16)(tokens).logits.float() for model in (theirs, ours))
        if device == "cpu":  # rounding of other kernels may select other experts
            torch.testing.assert_close(a, b, rtol=5e-2, atol=5e-2)
        out = ours.generate(tokens, max_new_tokens=6, do_sample=False, pad_token_id=0, eos_token_id=None)
    assert out.shape == (1, 15)


def test_what_is_not_understood_is_refused():
    _, ours = both(mixtral)
    experts = experts_of(ours)
    experts.act_fn = torch.nn.Hardswish()
    with pytest.raises(attest.UnsupportedError, match="activation of MixtralExperts"):
        ours(torch.randint(0, 128, (1, 5)))
    experts.has_post_expert_norm = True
    with pytest.raises(attest.UnsupportedError, match="norm behind an expert"):
        ours(torch.randint(0, 128, (1, 5)))
