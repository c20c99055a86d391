"""Requests of generation and what they yield."""
from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Union

from . import _clora
from .errors import Error, invalid
from .tokenizer import Tokenizer

# A text, a conversation, or token ids.
Prompt = Union[str, Sequence[int], Sequence[Mapping[str, Any]]]


@dataclass
class GenerationConfig:
    """How replies are generated.

    max_new_tokens: the most tokens of a reply; fewer if the model has no more positions.
    temperature: 0 takes the likeliest token.
    top_k, top_p, min_p, typical_p: filters of tokens; 0, 1, 0 and 1 are off.
    repetition_penalty, presence_penalty, frequency_penalty: 1, 0 and 0 are off.
    seed: of the draws. The same seed gives the same reply, whatever else runs.
    stop: texts that end a reply, which does not contain them.
    logprobs: alternatives to report with the log-probability (in nats) of each token; None: none
        are reported.
    json_schema: a JSON Schema that the reply matches; grammar: the same in GBNF.
    draft_tokens: tokens that are guessed from earlier ones and verified in a step.
    """

    max_new_tokens: int = 256
    temperature: float = 0.0
    top_k: int = 0
    top_p: float = 1.0
    min_p: float = 0.0
    typical_p: float = 1.0
    repetition_penalty: float = 1.0
    presence_penalty: float = 0.0
    frequency_penalty: float = 0.0
    logit_bias: Mapping[int, float] = field(default_factory=dict)
    seed: int = 0
    stop: str | Sequence[str] = ()
    logprobs: int | None = None
    json_schema: str | Mapping[str, Any] | None = None
    grammar: str | None = None
    draft_tokens: int = 0


@dataclass
class Token:
    """A token of a reply; logprob and top_logprobs (id, log-probability) if requested."""

    id: int
    logprob: float
    top_logprobs: list[tuple[int, float]]


@dataclass
class Chunk:
    """A part of a reply: complete characters, and the tokens that came with them.

    The last chunk of a reply has a finish_reason: "stop", "length" or "cancelled".
    """

    text: str
    tokens: list[Token]
    finish_reason: str | None = None
    prompt_tokens: int = 0
    cached_tokens: int = 0
    index: int = 0  # of the prompt

    @property
    def ids(self) -> list[int]:
        """The ids of the tokens."""
        return [token.id for token in self.tokens]


@dataclass
class Generation:
    """A complete reply."""

    text: str
    tokens: list[Token]
    finish_reason: str
    prompt_tokens: int
    cached_tokens: int  # of the prompt, which were computed before

    @property
    def ids(self) -> list[int]:
        """The ids of the tokens, without the one that ended the reply."""
        return [token.id for token in self.tokens]


def chunk_of(event: Mapping[str, Any], index: int = 0) -> Chunk:
    """Returns the chunk of an event of the engine. Raises the error of a request that failed."""
    if event["error"]:
        raise Error(event["error"], event["error_code"])
    tokens = [Token(token["id"], token["logprob"], token["top_logprobs"])
              for token in event["tokens"]]
    return Chunk(event["text"], tokens, event["finish_reason"], event["prompt_tokens"],
                 event["cached_tokens"], index)


def joined(chunks: Sequence[Chunk]) -> Generation:
    """Returns the reply of all of its chunks."""
    last = chunks[-1]
    return Generation("".join(chunk.text for chunk in chunks),
                      [token for chunk in chunks for token in chunk.tokens],
                      last.finish_reason or "cancelled", last.prompt_tokens, last.cached_tokens)


def ids_of(prompt: Prompt, tokenizer: Tokenizer | None) -> list[int]:
    """Returns the tokens of a prompt. A conversation ends with the beginning of a reply."""
    if isinstance(prompt, str) or (len(prompt) > 0 and isinstance(prompt[0], Mapping)):
        if tokenizer is None:
            raise invalid("generate: the model has no tokenizer; give token ids")
        if isinstance(prompt, str):
            return tokenizer.encode(prompt)
        return tokenizer.apply_chat_template(
            prompt, add_generation_prompt=True)  # type: ignore[arg-type]
    return [int(id) for id in prompt]  # type: ignore[arg-type]


def is_many(prompts: Any) -> bool:
    """Whether these are several prompts, and not one conversation or one prompt's ids."""
    if isinstance(prompts, str) or len(prompts) == 0:
        return False
    first = prompts[0]
    return isinstance(first, str) or (isinstance(first, Sequence) or hasattr(first, "tolist")
                                      and getattr(first, "ndim", 0) > 0)


def request_of(prompt: list[int], config: GenerationConfig, end_ids: Sequence[int],
               tokenizer: Tokenizer | None) -> _clora.GenerationRequest:
    """Returns the engine's request."""
    request = _clora.GenerationRequest()
    request.prompt = prompt
    request.max_tokens = config.max_new_tokens
    request.end_ids = list(end_ids)
    request.stop_texts = [config.stop] if isinstance(config.stop, str) else list(config.stop)
    request.draft_tokens = config.draft_tokens
    sampling = request.sampling
    for name in ("temperature", "top_k", "top_p", "min_p", "typical_p", "repetition_penalty",
                 "presence_penalty", "frequency_penalty", "seed"):
        setattr(sampling, name, getattr(config, name))
    sampling.logit_bias = [(int(id), float(bias)) for id, bias in config.logit_bias.items()]
    sampling.logprobs = config.logprobs is not None
    sampling.top_logprobs = config.logprobs or 0
    _set_grammar(request, config, tokenizer)
    return request


def _set_grammar(request: _clora.GenerationRequest, config: GenerationConfig,
                 tokenizer: Tokenizer | None) -> None:
    if config.json_schema is None and config.grammar is None:
        return
    if tokenizer is None or (config.json_schema is not None and config.grammar is not None):
        raise invalid("generate: a model with a tokenizer, and one of json_schema and grammar, "
                      "are required")
    schema = config.json_schema or ""
    text = schema if isinstance(schema, str) else json.dumps(schema)
    request.set_grammar(tokenizer._text, text, config.grammar or "")
