"""Householder QR by panels, with block reflections.

Golub and Van Loan 5.2.3.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from bsp.abstract import table
from bsp.arrays.array import Array
from bsp.arrays.execution.world import World, world
from bsp.arrays.expressions.graph import DType
from bsp.arrays.expressions.layout import dealt
from bsp.arrays.linalg import triangles
from bsp.arrays.linalg.panels import (
    PanelMatrix,
    by_columns,
    of_spread,
    spread,
    unit_columns,
    width_for,
    width_of,
    words_of,
)
from bsp.arrays.linalg.row_blocks import phases
from bsp.declared import Costs, declares


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
        q = unit.array()
    layout = dealt((n, n), work.layout.grid, work.layout.process_grid)
    signs = np.conj(sign)[:, None]
    upper = {k: np.triu(panel[:n], -work.span(k)[0]) * signs for k, panel in work.panels.items()}
    return q, PanelMatrix(layout, dtype, upper).array()


def _of_reflections(
    costs: Costs, work: PanelMatrix, text: str, panels: Iterable[int], into: PanelMatrix, after: int
) -> None:
    """Declare the cost of spreading reflections panel by panel and applying them to `into` after panel k + `after`."""
    m, dtype = work.layout.shape[0], work.dtype
    for k in panels:
        low, high = work.span(k)
        rows, width = m - low, high - low
        of_spread(costs, text, rows + width + 1, width, dtype, work.owner(k))
        columns = width_of(into.after(k + after))
        if columns:
            with costs.holding(words_of(2 * rows + width + 1, width, dtype) + words_of(2 * width, width, dtype)):
                costs.product(width, rows, columns, dtype)
                costs.product(width, width, columns, dtype)
                costs.product(rows, width, columns, dtype)


def _reflect(v: Any, t: Any, trailing: Iterable[Any]) -> None:
    """Apply I - V·T·Vᴴ to some panels, in place."""
    adjoint = np.conj(v).T
    for each in trailing:
        triangles.subtract_product(each, v, t @ (adjoint @ each))


def _of_triangle(costs: Costs, work: PanelMatrix) -> tuple[dict[int, Any], Any]:
    """Declare the cost of `_triangle`."""
    m, dtype = work.layout.shape[0], work.dtype
    many = table.complexity(dtype)
    kept = {}
    for k in range(work.count):
        low, high = work.span(k)
        rows, width = m - low, high - low
        if k in work.panels:
            with costs.holding(3 * words_of(rows, width, dtype)):
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
    here, (m, _), dtype = world(), work.layout.shape, work.dtype
    kept: dict[int, Any] = {}
    signs = []
    for k in range(work.count):
        low, high = work.span(k)
        size = (m - low + high - low + 1) * (high - low) * dtype.itemsize
        if k in work.panels:
            kept[k] = _reflections(work.panels[k][low:], here)
        block = spread(here, "qr", kept.get(k), work.owner(k), size)
        v, t, sign = block[: m - low], block[m - low : -1], block[-1]
        signs.append(sign.copy())
        _reflect(v, np.conj(t).T, [panel[low:] for panel in work.after(k)])
    return kept, np.concatenate(signs)


def _of_orthogonal(costs: Costs, work: PanelMatrix, kept: dict[int, Any], sign: Any, unit: PanelMatrix) -> None:
    """Declare the cost of `_orthogonal`."""
    _of_reflections(costs, work, "q of qr", reversed(range(work.count)), unit, -1)
    costs.visits(unit.layout.shape[0] * width_of(unit.panels.values()), unit.dtype)


@declares(_of_orthogonal)
def _orthogonal(work: PanelMatrix, kept: dict[int, Any], sign: Any, unit: PanelMatrix) -> None:
    """Turn columns of the identity into those of Q, from the last panel to the first."""
    here, (m, _), dtype = world(), work.layout.shape, work.dtype
    for k in reversed(range(work.count)):
        low, high = work.span(k)
        size = (m - low + high - low + 1) * (high - low) * dtype.itemsize
        block = spread(here, "q of qr", kept.get(k), work.owner(k), size)
        v, t = block[: m - low], block[m - low : -1]
        _reflect(v, t, [panel[low:] for panel in unit.after(k - 1)])
    for k, panel in unit.panels.items():
        panel *= sign[slice(*unit.span(k))]


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
