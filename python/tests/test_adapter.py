"""Adapters: configurations, arrays and files."""
import json

import numpy as np
import pytest

import clora

PREFIX = "base_model.model.model.layers.0."


def test_a_new_adapter_does_not_change_the_model(model):
    adapter = clora.create_adapter(model, clora.LoraConfig(r=4))
    ids = [1, 5, 9]
    np.testing.assert_allclose(model.logits(ids, adapter=adapter), model.logits(ids), atol=1e-6)


def test_all_linear_adapts_the_layers_of_the_blocks(model):
    adapter = model.add_adapter(clora.LoraConfig(r=4, lora_alpha=8))
    names = {module["path"].rpartition(".")[2] for module in adapter.modules}
    assert names == {"q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"}
    assert all(module["rank"] == 4 and module["scale"] == 2 for module in adapter.modules)


def test_configurations_mean_what_they_mean_in_peft(model):
    adapter = model.add_adapter(clora.LoraConfig(
        r=4, lora_alpha=8, target_modules=["q_proj", "v_proj"], use_rslora=True,
        layers_to_transform=[1], rank_pattern={"v_proj": 16}, alpha_pattern={"q_proj": 2}))
    modules = {module["path"]: module for module in adapter.modules}
    assert set(modules) == {f"model.layers.1.self_attn.{name}" for name in ("q_proj", "v_proj")}
    assert modules["model.layers.1.self_attn.v_proj"]["rank"] == 16
    assert modules["model.layers.1.self_attn.v_proj"]["scale"] == pytest.approx(8 / 4)
    assert modules["model.layers.1.self_attn.q_proj"]["scale"] == pytest.approx(2 / 2)
    regex = model.add_adapter(clora.LoraConfig(target_modules=r".*\.0\..*q_proj"))
    assert [module["path"] for module in regex.modules] == ["model.layers.0.self_attn.q_proj"]


def test_misspelt_modules_are_refused_with_the_valid_names(model):
    with pytest.raises(ValueError, match="q_proj, .*got 'query_proj'"):
        model.add_adapter(clora.LoraConfig(target_modules=["query_proj"]))
    with pytest.raises(ValueError, match="init_lora_weights"):
        model.add_adapter(clora.LoraConfig(init_lora_weights=False))


def test_state_dicts_have_pefts_names_and_shapes(model):
    adapter = model.add_adapter(clora.LoraConfig(r=4, target_modules=["k_proj"], use_dora=True))
    tensors = adapter.state_dict()
    a = tensors[PREFIX + "self_attn.k_proj.lora_A.weight"]
    b = tensors[PREFIX + "self_attn.k_proj.lora_B.weight"]
    magnitude = tensors[PREFIX + "self_attn.k_proj.lora_magnitude_vector"]
    module = adapter.modules[0]
    assert a.shape == (4, module["inputs"]) and b.shape == (module["outputs"], 4)
    assert magnitude.shape == (module["outputs"],)
    assert np.abs(a).max() > 0 and not b.any() and (magnitude > 0).all()


def test_what_is_trained_in_full_is_in_the_state_dict(model):
    adapter = model.add_adapter(clora.LoraConfig(target_modules=["q_proj"],
                                                 modules_to_save=["input_layernorm"]))
    assert PREFIX + "input_layernorm.weight" in adapter.state_dict()


def random_state(adapter, seed=0):
    random = np.random.default_rng(seed)
    return {name: random.normal(size=values.shape).astype(np.float32) * 0.1
            for name, values in adapter.state_dict().items()}


def tensors_of(path):
    """The f32 tensors of a safetensors file."""
    data = path.read_bytes()
    begin = 8 + int.from_bytes(data[:8], "little")
    header = json.loads(data[8:begin])
    return {name: np.frombuffer(data[begin:][slice(*entry["data_offsets"])],
                                dtype=np.float32).reshape(entry["shape"])
            for name, entry in header.items() if name != "__metadata__"}


def test_state_dicts_have_the_tensors_of_the_files(model, tmp_path):
    adapter = model.add_adapter(clora.LoraConfig(r=4, use_dora=True,
                                                 modules_to_save=["input_layernorm"]))
    adapter.load_state_dict(random_state(adapter))
    adapter.save(tmp_path / "adapter")
    stored, state = tensors_of(tmp_path / "adapter/adapter_model.safetensors"), adapter.state_dict()
    assert stored.keys() == state.keys()
    for name, values in stored.items():
        np.testing.assert_array_equal(state[name], values, err_msg=name)


