"""Warnings that every process gives: each process issues its own at the program's line, and one prints it for all."""

from __future__ import annotations

import contextlib
import sys
import warnings
from collections.abc import Iterator
from typing import Any

import bsp
from bsp.source import user_frame

_REGISTRIES = "warnings that have been shown"


def warned(text: str, category: type[Warning], shows: bool | None = None) -> None:
    """Issue a warning at the program's line.  Unless `shows` is given, every process calls this with the same text.

    The program's filters apply on each process: a warning that they turn into an error is raised on all processes,
    and `catch_warnings` records it on all.

    shows : whether this process prints the warning to standard error, where the filters would print it; None: only
        process 0 prints.
    """
    frame = user_frame(sys._getframe(1))
    name, line = ("<program>", 0) if frame is None else (frame.f_code.co_filename, frame.f_lineno)
    module = None if frame is None else frame.f_globals.get("__name__")
    # processes in one interpreter share modules, so each keeps its own registry of issued warnings
    proc = bsp.process()
    registries = proc._task.libraries.setdefault(_REGISTRIES, {})
    shows = proc.pid == 0 if shows is None else shows
    with contextlib.nullcontext() if shows else _unseen():
        warnings.warn_explicit(text, category, name, line, module, registries.setdefault(name, {}))


@contextlib.contextmanager
def _unseen() -> Iterator[None]:
    """Suppress the printing of warnings inside a `with` block; leave those that `catch_warnings` records."""
    own: Any = warnings
    kept = getattr(own, "_showwarnmsg_impl", None)
    if getattr(kept, "__name__", "") != "_showwarnmsg_impl":  # `catch_warnings` records them
        yield
        return
    own._showwarnmsg_impl = lambda message: None
    try:
        yield
    finally:
        own._showwarnmsg_impl = kept
