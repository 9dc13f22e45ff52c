"""Rows of the lowest response that columns and effects separate from the others: their estimates are not finite.

A direction z of predictors, a combination of columns and effects that is 0 where y is above the lowest (counts of 0)
and 0 or more where it is not, lowers the deviance without end: rows with z > 0 have means that go to 0, and tell
nothing of the coefficients.  A fit shows that there may be one (`seems_separated`); what is found then
(`separated_rows`) are the rows of all such directions, by the iterative rectifier: u, 1 in the rows of the lowest y and
0 elsewhere, is projected by weighted least squares onto the columns and effects; then it is set to 0 in the other rows,
and where it is negative; and so on until the projection changes nothing.  Its fixed points are such directions.

Each z has at least the weighted inner product with later u that it has with the first one, which bounds the largest u
from below by 1: once it is less there is no z, and the search ends.
Source: Correia, Guimarães & Zylkin, "Verifying the existence of maximum likelihood estimates for generalized linear
models", arXiv:1903.01633.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

import bsp
from bsp.algorithms.glm.absorbing.levels import Levels
from bsp.algorithms.glm.absorbing.lowest import only
from bsp.algorithms.glm.absorbing.within import within
from bsp.algorithms.glm.families import Family
from bsp.algorithms.glm.problem import Rows
from bsp.algorithms.glm.solvers.objective import half, unpacked
from bsp.algorithms.glm.solvers.passes import Gram
from bsp.algorithms.glm.solvers.semidefinite import factor
from bsp.algorithms.glm.solvers.separation import SLIGHT, STILL, sentence
from bsp.cost.units import counted

FAINT = 20.0  # of a difference of predictors: means of e^-20
FIRM = 1e4  # the weight of rows above the lowest: more takes fewer steps, and projections that are harder to find
STEPS = 200  # of the rectifier, for each direction
FIXED = 1e-6  # of the largest u: what a step may still change
NOTHING = 1e-3  # of the largest u: less is 0


def seems_separated(
    proc: bsp.Process, rows: Rows, family: Family, state: bsp.State, names: Sequence[str]
) -> tuple[bool, str] | None:
    """Return whether rows of lowest y are separated, or only seem to be, and a sentence; None if not.  Collective.

    They are if the last step still lowers their predictors, and hardly any others.  Where effects of several columns
    of labels part them from the rest, no step shows it: projections do not end where weights are nearly 0.
    Cost: one superstep of 4 + k words.
    """
    step, lowest = state.step, rows.y == family.lowest
    against = np.where(lowest, step, np.abs(step)).max(initial=-np.inf)
    eta = state.eta if rows.offset is None else state.eta - rows.offset
    ends = (np.max(-eta[each], initial=-np.inf) for each in (lowest, ~lowest))
    parts = np.abs(state.X * state.slope).max(axis=0, initial=0.0)
    found = proc.allreduce(np.array([against, np.abs(step).max(initial=0.0), *ends, *parts]), op="max")
    against, largest, least, other = found[:4]
    if largest > STILL and against <= SLIGHT * largest:
        parts = np.where(found[4:] > SLIGHT * largest, found[4:], 0.0)
        return True, sentence(names, parts, False, "leave columns or these rows out")
    if least - other < FAINT:
        return None
    return False, (
        f"rows of y = {family.lowest:g} have means that are {np.exp(other - least):.1g} of the least of the others: "
        "effects of labels seem to separate them, and have no finite estimates; coefficients are those without them"
    )


def separated_rows(
    proc: bsp.Process, rows: Rows, family: Family, labels: Sequence[Levels], names: Sequence[str]
) -> tuple[np.ndarray, str] | None:
    """Return which rows (n_local,) are separated, and a sentence, "" if none are; None if STEPS do not tell.

    Collective.   All rows must have a positive weight, and each label a y above the lowest.
    Cost: for each direction found, and once more, a few steps (at most STEPS): each `within` of k + 1 columns,
    W = nk² + 4nk, and two supersteps of k + k(k + 1)/2 and 2 + k words.
    """
    parts, apart = np.zeros(rows.X.shape[1]), np.zeros(len(rows.y), bool)
    while (found := _direction(proc, *only(~apart, rows, labels), family)) is not None:
        direction, of_columns, largest = found
        if not largest:
            number = int(proc.allreduce(np.array([np.count_nonzero(apart)]))[0])
            return apart, _left_out(number, family, [name for name, part in zip(names, parts, strict=True) if part])
        apart[~apart] = direction > NOTHING * largest
        parts = np.maximum(parts, np.where(of_columns > NOTHING * largest, of_columns, 0.0))
    return None


def _left_out(number: int, family: Family, columns: list[str]) -> str:
    """Return a sentence on separated rows and the columns that separate them, with effects; "" if there are none."""
    if not number:
        return ""
    by = f"{', '.join(columns)} and effects" if len(columns) <= 10 else f"{len(columns)} columns and effects"
    return (
        f"{counted(number, 'row')} of y = {family.lowest:g} left out: {by if columns else 'effects'} separate them "
        "from the others, and have no finite estimates"
    )


def _direction(
    proc: bsp.Process, rows: Rows, labels: Sequence[Levels], family: Family
) -> tuple[np.ndarray, np.ndarray, float] | None:
    """Return z (n_local,), the largest parts of the columns in it and the largest z; zeros if there is no z but 0."""
    lowest, k = rows.y == family.lowest, rows.X.shape[1]
    w = np.where(lowest, 1.0, FIRM)
    state = bsp.State(u=lowest.astype(float), X=rows.X)
    for _ in proc.rounds(STEPS, state):
        left, done = within(proc, np.column_stack([state.X, state.u]), w, labels)
        if not done:
            return None
        state.X, rest = left[:, :k], left[:, k]
        gram = Gram(k, False)
        gram.add(state.X, w)
        sums = proc.allreduce(np.concatenate([state.X.T @ (w * rest), gram.whole()[half(k)]]))
        part = state.X * factor(unpacked(sums[k:], k)).solve(sums[:k])
        change = rest - part.sum(axis=1)
        z = state.u - change
        own = [np.max(z[lowest], initial=0.0), np.abs(change).max(initial=0.0), *np.abs(part).max(axis=0, initial=0.0)]
        largest, changed, *parts = proc.allreduce(np.array(own), op="max").tolist()
        if largest < 1 - FIXED:
            return np.zeros_like(z), np.zeros(k), 0.0
        if changed <= FIXED * largest:
            return z, np.array(parts), largest
        state.u = np.where(lowest, np.maximum(z, 0.0), 0.0)
    return None
