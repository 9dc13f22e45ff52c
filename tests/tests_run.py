"""How tests run BSP programs: in this interpreter, or with the ranks of an MPI job as elements."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import pytest

import bsp

PROCESSES = [1, 2, 3, 4, 5, 8]
SEVERAL = PROCESSES[1:]
IN_WORLD = int(os.environ.get("OMPI_COMM_WORLD_SIZE", "1")) > 1


def run_program(main: Callable[..., Any], *args: Any, **options: Any) -> list[Any]:
    """bsp.run on whatever elements this test session has."""
    if IN_WORLD:
        options.setdefault("engine", "world")
    return bsp.run(main, *args, **options)


def told_to_all(run: Any, main: Callable[[Any], Any], nprocs: int, gone: tuple[int, ...] = ()) -> Exception:
    """The exception that ends `main`, after asserting that every process not in `gone` got that very one.

    A failed job has no results; so each process notes what it was told, and a second job collects the notes.
    """
    notes: dict[int, tuple[str, str]] = {}

    def noting(proc: Any) -> None:
        try:
            main(proc)
        except bsp.BspError as error:
            notes[proc.pid] = type(error).__name__, str(error)
            raise

    with pytest.raises(bsp.BspError) as ended:
        run(noting, nprocs=nprocs)
    said = type(ended.value).__name__, str(ended.value)
    told = run(lambda proc: notes.get(proc.pid), nprocs=nprocs)
    assert told == [None if pid in gone else said for pid in range(nprocs)]
    return ended.value
