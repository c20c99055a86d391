"""Tests tools/gpu_bench and tools/gpu_check: parsing programs' outputs, tables of known numbers,
models of random weights, and a suite of two programs. Nothing is measured. CLORA_SOURCE_DIR and
CLORA_BINARY_DIR name the repository and the build."""
import importlib.machinery
import importlib.util
import json
import os
import pathlib
import stat
import struct
import subprocess
import sys
import tempfile
import unittest

SOURCE = pathlib.Path(os.environ.get("CLORA_SOURCE_DIR", pathlib.Path(__file__).parents[2]))
BUILD = pathlib.Path(os.environ.get("CLORA_BINARY_DIR", SOURCE / "build/release"))
sys.path[:0] = [str(SOURCE / "bench"), str(SOURCE / "bench/peers")]
sys.dont_write_bytecode = True

import gpu_shapes  # noqa: E402
from report import clora_bench, combine, contenders, gpu_groups, gpu_runs  # noqa: E402
from report import gpu_tables, machine, plans, process, program, random_model, tables  # noqa: E402
from report.gpu_targets import TARGETS  # noqa: E402

SUFFIX = "/manual_time"
BENCH = json.dumps({"benchmarks": [
    {"name": "gemm/fused/bf16/4096x1024x1024/warm/bf16" + SUFFIX, "median_us": 20, "gflops": 3},
    {"name": "lora_linear/fused/bf16/4096x1024x1024/r8/warm/bf16" + SUFFIX, "median_us": 21,
     "percent_of_roofline": 70},
    {"name": "lora_expand/fused/bf16/4096x1024x1024/r8/warm/bf16" + SUFFIX, "median_us": 20.8},
    {"name": "gemm_backward/fused/bf16/4096x1024x1024/warm/bf16" + SUFFIX, "median_us": 30},
    {"name": "lora_linear_backward/fused/bf16/4096x1024x1024/r8/warm/bf16" + SUFFIX,
     "median_us": 33},
    {"name": "softmax/fused/f32/1024x1024/warm/queued" + SUFFIX, "median_us": 4},
    {"name": "softmax/fused/f32/1024x1024/warm" + SUFFIX, "median_us": 11},
    {"name": "softmax/fused/bf16/1024x1024/warm/queued" + SUFFIX, "median_us": 3},
    {"name": "rms_norm/fused/bf16/1024x1024/warm" + SUFFIX, "error_occurred": True,
     "error_message": "wrong"}]})
JOBS = json.dumps({"benchmarks": [
    {"name": "training/fused/bf16/8x1024/r16/bf16" + SUFFIX, "tokens_per_s": 160000,
     "median_us": 5, "peak_mib": 9216, "first_step_s": 4.0},
    {"name": "generation/fused/bf16/512x128/bf16" + SUFFIX, "prompt_tokens_per_s": 8,
     "decode_tokens_per_s": 950}]})
PROFILE = "warning\nop   count\ngemm/forward  7\nthe end\n"


def done(text, errors=""):
    return process.Done([(0.0, line) for line in text.splitlines()], 0.0, 1.0, 1.0, errors)


def run(group, contender, figures):
    return {"round": 1, "group": group, "contender": contender, "seconds": 1, "figures": figures}


def measurement(runs, **more):
    return {"format": 1, "plan": "gpu", "date": "2026-01-02", "rounds": 1, "quick": False,
            "peers": {"torch": "9.9"}, "groups": {}, "runs": runs, "skipped": [], "failed": [],
            "growth": {}, "profiles": {},
            "machine": {"cpu": "A CPU", "family": "6/1", "flags": [], "cores": 16,
                        "memory_gib": 99, "kernel": "6.1", "system": "Debian", "commit": "abc",
                        "device": {"name": "NVIDIA H200", "kind": "gpu", "platform": "NVIDIA CUDA",
                                   "driver": "580", "peaks": {
                                       "copy_bytes_per_s": 4.2e12, "read_bytes_per_s": 4.1e12,
                                       "f32_flops_per_s": 5.6e13, "matrix_flops_per_s": 8e14,
                                       "launch_seconds": 3e-6}}}, **more}


