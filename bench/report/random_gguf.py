"""GGUF files of random 4-bit weights in the shapes of real models: Q4_0 with a Q6_K head, as llama.cpp
quantises them, without a tokeniser. Times and memory do not depend on the values, and nothing is
downloaded. Uses Python's standard library only; the speed is that of the disk. Format:
https://github.com/ggml-org/ggml/blob/master/docs/gguf.md, version 3.

  python3 -m report.random_gguf llama-3.1-8b FILE.gguf     (in bench/)
"""

import random
import struct
import sys
from pathlib import Path

from report.random_model import Shape

ALIGNMENT = 32
BLOCKS = 4093  # the period of the blocks, a prime: no two rows of a matrix are alike
UINT32, FLOAT32, STRING = 4, 6, 8
F32, Q4_0, Q6_K = 0, 2, 14
BLOCK = {F32: (1, 4), Q4_0: (32, 18), Q6_K: (256, 210)}  # elements and bytes

SHAPES = {"llama-3.1-8b": Shape(4096, 14336, 32, 32, 8, 128256, False, "llama", 128),
          "llama-3.1-8b-2-layers": Shape(4096, 14336, 2, 32, 8, 128256, False, "llama", 128),
          "tiny": Shape(256, 512, 4, 4, 2, 512, False, "llama", 64)}


def text(value):
    data = value.encode()
    return struct.pack("<Q", len(data)) + data


def metadata(shape):
    numbers = {"block_count": shape.layers, "context_length": 1 << 20,
               "embedding_length": shape.hidden_size, "feed_forward_length": shape.intermediate_size,
               "attention.head_count": shape.heads, "attention.head_count_kv": shape.key_heads,
               "rope.dimension_count": shape.head_dim, "vocab_size": shape.vocabulary}
    keys = [text("general.architecture") + struct.pack("<I", STRING) + text(shape.family)]
    keys += [text(f"llama.{key}") + struct.pack("<II", UINT32, value)
             for key, value in numbers.items()]
    keys += [text(f"llama.{key}") + struct.pack("<If", FLOAT32, value)
             for key, value in (("attention.layer_norm_rms_epsilon", 1e-5),
                                ("rope.freq_base", 5e5))]
    return keys


def tensors(shape):
    """(name, sizes with the row length last, type) of every tensor, in file order."""
    hidden, keys = shape.hidden_size, shape.key_heads * shape.head_dim
    queries, inner = shape.heads * shape.head_dim, shape.intermediate_size
    yield "token_embd.weight", (shape.vocabulary, hidden), Q4_0
    for layer in range(shape.layers):
        for name, sizes in (("attn_q", (queries, hidden)), ("attn_k", (keys, hidden)),
                            ("attn_v", (keys, hidden)), ("attn_output", (hidden, queries)),
                            ("ffn_gate", (inner, hidden)), ("ffn_up", (inner, hidden)),
                            ("ffn_down", (hidden, inner))):
            yield f"blk.{layer}.{name}.weight", sizes, Q4_0
        for norm in ("attn_norm", "ffn_norm"):
            yield f"blk.{layer}.{norm}.weight", (hidden,), F32
    yield "output_norm.weight", (hidden,), F32
    yield "output.weight", (shape.vocabulary, hidden), Q6_K


def bytes_of(sizes, kind):
    elements, size = BLOCK[kind]
    count = sizes[0] * (sizes[1] if len(sizes) > 1 else 1)
    return count // elements * size


def padded(count):
    return -(-count // ALIGNMENT) * ALIGNMENT


def header(shape):
    infos, at = [], 0
    for name, sizes, kind in tensors(shape):
        dimensions = struct.pack(f"<I{len(sizes)}Q", len(sizes), *reversed(sizes))
        infos.append(text(name) + dimensions + struct.pack("<IQ", kind, at))
        at += padded(bytes_of(sizes, kind))
    keys = metadata(shape)
    data = struct.pack("<4sIQQ", b"GGUF", 3, len(infos), len(keys)) + b"".join(keys + infos)
    return data.ljust(padded(len(data)), b"\0")


def block(generator, kind):
    """A block whose weights have a deviation of about 0.02."""
    if kind == Q4_0:
        return struct.pack("<e", 0.0045) + generator.randbytes(16)
    scales = bytes(generator.choice((1, 255)) for _ in range(16))  # 1 or -1
    return generator.randbytes(192) + scales + struct.pack("<e", 0.0011)


def write(path, shape):
    generator = random.Random(0)
    values = {kind: b"".join(block(generator, kind) for _ in range(BLOCKS)) * 2
              for kind in (Q4_0, Q6_K)}
    part = path.with_name(path.name + ".part")
    with open(part, "wb") as file:
        file.write(header(shape))
        for _, sizes, kind in tensors(shape):
            left = bytes_of(sizes, kind)
            end = padded(left) - left
            if kind == F32:
                file.write(struct.pack("<f", 1) * (left // 4))
            else:
                size = BLOCK[kind][1]
                begin = size * generator.randrange(BLOCKS)
                period = memoryview(values[kind])[begin:begin + size * BLOCKS]
                while left > 0:
                    left -= file.write(period[:left])
            file.write(bytes(end))
    part.replace(path)


if __name__ == "__main__":
    write(Path(sys.argv[2]), SHAPES[sys.argv[1]])
