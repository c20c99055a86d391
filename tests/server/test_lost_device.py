"""A device that is lost while replies are generated: every client gets an error, and the server
reports the loss and ends in order."""
import concurrent.futures
import json
import time

import openai
import pytest

import pressure
from conftest import BINARIES, clora_server


@pytest.fixture
def losing(files, tmp_path):
    """(a server, a function that loses its device)."""
    file = tmp_path / "lose"
    environment = {"LD_PRELOAD": str(BINARIES / "tests/libclora_losing_device.so"),
                   "LOSE_DEVICE_FILE": str(file)}
    with clora_server(files, environment=environment) as server:
        yield server, file.touch


def requests_at(server):
    metrics = server.metrics()
    return metrics["num_requests_running"] + metrics["num_requests_waiting"]


def test_a_device_lost_in_a_step_is_reported_to_every_client(losing):
    server, lose = losing
    clients = [pressure.connect(server) for _ in range(12)]  # 8 of them run, 4 wait
    # All clients read from the start: one that waits to be read for 10 s would be cut.
    with concurrent.futures.ThreadPoolExecutor(12) as pool:
        read = [pool.submit(pressure.read_until, client, b"device_lost") for client in clients]
        for number, client in enumerate(clients):
            client.sendall(pressure.stream_bytes(pressure.MODELS[number % 3]))
        while requests_at(server) < 9:
            time.sleep(0.01)
        lose()
        for data in (each.result() for each in read):
            assert b"device_lost" in data, data[-700:]
    for client in clients:
        client.close()
    status, health = server.json("/health")
    assert (status, health["status"]) == (503, "lost")
    assert health["reason"]


def test_a_lost_device_refuses_new_requests_and_still_answers_others(losing):
    server, lose = losing
    assert server.text()
    lose()
    for _ in range(3):
        with pytest.raises(openai.InternalServerError) as caught:
            for _ in range(100):
                server.text()
        assert caught.value.status_code == 503
        assert caught.value.code == "device_lost"
    assert [model.id for model in server.client.models.list()] == list(pressure.MODELS)
    assert server.metrics()["num_requests_running"] == 0
    status, text = server.request("/v1/completions", {"prompt": "x", "stream": True})
    assert status == 503 or json.loads(text.split("data: ", 1)[1])["error"]["code"] == "device_lost"
