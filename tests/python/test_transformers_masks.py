"""test_transformers_masks.py: masks as numbers hide what transformers' own hide, and models give the same results with
them; if transformers is installed."""

import copy
import itertools

import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not here: its tests are left out")
transformers = pytest.importorskip("transformers", reason="transformers is not here: its tests are left out")

import attest.torch as at  # noqa: E402
from attest import _torch_spans as spans  # noqa: E402
from attest import _transformers_masks as masks  # noqa: E402
from transformers import masking_utils as theirs  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore")  # warnings of transformers and PyTorch about each other

CAUSAL, FULL = theirs.causal_mask_function, theirs.bidirectional_mask_function


@pytest.fixture(scope="module", autouse=True)
def registered():
    at.register_transformers()


def padding(keys, *spans_of):
    """(batch, keys), True from the first number up to before the second."""
    column = torch.arange(keys)
    return torch.stack([(column >= first) & (column < end) for first, end in spans_of])


def meaning(mask, batch, rows, keys, causal):
    """The meaning of a mask, or None, for attention_forward()."""
    if mask is None:
        ones = torch.ones(batch, 1, rows, keys, dtype=torch.bool)
        return ones.tril() if causal and rows > 1 else ones
    return spans.as_boolean(mask, batch, rows, keys) if spans.is_encoded(mask) else mask


def check_mask(rows, keys, numbers, causal=True, **named):
    """The same as transformers' mask; `numbers`: whether it is numbers or None, rather than a mask that was built."""
    batch = named["attention_mask"].shape[0] if named.get("attention_mask") is not None else 2
    allowed = {"allow_is_causal_skip": causal, "allow_is_bidirectional_skip": not causal}
    got = masks.span_mask(batch_size=batch, q_length=rows, kv_length=keys, **{**allowed, **named})
    wanted = theirs.sdpa_mask(batch_size=batch, q_length=rows, kv_length=keys, **{
        **named, "allow_is_causal_skip": False, "allow_is_bidirectional_skip": False})
    assert (got is None or got.dtype == torch.int32) == numbers
    assert torch.equal(meaning(got, batch, rows, keys, causal), wanted.expand(batch, 1, rows, keys))
    return got


@pytest.mark.parametrize("window", [None, 1, 5, 40])
@pytest.mark.parametrize("which", [None, ((0, 20), (0, 20)), ((7, 20), (0, 20), (19, 20)), ((0, 20), (0, 3)), ((2, 9), (0, 0)),
                                   ((20, 20), (4, 20))])
def test_prefill(window, which):
    function = CAUSAL if window is None else theirs.sliding_window_causal_mask_function(window)
    mask = None if which is None else padding(20, *which)
    got = check_mask(20, 20, True, mask_function=function, attention_mask=mask)
    assert (got is None) == (which in (None, ((0, 20), (0, 20))) and window in (None, 40))


@pytest.mark.parametrize("static", [False, True])
@pytest.mark.parametrize("window", [None, 5])
@pytest.mark.parametrize("rows, past", [(1, 19), (3, 12), (6, 0)])
def test_with_a_cache(static, window, rows, past):
    """Dynamic: as many keys as there are positions. Static: room for more."""
    function = CAUSAL if window is None else theirs.sliding_window_causal_mask_function(window)
    keys = 30 if static else past + rows
    offset = torch.tensor(past) if static else past
    for first in (0, 2):
        mask = padding(past + rows, (first, past + rows), (0, past + rows))
        for each in (None, mask):
            check_mask(rows, keys, True, mask_function=function, attention_mask=each, q_offset=offset,
                       allow_is_causal_skip=not (static and rows == 1))


@pytest.mark.parametrize("past", [9, 25])
def test_with_a_cache_of_a_window(past):
    """The keys begin at a later position than the sequence."""
    mask = padding(past + 1, (4, past + 1), (0, past + 1))
    kv_offset = max(past - 8 + 1, 0)
    for each in (None, mask):
        check_mask(1, past + 1 - kv_offset, True, mask_function=theirs.sliding_window_causal_mask_function(8), q_offset=past,
                   kv_offset=kv_offset, attention_mask=each)


