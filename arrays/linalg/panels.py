"""Matrices by panels: block columns, dealt to the processes in turn, for LU, Cholesky and Householder QR.

A process holds whole columns.  In step k the owner of the k-th panel (b columns) factors it, with pivoting where
needed, and sends it to all; every process then updates the columns that it holds.  So pivoting needs no communication,
and each algorithm is LAPACK's right-looking one, with the same stability.  Every process receives n²/2 words in n/b
supersteps (twice as many where a panel is spread in two phases: each process receives 1/p of it and sends that to the
others).

McColl 1.6.3 (LU), Golub and Van Loan 3.2.11, 4.2.6, 5.2.3.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from bsp.arrays.array import Array, wrap
from bsp.arrays.execution.world import World, world
from bsp.arrays.expressions.graph import DType, leaf
from bsp.arrays.expressions.layout import Layout, dealt
from bsp.arrays.linalg.row_blocks import settled
from bsp.cost.model import Cost, Machine
from bsp.declared import Costs

LEAST = 32  # least columns of a panel: products with narrower ones are slow, and each costs a superstep
EVEN = 8  # columns of which a panel has a multiple: products with others take a tenth longer


def width_for(columns: int, nprocs: int) -> int:
    """Return the number of columns of a panel: eight panels a process, so that all have work until near the end.

    All others wait while a panel is factored, which is n²b of the flops in all.  Panels are not narrower than LEAST, so
    small matrices have fewer; their width is a multiple of EVEN, as BLAS likes it.
    """
    return max(LEAST, EVEN * -(-columns // (8 * nprocs * EVEN)))


def column_layout(rows: int, columns: int, nprocs: int, width: int) -> Layout:
    """Return the layout of panels of at most `width` columns, dealt to the processes in turn."""
    parts = max(1, -(-columns // width))
    return dealt((rows, columns), (1, parts), (1, min(parts, nprocs)))


class PanelMatrix:
    """A matrix by panels.

    panels : this process's, by number, each stored by rows; the algorithms overwrite them.
    """

    def __init__(self, layout: Layout, dtype: DType, panels: dict[int, Any]) -> None:
        self.layout = layout
        self.dtype = dtype
        self.panels = panels
        self.bounds = [int(each) for each in layout.axes[1].bounds]
        self.count = layout.grid[1]
        self.deal = layout.axes[1].deal

    def owner(self, k: int) -> int:
        """Return the pid of the process that has the k-th panel."""
        return k % self.deal

    def span(self, k: int) -> tuple[int, int]:
        """Return the first column of the k-th panel and the one after its last."""
        return self.bounds[k], self.bounds[k + 1]

    def has(self, columns: Any) -> Any:
        """Return for each column of an array of numbers whether this process has it."""
        numbers = np.searchsorted(self.bounds, columns, "right") - 1
        return numbers % self.deal == world().pid

    def after(self, k: int) -> list[Any]:
        """Return this process's panels after the k-th."""
        return [panel for at, panel in self.panels.items() if at > k]

    def array(self) -> Array:
        """Return the matrix as an array, which takes over the panels."""
        blocks: dict[tuple[int, ...], Any] = {(0, k): panel for k, panel in self.panels.items()}
        return wrap(leaf(self.layout.shape, self.dtype, self.layout, blocks))


def width_of(panels: Iterable[Any]) -> int:
    """Return the number of columns that some panels have together."""
    return sum(panel.shape[1] for panel in panels)


def by_columns(x: Array, width: int) -> PanelMatrix:
    """Return x in panels.  Cost: one total exchange, size/p words."""
    here = world()
    layout = column_layout(x.shape[0], x.shape[1], here.nprocs, width)
    blocks = dict(settled(x, layout))
    panels = {}
    for at in layout.mine(here.pid):
        block = here.own(blocks, at)
        panels[at[1]] = block if block.flags.c_contiguous else block.copy()
        del block, blocks[at]
    return PanelMatrix(layout, x.dtype, panels)


def unit_columns(rows: int, columns: int, dtype: DType, width: int) -> PanelMatrix:
    """Return columns of the identity, in panels.  No words."""
    here = world()
    layout = column_layout(rows, columns, here.nprocs, width)
    panels = {}
    for at in layout.mine(here.pid):
        start, stop = layout.box(at)[1]
        panels[at[1]] = here.empty((rows, stop - start), dtype)
        panels[at[1]][...] = np.eye(rows, stop - start, k=-start, dtype=dtype)
    return PanelMatrix(layout, dtype, panels)


def spread(here: World, text: str, panel: Any, root: int, size: int) -> Any:
    """Return the panel of process `root` on every process.  Collective.

    size : an upper bound of its bytes, the same on every process, by which the way is chosen.
    Cost, n words: one superstep, h = (p-1)n; or two, h = n(p-1)/p and n(p-2)/p: whichever is cheaper by (g, L).
    """
    p, pid = here.nprocs, here.pid
    if pid == root:
        panel = panel if panel.flags.c_contiguous else panel.copy()
    if p == 1:
        return panel
    others = [dest for dest in range(p) if dest != root]
    if _at_once(here.machine, p, size):
        arrived = here.exchange(text, [(others, panel)] if pid == root else [])
        return panel if pid == root else arrived[0][1]
    parts = _cut(panel, p) if pid == root else []
    arrived = here.exchange(text, [(dest, parts[dest]) for dest in others] if pid == root else [])
    own = parts[root] if pid == root else arrived[0][1]
    arrived = here.exchange(text, [([dest for dest in others if dest != pid], own)])
    if pid == root:
        return panel
    pieces = dict(arrived)
    pieces[pid] = own
    return np.concatenate([pieces[source] for source in range(p)])


def _at_once(machine: Machine, p: int, size: int) -> bool:
    """Return True if sending a panel of `size` bytes in one superstep is at most as expensive by (g, L) as in two."""
    words = size / 8
    whole = Cost(0, (p - 1) * words, 1, messages=p - 1)
    cut = Cost(0, 2 * words * (p - 1) / p, 2, messages=2 * (p - 1))
    return p == 2 or whole.price(machine) <= cut.price(machine)


def _cut(panel: Any, parts: int) -> list[Any]:
    rows = panel.shape[0]
    return [panel[rows * k // parts : rows * (k + 1) // parts] for k in range(parts)]


def words_of(rows: int, columns: int, dtype: DType) -> float:
    """Return the size of a matrix in words."""
    return rows * columns * dtype.itemsize / 8


def of_spread(costs: Costs, text: str, rows: int, columns: int, dtype: DType, root: int) -> None:
    """Declare the cost of `spread` for a panel of this shape."""
    p, pid, words = costs.p, world().pid, words_of(rows, columns, dtype)
    if p == 1:
        return
    others = [dest for dest in range(p) if dest != root]
    if _at_once(costs.machine, p, rows * columns * dtype.itemsize):
        costs.exchange(text, dict.fromkeys(others, words) if pid == root else {}, (p - 1) * words, p - 1)
        return
    parts = [words_of(rows * (k + 1) // p - rows * k // p, columns, dtype) for k in range(p)]
    scattered = {dest: parts[dest] for dest in others}
    costs.exchange(text, scattered if pid == root else {}, sum(scattered.values()), p - 1)
    sent = max((p - 2 + (k == root)) * parts[k] for k in range(p))
    received = sum(parts) - min(parts[k] for k in others)
    costs.exchange(text, {dest: parts[pid] for dest in others if dest != pid}, max(sent, received), p - 1)
    if pid != root:
        with costs.holding(2 * words):  # the received parts, and the panel concatenated from them
            costs.work(nbytes=16 * words)
