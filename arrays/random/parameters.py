"""The parameters of a draw: of a dealt array each process receives what its tiles need, and none receives all of it.

A distribution is drawn tile by tile (see `tiles`), each tile as a whole by every process whose blocks meet it.  So a
process needs the elements of a parameter under these tiles: those under its own blocks, and a margin of less than a
tile.  Which elements these are, and which processes have them, follows from the layouts; one superstep brings them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import prod
from typing import Any, NamedTuple

import numpy as np

from bsp.arrays import build
from bsp.arrays.array import Array
from bsp.arrays.execution.world import World
from bsp.arrays.expressions.graph import LEAF, Node
from bsp.arrays.expressions.layout import Layout, Shape
from bsp.arrays.random.tiles import Box, Tiles
from bsp.values.payload import as_array


class DealtParameter:
    """A dealt parameter, with the elements that this process draws with, by box."""

    def __init__(self, node: Node) -> None:
        assert node.layout is not None
        self.node = node
        self.layout: Layout = node.layout
        self.shape: Shape = node.kind.shape
        self.boxes: dict[Box, Any] = {}

    def under(self, box: Box) -> Box:
        """Return the box of the parameter that broadcasts to a box of the result."""
        own = box[len(box) - len(self.shape) :]
        return tuple((0, 1) if length == 1 else span for length, span in zip(self.shape, own, strict=True))

    def at(self, box: Box) -> Any:
        """Return the elements that broadcast to a box of the result; `fetch` must have brought them."""
        return self.boxes[self.under(box)]


def given(here: World, values: Sequence[Any]) -> list[Any]:
    """Convert parameters to numbers, to NumPy arrays if every process has all of them, or to DealtParameters.

    Collective: distributed arrays are computed, by one plan.
    """
    nodes = [build.strong(value._node) if isinstance(value, Array) else None for value in values]
    waiting = [node for node in dict.fromkeys(nodes) if node is not None and node.op is not LEAF]
    if waiting:
        here.evaluate(waiting, False)
    found = []
    for value, node in zip(values, nodes, strict=True):
        if node is None:
            found.append(_plain(value))
        else:
            part = DealtParameter(node)
            if part.layout.blocks == 1 and (part.layout.replicated or here.nprocs == 1):
                found.append(_plain(next(iter(node.value.values()))))
            else:
                found.append(part if part.shape else _plain(value.compute()))
    return found


def _plain(value: Any) -> Any:
    if isinstance(value, (int, float, complex)):  # NumPy refuses a complex number, but drops an array's imaginary part
        return value
    found = as_array(value)
    return found[()] if found.ndim == 0 else found


class _Meeting(NamedTuple):
    """The intersection of a block of a parameter and a box that some process needs."""

    block: Any  # indices into the block
    at: Shape  # coordinates of the block
    box: Box
    inside: Any  # indices into the box
    shape: Shape


def fetch(here: World, name: str, parts: Sequence[DealtParameter], tiles: Tiles, layout: Layout) -> None:
    """Bring to each process the elements of the parameters under the tiles that its blocks of a layout meet.

    Collective.
    Cost: one superstep; h = the elements that are not there already, at most a tile more than a block along each cut.
    """
    needed = [
        [list(dict.fromkeys(part.under(tiles.box(where)) for where in tiles.met(layout, pid))) for part in parts]
        for pid in range(here.nprocs)
    ]
    out = []
    for dest, wanted in enumerate(needed):
        for part, boxes in zip(parts, wanted, strict=True):
            if dest == here.pid:
                part.boxes = {box: here.empty(tuple(b - a for a, b in box), part.node.kind.dtype) for box in boxes}
            pieces = []
            for each in _meetings(part.layout, here.pid, boxes):
                piece = part.node.value[each.at][each.block]
                if dest == here.pid:
                    part.boxes[each.box][each.inside] = piece
                else:
                    pieces.append(piece.reshape(-1))
            if pieces:
                out.append((dest, np.concatenate(pieces)))
    arrived = iter(here.exchange(f"parameters of {name}", out))
    for source in range(here.nprocs):
        for part, boxes in zip(parts, needed[here.pid], strict=True):
            meetings = list(_meetings(part.layout, source, boxes)) if source != here.pid else []
            if meetings:
                _, values = next(arrived)
                start = 0
                for each in meetings:
                    part.boxes[each.box][each.inside] = values[start : start + prod(each.shape)].reshape(each.shape)
                    start += prod(each.shape)


def _meetings(layout: Layout, pid: int, boxes: Sequence[Box]) -> Iterator[_Meeting]:
    """Yield the intersections of a process's blocks with some boxes, in the same order on every process."""
    if not boxes:
        return
    ends = np.array(boxes, np.int64).reshape(len(boxes), len(layout.axes), 2)
    for at in layout.mine(pid):
        block = np.array(layout.box(at), np.int64).reshape(-1, 2)
        low, high = np.maximum(ends[..., 0], block[:, 0]), np.minimum(ends[..., 1], block[:, 1])
        for k in np.flatnonzero((low < high).all(axis=1)).tolist():
            spans = list(zip(low[k].tolist(), high[k].tolist(), strict=True))
            yield _Meeting(
                tuple(slice(a - start, b - start) for (a, b), (start, _) in zip(spans, layout.box(at), strict=True)),
                at,
                boxes[k],
                tuple(slice(a - start, b - start) for (a, b), (start, _) in zip(spans, boxes[k], strict=True)),
                tuple(b - a for a, b in spans),
            )
