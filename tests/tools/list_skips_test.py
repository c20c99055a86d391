"""tools/list_skips: every kind of skip in a log of ctest is counted, with its reason and its test.
CLORA_SOURCE_DIR names the repository."""
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

SOURCE = pathlib.Path(os.environ.get("CLORA_SOURCE_DIR", pathlib.Path(__file__).parents[2]))


def block(name, output, conclusion="Test Passed."):
    line = "-" * 58
    return (f"1/9 Testing: {name}\n1/9 Test: {name}\nCommand: \"/x\"\nOutput:\n{line}\n{output}\n"
            f"<end of output>\nTest time =   0.05 sec\n{line}\n{conclusion}\n"
            f"\"{name}\" end time: Nov 23 16:14 UTC\n\"{name}\" time elapsed: 00:00:00\n{line}\n\n")


class ListSkips(unittest.TestCase):
    def listed(self, *blocks):
        with tempfile.TemporaryDirectory() as folder:
            log = pathlib.Path(folder) / "Testing/Temporary/LastTest.log"
            log.parent.mkdir(parents=True)
            log.write_text("Start testing: Nov 23\n" + "".join(blocks))
            return self.output(folder).stdout.splitlines()

    def output(self, folder, check=True):
        return subprocess.run([sys.executable, SOURCE / "tools/list_skips", folder], check=check,
                              capture_output=True, text=True)

    def test_skips_of_gtest_are_counted_by_reason(self):
        lines = self.listed(
            block("gguf", "a.cpp:3: Skipped\nno model\n[  SKIPPED ] A.B (0 ms)"),
            block("json", "[  PASSED  ] 3 tests."),
            block("weights", "b.cpp:3: Skipped\nno model\nb.cpp:9: Skipped\nfor GPUs"))
        self.assertEqual(lines, ["Skipped tests: 3", "    2 no model (gguf, weights)",
                                 "    1 for GPUs (weights)"])

    def test_skips_of_unittest_are_counted(self):
        lines = self.listed(block("gpu_bench", "test_a (main.T.test_a) ... skipped 'not built'\n"
                                  "test_b (main.T.test_b) ... skipped \"the device's own\"\n"
                                  "test_c (main.T.test_c) ... ok"))
        self.assertEqual(lines, ["Skipped tests: 2", "    1 not built (gpu_bench)",
                                 "    1 the device's own (gpu_bench)"])

    def test_a_test_skipped_by_its_output_is_counted(self):
        lines = self.listed(block("install", "hello\nskipped: it needs a compiler",
                                  "Test Pass Reason:\nSkip regular expression found in output. "
                                  "Regex=[skipped: ]"),
                            block("other", "skipped: a part of the output"))
        self.assertEqual(lines, ["Skipped tests: 1", "    1 it needs a compiler (install)"])

    def test_a_program_that_ran_no_test_is_counted(self):
        lines = self.listed(block("gemm.x", "[==========] 0 tests from 0 test suites ran. (0 ms)"))
        self.assertEqual(lines[1:], ["    1 no test of the program was selected (gemm.x)"])

    def test_a_run_without_skips_says_so(self):
        self.assertEqual(self.listed(block("json", "[  PASSED  ] 3 tests.")), ["Skipped tests: 0"])

    def test_a_missing_log_is_an_error(self):
        done = self.output("/nowhere", check=False)
        self.assertEqual(done.returncode, 1)
        self.assertIn("run ctest first", done.stderr)


if __name__ == "__main__":
    unittest.main()
