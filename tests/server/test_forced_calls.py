"""clora serve with a tiny model whose chat template teaches calls of tools: nothing that such a model
generates is a call by chance."""
import json

import openai
import pytest

from conftest import clora_server

TOOLS = [
    {"type": "function", "function": {"name": "find", "parameters": {
        "type": "object", "required": ["what", "count"], "additionalProperties": False,
        "properties": {"what": {"$ref": "#/$defs/what"}, "count": {"type": "integer"}},
        "$defs": {"what": {"enum": ["cats", "dogs"]}}}}},
    {"type": "function", "function": {"name": "stop"}}]
FIND = {"type": "function", "function": {"name": "find"}}
MESSAGES = [{"role": "user", "content": "the llo"}]


# ChatML with tools; the comment has what the form of calls is recognised by.
TEMPLATE = """{# %s #}{%% if tools %%}<|im_start|>system
{{ tools | tojson }}<|im_end|>
{%% endif %%}{%% for message in messages %%}<|im_start|>{{ message.role }}
{{ message.content }}<|im_end|>
{%% endfor %%}{%% if add_generation_prompt %%}<|im_start|>assistant
{%% endif %%}"""
FORMS = {"hermes": "<tool_call>", "llama3": '<|start_header_id|> {"parameters"}',
         "mistral": "[TOOL_CALLS]"}


@pytest.fixture(scope="module", params=FORMS)
def calling(files, request, tmp_path_factory):
    template = tmp_path_factory.mktemp("template") / "template.jinja"
    template.write_text(TEMPLATE % FORMS[request.param], encoding="utf-8")
    with clora_server(files, "--chat-template", template) as server:
        yield server


@pytest.fixture(scope="module")
def formless(files, tmp_path_factory):
    template = tmp_path_factory.mktemp("template") / "template.jinja"
    template.write_text(TEMPLATE % "", encoding="utf-8")
    with clora_server(files, "--chat-template", template) as server:
        yield server


def create(server, choice, **more):
    fields = {"tools": TOOLS, "tool_choice": choice, "max_tokens": 200, **more}
    return server.client.chat.completions.create(model="base", messages=MESSAGES, **fields)


def arguments_of(call):
    assert call.type == "function"
    assert call.function.name == "find"
    arguments = json.loads(call.function.arguments)
    assert set(arguments) == {"what", "count"}
    assert arguments["what"] in ("cats", "dogs")
    assert isinstance(arguments["count"], int)
    return arguments


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_a_named_tool_is_called_once(calling, seed):
    choice = create(calling, FIND, seed=seed, temperature=1.5).choices[0]
    assert choice.finish_reason == "tool_calls"
    assert choice.message.content is None
    call, = choice.message.tool_calls
    arguments_of(call)


@pytest.mark.parametrize("model", ["base", "one"])
def test_any_tool_is_called(calling, model):
    reply = calling.client.chat.completions.create(
        model=model, messages=MESSAGES, tools=TOOLS, tool_choice="required", n=4, max_tokens=200,
        parallel_tool_calls=False, seed=4)
    for choice in reply.choices:
        assert choice.finish_reason == "tool_calls"
        call, = choice.message.tool_calls
        if call.function.name == "find":
            arguments_of(call)
        else:
            assert (call.function.name, call.function.arguments) == ("stop", "{}")


def test_a_stream_has_the_call_in_one_delta(calling):
    complete = create(calling, FIND, temperature=0).choices[0].message.tool_calls[0].function
    chunks = list(create(calling, FIND, temperature=0, stream=True))
    deltas = [chunk.choices[0].delta for chunk in chunks]
    assert not any(delta.content for delta in deltas)
    call, = [delta.tool_calls[0].function for delta in deltas if delta.tool_calls]
    assert (call.name, call.arguments) == (complete.name, complete.arguments)
    assert chunks[-1].choices[0].finish_reason == "tool_calls"


def test_a_call_that_is_cut_off_is_text(calling):
    choice = create(calling, FIND, max_tokens=5, temperature=0).choices[0]
    assert choice.finish_reason == "length"
    assert choice.message.tool_calls is None
    assert choice.message.content


def test_a_model_may_call_nothing(calling):
    for choice in ["auto", "none"]:
        assert create(calling, choice, max_tokens=8, temperature=0).choices[0].message.content


@pytest.mark.parametrize("fields, param", [
    ({"tool_choice": "required", "tools": None}, "tool_choice"),
    ({"tool_choice": {"type": "function", "function": {"name": "other"}}},
     "tool_choice.function.name"),
    ({"tool_choice": {"type": "custom", "custom": {"name": "find"}}}, "tool_choice.type"),
    ({"tool_choice": "required", "response_format": {"type": "json_object"}}, "response_format"),
    ({"tool_choice": "required", "tools": [{"type": "function", "function": {
        "name": "find", "parameters": {"type": "string"}}}]}, "tools[0].function.parameters"),
    ({"tool_choice": "required", "tools": [{"type": "function", "function": {
        "name": "find", "parameters": {"type": "object", "not": {}}}}]}, "tools")])
def test_what_cannot_be_required_is_refused_by_name(calling, fields, param):
    with pytest.raises(openai.BadRequestError) as refusal:
        create(calling, **{"choice": fields["tool_choice"],
                           **{key: value for key, value in fields.items() if key != "tool_choice"}})
    assert refusal.value.param == param


def test_a_call_of_an_unknown_form_cannot_be_required(formless):
    with pytest.raises(openai.BadRequestError) as refusal:
        create(formless, "required")
    assert refusal.value.param == "tool_choice"
    assert "Hermes" in refusal.value.message
    assert create(formless, "auto", max_tokens=8, temperature=0).choices[0].message.content
