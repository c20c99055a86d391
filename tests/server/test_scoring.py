"""A task that is scored through the API has the score that `clora eval` gives it on the same data.

Both compute in f32, in steps of other sizes, whose sums are rounded in another order: losses of
some nats may differ by 1e-5.
"""
import concurrent.futures
import json
import os
import pathlib
import subprocess

import pytest

import scoring
from conftest import BINARIES, clora_server

BOUND = 1e-5
TEXT = "the llo abc the llo, the abc of llo and the"
QUESTIONS = (("the llo", (" abc", " the", " zzz")), ("abc of", (" llo", " xyz", " the")))
STORY_QUESTIONS = (("Once upon a time, there was a little", (" girl", " away", " said")),
                   ("Tom and Lily like to play in the", (" park", " he", " was")),
                   ("She was very happy and said,", (" \"Thank you", " \"park ball", " the and")))
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


def losses_of_eval(folder, question, choices, model, *options):
    """The negative log-likelihood of each choice."""
    each = [evaluated(folder, {"prompt": question, "completion": choice}, model, *options)
            for choice in choices]
    return [loss * count for loss, count in each]


@pytest.mark.parametrize("question, choices", QUESTIONS)
def test_the_answer_to_a_choice_is_that_of_eval(served, files, tmp_path, question, choices):
    scored = scoring.choice_losses(served, "one", question, choices)
    wanted = losses_of_eval(tmp_path, question, choices, files / "model",
                            *adapter_options(files, "one"))
    assert scored == pytest.approx(wanted, abs=BOUND * 10)
    assert scored.index(min(scored)) == wanted.index(min(wanted))


def generated_logprob(server, model, ids, at):
    """The log-probability of the token ids[at] after those before it, if it is generated: a bias
    makes it the greedy choice, and log-probabilities are the model's, without biases."""
    reply = server.client.completions.create(
        model=model, prompt=ids[:at], max_tokens=1, temperature=0, logprobs=1,
        logit_bias={str(ids[at]): 100}, extra_body={"ignore_eos": True})
    return reply.choices[0].logprobs.token_logprobs[0]


@pytest.mark.parametrize("max_tokens", [0, 1])
def test_a_prompt_has_the_logprobs_with_which_its_tokens_would_be_generated(served, max_tokens):
    ids = scoring.token_ids(served, TEXT)
    choice, = scoring.measured(served, "two", [ids], max_tokens)
    logprobs = choice.logprobs.token_logprobs
    assert len(logprobs) == len(ids) + max_tokens
    assert logprobs[0] is None and choice.logprobs.top_logprobs[0] is None
    assert logprobs[1:len(ids)] == pytest.approx(
        [generated_logprob(served, "two", ids, at) for at in range(1, len(ids))], abs=BOUND)


def test_a_token_among_the_likeliest_has_the_same_logprob_twice(served):
    """By which harnesses see that a token is the greedy one."""
    choice, = scoring.measured(served, "base", [scoring.token_ids(served, TEXT)], logprobs=20)
    logprobs, seen = choice.logprobs, 0
    for name, own, top in list(zip(logprobs.tokens, logprobs.token_logprobs,
                                   logprobs.top_logprobs))[1:]:
        assert len(top) == 20
        assert own == top.get(name, own)
        seen += name in top
    assert seen > 0


def test_many_clients_score_what_each_scores_alone(served):
    prompts = [scoring.token_ids(served, TEXT[:length]) for length in range(6, len(TEXT), 3)]
    models = [["base", "one", "two"][i % 3] for i in range(len(prompts))]

    def scores(i):
        choice, = scoring.measured(served, models[i], [prompts[i]])
        return choice.logprobs.token_logprobs[1:]

    alone = [scores(i) for i in range(len(prompts))]
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        for own, together in zip(alone, pool.map(scores, range(len(prompts)))):
            assert together == pytest.approx(own, abs=BOUND)


def real_model():
    data = os.environ.get("CLORA_TEST_DATA", "")
    model = pathlib.Path(data) / "models/stories260k/stories260K.gguf"
    if not data or not model.exists():
        pytest.skip(f"needs {model}")
    return model


def test_a_real_model_scores_a_story_and_choices_as_eval_does(tmp_path):
    model = real_model()
    wanted, count = evaluated(tmp_path, {"text": STORY}, model)
    with clora_server(None, model=model) as server:
        loss, scored = scoring.mean_loss(server, "base", STORY)
        answers = [scoring.choice_losses(server, "base", question, choices)
                   for question, choices in STORY_QUESTIONS]
    assert scored == count
    assert loss == pytest.approx(wanted, abs=BOUND)
    assert loss < 2, "the model has learnt such stories"
    right = 0
    for losses, (question, choices) in zip(answers, STORY_QUESTIONS):
        assert losses == pytest.approx(losses_of_eval(tmp_path, question, choices, model), abs=1e-3)
        right += losses.index(min(losses)) == 0
    assert right == len(STORY_QUESTIONS), "the first choice is the right one"
