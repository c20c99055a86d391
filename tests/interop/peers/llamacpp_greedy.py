"""The likeliest tokens after prompts by llama-cpp-python: a job on stdin, lists of ids on stdout."""
import json
import sys

import llama_cpp
import numpy


def greedy(model, prompt, count):
    model.reset()
    ids = []
    model.eval(prompt)
    for _ in range(count):
        ids.append(int(numpy.argmax(model.scores[model.n_tokens - 1])))
        model.eval(ids[-1:])
    return ids


def main():
    job = json.load(sys.stdin)
    model = llama_cpp.Llama(job["model"], lora_path=job["adapter"], n_ctx=256, logits_all=True,
                            type_k=0, type_v=0, verbose=False)
    print(json.dumps([greedy(model, prompt, job["count"]) for prompt in job["prompts"]]))


if __name__ == "__main__":
    main()
