"""Detection of workers that do nothing, seen from outside.

Looks are counted, not seconds: when the whole machine has stood still for a while, only one look falls due after it.
"""

from __future__ import annotations

LOOKS = 4  # looks within the hang limit, after which a process that does nothing counts as hung


class Watch:
    """The observations of one process."""

    def __init__(self) -> None:
        self._cpu = -1  # clock ticks of processor time, user and system
        self._same = 0  # looks in a row without progress

    def give(self) -> None:
        """Start counting again: the process has been given something to do."""
        self._same = 0

    def look(self, pid: int) -> str:
        """Look at a process; return "idle" or "stopped" if it has done nothing for LOOKS looks, else "".

        A process that waits for a core is not idle: its state is R.
        """
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
