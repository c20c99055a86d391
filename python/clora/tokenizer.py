"""Tokenizers: texts to token ids and back, and chat templates."""
from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal, overload

from . import _clora

Message = Mapping[str, Any]


def _messages_of(conversation: Sequence[Message], tools: Sequence[Any] | None,
                 arguments: Mapping[str, Any]) -> str:
    value: dict[str, Any] = {"messages": [dict(message) for message in conversation]}
    if tools:
        value["tools"] = list(tools)
    if arguments:
        value["chat_template_kwargs"] = dict(arguments)
    return json.dumps(value, ensure_ascii=False)


class Tokenizer:
    """The tokenizer of a model, from its folder or its GGUF file.

    chat_template: the name of a built-in template ("chatml", ...) or Jinja text, in place of the
        model's own.

    Immutable: any number of threads may use it.
    """

    def __init__(self, model: str | os.PathLike[str], chat_template: str | None = None) -> None:
        self._text = _clora.load_text(os.fspath(model), chat_template or "")

    def encode(self, text: str, *, add_special_tokens: bool = True,
               parse_special: bool = False) -> list[int]:
        """Returns the token ids of a text.

        add_special_tokens: begin with bos if the model expects one.
        parse_special: ``<|im_end|>`` and the like in the text become their tokens, else they are
            plain text.
        """
        return self._text.encode(text, add_special_tokens, parse_special)

    def decode(self, ids: Iterable[int], *, skip_special_tokens: bool = True) -> str:
        """Returns the text of token ids. Bytes that are not UTF-8 become U+FFFD."""
        values = [int(id) for id in ids]
        return self._text.decode(values, skip_special_tokens).decode("utf-8", "replace")

    __call__ = encode

    @overload
    def apply_chat_template(self, conversation: Sequence[Message], *,
                            tokenize: Literal[True] = True, add_generation_prompt: bool = False,
                            tools: Sequence[Any] | None = None, enable_thinking: bool = True,
                            **arguments: Any) -> list[int]: ...
    @overload
    def apply_chat_template(self, conversation: Sequence[Message], *, tokenize: Literal[False],
                            add_generation_prompt: bool = False,
                            tools: Sequence[Any] | None = None, enable_thinking: bool = True,
                            **arguments: Any) -> str: ...

    def apply_chat_template(self, conversation: Sequence[Message], *, tokenize: bool = True,
                            add_generation_prompt: bool = False,
                            tools: Sequence[Any] | None = None, enable_thinking: bool = True,
                            **arguments: Any) -> list[int] | str:
        """Returns a conversation in the model's format, as token ids or as text.

        conversation: messages, each with "role" and "content".
        add_generation_prompt: end with the beginning of an assistant's turn.
        tools: JSON schemas of functions, as in OpenAI's API.
        enable_thinking, arguments: variables of the template.

        Special tokens in contents are plain text, so that no content can forge a turn.
        """
        value = _messages_of(conversation, tools, arguments)
        if tokenize:
            return self._text.encode_chat(value, add_generation_prompt, enable_thinking)
        return self._text.render(value, add_generation_prompt, enable_thinking)

    def convert_tokens_to_ids(self, token: str) -> int | None:
        """Returns the id of a token of the vocabulary; None if there is none."""
        return self._text.id_of(token)

    def convert_ids_to_tokens(self, id: int) -> str:
        """Returns the token of an id, as in the model's files."""
        return self._text.token_of(id)

    @property
    def vocab_size(self) -> int:
        """The number of tokens."""
        return self._text.vocab_size

    @property
    def bos_token_id(self) -> int | None:
        """The token that begins a text."""
        return self._text.bos

    @property
    def eos_token_id(self) -> int | None:
        """The token that ends a text."""
        return self._text.eos

    @property
    def end_of_generation(self) -> list[int]:
        """All tokens that end a reply: eos, ``<|im_end|>``, ``<|eot_id|>``, ..."""
        return list(self._text.end_ids)

    @property
    def chat_template(self) -> str:
        """The Jinja text of the model's files; empty if they have none."""
        return self._text.chat_template

    def __len__(self) -> int:
        return self.vocab_size
