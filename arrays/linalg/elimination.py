"""Elimination with partial pivoting by panels: solving, inverting, determinants.

McColl 1.6.3, Golub and Van Loan 3.2.11.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.linalg import LinAlgError

from bsp.abstract import table
from bsp.arrays.array import Array
from bsp.arrays.execution.world import World, world
from bsp.arrays.expressions.graph import DType
from bsp.arrays.linalg import triangles
from bsp.arrays.linalg.panels import (
    PanelMatrix,
    by_columns,
    of_spread,
    spread,
    width_for,
    width_of,
    words_of,
)
from bsp.declared import Costs, declares


def _lu_of(here: World, panel: Any) -> Any:
    """Factor a panel with partial pivoting; return L and U in one matrix, and in a row below it the pivots."""
    rows, columns = panel.shape
    out = here.empty((rows + 1, columns), panel.dtype)
    out[:rows], out[rows] = triangles.lu(panel)
    return out


def _exchanges(pivots: Sequence[int]) -> tuple[np.ndarray, np.ndarray]:
    """Return the rows that change when row k is exchanged with row pivots[k] in turn, and the rows they become."""
    now: dict[int, int] = {}
    for k, other in enumerate(pivots):
        now[k], now[other] = now.get(other, other), now.get(k, k)
    rows = np.array(list(now.items()), np.int64).reshape(-1, 2)
    moved, become = rows[rows[:, 0] != rows[:, 1]].T
    return moved, become


class Eliminated:
    """The U of P·A = L·U, by panels, with its diagonal; row k of P·A is A's row order[k].

    odd : True if the number of row exchanges is odd, which gives the determinant's sign.
    """

    def __init__(self, u: PanelMatrix, diagonal: Any, order: Any, odd: bool) -> None:
        self.u = u
        self.diagonal = diagonal
        self.order = order
        self.odd = odd


def _of_substitution(costs: Costs, rows: int, width: int, columns: int, dtype: DType) -> None:
    """Declare the cost of solving a triangle of this width for some columns, and subtracting them from other rows."""
    costs.factoring(table.complexity(dtype) * table.triangular_solves(width, columns) / 2, width)
    if rows:
        costs.product(rows, width, columns, dtype)


def _of_eliminate(
    costs: Costs, a: PanelMatrix, right: dict[int, Any] | None = None, unit: bool = False, singular: bool = False
) -> Eliminated:
    """Declare the cost of `eliminate`, of the identity for an order that keeps the rows where they are."""
    n, dtype = a.layout.shape[0], a.dtype
    right = {} if right is None else right
    for k in range(a.count):
        low, high = a.span(k)
        rows, width = n - low, high - low
        if k in a.panels:
            with costs.holding(2 * words_of(rows + 1, width, dtype)):  # LAPACK's result and a copy with pivots
                costs.work(blas3=table.complexity(dtype) * rows * width * width)
            if unit:
                right[k] = costs.array((n, width), dtype)
        of_spread(costs, "lu", rows + 1, width, dtype, a.owner(k))
        columns = width_of([*a.after(k), *right.values()])
        with costs.holding(words_of(rows + 1, width, dtype)):
            costs.work(nbytes=32 * words_of(width, columns, dtype))  # rows are exchanged
            if columns:
                _of_substitution(costs, n - high, width, columns, dtype)
    return Eliminated(a, costs.array((n,), dtype), np.arange(n), False)


@declares(_of_eliminate)
def eliminate(
    a: PanelMatrix, right: dict[int, Any] | None = None, unit: bool = False, singular: bool = False
) -> Eliminated:
    """Eliminate with partial pivoting, in place: a becomes U, right-hand sides b become L⁻¹P·b.  Collective.

    right : this process's panels of b.
    unit : b is the identity.  Step k adds to `right`, which is empty at first, this process's columns whose ones are
        among the step's rows, from the left to the right as these from above to below: before, nothing changes them.
        So they take a third of the flops.
    singular : continue where a pivot is 0; else raise LinAlgError, on every process, since all have the panel.
    Cost: 2n³/3p flops (and n²b for factoring panels, which is not shared), the words and supersteps of n/b panels.
    """
    here = world()
    n, itemsize = a.layout.shape[0], a.dtype.itemsize
    right = {} if right is None else right
    diagonals, order, odd = [], np.arange(n), False
    for k in range(a.count):
        low, high = a.span(k)
        factored = _lu_of(here, a.panels[k][low:]) if k in a.panels else None
        panel = spread(here, "lu", factored, a.owner(k), (n - low + 1) * (high - low) * itemsize)
        pivots = panel[-1].real.astype(np.int64)
        upper, below = panel[: high - low], panel[high - low : -1]
        diagonals.append(np.diagonal(upper).copy())  # a view would keep the whole panel
        if not singular and (diagonals[-1] == 0).any():
            raise LinAlgError("Singular matrix")
        if k in a.panels:
            a.panels[k][low:high] = np.triu(upper)
        moved, become = _exchanges(pivots.tolist())
        order[low:][moved] = order[low:][become]
        odd ^= np.count_nonzero(pivots != np.arange(len(pivots))) % 2 == 1
        changed = [*a.after(k), *right.values()]
        for each in changed:
            each[low:][moved] = each[low:][become]
        if unit and (rows := np.flatnonzero(a.has(order[low:high]))).size:
            right[k] = here.empty((n, rows.size), a.dtype)
            right[k][...] = 0
            right[k][low + rows, np.arange(rows.size)] = 1
            changed.append(right[k])
        for each in changed:
            top = each[low:high]
            top[:] = triangles.lower_solve(upper, top)
            triangles.subtract_product(each[high:], below, top)
    return Eliminated(a, np.concatenate(diagonals), order, odd)


def solve(a: Array, b: Array, dtype: DType) -> Array:
    """Return A⁻¹·b for b of k columns.

    Elimination, then substitution from the last panel to the first.  Where b is one panel, its unknowns go from owner
    to owner of U's panels: h = nk words a step; else U's panels are spread again, n²/2 words in all.
    Cost: (2n³/3 + 2n²k)/p flops; n/b panels spread, n/b steps back.
    Raises LinAlgError on every process if a pivot is 0.
    """
    here = world()
    n, k = b.shape
    width = width_for(n, here.nprocs)
    left = by_columns(a.astype(dtype), width)
    few = k <= max(1, width // 4)
    right = by_columns(b.astype(dtype), max(1, k if few else min(width, -(-k // here.nprocs))))
    u = eliminate(left, right.panels).u
    if right.count == 1:
        _back_along(u, right)
    else:
        _set_panels(right, _back_spread(u, right.panels))
    return right.array()


def inverse(a: Array, dtype: DType) -> Array:
    """Return A⁻¹, by elimination on the identity and substitution.

    Cost: 2n³/p flops; n/b panels spread twice.
    Raises LinAlgError on every process if a pivot is 0.
    """
    work = by_columns(a.astype(dtype), width_for(a.shape[0], world().nprocs))
    right: dict[int, Any] = {}
    done = eliminate(work, right, unit=True)
    steps = [*right]
    return _in_order(done, steps, _back_spread(done.u, right)).array()


def _of_in_order(costs: Costs, done: Eliminated, steps: Sequence[int], unknowns: Any) -> PanelMatrix:
    """Declare the cost of `_in_order`."""
    rows, u = done.u.layout.shape[0], done.u
    costs.work(nbytes=16 * words_of(rows, unknowns.shape[1], u.dtype))
    return PanelMatrix(
        u.layout, u.dtype, {k: costs.array((rows, panel.shape[1]), u.dtype) for k, panel in u.panels.items()}
    )


@declares(_of_in_order)
def _in_order(done: Eliminated, steps: Sequence[int], unknowns: Any) -> PanelMatrix:
    """Return the columns that eliminating on the identity has added in these steps, each at its own place."""
    u = done.u
    columns = [done.order[slice(*u.span(k))] for k in steps]  # those that step k has added are this process's of these
    places = np.argsort(np.concatenate([each[u.has(each)] for each in [*columns, np.zeros(0, np.int64)]]))
    found, start = {}, 0
    for k, panel in u.panels.items():
        found[k] = np.take(unknowns, places[start : start + panel.shape[1]], axis=1)
        start += panel.shape[1]
    return PanelMatrix(u.layout, u.dtype, found)


def _of_set_panels(costs: Costs, matrix: PanelMatrix, columns: Any) -> None:
    """Declare the cost of `_set_panels`."""
    costs.work(nbytes=16 * words_of(columns.shape[0], columns.shape[1], matrix.dtype))
    for k in range(matrix.count):
        if matrix.owner(k) == world().pid:
            low, high = matrix.span(k)
            matrix.panels[k] = costs.array((columns.shape[0], high - low), matrix.dtype)


@declares(_of_set_panels)
def _set_panels(matrix: PanelMatrix, columns: Any) -> None:
    """Set this process's panels of a matrix to columns that lie side by side."""
    start = 0
    for k in range(matrix.count):
        if matrix.owner(k) == world().pid:
            low, high = matrix.span(k)
            matrix.panels[k] = columns[:, start : start + high - low].copy()
            start += high - low


