"""The data of a fit: rows, model and solution, passed between reading, solving and reporting."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import reduce
from typing import Any, NamedTuple

import numpy as np

from bsp.algorithms.glm.families import family_of

SOLVERS = ("auto", "newton", "lbfgs", "coordinate")
CLUSTERED = "cluster"
ROBUST = ("HC0", "HC1", "HC2", "HC3", CLUSTERED)
_KINDS = ", ".join(ROBUST)
LARGEST = 1024  # coefficients, beyond which there is no Hessian


class Absorbed(NamedTuple):
    """The number of parameters of absorbed effects, and of those that count with clustered errors: see `absorbing`."""

    parameters: int
    clustered: int


NONE_ABSORBED = Absorbed(0, 0)


@dataclass(frozen=True)
class Rows:
    """The rows that one process has; those of all processes in pid order are the data.

    X : (n_local, k) float64, C-contiguous, or a scipy.sparse CSR matrix; without a column for the intercept.
    y : (n_local,) float64; of binomial models the proportion of successes, 0 <= y <= 1.
    weights, offset, trials : (n_local,) or None (ones, zeros, ones).  A weight multiplies its row's share of the
        objective (scikit-learn's sample_weight, statsmodels' var_weights); a row of weight 0 is as if not there.  A
        row of m trials with a share y of successes is m rows of one trial, m·y of them successes.
    names : of the k columns, the same on every process.
    clusters : (n_local,) labels, equal ones of rows that vary together; or None.
    absorb : columns (n_local,) of labels whose effects are to be absorbed.   absorbed : those that have been.
    frequencies : (n_local,) whole numbers: a row of frequency f is f equal rows, in every result; or None (ones).
    """

    X: Any
    y: np.ndarray
    weights: np.ndarray | None = None
    offset: np.ndarray | None = None
    trials: np.ndarray | None = None
    names: tuple[str, ...] = ()
    clusters: np.ndarray | None = None
    frequencies: np.ndarray | None = None
    absorb: tuple[np.ndarray, ...] = ()
    absorbed: Absorbed = NONE_ABSORBED


@dataclass(frozen=True)
class Model:
    """A model to fit: what is minimised, and how.

    The objective is sum_i w_i·loss_i / (sum_i w_i) + alpha·(l1_ratio·|b|_1 + (1 - l1_ratio)/2·|b|_2²), scikit-learn's;
    the loss is half the unit deviance (up to constants), w_i = weight·trials·frequency; no penalty on the intercept.

    family : a `Family`, or its name (`family_of`), which becomes one: "poisson", "tweedie:1.5", "binomial:probit".
    solver : "newton", "lbfgs", "coordinate" (proximal Newton with coordinate descent inside), or "auto": by size.
    tol : of `Solution.gradient_norm` at the point that is returned.
    robust : whether to compute the robust covariance, which takes one more product of X with itself, and which: "HC0"
        (True), "HC1", "HC2", "HC3"; "cluster" adds the scores of each cluster's rows first.
    Raises ValueError for a parameter that cannot be.
    """

    family: Any
    alpha: float = 0.0
    l1_ratio: float = 0.0
    fit_intercept: bool = True
    solver: str = "auto"
    tol: float = 1e-10
    max_iter: int = 100
    robust: bool | str = False

    def __post_init__(self) -> None:
        object.__setattr__(self, "family", family_of(self.family))
        alpha, l1_ratio, max_iter = self.alpha, self.l1_ratio, self.max_iter
        for sound, text in (
            (self.solver in SOLVERS, f"solver={self.solver!r}: one of {', '.join(SOLVERS)}"),
            (is_number(alpha) and 0 <= alpha < np.inf, f"alpha={alpha!r}: a number, 0 or more"),
            (is_number(l1_ratio) and 0 <= l1_ratio <= 1, f"l1_ratio={l1_ratio!r}: from 0 to 1"),
            (isinstance(self.robust, bool) or self.robust in ROBUST, f"robust={self.robust!r}: True, False, {_KINDS}"),
            (is_number(self.tol) and self.tol > 0, f"tol={self.tol!r}: a number above 0"),
            (
                isinstance(max_iter, (int, np.integer)) and max_iter >= 1,
                f"max_iter={max_iter!r}: an integer, 1 or more",
            ),
        ):
            if not sound:
                raise ValueError(text)
        if alpha * l1_ratio and self.solver in ("newton", "lbfgs"):
            raise ValueError(f"solver={self.solver!r} has no L1 penalty: 'coordinate' or 'auto', or l1_ratio=0")


def chosen_solver(model: Model, d: int) -> str:
    """Return the solver that was asked for; "auto" goes by the penalty and by d, whose square Newton sums."""
    if model.solver != "auto":
        return model.solver
    if model.alpha * model.l1_ratio:
        return "coordinate"
    return "newton" if d <= LARGEST else "lbfgs"


def is_number(value: Any) -> bool:
    """Return whether a value is a number of Python or NumPy, and no truth value."""
    return isinstance(value, (int, float, np.integer, np.floating)) and not isinstance(value, bool)


def product(*factors: np.ndarray | None) -> np.ndarray | None:
    """Return the product of vectors, of which None is all ones; None if all are."""
    given = [each for each in factors if each is not None]
    return reduce(np.multiply, given) if given else None


class Centre(NamedTuple):
    """Where the intercept's covariances have all their digits, if columns are far from 0.

    shift : (k,) about the means of these columns, 0 for the others.   covariance, robust_covariance : (d,) of the
        linear predictor at X = shift, with itself and with each coefficient.
    """

    shift: np.ndarray
    covariance: np.ndarray
    robust_covariance: np.ndarray | None


@dataclass(frozen=True)
class Solution:
    """A fitted model; the same bytes on every process.

    alpha : of the model.   coef : (k,);  intercept : 0.0 if there is none.  Of a multinomial model of K classes
        (K - 1, k) and (K - 1,), without the reference, and d is (K - 1)·(k + intercept), class by class.
    covariance : (d, d) of the estimates, d = k + intercept, intercept first; dispersion · inverse Fisher information.
        robust_covariance : the sandwich.  None where a penalty makes them meaningless (alpha > 0), and with more
        than 1024 coefficients.  Rows and columns of coefficients left out as collinear (see notes) are NaN.
    dispersion : Pearson's chi²/df_resid of families with a free dispersion (gaussian, gamma, quasi-poisson, ...); 1
        of others.
    n_rows : of positive weight, each counted as often as its frequency.
    df_resid : n_rows less the coefficients that are not left out, and the parameters of absorbed effects.
    log_likelihood : at the estimates; for aic and bic.  None of quasi families.
    converged : gradient_norm is at most tol; or it is at most 1e-8, and rounding allows no further progress.
    gradient_norm : the largest component of the objective's gradient (of its minimum-norm subgradient, where there is
        an L1 penalty), each in units of the root mean square of its column times that of the null model's residual:
        a correlation, which no change of units alters.  Of the columns that are not left out, or of their orthogonal
        coordinates, if they are nearly collinear; 0 if the null model leaves nothing but rounding.
    objective : at the same point, the one that is returned.
    sum_weights : sum_i w_i, trials and frequencies included.
    notes : sentences that a reader needs: separation, singular columns by name, no convergence, digits lost to nearly
        collinear columns, a dispersion far from the family's.
    clusters : their number, of clustered errors; else 0.
    centre : what intervals and leverages need of columns that are far from 0; None if there are none.
    history : (objective, gradient norm) of each point that was accepted, the first and the last included.
    """

    coef: np.ndarray
    intercept: Any
    n_iter: int
    converged: bool
    objective: float
    gradient_norm: float
    deviance: float
    null_deviance: float
    dispersion: float
    pearson_chi2: float
    log_likelihood: float | None
    covariance: np.ndarray | None
    robust_covariance: np.ndarray | None
    n_rows: int
    sum_weights: float
    df_resid: float
    solver: str
    alpha: float = 0.0
    notes: tuple[str, ...] = ()
    names: tuple[str, ...] = ()
    clusters: int = 0
    centre: Centre | None = None
    history: tuple[tuple[float, float], ...] = field(default=(), repr=False)
