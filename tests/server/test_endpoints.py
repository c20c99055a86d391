"""The endpoints besides those that generate."""
import json

import openai
import pytest


def test_models_are_listed_with_their_parents(scripted):
    models = {model.id: model for model in scripted.client.models.list()}
    assert set(models) == {"base", "one", "two"}
    assert models["one"].parent == "base"
    assert scripted.client.models.retrieve("two").root == "/adapters/two"
    with pytest.raises(openai.NotFoundError):
        scripted.client.models.retrieve("three")


def test_texts_are_tokenized_and_back(scripted):
    status, tokens = scripted.json("/tokenize", {"prompt": "the llo abc"})
    assert status == 200
    assert tokens["count"] == len(tokens["tokens"])
    assert scripted.json("/detokenize", {"tokens": tokens["tokens"]})[1]["prompt"] == "the llo abc"
    messages = [{"role": "user", "content": "hi"}]
    count = scripted.json("/tokenize", {"messages": messages})[1]["count"]
    reply = scripted.client.chat.completions.create(model="base", messages=messages)
    assert reply.usage.prompt_tokens == count
    assert scripted.json("/tokenize", {})[0] == 400


def test_a_client_without_the_files_of_the_model_gets_its_tokenizer(served, files):
    status, info = served.json("/tokenizer_info")
    assert status == 200
    config = json.loads((files / "model/tokenizer_config.json").read_text(encoding="utf-8"))
    for key in ("tokenizer_class", "bos_token", "eos_token", "chat_template"):
        assert info[key] == config[key], key
    tokens = served.json("/tokenize", {"prompt": info["eos_token"], "add_special_tokens": False})[1]
    assert tokens["tokens"] == [info["eos_token_id"]]
    assert info["model_max_length"] == tokens["max_model_len"]


def test_the_tokenizer_is_not_described_unless_the_server_is_told_to(scripted):
    status, answer = scripted.json("/tokenizer_info")
    assert status == 403
    assert answer["error"]["code"] == "forbidden"


def test_health_and_metrics_are_reported(scripted):
    assert scripted.json("/health") == (200, {"status": "ok"})
    scripted.client.completions.create(model="base", prompt="hi")
    status, text = scripted.request("/metrics")
    assert status == 200
    names = {line.split("{")[0] for line in text.splitlines() if not line.startswith("#")}
    assert {"clora:num_requests_running", "clora:num_requests_waiting", "clora:kv_cache_usage_perc",
            "clora:prompt_tokens_total", "clora:generation_tokens_total",
            "clora:request_success_total", "clora:time_to_first_token_seconds_bucket",
            "clora:inter_token_latency_seconds_sum",
            "clora:e2e_request_latency_seconds_count",
            "clora:request_queue_time_seconds_bucket"} <= names


def test_a_page_is_served(scripted):
    status, text = scripted.request("/")
    assert status == 200 and text.startswith("<!doctype html>")


def test_unknown_paths_have_an_error(scripted):
    status, answer = scripted.json("/v1/nothing", {})
    assert status == 404
    assert set(answer["error"]) == {"message", "type", "param", "code"}


def test_adapters_are_not_loaded_unless_allowed(scripted):
    assert scripted.json("/v1/load_lora_adapter", {"lora_name": "x", "lora_path": "x"})[0] == 403
    assert scripted.json("/v1/unload_lora_adapter", {"lora_name": "one"})[0] == 403
