"""Large square matrices: LU, Cholesky and Householder QR by block columns, dealt to the processes in turn.

A process holds whole columns.  In step k the owner of the k-th panel (b columns) factors it, with pivoting if need
be, sends it to all, and every process brings the columns it holds up to date.  So pivots are found without a word,
and each algorithm is LAPACK's own right-looking one, as stable as that.  n²/2 words reach every process in n/b
supersteps (twice as many where a panel is spread in two phases: each process gets 1/p of it and passes that on).

McColl 1.6.3 (LU), Golub and Van Loan 3.2.11, 4.2.6, 5.2.3.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.linalg import LinAlgError

from bsp.abstract import counter
from bsp.arrays.array import Array, wrap
from bsp.arrays.execution.world import World, world
from bsp.arrays.expressions.graph import Blocks, DType, leaf
from bsp.arrays.expressions.layout import Layout, dealt
from bsp.arrays.linalg.tall import phases, settled

LEAST = 32  # columns of a panel at least: narrower ones are slow to factor and cost a superstep each


def width_for(columns: int, nprocs: int) -> int:
    """Columns of a panel: each process has four, so that it has work until near the end."""
    return max(LEAST, -(-columns // (4 * nprocs)))


def column_layout(rows: int, columns: int, nprocs: int, width: int) -> Layout:
    """Panels of at most `width` columns, dealt in turn."""
    parts = max(1, -(-columns // width))
    return dealt((rows, columns), (1, parts), (1, min(parts, nprocs)))


class Columns:
    """A matrix by panels; `local` has this process's columns side by side, a copy that is written to."""

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
        """Of the k-th panel."""
        return k % self.deal

    def span(self, k: int) -> tuple[int, int]:
        """The columns of the k-th panel."""
        return self.bounds[k], self.bounds[k + 1]

    def panel(self, k: int) -> slice:
        """Where the k-th panel, one of this process's, is in `local`."""
        at = self.mine.index(k)
        return slice(self.starts[at], self.starts[at + 1])

    def after(self, k: int) -> slice:
        """Where this process's panels after the k-th are."""
        return slice(self.starts[sum(each <= k for each in self.mine)], None)

    def blocks(self) -> Blocks:
        """As the blocks of an array."""
        return {(0, k): self.local[:, self.panel(k)].copy() for k in self.mine}

    def array(self, dtype: DType) -> Array:
        """As an array."""
        return wrap(leaf(self.layout.shape, dtype, self.layout, self.blocks()))


def by_columns(x: Array, width: int) -> Columns:
    """x in panels: one total exchange, size/p words."""
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
    return Columns(layout, local)


def unit_columns(rows: int, columns: int, dtype: DType, width: int) -> Columns:
    """Columns of the identity.  No words."""
    here = world()
    layout = column_layout(rows, columns, here.nprocs, width)
    spans = [layout.box(at)[1] for at in layout.mine(here.pid)]
    local = here.empty((rows, sum(stop - start for start, stop in spans)), dtype)
    at = 0
    for start, stop in spans:
        local[:, at : at + stop - start] = np.eye(rows, stop - start, k=-start, dtype=dtype)
        at += stop - start
    return Columns(layout, local)


def spread(here: World, text: str, panel: Any, root: int, size: int) -> Any:
    """The panel of process `root` on every process; `size`: its bytes at most, by which the way is chosen.

    Cost, n words: one superstep, h = (p-1)n; or two, h = n(p-1)/p and n(p-2)/p: the cheaper by (g, L).
    """
    p, pid = here.nprocs, here.pid
    if pid == root:
        panel = panel if panel.flags.c_contiguous else panel.copy()
    if p == 1:
        return panel
    words = size / 8
    at_once = here.machine.price((p - 1) * words, 1, p - 1)
    if p == 2 or at_once <= here.machine.price(2 * words * (p - 1) / p, 2, 2 * (p - 1)):
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


