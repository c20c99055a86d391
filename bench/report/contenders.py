"""The contenders: clora and its peers. A contender of a group of workloads is a command and a
function that converts its output to figures by workload. It may be absent, with the reason and the
command that installs it."""

import ctypes.util
import json
import os
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from report import clora_bench

# The peer figures that the report uses. The peers' own _least and _most are omitted, because the
# rounds show the spread.
PEER_FIGURES = ("us", "tokens_per_s", "first_step_s", "first_token_s", "peak_rss_gib")
BUILD = "cmake --build --preset release --target clora clora_bench"
ALL_ROUNDS = 10**6
# Forms that another form of the same peer nearly always beats take part in two rounds only.
FEW_ROUNDS = 2


@dataclass(frozen=True)
class Setup:
    """The locations of programs and files, and the length of the measurement."""
    root: Path
    build: Path
    model: Path
    peers: Path
    scratch: Path
    threads: int
    quick: bool = False
    models: Path = Path()      # folder of models with random weights
    gpu_python: Path = Path()  # with torch for the GPU

    @property
    def clora(self):
        return self.build / "tools/clora"

    @property
    def bench(self):
        return self.build / "bench/clora_bench"

    def python(self, environment):
        return self.peers / environment / "bin/python"


@dataclass(frozen=True)
class Contender:
    name: str                      # a peer's ends with " bf16" if it computes in bf16
    command: Callable              # takes the Setup
    figures: Callable              # takes process.Done: {work: {figure: value}}
    needs: tuple = ()              # required files, as functions of the Setup
    library: str = ""              # preloaded
    install: str = ""              # the command that installs it
    variables: dict = field(default_factory=dict)
    rounds: int = ALL_ROUNDS       # at most
    profiles: Callable = lambda done: {}  # {work: text}, in addition to the figures

    def absent(self, setup):
        """Why it cannot take part; empty if it can."""
        for need in self.needs:
            if not need(setup).exists():
                return f"{short(need(setup))} is absent"
        if self.library and find_library(self.library) is None:
            return f"lib{self.library} is absent"
        return ""

    def environment(self):
        preload = {"LD_PRELOAD": find_library(self.library)} if self.library else {}
        return {**self.variables, **preload}


def short(path):
    """The path with the home folder shortened to ~."""
    return str(path).replace(str(Path.home()), "~", 1)


def find_library(name):
    return ctypes.util.find_library(name)


def peer_lines(done):
    return [json.loads(text) for _, text in done.lines if text.startswith('{"peer"')]


def peer_figures(done):
    """The figures in a peer script's JSON lines."""
    return {line["work"]: {name: line[name] for name in PEER_FIGURES if name in line}
            for line in peer_lines(done)}


def peer_versions(done):
    """{peer: version} from a peer script's lines; empty for other programs."""
    lines = peer_lines(done)
    found = {line["peer"]: line["version"] for line in lines}
    return found | {"torch": line["torch"] for line in lines if "torch" in line}


def script(name, environment, file, *arguments, library="", quick=(), rounds=ALL_ROUNDS):
    """A contender that is a script of bench/peers/; `quick` replaces options in a quick run."""
    def command(setup):
        own = [setup.python(environment), setup.root / "bench/peers" / file,
               *(a(setup) if callable(a) else a for a in arguments), "--threads", setup.threads]
        return own + (list(quick) if setup.quick else [])
    return Contender(name, command, peer_figures, (lambda setup: setup.python(environment),),
                     library, f"tools/setup/install_peers {environment}", rounds=rounds)


def bench(name, pattern, figures, flags=(), install=BUILD, **options):
    """A contender that is clora_bench with a filter; figures() receives its JSON."""
    def command(setup):
        time = ["--benchmark_min_time=0.02"] if setup.quick else list(flags)
        return [setup.bench, f"--benchmark_filter={pattern}", "--benchmark_format=json", *time]

    def read(done):
        start = done.text.find("{")
        if start < 0:  # no bench matches
            return {}
        text = done.text[start:]
        found = figures(text)
        if not found and clora_bench.errors(text):
            raise ValueError(clora_bench.errors(text)[0])
        return found
    return Contender(name, command, read, (lambda setup: setup.bench,),
                     install=install, **options)


