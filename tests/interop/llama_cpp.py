"""llama.cpp, from packages of npm: prebuilt libraries for Linux on x86-64, and their headers."""
import os
import pathlib
import platform
import shutil
import subprocess
import tarfile

import numpy

VERSION = "3.22.1"  # of node-llama-cpp, with llama.cpp v0.5.0
LIBRARIES, HEADERS = "@node-llama-cpp/linux-x64", "node-llama-cpp"
BACKENDS = "libraries/package/bins/linux-x64"


def call(*command, **more):
    subprocess.run(list(map(str, command)), check=True, capture_output=True, text=True, timeout=300,
                   **more)


def unpack(name, folder):
    """A package of npm in FOLDER/package."""
    folder.mkdir(parents=True)
    call("npm", "pack", f"{name}@{VERSION}", "--silent", cwd=folder)
    with tarfile.open(next(folder.glob("*.tgz"))) as archive:
        archive.extractall(folder, filter="data")


def build(folder):
    unpack(LIBRARIES, folder / "libraries")
    unpack(HEADERS, folder / "headers")
    source = folder / "llama.cpp"
    call("git", "clone", "--quiet", folder / "headers/package/llama/gitRelease.bundle", source)
    libraries = folder / BACKENDS
    named = [next(libraries.glob(f"lib{name}*.so")) for name in ("llama.", "ggml.", "ggml-base")]
    call("cc", "-O2", f"-I{source}/include", f"-I{source}/ggml/include",
         pathlib.Path(__file__).parent / "llama_greedy.c", "-o", folder / "llama_greedy",
         *named, f"-Wl,-rpath,$ORIGIN/{BACKENDS}", "-Wl,--allow-shlib-undefined")


def install(folder):
    """Everything or nothing in `folder`. Returns why that failed; empty for success."""
    if folder.exists():
        return ""
    if (platform.system(), platform.machine()) != ("Linux", "x86_64"):
        return "the packages are for Linux on x86-64"
    for program in ("npm", "git", "cc"):
        if shutil.which(program) is None:
            return f"{program} is not installed"
    part = folder.with_suffix(".part")
    shutil.rmtree(part, ignore_errors=True)
    try:
        build(part)
    except subprocess.SubprocessError as error:
        lines = (getattr(error, "stderr", "") or str(error)).strip().splitlines()
        return lines[-1] if lines else str(error)
    part.rename(folder)
    return ""


class LlamaCpp:
    def __init__(self, folder):
        self.folder = folder

    @staticmethod
    def find():
        """That of $CLORA_LLAMA_CPP, or None."""
        folder = pathlib.Path(os.environ.get("CLORA_LLAMA_CPP", "/nonexistent"))
        return LlamaCpp(folder) if (folder / "llama_greedy").exists() else None

    def run(self, model, prompts, count, adapter):
        command = [self.folder / "llama_greedy", self.folder / BACKENDS, model, count]
        if adapter is not None:
            command.append(adapter)
        lines = "".join(" ".join(map(str, prompt)) + "\n" for prompt in prompts)
        done = subprocess.run(list(map(str, command)), input=lines, capture_output=True, text=True,
                              check=False, timeout=600)
        if done.returncode != 0:
            raise RuntimeError(done.stderr[-4000:] or f"llama_greedy: exit code {done.returncode}")
        return [line.split() for line in done.stdout.splitlines()]

    def greedy(self, model, prompts, count, adapter=None):
        """The `count` likeliest tokens after each prompt, by their ids."""
        return [list(map(int, ids)) for ids in self.run(model, prompts, count, adapter)]

    def logits(self, model, prompts, adapter=None):
        """[V] after each prompt."""
        return [numpy.array(values, numpy.float32)
                for values in self.run(model, prompts, 0, adapter)]
