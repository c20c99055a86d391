"""API keys and other origins."""
import openai
import pytest


def test_a_key_is_required_and_compared(secured):
    assert secured.client.models.list().data
    for key in ["", "other", "secre", "secretsecret"]:
        status, answer = secured.json("/v1/models", headers={"Authorization": f"Bearer {key}"})
        assert (status, answer["error"]["code"]) == (401, "invalid_api_key")
    with pytest.raises(openai.AuthenticationError):
        openai.OpenAI(base_url=f"{secured.url}/v1", api_key="other", max_retries=0).models.list()


@pytest.mark.parametrize("path, status", [("/v1/models", 401), ("/metrics", 401), ("/nothing", 401),
                                          ("/health", 200), ("/", 200)])
def test_only_the_page_and_the_health_are_open(secured, path, status):
    assert secured.request(path)[0] == status


def test_pages_of_other_origins_may_send_nothing(scripted):
    body = {"prompt": "hi"}
    assert scripted.request("/v1/completions", body, {"Origin": "http://evil.example"})[0] == 403
    assert scripted.request("/v1/completions", body, {"Origin": scripted.url})[0] == 200
