"""The groups of workloads that are measured together, with their contenders. In a round every
contender of a group has one short run, one after the other, in an order that is shuffled each
time."""

from dataclasses import dataclass

from report import contenders as who
from report import own_runs

# Patterns valid in Python's re and in POSIX, which clora_bench uses.
SHAPES = ("(2048x576x576|2048x192x576|2048x1536x576|2048x576x1536|256x576x576|256x1536x576|"
          "64x512x512|64x1024x1024|64x2048x2048)")
PRODUCTS = f"^gemm/{SHAPES}$"
OWN_ADAPTER = ("^(gemm/fused|lora_linear/(fused|unfused))/"
               "(f32/(64x512x512|64x1024x1024|64x2048x2048)(/r8)?|q4_1/2048x1536x576(/r16)?)"
               "/manual_time")


@dataclass(frozen=True)
class Group:
    name: str
    title: str
    contenders: tuple
    slow: bool = False  # not in quick runs


def all_groups():
    library_products = "gemm/library/f32/" + SHAPES
    # These figures are differences of times, so the rows of the bench are interleaved as well.
    adapter = who.bench("clora", OWN_ADAPTER, who.clora_bench.adapter_figures, flags=(
        "--benchmark_repetitions=3", "--benchmark_enable_random_interleaving=true"))
    return (
        Group("products", "Products", (
            *who.ours("gemm/fused/f32/" + SHAPES), *who.torch_ops(PRODUCTS),
            *who.torch_onednn(PRODUCTS), *who.mlx_ops(PRODUCTS, as_installed=False),
            who.library("Eigen", "eigen", library_products),
            who.library("CLBlast", "clblast", library_products, rounds=who.FEW_ROUNDS),
            who.library("oneDNN of Debian", "onednn", library_products,
                        install="tools/setup/install_peers onednn, then rebuild clora_bench"))),
        Group("lora", "LoRA forward", (
            *who.ours("lora_linear/fused/f32/(64|1)x[0-9x]+/r[0-9]+"),
            *who.torch_ops("lora_linear/"), *who.mlx_ops("lora_linear/"))),
        Group("adapter", "What the adapter adds", (adapter,)),
        Group("rows", "Softmax and norms", (
            *who.ours("(softmax|layer_norm|rms_norm)/fused/f32/(1024|64)x1024"),
            *who.torch_ops("(softmax|norm)/", modes=("eager", "compiled")),
            *who.mlx_ops("(softmax|norm)/"))),
        Group("lora_step", "LoRA forward and backward", (
            *who.ours("lora_linear_step/fused/f32/32x512x512/r8"),
            *who.torch_ops("lora_linear_step/", modes=("eager", "compiled")),
            *who.mlx_ops("lora_linear_step/"))),
        Group("training", "Training, 4 x 512", (
            *who.ours("training/fused/q4_1/4x512/r8"), *who.peft(4, 512))),
        Group("training_small", "Training, 1 x 128", (
            *who.ours("training/fused/q4_1/1x128/r8"), *who.peft(1, 128))),
        Group("generation", "Prompt and decoding", (
            *who.ours("generation/fused/q4_1/(16|512)x128"), who.llama_cpp("prefill/512|decode/"),
            *who.transformers("(prefill|decode)/512"))),
        Group("cold", "First step with empty caches", own_runs.cold_training()),
        Group("memory", "Memory of training, 4 x 512", own_runs.warm_training()),
        Group("start", "Start to the first token", (
            *own_runs.start(), who.llama_cpp("^start$"))),
        Group("demo", "tools/demo", own_runs.demo(), slow=True),
    )
