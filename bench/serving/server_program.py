"""Runs a server program for the time of a block, on a free port, and waits until it is ready."""

import contextlib
import os
import signal
import socket
import subprocess
import time
import urllib.error
import urllib.request


class Failed(Exception):
    """The server did not start; the message has the end of its log."""


def free_port():
    with socket.socket() as chosen:
        chosen.bind(("127.0.0.1", 0))
        return chosen.getsockname()[1]


def _is_ready(url):
    try:
        with urllib.request.urlopen(f"{url}/health", timeout=5) as answer:
            return answer.status == 200
    except (urllib.error.URLError, OSError):
        return False


def _wait(process, url, log, timeout_s):
    end = time.monotonic() + timeout_s
    while not _is_ready(url):
        if process.poll() is not None or time.monotonic() > end:
            lines = log.read_text(errors="replace").strip().splitlines()[-5:]
            raise Failed(f"{process.args[0]} was not ready within {timeout_s:g} s: "
                         + " | ".join(lines))
        time.sleep(0.1)


def _end(process):
    process.send_signal(signal.SIGTERM)
    try:
        process.wait(timeout=60)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


@contextlib.contextmanager
def running(command, log, environment=None, timeout_s=300):
    """Yields (URL, process). `command` is called with the port; stdout and stderr go to `log`."""
    port = free_port()
    url = f"http://127.0.0.1:{port}"
    with open(log, "wb") as output:
        process = subprocess.Popen([str(word) for word in command(port)], stdout=output,
                                   stderr=output, env=os.environ | (environment or {}))
    try:
        _wait(process, url, log, timeout_s)
        yield url, process
    finally:
        if process.poll() is None:
            _end(process)