@pytest.mark.parametrize("which", [None, ((0, 9), (3, 15)), ((0, 15), (0, 15))])
@pytest.mark.parametrize("window", [None, 3])
def test_full(which, window):
    function = FULL if window is None else theirs.sliding_window_bidirectional_mask_function(window)
    mask = None if which is None else padding(15, *which)
    check_mask(15, 15, True, causal=False, mask_function=function, attention_mask=mask)
    if window is None:
        check_mask(4, 15, True, causal=False, mask_function=function, attention_mask=mask)


@pytest.mark.parametrize("window", [None, 2])
@pytest.mark.parametrize("positions", [[[0, 1, 2, 0, 1, 0]], [[0, 1, 2, 3, 4, 5], [0, 1, 0, 1, 2, 0]], [[0, 0, 0, 1, 2, 3]]])
def test_packed_sequences(positions, window):
    packed = theirs.find_packed_sequence_indices(torch.tensor(positions))
    function = CAUSAL if window is None else theirs.sliding_window_causal_mask_function(window)
    function = theirs.and_masks(function, theirs.packed_sequence_mask_function(packed))
    batch = len(positions)
    named = {"batch_size": batch, "q_length": 6, "kv_length": 6, "mask_function": function, "allow_is_causal_skip": False}
    got, wanted = masks.span_mask(**named), theirs.sdpa_mask(**named)
    assert got.dtype == torch.int32 and got.shape[3] == int((packed[:, -1] + 1).sum()) + 1
    assert torch.equal(spans.as_boolean(got, batch, 6, 6), wanted)
    x = [torch.randn(batch, 4, 6, 8).requires_grad_() for _ in range(3)]
    o = at._with_spans(*x, got, 0.0, None, None, None)
    other = torch.nn.functional.scaled_dot_product_attention(*x, attn_mask=wanted)
    torch.testing.assert_close(o, other, rtol=1e-5, atol=1e-5)
    for mine, own in zip(*(torch.autograd.grad(y.square().sum(), x) for y in (o, other))):
        torch.testing.assert_close(mine, own, rtol=1e-4, atol=1e-4)


def test_other_masks_are_built():
    holes = padding(12, (0, 12), (0, 12))
    holes[1, 4:6] = False
    check_mask(12, 12, False, attention_mask=holes)
    check_mask(12, 12, False, causal=False, mask_function=FULL, attention_mask=holes)
    check_mask(2, 12, False, q_offset=10, attention_mask=padding(12, (0, 12), (0, 11)))  # right padding before new rows
    check_mask(12, 12, False, mask_function=theirs.chunked_causal_mask_function(4, torch.zeros(2, dtype=torch.int)), local_size=4)
    sometimes = padding(12, (2, 12), (0, 12))
    check_mask(12, 12, False, mask_function=lambda b, h, i, j: j <= i, attention_mask=sometimes)
    check_mask(12, 12, False, mask_function=theirs.or_masks(CAUSAL, FULL), attention_mask=sometimes)
    check_mask(12, 12, False, allow_is_causal_skip=False)
    check_mask(1, 12, False, q_offset=11, allow_is_causal_skip=False)
    config = transformers.FalconConfig()  # goes on computing with the mask
    check_mask(1, 12, False, q_offset=torch.tensor(7), allow_is_causal_skip=False, config=config)
    check_mask(12, 12, False, causal=False, mask_function=FULL, allow_is_bidirectional_skip=False)


@pytest.mark.parametrize("reason", ["float64", "dropout", "head dimension"])
def test_what_is_not_served_gets_the_mask(reason):
    x = torch.randn(2, 4, 9, 320 if reason == "head dimension" else 16, dtype=torch.float64 if reason == "float64" else None)
    mask = spans.encode(torch.tensor([0, 3]), torch.tensor([9, 9]), "bottom-right", None)
    boolean = spans.as_boolean(mask, 2, 9, 9)
    with at.enable() as report:
        torch.manual_seed(1)
        o = at._with_spans(x, x, x, mask, 0.5 if reason == "dropout" else 0.0, None, None, None)
    assert report.served == 0 and report.passed_on == 1
    torch.manual_seed(1)
    wanted = torch.nn.functional.scaled_dot_product_attention(x, x, x, boolean, 0.5 if reason == "dropout" else 0.0)
    torch.testing.assert_close(o, wanted)


