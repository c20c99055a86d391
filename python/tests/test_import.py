"""Importing the package, and its ends."""
import subprocess
import sys

import pytest

import clora
from clora import errors, opencl_loader


def run(code):
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False,
                          timeout=300)


def test_a_missing_opencl_loader_is_an_import_error_that_names_the_package(monkeypatch):
    monkeypatch.setattr(opencl_loader, "LOADER", "libNoOpenCL.so.9")
    with pytest.raises(ImportError, match="ocl-icd-libopencl1"):
        opencl_loader.require_opencl_loader()
    code = ("import ctypes\n"
            "def missing(name, *more): raise OSError(name + ': cannot open')\n"
            "ctypes.CDLL = missing\n"
            "import clora\n")
    done = run(code)
    assert done.returncode == 1 and "ImportError: clora: libOpenCL.so.1" in done.stderr


def test_every_public_name_exists_and_is_documented():
    for name in clora.__all__:
        value = getattr(clora, name)
        if name not in ("__version__",):
            assert value.__doc__, name


def test_every_code_has_an_error():
    for code in clora.ErrorCode:
        error = errors.error_of(code.value, "who: what", -5)
        assert isinstance(error, clora.Error) and error.code == code
        assert error.opencl_status == -5 and str(error) == "who: what"


def test_a_program_may_end_while_an_engine_works(stories_path):
    done = run("import clora\n"
               f"model = clora.load({stories_path!r})\n"
               "engine = clora.Engine(model, max_positions=512)\n"
               "submission = engine.submit('Once upon a time', max_new_tokens=400)\n"
               "next(iter(submission))\n")
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""


def test_an_interrupt_ends_a_run(stories_path):
    done = run("import os, signal, clora\n"
               f"model = clora.load({stories_path!r})\n"
               "def interrupts(step):\n"
               "    os.kill(os.getpid(), signal.SIGINT)\n"
               "try:\n"
               "    clora.Trainer(model, None, ['A dog.'] * 8, max_steps=50, batch_size=1,\n"
               "                  callbacks=[interrupts]).train()\n"
               "except KeyboardInterrupt:\n"
               "    print('interrupted')\n")
    assert done.stdout == "interrupted\n", done.stderr


def test_devices_are_listed():
    assert clora.devices()[0]["name"]
