"""Tasks of a process: their index ranges, and where the regions that they read come from."""

from __future__ import annotations

from typing import Any, NamedTuple

from bsp.arrays.expressions.layout import Shape
from bsp.arrays.planning.stages import Fetch, ReadRegion


class Direct(NamedTuple):
    """A region that is a block of this process, or a view of it."""

    value: int
    block: Shape
    where: tuple[Any, ...] | None  # an index into the block; None: the whole block
    fetch: Fetch


class Pieced(NamedTuple):
    """A region assembled from pieces."""

    fetch: Fetch
    number: int  # number of the fetch in the plan
    region: ReadRegion


class TaskOrder(NamedTuple):
    """One task: its coordinates, its index ranges, and the sources of its regions."""

    at: Shape
    box: tuple[tuple[int, int], ...]
    reads: list[Direct | Pieced]


def block_of(fetch: Fetch, at: Shape) -> Direct:
    """Return the block of this process that a task reads; its index drops the axes at fixed positions."""
    layout = fetch.ref.value.layout
    block: list[int] = []
    where: list[Any] = []
    for axis, (label, start, _) in zip(layout.axes, fetch.ref.access, strict=True):
        if label < 0:
            part = axis.part_of(start)
            block.append(part)
            where.append(start - int(axis.bounds[part]))
        else:
            block.append(at[label])
            where.append(slice(None))
    labels = [each.label for each in fetch.ref.access]
    plain = labels == sorted(labels) and all(label >= 0 for label in labels)
    return Direct(fetch.ref.value.number, tuple(block), None if plain else (*where, ...), fetch)
