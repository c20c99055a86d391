#!/usr/bin/env python3
"""Modules and biases trained in full next to LoRA, by peft: training steps of tiny models.

usage: modules_to_save.py OUT.json

Writes tests/reference/modules_to_save.json; families.py describes the models, which are some of its
families, their documents, first matrices A and B, and their AdamW. Everything is float32 on the
CPU, but that of qwen3_5_text float64. The row of pad_token_id is trained as any other one, whose
gradient torch.nn.Embedding otherwise leaves out.

  versions
  models  by names that begin with that of a family: target_modules, modules_to_save and bias; the
          names of the full tensors in PEFT's file; the loss and the L2 norm of the gradients of all
          A, B and full tensors of 10 steps, before each update; and the logits of the second
          document after them
"""
import json
import os
import sys
import tempfile

import numpy as np
import peft
import torch
from safetensors import safe_open

import families

MODULES = {"llama": ["norm"], "qwen3": ["norm"], "gemma2": ["norm"], "granite": ["norm"],
           "lfm2": ["norm"], "qwen3_5_text": ["norm"], "phi3": ["input_layernorm", "model.norm"],
           # Embeddings and the head, of a model with a head of its own, and of tied ones.
           "llama:ends": ["embed_tokens", "lm_head", "norm"], "gemma2:embeddings": ["embed_tokens"],
           "gemma2:head": ["lm_head"], "granite:ends": ["embed_tokens", "lm_head"]}

# Names of models with linear layers or biases that are trained in full: adapted layers,
# modules_to_save and bias.
LINEARS = {
    "llama:bias_all": (["q_proj", "down_proj"], [], "all"),
    "qwen2:bias_lora_only": (["q_proj", "o_proj"], [], "lora_only"),
    "qwen2:linears": (["q_proj", "o_proj", "gate_proj", "up_proj"],
                      ["v_proj", "down_proj", "layers.1.self_attn.k_proj"], "none"),
    "llama:linears_bias_all": (["k_proj", "up_proj"], ["gate_proj", "o_proj"], "all"),
    "phi3:linears": (["gate_up_proj", "o_proj"], ["qkv_proj", "down_proj"], "none"),
    "lfm2:linears": (["q_proj", "w2"], ["in_proj", "conv.out_proj"], "none"),
    "qwen3_5_text:linears": (["q_proj", "down_proj"], ["in_proj_qkv", "in_proj_b", "out_proj"],
                             "none")}

# With full matrices at 1e-2, rounding to float32 changes norms of its last steps by 3e-4.
LEARNING_RATES = {"qwen3_5_text:linears": 2e-3}


def with_modules(model, targets, modules, bias):
    model = peft.get_peft_model(model, peft.LoraConfig(
        r=3, lora_alpha=6, lora_dropout=0.0, target_modules=list(targets),
        modules_to_save=list(modules), bias=bias, task_type="CAUSAL_LM"))
    families.set_first_matrices(model, np.float64)
    return model


def full_tensors(model):
    with tempfile.TemporaryDirectory() as folder:
        model.save_pretrained(folder)
        with safe_open(os.path.join(folder, "adapter_model.safetensors"), "pt") as file:
            return sorted(name for name in file.keys() if ".lora_" not in name)


def steps_of(name, targets, modules, bias):
    family = name.split(":")[0]
    kind, values = families.FAMILIES[family][:2]
    written, shapes = families.saved(families.config_of(kind, values))
    model = families.model_of(written, shapes)
    if family in families.TRAINED_IN_DOUBLE:
        model = model.double()
    model.get_input_embeddings().padding_idx = None
    model = with_modules(model, targets, modules, bias)
    steps = families.ten_steps(model, LEARNING_RATES.get(name, 1e-2))
    logits = families.logits_of(model.eval(), families.document(1))
    return {"target_modules": list(targets), "modules_to_save": modules, "bias": bias, "rank": 3,
            "alpha": 6, "lr": steps["lr"], "tensors": full_tensors(model), "loss": steps["loss"],
            "grad_norm": steps["grad_norm"], "logits": logits.tolist()}


def main():
    torch.set_num_threads(1)
    models = {name: steps_of(name, families.FAMILIES[name.split(":")[0]][2], modules, "none")
              for name, modules in MODULES.items()}
    models |= {name: steps_of(name, *of_name) for name, of_name in LINEARS.items()}
    lines = [f"{json.dumps(name)}: {json.dumps(families.rounded(steps))}" for name, steps in models.items()]
    with open(sys.argv[1], "w", encoding="utf-8") as file:
        file.write('{\n"versions": ' + json.dumps(families.versions()) + ',\n"models": {\n' +
                   ",\n".join(lines) + "}\n}\n")


if __name__ == "__main__":
    main()
