"""Fit a multinomial model to the rows of all processes.

survey      1 superstep     checks of all rows, class sizes, the model with intercepts only
solver      1 a point       Newton or L-BFGS, those of the other models: a proc.rounds loop
separation  0, 1 or 2       only if the coefficients still move
inference   1               Pearson's chi², covariances; 2 more for clustered ones
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

import bsp
from bsp.algorithms.glm.inference.clusters import Scores, clustered_scores, few_note
from bsp.algorithms.glm.inference.covariance import matrices_wanted
from bsp.algorithms.glm.multinomial.cost import of_solve_classes
from bsp.algorithms.glm.multinomial.objective import BlockGram, ClassObjective
from bsp.algorithms.glm.multinomial.softmax import expansion
from bsp.algorithms.glm.multinomial.survey import ClassSurvey, class_survey
from bsp.algorithms.glm.problem import CLUSTERED, LARGEST, Model, Rows, Solution, chosen_solver
from bsp.algorithms.glm.solvers.basis import NEAR, digits_left
from bsp.algorithms.glm.solvers.lbfgs import lbfgs
from bsp.algorithms.glm.solvers.newton import Progress, descend, newton_step
from bsp.algorithms.glm.solvers.objective import half, unpacked
from bsp.algorithms.glm.solvers.passes import chunks
from bsp.algorithms.glm.solvers.semidefinite import condition, factor
from bsp.algorithms.glm.solvers.separation import certificate, sentence
from bsp.cost.units import counted
from bsp.declared import declares

ROUNDED = 1e-8  # of the gradient: where rounding may stop a solver, and all is well


@declares(of_solve_classes)
def solve_classes(
    rows: Rows, model: Model, place: int, others: tuple[str, ...], progress: Progress | None = None
) -> Solution:
    """Fit `model` to the rows of all processes, y having the numbers of classes.  Collective.

    place : the number of the reference.   others : the names of the other classes.
    Returns a Solution whose coef (classes - 1, k) and intercept (classes - 1,) are those of `others`, as is the
    covariance: stacked class by class, each with its intercept first.
    Raises ValueError, on every process alike, where rows or model cannot be.
    """
    number = np.insert(np.arange(float(len(others))), place, len(others))  # the reference is the last
    of = class_survey(replace(rows, y=number[rows.y.astype(int)]), model, others)
    objective = ClassObjective(of)
    start = np.zeros((len(others), of.width))
    if model.fit_intercept:
        start[:, 0] = of.constant
    solver = chosen_solver(model, of.d)
    if solver == "lbfgs":
        state = lbfgs(objective, start.ravel(), progress)
    else:
        state = descend(objective, start.ravel(), newton_step, progress)
    state.converged = state.converged or (state.stopped and bool(state.norm <= ROUNDED))
    separated = None if model.alpha else certificate(of, state, _against)
    if separated is not None:
        state.converged, state.separated = False, True
        state.notes += (_separation(of, state, *separated),)
    elif not state.converged:
        why = "rounding allows no further progress" if state.stopped else f"max_iter is {model.max_iter}"
        state.notes += (
            f"no convergence: the gradient's norm is {float(state.norm):.3g} after "
            f"{counted(state.steps, 'iteration')}, above tol = {model.tol:g}, and {why}",
        )
    return _concluded(objective, state, solver)


def _against(of: ClassSurvey, direction: np.ndarray) -> np.ndarray:
    """Return, over all rows, the most that another class gains on a row's own, and the extreme sizes of that."""
    against, largest, smallest = -np.inf, 0.0, np.inf
    for rows, X in chunks(of):
        along = of.predictors(X, direction)
        every = np.concatenate([along, np.zeros((len(along), 1))], axis=1)
        own = of.classes(rows)
        gained = every - every[np.arange(len(every)), own][:, None]
        gained[np.arange(len(every)), own] = -np.inf
        if of.weights is not None:
            gained = gained[of.weights[rows] > 0]
        if len(gained):
            nearest = gained.max(axis=1)
            against = max(against, float(nearest.max()))
            largest = max(largest, float(np.abs(gained[np.isfinite(gained)]).max()))
            smallest = min(smallest, float(np.abs(nearest).min()))
    found: np.ndarray = of.proc.allreduce(np.array([against, largest, -smallest]), op="max")
    return found * [1.0, 1.0, -1.0]


def _separation(of: ClassSurvey, state: bsp.State, direction: np.ndarray, completely: bool) -> str:
    """Return a sentence on the separation, by the columns that take part for any class."""
    scaled = np.abs(direction * state.units).reshape(len(of.others), -1)
    return sentence(of.names, scaled[:, of.model.fit_intercept :].max(axis=0), completely)


