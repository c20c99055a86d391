#!/usr/bin/env python3
"""Compares clora serve with llama.cpp's server: same machine, same model file, same adapters, same
requests, one after the other in alternation. Uses Python's standard library only.

  bench/peers/llamacpp_server.py SOURCES MODEL.gguf [--only REGEX] [--json FILE]

SOURCES is a clone of https://github.com/ggml-org/llama.cpp (README.md names the version that was
measured). Its llama-server is built by clang in --build, unless it is there: for this CPU, without
its page, and with OpenMP if the library of that clang is installed (Debian: libomp-14-dev).
MODEL.gguf must be of the architecture "llama", because the adapters are written for both programs
(bench/serving/adapter_files.py). Both servers have as many slots as there are streams; llama.cpp
uses as many threads as this process has cores, and no cache of prompts in host memory, which would
copy the cache of each ended request.

Workloads, each of N streams, one request after another in each:
  no-adapter      the base model
  one-adapter     one adapter for all streams
  many-adapters   another adapter for each stream
Figures are medians over the rounds, with the least and the most. A run counts only if every reply
is complete and has its exact length. "alike" is the mean share of a reply's characters until the
two programs' greedy replies differ: rounding makes it less than 1, adapters that differ make it 0.
"""

import argparse
import json
import os
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent / "serving"), str(HERE.parent)]

import adapter_files  # noqa: E402
import load_client  # noqa: E402
import server_program  # noqa: E402
from peer_lines import cpu_name  # noqa: E402

OPTIONS = ("-DCMAKE_BUILD_TYPE=Release", "-DGGML_NATIVE=ON", "-DBUILD_SHARED_LIBS=OFF",
           "-DLLAMA_OPENSSL=OFF", "-DLLAMA_BUILD_TESTS=OFF", "-DLLAMA_BUILD_EXAMPLES=OFF",
           "-DLLAMA_BUILD_UI=OFF", "-DLLAMA_USE_PREBUILT_UI=OFF")
FIGURES = (("output_throughput", "output tokens/s"), ("median_ttft_ms", "median TTFT, ms"),
           ("median_tpot_ms", "median TPOT, ms"), ("p99_itl_ms", "p99 ITL, ms"))


@dataclass(frozen=True)
class Workload:
    name: str
    adapters: int


def clang(name):
    """The newest compiler of that name."""
    found = filter(None, (shutil.which(name + suffix) for suffix in ("-16", "-14", "")))
    compiler = next(found, None)
    if compiler is None:
        raise ValueError(f"{name} was required, none was found; install the Debian package clang")
    return compiler


def build_llama_server(sources, folder, jobs):
    """Returns the program."""
    program = folder / "bin/llama-server"
    if not program.exists():
        compilers = [f"-DCMAKE_{language}_COMPILER={clang(name)}"
                     for language, name in (("C", "clang"), ("CXX", "clang++"))]
        subprocess.run(["cmake", "-S", sources, "-B", folder, "-G", "Ninja", *OPTIONS, *compilers],
                       check=True, stdout=sys.stderr)
        subprocess.run(["cmake", "--build", folder, "--target", "llama-server", "-j", str(jobs)],
                       check=True, stdout=sys.stderr)
    return program


def commit_of(folder):
    done = subprocess.run(["git", "-C", folder, "rev-parse", "HEAD"], capture_output=True,
                          text=True, check=False)
    return done.stdout.strip() or "unknown"


def positions_of(args):
    return args.input_len + args.output_len + 8


class Clora:
    name = "clora"

    def __init__(self, args):
        self.args = args

    def command(self, port, adapters):
        named = [word for number, (folder, _) in enumerate(adapters)
                 for word in ("--adapter", f"adapter-{number}={folder}")]
        return [self.args.clora, "serve", "--quiet", "--port", port, "--model", self.args.model,
                "--name", "base", "--max-sequences", self.args.streams,
                "--max-positions", positions_of(self.args), *named]

    def requests(self, adapters):
        return {"models": tuple(f"adapter-{number}" for number in range(adapters)) or ("base",)}


class LlamaServer:
    name = "llama.cpp"

    def __init__(self, args, program):
        self.args, self.program = args, program

    def command(self, port, adapters):
        files = [word for _, file in adapters for word in ("--lora", file)]
        return [self.program, "--host", "127.0.0.1", "--port", port, "-m", self.args.model,
                "-np", self.args.streams, "-c", self.args.streams * positions_of(self.args),
                "--no-kv-unified", "--cont-batching", "-t", self.args.threads,
                "-tb", self.args.threads, "--cache-ram", "0", *files]

    def requests(self, adapters):
        return {"fields": tuple({"lora": [{"id": number, "scale": 1.0}]}
                                for number in range(adapters))}


def run_once(server, workload, adapters, args, seed):
    """(figures, texts) of one server that was started for this run."""
    used = adapters[:workload.adapters]
    load = dict(server.requests(len(used)), input_tokens=args.input_len, concurrency=args.streams)
    log = Path(args.logs) / f"{server.name}-{workload.name}.log"
    with server_program.running(lambda port: server.command(port, used), log) as (url, _):
        load_client.run(url, load_client.Load(prompts=args.streams, output_tokens=8,
                                              seed=seed + 1000, **load))
        replies, figures = load_client.run(url, load_client.Load(
            prompts=args.streams * args.turns, output_tokens=args.output_len, seed=seed, **load))
    wrong = sorted({reply.error for reply in replies if reply.error})
    if wrong:
        raise server_program.Failed(f"{server.name}, {workload.name}: {wrong[0]}")
    return figures, [reply.text for reply in replies]