def ours(pattern):
    """clora in f32 and in auto precision. The pattern matches names op/form/type/shape[/rN]."""
    plain = f"^({pattern})(/warm)?/manual_time"
    auto = f"^({pattern})(/warm)?/bf16/manual_time"
    return (bench("clora", plain, lambda text: clora_bench.own_figures(text, False)),
            bench("clora auto", auto, lambda text: clora_bench.own_figures(text, True)))


def library(name, word, pattern, **options):
    return bench(name, f"^({pattern})/{word}(/warm)?/manual_time",
                 lambda text: clora_bench.library_figures(text, word), **options)


def torch_ops(pattern, modes=("eager", "compiled", "frozen"), dtypes=("f32", "bf16")):
    return tuple(
        script(f"PyTorch {mode}" + (" bf16" if dtype == "bf16" else ""), "torch", "torch_ops.py",
               "--mode", mode, "--dtype", dtype, "--only", pattern, "--samples", "7",
               quick=("--samples", "2"),
               rounds=FEW_ROUNDS if mode == "compiled" and "frozen" in modes else ALL_ROUNDS)
        for dtype in dtypes for mode in modes)


def torch_onednn(pattern):
    return tuple(
        script("oneDNN in PyTorch" + (" bf16" if dtype == "bf16" else ""), "torch", "torch_ops.py",
               "--mode", "onednn", "--dtype", dtype, "--only", pattern, "--samples", "7",
               quick=("--samples", "2"))
        for dtype in ("f32", "bf16"))


def mlx_ops(pattern, as_installed=True):
    """MLX as installed, with a reference BLAS, and with OpenBLAS. (Its compiled mode takes the same
    time as its eager mode: bench/peers/mlx_ops.py --mode compiled.)"""
    arguments = ("mlx", "mlx_ops.py", "--samples", "5", "--only", pattern)
    plain = script("MLX", *arguments, quick=("--samples", "2"))
    good = script("MLX + OpenBLAS", *arguments, library="openblas", quick=("--samples", "2"))
    return (plain, good) if as_installed else (good,)


def peft(batch, seq):
    """PEFT under several allocators. glibc's malloc returns large blocks to the system at each
    step, so tcmalloc gives the fair figure."""
    def one(dtype, compiled, malloc):
        name = "PEFT " + ("compiled" if compiled else "eager") + (" + tcmalloc" if malloc else "")
        arguments = ["--batch", batch, "--seq", seq, "--dtype", dtype,
                     "--steps", "2" if batch * seq > 512 else "10"]
        return script(name + (" bf16" if dtype == "bf16" else ""), "torch", "peft_train.py",
                      *arguments, *(["--compile"] if compiled else []), library=malloc,
                      quick=("--steps", "1"), rounds=ALL_ROUNDS if malloc else FEW_ROUNDS)
    return tuple(one(dtype, compiled, malloc) for dtype in ("f32", "bf16")
                 for compiled, malloc in ((False, ""), (False, "tcmalloc_minimal"),
                                          (True, "tcmalloc_minimal")))


def transformers(pattern):
    return tuple(script("transformers" + (" bf16" if dtype == "bf16" else ""), "torch",
                        "transformers_decode.py", "--dtype", dtype, "--only", pattern,
                        "--decode", "64", "--repeats", "2",
                        quick=("--decode", "4", "--repeats", "1")) for dtype in ("f32", "bf16"))


def llama_cpp(pattern, environment="llamacpp"):
    made = script("llama.cpp", environment, "llamacpp.py", lambda setup: setup.model, "--only",
                  pattern, "--repeats", "2", quick=("--decode", "4", "--repeats", "1"))
    return Contender(**{**made.__dict__, "needs": (*made.needs, lambda setup: setup.model)})


def own_program(name, command, figures, **options):
    """A contender that is the clora program itself."""
    return Contender(name, command, figures, (lambda setup: setup.clora, lambda setup: setup.model),
                     install=f"{BUILD} && tools/fetch_demo_model", **options)


def default_peers_folder():
    return Path(os.environ.get("CLORA_PEERS", Path.home() / ".cache/clora/peers"))
