"""Jobs for transformers with bitsandbytes: a JSON list on stdin. Each has the path of a model in
floats, the folder to save it to in nf4, `nested` (double quantisation), token ids and an .npy file
for the logits. The model computes in f32 and rounds no weight."""
import json
import os
import sys
import warnings

os.environ.setdefault("HF_HUB_OFFLINE", "1")
import numpy  # noqa: E402
import torch  # noqa: E402
from transformers import AutoModelForCausalLM, BitsAndBytesConfig  # noqa: E402

warnings.filterwarnings("ignore")


def run(job):
    scheme = BitsAndBytesConfig(load_in_4bit=True, bnb_4bit_quant_type="nf4",
                                bnb_4bit_use_double_quant=job["nested"],
                                bnb_4bit_compute_dtype=torch.float32)
    model = AutoModelForCausalLM.from_pretrained(job["model"], dtype=torch.float32,
                                                 quantization_config=scheme, device_map="cpu")
    model.save_pretrained(job["save"])
    with torch.no_grad():
        logits = model(torch.tensor([job["ids"]])).logits[0]
    numpy.save(job["logits"], logits.float().numpy())


for each in json.load(sys.stdin):
    run(each)
