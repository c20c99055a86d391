"""Parts of the tests that put a server under pressure: clients that misbehave, witnesses whose
texts must not change meanwhile, and the state to which the server must return."""
import concurrent.futures
import contextlib
import json
import os
import pathlib
import re
import socket
import threading
import time
import urllib.parse

MODELS = ("base", "one", "two")
# Of the process; its allocator keeps some of what it took.
RESIDENT_SLACK_BYTES = 64 << 20
# Of device memory: sizes of steps that are first recorded meanwhile keep theirs.
DEVICE_SLACK_BYTES = 1 << 20


def connect(server, receive_bytes=None):
    address = urllib.parse.urlsplit(server.url)
    client = socket.socket()
    if receive_bytes:  # takes effect only before the connection is made
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_bytes)
    client.settimeout(60)
    client.connect((address.hostname, address.port))
    return client


def post_bytes(path, body):
    return (f"POST {path} HTTP/1.1\r\nHost: test\r\nContent-Type: application/json\r\n"
            f"Content-Length: {len(body)}\r\n\r\n").encode() + body


def stream_bytes(model="base", **fields):
    body = {"model": model, "prompt": "the llo", "stream": True, "max_tokens": 4000,
            "ignore_eos": True, **fields}
    return post_bytes("/v1/completions", json.dumps(body).encode())


def read_until(client, text):
    """What arrives until it has the text, or until the connection ends."""
    data, found = bytearray(), -1
    while found < 0:
        part = client.recv(65536)
        if not part:
            break
        searched = max(0, len(data) - len(text))
        data += part
        found = data.find(text, searched)
    return bytes(data)


@contextlib.contextmanager
def witnesses(server, clients=2):
    """While the block runs, clients compare greedy texts of all models with those before it. Yields
    a list whose length is the number of texts so far."""
    alone = {model: server.text(model) for model in MODELS}
    end, seen = threading.Event(), []

    def compare(number):
        while not end.is_set() or len(seen) < len(MODELS):
            model = MODELS[(number + len(seen)) % len(MODELS)]
            text = server.text(model)
            assert text == alone[model], f"the text of {model} changed"
            seen.append(model)

    with concurrent.futures.ThreadPoolExecutor(clients) as pool:
        work = [pool.submit(compare, number) for number in range(clients)]
        try:
            yield seen
        finally:
            end.set()
        for each in work:
            each.result()
    assert {model: server.text(model) for model in MODELS} == alone


def resident_bytes(pid):
    """0 under sanitizers, which keep freed memory."""
    if re.search("lib[at]san", pathlib.Path(f"/proc/{pid}/maps").read_text(encoding="utf-8")):
        return 0
    pages = int(pathlib.Path(f"/proc/{pid}/statm").read_text(encoding="utf-8").split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


def device_bytes(server):
    value = server.metrics()["device_memory_bytes"]
    assert value > 0
    print(f"device memory: {value:.0f} bytes")
    return value


def open_files(pid):
    return len(os.listdir(f"/proc/{pid}/fd"))


def becomes_idle(server, seconds=60):
    """Waits until no reply runs or waits and no page of the cache is used."""
    names = ("num_requests_running", "num_requests_waiting", "kv_cache_usage_perc")
    end = time.monotonic() + seconds
    while True:
        found = {name: value for name, value in server.metrics().items() if name in names}
        assert len(found) == len(names)
        if not any(found.values()):
            return
        assert time.monotonic() < end, f"not idle after {seconds} s: {found}"
        time.sleep(0.05)


@contextlib.contextmanager
def returns_to_its_start(server):
    """After the block the server runs nothing and uses no page, has the files open that it had
    before, and has not grown by more than its allocator's slack, nor in device memory."""
    becomes_idle(server)
    files, resident = open_files(server.pid), resident_bytes(server.pid)
    device = device_bytes(server)
    yield
    becomes_idle(server)
    grown = device_bytes(server) - device
    assert grown <= DEVICE_SLACK_BYTES, f"{grown} bytes of device memory more than {device}"
    end = time.monotonic() + 20  # connections that are kept alive end by the idle timeout
    while open_files(server.pid) > files + 8 and time.monotonic() < end:
        time.sleep(0.1)
    assert open_files(server.pid) <= files + 8
    grown = resident_bytes(server.pid) - resident
    assert grown <= RESIDENT_SLACK_BYTES, f"{grown >> 20} MiB more than {resident >> 20} MiB"
    assert server.json("/health") == (200, {"status": "ok"})
