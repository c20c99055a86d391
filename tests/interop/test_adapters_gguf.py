"""The package gguf reads the GGUF adapters that clora writes."""
import gguf
import numpy
from conftest import VARIANTS, Sizes
from safetensors.numpy import load_file


def permuted(b, head_dim):
    """B of q or k with the pairs of rope next to each other, as in GGUF files of Llama."""
    heads = b.reshape(-1, 2, head_dim // 2, b.shape[1])
    return heads.swapaxes(1, 2).reshape(b.shape)


def test_gguf_reads_what_clora_writes(models, convert, write_adapter, tmp_path):
    base = models / "tiny_llama3"
    adapter = write_adapter(tmp_path / "peft", Sizes.of_folder(base), VARIANTS["plain"])
    convert(base, adapter, "gguf", tmp_path / "adapter.gguf")
    reader = gguf.GGUFReader(tmp_path / "adapter.gguf")
    values = {name: field.contents() for name, field in reader.fields.items()}
    assert values["general.type"] == "adapter"
    assert values["general.architecture"] == "llama"
    assert values["adapter.type"] == "lora"
    assert values["adapter.lora.alpha"] == 8
    tensors = {tensor.name: tensor.data for tensor in reader.tensors}
    stored = load_file(adapter / "adapter_model.safetensors")
    prefix = "base_model.model.model.layers.1."
    assert len(tensors) == len(stored)
    for name, gguf_name, head_dim in (("self_attn.q_proj", "attn_q", 16),
                                      ("self_attn.k_proj", "attn_k", 16),
                                      ("self_attn.v_proj", "attn_v", 0),
                                      ("mlp.down_proj", "ffn_down", 0)):
        a = stored[f"{prefix}{name}.lora_A.weight"]
        b = stored[f"{prefix}{name}.lora_B.weight"]
        b = permuted(b, head_dim) if head_dim else b
        assert numpy.array_equal(tensors[f"blk.1.{gguf_name}.weight.lora_a"], a)
        assert numpy.array_equal(tensors[f"blk.1.{gguf_name}.weight.lora_b"], b)
