"""A command that tells when a machine will be taken away (`--leave-when`), asked every few seconds on each host."""

from __future__ import annotations

import subprocess
import time

_EVERY = 5.0  # seconds between two runs of the command


class SpotNotice:
    """The command of one host: its status is 0 when the host is to be left."""

    def __init__(self, command: str | None) -> None:
        """Ask `command`, run by a shell; None: nothing is asked."""
        self._command = command
        self._running: subprocess.Popen[bytes] | None = None
        self._due = 0.0
        self._why = ""

    def look(self) -> str:
        """Return why the host is to be left, or nothing; never waits for the command."""
        if self._command is None or self._why:
            return self._why
        if self._running is None:
            if time.monotonic() >= self._due:
                self._due = time.monotonic() + _EVERY
                self._running = subprocess.Popen(
                    self._command, shell=True, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                    stderr=subprocess.DEVNULL,
                )  # fmt: skip
        elif (status := self._running.poll()) is not None:
            self._running = None
            self._why = f"--leave-when: {self._command}" if status == 0 else ""
        return self._why
