#!/usr/bin/env python3
"""Prints the learning rates of transformers' schedules, for tests/model/learning_rate_test.cpp.

usage: schedules.py

The rates are those of 20 steps with 4 of warm-up and a peak of 1. The values in the test were made
with transformers 5.24.0 and torch 2.15.0.
"""
import torch
from transformers import get_scheduler

STEPS, WARMUP = 20, 4
SCHEDULES = [("linear", {}), ("cosine", {}), ("cosine_with_min_lr", {"min_lr_rate": 0.1}),
             ("warmup_stable_decay", {"num_decay_steps": 5, "decay_type": "1-sqrt"}),
             ("warmup_stable_decay",
              {"num_decay_steps": 5, "decay_type": "1-sqrt", "min_lr_ratio": 0.1})]


def rates(name, settings):
    optimizer = torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=1.0)
    scheduler = get_scheduler(name, optimizer, WARMUP, STEPS, settings)
    for _ in range(STEPS):
        yield scheduler.get_last_lr()[0]
        optimizer.step()
        scheduler.step()


for name, settings in SCHEDULES:
    print(name, settings)
    print(", ".join(f"{rate:.12g}" for rate in rates(name, settings)))
