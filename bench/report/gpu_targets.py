"""The targets of clora on an H200, as data (targets.py describes the kinds of targets)."""

from report.gpu_groups import (ADAPTED, EQUAL_DOCUMENTS, HEADS, ONE_DOCUMENT, ONE_ROW, PACKED,
                               PRODUCTS, ROW_OPS)
from report.targets import Target


def names(op, shapes, kind="bf16"):
    return tuple(f"{op}/{kind}/{shape}" for shape in shapes)


def rows(kind, shape):
    return tuple(f"{op}/{kind}/{shape}" for op in ROW_OPS)


def absolute(title, of, figure, must=None, goal=None):
    return Target(title, of, figure=figure, peers=None, must=must, goal=goal)


SMALL, LARGE = "qwen2.5-0.5b", "qwen2.5-7b"

KERNELS = (
    Target("bf16 product", names("gemm", PRODUCTS), must=0.98, goal=1.03),
    Target("LoRA forward, 4096 rows", names("lora_linear", ADAPTED), must=1.0),
    absolute("LoRA forward, 4096 rows, s given: times the bare product",
             names("lora_expand", ADAPTED), "of_base", must=1.05, goal=1.02),
    absolute("LoRA forward, 4096 rows, fused shrink: times the bare product",
             names("lora_linear", ADAPTED), "of_base", goal=1.08),
    absolute("LoRA backward, 4096 rows: times the bare product",
             names("lora_linear_backward", ADAPTED), "of_base", must=1.12, goal=1.06),
    Target("LoRA forward, one row", names("lora_linear", ONE_ROW), must=1.0),
    absolute("LoRA forward, one row (us)", names("lora_linear", ONE_ROW), "us", 5.0, 3.5),
    absolute("softmax and norms, 32768 x 4096, f32 (us)", rows("f32", "32768x4096"), "us", 300, 275),
    absolute("softmax and norms, 32768 x 4096, bf16 (us)", rows("bf16", "32768x4096"), "us", 150,
             138),
    absolute("softmax and norms, 1024 x 1024, f32 (us)", rows("f32", "1024x1024"), "us", 4.0, 3.3),
    Target("softmax and norms", sum((rows(kind, shape) for kind in ("f32", "bf16")
                                     for shape in ("32768x4096", "1024x1024")), ()), must=1.0),
    Target("attention, forward",
           names("attention", EQUAL_DOCUMENTS + ONE_DOCUMENT) + names("attention_packed", PACKED),
           must=1.0, goal=1.15),
    Target("attention, backward, 1024 rows and packed",
           names("attention_backward", EQUAL_DOCUMENTS) +
           names("attention_packed_backward", PACKED),
           must=1.1, goal=1.2),
    Target("attention, backward, 16384 rows", names("attention_backward", ONE_DOCUMENT), must=0.9,
           goal=1.2),
    Target("head and loss", names("head_loss_backward", HEADS), must=1.0),
    absolute("head and loss, D 896 (us)", names("head_loss_backward", HEADS[:1]), "us", goal=7260),
    absolute("head and loss, D 3584 (us)", names("head_loss_backward", HEADS[1:]), "us", goal=11880),
    absolute("head and loss: scratch (MiB)", names("head_loss_backward", HEADS), "scratch_mib",
             must=381),
)


def training(model, shape, tokens, memory=None):
    """Targets of one job: tokens per second, and GiB on the device; (must, goal) each."""
    work = (f"training/{model}/{shape}/r16",)
    yield absolute(f"training, {model}, {shape} (tokens/s)", work, "tokens_per_s", *tokens)
    if memory:
        yield absolute(f"training, {model}, {shape}: memory (GiB)", work, "peak_pool_gib", *memory)


def others(model, shape, decoded):
    yield absolute(f"first step, {model}, caches empty (s)",
                   (f"training_cold/{model}/{shape}/r16",), "first_step_s", 30, 10)
    yield absolute(f"first step, {model}, caches warm (s)", (f"training/{model}/{shape}/r16",),
                   "first_step_s", 5, 2)
    yield absolute(f"decoding, {model}, after 512 (tokens/s)", (f"decode/{model}/512",),
                   "tokens_per_s", *decoded)


JOBS = (*training(SMALL, "8x1024", (150_000, 220_000), (10, 8)),
        *training(SMALL, "1x1024", (75_000, 120_000)),
        *training(LARGE, "4x1024", (18_000, 21_500), (35, 28)),
        *others(SMALL, "8x1024", (900, 2000)), *others(LARGE, "4x1024", (180, 250)))
TARGETS = KERNELS + JOBS
