#!/usr/bin/env python3
"""Times single ops of PyTorch on a GPU with CUDA: products, LoRA forward and backward, softmax and
norms, attention, and the head with the loss. The type is bf16 unless the work's name says f32.
Prints a JSON line for each.

Modes: graph (replays of a CUDA graph of ten calls), flash and cudnn (attention by that back end,
with autograd for the backward pass), chunks (head and loss by 1024 rows), compiled (the same
through torch.compile). All calls use the same buffers; they are queued, with a wait every 5 ms.
"""

import argparse
import re
import sys
import time

from gpu_shapes import PACKED_LENGTHS, WORKS
from peer_lines import print_line, spread_of

try:
    import torch
    import torch.nn.functional as F
except ImportError:
    sys.exit("this Python has no torch")

CALLS_OF_A_GRAPH = 10
SAMPLE_S = 0.005
CHUNK_ROWS = 1024
QUERY_HEADS_OF_A_KEY_HEAD = 7


def random(*shape, dtype=torch.bfloat16):
    return (torch.rand(*shape, device="cuda") * 2 - 1).to(dtype)


def graphed(call):
    """(a function that replays ten calls, ten)."""
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        for _ in range(3):
            call()
    torch.cuda.current_stream().wait_stream(stream)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for _ in range(CALLS_OF_A_GRAPH):
            call()
    return graph.replay, CALLS_OF_A_GRAPH


def seconds_of(call, times):
    start = time.perf_counter()
    for _ in range(times):
        call()
    torch.cuda.synchronize()
    return time.perf_counter() - start


def us_of_a_call(call, calls, seconds):
    """The times of samples that fill `seconds`, after a warm-up of the same length."""
    seconds_of(call, 2)
    times = max(1, round(SAMPLE_S / max(seconds_of(call, 1), 1e-6)))
    begin = time.perf_counter()
    while time.perf_counter() - begin < seconds:
        seconds_of(call, times)
    begin, samples = time.perf_counter(), []
    while len(samples) < 3 or time.perf_counter() - begin < seconds:
        samples.append(seconds_of(call, times) / (times * calls) * 1e6)
    return spread_of("us", samples)


def product(m, n, k):
    x, w = random(m, k), random(n, k)
    return lambda: F.linear(x, w)


def lora_forward(m, n, k, rank):
    x, w, a, b = random(m, k), random(n, k), random(rank, k), random(n, rank)
    return lambda: torch.addmm(F.linear(x, w), F.linear(x, a), b.t())


def lora_backward(m, n, k, rank):
    """dx, da and db, with s = x a^T saved by the forward pass."""
    x, w, a, b = random(m, k), random(n, k), random(rank, k), random(n, rank)
    s, dy = random(m, rank), random(m, n)

    def call():
        ds = dy @ b
        return torch.addmm(dy @ w, ds, a), ds.t() @ x, dy.t() @ s
    return call


def row_op(op, kind, rows, width):
    dtype = {"f32": torch.float32, "bf16": torch.bfloat16}[kind]
    x = random(rows, width, dtype=dtype)
    w, b = random(width, dtype=dtype), random(width, dtype=dtype)
    return {"softmax": lambda: torch.softmax(x, -1),
            "layer_norm": lambda: F.layer_norm(x, (width,), w, b, 1e-5),
            "rms_norm": lambda: F.rms_norm(x, (width,), w, 1e-5)}[op]


def attention(mode, batch, length, heads, width, backward):
    from torch.nn.attention import SDPBackend, sdpa_kernel
    keys = heads // QUERY_HEADS_OF_A_KEY_HEAD
    q, k = random(batch, heads, length, width), random(batch, keys, length, width)
    v, dy = random(batch, keys, length, width), random(batch, heads, length, width)
    backend = {"flash": SDPBackend.FLASH_ATTENTION, "cudnn": SDPBackend.CUDNN_ATTENTION}[mode]

    def forward():
        with sdpa_kernel(backend):
            return F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)
    if not backward:
        return forward
    operands = [x.requires_grad_() for x in (q, k, v)]
    y = forward()
    return lambda: torch.autograd.grad(y, operands, dy, retain_graph=True)


