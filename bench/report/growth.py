"""The growth of a training step's time and memory: with tokens (more records of 512 tokens per
step), with the adapters' rank, and with the model's layers (files of the demo model's first
blocks). Measured by `clora train --json` in auto precision: the median step after the first,
observed from outside the process. measurement["growth"] is {axis: [{x, step_s, peak_rss_gib,
peak_pool_gib}]}.
"""

from report import process
from report.own_runs import TOKENS, measure_step
from report.shallow_gguf import first_blocks

AXES = {"tokens": (512, 1024, 2048, 4096, 8192), "rank": (4, 16, 32, 64, 128, 256),
        "layers": (5, 10, 15, 20, 25, 30)}
QUICK_AXES = {"tokens": (512, 1024), "rank": (4, 8), "layers": (1, 2)}
TITLES = {"tokens": "tokens per step", "rank": "rank, 2048 tokens", "layers": "layers, 2048 tokens"}


def shallow_model(setup, layers):
    file = setup.scratch / f"layers-{layers}.gguf"
    if not file.exists():
        file.write_bytes(first_blocks(memoryview(setup.model.read_bytes()), layers))
    return file


def measure_point(setup, axis, x):
    """The figures of a point. In a quick run a step has 512 tokens on every axis except tokens."""
    batch = x // TOKENS if axis == "tokens" else (1 if setup.quick else 4)
    rank = x if axis == "rank" else 8
    model = shallow_model(setup, x) if axis == "layers" else setup.model
    steps = 2 if setup.quick else 4
    return {"x": x, **measure_step(setup, model, "auto", batch, rank, steps)}


def measure(setup, say):
    """(the growth, [failures])."""
    found, failed = {}, []
    for axis, points in (QUICK_AXES if setup.quick else AXES).items():
        for x in points:
            try:
                point = measure_point(setup, axis, x)
            except (process.Failed, ValueError) as error:
                failed.append({"group": "growth", "contender": "clora auto",
                               "why": f"{axis} {x}: {error}"})
                say(f"FAILED: growth with {axis}, {x}: {error}")
                continue
            found.setdefault(axis, []).append(point)
            say(f"growth: {axis} {x}: {point['step_s']:.2f} s per step")
    return found, failed
