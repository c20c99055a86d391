#!/usr/bin/env python3
"""Times the gated delta rule with PyTorch on a GPU: forward and backward at the size of
bench/delta_rule_large_bench.cpp, with the L2 norms and the gates, which both include. Prints a JSON
line for each peer that can be imported:

  transformers  torch_chunk_gated_delta_rule of transformers, its own PyTorch path
  fla           chunk_gated_delta_rule of flash-linear-attention, Triton kernels

The type is bf16; states and gates are f32 in both.
"""

import argparse
import sys
import time

from peer_lines import print_line, spread_of

try:
    import torch
    import torch.nn.functional as F
except ImportError:
    sys.exit("this Python has no torch")

ROWS, HEADS, DIM = 8192, 16, 128


def transformers_rule():
    import transformers
    from transformers.models.qwen3_5 import modeling_qwen3_5
    rule = modeling_qwen3_5.torch_chunk_gated_delta_rule
    return getattr(rule, "__wrapped__", rule), transformers.__version__


def fla_rule():
    import fla
    from fla.ops.gated_delta_rule import chunk_gated_delta_rule
    return chunk_gated_delta_rule, fla.__version__


def inputs():
    def random(*shape, dtype=torch.bfloat16):
        values = torch.rand(1, ROWS, *shape, device="cuda") * 2 - 1
        return values.to(dtype).requires_grad_()
    return {"query": random(HEADS, DIM), "key": random(HEADS, DIM), "value": random(HEADS, DIM),
            "a": random(HEADS), "b": random(HEADS)}


def step_of(rule, names):
    """A function that computes the forward and the backward once."""
    x = inputs()
    rate = -0.1 - torch.rand(HEADS, device="cuda")
    dy = torch.rand(1, ROWS, HEADS, DIM, device="cuda").to(torch.bfloat16)

    def step():
        g = rate * F.softplus(x["a"].float())
        y, _ = rule(**dict(zip(names, (x["query"], x["key"], x["value"]))), g=g,
                    beta=x["b"].sigmoid(), use_qk_l2norm_in_kernel=True)
        return torch.autograd.grad(y, list(x.values()), dy)
    return step


def seconds_of(step, seconds):
    for _ in range(3):
        step()
    torch.cuda.synchronize()
    samples, begin = [], time.perf_counter()
    while len(samples) < 3 or time.perf_counter() - begin < seconds:
        start = time.perf_counter()
        step()
        torch.cuda.synchronize()
        samples.append(time.perf_counter() - start)
    return samples


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=2,
                        help="seconds of samples per peer (default 2)")
    args = parser.parse_args()
    if not torch.cuda.is_available():
        sys.exit("torch sees no GPU")
    torch.manual_seed(0)
    for peer, load, names in (("transformers", transformers_rule, ("query", "key", "value")),
                              ("fla", fla_rule, ("q", "k", "v"))):
        try:
            rule, version = load()
            samples = [s * 1e6 for s in seconds_of(step_of(rule, names), args.seconds)]
        except (ImportError, RuntimeError) as error:
            print(f"{peer}: {str(error).splitlines()[0]}", file=sys.stderr)
            continue
        print_line(peer=peer, version=version, mode="eager", dtype="bf16",
                   work=f"delta_rule_training/{ROWS}x{HEADS}x{DIM}x{DIM}",
                   device=torch.cuda.get_device_name(), **spread_of("us", samples))


if __name__ == "__main__":
    main()
