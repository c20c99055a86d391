"""A task that is scored through the API has the score that `clora eval` gives it on the same data.

Both compute in f32, in steps of other sizes, whose sums are rounded in another order: losses of
some nats may differ by 1e-5.
"""
import json
import os
import pathlib
import subprocess

import pytest

import scoring
from conftest import BINARIES, clora_server

BOUND = 1e-5
TEXT = "the llo abc the llo, the abc of llo and the"
QUESTIONS = (("the llo ", ("abc", "the", "zzz")), ("abc of ", ("llo", "xyz", "the")))
STORY = ("Once upon a time, there was a little girl named Lily. She loved to play outside in the "
         "park. One day, she saw a big, red ball.")


def evaluated(folder, record, model, *options):
    """(mean loss, tokens) as clora eval reports them."""
    data = folder / "data.jsonl"
    data.write_text(json.dumps(record) + "\n", encoding="utf-8")
    done = subprocess.run([BINARIES / "tools/clora", "eval", "--json", "--precision", "f32",
                           "--no-append-eos", "--model", model, "--data", data, *options],
                          capture_output=True, text=True, timeout=300, check=True)
    result = json.loads(done.stdout.splitlines()[-1])
    return result["loss"], result["tokens"]


def adapter_options(files, model):
    folder = {"one": "first", "two": "second"}.get(model)
    return ["--adapter", files / folder] if folder else []


@pytest.mark.parametrize("model", ["base", "one", "two"])
def test_the_loss_of_a_text_is_that_of_eval(served, files, tmp_path, model):
    wanted, count = evaluated(tmp_path, {"text": TEXT}, files / "model",
                              *adapter_options(files, model))
    loss, scored = scoring.mean_loss(served, model, TEXT)
    assert scored == count
    assert loss == pytest.approx(wanted, abs=BOUND)


def test_the_losses_of_models_differ_by_more_than_the_bound(served):
    losses = sorted(scoring.mean_loss(served, model, TEXT)[0] for model in ["base", "one", "two"])
    assert losses[1] - losses[0] > 10 * BOUND
    assert losses[2] - losses[1] > 10 * BOUND


@pytest.mark.parametrize("question, choices", QUESTIONS)
def test_the_answer_to_a_choice_is_that_of_eval(served, files, tmp_path, question, choices):
    scored = scoring.choice_losses(served, "one", question, choices)
    wanted = []
    for choice in choices:
        loss, count = evaluated(tmp_path, {"prompt": question, "completion": choice},
                                files / "model", *adapter_options(files, "one"))
        wanted.append(loss * count)
    assert scored == pytest.approx(wanted, abs=BOUND * 10)
    assert scored.index(min(scored)) == wanted.index(min(wanted))


def test_a_real_model_scores_a_story_as_eval_does(tmp_path):
    data = os.environ.get("CLORA_TEST_DATA", "")
    model = pathlib.Path(data) / "models/stories260k/stories260K.gguf"
    if not data or not model.exists():
        pytest.skip(f"needs {model}")
    wanted, count = evaluated(tmp_path, {"text": STORY}, model)
    with clora_server(None, model=model) as server:
        loss, scored = scoring.mean_loss(server, "base", STORY)
    assert scored == count
    assert loss == pytest.approx(wanted, abs=BOUND)
    assert loss < 2, "the model has learnt such stories"
