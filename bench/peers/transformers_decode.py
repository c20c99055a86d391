#!/usr/bin/env python3
"""Times transformers on the CPU in f32, batch 1: reading a prompt, then greedy decoding after it with
a KV cache. SmolLM2-135M's shape with random weights. Prints one JSON line for each of the two.
"""

import argparse
import time

import torch
import transformers
from transformers import LlamaForCausalLM

from smollm2_shape import print_line, random_model, rates


@torch.inference_mode()
def prompt_and_decode(model: LlamaForCausalLM, ids: torch.Tensor, count: int) -> tuple[float, float]:
    """Seconds of the prompt, and of `count` tokens decoded after it."""
    start = time.perf_counter()
    out = model(input_ids=ids, use_cache=True, logits_to_keep=1)
    between = time.perf_counter()
    for _ in range(count):
        following = out.logits[:, -1].argmax(-1, keepdim=True)
        out = model(input_ids=following, past_key_values=out.past_key_values, use_cache=True)
    return between - start, time.perf_counter() - between


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--prompt", type=int, default=512, help="prompt tokens (default 512)")
    parser.add_argument("--decode", type=int, default=128, help="decoded tokens (default 128)")
    parser.add_argument("--repeats", type=int, default=5, help="timed, after one (default 5)")
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    model = random_model().eval()
    ids = torch.randint(0, 49152, (1, args.prompt))
    prompt_and_decode(model, ids, args.decode)
    timed = [prompt_and_decode(model, ids, args.decode) for _ in range(args.repeats)]
    common = {"peer": "transformers", "version": transformers.__version__, "batch": 1,
              "prompt": args.prompt, "decode": args.decode, "repeats": args.repeats}
    print_line(**common, work="prefill", **rates(args.prompt, [t[0] for t in timed]))
    print_line(**common, work="decode", **rates(args.decode, [t[1] for t in timed]))


if __name__ == "__main__":
    main()
