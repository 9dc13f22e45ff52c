"""scikit-learn's estimator conventions, without scikit-learn: parameters, tags, fitted state, names of features.

A model follows the protocol without deriving from scikit-learn's classes: `import bsp.algorithms.glm` does not load it.
Only what scikit-learn itself calls (`__sklearn_tags__`) imports it, and where a program has loaded it the exceptions
and warnings raised here are its own, so that `except NotFittedError` in such a program finds them.
"""

from __future__ import annotations

import copy
import inspect
import sys
import warnings
from html import escape
from importlib import import_module
from typing import Any, ClassVar, Self

import numpy as np

from bsp.algorithms.glm.data.table import is_frame
from bsp.algorithms.glm.errors import DataError, NotFittedError
from bsp.algorithms.glm.problem import Model, Solution
from bsp.declared import Costs
from bsp.errors import ValueNeeded
from bsp.source import here

_SHOWN = 5  # names in a message


class Conventions:
    """The base of models: parameters are the arguments of `__init__`, unchanged; fitted attributes end in "_"."""

    n_features_in_: int
    coef_: np.ndarray
    intercept_: Any
    n_iter_: int
    converged_: bool
    deviance_: float
    covariance_: np.ndarray | None
    standard_errors_: np.ndarray | None
    solution_: Solution
    _metadata_request: Any  # under the name by which scikit-learn's `clone` copies it
    feature_names_in_: np.ndarray
    _columns: ClassVar[dict[str, tuple[str, ...]]] = {  # that go with the rows of X, by method
        "fit": ("sample_weight", "offset", "trials", "clusters", "frequencies"),
        "predict": ("offset",),
        "score": ("sample_weight", "offset"),
    }

    @classmethod
    def _parameters(cls) -> dict[str, Any]:
        """Return the names of the parameters with their defaults."""
        found = list(inspect.signature(cls).parameters.values())
        return {each.name: each.default for each in found}

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Return the parameters by name; none of them has parameters of its own, so `deep` makes no difference."""
        return {name: getattr(self, name) for name in self._parameters()}

    def set_params(self, **params: Any) -> Self:
        """Set some parameters; return the model.  Raises ValueError for an unknown name."""
        known = self._parameters()
        for name, value in params.items():
            if name not in known:
                raise ValueError(
                    f"invalid parameter {name!r} for estimator {type(self).__name__}; valid are {', '.join(known)}"
                )
            setattr(self, name, value)
        return self

    def __repr__(self) -> str:
        changed = [
            f"{name}={getattr(self, name)!r}"
            for name, default in self._parameters().items()
            if not _same(getattr(self, name), default)
        ]
        return f"{type(self).__name__}({', '.join(changed)})"

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "coef_")

    def __sklearn_tags__(self) -> Any:
        utils: Any = import_module("sklearn.utils")
        classes = utils.ClassifierTags(multi_class=self._several)
        return utils.Tags(
            estimator_type=self._estimator_type,
            target_tags=utils.TargetTags(required=True, positive_only=self._positive),
            classifier_tags=classes if self._estimator_type == "classifier" else None,
            regressor_tags=utils.RegressorTags() if self._estimator_type == "regressor" else None,
            input_tags=utils.InputTags(sparse=True),
        )

    _estimator_type = "regressor"
    _several = False  # whether there may be more than two classes

    def _repr_html_(self) -> str:
        """Return what a notebook shows: the summary of a fitted model, else the parameters."""
        fitted: Any = self
        table: Any = fitted.summary() if self.__sklearn_is_fitted__() else None
        text = f"<pre>{escape(repr(self))}</pre>"
        return text + table.to_html() if hasattr(table, "to_html") else text

    # ------------------------------------------------------------------------------ routing

    def get_metadata_routing(self) -> Any:
        """Return scikit-learn's MetadataRequest: the columns that `fit`, `predict` and `score` ask for."""
        found = copy.deepcopy(getattr(self, "_metadata_request", None))
        if found is None:
            found = import_module("sklearn.utils.metadata_routing").MetadataRequest(owner=self)
            for method, columns in self._columns.items():
                for column in columns if hasattr(self, method) else ():
                    getattr(found, method).add_request(param=column, alias=None)
        return found

    def _routed(self, method: str, columns: dict[str, Any]) -> Self:
        """Set what a method asks for, as scikit-learn's set_{method}_request: True, False, None, or another name."""
        if not import_module("sklearn").get_config()["enable_metadata_routing"]:
            raise RuntimeError(
                "metadata routing is not enabled: sklearn.set_config(enable_metadata_routing=True) enables it"
            )
        known = self._columns[method]
        for column in columns:
            if column not in known:
                raise TypeError(f"set_{method}_request takes {', '.join(f'{each}=' for each in known)} not {column}=")
        request = self.get_metadata_routing()
        for column, alias in columns.items():
            getattr(request, method).add_request(param=column, alias=alias)
        self._metadata_request = request
        return self

    def set_fit_request(self, **columns: bool | str | None) -> Self:
        """Ask meta-estimators for columns of `fit`, by scikit-learn's metadata routing: sample_weight=True, ..."""
        return self._routed("fit", columns)

    def set_predict_request(self, **columns: bool | str | None) -> Self:
        """Ask meta-estimators for offset= of `predict`, by scikit-learn's metadata routing."""
        return self._routed("predict", columns)

    def set_score_request(self, **columns: bool | str | None) -> Self:
        """Ask meta-estimators for sample_weight= or offset= of `score`, by scikit-learn's metadata routing."""
        return self._routed("score", columns)

    @property
    def _positive(self) -> bool:
        """Return whether the response must be positive."""
        return False

    def _remember(self, data: Any, X: Any) -> None:
        """Keep the columns and names of the prepared data that were fitted to, and how texts are coded."""
        self._coding, self._target, self._notes, self._facts = data.coding, data.target, data.notes, data.facts
        self.__dict__.pop("feature_names_in_", None)
        self.n_features_in_ = data.rows.X.shape[1]
        if data.coding is not None:
            self.n_features_in_ = len(data.coding.columns)
            if not is_frame(X) or all(isinstance(name, str) for name in X.columns):
                self.feature_names_in_ = np.array([column.name for column in data.coding.columns], object)

    def _keep(self, solution: Solution, model: Model) -> None:
        """Keep the solution as fitted attributes."""
        self.solution_, self._fitted = solution, model
        self.coef_, self.intercept_ = solution.coef, solution.intercept
        self.n_iter_, self.converged_, self.deviance_ = solution.n_iter, solution.converged, solution.deviance
        self.covariance_ = solution.robust_covariance if model.robust else solution.covariance
        self.standard_errors_ = None if self.covariance_ is None else np.sqrt(np.diag(self.covariance_))

    def _check_fitted(self) -> None:
        if not self.__sklearn_is_fitted__():
            raise _kind("NotFittedError", NotFittedError)(
                f"this {type(self).__name__} instance is not fitted yet; call fit(X, y) first"
            )

    def _check_features(self, width: int, names: tuple[str, ...] | None) -> None:
        """Raise DataError unless X has the columns that the model was fitted to; warn if either has no names."""
        known = getattr(self, "feature_names_in_", None)
        kind = type(self).__name__
        if known is not None and names is not None and list(known) != list(names):
            raise DataError(_other_names(set(known), set(names)))
        if known is None and names is not None:
            warnings.warn(f"X has feature names, but {kind} was fitted without feature names", stacklevel=4)
        if known is not None and names is None:
            warnings.warn(
                f"X does not have valid feature names, but {kind} was fitted with feature names", stacklevel=4
            )
        if width != self.n_features_in_:
            raise DataError(f"X has {width} features, but {kind} is expecting {self.n_features_in_} features as input")


