"""The groups, targets and tables of tools/bench_report --without-avx512: a CPU with AVX2 and FMA, on
a machine that may have more. clora's programs run on the emulated CPU of
tests/simulator/cpu_without_avx512.cpp, peers are limited by their own settings, and llama.cpp is
built for AVX2 (tools/setup/install_peers llamacpp_avx2)."""

from report import contenders as who
from report import figures, own_runs
from report.groups import Group
from report.tables import group_table, machine_words, targets_table
from report.targets import Target

SHAPES = ("2048x1536x576", "256x1536x576", "64x2048x2048")
PRODUCTS = "(" + "|".join(SHAPES) + ")"
HIDDEN_FLAGS = ("avx_vnni", "avx512", "amx")  # the beginnings of their names
PEER_LIMITS = {"ONEDNN_MAX_CPU_ISA": "AVX2", "ATEN_CPU_CAPABILITY": "avx2",
               "MKL_ENABLE_INSTRUCTIONS": "AVX2"}


def environment(setup, contender):
    """The variables that hide the other instructions from a contender."""
    if not figures.is_ours(contender):
        return PEER_LIMITS
    library = setup.build / "tests/libclora_cpu_without_avx512.so"
    return {"LD_PRELOAD": str(library), "CPU_WITHOUT_AVX_VNNI": "1", "CLORA_DEVICE": "cpu"}


def is_hidden(flag):
    return flag.startswith(HIDDEN_FLAGS)


def all_groups():
    # Without a unit for bf16 no peer is faster in it than in f32.
    def in_f32(contenders):
        return tuple(one for one in contenders
                     if not one.name.endswith(" bf16") and one.name != "clora auto")
    _, auto = who.ours("generation/fused/q4_1/(16|512)x128")
    products = f"^gemm/{PRODUCTS}$"
    return (
        Group("products", "Products", in_f32((
            *who.ours(f"gemm/fused/f32/{PRODUCTS}"), *who.torch_onednn(products),
            *who.torch_ops(products, modes=("eager",))))),
        Group("training", "Training, 4 x 512", in_f32((
            *who.ours("training/fused/q4_1/4x512/r8"), *who.peft(4, 512)))),
        Group("generation", "Prompt and decoding", (
            auto, who.llama_cpp("prefill/512|decode/", "llamacpp_avx2"))),
        Group("demo", "tools/demo", own_runs.demo(), slow=True),
    )


TARGETS = (
    Target("f32 product", tuple(f"gemm/{shape}" for shape in SHAPES), peers="PyTorch|oneDNN",
           must=1.0, goal=1.12),
    Target("training, 4 x 512, f32", ("training/4x512/r8",), figure="tokens_per_s", must=1.4,
           goal=1.8),
    Target("prompt of 512, against llama.cpp", ("prefill/512",), figure="tokens_per_s",
           precision="auto", peers="llama.cpp", must=1.2, goal=2.0),
    Target("decode after 512, against llama.cpp", ("decode/512",), figure="tokens_per_s",
           precision="auto", peers="llama.cpp", must=1.0, goal=1.4),
    Target("tools/demo after build (s)", ("demo",), figure="seconds", precision="auto", peers=None,
           must=300.0, goal=180.0),
)


def all_tables(measurement):
    return {"avx2_machine": machine_words(measurement),
            "avx2_targets": targets_table(measurement, TARGETS),
            **{f"avx2_{group}": group_table(measurement, group)
               for group in ("products", "training", "generation")}}
