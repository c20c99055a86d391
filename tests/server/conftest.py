"""Servers for the tests: one with a scripted engine, whose replies the tests choose, and clora
serve with a tiny model and two adapters."""
import contextlib
import json
import os
import pathlib
import signal
import subprocess
import urllib.error
import urllib.request

import openai
import pytest

BINARIES = pathlib.Path(os.environ["CLORA_BINARY_DIR"])
FIXTURE = BINARIES / "tests/server_fixture"


def pytest_addoption(parser):
    parser.addoption("--mixed-load", type=float, default=3600, metavar="SECONDS",
                     help="duration of the mixed load (default 3600)")


def pytest_configure(config):
    config.addinivalue_line("markers", "long: takes minutes")
    config.addinivalue_line("markers", "hour: takes as long as --mixed-load says")


class Server:
    """A server that runs, and two ways to use it."""

    def __init__(self, url, key=None, pid=None):
        self.url = url
        self.pid = pid  # of clora serve
        self.client = openai.OpenAI(base_url=f"{url}/v1", api_key=key or "none", max_retries=0,
                                    timeout=60)

    def request(self, path, body=None, headers=None):
        """Status and text of the answer to a GET, or to a POST of a body as JSON."""
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self.url + path, data=data, headers=headers or {})
        try:
            with urllib.request.urlopen(request, timeout=60) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as error:
            return error.code, error.read().decode()

    def json(self, path, body=None, headers=None):
        status, text = self.request(path, body, headers)
        return status, json.loads(text)

    def text(self, model="base", prompt="the llo", **more):
        """A greedy continuation."""
        fields = {"max_tokens": 24, "temperature": 0, **more}
        return self.client.completions.create(model=model, prompt=prompt, **fields).choices[0].text

    def metrics(self):
        """The values of /metrics that have no label but the model's, without the prefix."""
        lines = (line.rsplit(" ", 1) for line in self.request("/metrics")[1].splitlines()
                 if not line.startswith("#"))
        return {name.split("{")[0].split(":", 1)[1]: float(value) for name, value in lines
                if name.endswith('{model_name="base"}')}


@contextlib.contextmanager
def scripted_server(*keys):
    with subprocess.Popen([FIXTURE, "script", *keys], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                          text=True) as program:
        yield Server(program.stdout.readline().strip(), keys[0] if keys else None)
        program.stdin.close()
        assert program.wait(timeout=60) == 0


@pytest.fixture(scope="session")
def scripted():
    with scripted_server() as server:
        yield server


@pytest.fixture(scope="session")
def secured():
    with scripted_server("secret") as server:
        yield server


@pytest.fixture(scope="session")
def files(tmp_path_factory):
    """A folder with model, first and second."""
    folder = tmp_path_factory.mktemp("served")
    subprocess.run([FIXTURE, "files", folder], check=True)
    return folder


@contextlib.contextmanager
def clora_server(folder, *options, model=None, environment=None):
    """clora serve with the models of a folder, or with another one alone; it must end cleanly after
    SIGTERM."""
    models = ["--model", model] if model else [
        "--model", folder / "model", "--adapter", f"one={folder}/first",
        "--adapter", f"two={folder}/second"]
    command = [BINARIES / "tools/clora", "serve", "--json", "--port", "0", "--name", "base",
               "--precision", "f32", *models, *options]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True,
                          env=os.environ | (environment or {})) as program:
        line = program.stdout.readline()
        assert line, "clora serve ended before it served"
        try:
            yield Server(json.loads(line)["url"], pid=program.pid)
        finally:
            program.send_signal(signal.SIGTERM)
        assert program.wait(timeout=60) == 0


@pytest.fixture(scope="session")
def served(files):
    with clora_server(files, "--adapters-dir", str(files), "--allow-adapter-loading",
                      "--tokenizer-info") as server:
        yield server
