"""A schedule carried out: blocks travel, bricks are multiplied, partial sums are added.

Every process multiplies contiguous blocks only, whether they came from afar or from its own element, so that BLAS
takes the same way through them and the bits of a product do not depend on the number of elements.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from bsp.algorithms.matmul.counts import Cost, holder
from bsp.algorithms.matmul.schedules import SHIFTED, TWO_PHASE, Place, Schedule, span
from bsp.algorithms.matmul.strassen import product
from bsp.arrays.planning.graph import Blocks, DType
from bsp.arrays.planning.layout import Layout
from bsp.arrays.world import World
from bsp.payload import is_abstract

Piece = tuple[int, int, int]  # a place along an axis of the grid, and the range of k that it has of what is wanted


def contiguous(block: Any) -> Any:
    """A block in C order; itself if it is that."""
    return block if block.flags.c_contiguous else block.copy()


def own(here: World, block: Any) -> Any:
    """A block to multiply: in C order; in a run without values a shape, if it was real data."""
    return here.empty(block.shape, block.dtype) if here.abstract and not is_abstract(block) else contiguous(block)


def _columns(block: Any, first: int, last: int) -> Any:
    return block if (first, last) == (0, block.shape[1]) else block[:, first:last]


def run(here: World, cost: Cost, a: Blocks, b: Blocks, c: Layout, dtype: DType, leaf: str) -> Blocks:
    """This process's block of C from its blocks of A and B, in the layouts of the schedule."""
    multiply = _shifted if cost.schedule.way == SHIFTED else _broadcast
    place = cost.schedule.place(here.pid)
    own_a, own_b = (own(here, block) for blocks in (a, b) for block in blocks.values()) if place else (None, None)
    total = multiply(here, cost, place, own_a, own_b, leaf)
    if cost.schedule.layers > 1:
        total = summed(here, cost, place, total)
    if place is None:
        return {}
    (at,) = c.mine(here.pid)
    return {at: here.empty(c.block_shape(at), dtype) if total is None else total}


def _shifted(here: World, cost: Cost, place: Place | None, a: Any, b: Any, leaf: str) -> Any:
    """Each round: what others ask of this process goes out, what its turn asks for comes in, one product is added."""
    s = cost.schedule
    total: Any = None
    for t in range(s.rounds):
        exchange = cost.exchanges[t]
        if place is None:
            if exchange.h:
                here.exchange(exchange.what, [])
            continue
        i, j, layer = place
        low, high = s.piece(place, t)
        of_a = _pieces(s.k, s.layers * s.columns, layer * s.columns, low, high) if a.shape[0] else []
        of_b = _pieces(s.k, s.layers * s.rows, layer * s.rows, low, high) if b.shape[1] else []
        arrived: dict[int, Any] = {}
        whole: Any = None
        if exchange.h:
            into = None
            if here.alone and not here.abstract and len(of_b) > 1:  # B's rows are received where they belong
                whole = here.empty((high - low, b.shape[1]), b.dtype)
                into = {
                    s.pid(x, j, layer): [whole[first - low : last - low].reshape(-1)]
                    for x, first, last in of_b
                    if x != i
                }
            arrived = dict(here.exchange(exchange.what, _asked_of(s, place, t, a, b), into))
        left, right = s.home_a(layer, j), s.home_b(layer, i)
        mine_a = {j: _columns(a, max(low, left[0]) - left[0], max(min(high, left[1]) - left[0], 0))}
        mine_b = {i: b[max(low, right[0]) - right[0] : max(min(high, right[1]) - right[0], 0)]}
        mine_a |= {x: arrived[s.pid(i, x, layer)] for x, _, _ in of_a if x != j}
        mine_b |= {x: arrived[s.pid(x, j, layer)] for x, _, _ in of_b if x != i}
        arrived.clear()
        brick_a = _joined(here, of_a, mine_a, low, (a.shape[0], high - low), a.dtype, 1)
        mine_a.clear()
        brick_b = _joined(here, of_b, mine_b, low, (high - low, b.shape[1]), b.dtype, 0, whole)
        mine_b.clear()
        del whole
        total = _added(total, product(here, brick_a, brick_b, leaf))
        del brick_a, brick_b
    return total


