"""Deviance, dispersion, likelihood and covariances of the estimates, by one more pass and superstep.

The model's covariance is dispersion · F^-1, F the Fisher information; the robust one is the sandwich H^-1 M H^-1, H
the Hessian and M the sum over rows of the squared score (HC0), which holds though the variance is not the family's.
Of few rows it is too small: HC1 multiplies it by n/(n - d); HC2 and HC3 divide each row's square by 1 - h and by its
square, h being the row's leverage, which takes the covariance first and so a pass and a superstep more.  "cluster" sums
the scores of rows that vary together before they are squared (`clusters`).
Source: McCullagh & Nelder, 2nd edition, section 2.5; White, Econometrica 48 (1980); MacKinnon & White, J. Econometrics
29 (1985).
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

import bsp
from bsp.algorithms.glm.families import Family
from bsp.algorithms.glm.inference.clusters import clustered_scores, few_note, scores_at
from bsp.algorithms.glm.inference.dispersion import dispersion_note
from bsp.algorithms.glm.inference.likelihood import TERMS, log_likelihood, terms
from bsp.algorithms.glm.problem import CLUSTERED, LARGEST, Centre, Model, Solution
from bsp.algorithms.glm.solvers.basis import NEAR, digits_left
from bsp.algorithms.glm.solvers.objective import Objective, half, unpacked
from bsp.algorithms.glm.solvers.passes import Gram, chunk_length, chunks, is_sparse, predictor
from bsp.algorithms.glm.solvers.semidefinite import condition, factor
from bsp.algorithms.glm.solvers.survey import Survey

LEVERED: dict[bool | str, int] = {"HC2": 1, "HC3": 2}  # the powers of 1 - leverage
EXACT = 1e-10  # of 1 - leverage: rows that are fitted exactly


class FitSums(NamedTuple):
    """Sums of a fit over the rows of all processes."""

    deviance: Any
    chi2: Any
    loss: Any
    terms: np.ndarray  # of the likelihood
    grams: dict[str, np.ndarray]  # (d, d) "information", "hessian", "meat": those asked for


def measured(of: Survey, beta: np.ndarray, wanted: list[str]) -> FitSums:
    """Return the sums of the fit at beta.  Collective.

    Cost: a pass, with a product of X with itself for each matrix; one superstep of 2 + TERMS + |wanted|·d(d + 1)/2
    summed words.
    """
    sums = [np.zeros(())] * 2
    signed = of.family.solved_by == "information"  # then curvatures may be below 0
    grams = {name: Gram(of.k, of.model.fit_intercept, signed and name == "hessian") for name in wanted}
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        for rows, X in chunks(of):
            y = of.rows.y[rows]
            eta = predictor(of, X, beta, rows)
            _, score, curve = of.family.expansion(eta, y)
            w = np.ones_like(y) if of.weights is None else of.weights[rows]
            here = w @ of.family.excess(eta, y), w @ of.family.chi2(eta, y)
            sums = [so_far + more for so_far, more in zip(sums, here, strict=True)]
            for name, gram in grams.items():
                if name == "meat":
                    gram.add(X, of.squares(w * score, rows))
                else:
                    gram.add(X, w * (curve if name == "hessian" else of.family.information(eta)))
    halves = [gram.whole()[half(of.d)] for gram in grams.values()]
    total = of.proc.allreduce(np.concatenate([np.stack(sums), terms(of), *halves]))
    excess, chi2 = total[:2]
    size = of.d * (of.d + 1) // 2
    found = {
        name: unpacked(total[2 + TERMS + i * size : 2 + TERMS + (i + 1) * size], of.d) for i, name in enumerate(wanted)
    }
    return FitSums(2 * excess, chi2, of.least + excess, total[2 : 2 + TERMS], found)


def matrices_wanted(model: Model, family: Family, d: int) -> set[str]:
    """Return the names of the matrices that the covariances are made from; none where there are no covariances."""
    if model.alpha or d > LARGEST:
        return set()
    bread = "hessian" if family.canonical else "information"
    if not model.robust:
        return {bread}
    return {bread, "hessian"} | (set() if model.robust in (*LEVERED, CLUSTERED) else {"meat"})


def leverages(X: Any, inverse: np.ndarray, intercept: bool, shift: np.ndarray | None = None) -> np.ndarray:
    """Return x'·inverse·x (n,) for rows x of [1 X - shift], dense or sparse.  Cost: W = 2nk²."""
    inner, step = inverse[intercept:, intercept:], chunk_length(X.shape[1])
    found = [np.zeros(0)]
    for low in range(0, X.shape[0], step):
        part = X[low : low + step].toarray() if is_sparse(X) else X[low : low + step]
        part = part if shift is None else part - shift
        found.append(((part @ inner) * part).sum(axis=1))
        if intercept:
            found[-1] += 2 * (part @ inverse[0, 1:]) + inverse[0, 0]
    return np.concatenate(found)


