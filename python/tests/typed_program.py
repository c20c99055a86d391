"""A program that mypy --strict accepts, with the types that users rely on (test_package.py)."""
from __future__ import annotations

import numpy as np
import numpy.typing as npt

import clora


async def stream(engine: clora.Engine) -> str:
    text = ""
    async for chunk in engine.submit("Once", max_new_tokens=3, adapter={"a": 0.5}):
        text += chunk.text
    return text


def log(step: clora.Step) -> None:
    print(step.step, step.loss, step.scores.get("rewards/chosen"))


def train(path: str) -> dict[str, npt.NDArray[np.float32]]:
    model = clora.load(path, device="auto", memory="8GiB")
    config = clora.LoraConfig(r=16, target_modules="all-linear", use_rslora=True)
    trainer = clora.Trainer(model, config, [{"text": "A"}, "B"], epochs=2, callbacks=[log])
    summary: clora.Summary = trainer.train()
    print(summary.steps, trainer.history[-1].loss)
    return trainer.adapter.state_dict()


def use(model: clora.Model) -> npt.NDArray[np.float32]:
    ids: list[int] = model.tokenizer.apply_chat_template([{"role": "user", "content": "Hi"}])
    text: str = model.tokenizer.apply_chat_template([], tokenize=False)
    try:
        return model.logits(ids + model.tokenizer.encode(text))
    except clora.Error as error:
        code: clora.ErrorCode = error.code
        raise SystemExit(code.value) from error


def replies(model: clora.Model) -> list[str]:
    text: str = model.generate("Once", max_new_tokens=3)
    return [text, *model.generate("Once", stream=True)]
