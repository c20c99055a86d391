"""Jobs for PEFT: a JSON list on stdin. Each has the path of a model, token ids and an .npy file for
the logits, and either `adapter`, the path of an adapter to load, or `config`, the arguments of a
LoraConfig, whose adapter gets random values and is saved to `save`."""
import json
import os
import sys
import warnings

os.environ.setdefault("HF_HUB_OFFLINE", "1")
import numpy  # noqa: E402
import torch  # noqa: E402
from peft import LoraConfig, PeftModel, get_peft_model  # noqa: E402
from transformers import AutoModelForCausalLM  # noqa: E402

warnings.filterwarnings("ignore")


def fill(model, seed):
    """Random values for what PEFT initialises with zeros or with the base model's norms."""
    generator = torch.Generator().manual_seed(seed)
    for name, parameter in model.named_parameters():
        if "lora_" not in name:
            continue
        noise = torch.randn(parameter.shape, generator=generator)
        if "magnitude" in name:
            parameter.data *= 1 + 0.2 * noise
        else:
            parameter.data = 0.2 * noise


def run(job):
    base = AutoModelForCausalLM.from_pretrained(job["model"], dtype=torch.float32)
    if "config" in job:
        model = get_peft_model(base, LoraConfig(task_type="CAUSAL_LM", **job["config"]))
        fill(model, 3)
        model.save_pretrained(job["save"])
    else:
        model = PeftModel.from_pretrained(base, job["adapter"])
    model.eval()
    with torch.no_grad():
        logits = model(torch.tensor([job["ids"]])).logits[0]
    numpy.save(job["logits"], logits.float().numpy())


for each in json.load(sys.stdin):
    run(each)
