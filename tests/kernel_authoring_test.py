#!/usr/bin/env python3
"""Runs every command of the sh blocks in docs/kernel_authoring.md, in order, in a folder with
clora's sources, and compares the output of each with the lines below it.

    tests/kernel_authoring_test.py [--write]

--write replaces the lines of the page that do not match by the commands' current output. In a
comparison, a run of blanks equals one blank, and a number before a unit of time or speed equals any
other number. In a block that opens with `sh measured`, every number, unit and verdict equals any
other, consecutive lines that are equal in this way count once, and exit code 1 is accepted as well
as 0.
`…` matches any text, and on a line of its own any lines. `cmake` is not called: the test that it
would build is compiled against the libraries of this build (tests/CMakeLists.txt, compile_op_test),
which takes seconds.
"""
import itertools
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(os.environ.get("CLORA_SOURCE_DIR", pathlib.Path(__file__).parent.parent))
BUILD = pathlib.Path(os.environ.get("CLORA_BINARY_DIR", ROOT / "build/release"))
PAGE = ROOT / "docs/kernel_authoring.md"

BLOCK = re.compile(r"^```sh( measured)?\n(.*?)^```$", re.MULTILINE | re.DOTALL)
MEASURED = re.compile(r"\d+(?:\.\d+)?(?:e[+-]?\d+)?(?= ?(?:s|ms|us|ns|GB/s|GFLOP/s|GiB/s|%)(?![\w/]))")
NUMBER = re.compile(r"\d+(?:[.,]\d+)*(?:e[+-]?\d+)?")
VERDICT = re.compile(r"\b(?:timed|slow|faster|slower|no difference)\b|0 [num]?s\b|(?<=% of )[\w ]+")
# The last line of clc tune, which differs if the default is already the fastest.
CONCLUSION = re.compile(r"^(?:written to|no gain:) .*")
HERE_DOCUMENT = re.compile(r"<<'(\w+)'")


def steps(block):
    """Returns the commands of a block, each with the lines that the page shows as its output."""
    lines = block.splitlines()
    found = []
    while lines:
        line = lines.pop(0)
        if not line.startswith("$ "):
            found[-1][1].append(line)
            continue
        command = [line[2:]]
        while command[-1].endswith("\\"):
            command.append(lines.pop(0))
        if end := HERE_DOCUMENT.search(line):
            while command[-1] != end[1]:
                command.append(lines.pop(0))
        found.append(("\n".join(command), []))
    return found


def comparable(line, measured):
    if measured:
        line = CONCLUSION.sub("concluded", VERDICT.sub("?", NUMBER.sub("0", line)))
    else:
        line = MEASURED.sub("0", line)
    return re.sub(r"\s+", " ", line).strip() + "\n"


def matches(lines, printed, measured=False):
    """Whether a command's output matches the lines below it in the page."""
    def of(text):
        told = [comparable(line, measured) for line in text]
        return [line for line, _ in itertools.groupby(told)] if measured else told

    pattern = ""
    for line in of(lines):
        if line.strip() == "…":
            pattern += r"(?:.*\n)*?"
        else:
            pattern += re.escape(line).replace("…", ".*")
    text = "".join(of(printed.splitlines()))
    return re.fullmatch(pattern, text) is not None


