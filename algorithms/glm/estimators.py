"""Generalised linear models as estimators: `fit`, `predict`, `score`, `summary`, by scikit-learn's conventions.

    from bsp.algorithms import glm
    model = glm.PoissonRegression().fit("visits.csv", y="mdvis")     # every process runs the same line
    print(model.summary())

`fit` is collective: every process calls it with the same arguments, and takes its rows of arrays that are whole on
every process, its blocks of arrays of `bsp.arrays`, its lines of a file.  Afterwards every process has the same model,
bit by bit.  `predict` and `score` of a whole array or data frame are local: one process may call them alone; of arrays
of `bsp.arrays`, files and tables they are collective and the prediction is dealt like the rows.
"""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from bsp.algorithms.glm import path as paths
from bsp.algorithms.glm.absorbing.absorb import check_absorbing, columns_of, solve_absorbing
from bsp.algorithms.glm.conventions import Conventions, of_summary
from bsp.algorithms.glm.cost import cost, for_predictors
from bsp.algorithms.glm.data.inputs import Column, Rows
from bsp.algorithms.glm.data.preparing import Given, Prepared, prepared
from bsp.algorithms.glm.errors import DataError
from bsp.algorithms.glm.families import Family, family_of
from bsp.algorithms.glm.fitting import solve
from bsp.algorithms.glm.inference.covariance import leverages
from bsp.algorithms.glm.inference.hypotheses import HypothesisTest, likelihood_ratio, wald
from bsp.algorithms.glm.inference.prediction import Applied, applied, check_weights, parted
from bsp.algorithms.glm.inference.residuals import KINDS, residuals
from bsp.algorithms.glm.inference.summary import Summary
from bsp.algorithms.glm.problem import CLUSTERED, Model, Solution
from bsp.algorithms.glm.solvers.newton import Progress
from bsp.algorithms.glm.solvers.passes import is_sparse
from bsp.arrays.typing import ArrayLike
from bsp.cost.model import Cost, Machine
from bsp.declared import Costs, declares


def _of_score(
    costs: Costs, model: Regression, X: Any, y: Any, sample_weight: Any = None, offset: Any = None,
    sums: tuple[int, ...] = (3, 1),
) -> Any:  # fmt: skip
    """Declare the cost of `score`: that of bringing and checking y and weights, and the sums over dealt rows."""
    X, y, sample_weight, offset = parted(X, y, sample_weight, offset)
    found = model._linear(X, offset, y, sample_weight)
    found.of_checked(y, sample_weight)
    for count in sums:
        costs.work(**for_predictors(len(found.eta)))
        if found.dealt:
            costs.allreduce(count)
    return costs.array(())


def _of_accuracy(costs: Costs, model: Regression, X: Any, y: Any, sample_weight: Any = None, offset: Any = None) -> Any:
    """Declare the cost of a classifier's `score`: one sum over all rows."""
    return _of_score(costs, model, X, y, sample_weight, offset, sums=(2,))


def _of_residuals(
    costs: Costs, model: Regression, X: Any, y: Any, kind: str = "deviance", sample_weight: Any = None,
    offset: Any = None,
) -> Any:  # fmt: skip
    """Declare the cost of `residuals`: that of bringing and checking y and weights."""
    X, y, sample_weight, offset = parted(X, y, sample_weight, offset)
    found = model._linear(X, offset, y, sample_weight)
    found.of_checked(y, sample_weight)
    costs.work(**for_predictors(len(found.eta)))
    return found.mapped(lambda eta: eta)


def _of_reach(costs: Costs, model: Regression, level: float) -> Any:
    """Declare that the width of intervals costs nothing."""
    return costs.array(())


@declares(_of_reach)
def _reach(model: Regression, level: float) -> float:
    """Return the standard errors from an estimate to each end of its confidence interval."""
    return model.summary(level).reach


_OF_TABLES = ("missing", "reference", "columns", "exclude")  # parameters of `read_table`


