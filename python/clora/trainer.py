"""Trainer: fine-tunes an adapter, as a complete run or step by step."""
from __future__ import annotations

import dataclasses
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, Union

from . import _clora
from .adapter import Adapter, LoraConfig, create_adapter
from .data import Data, Record, Records, load_records
from .errors import invalid
from .model import Model
from .progress import Progress, step_text

Loss = Literal["sft", "dpo", "ipo", "orpo", "kto"]


@dataclass
class TrainingConfig:
    """The settings of a run. Losses are in nats per token, lengths in tokens.

    batch_size: records of a micro-batch; gradient_accumulation_steps: micro-batches of a step.
    max_steps: optimiser steps; 0: as many as ``epochs`` has.
    lr_scheduler_type: "constant", "linear", "cosine" or "wsd" (warm-up, stable, decay).
    warmup_steps or warmup_ratio: steps, or share of the steps, with a linear warm-up from 0.
    decay_ratio: share of the steps in which "wsd" decays. min_lr_ratio: where schedules end.
    max_grad_norm: at which gradients are clipped; 0: off.
    optimizer: "adamw", "adamw-8bit", "lion", "sgd" or "muon"; optimizer_args: beta1, beta2,
        epsilon, momentum, nesterov, loraplus_lr_ratio, saved_lr_ratio.
    loss: "sft" (the next token), or a preference loss, with beta and loss_label_smoothing.
    label_smoothing, z_loss, neftune_noise_alpha: of "sft".
    eval_steps: steps between evaluations of the held-out records; 0: only at the end.
    early_stopping_patience: evaluations without an improvement by more than min_improvement after
        which the run ends, with the best adapter; 0: off.
    save_steps: steps between checkpoints in output_dir; 0: none.
    adapter_format: "peft", or "mlx" or "gguf" in which the adapter in output_dir is written besides.
    ema_decay: of an average of the adapter, saved in output_dir/ema; 0: none.
    max_seq_length: at which records are cut.
    gradient_checkpointing: blocks of which only the first input is kept; False or 0: everything is
        kept. saved_activations: "computed", "bf16", "f16" or "q8". feed_forward_tile: rows at a
        time. If all three are None, what fits the memory limit is chosen.
    """

    output_dir: str | os.PathLike[str] | None = None
    batch_size: int = 4
    gradient_accumulation_steps: int = 1
    epochs: float = 1.0
    max_steps: int = 0
    learning_rate: float = 2e-4
    lr_scheduler_type: Literal["constant", "linear", "cosine", "wsd"] = "constant"
    warmup_steps: int = 0
    warmup_ratio: float = 0.0
    decay_ratio: float = 0.2
    min_lr_ratio: float = 0.0
    weight_decay: float = 0.0
    max_grad_norm: float = 0.0
    optimizer: Literal["adamw", "adamw-8bit", "lion", "sgd", "muon"] = "adamw"
    optimizer_args: Mapping[str, Any] = field(default_factory=dict)
    loss: Loss = "sft"
    beta: float = 0.1
    loss_label_smoothing: float = 0.0
    label_smoothing: float = 0.0
    z_loss: float = 0.0
    neftune_noise_alpha: float = 0.0
    router_aux_loss_coef: float = 0.0
    seed: int = 0
    shuffle: bool = True
    eval_steps: int = 0
    early_stopping_patience: int = 0
    min_improvement: float = 0.0
    save_steps: int = 0
    adapter_format: Literal["peft", "mlx", "gguf"] = "peft"
    ema_decay: float = 0.0
    max_seq_length: int = 512
    apply_chat_template: bool = False
    gradient_checkpointing: int | bool | None = None
    saved_activations: Literal["computed", "bf16", "f16", "q8"] | None = None
    feed_forward_tile: int | None = None

    def _plans_memory(self) -> bool:
        given = (self.gradient_checkpointing, self.saved_activations, self.feed_forward_tile)
        return all(value is None for value in given)

    def _native(self) -> _clora.RunConfig:
        run = _clora.RunConfig()
        for ours, native in _SAME.items():
            setattr(run, native, getattr(self, ours))
        run.set_schedule(self.lr_scheduler_type)
        run.set_adapter_format(self.adapter_format)
        run.set_loss(self.loss, self.beta, self.loss_label_smoothing)
        run.adapter_out = os.fspath(self.output_dir) if self.output_dir is not None else ""
        run.optimizer.kind = self.optimizer
        for name, value in self.optimizer_args.items():
            if name not in _OPTIMIZER_ARGS:
                raise invalid(f"Trainer: optimizer_args are {', '.join(_OPTIMIZER_ARGS)}, got "
                              f"{name!r}")
            setattr(run.optimizer, name, value)
        run.supervised.label_smoothing = self.label_smoothing
        run.supervised.z_loss = self.z_loss
        run.supervised.neftune_alpha = self.neftune_noise_alpha
        if not self._plans_memory():
            run.set_policy(int(self.gradient_checkpointing or 0), self.feed_forward_tile or 0,
                           self.saved_activations or "computed")
        return run


