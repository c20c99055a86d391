"""Model folders of random bf16 weights in the shapes of real models: config.json and model.safetensors,
which clora and transformers can open. Times do not depend on the values, and nothing is downloaded.
Uses Python's standard library only; the speed is that of the disk.

  python3 -m report.random_model qwen2.5-0.5b FOLDER     (in bench/)
"""

import json
import random
import struct
import sys
from dataclasses import dataclass
from pathlib import Path

VALUES = 1048573  # the period of the weights, a prime: no two rows of a matrix are alike
DEVIATION = 0.02


@dataclass(frozen=True)
class Shape:
    hidden_size: int
    intermediate_size: int
    layers: int
    heads: int
    key_heads: int
    vocabulary: int
    tied: bool
    family: str = "qwen2"
    head_dim: int = 64


SHAPES = {"qwen2.5-0.5b": Shape(896, 4864, 24, 14, 2, 151936, True),
          "qwen2.5-7b": Shape(3584, 18944, 28, 28, 4, 152064, False, head_dim=128),
          "qwen3-0.6b": Shape(1024, 3072, 28, 16, 8, 151936, True, "qwen3", 128),
          "gemma3-1b": Shape(1152, 6912, 26, 4, 1, 262144, True, "gemma3_text", 256),
          "tiny": Shape(128, 256, 2, 2, 1, 512, True)}

# What config.json has besides the sizes.
FAMILIES = {
    "qwen2": {"architectures": ["Qwen2ForCausalLM"], "hidden_act": "silu", "rope_theta": 1e6,
              "use_sliding_window": False},
    "qwen3": {"architectures": ["Qwen3ForCausalLM"], "hidden_act": "silu", "rope_theta": 1e6,
              "attention_bias": False},
    "gemma3_text": {"architectures": ["Gemma3ForCausalLM"], "rope_theta": 1e6,
                    "hidden_activation": "gelu_pytorch_tanh", "rope_local_base_freq": 1e4,
                    "query_pre_attn_scalar": 256, "sliding_window": 512,
                    "sliding_window_pattern": 6}}
NORMS = {"qwen2": ("input_layernorm", "post_attention_layernorm"),
         "qwen3": ("input_layernorm", "post_attention_layernorm"),
         "gemma3_text": ("input_layernorm", "post_attention_layernorm",
                         "pre_feedforward_layernorm", "post_feedforward_layernorm")}


def config(shape):
    return {"model_type": shape.family, "head_dim": shape.head_dim,
            "hidden_size": shape.hidden_size, "intermediate_size": shape.intermediate_size,
            "num_hidden_layers": shape.layers, "num_attention_heads": shape.heads,
            "num_key_value_heads": shape.key_heads, "vocab_size": shape.vocabulary,
            "rms_norm_eps": 1e-6, "max_position_embeddings": 32768,
            "tie_word_embeddings": shape.tied, "torch_dtype": "bfloat16",
            **FAMILIES[shape.family]}


def layer_tensors(shape, layer):
    attention = shape.heads * shape.head_dim
    keys = shape.key_heads * shape.head_dim
    linears = {"self_attn.q_proj": (attention, shape.hidden_size),
               "self_attn.k_proj": (keys, shape.hidden_size),
               "self_attn.v_proj": (keys, shape.hidden_size),
               "self_attn.o_proj": (shape.hidden_size, attention),
               "mlp.gate_proj": (shape.intermediate_size, shape.hidden_size),
               "mlp.up_proj": (shape.intermediate_size, shape.hidden_size),
               "mlp.down_proj": (shape.hidden_size, shape.intermediate_size)}
    for name, sizes in linears.items():
        yield f"model.layers.{layer}.{name}.weight", sizes
        if shape.family == "qwen2" and name[-6:] in ("q_proj", "k_proj", "v_proj"):
            yield f"model.layers.{layer}.{name}.bias", sizes[:1]
    for norm in ("self_attn.q_norm", "self_attn.k_norm") if shape.family != "qwen2" else ():
        yield f"model.layers.{layer}.{norm}.weight", (shape.head_dim,)
    for norm in NORMS[shape.family]:
        yield f"model.layers.{layer}.{norm}.weight", (shape.hidden_size,)


def tensors(shape):
    """(name, sizes) of every tensor, in file order."""
    yield "model.embed_tokens.weight", (shape.vocabulary, shape.hidden_size)
    for layer in range(shape.layers):
        yield from layer_tensors(shape, layer)
    yield "model.norm.weight", (shape.hidden_size,)
    if not shape.tied:
        yield "lm_head.weight", (shape.vocabulary, shape.hidden_size)


def elements(sizes):
    return sizes[0] * (sizes[1] if len(sizes) > 1 else 1)


def bf16(value):
    """The bytes of a float truncated to bf16."""
    return struct.pack("<f", value)[2:]


def header(shape):
    described, at = {}, 0
    for name, sizes in tensors(shape):
        end = at + 2 * elements(sizes)
        described[name] = {"dtype": "BF16", "shape": list(sizes), "data_offsets": [at, end]}
        at = end
    text = json.dumps(described).encode()
    text += b" " * (-len(text) % 8)
    return struct.pack("<Q", len(text)) + text


def random_values():
    generator = random.Random(0)
    return b"".join(bf16(generator.gauss(0, DEVIATION)) for _ in range(VALUES))


def write_weights(file, shape):
    values = random_values()
    twice = values + values  # a tensor begins anywhere in the first half
    generator = random.Random(1)
    for name, sizes in tensors(shape):
        left = 2 * elements(sizes)
        if "norm" in name:
            stored = 0.0 if shape.family == "gemma3_text" else 1.0  # Gemma's files: less 1
            file.write(bf16(stored) * (left // 2))
            continue
        begin = 2 * generator.randrange(VALUES)
        period = memoryview(twice)[begin:begin + len(values)]
        while left > 0:
            left -= file.write(period[:left])


def write(folder, shape):
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_text(json.dumps(config(shape), indent=1) + "\n")
    part = folder / "model.safetensors.part"
    with open(part, "wb") as file:
        file.write(header(shape))
        write_weights(file, shape)
    part.replace(folder / "model.safetensors")


def ensure_model(folder, name):
    """The folder of the model with this name below `folder`, created if absent."""
    own = folder / name
    if not (own / "model.safetensors").exists():
        write(own, SHAPES[name])
    return own


if __name__ == "__main__":
    write(Path(sys.argv[2]), SHAPES[sys.argv[1]])
