"""Contexts: a device with its memory, its kernels and its profile."""
from __future__ import annotations

import logging
import re
from typing import Any, Literal

from . import _clora
from .errors import invalid

logger = logging.getLogger("clora")

_LEVELS = [logging.DEBUG, logging.INFO, logging.WARNING, logging.ERROR]
_UNITS = {"": 1, "b": 1, "kb": 10**3, "mb": 10**6, "gb": 10**9, "tb": 10**12, "k": 2**10,
          "m": 2**20, "g": 2**30, "t": 2**40, "kib": 2**10, "mib": 2**20, "gib": 2**30,
          "tib": 2**40}


def bytes_of(size: int | str | None) -> int:
    """Returns the bytes of a size such as ``"8GiB"`` or a number of bytes; 0 for None."""
    if size is None:
        return 0
    if isinstance(size, int):
        return size
    match = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([a-zA-Z]*)\s*", size)
    unit = _UNITS.get(match[2].lower()) if match else None
    if match is None or unit is None:
        raise invalid(f"memory: a size such as '8GiB' is required, got {size!r}")
    return int(float(match[1]) * unit)


def _log(level: int, message: str) -> None:
    logger.log(_LEVELS[level], "%s", message)


def devices() -> list[dict[str, Any]]:
    """Lists the OpenCL devices: index, name, platform, driver, kind, memory_bytes, ..."""
    return list(_clora.devices())


class Context:
    """A device that models and tensors are on.

    device: ``"auto"`` (the first GPU, else the first device), an index, ``"cpu"``, ``"gpu"``,
        ``"gpu:1"``, or a part of a name.
    memory: the most device memory that may be used, such as ``"8GiB"``; None: all of it.
    precision: ``"f32"``, or ``"auto"``, which rounds operands of large products to bf16 on devices
        with a matrix unit.
    profile: measure the device time of each op, for :meth:`profile`.

    Messages go to the logger ``clora``. Any thread may use a context; calls take turns.
    """

    def __init__(self, device: str | int = "auto", *, memory: int | str | None = None,
                 precision: Literal["auto", "f32"] = "f32", profile: bool = False) -> None:
        self._context = _clora.make_context(str(device), bytes_of(memory), precision, profile, _log)

    @classmethod
    def _of(cls, context: _clora.Context) -> Context:
        made = cls.__new__(cls)
        made._context = context
        return made

    @property
    def device(self) -> dict[str, Any]:
        """The properties of the device, as in :func:`devices`."""
        return dict(self._context.device)

    @property
    def variant(self) -> str:
        """The kind of kernels in use: ``"portable"``, ``"cpu"``, ``"wgmma"``, ..."""
        return self._context.variant

    def memory(self) -> dict[str, int]:
        """Bytes of device memory: in_use, cached, high_water, limit, and those in use by tag."""
        return dict(_clora.memory(self._context))

    def profile(self, by: Literal["op", "shape"] = "op") -> list[dict[str, Any]]:
        """The device time of each op so far, or of each op and shape, the longest first.

        A row has op, shape, count, seconds (on the device), gap_seconds (the device was idle before
        it), bytes and flops. Needs ``profile=True``. Waits for the device.
        """
        return list(_clora.profile(self._context, by == "shape"))

    def clear_profile(self) -> None:
        """Discards what :meth:`profile` has measured so far."""
        _clora.clear_profile(self._context)

    def finish(self) -> None:
        """Waits for all commands of the device."""
        _clora.finish(self._context)

    def __repr__(self) -> str:
        return f"clora.Context({self.device['name']!r}, variant={self.variant!r})"
