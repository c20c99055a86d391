"""What the tests of files share: clora, the peers, the test data, and random adapters."""
import json
import os
import pathlib
import subprocess

import numpy
import pytest
from clora_library import Clora
from llama_cpp import LlamaCpp
from safetensors.numpy import save_file

BINARIES = pathlib.Path(os.environ["CLORA_BINARY_DIR"])
PEERS = pathlib.Path(os.environ.get("CLORA_PEERS", pathlib.Path.home() / ".cache/clora/peers"))
DATA = pathlib.Path(os.environ.get("CLORA_TEST_DATA", "../shared/data"))
LINEARS = ["self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj", "self_attn.o_proj",
           "mlp.gate_proj", "mlp.up_proj", "mlp.down_proj"]


@pytest.fixture(scope="session")
def models():
    return DATA / "models"


@pytest.fixture(scope="session")
def clora():
    return Clora(BINARIES / "libclora.so")


@pytest.fixture(scope="session")
def run_clora():
    """Runs a command of clora; returns its objects of --json, or the error text."""
    def run(*arguments, fails=False):
        done = subprocess.run([BINARIES / "tools/clora", *map(str, arguments), "--json"],
                              capture_output=True, text=True, check=False, timeout=600)
        assert (done.returncode != 0) == fails, done.stderr
        return done.stderr if fails else [json.loads(line) for line in done.stdout.splitlines()]
    return run


@pytest.fixture(scope="session")
def convert(run_clora):
    def run(model, adapter, to, out, **more):
        return run_clora("convert", "--model", model, "--adapter", adapter, "--to", to, "--out",
                         out, **more)
    return run


def peer(name):
    python = PEERS / name / "bin/python"
    if not python.exists():
        pytest.skip(f"the peer {name} is not installed; tools/setup/install_peers {name} does that")
    script = pathlib.Path(__file__).parent / "peers" / f"{name}_jobs.py"

    def run(jobs):
        environment = {k: v for k, v in os.environ.items() if k != "PYTHONPATH"}
        done = subprocess.run([python, script], input=json.dumps(jobs), capture_output=True,
                              text=True, check=False, timeout=600, env=environment)
        assert done.returncode == 0, done.stderr[-4000:]
    return run


@pytest.fixture(scope="session")
def peft():
    """Runs jobs of peers/torch_jobs.py."""
    return peer("torch")


@pytest.fixture(scope="session")
def mlx():
    """Runs jobs of peers/mlx_jobs.py."""
    return peer("mlx")


@pytest.fixture(scope="session")
def llama_cpp():
    found = LlamaCpp.find()
    if found is None:
        pytest.skip("llama.cpp could not be installed from npm; run_tests.py has printed why")
    return found


class Sizes:
    """The sizes of a model of Llama's kind, and its linear layers."""

    def __init__(self, layers, hidden, intermediate, heads, kv_heads, head_dim, vocabulary):
        self.layers, self.hidden, self.vocabulary = layers, hidden, vocabulary
        q, kv = heads * head_dim, kv_heads * head_dim
        self.of = dict(zip(LINEARS, [(q, hidden), (kv, hidden), (kv, hidden), (hidden, q),
                                     (intermediate, hidden), (intermediate, hidden),
                                     (hidden, intermediate)]))

    @staticmethod
    def of_folder(folder):
        config = json.loads((folder / "config.json").read_text())
        heads = config["num_attention_heads"]
        return Sizes(config["num_hidden_layers"], config["hidden_size"],
                     config["intermediate_size"], heads, config["num_key_value_heads"],
                     config.get("head_dim") or config["hidden_size"] // heads,
                     config["vocab_size"])


class Variant:
    """The settings of an adapter in PEFT's terms."""

    def __init__(self, r=4, alpha=8, rslora=False, ranks=None, alphas=None, dora=False,
                 targets=None, layers=None):
        self.r, self.alpha, self.rslora, self.dora = r, alpha, rslora, dora
        self.ranks, self.alphas = ranks or {}, alphas or {}
        self.targets, self.layers = targets or LINEARS, layers

    def config(self):
        config = {"peft_type": "LORA", "task_type": "CAUSAL_LM", "r": self.r,
                  "lora_alpha": self.alpha, "lora_dropout": 0.0, "use_rslora": self.rslora,
                  "use_dora": self.dora, "bias": "none",
                  "target_modules": [name.split(".")[-1] for name in self.targets],
                  "rank_pattern": self.ranks, "alpha_pattern": self.alphas}
        if self.layers is not None:
            config["layers_to_transform"] = self.layers
        return config


# Of one rank and scale, of one scale that is no alpha / rank, and of several ranks and scales.
VARIANTS = {"plain": Variant(), "rslora": Variant(r=6, alpha=10, rslora=True),
            "alpha_pattern": Variant(alphas={"q_proj": 24, "down_proj": 3}),
            "rank_pattern": Variant(ranks={"v_proj": 2, "up_proj": 7}),
            "rslora_patterns": Variant(r=5, rslora=True, ranks={"k_proj": 3},
                                       alphas={"o_proj": 11})}


@pytest.fixture(scope="session")
def write_adapter():
    """Writes a random adapter in PEFT's format, large enough to change what a model says."""
    def write(folder, sizes, variant, size=0.1, seed=1):
        random = numpy.random.default_rng(seed)
        tensors = {}
        for layer in range(sizes.layers) if variant.layers is None else variant.layers:
            for name in variant.targets:
                outputs, inputs = sizes.of[name]
                rank = variant.ranks.get(name.split(".")[-1], variant.r)
                path = f"base_model.model.model.layers.{layer}.{name}"
                a = random.normal(size=(rank, inputs)) / inputs ** 0.5
                b = random.normal(size=(outputs, rank)) * size
                tensors[f"{path}.lora_A.weight"] = a.astype(numpy.float32)
                tensors[f"{path}.lora_B.weight"] = b.astype(numpy.float32)
                if variant.dora:
                    magnitude = random.uniform(0.5, 1.5, outputs)
                    tensors[f"{path}.lora_magnitude_vector"] = magnitude.astype(numpy.float32)
        folder.mkdir(parents=True, exist_ok=True)
        save_file(tensors, folder / "adapter_model.safetensors", metadata={"format": "pt"})
        (folder / "adapter_config.json").write_text(json.dumps(variant.config()))
        return folder
    return write


def relative_difference(got, wanted):
    return float(numpy.abs(got - wanted).max() / numpy.abs(wanted).max())
