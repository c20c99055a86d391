"""Checks that the OpenCL loader is installed, before the extension module needs it."""
from __future__ import annotations

import ctypes
import sys

LOADER = "libOpenCL.so.1"
MESSAGE = (f"clora: {LOADER}, the OpenCL loader, is required and cannot be loaded ({{reason}}); "
           "install it and a driver for your device (Debian and Ubuntu: 'sudo apt install "
           "ocl-icd-libopencl1 pocl-opencl-icd' for CPUs; GPUs need their vendor's driver)")


def require_opencl_loader() -> None:
    """Raises ImportError, naming the packages to install, if there is no OpenCL loader."""
    if not sys.platform.startswith("linux"):
        return
    try:
        ctypes.CDLL(LOADER)
    except OSError as error:
        raise ImportError(MESSAGE.format(reason=error), name="clora") from error
