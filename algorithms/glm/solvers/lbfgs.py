"""L-BFGS with a strong Wolfe line search: for so many columns that a Hessian is too large to sum.

An iteration costs a pass and a superstep of 1 + d summed words for each point that the line search looks at, mostly
one.  The first point also sums the Hessian's diagonal: scaled by it, the method does not depend on the columns' units.
Source: Liu & Nocedal, Math. Prog. 45 (1989); Nocedal & Wright, Numerical Optimization, 2nd edition, algorithms 7.4,
3.5; conditions for where rounding hides a decrease: Hager & Zhang, SIAM J. Optim. 16 (2005).
"""

from __future__ import annotations

from typing import Any

import numpy as np

import bsp
from bsp.algorithms.glm.solvers.newton import ROUNDING, SUFFICIENT, Progress
from bsp.algorithms.glm.solvers.objective import Objective, ObjectivePoint

PAIRS = 10
FLAT = 0.9  # of the slope at the start of a line: where the search ends
LOOKS = 40  # points on a line

Pair = tuple[np.ndarray, np.ndarray]  # a step, and by how much the gradient changed


def lbfgs(objective: Objective, start: np.ndarray, progress: Progress | None) -> bsp.State:
    """Descend from `start` until the gradient's norm is at most tol, as `newton.descend`.  Collective."""
    model, proc = objective.of.model, objective.of.proc
    state = bsp.State(
        point=None, units=None, kept=None, scale=None, pairs=[], norm=np.inf, converged=False, stopped=False,
        separated=False, near=False, steps=0, history=[], moved=np.zeros_like(start), notes=(),
    )  # fmt: skip
    for _ in proc.rounds(model.max_iter + 1, state):
        if state.point is None:
            first = objective.at(start, "diagonal")
            state.units = objective.units(first)
            assert first.curvature is not None
            state.scale = 1 / np.where(first.curvature > 0, first.curvature, 1.0)
            state.point = first._replace(curvature=None)
        else:
            found = _searched(objective, state.point, -two_loops(state.pairs, state.scale, state.point.gradient))
            if found is None:
                state.stopped = True
                break
            step, change = found.beta - state.point.beta, found.gradient - state.point.gradient
            if step @ change > 0:
                state.pairs = [*state.pairs[1 - PAIRS :], (step, change)]
            state.steps += 1
            state.moved, state.point = step, found
        state.norm = objective.norm(state.point, state.units)
        state.history = [*state.history, (state.point.value, state.norm)]
        if progress is not None:
            progress(state.steps, float(state.point.value), float(state.norm))
        if not state.norm > model.tol:
            state.converged = True
            break
    return state


def two_loops(pairs: list[Pair], scale: np.ndarray, gradient: np.ndarray) -> np.ndarray:
    """Return the inverse Hessian that the pairs approximate, oldest first, times the gradient.

    scale : (d,) the diagonal of the inverse Hessian that they update, but for a factor.
    Cost: W = 4·|pairs|·d.
    """
    direction: np.ndarray = gradient
    weights = []
    for step, change in reversed(pairs):
        weight = (step @ direction) / (step @ change)
        direction = direction - weight * change
        weights.append(weight)
    direction = scale * direction
    if pairs:
        step, change = pairs[-1]
        direction = direction * ((step @ change) / (change @ (scale * change)))
    for (step, change), weight in zip(pairs, reversed(weights), strict=True):
        direction = direction + step * (weight - (change @ direction) / (step @ change))
    return direction


def _searched(objective: Objective, start: ObjectivePoint, direction: np.ndarray) -> ObjectivePoint | None:
    """Return a point on the line that meets the strong Wolfe conditions; None if rounding leaves none.

    The objective is convex, so the slope along the line decides on which side of a point to look.
    """
    slope: Any = start.gradient @ direction
    low, high, slope_low, slope_high = 0.0, np.inf, slope, np.inf
    share = 1.0
    for _ in range(LOOKS):
        if not slope < 0:
            return None
        found = objective.at(start.beta + share * direction, "none")
        here = found.gradient @ direction
        as_before = (found.value <= start.value + ROUNDING * np.abs(start.value)) & (
            here <= (2 * SUFFICIENT - 1) * slope
        )
        low_enough = (found.value <= start.value + SUFFICIENT * share * slope) | as_before
        if low_enough and abs(here) <= -FLAT * slope:
            return found
        if low_enough and here < 0:
            low, slope_low = share, here
        else:
            high, slope_high = share, here
        if high == np.inf:
            share = 2 * share
            continue
        between = -slope_low / (slope_high - slope_low) if np.isfinite(slope_high) and slope_high > 0 else 0.5
        share = low + (high - low) * min(max(float(between), 0.1), 0.9)
        if not low < share < high:
            return None
    return None
