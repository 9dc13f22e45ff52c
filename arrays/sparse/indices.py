"""Checks of what callers give: element types, coordinates of entries, and positions or masks along an axis."""

from __future__ import annotations

import operator
from typing import Any

import numpy as np

from bsp.arrays.errors import ArrayError
from bsp.arrays.execution.world import world
from bsp.errors import ValueNeeded


def check_dtype(dtype: np.dtype[Any], what: str) -> None:
    """Raise ArrayError if scipy's sparse arrays, which operations are made of, cannot hold an element type."""
    if wrong := misfit(dtype):
        raise ArrayError(f"{what}: {wrong}")


def misfit(dtype: np.dtype[Any]) -> str:
    """Return why scipy's sparse arrays cannot hold an element type; an empty text if they can."""
    if dtype.kind in "biufc" and dtype != np.float16:
        return ""
    return f"sparse arrays hold booleans, integers, and real and complex numbers of 32 bits or more, not {dtype}"


def checked_lengths(shape: Any, call: str) -> tuple[int, int]:
    """Return the numbers of rows and columns that a caller gives; ArrayError if it gives anything else."""
    try:
        m, n = map(operator.index, shape)
    except (TypeError, ValueError):
        m = n = -1
    if not (0 <= m < 2**63 and 0 <= n < 2**63):
        raise ArrayError(f"{call}: shape {shape!r:.60}: the numbers of rows and columns, integers from 0")
    return m, n


def given_values(given: Any, call: str) -> np.ndarray:
    """Return what a caller gives as a NumPy array; ValueNeeded, which names `sparse.model`, if it has no values."""
    try:
        return np.asarray(given)
    except ValueNeeded:
        from bsp.abstract.errors import value_needed  # only runs without values need it

        raise value_needed(call, given, "take sparse.model, which stands for a matrix of so many entries") from None


def length_for(indices: np.ndarray) -> int:
    """Return the least length of an axis that has these indices; 0 if there are none, or if they are no integers."""
    return int(indices.max()) + 1 if indices.size and indices.dtype.kind in "iu" else 0


def checked_indices(indices: np.ndarray, length: int, what: str) -> np.ndarray:
    """Return indices as integers; ArrayError, with the place, if they are no integers or any is out of range."""
    found = np.asarray(indices)
    if found.dtype.kind not in "iu":
        if found.size:
            raise ArrayError(f"{what}: indices are integers, not {found.dtype}")
        found = found.astype(np.int64)
    if found.size and (low := int(found.min()), high := int(found.max())) and (low < 0 or high >= length):
        wrong = low if low < 0 else high
        at = int(np.argmax(found == wrong))
        raise ArrayError(
            f"{what}: index {wrong} is out of range for length {length} (entry {at} of process {world().pid})"
        )
    return found


def positions_of(key: Any, length: int, what: str) -> np.ndarray:
    """Return the positions along an axis at a mask or a vector of positions; the latter may be negative.

    Raises IndexError if one is out of bounds, or a mask has another length; ArrayError if the key is neither.
    """
    found = np.asarray(key.compute() if hasattr(key, "compute") else key)
    if found.dtype == bool:
        if found.shape != (length,):
            raise IndexError(f"{what}: a mask of shape {found.shape} for {length} positions")
        return np.flatnonzero(found)
    if found.ndim != 1 or (found.size and found.dtype.kind not in "iu"):
        raise ArrayError(f"{what}: an integer, a slice, a mask or a vector of positions, not {key!r:.60}")
    wrong = found[(found < -length) | (found >= length)]
    if wrong.size:
        raise IndexError(f"{what}: {wrong[0]} is out of bounds for length {length}")
    return np.asarray(found.astype(np.int64) % max(length, 1))
