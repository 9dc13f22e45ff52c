"""Log-linear models without the effects of their labels: iteratively reweighted least squares that absorb them.

It is Newton's method in all coefficients, those of the effects among them.  At a point with weights w (the curvature)
and working residuals r (the score over it, downwards) the step is the weighted least squares of r on X and a column for
each label.  With r~ and X~, what `within` leaves of r and X, its coefficients are those b of r~ on X~, and the
predictors move by (r - r~) + X~·b.  The weighted length of that, over the length of r, is the multiple correlation of
the residuals with all columns; it ends the iteration.  X~ of a point is where the next one's begins, and r is near
its own r~: so that the projections have little to do when the weights hardly change.

At the end the fit is one with predictors X~·b and an offset, with the same score, Hessian and sandwich; so the solver
of all models concludes it.
Source: Correia, Guimarães & Zylkin, "Fast Poisson estimation with high-dimensional fixed effects", Stata Journal 20
(2020); Bergé, "Efficient estimation of maximum likelihood models with multiple fixed-effects" (2018).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

import bsp
from bsp.algorithms.glm.absorbing.degrees import absorbed_parameters
from bsp.algorithms.glm.absorbing.levels import Levels
from bsp.algorithms.glm.absorbing.lowest import only, without_lowest
from bsp.algorithms.glm.absorbing.separated import seems_separated, separated_rows
from bsp.algorithms.glm.absorbing.within import UNFINISHED, within
from bsp.algorithms.glm.families import Family
from bsp.algorithms.glm.fitting import ROUNDED, fitted
from bsp.algorithms.glm.problem import Absorbed, Model, Rows, Solution, product
from bsp.algorithms.glm.solvers.newton import ROUNDING, SMALLEST, SUFFICIENT, Progress
from bsp.algorithms.glm.solvers.objective import half, unpacked
from bsp.algorithms.glm.solvers.passes import Gram
from bsp.algorithms.glm.solvers.semidefinite import factor
from bsp.algorithms.glm.solvers.survey import survey
from bsp.arrays.procedures import world
from bsp.cost.units import counted

EPS = float(np.finfo(float).eps)


def solve_reweighted(
    rows: Rows, model: Model, labels: Sequence[Levels], names: Sequence[str], progress: Progress | None = None
) -> tuple[Solution, Absorbed, tuple[str, ...]]:
    """Fit a log-linear model with an effect for each label; return the solution, what is absorbed, and notes.

    Collective.   names : of the columns of labels.
    Cost of an iteration, n rows on the fullest process, k columns: `within` of k + 1 columns, W = nk² + 4nk, and
    supersteps of 5 + k + k(k + 1)/2 and 1 summed words.  Beside those with X there are some without, for the deviance
    of the effects alone: none if there is one column of labels.  Where rows seem to be separated, `separated_rows`; and
    if some are, all of it again without them.
    """
    proc, family = world().private, model.family
    survey(rows, replace(model, fit_intercept=True))  # raises where rows cannot be
    rows, labels, notes = without_lowest(rows, family, labels, names)
    while True:
        weights = product(rows.weights, rows.frequencies)
        w = np.ones(len(rows.y)) if weights is None else weights
        start = _level_by_level(rows, family, w, labels)
        alone = _descended(replace(rows, X=rows.X[:, :0]), model, w, labels, start)
        state = _descended(rows, model, w, labels, alone.eta, progress)
        columns = rows.names or tuple(f"x{j}" for j in range(rows.X.shape[1]))
        seems = seems_separated(proc, rows, family, state, columns)
        apart = separated_rows(proc, rows, family, labels, columns) if seems else None
        if apart is None:
            break
        gone, note = apart
        if not note:
            seems = None
            break
        notes += (note,)
        rows, labels = only(~gone, rows, labels)

    clusters = None if rows.clusters is None else Levels(proc, rows.clusters)
    found = absorbed_parameters(labels, np.ones(len(w)), clusters)
    clean = replace(rows, X=state.X, offset=state.eta - state.X @ state.coef, absorb=(), absorbed=found)
    of = survey(clean, replace(model, fit_intercept=False))
    _, successes = proc.allreduce(np.array([w.sum(), w @ rows.y]))
    of = replace(
        of, constant=family.predictor(successes / of.sum_weights), null_deviance=2 * alone.excess,
        null_chi2=max(alone.chi2, (alone.rounding / model.tol) ** 2),
    )  # fmt: skip
    solution = fitted(of, state.coef)
    sound = alone.converged and state.converged and not (seems and seems[0])
    said = solution.notes
    if seems is not None:
        said += (seems[1],)
    elif not sound:
        said += (
            f"no convergence: the correlation of residuals with columns and effects is "
            f"{float(np.sqrt(state.square / max(state.chi2, state.rounding**2))):.3g} after "
            f"{counted(state.steps, 'iteration')}, above tol = {model.tol:g}",
        )
    if not (alone.absorbed and state.absorbed):
        said += (UNFINISHED,)
    solution = replace(
        solution, n_iter=alone.steps + state.steps, converged=solution.converged and sound, notes=said,
        history=tuple(state.history),
    )  # fmt: skip
    return solution, found, notes


def _level_by_level(rows: Rows, family: Family, w: np.ndarray, labels: Sequence[Levels]) -> np.ndarray:
    """Return predictors (n_local,) with effects only, of each column of labels in turn.  Two supersteps for each."""
    eta = np.zeros(len(w)) if rows.offset is None else rows.offset.copy()
    for each in labels:
        own = np.stack(
            [np.bincount(each.codes, values, each.count) for values in (w * rows.y, w * family.mean(eta))], 1
        )
        successes, means = each.combined(own).T
        eta = eta + family.predictor(np.divide(successes, means, out=np.ones_like(means), where=means > 0))[each.codes]
    return eta


def _descended(
    rows: Rows, model: Model, w: np.ndarray, labels: Sequence[Levels], start: np.ndarray,
    progress: Progress | None = None,
) -> bsp.State:  # fmt: skip
    """Descend from predictors `start` until tol is reached.  Collective.

    Returns a State with eta (n_local,), coef (k,), X without the effects, by the weights at eta; the next step of eta
    and the slope, that of coef; excess (half the deviance), chi2, square (of the step's weighted length), rounding
    (what a length may be of it), steps, history; converged, and absorbed: whether `within` always converged.
    """
    proc, family, k = world().private, model.family, rows.X.shape[1]
    state = bsp.State(
        eta=start, coef=np.zeros(k), X=rows.X, kept=None, excess=np.inf, chi2=np.inf, square=np.inf, rounding=0.0,
        step=start, slope=np.zeros(k), converged=False, absorbed=True, steps=0, history=[],
    )  # fmt: skip
    for _ in proc.rounds(model.max_iter + 1, state):
        loss, score, curve = family.expansion(state.eta, rows.y)
        curve, before = w * curve, state.square
        residual = np.divide(-w * score, curve, out=np.zeros_like(curve), where=curve > 0)
        left, done = within(proc, np.column_stack([state.X, residual]), curve, labels)
        state.X, rest = np.ascontiguousarray(left[:, :k]), left[:, k]
        effects = residual - rest
        gram = Gram(k, False)
        gram.add(state.X, curve)
        size = np.abs(state.eta) + 1
        own = [w @ loss, w @ family.excess(state.eta, rows.y), w.sum()]
        own += [curve @ (each * each) for each in (residual, effects, size)]
        sums = proc.allreduce(np.concatenate([own, state.X.T @ (curve * rest), gram.whole()[half(k)]]))
        (loss, state.excess, total, state.chi2, square, sizes), gradient = sums[:6], sums[6 : 6 + k]
        hessian = unpacked(sums[6 + k :], k)
        if state.kept is None:
            state.kept = factor(hessian).kept
        state.slope = factor(hessian, state.kept).solve(gradient)
        state.square, state.rounding = square + state.slope @ gradient, 16 * EPS * np.sqrt(sizes)
        state.step, state.absorbed = effects + state.X @ state.slope, state.absorbed and done
        norm = np.sqrt(state.square / max(state.chi2, (state.rounding / model.tol) ** 2))
        state.history = [*state.history, (float(loss / total), float(norm))]
        if progress is not None:
            progress(state.steps, float(loss / total), float(norm))
        stands = state.square >= before / 4 and norm <= ROUNDED  # by the rounding of the projections
        if norm <= model.tol or stands:
            state.converged = True
            break
        share = _share(proc, family, rows.y, w, state) if state.steps < model.max_iter else 0.0
        if not share:
            break
        state.eta = state.eta + share * state.step
        state.coef = state.coef + share * state.slope
        state.steps += 1
    return state


def _share(proc: bsp.Process, family: Family, y: np.ndarray, w: np.ndarray, state: bsp.State) -> float:
    """Return the share of the step that lowers the deviance as it should, or 0.0.  One superstep for each tried."""
    share = 1.0
    while share >= SMALLEST:
        with np.errstate(over="ignore", invalid="ignore"):
            (excess,) = proc.allreduce(np.array([w @ family.excess(state.eta + share * state.step, y)]))
        if excess <= state.excess * (1 + ROUNDING) + state.rounding**2 - SUFFICIENT * share * state.square:
            return share
        share /= 2
    return 0.0
