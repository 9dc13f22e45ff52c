"""Cholesky factorisation by panels.

Golub and Van Loan 4.2.6.
"""

from __future__ import annotations

import numpy as np
from numpy.linalg import LinAlgError

from bsp.abstract import table
from bsp.arrays.array import Array
from bsp.arrays.execution.world import world
from bsp.arrays.expressions.graph import DType
from bsp.arrays.linalg import triangles
from bsp.arrays.linalg.panels import PanelMatrix, by_columns, of_spread, spread, width_for, words_of
from bsp.declared import Costs, declares


def cholesky(a: Array, dtype: DType) -> Array:
    """Return the L of A = L·Lᴴ, from the elements on and below A's diagonal.

    Cost: n³/3p flops (and n²b for factoring panels, which is not shared), n/b panels spread.
    Raises LinAlgError on every process if A is not positive definite: the panel's owner then spreads an empty one.
    """
    work = by_columns(a.astype(dtype), width_for(a.shape[0], world().nprocs))
    _factor(work)
    return work.array()


def _of_factor(costs: Costs, work: PanelMatrix) -> None:
    """Declare the cost of `_factor`."""
    n, dtype = work.layout.shape[0], work.dtype
    many = table.complexity(dtype)
    for k in range(work.count):
        low, high = work.span(k)
        rows, width = n - low, high - low
        if k in work.panels:
            with costs.holding(2 * words_of(rows, width, dtype)):
                costs.factoring(many * table.cholesky(width), width)
                if rows > width:
                    costs.factoring(many * table.triangular_solves(width, rows - width) / 2, width)
        of_spread(costs, "cholesky", rows, width, dtype, work.owner(k))
        with costs.holding(words_of(rows, width, dtype)):
            for start, stop in (work.span(j) for j in work.panels if j > k):
                costs.product(n - start, width, stop - start, dtype)


@declares(_of_factor)
def _factor(work: PanelMatrix) -> None:
    """Overwrite the lower triangle with L, the upper one with zeros."""
    here, n, dtype = world(), work.layout.shape[0], work.dtype
    for k in range(work.count):
        low, high = work.span(k)
        factored = None
        if k in work.panels:
            factored = triangles.cholesky(work.panels[k][low:])
            if factored is None:
                factored = np.empty((0, high - low), dtype)
        panel = spread(here, "cholesky", factored, work.owner(k), (n - low) * (high - low) * dtype.itemsize)
        if not panel.shape[0] and n:
            raise LinAlgError("Matrix is not positive definite")
        if k in work.panels:
            work.panels[k][:low] = 0
            work.panels[k][low:] = panel
        for j, trailing in work.panels.items():
            if j > k:
                start, stop = work.span(j)
                right = np.conj(panel[start - low : stop - low]).T
                triangles.subtract_product(trailing[start:], panel[start - low :], right)