def _measured(of: ClassSurvey, beta: np.ndarray, wanted: list[str]) -> tuple[float, dict[str, np.ndarray]]:
    """Return Pearson's chi² and the matrices asked for, "hessian" and "meat", over all rows.  Collective.

    Cost: a pass, one superstep of 1 + |wanted|·D(D + 1)/2 summed words.
    """
    chi2 = 0.0
    meat = BlockGram(of, signed=True)
    for rows, X in chunks(of):
        at = expansion(of.predictors(X, beta), of.classes(rows))
        w = np.ones(len(at.loss)) if of.weights is None else of.weights[rows]
        every = np.concatenate([at.probability, 1 - at.probability.sum(axis=1)[:, None]], axis=1)
        own = every[np.arange(len(every)), of.classes(rows)]
        with np.errstate(divide="ignore"):
            chi2 += w @ (1 / own - 1)  # the sum over classes of (share - p)²/p, of a row that is of one
        if "meat" in wanted:
            score = w[:, None] * at.score
            times = np.ones(len(w)) if of.rows.frequencies is None else np.maximum(of.rows.frequencies[rows], 1.0)
            meat.add(X, lambda j, m, score=score, times=times: score[:, j] * score[:, m] / times)
    halves = {"meat": meat.whole} | {"hessian": lambda: ClassObjective(of).sums(beta, "full").curvature}
    parts = [np.asarray(halves[name]())[half(of.d)] for name in wanted]
    total = of.proc.allreduce(np.concatenate([[chi2], *parts]))
    size = of.d * (of.d + 1) // 2
    found = {name: unpacked(total[1 + i * size : 1 + (i + 1) * size], of.d) for i, name in enumerate(wanted)}
    return float(total[0]), found


def _scores_at(of: ClassSurvey, beta: np.ndarray) -> Scores:
    """Return the function that `clustered_scores` takes."""

    def scores(rows: slice, X: Any) -> np.ndarray:
        return expansion(of.predictors(X, beta), of.classes(rows)).score

    return scores


def _concluded(objective: ClassObjective, state: bsp.State, solver: str) -> Solution:
    """Return the solution at the state's point.  Collective."""
    of, model, point, notes = objective.of, objective.of.model, state.point, state.notes
    needed = matrices_wanted(model, of.family, of.d)
    known = {} if point.curvature is None else {"hessian": point.curvature * of.sum_weights}
    chi2, found = _measured(of, point.beta, sorted(needed - set(known)))
    known |= found
    kept = np.arange(of.d) if state.kept is None else state.kept
    if of.d > LARGEST and not model.alpha:
        notes += (f"{of.d} coefficients: beyond {LARGEST} there are no standard errors",)
    covariance = robust = None
    clusters = 0
    if needed:
        bread = factor(known["hessian"], kept)
        if not state.separated:
            dependent = objective.explained(known["hessian"], bread, kept)
            notes += tuple(f"{what} at the estimates: it has no standard error" for what in dependent)
            lost = condition(known["hessian"], bread)
            if lost > NEAR:
                notes += (f"columns are nearly collinear: about {digits_left(lost)} digits of the errors are right",)
        kept, inverse = bread.kept, bread.inverse(of.d)
        covariance = of.covariance_outside(inverse, kept)
        if model.robust:
            small = of.n_rows / max(of.n_rows - len(kept), 1) if model.robust == "HC1" else 1.0
            if model.robust == CLUSTERED:
                scores = clustered_scores(of, _scores_at(of, point.beta))
                known["meat"], clusters = scores
                small = scores.correction(of.n_rows, len(kept))
                if clusters <= len(kept):
                    notes += (few_note(clusters, len(kept)),)
            robust = of.covariance_outside(small * (inverse @ known["meat"] @ inverse), kept)
    loss = float((point.value - objective.penalty(point.beta)) * of.sum_weights)
    intercept, coef = of.outside(point.beta)
    return Solution(
        coef=coef, intercept=intercept + np.zeros(len(of.others)), n_iter=state.steps, converged=state.converged,
        objective=float(point.value), gradient_norm=float(state.norm), deviance=2 * loss,
        null_deviance=float(of.null_deviance), dispersion=1.0, pearson_chi2=chi2, log_likelihood=-loss,
        covariance=covariance, robust_covariance=robust, n_rows=int(of.n_rows), sum_weights=float(of.sum_weights),
        df_resid=float(of.n_rows - len(kept)), solver=solver, alpha=model.alpha, notes=notes, names=of.names,
        clusters=clusters,
        history=tuple((float(value), float(norm)) for value, norm in state.history),
    )  # fmt: skip
