"""The contenders on a GPU: rows of clora_bench in their storage types, PyTorch with CUDA, and clora
with models of random weights. A work is op/type/shape[/rN]; for a model
training/MODEL/BATCHxLENGTH/rN, decode/MODEL/POSITIONS."""

import os
import shutil
from dataclasses import replace
from pathlib import Path

from report import clora_bench, random_model
from report.contenders import Contender, bench, peer_figures

RANK = 16
PROMPT = 512


def add_options(parser, plan):
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    parser.add_argument("--device", default=plan.device,
                        help="device, as in CLORA_DEVICE; default gpu")
    parser.add_argument("--python", type=Path, metavar="FILE",
                        help="a Python with torch for the GPU; default: that of --peers")
    parser.add_argument("--models", type=Path, default=cache / "clora/random-models",
                        metavar="FOLDER", help="folder for models with random weights")


def with_options(setup, options):
    python = options.python.expanduser() if options.python else setup.python("torch")
    return replace(setup, models=options.models.expanduser(), gpu_python=python)


def typed_work(name):
    """gemm/bf16/64x512x512: with the type, which separates rows of f32 and of bf16."""
    op, _, rest = name.work.partition("/")
    return f"{op}/{name.type}/{rest}"


def typed_figures(text):
    """{work: figures} of the fused rows, with of_base, the time of a product with adapter relative
    to the plain product, if both were measured. If a workload has a queued row and one with a wait
    after each run, as in the bench of small shapes, the queued row is used, because a peer's graph
    does not wait either."""
    fused = [(name, row) for name, row in clora_bench.rows(text) if name.form == "fused"]
    found = {typed_work(name): clora_bench.figures_of(row)
             for name, row in sorted(fused, key=lambda pair: "queued" in pair[0].words)}
    for work, figures in found.items():
        base = found.get(base_work(work))
        if base is not None and base is not figures:
            figures["of_base"] = figures["us"] / base["us"]
    return found


def base_work(work):
    """The plain product of an adapter's layer: gemm/TYPE/SHAPE."""
    op, *rest = work.split("/")
    bare = op.replace("lora_linear", "gemm").replace("lora_expand", "gemm")
    return "/".join([bare, *rest[:2]])


def ours(pattern, flags=()):
    """Rows with fixed buffers, as the peers use. The pattern matches names
    op/form/type/shape[/rN]."""
    made = bench("clora", f"^({pattern})/warm(/queued)?(/bf16)?/manual_time", typed_figures,
                 flags=flags)
    return with_variables(made, {"CLORA_BENCH_LARGE": "1"})


def with_variables(contender, variables):
    return replace(contender, variables={**contender.variables, **variables})


def torch_gpu(name, mode, pattern, seconds=0.3):
    """A contender that is bench/peers/torch_gpu_ops.py."""
    def command(setup):
        return [setup.gpu_python, setup.root / "bench/peers/torch_gpu_ops.py", "--mode", mode,
                "--only", pattern, "--seconds", 0.02 if setup.quick else seconds]
    return Contender(name, command, peer_figures, (lambda setup: setup.gpu_python,),
                     install="tools/setup/install_peers torch, or --python with one that has it")


def jobs_figures(model):
    """The figures of the rows with a model of random weights."""
    def figures(text):
        found = {}
        for name, row in clora_bench.rows(text):
            shape, *rank = name.work.split("/")[1:]
            if name.op == "training":
                found["/".join(["training", model, shape, *rank])] = clora_bench.figures_of(row)
            else:
                found[f"prefill/{model}/{PROMPT}"] = {"tokens_per_s": row["prompt_tokens_per_s"]}
                found[f"decode/{model}/{PROMPT}"] = {"tokens_per_s": row["decode_tokens_per_s"]}
        return found
    return figures


def jobs(model, pattern, profile=False, cold=False, rounds=10**6):
    """Training and decoding with a model of random weights, created if absent; `pattern` matches
    names training/BATCHxLENGTH or generation. profile: the device times of one step by op. cold:
    with empty program caches of clora and the driver."""
    def inner(setup):
        if not setup.quick:
            return random_model.ensure_model(setup.models, model), pattern
        short = "training/fused/bf16/1x64"
        return (random_model.ensure_model(setup.models, "tiny"),
                short if profile or cold else f"{short}|generation/fused/bf16/512")

    made = bench("clora", "", jobs_figures(model), rounds=rounds)

    def command(setup):
        folder, of = inner(setup)
        variables = {"CLORA_BENCH_FOLDER": str(folder)}
        variables |= {"CLORA_BENCH_PROFILE": "1"} if profile else {}
        variables |= empty_caches(setup) if cold else {}
        time = "0.02" if setup.quick or profile or cold else "0.15"
        return ["env", *(f"{key}={value}" for key, value in variables.items()), setup.bench,
                f"--benchmark_filter=^({of}).*/bf16/manual_time", "--benchmark_format=json",
                f"--benchmark_min_time={time}"]

    def only_cold(done):
        return {work.replace("training/", "training_cold/"): {"first_step_s": own["first_step_s"]}
                for work, own in made.figures(done).items() if "first_step_s" in own}

    def watched(done):
        """Under another name, because the clock is read after every command and the programs are
        new."""
        return {work.replace("training/", "training_profiled/"): own
                for work, own in made.figures(done).items()}

    figures = only_cold if cold else watched if profile else made.figures
    return replace(made, command=command, figures=figures,
                   profiles=profile_of(made.figures) if profile else made.profiles)


def profile_of(figures):
    """For a run of one row: the table that it prints last on stderr."""
    def profiles(done):
        work = next(iter(figures(done)), None)
        at = done.errors.rfind("op  ")
        return {work: done.errors[at:].strip()} if work and at >= 0 else {}
    return profiles


def empty_caches(setup):
    """Creates empty program cache folders for clora and the driver."""
    folders = {"CLORA_CACHE_DIR": setup.scratch / "cold-clora",
               "CUDA_CACHE_PATH": setup.scratch / "cold-driver",
               "POCL_CACHE_DIR": setup.scratch / "cold-pocl"}
    for folder in folders.values():
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
    return {name: str(folder) for name, folder in folders.items()}
