"""Adapters: LoRA matrices of a model, as NumPy arrays and as files of PEFT, mlx-lm and GGUF."""
from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, Union

import numpy as np
import numpy.typing as npt

from . import _clora
from .errors import invalid

if TYPE_CHECKING:
    from .model import Model

F32 = npt.NDArray[np.float32]
Targets = Union[str, Sequence[str]]

_PREFIX = "base_model.model."
_EMBEDDINGS = "model.embed_tokens"


@dataclass
class LoraConfig:
    """What a new adapter is; the fields are those of PEFT's LoraConfig.

    r: rank of the matrices.
    lora_alpha: the adapter's output is scaled by lora_alpha / r, or with use_rslora by
        lora_alpha / sqrt(r).
    lora_dropout: probability, in training, of an input of the adapter to be dropped.
    target_modules: ``"all-linear"`` (of the blocks), names such as ``["q_proj", "v_proj"]``, or a
        regular expression of full paths; ``embed_tokens`` and ``lm_head`` only if they are named.
    use_dora: train the magnitudes of the layers' outputs, too (DoRA).
    modules_to_save, bias: what is trained in full.
    init_lora_weights: True (A random, B = 0), ``"pissa"`` or ``"olora"``; the saved adapter of the
        latter two has twice the rank and needs no change of the base model.
    seed: of the first matrices.
    """

    r: int = 8
    lora_alpha: float = 16
    lora_dropout: float = 0.0
    target_modules: Targets = "all-linear"
    exclude_modules: Targets = ()
    use_rslora: bool = False
    use_dora: bool = False
    layers_to_transform: int | Sequence[int] | None = None
    layers_pattern: str | Sequence[str] | None = None
    rank_pattern: Mapping[str, int] = field(default_factory=dict)
    alpha_pattern: Mapping[str, float] = field(default_factory=dict)
    modules_to_save: Sequence[str] = ()
    bias: Literal["none", "all", "lora_only"] = "none"
    init_lora_weights: bool | Literal["pissa", "olora"] = True
    seed: int = 0

    def _options(self) -> _clora.AdapterOptions:
        options = _clora.AdapterOptions()
        options.all_linear = self.target_modules == "all-linear"
        options.bias = self.bias
        if self.init_lora_weights is False:
            raise invalid("LoraConfig: init_lora_weights must be True, 'pissa' or 'olora', got "
                          "False, of which the first output would not be the base model's")
        options.start = "lora" if self.init_lora_weights is True else str(self.init_lora_weights)
        options.seed = self.seed
        options.config = self._native()
        return options

    def _native(self) -> _clora.AdapterConfig:
        config = _clora.AdapterConfig()
        config.rank = self.r
        config.alpha = self.lora_alpha
        config.dropout = self.lora_dropout
        config.rank_stabilised = self.use_rslora
        config.use_dora = self.use_dora
        if self.target_modules != "all-linear":
            config.targets_are_regex = isinstance(self.target_modules, str)
            config.target_modules = _listed(self.target_modules)
        config.excludes_are_regex = isinstance(self.exclude_modules, str)
        config.exclude_modules = _listed(self.exclude_modules)
        if self.layers_to_transform is not None:
            layers = self.layers_to_transform
            config.layers_to_transform = [layers] if isinstance(layers, int) else list(layers)
        if self.layers_pattern is not None:
            config.layers_pattern = _listed(self.layers_pattern)
        config.rank_pattern = list(self.rank_pattern.items())
        config.alpha_pattern = [(name, float(alpha)) for name, alpha in self.alpha_pattern.items()]
        config.modules_to_save = list(self.modules_to_save)
        return config


def _listed(names: str | Sequence[str]) -> list[str]:
    return [names] if isinstance(names, str) else list(names)


