"""model_shapes.py: the models of the group `models`: real sizes of their layers for a GPU, tiny ones for a CPU.

Windows and chunks that are longer than the inputs of the bench would do nothing: they are 1,024 there.
"""

from __future__ import annotations

from typing import Any, Dict, NamedTuple


class Model(NamedTuple):
    """A class of transformers, its configuration at real and at tiny sizes, and its inputs."""

    kind: str
    config: Dict[str, Any]
    tiny: Dict[str, Any]
    inputs: str = "decoder"  #: "decoder", "encoder", "both" (text to text), "sound" (to text), "image"
    experts: bool = False  #: the implementations are those of the experts


def _decoder(hidden, inner, heads, heads_kv, d, layers, **more):
    return {"hidden_size": hidden, "intermediate_size": inner, "num_attention_heads": heads, "num_key_value_heads": heads_kv,
            "head_dim": d, "num_hidden_layers": layers, "vocab_size": 32000, "max_position_embeddings": 8192, "pad_token_id": 0, **more}


def _tiny(**more):
    return {**_decoder(64, 96, 4, 2, 16, 2), "vocab_size": 99, "max_position_embeddings": 64, **more}


_DEEPSEEK = {"n_shared_experts": 1, "first_k_dense_replace": 0, "n_routed_experts": 256, "num_experts_per_tok": 8, "n_group": 8,
             "topk_group": 4, "moe_intermediate_size": 2048, "q_lora_rank": 1536, "kv_lora_rank": 512, "qk_rope_head_dim": 64,
             "qk_nope_head_dim": 128, "v_head_dim": 128, "head_dim": 64}
_DEEPSEEK_TINY = {**_DEEPSEEK, "n_routed_experts": 8, "num_experts_per_tok": 4, "n_group": 4, "topk_group": 2,
                  "moe_intermediate_size": 32, "q_lora_rank": 32, "kv_lora_rank": 32, "qk_rope_head_dim": 16, "qk_nope_head_dim": 16,
                  "v_head_dim": 16, "head_dim": 16, "num_key_value_heads": 4}
_WHISPER = {"d_model": 1280, "encoder_layers": 4, "encoder_attention_heads": 20, "encoder_ffn_dim": 5120, "decoder_layers": 4,
            "decoder_attention_heads": 20, "decoder_ffn_dim": 5120, "num_mel_bins": 128}

MODELS = {
    "llama": Model("LlamaForCausalLM", _decoder(4096, 14336, 32, 8, 128, 4), _tiny()),
    "mistral": Model("MistralForCausalLM", _decoder(4096, 14336, 32, 8, 128, 4, sliding_window=1024), _tiny(sliding_window=8)),
    "gemma2": Model("Gemma2ForCausalLM", _decoder(3584, 14336, 16, 8, 256, 4, sliding_window=1024), _tiny(sliding_window=8)),
    "gemma3": Model("Gemma3ForCausalLM", _decoder(3840, 15360, 16, 8, 256, 6, sliding_window=1024),
                    _tiny(sliding_window=8, layer_types=["sliding_attention", "full_attention"])),
    "gpt-oss": Model("GptOssForCausalLM", _decoder(2880, 2880, 64, 8, 64, 2, num_local_experts=32, num_experts_per_tok=4,
                                                   sliding_window=128),
                     _tiny(num_local_experts=4, num_experts_per_tok=2, sliding_window=8)),
    "llama4": Model("Llama4ForCausalLM", _decoder(5120, 8192, 40, 8, 128, 4, intermediate_size_mlp=16384, moe_layers=[3],
                                                  attention_chunk_size=1024),
                    _tiny(intermediate_size_mlp=96, moe_layers=[1], num_local_experts=4, attention_chunk_size=8,
                          no_rope_layers=[1, 0])),
    "bert": Model("BertModel", {"hidden_size": 1024, "num_hidden_layers": 4, "num_attention_heads": 16, "intermediate_size": 4096,
                                "max_position_embeddings": 4096},
                  {"hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 96, "vocab_size": 99},
                  "encoder"),
    "t5": Model("T5ForConditionalGeneration", {"d_model": 1024, "d_ff": 4096, "d_kv": 64, "num_heads": 16, "num_layers": 4,
                                               "decoder_start_token_id": 0},
                {"d_model": 64, "d_ff": 96, "d_kv": 16, "num_heads": 4, "num_layers": 2, "vocab_size": 99, "decoder_start_token_id": 0},
                "both"),
    "whisper": Model("WhisperForConditionalGeneration", _WHISPER,
                     {"d_model": 64, "encoder_layers": 2, "encoder_attention_heads": 4, "encoder_ffn_dim": 96, "decoder_layers": 2,
                      "decoder_attention_heads": 4, "decoder_ffn_dim": 96, "num_mel_bins": 8, "max_source_positions": 15,
                      "vocab_size": 99, "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2, "decoder_start_token_id": 3},
                     "sound"),
    "vit": Model("ViTModel", {"hidden_size": 1024, "num_hidden_layers": 4, "num_attention_heads": 16, "intermediate_size": 4096},
                 {"hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 96, "image_size": 32,
                  "patch_size": 8}, "image"),
    "mixtral": Model("MixtralForCausalLM", _decoder(4096, 14336, 32, 8, 128, 2), _tiny(num_local_experts=4, num_experts_per_tok=2),
                     experts=True),
    "qwen3-moe": Model("Qwen3MoeForCausalLM", _decoder(2048, 6144, 32, 4, 128, 2, moe_intermediate_size=768, num_experts=128,
                                                       num_experts_per_tok=8, norm_topk_prob=True),
                       _tiny(moe_intermediate_size=48, num_experts=8, num_experts_per_tok=3, norm_topk_prob=True), experts=True),
    "deepseek-v3": Model("DeepseekV3ForCausalLM", _decoder(7168, 18432, 128, 128, 64, 1, **_DEEPSEEK), _tiny(**_DEEPSEEK_TINY),
                         experts=True),
}
