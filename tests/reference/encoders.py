#!/usr/bin/env python3
"""Vectors of tiny random encoders, computed with transformers, and steps of their training.

usage: encoders.py OUT_FOLDER

Writes OUT_FOLDER/NAME.json for each; the results are stored in tests/reference/encoders/. Weights
follow from the names of tensors, and the parts of a file mean the same, as in families.py, except
that a sequence has the mean, the first and the last row of the last hidden state. "contrastive" are
ten steps of a LoRA adapter of PEFT on the loss of sentence-transformers
(MultipleNegativesRankingLoss), with the pooling and the records of texts that it names.
"""
import json
import math
import os
import re
import sys
import tempfile

import numpy as np
import peft
import sentence_transformers
import torch
import transformers
from sentence_transformers.sentence_transformer.losses import MultipleNegativesRankingLoss

import families

SIZES = {"vocab_size": families.VOCAB, "hidden_size": 24, "intermediate_size": 40,
         "num_hidden_layers": 2, "num_attention_heads": 4, "max_position_embeddings": 32,
         "layer_norm_eps": 1e-3, "type_vocab_size": 2}
ENCODERS = {"bert": ("bert", SIZES),
            "bert_tanh": ("bert", {**SIZES, "hidden_act": "gelu_pytorch_tanh"}),
            "mpnet": ("mpnet", {**{key: value for key, value in SIZES.items()
                                   if key != "type_vocab_size"}, "max_position_embeddings": 34})}
GGUF_NAMES = {
    "embeddings.word_embeddings": "token_embd", "embeddings.position_embeddings": "position_embd",
    "embeddings.token_type_embeddings": "token_types", "embeddings.LayerNorm": "token_embd_norm",
    "attention.self.query": "attn_q", "attention.self.key": "attn_k",
    "attention.self.value": "attn_v", "attention.output.dense": "attn_output",
    "attention.output.LayerNorm": "attn_output_norm", "intermediate.dense": "ffn_up",
    "output.dense": "ffn_down", "output.LayerNorm": "layer_output_norm"}


def gguf_name(name):
    name, _, kind = name.rpartition(".")
    if name.startswith("encoder.layer."):
        _, _, block, rest = name.split(".", 3)
        return f"blk.{block}.{GGUF_NAMES[rest]}.{kind}"
    return f"{GGUF_NAMES[name]}.{kind}"


def gguf_of(config, shapes):
    if config["model_type"] != "bert":
        return {"gguf": {}, "gguf_tensors": {},
                "gguf_notes": {"unsaid": ["anything of this family"]}}
    metadata = {"general.architecture": "bert", "bert.block_count": config["num_hidden_layers"],
                "bert.context_length": config["max_position_embeddings"],
                "bert.embedding_length": config["hidden_size"],
                "bert.feed_forward_length": config["intermediate_size"],
                "bert.attention.head_count": config["num_attention_heads"],
                "bert.attention.layer_norm_epsilon": config["layer_norm_eps"],
                "bert.attention.causal": False, "bert.pooling_type": 1}
    unsaid = [] if config["hidden_act"] == "gelu" else ["hidden_act: readers take gelu"]
    return {"gguf": metadata,
            "gguf_tensors": {name: gguf_name(name) for name in shapes if "pooler" not in name},
            "gguf_notes": {"unsaid": unsaid}}


def written_of(kind, values):
    model = transformers.AutoModel.from_config(families.config_of(kind, values))
    with tempfile.TemporaryDirectory() as folder:
        model.save_pretrained(folder)
        with open(os.path.join(folder, "config.json"), encoding="utf-8") as file:
            config = json.load(file)
        shapes = families.shapes_of(os.path.join(folder, "model.safetensors"))
    config.pop("transformers_version")
    return config, shapes


