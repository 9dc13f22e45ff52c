"""Run SUMMA, the usual baseline: owners broadcast panels along rows and columns of the grid.

Source: van de Geijn and Watts, Concurrency 9 (1997).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from bsp.algorithms.matmul.blocks import added, contiguous
from bsp.algorithms.matmul.counts import Counted, holder
from bsp.algorithms.matmul.schedules import TWO_PHASE, GridPlace, span
from bsp.algorithms.matmul.strassen import product
from bsp.arrays.procedures import DType, World


def broadcast(here: World, cost: Counted, place: GridPlace, a: Any, b: Any, leaf: str) -> Any:
    """Return this process's block of C: panels of A go along rows of the grid, of B along columns.  Collective."""
    s = cost.schedule
    exchanges = iter(cost.exchanges)
    total: Any = None
    for low, high in s.panels:
        steps = [next(exchanges) for _ in range(2 if s.way == TWO_PHASE else 1)]
        i, j, _ = place
        root_a, root_b = holder(s.k, s.columns, low), holder(s.k, s.rows, low)
        panel_a = panel_b = None
        if j == root_a:
            start = s.home_a(0, j)[0]
            panel_a = contiguous(a[:, low - start : high - start])
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
        new = product(here, panel_a, panel_b, leaf)
        total = new if total is None else added(total, new)
        del new
        del sides, panel_a, panel_b
    if total is None:  # there is no panel: k is 0
        return np.matmul(a, b) if a.shape[1] == b.shape[0] else None
    return total


class _Side:
    """A panel that `root` broadcasts along a row or a column of the grid; `me`: this process's place there."""

    def __init__(self, pids: list[int], me: int, root: int, axis: int, shape: tuple[int, int], panel: Any) -> None:
        self.pids, self.me, self.root, self.axis, self.shape, self.panel = pids, me, root, axis, shape, panel

    def to_all(self) -> list[tuple[int, Any]]:
        """Return what the root sends: the panel to every other process."""
        if self.panel is None or not self.panel.size:
            return []
        return [(pid, self.panel) for x, pid in enumerate(self.pids) if x != self.me]

    def received(self, here: World, arrived: dict[int, Any], dtype: DType) -> Any:
        """Return the panel, which has arrived unless this process is the root."""
        if self.panel is not None:
            return self.panel
        return arrived[self.pids[self.root]] if self.shape[0] and self.shape[1] else here.empty(self.shape, dtype)

    def index(self, x: int) -> tuple[slice, ...]:
        """Return the index of the part of the panel that place x passes on."""
        cut = slice(*span(self.shape[self.axis], len(self.pids), x))
        return (cut, slice(None)) if self.axis == 0 else (slice(None), cut)


def _in_two_phases(here: World, sides: list[_Side], steps: list[Any], dtype: DType) -> list[Any]:
    """Broadcast panels in two supersteps: the root sends each process a part, then each sends its part to all."""
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
