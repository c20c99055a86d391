"""Shared by all peer scripts: the common options, the timing loops, and the JSON line that is
printed for each workload.

A line contains: peer, version, mode, dtype, work (named as in clora_bench, without form and type),
threads, malloc, preload, peak_rss_gib, cpu, cores, and the figures: us per call, or tokens_per_s.
Each figure is the median of the samples, next to its _least and _most.
"""

import argparse
import json
import os
import re
import resource
import statistics
import time
from collections.abc import Callable

# (M, N, K) of y [M, N] = x [M, K] W [N, K]^T; SmolLM2-135M's layers, then the first benchmark
# shapes.
PRODUCTS = [(rows, n, k) for rows in (2048, 256, 64)
            for n, k in ((576, 576), (192, 576), (1536, 576), (576, 1536))]
PRODUCTS += [(64, d, d) for d in (512, 1024, 2048)]
# (leading dimensions of x, d, rank)
LORA_SHAPES = [(lead, d, 8) for d in (512, 1024, 2048) for lead in ((4, 16), (1, 1))]
LORA_SHAPES += [((2, 32), 1024, rank) for rank in (4, 16, 32, 64)]
LORA_STEP_SHAPE = ((2, 16), 512, 8)
ROW_SHAPES = [(1024, 1024), (64, 1024)]
ROW_OPS = ("softmax", "layer_norm", "rms_norm")


def shape_text(*sizes: int) -> str:
    return "x".join(str(size) for size in sizes)


def lora_name(op: str, lead: tuple[int, int], d: int, rank: int) -> str:
    return f"{op}/{shape_text(lead[0] * lead[1], d, d)}/r{rank}"


def add_common_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)),
                        help="default: the number of cores of this process")
    parser.add_argument("--only", type=re.compile, default=re.compile(""), metavar="REGEX",
                        help="run only workloads whose names match")


def add_op_options(parser: argparse.ArgumentParser) -> None:
    add_common_options(parser)
    parser.add_argument("--dtype", choices=("f32", "bf16"), default="f32")
    parser.add_argument("--samples", type=int, default=15,
                        help="samples of 10 ms or more (default 15)")


def cpu_name() -> str:
    with open("/proc/cpuinfo", encoding="utf-8") as lines:
        return next((line.split(":", 1)[1].strip() for line in lines
                     if line.startswith("model name")), "unknown")


def print_line(**values: object) -> None:
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    preload = os.path.basename(os.environ.get("LD_PRELOAD", ""))
    malloc = "tcmalloc" if "tcmalloc" in preload else "glibc"
    print(json.dumps({**values, "malloc": malloc, "preload": preload,
                      "peak_rss_gib": round(peak, 3), "cpu": cpu_name(),
                      "cores": os.cpu_count()}), flush=True)


def seconds_of(work: Callable[[], object], warm_up: int, repeats: int) -> list[float]:
    for _ in range(warm_up):
        work()
    seconds = []
    for _ in range(repeats):
        start = time.perf_counter()
        work()
        seconds.append(time.perf_counter() - start)
    return seconds


def spread_of(name: str, values: list[float], digits: int = 2) -> dict[str, float]:
    return {name: round(statistics.median(values), digits),
            f"{name}_least": round(min(values), digits),
            f"{name}_most": round(max(values), digits)}


def rates(tokens: int, seconds: list[float]) -> dict[str, float]:
    """Tokens per second: the median repeat, the least and the most."""
    return spread_of("tokens_per_s", [tokens / s for s in seconds], digits=1)


def us_of_a_call(call: Callable[[], object], samples: int,
                 sample_s: float = 0.01) -> dict[str, float]:
    """Microseconds of a blocking call. A sample contains as many calls as fill sample_s, after a
    warm-up of a tenth of a second."""
    start = time.perf_counter()
    calls = 0
    while calls < 3 or time.perf_counter() - start < 0.1:
        call()
        calls += 1
    start = time.perf_counter()
    call()
    inner = max(1, int(sample_s / (time.perf_counter() - start)))

    def sample() -> None:
        for _ in range(inner):
            call()

    return spread_of("us", [s / inner * 1e6 for s in seconds_of(sample, 0, samples)])