class Reading(unittest.TestCase):
    def test_rows_are_distinguished_by_their_type(self):
        found = gpu_runs.typed_figures(BENCH)
        self.assertEqual(found["softmax/f32/1024x1024"], {"us": 4})
        self.assertEqual(found["softmax/bf16/1024x1024"], {"us": 3})
        self.assertNotIn("rms_norm/bf16/1024x1024", found)

    def test_a_queued_row_counts_before_one_that_is_waited_for(self):
        self.assertEqual(gpu_runs.typed_figures(BENCH)["softmax/f32/1024x1024"]["us"], 4)

    def test_an_adapters_product_is_held_against_the_bare_one_of_its_shape_and_way(self):
        found = gpu_runs.typed_figures(BENCH)
        self.assertEqual(found["lora_linear/bf16/4096x1024x1024/r8"],
                         {"us": 21, "percent_of_roofline": 70, "of_base": 1.05})
        self.assertEqual(found["lora_linear_backward/bf16/4096x1024x1024/r8"]["of_base"], 1.1)
        self.assertNotIn("of_base", found["gemm/bf16/4096x1024x1024"])

    def test_jobs_are_named_by_their_model(self):
        found = gpu_runs.jobs_figures("m")(JOBS)
        self.assertEqual(found["training/m/8x1024/r16"], {
            "us": 5, "tokens_per_s": 160000, "first_step_s": 4.0, "peak_pool_gib": 9})
        self.assertEqual(found["decode/m/512"], {"tokens_per_s": 950})

    def test_a_profile_is_what_the_run_says_after_its_warnings(self):
        job = gpu_runs.jobs("m", "training", profile=True)
        self.assertEqual(job.profiles(done(JOBS, PROFILE)), {
            "training/m/8x1024/r16": "op   count\ngemm/forward  7\nthe end"})
        self.assertEqual(job.profiles(done(JOBS, "")), {})

    def test_a_step_under_a_profile_is_compared_with_no_other(self):
        found = gpu_runs.jobs("m", "training", profile=True).figures(done(JOBS))
        self.assertNotIn("training/m/8x1024/r16", found)
        self.assertEqual(found["training_profiled/m/8x1024/r16"]["tokens_per_s"], 160000)

    def test_a_cold_start_reports_its_first_step_alone(self):
        job = gpu_runs.jobs("m", "training", cold=True)
        self.assertEqual(job.figures(done(JOBS)),
                         {"training_cold/m/8x1024/r16": {"first_step_s": 4.0}})

    def test_what_a_program_says_on_its_error_stream_is_kept(self):
        script = "import sys; print('a'); print('b', file=sys.stderr)"
        self.assertEqual(process.run([sys.executable, "-c", script]).errors, "b\n")


