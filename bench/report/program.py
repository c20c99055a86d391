"""The program of a plan (plans.py): measures, stores the measurement, and renders the documents
from it. tools/bench_report and tools/gpu_bench document the options."""

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

from report import assess, charts, combine, contenders, figures, gpu_runs, growth, machine
from report import own_runs, packed, plans, rounds, tables

ROOT = Path(__file__).resolve().parent.parent.parent
BUILD = ROOT / "build/release"


def say(words):
    print(words, file=sys.stderr, flush=True)


def parse_arguments(plan, words):
    parser = argparse.ArgumentParser(description=words,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    names = [group.name for group in plan.groups()] + ["growth"] * plan.has_growth
    parser.add_argument("--rounds", type=int,
                        help=f"default {plan.rounds}; {plan.quick_rounds} in a quick run")
    parser.add_argument("--only", type=re.compile, default=re.compile(""), metavar="REGEX",
                        help="measure only groups whose names match: " + ", ".join(names))
    parser.add_argument("--quick", action="store_true",
                        help="tiny runs, to check that everything works")
    parser.add_argument("--build", type=Path, help="folder where clora and clora_bench are built" +
                        ("; builds nothing" if plan is plans.GPU else ""))
    parser.add_argument("--out", type=Path, metavar="FILE", help="file to write the measurement to")
    parser.add_argument("--add-to", type=Path, metavar="FILE",
                        help="earlier measurement to update; its other groups are kept")
    parser.add_argument("--render", type=Path, metavar="FILE",
                        help="render this measurement without measuring")
    parser.add_argument("--document", type=Path, default=ROOT / "docs/performance.md",
                        help="document whose marked tables are updated")
    parser.add_argument("--strict", action="store_true",
                        help="exit with code 1 if a required target is missed")
    parser.add_argument("--model", type=Path, default=own_runs.model_file(os.environ))
    parser.add_argument("--peers", type=Path, default=contenders.default_peers_folder(),
                        help="default $CLORA_PEERS, else ~/.cache/clora/peers")
    if plan is plans.GPU:
        gpu_runs.add_options(parser, plan)
    else:
        parser.add_argument("--without-avx512", action="store_true",
                            help="measure as on a CPU with AVX2 only")
    return parser.parse_args()


def partial(options):
    return options.quick or bool(options.only.pattern)


def load(plan, file):
    measurement = json.loads(file.read_text(encoding="utf-8"))
    if measurement.get("format") != rounds.FORMAT:
        sys.exit(f"{file} is not a measurement of this format")
    if measurement.get("plan", plans.CPU.name) != plan.name:
        sys.exit(f"{file} was written by another program: its plan is {measurement.get('plan')}")
    return figures.with_current_names(measurement)


def out_file(plan, options, measurement):
    if options.out or options.add_to:
        return options.out or options.add_to
    if partial(options):
        return ROOT / "out" / ("gpu_bench.json" if plan is plans.GPU else "bench_report.json")
    suffix = "-avx2" if plan is plans.AVX2 else ""
    name = f"{measurement['date']}-{machine.slug(measurement['machine'])}{suffix}.json"
    return ROOT / "docs/measurements" / name


def write(file, text):
    file.parent.mkdir(parents=True, exist_ok=True)
    part = file.with_name(file.name + ".part")
    part.write_text(text, encoding="utf-8")
    part.replace(file)


def add_growth(session):
    session.note("growth")
    found, failed = growth.measure(session.setup, say)
    session.measurement["growth"] = found
    session.measurement["failed"] += failed


def make_setup(plan, options, scratch):
    setup = contenders.Setup(ROOT, (options.build or BUILD).resolve(), options.model,
                             options.peers.expanduser(), Path(scratch),
                             len(os.sched_getaffinity(0)), options.quick)
    return gpu_runs.with_options(setup, options) if plan is plans.GPU else setup


def measure(plan, options, keep):
    with tempfile.TemporaryDirectory(prefix="clora-report-") as scratch:
        setup = make_setup(plan, options, scratch)
        chosen = [group for group in plan.groups() if options.only.search(group.name)
                  and not (options.quick and group.slow)]
        count = options.rounds or (plan.quick_rounds if options.quick else plan.rounds)
        session = rounds.Session(setup, chosen, count, say, plan=plan)
        session.run(keep)
        if (plan.has_growth and options.only.search("growth") and setup.clora.exists()
                and setup.model.exists()):
            add_growth(session)
            keep(session.measurement)
    return session.measurement


def build(options):
    """Builds clora and clora_bench for a GPU plan, unless --build names a folder."""
    for command in (["cmake", "--preset", "release"],
                    ["cmake", "--build", "--preset", "release", "--target", "clora",
                     "clora_bench"]):
        say("build: " + " ".join(command))
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            sys.exit(f"{done.stdout[-3000:]}{done.stderr[-3000:]}\nthe build failed; --build FOLDER "
                     "uses an existing build")


def measure_into_file(plan, options):
    """(the file, its contents)."""
    if plan is plans.GPU:
        os.environ["CLORA_DEVICE"] = options.device
        if not options.build:
            build(options)
    packed.use((options.build or BUILD).resolve())
    earlier = load(plan, options.add_to) if options.add_to else None
    if earlier:
        folder = (options.build or BUILD).resolve()
        this = {"machine": rounds.described(plan, make_setup(plan, options, folder))}
        try:
            combine.require_same_machine(earlier, this)
        except combine.OtherMachine as error:
            sys.exit(f"{options.add_to}: {error}")

    def combined(measurement):
        return combine.with_groups(earlier, measurement) if earlier else measurement

    def keep(measurement):
        whole = combined(measurement)
        write(out_file(plan, options, whole), json.dumps(whole, indent=1) + "\n")
        return whole

    measurement = keep(measure(plan, options, keep))
    return out_file(plan, options, measurement), measurement


def link_charts(made, drawn, file, document):
    """The tables, each with its chart below it."""
    folder = os.path.relpath(file.parent, document.parent)
    for name in drawn:
        made[name] += f"\n![{name}]({folder}/{file.stem}-{name}.svg)\n"
    return made


def render(plan, file, measurement, document):
    drawn = {}
    if plan.has_charts:
        titles = {group.name: group.title for group in plan.groups()}
        drawn = charts.all_charts(measurement, titles)
    for name, svg in drawn.items():
        write(file.with_name(f"{file.stem}-{name}.svg"), svg)
    made = link_charts(plan.tables(measurement), drawn, file, document)
    write(document, tables.splice(document.read_text(encoding="utf-8"), made,
                                  plans.table_names(plan)))
    say(f"written: {document}, and {len(drawn)} charts next to {file}")


def run(plan, options):
    if options.render:
        file, measurement = options.render, load(plan, options.render)
    else:
        file, measurement = measure_into_file(plan, options)
        say(f"written: {file}")
    if options.render or options.add_to or not partial(options):
        render(plan, file.resolve(), measurement, options.document.resolve())
    print(tables.machine_words(measurement))
    print(tables.targets_table(measurement, plan.targets), end="")
    missed = [row for row in assess.assess(measurement, plan.targets) if row.verdict == "MISSES"]
    return 1 if measurement["failed"] and not options.render or options.strict and missed else 0


def main(plan, name, words):
    """The exit code, or a message."""
    try:
        return run(plan, parse_arguments(plan, words))
    except KeyboardInterrupt:
        return f"\n{name}: interrupted; the file contains all complete rounds"
