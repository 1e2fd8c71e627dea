"""_transformers_experts.py: experts_implementation="attest" for Hugging Face transformers;
attest.torch.register_transformers() calls it.

A model keeps its own router: this receives the ids and weights of every token.
"""

from __future__ import annotations

import torch

from . import UnsupportedError
from ._torch_moe import moe


_SILU, _GELU, _GELU_TANH, _RELU2 = ("swiglu", "silu"), ("geglu", "gelu"), ("geglu-tanh", "gelu-tanh"), (None, "relu2")
_CLASSES = {"SiLU": _SILU, "SiLUActivation": _SILU, "GELUActivation": _GELU, "GELUTanh": _GELU_TANH, "PytorchGELUTanh": _GELU_TANH,
            "NewGELUActivation": _GELU_TANH, "ReLUSquaredActivation": _RELU2}


def _activation_of(act_fn):
    """attest's name for the activation of a model, with and without a gate; None: attest does not have it."""
    if isinstance(act_fn, torch.nn.GELU):
        return _GELU_TANH if act_fn.approximate == "tanh" else _GELU
    return _CLASSES.get(type(act_fn).__name__, (None, None))


def _how(module):
    """The activation and its constants. What is not understood is refused by name: another activation would be
    another model."""
    from transformers.integrations.moe import _default_apply_gate

    name = type(module).__name__
    if module.has_post_expert_norm:
        raise UnsupportedError(f"experts_implementation='attest' has no norm behind an expert, which {name} has: use 'grouped_mm' or 'eager'")
    if not module.has_gate:
        activation = _activation_of(module.act_fn)[1]
    elif type(module)._apply_gate is _default_apply_gate:
        activation = _activation_of(module.act_fn)[0]
    elif name == "GptOssExperts":
        return {"activation": "swiglu-clamped", "alpha": module.alpha, "limit": module.limit}
    else:
        activation = None
    if activation is None:
        raise UnsupportedError(f"experts_implementation='attest' does not know the activation of {name}: use 'grouped_mm' or 'eager'")
    return {"activation": activation}


def experts_forward(self, hidden_states, top_k_index, top_k_weights):
    """transformers' experts interface: (tokens, hidden) in and out."""
    has_bias = self.has_bias
    ids = top_k_index
    if self._is_expert_parallel:  # those of other processes
        ids = torch.where(ids >= self.num_experts, -1, ids)
    return moe(hidden_states, self.gate_up_proj if self.has_gate else self.up_proj, self.down_proj, ids=ids, weights=top_k_weights,
               b1=(self.gate_up_proj_bias if self.has_gate else self.up_proj_bias) if has_bias else None,
               b2=self.down_proj_bias if has_bias else None, interleaved=self.has_gate and not self.is_concatenated,
               transposed=self.is_transposed, **_how(self))


def register(name):
    """Register the function with transformers, if its version has such an interface."""
    try:
        from transformers.integrations.moe import ALL_EXPERTS_FUNCTIONS
    except ImportError:
        return
    ALL_EXPERTS_FUNCTIONS.register(name, experts_forward)
