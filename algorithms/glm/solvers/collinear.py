"""A fit in orthogonal coordinates where columns are nearly collinear: see `basis`.

Solvers look at the condition of their matrix at the first point and the last.  Where it is beyond NEAR, the R of √W·X
at this point is made by a tree of the processes' R's, and the solver goes on from the point in the coordinates of R.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

import bsp
from bsp.algorithms.glm.solvers.basis import NEAR, OrthogonalBasis
from bsp.algorithms.glm.solvers.passes import chunks, predictor
from bsp.algorithms.glm.solvers.semidefinite import condition, factor
from bsp.algorithms.glm.solvers.survey import Survey
from bsp.arrays.linalg.row_blocks import RowBlocks, tsqr
from bsp.arrays.procedures import slabs


def is_near(of: Survey, curvature: np.ndarray | None, kept: np.ndarray | None) -> bool:
    """Return whether the kept columns are nearly collinear, and the model has no penalty that mends that."""
    if of.model.alpha or curvature is None or curvature.ndim != 2:
        return False
    return condition(curvature, factor(curvature, kept)) > NEAR


def rebased(of: Survey, state: bsp.State) -> tuple[Survey, np.ndarray]:
    """Return the survey in coordinates that are orthogonal at the state's point, and that point in them.  Collective.

    Cost: a pass of W = 2nd² flops; a tree of R's, h = d² words at each of its levels (`row_blocks.tsqr`).
    """
    intercept = of.model.fit_intercept
    inner, slopes = of.shifted(state.point.beta)
    kept = state.kept[intercept:] - 1 if intercept else state.kept
    columns = kept if of.basis is None else of.basis.columns[kept]
    plain = replace(of, basis=None)
    r = _factored(plain, np.concatenate([[inner], slopes]) if intercept else slopes, columns)
    if not (np.isfinite(r).all() and np.diagonal(r).all()):
        r = np.eye(len(r))  # beyond the range of numbers: as if there were no basis
    means = r[0, 1:] / r[0, 0] if intercept else np.zeros(len(columns))
    basis = OrthogonalBasis(columns, means, r[intercept:, intercept:])
    slopes = slopes[columns]
    start = basis.r @ slopes
    return replace(of, basis=basis), np.concatenate([[inner + means @ slopes], start]) if intercept else start


def _factored(of: Survey, beta: np.ndarray, columns: np.ndarray) -> np.ndarray:
    """Return R of √W·[1 X] in the columns asked for, W being the curvatures at beta.  Collective."""
    intercept = of.model.fit_intercept
    width = len(columns) + intercept
    own: Any = np.zeros((width, width))  # zeros for the rows that are missing: R is the same
    for rows, X in chunks(of):
        dense: Any = X.toarray() if hasattr(X, "toarray") else X
        y = of.rows.y[rows]
        eta = predictor(of, X, beta, rows)
        bend = of.family.bend(eta, of.family.expansion(eta, y).curvature)
        weights = np.sqrt(bend if of.weights is None else of.weights[rows] * bend)
        part = np.empty((len(y), width))
        part[:, :intercept] = 1.0
        part[:, intercept:] = dense[:, columns]
        part *= weights[:, None]
        own = np.linalg.qr(np.concatenate([own, part]), mode="r")
    pid, nprocs = of.proc.pid, of.proc.nprocs
    rows_of_all = RowBlocks(slabs((nprocs * width, width), nprocs), {(pid, 0): own})
    found: np.ndarray = tsqr(rows_of_all, np.dtype(float), want_q=False).r
    return found
