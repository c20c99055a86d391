"""The package beside transformers and PEFT: logits, the losses of ten steps, adapters."""
import json

import numpy as np
import pytest

import clora

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")
peft = pytest.importorskip("peft")

pytestmark = pytest.mark.long

VARIANTS = {
    "lora": {},
    "rslora": {"use_rslora": True},
    "dora": {"use_dora": True},
    "patterns": {"rank_pattern": {"q_proj": 2}, "alpha_pattern": {"v_proj": 3}},
    "one block": {"target_modules": ["q_proj", "down_proj"], "layers_to_transform": [1]},
}


@pytest.fixture(scope="module")
def base(stories_path):
    """A function that loads the model in transformers, f32."""
    def load():
        return transformers.AutoModelForCausalLM.from_pretrained(stories_path,
                                                                 dtype=torch.float32)
    return load


def test_logits_are_those_of_transformers(model, base):
    ids = model.tokenizer.encode("Once upon a time, there was a little girl")
    with torch.no_grad():
        expected = base()(torch.tensor([ids])).logits[0].numpy()
    np.testing.assert_allclose(model.logits(ids), expected, atol=2e-3, rtol=1e-3)


def test_the_tokenizer_is_that_of_transformers(model, stories_path, stories):
    theirs = transformers.AutoTokenizer.from_pretrained(stories_path)
    for story in stories:
        assert model.tokenizer.encode(story) == theirs(story)["input_ids"]


def settings_of(variant):
    return {"r": 4, "lora_alpha": 8,
            "target_modules": ["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj",
                               "down_proj"], **VARIANTS[variant]}


def their_model(base, settings, state):
    adapted = peft.get_peft_model(base(), peft.LoraConfig(task_type="CAUSAL_LM", **settings))
    tensors = {name: torch.from_numpy(values.copy()) for name, values in state.items()}
    result = peft.set_peft_model_state_dict(adapted, tensors)
    assert not result.unexpected_keys
    assert set(peft.get_peft_model_state_dict(adapted)) == set(state)
    return adapted


def their_losses(adapted, records, steps, rate):
    optimizer = torch.optim.AdamW([p for p in adapted.parameters() if p.requires_grad], lr=rate,
                                  weight_decay=0.0)
    losses = []
    for _ in range(steps):
        optimizer.zero_grad()
        total, count = 0.0, 0
        for record in records:  # the mean over the targets of all records
            ids = torch.tensor([record["input_ids"].tolist()])
            logits = adapted(ids).logits[0, :-1]
            total = total + torch.nn.functional.cross_entropy(logits, ids[0, 1:], reduction="sum")
            count += ids.shape[1] - 1
        loss = total / count
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


@pytest.mark.parametrize("variant", VARIANTS)
def test_ten_steps_have_pefts_losses_and_end_at_its_adapter(model, base, stories, variant):
    settings = settings_of(variant)
    trainer = clora.Trainer(model, clora.LoraConfig(**settings), batch_size=len(stories))
    adapted = their_model(base, settings, trainer.adapter.state_dict())
    records = clora.load_records(stories, model.tokenizer)
    ours = [trainer.step(records, learning_rate=1e-3).loss for _ in range(10)]
    theirs = their_losses(adapted, [records[i] for i in range(len(records))], 10, 1e-3)
    assert ours[0] > ours[-1] + 0.01
    np.testing.assert_allclose(ours, theirs, rtol=3e-4)
    state = trainer.adapter.state_dict()
    for name, values in peft.get_peft_model_state_dict(adapted).items():
        np.testing.assert_allclose(state[name], values.numpy(), atol=2e-3, err_msg=name)


@pytest.mark.parametrize("variant", VARIANTS)
def test_peft_loads_the_saved_adapters_and_saves_them_again(model, base, tmp_path, variant):
    adapter = model.add_adapter(clora.LoraConfig(**settings_of(variant)))
    random = np.random.default_rng(1)
    state = {name: values + random.normal(size=values.shape).astype(np.float32) * 0.05
             for name, values in adapter.state_dict().items()}
    adapter.load_state_dict(state)
    adapter.save(tmp_path / "ours")
    adapted = peft.PeftModel.from_pretrained(base(), tmp_path / "ours")
    ids = model.tokenizer.encode("Once upon a time")
    with torch.no_grad():
        expected = adapted(torch.tensor([ids])).logits[0].numpy()
    np.testing.assert_allclose(model.logits(ids, adapter=adapter), expected, atol=5e-3, rtol=2e-3)
    adapted.save_pretrained(tmp_path / "theirs")
    again = clora.load_adapter(model, tmp_path / "theirs")
    for name, values in again.state_dict().items():
        np.testing.assert_array_equal(values, state[name])
    config = json.loads((tmp_path / "theirs/adapter_config.json").read_text())
    assert config["r"] == 4


def test_tensors_of_torch_are_taken_as_they_are(model):
    adapter = model.add_adapter(clora.LoraConfig(r=4, target_modules=["q_proj"]))
    state = {name: torch.from_numpy(values) + 0.25 for name, values in adapter.state_dict().items()}
    adapter.load_state_dict(state)
    for name, values in adapter.state_dict().items():
        np.testing.assert_array_equal(values, state[name].numpy())
    x = torch.ones(2, 16)
    np.testing.assert_allclose(clora.ops.softmax(x), np.full((2, 16), 1 / 16), rtol=1e-6)
    assert torch.from_dlpack(clora.ops.softmax(x)).shape == (2, 16)
