"""Prompts whose greedy replies rounding does not decide, so that two programs must give the same."""
import numpy

PROMPTS, COUNT = 20, 24  # prompts, and the tokens of a reply
ATTEMPTS = 60 * PROMPTS


def margin(model, vocabulary, prompt, reply, adapter):
    """The least difference of the two largest logits along a reply."""
    logits = model.logits(prompt + reply, vocabulary, adapter)[len(prompt) - 1:-1]
    ordered = numpy.sort(logits, axis=1)
    return float((ordered[:, -1] - ordered[:, -2]).min())


def clear_prompts(model, vocabulary, least_margin, adapter=None, count=COUNT):
    """PROMPTS random prompts with a margin of at least least_margin, and their replies.

    Replies that end before count tokens are left out: llama.cpp goes on after the end token.
    """
    random = numpy.random.default_rng(11)
    prompts, replies = [], []
    for _ in range(ATTEMPTS):
        prompt = [1] + random.integers(3, vocabulary, 5).tolist()
        reply = model.greedy([prompt], count, adapter)[0]
        if len(reply) < count or margin(model, vocabulary, prompt, reply, adapter) < least_margin:
            continue
        prompts.append(prompt)
        replies.append(reply)
        if len(prompts) == PROMPTS:
            return prompts, replies
    raise AssertionError(f"{len(prompts)} of {ATTEMPTS} prompts have a clear reply")