_SAME = {"batch_size": "batch_size", "gradient_accumulation_steps": "grad_accumulation",
         "epochs": "epochs", "max_steps": "steps", "learning_rate": "learning_rate",
         "warmup_steps": "warmup_steps", "warmup_ratio": "warmup_share",
         "decay_ratio": "decay_share", "min_lr_ratio": "min_rate_share",
         "weight_decay": "weight_decay", "max_grad_norm": "clip_norm",
         "router_aux_loss_coef": "router_aux_loss_coef", "seed": "seed", "shuffle": "shuffle",
         "eval_steps": "eval_every", "early_stopping_patience": "patience",
         "min_improvement": "min_improvement", "save_steps": "save_every",
         "ema_decay": "average_decay", "max_seq_length": "max_seq_length"}
_OPTIMIZER_ARGS = ("beta1", "beta2", "epsilon", "momentum", "nesterov", "loraplus_lr_ratio",
                   "saved_lr_ratio")


@dataclass
class Step:
    """The result of an optimiser step: the loss before the update, over its targets."""

    step: int  # from 1
    loss: float
    tokens: int  # targets
    learning_rate: float
    grad_norm: float  # before clipping
    tokens_per_s: float  # over the last steps; 0 in Trainer.step()
    scores: dict[str, float]  # of a preference loss, by TRL's names


@dataclass
class Evaluation:
    """The mean loss of held-out records."""

    step: int
    loss: float
    tokens: int
    seconds: float
    scores: dict[str, float]


@dataclass
class Summary:
    """A run that has ended."""

    steps: int
    seconds: float
    final_loss: float
    stopped: bool  # by a callback
    ended_early: bool  # by early stopping
    best: Evaluation | None = None  # with early stopping


class Callback:
    """Functions that a run calls. Override those of interest; an exception ends the run."""

    def on_step(self, step: Step) -> bool | None:
        """After each step. Returning False ends the run after the step, and saves."""
        return None

    def on_evaluate(self, evaluation: Evaluation) -> bool | None:
        """After each evaluation. Returning False ends the run."""
        return None

    def on_save(self, step: int, path: str) -> None:
        """After each checkpoint."""


class _StepCallback(Callback):
    def __init__(self, function: Callable[[Step], bool | None]) -> None:
        self._function = function

    def on_step(self, step: Step) -> bool | None:
        return self._function(step)


Callbacks = Sequence[Union[Callback, Callable[[Step], Union[bool, None]]]]
_PREFERENCE_RECORDS = {"sft": "", "kto": "labelled"}  # else pairs


class _Run:
    """What the callbacks of one run keep."""

    def __init__(self, callbacks: Sequence[Callback], progress: Progress, total: int) -> None:
        self._callbacks = callbacks
        self._progress = progress
        self._total = total
        self.stops = False
        self.steps: list[Step] = []
        self.evaluations: list[Evaluation] = []

    def on_step(self, values: dict[str, Any]) -> None:
        self.steps.append(Step(**values))
        self._progress.update(step_text(values, self._total))
        for callback in self._callbacks:
            self.stops |= callback.on_step(self.steps[-1]) is False

    def on_evaluate(self, values: dict[str, Any]) -> None:
        self.evaluations.append(Evaluation(**values))
        for callback in self._callbacks:
            self.stops |= callback.on_evaluate(self.evaluations[-1]) is False

    def on_save(self, step: int, path: str) -> None:
        for callback in self._callbacks:
            callback.on_save(step, path)


