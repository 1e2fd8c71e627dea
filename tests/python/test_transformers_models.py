"""test_transformers_models.py: Llama 4, whose layers attend within chunks, Whisper, whose decoder also attends to sound,
PEGASUS-X, and models that choose keys for each row give the answers of eager attention; if transformers is installed."""

import copy

import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not here: its tests are left out")
transformers = pytest.importorskip("transformers", reason="transformers is not here: its tests are left out")

import attest.torch as at  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore")  # warnings of transformers and PyTorch about each other

CHUNK = 8
SIDES = {"none": [(0, 20)] * 3, "left": [(0, 20), (5, 20), (17, 20)], "right": [(0, 20), (0, 15), (0, 3)]}


@pytest.fixture(scope="module", autouse=True)
def registered():
    at.register_transformers()


def both(kind, config, other="eager"):
    """The same random weights with eager attention and with attest's."""
    models = []
    for name in (other, "attest"):
        own = copy.deepcopy(config)
        own._attn_implementation = name
        models.append(kind(own).eval())
    torch.manual_seed(5)
    for weight in models[0].parameters():  # of the initial values some are zeros, or as small
        weight.data = 1 + 0.1 * torch.randn_like(weight) if weight.ndim == 1 else torch.randn_like(weight) * weight.shape[-1] ** -0.5
    models[1].load_state_dict(models[0].state_dict())
    return models


