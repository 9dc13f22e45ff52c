"""Fit a generalised linear model to the rows of all processes.

survey      2 supersteps    checks of all rows, the model with an intercept only
solver      1 a point       Newton, L-BFGS or proximal Newton: a proc.rounds loop, so it runs cloned and resumes
separation  0, 1 or 2       only if the coefficients still move
inference   1               deviance, dispersion, likelihood, covariances
"""

from __future__ import annotations

import numpy as np

from bsp.algorithms.glm.cost import of_solve
from bsp.algorithms.glm.inference.covariance import concluded
from bsp.algorithms.glm.problem import Model, Rows, Solution, chosen_solver
from bsp.algorithms.glm.solvers.coordinate import proximal_step
from bsp.algorithms.glm.solvers.lbfgs import lbfgs
from bsp.algorithms.glm.solvers.newton import Progress, descend, newton_step
from bsp.algorithms.glm.solvers.objective import Objective
from bsp.algorithms.glm.solvers.separation import separation
from bsp.algorithms.glm.solvers.survey import Survey, survey
from bsp.cost.units import counted
from bsp.declared import declares

ROUNDED = 1e-8  # of the gradient: where rounding may stop a solver, and all is well


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
    objective = Objective(of)
    solver = chosen_solver(of.model, of.d)
    beta = start_of(of, start)
    if solver == "lbfgs":
        state = lbfgs(objective, beta, progress)
    else:
        state = descend(objective, beta, proximal_step if solver == "coordinate" else newton_step, progress)
    if state.stopped and state.norm <= ROUNDED:
        state.converged = True
    elif not state.converged:
        why = "rounding allows no further progress" if state.stopped else f"max_iter is {of.model.max_iter}"
        state.notes += (
            f"no convergence: the gradient's norm is {float(state.norm):.3g} after "
            f"{counted(state.steps, 'iteration')}, above tol = {of.model.tol:g}, and {why}",
        )
    separated = separation(objective, state)
    if separated is not None:
        state.converged, state.separated = False, True
        state.notes += (separated,)
    return concluded(objective, state, solver)


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
