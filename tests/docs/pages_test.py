#!/usr/bin/env python3
"""Runs pages of docs/ as they are written: each command of their sh blocks, in order, in a copy of
clora's sources, compared with the output that the page shows (tests/docs/page_runner.py).

    tests/docs/pages_test.py [--write] PAGE...

PAGE is the name of a file in docs/ without its extension. --write replaces the lines of the page
that do not match by the commands' current output.
"""
import pathlib
import sys
import tempfile
import unittest

from page_runner import ROOT, Sources, missing_programs, walk


def path_of(name):
    return ROOT / "docs" / f"{name}.md"


class Page(unittest.TestCase):
    def __init__(self, name):
        super().__init__("test_the_page_shows_what_its_commands_print")
        self.page = path_of(name).read_text()

    def test_the_page_shows_what_its_commands_print(self):
        if missing := missing_programs(self.page):
            self.skipTest(f"{' and '.join(missing)} are needed (tools/install_packages)")
        count = 0

        def check(command, lines, printed, code, same):
            nonlocal count
            count += 1
            if not same:
                self.fail(f"$ {command}\nprinted, with exit code {code},\n{printed}\n"
                          "where the page has\n" + "\n".join(lines))
            return lines

        with tempfile.TemporaryDirectory() as folder:
            walk(Sources(pathlib.Path(folder)), self.page, check)
        self.assertGreater(count, 5)


def write(name):
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

        path_of(name).write_text(walk(sources, path_of(name).read_text(), check))


if __name__ == "__main__":
    names = [name for name in sys.argv[1:] if name != "--write"]
    if "--write" in sys.argv:
        for each in names:
            write(each)
    else:
        result = unittest.TextTestRunner(verbosity=2).run(unittest.TestSuite(map(Page, names)))
        sys.exit(not result.wasSuccessful())
