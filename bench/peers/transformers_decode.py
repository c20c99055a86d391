#!/usr/bin/env python3
"""Times transformers on the CPU, batch 1: the prefill of a prompt, then greedy decoding after it
with a KV cache. SmolLM2-135M's shape with random weights. Prints one JSON line for each of the two.
"""

import argparse
import time

import torch
import transformers
from transformers import LlamaForCausalLM

from peer_lines import add_common_options, print_line, rates
from model_shapes import MODEL, VOCABULARY, random_model


@torch.inference_mode()
def prompt_and_decode(model: LlamaForCausalLM, ids: torch.Tensor,
                      count: int) -> tuple[float, float]:
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
    parser.add_argument("--decode", type=int, default=128, help="tokens to decode (default 128)")
    parser.add_argument("--repeats", type=int, default=5,
                        help="timed runs after a warm-up (default 5)")
    parser.add_argument("--dtype", choices=("f32", "bf16"), default="f32")
    add_common_options(parser)
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    model = random_model().eval()
    if args.dtype == "bf16":
        model = model.to(torch.bfloat16)
    ids = torch.randint(0, VOCABULARY, (1, args.prompt))
    prompt_and_decode(model, ids, args.decode)
    timed = [prompt_and_decode(model, ids, args.decode) for _ in range(args.repeats)]
    common = {"peer": "transformers", "version": transformers.__version__,
              "torch": torch.__version__, "mode": "eager", "dtype": args.dtype, "model": MODEL,
              "threads": torch.get_num_threads(), "repeats": args.repeats}
    for work, tokens, part in ((f"prefill/{args.prompt}", args.prompt, 0),
                               (f"decode/{args.prompt}", args.decode, 1)):
        if args.only.search(work):
            print_line(**common, work=work, **rates(tokens, [times[part] for times in timed]))


if __name__ == "__main__":
    main()
