"""Merged and quantised models of clora in llama.cpp, transformers and the package gguf."""
import json
import os
import pathlib
import subprocess

import gguf
import numpy
import pytest
from clear_prompts import COUNT, clear_prompts
from conftest import VARIANTS, Sizes, relative_difference
from peer_programs import python_of
from safetensors.numpy import load_file

# A choice between two tokens whose logits differ by less may fall to either by the rounding of f32
# sums, of keys and values to 16 bits, or, with quantised weights, of llama.cpp's activations to 8
# bits.
LEAST_MARGIN = {"f32": 1e-3, "f16": 3e-2, "bf16": 3e-2}
QUANTISED_MARGIN = 0.25
SPECIAL = ["plain", "rslora", "alpha_pattern"]


@pytest.fixture(scope="module")
def folder(models):
    return models / "tinystories-656k"


@pytest.fixture(scope="module")
def sizes(folder):
    return Sizes.of_folder(folder)


def fuse(run_clora, model, adapter, out, *more):
    return run_clora("fuse", "--model", model, "--adapter", adapter, "--out", out, *more)[0]


@pytest.mark.parametrize("base", ["folder", "gguf"])
@pytest.mark.parametrize("dtype", ["f32", "f16", "bf16"])
@pytest.mark.parametrize("name", SPECIAL)
def test_llama_cpp_generates_what_base_and_adapter_do(name, dtype, base, folder, sizes, clora,
                                                      run_clora, llama_cpp, write_adapter, tmp_path):
    path = folder if base == "folder" else folder / "gguf-derived/TinyStories-656K-F32.gguf"
    adapter = write_adapter(tmp_path / "peft", sizes, VARIANTS[name])
    done = fuse(run_clora, path, adapter, tmp_path / "m.gguf", "--type", dtype)
    assert dtype != "f32" or done["equal_greedy_tokens"] == done["greedy_tokens"]
    model = clora.model(path)
    prompts, replies = clear_prompts(model, sizes.vocabulary, LEAST_MARGIN[dtype], adapter)
    assert replies != model.greedy(prompts, COUNT)  # the adapter matters
    assert clora.model(tmp_path / "m.gguf").greedy(prompts, COUNT) == replies
    assert llama_cpp.greedy(tmp_path / "m.gguf", prompts, COUNT) == replies


@pytest.mark.parametrize("name", SPECIAL)
@pytest.mark.parametrize("dtype", ["q8_0", "q6_k", "q4_k", "q4_0"])
def test_llama_cpp_and_clora_generate_the_same_of_a_quantised_model(
        dtype, name, folder, sizes, clora, run_clora, llama_cpp, write_adapter, tmp_path):
    adapter = write_adapter(tmp_path / "peft", sizes, VARIANTS[name], size=0.1)
    fuse(run_clora, folder, adapter, tmp_path / "m.gguf", "--type", dtype)
    prompts, replies = clear_prompts(clora.model(tmp_path / "m.gguf"), sizes.vocabulary,
                                     QUANTISED_MARGIN, count=8)
    assert llama_cpp.greedy(tmp_path / "m.gguf", prompts, 8) == replies


@pytest.mark.parametrize("stored", ["Q8_0", "Q4_0"])
def test_llama_cpp_loads_a_quantised_base_with_a_merged_adapter(stored, folder, sizes, clora,
                                                               run_clora, llama_cpp, write_adapter,
                                                               tmp_path):
    base = folder / f"gguf-derived/TinyStories-656K-{stored}.gguf"
    adapter = write_adapter(tmp_path / "peft", sizes, VARIANTS["rslora"], size=0.1)
    fuse(run_clora, base, adapter, tmp_path / "m.gguf")
    prompts, replies = clear_prompts(clora.model(tmp_path / "m.gguf"), sizes.vocabulary,
                                     QUANTISED_MARGIN, count=8)
    assert llama_cpp.greedy(tmp_path / "m.gguf", prompts, 8) == replies


@pytest.mark.parametrize("dtype", ["f32", "f16", "bf16", "q8_0", "q6_k", "q5_k", "q4_k", "q5_1",
                                   "q5_0", "q4_1", "q4_0"])
def test_gguf_reads_every_type(dtype, folder, run_clora, tmp_path):
    out = tmp_path / "m.gguf"
    run_clora("quantize", "--model", folder, "--type", dtype, "--out", out)
    reader = gguf.GGUFReader(out)
    values = {name: field.contents() for name, field in reader.fields.items()}
    assert values["general.architecture"] == "llama"
    assert values["tokenizer.ggml.tokens"][:3] == ["<unk>", "<|start_story|>", "<|end_story|>"]
    stored = load_file(folder / "model.safetensors")
    for tensor in reader.tensors:
        assert len(tensor.name) <= 63
        if tensor.name != "blk.1.ffn_down.weight":
            continue
        want = stored["model.layers.1.mlp.down_proj.weight"]
        got = gguf.quants.dequantize(tensor.data, tensor.tensor_type).reshape(want.shape)
        error = numpy.sqrt(numpy.mean((got - want) ** 2) / numpy.mean(want ** 2))
        assert error < {"f32": 1e-9, "f16": 1e-3, "bf16": 5e-3, "q8_0": 1e-2}.get(dtype, 0.15)


@pytest.fixture(scope="module")
def transformers_logits():
    """Logits of folders after token ids."""
    python = python_of("torch")
    if python is None:
        pytest.skip("the peer torch is not installed; tools/setup/install_peers torch does that")

    def run(folder, ids, out):
        script = pathlib.Path(__file__).parent / "peers/transformers_logits.py"
        job = [{"model": str(folder), "ids": ids, "logits": str(out)}]
        environment = {k: v for k, v in os.environ.items() if k != "PYTHONPATH"}
        done = subprocess.run([python, script], input=json.dumps(job), capture_output=True,
                              text=True, check=False, timeout=600, env=environment)
        assert done.returncode == 0, done.stderr[-4000:]
        return numpy.load(out)
    return run


@pytest.mark.parametrize("name", SPECIAL)
@pytest.mark.parametrize(("dtype", "tolerance"), [("f32", 1e-4), ("f16", 5e-3), ("bf16", 3e-2)])
def test_transformers_loads_merged_safetensors(dtype, tolerance, name, models, clora, run_clora,
                                               transformers_logits, write_adapter, tmp_path):
    for base in ("tinystories-656k", "tiny_llama3", "tiny_qwen3"):
        path, ids = models / base, [1, 5, 17, 40, 8, 3]
        sizes = Sizes.of_folder(path)
        adapter = write_adapter(tmp_path / base / "peft", sizes, VARIANTS[name])
        fuse(run_clora, path, adapter, tmp_path / base / "m", "--type", dtype,
             "--max-shard-size", "200KB")
        assert (tmp_path / base / "m/model.safetensors.index.json").exists() or dtype != "f32"
        got = transformers_logits(tmp_path / base / "m", ids, tmp_path / base / "logits.npy")
        want = clora.model(path).logits(ids, sizes.vocabulary, adapter)
        assert relative_difference(got, want) < tolerance