def _substituted(u: Any, low: int, high: int, unknowns: Any) -> None:
    """Apply one panel of U: solve for its unknowns, and subtract them from the equations above."""
    own = unknowns[low:high]
    own[:] = triangles.upper_solve(u[low:high], own)
    triangles.subtract_product(unknowns[:low], u[:low], own)


def _of_back_spread(costs: Costs, u: PanelMatrix, right: dict[int, Any]) -> Any:
    """Declare the cost of `_back_spread`."""
    dtype, columns, rows = u.dtype, width_of(right.values()), u.layout.shape[0]
    costs.work(nbytes=16 * words_of(rows, columns, dtype))
    unknowns = costs.array((rows, columns), dtype)
    right.clear()
    for k in reversed(range(u.count)):
        low, high = u.span(k)
        of_spread(costs, "back substitution", high, high - low, dtype, u.owner(k))
        if columns:
            with costs.holding(words_of(high, high - low, dtype)):
                _of_substitution(costs, low, high - low, columns, dtype)
    return unknowns


@declares(_of_back_spread)
def _back_spread(u: PanelMatrix, right: dict[int, Any]) -> Any:
    """Substitute back: every panel of U goes to all processes, which solve for the unknowns of their own columns.

    Returns these side by side, since products with narrow panels take a third longer; `right` is used up.
    """
    here = world()
    unknowns = np.concatenate([*right.values(), here.empty((u.layout.shape[0], 0), u.dtype)], axis=1)
    right.clear()  # whose memory the panels of U take
    for k in reversed(range(u.count)):
        low, high = u.span(k)
        panel = u.panels[k][:high] if k in u.panels else None
        panel = spread(here, "back substitution", panel, u.owner(k), high * (high - low) * u.dtype.itemsize)
        if unknowns.size:
            _substituted(panel, low, high, unknowns)
    return unknowns


