"""Random LoRA adapters for a GGUF model of the architecture "llama", each written twice: a folder
in PEFT's format (safetensors), and a GGUF file as llama.cpp reads it. All linear layers have one,
in f32. Uses Python's standard library only.

GGUF files of this architecture store the rows of q and k per head in the order 0, h/2, 1,
h/2 + 1, ... of Hugging Face's rows, so the rows of their lora_b are in the same order. Formats:
https://github.com/ggml-org/ggml/blob/master/docs/gguf.md (version 3),
https://huggingface.co/docs/safetensors, https://huggingface.co/docs/peft.
"""

import json
import mmap
import random
import struct
import sys
from array import array
from dataclasses import dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from report import shallow_gguf  # noqa: E402

ALIGNMENT = 32
F32, UINT32, FLOAT32, STRING = 0, 4, 6, 8
VALUES = 65521  # the period of the random values, a prime
# The bounds of uniform values; their product changes the logits, and keeps replies finite.
BOUND_A, BOUND_B = 0.1, 0.05
MODULES = {"attn_q": "self_attn.q_proj", "attn_k": "self_attn.k_proj",
           "attn_v": "self_attn.v_proj", "attn_output": "self_attn.o_proj",
           "ffn_gate": "mlp.gate_proj", "ffn_up": "mlp.up_proj", "ffn_down": "mlp.down_proj"}


@dataclass(frozen=True)
class Base:
    layers: int
    heads: int
    key_heads: int
    sizes: dict  # GGUF name of a layer: (outputs, inputs)


@dataclass(frozen=True)
class Pair:
    layer: int
    name: str     # in GGUF
    outputs: int
    inputs: int
    a: bytes      # [R, inputs]
    b: bytes      # [outputs, R]


def read_base(path):
    """Raises ValueError if the model has another architecture."""
    with open(path, "rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
        pairs, _, keys, tensors, _ = shallow_gguf.read_header(data)
    at = keys["general.architecture"][1]
    size, = struct.unpack_from("<Q", pairs, at)
    family = bytes(pairs[at + 8:at + 8 + size]).decode()
    if family != "llama":
        raise ValueError(f"{path}: architecture llama was required, got {family}")
    sizes = {}
    for name, info, _ in tensors:
        block, _, rest = name.removeprefix("blk.").partition(".")
        if block == "0" and rest.removesuffix(".weight") in MODULES:
            inputs, outputs = struct.unpack_from("<QQ", info, 8 + len(name) + 4)
            sizes[rest.removesuffix(".weight")] = (outputs, inputs)
    layers, heads, key_heads = (
        struct.unpack_from("<I", pairs, keys[f"llama.{key}"][1])[0]
        for key in ("block_count", "attention.head_count", "attention.head_count_kv"))
    return Base(layers, heads, key_heads, sizes)


def pairs_of(base, rank, seed):
    generator = random.Random(f"adapter {seed}")
    pool = array("f", (generator.uniform(-1, 1) for _ in range(VALUES)))

    def values(count, bound):
        at = generator.randrange(VALUES)
        scaled = array("f", (bound * pool[(at + i) % VALUES] for i in range(count)))
        return scaled.tobytes()

    return [Pair(layer, name, outputs, inputs, values(rank * inputs, BOUND_A),
                 values(outputs * rank, BOUND_B))
            for layer in range(base.layers) for name, (outputs, inputs) in base.sizes.items()]


def write_peft(folder, pairs, rank, alpha):
    folder.mkdir(parents=True, exist_ok=True)
    settings = {"peft_type": "LORA", "task_type": "CAUSAL_LM", "r": rank, "lora_alpha": alpha,
                "target_modules": sorted({path.split(".")[1] for path in MODULES.values()}),
                "bias": "none", "lora_dropout": 0.0, "fan_in_fan_out": False}
    (folder / "adapter_config.json").write_text(json.dumps(settings, indent=1), encoding="utf-8")
    header, parts, at = {}, [], 0
    for pair in pairs:
        path = f"base_model.model.model.layers.{pair.layer}.{MODULES[pair.name]}"
        for suffix, shape, data in (("lora_A", (rank, pair.inputs), pair.a),
                                    ("lora_B", (pair.outputs, rank), pair.b)):
            header[f"{path}.{suffix}.weight"] = {"dtype": "F32", "shape": shape,
                                                 "data_offsets": (at, at + len(data))}
            parts.append(data)
            at += len(data)
    head = json.dumps(header).encode()
    head = head.ljust(-(-len(head) // 8) * 8)
    data = struct.pack("<Q", len(head)) + head + b"".join(parts)
    (folder / "adapter_model.safetensors").write_bytes(data)


def interleaved(rows, heads, row_bytes):
    """The rows of each head in the order 0, h/2, 1, h/2 + 1, ..."""
    half = len(rows) // row_bytes // heads // 2
    order = [head * 2 * half + part * half + row
             for head in range(heads) for row in range(half) for part in (0, 1)]
    return b"".join(rows[row * row_bytes:(row + 1) * row_bytes] for row in order)


def _text(value):
    data = value.encode()
    return struct.pack("<Q", len(data)) + data


def _metadata(alpha):
    texts = {"general.architecture": "llama", "general.type": "adapter", "adapter.type": "lora"}
    keys = [_text(key) + struct.pack("<I", STRING) + _text(value) for key, value in texts.items()]
    return [*keys, _text("adapter.lora.alpha") + struct.pack("<If", FLOAT32, alpha)]


def _padded(count):
    return -(-count // ALIGNMENT) * ALIGNMENT


def write_gguf(path, pairs, base, rank, alpha):
    heads = {"attn_q": base.heads, "attn_k": base.key_heads}
    infos, parts, at = [], [], 0
    for pair in pairs:
        b = interleaved(pair.b, heads[pair.name], 4 * rank) if pair.name in heads else pair.b
        for suffix, sizes, data in (("lora_a", (pair.inputs, rank), pair.a),
                                    ("lora_b", (rank, pair.outputs), b)):
            infos.append(_text(f"blk.{pair.layer}.{pair.name}.weight.{suffix}")
                         + struct.pack("<IQQIQ", 2, *sizes, F32, at))
            parts.append(data.ljust(_padded(len(data)), b"\0"))
            at += len(parts[-1])
    keys = _metadata(alpha)
    head = struct.pack("<4sIQQ", b"GGUF", 3, len(infos), len(keys)) + b"".join(keys + infos)
    path.write_bytes(head.ljust(_padded(len(head)), b"\0") + b"".join(parts))


def write(model, folder, count, rank=8, alpha=16.0):
    """Writes adapters FOLDER/0, FOLDER/0.gguf, FOLDER/1, ... and returns [(folder, file)]."""
    base, made = read_base(model), []
    for number in range(count):
        pairs = pairs_of(base, rank, number)
        made.append((Path(folder) / str(number), Path(folder) / f"{number}.gguf"))
        write_peft(made[-1][0], pairs, rank, alpha)
        write_gguf(made[-1][1], pairs, base, rank, alpha)
    return made
