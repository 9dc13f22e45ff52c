"""Whether a worker does anything, seen from outside.

Looks are counted, not seconds: a machine that itself stands still for a while is looked at once behind it.
"""

from __future__ import annotations

LOOKS = 4  # in the time after which one that does nothing hangs


class Watch:
    """On one process."""

    def __init__(self) -> None:
        self._cpu = -1  # clock ticks, of user and system
        self._same = 0  # looks in a row that have shown nothing new

    def give(self) -> None:
        """It has something to do from now on."""
        self._same = 0

    def look(self, pid: int) -> str:
        """What it has been for LOOKS looks: "idle", "stopped", or "" if neither; who waits for a core is not idle."""
        try:
            with open(f"/proc/{pid}/stat", "rb") as file:
                fields = file.read().rpartition(b")")[2].split()
        except OSError:
            return ""
        state, cpu = fields[0], int(fields[11]) + int(fields[12])
        does_nothing = cpu == self._cpu and state != b"R"
        self._cpu, self._same = cpu, self._same + 1 if does_nothing else 0
        if self._same <= LOOKS:
            return ""
        self._same = 0
        return "stopped" if state in (b"T", b"t") else "idle"
