"""Models with random weights in the shapes of real ones, for the scripts that time PyTorch.

Random weights suffice, because the time of a step does not depend on their values.
"""

import torch
from transformers import LlamaConfig, LlamaForCausalLM

LINEARS = ("q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj")
VOCABULARY = 49152
SHAPES = {
    "smollm2-135m": dict(hidden_size=576, intermediate_size=1536, num_hidden_layers=30,
                         num_attention_heads=9, num_key_value_heads=3),
    "qwen2.5-0.5b": dict(hidden_size=896, intermediate_size=4864, num_hidden_layers=24,
                         num_attention_heads=14, num_key_value_heads=2)}
MODEL = "SmolLM2-135M shape, random weights"


def random_model(vocabulary: int = VOCABULARY, shape: str = "smollm2-135m") -> LlamaForCausalLM:
    """A Llama of these sizes: without the biases that Qwen2 has."""
    torch.manual_seed(0)
    config = LlamaConfig(
        **SHAPES[shape], head_dim=64, vocab_size=vocabulary, max_position_embeddings=8192,
        tie_word_embeddings=True, rms_norm_eps=1e-5, attn_implementation="sdpa",
        rope_parameters={"rope_type": "default", "rope_theta": 100000.0})
    return LlamaForCausalLM(config).float()
