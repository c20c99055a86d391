"""Chats with OpenAI's client, and replies that the tests choose."""
import json

import openai
import pytest

FIND = {"type": "function",
        "function": {"name": "find", "description": "Looks something up.",
                     "parameters": {"type": "object", "properties": {"what": {"type": "string"}}}}}


def user(text):
    return [{"role": "user", "content": text}]


def test_a_reply_is_complete(scripted):
    reply = scripted.client.chat.completions.create(model="base", messages=user("hi"))
    assert reply.id.startswith("chatcmpl-")
    assert reply.object == "chat.completion"
    assert reply.model == "base"
    assert reply.system_fingerprint
    assert reply.choices[0].message.role == "assistant"
    assert reply.choices[0].message.content == "hello world"
    assert reply.choices[0].finish_reason == "stop"
    assert reply.usage.completion_tokens == 11
    assert reply.usage.total_tokens == reply.usage.prompt_tokens + 11
    assert reply.usage.prompt_tokens_details.cached_tokens == 1


def test_a_stream_has_the_same_text_and_one_reason(scripted):
    chunks = list(scripted.client.chat.completions.create(
        model="base", messages=user("hi"), stream=True, stream_options={"include_usage": True}))
    assert chunks[0].choices[0].delta.role == "assistant"
    assert len({chunk.id for chunk in chunks}) == 1
    assert "".join(chunk.choices[0].delta.content or "" for chunk in chunks[:-1]) == "hello world"
    assert [chunk.choices[0].finish_reason for chunk in chunks[:-1] if
            chunk.choices[0].finish_reason] == ["stop"]
    assert chunks[-2].choices[0].delta.content is None
    assert chunks[-1].choices == []
    assert chunks[-1].usage.completion_tokens == 11
    assert all(chunk.usage is None for chunk in chunks[:-1])


def test_a_stream_without_usage_ends_with_the_reason(scripted):
    chunks = list(scripted.client.chat.completions.create(model="base", messages=user("hi"),
                                                          stream=True))
    assert chunks[-1].choices[0].finish_reason == "stop"


@pytest.mark.parametrize("name", ["max_tokens", "max_completion_tokens"])
def test_the_length_is_limited(scripted, name):
    reply = scripted.client.chat.completions.create(model="base", messages=user("hi"), **{name: 4})
    assert reply.choices[0].message.content == "hell"
    assert reply.choices[0].finish_reason == "length"


def test_an_adapter_is_a_model(scripted):
    reply = scripted.client.chat.completions.create(model="one", messages=user("hi"))
    assert reply.model == "one"
    assert reply.choices[0].message.content == "one: hello world"


def test_several_replies_are_numbered(scripted):
    reply = scripted.client.chat.completions.create(model="base", messages=user("hi"), n=3)
    assert [choice.index for choice in reply.choices] == [0, 1, 2]
    assert reply.usage.completion_tokens == 33


def test_logprobs_belong_to_the_tokens(scripted):
    reply = scripted.client.chat.completions.create(model="base", messages=user("hi"),
                                                    logprobs=True, top_logprobs=2)
    content = reply.choices[0].logprobs.content
    assert "".join(entry.token for entry in content) == "hello world"
    assert bytes(byte for entry in content for byte in entry.bytes) == b"hello world"
    assert all(entry.logprob <= 0 and len(entry.top_logprobs) == 2 for entry in content)


def test_logprobs_of_a_stream_add_up(scripted):
    stream = scripted.client.chat.completions.create(model="base", messages=user("hi"),
                                                     logprobs=True, stream=True)
    tokens = [entry.token for chunk in stream if chunk.choices[0].logprobs
              for entry in chunk.choices[0].logprobs.content]
    assert "".join(tokens) == "hello world"


CALL = '<tool_call>{"name": "find", "arguments": {"what": "x"}}</tool_call>'


def test_a_call_of_a_tool_is_returned_and_its_result_taken_back(scripted):
    messages = user(f"say(Wait.\n{CALL})end")
    reply = scripted.client.chat.completions.create(model="base", messages=messages, tools=[FIND])
    message = reply.choices[0].message
    assert reply.choices[0].finish_reason == "tool_calls"
    assert message.content == "Wait."
    assert message.tool_calls[0].function.name == "find"
    assert json.loads(message.tool_calls[0].function.arguments) == {"what": "x"}
    messages += [message.model_dump(), {"role": "tool", "tool_call_id": message.tool_calls[0].id,
                                        "content": "say(found)end"}]
    reply = scripted.client.chat.completions.create(model="base", messages=messages, tools=[FIND])
    assert reply.choices[0].message.content == "found"


def test_calls_of_a_stream_can_be_put_together(scripted):
    stream = scripted.client.chat.completions.create(
        model="base", messages=user(f"say({CALL}{CALL})end"), tools=[FIND], stream=True)
    calls, reason = {}, None
    for chunk in stream:
        for call in chunk.choices[0].delta.tool_calls or []:
            calls[call.index] = (call.function.name, call.function.arguments)
        reason = chunk.choices[0].finish_reason or reason
    assert reason == "tool_calls"
    assert [name for name, _ in calls.values()] == ["find", "find"]


def test_no_call_is_read_if_the_model_may_not_call(scripted):
    reply = scripted.client.chat.completions.create(
        model="base", messages=user(f"say({CALL})end"), tools=[FIND], tool_choice="none")
    assert reply.choices[0].message.content == CALL
    assert reply.choices[0].finish_reason == "stop"


@pytest.mark.parametrize("fields, param", [
    ({"messages": []}, "messages"),
    ({"messages": [{"role": "poet", "content": "x"}]}, "messages[0]"),
    ({"messages": [{"role": "user", "content": None}]}, "messages[0]"),
    ({"temperature": 3}, "temperature"),
    ({"top_p": 0}, "top_p"),
    ({"n": 0}, "n"),
    ({"max_tokens": -1}, "max_tokens"),
    ({"logit_bias": {"x": 1}}, "logit_bias"),
    ({"stop": ""}, "stop"),
    ({"seed": -1}, "seed"),
    ({"tool_choice": "required"}, "tool_choice"),
    ({"response_format": {"type": "xml"}}, "response_format.type"),
    ({"extra_body": {"temprature": 1}}, "temprature"),
])
def test_what_is_wrong_is_named(scripted, fields, param):
    request = {"model": "base", "messages": user("hi"), **fields}
    if fields.get("tool_choice"):
        request["tools"] = [FIND]
    with pytest.raises(openai.BadRequestError) as caught:
        scripted.client.chat.completions.create(**request)
    assert caught.value.param == param or param in caught.value.message
    assert caught.value.type == "invalid_request_error"


def test_an_unknown_model_is_not_found(scripted):
    with pytest.raises(openai.NotFoundError) as caught:
        scripted.client.chat.completions.create(model="three", messages=user("hi"))
    assert caught.value.code == "model_not_found"


def test_a_conversation_that_is_too_long_is_refused(scripted):
    with pytest.raises(openai.BadRequestError) as caught:
        scripted.client.chat.completions.create(model="base", messages=user("x" * 5000))
    assert caught.value.code == "context_length_exceeded"


def test_a_client_may_leave_a_stream(scripted):
    for _ in range(3):
        with scripted.client.chat.completions.create(model="base", messages=user("endless"),
                                                     stream=True) as stream:
            next(iter(stream))
    reply = scripted.client.chat.completions.create(model="base", messages=user("hi"))
    assert reply.choices[0].message.content == "hello world"
