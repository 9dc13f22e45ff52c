"""scikit-learn's estimator conventions, without scikit-learn: parameters, tags, fitted state, names of features.

A model follows the protocol without deriving from scikit-learn's classes: `import bsp.algorithms.glm` does not load it.
Only what scikit-learn itself calls (`__sklearn_tags__`) imports it, and where a program has loaded it the exceptions
and warnings raised here are its own, so that `except NotFittedError` in such a program finds them.
"""

from __future__ import annotations

import inspect
import sys
import warnings
from importlib import import_module
from typing import Any, Self

import numpy as np

from bsp.algorithms.glm.errors import DataError, NotFittedError

_SHOWN = 5  # names in a message


class Conventions:
    """The base of models: parameters are the arguments of `__init__`, unchanged; fitted attributes end in "_"."""

    n_features_in_: int
    feature_names_in_: np.ndarray

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

        return utils.Tags(
            estimator_type=self._estimator_type,
            target_tags=utils.TargetTags(required=True, positive_only=self._positive),
            classifier_tags=utils.ClassifierTags(multi_class=False) if self._estimator_type == "classifier" else None,
            regressor_tags=utils.RegressorTags() if self._estimator_type == "regressor" else None,
            input_tags=utils.InputTags(sparse=True),
        )

    _estimator_type = "regressor"

    @property
    def _positive(self) -> bool:
        """Return whether the response must be positive."""
        return False

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