def test_loaded_tensors_are_in_effect_at_once_and_come_back(model, stories):
    adapter = model.add_adapter(clora.LoraConfig(r=4))
    ids = model.tokenizer.encode(" ".join(stories))  # more than a page of the cache
    before = model.logits(ids, adapter=adapter)
    model.generate(ids, adapter=adapter, max_new_tokens=2)
    state = random_state(adapter)
    adapter.load_state_dict(state)
    for name, values in adapter.state_dict().items():
        np.testing.assert_array_equal(values, state[name])
    rows = model.logits(ids, adapter=adapter)
    assert np.abs(rows - before).max() > 0.1
    reply = model.generate(ids, adapter=adapter, max_new_tokens=1, logprobs=0, details=True)
    token = reply.tokens[0]
    row = rows[-1].astype(np.float64)
    expected = row.max() - np.log(np.exp(row - row.max()).sum()) - row.max()
    assert token.id == row.argmax() and token.logprob == pytest.approx(expected, abs=5e-5)


def test_tensors_of_other_names_or_shapes_are_refused(model):
    adapter = model.add_adapter(clora.LoraConfig(r=4, target_modules=["q_proj"]))
    state = adapter.state_dict()
    name = next(iter(state))
    with pytest.raises(ValueError, match="unknown"):
        adapter.load_state_dict({**state, "other": np.zeros(3)})
    with pytest.raises(ValueError, match="missing"):
        adapter.load_state_dict({key: value for key, value in state.items() if key != name})
    with pytest.raises(ValueError, match="got"):
        adapter.load_state_dict({**state, name: np.zeros((2, 2))})
    with pytest.raises(ValueError, match="finite"):
        adapter.load_state_dict({**state, name: np.full_like(state[name], np.nan)})


def test_files_have_the_same_adapter(model, tmp_path):
    adapter = model.add_adapter(clora.LoraConfig(r=4, lora_alpha=6, use_dora=True))
    adapter.load_state_dict(random_state(adapter))
    adapter.save(tmp_path / "adapter")
    config = json.loads((tmp_path / "adapter/adapter_config.json").read_text())
    assert config["r"] == 4 and config["lora_alpha"] == 6 and config["use_dora"]
    again = clora.load_adapter(model, tmp_path / "adapter")
    for name, values in again.state_dict().items():
        np.testing.assert_array_equal(values, adapter.state_dict()[name])
    np.testing.assert_array_equal(model.logits([1, 2], adapter=again),
                                  model.logits([1, 2], adapter=adapter))


@pytest.mark.parametrize("format", ["peft", "mlx", "gguf"])
def test_each_format_has_the_same_adapter(model, tmp_path, format):
    adapter = model.add_adapter(clora.LoraConfig(r=4, lora_alpha=8))
    adapter.load_state_dict(random_state(adapter))
    path = tmp_path / ("adapter.gguf" if format == "gguf" else "adapter")
    assert adapter.save(path, format=format)["rounded"] == 0
    again = clora.load_adapter(model, path)
    ids = model.tokenizer.encode("Once upon a time")
    np.testing.assert_allclose(model.logits(ids, adapter=again), model.logits(ids, adapter=adapter),
                               atol=1e-5)


@pytest.mark.parametrize("name", ["folder", "model.gguf"])
def test_a_fused_model_has_the_logits_of_model_and_adapter(gguf_model, tmp_path, name):
    adapter = gguf_model.add_adapter(clora.LoraConfig(r=4))
    adapter.load_state_dict(random_state(adapter))
    gguf_model.fuse(adapter, tmp_path / name, dtype="f32")
    fused = clora.load(tmp_path / name)
    ids = gguf_model.tokenizer.encode("Once upon a time")
    np.testing.assert_allclose(fused.logits(ids), gguf_model.logits(ids, adapter=adapter),
                               atol=1e-3)
    assert fused.tokenizer.encode("Once upon a time") == ids


def test_models_are_quantised_without_an_adapter(gguf_model, tmp_path):
    facts = gguf_model.fuse(None, tmp_path / "small.gguf", dtype="q8_0")
    assert facts["converted"] > 0 and facts["bytes"] < gguf_model.weight_bytes
    ids = gguf_model.tokenizer.encode("Once upon a time")
    small = clora.load(tmp_path / "small.gguf")
    assert np.abs(small.logits(ids) - gguf_model.logits(ids)).max() < 0.5


def test_principal_starts_keep_the_first_output(model):
    adapter = model.add_adapter(clora.LoraConfig(r=4, init_lora_weights="pissa"))
    assert adapter.modules[0]["rank"] == 8
    np.testing.assert_allclose(model.logits([1, 2, 3], adapter=adapter), model.logits([1, 2, 3]),
                               atol=1e-3)
