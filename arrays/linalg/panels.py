"""Large square matrices: LU, Cholesky and Householder QR by block columns, dealt to the processes in turn.

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
from numpy.linalg import LinAlgError

from bsp.abstract import table
from bsp.arrays.array import Array, wrap
from bsp.arrays.execution.world import World, world
from bsp.arrays.expressions.graph import Blocks, DType, leaf
from bsp.arrays.expressions.layout import Layout, dealt
from bsp.arrays.linalg.row_blocks import phases, settled
from bsp.cost.model import Cost, Machine
from bsp.declared import Costs, declares

LEAST = 32  # least columns of a panel: narrower ones are slow to factor, and each costs a superstep


def width_for(columns: int, nprocs: int) -> int:
    """Return the number of columns of a panel: four panels a process, so that all have work until near the end.

    Panels are not narrower than LEAST, so small matrices have fewer.
    """
    return max(LEAST, -(-columns // (4 * nprocs)))


def column_layout(rows: int, columns: int, nprocs: int, width: int) -> Layout:
    """Return the layout of panels of at most `width` columns, dealt to the processes in turn."""
    parts = max(1, -(-columns // width))
    return dealt((rows, columns), (1, parts), (1, min(parts, nprocs)))


class PanelMatrix:
    """A matrix by panels.

    local : this process's columns, side by side; a copy, which the algorithms overwrite.
    """

    def __init__(self, layout: Layout, local: Any) -> None:
        here = world()
        self.layout = layout
        self.local = local
        self.bounds = [int(each) for each in layout.axes[1].bounds]
        self.panels = layout.grid[1]
        self.deal = layout.axes[1].deal
        self.mine = [at[1] for at in layout.mine(here.pid)]
        self.starts = [0]
        for k in self.mine:
            self.starts.append(self.starts[-1] + self.bounds[k + 1] - self.bounds[k])

    def owner(self, k: int) -> int:
        """Return the pid of the process that has the k-th panel."""
        return k % self.deal

    def span(self, k: int) -> tuple[int, int]:
        """Return the first column of the k-th panel and the one after its last."""
        return self.bounds[k], self.bounds[k + 1]

    def panel(self, k: int) -> slice:
        """Return the columns of `local` that hold the k-th panel, which must be one of this process's."""
        at = self.mine.index(k)
        return slice(self.starts[at], self.starts[at + 1])

    def after(self, k: int) -> slice:
        """Return the columns of `local` that hold this process's panels after the k-th."""
        return slice(self.starts[sum(each <= k for each in self.mine)], None)

    def blocks(self) -> Blocks:
        """Return copies of the panels, keyed as the blocks of an array."""
        return {(0, k): self.local[:, self.panel(k)].copy() for k in self.mine}

    def array(self, dtype: DType) -> Array:
        """Return the matrix as an array."""
        return wrap(leaf(self.layout.shape, dtype, self.layout, self.blocks()))


def by_columns(x: Array, width: int) -> PanelMatrix:
    """Return x in panels.  Cost: one total exchange, size/p words."""
    here = world()
    rows, columns = x.shape
    layout = column_layout(rows, columns, here.nprocs, width)
    value = settled(x, layout)
    blocks = [value[at] for at in layout.mine(here.pid)]
    local = here.empty((rows, sum(block.shape[1] for block in blocks)), x.dtype)
    start = 0
    for block in blocks:
        local[:, start : start + block.shape[1]] = block
        start += block.shape[1]
    return PanelMatrix(layout, local)


def unit_columns(rows: int, columns: int, dtype: DType, width: int) -> PanelMatrix:
    """Return columns of the identity, in panels.  No words."""
    here = world()
    layout = column_layout(rows, columns, here.nprocs, width)
    spans = [layout.box(at)[1] for at in layout.mine(here.pid)]
    local = here.empty((rows, sum(stop - start for start, stop in spans)), dtype)
    at = 0
    for start, stop in spans:
        local[:, at : at + stop - start] = np.eye(rows, stop - start, k=-start, dtype=dtype)
        at += stop - start
    return PanelMatrix(layout, local)


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
    if _at_once(here.machine, p, size):
        arrived = here.exchange(text, [(dest, panel) for dest in range(p) if dest != root] if pid == root else [])
        return panel if pid == root else arrived[0][1]
    parts = _cut(panel, p) if pid == root else []
    arrived = here.exchange(text, [(dest, parts[dest]) for dest in range(p) if dest != root] if pid == root else [])
    own = parts[root] if pid == root else arrived[0][1]
    arrived = here.exchange(text, [(dest, own) for dest in range(p) if dest not in (pid, root)])
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


