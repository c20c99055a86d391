"""Engines: many requests at once, by iterators."""
import asyncio
import gc

import numpy as np
import pytest

import clora

PROMPTS = ["Once upon a time", "The dog", "Tom had a red ball"]


@pytest.fixture
def engine(model):
    with clora.Engine(model, max_sequences=4, max_positions=256) as made:
        yield made


def test_async_iterators_yield_the_replies(model, engine):
    async def reply(prompt):
        return "".join([chunk.text async for chunk in engine.submit(prompt, max_new_tokens=12)])

    async def replies():
        return await asyncio.gather(*(reply(prompt) for prompt in PROMPTS))

    assert asyncio.run(replies()) == model.generate(PROMPTS, max_new_tokens=12)


def test_other_coroutines_run_between_the_chunks(engine):
    async def both():
        ticks = 0

        async def tick():
            nonlocal ticks
            while True:
                ticks += 1
                await asyncio.sleep(0)

        task = asyncio.create_task(tick())
        reply = await engine.submit("Once upon a time", max_new_tokens=30).aresult()
        task.cancel()
        return reply, ticks

    reply, ticks = asyncio.run(both())
    assert len(reply.tokens) == 30 and ticks > 5


def test_results_can_be_waited_for_without_a_loop(model, engine):
    submissions = [engine.submit(prompt, max_new_tokens=12) for prompt in PROMPTS]
    texts = [submission.result().text for submission in submissions]
    assert texts == model.generate(PROMPTS, max_new_tokens=12)
    assert engine.statistics()["generated_tokens"] == 36


def test_cancelled_replies_end(engine):
    submission = engine.submit("Once upon a time", max_new_tokens=200)
    next(iter(submission))
    submission.cancel()
    assert list(submission)[-1].finish_reason == "cancelled"


def test_an_async_reply_that_is_left_early_is_cancelled(engine, monkeypatch):
    cancelled = []
    cancel = engine._cancel
    monkeypatch.setattr(engine, "_cancel", lambda request: (cancelled.append(1), cancel(request)))

    async def first():
        async for chunk in engine.submit("Once upon a time", max_new_tokens=200):
            return chunk

    assert asyncio.run(first()).text
    assert cancelled == [1]


def test_requests_have_adapters_of_their_own(model):
    adapters = {}
    for seed in (1, 2):
        adapter = model.add_adapter(clora.LoraConfig(r=4))
        random = np.random.default_rng(seed)
        adapter.load_state_dict({
            name: random.normal(size=values.shape) * 0.1
            for name, values in adapter.state_dict().items()})
        adapters[f"a{seed}"] = adapter
    with clora.Engine(model, max_positions=128, device_adapters=2, max_rank=4) as engine:
        for name, adapter in adapters.items():
            engine.add_adapter(name, adapter)
        assert engine.adapters == ["a1", "a2"]
        replies = {name: engine.submit("Once upon a time", adapter=name, max_new_tokens=12)
                   for name in [*adapters, None]}
        texts = {name: reply.result().text for name, reply in replies.items()}
        assert len(set(texts.values())) == 3
        for name, adapter in [*adapters.items(), (None, None)]:
            assert texts[name] == model.generate("Once upon a time", adapter=adapter,
                                                 max_new_tokens=12)
        engine.remove_adapter("a1")
        with pytest.raises(ValueError, match="a1"):
            engine.submit("Once", adapter="a1")


def test_errors_of_a_request_are_raised_where_it_is_submitted(engine):
    with pytest.raises(ValueError):
        engine.submit([])
    with pytest.raises(ValueError):
        engine.submit("Once", temperature=-1.0)


def test_a_closed_engine_takes_no_requests(model):
    engine = clora.Engine(model, max_positions=64)
    submission = engine.submit("Once upon a time", max_new_tokens=60)
    engine.close()
    assert list(submission)[-1].finish_reason in ("cancelled", "length")
    with pytest.raises(ValueError, match="closed"):
        engine.submit("Once")


def test_an_engine_that_nobody_holds_ends_its_thread(model):
    engine = clora.Engine(model, max_positions=64)
    thread = engine._steps._thread
    del engine
    gc.collect()
    thread.join(timeout=30)
    assert not thread.is_alive()
