"""Tensors on the device, and batches of commands that are recorded once and replayed.

Host arrays are NumPy arrays, or any object that supports DLPack. NumPy has no bf16: arrays of
``ml_dtypes.bfloat16`` are bf16 where that package is installed, and so are arrays of uint16, whose
elements are then the bits. bf16 results are of ml_dtypes.bfloat16, or of uint16 without it.
"""
from __future__ import annotations

import importlib
from collections.abc import Sequence
from types import TracebackType
from typing import Any, Union

import numpy as np
import numpy.typing as npt

from . import _clora
from .context import Context
from .errors import invalid

_TYPES = {"float32": "f32", "float64": "f32", "float16": "f16", "bfloat16": "bf16",
          "uint16": "bf16", "int32": "i32", "int64": "i32", "uint32": "u32", "uint8": "u8"}
_CASTS = {"float64": np.float32, "int64": np.int32}  # what the device has no type for

_default: Context | None = None


def default_context() -> Context:
    """The context of ops whose arguments are all on the host; made at its first use."""
    global _default
    if _default is None:
        _default = Context()
    return _default


def set_default_context(context: Context | None) -> None:
    """Sets it; None: a new one is made at the next use."""
    global _default
    _default = context


def _bfloat16() -> Any:
    """NumPy's type for bf16; None without the package that has it."""
    try:
        return importlib.import_module("ml_dtypes").bfloat16
    except ImportError:
        return None


def _host_array(array: Any) -> npt.NDArray[Any]:
    if not isinstance(array, np.ndarray) and hasattr(array, "__dlpack__"):
        array = np.from_dlpack(array)
    values = np.ascontiguousarray(array)
    cast = _CASTS.get(values.dtype.name)
    return values.astype(cast) if cast is not None else values


class Tensor:
    """A tensor on the device: row-major, of dtype "f32", "bf16", "f16", "i32", "u32", "u8", or of
    a type of quantised weights ("q4_0", "q8_0", "q4_k", ...), of which NumPy has the blocks.
    """

    def __init__(self, tensor: _clora.DeviceTensor) -> None:
        self._tensor = tensor

    @classmethod
    def from_array(cls, array: Any, *, dtype: str | None = None,
                   context: Context | None = None) -> Tensor:
        """Copies a host array to the device, and waits for it.

        dtype: the type of its elements, where NumPy's does not say it: for a quantised type the
            array is of uint8, [N, bytes of a row], in GGUF's blocks.
        """
        values = _host_array(array)
        named = dtype or _TYPES.get(values.dtype.name)
        if named is None:
            raise invalid(f"tensor: an array of {', '.join(_TYPES)} is required, got "
                          f"{values.dtype.name}")
        shape = list(values.shape)
        elements, bytes_ = _clora.block_of(named)
        if elements > 1:
            shape[-1] = shape[-1] // bytes_ * elements
        owner = context or default_context()
        return cls(_clora.upload(owner._context, values.view(np.uint8), shape, named))

    @classmethod
    def empty(cls, shape: Sequence[int], dtype: str = "f32", *,
              context: Context | None = None) -> Tensor:
        """Allocates a tensor with undefined contents."""
        owner = context or default_context()
        return cls(_clora.empty(owner._context, list(shape), dtype))

    @property
    def shape(self) -> tuple[int, ...]:
        """The dimensions."""
        return tuple(self._tensor.shape)

    @property
    def dtype(self) -> str:
        """The type of the elements."""
        return self._tensor.dtype

    @property
    def context(self) -> Context:
        """The device that the tensor is on."""
        return Context._of(self._tensor.context)

    def numpy(self) -> npt.NDArray[Any]:
        """Returns a copy of the values, after all commands that were submitted before."""
        values: npt.NDArray[Any] = np.asarray(_clora.read(self._tensor))
        if self.dtype == "f16":
            return values.view(np.float16)
        bfloat16 = _bfloat16() if self.dtype == "bf16" else None
        return values.view(bfloat16) if bfloat16 is not None else values

    def write(self, array: Any) -> None:
        """Replaces the values, after all commands that were submitted before."""
        values = _host_array(array)
        if _TYPES.get(values.dtype.name) != self.dtype or values.shape != self.shape:
            raise invalid(f"tensor: {self.dtype} {list(self.shape)} is required, got "
                          f"{values.dtype.name} {list(values.shape)}")
        _clora.write(self._tensor, values.view(np.uint8))

    def __repr__(self) -> str:
        return f"clora.Tensor({self.dtype} {list(self.shape)})"


Array = Union[npt.NDArray[Any], Tensor]


class Batch:
    """Commands that are recorded once and submitted any number of times.

    Ops with ``batch=`` record into it, and return tensors that each submit fills. Recording chooses
    kernels, and may compile them; a submit only enqueues.

        batch = clora.Batch()
        x = batch.tensor(array)
        y = clora.ops.softmax(x, batch=batch)
        batch.submit()
        y.numpy()
    """

    def __init__(self, context: Context | None = None) -> None:
        self.context = context or default_context()
        self._recorder = _clora.make_batch(self.context._context)

    def tensor(self, array: Any, *, dtype: str | None = None) -> Tensor:
        """Copies a host array to the batch's device."""
        return Tensor.from_array(array, dtype=dtype, context=self.context)

    def submit(self, times: int = 1) -> None:
        """Enqueues the commands; does not wait. No more can be recorded afterwards."""
        for _ in range(times):
            self._recorder.submit()

    def wait(self) -> None:
        """Waits for all commands of the device."""
        self.context.finish()

    @property
    def commands(self) -> int:
        """The number of recorded commands."""
        return self._recorder.commands()

    def launches(self) -> list[str]:
        """The kernel launches: file, function, options, grid and arguments of each."""
        return self._recorder.launches_text().splitlines()

    def __len__(self) -> int:
        return self.commands

    def __enter__(self) -> Batch:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None,
                 trace: TracebackType | None) -> None:
        if kind is None:
            self.submit()
            self.wait()


class Call:
    """One call of an op: where its arguments and results are, and what records it."""

    def __init__(self, batch: Batch | None, *arguments: Array | None) -> None:
        self._is_recorded = batch is not None
        if batch is None:
            tensors = [each for each in arguments if isinstance(each, Tensor)]
            batch = Batch(tensors[0].context if tensors else None)
        self._batch = batch
        self.to = batch._recorder

    def input(self, array: Array) -> Tensor:
        """The argument on the device."""
        return array if isinstance(array, Tensor) else self._batch.tensor(array)

    def optional(self, array: Array | None) -> _clora.DeviceTensor | None:
        """The same for an argument that may be None."""
        return None if array is None else self.input(array)._tensor

    def output(self, shape: Sequence[int], dtype: str = "f32") -> Tensor:
        """A new tensor for a result."""
        return Tensor.empty(shape, dtype, context=self._batch.context)

    def zeros(self, shape: Sequence[int]) -> Tensor:
        """The same, for a result to which the op adds."""
        made = self.output(shape)
        self.to.fill_zero(made._tensor)
        return made

    def result(self, *tensors: Tensor) -> Any:
        """The results: tensors if the call was recorded, else their values."""
        results: list[Any] = list(tensors)
        if not self._is_recorded:
            self._batch.submit()
            results = [tensor.numpy() for tensor in tensors]
        return results[0] if len(results) == 1 else tuple(results)
