"""The within transformation: columns less their weighted means by label, of one column of labels or several at once.

Of one column of labels that is one projection.  Of several the projections alternate, forwards and backwards, and
conjugate gradients accelerate them: what is left of a column v solves (I - T) u = (I - T) v with r = v - u, T being one
sweep, which is symmetric in the weighted inner product.  By the theorem of Frisch, Waugh and Lovell the least squares
of what is left of y on what is left of X are those with a column for each label.
Source: Gaure, Comput. Stat. Data Anal. 66 (2013); Correia, "Linear models with high-dimensional fixed effects" (2017).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

import bsp
from bsp.algorithms.glm.absorbing.levels import Levels
from bsp.algorithms.glm.errors import DataError

TOLERANCE = 1e-12  # of what a sweep still changes, beside the column less its mean
SWEEPS = 10_000
UNFINISHED = f"no convergence: {SWEEPS} sweeps have not absorbed the effects to {TOLERANCE:g}"
NARROW = 1e-280, 1e300  # squares of columns that are far enough from the ends of the range of numbers
NOTHING = 1e-9  # of a column, less its mean: what is left of one that the labels explain


class _Means:
    """The weighted means by label of one column of labels."""

    def __init__(self, levels: Levels, w: np.ndarray) -> None:
        self.levels = levels
        n = len(w)
        from scipy.sparse import csr_array  # here, because other fits do not wait for its import

        self.sums = csr_array((w, (levels.codes, np.arange(n))), shape=(levels.count, n))
        total = levels.combined(np.bincount(levels.codes, w, levels.count)[:, None])
        self.inverse = np.divide(1.0, total, out=np.zeros_like(total), where=total > 0)

    def taken_from(self, values: np.ndarray) -> np.ndarray:
        """Return values (n, c) less their means.  Two supersteps."""
        means = self.levels.combined(self.sums @ values) * self.inverse
        found: np.ndarray = values - means[self.levels.codes]
        return found


def within(proc: bsp.Process, values: np.ndarray, w: np.ndarray, labels: Sequence[Levels]) -> tuple[np.ndarray, bool]:
    """Return what is left of columns (n_local, c) beside the labels, and whether it is so to TOLERANCE.  Collective.

    Columns of which nothing is left are 0.   Raises DataError if a sum over all rows is no number.
    Cost, q columns of labels: each sweep 2q - 1 projections, of W = 4nc flops and two supersteps with c words for each
    label of this process; one sweep for q = 1; else one an iteration, with two more supersteps of c summed words.  One
    superstep more if squares of a column are 0, two if they are too large or too small.
    """
    means = [_Means(each, w) for each in labels]

    def dot(a: np.ndarray, b: np.ndarray) -> Any:
        with np.errstate(over="ignore", invalid="ignore"):
            return proc.allreduce(w @ (a * b))

    def swept(v: np.ndarray) -> np.ndarray:
        for each in (*means, *means[-2::-1]):
            v = each.taken_from(v)
        return v

    with np.errstate(over="ignore", invalid="ignore"):
        total = proc.allreduce(np.append(w @ values, w.sum()))
    if not np.isfinite(total).all():
        raise DataError("sums of X, y or weights are beyond the range of numbers: scale them down")
    centre, whole_weight = total[:-1] / total[-1], total[-1]
    values = values - centre
    square = dot(values, values)
    away = _exponents(proc, values, square, whole_weight)
    if away.any():
        values, centre = np.ldexp(values, -away), np.ldexp(centre, -away)
        square = dot(values, values)
    whole = np.sqrt(square)
    done = True
    if len(means) == 1:
        values = swept(values)
    else:
        values, done = _accelerated(proc, values, swept, dot, TOLERANCE * whole)
    left = np.sqrt(dot(values, values))
    rounding = np.finfo(float).eps * 64 * np.sqrt(whole_weight) * np.abs(centre)
    values = np.where(left > np.maximum(NOTHING * whole, rounding), values, 0.0)
    return np.ldexp(values, away) if away.any() else values, done


def _exponents(proc: bsp.Process, values: np.ndarray, square: np.ndarray, weight: float) -> np.ndarray:
    """Return by which powers of two (c,) columns are to be divided so that their squares are numbers; mostly 0."""
    least, most = NARROW
    odd = ~((square > least) & (square < most))
    if not odd.any():
        return np.zeros(len(square), int)
    peak = proc.allreduce(np.abs(values).max(axis=0, initial=0.0), "max")
    return np.where(odd & (peak > 0), np.frexp(peak)[1] + np.frexp(weight)[1] // 2, 0)


def _accelerated(proc: bsp.Process, values: np.ndarray, swept: Any, dot: Any, limit: np.ndarray) -> tuple[Any, bool]:
    """Return the values less what sweeps take out of them, by conjugate gradients; whether to the limit."""
    state = bsp.State(values=values, residual=None, direction=None, square=None, done=False)
    for _ in proc.rounds(SWEEPS, state):
        if state.residual is None:
            state.residual = state.values - swept(state.values)
            state.direction = state.residual
            state.square = dot(state.residual, state.residual)
        if not (np.sqrt(state.square) > limit).any():
            state.done = True
            break
        image = state.direction - swept(state.direction)
        curved = dot(state.direction, image)
        going = (np.sqrt(state.square) > limit) & (curved > 0)
        step = np.divide(state.square, curved, out=np.zeros_like(curved), where=going)
        state.values = state.values - step * state.direction
        state.residual = state.residual - step * image
        square = dot(state.residual, state.residual)
        if not going.any():
            break
        turn = np.divide(square, state.square, out=np.zeros_like(square), where=going)
        state.direction = np.where(going, state.residual + turn * state.direction, state.direction)
        state.square = square
    return swept(state.values), state.done