def _of_back_along(costs: Costs, u: PanelMatrix, right: PanelMatrix) -> None:
    """Declare the cost of `_back_along`."""
    pid, home, dtype = world().pid, right.owner(0), right.dtype
    shape, place = right.layout.shape, home
    words = words_of(shape[0], shape[1], dtype)
    for k in [*reversed(range(u.count)), -1]:
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
    unknowns, place = right.panels.get(0), home
    for k in [*reversed(range(u.count)), -1]:
        there = u.owner(k) if k >= 0 else home
        if there != place:
            arrived = here.exchange("back substitution", [(there, unknowns)] if here.pid == place else [])
            if here.pid == there:
                unknowns = arrived[0][1].copy()
            place = there
        if k >= 0 and here.pid == place:
            _substituted(u.panels[k], *u.span(k), unknowns)
    if here.pid == home:
        right.panels[0] = unknowns


def _of_determinant(costs: Costs, a: Array, dtype: DType) -> tuple[Any, Any]:
    """Declare the cost of `determinant`."""
    eliminate(by_columns(a.astype(dtype), width_for(a.shape[0], costs.p)), singular=True)
    return costs.array((), dtype), costs.array((), np.zeros(0, dtype).real.dtype)


@declares(_of_determinant)
def determinant(a: Array, dtype: DType) -> tuple[Any, Any]:
    """Return the determinant's sign and the logarithm of its modulus, on every process.  Cost: as `eliminate`."""
    here = world()
    done = eliminate(by_columns(a.astype(dtype), width_for(a.shape[0], here.nprocs)), singular=True)
    size = np.abs(done.diagonal)
    with np.errstate(divide="ignore", invalid="ignore"):
        if (size == 0).any():
            return np.zeros((), dtype), np.asarray(-np.inf, size.dtype)
        turns = (
            done.diagonal / size if dtype.kind == "c" else np.where(done.diagonal < 0, -1, 1)
        )  # NumPy's sign is 1 if the determinant is NaN
        sign = np.prod(turns) * (-1 if done.odd else 1)
        return np.asarray(sign, dtype), np.asarray(np.sum(np.log(size)))
