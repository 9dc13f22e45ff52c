"""Trace files: the account of a run with a head (program, date, seed) and the memory of each element."""

from __future__ import annotations

import json
import os
import socket
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

from bsp.cost.record.recorder import Recorder
from bsp.cost.whole_file import write_text
from bsp.transport.base import Transport

FORMAT, VERSION = "bsp-trace", 1


def peak_bytes() -> int:
    """Return the largest memory that this operating-system process has held so far, in bytes."""
    try:
        with open("/proc/self/status") as file:
            for line in file:
                if line.startswith("VmHWM:"):
                    return int(line.split()[1]) * 1024
    except OSError:
        pass
    import resource
    import sys

    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return most if sys.platform == "darwin" else most * 1024


def record(
    recorder: Recorder, transport: Transport, program: Sequence[str], seed: int, notes: Sequence[str] = ()
) -> dict[str, Any] | None:
    """Return the trace of the run that has ended on element 0, and None on the others.  Collective."""
    pids = recorder.pids
    mine = {"element": transport.index, "first_pid": pids.start, "last_pid": pids.stop - 1,
            "peak_bytes": peak_bytes(), "host": socket.gethostname()}  # fmt: skip
    per_element = transport.gather(mine)
    if recorder.account is None:
        return None
    found = headed("trace", program, seed, notes) | recorder.account.record(measured=True)
    found["per_element"] = per_element
    found["peak_bytes"] = max(element["peak_bytes"] for element in per_element)
    return found


def headed(kind: str, program: Sequence[str], seed: int, notes: Sequence[str]) -> dict[str, Any]:
    """Return the head of a record."""
    from bsp import __version__

    return {
        "format": FORMAT, "version": VERSION, "kind": kind, "program": list(program), "seed": seed,
        "date": datetime.now(UTC).isoformat(timespec="seconds"), "bsp": __version__, "notes": list(notes),
    }  # fmt: skip


def write(found: dict[str, Any], path: str | os.PathLike[str]) -> None:
    """Write a record as JSON, completely or not at all."""
    write_text(json.dumps(found, separators=(",", ":")), path)
