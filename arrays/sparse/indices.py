"""Indices that callers give: coordinates of entries, and positions or masks along an axis."""

from __future__ import annotations

from typing import Any

import numpy as np

from bsp.arrays.errors import ArrayError
from bsp.arrays.execution.world import world


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
