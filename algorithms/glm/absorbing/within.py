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

TOLERANCE = 1e-12  # of what a sweep still changes, beside the column less its mean
SWEEPS = 10_000
UNFINISHED = f"no convergence: {SWEEPS} sweeps have not absorbed the effects to {TOLERANCE:g}"
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

    Columns of which nothing is left are 0.
    Cost, q columns of labels: each sweep 2q - 1 projections, of W = 4nc flops and two supersteps with c words for each
    label of this process; one sweep for q = 1; else one an iteration, with two more supersteps of c summed words.
    """
    means = [_Means(each, w) for each in labels]

    def dot(a: np.ndarray, b: np.ndarray) -> Any:
        return proc.allreduce(w @ (a * b))

    def swept(v: np.ndarray) -> np.ndarray:
        for each in (*means, *means[-2::-1]):
            v = each.taken_from(v)
        return v

    total = proc.allreduce(np.append(w @ values, w.sum()))
    values = values - total[:-1] / total[-1]
    whole = np.sqrt(dot(values, values))
    done = True
    if len(means) == 1:
        values = swept(values)
    else:
        values, done = _accelerated(proc, values, swept, dot, TOLERANCE * whole)
    left = np.sqrt(dot(values, values))
    rounding = np.finfo(float).eps * 64 * np.sqrt(total[-1]) * np.abs(total[:-1] / total[-1])
    return np.where(left > np.maximum(NOTHING * whole, rounding), values, 0.0), done


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