def _words(rows: int, columns: int, dtype: DType) -> float:
    """Return the size of a matrix in words."""
    return rows * columns * dtype.itemsize / 8


def _of_spread(costs: Costs, text: str, rows: int, columns: int, dtype: DType, root: int) -> None:
    """Declare the cost of `spread` for a panel of this shape."""
    p, pid, words = costs.p, world().pid, _words(rows, columns, dtype)
    if p == 1:
        return
    others = [dest for dest in range(p) if dest != root]
    if _at_once(costs.machine, p, rows * columns * dtype.itemsize):
        costs.exchange(text, dict.fromkeys(others, words) if pid == root else {}, (p - 1) * words, p - 1)
        return
    parts = [_words(rows * (k + 1) // p - rows * k // p, columns, dtype) for k in range(p)]
    scattered = {dest: parts[dest] for dest in others}
    costs.exchange(text, scattered if pid == root else {}, sum(scattered.values()), p - 1)
    h = max(max((p - 2 + (k == root)) * parts[k], sum(parts) - parts[k]) for k in others)
    costs.exchange(text, {dest: parts[pid] for dest in others if dest != pid}, h, p - 1)
    if pid != root:
        with costs.holding(2 * words):  # the received parts, and the panel concatenated from them
            costs.work(nbytes=16 * words)


# -------------------------------------------------------------------------------------- LU


def _lu_of(here: World, panel: Any) -> Any:
    """Factor a panel with partial pivoting; return L and U in one matrix, and in a row below it the pivots.

    The pivot of column k is the row that row k was exchanged with, as LAPACK's getrf returns it.
    """
    rows, columns = panel.shape
    out = here.empty((rows + 1, columns), panel.dtype)
    from scipy.linalg.lapack import get_lapack_funcs

    (getrf,) = get_lapack_funcs(("getrf",), (panel,))
    found, pivots, _ = getrf(panel)
    out[:rows] = found
    out[rows] = pivots
    return out


def _exchanged(local: Any, low: int, pivots: Any) -> None:
    """Exchange rows in place, one pair after the other, as LAPACK's laswp."""
    order = np.arange(low, local.shape[0])
    for k, other in enumerate(pivots):
        order[[k, other]] = order[[other, k]]
    moved = np.flatnonzero(order != np.arange(low, local.shape[0]))
    local[low + moved] = local[order[moved]]


class Triangle:
    """The U of A = P·L·U, by panels, with its diagonal and the number of row exchanges, which give the determinant."""

    def __init__(self, u: PanelMatrix, diagonal: Any, exchanges: int) -> None:
        self.u = u
        self.diagonal = diagonal
        self.exchanges = exchanges


def _of_substitution(costs: Costs, rows: int, width: int, columns: int, dtype: DType) -> None:
    """Declare the cost of solving a triangle of this width for some columns, and subtracting them from other rows."""
    many = table.complexity(dtype)
    with costs.holding(_words(width + rows, columns, dtype)):
        costs.factoring(many * (table.lu(width) + table.triangular_solves(width, columns)), width)
        if rows:
            costs.product(rows, width, columns, dtype)
            costs.visits(rows * columns, dtype)


def _of_eliminate(costs: Costs, a: PanelMatrix, right: PanelMatrix | None, singular: bool = False) -> Triangle:
    """Declare the cost of `eliminate`."""
    n, dtype = a.layout.shape[0], a.local.dtype
    for k in range(a.panels):
        low, high = a.span(k)
        rows, width = n - low, high - low
        if world().pid == a.owner(k):
            with costs.holding(2 * _words(rows + 1, width, dtype)):  # LAPACK's result and a copy with pivots
                costs.work(blas3=table.complexity(dtype) * rows * width * width)
        _of_spread(costs, "lu", rows + 1, width, dtype, a.owner(k))
        with costs.holding(_words(rows + 1, width, dtype)):
            for columns in (a.local[low:, a.after(k)].shape[1], 0 if right is None else right.local.shape[1]):
                if columns:
                    with costs.holding(_words(rows, columns, dtype)):  # a copy of the exchanged rows
                        costs.work(nbytes=16 * _words(rows, columns, dtype))
                    _of_substitution(costs, n - high, width, columns, dtype)
    return Triangle(a, costs.array((n,), dtype), 0)


@declares(_of_eliminate)
def eliminate(a: PanelMatrix, right: PanelMatrix | None, singular: bool = False) -> Triangle:
    """Eliminate with partial pivoting, in place: a becomes U, the right-hand sides L⁻¹P·b.  Collective.

    singular : continue where a pivot is 0; else raise LinAlgError, on every process, since all have the panel.
    Cost: 2n³/3p flops (and n²b for factoring panels, which is not shared), the words and supersteps of n/b panels.
    """
    here = world()
    n = a.layout.shape[0]
    itemsize = a.local.dtype.itemsize
    diagonals, exchanges = [], 0
    for k in range(a.panels):
        low, high = a.span(k)
        mine = here.pid == a.owner(k)
        panel = _lu_of(here, a.local[low:, a.panel(k)]) if mine else None
        panel = spread(here, "lu", panel, a.owner(k), (n - low + 1) * (high - low) * itemsize)
        panel, last = panel[: n - low], panel[n - low]
        upper = panel[: high - low]
        diagonals.append(np.diagonal(upper).copy())  # a view would keep the whole panel
        if mine:
            a.local[low:high, a.panel(k)] = np.triu(upper)
        pivots = last.real.astype(np.int64)
        exchanges += int((pivots != np.arange(high - low)).sum())
        if not singular and (diagonals[-1] == 0).any():
            raise LinAlgError("Singular matrix")
        lower = np.tril(upper, -1) + np.eye(high - low, dtype=upper.dtype)
        for local, first in ((a.local, a.after(k)), (None if right is None else right.local, slice(None))):
            if local is None or not local[0, first].shape[0]:
                continue
            trailing = local[:, first]
            _exchanged(trailing, low, pivots)
            trailing[low:high] = np.linalg.solve(lower, trailing[low:high])
            if high < n:
                trailing[high:] -= panel[high - low :] @ trailing[low:high]
    return Triangle(a, np.concatenate(diagonals), exchanges)


def solve(a: Array, b: Array | None, dtype: DType) -> Array:
    """Return A⁻¹·b for b of k columns, or A⁻¹ itself if b is None.

    Elimination, then substitution from the last panel to the first.  Where b is one panel, its unknowns go from owner
    to owner of U's panels: h = nk words a step; else U's panels are spread again, n²/2 words in all.
    Cost: (2n³/3 + 2n²k)/p flops; n/b panels spread, n/b steps back.
    Raises LinAlgError on every process if a pivot is 0.
    """
    here = world()
    n = a.shape[0]
    width = width_for(n, here.nprocs)
    left = by_columns(a.astype(dtype), width)
    if b is None:
        right = unit_columns(n, n, dtype, width)
    else:
        k = b.shape[1]
        few = k <= max(1, width // 4)
        right = by_columns(b.astype(dtype), max(1, k if few else min(width, -(-k // here.nprocs))))
    u = eliminate(left, right).u
    (_back_along if right.panels == 1 else _back_spread)(u, right)
    return right.array(dtype)


def _substituted(u: Any, unknowns: Any, low: int) -> None:
    """Apply one panel of U: solve for its unknowns, and subtract them from the equations above."""
    unknowns[low:] = np.linalg.solve(u[low:], unknowns[low:])
    if low:
        unknowns[:low] -= u[:low] @ unknowns[low:]


def _of_back_spread(costs: Costs, u: PanelMatrix, right: PanelMatrix) -> None:
    """Declare the cost of `_back_spread`."""
    dtype = right.local.dtype
    for k in reversed(range(u.panels)):
        low, high = u.span(k)
        _of_spread(costs, "back substitution", high, high - low, dtype, u.owner(k))
        if right.mine:
            with costs.holding(_words(high, high - low, dtype)):
                _of_substitution(costs, low, high - low, right.local.shape[1], dtype)


@declares(_of_back_spread)
def _back_spread(u: PanelMatrix, right: PanelMatrix) -> None:
    """Substitute back: every panel of U goes to all processes, which solve for the unknowns of their own columns."""
    here = world()
    itemsize = right.local.dtype.itemsize
    for k in reversed(range(u.panels)):
        low, high = u.span(k)
        panel = u.local[:high, u.panel(k)] if here.pid == u.owner(k) else None
        panel = spread(here, "back substitution", panel, u.owner(k), high * (high - low) * itemsize)
        if right.mine:
            _substituted(panel, right.local[:high], low)


def _of_back_along(costs: Costs, u: PanelMatrix, right: PanelMatrix) -> None:
    """Declare the cost of `_back_along`."""
    pid, home, dtype = world().pid, right.owner(0), right.local.dtype
    shape, place = right.layout.shape, home
    words = _words(shape[0], shape[1], dtype)
    for k in [*reversed(range(u.panels)), -1]:
        there = u.owner(k) if k >= 0 else home
        if there != place:
            costs.exchange("back substitution", {there: words} if pid == place else {}, words, 1)
            place = there
        if k >= 0 and pid == place:
            low, high = u.span(k)
            with costs.holding(words):
                _of_substitution(costs, low, high - low, shape[1], dtype)


@declares(_of_back_along)
def _back_along(u: PanelMatrix, right: PanelMatrix) -> None:
    """Substitute back: the unknowns travel from owner to owner of U's panels, then home to their own process."""
    here, home = world(), right.owner(0)
    unknowns, place = right.local, home
    for k in [*reversed(range(u.panels)), -1]:
        there = u.owner(k) if k >= 0 else home
        if there != place:
            arrived = here.exchange("back substitution", [(there, unknowns)] if here.pid == place else [])
            if here.pid == there:
                unknowns = arrived[0][1].copy()
            place = there
        if k >= 0 and here.pid == place:
            low, high = u.span(k)
            _substituted(u.local[:high, u.panel(k)], unknowns[:high], low)
    if here.pid == home:
        right.local = unknowns


def _of_determinant(costs: Costs, a: Array, dtype: DType) -> tuple[Any, Any]:
    """Declare the cost of `determinant`."""
    eliminate(by_columns(a.astype(dtype), width_for(a.shape[0], costs.p)), None, singular=True)
    return costs.array((), dtype), costs.array((), np.zeros(0, dtype).real.dtype)


@declares(_of_determinant)
def determinant(a: Array, dtype: DType) -> tuple[Any, Any]:
    """Return the determinant's sign and the logarithm of its modulus, on every process.  Cost: as `eliminate`."""
    here = world()
    done = eliminate(by_columns(a.astype(dtype), width_for(a.shape[0], here.nprocs)), None, singular=True)
    size = np.abs(done.diagonal)
    with np.errstate(divide="ignore", invalid="ignore"):
        if (size == 0).any():
            return np.zeros((), dtype), np.asarray(-np.inf, size.dtype)
        turns = (
            done.diagonal / size if dtype.kind == "c" else np.where(done.diagonal < 0, -1, 1)
        )  # NumPy's sign is 1 if the determinant is NaN
        sign = np.prod(turns) * (-1 if done.exchanges % 2 else 1)
        return np.asarray(sign, dtype), np.asarray(np.sum(np.log(size)))


# -------------------------------------------------------------------------------- Cholesky


def cholesky(a: Array, dtype: DType) -> Array:
    """Return the L of A = L·Lᴴ, from the elements on and below A's diagonal.

    Cost: n³/3p flops (and n²b for factoring panels, which is not shared), n/b panels spread.
    Raises LinAlgError on every process if A is not positive definite: its owner then spreads an empty panel.
    """
    work = by_columns(a.astype(dtype), width_for(a.shape[0], world().nprocs))
    _cholesky_columns(work)
    return work.array(dtype)


def _of_cholesky(costs: Costs, work: PanelMatrix) -> None:
    """Declare the cost of `_cholesky_columns`."""
    n, dtype = work.layout.shape[0], work.local.dtype
    many = table.complexity(dtype)
    for k in range(work.panels):
        low, high = work.span(k)
        rows, width = n - low, high - low
        if world().pid == work.owner(k):
            with costs.holding(2 * _words(rows, width, dtype)):
                costs.factoring(many * table.cholesky(width), width)
                if rows > width:
                    costs.factoring(many * (table.lu(width) + table.triangular_solves(width, rows - width)), width)
        _of_spread(costs, "cholesky", rows, width, dtype, work.owner(k))
        for start, stop in (work.span(j) for j in work.mine if j > k):
            with costs.holding(_words(rows, width, dtype) + _words(n - start, stop - start, dtype)):
                costs.product(n - start, width, stop - start, dtype)
                costs.visits((n - start) * (stop - start), dtype)


@declares(_of_cholesky)
def _cholesky_columns(work: PanelMatrix) -> None:
    """Overwrite the lower triangle with L, the upper one with zeros."""
    here, n, dtype = world(), work.layout.shape[0], work.local.dtype
    for k in range(work.panels):
        low, high = work.span(k)
        mine = here.pid == work.owner(k)
        panel = _cholesky_of(work.local[low:, work.panel(k)]) if mine else None
        panel = spread(here, "cholesky", panel, work.owner(k), (n - low) * (high - low) * dtype.itemsize)
        if not panel.shape[0] and n:
            raise LinAlgError("Matrix is not positive definite")
        if mine:
            work.local[:low, work.panel(k)] = 0
            work.local[low:, work.panel(k)] = panel
        for j in work.mine:
            if j > k:
                start, stop = work.span(j)
                rows = np.conj(panel[start - low : stop - low]).T
                work.local[start:, work.panel(j)] -= panel[start - low :] @ rows


def _cholesky_of(panel: Any) -> Any:
    columns = panel.shape[1]
    try:
        top = np.linalg.cholesky(panel[:columns])
    except LinAlgError:
        return np.empty((0, columns), panel.dtype)
    if panel.shape[0] == columns:
        return top
    below = np.conj(np.linalg.solve(top, np.conj(panel[columns:]).T)).T
    return np.concatenate([top, below])


# ---------------------------------------------------------------------------- Householder QR


def householder(a: Array, dtype: DType, want_q: bool) -> tuple[Array | None, Array]:
    """Return Q of shape (m, n) and R (n, n), m >= n, by block reflections I - V·T·Vᴴ, one for each panel.

    R's diagonal is >= 0.  Q is made from the last panel to the first, each spread a second time: a process keeps
    no other's panels.
    Cost: 2(mn² - n³/3)/p flops for R and as many for Q; n/b panels spread, mn - n²/2 words, for each of the two.
    """
    here = world()
    m, n = a.shape
    work = by_columns(a.astype(dtype), width_for(n, here.nprocs))
    kept, sign = _triangle(work)
    q = None
    if want_q:
        unit = unit_columns(m, n, dtype, width_for(n, here.nprocs))
        _orthogonal(work, kept, sign, unit)
        q = unit.array(dtype)
    r = PanelMatrix(dealt((n, n), work.layout.grid, work.layout.process_grid), work.local[:n])
    for k in r.mine:
        low, _ = r.span(k)
        r.local[:, r.panel(k)] = np.triu(r.local[:, r.panel(k)], -low)
    r.local *= np.conj(sign)[:, None]
    return q, r.array(dtype)


def _of_reflections(
    costs: Costs, work: PanelMatrix, text: str, panels: Iterable[int], into: PanelMatrix, after: int
) -> None:
    """Declare the cost of spreading reflections panel by panel and applying them to `into` after panel k + `after`."""
    m, dtype = work.layout.shape[0], work.local.dtype
    for k in panels:
        low, high = work.span(k)
        rows, width = m - low, high - low
        _of_spread(costs, text, rows + width + 1, width, dtype, work.owner(k))
        columns = into.local[:, into.after(k + after)].shape[1]
        if columns:
            with costs.holding(_words(2 * rows + width + 1, width, dtype) + _words(rows + width, columns, dtype)):
                costs.product(width, rows, columns, dtype)
                costs.product(width, width, columns, dtype)
                costs.product(rows, width, columns, dtype)
                costs.visits(rows * columns, dtype)


def _of_triangle(costs: Costs, work: PanelMatrix) -> tuple[dict[int, Any], Any]:
    """Declare the cost of `_triangle`."""
    m, dtype = work.layout.shape[0], work.local.dtype
    many = table.complexity(dtype)
    kept = {}
    for k in range(work.panels):
        low, high = work.span(k)
        rows, width = m - low, high - low
        if world().pid == work.owner(k):
            with costs.holding(3 * _words(rows, width, dtype)):
                costs.factoring(many * table.qr(rows, width, "raw"), width)
                costs.product(width, rows, width, dtype)
                costs.factoring(many * table.inverse(width), width)
            kept[k] = costs.array((rows + width + 1, width), dtype)
        _of_reflections(costs, work, "qr", [k], work, 0)
    return kept, costs.array((work.layout.shape[1],), dtype)


@declares(_of_triangle)
def _triangle(work: PanelMatrix) -> tuple[dict[int, Any], Any]:
    """Overwrite A with R, except for the signs of R's diagonal.

    Returns this process's reflections by panel, and the signs, which every process has.
    """
    here, (m, _), dtype = world(), work.layout.shape, work.local.dtype
    kept: dict[int, Any] = {}
    signs = []
    for k in range(work.panels):
        low, high = work.span(k)
        size = (m - low + high - low + 1) * (high - low) * dtype.itemsize
        if here.pid == work.owner(k):
            kept[k] = _reflections(work.local[low:, work.panel(k)], here)
        block = spread(here, "qr", kept.get(k), work.owner(k), size)
        v, t, sign = block[: m - low], block[m - low : -1], block[-1]
        signs.append(sign.copy())
        trailing = work.local[low:, work.after(k)]
        if trailing.shape[1]:
            trailing -= v @ (np.conj(t).T @ (np.conj(v).T @ trailing))
    return kept, np.concatenate(signs)


def _of_orthogonal(costs: Costs, work: PanelMatrix, kept: dict[int, Any], sign: Any, unit: PanelMatrix) -> None:
    """Declare the cost of `_orthogonal`."""
    _of_reflections(costs, work, "q of qr", reversed(range(work.panels)), unit, -1)
    costs.visits(unit.local.shape[0] * unit.local.shape[1], unit.local.dtype)


@declares(_of_orthogonal)
def _orthogonal(work: PanelMatrix, kept: dict[int, Any], sign: Any, unit: PanelMatrix) -> None:
    """Turn columns of the identity into those of Q, from the last panel to the first."""
    here, (m, _), dtype = world(), work.layout.shape, work.local.dtype
    for k in reversed(range(work.panels)):
        low, high = work.span(k)
        size = (m - low + high - low + 1) * (high - low) * dtype.itemsize
        block = spread(here, "q of qr", kept.get(k), work.owner(k), size)
        v, t = block[: m - low], block[m - low : -1]
        trailing = unit.local[low:, unit.after(k - 1)]
        if trailing.shape[1]:
            trailing -= v @ (t @ (np.conj(v).T @ trailing))
    for k in unit.mine:
        unit.local[:, unit.panel(k)] *= sign[slice(*unit.span(k))]


def _reflections(panel: Any, here: World) -> Any:
    """Factor a panel, which becomes its R; return V, T and the signs of R's diagonal, stacked in one block.

    T = (diag(1/tau) + the strict upper triangle of VᴴV)⁻¹; a column whose tau is 0 reflects nothing.
    """
    rows, columns = panel.shape
    raw, tau = np.linalg.qr(panel, mode="raw")
    raw = raw.T
    r = np.triu(raw[:columns])
    none = tau == 0
    v = np.tril(raw, -1) + np.eye(rows, columns, dtype=raw.dtype)
    v = np.where(none, 0, v)
    inner = np.triu(np.conj(v).T @ v, 1) + np.diag(1 / np.where(none, 1, tau))
    block = here.empty((rows + columns + 1, columns), panel.dtype)
    block[:rows] = v
    block[rows:-1] = np.linalg.inv(inner)
    block[-1] = phases(r)
    panel[:columns] = r
    panel[columns:] = 0
    return block
