"""Warnings that all processes have alike: each gets its own at the program's line, and one shows them for all."""

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
    """Warn at the program's line; every process calls this alike.

    The program's filters hold on each process, so what they make an error is raised on all, and `catch_warnings`
    records on all.

    shows : whether this process writes the warning to standard error, if nothing else is to happen to it; None:
        process 0 does.
    """
    frame = user_frame(sys._getframe(1))
    name, line = ("<program>", 0) if frame is None else (frame.f_code.co_filename, frame.f_lineno)
    module = None if frame is None else frame.f_globals.get("__name__")
    # modules are shared between processes, what has been warned of is not
    proc = bsp.process()
    registries = proc._task.libraries.setdefault(_REGISTRIES, {})
    shows = proc.pid == 0 if shows is None else shows
    with contextlib.nullcontext() if shows else _unseen():
        warnings.warn_explicit(text, category, name, line, module, registries.setdefault(name, {}))


@contextlib.contextmanager
def _unseen() -> Iterator[None]:
    """Warnings go nowhere, if they would go to standard error."""
    own: Any = warnings
    kept = getattr(own, "_showwarnmsg_impl", None)
    if getattr(kept, "__name__", "") != "_showwarnmsg_impl":  # recorded
        yield
        return
    own._showwarnmsg_impl = lambda message: None
    try:
        yield
    finally:
        own._showwarnmsg_impl = kept
