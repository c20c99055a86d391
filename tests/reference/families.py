#!/usr/bin/env python3
"""Logits and LoRA steps of tiny random models of each family, computed with transformers and peft.

usage: families.py OUT_FOLDER [NAME...]

Writes OUT_FOLDER/NAME.json for each family, or for the named ones; the results are stored in
tests/reference/families/. Everything is float32 on the CPU with eager attention.

Weights are not stored. A tensor of a checkpoint is filled by its name in the safetensors file:
std::mt19937 seeded with the 32-bit FNV-1a hash of the name; element i in row-major order is
0.3f * ((u32 >> 8) * 2^-23 - 1), and 1 is added if the name contains "norm". No family needs other
values, so "rules" is empty everywhere.

A file has
  versions, config, rules
  tensors       the shapes in the checkpoint by name; a tied head isn't stored
  sequences     ids (i * 37 + 11) % vocab and logits of lengths 1, 13 and, where the rope depends on
                the length, a third; of more than 20 positions only the last 2 have logits
  gguf          metadata as llama.cpp's convert_hf_to_gguf.py writes it. A JSON integer is UINT32, a
                number with a point or exponent FLOAT32; lists hold INT32 or BOOL
  gguf_tensors  the GGUF name of each tensor of the checkpoint
  gguf_notes    what the converter does with values, all tensors by their names in the checkpoint:
      permute        {name: heads}: rows of each head from halves to pairs, w.reshape(heads, 2,
                     rows / heads / 2, ...).swapaxes(1, 2)
      add_one        1 is added to these
      negative_exp   x becomes -exp(x)
      squeeze        the dimension of size 1 is removed
      value_heads    {name: [dimension, first, key heads, value heads per key head, size]}: from
                     index "first" of the dimension, heads change from the order (key head, number)
                     to (number, key head); before all the others
      stack          tensors with the same GGUF name are stacked by the number of the expert
      extra_tensors  {GGUF name: values} of tensors that the checkpoint doesn't have
      unsaid         what a reader can't learn from the GGUF file
      text           anything else
  peft          10 steps of LoRA on the linear layers of the blocks with these endings, experts and
                routers not among them. A[i][j] = 0.02 * sin(0.37 * i + 0.11 * j + number of the
                block), computed in double, and B = 0. Each step has the same documents d = 0, 1 of
                11 and 9 tokens (i * 37 + 11 + 5 * d) % vocab, computed one by one; the loss is the
                mean over all tokens but the first of each document. AdamW with betas 0.9 and 0.999,
                eps 1e-8, no weight decay and no clipping; "loss" and "grad_norm", the L2 norm of
                the gradients of all A and B, are before each update. Those of qwen3_5_text are
                computed in float64: with float32, rounding changes its norm of step 8 by 3.5e-4.
                With output_router_logits, both documents are one padded batch, and the loss is
                transformers' own, with that of the load of experts times router_aux_loss_coef

Each family names changes of settings: the script fails if one of them doesn't change its logits.
"""
import copy
import json
import math
import os
import re
import sys
import tempfile
import warnings

import numpy as np
import peft
import torch
import transformers
from safetensors import safe_open
from safetensors.numpy import save_file

VOCAB = 67
ATTENTION = ["q_proj", "k_proj", "v_proj", "o_proj"]
DENSE = ATTENTION + ["gate_proj", "up_proj", "down_proj"]
TRAINED_IN_DOUBLE = ["qwen3_5_text"]
FUSED = ["qkv_proj", "o_proj", "gate_up_proj", "down_proj"]
SLIDING, FULL = "sliding_attention", "full_attention"


def settings(**changes):
    result = {"vocab_size": VOCAB, "hidden_size": 24, "intermediate_size": 40,
              "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2,
              "max_position_embeddings": 128, "rms_norm_eps": 1e-3, "bos_token_id": 1,
              "eos_token_id": 2, "pad_token_id": None, "tie_word_embeddings": False}
    return {**result, **changes}


def without(key, values):
    return {name: value for name, value in values.items() if name != key}


def rope(kind="default", theta=100.0, **changes):
    return {"rope_type": kind, "rope_theta": theta, **changes}


def moe(**changes):
    return settings(head_dim=8, num_experts=8, num_experts_per_tok=3, moe_intermediate_size=20,
                    rope_parameters=rope(), **changes)


def changed(name, **changes):
    """A function of a configuration that returns it with a changed dictionary `name`."""
    return lambda config: {name: {**config[name], **changes}}