class Regression(Conventions):
    """The base of all generalised linear models; `GLM` and the named classes add a family.

    alpha, l1_ratio : the penalty alpha·(l1_ratio·|b|_1 + (1 - l1_ratio)/2·|b|_2²) on top of the mean loss, half the
        unit deviance; the intercept is not penalised.
    solver : "newton", "lbfgs", "coordinate" (proximal Newton, needed for l1_ratio > 0), "auto": by size.
    tol : of the gradient's largest component at the point that is returned, as a correlation of a column with the
        residuals, which no change of units alters.   max_iter : iterations.
    robust : standard errors from the sandwich covariance, which hold if the variance is not the family's; one product
        of X with itself more.  True is "HC0"; of few rows it is too small: "HC1", "HC2", "HC3" correct for that,
        as R's sandwich and statsmodels' OLS do; statsmodels' GLM gives HC0 for all of them.
        "cluster" allows for rows that vary together (`fit`: clusters).

    After `fit`, with k coefficients and d = k + 1 with an intercept, else k:
    coef_ : (k,);  intercept_ : a number, 0.0 without one;  n_iter_, converged_, deviance_.
    covariance_ : (d, d), intercept first;  standard_errors_ : (d,).  None if there is a penalty.
    n_features_in_ : columns of X;  feature_names_in_ : their names, of a data frame or file.
    solution_ : all that is known of the fit (`bsp.algorithms.glm.problem.Solution`).
    """

    family: str | Family
    intercept_: float
    _classify = False

    if not TYPE_CHECKING:  # type checkers, help and completion read the signature of __init__

        def __new__(cls, *args: Any, **parameters: Any) -> Self:
            """Accept the parameters of the signature; name the call that takes one of the data (TypeError)."""
            if (name := next((name for name in _OF_TABLES if name in parameters), None)) is not None:
                raise TypeError(
                    f"{cls.__name__}({name}=...): that belongs to the data, not to the model: "
                    f"fit(glm.read_table(path, {name}={parameters[name]!r}), y='a column')"
                )
            if cls.__init__ is Regression.__init__:  # Python's own message names it, and not the class
                known = cls._parameters()
                for name in [each for each in parameters if each not in known]:
                    raise TypeError(
                        f"{cls.__name__}() got an unexpected keyword argument {name!r}; there are {', '.join(known)}"
                    )
            return super().__new__(cls)

        def __init_subclass__(cls, **parameters: Any) -> None:
            super().__init_subclass__(**parameters)
            own = inspect.signature(cls.__init__)
            cls.__signature__ = own.replace(
                parameters=[each for each in own.parameters.values() if each.name != "self"]
            )

    def __init__(
        self, alpha: float = 0.0, l1_ratio: float = 0.0, solver: str = "auto", fit_intercept: bool = True,
        tol: float = 1e-10, max_iter: int = 100, robust: bool | str = False,
    ) -> None:  # fmt: skip
        self.alpha = alpha
        self.l1_ratio = l1_ratio
        self.solver = solver
        self.fit_intercept = fit_intercept
        self.tol = tol
        self.max_iter = max_iter
        self.robust = robust

    # ------------------------------------------------------------------------------- fitting

    def fit(
        self, X: Rows, y: Column, sample_weight: Column | None = None, offset: Column | None = None,
        trials: Column | None = None, clusters: Column | None = None, frequencies: Column | None = None, *,
        absorb: Column | Sequence[Column] | None = None, progress: Progress | None = None,
    ) -> Self:  # fmt: skip
        """Fit to n rows; return the model.  Collective.

        X : (n, m): an array or list, the same on every process; an array of `bsp.arrays`, or a sparse one; a
            scipy.sparse matrix; a pandas data frame; a table of `read_table`; the path of a file: CSV (also .gz),
            Parquet, .npy, HDF5, Zarr.  `read_table(path, missing="drop")` leaves out rows with missing values, which
            are a DataError otherwise.
        y : (n,).  With a table (file or data frame) it may be the name of a column, as may the others; X is then the
            columns that are not named.  Columns of texts or categories get treatment coding.  y may also be a formula,
            "mdvis ~ log(disea + 1) + C(hlthp) + idp:fmde": see `data.formulas`.
        sample_weight : (n,), multiplies a row's share of the objective.   offset : (n,), added to the linear predictor.
        trials : (n,), for a binomial family: y then counts the successes.
        clusters : (n,), numbers or texts, with robust="cluster": rows of the same label may vary together, as those of
            one village or patient do.
        frequencies : (n,) whole numbers: a row of frequency f is f equal rows, in degrees of freedom, dispersion, all
            standard errors and information criteria, too.  A weight of f is one row that is f times as precise.
        absorb : one column of labels (n,), or a list of several, of a linear or a (quasi-)Poisson model with its
            default link: each label has its own effect, which is taken out instead of estimated, and with them the
            intercept.  Coefficients, dispersion and errors are those of a fit with a column for each label;
            `null_deviance` is that of the effects alone, and there is no prediction.  Of counts, rows of labels whose y
            are all 0 are left out, with a note, and rows of 0 that columns and effects separate from the others.  See
            `absorbing.within` for tolerance and cost, `absorbing.reweighted` and `absorbing.separated` for counts,
            `absorbing.degrees` for degrees of freedom.
        progress : called on every process with iteration, objective and gradient norm.
        Cost: 3 supersteps to agree on the data and look at them, one of 1 + d + d(d + 1)/2 summed words each Newton
        iteration, one for the covariances; see `bsp.algorithms.glm.fitting`.
        Raises DataError, ValueError, TypeError or OSError, the same on every process, if data cannot be used.
        """
        model = self._model()
        if (clusters is None) == (model.robust == CLUSTERED):
            raise ValueError(f"robust={self.robust!r} and clusters={clusters!r:.30}: one of them needs the other")
        columns = columns_of(absorb)
        if columns:
            check_absorbing(model)
        given = Given(y, sample_weight, offset, trials, clusters, frequencies, columns)
        self._fit(X, given, model, progress)
        return self

    def _fit(self, X: Any, given: Given, model: Model, progress: Progress | None = None) -> Prepared:
        """Fit, and return what was fitted to."""
        data = prepared(X, given, model.family, 2 * self._classify, model.fit_intercept)
        self._remember(data, X)
        rows, self._absorbs = data.rows, bool(given.absorb)
        if given.absorb:
            check_absorbing(model, is_sparse(rows.X))
            names = [each if isinstance(each, str) else f"absorb[{k}]" for k, each in enumerate(given.absorb)]
            solution, model, notes = solve_absorbing(rows, model, names, progress)
            self._notes += notes
        else:
            solution = solve(rows, model, progress=progress)
        self._keep(solution, model)
        return data

    def regularisation_path(
        self, X: Rows, y: Column, alphas: Sequence[float] | None = None, sample_weight: Column | None = None,
        offset: Column | None = None, trials: Column | None = None, frequencies: Column | None = None,
    ) -> list[Solution]:  # fmt: skip
        """Fit for several penalties, from the largest alpha down, each begun at the one before.  Collective.

        alphas : None: from the smallest that makes all coefficients 0 (with l1_ratio > 0) downwards, evenly in logs.
        Returns a Solution for each.  See `bsp.algorithms.glm.path`.
        """
        model = self._model()
        if model.robust == CLUSTERED:
            raise ValueError("robust='cluster': a path has no standard errors that clusters could matter to")
        given = Given(y, sample_weight, offset, trials, frequencies=frequencies)
        data = prepared(X, given, model.family, 2 * self._classify, model.fit_intercept)
        return paths.path(data.rows, model, alphas)

    def cost(self, n: int, k: int, p: int, machine: Machine | None = None, iterations: int | None = None) -> Cost:
        """Return W, H, S and M of a fit to n rows of k numbers on p processes; see `glm.cost.cost`.

        machine : decides how sums are made, and prices: `model.cost(...).price(machine)` flop-times; None: the default.
        """
        return cost(self._model(), n, k, p, machine, iterations)

    def _model(self) -> Model:
        """Return the parameters, checked."""
        return Model(
            self.family, self.alpha, self.l1_ratio, bool(self.fit_intercept), self.solver, self.tol, self.max_iter,
            self.robust if isinstance(self.robust, str) else bool(self.robust),
        )  # fmt: skip

    def _remember(self, data: Prepared, X: Any) -> None:
        """Keep the columns, names and classes of the data."""
        super()._remember(data, X)
        self._with_offset = data.rows.offset is not None
        self._labelled = self._classify and data.rows.trials is None
        if self._classify:
            self.classes_ = data.classes

    @declares(of_summary)
    def summary(self, level: float = 0.95) -> Summary:
        """Return coefficients with standard errors, tests and intervals, and the quality of the fit; prints as a table.

        level : of the confidence intervals.
        """
        self._check_fitted()
        return Summary(self.solution_, self._fitted, self._target, level, self._notes, self._facts)

    def wald_test(self, hypothesis: str | Sequence[str] | ArrayLike, value: float | ArrayLike = 0.0) -> HypothesisTest:
        """Test that coefficients, by name, or combinations of them, (q, d), have a value: see `hypotheses.wald`."""
        return wald(self.summary(), hypothesis, value)

    def likelihood_ratio_test(self, reduced: Regression) -> HypothesisTest:
        """Test that a fit to some of this one's columns is as good: see `hypotheses.likelihood_ratio`."""
        if not isinstance(reduced, Regression):
            raise TypeError(f"reduced={reduced!r:.60}: it is a model that was fitted to some of this one's columns")
        return likelihood_ratio(self.summary(), reduced.summary())

    # ---------------------------------------------------------------------------- predicting

    def _linear(self, X: Any, offset: Any, *others: Any) -> Applied:
        """Return the linear predictor of X's rows; warn if the model was fitted with an offset, and there is none.

        others : what else is given for each row, perhaps as names of columns.
        """
        self._check_fitted()
        if self._absorbs:
            raise ValueError("the model was fitted with absorbed effects, which are not known: there is no prediction")
        if offset is None and self._with_offset:
            warnings.warn(
                "the model was fitted with an offset, and none is given here: it counts as 0 (offset=...)", stacklevel=3
            )
        X, offset = parted(X, offset)
        return applied(self, X, offset, *others)

    def predict(self, X: Rows, offset: Column | None = None) -> Any:
        """Return the mean of the response, (n,), dealt as X is; of a binomial model the probability of success.

        Collective if X is dealt.  Cost: W = 2nk/p, S = 1, in which all agree that the numbers are finite; H = 3p words.
        """
        return self._linear(X, offset).mapped(self._family.mean)

    def predict_interval(self, X: Rows, level: float = 0.95, offset: Column | None = None) -> Any:
        """Return the mean of the response and the ends of its confidence interval, (n, 3), dealt as X is.

        level : the share of intervals that hold the mean of a row's response, not the response itself.  They are those
            of the linear predictor, by the covariance of the coefficients (a robust one if it was asked for), and
            taken to the mean, so that no end is where no mean can be.
        Source: McCullagh & Nelder, 2nd edition, section 4.4.3.
        Raises ValueError for a penalised fit, which has no covariance.   Cost: W = 2nk²/p, and that of `predict`.
        """
        found = self._linear(X, offset)
        error = np.sqrt(self._spread(found.X, bool(self._fitted.robust)))
        reach = _reach(self, level)
        mean = self._family.mean

        def interval(eta: Any) -> Any:
            return np.stack([mean(eta), mean(eta - reach * error), mean(eta + reach * error)], axis=1)

        return found.mapped(interval)

    def leverage(self, X: Rows, sample_weight: Column | None = None, offset: Column | None = None) -> Any:
        """Return the leverages of rows that the model was fitted to, (n,), dealt as X is: the hat matrix's diagonal.

        From 0 to 1; they sum to the number of coefficients.  Of a model of trials the trials are weights.
        Source: McCullagh & Nelder, 2nd edition, section 12.7.1.   Raises ValueError for a penalised fit.
        Cost of a dealt X: W = 2nk²/p, H = 6p words, S = 2; and what brings weights to the rows.
        """
        X, sample_weight, offset = parted(X, sample_weight, offset)
        found, family = self._linear(X, offset, sample_weight), self._family
        weights, spread = found.sound(sample_weight), self._spread(found.X, False) / self.solution_.dispersion
        return found.mapped(lambda eta: weights * family.information(eta) * spread)

    def _spread(self, X: Any, robust: bool) -> np.ndarray:
        """Return the variances (n,) of rows' linear predictors, by the robust covariance or the model's own.

        Coefficients that were left out do not vary.   Raises ValueError if there is no covariance.
        """
        solution = self.solution_
        covariance = solution.robust_covariance if robust else solution.covariance
        if covariance is None:
            raise ValueError("a penalised fit, or one of too many coefficients, has no covariance to tell this by")
        covariance, centre = np.nan_to_num(covariance, nan=0.0), solution.centre
        if centre is None:
            return leverages(X, covariance, self._fitted.fit_intercept)
        row = centre.robust_covariance if robust else centre.covariance
        covariance[0] = covariance[:, 0] = row
        return leverages(X, covariance, True, centre.shift)

    @property
    def predict_proba(self) -> Callable[..., Any]:
        """The method predict_proba(X, offset=None) of binomial models: probabilities of failure and success, (n, 2)."""
        if not self._family.proportions:
            raise AttributeError(f"predict_proba is of binomial models; this one is {str(self._family)!r}")
        return self._probabilities

    def _probabilities(self, X: Any, offset: Any = None) -> Any:
        link = self._family.link

        def both(eta: Any) -> Any:
            return np.stack([link.complement(eta), link.mean(eta)], axis=1)  # so that a small one is not a difference

        return self._linear(X, offset).mapped(both)

    @property
    def _family(self) -> Family:
        return family_of(self.family)

    @declares(_of_score)
    def score(self, X: Rows, y: Column, sample_weight: Column | None = None, offset: Column | None = None) -> float:
        """Return D², the share of the deviance that the model explains: 1 less deviance over that of the mean of y.

        Of a model of trials y is the share of successes, and the trials are weights.
        Of a gaussian model that is R².  scikit-learn: `d2_tweedie_score`, `r2_score`.
        Collective if X is dealt.  Cost: W = 2nk/p; two agreements of 3p words and sums of 3 and 1 words, S = 4; and
        what computes y and weights and brings them to the rows.
        """
        X, y, sample_weight, offset = parted(X, y, sample_weight, offset)
        found = self._linear(X, offset, y, sample_weight)
        family = self._family

        def deviance(eta: Any, y: Any, weights: Any) -> Any:
            return 2 * weights @ family.excess(eta, y)

        def parts(eta: Any, y: Any, weights: Any) -> list[Any]:
            return [weights.sum(), weights @ y, deviance(eta, y, weights)]

        mine, weights = found.checked(y, sample_weight, check=self._check_possible)
        total, summed, unexplained = found.summed(parts, mine, weights)
        check_weights(total)
        with np.errstate(divide="ignore", invalid="ignore"):
            level = family.predictor(summed / total)
        (null,) = found.summed(lambda eta, y, w: [deviance(np.zeros_like(eta) + level, y, w)], mine, weights)
        if not null > 0:
            return float(unexplained == 0)  # all y are alike
        return float(1 - unexplained / null)

    @declares(_of_residuals)
    def residuals(
        self, X: Rows, y: Column, kind: str = "deviance", sample_weight: Column | None = None,
        offset: Column | None = None,
    ) -> Any:  # fmt: skip
        """Return the residuals of rows, (n,), dealt as X is: "deviance", "pearson", "response" or "working".

        Of a model of trials y is the share of successes, and the trials are weights.  See `inference.residuals`.
        Raises DataError for responses that the model cannot have.
        Collective if X is dealt.  Cost: W = 2nk/p, H = 6p words, S = 2; and what computes y and weights and brings them
        to the rows.
        """
        if kind not in KINDS:
            raise ValueError(f"kind={kind!r}: one of {', '.join(KINDS)}")
        X, y, sample_weight, offset = parted(X, y, sample_weight, offset)
        found = self._linear(X, offset, y, sample_weight)
        check = self._check_labels if self._labelled else self._check_possible
        mine, weights = found.checked(y, sample_weight, labels=self._labelled, check=check)
        if self._labelled:
            mine = (mine == self.__dict__["classes_"][1]).astype(float)
        return found.mapped(lambda eta: residuals(self._family, kind, eta, mine, weights))

    def _check_possible(self, y: np.ndarray, weights: np.ndarray) -> None:
        """Raise DataError with the first response that the family cannot have."""
        wrong, must_be = self._family.wrong(y)
        if wrong.any():
            raise DataError(f"y = {y[np.argmax(wrong)]:g}, which of a {self._family} model must be {must_be}")

    def _check_labels(self, y: np.ndarray, weights: np.ndarray) -> None:
        """Raise DataError with the first label that is of no class; rows without weight may have others."""
        first, second = self.__dict__["classes_"]
        wrong = (y != first) & (y != second) & (weights > 0)
        if wrong.any():
            label = y[np.argmax(wrong)].item()
            raise DataError(f"y has label {label!r}; the model was fitted to {first.item()!r} and {second.item()!r}")

    @property
    def _positive(self) -> bool:
        return self._family.nonnegative


