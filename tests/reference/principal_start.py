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
import sys

import peft
import torch

import families

CASES = {f"{family} {start}": (family, start)
         for family in ["llama", "qwen3", "phi3"] for start in ["pissa", "olora"]}
RATE = 1e-3


def steps_of(name, start):
    kind, values, targets = families.FAMILIES[name][:3]
    written, shapes = families.saved(families.config_of(kind, values))
    model = peft.get_peft_model(families.model_of(written, shapes), peft.LoraConfig(
        r=3, lora_alpha=6, lora_dropout=0.0, init_lora_weights=start,
        target_modules=list(targets), task_type="CAUSAL_LM"))
    steps = families.ten_steps(model, RATE)
    logits = families.logits_of(model.eval(), families.document(1))
    return {"family": name, "start": start, "target_modules": list(targets), "rank": 3, "alpha": 6,
            **steps, "logits": logits.tolist()}


def main():
    torch.set_num_threads(1)
    cases = ",\n".join(f"{json.dumps(name)}: {json.dumps(families.rounded(steps_of(*case)))}"
                       for name, case in CASES.items())
    with open(sys.argv[1], "w", encoding="utf-8") as file:
        file.write(f'{{\n"versions": {json.dumps(families.versions())},\n"cases": {{\n{cases}}}\n}}\n')


if __name__ == "__main__":
    main()