class Adapter:
    """The matrices of a LoRA on the model's device.

    ``clora.create_adapter(model, LoraConfig(...))`` makes a new one, ``clora.load_adapter(model,
    path)`` reads one. Methods copy from or to the device and wait for it.
    """

    def __init__(self, model: _clora.Model, adapter: _clora.Adapter) -> None:
        self._model = model
        self._adapter = adapter

    @property
    def trainable_parameters(self) -> int:
        """The number of trained values."""
        return self._adapter.trainable_parameters

    @property
    def modules(self) -> list[dict[str, Any]]:
        """The adapted layers: path, inputs (K), outputs (N), rank and scale of each."""
        wanted = ("path", "inputs", "outputs", "rank", "scale")
        return [{name: module[name] for name in wanted} for module in self._adapter.modules]

    @property
    def rank(self) -> int:
        """The rank of layers without one of their own."""
        return self._adapter.config.rank

    def save(self, path: str | os.PathLike[str],
             format: Literal["peft", "mlx", "gguf"] = "peft") -> dict[str, int]:
        """Writes the adapter, so that it computes the same there.

        format: a folder of PEFT (adapter_config.json, adapter_model.safetensors) or of mlx-lm, or a
            GGUF file for llama.cpp. What a format cannot hold is refused by name.

        Returns the numbers of layers whose B was multiplied, as the format has no scale of their
        own (folded), whose values were rounded by that, and that got ranks of zeros (padded).
        """
        return dict(_clora.save_adapter(self._model, self._adapter, os.fspath(path), format))

    def _views(self, flat: F32) -> dict[str, F32]:
        """Views of the flat parameters by PEFT's names."""
        views: dict[str, F32] = {}
        for module in self._adapter.modules:
            rank, inputs, outputs = module["rank"], module["inputs"], module["outputs"]
            path, at_a, at_bt = module["path"], module["a_offset"], module["bt_offset"]
            names = (("lora_embedding_A", "lora_embedding_B") if path == _EMBEDDINGS
                     else ("lora_A.weight", "lora_B.weight"))
            a = flat[at_a:at_a + rank * inputs].reshape(rank, inputs)
            b = flat[at_bt:at_bt + rank * outputs].reshape(rank, outputs).T
            views[f"{_PREFIX}{path}.{names[0]}"] = a
            views[f"{_PREFIX}{path}.{names[1]}"] = b
            if "magnitude_offset" in module:
                at = module["magnitude_offset"]
                views[f"{_PREFIX}{path}.lora_magnitude_vector"] = flat[at:at + outputs]
        views.update(self._saved_views(flat))
        return views

    def _saved_views(self, flat: F32) -> dict[str, F32]:
        adapted = {module["path"] for module in self._adapter.modules}
        views: dict[str, F32] = {}
        for name, shape, offset in self._adapter.saved_tensors:
            module, _, last = name.rpartition(".")
            layer = f"{module}.base_layer" if last == "bias" and module in adapted else module
            count = int(np.prod(shape))
            views[f"{_PREFIX}{layer}.{last}"] = flat[offset:offset + count].reshape(shape)
        return views

    def state_dict(self) -> dict[str, F32]:
        """Returns copies of all tensors, f32, by the names of PEFT's files.

        ``base_model.model.PATH.lora_A.weight`` [r, K] and ``.lora_B.weight`` [N, r] of each adapted
        layer, ``.lora_magnitude_vector`` [N] with DoRA, and what is trained in full.
        """
        views = self._views(self._adapter.parameters())
        return {name: np.ascontiguousarray(view) for name, view in views.items()}

    def load_state_dict(self, tensors: Mapping[str, npt.ArrayLike]) -> None:
        """Replaces all tensors by these, which have the names and shapes of :meth:`state_dict`.

        Values are arrays or, through DLPack, tensors on the host.
        """
        flat = self._adapter.parameters()
        views = self._views(flat)
        for name in views.keys() ^ tensors.keys():
            kind = "missing" if name in views else "unknown"
            raise invalid(f"adapter: the tensor {name} is {kind}")
        for name, view in views.items():
            values = np.asarray(tensors[name], dtype=np.float32)
            if values.shape != view.shape:
                raise invalid(f"adapter: {name} must be {list(view.shape)}, got "
                              f"{list(values.shape)}")
            if not np.isfinite(values).all():
                raise invalid(f"adapter: {name} has a value that is not finite")
            view[...] = values
        self._adapter.set_parameters(flat)

    def __repr__(self) -> str:
        return (f"clora.Adapter(rank={self.rank}, {len(self._adapter.modules)} layers, "
                f"{self.trainable_parameters} parameters)")


def create_adapter(model: Model, config: LoraConfig | None = None) -> Adapter:
    """Returns a new adapter of the model, which does not change its output yet."""
    native = model._model
    return Adapter(native, _clora.create_adapter(native, (config or LoraConfig())._options()))


def load_adapter(model: Model, path: str | os.PathLike[str]) -> Adapter:
    """Returns the adapter of a folder of PEFT or mlx-lm, or of a GGUF file."""
    return Adapter(model._model, _clora.load_adapter(model._model, os.fspath(path)))
