"""Transfer: messages with at most one sender for each receiver, sent if and only if expected (MSL)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from bsp.collectives.steps import Steps, pack, unpack
from bsp.errors import NoSuchProcess, TransferMismatch
from bsp.source import SourceLine, here

if TYPE_CHECKING:
    from bsp.processes import Process


def transfer(proc: Process, payload: Any, to: int | None, expect: bool) -> Any:
    """Return the value that one other process sends to this one, if it expects one; see `Process.transfer`."""
    steps = Steps(proc, "transfer", None)
    if to is not None:
        if not isinstance(to, (int, np.integer)) or isinstance(to, bool) or not 0 <= to < proc.nprocs:
            raise NoSuchProcess(f"transfer to process {to!r}: pids are 0..{proc.nprocs - 1}{proc._place()}")
        steps.post([int(to)], pack(payload, proc, "transfer"), tuple(here()))
    arrived = steps.step()
    if len(arrived) > 1:
        raise steps.failed(
            TransferMismatch(
                f"transfer: processes {', '.join(map(str, sorted(arrived)))} all send to process {proc.pid} "
                f"(one of them at {SourceLine(steps.note)}, received at {here()}); a receiver has at most one sender"
            )
        )
    if bool(arrived) != bool(expect):
        if arrived:
            source = next(iter(arrived))
            what = (
                f"process {source} sends at {SourceLine(steps.note)} to process {proc.pid}, "
                f"which expects nothing at {here()}"
            )
        else:
            what = f"process {proc.pid} expects a value at {here()}, and no process sends it one"
        raise steps.failed(TransferMismatch(f"transfer: {what}; sent if and only if expected"))
    return unpack(next(iter(arrived.values()))) if arrived else None
