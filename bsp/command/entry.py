"""The commands `bsprun` and `bsp` from their first moment to their last.

They begin with three standard streams, and are interrupted in one line.  Nothing slow is imported before: a Ctrl-C
while modules are imported ends a command like any later one.  What is still to be written at their end may find that
the reader has left, or a full disk.
"""

from __future__ import annotations

import errno
import importlib
import os
import select
import sys

_STREAMS = (("stdin", "r"), ("stdout", "w"), ("stderr", "w"))


def bsprun() -> int:
    """Run the command `bsprun`; return its exit status."""
    return run("bsprun", "bsp.command.bsprun", "bsprun")


def bsp() -> int:
    """Run the command `bsp`; return its exit status."""
    return run("bsp", "bsp.command.tool", "bsp")


def run(name: str, module: str, function: str) -> int:
    """Run a command, a function of a module; return its exit status.  Ctrl-C and lost output are told in a line."""
    open_standard_streams()
    try:
        try:
            return int(getattr(importlib.import_module(module), function)())
        finally:
            sys.stdout.flush()
    except KeyboardInterrupt:
        write_error(f"{name}: interrupted\n")
        return 130
    except OSError as wrong:
        of_output = _lost_output(wrong)
        if of_output and isinstance(wrong, BrokenPipeError):  # its reader has left: `bsprun --predict ... | head`
            return 0
        told = f"standard output: {wrong.strerror}" if of_output else str(wrong)  # a full disk
        write_error(f"{name}: error: {told}\n")
        return 2


def write_error(text: str) -> None:
    """Write to standard error; if its reader has left, or its disk is full, the exit status alone tells."""
    try:
        sys.stderr.write(text)
        sys.stderr.flush()
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 2)


def _lost_output(wrong: OSError) -> bool:
    """Return whether an error is one of standard output, and drop what it still holds then.

    What could not be written is not always held any more: a pipe without a reader tells by itself, and errors of other
    files have their names.
    """
    try:
        sys.stdout.flush()
    except OSError:
        lost = True
    else:
        pipe = select.poll()
        pipe.register(1, 0)
        lost = any(found & select.POLLERR for _, found in pipe.poll(0)) or (
            wrong.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG) and wrong.filename is None
        )
    if lost:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    return lost


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
