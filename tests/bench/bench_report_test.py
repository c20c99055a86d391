"""Tests tools/bench_report: statistics, verdicts, tables and charts of known numbers.
CLORA_SOURCE_DIR names the repository."""
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest
import xml.etree.ElementTree

SOURCE = pathlib.Path(os.environ.get("CLORA_SOURCE_DIR", pathlib.Path(__file__).parents[2]))
sys.path[:0] = [str(SOURCE / "bench"), str(SOURCE / "bench/peers")]
sys.dont_write_bytecode = True

import peer_lines  # noqa: E402
from report import assess, avx2, charts, combine, figures, tables  # noqa: E402
from report.targets import LORA, TARGETS, Target  # noqa: E402

GEMM = "gemm/64x512x512"


def runs(group="products", **columns):
    """Returns runs of one workload. Keywords are contenders, with their figures by round."""
    made = []
    for contender, values in columns.items():
        for number, value in enumerate(values, 1):
            made.append({"round": number, "group": group, "contender": contender.replace("_", " "),
                         "seconds": 1.0, "figures": {GEMM: {"us": value}}})
    return made


def measurement(made, **more):
    return {"format": 1, "date": "2026-01-02", "rounds": 3, "quick": False,
            "peers": {"torch": "9.9"},
            "machine": {"cpu": "A <CPU>", "family": "25/17", "flags": ["avx2"], "cores": 2,
                        "memory_gib": 24, "kernel": "6.1", "system": "Debian", "commit": "abc",
                        "device": {"platform": "pocl", "driver": "3.1"}},
            "groups": {"products": {"commit": "abc", "date": "2026-01-02", "rounds": 3}},
            "runs": made, "skipped": [], "failed": [], "growth": {}, **more}


class Statistics(unittest.TestCase):
    def test_a_summary_has_median_least_most_and_spread(self):
        summary = figures.summarise([4.0, 1.0, 2.0])
        self.assertEqual(summary, figures.Summary(median=2, least=1, most=4, rounds=3))
        self.assertEqual(summary.spread, 1.5)
        self.assertEqual(figures.summarise([1.0, 2.0]).median, 1.5)

    def test_the_distance_from_a_straight_line_is_of_the_farthest_point(self):
        self.assertAlmostEqual(figures.off_line([(1, 3), (2, 5), (4, 9)]), 0)
        self.assertAlmostEqual(figures.off_line([(0, 0), (1, 3), (2, 0)]), 2 / 3)

    def test_a_ratio_is_of_speed_whatever_the_figure(self):
        self.assertEqual(figures.speed_ratio("us", 50, 100), 2)
        self.assertEqual(figures.speed_ratio("tokens_per_s", 50, 100), 0.5)
        self.assertEqual(figures.speed_ratio("peak_rss_gib", 1, 3), 3)

    def test_numbers_are_written_with_three_digits(self):
        written = [tables.number(value) for value in (0.0521, 1.5, 9.996, 42, 99.96, 211, 1045.4)]
        self.assertEqual(written, ["0.052", "1.50", "10.0", "42.0", "100", "211", "1045"])

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

    def test_what_was_not_measured_is_marked_and_meets_no_target(self):
        self.assertEqual(self.outcome(runs(PyTorch=[150]), must=1.0).verdict, "not measured")
        self.assertEqual(self.outcome(runs(clora=[150]), must=1.0).verdict, "no peer measured")

    def test_the_worst_of_several_works_decides(self):
        made = runs(clora=[100], PyTorch=[150])
        made += [{**run, "figures": {"other": {"us": 100}}} for run in made]
        row = assess.assess(measurement(made), (Target("t", (GEMM, "other", "none"), must=1.2),))[0]
        self.assertEqual((row.work, row.value, row.verdict), ("other", 1.0, "MISSES"))
        self.assertEqual(row.unmeasured, ("none",))

    def test_times_are_added_up_where_works_count_together(self):
        workloads = ("gemm/2048x576x576", "gemm/2048x576x1536")  # counted 2:1 per layer
        made = [{"round": 1, "group": "products", "contender": name, "seconds": 1,
                 "figures": {workloads[0]: {"us": first}, workloads[1]: {"us": second}}}
                for name, first, second in (("clora", 10, 30), ("PyTorch", 20, 10))]
        target = Target("t", workloads, must=1.0, together=True)
        row = assess.assess(measurement(made), (target,))[0]
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
        known |= {"training/4x512/r8", "training/1x128/r8", "decode/16", "decode/512",
                  "prefill/512"}
        self.assertGreater(len(TARGETS), 20)
        for target in TARGETS:
            self.assertTrue(target.must or target.goal, target.title)
            if target.peers is not None:
                self.assertLessEqual(set(target.workloads), known, target.title)