# Name: model_type, settings, endings of adapted layers in the order in which they are computed,
# length of a third sequence, changes that must matter.
FAMILIES = {
    "llama": ("llama", settings(
        attention_bias=True, mlp_bias=True, max_position_embeddings=1024,
        rope_parameters=rope("llama3", 500.0, factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0,
                             original_max_position_embeddings=128)), DENSE, None, [
        changed("rope_parameters", factor=2.0), changed("rope_parameters", low_freq_factor=2.0),
        changed("rope_parameters", high_freq_factor=2.0),
        changed("rope_parameters", original_max_position_embeddings=256)]),
    "llama_linear": ("llama", settings(
        head_dim=8, rope_parameters=rope("linear", factor=2.0)), DENSE, None, [
        changed("rope_parameters", factor=1.0)]),
    "llama_dynamic": ("llama", settings(
        max_position_embeddings=16, rope_parameters=rope("dynamic", factor=2.0)), DENSE, 29, [
        changed("rope_parameters", factor=1.0), {"max_position_embeddings": 20}]),
    "llama_yarn": ("llama", settings(
        head_dim=8, max_position_embeddings=256,
        rope_parameters=rope("yarn", 50.0, factor=4.0, beta_fast=4.0, beta_slow=1.0,
                             original_max_position_embeddings=64)), DENSE, None, [
        changed("rope_parameters", factor=2.0), changed("rope_parameters", beta_slow=2.0),
        changed("rope_parameters", attention_factor=1.0),
        changed("rope_parameters", truncate=False),
        changed("rope_parameters", original_max_position_embeddings=16)]),
    "qwen2": ("qwen2", settings(
        num_hidden_layers=3, use_sliding_window=True, sliding_window=5, max_window_layers=2,
        layer_types=[FULL, SLIDING, FULL], rope_parameters=rope()), DENSE, None, [
        {"sliding_window": 6}, {"use_sliding_window": False, "layer_types": [FULL] * 3},
        {"layer_types": [FULL, FULL, SLIDING]}]),
    "qwen3": ("qwen3", settings(
        head_dim=8, tie_word_embeddings=True, rope_parameters=rope()), DENSE, None, [
        changed("rope_parameters", rope_theta=50.0)]),
    "mistral": ("mistral", settings(
        head_dim=8, sliding_window=5, rope_parameters=rope()), DENSE, None, [
        {"sliding_window": 6}, {"sliding_window": None}]),
    "smollm3": ("smollm3", settings(
        num_hidden_layers=4, no_rope_layers=[1, 1, 1, 0], no_rope_layer_interval=2,
        use_sliding_window=False, tie_word_embeddings=True, rope_parameters=rope()), DENSE, None, [
        {"no_rope_layers": [1, 1, 1, 1]}, {"no_rope_layers": [1, 0, 1, 0]}]),
    "seed_oss": ("seed_oss", settings(
        head_dim=8, attention_bias=True, attention_out_bias=True, attention_dropout=0.0,
        residual_dropout=0.0, rope_parameters=rope()), DENSE, None, [
        changed("rope_parameters", rope_theta=50.0)]),
    "granite": ("granite", settings(
        tie_word_embeddings=True, embedding_multiplier=1.7, attention_multiplier=0.31,
        residual_multiplier=0.6, logits_scaling=1.9, rope_parameters=rope()), DENSE, None, [
        {"embedding_multiplier": 1.0}, {"attention_multiplier": 1.0}, {"residual_multiplier": 1.0},
        {"logits_scaling": 1.0}]),
    "gemma2": ("gemma2", settings(
        num_hidden_layers=3, head_dim=8, query_pre_attn_scalar=13, sliding_window=5, pad_token_id=0,
        attn_logit_softcapping=3.5, final_logit_softcapping=4.5, tie_word_embeddings=True,
        layer_types=[SLIDING, FULL, SLIDING], rope_parameters=rope(theta=10000.0)), DENSE, None, [
        {"query_pre_attn_scalar": 8}, {"sliding_window": 6}, {"attn_logit_softcapping": 7.0},
        {"final_logit_softcapping": 9.0}, {"layer_types": [SLIDING] * 3}]),
    "gemma3_text": ("gemma3_text", settings(
        num_hidden_layers=3, head_dim=8, query_pre_attn_scalar=13, sliding_window=5, pad_token_id=0,
        tie_word_embeddings=True, layer_types=[SLIDING, SLIDING, FULL],
        rope_parameters={SLIDING: rope(theta=50.0), FULL: rope("linear", 1000.0, factor=2.0)}),
        DENSE, None, [
        {"query_pre_attn_scalar": 8}, {"sliding_window": 6}, {"layer_types": [SLIDING] * 3},
        changed("rope_parameters", **{SLIDING: rope(theta=100.0)}),
        changed("rope_parameters", **{FULL: rope("linear", 1000.0, factor=1.0)}),
        changed("rope_parameters", **{FULL: rope("linear", 500.0, factor=2.0)})]),
    "phi3": ("phi3", settings(
        sliding_window=5, original_max_position_embeddings=128,
        rope_parameters=rope(partial_rotary_factor=1.0)), FUSED, None, [
        {"sliding_window": 6}, {"sliding_window": None},
        changed("rope_parameters", rope_theta=50.0)]),
    "phi4_mini": ("phi3", settings(
        hidden_size=32, tie_word_embeddings=True, max_position_embeddings=80,
        original_max_position_embeddings=20,
        rope_parameters=rope("longrope", partial_rotary_factor=0.75, short_factor=[1.0, 1.3, 1.9],
                             long_factor=[1.1, 2.7, 3.9])), FUSED, 21, [
        changed("rope_parameters", short_factor=[1.0, 1.3, 1.8]),
        changed("rope_parameters", long_factor=[1.1, 2.7, 3.8]),
        changed("rope_parameters", attention_factor=1.0),
        {"max_position_embeddings": 40}]),
    "ministral3": ("ministral3", settings(
        head_dim=8, max_position_embeddings=32,
        rope_parameters=rope("yarn", 50.0, factor=4.0, original_max_position_embeddings=8,
                             beta_fast=4.0, beta_slow=0.25, mscale=1.0, mscale_all_dim=1.0,
                             llama_4_scaling_beta=0.3)), DENSE, 21, [
        changed("rope_parameters", llama_4_scaling_beta=0.0),
        changed("rope_parameters", factor=2.0),
        changed("rope_parameters", beta_slow=0.5), changed("rope_parameters", mscale=2.0)]),
    "qwen3_moe": ("qwen3_moe", moe(norm_topk_prob=True), ATTENTION, None, [
        {"norm_topk_prob": False}, {"num_experts_per_tok": 2}]),
    "qwen3_moe_plain": ("qwen3_moe", moe(norm_topk_prob=False), ATTENTION, None, [
        {"norm_topk_prob": True}, {"num_experts_per_tok": 2}]),
    "mixtral": ("mixtral", settings(
        head_dim=8, num_local_experts=4, num_experts_per_tok=2, sliding_window=None,
        rope_parameters=rope()), ATTENTION, None, [
        {"num_experts_per_tok": 1}, {"num_experts_per_tok": 3}]),
    "qwen3_moe_balanced": ("qwen3_moe", moe(
        norm_topk_prob=True, output_router_logits=True, router_aux_loss_coef=0.5), ATTENTION, None,
        [{"num_experts_per_tok": 2}]),
    "mixtral_balanced": ("mixtral", settings(
        head_dim=8, num_local_experts=4, num_experts_per_tok=2, sliding_window=None,
        output_router_logits=True, router_aux_loss_coef=0.5, rope_parameters=rope()), ATTENTION,
        None, [{"num_experts_per_tok": 1}]),
    "lfm2": ("lfm2", without("rms_norm_eps", settings(
        num_hidden_layers=4, intermediate_size=60, norm_eps=1e-3, tie_word_embeddings=True,
        conv_L_cache=3, conv_bias=False, block_auto_adjust_ff_dim=True, block_multiple_of=8,
        block_ffn_dim_multiplier=1.0, layer_types=["conv", FULL, "conv", FULL],
        rope_parameters=rope())),
        ["in_proj", "q_proj", "k_proj", "v_proj", "out_proj", "w1", "w3", "w2"], None, [
        {"norm_eps": 1e-5}, changed("rope_parameters", rope_theta=50.0)]),
    "qwen3_5_text": ("qwen3_5_text", settings(
        num_hidden_layers=4, hidden_size=32, head_dim=8, linear_conv_kernel_dim=4,
        linear_key_head_dim=6, linear_value_head_dim=6, linear_num_key_heads=2,
        linear_num_value_heads=4, layer_types=["linear_attention"] * 3 + [FULL],
        rope_parameters=rope(partial_rotary_factor=0.5, mrope_interleaved=True,
                             mrope_section=[1, 1, 0])),
        ["in_proj_qkv", "in_proj_z", "in_proj_b", "in_proj_a", "out_proj"] + DENSE, None, [
        changed("rope_parameters", partial_rotary_factor=1.0),
        changed("rope_parameters", rope_theta=50.0), {"rms_norm_eps": 1e-5}]),
}


