"""Models: loading, logits and generation."""
from __future__ import annotations

import dataclasses
import json
import os
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Literal, overload

import numpy as np
import numpy.typing as npt

from . import _clora
from .adapter import Adapter, LoraConfig, create_adapter, load_adapter
from .context import Context
from .errors import Error
from .generation import (Chunk, Generation, GenerationConfig, Prompt, chunk_of, ids_of, is_many,
                         joined, request_of)
from .tokenizer import Tokenizer

_MAX_SEQUENCES = 16  # that generate() computes at once
_PAGE = 256  # positions by which a cache grows


@dataclasses.dataclass
class _Engine:
    """An engine that generate() uses again, if the next call needs no more than it has."""

    engine: _clora.Engine
    adapter: _clora.Adapter | None
    version: int  # of the adapter's values
    sequences: int
    positions: int

    def fits(self, adapter: _clora.Adapter | None, version: int, sequences: int,
             positions: int) -> bool:
        return (self.adapter is adapter and self.version == version
                and self.sequences >= sequences and self.positions >= positions)


def _cancel(engine: _clora.Engine, running: dict[int, int]) -> None:
    for request in running:
        engine.cancel(request)
    while running and not engine.is_idle():
        engine.step()


class Model:
    """A frozen language model on a device. ``clora.load(path)`` returns one.

    Any thread may use it; calls take turns on the device, and release the interpreter's lock.
    """

    def __init__(self, model: _clora.Model, tokenizer: Tokenizer | None, problem: str) -> None:
        self._model = model
        self._tokenizer = tokenizer
        self._tokenizer_problem = problem
        self._engine: _Engine | None = None  # of the last generate()

    @property
    def tokenizer(self) -> Tokenizer:
        """The tokenizer of the model's files. Error: they have none that is supported."""
        if self._tokenizer is None:
            raise Error(self._tokenizer_problem, "unsupported")
        return self._tokenizer

    @property
    def path(self) -> str:
        """The folder or file that the model was loaded from."""
        return self._model.path

    @property
    def context(self) -> Context:
        """The device that the model is on."""
        return Context._of(self._model.context)

    @property
    def config(self) -> dict[str, Any]:
        """The model's configuration, as the config.json of Hugging Face."""
        return dict(json.loads(self._model.config_json))

    @property
    def vocab_size(self) -> int:
        """The number of logits of a position (V)."""
        return self._model.vocabulary

    @property
    def max_positions(self) -> int:
        """The longest text in tokens; 0: unknown."""
        return self._model.max_positions

    @property
    def weight_bytes(self) -> int:
        """Device memory of the weights."""
        return self._model.weight_bytes

    def memory(self) -> dict[str, int]:
        """Bytes of device memory, as :meth:`Context.memory`."""
        return self.context.memory()

    def profile(self, by: Literal["op", "shape"] = "op") -> list[dict[str, Any]]:
        """Device times, as :meth:`Context.profile`. Needs ``load(..., profile=True)``."""
        return self.context.profile(by)

    def logits(self, ids: Sequence[int] | npt.NDArray[np.integer[Any]], *,
               adapter: Adapter | None = None, last: bool = False) -> npt.NDArray[np.float32]:
        """Returns the logits [T, V] of T token ids: row t predicts the token after ids[t].

        last: only the last row, [1, V], which takes less time and memory.
        """
        values = [int(id) for id in ids]
        return self._model.logits(values, adapter._adapter if adapter else None, last)

    def add_adapter(self, config: LoraConfig | None = None) -> Adapter:
        """Returns a new adapter, as :func:`create_adapter`."""
        return create_adapter(self, config)

    def load_adapter(self, path: str | os.PathLike[str]) -> Adapter:
        """Returns the adapter of a folder, as :func:`clora.load_adapter`."""
        return load_adapter(self, path)

    def fuse(self, adapter: Adapter | None, path: str | os.PathLike[str], *,
             dtype: str | None = None) -> dict[str, Any]:
        """Writes the model merged with an adapter, or alone (None), with its tokenizer.

        path: a new GGUF file if it ends in .gguf, else a folder of Hugging Face's format.
        dtype: of the matrices: of a folder "f32" (the default), "f16" or "bf16"; of a GGUF file also
            quantised types ("q8_0", "q4_0", "q4_k", "q6_k", ...), and by default those of the
            model's own files, of which only layers with an adapter are converted.

        Returns facts of a GGUF file: bytes, tensors copied and converted, and what its tokenizer or
        types lack; nothing of a folder. One tensor at a time is in memory.
        """
        native = adapter._adapter if adapter else None
        target = os.fspath(path)
        if target.endswith(".gguf"):
            return dict(self._model.fuse_gguf(native, target, dtype or ""))
        self._model.fuse_folder(native, target, dtype or "f32")
        return {}

    @property
    def end_ids(self) -> list[int]:
        """The tokens that end a reply."""
        ids = set(self._model.eos_ids)
        if self._tokenizer is not None:
            ids.update(self._tokenizer.end_of_generation)
        return sorted(ids)

    @overload
    def generate(self, prompts: str, *, adapter: Adapter | None = None,
                 config: GenerationConfig | None = None, stream: Literal[False] = False,
                 details: Literal[False] = False, **settings: Any) -> str: ...
    @overload
    def generate(self, prompts: str, *, adapter: Adapter | None = None,
                 config: GenerationConfig | None = None, stream: Literal[True],
                 details: Literal[False] = False, **settings: Any) -> Iterator[str]: ...
    @overload
    def generate(self, prompts: Prompt | Sequence[Prompt], *, adapter: Adapter | None = None,
                 config: GenerationConfig | None = None, stream: bool = False,
                 details: bool = False, **settings: Any) -> Any: ...

    def generate(self, prompts: Any, *, adapter: Adapter | None = None,
                 config: GenerationConfig | None = None, stream: bool = False,
                 details: bool = False, **settings: Any) -> Any:
        """Generates replies to prompts, several at once.

        prompts: a text, token ids, or a conversation (to which the chat template is applied); or a
            list of these.
        config, settings: a :class:`GenerationConfig`, and fields of it that replace its own.
        stream: return an iterator instead, over texts as they arrive (of one prompt), or over
            :class:`Chunk` objects with the index of their prompt (of several, or with details).
        details: :class:`Generation` objects in place of texts.

        Returns a text for one prompt, and a list of texts for a list of prompts.
        """
        many = is_many(prompts)
        each = list(prompts) if many else [prompts]
        chosen = dataclasses.replace(config or GenerationConfig(), **settings)
        chunks = self._chunks([ids_of(prompt, self._tokenizer) for prompt in each], adapter, chosen)
        if stream:
            return chunks if many or details else (chunk.text for chunk in chunks if chunk.text)
        replies = _replies(chunks, len(each))
        results: list[Any] = replies if details else [reply.text for reply in replies]
        return results if many else results[0]

    def _chunks(self, prompts: list[list[int]], adapter: Adapter | None,
                config: GenerationConfig) -> Iterator[Chunk]:
        taken = self._take_engine(prompts, adapter, config)
        engine = taken.engine
        requests = [request_of(prompt, config, self.end_ids, self._tokenizer) for prompt in prompts]
        running: dict[int, int] = {}
        try:
            for index, request in enumerate(requests):
                running[engine.submit(request)] = index
            while running:
                for event in engine.step():
                    index = running.get(event["request"], -1)
                    if event["finish_reason"] is not None or event["error"]:
                        running.pop(event["request"], None)
                    if index >= 0:
                        yield chunk_of(event, index)
        finally:  # also where the caller stops reading
            _cancel(engine, running)
            self._engine = taken

    def _take_engine(self, prompts: list[list[int]], adapter: Adapter | None,
                     config: GenerationConfig) -> _Engine:
        """Takes the engine of the last call if it fits, so that no other call uses it meanwhile."""
        longest = max((len(prompt) for prompt in prompts), default=0) + config.max_new_tokens
        positions = -(-longest // _PAGE) * _PAGE
        if self.max_positions > 0:
            positions = min(positions, self.max_positions)
        sequences = min(max(len(prompts), 1), _MAX_SEQUENCES)
        native = adapter._adapter if adapter else None
        version = native.version if native else 0
        held, self._engine = self._engine, None
        if held is not None and held.fits(native, version, sequences, positions):
            return held
        held = None  # its memory is free for the next one
        engine = _clora.make_engine(self._model, native,
                                    self._tokenizer._text if self._tokenizer else None, sequences,
                                    positions, 0, 512, "auto", 0, 0)
        return _Engine(engine, native, version, sequences, positions)

    def release(self) -> None:
        """Frees the memory that :meth:`logits` and :meth:`generate` keep for their next call."""
        self._engine = None
        self._model.forget_forward()

    def __repr__(self) -> str:
        return f"clora.Model({self.path!r}, {self.weight_bytes / 2**20:.1f} MiB of weights)"


def _replies(chunks: Iterator[Chunk], count: int) -> list[Generation]:
    parts: list[list[Chunk]] = [[] for _ in range(count)]
    for chunk in chunks:
        parts[chunk.index].append(chunk)
    return [joined(each) for each in parts]


def load(path: str | os.PathLike[str], device: str | int | Context = "auto", *,
         memory: int | str | None = None, precision: Literal["auto", "f32"] = "f32",
         context_length: int = 0, chat_template: str | None = None, profile: bool = False,
         progress: Callable[[float], bool | None] | None = None) -> Model:
    """Loads a model: a .gguf file, a folder with config.json and model.safetensors, or
    "hf://OWNER/NAME" out of the local cache of the Hugging Face hub.

    device: as in :class:`Context`, or a context that is shared with other models.
    memory: the most device memory that may be used, such as ``"8GiB"``; training chooses what it
        keeps in memory by it.
    precision: as in :class:`Context`.
    context_length: the longest context in use, for models whose rope depends on it.
    chat_template: in place of the model's own, as in :class:`Tokenizer`.
    progress: called with the loaded share of the bytes, from 0 to 1; False ends the load.

    Weights keep the storage type of their files on the device.
    """
    context = device if isinstance(device, Context) else Context(
        device, memory=memory, precision=precision, profile=profile)

    def report(share: float) -> bool:
        return progress is None or progress(share) is not False

    model = _clora.load_model(context._context, os.fspath(path), context_length, report)
    try:
        return Model(model, Tokenizer(path, chat_template), "")
    except Error as error:
        if chat_template is not None:
            raise
        return Model(model, None, str(error))
