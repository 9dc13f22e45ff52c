"""Multinomial logistic regression as an estimator, by scikit-learn's conventions: see `MultinomialRegression`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar, Self

import numpy as np

from bsp.algorithms.glm.conventions import Conventions, of_summary
from bsp.algorithms.glm.cost import for_predictors
from bsp.algorithms.glm.data.inputs import Column, Rows
from bsp.algorithms.glm.data.preparing import Given, Prepared, prepared
from bsp.algorithms.glm.errors import DataError
from bsp.algorithms.glm.inference.hypotheses import HypothesisTest, likelihood_ratio, wald
from bsp.algorithms.glm.inference.prediction import Applied, applied, parted
from bsp.algorithms.glm.multinomial.cost import cost
from bsp.algorithms.glm.multinomial.fitting import solve_classes
from bsp.algorithms.glm.multinomial.softmax import Multinomial, probabilities
from bsp.algorithms.glm.multinomial.summary import ClassSummary
from bsp.algorithms.glm.problem import CLUSTERED, Model
from bsp.algorithms.glm.solvers.newton import Progress
from bsp.arrays.typing import ArrayLike
from bsp.cost.model import Cost, Machine
from bsp.declared import Costs, declares
from bsp.values.payload import is_abstract

MOST_CLASSES = 1000


def _of_score(costs: Costs, model: MultinomialRegression, X: Any, y: Any, sample_weight: Any = None) -> Any:
    """Declare the cost of `score`: that of bringing and checking y and weights, and a sum over dealt rows."""
    X, y, sample_weight = parted(X, y, sample_weight)
    found = model._linear(X, y, sample_weight)
    found.of_checked(y, sample_weight)
    costs.work(**for_predictors(found.eta.size))
    if found.dealt:
        costs.allreduce(2)
    return costs.array(())


_ROBUST = (False, True, "HC0", "HC1", CLUSTERED)


class MultinomialRegression(Conventions):
    """A classifier of two or more classes: the logarithm of the odds of each against a reference is linear in X.

    reference : the label that others are compared with; None: the first in sorted order.
    alpha : the ridge alpha/2·sum |b_c - mean|² on top of the mean loss, b_c being the coefficients of class c and the
        mean over all classes: scikit-learn's, which does not depend on the reference; intercepts are not penalised.
    solver : "newton", "lbfgs", "auto": Newton up to 1024 coefficients of all classes.
    tol, max_iter : as of `GLM`.   robust : False, True ("HC0"), "HC1", "cluster" (`fit`: clusters): sandwich
        standard errors.

    After `fit` to rows of K classes, with k columns and d = k + 1 with an intercept, else k:
    classes_ : (K,), sorted.   reference_ : the label that others are compared with.
    coef_ : (K, k);  intercept_ : (K,): a row for each class, 0 of the reference.   n_iter_, converged_, deviance_.
    standard_errors_ : (K, d), intercept first, 0 of the reference.   covariance_ : (D, D), D = (K - 1)·d, class by
        class without the reference.  Both None if there is a penalty.
    n_features_in_, feature_names_in_, solution_ : as of `GLM`.

    Cost: n rows on the fullest process: W = i(4nD + n·D(D + d)/2 + D³/3) for i Newton points, each one
    superstep of 1 + D + D(D + 1)/2 summed words.
    Source: Agresti, Categorical Data Analysis, 3rd edition, section 8.1.
    """

    classes_: np.ndarray
    reference_: Any
    intercept_: np.ndarray
    _estimator_type = "classifier"
    _several = True
    _columns: ClassVar[dict[str, tuple[str, ...]]] = {
        "fit": ("sample_weight", "frequencies", "clusters"), "predict": (), "score": ("sample_weight",)
    }  # fmt: skip

    def __init__(
        self, reference: str | float | None = None, alpha: float = 0.0, solver: str = "auto",
        fit_intercept: bool = True, tol: float = 1e-10, max_iter: int = 100, robust: bool | str = False,
    ) -> None:  # fmt: skip
        self.reference = reference
        self.alpha = alpha
        self.solver = solver
        self.fit_intercept = fit_intercept
        self.tol = tol
        self.max_iter = max_iter
        self.robust = robust

    def fit(
        self, X: Rows, y: Column, sample_weight: Column | None = None, frequencies: Column | None = None,
        clusters: Column | None = None, *, progress: Progress | None = None,
    ) -> Self:  # fmt: skip
        """Fit to n rows; return the model.  Collective.

        X : (n, m), as `GLM.fit` takes it.   y : (n,), labels of any kind; with a table it may be a column's name.
        sample_weight : (n,), multiplies a row's share of the objective.   frequencies : (n,), counts of equal rows.
        clusters : (n,), numbers or texts, with robust="cluster": rows of the same label may vary together.
        progress : called on every process with iteration, objective and gradient norm.
        Raises DataError, ValueError, TypeError or OSError, the same on every process, if data cannot be used.
        """
        model = self._model()
        if (clusters is None) == (model.robust == CLUSTERED):
            raise ValueError(f"robust={self.robust!r} and clusters={clusters!r:.30}: one of them needs the other")
        self._fit(X, Given(y, sample_weight, clusters=clusters, frequencies=frequencies), model, progress)
        return self

    def _fit(self, X: Any, given: Given, model: Model, progress: Progress | None = None) -> Prepared:
        """Fit, and return what was fitted to."""
        data = prepared(X, given, model.family, MOST_CLASSES, model.fit_intercept)
        assert data.classes is not None
        place = self._place(data.classes, is_abstract(data.rows.y))
        self._remember(data, X)
        self.classes_, self.reference_ = data.classes, data.classes[place]
        self._others = tuple(map(_named, np.delete(data.classes, place)))
        self._keep(solve_classes(data.rows, model, place, self._others, progress), model)
        self.coef_ = np.insert(self.coef_, place, 0.0, axis=0)
        self.intercept_ = np.insert(self.intercept_, place, 0.0)
        if self.standard_errors_ is not None:
            errors = self.standard_errors_.reshape(len(self._others), -1)
            self.standard_errors_ = np.insert(errors, place, 0.0, axis=0)
        return data

    def cost(self, n: int, k: int, classes: int, p: int, machine: Machine | None = None, iterations: int = 6) -> Cost:
        """Return W, H, S and M of a fit to n rows of k numbers, of so many classes, on p processes.

        machine : decides how sums are made, and prices; None: the default.   See `glm.multinomial.cost.cost`.
        """
        return cost(self._model(), n, k, classes, p, machine, iterations)

    def _model(self) -> Model:
        """Return the parameters, checked."""
        if self.solver not in ("auto", "newton", "lbfgs"):
            raise ValueError(f"solver={self.solver!r}: one of auto, newton, lbfgs")
        if self.robust not in _ROBUST:
            raise ValueError(f"robust={self.robust!r}: one of {', '.join(map(str, _ROBUST))}")
        robust = self.robust if isinstance(self.robust, str) else bool(self.robust)
        return Model(
            Multinomial(), self.alpha, 0.0, bool(self.fit_intercept), self.solver, self.tol, self.max_iter, robust
        )

    def _place(self, classes: np.ndarray, unknown: bool) -> int:
        """Return the number of the reference among the classes, which may be unknown: in a run without values."""
        alike = (classes == self.reference) | (classes.astype(str) == str(self.reference))  # "True", of a command
        found = [0] if self.reference is None else np.flatnonzero(alike).tolist()
        found = found or [0] * unknown
        if not found:
            raise DataError(f"reference={self.reference!r}: no row is of this class; there are {_shown(classes)}")
        return int(found[0])

    @declares(of_summary)
    def summary(self, level: float = 0.95) -> ClassSummary:
        """Return coefficients with standard errors, tests and intervals, and the quality of the fit; prints as a table.

        level : of the confidence intervals.
        """
        self._check_fitted()
        remarks = (*self._notes, f"classes are compared with {_named(self.reference_)!r}")
        return ClassSummary(self.solution_, self._fitted, self._target, level, remarks, self._facts, self._others)

    def wald_test(self, hypothesis: str | Sequence[str] | ArrayLike, value: float | ArrayLike = 0.0) -> HypothesisTest:
        """Test that coefficients, by name ("bus: income"), or combinations of them have a value: `hypotheses.wald`."""
        return wald(self.summary(), hypothesis, value)

    def likelihood_ratio_test(self, reduced: MultinomialRegression) -> HypothesisTest:
        """Test that a fit to some of this one's columns is as good: see `hypotheses.likelihood_ratio`."""
        if not isinstance(reduced, MultinomialRegression):
            raise TypeError(f"reduced={reduced!r:.60}: it is a model that was fitted to some of this one's columns")
        return likelihood_ratio(self.summary(), reduced.summary())

    # ---------------------------------------------------------------------------- predicting

    def _linear(self, X: Any, *others: Any) -> Applied:
        self._check_fitted()
        return applied(self, X, None, *others)

    def predict_proba(self, X: Rows) -> Any:
        """Return the probabilities of the classes of each row, (n, K) in the order of `classes_`, dealt as X is."""
        return self._linear(X).mapped(probabilities)

    def predict(self, X: Rows) -> Any:
        """Return the most probable label of each row, (n,)."""
        return self._linear(X).labels(self._label, self.classes_.dtype)

    def _label(self, eta: Any) -> Any:
        place = np.argmax(eta, axis=1)
        return place.astype(self.classes_.dtype) if is_abstract(place) else self.classes_[place]

    def decision_function(self, X: Rows) -> Any:
        """Return the linear predictors, (n, K); of two classes the second's less the first's, (n,)."""
        two = len(self.coef_) == 2 if hasattr(self, "coef_") else False
        return self._linear(X).mapped(lambda eta: eta[:, 1] - eta[:, 0] if two else eta)

    @declares(_of_score)
    def score(self, X: Rows, y: Column, sample_weight: Column | None = None) -> float:
        """Return the share of labels that are right, by weight.

        Collective if X is dealt.  Cost: two agreements of 3p words and a sum of 2 words, S = 3; and what computes y and
        weights and brings them to the rows.
        """
        X, y, sample_weight = parted(X, y, sample_weight)
        return self._linear(X, y, sample_weight).accuracy(self._label, y, sample_weight)


def _named(label: Any) -> str:
    """Return a class's name in a summary: of a whole number, which tables have as 2.0, without the point."""
    return f"{label:.0f}" if isinstance(label, np.floating) and label == np.floor(label) else str(label)


def _shown(classes: np.ndarray) -> str:
    some = ", ".join(repr(label) for label in classes[:5].tolist())
    return some + ", ..." * (len(classes) > 5)
