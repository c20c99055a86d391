"""tools/bench_report and what it is made of, on known numbers: nothing is measured.
CLORA_SOURCE_DIR names the repository."""
import json
import os
import pathlib
import re
import struct
import subprocess
import sys
import tempfile
import unittest
import xml.etree.ElementTree

SOURCE = pathlib.Path(os.environ.get("CLORA_SOURCE_DIR", pathlib.Path(__file__).parent.parent))
sys.path[:0] = [str(SOURCE / "bench"), str(SOURCE / "bench/peers")]
sys.dont_write_bytecode = True

import peer_lines  # noqa: E402
from report import assess, charts, clora_bench, contenders, figures, machine, process  # noqa: E402
from report import groups, own_runs, rounds, shallow_gguf, tables  # noqa: E402
from report.targets import LORA, TARGETS, Target  # noqa: E402

GEMM = "gemm/64x512x512"


def runs(group="products", **columns):
    """Runs of one work: contender="name", figures by round."""
    made = []
    for contender, values in columns.items():
        for number, value in enumerate(values, 1):
            made.append({"round": number, "group": group, "contender": contender.replace("_", " "),
                         "seconds": 1.0, "figures": {GEMM: {"us": value}}})
    return made


def measurement(made, **more):
    return {"format": 1, "date": "2026-01-02", "rounds": 3, "quick": False, "peers": {"torch": "9.9"},
            "machine": {"cpu": "A <CPU>", "family": "25/17", "flags": ["avx2"], "cores": 2,
                        "memory_gib": 24, "kernel": "6.1", "system": "Debian", "commit": "abc",
                        "device": {"platform": "pocl", "driver": "3.1"}},
            "runs": made, "skipped": [], "failed": [], "growth": {}, **more}


class Statistics(unittest.TestCase):
    def test_a_summary_has_median_least_most_and_spread(self):
        summary = figures.summarise([4.0, 1.0, 2.0])
        self.assertEqual((summary.median, summary.least, summary.most, summary.rounds), (2, 1, 4, 3))
        self.assertEqual(summary.spread, 1.5)
        self.assertEqual(figures.summarise([1.0, 2.0]).median, 1.5)

    def test_a_ratio_is_of_speed_whatever_the_figure(self):
        self.assertEqual(figures.speed_ratio("us", 50, 100), 2)
        self.assertEqual(figures.speed_ratio("tokens_per_s", 50, 100), 0.5)
        self.assertEqual(figures.speed_ratio("peak_rss_gib", 1, 3), 3)

    def test_a_verdict_is_goal_must_or_miss(self):
        self.assertEqual(figures.verdict(1.5, 1.0, 1.5), "meets goal")
        self.assertEqual(figures.verdict(1.49, 1.0, 1.5), "meets must")
        self.assertEqual(figures.verdict(0.99, 1.0, 1.5), "MISSES")
        self.assertEqual(figures.verdict(9, 20, 5, larger=False), "meets must")
        self.assertEqual(figures.verdict(21, 20, 5, larger=False), "MISSES")
        self.assertEqual(figures.verdict(0.5, None, 1.0), "below goal")

    def test_the_best_peer_is_the_best_median_and_never_clora(self):
        found = figures.summaries(measurement(runs(clora=[1, 1], clora_auto=[1, 1], A=[5, 9],
                                                   B=[6, 6])))[GEMM]
        name, summary = figures.best_peer(found, "us")
        self.assertEqual((name, summary.median), ("B", 6))


