"""The workloads that bench/peers/torch_gpu_ops.py times, by mode. Their names are those of
clora_bench, with the type and without the form."""

PRODUCTS = ["4096x4096x4096", "8192x8192x8192"] + [
    f"{rows}x{n}x{k}" for rows in (8192, 4096)
    for n, k in ((128, 896), (896, 896), (4864, 896), (896, 4864),
                 (512, 3584), (3584, 3584), (18944, 3584), (3584, 18944))]
ADAPTED = [f"4096x{n}x{n}/r{r}" for n in (1024, 2048, 4096) for r in (8, 16, 64)]
ONE_ROW = [f"1x{d}x{d}/r8" for d in (512, 1024, 2048, 4096)]
ROWS = ["32768x4096", "1024x1024"]
ROW_OPS = ["softmax", "layer_norm", "rms_norm"]
ATTENTION = ["8x1024x14x64", "8x1024x14x128", "4x1024x28x128", "1x16384x28x64", "1x16384x28x128"]
PACKED = ["11x8192x14x64", "11x8192x14x128"]
HEADS = ["8192x151936x896", "4096x151936x3584"]
# The packed documents of bench/attention_large_bench.cpp.
PACKED_LENGTHS = (2048, 700, 1300, 33, 911, 128, 1024, 600, 900, 448, 100)

ATTENTIONS = [f"attention{suffix}/bf16/{shape}" for suffix in ("", "_backward")
              for shape in ATTENTION]
WORKS = {
    "graph": [f"gemm/bf16/{shape}" for shape in PRODUCTS] +
             [f"lora_linear/bf16/{shape}" for shape in ADAPTED + ONE_ROW] +
             [f"lora_linear_backward/bf16/{shape}" for shape in ADAPTED] +
             [f"{op}/{kind}/{shape}" for op in ROW_OPS for kind in ("f32", "bf16")
              for shape in ROWS],
    "flash": ATTENTIONS + [f"attention_packed{suffix}/bf16/{shape}"
                           for suffix in ("", "_backward") for shape in PACKED],
    "cudnn": ATTENTIONS,
    "chunks": [f"head_loss_backward/bf16/{shape}" for shape in HEADS],
    "compiled": [f"head_loss_backward/bf16/{shape}" for shape in HEADS]}
