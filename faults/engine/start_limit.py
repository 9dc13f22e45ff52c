"""How long bsprun waits for the elements that its launcher starts.

A rank that dies in MPI's start leaves the others waiting in there, and nobody is told.  From outside it is seen:
there are fewer ranks on this machine than each of them has been told.  Time in which a rank waited for a core does not
count.
"""

from __future__ import annotations

import contextlib
import time

import psutil

_START = 60.0  # seconds for all elements to appear, beside those for which a rank here has waited for a core
_LONGEST = 600.0  # with them: ranks that wait for each other in MPI's start keep cores busy for ever
_LOOK = 0.5  # seconds between looks at all processes of this machine, which takes milliseconds
_DIED = 4  # looks in a row that show one too few: it has died before it appeared (looks, as in idle.py)


class Start:
    """The ranks on this machine, until all elements have appeared."""

    def __init__(self, launcher: int) -> None:
        self._launcher = launcher
        self._began = time.monotonic()
        self._here: set[int] = set()  # processes of ranks
        self._count = 0  # so many there must be, at least
        self._look_at = 0.0
        self._same = 0  # looks in a row that have shown nothing new
        self._starved = 0.0  # seconds that a rank has waited for a core, the longest of all ranks

    @property
    def seconds(self) -> float:
        """Since the launcher was started."""
        return time.monotonic() - self._began

    def is_over(self) -> bool:
        """Whether it is time to do without those that have not appeared."""
        now = time.monotonic()
        if now < self._look_at:
            return False
        self._look_at = now + _LOOK
        ranks = _ranks(self._launcher)
        self._same = self._same + 1 if ranks.keys() == self._here else 0
        self._here = set(ranks)
        self._count = max(self._count, *ranks.values(), 0)
        self._starved = max(self._starved, *map(_starved, ranks), 0.0)
        has_lost_one = len(ranks) < self._count
        return self.seconds > min(_START + self._starved, _LONGEST) or (has_lost_one and self._same >= _DIED)


def _starved(process: int) -> float:
    """Seconds that the first thread of a process has waited for a core while it could have run."""
    with contextlib.suppress(OSError, IndexError, ValueError), open(f"/proc/{process}/schedstat") as file:
        return int(file.read().split()[1]) / 1e9
    return 0.0


def _ranks(launcher: int) -> dict[int, int]:
    """Its ranks on this machine: process, and how many of them there are, as Open MPI has told it."""
    found = {}
    with contextlib.suppress(psutil.Error):
        for child in psutil.Process(launcher).children():
            with contextlib.suppress(psutil.Error):
                if count := child.environ().get("OMPI_COMM_WORLD_LOCAL_SIZE"):
                    found[child.pid] = int(count)
    return found
