"""test_transformers.py: a Llama-shaped decoder and a ViT give the same with attest as with PyTorch; where transformers is."""

import copy

import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not here: its tests are left out")
transformers = pytest.importorskip("transformers", reason="transformers is not here: its tests are left out")

import attest.torch as at  # noqa: E402


@pytest.fixture(scope="module", autouse=True)
def registered():
    at.register_transformers()


def both(kind, config):
    """The same random weights with each attention."""
    models = []
    for name in ("sdpa", "attest"):
        torch.manual_seed(5)
        own = copy.deepcopy(config)  # a model looks at its configuration when it runs
        own._attn_implementation = name
        models.append(kind(own).eval())
    models[1].load_state_dict(models[0].state_dict())
    return models


def llama():
    return both(transformers.LlamaForCausalLM, transformers.LlamaConfig(
        hidden_size=128, intermediate_size=256, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2,
        vocab_size=256, max_position_embeddings=256))


def test_decoder_prefill_with_padding():
    theirs, ours = llama()
    tokens = torch.randint(0, 256, (2, 33))
    mask = torch.ones_like(tokens)
    mask[1, :9] = 0
    with torch.no_grad(), at.enable() as report:
        got = ours(tokens).logits
        padded = ours(tokens, attention_mask=mask).logits
    assert report.served == 4 and report.passed_on == 0
    with torch.no_grad():
        torch.testing.assert_close(got, theirs(tokens).logits, rtol=1e-4, atol=1e-4)
        torch.testing.assert_close(padded[mask.bool()], theirs(tokens, attention_mask=mask).logits[mask.bool()],
                                   rtol=1e-4, atol=1e-4)


def test_decoder_generates_with_a_cache():
    theirs, ours = llama()
    tokens = torch.randint(0, 256, (1, 7))
    options = {"max_new_tokens": 12, "do_sample": False, "pad_token_id": 0, "eos_token_id": None}
    with at.enable() as report:
        got = ours.generate(tokens, **options)
    assert report.served >= 24
    assert torch.equal(got, theirs.generate(tokens, **options))


def test_vision_transformer():
    theirs, ours = both(transformers.ViTModel, transformers.ViTConfig(
        hidden_size=96, num_hidden_layers=2, num_attention_heads=3, intermediate_size=192, image_size=64, patch_size=16))
    image = torch.randn(2, 3, 64, 64)
    with torch.no_grad():
        torch.testing.assert_close(ours(image).last_hidden_state, theirs(image).last_hidden_state, rtol=1e-4, atol=1e-4)
