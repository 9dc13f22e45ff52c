"""A fit with an effect for each label of some columns, which are taken out: what `fit(..., absorb=)` does."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from bsp.algorithms.glm.absorbing.cost import of_solve_absorbing
from bsp.algorithms.glm.absorbing.levels import Levels
from bsp.algorithms.glm.absorbing.linear import solve_within
from bsp.algorithms.glm.absorbing.reweighted import solve_reweighted
from bsp.algorithms.glm.problem import Model, Rows, Solution
from bsp.algorithms.glm.solvers.newton import Progress
from bsp.algorithms.glm.solvers.survey import nonfinite, say_wrong, wrong_row
from bsp.arrays.procedures import world
from bsp.cost.units import counted
from bsp.declared import declares


def columns_of(absorb: Any) -> tuple[Any, ...]:
    """Return the columns of labels: absorb is one, or a list or tuple of several; names, or vectors."""
    if absorb is None:
        return ()
    columns = tuple(absorb) if isinstance(absorb, (list, tuple)) else (absorb,)
    for each in columns:
        if not isinstance(each, str) and getattr(each, "ndim", 1 if isinstance(each, (list, tuple)) else 0) != 1:
            raise TypeError("absorb takes a column of labels, or a list of columns: names of a table's, or vectors")
    if not columns:
        raise ValueError("absorb=[]: a column of labels, or None")
    return columns


def check_absorbing(model: Model, X_is_sparse: bool = False) -> None:
    """Raise ValueError for a model from which effects cannot be absorbed."""
    family = model.family
    if not (family.linear or family.log_linear):
        raise ValueError(
            f"absorb= is of linear models, family='gaussian', and of counts with a log link, 'poisson' and "
            f"'quasi-poisson'; this one is {str(family)!r}"
        )
    if model.alpha and not family.linear:
        raise ValueError(f"alpha={model.alpha:g}: a {family} model with absorbed effects has no penalty")
    if model.robust in ("HC2", "HC3"):
        raise ValueError(f"robust={model.robust!r} needs leverages, which absorbed effects leave unknown: HC0 or HC1")
    if X_is_sparse:
        raise ValueError("absorb= needs a dense X: what is left of its columns is dense")


@declares(of_solve_absorbing)
def solve_absorbing(
    rows: Rows, model: Model, names: Sequence[str], progress: Progress | None = None
) -> tuple[Solution, Model, tuple[str, ...]]:
    """Fit with an effect for each label; return the solution, the model that is left, and notes.  Collective.

    names : of the columns of labels.
    Cost: that of a fit, of `within` (a log-linear model: of each iteration, see `reweighted`), and three supersteps for
    each column of labels.
    """
    proc = world().private
    columns = rows.names or tuple(f"x{j}" for j in range(rows.X.shape[1]))
    found = [each for each in (wrong_row(rows, model.family), nonfinite(rows.X, columns)) if each is not None]
    say_wrong(proc, len(rows.y), min(found, default=None, key=lambda each: each[0]))
    labels = [Levels(proc, each) for each in rows.absorb]
    solver = solve_within if model.family.linear else solve_reweighted
    solution, absorbed, notes = solver(rows, model, labels, names, progress)
    said = f"effects of {', '.join(names)} are absorbed: {counted(absorbed.parameters, 'parameter')}"
    return solution, replace(model, fit_intercept=False), (said, *notes)
