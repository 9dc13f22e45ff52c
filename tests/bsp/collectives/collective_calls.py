"""Calls of every collective alike, and their results as numbers."""

from __future__ import annotations

from typing import Any

import numpy as np

import bsp


def call(proc: bsp.Process, name: str, algorithm: str | None, memory: np.ndarray) -> Any:
    """The collective `name` on the rows of `memory`, one row for each process."""
    mine = memory[proc.pid]
    if name == "transfer":
        return proc.transfer(mine, to=(proc.pid + 1) % proc.nprocs, expect=True)
    if name in ("alltoall", "scatter"):
        return getattr(proc, name)(list(memory), algorithm=algorithm)
    return getattr(proc, name)(memory if name == "total_exchange" else mine, algorithm=algorithm)


def check_that_its_result_is_its_own(proc: bsp.Process, name: str, algorithm: str | None) -> None:
    """Call a collective on large arrays and change the result, at once, where others here may not yet have theirs."""
    memory = np.arange(proc.nprocs * 20_000.0).reshape(proc.nprocs, 20_000)
    expected = flattened(call(proc, name, algorithm, memory))
    got = call(proc, name, algorithm, memory)
    seen = flattened(got)
    for array in [got] if isinstance(got, np.ndarray) else got or []:
        array[...] = np.nan
    assert seen == expected


def flattened(result: Any) -> Any:
    """The numbers of a collective's result as nested lists."""
    if isinstance(result, (list, tuple)):
        return [flattened(item) for item in result]
    return result.tolist() if isinstance(result, np.ndarray) else result
