#!/usr/bin/env python3
"""Tests the API of clora serve with OpenAI's own client.

usage: run_tests.py FOLDER [PYTEST OPTION...]

Installs openai and pytest from PyPI (61 MB) into FOLDER/packages, unless they are installed, and
runs the tests of this folder with the programs of $CLORA_BINARY_DIR. Without the packages and without a
package index it prints "skipped: REASON".
"""
import os
import pathlib
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
import pypi_packages  # noqa: E402

PACKAGES = ["openai==3.57.0", "pytest==9.2.0"]


def main():
    folder = pathlib.Path(sys.argv[1]).resolve()
    folder.mkdir(parents=True, exist_ok=True)
    problem = pypi_packages.install(folder / "packages", PACKAGES)
    if problem:
        print(f"skipped: pip cannot install {' and '.join(PACKAGES)}: {problem}")
        return 0
    tests = pathlib.Path(__file__).resolve().parent
    environment = dict(os.environ, PYTHONPATH=str(folder / "packages"), PYTHONDONTWRITEBYTECODE="1")
    return subprocess.run([sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", tests,
                           *sys.argv[2:]], env=environment, check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
