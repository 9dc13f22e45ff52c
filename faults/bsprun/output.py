"""bsprun's standard output, standard error and live view, written in their order; what has to wait, by a thread."""

from __future__ import annotations

import contextlib
import errno
import os
import select
import time
from typing import Any

from bsp.faults.bsprun.background import Aside
from bsp.faults.protocol.arbiter import Arbiter

_AGAIN = 1.0  # seconds until text that could not be written is tried again


class Output:
    """The output of a job.  A blocked reader never stops the job: text waits in memory."""

    def __init__(self, view: Any = None) -> None:
        """Start the background thread; `view` is the live view, if there is one."""
        self._view = view
        self.written = 0  # bytes of standard output
        self.bell = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)  # readable when some have been written
        self._aside = Aside()
        self._told = False

    def print(self, data: bytes) -> None:
        """Write text to standard output: at once if nothing has to be waited for, else in its turn."""
        if self._view is None and self._aside.idle:
            done = _write_now(data)
            self.written += done
            data = data[done:]

        def write() -> None:
            self._write(1, data)
            self.written += len(data)
            os.eventfd_write(self.bell, 1)

        if data:
            self._aside.do(write)

    def quiet(self) -> None:
        """Make the bell unreadable again."""
        with contextlib.suppress(BlockingIOError):
            os.eventfd_read(self.bell)

    def complain(self, data: bytes) -> None:
        """Queue text for standard error."""
        self._aside.do(lambda: self._write(2, data))

    def show(self, arbiter: Arbiter, seconds: float) -> None:
        """Redraw the live view if it is due and everything queued before has been written."""
        if self._view is not None and self._aside.idle and self._view.due():
            picture = self._view.picture(arbiter, seconds)
            self._aside.do(lambda: self._view.draw(picture))

    def end(self) -> None:
        """Queue the end of the live view; `finish` waits for everything queued."""
        if self._view is not None:
            self._aside.do(self._view.close)

    def abandon(self) -> None:
        """Write nothing more: another bsprun does."""
        self._aside.clear()

    def finish(self, seconds: float) -> bool:
        """Wait at most `seconds` until everything is written; return whether it is."""
        return self._aside.finish(seconds)

    def _write(self, descriptor: int, data: bytes) -> None:
        """Write text to a descriptor, trying again for as long as it takes; the live view makes room for it."""
        with self._view.aside(data) if self._view is not None else contextlib.nullcontext():
            rest = memoryview(data)
            while rest:
                try:
                    rest = rest[os.write(descriptor, rest) :]
                except BlockingIOError:
                    select.select([], [descriptor], [], _AGAIN)
                except OSError as wrong:
                    # nobody reads this any more: throw away the rest, and all that follows
                    if descriptor == 2 or wrong.errno in (errno.EPIPE, errno.EBADF):
                        os.dup2(os.open(os.devnull, os.O_WRONLY), descriptor)
                    else:
                        self._tell(wrong)
                        time.sleep(_AGAIN)

    def _tell(self, wrong: OSError) -> None:
        """Warn once that standard output cannot be written, for example to a full disk; the text waits until it can."""
        if not self._told:
            self._told = True
            text = f"bsprun: warning: standard output: {wrong.strerror}; the job goes on, its text waits for room\n"
            self._write(2, text.encode())


def _write_now(data: bytes) -> int:
    """Write text to standard output if it takes it without waiting, as pipes do; return how many bytes it took."""
    with contextlib.suppress(OSError):  # it has to wait, or cannot say whether, or nobody reads: see `_write`
        return os.pwritev(1, [data], -1, os.RWF_NOWAIT)
    return 0
