"""Standard output, standard error and the live view: written aside, in the order in which it was said."""

from __future__ import annotations

import contextlib
import errno
import os
import select
import time
from typing import Any

from bsp.faults.engine.background import Aside
from bsp.faults.protocol.arbiter import Arbiter

_AGAIN = 1.0  # seconds until what could not be written is tried again


class Output:
    """Whoever reads may stand still for as long as he likes: what is said waits in memory."""

    def __init__(self, view: Any = None) -> None:
        self._view = view
        self._aside = Aside()
        self._told = False

    def print(self, data: bytes) -> None:
        """To standard output."""
        self._aside.do(lambda: self._write(1, data))

    def complain(self, data: bytes) -> None:
        """To standard error."""
        self._aside.do(lambda: self._write(2, data))

    def show(self, arbiter: Arbiter, seconds: float) -> None:
        """The live view, now and then, if the last one is out."""
        if self._view is not None and self._aside.idle and self._view.due():
            picture = self._view.picture(arbiter, seconds)
            self._aside.do(lambda: self._view.draw(picture))

    def end(self) -> None:
        """The live view is no more; `finish` waits for all that was said."""
        if self._view is not None:
            self._aside.do(self._view.close)

    def finish(self, seconds: float) -> bool:
        """Whether all is out, after so long at most."""
        return self._aside.finish(seconds)

    def _write(self, descriptor: int, data: bytes) -> None:
        with self._view.aside(data) if self._view is not None else contextlib.nullcontext():
            rest = memoryview(data)
            while rest:
                try:
                    rest = rest[os.write(descriptor, rest) :]
                except BlockingIOError:
                    select.select([], [descriptor], [], _AGAIN)
                except OSError as wrong:
                    if descriptor == 2 or wrong.errno in (errno.EPIPE, errno.EBADF):  # nobody reads on
                        os.dup2(os.open(os.devnull, os.O_WRONLY), descriptor)
                    else:
                        self._tell(wrong)
                        time.sleep(_AGAIN)

    def _tell(self, wrong: OSError) -> None:
        """A full disk: the job goes on, and its text waits until there is room."""
        if not self._told:
            self._told = True
            text = f"bsprun: warning: standard output: {wrong.strerror}; the job goes on, its text waits for room\n"
            self._write(2, text.encode())
