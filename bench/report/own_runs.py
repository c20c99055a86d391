"""Runs of the clora program itself, with times observed from outside the process: the first
training step with empty caches, the start to the first token, the demo, and a training step of any
size."""

import json
import shutil
import statistics
from pathlib import Path

from report import process
from report.contenders import own_program

TOKENS = 512  # per record


def records_file(setup, tokens=TOKENS):
    """A file of records that are longer than `tokens` tokens, and so are truncated to that
    length."""
    file = setup.scratch / f"records-{tokens}.jsonl"
    words = "one two three four five six seven eight nine ten ".split()
    if not file.exists():
        texts = (" ".join(words[(i + j) % len(words)] for j in range(2 * tokens))
                 for i in range(64))
        file.write_text("".join(json.dumps({"text": text}) + "\n" for text in texts))
    return file


def training_command(setup, model, precision, batch, rank, steps, tokens=TOKENS):
    out = setup.scratch / "adapter"
    shutil.rmtree(out, ignore_errors=True)
    return [setup.clora, "train", "--json", "--quiet", "--model", model, "--precision", precision,
            "--data", records_file(setup, tokens), "--max-seq-length", tokens,
            "--batch-size", batch, "--rank", rank, "--steps", steps, "--adapter-out", out]


def step_events(done):
    """(seconds after the start, event) of each training step."""
    events = [(at, json.loads(text)) for at, text in done.lines if text.startswith("{")]
    return [(at, event) for at, event in events if event.get("event") == "step"]


def training_figures(done, batch, tokens=TOKENS):
    """The time from the program's start to the first step; the median of the other steps; memory as
    reported by the kernel and by the device's pool."""
    steps = step_events(done)
    if not steps or any(event["tokens"] < batch * (tokens - 1) for _, event in steps):
        raise ValueError("the training took no step of the wanted size")
    found = {"first_step_s": steps[0][0], "peak_rss_gib": done.peak_rss_gib,
             "peak_pool_gib": max(event["peak_bytes"] for _, event in steps) / 2**30}
    seconds = [after - before for (before, _), (after, _) in zip(steps, steps[1:])]
    if seconds:
        found["step_s"] = statistics.median(seconds)
    return found


def empty_caches(setup):
    """Variables for a cold start: empty cache folders for clora and pocl."""
    folders = {"CLORA_CACHE_DIR": setup.scratch / "cold-clora",
               "POCL_CACHE_DIR": setup.scratch / "cold-pocl"}
    for folder in folders.values():
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
    return {name: str(folder) for name, folder in folders.items()}


def cold_training():
    """clora train with empty caches, 4 x 512, one step."""
    def one(name, precision):
        def command(setup):
            variables = [f"{key}={value}" for key, value in empty_caches(setup).items()]
            return ["env", *variables,
                    *training_command(setup, setup.model, precision, batch=4, rank=8, steps=1)]
        return own_program(name, command,
                           lambda done: {"training_cold/4x512/r8": training_figures(done, 4)},
                           rounds=3)
    return one("clora", "f32"), one("clora auto", "auto")


def warm_training():
    """clora train with the existing caches, 4 x 512: its memory. (A cold run would include the
    memory of the compiler.)"""
    def one(name, precision):
        return own_program(
            name, lambda setup: training_command(setup, setup.model, precision, batch=4, rank=8,
                                                 steps=2),
            lambda done: {"training_memory/4x512/r8": training_figures(done, 4)}, rounds=3)
    return one("clora", "f32"), one("clora auto", "auto")


def start():
    """clora generate of one token with warm caches: the report fills them first."""
    def one(name, precision):
        return own_program(
            name, lambda setup: [setup.clora, "generate", "--model", setup.model,
                                 "--precision", precision, "--prompt", "Hello",
                                 "--max-tokens", "1"],
            lambda done: {"start": {"first_token_s": done.first_byte_s, "seconds": done.seconds}})
    return one("clora", "f32"), one("clora auto", "auto")


def demo():
    """tools/demo with program and model available; a single round, because it takes minutes."""
    return (own_program("clora auto", lambda setup: [setup.root / "tools/demo", "--fresh"],
                        lambda done: {"demo": {"seconds": done.seconds}}, rounds=1),)


def measure_step(setup, model, precision, batch, rank, steps):
    """The figures of a training run of `steps` steps; raises process.Failed or ValueError."""
    command = training_command(setup, model, precision, batch, rank, steps)
    return training_figures(process.run(command), batch)


def model_file(environment):
    """The destination of tools/fetch_demo_model for the demo model."""
    cache = environment.get("CLORA_MODEL_CACHE") or str(
        Path(environment.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "clora/models")
    return Path(cache) / "SmolLM2-135M-Instruct.Q4_1.gguf"
