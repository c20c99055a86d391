"""tools/write_interface_table: rows that the headers do not bear out are named, functions of clora.h
in no row too, and a page that is not up to date fails the check. CLORA_SOURCE_DIR names the
repository."""
import importlib.machinery
import importlib.util
import os
import pathlib
import tempfile
import unittest

SOURCE = pathlib.Path(os.environ.get("CLORA_SOURCE_DIR", pathlib.Path(__file__).parents[2]))


def load_script():
    path = str(SOURCE / "tools/write_interface_table")
    loader = importlib.machinery.SourceFileLoader("write_interface_table", path)
    module = importlib.util.module_from_spec(
        importlib.util.spec_from_loader("write_interface_table", loader))
    loader.exec_module(module)
    return module


SCRIPT = load_script()

HEADER = """typedef struct clora_options {
  size_t size;
  double scale; /* not a clora_fake() */
  int32_t (*on_step)(void* user);
} clora_options;
CLORA_API clora_status clora_one(int32_t* count);
CLORA_API clora_status clora_two(void);
"""


class WriteInterfaceTable(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = pathlib.Path(folder.name)
        self.write("model/c_api/clora.h", HEADER)
        self.write("cmake/PublicHeaders.cmake", "set(HEADERS\n  model/one.hpp\n)\n")
        self.write("model/one.hpp", "class One {\n  void run_all();\n};\n")
        self.write("model/hidden.hpp", "class Hidden;\n")

    def write(self, name, text):
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)

    def faults(self, *rows):
        return list(SCRIPT.faults(self.root, [("Group", None, None, None), *rows]))

    def test_rows_that_are_true_have_no_faults(self):
        self.assertEqual(self.faults(
            ("a", "model/one.hpp: One run_all", "clora_one", ""),
            ("b", "", "clora_two clora_options.scale clora_options.on_step", "")), [])

    def test_a_function_in_no_row_is_named(self):
        self.assertEqual(self.faults(("a", "", "clora_one", "")),
                         ["no row has the function clora_two of clora.h"])

    def test_names_that_there_are_not_are_named_with_their_row(self):
        rows = [("a", "model/one.hpp: One run", "clora_one clora_fake", ""),
                ("b", "model/hidden.hpp: Hidden", "clora_two clora_options.user", "")]
        self.assertEqual(self.faults(*rows), [
            "a: model/one.hpp has no run", "a: clora.h has no function clora_fake",
            "b: model/hidden.hpp is no public header", "b: clora.h has no field clora_options.user"])

    def test_names_of_python_are_looked_up_in_its_folder(self):
        rows = [("a", "", "clora_one clora_two", "Model.load Model.size ops Trainer.load")]
        self.assertEqual(len(self.faults(*rows)), 4)
        self.write("python/clora/__init__.py", "from . import ops\n")
        self.write("python/clora/model.py",
                   "class Model:\n    size: int = 0\n    def load(self): ...\nclass Trainer: ...\n")
        self.assertEqual(self.faults(*rows), ["a: python/clora has no Trainer.load"])

    def test_the_table_replaces_what_is_between_its_lines(self):
        page = f"before\n{SCRIPT.BEGIN}old\n{SCRIPT.END}after\n"
        new = SCRIPT.with_table(page)
        self.assertIn(SCRIPT.table(), new)
        self.assertNotIn("old\n", new)
        self.assertTrue(new.startswith("before\n") and new.endswith("after\n"))
        self.assertEqual(SCRIPT.with_table(new), new)
        with self.assertRaises(SystemExit):
            SCRIPT.with_table("no lines")

    def test_cells_without_a_name_have_a_dash(self):
        table = SCRIPT.table([("a", "", "clora_one clora_two", "")])
        self.assertIn("| a | — | `clora_one`, `clora_two` | — |", table)


if __name__ == "__main__":
    unittest.main()
