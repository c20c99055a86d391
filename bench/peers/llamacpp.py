#!/usr/bin/env python3
"""Times llama.cpp on the CPU with a GGUF model, through llama-cpp-python: a prompt, greedy decoding
from a (nearly) empty cache and after the prompt, and the time from the start of loading to the
first token. Prints a JSON line for each.
"""

import argparse
import ctypes
import os
import time

import llama_cpp
import numpy

from peer_lines import add_common_options, print_line, rates, spread_of


class Engine:
    def __init__(self, args):
        start = time.perf_counter()
        positions = args.prompt + args.decode + args.short + 1
        self.llm = llama_cpp.Llama(args.model, n_ctx=positions, n_batch=args.prompt,
                                   n_ubatch=args.prompt, n_threads=args.threads,
                                   n_threads_batch=args.threads, verbose=False)
        self.vocabulary = self.llm.n_vocab()
        random = numpy.random.default_rng(0)
        self.prompt = [int(i) for i in random.integers(17, self.vocabulary, args.prompt)]
        self.feed(self.prompt[:2])
        self.first_token_s = time.perf_counter() - start

    def feed(self, ids: list[int]) -> numpy.ndarray:
        """Appends the ids to the cache; returns a view of the last position's logits."""
        tokens = (llama_cpp.llama_token * len(ids))(*ids)  # the batch points into it
        if llama_cpp.llama_decode(self.llm.ctx,
                                  llama_cpp.llama_batch_get_one(tokens, len(ids))) != 0:
            raise RuntimeError("llama_decode failed")
        logits = llama_cpp.llama_get_logits_ith(self.llm.ctx, -1)
        pointer = ctypes.cast(logits, ctypes.POINTER(ctypes.c_float))
        return numpy.ctypeslib.as_array(pointer, (self.vocabulary,))

    def prompt_and_decode(self, length: int, count: int) -> tuple[float, float]:
        """Seconds of a prompt on an empty cache, and of `count` tokens decoded after it."""
        llama_cpp.llama_memory_clear(llama_cpp.llama_get_memory(self.llm.ctx), True)
        start = time.perf_counter()
        logits = self.feed(self.prompt[:length])
        between = time.perf_counter()
        for _ in range(count):
            logits = self.feed([int(numpy.argmax(logits))])
        return between - start, time.perf_counter() - between


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("model", help="a .gguf file")
    parser.add_argument("--prompt", type=int, default=512, help="prompt tokens (default 512)")
    parser.add_argument("--short", type=int, default=16,
                        help="tokens of the short prompt (default 16)")
    parser.add_argument("--decode", type=int, default=128, help="tokens to decode (default 128)")
    parser.add_argument("--repeats", type=int, default=5,
                        help="timed runs after a warm-up (default 5)")
    add_common_options(parser)
    args = parser.parse_args()
    engine = Engine(args)
    common = {"peer": "llama.cpp", "version": llama_cpp.__version__, "mode": "default",
              "dtype": "as in the file", "model": os.path.basename(args.model),
              "threads": args.threads, "repeats": args.repeats}
    if args.only.search("start"):
        print_line(**common, work="start",
                   **spread_of("first_token_s", [engine.first_token_s], digits=3))
    for length in (args.short, args.prompt):
        prefill, decode = f"prefill/{length}", f"decode/{length}"
        if not args.only.search(prefill) and not args.only.search(decode):
            continue
        engine.prompt_and_decode(length, args.decode)
        seconds = [engine.prompt_and_decode(length, args.decode) for _ in range(args.repeats)]
        for work, tokens, part in ((prefill, length, 0), (decode, args.decode, 1)):
            if args.only.search(work):
                print_line(**common, work=work, **rates(tokens, [times[part] for times in seconds]))


if __name__ == "__main__":
    main()
