"""What clora serve does when memory, the cache or the queue is full."""
import concurrent.futures
import subprocess

import openai
import pytest

import pressure
from conftest import BINARIES, clora_server


def test_a_full_cache_interrupts_replies_and_changes_no_text(files):
    with clora_server(files, "--max-sequences", "6", "--max-positions", "256",
                      "--cache-positions", "320") as server:
        long = {"max_tokens": 120, "prompt": "the llo abc " * 6}
        alone = {model: server.text(model, **long) for model in pressure.MODELS}
        with pressure.returns_to_its_start(server), \
                concurrent.futures.ThreadPoolExecutor(6) as pool:
            models = pressure.MODELS * 6
            texts = list(pool.map(lambda model: server.text(model, **long), models))
        assert texts == [alone[model] for model in models]
        assert server.metrics()["num_preemptions_total"] > 0


def test_a_full_queue_refuses_further_requests(files):
    with clora_server(files, "--max-sequences", "1", "--max-queue", "1") as server:
        with pressure.returns_to_its_start(server):
            clients = [pressure.connect(server) for _ in range(2)]
            clients[0].sendall(pressure.stream_bytes())
            pressure.read_until(clients[0], b"data: ")
            clients[1].sendall(pressure.stream_bytes())
            while server.metrics()["num_requests_waiting"] < 1:
                continue
            with pytest.raises(openai.RateLimitError) as caught:
                server.text()
            assert caught.value.response.headers["retry-after"]
            for client in clients:
                client.close()
            pressure.becomes_idle(server)
            assert server.text()


def test_more_adapters_than_fit_the_device_take_turns(files):
    with clora_server(files, "--adapters-dir", str(files), "--allow-adapter-loading",
                      "--max-device-adapters", "2") as server:
        expected = {model: server.text(model) for model in ("one", "two")}
        for number, (path, same) in enumerate((("first", "one"), ("second", "two")) * 2):
            body = {"lora_name": f"more-{number}", "lora_path": path}
            assert server.json("/v1/load_lora_adapter", body)[0] == 200
            expected[f"more-{number}"] = expected[same]
        models = list(expected) * 4
        with pressure.returns_to_its_start(server), \
                concurrent.futures.ThreadPoolExecutor(6) as pool:
            texts = list(pool.map(server.text, models))
        assert texts == [expected[model] for model in models]


def test_a_server_that_does_not_fit_does_not_start(files):
    done = subprocess.run([BINARIES / "tools/clora", "serve", "--port", "0", "--precision", "f32",
                           "--model", files / "model", "--memory", "1MiB"], capture_output=True,
                          text=True, timeout=60, check=False)
    assert done.returncode == 1
    assert "--cache-positions" in done.stderr
