"""Deviance, dispersion, likelihood and covariances of the estimates, by one more pass and superstep.

The model's covariance is dispersion · F^-1, F the Fisher information; the robust one is the sandwich H^-1 M H^-1, H
the Hessian and M the sum over rows of the squared score (HC0), which holds though the variance is not the family's.
Source: McCullagh & Nelder, 2nd edition, section 2.5; White, Econometrica 48 (1980).
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

import bsp
from bsp.algorithms.glm.families import Family
from bsp.algorithms.glm.inference.dispersion import dispersion_note
from bsp.algorithms.glm.inference.likelihood import TERMS, log_likelihood, terms
from bsp.algorithms.glm.problem import LARGEST, Model, Solution
from bsp.algorithms.glm.solvers.basis import NEAR, digits_left
from bsp.algorithms.glm.solvers.objective import Objective, half, unpacked
from bsp.algorithms.glm.solvers.passes import Gram, chunks, predictor
from bsp.algorithms.glm.solvers.semidefinite import condition, explained, factor
from bsp.algorithms.glm.solvers.survey import Survey


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
                    gram.add(X, (w * score) ** 2)
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
    return {bread, "hessian", "meat"} if model.robust else {bread}


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
    covariance = robust = None
    if needed:
        bread = factor(known[bread_name], kept)
        if not state.separated:
            dependent = explained(known[bread_name], bread, of.kept_names, model.fit_intercept, kept)
            notes += tuple(f"{what} at the estimates: it has no standard error" for what in dependent)
            lost = condition(known[bread_name], bread)
            if lost > NEAR:
                notes += (
                    f"columns are nearly collinear: about {digits_left(lost)} digits of the standard errors are right; "
                    f"solver='newton' finds more",
                )
        kept = bread.kept
        covariance = bread.inverse(of.d)
        if model.robust:
            outer = factor(known["hessian"], kept).inverse(of.d)
            robust = of.covariance_outside(outer @ known["meat"] @ outer, kept)
    df_resid = of.n_rows - len(kept)
    dispersion: Any = 1.0
    if of.family.free_dispersion:
        enough = df_resid > 0
        dispersion = fit.chi2 / df_resid if enough else np.nan
        if not enough:
            notes += (f"{of.n_rows:g} rows for {len(kept)} coefficients: nothing is left to estimate a dispersion by",)
    elif covariance is not None and not state.separated:
        note = dispersion_note(of, fit.chi2, df_resid)
        notes += () if note is None else (note,)
    likelihood = log_likelihood(of, fit.terms, fit.loss, fit.deviance, dispersion)
    intercept, coef = of.outside(point.beta)
    return Solution(
        coef=coef, intercept=float(intercept), n_iter=state.steps, converged=state.converged,
        objective=float(point.value), gradient_norm=float(state.norm), deviance=float(fit.deviance),
        null_deviance=float(of.null_deviance), dispersion=float(dispersion), pearson_chi2=float(fit.chi2),
        log_likelihood=None if likelihood is None else float(likelihood),
        covariance=None if covariance is None else of.covariance_outside(covariance * dispersion, kept),
        robust_covariance=robust, n_rows=int(of.n_rows), sum_weights=float(of.sum_weights),
        df_resid=float(df_resid), solver=solver, alpha=model.alpha, notes=notes, names=of.names,
        history=tuple((float(value), float(norm)) for value, norm in state.history),
    )  # fmt: skip
