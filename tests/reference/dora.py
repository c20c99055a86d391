#!/usr/bin/env python3
"""DoRA by peft: training steps of tiny random models, and a linear layer with dropout.

usage: dora.py OUT.json

Writes tests/reference/dora.json; families.py describes the models, which are some of its families,
their documents, first matrices A and B, and their AdamW. Everything is float32 on the CPU.

  versions
  models  of each family: the loss and the L2 norm of the gradients of all A, B and magnitudes of 10
          steps, before each update; and the logits of the second document after them
  layer   in float64, one layer [7, 5] with a bias, rank 2 and alpha 3, on x [4, 5], whose dropout
          (0.2) multiplies x with a given mask. A tensor's element i in row-major order is
          sin(1.3 i + phase) with phase 1 for x, 2 for w, 3 for the bias, 4 for A, 5 for dy, and
          0.2 sin(1.3 i + 6) for B; the magnitudes are 1.5 + 0.5 sin(1.3 i + 7); the mask is 0 where
          i % 5 is 2, else 1.25. "y" is the output, and the others are the gradients of sum(dy y)
"""
import json
import math
import sys

import peft
import torch

import families

NAMES = ["llama", "qwen3", "phi3", "gemma2", "lfm2"]


def with_magnitudes(model, targets):
    model = peft.get_peft_model(model, peft.LoraConfig(
        r=3, lora_alpha=6, lora_dropout=0.0, use_dora=True, target_modules=list(targets),
        task_type="CAUSAL_LM"))
    families.set_first_matrices(model)
    return model


def steps_of(name):
    kind, values, targets = families.FAMILIES[name][:3]
    written, shapes = families.saved(families.config_of(kind, values))
    model = with_magnitudes(families.model_of(written, shapes), targets)
    steps = families.ten_steps(model)
    logits = families.logits_of(model.eval(), families.document(1))
    return {"target_modules": list(targets), "rank": 3, "alpha": 6, **steps,
            "logits": logits.tolist()}


def sines(shape, phase):
    count = math.prod(shape)
    return torch.sin(1.3 * torch.arange(count, dtype=torch.float64) + phase).reshape(shape)


class Mask(torch.nn.Module):
    def forward(self, x):
        at = torch.arange(x.numel()).reshape(x.shape)
        return x * torch.where(at % 5 == 2, 0.0, 1.25)


def layer_with_dropout():
    base = torch.nn.Sequential(torch.nn.Linear(5, 7)).double()
    base[0].weight.data.copy_(sines((7, 5), 2))
    base[0].bias.data.copy_(sines((7,), 3))
    model = peft.get_peft_model(base, peft.LoraConfig(
        r=2, lora_alpha=3, lora_dropout=0.2, use_dora=True, target_modules=["0"]))
    model = model.double().train()
    layer = model.base_model.model[0]
    layer.lora_dropout["default"] = Mask()
    a, b = layer.lora_A["default"].weight, layer.lora_B["default"].weight
    magnitude = layer.lora_magnitude_vector["default"].weight
    a.data.copy_(sines((2, 5), 4))
    b.data.copy_(0.2 * sines((7, 2), 6))
    magnitude.data.copy_(1.5 + 0.5 * sines((7,), 7))
    x = sines((4, 5), 1).requires_grad_()
    y = model(x)
    (y * sines((4, 7), 5)).sum().backward()
    return {"y": y.flatten().tolist(), "dx": x.grad.flatten().tolist(),
            "da": a.grad.flatten().tolist(), "db": b.grad.flatten().tolist(),
            "dm": magnitude.grad.flatten().tolist()}


def main():
    torch.set_num_threads(1)
    result = {"versions": families.versions(),
              "models": {name: steps_of(name) for name in NAMES}, "layer": layer_with_dropout()}
    lines = [f'"versions": {json.dumps(result["versions"])}', '"models": {\n' + ",\n".join(
        f"{json.dumps(name)}: {json.dumps(families.rounded(steps))}"
        for name, steps in result["models"].items()) + "}",
             f'"layer": {json.dumps(families.rounded(result["layer"]))}']
    with open(sys.argv[1], "w", encoding="utf-8") as file:
        file.write("{\n" + ",\n".join(lines) + "\n}\n")


if __name__ == "__main__":
    main()