def _pieces(k: int, parts: int, first: int, low: int, high: int) -> list[Piece]:
    """Who has what of a range of k: places counted from part `first`."""
    found = []
    if low < high:
        for part in range(holder(k, parts, low), holder(k, parts, high - 1) + 1):
            start, stop = span(k, parts, part)
            if start < stop:
                found.append((part - first, max(low, start), min(high, stop)))
    return found


def _asked_of(s: Schedule, place: Place, t: int, a: Any, b: Any) -> list[tuple[int, Any]]:
    """What other processes read of this one's blocks in a round."""
    i, j, layer = place
    out: list[tuple[int, Any]] = []
    start, stop = s.home_a(layer, j)
    copies: dict[tuple[int, int], Any] = {}
    for x in range(s.columns) if a.size else ():
        low, high = s.piece(Place(i, x, layer), t)
        low, high = max(low, start), min(high, stop)
        if x != j and low < high:
            if (low, high) not in copies:
                copies[low, high] = contiguous(_columns(a, low - start, high - start))
            out.append((s.pid(i, x, layer), copies[low, high]))
    start, stop = s.home_b(layer, i)
    for x in range(s.rows) if b.size else ():
        low, high = s.piece(Place(x, j, layer), t)
        low, high = max(low, start), min(high, stop)
        if x != i and low < high:
            out.append((s.pid(x, j, layer), b[low - start : high - start]))
    return out


def _joined(
    here: World, pieces: list[Piece], found: dict[int, Any], low: int, shape: tuple[int, int], dtype: DType, axis: int,
    whole: Any = None,
) -> Any:  # fmt: skip
    """Pieces of a range of k beside each other along an axis; a single one as it is."""
    if len(pieces) == 1:
        return contiguous(found[pieces[0][0]])
    if whole is None:
        whole = here.empty(shape, dtype)
    for place, start, stop in pieces:
        index = (slice(None),) * axis + (slice(start - low, stop - low),)
        if here.abstract or not np.may_share_memory(found[place], whole):
            whole[index] = found[place]
    return whole


def _added(total: Any, new: Any) -> Any:
    if total is None:
        return new
    if new.dtype.kind == "b":
        total |= new
    else:
        total += new
    return total


def _broadcast(here: World, cost: Cost, place: Place | None, a: Any, b: Any, leaf: str) -> Any:
    """Each panel of A goes along rows of the grid, each of B along columns; then all multiply."""
    s = cost.schedule
    exchanges = iter(cost.exchanges)
    total: Any = None
    for low, high in s.panels:
        steps = [next(exchanges) for _ in range(2 if s.way == TWO_PHASE else 1)]
        if place is None:
            for step in steps:
                if step.h:
                    here.exchange(step.what, [])
            continue
        i, j, _ = place
        root_a, root_b = holder(s.k, s.columns, low), holder(s.k, s.rows, low)
        panel_a = panel_b = None
        if j == root_a:
            start = s.home_a(0, j)[0]
            panel_a = contiguous(_columns(a, low - start, high - start))
        if i == root_b:
            start = s.home_b(0, i)[0]
            panel_b = b[low - start : high - start]
        row, column = [s.pid(i, x, 0) for x in range(s.columns)], [s.pid(x, j, 0) for x in range(s.rows)]
        sides = [
            _Side(row, j, root_a, 0, (a.shape[0], high - low), panel_a),
            _Side(column, i, root_b, 1, (high - low, b.shape[1]), panel_b),
        ]
        if s.way == TWO_PHASE:
            panel_a, panel_b = _in_two_phases(here, sides, steps, a.dtype)
        else:
            out = [each for side in sides for each in side.to_all()]
            arrived = dict(here.exchange(steps[0].what, out)) if steps[0].h else {}
            panel_a, panel_b = (side.received(here, arrived, a.dtype) for side in sides)
        total = _added(total, product(here, panel_a, panel_b, leaf))
        del sides, panel_a, panel_b
    if total is None and place is not None:  # there is no panel: k is 0
        return np.matmul(a, b) if a.shape[1] == b.shape[0] else None
    return total


