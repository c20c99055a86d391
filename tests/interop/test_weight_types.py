"""Weights that other programs quantised: their models have the logits that these programs compute,
and GGUF blocks of every type the values of the package gguf."""
import json
import os
import pathlib
import subprocess

import gguf
import numpy
import pytest
from peer_programs import python_of
from safetensors.numpy import load_file, save_file

IDS = [1, 57, 400, 9, 1200, 33, 33, 7, 800, 2]
VOCABULARY = 2048
HIDDEN, HEADS, TOKENS = 256, 4, 64
# The offsets of the f16 scales in a block; all other bytes are random.
SCALES = {"Q2_K": [80, 82], "Q3_K": [108], "IQ4_NL": [0], "IQ4_XS": [0], "MXFP4": [],
          "TQ1_0": [52], "TQ2_0": [64], "Q4_K": [0, 2], "Q6_K": [208]}


@pytest.fixture(scope="module")
def bitsandbytes():
    """Runs jobs of peers/bitsandbytes_jobs.py."""
    python = python_of("torch")
    missing = python is None or subprocess.run([python, "-c", "import bitsandbytes, accelerate"],
                                               capture_output=True, check=False).returncode != 0
    if missing:
        pytest.skip("the peer torch has no bitsandbytes; tools/setup/install_peers torch installs it")
    script = pathlib.Path(__file__).parent / "peers" / "bitsandbytes_jobs.py"

    def run(jobs):
        environment = {k: v for k, v in os.environ.items() if k != "PYTHONPATH"}
        done = subprocess.run([python, script], input=json.dumps(jobs), capture_output=True,
                              text=True, check=False, timeout=600, env=environment)
        assert done.returncode == 0, done.stderr[-4000:]
    return run


@pytest.mark.parametrize("nested", [False, True])
def test_nf4_models_have_the_logits_of_transformers(models, clora, bitsandbytes, tmp_path, nested):
    saved, logits = tmp_path / "nf4", tmp_path / "logits.npy"
    bitsandbytes([{"model": str(models / "tinystories-656k"), "save": str(saved), "ids": IDS,
                   "nested": nested, "logits": str(logits)}])
    names = load_file(saved / "model.safetensors").keys()
    assert any(name.endswith("quant_state.bitsandbytes__nf4") for name in names)
    want = numpy.load(logits)
    got = clora.model(saved).logits(IDS, VOCABULARY)
    assert numpy.abs(got - want).max() <= 1e-4 * numpy.abs(want).max()
    assert numpy.array_equal(got.argmax(1), want.argmax(1))


def random_blocks(name, rows, columns, generator):
    kind = gguf.GGMLQuantizationType[name]
    elements, size = gguf.GGML_QUANT_SIZES[kind]
    blocks = generator.integers(0, 256, (rows * columns // elements, size), dtype=numpy.uint8)
    for offset in SCALES[name]:
        halves = generator.uniform(1 / 512, 1 / 256, len(blocks)).astype(numpy.float16)
        blocks[:, offset:offset + 2] = halves.view(numpy.uint8).reshape(-1, 2)
    if name == "MXFP4":
        blocks[:, 0] = generator.integers(118, 122, len(blocks))
    return blocks.reshape(rows, -1)


def write_llama(path, kind, generator):
    """A Llama of one layer, whose linear layers are random blocks, without a tokenizer. Returns the
    blocks by their names."""
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_block_count(1)
    writer.add_context_length(64)
    writer.add_embedding_length(HIDDEN)
    writer.add_feed_forward_length(HIDDEN)
    writer.add_head_count(HEADS)
    writer.add_head_count_kv(HEADS)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_rope_freq_base(10000.0)
    embeddings = generator.standard_normal((TOKENS, HIDDEN)).astype(numpy.float32)
    writer.add_tensor("token_embd.weight", embeddings)
    for name in ("output_norm", "blk.0.attn_norm", "blk.0.ffn_norm"):
        writer.add_tensor(f"{name}.weight", numpy.ones(HIDDEN, numpy.float32))
    blocks = {}
    for name in ("attn_q", "attn_k", "attn_v", "attn_output", "ffn_gate", "ffn_up", "ffn_down"):
        blocks[name] = random_blocks(kind, HIDDEN, HIDDEN, generator)
        writer.add_tensor(f"blk.0.{name}.weight", blocks[name],
                          raw_dtype=gguf.GGMLQuantizationType[kind])
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return blocks


def write_empty_adapter(folder):
    folder.mkdir()
    (folder / "adapter_config.json").write_text(json.dumps(
        {"peft_type": "LORA", "r": 1, "lora_alpha": 1, "target_modules": ["o_proj"]}))
    prefix = "base_model.model.model.layers.0.self_attn.o_proj"
    save_file({f"{prefix}.lora_A.weight": numpy.ones((1, HIDDEN), numpy.float32),
               f"{prefix}.lora_B.weight": numpy.zeros((HIDDEN, 1), numpy.float32)},
              folder / "adapter_model.safetensors")
    return folder


@pytest.mark.parametrize("kind", sorted(SCALES))
def test_gguf_blocks_have_the_values_of_the_package_gguf(clora, run_clora, tmp_path, kind):
    model, fused = tmp_path / "model.gguf", tmp_path / "fused"
    blocks = write_llama(model, kind, numpy.random.default_rng(5))
    adapter = write_empty_adapter(tmp_path / "adapter")
    run_clora("fuse", "--model", model, "--adapter", adapter, "--out", fused)
    values = load_file(fused / "model.safetensors")
    for gguf_name, name in (("attn_v", "self_attn.v_proj"), ("attn_output", "self_attn.o_proj"),
                            ("ffn_up", "mlp.up_proj"), ("ffn_down", "mlp.down_proj")):
        want = gguf.quants.dequantize(blocks[gguf_name], gguf.GGMLQuantizationType[kind])
        assert numpy.array_equal(values[f"model.layers.0.{name}.weight"], want), name
    ids = [3, 9, 60, 1, 1, 22]
    want = clora.model(fused).logits(ids, TOKENS)
    got = clora.model(model).logits(ids, TOKENS)
    assert numpy.abs(got - want).max() <= 1e-4 * numpy.abs(want).max()
