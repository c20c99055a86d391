"""Tests tools/check_layers on small trees with one fault each. CLORA_SOURCE_DIR names the
repository."""
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

SOURCE = pathlib.Path(os.environ.get("CLORA_SOURCE_DIR", pathlib.Path(__file__).parents[2]))
GOOD = {
    "cmake/PublicHeaders.cmake": "set(CLORA_PUBLIC_HEADERS\n  ops/public.hpp\n)\n",
    "ops/public.hpp": "#include <string>\n",
    "ops/public.cpp": '#include "clora/ops/public.hpp"\n',
    "cl/row.clh": "",
    "cl/row.cl": '#include "row.clh"\n',
    "runtime/device.hpp": "#include <CL/cl.h>\n",
    "ops/row.hpp": '#include "runtime/device.hpp"\n',
    "serving/request.hpp": '#include "ops/row.hpp"\n',
    "tools/program/main.cpp": '#include "serving/request.hpp"\n',
    "examples/server/server.cpp": '#include "engine.hpp"\n#include "clora/ops/public.hpp"\n',
    "examples/server/engine.hpp": "",
    "tools/clc/compile/shim/all.clh": '#include <opencl-c-base.h>\n#include "part.clh"\n',
    "tools/clc/compile/shim/part.clh": "",
    "tests/row_test.cpp": '#include "ops/row.hpp"\n#include <CL/cl.h>\n',
}


def check(changes):
    with tempfile.TemporaryDirectory() as folder:
        for name, text in {**GOOD, **changes}.items():
            path = pathlib.Path(folder, name)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
        command = [sys.executable, SOURCE / "tools" / "check_layers", folder]
        return subprocess.run(command, capture_output=True, text=True, check=False)


class CheckLayers(unittest.TestCase):
    def expect_fault(self, changes, *parts):
        result = check(changes)
        self.assertEqual(result.returncode, 1, result.stderr)
        for part in parts:
            self.assertIn(part, result.stderr)

    def test_a_tree_that_keeps_to_the_layers_passes(self):
        result = check({})
        self.assertEqual(result.returncode, 0, result.stderr)

    def test_an_include_of_a_module_above_fails_with_file_and_line(self):
        changes = {"runtime/up.cpp": '#include "runtime/device.hpp"\n#include "ops/row.hpp"\n'}
        self.expect_fault(changes, "runtime/up.cpp:2: includes ops/row.hpp")

    def test_a_model_that_knows_of_serving_fails(self):
        changes = {"model/text/up.cpp": '#include "serving/request.hpp"\n'}
        self.expect_fault(changes, "model/text/up.cpp:1: includes serving/request.hpp")

    def test_a_folder_of_model_that_includes_one_above_fails(self):
        changes = {"model/data/records.hpp": "", "model/text/up.cpp":
                   '#include "model/data/records.hpp"\n'}
        self.expect_fault(changes, "model/text/up.cpp:1: includes model/data/records.hpp")

    def test_a_message_of_the_library_that_names_an_option_fails(self):
        changes = {"runtime/pool.cpp": 'fail("lower --batch-size");\n'}
        self.expect_fault(changes, "runtime/pool.cpp:1: a message of the library names a setting")

    def test_a_model_that_compares_variants_fails(self):
        for question in ["context.variant() == Variant::wgmma", "has_matrix_unit(variant)",
                         "context.capabilities().ptx"]:
            changes = {"model/transformer/block.cpp": f"// Variant::cpu\nif ({question}) return;\n"}
            self.expect_fault(changes, "model/transformer/block.cpp:2: depends on the kernels of")

    def test_an_op_that_asks_for_the_variant_fails(self):
        for question in ["context.variant() == other", "is_for_cpus(variant)",
                         "Variant variant = of(context)"]:
            changes = {"ops/row.cpp": f"// of the variant()\n{question};\n"}
            self.expect_fault(changes, "ops/row.cpp:2: depends on the variant of a Context")

    def test_an_op_that_asks_for_capabilities_passes(self):
        changes = {"ops/row.cpp": "if (context.capabilities().ptx) return;\nVariantKernel k;\n"}
        self.assertEqual(check(changes).returncode, 0)

    def test_two_types_of_one_name_fail_with_both_places(self):
        type_of_one_name = "namespace clora {\nstruct Finding {};\n}\n"
        self.expect_fault({"tools/lint.hpp": type_of_one_name, "tools/runs.hpp": type_of_one_name},
                          "tools/runs.hpp:2: Finding is defined in tools/lint.hpp:2 too")

    def test_two_kernel_files_of_one_name_fail(self):
        self.expect_fault({"cl/rows/row.cl": ""}, "cl/rows/row.cl: cl/row.cl has the same name")

    def test_a_kernel_that_includes_by_another_path_fails(self):
        self.expect_fault({"cl/rows/sum.clh": "", "cl/rows/sum.cl": '#include "sum.clh"\n'},
                          "cl/rows/sum.cl:1: includes sum.clh", "by the path from there")

    def test_a_public_header_that_is_included_as_a_private_one_fails_and_vice_versa(self):
        for include in ("ops/public.hpp", "clora/ops/row.hpp"):
            self.expect_fault({"ops/bad.cpp": f'#include "{include}"\n'},
                              "ops/bad.cpp:1", "public headers, and no others")

    def test_a_private_header_in_a_public_one_or_an_example_fails(self):
        for name in ("ops/public.hpp", "examples/server/bad.cpp"):
            self.expect_fault({name: '#include "ops/row.hpp"\n'},
                              f"{name}:1", "include public headers only")

    def test_fmt_in_a_public_header_fails(self):
        self.expect_fault({"ops/public.hpp": "#include <fmt/format.h>\n"}, "may lack fmt")

    def test_a_module_that_includes_a_test_fails(self):
        self.expect_fault(
            {"tests/support/x.hpp": "", "ops/bad.cpp": '#include "tests/support/x.hpp"\n'},
            "ops/ must not include tests/",
        )

    def test_opencl_headers_above_the_runtime_fail(self):
        self.expect_fault({"ops/bad.cpp": "#include <CL/cl.h>\n"}, "OpenCL headers")

    def test_an_include_relative_to_its_folder_fails(self):
        self.expect_fault({"runtime/bad.cpp": '#include "device.hpp"\n'}, "repository's root")

    def test_a_shim_that_includes_a_kernel_file_of_another_folder_fails(self):
        changes = {"tools/clc/compile/shim/bad.clh": '#include "runtime/device.hpp"\n'}
        self.expect_fault(changes, "tools/clc/compile/shim/bad.clh:1")

    def test_a_kernel_that_includes_a_host_file_fails(self):
        self.expect_fault({"cl/bad.cl": '#include "ops/row.hpp"\n'}, "cl/bad.cl:1")

    def test_json_that_goes_past_its_module_fails_with_file_and_line(self):
        for call in ("auto x = nlohmann::json::parse(text);", "text = object.dump();",
                     "} catch (const Json::exception& error) {"):
            self.expect_fault({"ops/bad.cpp": "\n" + call + "\n"}, "ops/bad.cpp:2: ",
                              "JSON goes through runtime/files/json.hpp")

    def test_the_module_of_json_and_tests_may_call_its_library(self):
        text = "auto x = Json::parse(text);\nx.dump();\n"
        self.assertEqual(check({"runtime/files/json.cpp": text, "tests/x.cpp": text}).returncode, 0)


if __name__ == "__main__":
    unittest.main()
