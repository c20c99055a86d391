#!/usr/bin/env python3
"""Tests that every code block of docs/embedding.md is in the file that the line above it names, and
that its table lists the library's metrics."""
import os
import pathlib
import re
import unittest

ROOT = pathlib.Path(os.environ.get("CLORA_SOURCE_DIR", pathlib.Path(__file__).parents[2]))
# An optional line with a file's name, then a block with its language.
BLOCK = re.compile(r"(?:^`([^`\n]+)`:\n)?^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


# Calls of measure() in the library, with the names in them; rows of the table of metrics.
MEASURE = re.compile(r"\bmeasure\(([^;]*?)\);", re.DOTALL)
METRIC_ROW = re.compile(r"^\| `([a-z_]+\.[a-z_]+)` \|", re.MULTILINE)


class EmbeddingDoc(unittest.TestCase):
    def setUp(self):
        self.blocks = BLOCK.findall((ROOT / "docs/embedding.md").read_text())

    def test_code_blocks_are_quotations(self):
        code = [block for block in self.blocks if block[1] != "sh"]
        self.assertGreater(len(code), 6)
        for name, language, text in code:
            self.assertTrue(name, f"a {language} block names no file:\n{text}")
            self.assertIn(text, (ROOT / name).read_text(), f"not a part of {name}")

    def test_the_metrics_listed_are_those_that_there_are(self):
        named = set()
        for module in ["runtime", "ops", "lora", "model"]:
            for path in (ROOT / module).rglob("*.cpp"):
                for arguments in MEASURE.findall(path.read_text()):
                    named.update(re.findall(r'"([^"]+)"', arguments))
        self.assertGreater(len(named), 3)
        listed = set(METRIC_ROW.findall((ROOT / "docs/embedding.md").read_text()))
        self.assertEqual(named, listed)


if __name__ == "__main__":
    unittest.main()
