"""Newton's method with step halving: one superstep for each point.

Each point costs one pass and one superstep, which sums objective, gradient and half the Hessian together; every
process then solves the same small system, bit by bit alike, so nothing has to be sent back.  A point that does not
lower the objective as it should (Armijo's condition) is taken back half the way.  The gradient that decides is
that of the point that is returned.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import bsp
from bsp.algorithms.glm.solvers.collinear import is_near
from bsp.algorithms.glm.solvers.objective import Objective, ObjectivePoint
from bsp.algorithms.glm.solvers.semidefinite import factor

SUFFICIENT = 1e-4  # of the decrease that the slope promises
ROUNDING = 1e-10  # a relative change of the objective that rounding may have made
LEAST = 1e-14  # relative decrease of the objective that can be seen
SMALLEST = 2.0**-30  # share of a step
USUAL = 6  # iterations that a prediction without values assumes, unless the problem is one of least squares

Direction = Callable[[Objective, ObjectivePoint, np.ndarray], np.ndarray]
Progress = Callable[[int, float, float], None]


def newton_step(objective: Objective, point: ObjectivePoint, kept: np.ndarray) -> np.ndarray:
    """Return -H^-1 g in the kept columns."""
    assert point.curvature is not None
    return factor(point.curvature, kept).solve(-point.gradient)


def descend(objective: Objective, start: np.ndarray, direction: Direction, progress: Progress | None) -> bsp.State:
    """Descend from `start` until the gradient's norm is at most tol, or until progress ends.  Collective.

    Returns a State with point, norm, converged, steps, history, moved (the last step), notes; at the first point, with
    near, if the columns are nearly collinear there (see `collinear`).
    Cost: a superstep of 1 + d + d(d + 1)/2 summed words, a pass and d³/3 flops for each point.
    """
    model, proc = objective.of.model, objective.of.proc
    state = bsp.State(
        point=None, trial=start, step=start, promise=0.0, share=1.0, units=None, kept=None,
        norm=np.inf, converged=False, stopped=False, separated=False,
        near=False, steps=0, history=[], moved=np.zeros_like(start), notes=(),
    )  # fmt: skip
    for _ in proc.rounds(model.max_iter + 1, state):
        found = objective.at(state.trial)
        if state.point is None:
            _begin(objective, found, state)
        norm = objective.norm(found, state.units, state.kept)
        if not _good(found, norm, state):
            state.share /= 2
            if state.share < SMALLEST or _unseen(state):
                state.stopped = True
                break
            state.trial = state.point.beta + state.share * state.step
            continue
        idle = _idle(found, norm, state)
        if state.point is not None:
            state.steps += 1
            state.moved = state.share * state.step
        state.point, state.norm = found, norm
        state.history = [*state.history, (found.value, norm)]
        if state.near:
            break
        if progress is not None:
            progress(state.steps, float(found.value), float(norm))
        if not norm > model.tol:
            state.converged = True
            break
        if idle:
            state.stopped = True
            break
        state.step = direction(objective, found, state.kept)
        change = objective.penalised @ (np.abs(found.beta + state.step) - np.abs(found.beta))
        state.promise = found.gradient @ state.step + objective.lasso * change
        if not state.promise < 0:
            state.stopped = True
            break
        state.share = 1.0
        state.trial = found.beta + state.step
    return state


def _begin(objective: Objective, first: ObjectivePoint, state: bsp.State) -> None:
    """Fix the units of the gradient and the columns that are linearly independent, at the first point."""
    assert first.curvature is not None
    state.units = objective.units(first)
    state.kept = np.arange(len(first.beta))
    if not objective.lasso:
        found = factor(first.curvature)
        state.kept = found.kept
        dependent = objective.explained(first.curvature, found)
        state.notes = tuple(f"{what}: it is left out, with coefficient 0" for what in dependent)
        plain = objective.rebased and objective.of.basis is None
        state.near = plain and is_near(objective.of, first.curvature, state.kept)


def _good(found: ObjectivePoint, norm: Any, state: bsp.State) -> Any:
    """Return whether the objective is low enough, or lower by rounding only with a shorter gradient."""
    if state.point is None:
        return True
    before = state.point.value
    low_enough = found.value <= before + SUFFICIENT * state.share * state.promise
    as_before = found.value <= before + ROUNDING * np.abs(before)
    return low_enough | (as_before & (norm < state.norm))


def _unseen(state: bsp.State) -> Any:
    """Return whether the decrease that the step promised is below rounding."""
    return -state.promise <= LEAST * np.abs(state.point.value)


def _idle(found: ObjectivePoint, norm: Any, state: bsp.State) -> Any:
    """Return whether an accepted step has changed nothing but the last digits."""
    if state.point is None:
        return False
    return _unseen(state) & (norm >= state.norm)