class Plan(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def setup_of(self, build, **more):
        return contenders.Setup(SOURCE, build, self.folder, self.folder, self.folder, 2,
                                models=self.folder, gpu_python=self.folder / "python", **more)

    def test_every_target_against_peers_is_of_works_that_their_script_knows(self):
        known = set().union(*gpu_shapes.WORKS.values())
        self.assertGreater(len(TARGETS), 20)
        for target in TARGETS:
            self.assertTrue(target.must or target.goal, target.title)
            if target.peers is not None:
                self.assertLessEqual(set(target.workloads), known, target.title)

    def test_clora_bench_has_what_the_targets_ask_of_its_kernels(self):
        if not (BUILD / "bench/clora_bench").exists():
            self.skipTest("clora_bench is not built")
        setup, listed = self.setup_of(BUILD), set()
        for group in gpu_groups.kernel_groups():
            ours = group.contenders[0]
            self.assertEqual(ours.name, "clora")
            text = subprocess.run([*ours.command(setup), "--benchmark_list_tests"], text=True,
                                  capture_output=True, check=True,
                                  env=os.environ | ours.environment()).stdout
            rows = [{"name": line, "median_us": 1} for line in text.splitlines()]
            listed |= set(gpu_runs.typed_figures(json.dumps({"benchmarks": rows})))
        if "gemm/bf16/4096x4096x4096" not in listed:
            self.skipTest("the device has no bf16 products")
        for target in TARGETS:
            if target.workloads[0].split("/")[0] not in ("training", "training_cold", "decode"):
                self.assertLessEqual(set(target.workloads), listed, target.title)

    def test_peers_are_absent_with_a_word_where_there_is_no_python_for_them(self):
        peer = gpu_groups.kernel_groups()[0].contenders[1]
        self.assertIn("python is absent", peer.absent(self.setup_of(self.folder)))
        self.assertIn("install_peers torch", peer.install)

    def test_a_cold_start_begins_with_empty_folders(self):
        setup = self.setup_of(self.folder, quick=True)
        command = gpu_runs.jobs("m", "training", cold=True).command(setup)
        folders = [word.split("=")[1] for word in command if str(word).startswith("CUDA_CACHE")]
        self.assertEqual(len(folders), 1)
        self.assertEqual(list(pathlib.Path(folders[0]).iterdir()), [])

    def test_a_measurement_of_another_program_is_refused(self):
        file = self.folder / "m.json"
        file.write_text(json.dumps(measurement([])))
        program.load(plans.GPU, file)
        with self.assertRaisesRegex(SystemExit, "by another program"):
            program.load(plans.CPU, file)

    def test_a_gpu_is_the_same_whatever_its_cpu(self):
        old, new = measurement([]), measurement([])
        new["machine"] = {**new["machine"], "cores": 32}
        combine.require_same_machine(old, new)
        new["machine"]["device"] = {"name": "NVIDIA A100"}
        with self.assertRaisesRegex(combine.OtherMachine, "its device is NVIDIA H200"):
            combine.require_same_machine(old, new)

    def test_a_file_is_named_by_the_gpu(self):
        self.assertEqual(machine.slug(measurement([])["machine"]), "nvidia-h200")


class Tables(unittest.TestCase):
    def made(self, with_peer=True):
        product = "gemm/bf16/4096x4096x4096"
        runs = [run("products", "clora", {product: {"us": 200, "percent_of_roofline": 83}}),
                run("lora", "clora", gpu_runs.typed_figures(BENCH)),
                run("training_0.5b", "clora", gpu_runs.jobs_figures("qwen2.5-0.5b")(JOBS))]
        more = {}
        if with_peer:
            runs.append(run("products", "PyTorch", {product: {"us": 202}}))
        else:
            more["skipped"] = [{"contender": "PyTorch", "why": "gone", "install": "get it"}]
        return gpu_tables.all_tables(measurement(runs, profiles={"training/m": "op  count"}, **more))

    def test_a_kernel_is_listed_with_its_peer_and_its_targets(self):
        self.assertIn("| gemm/bf16/4096x4096x4096 | 200 | 83.0 | 202 | 1.01x (0.98x, goal 1.03x): "
                      "meets must |", self.made()["gpu_products"])

    def test_a_peer_that_is_missing_is_listed_as_such(self):
        table = self.made(with_peer=False)["gpu_products"]
        self.assertIn("| 200 | 83.0 | not measured | (0.98x, goal 1.03x): no peer measured |", table)

    def test_an_adapter_is_asked_twice(self):
        table = self.made()["gpu_lora"]
        self.assertIn("(1x): no peer measured; 1.05 of the product (goal 1.08): meets goal", table)
        self.assertIn("1.04 of the product (1.05, goal 1.02): meets must", table)

    def test_jobs_profiles_and_peaks_are_listed(self):
        made = self.made()
        self.assertIn("| training/qwen2.5-0.5b/8x1024/r16 | 160000 | 9.00 | 4.00 |",
                      made["gpu_training"])
        self.assertIn("training/m, one step:\n\n```\nop  count\n```", made["gpu_profiles"])
        self.assertIn("NVIDIA H200", made["gpu_machine"])
        self.assertIn("800 TFLOP/s of bf16 products", made["gpu_machine"])
        self.assertEqual(made["gpu_attention"], "Not measured.\n")

    def test_the_page_on_performance_has_a_marker_for_every_table_of_each_program(self):
        page = (SOURCE / "docs/performance.md").read_text()
        names = {name for _, name, _, _ in tables.MARKED.findall(page)}
        self.assertEqual({name for name in names if name.startswith("gpu_")}, set(self.made()))

    def test_one_programs_tables_stay_where_the_other_renders(self):
        page = ("<!-- table: gpu_head -->\nold\n<!-- end -->\n"
                "<!-- table: machine -->\nkept\n<!-- end -->\n")
        made = tables.splice(page, self.made(), plans.table_names(plans.GPU))
        self.assertIn("-->\nNot measured.\n<!--", made)
        self.assertIn("-->\nkept\n<!--", made)
        self.assertFalse(plans.table_names(plans.CPU)("gpu_head"))


class RandomModel(unittest.TestCase):
    def test_a_model_has_its_tensors_one_after_the_other_and_no_constant_rows(self):
        with tempfile.TemporaryDirectory() as name:
            folder = random_model.ensure_model(pathlib.Path(name), "tiny")
            data = (folder / "model.safetensors").read_bytes()
            config = json.loads((folder / "config.json").read_text())
        (length,) = struct.unpack_from("<Q", data)
        header = json.loads(data[8:8 + length])
        ends = [0]
        for entry in header.values():
            self.assertEqual(entry["data_offsets"][0], ends[-1])
            ends.append(entry["data_offsets"][1])
        self.assertEqual(8 + length + ends[-1], len(data))
        self.assertEqual(header["model.layers.1.mlp.down_proj.weight"]["shape"], [128, 256])
        self.assertNotIn("lm_head.weight", header)  # tied
        self.assertEqual(config["num_key_value_heads"], 1)
        begin, end = header["model.embed_tokens.weight"]["data_offsets"]
        rows = {data[8 + length + at:8 + length + at + 256] for at in range(begin, end, 256)}
        self.assertEqual(len(rows), 512)
        norm = header["model.norm.weight"]["data_offsets"][0] + 8 + length
        self.assertEqual(data[norm:norm + 2], b"\x80\x3f")

    def test_the_shapes_have_the_sizes_of_their_names(self):
        for name, billions in (("qwen2.5-0.5b", 0.494), ("qwen2.5-7b", 7.616)):
            count = sum(random_model.elements(sizes)
                        for _, sizes in random_model.tensors(random_model.SHAPES[name]))
            self.assertAlmostEqual(count / 1e9, billions, places=2)


def load_gpu_check():
    loader = importlib.machinery.SourceFileLoader("gpu_check", str(SOURCE / "tools/gpu_check"))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader("gpu_check", loader))
    sys.modules["gpu_check"] = module
    loader.exec_module(module)
    return module


