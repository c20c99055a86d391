"""Models: what they are, their logits, their replies, and their errors."""
import itertools
import threading

import numpy as np
import pytest
from conftest import model_path

import clora


def test_a_model_says_what_it_is(model, stories_path):
    assert model.path == stories_path
    assert model.vocab_size == 2048
    assert model.config["model_type"] == "llama"
    assert model.weight_bytes > 1 << 20
    assert model.context.device["name"]
    assert model.memory()["weights"] >= model.weight_bytes // 2


def test_logits_have_a_row_for_each_token_and_do_not_look_ahead(model):
    ids = model.tokenizer.encode("Once upon a time")
    rows = model.logits(ids)
    assert rows.shape == (len(ids), model.vocab_size) and rows.dtype == np.float32
    np.testing.assert_allclose(model.logits(ids[:3]), rows[:3], atol=2e-4)
    np.testing.assert_allclose(model.logits(np.array(ids), last=True), rows[-1:], atol=2e-4)


def test_greedy_replies_take_the_likeliest_token(model):
    reply = model.generate("Once upon a time", max_new_tokens=8, details=True)
    ids = model.tokenizer.encode("Once upon a time")
    for token in reply.tokens:
        assert token.id == int(model.logits(ids, last=True)[0].argmax())
        ids.append(token.id)
    assert reply.text == model.tokenizer.decode(reply.ids)
    assert reply.finish_reason == "length" and reply.prompt_tokens > 0


def test_several_prompts_get_the_replies_that_each_gets_alone(model):
    prompts = ["Once upon a time", "The dog", "Tom had a red ball"]
    together = model.generate(prompts, max_new_tokens=12)
    assert together == [model.generate(prompt, max_new_tokens=12) for prompt in prompts]


def test_prompts_may_be_token_ids(model):
    ids = model.tokenizer.encode("The cat")
    text = model.generate("The cat", max_new_tokens=5)
    assert model.generate(ids, max_new_tokens=5) == text
    assert model.generate([ids, ids], max_new_tokens=5) == [text, text]


def test_a_stream_has_the_pieces_of_the_reply(model):
    pieces = list(model.generate("Once upon a time", max_new_tokens=20, stream=True))
    assert len(pieces) > 3
    assert "".join(pieces) == model.generate("Once upon a time", max_new_tokens=20)


def test_a_stream_that_is_left_early_does_not_disturb_the_next_reply(model):
    expected = model.generate("The dog", max_new_tokens=10)
    for _ in model.generate("Once upon a time", max_new_tokens=50, stream=True):
        break
    assert model.generate("The dog", max_new_tokens=10) == expected


def test_stop_texts_end_a_reply_before_them(model):
    text = model.generate("Once upon a time", max_new_tokens=40)
    word = text.split()[3]
    reply = model.generate("Once upon a time", max_new_tokens=40, stop=word, details=True)
    assert reply.text == text[:text.index(word)]
    assert reply.finish_reason == "stop"


def test_sampling_depends_on_the_seed_alone(model):
    settings = {"max_new_tokens": 20, "temperature": 1.0}
    first = model.generate("Once upon a time", seed=1, **settings)
    assert first == model.generate("Once upon a time", seed=1, **settings)
    assert first != model.generate("Once upon a time", seed=2, **settings)


def test_log_probabilities_are_those_of_the_logits(model):
    reply = model.generate("Once upon a time", max_new_tokens=1, logprobs=3, details=True)
    row = model.logits(model.tokenizer.encode("Once upon a time"), last=True)[0].astype(np.float64)
    expected = row - np.log(np.exp(row - row.max()).sum()) - row.max()
    token = reply.tokens[0]
    assert token.logprob == pytest.approx(expected[token.id], abs=1e-4)
    assert [id for id, _ in token.top_logprobs] == list(np.argsort(-row)[:3])


def test_threads_take_turns(model):
    expected = model.generate("The dog", max_new_tokens=10)
    ids = model.tokenizer.encode("The dog")
    rows = model.logits(ids)
    problems = []

    def work():
        for _ in range(3):
            if not np.array_equal(model.logits(ids), rows):
                problems.append("logits")

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    assert model.generate("The dog", max_new_tokens=10) == expected
    for thread in threads:
        thread.join()
    assert not problems


