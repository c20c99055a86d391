"""LoRA fine-tuning and serving of language models on any OpenCL device.

    import clora
    model = clora.load("model.gguf")
    trainer = clora.Trainer(model, clora.LoraConfig(r=16), data="train.jsonl", epochs=2)
    trainer.train()
    print(model.generate("Once upon a time", adapter=trainer.adapter))
"""
from .opencl_loader import require_opencl_loader

require_opencl_loader()

from . import ops  # noqa: E402
from ._clora import version as __version__  # noqa: E402
from .adapter import Adapter, LoraConfig, create_adapter, load_adapter  # noqa: E402
from .context import Context, devices  # noqa: E402
from .data import Records, load_records  # noqa: E402
from .engine import Engine, Submission  # noqa: E402
from .errors import Error, ErrorCode, InvalidArgumentError, OutOfMemoryError  # noqa: E402
from .generation import Chunk, Generation, GenerationConfig, Token  # noqa: E402
from .model import Model, load  # noqa: E402
from .arrays import Batch, Tensor  # noqa: E402
from .tokenizer import Tokenizer  # noqa: E402
from .trainer import (Callback, Evaluation, Step, Summary, Trainer, TrainingConfig,  # noqa: E402
                      evaluate)

__all__ = [
    "Adapter", "Batch", "Callback", "Chunk", "Context", "Engine", "Error", "ErrorCode",
    "Evaluation", "Generation", "GenerationConfig", "InvalidArgumentError", "LoraConfig", "Model",
    "OutOfMemoryError", "Records", "Step", "Submission", "Summary", "Tensor", "Token", "Tokenizer",
    "Trainer", "TrainingConfig", "__version__", "create_adapter", "devices", "evaluate", "load",
    "load_adapter", "load_records", "ops",
]
