"""`bsp.process()`: the process that calls it, among those whose element runs in this interpreter."""

from __future__ import annotations

import atexit
import contextlib
import os
import random
import sys
import traceback
import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np

from bsp.engine.element import Element
from bsp.engine.task import Task, imports_under_way, refuse_in_import
from bsp.errors import EffectsLost, NotRegistered
from bsp.processes import Process
from bsp.source import here

_elements: list[Element] = []
# The states of the global generators when this package was imported.  A program that has seeded one between then
# and its first bsp.process() wants those numbers: such a generator is left alone.
_untouched = np.random.get_state()[1:3], random.getstate()  # type: ignore[index]


def handle(task: Task) -> Process:
    """Return the user's handle of a process: always the same object."""
    if task.handle is None:
        task.handle = Process(task, task.contexts[0])
    return task.handle


@contextlib.contextmanager
def hosting(element: Element) -> Iterator[None]:
    """Make `bsp.process()` return this element's processes inside the block."""
    _elements.append(element)
    try:
        yield
    finally:
        _elements.remove(element)


def process() -> Process:
    """Return the process that calls: under `bsprun` one of p; elsewhere the only process of a world of one.

    Raises BoundaryInImport in a module while it is imported: the module is shared by all processes of an element.
    Raises NotRegistered after the end of the run.
    """
    turn = _elements[-1].turn if _elements else None
    refuse_in_import("bsp.process()", sys._getframe(1), turn.pid if turn is not None else 0)
    if not _elements:
        _elements.append(_world_of_one())
        turn = _elements[-1].turn
    if turn is None:
        raise NotRegistered("bsp.process() after the end of the run: there is no process any more")
    return handle(turn)


def kept_by(library: str) -> Any:
    """Return what a library keeps for the process that calls, or None: it then asks `process()`, which says why."""
    turn = _elements[-1].turn if _elements and not imports_under_way() else None
    return None if turn is None else turn.libraries.get(library)


def _world_of_one() -> Element:
    """Return the element of a plain `python script.py`: one process, which has run since the interpreter started."""
    _warn_under_mpi()
    element = Element(nprocs=1)
    element.host(lambda task: None)
    (task,) = element.tasks
    element.turn = task
    key, position = np.random.get_state()[1:3]  # type: ignore[index]
    if position == _untouched[0][1] and np.array_equal(key, _untouched[0][0]):
        task.streams.numpy.enter()
    if random.getstate() == _untouched[1]:
        task.streams.python.enter()
    atexit.register(_end_of_one, task)
    return element


# what MPI's launchers tell each rank: the ranks of the job, and which of them it is
_RANKS = (
    ("OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_RANK"),
    ("PMI_SIZE", "PMI_RANK"),
    ("MV2_COMM_WORLD_SIZE", "MV2_COMM_WORLD_RANK"),
)


def _warn_under_mpi() -> None:
    """On rank 0 of `mpiexec -n 4 python script.py`: these are 4 programs, not one of 4 processes."""
    told = [(os.environ.get(size, ""), os.environ.get(rank, "")) for size, rank in _RANKS]
    size = next((int(size) for size, rank in told if size.isdecimal() and rank == "0"), 1)
    if size > 1:
        line, script = here(), os.path.basename(sys.argv[0]) if os.path.isfile(sys.argv[0]) else "script.py"
        warnings.warn_explicit(
            f"MPI has started {size} copies of this program, and each is a world of one process: nothing connects "
            f"them. To run it as {size} processes: bsprun -p {size} {script}",
            RuntimeWarning,
            *(line or ("<program>", 0)),
        )


def _end_of_one(task: Task) -> None:
    """Apply rule B5 at the end of a plain script: print EffectsLost, and exit with status 1."""
    try:
        task.check_nothing_lost()
    except EffectsLost:
        if getattr(sys, "last_value", None) is not None:
            return  # the script has failed already, and its traceback is printed
        traceback.print_exc(limit=0)
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(1)
