#!/usr/bin/env python3
"""Times a LoRA training step of PyTorch + PEFT on the CPU: SmolLM2-135M's shape with random
weights, adapters on all seven linear layers, loss over every token, AdamW. Prints one JSON line.

  f32   everything in f32
  bf16  frozen weights in bf16, adapters in f32, products in bf16 through autocast
"""

import argparse
import time

import peft
import torch
from peft import LoraConfig, get_peft_model

from peer_lines import add_common_options, print_line, rates, seconds_of
from model_shapes import LINEARS, MODEL, VOCABULARY, random_model


def adapted_model(args):
    model = random_model()
    if args.dtype == "bf16":
        model = model.to(torch.bfloat16)
    config = LoraConfig(r=args.rank, lora_alpha=2 * args.rank, lora_dropout=0.0,
                        task_type="CAUSAL_LM", target_modules=list(LINEARS))
    model = get_peft_model(model, config).train()
    adapters = [p for p in model.parameters() if p.requires_grad]
    for parameter in adapters:
        parameter.data = parameter.data.float()
    return model, adapters


def training_step(args):
    """A function that runs one step on fixed random tokens and returns the loss."""
    model, adapters = adapted_model(args)
    optimizer = torch.optim.AdamW(adapters, lr=1e-4, fused=True)
    ids = torch.randint(0, VOCABULARY, (args.batch, args.seq))
    forward = torch.compile(model) if args.compile else model

    def step() -> float:
        with torch.autocast("cpu", torch.bfloat16, enabled=args.dtype == "bf16"):
            loss = forward(input_ids=ids, labels=ids, use_cache=False).loss
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        return loss.item()

    return step


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--batch", type=int, default=4, help="records per step (default 4)")
    parser.add_argument("--seq", type=int, default=512, help="tokens per record (default 512)")
    parser.add_argument("--rank", type=int, default=8, help="rank of the adapters (default 8)")
    parser.add_argument("--steps", type=int, default=5,
                        help="timed steps, after two warm-up steps (default 5)")
    parser.add_argument("--dtype", choices=("f32", "bf16"), default="f32")
    parser.add_argument("--compile", action="store_true", help="torch.compile the model")
    add_common_options(parser)
    args = parser.parse_args()
    work = f"training/{args.batch}x{args.seq}/r{args.rank}"
    if not args.only.search(work):
        return
    torch.set_num_threads(args.threads)
    step = training_step(args)
    start = time.perf_counter()
    step()
    first = time.perf_counter() - start
    seconds = seconds_of(step, warm_up=1, repeats=args.steps)
    print_line(peer="peft", version=peft.__version__, torch=torch.__version__,
               mode="compiled" if args.compile else "eager", dtype=args.dtype, work=work,
               model=MODEL, threads=torch.get_num_threads(), steps=args.steps,
               first_step_s=round(first, 2), **rates(args.batch * args.seq, seconds))


if __name__ == "__main__":
    main()
