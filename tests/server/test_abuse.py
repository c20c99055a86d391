"""Clients that misbehave: clora serve goes on, leaks nothing, and changes no text of others."""
import concurrent.futures
import json
import socket
import time

import pytest

import malformed
import pressure
from conftest import clora_server

# Statuses of refused requests, and 200 for those that are valid by chance. Never 500.
ANSWERS = {200, 400, 401, 403, 404, 405, 408, 411, 413, 414, 415, 417, 429, 431, 501, 505}


@pytest.fixture(scope="module")
def guarded(files):
    """A server with many connections, which waits only shortly for clients that do not read."""
    with clora_server(files, "--adapters-dir", str(files), "--allow-adapter-loading", "--quiet",
                      "--write-timeout", "1", "--receive-timeout", "5", "--max-queue", "400",
                      "--max-connections", "400") as server:
        # Kernels that are compiled during a test would count as memory that it did not return.
        with pressure.witnesses(server, clients=12):
            leave(server, 0)
        server.text(logprobs=20)
        yield server


def answer_to(server, data):
    """The answer to bytes after which the client sends nothing more."""
    with pressure.connect(server) as client:
        try:
            client.sendall(data)
            client.shutdown(socket.SHUT_WR)
            return b"".join(iter(lambda: client.recv(65536), b""))
        except (ConnectionResetError, BrokenPipeError):
            return b""


def send_malformed(server, number):
    answer = answer_to(server, malformed.request(number))
    if not answer:
        return None  # closed without an answer
    head, _, body = answer.partition(b"\r\n\r\n")
    status = int(head.split(b" ")[1])
    assert status in ANSWERS, f"request {number}: {answer[:500]}"
    if status != 200:
        assert set(json.loads(body)["error"]) == {"message", "type", "param", "code"}, number
    return status


@pytest.mark.parametrize("count", [300, pytest.param(10000, marks=pytest.mark.long)])
def test_malformed_requests_are_refused(guarded, count):
    with pressure.returns_to_its_start(guarded), pressure.witnesses(guarded), \
            concurrent.futures.ThreadPoolExecutor(8) as pool:
        statuses = list(pool.map(lambda number: send_malformed(guarded, number), range(count)))
    assert statuses.count(400) > count / 3, "most of them reach the parser of fields"
    assert statuses.count(200) < count / 3, "most of them are malformed"


@pytest.mark.parametrize("count", [12, pytest.param(200, marks=pytest.mark.long)])
def test_clients_that_stop_reading_delay_no_other(guarded, count):
    # Log-probabilities make each event long, so that the buffers of a connection are soon full.
    request = pressure.stream_bytes("one", logprobs=20)
    with pressure.returns_to_its_start(guarded):
        with pressure.witnesses(guarded) as seen:
            clients = [pressure.connect(guarded, 4096) for _ in range(count)]
            for client in clients:
                client.sendall(request)
            before = len(seen)
            end = time.monotonic() + 300
            while guarded.metrics()["num_requests_running"] > 2 or len(seen) < before + 6:
                assert time.monotonic() < end, f"{len(seen) - before} texts since they stopped"
                time.sleep(0.1)
        for client in clients:
            client.close()


def leave(server, number):
    with pressure.connect(server) as client:
        client.sendall(pressure.stream_bytes(pressure.MODELS[number % 3]))
        data = pressure.read_until(client, b"data: ")
        assert b" 200 " in data.split(b"\r\n")[0], data[:200]


@pytest.mark.parametrize("count", [40, pytest.param(500, marks=pytest.mark.long)])
def test_clients_that_leave_in_mid_stream_end_their_replies(guarded, count):
    generated = guarded.metrics()["generation_tokens_total"]
    with pressure.returns_to_its_start(guarded), pressure.witnesses(guarded) as seen, \
            concurrent.futures.ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda number: leave(guarded, number), range(count)))
    left = guarded.metrics()["generation_tokens_total"] - generated - 24 * (len(seen) + 6)
    assert left < 4000 * count / 4, "their replies were not generated to the end"


@pytest.mark.parametrize("count", [12, pytest.param(300, marks=pytest.mark.long)])
def test_adapters_come_and_go_under_load(guarded, count):
    two = guarded.text("two")

    def use(number):
        name = f"more-{number}"
        adapter = {"lora_name": name, "lora_path": "second"}
        assert guarded.json("/v1/load_lora_adapter", adapter)[0] == 200
        assert guarded.text(name) == two
        assert guarded.json("/v1/unload_lora_adapter", {"lora_name": name})[0] == 200

    with pressure.returns_to_its_start(guarded), pressure.witnesses(guarded), \
            concurrent.futures.ThreadPoolExecutor(6) as pool:
        list(pool.map(use, range(count)))
    assert [model.id for model in guarded.client.models.list()] == list(pressure.MODELS)
