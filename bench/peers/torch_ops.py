#!/usr/bin/env python3
"""Times single ops of PyTorch on the CPU: products of layers' shapes, LoRA forward, LoRA forward
and backward, softmax, layer norm, RMS norm. Prints a JSON line for each.

Modes: eager; compiled (torch.compile); frozen (torch.compile with weights packed once, for ops with
weights and no backward pass); onednn (the plain products by torch's own oneDNN, called directly
with weights that were packed once). Every call uses the same buffers, so data that fits in the
caches stays there.
"""

import argparse

import torch
import torch.nn.functional as F

from peer_lines import (LORA_SHAPES, LORA_STEP_SHAPE, PRODUCTS, ROW_OPS, ROW_SHAPES, add_op_options,
                        lora_name, print_line, shape_text, us_of_a_call)

DTYPES = {"f32": torch.float32, "bf16": torch.bfloat16}


def random(args, *shape: int) -> torch.Tensor:
    return (torch.randn(*shape) * 0.1).to(DTYPES[args.dtype])


class Lora(torch.nn.Module):
    """y = x W^T + 2 (x A) B; W [d, d] is frozen, A [d, r], B [r, d]."""

    def __init__(self, args, d: int, rank: int):
        super().__init__()
        self.w = torch.nn.Parameter(random(args, d, d), requires_grad=False)
        self.a = torch.nn.Parameter(random(args, d, rank))
        self.b = torch.nn.Parameter(random(args, rank, d))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return F.linear(x, self.w) + 2.0 * ((x @ self.a) @ self.b)


class Product(torch.nn.Module):
    def __init__(self, args, n: int, k: int):
        super().__init__()
        self.w = torch.nn.Parameter(random(args, n, k), requires_grad=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return F.linear(x, self.w)


class RowOp(torch.nn.Module):
    def __init__(self, args, op: str, width: int):
        super().__init__()
        self.op, self.width = op, width
        self.w, self.b = random(args, width), random(args, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if self.op == "softmax":
            return torch.softmax(x, -1)
        if self.op == "layer_norm":
            return F.layer_norm(x, (self.width,), self.w, self.b, 1e-5)
        return F.rms_norm(x, (self.width,), self.w, 1e-5)


def in_mode(args, module: torch.nn.Module):
    if args.mode == "eager":
        return module.forward
    torch._dynamo.reset()
    return torch.compile(module)


def onednn_product(args, m: int, n: int, k: int):
    packed = torch.ops.mkldnn._reorder_linear_weight(random(args, n, k), m)
    return lambda x: torch.ops.mkldnn._linear_pointwise(x, packed, None, "none", [], "")


def products(args):
    for m, n, k in PRODUCTS:
        def make():
            if args.mode == "onednn":
                return onednn_product(args, m, n, k)
            return in_mode(args, Product(args, n, k).eval())
        yield f"gemm/{shape_text(m, n, k)}", make, random(args, m, k)


def lora_forwards(args):
    for lead, d, rank in LORA_SHAPES:
        make = lambda: in_mode(args, Lora(args, d, rank).eval())
        yield lora_name("lora_linear", lead, d, rank), make, random(args, *lead, d)


def row_ops(args):
    for rows, width in ROW_SHAPES:
        for op in ROW_OPS:
            make = lambda: in_mode(args, RowOp(args, op, width).eval())
            yield f"{op}/{shape_text(rows, width)}", make, random(args, rows, width)


def forwards(args):
    """(work, a function that creates the timed call, its input)."""
    yield from products(args)
    if args.mode == "onednn":
        return
    yield from lora_forwards(args)
    if args.mode != "frozen":  # no weights to pack
        yield from row_ops(args)


@torch.no_grad()
def time_forwards(args) -> None:
    for work, make, x in forwards(args):
        if args.only.search(work):
            call = make()
            say(args, work, lambda: call(x))


def time_lora_step(args) -> None:
    """The gradients with respect to x, A and B; the loss is sum(y * dy)."""
    (lead, d, rank) = LORA_STEP_SHAPE
    work = lora_name("lora_linear_step", lead, d, rank)
    if args.mode not in ("eager", "compiled") or not args.only.search(work):
        return
    module = Lora(args, d, rank)
    x, dy = random(args, *lead, d).requires_grad_(), random(args, *lead, d)
    forward = in_mode(args, module)

    def step() -> None:
        x.grad = module.a.grad = module.b.grad = None
        (forward(x) * dy).sum().backward()

    say(args, work, step)


def say(args, work: str, call) -> None:
    print_line(peer="torch", version=torch.__version__, mode=args.mode, dtype=args.dtype, work=work,
               threads=torch.get_num_threads(), **us_of_a_call(call, args.samples))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--mode", choices=("eager", "compiled", "frozen", "onednn"),
                        default="eager")
    add_op_options(parser)
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    torch.manual_seed(0)
    if args.mode == "frozen":
        from torch._inductor import config  # imported here because it is slow
        config.freezing = True
    time_forwards(args)
    time_lora_step(args)


if __name__ == "__main__":
    main()