def packed_attention(rows, heads, width, backward):
    """The flash kernels for documents of different lengths."""
    ends = [sum(PACKED_LENGTHS[:i]) for i in range(len(PACKED_LENGTHS) + 1)]
    assert ends[-1] == rows
    ends, most = torch.tensor(ends, dtype=torch.int32, device="cuda"), max(PACKED_LENGTHS)
    keys = heads // QUERY_HEADS_OF_A_KEY_HEAD
    q, dy = random(rows, heads, width), random(rows, heads, width)
    k, v = random(rows, keys, width), random(rows, keys, width)
    both = (ends, ends, most, most, 0.0, True)

    def forward():
        return torch.ops.aten._flash_attention_forward(q, k, v, *both, False)
    if not backward:
        return forward
    y, logs, seed, offset, *_ = forward()
    return lambda: torch.ops.aten._flash_attention_backward(dy, q, k, v, y, logs, *both, seed,
                                                            offset)


def head_loss(mode, rows, vocabulary, width):
    """Loss and dx by chunks of rows; the head is frozen."""
    x, w = random(rows, width) * (6 / width**0.5), random(vocabulary, width)
    targets = torch.randint(0, vocabulary, (rows,), device="cuda")

    def loss_of(x, w, targets):
        return F.cross_entropy(F.linear(x, w), targets, reduction="sum")
    inner = torch.compile(loss_of) if mode == "compiled" else loss_of

    def call():
        dx, loss = torch.empty_like(x), 0
        for at in range(0, rows, CHUNK_ROWS):
            part = x[at:at + CHUNK_ROWS].detach().requires_grad_()
            own = inner(part, w, targets[at:at + CHUNK_ROWS]) / rows
            dx[at:at + CHUNK_ROWS], = torch.autograd.grad(own, part)
            loss = loss + own.detach()
        return loss, dx
    return call


def make_call(mode, work):
    op, kind, *shape = work.split("/")
    sizes = [int(size) for size in re.findall(r"\d+", "/".join(shape))]
    backward = op.endswith("_backward")
    if op == "gemm":
        return product(*sizes)
    if op.startswith("lora_linear"):
        return (lora_backward if backward else lora_forward)(*sizes)
    if op.startswith("attention_packed"):
        return packed_attention(*sizes[1:], backward)
    if op.startswith("attention"):
        return attention(mode, *sizes, backward)
    if op == "head_loss_backward":
        return head_loss(mode, *sizes)
    return row_op(op, kind, *sizes)


def time_work(args, work):
    call = make_call(args.mode, work)
    call()  # compiles if the mode does
    torch.cuda.synchronize()
    replay, calls = graphed(call) if args.mode == "graph" else (call, 1)
    print_line(peer="torch", version=torch.__version__, mode=args.mode, work=work,
               device=torch.cuda.get_device_name(), **us_of_a_call(replay, calls, args.seconds))


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--mode", choices=tuple(WORKS), default="graph")
    parser.add_argument("--only", type=re.compile, default=re.compile(""), metavar="REGEX",
                        help="run only workloads whose names match")
    parser.add_argument("--seconds", type=float, default=0.3,
                        help="seconds of samples per workload, after an equal warm-up (default 0.3)")
    args = parser.parse_args()
    if not torch.cuda.is_available():
        sys.exit("torch sees no GPU")
    torch.manual_seed(0)
    for work in WORKS[args.mode]:
        if not args.only.search(work):
            continue
        try:
            time_work(args, work)
        except RuntimeError as error:  # the back end does not support this shape; others count
            print(f"{work}: {str(error).splitlines()[0]}", file=sys.stderr)


if __name__ == "__main__":
    main()
