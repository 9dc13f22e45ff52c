"""Test of whether the estimates exist: where a direction separates the rows, models of bounded responses have none.

If some combination of the columns is at least 0 where y is the highest response there can be (all trials succeed), at
most 0 where it is the lowest (all fail; a count of 0), 0 in the other rows and not 0 everywhere, then the likelihood
grows along it without end, and so do the coefficients.  A solver ends there anyway, for the gradient goes to 0; its
steps go in such a direction.  So the last step is put to the test on all rows: what passes is a certificate.
Source: Albert & Anderson, Biometrika 71 (1984); Correia, Guimaraes & Zylkin, arXiv:1903.01633.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

import bsp
from bsp.algorithms.glm.solvers.objective import Objective
from bsp.algorithms.glm.solvers.passes import chunks
from bsp.algorithms.glm.solvers.survey import Survey

SLIGHT = 1e-6  # of the largest: what rounding and unfinished columns leave of 0
STILL = 1e-3  # of the coefficients: a last step that is longer shows that they are on their way

Certificate = tuple[np.ndarray, bool]  # a direction, and whether it separates completely


def separation(objective: Objective, state: bsp.State) -> str | None:
    """Return a sentence on the separation, if there is one, else None.  Collective.

    Cost: nothing if the coefficients stand still; else W = 4nk/p, one superstep of 6 words.
    """
    of = objective.of
    if (of.family.lowest is None and of.family.highest is None) or of.model.alpha:
        return None
    found = certificate(of, state, _tested)
    if found is None:
        return None
    direction, completely = found
    slopes = slice(int(of.model.fit_intercept), None)
    scaled = direction[slopes] * state.units[slopes] if of.basis is None else of.basis.scaled(direction[slopes])
    return sentence(of.kept_names, np.abs(scaled), completely)


def certificate(of: Any, state: bsp.State, tested: Callable[[Any, np.ndarray], np.ndarray]) -> Certificate | None:
    """Return a direction that separates the rows, and whether it does so completely; None if none is seen.

    tested : returns over all rows the most that one goes against a direction, and the extreme sizes along it.
    """
    moved, beta = np.abs(state.moved * state.units), np.abs(state.point.beta * state.units)
    if state.converged and moved.max() <= STILL * beta.max():
        return None
    for name, direction in (("moved", state.moved), ("beta", state.point.beta)):
        against, largest, smallest = tested(of, direction)
        if largest > 0 and against <= SLIGHT * largest and (name == "moved" or against < 0):
            return direction, bool(smallest > SLIGHT * largest)
    return None


def _tested(of: Survey, direction: np.ndarray) -> np.ndarray:
    """Return, over all rows, the most that one goes against the direction, and the extreme sizes along it."""
    against, largest, smallest = -np.inf, 0.0, np.inf
    intercept = of.model.fit_intercept
    for rows, X in chunks(of):
        y = of.rows.y[rows]
        along = X @ direction[intercept:] + (direction[0] if intercept else 0.0)
        wrong = np.where(y == of.family.lowest, along, np.where(y == of.family.highest, -along, np.abs(along)))
        if of.weights is not None:
            wrong, along = wrong[of.weights[rows] > 0], along[of.weights[rows] > 0]
        if len(along):
            against = max(against, float(wrong.max()))
            largest = max(largest, float(np.abs(along).max()))
            smallest = min(smallest, float(np.abs(along).min()))
    found: np.ndarray = of.proc.allreduce(np.array([against, largest, -smallest]), op="max")
    return found * [1.0, 1.0, -1.0]


REMEDY = "add a penalty (alpha > 0) or leave columns out"


def sentence(columns: Sequence[str], parts: np.ndarray, completely: bool, remedy: str = REMEDY) -> str:
    """Return a sentence on a separation by columns, of which these are their parts in the direction."""
    largest = parts.max(initial=0.0)
    names = [columns[j] for j in np.flatnonzero(parts > 1e-3 * largest).tolist()] if largest > 0 else []
    by = f" by {', '.join(names)}" if len(names) <= 10 else f" by a combination of {len(names)} columns"
    how = "completely" if completely else "quasi-completely"
    return (
        f"the rows are {how} separated{by if names else ''}: the likelihood has no maximum, the coefficients grow "
        f"without end and their standard errors mean nothing; {remedy}"
    )
