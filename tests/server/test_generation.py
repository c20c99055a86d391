"""clora serve with a tiny model: what its engine generates, by OpenAI's client."""
import concurrent.futures
import json
import time

import openai
import pytest

from conftest import clora_server


def text_of(server, model="base", **more):
    return server.text(model, **more)


def test_greedy_replies_are_the_same_each_time(served):
    assert text_of(served) == text_of(served) != ""


def test_adapters_change_the_reply(served):
    texts = [text_of(served, model) for model in ["base", "one", "two"]]
    assert len(set(texts)) == 3


def test_an_adapter_without_weight_is_the_base_model(served):
    scaled = text_of(served, extra_body={"adapters": [{"name": "one", "scale": 0}]})
    assert scaled == text_of(served)
    assert text_of(served, extra_body={"adapters": [{"name": "one"}]}) == text_of(served, "one")
    both = text_of(served, extra_body={"adapters": [{"name": "one"}, {"name": "two"}]})
    assert both not in (text_of(served, "one"), text_of(served, "two"))


def test_a_seed_gives_the_same_reply_and_another_another(served):
    sampled = [text_of(served, temperature=1.5, seed=seed) for seed in [1, 1, 2]]
    assert sampled[0] == sampled[1] != sampled[2]


def test_a_stream_has_the_text_of_the_complete_reply(served):
    stream = served.client.completions.create(model="two", prompt="the llo", max_tokens=24,
                                              temperature=0, stream=True)
    assert "".join(chunk.choices[0].text for chunk in stream) == text_of(served, "two")


def test_a_stop_text_ends_the_reply_and_is_not_part_of_it(served):
    text = text_of(served)
    stop = next(c for c in text[1:] if c.isascii() and c.isprintable())
    reply = served.client.completions.create(model="base", prompt="the llo", max_tokens=24,
                                             temperature=0, stop=stop)
    assert reply.choices[0].text == text[:text.index(stop)]
    assert reply.choices[0].finish_reason == "stop"


def test_a_bias_forces_a_token(served):
    token = served.json("/tokenize", {"prompt": "z"})[1]["tokens"][-1]
    assert text_of(served, max_tokens=3, logit_bias={str(token): 100}) == "zzz"


def test_the_greedy_token_is_the_likeliest(served):
    reply = served.client.completions.create(model="base", prompt="the llo", max_tokens=8,
                                             temperature=0, logprobs=3)
    logprobs = reply.choices[0].logprobs
    assert len(logprobs.tokens) == reply.usage.completion_tokens
    for own, top in zip(logprobs.token_logprobs, logprobs.top_logprobs):
        assert own == pytest.approx(max(top.values()))


def test_many_clients_get_the_replies_that_each_gets_alone(served):
    # In bf16, rows of a larger batch may be rounded differently, and near ties fall otherwise.
    alone = {model: text_of(served, model) for model in ["base", "one", "two"]}
    with concurrent.futures.ThreadPoolExecutor(12) as pool:
        models = ["base", "one", "two"] * 8
        assert list(pool.map(lambda model: text_of(served, model), models)) == \
            [alone[model] for model in models]


def test_a_repeated_prompt_is_cached(served):
    prompt = "the llo abc " * 40
    first, second = (served.client.completions.create(model="base", prompt=prompt, max_tokens=1)
                     for _ in range(2))
    cached = second.usage.prompt_tokens_details.cached_tokens
    assert cached > 0.5 * first.usage.prompt_tokens


def test_a_reply_matches_its_schema(served):
    schema = {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"],
              "additionalProperties": False}
    reply = served.client.chat.completions.create(
        model="base", messages=[{"role": "user", "content": "hi"}], max_tokens=200,
        response_format={"type": "json_schema", "json_schema": {"name": "n", "schema": schema}})
    if reply.choices[0].finish_reason == "stop":
        assert isinstance(json.loads(reply.choices[0].message.content)["a"], int)


def test_texts_have_vectors_of_length_one(served):
    texts = ["the llo", "abc", "the llo"]
    reply = served.client.embeddings.create(model="base", input=texts)
    vectors = [entry.embedding for entry in reply.data]
    assert [entry.index for entry in reply.data] == [0, 1, 2]
    assert vectors[0] == vectors[2] != vectors[1]
    assert sum(value * value for value in vectors[0]) == pytest.approx(1, rel=1e-3)
    floats = served.client.embeddings.create(model="base", input="the llo", encoding_format="float")
    assert floats.data[0].embedding == pytest.approx(vectors[0], rel=1e-5)
    adapted = served.client.embeddings.create(model="one", input="the llo")
    assert adapted.data[0].embedding != vectors[0]
    mean = served.client.embeddings.create(model="base", input="the llo",
                                           extra_body={"pooling": "mean"})
    assert mean.data[0].embedding != vectors[0]
    with pytest.raises(openai.BadRequestError):
        served.client.embeddings.create(model="base", input="x" * 5000)


def test_clients_that_leave_and_adapters_that_come_change_no_other_reply(served):
    alone = {model: text_of(served, model) for model in ["base", "one", "two"]}

    def leave(_):
        with served.client.completions.create(model="one", prompt="abc", max_tokens=2000,
                                              stream=True) as stream:
            next(iter(stream))

    def load(number):
        name = f"more-{number}"
        adapter = {"lora_name": name, "lora_path": "second"}
        assert served.json("/v1/load_lora_adapter", adapter)[0] == 200
        assert text_of(served, name) == alone["two"]
        assert served.json("/v1/unload_lora_adapter", {"lora_name": name})[0] == 200

    def reply(number):
        model = ["base", "one", "two"][number % 3]
        assert text_of(served, model) == alone[model]

    with concurrent.futures.ThreadPoolExecutor(16) as pool:
        work = [pool.submit(task, number) for number in range(24) for task in (leave, load, reply)]
        for each in work:
            each.result()
    idle = "num_requests_running{model_name=\"base\"} 0\n"
    for _ in range(100):
        if idle in served.request("/metrics")[1]:
            break
        time.sleep(0.1)
    assert idle in served.request("/metrics")[1]


def test_adapters_are_loaded_and_unloaded(served):
    load = {"lora_name": "three", "lora_path": "first"}
    assert served.json("/v1/load_lora_adapter", load)[0] == 200
    assert text_of(served, "three") == text_of(served, "one")
    assert served.json("/v1/load_lora_adapter", load)[0] == 400
    assert served.json("/v1/unload_lora_adapter", {"lora_name": "three"})[0] == 200
    with pytest.raises(openai.NotFoundError):
        text_of(served, "three")
    for path in ["..", "/etc", "model/../.."]:
        assert served.json("/v1/load_lora_adapter", {"lora_name": "x", "lora_path": path})[0] == 403
    assert served.json("/v1/load_lora_adapter", {"lora_name": "x", "lora_path": "model"})[0] == 400


def test_a_model_over_two_devices_replies_as_on_one(served, files):
    with clora_server(files, "--device", "cpu,cpu", "--split", "layers", "--adapters-dir",
                      str(files), "--allow-adapter-loading", "--memory", "1GiB") as server:
        for model in ("base", "one", "two"):
            assert server.text(model) == served.text(model)
        body = {"lora_name": "later", "lora_path": "first"}
        assert server.json("/v1/load_lora_adapter", body)[0] == 200
        assert server.text("later") == served.text("one")
        status, answer = server.json("/v1/embeddings", {"input": "the llo"})
        assert status == 400 and "split by layers" in answer["error"]["message"]
