"""Completions of texts with OpenAI's client, and replies that the tests choose."""
import openai
import pytest


def test_a_text_is_continued_by_sixteen_tokens(scripted):
    reply = scripted.client.completions.create(model="base", prompt="say(abcdefghijklmnopqrst)end")
    assert reply.id.startswith("cmpl-")
    assert reply.object == "text_completion"
    assert reply.choices[0].text == "abcdefghijklmnop"
    assert reply.choices[0].finish_reason == "length"


def test_a_stream_has_the_same_text(scripted):
    stream = scripted.client.completions.create(model="base", prompt="hi", stream=True)
    chunks = list(stream)
    assert "".join(chunk.choices[0].text for chunk in chunks) == "hello world"
    assert chunks[-1].choices[0].finish_reason == "stop"


def test_prompts_are_texts_or_tokens(scripted):
    ids = scripted.json("/tokenize", {"prompt": "say(a)end"})[1]["tokens"]
    reply = scripted.client.completions.create(model="base", prompt=ids)
    assert reply.choices[0].text == "a"
    reply = scripted.client.completions.create(model="base", prompt=["say(a)end", "say(b)end"], n=2)
    assert [choice.text for choice in reply.choices] == ["a", "a", "b", "b"]
    reply = scripted.client.completions.create(model="base", prompt=[ids, ids], echo=True)
    assert [choice.text for choice in reply.choices] == ["say(a)enda"] * 2


def test_logprobs_have_offsets(scripted):
    reply = scripted.client.completions.create(model="base", prompt="hi", logprobs=2)
    logprobs = reply.choices[0].logprobs
    assert "".join(logprobs.tokens) == "hello world"
    assert logprobs.text_offset == list(range(11))
    assert len(logprobs.token_logprobs) == 11
    assert all(len(top) == 2 for top in logprobs.top_logprobs)


def test_a_prompt_has_logprobs(scripted):
    reply = scripted.client.completions.create(model="base", prompt=["hi", "say(a)end"], echo=True,
                                               logprobs=2, max_tokens=1)
    for choice, text in zip(reply.choices, ["hih", "say(a)enda"]):
        assert choice.text == text
        logprobs = choice.logprobs
        assert "".join(logprobs.tokens) == text
        assert logprobs.text_offset == [len("".join(logprobs.tokens[:i]))
                                        for i in range(len(logprobs.tokens))]
        assert logprobs.token_logprobs[0] is None and logprobs.top_logprobs[0] is None
        assert all(isinstance(value, float) for value in logprobs.token_logprobs[1:])
        assert all(len(top) == 2 for top in logprobs.top_logprobs[1:])


def test_only_a_prompt_is_measured(scripted):
    reply = scripted.client.completions.create(model="base", prompt="hi", echo=True, logprobs=0,
                                               max_tokens=0)
    assert reply.choices[0].text == "hi"
    assert reply.choices[0].finish_reason == "length"
    assert reply.choices[0].logprobs.tokens == ["h", "i"]
    assert reply.usage.completion_tokens == 0


def test_a_stream_has_the_logprobs_of_the_complete_reply(scripted):
    fields = {"model": "base", "prompt": "hi", "echo": True, "logprobs": 1, "max_tokens": 3}
    complete = scripted.client.completions.create(**fields).choices[0]
    chunks = [chunk.choices[0] for chunk in
              scripted.client.completions.create(stream=True, **fields)]
    assert "".join(chunk.text for chunk in chunks) == complete.text
    parts = [chunk.logprobs for chunk in chunks if chunk.logprobs]
    for name in ("tokens", "token_logprobs", "top_logprobs", "text_offset"):
        assert sum((getattr(part, name) for part in parts), []) == getattr(complete.logprobs, name)


@pytest.mark.parametrize("fields", [{"prompt": ""}, {"prompt": []}, {"best_of": 3}, {"suffix": "x"},
                                    {"max_tokens": 0}, {"echo": True, "max_tokens": -1},
                                    {"echo": True, "logprobs": 21}, {"prompt": [10 ** 6]}])
def test_what_is_not_supported_is_refused(scripted, fields):
    with pytest.raises(openai.BadRequestError):
        scripted.client.completions.create(**{"model": "base", "prompt": "hi", **fields})