def levered_meat(of: Survey, beta: np.ndarray, inverse: np.ndarray, power: int) -> np.ndarray:
    """Return the sum over all rows of the squared score over (1 - leverage)^power: (d, d).  Collective.

    inverse : of the information, (d, d).   Rows of leverage 1 are fitted exactly, and count for nothing.
    Cost: a pass of W = 3nd², one superstep of d(d + 1)/2 summed words.
    """
    gram = Gram(of.k, of.model.fit_intercept)
    for rows, X in chunks(of):
        y = of.rows.y[rows]
        eta = predictor(of, X, beta, rows)
        w = np.ones_like(y) if of.weights is None else of.weights[rows]
        squares = of.squares(w * of.family.expansion(eta, y).score, rows)
        alone = w if of.rows.frequencies is None else w / np.maximum(of.rows.frequencies[rows], 1.0)
        rest = 1 - alone * of.family.information(eta) * leverages(X, inverse, of.model.fit_intercept)
        gram.add(X, np.where(rest > EXACT, squares / np.maximum(rest, EXACT) ** power, 0.0))
    return unpacked(of.proc.allreduce(gram.whole()[half(of.d)]), of.d)


def concluded(objective: Objective, state: bsp.State, solver: str) -> Solution:
    """Return the solution at the state's point.  Collective."""
    of = objective.of
    model, point = of.model, state.point
    bread_name = "hessian" if of.family.canonical else "information"
    needed = matrices_wanted(model, of.family, of.d)
    known = {} if point.curvature is None else {of.family.solved_by: point.curvature * of.sum_weights}
    fit = measured(of, point.beta, sorted(needed - set(known)))
    known |= fit.grams
    kept = np.arange(of.d) if state.kept is None else state.kept
    notes = state.notes
    if of.d > LARGEST and not model.alpha:
        notes += (f"{of.d} coefficients: beyond {LARGEST} there are no standard errors",)
    covariance = robust = centre = None
    clusters, absorbed = 0, of.rows.absorbed
    if needed:
        bread = factor(known[bread_name], kept)
        if not state.separated:
            dependent = objective.explained(known[bread_name], bread, kept)
            notes += tuple(f"{what} at the estimates: it has no standard error" for what in dependent)
            lost = condition(known[bread_name], bread)
            if lost > NEAR:
                more = "" if solver == "newton" else "; solver='newton' finds more"
                notes += (
                    f"columns are nearly collinear: about {digits_left(lost)} digits of the standard errors are right"
                    f"{more}",
                )
        kept = bread.kept
        covariance = bread.inverse(of.d)
        if model.robust:
            outer = factor(known["hessian"], kept).inverse(of.d)
            if model.robust in LEVERED:
                known["meat"] = levered_meat(of, point.beta, covariance, LEVERED[model.robust])
            small = of.n_rows / max(of.n_rows - len(kept) - absorbed.parameters, 1) if model.robust == "HC1" else 1.0
            if model.robust == CLUSTERED:
                scores = clustered_scores(of, scores_at(of, point.beta))
                known["meat"], clusters = scores
                small = scores.correction(of.n_rows, len(kept) + absorbed.clustered)
                if clusters <= len(kept):
                    notes += (few_note(clusters, len(kept)),)
            robust = small * (outer @ known["meat"] @ outer)
    df_resid = of.n_rows - len(kept) - absorbed.parameters
    dispersion: Any = 1.0
    if of.family.free_dispersion:
        enough = df_resid > 0
        dispersion = fit.chi2 / df_resid if enough else np.nan
        if not enough:
            count = len(kept) + absorbed.parameters
            notes += (f"{of.n_rows:g} rows for {count} coefficients: nothing is left to estimate a dispersion by",)
    elif covariance is not None and not state.separated:
        note = dispersion_note(of, fit.chi2, df_resid)
        notes += () if note is None else (note,)
    if covariance is not None:
        with np.errstate(over="ignore", invalid="ignore"):
            covariance = covariance * dispersion
            if np.isfinite(dispersion) and not np.isfinite(covariance).all():
                notes += ("variances of coefficients are beyond the range of numbers: scale the columns up, or y down",)
            if of.shift is not None:
                robust_row = None if robust is None else of.intercept_row(robust)
                centre = Centre(of.shift, of.intercept_row(covariance), robust_row)
            covariance = of.covariance_outside(covariance, kept)
            robust = None if robust is None else of.covariance_outside(robust, kept)
    likelihood = log_likelihood(of, fit.terms, fit.loss, fit.deviance, dispersion)
    intercept, coef = of.outside(point.beta)
    return Solution(
        coef=coef, intercept=float(intercept), n_iter=state.steps, converged=state.converged,
        objective=float(point.value), gradient_norm=float(state.norm), deviance=float(fit.deviance),
        null_deviance=float(of.null_deviance), dispersion=float(dispersion), pearson_chi2=float(fit.chi2),
        log_likelihood=None if likelihood is None else float(likelihood),
        covariance=covariance,
        robust_covariance=robust, n_rows=int(of.n_rows), sum_weights=float(of.sum_weights),
        df_resid=float(df_resid), solver=solver, alpha=model.alpha, notes=notes, names=of.names, clusters=clusters,
        centre=centre,
        history=tuple((float(value), float(norm)) for value, norm in state.history),
    )  # fmt: skip