def test_numbers_that_are_written_over():
    """Like the inputs of a CUDA graph; and a mask that was copied."""
    x = torch.randn(2, 4, 9, 16)
    mask = spans.encode(torch.tensor([0, 3]), torch.tensor([9, 9]), "bottom-right", None)
    for each in (mask, mask.contiguous()):
        for first in (5, 2):
            each[1, 0, 0, 0] = first
            wanted = torch.nn.functional.scaled_dot_product_attention(x, x, x, spans.as_boolean(each, 2, 9, 9))
            torch.testing.assert_close(at._with_spans(x, x, x, each, 0.0, None, None, None), wanted, rtol=1e-5, atol=1e-5)


def test_compiled_with_the_mask_as_an_input():
    x = torch.randn(2, 4, 9, 16)
    mask = spans.encode(torch.tensor([0, 3]), torch.tensor([9, 9]), "bottom-right", 4)
    run = torch.compile(lambda x, mask: at._with_spans(x, x, x, mask, 0.0, None, 5.0, None), fullgraph=True, backend="aot_eager")
    torch.testing.assert_close(run(x, mask), at._with_spans(x, x, x, mask, 0.0, None, 5.0, None))


# ----------------------------------------------------------------------------------------------------------- models


TINY = {"hidden_size": 64, "intermediate_size": 96, "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2,
        "head_dim": 16, "vocab_size": 99, "max_position_embeddings": 64, "sliding_window": 8, "num_local_experts": 4,
        "num_experts_per_tok": 2, "attn_logit_softcapping": 2.0, "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2}
DECODERS = {"Llama": "LlamaForCausalLM", "Mistral": "MistralForCausalLM", "Gemma2": "Gemma2ForCausalLM",
            "Gemma3Text": "Gemma3ForCausalLM", "GptOss": "GptOssForCausalLM"}


def both(kind, config):
    """The same random weights with eager attention and with attest's."""
    models = []
    for name in ("eager", "attest"):
        torch.manual_seed(5)
        own = copy.deepcopy(config)
        own._attn_implementation = name
        models.append(kind(own).eval())
    models[1].load_state_dict(models[0].state_dict())
    return models


def decoder(name):
    return both(getattr(transformers, DECODERS[name]), getattr(transformers, name + "Config")(**TINY))


class Built:
    """Counts the masks of rows x keys that transformers builds while it is open."""

    def __enter__(self):
        self.count, self.original = 0, theirs.sdpa_mask

        def counting(*arguments, **named):
            mask = self.original(*arguments, **named)
            self.count += mask is not None
            return mask

        theirs.sdpa_mask = counting
        return self

    def __exit__(self, *exception):
        theirs.sdpa_mask = self.original


def close(got, wanted):
    torch.testing.assert_close(got, wanted, rtol=1e-4, atol=1e-4 * wanted.abs().max().item())


@pytest.mark.parametrize("side", ["left", "right", "none"])
@pytest.mark.parametrize("name", DECODERS)
def test_prefill_of_decoders(name, side):
    eager, ours = decoder(name)
    tokens = torch.randint(3, 99, (3, 20))
    mask = {"left": padding(20, (0, 20), (5, 20), (17, 20)), "right": padding(20, (0, 20), (0, 15), (0, 3)),
            "none": padding(20, *[(0, 20)] * 3)}[side]
    with torch.no_grad(), at.enable() as report, Built() as built:
        got = ours(tokens, attention_mask=mask.long()).logits
    assert (report.served, report.passed_on, built.count) == (2, 0, 0)
    with torch.no_grad():
        close(got[mask], eager(tokens, attention_mask=mask.long()).logits[mask])


@pytest.mark.parametrize("name", DECODERS)
def test_packed_sequences_of_decoders(name):
    eager, ours = decoder(name)
    tokens = torch.randint(3, 99, (1, 20))
    positions = torch.cat([torch.arange(n) for n in (11, 1, 8)])[None]
    with torch.no_grad(), at.enable() as report, Built() as built:
        got = ours(tokens, position_ids=positions, use_cache=False).logits
    assert (report.served, report.passed_on, built.count) == (2, 0, 0)
    with torch.no_grad():
        close(got, eager(tokens, position_ids=positions, use_cache=False).logits)


@pytest.mark.parametrize("name, cache", list(itertools.product(DECODERS, ["dynamic", "static"])))
def test_generation_of_decoders(name, cache):
    """Left padding, and more new tokens than the window is wide."""
    eager, ours = decoder(name)
    tokens = torch.randint(3, 99, (2, 12))
    options = {"max_new_tokens": 12, "do_sample": False, "eos_token_id": None, "disable_compile": True,
               "attention_mask": padding(12, (0, 12), (7, 12)).long(),
               **({"cache_implementation": "static"} if cache == "static" else {})}
    with at.enable() as report, Built() as built:
        got = ours.generate(tokens, **options)
    assert report.served == 24 and report.passed_on == 0 and built.count == 0
    assert torch.equal(got, eager.generate(tokens, **options))


def doge():
    """Its mask is a bias, with gradients, whose hidden keys have the lowest number: in rows of padding, all of them."""
    config = transformers.DogeConfig(vocab_size=99, hidden_size=64, intermediate_size=96, num_hidden_layers=2, num_attention_heads=4,
                                     num_key_value_heads=2, max_position_embeddings=64, keep_window_size=8)
    models = both(transformers.DogeForCausalLM, config)
    for model in models:
        for layer, decay in zip(model.model.layers, ((0.5, -1.0), (1.5, 0.3))):
            layer.self_attn.A.data = torch.tensor(decay)  # zeros initially: nothing would depend on the mask
    return models


@pytest.mark.parametrize("name", ["Llama", "Doge"])
def test_training_with_padding(name):
    eager, ours = doge() if name == "Doge" else decoder(name)
    tokens, mask = torch.randint(3, 99, (2, 20)), padding(20, (0, 20), (6, 20))
    labels = tokens.masked_fill(~mask | ~mask.roll(1, 1), -100)  # no row of padding predicts a token
    losses = []
    for model in (eager, ours):
        loss = model(tokens, attention_mask=mask.long(), labels=labels).loss
        loss.backward()
        losses.append(loss)
    close(losses[1], losses[0])
    for wanted, got in zip(eager.parameters(), ours.parameters()):
        torch.testing.assert_close(got.grad, wanted.grad, rtol=1e-3, atol=1e-3 * wanted.grad.abs().max().item())


@pytest.mark.parametrize("side", ["left", "right"])
def test_encoder(side):
    eager, ours = both(transformers.BertModel, transformers.BertConfig(
        hidden_size=64, num_hidden_layers=2, num_attention_heads=4, intermediate_size=96, vocab_size=99, max_position_embeddings=64))
    tokens = torch.randint(3, 99, (2, 20))
    mask = padding(20, (0, 20), (6, 20) if side == "left" else (0, 9))
    with torch.no_grad(), at.enable() as report, Built() as built:
        got = ours(tokens, attention_mask=mask.long()).last_hidden_state
    assert (report.served, report.passed_on, built.count) == (2, 0, 0)
    with torch.no_grad():
        close(got[mask], eager(tokens, attention_mask=mask.long()).last_hidden_state[mask])


def small(name, **more):
    return getattr(transformers, f"{name}Config")(vocab_size=64, hidden_size=32, **more)


OWN_ATTENTION = {
    "Bloom": lambda: small("Bloom", n_layer=2, n_head=4),
    "CodeGen": lambda: transformers.CodeGenConfig(vocab_size=64, n_positions=64, n_ctx=64, n_embd=32, n_layer=2, n_head=4, rotary_dim=4),
    "XGLM": lambda: transformers.XGLMConfig(vocab_size=64, d_model=32, ffn_dim=64, num_layers=2, attention_heads=4),
    "BigBirdPegasus": lambda: transformers.BigBirdPegasusConfig(vocab_size=64, d_model=32, decoder_layers=2, decoder_attention_heads=4,
                                                               decoder_ffn_dim=64, max_position_embeddings=64),
}


@pytest.mark.parametrize("side", [None, "left", "right"])
@pytest.mark.parametrize("name", OWN_ATTENTION)
def test_models_with_attention_of_their_own(name, side):
    """They take attn_implementation="attest" like any other, and must get the masks that they compute with."""
    torch.manual_seed(5)
    model = getattr(transformers, f"{name}ForCausalLM")(OWN_ATTENTION[name]()).eval()
    ids, seen = torch.randint(3, 64, (2, 9)), torch.ones(2, 9, dtype=torch.int64)
    if side is not None:
        seen[0, slice(0, 4) if side == "left" else slice(5, 9)] = 0
    answers = []
    for each in ("eager", "attest"):
        model.config._attn_implementation = each
        with torch.no_grad():
            answers.append(model(ids, attention_mask=None if side is None else seen, use_cache=False).logits[seen.bool()])
    torch.testing.assert_close(*answers, rtol=1e-4, atol=1e-5)


def test_an_encoder_with_no_mask_at_all():
    """CLAP's text model uses the attention function and does not say that it is not causal."""
    eager, ours = both(transformers.ClapTextModel, transformers.ClapTextConfig(**TINY))
    tokens = torch.randint(3, 99, (2, 9))
    with torch.no_grad(), at.enable() as report:
        close(ours(tokens).last_hidden_state, eager(tokens).last_hidden_state)
    assert report.served == 2


@pytest.mark.parametrize("name", ["Doge", "DeepseekV32", "MistralLarge4Text", "Qwen4ExpText"])
def test_models_that_compute_with_the_mask(name):
    """They get a mask of keys also while a static cache decodes, and for packed sequences."""
    config = getattr(transformers, f"{name}Config")()
    asked = dict(batch_size=1, mask_function=CAUSAL, allow_is_causal_skip=False, dtype=torch.float32, config=config)
    decoding = masks.span_mask(q_length=1, kv_length=9, q_offset=torch.tensor(6), **asked)
    assert decoding.dtype == torch.bool and decoding.flatten().tolist() == [True] * 7 + [False] * 2
    packing = theirs.packed_sequence_mask_function(torch.tensor([[0, 0, 1, 1]]))
    packed = masks.span_mask(q_length=4, kv_length=4, **{**asked, "mask_function": theirs.and_masks(CAUSAL, packing)})
    assert packed.dtype == torch.bool and packed[0, 0].int().tolist() == [[1, 0, 0, 0], [1, 1, 0, 0], [0, 0, 1, 0], [0, 0, 1, 1]]


def test_a_model_that_fails_where_it_gets_a_mask():
    """Autoformer weighs distances instead of keys, and its mask does not fit them."""
    config = transformers.AutoformerConfig(prediction_length=4, context_length=8, lags_sequence=[1], d_model=8, encoder_layers=1,
                                           decoder_layers=1, encoder_attention_heads=2, decoder_attention_heads=2,
                                           encoder_ffn_dim=16, decoder_ffn_dim=16, num_time_features=1, label_length=4)
    eager, ours = both(transformers.AutoformerModel, config)
    series = torch.randn(2, 9)
    inputs = {"past_values": series, "past_time_features": torch.randn(2, 9, 1), "past_observed_mask": torch.ones(2, 9),
              "future_values": torch.randn(2, 4), "future_time_features": torch.randn(2, 4, 1)}
    with torch.no_grad():
        close(ours(**inputs).last_hidden_state, eager(**inputs).last_hidden_state)


@pytest.mark.parametrize("padded", [False, True])
def test_a_model_that_gives_the_mask_to_another_layer(padded):
    """SigLIP 2 pools with PyTorch's MultiheadAttention, and the mask goes there too."""
    config = transformers.Siglip2VisionConfig(hidden_size=32, intermediate_size=64, num_hidden_layers=2, num_attention_heads=4,
                                              num_patches=16, patch_size=2)
    eager, ours = both(transformers.Siglip2VisionModel, config)
    images = {"pixel_values": torch.randn(2, 16, 12), "spatial_shapes": torch.tensor([[4, 4], [4, 3 if padded else 4]]),
              "pixel_attention_mask": padding(16, (0, 16), (0, 12 if padded else 16)).long()}
    with torch.no_grad(), at.enable() as report:
        close(ours(**images).pooler_output, eager(**images).pooler_output)
    assert report.served >= 2


def test_models_that_leave_attention_to_others():
    for name in ("Llama", "Bert", "GptOss", "ViT"):
        config = getattr(transformers, f"{name}Config")
        getattr(transformers, f"{name}Model")
        assert not masks._has_own_attention(config)


@pytest.mark.parametrize("which", [((0, 20), (0, 20)), ((0, 20), (6, 20)), ((0, 20), (0, 9)), ((4, 20), (0, 15))])
@pytest.mark.parametrize("keep", [1, 3])
def test_a_model_that_drops_rows_between_layers(which, keep):
    """The last layers of Gemma 4 share the keys of earlier ones and compute only the rows that are asked for; it cuts their
    mask to these rows."""
    config = transformers.Gemma4TextConfig(**{
        **TINY, "num_hidden_layers": 4, "num_kv_shared_layers": 2, "layer_types": ["sliding_attention", "full_attention"] * 2,
        "vocab_size_per_layer_input": 99, "hidden_size_per_layer_input": 16})
    eager, ours = both(transformers.Gemma4ForCausalLM, config)
    tokens, mask = torch.randint(3, 99, (2, 20)), padding(20, *which)
    with torch.no_grad(), at.enable() as report:
        got, wanted = (model(tokens, attention_mask=mask.long(), logits_to_keep=keep).logits for model in (ours, eager))
    assert report.served  # the layers with the window
    seen = mask[:, -keep:]
    close(got[seen], wanted[seen])


@pytest.mark.parametrize("which", [None, ((0, 20), (6, 20)), ((0, 20), (0, 9))])
def test_a_model_that_adds_to_its_mask(which):
    """DeepSeek V4 appends the scores' bias of compressed keys to the mask."""
    config = transformers.DeepseekV4Config(**{
        **TINY, "moe_intermediate_size": 32, "num_key_value_heads": 1, "q_lora_rank": 16, "n_routed_experts": 4, "n_shared_experts": 1,
        "layer_types": ["heavily_compressed_attention", "compressed_sparse_attention"], "mlp_layer_types": ["moe", "moe"],
        "compress_rates": {"compressed_sparse_attention": 4, "heavily_compressed_attention": 16}, "hc_mult": 2, "o_groups": 2,
        "o_lora_rank": 8, "index_n_heads": 2, "index_head_dim": 16, "index_topk": 2, "num_nextn_predict_layers": 0,
        "partial_rotary_factor": 0.5})
    eager, ours = both(transformers.DeepseekV4ForCausalLM, config)
    tokens, mask = torch.randint(3, 99, (2, 20)), padding(20, *(which or [(0, 20)] * 2))
    with torch.no_grad(), at.enable() as report:
        got, wanted = (model(tokens, attention_mask=mask.long()).logits for model in (ours, eager))
    assert report.served == 2
    close(got[mask], wanted[mask])


def test_a_mask_that_is_joined_with_another():
    """T5Gemma 2 puts the masks of its own keys and of the encoder's side by side, while it decodes too."""
    config = transformers.T5Gemma2DecoderConfig()
    mask = masks.span_mask(batch_size=2, q_length=1, kv_length=9, q_offset=8, mask_function=CAUSAL, allow_is_causal_skip=False,
                           local_size=9, dtype=torch.float32, config=config)
    assert mask.shape == (2, 1, 1, 9) and mask.dtype == torch.float32 and not mask.any()
