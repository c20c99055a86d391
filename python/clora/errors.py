"""Errors of the library: one exception with a code, and subclasses for two of the codes."""
from __future__ import annotations

import enum


class ErrorCode(str, enum.Enum):
    """Why a call failed. The value is the name: ``ErrorCode.io == "io"``."""

    INVALID_ARGUMENT = "invalid_argument"  # a value that the function does not take
    INVALID_FILE = "invalid_file"  # damaged, truncated or not of the expected format
    INVALID_DATA = "invalid_data"  # a record of a data set cannot be used
    UNSUPPORTED = "unsupported"  # valid, but not supported
    NOT_FOUND = "not_found"  # a file, a tensor or a name does not exist
    IO = "io"  # the operating system refused
    NO_DEVICE = "no_device"  # no OpenCL device, or none that matches
    OUT_OF_MEMORY = "out_of_memory"  # does not fit the device or the memory limit
    BUILD_FAILED = "build_failed"  # a kernel does not compile
    DEVICE = "device"  # a call of OpenCL failed
    DEVICE_LOST = "device_lost"  # the device cannot be used any more: load the model again
    DIVERGED = "diverged"  # training reached a loss that is not finite
    CANCELLED = "cancelled"  # the caller asked to stop


class Error(RuntimeError):
    """An error of the library.

    The message says who required what, what it got, and what to do. ``code`` is an
    :class:`ErrorCode`; ``opencl_status`` is the status of OpenCL that caused the error, or 0.
    """

    code: ErrorCode
    opencl_status: int

    def __init__(self, message: str, code: ErrorCode | str = ErrorCode.INVALID_ARGUMENT,
                 opencl_status: int = 0) -> None:
        super().__init__(message)
        self.code = ErrorCode(code)
        self.opencl_status = opencl_status


class InvalidArgumentError(Error, ValueError):
    """An error with the code ``invalid_argument``; also a ValueError."""


class OutOfMemoryError(Error, MemoryError):
    """An error with the code ``out_of_memory``; also a MemoryError."""


_CLASSES: dict[ErrorCode, type[Error]] = {
    ErrorCode.INVALID_ARGUMENT: InvalidArgumentError,
    ErrorCode.OUT_OF_MEMORY: OutOfMemoryError,
}


def error_of(code: str, message: str, opencl_status: int = 0) -> Error:
    """Returns the exception for an error of the library. The extension module calls it."""
    named = ErrorCode(code)
    return _CLASSES.get(named, Error)(message, named, opencl_status)


def invalid(message: str) -> InvalidArgumentError:
    """Returns the exception for an argument that the Python layer refuses."""
    return InvalidArgumentError(message, ErrorCode.INVALID_ARGUMENT)