def test_threads_generate_at_once(model):
    prompts = ["Once upon a time", "The dog", "Tom had a red ball", "A cat"]
    expected = model.generate(prompts, max_new_tokens=10)
    texts = {}

    def work(prompt):
        for _ in range(3):
            texts[prompt] = model.generate(prompt, max_new_tokens=10)

    threads = [threading.Thread(target=work, args=[prompt]) for prompt in prompts]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [texts[prompt] for prompt in prompts] == expected


def test_streams_may_be_read_in_turns(model):
    prompts = ["Once upon a time", "The dog"]
    streams = [model.generate(prompt, max_new_tokens=10, stream=True) for prompt in prompts]
    turns = list(itertools.zip_longest(*streams, fillvalue=""))
    texts = ["".join(pieces) for pieces in zip(*turns)]
    assert texts == [model.generate(prompt, max_new_tokens=10) for prompt in prompts]


def test_the_interpreter_goes_on_while_the_device_works(model):
    done = threading.Event()
    counted = 0

    def work():
        model.logits(list(range(1, 500)))
        done.set()

    thread = threading.Thread(target=work)
    thread.start()
    while not done.wait(0.001):
        counted += 1
    thread.join()
    assert counted > 0


def test_a_gguf_file_and_a_folder_give_the_same_logits(model):
    gguf = clora.load(model_path("tinystories-656k/gguf-derived/TinyStories-656K-F32.gguf"))
    ids = model.tokenizer.encode("Once upon a time")
    assert gguf.tokenizer.encode("Once upon a time") == ids
    np.testing.assert_allclose(gguf.logits(ids), model.logits(ids), atol=1e-4)


def test_loading_reports_its_progress_and_can_be_cancelled(stories_path):
    shares = []
    clora.load(stories_path, progress=shares.append)
    assert shares[0] == 0 and shares[-1] == 1 and shares == sorted(shares)
    with pytest.raises(clora.Error) as error:
        clora.load(stories_path, progress=lambda share: False)
    assert error.value.code == clora.ErrorCode.CANCELLED


def test_errors_have_the_codes_of_the_library(model, tmp_path):
    with pytest.raises(clora.Error) as error:
        clora.load(tmp_path / "missing.gguf")
    assert error.value.code == "not_found" and "missing.gguf" in str(error.value)
    with pytest.raises(ValueError, match="token"):
        model.logits([])
    with pytest.raises(ValueError):
        model.logits([10**6])
    with pytest.raises(clora.Error) as error:
        clora.load(model.path, device="no such device")
    assert error.value.code == clora.ErrorCode.NO_DEVICE


def test_the_memory_limit_is_kept(stories_path):
    assert clora.load(stories_path, memory="1GiB").memory()["limit"] == 1 << 30
    with pytest.raises(MemoryError) as error:
        clora.load(stories_path, memory="64KiB", device=clora.Context(memory="64KiB"))
    assert error.value.code == clora.ErrorCode.OUT_OF_MEMORY
    with pytest.raises(ValueError, match="8GiB"):
        clora.load(stories_path, memory="much")


def test_profiles_are_rows_of_dictionaries(stories_path):
    profiled = clora.load(stories_path, profile=True)
    profiled.logits([1, 2, 3])
    rows = profiled.profile()
    assert rows and all(row["seconds"] >= 0 and row["count"] > 0 for row in rows)
    assert any("gemm" in row["op"] for row in rows)
    profiled.context.clear_profile()
    assert profiled.profile() == []


def test_replies_match_a_json_schema(gguf_model):
    schema = {"type": "object", "properties": {"n": {"enum": [1, 2]}}, "required": ["n"],
              "additionalProperties": False}
    text = gguf_model.generate("A number: ", json_schema=schema, max_new_tokens=60)
    assert text.replace(" ", "") in ('{"n":1}', '{"n":2}')