class _NoSummary(str):
    """The text that stands for a summary in a run without values; raises ValueNeeded for a summary's attributes."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        raise ValueNeeded(f"summary().{name} at {here()}: {self}; run without --abstract")


def of_summary(costs: Costs, model: Conventions, level: float = 0.95) -> str:
    """Declare that a summary costs nothing; without values there is none to print."""
    return _NoSummary(f"{type(model).__name__}: a run without values has no coefficients")


def column_vector(y: np.ndarray) -> np.ndarray:
    """Return a matrix of one column as a vector, with scikit-learn's warning."""
    warnings.warn(
        "A column-vector y was passed when a 1d array was expected. Please change the shape of y to (n_samples,), "
        "for example using ravel().",
        _kind("DataConversionWarning", UserWarning),
        stacklevel=4,
    )
    return y[:, 0]


def _kind(name: str, own: type[Any]) -> type[Any]:
    """Return scikit-learn's class of this name where a program has loaded it, else our own."""
    found: type[Any] = getattr(sys.modules.get("sklearn.exceptions"), name, own)
    return found


def _same(value: Any, default: Any) -> bool:
    return type(value) is type(default) and bool(value == default)


def _other_names(known: set[str], names: set[str]) -> str:
    lines = ["The feature names should match those that were passed during fit."]
    for text, some in (
        ("Feature names unseen at fit time:", sorted(names - known)),
        ("Feature names seen at fit time, yet now missing:", sorted(known - names)),
    ):
        if some:
            lines += [text, *(f"- {name}" for name in some[:_SHOWN]), *["- ..."] * (len(some) > _SHOWN)]
    if known == names:
        lines.append("Feature names must be in the same order as they were in fit.")
    return "\n".join(lines) + "\n"