class Combining(unittest.TestCase):
    def test_groups_measured_again_replace_the_same_groups(self):
        old = measurement(runs(clora=[9]) + runs("lora", clora=[5]),
                          failed=[{"group": "products", "contender": "x", "why": "y"}])
        new = measurement(runs(clora=[7]), peers={"mlx": "1"}, groups={
            "products": {"commit": "def", "date": "2026-01-03", "rounds": 3}})
        old["groups"]["lora"] = old["groups"]["products"]
        made = combine.with_groups(old, new)
        self.assertEqual(made["runs"], runs("lora", clora=[5]) + runs(clora=[7]))
        self.assertEqual((made["failed"], made["peers"]), ([], {"torch": "9.9", "mlx": "1"}))
        self.assertIn("clora def of 2026-01-03: products; clora abc of 2026-01-02: lora",
                      tables.machine_words(made))

    def test_figures_of_two_machines_are_not_combined(self):
        old, new = measurement([]), measurement([])
        old["machine"]["cores"] = 4
        with self.assertRaisesRegex(combine.OtherMachine, "cores is 4, this one's 2"):
            combine.with_groups(old, new)


def sample():
    """Returns a small measurement with figures for every table."""
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


class EarlierNames(unittest.TestCase):
    def test_a_measurement_of_an_earlier_version_has_the_current_names(self):
        old = measurement(runs(clora=[1.0]))
        old["machine"]["device"] = {"name": "a GPU", "ceilings": {"launch_seconds": 3e-6}}
        old["runs"][0]["figures"] = {"adapter/1": {"us": 2, "percent_of_ceiling": 70,
                                                   "of_composed": 0.5}}
        found = figures.with_current_names(old)
        self.assertEqual(found["machine"]["device"],
                         {"name": "a GPU", "peaks": {"launch_seconds": 3e-6}})
        self.assertEqual(found["runs"][0]["figures"]["adapter/1"],
                         {"us": 2, "percent_of_roofline": 70, "of_unfused": 0.5})
        self.assertEqual(figures.with_current_names(found), found)


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

    def test_the_page_on_performance_has_a_marker_for_every_table(self):
        page = (SOURCE / "docs/performance.md").read_text()
        made = tables.all_tables(sample())
        asked = {name for _, name, _, _ in tables.MARKED.findall(page)}
        others = ("gpu_", "avx2_")  # gpu_bench_test.py checks those of a GPU
        ours = {name for name in asked if not name.startswith(others)}
        self.assertEqual(ours, set(made))
        self.assertEqual({name for name in asked if name.startswith("avx2_")},
                         set(avx2.all_tables(sample())))
        tables.splice(page, made, lambda name: name in ours)

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
            links = re.findall(r"https?://[^\"'<> ]+", svg)
            self.assertEqual(links, ["http://www.w3.org/2000/svg"])
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
        found = re.findall(r'x="215" y="[0-9.]+" width="([0-9.]+)"', svg)
        widths = [float(width) for width in found]
        self.assertEqual(len(widths), 4)
        self.assertEqual(widths, sorted(widths, reverse=True))
        self.assertLess(svg.index("clora auto"), svg.index("PyTorch eager<"))


if __name__ == "__main__":
    unittest.main()
