"""Application of a fitted model to rows: the linear predictor, and functions and sums of it.

Of a whole array, list, sparse matrix or data frame everything is local.  Of arrays of `bsp.arrays`, files and tables
each process has its rows: predictions are arrays dealt like them, sums are taken over all processes.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import numpy as np

from bsp.algorithms.glm.data.coding import Coding, complete
from bsp.algorithms.glm.data.formulas import FormulaCoding
from bsp.algorithms.glm.data.inputs import (
    check_finite,
    check_index,
    check_length,
    check_no_times,
    is_dealt_sparse,
    is_frame,
    is_path,
    matrix_of,
    numbers,
    opened,
    part_of,
    unmasked,
    vector_of,
    whole_matrix,
)
from bsp.algorithms.glm.data.table import Table, local_table
from bsp.algorithms.glm.errors import DataError, agreed, no_column
from bsp.arrays.files import Choose
from bsp.arrays.procedures import Array, Axis, layout_of, made_of, world
from bsp.values.payload import is_abstract

if TYPE_CHECKING:
    from bsp.algorithms.glm.estimators import Regression
    from bsp.algorithms.glm.multinomial.estimator import MultinomialRegression

    Model: TypeAlias = Regression | MultinomialRegression

Check: TypeAlias = Callable[[np.ndarray, np.ndarray], None]  # of y and weights


class Applied(NamedTuple):
    """The linear predictor of this process's rows; of all rows where X is whole.

    eta : (n,); of a multinomial model (n, classes).
    """

    eta: Any
    bounds: np.ndarray | None  # of dealt rows: where each process's begin
    table: Table | None = None
    X: Any = None  # the rows themselves

    @property
    def dealt(self) -> bool:
        """True if each process has rows of its own; else every process has all."""
        return self.bounds is not None

    def mapped(self, function: Callable[[Any], Any]) -> Any:
        """Return a function of each row's linear predictor: NumPy's array, or a dealt one."""
        found = function(self.eta)
        if self.bounds is None:
            return found
        parts = len(self.bounds) - 1
        cuts = tuple(int(cut) for cut in self.bounds)
        first = Axis(cuts[-1], parts, parts, 1 if parts > 1 else 0, cuts)
        others = tuple(Axis(length) for length in found.shape[1:])
        layout = layout_of((first, *others))
        (at,) = layout.mine(world().pid)
        return made_of((cuts[-1], *found.shape[1:]), found.dtype, layout, {at: found})

    def summed(
        self, parts: Callable[[np.ndarray, np.ndarray, np.ndarray], list[Any]], y: np.ndarray, weights: np.ndarray
    ) -> Any:
        """Return sums over all rows of what `parts` gives for some rows' linear predictor, y and weights.

        y, weights : this process's, as `checked` returns them.
        Cost of dealt rows: one superstep.
        """
        found = np.stack(parts(self.eta, y, weights))
        return world().private.allreduce(found) if self.dealt else found

    def labels(self, label: Callable[[Any], Any], kind: np.dtype[Any]) -> Any:
        """Return each row's label, of a dtype, by `label(eta)`.  Raises DataError for texts of dealt rows."""
        if self.dealt and kind.kind not in "biuf":
            raise DataError("labels that are texts cannot be in an array of bsp.arrays; predict_proba gives numbers")
        return self.mapped(label)

    def accuracy(self, label: Callable[[Any], Any], y: Any, weights: Any, check: Check | None = None) -> float:
        """Return the share of rows, by weight, whose y is `label(eta)`.  Cost: that of `checked` and of `summed`."""

        def parts(eta: Any, y: Any, weights: Any) -> list[Any]:
            return [weights.sum(), weights @ (label(eta) == y)]

        total, right = self.summed(parts, *self.checked(y, weights, labels=True, check=check))
        check_weights(total)
        return float(right / total)

    def checked(
        self, y: Any, weights: Any, labels: bool = False, check: Check | None = None
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return this process's y and weights, sound on all processes.

        labels : y may be of any kind; else numbers.   check : raises DataError for y, of such weights, that cannot be.
        Cost of dealt rows: a superstep, and for each array of `bsp.arrays` those that compute it and bring its
        elements to the rows.
        """
        mine = np.asarray(self._vector(y, "y"))
        check_no_times(mine, "y")
        mine = mine if labels else numbers(mine, "y", finite=True)
        return mine, self.sound(weights, None if check is None else lambda given: check(mine, given))

    def sound(self, weights: Any, check: Callable[[np.ndarray], None] | None = None) -> np.ndarray:
        """Return this process's weights, sound on all processes, or ones.  Cost of dealt rows: a superstep.

        check : raises DataError for what else cannot be, with these weights.
        """
        given = np.ones(len(self.eta)) if weights is None else numbers(self._vector(weights, "sample_weight"), "")

        def look() -> None:
            if not (np.isfinite(given) & (given >= 0)).all():
                raise DataError("sample_weight must be finite and 0 or more")
            if check is not None:
                check(given)

        if self.dealt:
            agreed(look)
        else:
            look()
        return given

    def of_checked(self, y: Any, weights: Any) -> None:
        """Declare the supersteps of `checked`."""
        if self.dealt:
            for value, what in ((y, "y"), (weights, "sample_weight")):
                if isinstance(value, Array):
                    self._vector(value, what)
            agreed(lambda: None)

    def _vector(self, value: Any, what: str) -> Any:
        if self.table is not None and isinstance(value, str):
            return part_of(self.table, value)
        if self.bounds is not None:
            return vector_of(value, self.bounds, what)
        return whole_vector(value, len(self.eta), what)


def check_weights(total: Any) -> None:
    """Raise DataError if the sum of all weights is 0."""
    if not total > 0:
        raise DataError("no row has a weight above 0: there is nothing to score")


def whole_vector(value: Any, n: int, what: str) -> np.ndarray:
    """Return all of a vector of n elements.  Raises DataError for another shape."""
    found = np.asarray(unmasked(value, what))
    if not found.ndim:
        raise DataError(f"{what} is {value!r}: it must be a vector of {n} elements")
    if found.ndim == 2 and found.shape[1] == 1:
        found = found[:, 0]
    check_length(found.shape, n, what)
    return found


def _needed(source: str, names: list[str]) -> Choose:
    """Return a function that chooses columns of these names: others may be dates, or anything.

    It raises DataError for a column that is not there.
    """

    def choose(every: tuple[str, ...]) -> tuple[str, ...]:
        for name in names:
            if name not in every:
                raise DataError(f"{source}: {no_column(name, every)}")
        return tuple(name for name in every if name in names)

    return choose


def applied(model: Model, X: Any, offset: Any, *others: Any) -> Applied:
    """Return the linear predictor of X's rows, with the layout of the rows.  Collective unless X is whole.

    others : what else is given for each row.  Of a file only the columns of the model and those named here are read.
    Cost: nothing of a whole X; of a dealt array one superstep; of a file or table that of reading it and one superstep,
    with an offset one more.   Raises DataError, the same on every process, for numbers that are not finite.
    """
    coding = model._coding
    table = bounds = None
    if isinstance(X, (Table, str)) or is_path(X):
        roles = [each for each in (offset, *others) if isinstance(each, str)]
        names = [*(column.name for column in coding.columns), *roles] if coding is not None else []
        data = opened(X, _needed(os.path.basename(X), names) if names and is_path(X) else None)
        if isinstance(data, Table):
            if coding is None:
                raise DataError("the model was fitted to an array; it takes no table")
            complete(data, coding)
            values, table = coding.dealt_rows(data, None), data
            bounds = np.concatenate([[0], np.cumsum(data.counts)])
        else:
            X = data
    if isinstance(coding, FormulaCoding) and table is None and not is_frame(X):
        raise DataError(f"the model was fitted by {coding.text!r}; it takes data frames and tables with those columns")
    if is_frame(X):
        if isinstance(coding, FormulaCoding):
            X = _columns(X, [column.name for column in coding.columns])
        model._check_features(X.shape[1], tuple(X.columns) if _named(X) else None)
        values = numbers(_of_frame(model, X), "X")
    elif isinstance(X, Array) or is_dealt_sparse(X):
        found = matrix_of(X)
        model._check_features(found.shape[1], None)
        values, bounds = numbers(found.values, "X"), found.bounds
    elif table is None:
        whole = whole_matrix(X)
        model._check_features(whole.shape[1], None)
        if whole.shape[1] != model.coef_.shape[-1]:
            raise DataError("the model was fitted to a table with columns of text; it takes tables with the same ones")
        values = numbers(whole, "X")
    rows = Applied(values, bounds, table, values)
    given = None if offset is None else numbers(rows._vector(offset, "offset"), "offset")
    _check_finite(rows, values if table is None else None, given)
    eta = values @ model.coef_.T + model.intercept_
    return rows._replace(eta=eta if given is None else eta + given)


def _check_finite(rows: Applied, values: Any, offset: Any) -> None:
    """Raise DataError for values and an offset that are not finite; of dealt rows on every process."""
    given = [(each, what) for each, what in ((values, "X"), (offset, "offset")) if each is not None]

    def look() -> None:
        for each, what in given:
            if not is_abstract(each):
                check_finite(each if isinstance(each, np.ndarray) else each.data, what)

    if rows.dealt and given:
        agreed(look)
    else:
        look()


def parted(X: Any, *given: Any) -> tuple[Any, ...]:
    """Return X without the columns that are named, and the vectors: columns of a data frame where names are given."""
    check_index(X, given)
    names = [each for each in given if isinstance(each, str)]
    if not is_frame(X) or not names:
        return X, *given
    for name in names:
        _columns(X, [name])
    return X.drop(columns=list(dict.fromkeys(names))), *[X[each] if isinstance(each, str) else each for each in given]


def _named(frame: Any) -> bool:
    return all(isinstance(name, str) for name in frame.columns)


def _of_frame(model: Model, frame: Any) -> np.ndarray:
    """Return all rows of a data frame in the coding that the model was fitted with."""
    coding: Coding | FormulaCoding | None = model._coding
    if coding is None:
        found: np.ndarray = whole_matrix(frame.to_numpy())
        return found
    table = local_table(frame)
    if isinstance(coding, FormulaCoding):
        return coding.rows(table, None)
    if not _named(frame):
        coding = coding._replace(
            columns=tuple(column._replace(name=name) for column, name in zip(coding.columns, table.names, strict=True))
        )
    return coding.rows(table, None)


def _columns(frame: Any, names: list[str]) -> Any:
    """Return columns of a data frame, which may have others.  Raises DataError if it lacks one."""
    for name in names:
        if name not in frame.columns:
            raise DataError(no_column(name, tuple(map(str, frame.columns))))
    return frame[names]