def alike(ours, theirs):
    shares = [len(os.path.commonprefix(pair)) / max(1, min(map(len, pair)))
              for pair in zip(ours, theirs)]
    return statistics.fmean(shares)


def run_rounds(servers, workloads, adapters, args):
    """[{round, workload, contender, figures}], and {workload: [alike]}."""
    runs, likeness = [], {workload.name: [] for workload in workloads}
    for number in range(args.rounds):
        for workload in workloads:
            texts = {}
            for server in servers if number % 2 == 0 else servers[::-1]:
                figures, texts[server.name] = run_once(server, workload, adapters, args, number)
                print(f"round {number + 1}, {workload.name}, {server.name}: "
                      f"{figures['output_throughput']:.1f} tokens/s", file=sys.stderr, flush=True)
                runs.append({"round": number + 1, "workload": workload.name,
                             "contender": server.name, "figures": figures})
            likeness[workload.name].append(alike(*texts.values()))
    return runs, likeness


def of(runs, workload, contender, figure):
    return [run["figures"][figure] for run in runs
            if (run["workload"], run["contender"]) == (workload, contender)]


def spread(values):
    return f"{statistics.median(values):.1f} ({min(values):.1f} to {max(values):.1f})"


def table(runs, likeness):
    lines = ["| workload | figure | clora | llama.cpp | clora is better by |", "| --- " * 5 + "|"]
    for workload, shares in likeness.items():
        for figure, label in FIGURES:
            ours, theirs = (of(runs, workload, name, figure) for name in ("clora", "llama.cpp"))
            ratio = statistics.median(ours) / max(statistics.median(theirs), 1e-9)
            ratio = ratio if figure == "output_throughput" else 1 / max(ratio, 1e-9)
            lines.append(f"| {workload} | {label} | {spread(ours)} | {spread(theirs)} "
                         f"| {ratio:.2f}x |")
        lines.append(f"| {workload} | alike | {statistics.median(shares):.2f} | | |")
    return "\n".join(lines)


def own_ratios(runs, likeness):
    """clora with adapters against clora without one."""
    if "no-adapter" not in likeness:
        return ""
    base = statistics.median(of(runs, "no-adapter", "clora", "output_throughput"))
    return "\n".join(
        f"clora, {workload} against no-adapter: "
        f"{statistics.median(of(runs, workload, 'clora', 'output_throughput')) / base:.2f}x"
        for workload in likeness if workload != "no-adapter")


def arguments():
    cores = len(os.sched_getaffinity(0))
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("sources", type=Path, help="folder of llama.cpp's sources")
    parser.add_argument("model", type=Path, help="a .gguf file")
    parser.add_argument("--build", type=Path, help="build folder (default: SOURCES/build-clang)")
    parser.add_argument("--jobs", type=int, default=cores, help="of the build")
    parser.add_argument("--clora", type=Path, default=HERE.parents[1] / "build/release/tools/clora")
    parser.add_argument("--streams", type=int, default=8)
    parser.add_argument("--turns", type=int, default=3, help="requests of each stream (default 3)")
    parser.add_argument("--input-len", type=int, default=64, help="tokens of a prompt (default 64)")
    parser.add_argument("--output-len", type=int, default=128, help="tokens of a reply (128)")
    parser.add_argument("--rank", type=int, default=8, help="of the adapters (default 8)")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--threads", type=int, default=cores, help="of llama.cpp: the cores")
    parser.add_argument("--only", type=re.compile, default=re.compile(""), metavar="REGEX")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write every round's figures")
    return parser.parse_args()


def main():
    args = arguments()
    build = args.build or args.sources / "build-clang"
    program = build_llama_server(args.sources, build, args.jobs)
    workloads = [workload for workload in (Workload("no-adapter", 0), Workload("one-adapter", 1),
                                           Workload("many-adapters", args.streams))
                 if args.only.search(workload.name)]
    with tempfile.TemporaryDirectory() as folder:
        args.logs = folder
        adapters = adapter_files.write(args.model, Path(folder) / "adapters",
                                       max(workload.adapters for workload in workloads), args.rank)
        runs, likeness = run_rounds([Clora(args), LlamaServer(args, program)], workloads, adapters,
                                    args)
    print(table(runs, likeness))
    print(own_ratios(runs, likeness))
    if args.json:
        about = {"cpu": cpu_name(), "cores": args.threads, "model": args.model.name,
                 "llama.cpp": commit_of(args.sources), "clora": commit_of(HERE),
                 "streams": args.streams, "turns": args.turns, "input_len": args.input_len,
                 "output_len": args.output_len, "rank": args.rank}
        args.json.write_text(json.dumps({**about, "runs": runs, "alike": likeness}, indent=1))


if __name__ == "__main__":
    try:
        main()
    except (server_program.Failed, subprocess.CalledProcessError, ValueError) as error:
        sys.exit(f"llamacpp_server.py: {error}")
