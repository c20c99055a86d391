"""All kinds of clients together for a long time: those that behave get the same texts as at the
start, and the server returns to the state in which it began. `--mixed-load 60` runs it for a
minute."""
import concurrent.futures
import random
import time

import pytest

import pressure
import test_abuse
from conftest import clora_server

WORKERS = 10
# Growth over five sixths of the test. A leak of 1 KiB per request would be more within an hour.
MAX_GROWTH_BYTES = 64 << 20


@pytest.fixture
def server(files):
    with clora_server(files, "--adapters-dir", str(files), "--allow-adapter-loading", "--quiet",
                      "--cache-positions", "12000", "--write-timeout", "1", "--receive-timeout",
                      "5") as running:
        yield running


def refused(server, generator):
    test_abuse.send_malformed(server, generator.randrange(10 ** 9))


def leave(server, generator):
    test_abuse.leave(server, generator.randrange(3))


def stop_reading(server, generator):
    with pressure.connect(server, 4096) as client:
        client.sendall(pressure.stream_bytes(generator.choice(pressure.MODELS), logprobs=20))
        time.sleep(2)


def load_and_unload(server, generator):
    name = f"more-{generator.randrange(10 ** 9)}"
    adapter = {"lora_name": name, "lora_path": "second"}
    assert server.json("/v1/load_lora_adapter", adapter)[0] == 200
    assert server.text(name, max_tokens=4)
    assert server.json("/v1/unload_lora_adapter", {"lora_name": name})[0] == 200


def sample(server, generator):
    """A reply of random length and settings, after a prompt that other clients may share."""
    prompt = "the llo abc " * generator.randint(1, 40) + str(generator.randrange(20))
    server.client.completions.create(
        model=generator.choice(pressure.MODELS), prompt=prompt, temperature=1.2, top_p=0.9,
        max_tokens=generator.randint(1, 120), n=generator.randint(1, 3))


def measure(server, generator):
    """The log-probabilities of a prompt."""
    prompt = "the llo abc " * generator.randint(1, 20)
    reply = server.client.completions.create(
        model=generator.choice(pressure.MODELS), prompt=prompt, echo=True,
        logprobs=generator.randint(0, 5), max_tokens=generator.randint(0, 2))
    assert len(reply.choices[0].logprobs.tokens) == reply.usage.total_tokens


def embed(server, generator):
    server.client.embeddings.create(model="base", input="abc " * generator.randint(1, 60))


KINDS = ((sample, 10), (refused, 10), (leave, 6), (measure, 4), (embed, 4), (load_and_unload, 2),
         (stop_reading, 1))


def work(server, number, end):
    generator, done = random.Random(number), 0
    kinds, weights = zip(*KINDS)
    while time.monotonic() < end:
        generator.choices(kinds, weights)[0](server, generator)
        done += 1
    return done


def run_for(server, seconds, seed):
    """Returns the number of requests of the clients that do not compare texts."""
    end = time.monotonic() + seconds
    with pressure.witnesses(server) as seen, concurrent.futures.ThreadPoolExecutor(WORKERS) as pool:
        workers = [pool.submit(work, server, seed + number, end) for number in range(WORKERS)]
        done = sum(worker.result() for worker in workers)
    pressure.becomes_idle(server)
    assert seen, "texts were compared meanwhile"
    return done


@pytest.mark.hour
def test_a_server_stands_a_mixed_load(server, request):
    seconds = request.config.getoption("--mixed-load")
    run_for(server, seconds / 6, 0)  # until memory has reached its usual size
    with pressure.returns_to_its_start(server):
        before = pressure.resident_bytes(server.pid)
        done = run_for(server, seconds * 5 / 6, WORKERS)
        grown = pressure.resident_bytes(server.pid) - before
    print(f"{done} requests, {grown / 2 ** 20:.1f} MiB more than after the first sixth")
    assert done > seconds
    assert grown <= MAX_GROWTH_BYTES
    assert [model.id for model in server.client.models.list()] == list(pressure.MODELS)