def fnv1a(name):
    value = 2166136261
    for byte in name.encode():
        value = (value ^ byte) * 16777619 % 2 ** 32
    return value


def raw_numbers(seed, count):
    generator = np.random.MT19937()
    generator._legacy_seeding(seed)
    return generator.random_raw(count)


def values_of(name, shape):
    raw = raw_numbers(fnv1a(name), math.prod(shape))
    unit = (raw >> 8).astype(np.float32) * np.float32(2.0 ** -23) - np.float32(1)
    return (np.float32(0.3) * unit + np.float32("norm" in name)).reshape(shape)


def config_of(kind, values):
    return transformers.AutoConfig.for_model(kind, **copy.deepcopy(values))


def shapes_of(path):
    with safe_open(path, "np") as file:
        return {name: list(file.get_slice(name).get_shape()) for name in sorted(file.keys())}


def saved(config):
    """config.json and the shapes of the tensors as save_pretrained writes them."""
    model = transformers.AutoModelForCausalLM.from_config(config)
    with tempfile.TemporaryDirectory() as folder:
        model.save_pretrained(folder)
        with open(os.path.join(folder, "config.json"), encoding="utf-8") as file:
            written = json.load(file)
        shapes = shapes_of(os.path.join(folder, "model.safetensors"))
    written.pop("transformers_version")
    return written, shapes


