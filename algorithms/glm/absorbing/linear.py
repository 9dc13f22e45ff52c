"""Linear models without the effects of their labels: the least squares of what `within` leaves of X and y."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from bsp.algorithms.glm.absorbing.degrees import absorbed_parameters
from bsp.algorithms.glm.absorbing.levels import Levels
from bsp.algorithms.glm.absorbing.within import UNFINISHED, within
from bsp.algorithms.glm.fitting import solve
from bsp.algorithms.glm.problem import Absorbed, Model, Rows, Solution, product
from bsp.algorithms.glm.solvers.newton import Progress
from bsp.arrays.procedures import world


def solve_within(
    rows: Rows, model: Model, labels: Sequence[Levels], names: Sequence[str], progress: Progress | None = None
) -> tuple[Solution, Absorbed, tuple[str, ...]]:
    """Fit a linear model with an effect for each label; return the solution, what is absorbed, and notes.  Collective.

    names : of the columns of labels.   Cost: that of `within` of k + 1 columns, and of `fitting.solve`.
    """
    proc = world().private
    weights = product(rows.weights, rows.frequencies)
    w = np.ones(len(rows.y)) if weights is None else weights
    clusters = None if rows.clusters is None else Levels(proc, rows.clusters)
    found = absorbed_parameters(labels, (w > 0).astype(float), clusters)
    y = rows.y if rows.offset is None else rows.y - rows.offset
    left, done = within(proc, np.column_stack([rows.X, y]), w, labels)
    X = np.ascontiguousarray(left[:, :-1])
    clean = replace(rows, X=X, y=left[:, -1].copy(), offset=None, absorb=(), absorbed=found)
    solution = solve(clean, replace(model, fit_intercept=False), progress=progress)
    return solution, found, () if done else (UNFINISHED,)
