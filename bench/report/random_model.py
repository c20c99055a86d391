"""Model folders of random bf16 weights in the shapes of Qwen2.5: config.json and model.safetensors,
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

    @property
    def head_dim(self):
        return self.hidden_size // self.heads


SHAPES = {"qwen2.5-0.5b": Shape(896, 4864, 24, 14, 2, 151936, True),
          "qwen2.5-7b": Shape(3584, 18944, 28, 28, 4, 152064, False),
          "tiny": Shape(128, 256, 2, 2, 1, 512, True)}


def config(shape):
    return {"architectures": ["Qwen2ForCausalLM"], "model_type": "qwen2",
            "hidden_size": shape.hidden_size, "intermediate_size": shape.intermediate_size,
            "num_hidden_layers": shape.layers, "num_attention_heads": shape.heads,
            "num_key_value_heads": shape.key_heads, "vocab_size": shape.vocabulary,
            "rms_norm_eps": 1e-6, "rope_theta": 1e6, "max_position_embeddings": 32768,
            "tie_word_embeddings": shape.tied, "hidden_act": "silu", "torch_dtype": "bfloat16",
            "use_sliding_window": False}


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
        if name[-6:] in ("q_proj", "k_proj", "v_proj"):
            yield f"model.layers.{layer}.{name}.bias", sizes[:1]
    for norm in ("input_layernorm", "post_attention_layernorm"):
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
            file.write(bf16(1.0) * (left // 2))
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
