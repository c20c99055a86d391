"""Runs one program to its end: its output with times, its duration, and its peak memory."""

import os
import signal
import subprocess
import tempfile
import threading
import time
from dataclasses import dataclass


MAX_ERRORS = 65536


class Failed(Exception):
    """The program failed; the message is one line."""


@dataclass(frozen=True)
class Done:
    lines: list            # (seconds after the start, line of stdout)
    first_byte_s: float | None
    seconds: float
    peak_rss_gib: float    # of the largest process, as reported by the kernel
    errors: str = ""       # the end of stderr

    @property
    def text(self):
        return "\n".join(line for _, line in self.lines)


def read_lines(stream, start):
    """(lines with their times, the time of the first byte)."""
    lines, first = [], None
    rest = b""
    while chunk := os.read(stream.fileno(), 65536):
        now = time.monotonic() - start
        first = now if first is None else first
        *whole, rest = (rest + chunk).split(b"\n")
        lines += [(now, line.decode(errors="replace")) for line in whole]
    if rest:
        lines.append((time.monotonic() - start, rest.decode(errors="replace")))
    return lines, first


def last_words(errors):
    """The last line of stderr, which describes the failure in most programs."""
    errors.seek(0)
    lines = errors.read().decode(errors="replace").strip().splitlines()
    return lines[-1][:300] if lines else "it said nothing"


def end(process):
    os.killpg(process.pid, signal.SIGKILL)


def run(command, environment=None, seconds=1800, folder=None):
    """Runs the command, with variables added to the environment. Raises Failed."""
    start = time.monotonic()
    with tempfile.TemporaryFile() as errors:
        try:
            process = subprocess.Popen([str(word) for word in command], stdout=subprocess.PIPE,
                                       stderr=errors, stdin=subprocess.DEVNULL, cwd=folder,
                                       env=os.environ | (environment or {}), start_new_session=True)
        except OSError as error:
            raise Failed(str(error)) from error
        timer = threading.Timer(seconds, end, [process])
        timer.start()
        try:
            lines, first = read_lines(process.stdout, start)
            _, status, usage = os.wait4(process.pid, 0)
        except BaseException:
            end(process)
            raise
        finally:
            timer.cancel()
            process.stdout.close()
        process.returncode = os.waitstatus_to_exitcode(status)
        took = time.monotonic() - start
        if process.returncode == -signal.SIGKILL and took >= seconds:
            raise Failed(f"ran longer than {seconds} s")
        if process.returncode != 0:
            raise Failed(f"exit code {process.returncode}: {last_words(errors)}")
        errors.seek(0)
        said = errors.read().decode(errors="replace")[-MAX_ERRORS:]
    return Done(lines, first, took, usage.ru_maxrss / 2**20, said)
