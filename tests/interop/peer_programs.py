"""Programs of others: Python environments of tools/setup/install_peers, and llama.cpp."""
import contextlib
import json
import os
import pathlib
import socket
import subprocess
import time
import urllib.error
import urllib.request

PEERS = pathlib.Path(os.environ.get("CLORA_PEERS", pathlib.Path.home() / ".cache/clora/peers"))


def python_of(name):
    python = PEERS / name / "bin/python"
    return python if python.exists() else None


def free_port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


def post(url, body):
    request = urllib.request.Request(url, json.dumps(body).encode(),
                                     {"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=120) as answer:
        return json.loads(answer.read())


class LlamaCpp:
    """llama.cpp, as its server or, without that, as llama-cpp-python."""

    def __init__(self, server=None, python=None):
        self.server, self.python = server, python

    @staticmethod
    def find():
        folder = os.environ.get("CLORA_LLAMA_CPP")
        if folder and (pathlib.Path(folder) / "llama-server").exists():
            return LlamaCpp(server=pathlib.Path(folder) / "llama-server")
        python = python_of("llamacpp")
        return LlamaCpp(python=python) if python else None

    def greedy(self, model, prompts, count, adapter=None):
        """The `count` likeliest tokens after each prompt, by their ids."""
        if self.server is None:
            return self.greedy_in_python(model, prompts, count, adapter)
        with self.serving(model, adapter) as url:
            return [post(f"{url}/completion", {"prompt": prompt, "n_predict": count,
                                               "temperature": 0, "top_k": 1, "ignore_eos": True,
                                               "return_tokens": True, "cache_prompt": False,
                                               "repeat_penalty": 1.0})["tokens"]
                    for prompt in prompts]

    @contextlib.contextmanager
    def serving(self, model, adapter):
        port = free_port()
        command = [self.server, "--model", model, "--port", str(port), "--host", "127.0.0.1",
                   "--threads", "2", "--parallel", "1", "--ctx-size", "256", "--cache-type-k",
                   "f32", "--cache-type-v", "f32", "--flash-attn", "off", "--no-webui"]
        if adapter is not None:
            command += ["--lora", adapter]
        with subprocess.Popen(list(map(str, command)), stdout=subprocess.DEVNULL,
                              stderr=subprocess.PIPE, text=True) as program:
            try:
                yield self.wait(f"http://127.0.0.1:{port}", program)
            finally:
                program.terminate()
                program.communicate()

    @staticmethod
    def wait(url, program):
        for _ in range(600):
            if program.poll() is not None:
                raise RuntimeError(program.communicate()[1][-4000:])
            with contextlib.suppress(urllib.error.URLError, ConnectionError):
                with urllib.request.urlopen(f"{url}/health", timeout=5):
                    return url
            time.sleep(0.1)
        raise RuntimeError("llama-server did not start within a minute")

    def greedy_in_python(self, model, prompts, count, adapter):
        script = pathlib.Path(__file__).parent / "peers/llamacpp_greedy.py"
        job = {"model": str(model), "prompts": prompts, "count": count,
               "adapter": str(adapter) if adapter is not None else None}
        environment = {k: v for k, v in os.environ.items() if k != "PYTHONPATH"}
        done = subprocess.run([self.python, script], input=json.dumps(job), capture_output=True,
                              text=True, check=False, timeout=600, env=environment)
        if done.returncode != 0:
            raise RuntimeError(done.stderr[-4000:])
        return json.loads(done.stdout.splitlines()[-1])
