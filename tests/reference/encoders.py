#!/usr/bin/env python3
"""Vectors of tiny random encoders, computed with transformers.

usage: encoders.py OUT_FOLDER

Writes OUT_FOLDER/NAME.json for each; the results are stored in tests/reference/encoders/. Weights
follow from the names of tensors, and the parts of a file mean the same, as in families.py, except
that a sequence has the mean, the first and the last row of the last hidden state.
"""
import json
import os
import sys
import tempfile

import torch
import transformers

import families

SIZES = {"vocab_size": families.VOCAB, "hidden_size": 24, "intermediate_size": 40,
         "num_hidden_layers": 2, "num_attention_heads": 4, "max_position_embeddings": 32,
         "layer_norm_eps": 1e-3, "type_vocab_size": 2}
ENCODERS = {"bert": ("bert", SIZES),
            "bert_tanh": ("bert", {**SIZES, "hidden_act": "gelu_pytorch_tanh"})}
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


def main():
    torch.set_num_threads(1)
    transformers.utils.logging.set_verbosity_error()
    transformers.utils.logging.disable_progress_bar()
    os.makedirs(sys.argv[1], exist_ok=True)
    for name, (kind, values) in ENCODERS.items():
        config, shapes = written_of(kind, values)
        families.write(os.path.join(sys.argv[1], name + ".json"), {
            "versions": {"transformers": transformers.__version__, "torch": torch.__version__},
            "config": config, "rules": {}, "tensors": shapes,
            "sequences": list(sequences_of(config, shapes)), **gguf_of(config, shapes)})
        print(name)


if __name__ == "__main__":
    main()
