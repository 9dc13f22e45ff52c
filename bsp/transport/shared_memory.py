"""Open MPI's files of shared memory, removed while they are in use.

Each element keeps a file of 16 MiB in /dev/shm, which Open MPI removes at the job's end.  A job that is killed cannot,
and the file would stay until the machine is started anew.  Once all elements of a host have mapped one another's files,
the names serve nobody: the memory lives as long as somebody maps it.
"""

from __future__ import annotations

import contextlib
import os
import re
from typing import Any

_SEGMENT = re.compile(r" (/\S*/(?:sm|vader)_segment\.\S+)$", re.MULTILINE)  # of Open MPI 5, and of 4


def unlink_segments(comm: Any) -> None:
    """Remove the names of the mapped segments if every element of a host maps all of that host's.  Collective.

    comm : the MPI communicator of all elements.
    """
    names = set(_SEGMENT.findall(_maps()))
    complete = len(names) == int(os.environ.get("OMPI_COMM_WORLD_LOCAL_SIZE", "0"))
    if comm.allreduce(int(complete)) == comm.size:
        for name in names:
            with contextlib.suppress(OSError):  # another element was faster
                os.unlink(name)


def _maps() -> str:
    """Return the kernel's list of what this process has mapped, a line each; nothing where there is no such list."""
    try:
        with open("/proc/self/maps", encoding="utf-8", errors="surrogateescape") as file:
            return file.read()
    except OSError:
        return ""