class Trainer:
    """Fine-tunes an adapter of a model.

    adapter: an :class:`Adapter`, or a :class:`LoraConfig` for a new one.
    data, valid: records, as :func:`load_records` takes them; both may be left out for own loops.
    config, settings: a :class:`TrainingConfig`, and fields of it that replace its own.
    callbacks: functions that are called with each :class:`Step`, or :class:`Callback` objects. The
        model may be used in them.
    progress: show the steps; None: on a terminal and in notebooks.

    ``train()`` is a complete run. ``step(batch)`` is one step of a loop of your own; its optimiser
    keeps its state between calls, until ``train()`` begins a run.
    """

    def __init__(self, model: Model, adapter: Adapter | LoraConfig | None = None,
                 data: Data | Records | None = None, valid: Data | Records | None = None, *,
                 config: TrainingConfig | None = None, callbacks: Callbacks = (),
                 progress: bool | None = None, **settings: Any) -> None:
        self.model = model
        self.config = dataclasses.replace(config or TrainingConfig(), **settings)
        self._run_config = self.config._native()
        self.adapter = adapter if isinstance(adapter, Adapter) else create_adapter(model, adapter)
        self.data = self._records(data) if data is not None else None
        self.valid = self._records(valid) if valid is not None else None
        self._callbacks = [each if isinstance(each, Callback) else _StepCallback(each)
                           for each in callbacks]
        self._progress = progress
        self._stepper: _clora.StepTrainer | None = None
        self.history: list[Step] = []  # of the last run, or of all calls of step()
        self.evaluations: list[Evaluation] = []

    def _records(self, data: Data | Records) -> Records:
        if isinstance(data, Records):
            return data
        config = self.config
        return load_records(data, self.model.tokenizer, max_seq_length=config.max_seq_length,
                            apply_chat_template=config.apply_chat_template,
                            preference=_PREFERENCE_RECORDS.get(config.loss, "pairs"),
                            max_positions=self.model.max_positions)

    @property
    def total_steps(self) -> int:
        """The optimiser steps of a complete run."""
        if self.data is None:
            raise invalid("Trainer: a run needs data, got none")
        return _clora.total_steps(self._run_config, self.data._records)

    def learning_rate_at(self, step: int) -> float:
        """The learning rate of a step of a run, from 1."""
        return _clora.learning_rate_at(self._run_config, step, self.total_steps)

    def train(self, resume_from: str | os.PathLike[str] | None = None) -> Summary:
        """Runs the training and returns its summary; ``history`` and ``evaluations`` have more.

        resume_from: a checkpoint of an earlier run with the same settings, data and model.

        Saves the adapter to output_dir at the end, if there is one. Ctrl-C raises
        KeyboardInterrupt between two steps.
        """
        total = self.total_steps
        assert self.data is not None
        self._stepper = None
        progress = Progress(self._progress)
        run = _Run(self._callbacks, progress, total)
        self.history, self.evaluations = run.steps, run.evaluations
        values = _clora.train(
            self.model._model, self.adapter._adapter, self.data._records,
            self.valid._records if self.valid is not None else None, self._run_config,
            self.config._plans_memory(), os.fspath(resume_from) if resume_from else "",
            run.on_step, run.on_evaluate, run.on_save, lambda: run.stops)
        best = values.pop("best", None)
        summary = Summary(best=Evaluation(**best) if best else None, **values)
        progress.done(f"{summary.steps} steps in {summary.seconds:.1f} s, "
                      f"loss {summary.final_loss:.4f}")
        return summary

    def step(self, batch: Records | Iterable[Record], *,
             learning_rate: float | None = None) -> Step:
        """Takes one optimiser step on a batch of records, and waits for its result.

        A batch of more than batch_size records is computed in several micro-batches, with the same
        result. The learning rate is that of the configuration unless it is given.
        """
        records = batch if isinstance(batch, Records) else self._records(list(batch))
        if self._stepper is None:
            self._stepper = _clora.StepTrainer(self.model._model, self.adapter._adapter,
                                               self._run_config)
        rate = self.config.learning_rate if learning_rate is None else learning_rate
        values = self._stepper.step(records._records, self.config.batch_size, rate)
        self.history.append(Step(**values))
        return self.history[-1]

    def evaluate(self, data: Data | Records | None = None) -> Evaluation:
        """Returns the mean loss per target of records; of the held-out ones by default."""
        records = self.valid if data is None else self._records(data)
        if records is None:
            raise invalid("Trainer: evaluate() needs records, got none")
        values = _clora.evaluate(self.model._model, self.adapter._adapter, records._records)
        return Evaluation(**values)

    def save(self, path: str | os.PathLike[str] | None = None) -> None:
        """Writes the adapter, to output_dir by default."""
        target = path if path is not None else self.config.output_dir
        if target is None:
            raise invalid("Trainer: save() needs a path or output_dir, got neither")
        self.adapter.save(target)


def evaluate(model: Model, data: Data | Records, *, adapter: Adapter | None = None,
             max_seq_length: int = 512) -> Evaluation:
    """Returns the mean loss per target of records under a model, with or without an adapter."""
    records = data if isinstance(data, Records) else load_records(
        data, model.tokenizer, max_seq_length=max_seq_length, max_positions=model.max_positions)
    native = adapter._adapter if adapter else None
    return Evaluation(**_clora.evaluate(model._model, native, records._records))
