"""Engine: generation for many requests at once, with an iterator for each of them."""
from __future__ import annotations

import asyncio
import atexit
import dataclasses
import queue
import threading
import weakref
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from types import TracebackType
from typing import Any

from . import _clora
from .adapter import Adapter
from .errors import Error, ErrorCode, invalid
from .generation import (Chunk, Generation, GenerationConfig, Prompt, chunk_of, ids_of, joined,
                         request_of)
from .model import Model

_Put = Callable[[Any], None]


class Submission:
    """The reply to one request, as it arrives.

    ``async for chunk in submission`` and ``for chunk in submission`` yield its chunks, once;
    :meth:`result` and :meth:`aresult` wait for the complete reply. The reply goes on if nobody
    reads; :meth:`cancel` ends it.
    """

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._events: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._wakes: asyncio.Event | None = None
        self._lock = threading.Lock()
        self._id = 0
        self._done = False

    def _put(self, event: Any) -> None:
        """Called by the engine's thread."""
        self._events.put(event)
        with self._lock:
            if self._loop is None or self._wakes is None:
                return
            try:
                self._loop.call_soon_threadsafe(self._wakes.set)
            except RuntimeError:  # the loop is closed, and nobody reads any more
                self._loop = None

    def _chunk_of(self, event: Any) -> Chunk:
        if isinstance(event, Exception):
            self._done = True
            raise event
        self._done = event["finish_reason"] is not None or bool(event["error"])
        return chunk_of(event)

    def __iter__(self) -> Iterator[Chunk]:
        while not self._done:
            yield self._chunk_of(self._events.get())

    async def __aiter__(self) -> AsyncIterator[Chunk]:
        wakes = asyncio.Event()
        with self._lock:
            self._loop, self._wakes = asyncio.get_running_loop(), wakes
        try:
            while not self._done:
                wakes.clear()
                try:
                    event = self._events.get_nowait()
                except queue.Empty:
                    await wakes.wait()
                    continue
                yield self._chunk_of(event)
        finally:
            if not self._done:
                self.cancel()

    def cancel(self) -> None:
        """Ends the reply; its last chunk has the finish_reason "cancelled"."""
        self._engine._cancel(self._id)

    def result(self) -> Generation:
        """Waits for the complete reply."""
        return joined(list(self))

    async def aresult(self) -> Generation:
        """Awaits the complete reply."""
        return joined([chunk async for chunk in self])


class Engine:
    """Generates for many requests at once, each with its own length, sampling and adapter.

    adapter: part of the model for all requests.
    max_sequences: requests that run at once; more wait.
    max_positions: of one request, prompt and reply.
    device_adapters, max_rank: adapters of requests that may be on the device at once, and their
        largest rank; 0: requests have none.
    cache_type: of keys and values: "auto", "f32", "bf16", "f16" or "q8_0".

    A thread of the engine runs the steps; every method may be called from any thread. ``close()``,
    or leaving ``with``, ends the thread and cancels what runs.
    """

    def __init__(self, model: Model, adapter: Adapter | None = None, *, max_sequences: int = 8,
                 max_positions: int = 4096, cache_positions: int = 0, step_tokens: int = 512,
                 cache_type: str = "auto", device_adapters: int = 0, max_rank: int = 0) -> None:
        self._model = model
        self._tokenizer = model._tokenizer
        self._engine = _clora.make_engine(
            model._model, adapter._adapter if adapter else None,
            self._tokenizer._text if self._tokenizer else None, max_sequences, max_positions,
            cache_positions, step_tokens, cache_type, device_adapters, max_rank)
        self._steps = _Steps(self._engine)
        _open.add(self._steps)

    def add_adapter(self, name: str, adapter: Adapter) -> None:
        """Makes an adapter available to requests by its name. Its values are copied."""
        self._engine.add_adapter(name, adapter._adapter)

    def remove_adapter(self, name: str) -> None:
        """Requests that use the adapter go on."""
        self._engine.remove_adapter(name)

    @property
    def adapters(self) -> list[str]:
        """The names of the adapters."""
        return list(self._engine.adapter_names())

    def submit(self, prompt: Prompt, *, adapter: str | Mapping[str, float] | None = None,
               config: GenerationConfig | None = None, **settings: Any) -> Submission:
        """Submits a request and returns its reply, of which nothing may have been computed yet.

        prompt: a text, token ids, or a conversation.
        adapter: the name of an adapter, or up to two names with factors of their terms.
        config, settings: a :class:`GenerationConfig`, and fields of it that replace its own.
        """
        chosen = dataclasses.replace(config or GenerationConfig(), **settings)
        request = request_of(ids_of(prompt, self._tokenizer), chosen, self._model.end_ids,
                             self._tokenizer)
        if adapter is not None:
            request.set_adapters([(adapter, 1.0)] if isinstance(adapter, str)
                                 else [(name, float(scale)) for name, scale in adapter.items()])
        submission = Submission(self)
        submission._id = self._steps.submit(request, submission._put)
        return submission

    def _cancel(self, request: int) -> None:
        self._engine.cancel(request)

    def statistics(self) -> dict[str, int]:
        """Requests that run and wait, pages of the cache, tokens, steps and memory_bytes."""
        return dict(self._engine.statistics())

    def close(self) -> None:
        """Cancels what runs and ends the thread."""
        self._steps.close()

    def __enter__(self) -> Engine:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None,
                 trace: TracebackType | None) -> None:
        self.close()

    def __del__(self) -> None:
        steps = getattr(self, "_steps", None)
        if steps is not None:
            steps.close(waits=False)


class _Steps:
    """The thread of an engine. It refers to the native engine only, so that an Engine that nobody
    holds any more ends it."""

    def __init__(self, engine: _clora.Engine) -> None:
        self._engine = engine
        self._readers: dict[int, _Put] = {}
        self._work = threading.Condition()
        self._closing = False
        self._thread = threading.Thread(target=self._run, name="clora engine", daemon=True)
        self._thread.start()

    def submit(self, request: _clora.GenerationRequest, put: _Put) -> int:
        with self._work:  # the thread looks for the reader of an event under the same lock
            if self._closing:
                raise invalid("engine: it is closed")
            number = self._engine.submit(request)
            self._readers[number] = put
            self._work.notify()
            return number

    def close(self, waits: bool = True) -> None:
        with self._work:
            self._closing = True
            for number in self._readers:
                self._engine.cancel(number)
            self._work.notify()
        if waits and threading.current_thread() is not self._thread:
            self._thread.join()

    def _wait(self) -> bool:
        """Waits for a request. False: the thread ends."""
        with self._work:
            while not self._readers and not self._closing:
                self._work.wait()
            return bool(self._readers)

    def _run(self) -> None:
        while self._wait():
            try:
                events = self._engine.step()
            except Error as error:  # of the device: all requests are lost
                self._fail_all(error)
                continue
            for event in events:
                self._pass_on(event)

    def _pass_on(self, event: dict[str, Any]) -> None:
        with self._work:
            is_last = event["finish_reason"] is not None or bool(event["error"])
            readers = self._readers
            put = (readers.pop if is_last else readers.get)(event["request"], None)
        if put is not None:
            put(event)

    def _fail_all(self, error: Error) -> None:
        with self._work:
            readers, self._readers = self._readers, {}
            if error.code == ErrorCode.DEVICE_LOST:
                self._closing = True
        for put in readers.values():
            put(error)


_open: weakref.WeakSet[_Steps] = weakref.WeakSet()


def _close_all() -> None:
    """A thread that waits for the device at the interpreter's end would end the process."""
    for steps in list(_open):
        steps.close()


atexit.register(_close_all)
