"""The limit on how long bsprun waits for its elements to start.

A rank that dies inside MPI's start leaves the others waiting there, and MPI tells nobody.  It can be seen from
outside: there are fewer ranks on this machine than Open MPI has told each of them.  Time in which a rank waited for a
core does not count.
"""

from __future__ import annotations

import contextlib
import time

import psutil

_START = 60.0  # seconds for all elements to appear, not counting the longest time that a rank waited for a core
# seconds, with that time: ranks that wait for each other inside MPI's start keep the cores busy without end
_LONGEST = 600.0
_LOOK = 0.5  # seconds between looks at all processes of this machine; a look takes milliseconds
_DIED = 4  # looks in a row with a rank missing, after which it counts as dead (looks, not seconds: see idle.py)


class Start:
    """The ranks on this machine, observed until all elements have appeared."""

    def __init__(self, launcher: int) -> None:
        """Start the clock; `launcher` is the process id of mpiexec."""
        self._launcher = launcher
        self._began = time.monotonic()
        self._here: set[int] = set()  # process ids of the ranks seen last
        self._count = 0  # number of ranks on this machine, as far as they know it
        self._look_at = 0.0
        self._same = 0  # looks in a row with the same ranks
        self._starved = 0.0  # seconds: the longest time that a rank has waited for a core

    @property
    def seconds(self) -> float:
        """Seconds since the launcher was started."""
        return time.monotonic() - self._began

    def is_over(self) -> bool:
        """Return whether to stop waiting for elements that have not appeared."""
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
    """Return the seconds that the first thread of a process has waited for a core while it could have run."""
    with contextlib.suppress(OSError, IndexError, ValueError), open(f"/proc/{process}/schedstat") as file:
        return int(file.read().split()[1]) / 1e9
    return 0.0


def _ranks(launcher: int) -> dict[int, int]:
    """Return the launcher's ranks on this machine, and the number of such ranks that each has been told."""
    found = {}
    with contextlib.suppress(psutil.Error):
        for child in psutil.Process(launcher).children():
            with contextlib.suppress(psutil.Error):
                if count := child.environ().get("OMPI_COMM_WORLD_LOCAL_SIZE"):
                    found[child.pid] = int(count)
    return found