def write_checkpoint(folder, written, shapes):
    with open(os.path.join(folder, "config.json"), "w", encoding="utf-8") as file:
        json.dump(written, file)
    save_file({name: values_of(name, shape) for name, shape in shapes.items()},
              os.path.join(folder, "model.safetensors"), {"format": "pt"})


def model_of(written, shapes):
    with tempfile.TemporaryDirectory() as folder:
        write_checkpoint(folder, written, shapes)
        model, report = transformers.AutoModelForCausalLM.from_pretrained(
            folder, dtype=torch.float32, attn_implementation="eager", output_loading_info=True)
    wrong = {key: value for key, value in report.items() if value}
    if wrong:
        raise RuntimeError(f"{written['model_type']}: {wrong}")
    if any(".experts." in name for name in shapes):
        model.set_experts_implementation("eager")
    return model.eval()


def logits_of(model, ids):
    with torch.no_grad():
        return model(input_ids=torch.tensor([ids]), use_cache=False).logits[0]


def sequences_of(model, extra_length):
    result = []
    for length in [1, 13] + ([extra_length] if extra_length else []):
        ids = [(i * 37 + 11) % VOCAB for i in range(length)]
        rows = logits_of(model, ids).tolist()
        result.append({"ids": ids, "logits": rows if length <= 20 else rows[-2:]})
    return result


def check_matters(name, sequences):
    """Each change of the settings must change the last logits of at least one sequence."""
    kind, values, _, _, changes = FAMILIES[name]
    for change in changes:
        change = change(values) if callable(change) else change
        written, shapes = saved(config_of(kind, {**values, **change}))
        model = model_of(written, shapes)
        most = max(np.abs(logits_of(model, sequence["ids"])[-1].numpy()
                          - np.array(sequence["logits"][-1])).max() for sequence in sequences)
        if not most > 1e-3:
            raise RuntimeError(f"{name}: {change} changes the logits by {most} only")


def block_of(name):
    return int(re.search(r"layers\.(\d+)\.", name).group(1))


def adapted(model, targets):
    linear = {name.rpartition(".")[2] for name, module in model.named_modules()
              if isinstance(module, torch.nn.Linear) and ".layers." in f".{name}"}
    if linear != set(targets):
        raise RuntimeError(f"the linear layers are {sorted(linear)}, not {targets}")
    model = peft.get_peft_model(model, peft.LoraConfig(
        r=3, lora_alpha=6, lora_dropout=0.0, target_modules=list(targets), task_type="CAUSAL_LM"))
    set_first_matrices(model)
    return model


def set_first_matrices(model, dtype=np.float32):
    """A[i][j] = 0.02 * sin(0.37 * i + 0.11 * j + number of the block), rounded to dtype; B = 0."""
    for name, value in model.named_parameters():
        if ".lora_A." in name:
            i, j = np.indices(tuple(value.shape), dtype=np.float64)
            start = 0.02 * np.sin(0.37 * i + 0.11 * j + block_of(name))
            value.data.copy_(torch.from_numpy(start.astype(dtype)))
        elif ".lora_B." in name:
            value.data.zero_()


def document(number):
    return [(i * 37 + 11 + 5 * number) % VOCAB for i in range([11, 9][number])]


