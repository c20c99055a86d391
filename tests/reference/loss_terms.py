#!/usr/bin/env python3
"""Prints the losses and gradients of tests/ops/cross_entropy_test.cpp, by PyTorch 2.15.

    python3 -m venv venv && venv/bin/pip install torch
    venv/bin/python tests/reference/loss_terms.py
"""
import torch

logits = torch.tensor([[1, -2, 0.5, 3], [0, 1, 2, 3], [-1, 4, 0.25, 2]], dtype=torch.float64)
logits.requires_grad_()
targets = torch.tensor([3, -1, 2])
weights = torch.tensor([0.5, 0, 2], dtype=torch.float64)

smoothed = torch.nn.CrossEntropyLoss(label_smoothing=0.1, ignore_index=-1, reduction="none")
z_loss = 0.01 * torch.logsumexp(logits, dim=1) ** 2
loss = smoothed(logits, targets) + z_loss * (targets >= 0)
(loss * weights).sum().backward()
print(torch.__version__)
print([round(x, 9) for x in loss.tolist()])
print([round(x, 9) for x in logits.grad.flatten().tolist()])
