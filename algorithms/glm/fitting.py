"""Fit a generalised linear model to the rows of all processes.

survey      2 supersteps    checks of all rows, the model with an intercept only
solver      1 a point       Newton, L-BFGS or proximal Newton: a proc.rounds loop, so it runs cloned and resumes
separation  0, 1 or 2       only if the coefficients still move
basis       a tree of R's   only if columns are nearly collinear; then the solver goes on from its point
inference   1               deviance, dispersion, likelihood, covariances
"""

from __future__ import annotations

import numpy as np

import bsp
from bsp.algorithms.glm.cost import of_solve
from bsp.algorithms.glm.inference.covariance import concluded
from bsp.algorithms.glm.problem import Model, Rows, Solution, chosen_solver
from bsp.algorithms.glm.solvers.basis import NEAR, near_note
from bsp.algorithms.glm.solvers.collinear import is_near, rebased
from bsp.algorithms.glm.solvers.coordinate import proximal_step
from bsp.algorithms.glm.solvers.lbfgs import lbfgs
from bsp.algorithms.glm.solvers.newton import Progress, descend, newton_step
from bsp.algorithms.glm.solvers.objective import Objective
from bsp.algorithms.glm.solvers.separation import separation
from bsp.algorithms.glm.solvers.survey import Survey, survey
from bsp.cost.units import counted
from bsp.declared import declares

ROUNDED = 1e-8  # of the gradient: where rounding may stop a solver, and all is well
BASES = 2  # that a fit takes at most: at the first point, and where weights have changed much since


@declares(of_solve)
def solve(rows: Rows, model: Model, start: np.ndarray | None = None, progress: Progress | None = None) -> Solution:
    """Fit `model` to the rows of all processes.  Collective.

    start : (d,) coefficients as the columns were given, the intercept first, if there is one; None: those of the model
        with an intercept only.
    progress : called on every process with (iteration, objective, gradient norm) at each point.
    Cost, n rows on the fullest process, d coefficients, i Newton points: W = i(nd² + 4nd + d³/3), one allreduce of
        1 + d + d(d + 1)/2 words for each point, and three more supersteps (see the module).
    Raises ValueError, on every process alike, where rows or model cannot be.
    """
    return fitted(survey(rows, model), start, progress)


def fitted(of: Survey, start: np.ndarray | None = None, progress: Progress | None = None) -> Solution:
    """Fit the survey's model to its rows.  Collective."""
    solver = chosen_solver(of.model, of.d)
    objective, state = _descended(of, start_of(of, None if of.is_exact else start), solver, progress)
    states = [state]
    for _ in range(BASES):
        of = objective.of
        if not (state.near or (not state.separated and is_near(of, state.point.curvature, state.kept))):
            break
        objective, state = _descended(*rebased(of, state), solver, progress)
        states.append(state)
    state.steps = sum(each.steps for each in states)
    state.history = [point for each in states for point in each.history]
    state.notes = tuple(note for each in states for note in each.notes)
    if not state.converged and not state.separated:
        why = "rounding allows no further progress" if state.stopped else f"max_iter is {of.model.max_iter}"
        state.notes += (
            f"no convergence: the gradient's norm is {float(state.norm):.3g} after "
            f"{counted(state.steps, 'iteration')}, above tol = {of.model.tol:g}, and {why}",
        )
    basis = objective.of.basis
    if basis is not None and not state.separated and basis.inflation.max() > NEAR:
        state.notes += (near_note(of.names, basis),)
    return concluded(objective, state, solver)


def _descended(of: Survey, beta: np.ndarray, solver: str, progress: Progress | None) -> tuple[Objective, bsp.State]:
    """Return the objective and where the solver has ended: converged, separated (with a note), neither."""
    objective = Objective(of)
    if solver == "lbfgs":
        state = lbfgs(objective, beta, progress)
    else:
        state = descend(objective, beta, proximal_step if solver == "coordinate" else newton_step, progress)
    state.converged = state.converged or (state.stopped and bool(state.norm <= ROUNDED))
    separated = None if state.near else separation(objective, state)
    if separated is not None:
        state.converged, state.separated = False, True
        state.notes += (separated,)
    return objective, state


def start_of(of: Survey, start: np.ndarray | None = None) -> np.ndarray:
    """Return the coefficients (d,) of the shifted columns at which a solver begins."""
    if start is not None:
        if np.shape(start) != (of.d,):
            raise ValueError(f"start has shape {np.shape(start)}; it holds {of.d} coefficients, the intercept first")
        return of.inside(start[0], start[1:]) if of.model.fit_intercept else np.array(start, float)
    beta = np.zeros(of.d)
    if of.model.fit_intercept:
        beta[0] = of.constant
    return beta
