"""Scores texts through the API, as evaluation harnesses do: perplexity, and the likeliest of
several continuations.

The API gives no log-probabilities of a prompt. So each token is generated: a bias makes it the
greedy choice after all tokens before it, and its log-probability is the model's, to which biases do
not apply. The server computes each prefix only once, since it is cached.
"""
import concurrent.futures
import math

BIAS = 100  # as far as OpenAI's API goes; more than logits differ
CLIENTS = 8


def token_ids(server, text, special=True):
    status, answer = server.json("/tokenize", {"prompt": text, "add_special_tokens": special})
    assert status == 200, answer
    return answer["tokens"]


def log_likelihood(server, model, ids, at):
    """Of the token ids[at] after those before it."""
    reply = server.client.completions.create(
        model=model, prompt=ids[:at], max_tokens=1, temperature=0, logprobs=1,
        logit_bias={str(ids[at]): BIAS}, extra_body={"ignore_eos": True})
    logprobs = reply.choices[0].logprobs
    assert reply.usage.prompt_tokens == at, "the prompt was taken as it is"
    assert len(logprobs.token_logprobs) == 1
    return logprobs.token_logprobs[0]


def log_likelihoods(server, model, context, continuation):
    """Of each token of the continuation, after the context, which has a token at least."""
    ids = context + continuation
    with concurrent.futures.ThreadPoolExecutor(CLIENTS) as pool:
        return list(pool.map(lambda at: log_likelihood(server, model, ids, at),
                             range(len(context), len(ids))))


def mean_loss(server, model, text):
    """(mean negative log-likelihood, tokens) of all tokens of the text but the first."""
    ids = token_ids(server, text)
    each = log_likelihoods(server, model, ids[:1], ids[1:])
    return -math.fsum(each) / len(each), len(each)


def choice_losses(server, model, question, choices):
    """The negative log-likelihood of each choice after the question; the least is the answer."""
    context = token_ids(server, question)
    return [-math.fsum(log_likelihoods(server, model, context,
                                       token_ids(server, choice, special=False)))
            for choice in choices]
