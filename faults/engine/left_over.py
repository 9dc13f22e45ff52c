"""The end of a program in a worker: its threads, which Python waits for, its functions of `atexit`, its open files.

A forked process ends without them, so a worker does here what an interpreter does at its end.
"""

from __future__ import annotations

import atexit
import io
import sys
import threading
import weakref
from typing import Any

from bsp.hosts.lifeline import threads_waited_for
from bsp.interpreter.open_files import flush_files

_SILENT = 3.0  # seconds to wait for threads without a word
_AFTER_A_FAILURE = 10.0  # seconds after which threads do not keep a failure from being told


def begin() -> None:
    """Forget the functions of `atexit` that this process has inherited: they are the fork server's."""
    atexit._clear()
    weakref.finalize._registry.clear()  # type: ignore[attr-defined]
    weakref.finalize._registered_with_atexit = False  # type: ignore[attr-defined]


def finish(failed: bool, stdout: Any) -> bytes:
    """Wait for the program's threads, call its functions of `atexit`, flush its files; return what is printed.

    failed : whether the program has raised an exception: then threads have some seconds.
    stdout : where they print to instead.
    """
    text = io.BytesIO()
    encoding = getattr(sys.stdout, "encoding", None) or "utf-8"  # as that of the text before
    stream = stdout or io.TextIOWrapper(text, encoding, "replace", write_through=True)
    kept, sys.stdout = sys.stdout, stream
    try:
        _join(_AFTER_A_FAILURE if failed else None)
        atexit._run_exitfuncs()
        flush_files()
    finally:
        sys.stdout = kept
    return text.getvalue()


def _join(seconds: float | None) -> None:
    """Wait for all threads that are no daemons, for at most so long; after a while say which."""
    told = False
    while waited_for := [t for t in threading.enumerate() if t is not threading.main_thread() and not t.daemon]:
        waited_for[0].join(_SILENT if seconds is None else seconds)
        if waited_for[0].is_alive():
            if seconds is not None:
                return
            if not told:
                print(f"bsprun: note: the program has ended; it waits for {threads_waited_for()[0]}", file=sys.stderr)
            told = True
