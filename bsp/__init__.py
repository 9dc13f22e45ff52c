"""Bulk-synchronous parallel programs in Python.

    import bsp
    proc = bsp.process()                      # outside bsprun: a world of one process
    x = proc.coarray(proc.nprocs)             # one array per process
    x.put((proc.pid + 1) % proc.nprocs, [proc.pid], at=slice(0, 1))
    proc.sync()                               # now x.local[0] holds my left neighbour's pid

    bsp.process, bsp.Process        which of the p processes calls: pid, nprocs, sync, collectives, rounds
    bsp.Coarray, bsp.Pending        memory that other processes put into and get from
    bsp.Message, bsp.State          what `proc.inbox` holds; what a `proc.rounds` loop carries
    bsp.run                         a function as a BSP program, from a notebook or a test
    bsp.Session                     processes that stay alive from cell to cell; `%load_ext bsp` gives `%%bsp` cells
    bsp.predict, bsp.expect         what a run would cost; how long a loop is assumed to run
    bsp.arrays, bsp.algorithms      NumPy's arrays on many processes; GLMs, QR, matrix products (import them by name)
    bsp.BspError                    the base class of all errors

Codes in docstrings, such as (B3) or (D1), are numbered rules: help("bsp.processes") lists those of processes, and
docs/explanation/rules.md all of them.
Names are loaded when first used, so that `bsprun` starts the job before NumPy is needed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

    from bsp.coarray import Coarray
    from bsp.cost.model import Machine
    from bsp.cost.prediction.predict import Prediction, predict
    from bsp.errors import (
        BoundaryInImport,
        BoundaryInOnce,
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
        SessionEnded,
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
    from bsp.pending import Pending
    from bsp.processes import Message, Process
    from bsp.rounds import State
    from bsp.runner import run
    from bsp.session.session import Session
    from bsp.world import process

    def parallel(function: Callable[..., Any]) -> Callable[..., Any]:  # of bsp.arrays, which is not imported here
        """Return a function for distributed arrays: see `bsp.arrays.loops.parallel`."""


__version__ = "0.1.0"

_HOMES = {
    "arrays.loops": ("parallel",),
    "coarray": ("Coarray",),
    "cost.model": ("Machine",),
    "cost.prediction.predict": ("Prediction", "predict"),
    "errors": (
        "BoundaryInImport", "BoundaryInOnce", "BspError", "CannotMove", "CannotSend", "CastError", "CollectiveMistake",
        "EffectsLost", "Forked", "GetOutOfRange", "LaunchError", "LocalMistake", "MachineError", "NoInput", "NoRoom",
        "NoSuchProcess", "Nondeterminism", "NotReady", "NotRegistered", "Overlap", "ProcessExited", "ProcessFailed",
        "PutOutOfRange", "RegistrationMismatch", "ScheduleDependence", "SessionEnded", "ShapeError", "SyncMismatch",
        "TraceError", "TransferMismatch", "Undeclared", "UnknownAlgorithm", "UnknownOperation", "ValueNeeded",
        "WrongThread",
    ),
    "expecting": ("expect",),
    "pending": ("Pending",),
    "processes": ("Message", "Process"),
    "rounds": ("State",),
    "runner": ("run",),
    "session.magic": ("load_ipython_extension", "unload_ipython_extension"),
    "session.session": ("Session",),
    "world": ("process",),
}  # fmt: skip
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}

__all__ = [
    "BoundaryInImport", "BoundaryInOnce", "BspError", "CannotMove", "CannotSend", "CastError", "Coarray",
    "CollectiveMistake", "EffectsLost", "Forked", "GetOutOfRange", "LaunchError", "LocalMistake", "Machine",
    "MachineError", "Message", "NoInput", "NoRoom", "NoSuchProcess", "Nondeterminism", "NotReady", "NotRegistered",
    "Overlap", "Pending", "Prediction", "Process", "ProcessExited", "ProcessFailed", "PutOutOfRange",
    "RegistrationMismatch", "ScheduleDependence", "Session", "SessionEnded", "ShapeError", "State", "SyncMismatch",
    "TraceError", "TransferMismatch", "Undeclared", "UnknownAlgorithm", "UnknownOperation", "ValueNeeded",
    "WrongThread", "expect", "parallel", "predict", "process", "run",
]  # fmt: skip

if not TYPE_CHECKING:  # type checkers read the imports above, and report names that do not exist

    def __getattr__(name: str) -> Any:
        from importlib import import_module

        if name not in _HOME_OF:
            raise AttributeError(f"module 'bsp' has no attribute {name!r}{_where(name)}")
        value = getattr(import_module(f"bsp.{_HOME_OF[name]}"), name)
        globals()[name] = value
        return value

    def _where(name: str) -> str:
        """Return what to write for a name that is a package of ours, or that a process has; else nothing."""
        from importlib import import_module
        from importlib.util import find_spec

        if name.startswith("_"):
            return ""
        if find_spec(f"bsp.{name}") is not None:
            return f" yet: it is a module, so write import bsp.{name}"
        if name in ("pid", "nprocs") or hasattr(import_module("bsp.processes").Process, name):
            return f": it is of a process, proc = bsp.process(), so write proc.{name}"
        return ""


def __dir__() -> list[str]:
    """Return the public names: what help and completion show."""
    packages = {name for name in ("algorithms", "arrays") if name in globals()}  # those that were imported
    return sorted({*__all__, *packages, "__version__"})
