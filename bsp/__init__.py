"""Bulk-synchronous parallel programs in Python.

    import bsp
    proc = bsp.process()                      # outside bsprun: a world of one process
    x = proc.coarray(proc.nprocs)             # one array per process
    x.put((proc.pid + 1) % proc.nprocs, [proc.pid], at=slice(0, 1))
    proc.sync()                               # now x.local[0] holds my left neighbour's pid

Names are loaded when first used, so that `bsprun` starts the job before NumPy is needed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from bsp.coarray import Coarray, Pending
    from bsp.cost.model import Machine
    from bsp.cost.prediction.predict import Prediction, predict
    from bsp.errors import (
        BoundaryInImport,
        BspError,
        CannotMove,
        CannotSend,
        CastError,
        CollectiveMistake,
        EffectsLost,
        Forked,
        GetOutOfRange,
        LaunchError,
        LocalMistake,
        MachineError,
        NoInput,
        Nondeterminism,
        NoRoom,
        NoSuchProcess,
        NotReady,
        NotRegistered,
        Overlap,
        ProcessExited,
        ProcessFailed,
        PutOutOfRange,
        RegistrationMismatch,
        ScheduleDependence,
        ShapeError,
        SyncMismatch,
        TraceError,
        TransferMismatch,
        Undeclared,
        UnknownAlgorithm,
        UnknownOperation,
        ValueNeeded,
        WrongThread,
    )
    from bsp.expecting import expect
    from bsp.processes import Message, Process
    from bsp.rounds import State
    from bsp.runner import run
    from bsp.world import process

__version__ = "0.1.0"

_HOMES = {
    "coarray": ("Coarray", "Pending"),
    "cost.model": ("Machine",),
    "cost.prediction.predict": ("Prediction", "predict"),
    "errors": (
        "BoundaryInImport", "BspError", "CannotMove", "CannotSend", "CastError", "CollectiveMistake", "EffectsLost",
        "Forked", "GetOutOfRange", "LaunchError", "LocalMistake", "MachineError", "NoInput", "NoRoom", "NoSuchProcess",
        "Nondeterminism", "NotReady", "NotRegistered", "Overlap", "ProcessExited", "ProcessFailed", "PutOutOfRange",
        "RegistrationMismatch", "ScheduleDependence", "ShapeError", "SyncMismatch", "TraceError",
        "TransferMismatch", "Undeclared", "UnknownAlgorithm", "UnknownOperation", "ValueNeeded", "WrongThread",
    ),
    "expecting": ("expect",),
    "processes": ("Message", "Process"),
    "rounds": ("State",),
    "runner": ("run",),
    "world": ("process",),
}  # fmt: skip
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}

__all__ = [
    "BoundaryInImport", "BspError", "CannotMove", "CannotSend", "CastError", "Coarray", "CollectiveMistake",
    "EffectsLost", "Forked", "GetOutOfRange", "LaunchError", "LocalMistake", "Machine", "MachineError", "Message",
    "NoInput", "NoRoom", "NoSuchProcess", "Nondeterminism", "NotReady", "NotRegistered", "Overlap", "Pending",
    "Prediction", "Process", "ProcessExited", "ProcessFailed", "PutOutOfRange", "RegistrationMismatch",
    "ScheduleDependence", "ShapeError", "State", "SyncMismatch", "TraceError", "TransferMismatch",
    "Undeclared", "UnknownAlgorithm", "UnknownOperation", "ValueNeeded", "WrongThread", "expect", "predict",
    "process", "run",
]  # fmt: skip


def __getattr__(name: str) -> Any:
    from importlib import import_module

    if name not in _HOME_OF:
        raise AttributeError(f"module 'bsp' has no attribute {name!r}")
    value = getattr(import_module(f"bsp.{_HOME_OF[name]}"), name)
    globals()[name] = value
    return value