def loss_of(model):
    """The loss; its gradients are added to those of the parameters."""
    documents = [document(0), document(1)]
    count, total = sum(len(ids) - 1 for ids in documents), 0.0
    for ids in documents:
        ids = torch.tensor([ids])
        logits = model(input_ids=ids, use_cache=False).logits[0, :-1]
        loss = torch.nn.functional.cross_entropy(logits, ids[0, 1:], reduction="sum") / count
        loss.backward()
        total += loss.item()
    return total


def balanced_loss_of(model):
    """As loss_of(), with the loss that balances the load of experts."""
    documents = [document(0), document(1)]
    length = max(len(ids) for ids in documents)
    padded = [ids + [0] * (length - len(ids)) for ids in documents]
    mask = torch.tensor([[1] * len(ids) + [0] * (length - len(ids)) for ids in documents])
    ids = torch.tensor(padded)
    result = model(input_ids=ids, attention_mask=mask, labels=ids.masked_fill(mask == 0, -100),
                   use_cache=False)
    result.loss.backward()
    return result.loss.item()


def ten_steps(model, rate=1e-2, loss=loss_of):
    """Trains what requires gradients by AdamW; the loss and the norm are before each update."""
    model.train()
    parameters = [value for value in model.parameters() if value.requires_grad]
    optimizer = torch.optim.AdamW(parameters, lr=rate, betas=(0.9, 0.999), eps=1e-8,
                                  weight_decay=0.0)
    losses, norms = [], []
    for _ in range(10):
        optimizer.zero_grad()
        losses.append(loss(model))
        norms.append(math.sqrt(sum(float(value.grad.double().square().sum())
                                   for value in parameters)))
        optimizer.step()
    return {"lr": rate, "loss": losses, "grad_norm": norms}


def lora_steps(model, targets):
    is_balanced = getattr(model.config, "output_router_logits", False)
    steps = ten_steps(adapted(model, targets), loss=balanced_loss_of if is_balanced else loss_of)
    return {"target_modules": list(targets), "rank": 3, "alpha": 6, **steps}


def rounded(value):
    """To the nine digits that tell floats apart."""
    if isinstance(value, float):
        return float(f"{value:.9g}")
    if isinstance(value, list):
        return [rounded(each) for each in value]
    if isinstance(value, dict):
        return {key: rounded(each) for key, each in value.items()}
    return value


def versions():
    return {"transformers": transformers.__version__, "torch": torch.__version__,
            "peft": peft.__version__}


def with_doubles(model, steps):
    """steps() with the model's own source in float64, where it casts to float32 by name."""
    module = sys.modules[type(model).__module__]
    with open(module.__file__, encoding="utf-8") as file:
        source = re.sub(r"torch\.float(32)?\b", "torch.float64", file.read())
    exec(compile(source.replace(".float()", ".double()"), module.__file__, "exec"), vars(module))
    torch.set_default_dtype(torch.float64)
    result = steps()
    torch.set_default_dtype(torch.float32)
    return result


ARCHITECTURES = {"mistral": "llama", "mixtral": "llama", "gemma3_text": "gemma3",
                 "ministral3": "mistral3", "qwen3_moe": "qwen3moe", "qwen3_5_text": "qwen35"}
LLAMA_LIKE = ["llama", "mistral", "mixtral", "smollm3", "granite", "ministral3"]
GGUF_NAMES = {
    "model.embed_tokens": "token_embd", "model.embedding_norm": "token_embd_norm",
    "model.norm": "output_norm", "lm_head": "output",
    "input_layernorm": "attn_norm", "operator_norm": "attn_norm", "ffn_norm": "ffn_norm",
    "post_attention_layernorm": "ffn_norm", "pre_feedforward_layernorm": "ffn_norm",
    "post_feedforward_layernorm": "post_ffw_norm",
    "self_attn.q_proj": "attn_q", "self_attn.k_proj": "attn_k", "self_attn.v_proj": "attn_v",
    "self_attn.qkv_proj": "attn_qkv", "self_attn.o_proj": "attn_output",
    "self_attn.out_proj": "attn_output", "self_attn.q_norm": "attn_q_norm",
    "self_attn.k_norm": "attn_k_norm", "self_attn.q_layernorm": "attn_q_norm",
    "self_attn.k_layernorm": "attn_k_norm",
    "mlp.gate_proj": "ffn_gate", "mlp.up_proj": "ffn_up", "mlp.down_proj": "ffn_down",
    "mlp.gate_up_proj": "ffn_up", "feed_forward.w1": "ffn_gate", "feed_forward.w3": "ffn_up",
    "feed_forward.w2": "ffn_down",
    "mlp.gate": "ffn_gate_inp", "mlp.experts.gate_proj": "ffn_gate_exps",
    "mlp.experts.up_proj": "ffn_up_exps", "mlp.experts.down_proj": "ffn_down_exps",
    "block_sparse_moe.gate": "ffn_gate_inp", "block_sparse_moe.experts.w1": "ffn_gate_exps",
    "block_sparse_moe.experts.w3": "ffn_up_exps", "block_sparse_moe.experts.w2": "ffn_down_exps",
    "conv.conv": "shortconv.conv", "conv.in_proj": "shortconv.in_proj",
    "conv.out_proj": "shortconv.out_proj",
    "linear_attn.in_proj_qkv": "attn_qkv", "linear_attn.in_proj_z": "attn_gate",
    "linear_attn.in_proj_a": "ssm_alpha", "linear_attn.in_proj_b": "ssm_beta",
    "linear_attn.conv1d": "ssm_conv1d", "linear_attn.norm": "ssm_norm",
    "linear_attn.out_proj": "ssm_out", "linear_attn.A_log": "ssm_a",
    "linear_attn.dt_bias": "ssm_dt.bias"}
