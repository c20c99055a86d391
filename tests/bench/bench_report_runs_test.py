"""Tests tools/bench_report: the contenders, the course of a round, and the parsing of programs'
outputs. Nothing is measured. CLORA_SOURCE_DIR and CLORA_BINARY_DIR name the repository and the
build."""
import json
import os
import pathlib
import struct
import subprocess
import sys
import tempfile
import unittest

SOURCE = pathlib.Path(os.environ.get("CLORA_SOURCE_DIR", pathlib.Path(__file__).parents[2]))
sys.path.insert(0, str(SOURCE / "bench"))
sys.dont_write_bytecode = True

from report import clora_bench, contenders, groups, machine, own_runs, process  # noqa: E402
from report import plans, rounds, shallow_gguf, tables  # noqa: E402
from report.targets import TARGETS  # noqa: E402

GEMM = "gemm/64x512x512"
BENCH = json.dumps({"benchmarks": [
    {"name": "gemm/fused/f32/64x512x512/manual_time", "median_us": 10, "gflops": 3},
    {"name": "gemm/fused/f32/64x512x512/bf16/manual_time", "median_us": 5},
    {"name": "gemm/library/f32/64x512x512/eigen/warm/manual_time", "median_us": 20},
    {"name": "lora_linear/fused/f32/64x512x512/r8/manual_time", "median_us": 12},
    {"name": "lora_linear/fused/f32/64x512x512/r8/warm/manual_time", "median_us": 11},
    {"name": "lora_linear/unfused/f32/64x512x512/r8/manual_time", "median_us": 18},
    {"name": "lora_linear/unfused/f32/64x512x512/r8/manual_time", "median_us": 90},
    {"name": "lora_linear/unfused/f32/64x512x512/r8/manual_time", "median_us": 17},
    {"name": "lora_linear/unfused/f32/64x512x512/r8/manual_time_mean", "median_us": 42,
     "run_type": "aggregate"},
    {"name": "softmax/fused/f32/1x2/manual_time", "error_occurred": True, "error_message": "wrong"},
    {"name": "training/fused/q4_1/4x512/r8/iterations:1/manual_time", "tokens_per_s": 300,
     "median_us": 7, "peak_mib": 2048},
    {"name": "generation/fused/q4_1/512x128/manual_time", "prompt_tokens_per_s": 800,
     "decode_tokens_per_s": 90},
    {"name": "launch/bare/iterations:1/manual_time", "median_us": 1}]})


class CloraBench(unittest.TestCase):
    def test_fused_rows_become_works_and_warm_ones_are_compared(self):
        found = clora_bench.own_figures(BENCH, bf16=False)
        self.assertEqual(found[GEMM], {"us": 10, "gflops": 3})
        self.assertEqual(found["lora_linear/64x512x512/r8"], {"us": 11})
        self.assertEqual(found["lora_linear/64x512x512/r8/cold"], {"us": 12})
        self.assertEqual(found["training/4x512/r8"],
                         {"us": 7, "tokens_per_s": 300, "peak_pool_gib": 2})
        self.assertEqual(found["decode/512"], {"tokens_per_s": 90})
        self.assertEqual(clora_bench.own_figures(BENCH, bf16=True), {GEMM: {"us": 5}})

    def test_a_row_whose_result_is_wrong_has_no_figure(self):
        self.assertNotIn("softmax/1x2", clora_bench.own_figures(BENCH, bf16=False))
        self.assertEqual(clora_bench.errors(BENCH), ["softmax/fused/f32/1x2/manual_time: wrong"])

    def test_libraries_and_the_adapters_share_are_distinguished(self):
        self.assertEqual(clora_bench.library_figures(BENCH, "eigen"), {GEMM: {"us": 20}})
        self.assertEqual(clora_bench.adapter_figures(BENCH),
                         {"adapter/64x512x512/r8": {"added_percent": 20, "of_unfused": 0.25}})

    def test_the_form_that_earlier_versions_wrote_is_read(self):
        earlier = BENCH.replace("/unfused/", "/composed/")
        self.assertNotEqual(earlier, BENCH)
        self.assertEqual(clora_bench.adapter_figures(earlier), clora_bench.adapter_figures(BENCH))


