"""Copies of large blocks into memory that another core has read."""

from __future__ import annotations

from typing import Any


def copy(to: Any, source: Any) -> None:
    """Copy the bytes of one contiguous buffer into another of the same size, which it must not overlap.

    In C the bytes go past the caches.  Memory that is written again and again here, and read by another core between,
    otherwise costs the transfer of each cache line from there, only to be overwritten: ten times the copy itself.
    """
    place, data = memoryview(to).cast("B"), memoryview(source).cast("B")
    if len(place) != len(data):
        raise ValueError(f"{len(data)} bytes into the place of {len(place)}")
    place[:] = data