UNSAID = {
    "llama_dynamic": ["the type and the factor of the rope: readers take the default rope"],
    "qwen2": ["sliding_window and layer_types: readers take full attention everywhere"],
    "mistral": ["sliding_window: readers take full attention"],
    "smollm3": ["no_rope_layers: readers take every 4th layer without rope, as is the case here"],
    "gemma2": ["query_pre_attn_scalar: readers take head_dim",
               "rope_theta: readers take 10000, as is the case here",
               "layer_types: readers take every 2nd layer as full, as is the case here"],
    "gemma3_text": ["query_pre_attn_scalar: readers take head_dim",
                    "layer_types: readers take every 6th layer as full, so all of these slide"],
    "phi3": ["llama.cpp reads sliding_window but doesn't use it"],
    "phi4_mini": ["the type of the rope: readers know it by rope_factors_long and _short"],
    "ministral3": ["mscale: readers take 1, as is the case here"],
    "qwen3_moe": ["norm_topk_prob: readers take true, as is the case here"],
    "qwen3_moe_plain": ["norm_topk_prob: readers take true"]}
TEXTS = {
    "llama": ["rope_freqs divide the frequencies"],
    "phi4_mini": ["rope_factors divide the frequencies; rope.scaling.attn_factor is "
                  "sqrt(1 + ln(max / original) / ln(original)), which scales cosines and sines"],
    "gemma3_text": ["rope.scaling applies to layers with full attention only"],
    "qwen3_5_text": ["converted with --no-nextn: without it the converter fails, as this "
                     "checkpoint has no layer for the prediction of further tokens"]}


def gguf_rope(config, parameters, prefix):
    """Metadata on the rope that most converters write."""
    result = {prefix + "rope.freq_base": parameters["rope_theta"]}
    if parameters["rope_type"] in ("linear", "yarn"):
        result[prefix + "rope.scaling.type"] = parameters["rope_type"]
        result[prefix + "rope.scaling.factor"] = parameters["factor"]
    if parameters["rope_type"] == "yarn":
        result[prefix + "rope.scaling.original_context_length"] = \
            parameters["original_max_position_embeddings"]
        for key in ("beta_fast", "beta_slow"):
            result[prefix + "rope.scaling.yarn_" + key] = parameters[key]
    if SLIDING in config["rope_parameters"]:
        result[prefix + "rope.freq_base_swa"] = config["rope_parameters"][SLIDING]["rope_theta"]
    if "mrope_section" in parameters:
        sections = parameters["mrope_section"]
        result[prefix + "rope.dimension_sections"] = sections + [0] * (4 - len(sections))
    return result


def longrope_factor(config):
    scale = config["max_position_embeddings"] / config["original_max_position_embeddings"]
    return math.sqrt(1 + math.log(scale) / math.log(config["original_max_position_embeddings"]))