class Contenders(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.setup = contenders.Setup(SOURCE, self.folder, self.folder / "model.gguf",
                                      self.folder / "peers", self.folder, 2)
        self.said = []

    def session(self, *taking_part):
        group = groups.Group("g", "G", taking_part)
        return rounds.Session(self.setup, [group], 2, self.said.append, seed=1)

    def printing(self, name, us):
        line = json.dumps({"peer": name, "version": "1", "work": GEMM, "us": us, "us_least": us})
        return contenders.Contender(name, lambda setup: [sys.executable, "-c", f"print('{line}')"],
                                    contenders.peer_figures)

    def test_a_peer_that_is_absent_is_skipped_with_a_word_and_the_command_that_installs_it(self):
        made = self.session(*contenders.mlx_ops("x"), self.printing("here", 7)).run(lambda m: None)
        self.assertEqual([item["contender"] for item in made["skipped"]], ["MLX", "MLX + OpenBLAS"])
        self.assertRegex(self.said[0], "^skipped: MLX: .* is absent; to install it: "
                         "tools/setup/install_peers mlx$")
        self.assertIn("tools/setup/install_peers mlx", tables.machine_words(made))
        self.assertEqual({run["contender"] for run in made["runs"]}, {"here"})

    def test_every_contender_has_one_run_a_round(self):
        kept = []
        made = self.session(self.printing("a", 7), self.printing("b", 8)).run(
            lambda so_far: kept.append(len(so_far["runs"])))
        self.assertEqual([run["round"] for run in made["runs"]], [1, 1, 2, 2])
        self.assertEqual({run["contender"] for run in made["runs"][:2]}, {"a", "b"})
        self.assertEqual(kept, [2, 4])
        self.assertEqual(made["runs"][0]["figures"][GEMM], {"us": 7 if
                         made["runs"][0]["contender"] == "a" else 8})

    def test_a_plan_without_avx512_hides_it_from_each_program_by_its_own_means(self):
        def told(name, *variables):
            words = f"import os; print(*(os.environ.get(v) for v in {variables}))"
            return contenders.Contender(name, lambda setup: [sys.executable, "-c", words],
                                        lambda done: {"told": done.text.split()})
        group = groups.Group("g", "G", (told("clora", "LD_PRELOAD", "ONEDNN_MAX_CPU_ISA"),
                                        told("PyTorch eager", "LD_PRELOAD", "ONEDNN_MAX_CPU_ISA")))
        made = rounds.Session(self.setup, [group], 1, self.said.append, seed=1,
                              plan=plans.AVX2).run(lambda m: None)
        found = {run["contender"]: run["figures"]["told"] for run in made["runs"]}
        self.assertRegex(found["clora"][0], "libclora_cpu_without_avx512.so$")
        self.assertEqual(found["PyTorch eager"], ["None", "AVX2"])
        self.assertLessEqual(set(made["machine"]["flags"]), {"avx2", "fma"})
        self.assertEqual(made["plan"], "avx2")

    def test_a_plans_tables_are_spliced_by_that_plan_alone(self):
        for plan in plans.ALL:
            own = plans.table_names(plan)
            self.assertEqual([own("targets"), own("gpu_targets"), own("avx2_targets")],
                             [plan is plans.CPU, plan is plans.GPU, plan is plans.AVX2])

    def test_one_that_fails_is_reported_and_not_tried_again(self):
        bad = contenders.Contender("bad", lambda setup: ["sh", "-c", "echo no memory >&2; exit 3"],
                                   contenders.peer_figures)
        made = self.session(bad).run(lambda m: None)
        self.assertEqual(made["failed"], [{"group": "g", "contender": "bad",
                                           "why": "exit code 3: no memory"}])

    def test_a_library_that_clora_bench_was_built_without_is_skipped_with_a_word(self):
        none = contenders.Contender("lib", lambda setup: ["true"], lambda done: {}, install="get lib")
        made = self.session(none).run(lambda m: None)
        self.assertEqual(made["skipped"], [{"contender": "lib", "install": "get lib",
                                            "why": "it has none of the workloads of g"}])

    def test_a_program_that_hangs_is_ended(self):
        with self.assertRaisesRegex(process.Failed, "longer than 0.2 s"):
            process.run(["sleep", "60"], seconds=0.2)

    def test_the_groups_name_files_that_there_are(self):
        for group in groups.all_groups():
            self.assertIn(group.name, tables.GROUPS)
            for contender in group.contenders:
                command = [str(word) for word in contender.command(self.setup)]
                scripts = [word for word in command if "/bench/peers/" in word]
                self.assertTrue(all(pathlib.Path(word).exists() for word in scripts), command)
                self.assertTrue(contender.install, contender.name)

    def test_clora_bench_has_what_the_targets_ask_of_clora(self):
        build = pathlib.Path(os.environ.get("CLORA_BINARY_DIR", SOURCE / "build/release"))
        if not (build / "bench/clora_bench").exists():
            self.skipTest("clora_bench is not built")
        setup = contenders.Setup(SOURCE, build, self.folder, self.folder, self.folder, 2)
        listed = set()
        for group in groups.all_groups():
            for contender in group.contenders:
                command = contender.command(setup)
                if command[0] == setup.bench and contender.name == "clora":
                    listed |= self.listed_works(command)
        for target in TARGETS:
            if target.peers is not None:
                self.assertLessEqual(set(target.workloads), listed, target.title)

    def listed_works(self, command):
        """Returns the workloads of the fused rows that a command of clora_bench would run."""
        done = subprocess.run([*command, "--benchmark_list_tests"], capture_output=True, text=True,
                              check=True)
        rows = [{"name": line, "median_us": 1, "prompt_tokens_per_s": 1, "decode_tokens_per_s": 1}
                for line in done.stdout.splitlines()]
        self.assertTrue(rows, f"nothing matches {command[1]}")
        return set(clora_bench.own_figures(json.dumps({"benchmarks": rows}), bf16=False))

    def test_a_training_is_timed_from_its_events(self):
        events = [{"event": "start"}] + [{"event": "step", "tokens": 511, "peak_bytes": 2**30}] * 3
        lines = list(zip((1.0, 5.0, 7.0, 8.0), map(json.dumps, events)))
        found = own_runs.training_figures(process.Done(lines, 1.0, 9.0, 1.5), batch=1)
        self.assertEqual(found, {"first_step_s": 5.0, "peak_rss_gib": 1.5, "peak_pool_gib": 1.0,
                                 "step_s": 1.5})
        with self.assertRaises(ValueError):
            own_runs.training_figures(process.Done(lines, 1.0, 9.0, 1.5), batch=4)


class Machine(unittest.TestCase):
    def test_the_cpu_and_its_relevant_flags_are_read(self):
        text = ("model name\t: AMD EPYC\ncpu family\t: 25\nmodel\t\t: 17\n"
                "flags\t: fpu avx2 amx_bf16\n")
        facts = machine.cpu_facts(text + "\n" + text)
        self.assertEqual(facts, {"cpu": "AMD EPYC", "family": "25/17",
                                 "flags": ["avx2", "amx_bf16"]})
        self.assertEqual(machine.slug({**facts, "cores": 2}), "amd-epyc-25-17-2-cores")


def small_gguf(blocks):
    """A GGUF file with a string, an array and block_count, and one tensor outside of the blocks."""
    def string(text):
        return struct.pack("<Q", len(text)) + text.encode()
    pairs = (string("general.name") + struct.pack("<I", 8) + string("n") +
             string("tokens") + struct.pack("<IIQ", 9, 8, 2) + string("a") + string("bc") +
             string("x.block_count") + struct.pack("<II", 4, blocks))
    names = [f"blk.{i}.w" for i in range(blocks)] + ["out.w"]
    infos = b"".join(string(name) + struct.pack("<IQIQ", 1, 8, 0, 32 * i)
                     for i, name in enumerate(names))
    head = struct.pack("<IIQQ", 0x46554747, 3, len(names), 3) + pairs + infos
    data = b"".join(bytes([65 + i]) * 32 for i in range(len(names)))
    return head.ljust(-(-len(head) // 32) * 32, b"\0") + data


class ShallowGguf(unittest.TestCase):
    def test_the_first_blocks_and_what_is_outside_stay(self):
        made = shallow_gguf.first_blocks(small_gguf(12), 2)
        _, count, keys, tensors, end = shallow_gguf.read_header(made)
        self.assertEqual((count, set(keys)), (3, {"general.name", "tokens", "x.block_count"}))
        self.assertEqual(shallow_gguf.block_count(made), 2)
        self.assertEqual([(name, offset) for name, _, offset in tensors],
                         [("blk.0.w", 0), ("blk.1.w", 32), ("out.w", 64)])
        self.assertEqual(made[-96:], b"A" * 32 + b"B" * 32 + b"M" * 32)

    def test_another_file_is_refused(self):
        with self.assertRaises(ValueError):
            shallow_gguf.first_blocks(b"not a GGUF file, but long enough", 1)


if __name__ == "__main__":
    unittest.main(verbosity=2)  # with the reasons of skips
