#!/usr/bin/env python3
"""Runs the tests of the Python package of a build.

usage: run_tests.py BUILD_FOLDER [PYTEST OPTION...]

The package is BUILD_FOLDER/python, NumPy and pytest are those of $CLORA_PYTHON_PACKAGES. With
--peers the tests run in the environment with PyTorch, transformers and PEFT that
tools/setup/install_peers makes. Prints "skipped: REASON" where one of these is missing.
"""
import os
import pathlib
import subprocess
import sys


def peers():
    """The interpreter of the environment with PyTorch."""
    folder = os.environ.get("CLORA_PEERS") or os.path.expanduser("~/.cache/clora/peers")
    return pathlib.Path(folder) / "torch/bin/python"


def main():
    build, options = pathlib.Path(sys.argv[1]).resolve(), sys.argv[2:]
    paths = [str(build / "python"), os.environ.get("CLORA_PYTHON_PACKAGES", "")]
    interpreter = pathlib.Path(sys.executable)
    if "--peers" in options:
        options.remove("--peers")
        interpreter = peers()
        paths.pop()  # the environment has its own
        if not interpreter.exists():
            print(f"skipped: {interpreter} is missing; tools/setup/install_peers torch installs it")
            return 0
    environment = dict(os.environ, PYTHONPATH=os.pathsep.join(paths), PYTHONDONTWRITEBYTECODE="1")
    tests = pathlib.Path(__file__).resolve().parent
    return subprocess.run([str(interpreter), "-m", "pytest", "-q", "-p", "no:cacheprovider",
                           str(tests), *options], env=environment, check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
