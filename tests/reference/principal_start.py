#!/usr/bin/env python3
"""Adapters that begin with a part of the weights (PiSSA, OLoRA) by peft: training steps of tiny models.

usage: principal_start.py OUT.json

Writes tests/reference/principal_start.json; families.py describes the models, which are some of its
families, their documents and their AdamW. Everything is float32 on the CPU. The signs of pairs of
rows of A and columns of B, which decompositions leave open, change no value here.

  versions
  cases   of each family and init_lora_weights: the loss and the L2 norm of the gradients of all A
          and B of 10 steps, before each update; and the logits of the second document after them
"""
import json
import math
import sys

import peft
import torch
import transformers

import families

CASES = {f"{family} {start}": (family, start)
         for family in ["llama", "qwen3", "phi3"] for start in ["pissa", "olora"]}
RATE = 1e-3


def steps_of(name, start):
    kind, values, targets = families.FAMILIES[name][:3]
    written, shapes = families.saved(families.config_of(kind, values))
    model = peft.get_peft_model(families.model_of(written, shapes), peft.LoraConfig(
        r=3, lora_alpha=6, lora_dropout=0.0, init_lora_weights=start,
        target_modules=list(targets), task_type="CAUSAL_LM")).train()
    parameters = [value for value in model.parameters() if value.requires_grad]
    optimizer = torch.optim.AdamW(parameters, lr=RATE, betas=(0.9, 0.999), eps=1e-8,
                                  weight_decay=0.0)
    losses, norms = [], []
    for _ in range(10):
        optimizer.zero_grad()
        losses.append(families.loss_of(model))
        norms.append(math.sqrt(sum(float(value.grad.double().square().sum())
                                   for value in parameters)))
        optimizer.step()
    logits = families.logits_of(model.eval(), families.document(1))
    return {"family": name, "start": start, "target_modules": list(targets), "rank": 3, "alpha": 6,
            "lr": RATE, "loss": losses, "grad_norm": norms, "logits": logits.tolist()}


def rounded(value):
    if isinstance(value, float):
        return float(f"{value:.9g}")
    if isinstance(value, list):
        return [rounded(each) for each in value]
    if isinstance(value, dict):
        return {key: rounded(each) for key, each in value.items()}
    return value


def main():
    torch.set_num_threads(1)
    versions = {"transformers": transformers.__version__, "torch": torch.__version__,
                "peft": peft.__version__}
    cases = ",\n".join(f"{json.dumps(name)}: {json.dumps(rounded(steps_of(*case)))}"
                       for name, case in CASES.items())
    with open(sys.argv[1], "w", encoding="utf-8") as file:
        file.write(f'{{\n"versions": {json.dumps(versions)},\n"cases": {{\n{cases}}}\n}}\n')


if __name__ == "__main__":
    main()
