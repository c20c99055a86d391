#!/usr/bin/env python3
"""Ten steps of optimizers in double, for tests/ops/optimizers_test.cpp.

usage: optimizer_steps.py > optimizer_steps.hpp

Two matrices, [3, 5] and [5, 3], with given values and gradients, are updated by PyTorch's AdamW, SGD
and Muon (with "match_rms_adamw", and without its rounding to bf16) and by lion-pytorch. The second
matrix has four times the learning rate of the first. The stored file was made with torch 2.15.0 and
lion-pytorch 0.2.5.
"""
import math

import torch
from lion_pytorch import Lion

STEPS, RATE, DECAY, RATIO = 10, 0.02, 0.1, 4


def steps(make):
    first, second = (
        torch.nn.Parameter(torch.tensor([math.cos(3.0 * (i + 15 * k)) for i in range(15)],
                                        dtype=torch.float64).reshape(shape))
        for k, shape in enumerate([(3, 5), (5, 3)])
    )
    optimizer = make([{"params": [first], "lr": RATE}, {"params": [second], "lr": RATIO * RATE}])
    for step in range(1, STEPS + 1):
        for k, p in enumerate([first, second]):
            values = [math.sin(0.7 * (i + 15 * k) + 1.3 * step) for i in range(15)]
            p.grad = torch.tensor(values, dtype=torch.float64).reshape(p.shape)
        optimizer.step()
    return torch.cat([first.detach().flatten(), second.detach().flatten()]).tolist()


torch.bfloat16 = torch.float64  # Muon casts to it
CASES = {
    "AdamW": lambda groups: torch.optim.AdamW(groups, weight_decay=DECAY),
    "Lion": lambda groups: Lion(groups, betas=(0.9, 0.99), weight_decay=DECAY),
    "Sgd": lambda groups: torch.optim.SGD(groups, momentum=0.9, weight_decay=DECAY),
    "SgdNesterov": lambda groups: torch.optim.SGD(groups, momentum=0.9, weight_decay=DECAY,
                                                  nesterov=True),
    "Muon": lambda groups: torch.optim.Muon(groups, momentum=0.95, weight_decay=DECAY,
                                            adjust_lr_fn="match_rms_adamw"),
}

print("// The parameters after ten steps of peers' optimizers, made by optimizer_steps.py.")
print("#pragma once\n\n#include <array>\n\nnamespace clora::reference {\n")
for name, make in CASES.items():
    values = [f"{v:.9f}" for v in steps(make)]
    print(f"inline constexpr std::array k{name}Steps{{")
    for i in range(0, 30, 6):
        print("    " + ", ".join(values[i:i + 6]) + ("," if i < 24 else "};"))
print("\n}  // namespace clora::reference")