class Targets(unittest.TestCase):
    def outcome(self, made, **target):
        whole = measurement(made, **target.pop("more", {}))
        return assess.assess(whole, (Target("t", (GEMM,), **target),))[0]

    def test_ours_is_compared_with_the_best_allowed_peer_of_the_same_work(self):
        made = runs(clora=[100, 90, 110], PyTorch=[150, 160, 140], MLX=[50, 50, 50])
        row = self.outcome(made, peers="PyTorch", must=1.0, goal=1.6)
        self.assertEqual((row.peer_name, row.value, row.verdict), ("PyTorch", 1.5, "meets must"))
        self.assertEqual(self.outcome(made, must=1.0).verdict, "MISSES")

    def test_f32_is_not_compared_with_bf16_and_auto_with_the_best_of_both(self):
        made = runs(clora=[100], clora_auto=[40], PyTorch=[150], PyTorch_bf16=[60])
        self.assertEqual(self.outcome(made, must=1.0).value, 1.5)
        self.assertEqual(self.outcome(made, must=1.0, precision="auto").value, 1.5)
        self.assertEqual(self.outcome(made, precision="auto").peer_name, "PyTorch bf16")

    def test_auto_is_f32_where_there_is_no_matrix_unit(self):
        row = self.outcome(runs(clora=[100], PyTorch=[150]), precision="auto", must=1.0)
        self.assertEqual(row.value, 1.5)

    def test_what_was_not_measured_says_so_and_meets_nothing(self):
        self.assertEqual(self.outcome(runs(PyTorch=[150]), must=1.0).verdict, "not measured")
        self.assertEqual(self.outcome(runs(clora=[150]), must=1.0).verdict, "no peer measured")

    def test_the_worst_of_several_works_decides(self):
        made = runs(clora=[100], PyTorch=[150])
        made += [{**run, "figures": {"other": {"us": 100}}} for run in made]
        row = assess.assess(measurement(made), (Target("t", (GEMM, "other", "none"), must=1.2),))[0]
        self.assertEqual((row.work, row.value, row.verdict), ("other", 1.0, "MISSES"))
        self.assertEqual(row.unmeasured, ("none",))

    def test_times_are_added_up_where_works_count_together(self):
        works = ("gemm/2048x576x576", "gemm/2048x576x1536")  # a layer has two of one, one of the other
        made = [{"round": 1, "group": "products", "contender": name, "seconds": 1,
                 "figures": {works[0]: {"us": first}, works[1]: {"us": second}}}
                for name, first, second in (("clora", 10, 30), ("PyTorch", 20, 10))]
        row = assess.assess(measurement(made), (Target("t", works, must=1.0, together=True),))[0]
        self.assertEqual((row.ours.median, row.peer.median, row.verdict), (50, 50, "meets must"))

    def test_an_absolute_target_has_its_own_unit(self):
        made = [{**run, "figures": {GEMM: {"seconds": 70}}} for run in runs(clora=[0])]
        row = self.outcome(made, figure="seconds", peers=None, must=120, goal=60)
        self.assertEqual((row.value, row.verdict), (70, "meets must"))

    def test_a_must_may_depend_on_the_cpu(self):
        target = Target("t", (GEMM,), must=1.0, must_with=(("amx_bf16", 0.85),))
        self.assertEqual(target.must_on(["avx2"]), 1.0)
        self.assertEqual(target.must_on(["avx2", "amx_bf16"]), 0.85)

    def test_every_target_against_peers_is_of_works_that_their_scripts_know(self):
        known = {f"gemm/{m}x{n}x{k}" for m, n, k in peer_lines.PRODUCTS}
        known |= {peer_lines.lora_name("lora_linear", *shape) for shape in peer_lines.LORA_SHAPES}
        known |= {peer_lines.lora_name("lora_linear_step", *peer_lines.LORA_STEP_SHAPE)}
        known |= {f"{op}/{rows}x{width}" for op in peer_lines.ROW_OPS
                  for rows, width in peer_lines.ROW_SHAPES}
        known |= {"training/4x512/r8", "training/1x128/r8", "decode/16", "decode/512", "prefill/512"}
        self.assertGreater(len(TARGETS), 20)
        for target in TARGETS:
            self.assertTrue(target.must or target.goal, target.title)
            if target.peers is not None:
                self.assertLessEqual(set(target.works), known, target.title)