class GLM(Regression):
    """A generalised linear model of a family, with an optional elastic-net penalty: see `Regression`.

    family : a `Family` of `bsp.algorithms.glm.families`, as Tweedie(1.5) or Binomial("probit"); or its name, with its
        parameter and link where they are not the default ones: "gaussian" (links: identity, log), "binomial" (logit,
        probit, cloglog, identity), "poisson", "gamma", "inverse-gaussian", "negative-binomial:SPREAD" and
        "tweedie:POWER" (log, identity), as "tweedie:1.5" and "binomial:probit".
    """

    def __init__(
        self, family: str | Family = "gaussian", alpha: float = 0.0, l1_ratio: float = 0.0, solver: str = "auto",
        fit_intercept: bool = True, tol: float = 1e-10, max_iter: int = 100, robust: bool | str = False,
    ) -> None:  # fmt: skip
        super().__init__(alpha, l1_ratio, solver, fit_intercept, tol, max_iter, robust)
        self.family = family


class LinearRegression(Regression):
    """GLM(family="gaussian"): least squares.  `score` is R²."""

    family = "gaussian"


class PoissonRegression(Regression):
    """GLM(family="poisson"): counts, log link.  `score` is D²."""

    family = "poisson"


class GammaRegression(Regression):
    """GLM(family="gamma"): amounts above 0, log link.  `score` is D²."""

    family = "gamma"


