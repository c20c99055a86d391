"""What both peer scripts share: a model of SmolLM2-135M's shape with random weights, the timing
loop, and the JSON line that they print.

Random weights are enough: the time of a step does not depend on their values.
"""

import json
import os
import resource
import statistics
import time
from collections.abc import Callable

import torch
from transformers import LlamaConfig, LlamaForCausalLM

LINEARS = ("q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj")


def random_model() -> LlamaForCausalLM:
    torch.manual_seed(0)
    config = LlamaConfig(
        hidden_size=576, intermediate_size=1536, num_hidden_layers=30, num_attention_heads=9,
        num_key_value_heads=3, head_dim=64, vocab_size=49152, max_position_embeddings=8192,
        tie_word_embeddings=True, rms_norm_eps=1e-5, attn_implementation="sdpa",
        rope_parameters={"rope_type": "default", "rope_theta": 100000.0})
    return LlamaForCausalLM(config).float()


def seconds_of(work: Callable[[], object], warm_up: int, repeats: int) -> list[float]:
    for _ in range(warm_up):
        work()
    seconds = []
    for _ in range(repeats):
        start = time.perf_counter()
        work()
        seconds.append(time.perf_counter() - start)
    return seconds


def rates(tokens: int, seconds: list[float]) -> dict[str, float]:
    """Tokens a second: of the median repeat, and the least and the most of all."""
    return {"tokens_per_s": round(tokens / statistics.median(seconds), 1),
            "tokens_per_s_least": round(tokens / max(seconds), 1),
            "tokens_per_s_most": round(tokens / min(seconds), 1)}


def cpu_name() -> str:
    with open("/proc/cpuinfo", encoding="utf-8") as lines:
        return next((line.split(":", 1)[1].strip() for line in lines
                     if line.startswith("model name")), "unknown")


def print_line(**values: object) -> None:
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    malloc = "tcmalloc" if "tcmalloc" in os.environ.get("LD_PRELOAD", "") else "glibc"
    print(json.dumps({**values, "model": "SmolLM2-135M shape, random weights", "dtype": "f32",
                      "threads": torch.get_num_threads(), "malloc": malloc,
                      "peak_rss_gib": round(peak, 2), "torch": torch.__version__,
                      "cpu": cpu_name(), "cores": os.cpu_count()}), flush=True)
