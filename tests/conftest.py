"""How tests run BSP programs: in this interpreter, or with the ranks of an MPI job as elements.

`run(main, nprocs=...)` is `bsp.run`.  Started by mpiexec, every rank runs the same tests and the ranks are
the elements, so each test here is also a test of the exchange between elements (see tests/mpi).
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import hypothesis
import pytest

import bsp

IN_WORLD = int(os.environ.get("OMPI_COMM_WORLD_SIZE", "1")) > 1

# every rank must draw the same examples
hypothesis.settings.register_profile("same everywhere", derandomize=True, deadline=None, database=None)
hypothesis.settings.load_profile("same everywhere")

Run = Callable[..., list[Any]]


def run_program(main: Callable[..., Any], *args: Any, **options: Any) -> list[Any]:
    """bsp.run on whatever elements this test session has."""
    if IN_WORLD:
        options.setdefault("engine", "world")
    return bsp.run(main, *args, **options)


@pytest.fixture
def run() -> Run:
    """`run(main, *args, nprocs=p)`: the results of main(proc, *args) by pid."""
    return run_program


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """In a job, tests that start jobs of their own or look at this interpreter's output have no place."""
    if IN_WORLD:
        items[:] = [item for item in items if not (item.get_closest_marker("jobs") or item.get_closest_marker("solo"))]
