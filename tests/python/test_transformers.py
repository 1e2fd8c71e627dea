"""test_transformers.py: models give the same results with attest as with PyTorch, for everything that their attention
is asked for; if transformers is installed."""

import copy

import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not here: its tests are left out")
transformers = pytest.importorskip("transformers", reason="transformers is not here: its tests are left out")

import attest  # noqa: E402
import attest.torch as at  # noqa: E402
from attest import _transformers  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore")  # warnings of transformers and PyTorch about each other


@pytest.fixture(scope="module", autouse=True)
def registered():
    at.register_transformers()


def both(kind, config, other="sdpa"):
    """The same random weights with each attention."""
    models = []
    for name in (other, "attest"):
        torch.manual_seed(5)
        own = copy.deepcopy(config)  # a model reads its configuration when it runs
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


TINY = {"hidden_size": 64, "intermediate_size": 96, "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2,
        "head_dim": 16, "vocab_size": 99, "max_position_embeddings": 64, "sliding_window": 8, "num_local_experts": 4,
        "num_experts_per_tok": 2, "attn_logit_softcapping": 2.0, "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2}
T5 = {"d_model": 64, "d_ff": 96, "d_kv": 16, "num_heads": 4, "num_layers": 2, "num_decoder_layers": 2, "vocab_size": 99,
      "relative_attention_num_buckets": 8, "pad_token_id": 0, "eos_token_id": 1, "decoder_start_token_id": 0,
      "num_sparse_encoder_layers": 0, "num_sparse_decoder_layers": 0, "initializer_factor": 4.0}


def close(got, wanted, bar=1e-4):
    torch.testing.assert_close(got, wanted, rtol=bar, atol=bar * wanted.abs().max().item())


def check_training(theirs, ours, **inputs):
    """The same loss and the same gradient of every weight."""
    losses = [model(**inputs).loss for model in (theirs, ours)]
    close(losses[1], losses[0])
    for loss in losses:
        loss.backward()
    graded = 0
    for (name, want), got in zip(theirs.named_parameters(), ours.parameters()):
        assert (want.grad is None) == (got.grad is None), name
        if want.grad is not None:
            close(got.grad, want.grad, 1e-3)
            graded += "relative_attention_bias" in name or "sinks" in name or "attn" in name
    assert graded


@pytest.mark.parametrize("name, other, served", [
    ("T5", "sdpa", 6), ("T5", "eager", 6), ("MT5", "sdpa", 6), ("UMT5", "eager", 6), ("SwitchTransformers", "eager", 6),
    ("LongT5", "eager", 4)])  # whose encoder computes its local attention itself
def test_position_bias(name, other, served):
    """The relative position bias affects the scores, and its gradient reaches its table."""
    theirs, ours = both(getattr(transformers, name + "ForConditionalGeneration"), getattr(transformers, name + "Config")(**T5),
                        other)
    for model in (theirs, ours):  # its initial values are all but zero
        for key, weight in model.named_parameters():
            if "relative_attention_bias" in key:
                weight.data = torch.linspace(-3, 3, weight.numel()).view_as(weight)
    tokens, labels = torch.randint(2, 99, (2, 20)), torch.randint(2, 99, (2, 7))
    mask = torch.ones_like(tokens)
    mask[1, 15:] = 0
    inputs = {"input_ids": tokens, "labels": labels, "attention_mask": mask}
    with torch.no_grad(), at.enable() as report:
        got = ours(**inputs).logits
    assert (report.served, report.passed_on) == (served, 0)
    with torch.no_grad():
        close(got, theirs(**inputs).logits)
    options = {"max_new_tokens": 4, "do_sample": False, "eos_token_id": None}
    assert torch.equal(ours.generate(tokens, **options), theirs.generate(tokens, **options))
    for model in (theirs, ours):  # scores for which the softmax has a gradient
        for weight in model.parameters():
            weight.data *= 0.25
    check_training(theirs, ours, **inputs)


def test_position_bias_of_wav2vec2_bert():
    """It depends on the query, so it has a batch."""
    theirs, ours = both(transformers.Wav2Vec2BertModel, transformers.Wav2Vec2BertConfig(
        hidden_size=64, num_hidden_layers=2, num_attention_heads=4, intermediate_size=96, feature_projection_input_dim=20,
        position_embeddings_type="relative_key", vocab_size=99), "eager")
    sound = torch.randn(2, 30, 20)
    with torch.no_grad(), at.enable() as report:
        close(ours(sound).last_hidden_state, theirs(sound).last_hidden_state)
    assert report.served == 2


# Models whose position biases differ from T5's: in where they are made, in what they depend on, and in their inputs.
POSITION_WEIGHTS = ("relative_attention_bias", "distance_embedding", "pos_bias_", "linear_pos.")
SEAMLESS = {"vocab_size": 99, "hidden_size": 64, "max_position_embeddings": 64, "max_source_positions": 64,
            "decoder_layers": 2, "decoder_ffn_dim": 96, "decoder_attention_heads": 4, "speech_encoder_layers": 2,
            "speech_encoder_attention_heads": 4, "speech_encoder_intermediate_size": 96, "feature_projection_input_dim": 20,
            "num_conv_pos_embeddings": 16, "num_conv_pos_embedding_groups": 4, "conv_depthwise_kernel_size": 5}


def patches(batch, count, size):
    """Pictures as Pix2Struct takes them: the row and the column of a patch, then its pixels; the last may be missing."""
    places = torch.stack([torch.arange(count) // 4 + 1, torch.arange(count) % 4 + 1], -1)[None].expand(batch, -1, -1)
    return torch.cat([places, torch.randn(batch, count, size)], -1)


def boxes(batch, count):
    """Where on the page a token stands: left, top, right, bottom."""
    corner = torch.rand(batch, count, 2) * 0.8
    return torch.cat([corner, corner + 0.2 * torch.rand(batch, count, 2)], -1)


def model_with_position_bias(name, other):
    """Its class, its configuration, its inputs, and how many calls of attention there are."""
    tokens, labels = torch.randint(2, 99, (2, 20)), torch.randint(2, 99, (2, 7))
    mask = torch.ones_like(tokens)
    mask[1, 15:] = 0
    of_text = {"input_ids": tokens, "attention_mask": mask, "labels": labels}
    shared = {key: T5[key] for key in ("d_model", "d_ff", "d_kv", "num_heads", "num_layers", "num_decoder_layers", "vocab_size",
                                       "decoder_start_token_id")}
    if name == "Pix2Struct":
        text = {"hidden_size": 64, "d_kv": 16, "d_ff": 96, "num_layers": 2, "num_heads": 4, "vocab_size": 99,
                "relative_attention_num_buckets": 8}
        vision = {"hidden_size": 64, "patch_embed_hidden_size": 12, "d_ff": 96, "d_kv": 16, "num_hidden_layers": 2,
                  "num_attention_heads": 4, "seq_len": 16, "initializer_range": 0.5}
        seen = torch.ones(2, 10)
        seen[1, 8:] = 0
        return (transformers.Pix2StructForConditionalGeneration,
                transformers.Pix2StructConfig(text_config=text, vision_config=vision, initializer_range=0.5),
                {"flattened_patches": patches(2, 10, 12), "attention_mask": seen, "labels": tokens}, 6)
    if name == "Pop2Piano":
        return (transformers.Pop2PianoForConditionalGeneration,
                transformers.Pop2PianoConfig(**shared, relative_attention_num_buckets=8), of_text, 6)
    if name == "Udop":
        return (transformers.UdopForConditionalGeneration,
                transformers.UdopConfig(**shared, max_2d_position_embeddings=64, image_size=32),
                {**of_text, "bbox": boxes(2, 20)}, 6)
    kind, config = getattr(transformers, name + "ForSpeechToText"), getattr(transformers, name + "Config")(**SEAMLESS)
    heard = torch.ones(2, 30, dtype=torch.long)
    heard[1, 25:] = 0
    config.speech_encoder_chunk_size = 30 if other == "eager" else 8
    inputs = {"input_features": torch.randn(2, 30, 20), "attention_mask": heard, "labels": labels}
    if name == "SeamlessM4Tv2" and other == "eager":
        inputs.pop("attention_mask")
    return kind, config, inputs, 7


# The second Seamless makes a boolean mask of its own, which "eager" adds to the scores as zeros and ones: with a mask
# that hides something, only "sdpa" is right.
@pytest.mark.parametrize("name, other", [("Pix2Struct", "eager"), ("Pop2Piano", "eager"), ("Udop", "eager"),
                                         ("SeamlessM4T", "eager"), ("SeamlessM4Tv2", "eager"), ("SeamlessM4Tv2", "sdpa")])
def test_position_bias_of_other_models(name, other):
    """The bias affects the answers, which are the same, and its gradient reaches what it is made from."""
    torch.manual_seed(6)
    kind, config, inputs, served = model_with_position_bias(name, other)
    theirs, ours = both(kind, config, other)
    for model in (theirs, ours):  # initial values with which the bias would affect next to nothing
        for key, weight in model.named_parameters():
            if any(part in key for part in POSITION_WEIGHTS):
                weight.data = torch.linspace(-1, 1, weight.numel()).view_as(weight)
            elif "linear_v." in key or "linear_out." in key:
                weight.data *= 16
    bar = 1e-5 if name.startswith("Seamless") else 1e-4
    with at.enable() as report:
        got = ours(**inputs)
    assert (report.served, report.passed_on) == (served, 0)
    wanted = theirs(**inputs)
    close(got.logits, wanted.logits, bar)
    close(got.loss, wanted.loss)
    got.loss.backward()
    wanted.loss.backward()
    graded = 0
    for (key, weight), other_weight in zip(ours.named_parameters(), theirs.parameters()):
        if any(part in key for part in POSITION_WEIGHTS):
            assert (weight.grad is None) == (other_weight.grad is None), key
            if weight.grad is not None:  # UDOP's decoder has tables that it does not use
                close(weight.grad, other_weight.grad, 1e-3)
                graded += weight.grad.abs().max().item() > 0
            weight.data.zero_()
    assert graded
    with torch.no_grad():
        assert (ours(**inputs).logits - got.logits).abs().max() > 10 * bar * got.logits.abs().max()


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("bias_dtype", [torch.float32, None])
@pytest.mark.parametrize("mask", [None, "causal", "bool", "added"])
@pytest.mark.parametrize("sink", [False, True])
def test_position_bias_with_other_masks(dtype, bias_dtype, mask, sink):
    q, k, v = (torch.randn(2, 4, rows, 16, dtype=dtype) for rows in (9, 13, 13))
    bias = torch.randn(1, 4, 9, 13).to(bias_dtype or dtype)
    hidden = {"bool": torch.rand(2, 1, 9, 13) > 0.3, "added": torch.randn(2, 1, 9, 13, dtype=dtype)}.get(mask)
    sinks = torch.randn(4) if sink else None
    o, _ = _transformers.attention_forward(torch.nn.Module(), q, k, v, hidden, is_causal=mask == "causal", position_bias=bias,
                                           s_aux=sinks)
    scores = q.double() @ k.double().transpose(-1, -2) / 4 + bias
    if mask == "bool":
        scores = scores.masked_fill(~hidden, float("-inf"))
    elif mask == "added":
        scores = scores + hidden
    elif mask == "causal":
        scores = scores.masked_fill(torch.ones(9, 13, dtype=torch.bool).triu(1), float("-inf"))
    if sink:
        scores = torch.cat([scores, sinks[:, None, None].expand(2, 4, 9, 1)], -1)
    wanted = (scores.softmax(-1)[..., :13] @ v.double()).transpose(1, 2)
    torch.testing.assert_close(o.double(), wanted, rtol=0, atol=1e-5 if dtype == torch.float32 else 3e-2)


@pytest.mark.parametrize("named", [{"cache": object()}, {"head_mask": torch.ones(4)}, {"cu_seq_lens_q": torch.tensor([0, 2, 5])},
                                   {"fate": 3}])
def test_an_argument_that_is_not_understood_is_refused(named):
    x = torch.randn(1, 4, 5, 16)
    with pytest.raises(attest.UnsupportedError, match=f"does not know the argument {next(iter(named))}"):
        _transformers.attention_forward(torch.nn.Module(), x, x, x, None, **named)


@pytest.mark.parametrize("rows", [1, 5])
def test_a_mask_of_int32_is_not_taken_for_numbers(rows):
    """A user's mask of zeros and ones; its first row hides all keys."""
    q, k = torch.randn(1, 4, rows, 16), torch.randn(1, 4, 5, 16)
    mask = torch.ones(1, 1, 5, 5, dtype=torch.int32).tril()[:, :, :rows]
    mask[..., :2] = 0
    with pytest.raises(TypeError, match="attention_mask is torch.int32 of the shape"):
        _transformers.attention_forward(torch.nn.Module(), q, k, k, mask)


def test_a_window_must_be_in_the_mask():
    x = torch.randn(1, 4, 5, 16)
    with pytest.raises(attest.UnsupportedError, match="sliding_window=3 is given for 5 keys"):
        _transformers.attention_forward(torch.nn.Module(), x, x, x, None, sliding_window=3)
    for named in ({"attention_mask": torch.ones(5, 5, dtype=torch.bool), "sliding_window": 3},
                  {"attention_mask": None, "sliding_window": 5}):
        assert _transformers.attention_forward(torch.nn.Module(), x, x, x, **named)[0].shape == (1, 5, 4, 16)


def test_arguments_without_a_say_are_taken():
    x = torch.randn(1, 4, 5, 16)
    o, _ = _transformers.attention_forward(
        torch.nn.Module(), x, x, x, None, position_ids=torch.arange(5), use_cache=True, output_attentions=False,
        num_items_in_batch=torch.tensor(3), indices=None, fate=False, labels=torch.arange(5), logits_to_keep=1,
        pixel_values=torch.ones(2), image_position_ids=torch.arange(5), mm_token_type_ids=torch.arange(5), generation_mode="text")
    wanted = torch.nn.functional.scaled_dot_product_attention(x, x, x, is_causal=True)
    torch.testing.assert_close(o, wanted.transpose(1, 2))


@pytest.mark.parametrize("name", ["Gemma2", "GptOss"])
def test_softcap_and_sinks(name):
    """The same in prefill with padding, in generation, in training, and compiled."""
    theirs, ours = both(getattr(transformers, name + "ForCausalLM"), getattr(transformers, name + "Config")(**TINY), "eager")
    tokens = torch.randint(3, 99, (2, 20))
    mask = torch.ones_like(tokens)
    mask[1, :5] = 0
    with torch.no_grad(), at.enable() as report:
        got = ours(tokens, attention_mask=mask).logits
    assert (report.served, report.passed_on) == (2, 0)
    with torch.no_grad():
        close(got[mask.bool()], theirs(tokens, attention_mask=mask).logits[mask.bool()])
        compiled = torch.compile(ours.model, fullgraph=True, backend="aot_eager")
        close(compiled(tokens, use_cache=False).last_hidden_state, theirs.model(tokens, use_cache=False).last_hidden_state)
    options = {"max_new_tokens": 4, "do_sample": False, "eos_token_id": None}
    assert torch.equal(ours.generate(tokens, **options), theirs.generate(tokens, **options))
    check_training(theirs, ours, input_ids=tokens, labels=tokens)


@pytest.mark.parametrize("name, changed, reason", [
    ("Gemma2", {"head_dim": 320}, "320"), ("Gemma2", {"attention_dropout": 0.5}, "dropout_p=0.5"),
    ("Gemma2", {"dtype": torch.float64}, "float64"), ("GptOss", {"head_dim": 320}, "320"),
    ("GptOss", {"attention_dropout": 0.5}, "dropout_p=0.5")])
def test_softcap_and_sinks_fall_back(name, changed, reason):
    config = getattr(transformers, name + "Config")(**{**TINY, **changed})
    theirs, ours = both(getattr(transformers, name + "ForCausalLM"), config, "eager")
    if "dtype" in changed:
        theirs, ours = theirs.double(), ours.double()
    tokens = torch.randint(3, 99, (2, 20))
    if "attention_dropout" not in changed:
        with torch.no_grad(), at.enable() as report:
            close(ours(tokens).logits, theirs(tokens).logits)
        assert report.served == 0
    with at.enable() as report:
        loss = ours.train()(tokens, labels=tokens).loss
        loss.backward()
    assert report.served == 0 and report.passed_on >= 2 and reason in str(report)
    assert torch.isfinite(loss)