class LogisticRegression(Regression):
    """A classifier of two classes: GLM(family="binomial") whose y are labels of any kind.

    classes_ : the two labels, sorted; the second is what the probability is of.  `predict` gives labels, `score` the
    share of them that are right.  With trials= y counts successes, and the labels are 0 and 1.
    """

    family = "binomial"
    classes_: np.ndarray
    _classify = True
    _estimator_type = "classifier"

    def predict(self, X: Rows, offset: Column | None = None) -> Any:
        """Return the more probable label of each row, (n,)."""
        return self._linear(X, offset).labels(self._label, self.classes_.dtype)

    def _label(self, eta: Any) -> Any:
        """Return the more probable label for each linear predictor."""
        return np.where(eta > 0, self.classes_[1], self.classes_[0])

    def decision_function(self, X: Rows, offset: Column | None = None) -> Any:
        """Return the linear predictor, (n,): above 0 the second label is the more probable one."""
        return self._linear(X, offset).mapped(lambda eta: eta)

    @declares(_of_accuracy)
    def score(self, X: Rows, y: Column, sample_weight: Column | None = None, offset: Column | None = None) -> float:
        """Return the share of labels that are right, by weight.  Raises DataError for labels of neither class."""
        X, y, sample_weight, offset = parted(X, y, sample_weight, offset)
        found = self._linear(X, offset, y, sample_weight)
        return found.accuracy(self._label, y, sample_weight, self._check_labels)