def _cut(panel: Any, parts: int) -> list[Any]:
    rows = panel.shape[0]
    return [panel[rows * k // parts : rows * (k + 1) // parts] for k in range(parts)]


# -------------------------------------------------------------------------------------- LU


def _lu_of(here: World, panel: Any) -> Any:
    """L\\U of a panel with partial pivoting, and below it one row: with which row each was exchanged."""
    rows, columns = panel.shape
    out = here.empty((rows + 1, columns), panel.dtype)
    if here.abstract:
        here.passes(rows * columns, panel.dtype)  # LAPACK's copy
        counter.flops("blas3", rows * columns * columns * (4 if panel.dtype.kind == "c" else 1))
        return out
    from scipy.linalg.lapack import get_lapack_funcs

    (getrf,) = get_lapack_funcs(("getrf",), (panel,))
    found, pivots, _ = getrf(panel)
    out[:rows] = found
    out[rows] = pivots
    return out


def _exchanged(local: Any, low: int, pivots: Any) -> None:
    """Rows exchanged in turn, as LAPACK's laswp."""
    order = np.arange(low, local.shape[0])
    for k, other in enumerate(pivots):
        order[[k, other]] = order[[other, k]]
    moved = np.flatnonzero(order != np.arange(low, local.shape[0]))
    local[low + moved] = local[order[moved]]


class Triangle:
    """U of A = P·L·U, by panels, and what its determinant is made of."""

    def __init__(self, u: Columns, diagonal: Any, exchanges: int) -> None:
        self.u = u
        self.diagonal = diagonal
        self.exchanges = exchanges


def eliminate(a: Columns, right: Columns | None, singular: bool = False) -> Triangle:
    """Gaussian elimination with partial pivoting: a becomes U, the right-hand sides L⁻¹P·b.

    singular : go on where a pivot is 0; else LinAlgError on every process, for all have the panel.
    Cost: 2n³/3p flops (and n²b of panels that nobody shares), the words and supersteps of n/b panels.
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
        diagonals.append(np.diagonal(upper))
        if mine:
            a.local[low:high, a.panel(k)] = np.triu(upper)
        if not here.abstract:
            pivots = last.real.astype(np.int64)
            exchanges += int((pivots != np.arange(high - low)).sum())
            if not singular and (diagonals[-1] == 0).any():
                raise LinAlgError("Singular matrix")
        lower = np.tril(upper, -1) + np.eye(high - low, dtype=upper.dtype)
        for local, first in ((a.local, a.after(k)), (None if right is None else right.local, slice(None))):
            if local is None or not local[0, first].shape[0]:
                continue
            trailing = local[:, first]
            if here.abstract:
                here.passes((n - low) * trailing.shape[1], trailing.dtype)  # the rows that are exchanged
            else:
                _exchanged(trailing, low, pivots)
            trailing[low:high] = np.linalg.solve(lower, trailing[low:high])
            if high < n:
                trailing[high:] -= panel[high - low :] @ trailing[low:high]
    return Triangle(a, np.concatenate(diagonals), exchanges)


def solve(a: Array, b: Array | None, dtype: DType) -> Array:
    """A⁻¹·b, b of k columns; None: A⁻¹ itself.

    Elimination, then substitution from the last panel to the first.  Where b is one panel, its unknowns go from
    owner to owner of U's panels: h = nk words a step; else these are spread once more, n²/2 words in all.
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
    if right.panels == 1:
        _back_along(here, u, right)
    else:
        _back_spread(here, u, right)
    return right.array(dtype)


def _substituted(u: Any, unknowns: Any, low: int) -> None:
    """One panel of U applied: its unknowns found, and taken out of the equations above."""
    unknowns[low:] = np.linalg.solve(u[low:], unknowns[low:])
    if low:
        unknowns[:low] -= u[:low] @ unknowns[low:]


def _back_spread(here: World, u: Columns, right: Columns) -> None:
    itemsize = right.local.dtype.itemsize
    for k in reversed(range(u.panels)):
        low, high = u.span(k)
        panel = u.local[:high, u.panel(k)] if here.pid == u.owner(k) else None
        panel = spread(here, "back substitution", panel, u.owner(k), high * (high - low) * itemsize)
        if right.mine:
            _substituted(panel, right.local[:high], low)


def _back_along(here: World, u: Columns, right: Columns) -> None:
    """The unknowns travel from owner to owner of U's panels, and home; what is found is part of them."""
    home = right.owner(0)
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


def determinant(a: Array, dtype: DType) -> tuple[Any, Any]:
    """The sign and the logarithm of the modulus of the determinant, on every process.  Cost: as `eliminate`."""
    here = world()
    done = eliminate(by_columns(a.astype(dtype), width_for(a.shape[0], here.nprocs)), None, singular=True)
    size = np.abs(done.diagonal)
    if here.abstract:
        return np.prod(done.diagonal), np.sum(np.log(size))
    with np.errstate(divide="ignore", invalid="ignore"):
        if (size == 0).any():
            return np.zeros((), dtype), np.asarray(-np.inf, size.dtype)
        turns = (
            done.diagonal / size if dtype.kind == "c" else np.where(done.diagonal < 0, -1, 1)
        )  # of NaN 1, as NumPy's
        sign = np.prod(turns) * (-1 if done.exchanges % 2 else 1)
        return np.asarray(sign, dtype), np.asarray(np.sum(np.log(size)))


# -------------------------------------------------------------------------------- Cholesky


def cholesky(a: Array, dtype: DType) -> Array:
    """L of A = L·Lᴴ, from what is on and below A's diagonal.

    Cost: n³/3p flops (and n²b of panels that nobody shares), n/b panels spread.
    Raises LinAlgError on every process if A is not positive definite: an empty panel tells.
    """
    here = world()
    n = a.shape[0]
    work = by_columns(a.astype(dtype), width_for(n, here.nprocs))
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
    return work.array(dtype)


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
    """Q of shape (m, n) and R (n, n), m >= n, by reflections: I - V·T·Vᴴ for each panel.

    R's diagonal is >= 0.  Q is made from the last panel to the first, each spread a second time: a process keeps
    no other's panels.
    Cost: 2(mn² - n³/3)/p flops for R and as many for Q; n/b panels spread, mn - n²/2 words, for each of the two.
    """
    here = world()
    m, n = a.shape
    work = by_columns(a.astype(dtype), width_for(n, here.nprocs))
    kept: dict[int, Any] = {}
    signs = []
    for k in range(work.panels):
        low, high = work.span(k)
        size = (m - low + high - low + 1) * (high - low) * dtype.itemsize
        if here.pid == work.owner(k):
            kept[k] = _reflections(work.local[low:, work.panel(k)], here)
        block = spread(here, "qr", kept.get(k), work.owner(k), size)
        v, t, sign = block[: m - low], block[m - low : -1], block[-1]
        signs.append(sign)
        trailing = work.local[low:, work.after(k)]
        if trailing.shape[1]:
            trailing -= v @ (np.conj(t).T @ (np.conj(v).T @ trailing))
    q = None
    sign = np.concatenate(signs)
    if want_q:
        unit = unit_columns(m, n, dtype, width_for(n, here.nprocs))
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
        q = unit.array(dtype)
    r = Columns(dealt((n, n), work.layout.grid, work.layout.process_grid), work.local[:n])
    for k in r.mine:
        low, high = r.span(k)
        r.local[:, r.panel(k)] = np.triu(r.local[:, r.panel(k)], -low)
    r.local *= np.conj(sign)[:, None]
    return q, r.array(dtype)


def _reflections(panel: Any, here: World) -> Any:
    """V, T and the signs of R's diagonal in one block; the panel becomes its R.

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
