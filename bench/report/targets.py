"""The targets of clora, as data: each target is a line of the report's table.

A target against peers compares clora's median with the best peer's median of the same work; its
must and goal are ratios, 1.3 being 1.3 times as fast (or as small). An absolute target has no
peers, and its must and goal are in the unit of the figure. Among several workloads the worst
decides; with together=True their times are summed first."""

import re
from dataclasses import dataclass

# The sizes M x N x K of y [M, N] = x [M, K] W^T that both the peers' scripts and clora_bench have.
LAYER_PRODUCTS = ("gemm/2048x576x576", "gemm/2048x192x576", "gemm/2048x1536x576",
                  "gemm/2048x576x1536")
# The number of each product in a layer: q and o; k and v; gate and up; down.
LAYER_COUNTS = dict(zip(LAYER_PRODUCTS, (2, 2, 2, 1)))
MIDDLE_PRODUCTS = ("gemm/256x576x576", "gemm/256x1536x576")
SMALL_PRODUCTS = ("gemm/64x512x512", "gemm/64x1024x1024", "gemm/64x2048x2048")
LORA = tuple(f"lora_linear/64x{d}x{d}/r8" for d in (512, 1024, 2048)) + tuple(
    f"lora_linear/64x1024x1024/r{r}" for r in (4, 16, 32, 64))
LORA_ROW = tuple(f"lora_linear/1x{d}x{d}/r8" for d in (512, 1024, 2048))
NORMS = ("softmax", "layer_norm", "rms_norm")
LARGE_ROWS = tuple(f"{op}/1024x1024" for op in NORMS)
SMALL_ROWS = tuple(f"{op}/64x1024" for op in NORMS)
LORA_STEP = ("lora_linear_step/32x512x512/r8",)
# The cost of the adapter needs a plain product of the same shape.
ADAPTER_WIDE = ("adapter/64x2048x2048/r8", "adapter/2048x1536x576/r16")
ADAPTER_ALL = ("adapter/64x512x512/r8", "adapter/64x1024x1024/r8") + ADAPTER_WIDE


@dataclass(frozen=True)
class Target:
    title: str
    workloads: tuple
    figure: str = "us"
    precision: str = "f32"   # of clora; f32 is compared with f32 only, auto with the best
    peers: str | None = ".*"  # a pattern of contenders; None: an absolute target
    must: float | None = None
    goal: float | None = None
    together: bool = False
    must_with: tuple = ()    # (CPU flag, must) if that flag implies another must

    def ours(self):
        return "clora" if self.precision == "f32" else "clora auto"

    def allows(self, contender):
        """Whether the contender is one of this target's peers."""
        if self.precision == "f32" and contender.endswith(" bf16"):
            return False
        return self.peers is not None and re.search(self.peers, contender) is not None

    def must_on(self, cpu_flags):
        """The must on a machine with these flags."""
        return next((must for flag, must in self.must_with if flag in cpu_flags), self.must)


TARGETS = (
    Target("f32 product, 256 to 2048 rows", LAYER_PRODUCTS + MIDDLE_PRODUCTS, must=1.0, goal=1.05,
           peers="PyTorch|oneDNN", must_with=(("amx_bf16", 0.85),)),
    Target("bf16 product, a training layer's together", LAYER_PRODUCTS, precision="auto",
           peers="PyTorch|oneDNN", together=True, must=1.0, goal=1.15),
    Target("bf16 product, 64 rows", SMALL_PRODUCTS, precision="auto", peers="PyTorch|oneDNN",
           must=1.3, goal=1.6),
    Target("LoRA forward, f32, against PyTorch", LORA, peers="PyTorch", must=1.0, goal=1.3),
    Target("LoRA forward, f32, against MLX", LORA, peers="MLX", must=1.5, goal=2.5),
    Target("LoRA forward, auto precision", LORA, precision="auto", must=1.3, goal=2.0),
    Target("LoRA forward, one row, f32", LORA_ROW, must=1.0),
    Target("LoRA forward, one row, % of the memory's bandwidth",
           tuple(f"{work}/cold" for work in LORA_ROW), figure="percent_of_roofline", peers=None,
           goal=80.0),
    Target("the adapter adds, fused against unfused (fraction)", ADAPTER_ALL,
           figure="of_unfused", peers=None, must=0.5),
    Target("the adapter adds, N >= 1536, r <= 32 (%)", ADAPTER_WIDE, figure="added_percent",
           peers=None, must=10.0, goal=5.0),
    Target("softmax and norms, 1024 x 1024, f32", LARGE_ROWS, must=1.0, goal=1.2),
    Target("softmax and norms, 1024 x 1024, bf16", LARGE_ROWS, precision="auto", must=1.0,
           goal=1.2),
    Target("softmax and norms, 64 x 1024, f32", SMALL_ROWS, goal=1.0),
    Target("LoRA forward and backward, (2,16,512), f32", LORA_STEP, must=1.3, goal=2.0),
    Target("training, 4 x 512, f32", ("training/4x512/r8",), figure="tokens_per_s", must=1.1,
           goal=1.5),
    Target("training, 4 x 512, auto", ("training/4x512/r8",), figure="tokens_per_s",
           precision="auto", must=1.5, goal=2.5),
    Target("training, 4 x 512, auto: peak memory (GiB)", ("training_memory/4x512/r8",),
           figure="peak_rss_gib", precision="auto", peers=None, must=1.5, goal=1.0),
    Target("training, 4 x 512, auto: first step, caches empty (s)", ("training_cold/4x512/r8",),
           figure="first_step_s", precision="auto", peers=None, must=20.0, goal=5.0),
    Target("training, 1 x 128, f32", ("training/1x128/r8",), figure="tokens_per_s", must=2.0,
           goal=4.0),
    Target("training, 1 x 128, auto", ("training/1x128/r8",), figure="tokens_per_s",
           precision="auto", must=2.0, goal=4.0),
    Target("decode from empty, against llama.cpp", ("decode/16",), figure="tokens_per_s",
           precision="auto", peers="llama.cpp", must=1.1, goal=1.6),
    Target("decode after 512, against llama.cpp", ("decode/512",), figure="tokens_per_s",
           precision="auto", peers="llama.cpp", must=1.1, goal=1.6),
    Target("prompt of 512, against llama.cpp", ("prefill/512",), figure="tokens_per_s",
           precision="auto", peers="llama.cpp", must=3.0, goal=6.0),
    Target("prompt of 512, against transformers", ("prefill/512",), figure="tokens_per_s",
           precision="auto", peers="transformers", must=1.1, goal=2.0),
    Target("start to first token, warm caches (s)", ("start",), figure="first_token_s",
           precision="auto", peers=None, must=0.6, goal=0.25),
    Target("tools/demo after build (s)", ("demo",), figure="seconds", precision="auto", peers=None,
           must=120.0, goal=60.0),
)
