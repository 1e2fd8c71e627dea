"""_transformers_experts.py: experts_implementation="attest" for Hugging Face transformers;
attest.torch.register_transformers() calls it.

A model keeps its own router: this receives the ids and weights of every token. transformers takes other
implementations than its own from 5.7 on.
"""

from __future__ import annotations

import torch
import torch.nn.functional as functional

from . import UnsupportedError
from ._torch_layout import autocast
from ._torch_moe import moe


_SILU, _GELU, _GELU_TANH, _RELU2 = ("swiglu", "silu"), ("geglu", "gelu"), ("geglu-tanh", "gelu-tanh"), (None, "relu2")
_CLASSES = {"SiLU": _SILU, "SiLUActivation": _SILU, "GELUActivation": _GELU, "GELUTanh": _GELU_TANH, "PytorchGELUTanh": _GELU_TANH,
            "NewGELUActivation": _GELU_TANH, "ReLUSquaredActivation": _RELU2}


_FUNCTIONS = {functional.silu: _SILU, functional.gelu: _GELU}
_OPENAI = {"GptOssExperts": ("alpha", "limit"), "OpenAIPrivacyFilterExperts": ("alpha", "limit"),
           "MiniMaxM3VLExperts": ("swiglu_alpha", "swiglu_limit")}  # names of the constants of GPT-OSS's clamped SwiGLU
_IN_FLOAT32 = ("BeamExperts",)  # transformers' own gate, computed in float32, as attest does for every model


def _activation_of(act_fn):
    """attest's name for the activation of a model, with and without a gate; None: attest does not have it."""
    if isinstance(act_fn, torch.nn.GELU):
        return _GELU_TANH if act_fn.approximate == "tanh" else _GELU
    if isinstance(act_fn, torch.nn.Module):
        return _CLASSES.get(type(act_fn).__name__, (None, None))
    return next((found for function, found in _FUNCTIONS.items() if act_fn is function), (None, None))


def _how(module):
    """The activation, its constants, and whether the gate's rows alternate with those of the other factor. What is not
    understood is refused by name: another activation would be another model."""
    from transformers.integrations.moe import _default_apply_gate

    name = type(module).__name__
    if getattr(module, "has_post_expert_norm", False):  # from 5.17 on
        raise UnsupportedError(f"experts_implementation='attest' has no norm behind an expert, which {name} has: use 'grouped_mm' or 'eager'")
    if not module.has_gate:
        activation = _activation_of(module.act_fn)[1]
    elif type(module)._apply_gate is _default_apply_gate or name in _IN_FLOAT32:
        activation = _activation_of(module.act_fn)[0]
    elif name in _OPENAI:
        alpha, limit = (getattr(module, constant) for constant in _OPENAI[name])
        return {"activation": "swiglu-clamped", "alpha": alpha, "limit": limit, "interleaved": not module.is_concatenated}
    else:
        activation = None
    if activation is None:
        raise UnsupportedError(f"experts_implementation='attest' does not know the activation of {name}: use 'grouped_mm' or 'eager'")
    return {"activation": activation, "interleaved": module.has_gate and not module.is_concatenated}


def experts_forward(self, hidden_states, top_k_index, top_k_weights):
    """transformers' experts interface: (tokens, hidden) in and out, in the dtype of the hidden states as for "eager"."""
    has_gate, has_bias = self.has_gate, self.has_bias
    first = self.gate_up_proj if has_gate else self.up_proj
    x, w1, w2 = autocast(hidden_states, first, self.down_proj)
    ids = torch.where(top_k_index < self.num_experts, top_k_index, -1)  # those above are experts of other processes
    y = moe(x.to(w1.dtype), w1, w2, ids=ids, weights=top_k_weights,
            b1=(self.gate_up_proj_bias if has_gate else self.up_proj_bias) if has_bias else None,
            b2=self.down_proj_bias if has_bias else None, transposed=self.is_transposed, **_how(self))
    return y.to(hidden_states.dtype)


def refuse_fp8(self, *_, **__):
    raise UnsupportedError("experts_implementation='attest' does not multiply experts in FP8: use 'grouped_mm' or 'eager'")


def register(name):
    """Register the function with transformers, if its version has such an interface."""
    try:
        from transformers.integrations.moe import ALL_EXPERTS_FUNCTIONS
    except ImportError:
        return
    ALL_EXPERTS_FUNCTIONS.register(name, experts_forward)
    try:
        from transformers.integrations.finegrained_fp8 import ALL_FP8_EXPERTS_FUNCTIONS
    except ImportError:
        return
    ALL_FP8_EXPERTS_FUNCTIONS.register(name, refuse_fp8)  # transformers itself says that the name is not registered
