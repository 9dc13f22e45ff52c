"""End processes, and all that they have started."""

from __future__ import annotations

import contextlib
import subprocess
import time
from collections.abc import Sequence

import psutil

GRACE = 2.0  # seconds between asking a process to end and making it


def end(child: subprocess.Popen[bytes]) -> None:
    """End a child and all its descendants: ask, wait, kill."""
    family = descendants(child.pid)
    child.terminate()
    try:
        child.wait(GRACE)
    except subprocess.TimeoutExpired:
        child.kill()
        child.wait()
    kill(family)


def descendants(pid: int | None = None) -> list[psutil.Process]:
    """Return all processes below one; by default below this one."""
    try:
        found: list[psutil.Process] = psutil.Process(pid).children(recursive=True)
    except psutil.NoSuchProcess:
        return []
    return found


def kill(family: Sequence[psutil.Process]) -> None:
    """End processes, and wait until they are over; a zombie is: a container's first process may collect none."""

    def runs(process: psutil.Process) -> bool:
        try:
            return bool(process.is_running() and process.status() != psutil.STATUS_ZOMBIE)
        except psutil.NoSuchProcess:
            return False

    for process in family:
        with contextlib.suppress(psutil.NoSuchProcess):
            process.kill()
    until = time.monotonic() + GRACE
    while any(map(runs, family)) and time.monotonic() < until:
        time.sleep(0.005)
