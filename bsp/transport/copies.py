"""Copies of blocks that puts hold until the boundary."""

from __future__ import annotations

from typing import Any


def copy(to: Any, source: Any) -> None:
    """Copy the bytes of one contiguous buffer into another of the same size, which it must not overlap.

    In C the bytes of a very large copy go past the caches, which saves fetching the lines that are overwritten; so do
    those of any other where that is faster.
    """
    place, data = memoryview(to).cast("B"), memoryview(source).cast("B")
    if len(place) != len(data):
        raise ValueError(f"{len(data)} bytes into the place of {len(place)}")
    place[:] = data
