"""A clock for programs on busy machines: the wall clock without the time in which the thread waits for a core.

Processor time alone would be too little: a program that sleeps or reads a disk takes that time on any machine.  A busy
machine adds the time in which this thread is ready to run and has no core; Linux counts it in `schedstat`.
"""

from __future__ import annotations

import os
from time import perf_counter

_SCHEDSTAT = "/proc/thread-self/schedstat"  # nanoseconds on a core, nanoseconds waiting for one, time slices
_LONGEST = 128  # bytes of the file


class OwnClock:
    """A clock of the thread that makes it, in seconds.  It is the wall clock where the system does not count waits."""

    def __init__(self) -> None:
        try:
            self._file: int | None = os.open(_SCHEDSTAT, os.O_RDONLY)
        except OSError:
            self._file = None

    def __call__(self) -> float:
        """Return the seconds on the wall clock less those that this thread has waited for a core."""
        waited = self.waited()
        while True:  # repeat if a wait fell between the two readings: it would be subtracted from too early a time
            now, before = perf_counter(), waited
            waited = self.waited()
            if waited == before:
                return now - waited

    def waited(self) -> float:
        """Return the seconds that this thread has waited for a core so far; 0 if the system does not count them."""
        if self._file is None:
            return 0.0
        return int(os.pread(self._file, _LONGEST, 0).split()[1]) * 1e-9

    def close(self) -> None:
        """Close the file of the system's counts."""
        if self._file is not None:
            os.close(self._file)
            self._file = None