def llama4(**changed):
    """Two layers that attend within chunks, the second of them with experts, and one that attends to everything."""
    return both(transformers.Llama4ForCausalLM, transformers.Llama4TextConfig(**{
        "vocab_size": 99, "hidden_size": 64, "intermediate_size": 48, "intermediate_size_mlp": 96, "num_hidden_layers": 3,
        "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 16, "max_position_embeddings": 64,
        "attention_chunk_size": CHUNK, "no_rope_layers": [1, 1, 0], "moe_layers": [1], "num_local_experts": 4, "floor_scale": 4,
        "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2, **changed}))


def whisper():
    return both(transformers.WhisperForConditionalGeneration, transformers.WhisperConfig(
        vocab_size=99, num_mel_bins=8, d_model=64, encoder_layers=2, encoder_attention_heads=4, encoder_ffn_dim=96, decoder_layers=2,
        decoder_attention_heads=4, decoder_ffn_dim=96, max_source_positions=15, max_target_positions=64, pad_token_id=0,
        bos_token_id=1, eos_token_id=2, decoder_start_token_id=3, begin_suppress_tokens=None))


def padding(side, count=3):
    mask = torch.zeros(count, 20, dtype=torch.bool)
    for row, (first, last) in zip(mask, SIDES[side]):
        row[first:last] = True
    return mask


def close(got, wanted, bar=1e-4):
    torch.testing.assert_close(got, wanted, rtol=bar, atol=bar * wanted.abs().max().item())


def check_gradients(eager, ours, **inputs):
    """The same loss and the same gradient of every weight."""
    losses = [model(**inputs).loss for model in (eager, ours)]
    close(losses[1], losses[0])
    for loss in losses:
        loss.backward()
    for (name, wanted), got in zip(eager.named_parameters(), ours.parameters()):
        assert (wanted.grad is None) == (got.grad is None), name
        if wanted.grad is not None:
            close(got.grad, wanted.grad, 1e-3)


@pytest.mark.parametrize("side", SIDES)
def test_prefill_in_chunks(side):
    eager, ours = llama4()
    tokens, mask = torch.randint(3, 99, (3, 20)), padding(side)
    with torch.no_grad(), at.enable() as report:
        got = ours(tokens, attention_mask=mask.long()).logits
        wanted = eager(tokens, attention_mask=mask.long()).logits
    assert (report.served, report.passed_on) == (3, 0)
    close(got[mask], wanted[mask])


def test_chunks_are_seen():
    """A model without chunks gives another answer: the comparison can fail."""
    tokens = torch.randint(3, 99, (3, 20))
    (eager, _), (_, ours) = llama4(), llama4(attention_chunk_size=64)
    with torch.no_grad():
        wanted, got = eager(tokens).logits, ours(tokens).logits
    close(got[:, :CHUNK], wanted[:, :CHUNK])
    assert (got[:, CHUNK:] - wanted[:, CHUNK:]).abs().max() > 0.01 * wanted.abs().max()


@pytest.mark.parametrize("cache", ["dynamic", "static"])
@pytest.mark.parametrize("side", ["none", "left"])
def test_generation_in_chunks(side, cache):
    """Across the ends of two chunks."""
    eager, ours = llama4()
    tokens = torch.randint(3, 99, (3, 20))
    options = {"max_new_tokens": 12, "do_sample": False, "eos_token_id": None, "disable_compile": True,
               "attention_mask": padding(side).long(), **({"cache_implementation": "static"} if cache == "static" else {}),
               "output_logits": True, "return_dict_in_generate": True}
    with at.enable() as report:
        got = ours.generate(tokens, **options)
    assert (report.served, report.passed_on) == (36, 0)
    wanted = eager.generate(tokens, **options)
    assert torch.equal(got.sequences, wanted.sequences)
    close(torch.stack(got.logits), torch.stack(wanted.logits))


@pytest.mark.parametrize("side", ["none", "left"])
def test_gradients_in_chunks(side):
    eager, ours = llama4()
    tokens, mask = torch.randint(3, 99, (3, 20)), padding(side)
    labels = tokens.masked_fill(~mask | ~mask.roll(1, 1), -100)  # no row of padding predicts a token
    check_gradients(eager, ours, input_ids=tokens, attention_mask=mask.long(), labels=labels)


@pytest.mark.parametrize("side", SIDES)
def test_sound_and_text(side):
    """The encoder sees everything, the decoder its past and all of the sound."""
    eager, ours = whisper()
    sound, tokens, mask = torch.randn(3, 8, 30), torch.randint(3, 99, (3, 20)), padding(side)
    inputs = {"input_features": sound, "decoder_input_ids": tokens, "decoder_attention_mask": mask.long()}
    with torch.no_grad(), at.enable() as report:
        got, wanted = ours(**inputs).logits, eager(**inputs).logits
    assert (report.served, report.passed_on) == (6, 0)
    close(got[mask], wanted[mask])


@pytest.mark.parametrize("cache", ["dynamic", "static"])
@pytest.mark.parametrize("side", ["none", "left"])
def test_transcription(side, cache):
    eager, ours = whisper()
    sound, tokens = torch.randn(3, 8, 30), torch.randint(3, 99, (3, 20))
    options = {"input_features": sound, "decoder_input_ids": tokens, "decoder_attention_mask": padding(side).long(),
               "max_new_tokens": 12, "do_sample": False, "eos_token_id": None, "disable_compile": True,
               **({"cache_implementation": "static"} if cache == "static" else {})}
    with at.enable() as report:
        got = ours.generate(**options)
    assert report.served >= 2 + 12 * 4 and report.passed_on == 0
    assert torch.equal(got, eager.generate(**options))


def test_gradients_of_sound_and_text():
    eager, ours = whisper()
    sound, tokens = torch.randn(3, 8, 30), torch.randint(3, 99, (3, 20))
    check_gradients(eager, ours, input_features=sound, labels=tokens)


def pegasus_x():
    return both(transformers.PegasusXForConditionalGeneration, transformers.PegasusXConfig(
        vocab_size=99, d_model=64, encoder_layers=2, decoder_layers=2, encoder_attention_heads=4, decoder_attention_heads=4,
        encoder_ffn_dim=96, decoder_ffn_dim=96, max_position_embeddings=64, block_size=8, num_global_tokens=4))


@pytest.mark.parametrize("compiled", [False, True])
def test_a_decoder_that_does_not_say_that_it_is_causal(compiled):
    """Without a mask its rows would see the tokens that follow."""
    eager, ours = pegasus_x()
    inputs = {"input_ids": torch.randint(3, 99, (3, 20)), "decoder_input_ids": torch.randint(3, 99, (3, 9))}
    with torch.no_grad(), at.enable() as report:
        got, wanted = (torch.compile(ours, backend="eager") if compiled else ours)(**inputs).logits, eager(**inputs).logits
    assert compiled or (report.served, report.passed_on) == (4, 0)
    close(got, wanted)


SMALL = {"vocab_size": 99, "hidden_size": 64, "intermediate_size": 48, "num_hidden_layers": 2, "num_attention_heads": 4,
         "max_position_embeddings": 128, "num_experts_per_tok": 2, "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2}
LATENT = {**SMALL, "num_key_value_heads": 4, "q_lora_rank": 32, "kv_lora_rank": 16, "qk_rope_head_dim": 8, "qk_nope_head_dim": 8,
          "v_head_dim": 16, "head_dim": 8, "n_routed_experts": 4, "n_shared_experts": 1, "moe_intermediate_size": 32, "n_group": 1,
          "topk_group": 1, "first_k_dense_replace": 1, "index_topk": 4, "index_n_heads": 2, "index_head_dim": 16}


@pytest.mark.parametrize("side", SIDES)
def test_keys_chosen_for_each_row(side):
    eager, ours = both(transformers.DeepseekV32ForCausalLM, transformers.DeepseekV32Config(**LATENT))
    tokens, mask = torch.randint(3, 99, (3, 20)), padding(side)
    with torch.no_grad(), at.enable() as report:
        got, wanted = (model(tokens, attention_mask=mask.long()).logits for model in (ours, eager))
    assert (report.served, report.passed_on) == (2, 0)
    close(got[mask], wanted[mask])
    ours.config.index_topk = 20
    for layer in ours.model.layers:
        layer.self_attn.indexer.index_topk = 20
    with torch.no_grad():
        assert (ours(tokens, attention_mask=mask.long()).logits - wanted)[mask].abs().max() > 0.01  # the choice matters


@pytest.mark.parametrize("cache", ["dynamic", "static"])
def test_generation_with_keys_chosen_for_each_row(cache):
    eager, ours = both(transformers.DeepseekV32ForCausalLM, transformers.DeepseekV32Config(**LATENT))
    options = {"max_new_tokens": 8, "do_sample": False, "eos_token_id": None, "disable_compile": True,
               "attention_mask": padding("left").long(), **({"cache_implementation": "static"} if cache == "static" else {})}
    tokens = torch.randint(3, 99, (3, 20))
    assert torch.equal(ours.generate(tokens, **options), eager.generate(tokens, **options))


@pytest.mark.parametrize("other, side", [("eager", "none"), ("eager", "right"), ("sdpa", "left")])
def test_blocks_of_keys_chosen_for_each_row(other, side):
    """MiniMax-M3. Rows of padding influence which blocks other rows choose, and differ between "eager" and "sdpa"."""
    theirs, ours = both(transformers.MiniMaxM3VLTextModel, transformers.MiniMaxM3VLTextConfig(**{
        **SMALL, "num_key_value_heads": 2, "head_dim": 16, "num_local_experts": 4, "index_n_heads": 2, "index_head_dim": 16,
        "index_block_size": 4, "index_topk_blocks": 2, "index_local_blocks": 1, "dense_intermediate_size": 48,
        "layer_types": ["full_attention", "minimax_m3_sparse"]}), other)
    tokens, mask = torch.randint(3, 99, (3, 20)), padding(side)
    with torch.no_grad(), at.enable() as report:
        got = ours(tokens, attention_mask=mask.long()).last_hidden_state
    assert (report.served, report.passed_on) == (2, 0)
    with torch.no_grad():
        wanted = theirs(tokens, attention_mask=mask.long()).last_hidden_state
    close(got[mask], wanted[mask])
