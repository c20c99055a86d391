#!/usr/bin/env python3
"""The comparison and the replaced commands of tests/docs/page_runner.py."""
import pathlib
import tempfile
import unittest

from page_runner import Sources, matches, steps


class Comparison(unittest.TestCase):
    def test_accepts_the_documented_differences_and_no_others(self):
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


class Steps(unittest.TestCase):
    def test_are_commands_with_their_here_documents_and_their_output(self):
        block = "$ cat <<'END'\n$ text\nEND\n$ text\n$ a \\\n  b\n$ c\n"
        self.assertEqual(steps(block), [("cat <<'END'\n$ text\nEND", []), ("text", []),
                                        ("a \\\n  b", []), ("c", [])])


class ReplacedCommands(unittest.TestCase):
    def test_a_build_uses_the_changed_sources_and_reports_their_errors(self):
        with tempfile.TemporaryDirectory() as folder:
            sources = Sources(pathlib.Path(folder))
            source = sources.folder / "runtime/memory/dtype.cpp"
            self.assertEqual(sources.changed(sources.LIBRARIES), [])
            source.write_text(source.read_text() + "#error changed\n")
            self.assertEqual(sources.changed(sources.LIBRARIES), ["runtime/memory/dtype.cpp"])
            (sources.folder / "tests/ops/empty_test.cpp").write_text("int main() {}\n")
            printed, code = sources.run("cmake --build --preset release --target empty_test")
            self.assertNotEqual(code, 0)
            self.assertIn("#error changed", printed)

    def test_a_test_runs_as_ctest_would_run_it(self):
        with tempfile.TemporaryDirectory() as folder:
            sources = Sources(pathlib.Path(folder))
            (sources.folder / "tests/ops/failing_test.cpp").write_text(
                '#include <cstdlib>\nint main() { return std::getenv("CLORA_SELF_TEST")[0] - 41; }\n')
            build = "cmake --preset release && cmake --build --preset release --target failing_test"
            self.assertEqual(sources.run(build), ("", 0))
            self.assertEqual(sources.run("ctest --preset release -R '^failing$'"), ("", 7))


if __name__ == "__main__":
    unittest.main()
