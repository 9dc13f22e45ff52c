"""End processes, and all that they have started."""

from __future__ import annotations

import contextlib
import os
import subprocess
import time
from collections.abc import Iterator, Sequence

import psutil

from bsp.host import adopt_orphans

GRACE = 2.0  # seconds between asking a process to end and making it
_ROUNDS = 5  # in which processes are looked for that others have started before they ended


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


@contextlib.contextmanager
def nothing_left() -> Iterator[None]:
    """End what processes of a job have started and left when they ended, as the job ends.  Of jobs on this machine."""
    before = descendants() if _has_children() else []
    adopt_orphans()
    try:
        yield
    finally:
        for _ in range(_ROUNDS):
            left = [each for each in descendants() if each not in before] if _has_children() else []
            if not left:
                break
            kill(left)
            for each in left:
                with contextlib.suppress(ChildProcessError):
                    os.waitpid(each.pid, os.WNOHANG)
        adopt_orphans(False)


def _has_children() -> bool:
    """Return whether this process has a child, ended or not; to look for descendants takes longer."""
    try:
        os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    except ChildProcessError:
        return False
    return True


def descendants(pid: int | None = None) -> list[psutil.Process]:
    """Return all processes below one; by default below this one."""
    try:
        found: list[psutil.Process] = psutil.Process(pid).children(recursive=True)
    except psutil.NoSuchProcess:
        return []
    return found


def kill_session(number: int) -> None:
    """End all processes of a session but its leader, whose process id is the session's number."""
    kill([each for each in psutil.process_iter() if each.pid != number and _session(each.pid) == number])


def _session(pid: int) -> int:
    """Return the session that a process belongs to; -1 if it has ended, or is hidden from us."""
    try:
        return os.getsid(pid)
    except OSError:
        return -1


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
