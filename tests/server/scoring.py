"""Scores texts through the API, as evaluation harnesses do: perplexity, and the likeliest of
several continuations. The API gives the log-probability of each token of a prompt."""
import math


def token_ids(server, text):
    status, answer = server.json("/tokenize", {"prompt": text})
    assert status == 200, answer
    return answer["tokens"]


def measured(server, model, prompts, max_tokens=0, logprobs=1):
    """The choices for prompts of token ids, without any reply or with one that is cut off."""
    reply = server.client.completions.create(model=model, prompt=prompts, max_tokens=max_tokens,
                                             temperature=0, echo=True, logprobs=logprobs)
    assert reply.usage.prompt_tokens == sum(map(len, prompts)), "the prompts were taken as they are"
    return reply.choices


def log_likelihoods(server, model, context, continuations):
    """Of each token of each continuation, after the context, which has a token at least."""
    choices = measured(server, model, [context + continuation for continuation in continuations])
    return [choice.logprobs.token_logprobs[len(context):] for choice in choices]


def mean_loss(server, model, text):
    """(mean negative log-likelihood, tokens) of all tokens of the text but the first."""
    ids = token_ids(server, text)
    each, = log_likelihoods(server, model, ids[:1], [ids[1:]])
    return -math.fsum(each) / len(each), len(each)


def choice_losses(server, model, question, choices):
    """The negative log-likelihood of each choice after the question; the least is the answer."""
    context = token_ids(server, question)
    texts = [token_ids(server, question + choice) for choice in choices]
    assert all(text[:len(context)] == context for text in texts), "no token is part of both"
    return [-math.fsum(each) for each in log_likelihoods(
        server, model, context, [text[len(context):] for text in texts])]
