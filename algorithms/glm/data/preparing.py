"""Preparation of a fit: the arguments of `fit` are read, coded and checked; errors are the same on every process.

Solvers check on their way that X, weights and offset are finite and y is possible, which costs no pass of its own.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from bsp.algorithms.glm.data.coding import Coding, coding_of
from bsp.algorithms.glm.data.formulas import (
    Formula,
    FormulaCoding,
    coding_by,
    formulas_needed,
    is_formula,
    read_formula,
    response_of,
)
from bsp.algorithms.glm.data.inputs import (
    check_index,
    check_no_times,
    is_frame,
    is_path,
    matrix_of,
    numbers,
    opened,
    part_of,
    vector_of,
)
from bsp.algorithms.glm.data.responses import LabelFacts, check_weights, classes_of, facts_of, shares
from bsp.algorithms.glm.data.table import FRAME, Table, plain_columns
from bsp.algorithms.glm.errors import DataError, agreed
from bsp.algorithms.glm.families import Family
from bsp.algorithms.glm.problem import Rows, product
from bsp.arrays.files import Choose
from bsp.declared import Costs, declares
from bsp.values.payload import is_abstract

ASSUMED = 3  # classes of responses without values, where there may be more than two


class Given(NamedTuple):
    """The vectors that go with X: arrays, or names of columns if X is a table."""

    y: Any
    weights: Any = None
    offset: Any = None
    trials: Any = None
    clusters: Any = None
    frequencies: Any = None
    absorb: tuple[Any, ...] = ()


class Prepared(NamedTuple):
    """The prepared data of a fit."""

    rows: Rows
    target: str
    coding: Coding | FormulaCoding | None  # of a table
    classes: np.ndarray | None  # of a classifier
    notes: tuple[str, ...]
    facts: tuple[tuple[str, str], ...] = ()  # what was fitted to, beside X and y: names and texts


class _Parts(NamedTuple):
    """The rows of X and of the vectors that one process has, unchecked."""

    values: Any
    names: tuple[str, ...]
    vectors: Given
    coding: Coding | FormulaCoding | None = None
    place: Callable[[int], str] | None = None  # of a row, in words
    notes: tuple[str, ...] = ()


_CALLED = Given("y", "sample_weight", "offset", "trials", "clusters", "frequencies", ("absorb",))


def prepared(X: Any, given: Given, family: Family, classes: int, intercept: bool) -> Prepared:
    """Return this process's rows of the problem.  Collective.

    classes : how many different labels y may have, of any kind; 0: it has numbers, or with a binomial family two texts.
    intercept : whether the model has one; a formula must agree.
    Cost: a superstep in which all agree that the data are sound, with one more for a table, beside reading it.
    Raises DataError, TypeError or OSError, the same on every process.
    """
    if given.y is None:
        raise DataError("this model requires y to be passed, but the target y is None")
    check_index(X, (*given[:-1], *given.absorb))
    if is_frame(X):  # what is no column of X needs numbers
        X = plain_columns(X, [name.split("~")[0].strip() for name in _named(given)])
    columns = columns_for(given, FRAME if is_frame(X) else os.path.basename(X)) if _is_named(X, given) else None
    if is_frame(X) and columns is not None:
        names = tuple(map(str, X.columns))
        used = columns(names)
        X = X.loc[:, [name in used for name in names]]
    data = opened(X, columns)
    if hasattr(X, "to_pandas") and (name := next(filter(None, _named(given)), "")):  # of pyarrow or polars
        kind = f"{type(X).__module__.partition('.')[0]}.{type(X).__name__}"
        raise DataError(f"{name!r} names columns, and X is a {kind}: take a pandas data frame, X.to_pandas()")
    formula = None
    if isinstance(data, Table) and is_formula(given.y):
        formula = read_formula(given.y, data, _named(given)[1:])
        given = given._replace(y=formula.target if formula.is_column else None)
    elif is_formula(given.y):
        raise DataError(f"y={given.y!r}: a formula needs columns with names, of a data frame, a file or a table")
    if isinstance(data, Table):
        parts = _of_table(data, given, formula)
        target = formula.target if formula else given.y if isinstance(given.y, str) else "y"
        _check_intercept(parts.coding, intercept)
    else:
        parts, target = _of_arrays(data, given), "y"
    return _checked(parts, target, family, classes)._replace(facts=_facts(parts.coding, given))


def _is_named(X: Any, given: Given) -> bool:
    """Return whether a formula names columns of a data frame or of a file."""
    return is_formula(given.y) and (is_frame(X) or is_path(X))


def columns_for(given: Given, source: str) -> Choose:
    """Return a function that chooses the columns that a formula and roles name: others may be dates, or anything.

    It raises DataError for a column that is not there.
    """
    formulas_needed(given.y)

    def choose(names: tuple[str, ...]) -> tuple[str, ...]:
        roles = {*filter(None, _named(given)[1:])}
        table = Table(names, (), [], (), source, str)
        for name in roles:
            table.column(name)
        formula = read_formula(given.y, table, roles)
        used = {*formula.left, *formula.right, *roles}
        return tuple(name for name in names if name in used)

    return choose


def _check_intercept(coding: Coding | FormulaCoding | None, intercept: bool) -> None:
    """Raise DataError if a formula and the model do not agree on the intercept."""
    if isinstance(coding, FormulaCoding) and coding.intercept != intercept:
        has, write = ("an", "0 + ...") if coding.intercept else ("no", "1 + ...")
        raise DataError(
            f"formula {coding.text!r} has {has} intercept, the model has fit_intercept={intercept}: write "
            f"'{write}', or fit_intercept={coding.intercept}"
        )


def _named(given: Given) -> list[Any]:
    """Return the names of columns among what was given, y first."""
    return [each if isinstance(each, str) else "" for each in (*given[:-1], *given.absorb)]


def _facts(coding: Coding | FormulaCoding | None, given: Given) -> tuple[tuple[str, str], ...]:
    """Return what else a summary shows: reference levels, and which columns are weights, offset, trials, clusters."""
    columns = () if coding is None else coding.columns
    levels = [f"{column.name} {column.reference!r}" for column in columns if column.levels]
    facts = [("formula", coding.text)] if isinstance(coding, FormulaCoding) else []
    facts += [("reference levels", ", ".join(levels))] if levels else []
    facts += [
        (name, ", ".join(f"column {one}" if isinstance(one, str) else "an array" for one in _several(each)))
        for name, each in zip(Given._fields[1:], given[1:], strict=True)
        if _several(each)
    ]
    return tuple(facts)


def _several(given: Any) -> tuple[Any, ...]:
    """Return what was given for one role, which may be nothing, or several columns."""
    return given if isinstance(given, tuple) else () if given is None else (given,)


def _of_arrays(data: Any, given: Given) -> _Parts:
    found = matrix_of(data)
    vectors: list[Any] = [
        None if each is None else vector_of(each, found.bounds, what)
        for each, what in zip(given[:-1], _CALLED[:-1], strict=True)
    ]  # fmt: skip
    absorb = tuple(vector_of(each, found.bounds, "absorb") for each in given.absorb)
    return _Parts(found.values, tuple(f"x{k}" for k in range(found.shape[1])), Given(*vectors)._replace(absorb=absorb))


def _of_table(table: Table, given: Given, formula: Formula | None) -> _Parts:
    roles = list(dict.fromkeys(name for name in (*_named(given), *(formula.left if formula else ())) if name))
    for name in roles:
        table.column(name)
    columns = [name for name in table.names if name not in roles] if formula is None else list(formula.right)
    if not columns and formula is None:
        raise DataError(f"{table.source}: no columns are left to fit to")
    coding: Coding | FormulaCoding
    coding, kept, notes = coding_of(table, columns, roles)
    if formula is not None:
        coding = coding_by(formula, table, coding.columns, kept)
    rows: Any = slice(None) if kept is None else np.concatenate([np.empty(0, bool), *kept])
    bounds = np.concatenate([[0], np.cumsum(table.counts)])

    def own(value: Any, what: str) -> Any:
        return part_of(table, value, rows) if isinstance(value, str) else vector_of(value, bounds, what)[rows]

    called = zip(given[:-1], _CALLED[:-1], strict=True)
    vectors: list[Any] = [None if each is None else own(each, what) for each, what in called]
    absorb = tuple(own(each, "absorb") for each in given.absorb)
    values = coding.dealt_rows(table, kept)
    if formula is not None and not formula.is_column:
        vectors[0] = response_of(formula, table, kept)

    def place(row: int) -> str:
        return f"{table.source}: {table.place(row if kept is None else int(np.flatnonzero(rows)[row]))}"

    return _Parts(values, coding.names, Given(*vectors)._replace(absorb=absorb), coding, place, notes)


def _looked_at(parts: _Parts, target: str, family: Family, classes: int) -> Prepared:
    """Return the rows as numbers, after all processes have looked at theirs."""
    looked_at: list[Any] = []
    labelled = classes > 0 and parts.vectors.trials is None

    def look() -> LabelFacts:
        weights, offset, trials, frequencies = (
            None if each is None else numbers(each, what)
            for each, what in zip(_numeric(parts.vectors), _numeric(_CALLED), strict=True)
        )  # fmt: skip
        if trials is not None and not family.proportions:
            raise DataError(f"trials are of binomial models; this one is {family}")
        clusters = None if parts.vectors.clusters is None else _labels(parts.vectors.clusters, "clusters")
        absorb = tuple(_labels(each, "absorb") for each in parts.vectors.absorb)
        y, texts = _response(parts.vectors.y)
        if texts and not labelled and (not family.proportions or trials is not None):
            raise DataError(
                f"{target} has texts; a {family} model needs numbers. For two classes: LogisticRegression, or "
                "--family logistic"
            )
        if trials is not None:
            y = shares(y, trials)
        elif y.dtype.kind == "b" and not labelled:
            y = y.astype(np.float64)
        looked_at.extend([numbers(parts.values, "X"), y, weights, offset, trials, clusters, frequencies, absorb])
        if parts.place is not None and not texts and not labelled:
            _check_possible(y, family, target, parts.place)
        return facts_of(y, product(weights, frequencies), max(classes, 2) if labelled or texts else 0)

    told = agreed(look)
    X, y, weights, offset, trials, clusters, frequencies, absorb = looked_at
    check_weights(told, weights is not None)
    notes = parts.notes
    labels = np.arange(2) if classes else None
    if any(facts.labels for facts in told):
        labels = np.array(classes_of(told, target, max(classes, 2)), y.dtype)
        if not labelled:
            notes += (f"{target} is 1 for {str(labels[1])!r}, 0 for {str(labels[0])!r}",)
        y = np.minimum(np.searchsorted(labels, y), len(labels) - 1).astype(float)  # rows without weight may have others
    rows = Rows(X, y, weights, offset, trials, parts.names, clusters, frequencies, absorb)
    return Prepared(rows, target, parts.coding, labels, notes)


def _of_checked(costs: Costs, parts: _Parts, target: str, family: Family, classes: int) -> Prepared:
    """Declare the look at the rows: files are read in a run without values too, and then looked at.

    Where X or one vector has no values, nothing is looked at, and all are shapes.
    """
    *vectors, absorb = parts.vectors
    if not any(map(is_abstract, [parts.values, *vectors, *absorb])):
        found = _looked_at(parts, target, family, classes)
        of = found.rows
        shapes = {name: costs.shape_of(getattr(of, name)) for name in ("X", "y", "weights", "offset", "trials")}
        return found._replace(rows=replace(of, **shapes, frequencies=costs.shape_of(of.frequencies)))
    labelled = classes > 0 and parts.vectors.trials is None
    assumed = np.arange(min(classes, ASSUMED))
    labels = assumed[: len(assumed) * labelled].astype(parts.vectors.y.dtype)
    agreed(lambda: LabelFacts(True, labels.tolist(), labels.tolist()))
    X, y, weights, offset, trials, clusters, frequencies = map(costs.shape_of, [parts.values, *vectors])
    labels_of = tuple(map(costs.shape_of, absorb))
    rows = Rows(X, y, weights, offset, trials, parts.names, clusters, frequencies, labels_of)
    return Prepared(rows, target, parts.coding, assumed if classes else None, ())


@declares(_of_checked)
def _checked(parts: _Parts, target: str, family: Family, classes: int) -> Prepared:
    """Return the rows as numbers.  Collective: all processes agree that theirs are sound."""
    return _looked_at(parts, target, family, classes)


def _numeric(vectors: Given) -> tuple[Any, Any, Any, Any]:
    """Return the vectors of numbers beside y."""
    return vectors.weights, vectors.offset, vectors.trials, vectors.frequencies


def _response(values: Any) -> tuple[np.ndarray, bool]:
    """Return y as numbers or as texts, and whether it has texts."""
    found = np.asarray(values)
    check_no_times(found, "y")
    if found.dtype.kind in "SU" or (found.dtype.kind == "O" and any(isinstance(each, str) for each in found)):
        return found, True
    if found.dtype.kind == "O" and len(found) and all(isinstance(each, (bool, np.bool_)) for each in found):
        found = found.astype(bool)  # labels that stay what they are
    if found.dtype.kind == "f" or found.dtype.kind == "O":
        return numbers(found, "y", finite=True), False
    if found.dtype.kind == "c":
        raise DataError("Complex data not supported")
    return found if found.dtype.kind in "biu" else found.astype(np.float64), False


def _labels(values: Any, what: str) -> np.ndarray:
    """Return labels of which equal ones have equal texts.  Raises DataError if a row has none."""
    found = np.asarray(values)
    gone = np.isnat(found).any() if found.dtype.kind in "mM" else False
    if found.dtype.kind in "fO":
        gone = any(label is None or label != label for label in found.tolist())
    if gone:
        raise DataError(f"{what} has missing labels: each row is in one")
    if found.dtype.kind == "O":
        return np.array([_text(label) for label in found.tolist()], str)
    return found + 0.0 if found.dtype.kind == "f" else found  # -0.0 equals 0.0, and its text would not


def _text(label: Any) -> str:
    """Return the text of a label among labels of any types: 1.0 and True are 1."""
    whole = isinstance(label, (bool, np.bool_)) or (isinstance(label, (float, np.floating)) and label.is_integer())
    return str(int(label) if whole else label)


def _check_possible(y: np.ndarray, family: Family, target: str, place: Callable[[int], str]) -> None:
    """Raise DataError with the place of the first response that the family cannot have."""
    wrong, what = family.wrong(y)
    if wrong.any():
        row = int(np.argmax(wrong))
        raise DataError(f"{place(row)}: {target} is {y[row]:g}; in a {family} model it must be {what}")
