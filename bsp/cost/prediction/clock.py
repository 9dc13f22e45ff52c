"""How long a program itself takes on a machine that others use as well: the wall clock without waits for a core.

Processor time alone would not do: a program that sleeps or reads a disk takes that time on any machine.  What a
busy machine adds is the time in which this thread could run and had no core; Linux counts it in `schedstat`.
"""

from __future__ import annotations

import os
from time import perf_counter

_SCHEDSTAT = "/proc/thread-self/schedstat"  # nanoseconds on a core, nanoseconds in line for one, turns
_LONGEST = 128  # bytes of it


class OwnClock:
    """Seconds of the thread that makes it.  Where the system does not count waits for a core, the wall clock."""

    def __init__(self) -> None:
        try:
            self._file: int | None = os.open(_SCHEDSTAT, os.O_RDONLY)
        except OSError:
            self._file = None

    def __call__(self) -> float:
        waited = self.waited()
        while True:  # a wait between the two readings would be taken off a time before it
            now, before = perf_counter(), waited
            waited = self.waited()
            if waited == before:
                return now - waited

    def waited(self) -> float:
        """Seconds this thread has waited for a core since it started; 0 where nobody counts them."""
        if self._file is None:
            return 0.0
        return int(os.pread(self._file, _LONGEST, 0).split()[1]) * 1e-9

    def close(self) -> None:
        """The file is no longer needed."""
        if self._file is not None:
            os.close(self._file)
            self._file = None
