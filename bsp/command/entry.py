"""The commands `bsprun` and `bsp` from their first moment to their last.

They begin with three standard streams, and are interrupted in one line.  Nothing slow is imported before: a Ctrl-C
while modules are imported ends a command like any later one.  What is still to be written at their end may find that
the reader has left, or a full disk.
"""

from __future__ import annotations

import importlib
import os
import sys

_STREAMS = (("stdin", "r"), ("stdout", "w"), ("stderr", "w"))


def bsprun() -> int:
    """Run the command `bsprun`; return its exit status."""
    return _run("bsprun", "bsp.command.bsprun")


def bsp() -> int:
    """Run the command `bsp`; return its exit status."""
    return _run("bsp", "bsp.command.tool")


def _run(name: str, module: str) -> int:
    """Run the function of a name in a module."""
    open_standard_streams()
    try:
        try:
            return int(getattr(importlib.import_module(module), name)())
        finally:
            sys.stdout.flush()
    except KeyboardInterrupt:
        sys.stderr.write(f"{name}: interrupted\n")
        return 130
    except BrokenPipeError:  # its reader has left: `bsprun --predict ... | head`
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        return 0
    except OSError as wrong:  # a full disk
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        sys.stderr.write(f"{name}: error: standard output: {wrong.strerror}\n")
        return 2


def open_standard_streams() -> None:
    """Let standard streams that were closed when the command began lead to /dev/null, here and in all it starts.

    Or the next file or socket that is opened would get such a number, and the program's text with it.
    """
    for number, (name, mode) in enumerate(_STREAMS):
        try:
            os.fstat(number)
        except OSError:
            opened = os.open(os.devnull, os.O_RDWR)  # the lowest number that is free
            assert opened == number
            os.set_inheritable(number, True)
        if getattr(sys, name) is None:
            setattr(sys, name, open(number, mode, closefd=False))  # noqa: SIM115
