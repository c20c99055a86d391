#!/usr/bin/env python3
"""Times a LoRA training step of PyTorch + PEFT on the CPU in f32: SmolLM2-135M's shape with random
weights, adapters on all seven linears, loss over every token, AdamW. Prints one JSON line.
"""

import argparse

import peft
import torch
from peft import LoraConfig, get_peft_model

from smollm2_shape import LINEARS, print_line, random_model, rates, seconds_of


def training_step(batch: int, seq: int, rank: int):
    """A function that takes one step on the same random tokens, and returns the loss."""
    config = LoraConfig(r=rank, lora_alpha=2 * rank, lora_dropout=0.0, task_type="CAUSAL_LM",
                        target_modules=list(LINEARS))
    model = get_peft_model(random_model(), config).train()
    adapters = [p for p in model.parameters() if p.requires_grad]
    optimizer = torch.optim.AdamW(adapters, lr=1e-4, fused=True)
    ids = torch.randint(0, 49152, (batch, seq))

    def step() -> float:
        loss = model(input_ids=ids, labels=ids, use_cache=False).loss
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        return loss.item()

    return step


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--batch", type=int, default=4, help="records a step (default 4)")
    parser.add_argument("--seq", type=int, default=512, help="tokens a record (default 512)")
    parser.add_argument("--rank", type=int, default=8, help="of the adapters (default 8)")
    parser.add_argument("--steps", type=int, default=5, help="timed steps, after two (default 5)")
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    step = training_step(args.batch, args.seq, args.rank)
    seconds = seconds_of(step, warm_up=2, repeats=args.steps)
    print_line(peer="peft", version=peft.__version__, work="train", batch=args.batch, seq=args.seq,
               rank=args.rank, steps=args.steps, **rates(args.batch * args.seq, seconds))


if __name__ == "__main__":
    main()