class GpuCheck(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def program(self, name, text):
        file = self.folder / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text("#!/bin/sh\n" + text)
        file.chmod(file.stat().st_mode | stat.S_IEXEC)

    def check(self, device, *options):
        line = json.dumps({"devices": [{"name": "A device", "taken": True, **device}]})
        self.program("tools/clora", f"echo '{line}'\n")
        return subprocess.run([sys.executable, SOURCE / "tools/gpu_check", "--build", self.folder,
                               *options], capture_output=True, text=True, check=False)

    def test_every_program_runs_under_every_variant_and_what_failed_is_named(self):
        self.program("tests/zz_good_test", "echo '[  PASSED  ] 1 test.'\n")
        self.program("tests/zz_bad_test", '[ "$CLORA_VARIANT" = mma ] || exit 0\n'
                     "echo '[  FAILED  ] Suite.Name (3 ms)'; exit 1\n")
        done_ = self.check({"kind": "gpu", "matrix_unit": "wgmma"})
        self.assertEqual(done_.returncode, 1, done_.stderr)
        self.assertIn("wgmma: 2 passed, 0 skipped, 0 FAILED", done_.stdout)
        self.assertIn("mma: zz_bad: FAILED", done_.stdout)
        self.assertIn("    Suite.Name\n", done_.stdout)
        self.assertIn("portable: 2 passed", done_.stdout)

    def test_tests_of_ops_run_once_as_they_go_over_the_variants(self):
        self.program("tests/softmax_test", "echo '[  PASSED  ] 1 test.'\n")
        self.program("tests/zz_good_test", "echo '[  PASSED  ] 1 test.'\n")
        done_ = self.check({"kind": "gpu", "matrix_unit": "mma"})
        self.assertEqual(done_.returncode, 0, done_.stdout)
        self.assertIn("mma: 2 passed", done_.stdout)
        self.assertIn("portable: 1 passed", done_.stdout)

    def test_a_skipped_test_says_why(self):
        self.program("tests/zz_cpu_test", "echo 'a.cpp:7: Skipped\nthe device is no CPU\n'\n"
                     "echo '[  PASSED  ] 0 tests.'; echo '[  SKIPPED ] 1 test'\n")
        done_ = self.check({"kind": "gpu", "matrix_unit": "none"})
        self.assertEqual(done_.returncode, 0, done_.stdout)
        self.assertIn("portable: 0 passed, 1 skipped", done_.stdout)
        self.assertIn("zz_cpu: the device is no CPU", done_.stdout)

    def test_a_machine_without_a_gpu_is_refused(self):
        done_ = self.check({"kind": "cpu"})
        self.assertEqual(done_.returncode, 2)
        self.assertIn("no GPU found; the device is 'A device'", done_.stderr)

    def test_a_program_that_dies_is_reported_with_its_last_output(self):
        check = load_gpu_check()
        self.assertEqual(check.telling_lines("a\nb\n", -11), "exit code -11\na\nb")


if __name__ == "__main__":
    unittest.main(verbosity=2)  # with the reasons of skips
