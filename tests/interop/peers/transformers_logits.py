"""Logits of models by transformers: a JSON list on stdin, of objects with the path of a model, token
ids, and an .npy file for the logits."""
import json
import os
import sys

os.environ.setdefault("HF_HUB_OFFLINE", "1")
import numpy  # noqa: E402
import torch  # noqa: E402
from transformers import AutoModelForCausalLM  # noqa: E402

for job in json.load(sys.stdin):
    model = AutoModelForCausalLM.from_pretrained(job["model"], dtype=torch.float32).eval()
    with torch.no_grad():
        logits = model(torch.tensor([job["ids"]])).logits[0]
    numpy.save(job["logits"], logits.float().numpy())
