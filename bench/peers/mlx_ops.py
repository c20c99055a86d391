#!/usr/bin/env python3
"""Times single ops of MLX on the CPU: products of layers' shapes, LoRA forward, LoRA forward and
backward, softmax, layer norm, RMS norm. Prints a JSON line for each. Every timed call ends with
mx.eval of its result.

MLX's wheel contains a reference BLAS; LD_PRELOAD=libopenblas.so.0 replaces it with a fast one.
"""

import argparse
import os
from importlib.metadata import version

from peer_lines import (LORA_SHAPES, LORA_STEP_SHAPE, PRODUCTS, ROW_OPS, ROW_SHAPES, add_op_options,
                        lora_name, print_line, shape_text, us_of_a_call)


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--mode", choices=("eager", "compiled"), default="eager")
    add_op_options(parser)
    return parser.parse_args()


args = parse_arguments()
for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
    os.environ[name] = str(args.threads)  # read by a BLAS when MLX loads it

import mlx.core as mx  # noqa: E402

DTYPE = {"f32": mx.float32, "bf16": mx.bfloat16}[args.dtype]


def random(*shape: int) -> mx.array:
    x = (mx.random.normal(shape) * 0.1).astype(DTYPE)
    mx.eval(x)
    return x


def in_mode(function):
    return mx.compile(function) if args.mode == "compiled" else function


def lora(x, w, a, b):
    return x @ w.T + 2.0 * ((x @ a) @ b)


def product(m: int, n: int, k: int):
    x, w = random(m, k), random(n, k)
    call = in_mode(lambda x, w: x @ w.T)
    return lambda: call(x, w)


def lora_forward(lead, d: int, rank: int):
    operands = random(*lead, d), random(d, d), random(d, rank), random(rank, d)
    call = in_mode(lora)
    return lambda: call(*operands)


def lora_step(lead, d: int, rank: int):
    """The gradients with respect to x, A and B; the loss is sum(y * dy)."""
    w, dy = random(d, d), random(*lead, d)
    operands = random(*lead, d), random(d, rank), random(rank, d)
    loss = lambda x, a, b: (lora(x, w, a, b) * dy).sum()
    call = in_mode(mx.value_and_grad(loss, argnums=(0, 1, 2)))
    return lambda: call(*operands)


def row_op(op: str, rows: int, width: int):
    x, w, b = random(rows, width), random(width), random(width)
    call = in_mode({"softmax": lambda x: mx.softmax(x, axis=-1),
                    "layer_norm": lambda x: mx.fast.layer_norm(x, w, b, 1e-5),
                    "rms_norm": lambda x: mx.fast.rms_norm(x, w, 1e-5)}[op])
    return lambda: call(x)


def workloads():
    """(name, a function that creates the timed call)."""
    for m, n, k in PRODUCTS:
        yield f"gemm/{shape_text(m, n, k)}", lambda: product(m, n, k)
    for lead, d, rank in LORA_SHAPES:
        yield lora_name("lora_linear", lead, d, rank), lambda: lora_forward(lead, d, rank)
    for rows, width in ROW_SHAPES:
        for op in ROW_OPS:
            yield f"{op}/{shape_text(rows, width)}", lambda: row_op(op, rows, width)
    yield lora_name("lora_linear_step", *LORA_STEP_SHAPE), lambda: lora_step(*LORA_STEP_SHAPE)


def main() -> None:
    mx.random.seed(0)
    for work, make in workloads():
        if args.only.search(work):
            call = make()
            print_line(peer="mlx", version=version("mlx"), mode=args.mode, dtype=args.dtype,
                       work=work, threads=args.threads,
                       **us_of_a_call(lambda: mx.eval(call()), args.samples))


if __name__ == "__main__":
    main()
