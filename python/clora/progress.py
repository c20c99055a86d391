"""Progress of long calls: a line on a terminal, or a display in a notebook."""
from __future__ import annotations

import importlib
import sys
import time
from collections.abc import Callable
from typing import Any

_BETWEEN_SECONDS = 0.2


def _notebook_display() -> Callable[[str], None] | None:
    """Returns a function that replaces the text of one display; None outside of notebooks."""
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython is not None else None
    if shell is None or not hasattr(shell, "kernel"):
        return None
    display = importlib.import_module("IPython.display").display
    handle = display({"text/plain": ""}, raw=True, display_id=True)
    if handle is None:
        return None
    return lambda text: handle.update({"text/plain": text}, raw=True)


class Progress:
    """Shows one line of text that changes. Nothing is shown unless somebody sees it."""

    def __init__(self, enabled: bool | None = None) -> None:
        self._show: Callable[[str], None] | None = None
        self._shown_at = 0.0
        self._last = ""
        self._is_line = False
        if enabled is False:
            return
        self._show = _notebook_display()
        if self._show is None and (enabled or sys.stderr.isatty()):
            self._show = self._write_line
            self._is_line = True

    def _write_line(self, text: str) -> None:
        sys.stderr.write("\r" + text.ljust(len(self._last)))
        sys.stderr.flush()

    def update(self, text: str, *, at_once: bool = False) -> None:
        """Shows the text, unless one was shown just before."""
        now = time.monotonic()
        if self._show is None or (not at_once and now - self._shown_at < _BETWEEN_SECONDS):
            return
        self._shown_at = now
        self._show(text)
        self._last = text

    def done(self, text: str) -> None:
        """Shows the last text."""
        self.update(text, at_once=True)
        if self._is_line and self._last:
            sys.stderr.write("\n")


def step_text(step: dict[str, Any], total: int) -> str:
    """Returns the line of a training step."""
    return (f"step {step['step']}/{total}  loss {step['loss']:.4f}  "
            f"lr {step['learning_rate']:.2e}  {step['tokens_per_s']:,.0f} tokens/s")
