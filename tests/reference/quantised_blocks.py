#!/usr/bin/env python3
"""Writes quantised_blocks.json: bytes of blocks by the package gguf, and the errors of ggml's K quants.

    tests/reference/quantised_blocks.py LIBGGML_BASE

LIBGGML_BASE is ggml's shared library (libggml-base.so of a build of llama.cpp). The values are those of
values() here and in tests/model/quantisers_test.cpp: sums of four uniform numbers, by a linear
congruential generator, so that both have them exactly. Needs: pip install gguf numpy.
"""
import ctypes
import json
import pathlib
import sys

import numpy as np
from gguf import GGMLQuantizationType as Type
from gguf.quants import dequantize, quantize

OUT = pathlib.Path(__file__).with_suffix(".json")
EXACT = ["F16", "BF16", "Q8_0", "Q4_0", "Q4_1", "Q5_0", "Q5_1"]
K_QUANTS = ["Q4_K", "Q5_K", "Q6_K"]
SCALES = [1.0, 0.03, 1e-4]


def values(count: int, seed: int, scale: float) -> np.ndarray:
    state, out = seed, []
    for _ in range(count):
        total = 0
        for _ in range(4):
            state = (state * 1664525 + 1013904223) % 2**32
            total += state >> 8
        out.append((total / 2**24 - 2) * scale)
    return np.array(out, dtype=np.float32)


def ggml_k_quant(library: ctypes.CDLL, type_: Type, x: np.ndarray) -> np.ndarray:
    blocks = {"Q4_K": 144, "Q5_K": 176, "Q6_K": 210}[type_.name]
    out = np.zeros(len(x) // 256 * blocks, dtype=np.uint8)
    pointer = ctypes.c_void_p
    library.ggml_quantize_chunk.restype = ctypes.c_size_t
    written = library.ggml_quantize_chunk(
        ctypes.c_int(type_.value), x.ctypes.data_as(pointer), out.ctypes.data_as(pointer),
        ctypes.c_int64(0), ctypes.c_int64(len(x) // 256), ctypes.c_int64(256), None)
    assert written == len(out)
    return out


def main() -> None:
    library = ctypes.CDLL(sys.argv[1])
    result = {"exact": [], "k_quants": []}
    for seed, scale in enumerate(SCALES, 1):
        x = values(256, seed, scale)
        for name in EXACT:
            data = quantize(x, Type[name]).tobytes()
            result["exact"].append({"type": name.lower(), "seed": seed, "scale": scale, "bytes": data.hex()})
        x = values(16384, seed, scale)
        for name in K_QUANTS:
            back = dequantize(ggml_k_quant(library, Type[name], x), Type[name])
            error = float(np.sqrt(np.mean((back.astype(np.float64) - x.astype(np.float64)) ** 2)))
            result["k_quants"].append({"type": name.lower(), "seed": seed, "scale": scale, "error": error})
    result["first_values"] = [float(v) for v in values(4, 1, 1.0)]
    OUT.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
