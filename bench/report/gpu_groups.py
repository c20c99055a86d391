"""The groups of workloads that are measured together on a GPU: the kernels of LoRA training
compared with PyTorch, then entire jobs. In a round every contender of a group has one short run."""

from report import gpu_runs as who
from report.groups import Group

# Of Qwen2.5-0.5B and 7B: rows, and (N, K) of the linear layers.
JOB_ROWS = (8192, 4096)
LINEARS = ((128, 896), (896, 896), (4864, 896), (896, 4864),
           (512, 3584), (3584, 3584), (18944, 3584), (3584, 18944))
SQUARES = ("4096x4096x4096", "8192x8192x8192")
PRODUCTS = SQUARES + tuple(f"{rows}x{n}x{k}" for rows in JOB_ROWS for n, k in LINEARS)
ADAPTED = tuple(f"4096x{n}x{n}/r{r}" for n in (1024, 2048, 4096) for r in (8, 16, 64))
ONE_ROW = tuple(f"1x{d}x{d}/r8" for d in (512, 1024, 2048, 4096))
BASES = tuple(f"4096x{n}x{n}" for n in (1024, 2048, 4096))
ROW_OPS = ("softmax", "layer_norm", "rms_norm")
EQUAL_DOCUMENTS = ("8x1024x14x64", "8x1024x14x128", "4x1024x28x128")
ONE_DOCUMENT = ("1x16384x28x64", "1x16384x28x128")
PACKED = ("11x8192x14x64", "11x8192x14x128")
HEADS = ("8192x151936x896", "4096x151936x3584")
# Training steps of these sizes (records x length); the first of each model is also profiled.
JOBS = {"qwen2.5-0.5b": ("8x1024", "1x1024"), "qwen2.5-7b": ("4x1024",)}
SUSTAINED = ("--benchmark_min_time=0.4",)


def any_of(shapes):
    return f"({'|'.join(shapes)})"


def kernel_groups():
    adapter = (f"lora_(linear|expand)/fused/bf16/{any_of(ADAPTED + ONE_ROW)}|"
               f"gemm/fused/bf16/{any_of(BASES)}")
    backward = (f"lora_linear_backward/fused/bf16/{any_of(ADAPTED)}|"
                f"gemm_backward/fused/bf16/{any_of(BASES)}")
    return (
        Group("products", "Products of bf16", (
            who.ours(f"gemm/fused/bf16/{any_of(PRODUCTS)}", SUSTAINED),
            who.torch_gpu("PyTorch", "graph", "^gemm/", seconds=0.4))),
        Group("lora", "LoRA forward", (
            who.ours(adapter), who.torch_gpu("PyTorch", "graph", "^lora_linear/"))),
        Group("lora_backward", "LoRA backward", (
            who.ours(backward), who.torch_gpu("PyTorch", "graph", "^lora_linear_backward/"))),
        Group("rows", "Softmax and norms", (
            who.ours(f"{any_of(ROW_OPS)}/fused/(f32|bf16)/(32768x4096|1024x1024)"),
            who.torch_gpu("PyTorch", "graph", "^(softmax|layer_norm|rms_norm)/"))),
        Group("attention", "Attention", (
            who.ours("attention(_packed)?(_backward)?/fused/bf16/"
                     f"{any_of(EQUAL_DOCUMENTS + ONE_DOCUMENT + PACKED)}"),
            who.torch_gpu("PyTorch flash", "flash", "^attention"),
            who.torch_gpu("PyTorch cuDNN", "cudnn", "^attention"))),
        Group("head", "Head and loss, with the gradient", (
            who.ours(f"head_loss_backward/fused/bf16/{any_of(HEADS)}"),
            who.torch_gpu("PyTorch in chunks", "chunks", "^head_loss_backward/"),
            who.torch_gpu("PyTorch compiled", "compiled", "^head_loss_backward/"))))


def job_groups():
    """For each model: the profiles, which also fill the caches; then the compared runs; then the
    first step with empty caches."""
    for model, shapes in JOBS.items():
        short = model.rpartition("-")[2]
        first = f"training/fused/bf16/{shapes[0]}"
        yield Group(f"profile_{short}", f"A step of {model}, by op", tuple(
            who.jobs(model, pattern, profile=True, rounds=1)
            for pattern in (f"training/fused/bf16/{shape}" for shape in shapes)))
        yield Group(f"training_{short}", f"Training and decoding, {model}", (
            who.jobs(model, f"training/fused/bf16/{any_of(shapes)}|generation/fused/bf16/512"),))
        yield Group(f"cold_{short}", f"First step of {model}, caches empty", (
            who.jobs(model, first, cold=True, rounds=1),))


def all_groups():
    return (*kernel_groups(), *job_groups())