class _Side:
    """A panel on its way along a row or a column of the grid, from `root` to all; `me`: this process's place there."""

    def __init__(self, pids: list[int], me: int, root: int, axis: int, shape: tuple[int, int], panel: Any) -> None:
        self.pids, self.me, self.root, self.axis, self.shape, self.panel = pids, me, root, axis, shape, panel

    def to_all(self) -> list[tuple[int, Any]]:
        """The panel to everybody, from the root."""
        if self.panel is None or not self.panel.size:
            return []
        return [(pid, self.panel) for x, pid in enumerate(self.pids) if x != self.me]

    def received(self, here: World, arrived: dict[int, Any], dtype: DType) -> Any:
        """The panel."""
        if self.panel is not None:
            return self.panel
        return arrived[self.pids[self.root]] if self.shape[0] and self.shape[1] else here.empty(self.shape, dtype)

    def index(self, x: int) -> tuple[slice, ...]:
        """The part of the panel that place x passes on."""
        cut = slice(*span(self.shape[self.axis], len(self.pids), x))
        return (cut, slice(None)) if self.axis == 0 else (slice(None), cut)


def _in_two_phases(here: World, sides: list[_Side], steps: list[Any], dtype: DType) -> list[Any]:
    """Panels cut into parts, a part to each; then everybody's part to everybody."""
    out = []
    for side in sides:
        for x, pid in enumerate(side.pids) if side.panel is not None else ():
            part = side.panel[side.index(x)]
            if x != side.me and part.size:
                out.append((pid, contiguous(part)))
    arrived = dict(here.exchange(steps[0].what, out)) if steps[0].h else {}
    out, own = [], []
    for side in sides:
        if side.panel is not None:
            part = contiguous(side.panel[side.index(side.me)])
        else:
            part = arrived.get(side.pids[side.root])
        own.append(part)
        for x, pid in enumerate(side.pids) if part is not None and part.size else ():
            if x not in (side.me, side.root):
                out.append((pid, part))
    arrived = dict(here.exchange(steps[1].what, out)) if steps[1].h else {}
    panels = []
    for side, part in zip(sides, own, strict=True):
        panel = side.panel
        if panel is None:
            panel = here.empty(side.shape, dtype)
            for x, pid in enumerate(side.pids):
                if x == side.me:
                    if part is not None:
                        panel[side.index(x)] = part
                elif pid in arrived:
                    panel[side.index(x)] = arrived[pid]
        panels.append(contiguous(panel))
    return panels


def summed(here: World, cost: Cost, place: Place | None, total: Any) -> Any:
    """The partial sums of all layers, each of them on the process that has this part of C; the lowest layer first."""
    s, exchange = cost.schedule, cost.exchanges[-1]
    if place is None:
        if exchange.h:
            here.exchange(exchange.what, [])
        return None
    i, j, layer = place
    first = span(s.m, s.rows, i)[0]
    rows = [slice(*(edge - first for edge in span(s.m, s.rows * s.layers, i * s.layers + x))) for x in range(s.layers)]
    out = [(s.pid(i, j, x), total[rows[x]]) for x in range(s.layers) if x != layer and total[rows[x]].size]
    arrived = dict(here.exchange(exchange.what, out)) if exchange.h else {}
    mine = total[rows[layer]]
    if not mine.size:
        return here.empty(mine.shape, mine.dtype)
    parts = [mine if x == layer else arrived[s.pid(i, j, x)] for x in range(s.layers)]
    found = np.logical_or(parts[0], parts[1]) if mine.dtype.kind == "b" else np.add(parts[0], parts[1])
    for part in parts[2:]:
        found = _added(found, part)
    return found