def sequences_of(config, shapes):
    with tempfile.TemporaryDirectory() as folder:
        families.write_checkpoint(folder, config, shapes)
        model = transformers.AutoModel.from_pretrained(
            folder, dtype=torch.float32, attn_implementation="eager").eval()
    for length in (1, 5, 13, 32):
        ids = [(i * 37 + 11) % families.VOCAB for i in range(length)]
        with torch.no_grad():
            rows = model(input_ids=torch.tensor([ids])).last_hidden_state[0]
        yield {"ids": ids, "mean": rows.mean(0).tolist(), "first": rows[0].tolist(),
               "last": rows[-1].tolist()}


def adapted(model):
    model = peft.get_peft_model(model, peft.LoraConfig(
        r=3, lora_alpha=6, lora_dropout=0.0, task_type="FEATURE_EXTRACTION",
        target_modules=r".*layer\.\d+\..*(query|key|value|dense|q|k|v|o)"))
    for name, value in model.named_parameters():
        if ".lora_A." in name:
            i, j = np.indices(tuple(value.shape), dtype=np.float64)
            block = int(re.search(r"layer\.(\d+)\.", name).group(1))
            start = 0.02 * np.sin(0.37 * i + 0.11 * j + block)
            value.data.copy_(torch.from_numpy(start.astype(np.float32)))
        elif ".lora_B." in name:
            value.data.zero_()
    return model.train()


def record(number, texts):
    ids = [[(i * (7 + 3 * text) + 11 + 5 * number) % families.VOCAB
            for i in range(2 + (5 * number + 3 * text) % 11)] for text in range(texts)]
    return [[max(x, 3) for x in text] for text in ids]  # 1 is MPNet's padding


def vector(model, ids, pooling):
    rows = model(input_ids=torch.tensor([ids])).last_hidden_state[0]
    return rows.mean(0) if pooling == "mean" else rows[0]


def contrastive_steps(model, pooling, records):
    model = adapted(model)
    loss_of = MultipleNegativesRankingLoss(None)
    parameters = [value for value in model.parameters() if value.requires_grad]
    optimizer = torch.optim.AdamW(parameters, lr=1e-2, weight_decay=0.0)
    losses, norms = [], []
    for _ in range(10):
        optimizer.zero_grad()
        columns = [torch.stack([vector(model, ids, pooling) for ids in column])
                   for column in zip(*records)]
        loss = loss_of.compute_loss_from_embeddings(columns, None)
        loss.backward()
        losses.append(loss.item())
        norms.append(math.sqrt(sum(float(value.grad.double().square().sum())
                                   for value in parameters)))
        optimizer.step()
    return {"pooling": pooling, "scale": loss_of.scale, "rank": 3, "alpha": 6, "lr": 1e-2,
            "records": records, "loss": losses, "grad_norm": norms}


def contrastive_of(config, shapes):
    for pooling, texts, count in (("mean", 2, 5), ("first", 3, 4)):
        with tempfile.TemporaryDirectory() as folder:
            families.write_checkpoint(folder, {**config, "hidden_dropout_prob": 0.0,
                                               "attention_probs_dropout_prob": 0.0}, shapes)
            model = transformers.AutoModel.from_pretrained(
                folder, dtype=torch.float32, attn_implementation="eager", add_pooling_layer=False)
        yield contrastive_steps(model, pooling, [record(i, texts) for i in range(count)])


def main():
    torch.set_num_threads(1)
    transformers.utils.logging.set_verbosity_error()
    transformers.utils.logging.disable_progress_bar()
    os.makedirs(sys.argv[1], exist_ok=True)
    for name, (kind, values) in ENCODERS.items():
        config, shapes = written_of(kind, values)
        families.write(os.path.join(sys.argv[1], name + ".json"), {
            "versions": {"transformers": transformers.__version__, "torch": torch.__version__,
                         "peft": peft.__version__,
                         "sentence-transformers": sentence_transformers.__version__},
            "config": config, "rules": {}, "tensors": shapes,
            "sequences": list(sequences_of(config, shapes)),
            "contrastive": list(contrastive_of(config, shapes)), **gguf_of(config, shapes)})
        print(name)


if __name__ == "__main__":
    main()
