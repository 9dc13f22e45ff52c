"""Warnings of NumPy's functions in scripts for NumPy: at the line of the script, and once.

A function of NumPy's that ours calls in place of the script warns at a line of ours.  Such a warning is given again at
the script's line, so that filters see it there.  What all processes compute alike, process 0 warns of.  Each process
has filters of its own: those that share an interpreter are not at the same line of the script.
"""

from __future__ import annotations

import sys
import warnings
from typing import Any, TextIO

from bsp.arrays.scripts import numpy_instead, small_arrays
from bsp.source import is_ours
from bsp.world import kept_by

_OURS = (numpy_instead, small_arrays)  # modules whose lines stand for those of a script


def show_at_lines_of_scripts() -> None:
    """Give this process warning filters of its own, and replace its `warnings.showwarning`, once."""
    warnings.filters = [*warnings.filters]
    if getattr(warnings.showwarning, "__module__", "") == __name__:
        return
    before, files = warnings.showwarning, {str(each.__file__) for each in _OURS}

    def show(
        message: Warning | str, category: type[Warning], filename: str, lineno: int, file: TextIO | None = None,
        line: str | None = None,
    ) -> None:  # fmt: skip
        caller: Any = sys._getframe(2)  # above that of `warnings`, which calls this
        again = caller.f_code is show.__code__
        if not again and filename in files:
            while caller.f_code.co_filename != filename:  # a function of NumPy's that warns at its caller's line
                caller = caller.f_back
            while is_ours(caller.f_code.co_filename):
                caller = caller.f_back
            names = caller.f_globals
            warnings.warn_explicit(
                message, category, caller.f_code.co_filename, caller.f_lineno, names.get("__name__"),
                names.setdefault("__warningregistry__", {}),
            )  # fmt: skip
        elif not _pid() or (not again and is_ours(caller.f_code.co_filename)):  # ours: of the blocks of some process
            before(message, category, filename, lineno, file, line)

    for each in _OURS:
        vars(each)["__warningregistry__"] = None  # a warning at another line of the script is not the same one
    warnings.showwarning = show


def _pid() -> int:
    here = kept_by("arrays")
    return 0 if here is None else here.pid