class Sources:
    """A folder with clora's sources, some of which the page's commands change."""

    COPIED = ["cl", "ops", "tests/support", "tests/reference", "bench/support", "CMakeLists.txt"]
    LINKED = ["runtime", "lora", "model", "tools"]

    def __init__(self, folder):
        self.folder = folder
        for name in self.COPIED:
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            if (ROOT / name).is_dir():
                shutil.copytree(ROOT / name, folder / name)
            else:
                shutil.copy(ROOT / name, folder / name)
        for name in self.LINKED:
            (folder / name).symlink_to(ROOT / name)
        self.environment = os.environ | {
            "PATH": f"{BUILD / 'tools'}:{os.environ['PATH']}",
            "CLORA_CACHE_DIR": str(folder / "cache"),
            "CLORA_DEVICE": "cpu",  # as the page was written
        }

    def run(self, command):
        """Runs the command. Returns its output and its exit code."""
        if command.startswith("cmake "):
            command = self.instead_of_cmake(re.search(r"--target (\w+)_test", command)[1])
        done = subprocess.run(["bash", "-c", command], cwd=self.folder, env=self.environment,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        return done.stdout, done.returncode

    def instead_of_cmake(self, op):
        program = f"build/release/tests/{op}_test"
        return (f"mkdir -p build/release/tests && {BUILD}/tests/compile_op_test -I. ops/{op}.cpp "
                f"tests/{op}_test.cpp -o {program}")

    def device(self):
        told, code = self.run("clc devices --device cpu --json")
        return json.loads(told)["devices"][0]["name"] if code == 0 else None


def walk(sources, page, check):
    """Calls check(command, lines, printed, exit_code, same) for each command. check() returns the
    lines for the page. Returns the resulting page."""
    def of_block(match):
        text = f"```sh{match[1] or ''}\n"
        for command, lines in steps(match[2]):
            printed, code = sources.run(command)
            measured = match[1] is not None
            same = matches(lines, printed, measured) and code in ([0, 1] if measured else [0])
            lines = check(command, lines, printed, code, same)
            text += "\n".join([f"$ {command}", *lines]) + "\n"
        return text + "```"
    return BLOCK.sub(of_block, page)


@unittest.skipUnless(shutil.which("oclgrind") and shutil.which("clang-14"),
                     "oclgrind and clang-14 are needed")
class KernelAuthoring(unittest.TestCase):
    def test_the_page_shows_what_its_commands_print(self):
        count = 0

        def check(command, lines, printed, code, same):
            nonlocal count
            count += 1
            if not same:
                self.fail(f"$ {command}\nprinted, with exit code {code},\n{printed}\n"
                          "where the page has\n" + "\n".join(lines))
            return lines

        with tempfile.TemporaryDirectory() as folder:
            walk(Sources(pathlib.Path(folder)), PAGE.read_text(), check)
        self.assertGreater(count, 15)

    def test_what_differs_is_seen(self):
        """Tests the comparison itself: it accepts the documented differences and no others."""
        for lines, printed, same in [
            (["built in 0.7 s: f", "n = 5"], "built in 12 s:  f\nn = 5\n", True),
            (["built in 0.7 s: f"], "built in 0.7 s: g\n", False),
            (["n = 5"], "n = 6\n", False),
            (["on …: 5"], "on a GPU: 5\n", True),
            (["a", "…", "d"], "a\nb\nc\nd\n", True),
            (["a", "…", "d"], "a\nb\nc\n", False),
            ([], "a\n", False),
        ]:
            self.assertEqual(matches(lines, printed), same, lines)
        self.assertTrue(matches(["best: 4, 12 us"], "best: 16, 1.5 us\n", measured=True))
        self.assertTrue(matches(["0.4 (to 1 us): faster"], "1.2 (to 3 ms): slower\n", measured=True))
        self.assertFalse(matches(["best: 4, 12 us"], "worst: 4, 12 us\n", measured=True))


def write():
    with tempfile.TemporaryDirectory() as folder:
        sources = Sources(pathlib.Path(folder))
        device = sources.device()

        def check(command, lines, printed, code, same):
            print(f"{code} $ {command.splitlines()[0]}", file=sys.stderr)
            if code > 1:
                sys.exit(printed)
            if same:
                return lines
            return printed.replace(device, "…").replace(folder, "…").splitlines()

        PAGE.write_text(walk(sources, PAGE.read_text(), check))


if __name__ == "__main__":
    if sys.argv[1:] == ["--write"]:
        write()
    else:
        unittest.main()
