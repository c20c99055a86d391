"""Training: complete runs, own loops, callbacks, evaluation, checkpoints."""
import numpy as np
import pytest

import clora

SETTINGS = {"epochs": 3, "learning_rate": 2e-3, "batch_size": 2}
CONFIG = clora.LoraConfig(r=4, seed=1)


def test_a_run_lowers_the_loss_and_returns_its_summary(model, stories):
    steps = []
    trainer = clora.Trainer(model, CONFIG, stories, valid=stories[:2], callbacks=[steps.append],
                            **SETTINGS)
    before = trainer.evaluate()
    summary = trainer.train()
    assert summary.steps == trainer.total_steps == 9
    assert [step.step for step in steps] == list(range(1, 10)) and steps == trainer.history
    assert summary.final_loss == steps[-1].loss < steps[0].loss
    assert not summary.stopped
    assert trainer.evaluate().loss < before.loss
    assert trainer.evaluations[-1].loss == pytest.approx(trainer.evaluate().loss, rel=1e-5)


def test_the_same_seed_gives_the_same_bits(model, stories):
    runs = [clora.Trainer(model, CONFIG, stories, **SETTINGS) for _ in range(2)]
    for run in runs:
        run.train()
    first, second = (run.adapter.state_dict() for run in runs)
    for name, values in first.items():
        np.testing.assert_array_equal(values, second[name])


def test_own_loops_take_the_steps_of_a_run(model, stories):
    run = clora.Trainer(model, CONFIG, stories, shuffle=False, max_steps=3, batch_size=2)
    run.train()
    loop = clora.Trainer(model, CONFIG, batch_size=2)
    for i in range(3):
        loop.step(stories[2 * i:2 * i + 2])
    assert [step.loss for step in loop.history] == [step.loss for step in run.history]
    for name, values in run.adapter.state_dict().items():
        np.testing.assert_array_equal(values, loop.adapter.state_dict()[name])


def test_large_batches_are_accumulated(model, stories):
    losses = []
    for batch_size in (2, 6):
        trainer = clora.Trainer(model, CONFIG, batch_size=batch_size)
        losses.append([trainer.step(stories, learning_rate=1e-3).loss for _ in range(2)])
    assert losses[0] == pytest.approx(losses[1], rel=1e-5)


def test_the_adapter_is_in_effect_after_each_step(model, stories):
    trainer = clora.Trainer(model, CONFIG)
    ids = model.tokenizer.encode("Once upon")
    before = model.logits(ids, adapter=trainer.adapter)
    trainer.step(stories, learning_rate=1e-2)
    assert np.abs(model.logits(ids, adapter=trainer.adapter) - before).max() > 1e-3


def test_callbacks_may_use_the_model_and_end_the_run(model, stories, tmp_path):
    class Stops(clora.Callback):
        def on_step(self, step):
            self.text = model.generate("Once", max_new_tokens=3)
            return step.step < 2

    callback = Stops()
    trainer = clora.Trainer(model, CONFIG, stories, callbacks=[callback],
                            output_dir=tmp_path / "out", **SETTINGS)
    summary = trainer.train()
    assert summary.stopped and summary.steps < 9 and callback.text
    assert (tmp_path / "out/adapter_model.safetensors").exists()


def test_exceptions_of_callbacks_end_the_run_unchanged(model, stories):
    def fails(step):
        raise KeyError("mine")

    trainer = clora.Trainer(model, CONFIG, stories, callbacks=[fails], **SETTINGS)
    with pytest.raises(KeyError, match="mine"):
        trainer.train()


def test_runs_resume_from_checkpoints_with_the_same_bits(model, stories, tmp_path):
    whole = clora.Trainer(model, CONFIG, stories, output_dir=tmp_path / "whole", **SETTINGS)
    whole.train()
    saved = []

    class Saves(clora.Callback):
        def on_save(self, step, path):
            saved.append((step, path))

    first = clora.Trainer(model, CONFIG, stories, output_dir=tmp_path / "part", save_steps=4,
                          callbacks=[Saves()], **SETTINGS)
    first.train()
    assert [step for step, _ in saved] == [4, 8, 9]
    second = clora.Trainer(model, CONFIG, stories, output_dir=tmp_path / "rest", **SETTINGS)
    assert second.train(resume_from=saved[0][1]).steps == 9
    for name, values in whole.adapter.state_dict().items():
        np.testing.assert_array_equal(values, second.adapter.state_dict()[name])


def test_existing_adapters_are_trained_on(model, stories, tmp_path):
    first = clora.Trainer(model, CONFIG, stories, output_dir=tmp_path / "a", **SETTINGS)
    first.train()
    adapter = clora.load_adapter(model, tmp_path / "a")
    loss = clora.evaluate(model, stories, adapter=adapter).loss
    clora.Trainer(model, adapter, stories, **SETTINGS).train()
    assert clora.evaluate(model, stories, adapter=adapter).loss < loss


def test_preference_losses_report_their_scores(model):
    pairs = [{"prompt": "The dog", "chosen": " ran home.", "rejected": " zzz."}] * 4
    trainer = clora.Trainer(model, CONFIG, pairs, loss="dpo", max_steps=2, learning_rate=1e-3)
    trainer.train()
    assert trainer.history[0].loss == pytest.approx(np.log(2), rel=1e-4)
    assert "rewards/chosen" in trainer.history[1].scores
    with pytest.raises(ValueError, match="sft"):
        trainer.step(pairs)


def test_settings_out_of_range_are_refused_by_name(model, stories):
    with pytest.raises(ValueError, match="schedule"):
        clora.Trainer(model, CONFIG, stories, lr_scheduler_type="cubic")
    with pytest.raises(ValueError, match="optimizer_args"):
        clora.Trainer(model, CONFIG, stories, optimizer_args={"beta3": 1})
    with pytest.raises(TypeError, match="batchsize"):
        clora.Trainer(model, CONFIG, stories, batchsize=1)
    with pytest.raises(ValueError, match="batch size"):
        clora.Trainer(model, CONFIG, stories, batch_size=0).train()
    with pytest.raises(ValueError, match="adapter_out"):
        clora.Trainer(model, CONFIG, stories, save_steps=2, **SETTINGS).train()
    with pytest.raises(ValueError, match="data"):
        clora.Trainer(model, CONFIG).train()


def test_memory_is_saved_as_the_limit_requires_with_the_same_losses(model, stories):
    kept = clora.Trainer(model, CONFIG, stories, gradient_checkpointing=False, **SETTINGS)
    recomputed = clora.Trainer(model, CONFIG, stories, gradient_checkpointing=True, **SETTINGS)
    kept.train()
    recomputed.train()
    assert [step.loss for step in kept.history] == [step.loss for step in recomputed.history]


def test_progress_is_shown_on_request(model, stories, capsys):
    clora.Trainer(model, CONFIG, stories, progress=True, **SETTINGS).train()
    assert "9 steps" in capsys.readouterr().err
    clora.Trainer(model, CONFIG, stories, progress=False, **SETTINGS).train()
    assert capsys.readouterr().err == ""
