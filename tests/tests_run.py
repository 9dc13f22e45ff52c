"""How tests run BSP programs: in this interpreter, or with the ranks of an MPI job as elements."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import bsp

IN_WORLD = int(os.environ.get("OMPI_COMM_WORLD_SIZE", "1")) > 1


def run_program(main: Callable[..., Any], *args: Any, **options: Any) -> list[Any]:
    """bsp.run on whatever elements this test session has."""
    if IN_WORLD:
        options.setdefault("engine", "world")
    return bsp.run(main, *args, **options)