def gguf_special(config, parameters, head_size):
    """Metadata, without the prefix, that only some converters write."""
    kind, result = config["model_type"], {}
    if kind in LLAMA_LIKE:
        result.update({"vocab_size": config["vocab_size"], "rope.dimension_count": head_size})
    if kind == "granite":
        result.update({"attention.scale": config["attention_multiplier"],
                       "embedding_scale": config["embedding_multiplier"],
                       "residual_scale": config["residual_multiplier"],
                       "logit_scale": config["logits_scaling"]})
    if kind == "gemma2":
        result.update({"attn_logit_softcapping": config["attn_logit_softcapping"],
                       "final_logit_softcapping": config["final_logit_softcapping"]})
    if kind in ("gemma2", "gemma3_text"):
        result["attention.sliding_window"] = config["sliding_window"]
    if kind == "phi3":
        result.update({
            "rope.scaling.original_context_length": config["original_max_position_embeddings"],
            "rope.dimension_count": int(head_size * parameters["partial_rotary_factor"]),
            "attention.sliding_window": config["sliding_window"] or 0})
        if parameters["rope_type"] == "longrope":
            result["rope.scaling.attn_factor"] = longrope_factor(config)
    if kind == "ministral3":
        result.update({"rope.scaling.yarn_log_multiplier": parameters["mscale_all_dim"],
                       "attention.temperature_scale": parameters["llama_4_scaling_beta"]})
    if "num_local_experts" in config:
        result.update({"expert_count": config["num_local_experts"],
                       "expert_used_count": config["num_experts_per_tok"]})
    if kind == "qwen3_moe":
        result["expert_feed_forward_length"] = config["moe_intermediate_size"]
    if kind == "lfm2":
        multiple = config["block_multiple_of"]
        width = int(config["block_ffn_dim_multiplier"] * int(2 * config["intermediate_size"] / 3))
        result.update({
            "vocab_size": config["vocab_size"], "shortconv.l_cache": config["conv_L_cache"],
            "attention.head_count_kv": [config["num_key_value_heads"] if layer == FULL else 0
                                        for layer in config["layer_types"]],
            "feed_forward_length": -(-width // multiple) * multiple})
    if kind == "qwen3_5_text":
        value_heads = config["linear_num_value_heads"]
        result.update({
            "ssm.conv_kernel": config["linear_conv_kernel_dim"],
            "ssm.state_size": config["linear_key_head_dim"],
            "ssm.group_count": config["linear_num_key_heads"], "ssm.time_step_rank": value_heads,
            "ssm.inner_size": config["linear_value_head_dim"] * value_heads,
            "attention.recurrent_layers": [layer != FULL for layer in config["layer_types"]],
            "full_attention_interval": 4,
            "rope.dimension_count": int(head_size * parameters["partial_rotary_factor"])})
    return result


def gguf_metadata(config):
    kind = config["model_type"]
    prefix = ARCHITECTURES.get(kind, kind) + "."
    parameters = config["rope_parameters"].get(FULL, config["rope_parameters"])
    head_size = config.get("head_dim", config["hidden_size"] // config["num_attention_heads"])
    result = {"general.architecture": prefix[:-1],
              prefix + "block_count": config["num_hidden_layers"],
              prefix + "context_length": config["max_position_embeddings"],
              prefix + "embedding_length": config["hidden_size"],
              prefix + "feed_forward_length": config["intermediate_size"],
              prefix + "attention.head_count": config["num_attention_heads"],
              prefix + "attention.head_count_kv": config["num_key_value_heads"],
              prefix + "attention.layer_norm_rms_epsilon":
                  config.get("rms_norm_eps", config.get("norm_eps"))}
    if "head_dim" in config:
        result[prefix + "attention.key_length"] = head_size
        result[prefix + "attention.value_length"] = head_size
    if kind != "gemma2":
        result.update(gguf_rope(config, parameters, prefix))
    result.update({prefix + key: value
                   for key, value in gguf_special(config, parameters, head_size).items()})
    return result


def gguf_name(kind, name):
    block = re.match(r"model\.layers\.(\d+)\.", name)
    stem, _, suffix = re.sub(r"experts\.\d+", "experts", name[block.end() if block else 0:]) \
        .rpartition(".")
    if suffix not in ("weight", "bias"):
        stem, suffix = f"{stem}.{suffix}", ""
    result = GGUF_NAMES[stem]
    with_post_norm = ("gemma2", "gemma3_text", "qwen3_5_text", "seed_oss")
    if stem == "post_attention_layernorm" and kind in with_post_norm:
        result = "post_attention_norm"
    return (f"blk.{block.group(1)}." if block else "") + result + (suffix and "." + suffix)


def llama3_divisors(config):
    """rope_freqs: what the frequencies are divided by."""
    parameters = config["rope_parameters"]
    low, high = parameters["low_freq_factor"], parameters["high_freq_factor"]
    length = parameters["original_max_position_embeddings"]
    size, result = config["head_dim"], []
    for frequency in 1.0 / parameters["rope_theta"] ** (torch.arange(0, size, 2).float() / size):
        turns = length / (2 * math.pi / frequency)
        smooth = min(max((turns - low) / (high - low), 0.0), 1.0)
        result.append(float(1 / ((1 - smooth) / parameters["factor"] + smooth)))
    return result


def value_heads(config, name):
    """Where the converter of Qwen3.5 reorders the value heads of a tensor."""
    keys = config["linear_num_key_heads"]
    size, last = config["linear_value_head_dim"], name.partition("linear_attn.")[2]
    first = 2 * keys * config["linear_key_head_dim"]
    place = {"in_proj_qkv.weight": (0, first, size), "conv1d.weight": (0, first, size),
             "in_proj_z.weight": (0, 0, size), "out_proj.weight": (1, 0, size),
             "in_proj_a.weight": (0, 0, 1), "in_proj_b.weight": (0, 0, 1), "A_log": (0, 0, 1),
             "dt_bias": (0, 0, 1)}.get(last)
    return place and [place[0], place[1], keys, config["linear_num_value_heads"] // keys, place[2]]


def gguf_notes(name, config, shapes):
    kind, result = config["model_type"], {}
    if kind in LLAMA_LIKE:
        heads = {"q_proj": config["num_attention_heads"], "k_proj": config["num_key_value_heads"]}
        result["permute"] = {tensor: heads[tensor.split(".")[-2]] for tensor in shapes
                             if tensor.split(".")[-2] in heads}
    if kind in ("gemma2", "gemma3_text", "qwen3_5_text"):
        result["add_one"] = [tensor for tensor in shapes if tensor.endswith("norm.weight")
                             and not tensor.endswith("linear_attn.norm.weight")]
    if kind == "qwen3_5_text":
        result["value_heads"] = {tensor: place for tensor in shapes
                                 if (place := value_heads(config, tensor))}
        result["negative_exp"] = [tensor for tensor in shapes if tensor.endswith(".A_log")]
    if any(len(shape) == 3 for shape in shapes.values()):
        result["squeeze"] = [tensor for tensor, shape in shapes.items() if len(shape) == 3]
    if any(".experts." in tensor for tensor in shapes):
        result["stack"] = True
    if name == "llama":
        result["extra_tensors"] = {"rope_freqs.weight": llama3_divisors(config)}
    if name == "phi4_mini":
        result["extra_tensors"] = {f"rope_factors_{length}.weight":
                                   config["rope_parameters"][length + "_factor"]
                                   for length in ("long", "short")}
    return {**result, "unsaid": UNSAID.get(name, []), "text": TEXTS.get(name, [])}


def gguf_of(name, config, shapes):
    return {"gguf": gguf_metadata(config),
            "gguf_tensors": {tensor: gguf_name(config["model_type"], tensor) for tensor in shapes},
            "gguf_notes": gguf_notes(name, config, shapes)}


def text_of(value):
    if isinstance(value, dict):
        return "{" + ", ".join(f"{json.dumps(k)}: {text_of(v)}" for k, v in value.items()) + "}"
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(text_of(item) for item in value) + "]"
    if isinstance(value, float):
        text = format(value, ".9g")
        return text if any(mark in text for mark in ".e") else text + ".0"
    return json.dumps(value)


def write(path, result):
    with open(path, "w", encoding="utf-8") as file:
        file.write("{\n" + ",\n".join(f' {json.dumps(key)}: {text_of(value)}'
                                      for key, value in result.items()) + "\n}\n")


def family(name):
    kind, values, targets, extra_length, _ = FAMILIES[name]
    written, shapes = saved(config_of(kind, values))
    model = model_of(written, shapes)
    sequences = sequences_of(model, extra_length)
    check_matters(name, sequences)
    if kind in TRAINED_IN_DOUBLE:
        peft_values = with_doubles(
            model, lambda: lora_steps(model_of(written, shapes).double(), targets))
    else:
        peft_values = lora_steps(model, targets)
    return {"versions": versions(), "config": written, "rules": {}, "tensors": shapes,
            "sequences": sequences, **gguf_of(name, written, shapes), "peft": peft_values}


def main():
    if raw_numbers(5489, 2).tolist() != [3499211612, 581869302]:
        raise RuntimeError("this numpy seeds its Mersenne Twister differently")
    warnings.simplefilter("ignore", FutureWarning)
    torch.set_num_threads(1)
    torch.use_deterministic_algorithms(True)
    transformers.utils.logging.set_verbosity_error()
    transformers.utils.logging.disable_progress_bar()
    os.makedirs(sys.argv[1], exist_ok=True)
    for name in sys.argv[2:] or FAMILIES:
        write(os.path.join(sys.argv[1], name + ".json"), family(name))
        print(name)


if __name__ == "__main__":
    main()
