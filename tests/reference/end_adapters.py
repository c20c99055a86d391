#!/usr/bin/env python3
"""LoRA on token embeddings and heads by peft: training steps of tiny random models.

usage: end_adapters.py OUT.json

Writes tests/reference/end_adapters.json; families.py describes the models, which are some of its
families, their documents, the first matrices of their blocks' layers, and their AdamW. Everything is
float32 on the CPU. The head of all but llama is the embedding matrix; each has matrices of its own.
Of the embeddings, A is zero as in PEFT, and B[i][j] = 0.3 * sin(0.37 * i + 0.11 * j + 5); of the
head, A is that of a block with the number 7, and B is zero. The embeddings have no padding_idx, for
which torch leaves out the gradient of one token.

  versions
  cases   of each family and targets: the loss and the L2 norm of the gradients of all A and B of 10
          steps, before each update; and the logits of the second document after them
"""
import json
import sys

import peft
import torch

import families

ENDS = ["embed_tokens", "lm_head"]
CASES = {"llama": ("llama", families.DENSE + ENDS), "llama ends": ("llama", ENDS),
         "llama head": ("llama", ["lm_head"]), "llama embeddings": ("llama", ["embed_tokens"]),
         "qwen3": ("qwen3", families.DENSE + ENDS), "granite": ("granite", families.DENSE + ENDS),
         "gemma2": ("gemma2", families.DENSE + ENDS)}


def sines(shape, factor, phase):
    i = torch.arange(shape[0], dtype=torch.float64)[:, None]
    j = torch.arange(shape[1], dtype=torch.float64)[None, :]
    return (factor * torch.sin(0.37 * i + 0.11 * j + phase)).float()


def with_adapter(model, targets):
    model.get_input_embeddings().padding_idx = None
    model = peft.get_peft_model(model, peft.LoraConfig(
        r=3, lora_alpha=6, lora_dropout=0.0, target_modules=list(targets), task_type="CAUSAL_LM"))
    for name, value in model.named_parameters():
        if ".lora_embedding_B." in name:
            value.data.copy_(sines(value.shape, 0.3, 5))
        elif ".lora_A." in name:
            block = 7 if "lm_head" in name else families.block_of(name)
            value.data.copy_(sines(value.shape, 0.02, block))
        elif ".lora_B." in name or ".lora_embedding_A." in name:
            value.data.zero_()
    return model


def steps_of(name, targets):
    written, shapes = families.saved(families.config_of(*families.FAMILIES[name][:2]))
    model = with_adapter(families.model_of(written, shapes), targets)
    steps = families.ten_steps(model)
    logits = families.logits_of(model.eval(), families.document(1))
    return {"family": name, "target_modules": list(targets), "rank": 3, "alpha": 6, **steps,
            "logits": logits.tolist()}


def main():
    torch.set_num_threads(1)
    cases = ",\n".join(f"{json.dumps(name)}: {json.dumps(families.rounded(steps_of(*case)))}"
                       for name, case in CASES.items())
    with open(sys.argv[1], "w", encoding="utf-8") as file:
        file.write(f'{{\n"versions": {json.dumps(families.versions())},\n"cases": {{\n{cases}}}\n}}\n')


if __name__ == "__main__":
    main()