BENCH = json.dumps({"benchmarks": [
    {"name": "gemm/fused/f32/64x512x512/manual_time", "median_us": 10, "gflops": 3},
    {"name": "gemm/fused/f32/64x512x512/bf16/manual_time", "median_us": 5},
    {"name": "gemm/library/f32/64x512x512/eigen/warm/manual_time", "median_us": 20},
    {"name": "lora_linear/fused/f32/64x512x512/r8/manual_time", "median_us": 12},
    {"name": "lora_linear/fused/f32/64x512x512/r8/warm/manual_time", "median_us": 11},
    {"name": "lora_linear/composed/f32/64x512x512/r8/manual_time", "median_us": 18},
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

    def test_libraries_and_the_adapters_share_are_told_apart(self):
        self.assertEqual(clora_bench.library_figures(BENCH, "eigen"), {GEMM: {"us": 20}})
        self.assertEqual(clora_bench.adapter_figures(BENCH),
                         {"adapter/64x512x512/r8": {"added_percent": 20, "of_composed": 0.25}})


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
        self.assertRegex(self.said[0], "^skipped: MLX: .* is not there; to have it: "
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

    def test_one_that_fails_is_told_and_not_tried_again(self):
        bad = contenders.Contender("bad", lambda setup: ["sh", "-c", "echo no memory >&2; exit 3"],
                                   contenders.peer_figures)
        made = self.session(bad).run(lambda m: None)
        self.assertEqual(made["failed"], [{"group": "g", "contender": "bad",
                                           "why": "exit code 3: no memory"}])

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
                self.assertLessEqual(set(target.works), listed, target.title)

    def listed_works(self, command):
        """The works of the fused rows that a command of clora_bench would run."""
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


def sample():
    """A small measurement with something for every table."""
    made = runs(clora=[100, 90, 110], clora_auto=[50, 51, 52], PyTorch_eager=[150, 160, 140],
                PyTorch_eager_bf16=[70, 71, 72])
    for contender, value in (("clora", 300), ("PEFT & co", 200)):
        made.append({"round": 1, "group": "training", "contender": contender, "seconds": 1,
                     "figures": {"training/4x512/r8": {"tokens_per_s": value, "peak_rss_gib": 2.0,
                                                       "first_step_s": 5.0}}})
    growth = {"tokens": [{"x": x, "step_s": x / 500, "peak_rss_gib": 1.0, "peak_pool_gib": 0.5}
                         for x in (512, 1024)]}
    return measurement(made, growth=growth,
                       skipped=[{"contender": "MLX", "why": "gone", "install": "get mlx"}])


DOCUMENT = """# Speed
<!-- table: machine -->
stale words
<!-- end -->
Words between.
<!-- table: targets -->
<!-- end -->
<!-- table: products -->
<!-- end -->
<!-- table: growth -->
<!-- end -->
"""


class Rendering(unittest.TestCase):
    def render(self, text=DOCUMENT):
        with tempfile.TemporaryDirectory() as name:
            folder = pathlib.Path(name)
            (folder / "measurements").mkdir()
            file, page = folder / "measurements/day.json", folder / "performance.md"
            file.write_text(json.dumps(sample()))
            page.write_text(text)
            done = subprocess.run([sys.executable, SOURCE / "tools/bench_report", "--render", file,
                                   "--document", page], capture_output=True, text=True, check=False)
            charts_made = {path.name: path.read_text() for path in file.parent.glob("*.svg")}
            return done, page.read_text(), charts_made

    def test_a_measurement_is_rendered_between_the_markers(self):
        done, page, drawn = self.render()
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertNotIn("stale words", page)
        self.assertIn("Words between.", page)
        self.assertIn("clora abc; torch 9.9", page)
        self.assertIn(f"| {GEMM} | clora auto | 51.0 (50.0 to 52.0) |", page)
        self.assertIn("![products](measurements/day-products.svg)", page)
        self.assertIn("| training, 4 x 512, f32 |  | 300 tokens/s | 200 PEFT & co | 1.50x | 1.1x | "
                      "1.5x | meets goal |", page)
        self.assertIn("not measured", page)
        self.assertEqual(set(drawn), {"day-products.svg", "day-training.svg", "day-growth.svg"})

    def test_the_page_on_performance_asks_for_every_table(self):
        page = (SOURCE / "docs/performance.md").read_text()
        made = tables.all_tables(sample())
        self.assertEqual({name for _, name, _, _ in tables.MARKED.findall(page)}, set(made))
        tables.splice(page, made)

    def test_rendering_again_changes_nothing(self):
        _, once, _ = self.render()
        _, twice, _ = self.render(once)
        self.assertEqual(once, twice)

    def test_a_miss_is_printed_in_capitals(self):
        made = runs(clora=[100], PyTorch_eager=[50])
        for run in made:
            run["figures"] = {LORA[0]: run["figures"][GEMM]}
        self.assertIn("**MISSES** (6 of 7 not measured)", tables.targets_table(measurement(made)))

    def test_an_unknown_table_and_a_marker_without_end_are_errors(self):
        for text in ("<!-- table: nothing -->\n<!-- end -->\n", "<!-- table: targets -->\n"):
            with self.assertRaises((KeyError, ValueError)):
                tables.splice(text, tables.all_tables(sample()))

    def test_the_charts_are_well_formed_and_load_nothing(self):
        drawn = charts.all_charts(sample(), {"products": "A <title> & more", "training": "T"})
        self.assertEqual(set(drawn), {"products", "training", "growth"})
        for svg in drawn.values():
            root = xml.etree.ElementTree.fromstring(svg)
            self.assertEqual(root.tag, "{http://www.w3.org/2000/svg}svg")
            self.assertIn("prefers-color-scheme: dark", svg)
            self.assertEqual(re.findall(r"https?://[^\"'<> ]+", svg), ["http://www.w3.org/2000/svg"])
            for word in ("<script", "href", "url(", "@import", "<image"):
                self.assertNotIn(word, svg)

    def test_of_many_works_a_chart_shows_the_best_form_of_each_peer(self):
        found = tables.of_group(measurement(runs(clora=[9], clora_auto=[8], PyTorch_eager=[7],
                                                 PyTorch_frozen=[6], PyTorch_frozen_bf16=[5])),
                                "products")[GEMM]
        names = [name for name, _ in charts.fastest_first(found, "us", best_of_family=True)]
        self.assertEqual(names, ["PyTorch frozen bf16", "PyTorch frozen", "clora auto", "clora"])

    def test_longer_bars_are_faster(self):
        svg = charts.bars("t", tables.of_group(sample(), "products"),
                          "us")
        widths = [float(width) for width in re.findall(r'x="190" y="[0-9.]+" width="([0-9.]+)"', svg)]
        self.assertEqual(len(widths), 4)
        self.assertEqual(widths, sorted(widths, reverse=True))
        self.assertLess(svg.index("clora auto"), svg.index("PyTorch eager<"))


class Machine(unittest.TestCase):
    def test_the_cpu_and_its_telling_flags_are_read(self):
        text = "model name\t: AMD EPYC\ncpu family\t: 25\nmodel\t\t: 17\nflags\t: fpu avx2 amx_bf16\n"
        facts = machine.cpu_facts(text + "\n" + text)
        self.assertEqual(facts, {"cpu": "AMD EPYC", "family": "25/17", "flags": ["avx2", "amx_bf16"]})
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
    unittest.main()
