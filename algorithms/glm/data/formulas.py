"""Formulas: a response and the columns of X as "mdvis ~ log(disea + 1) + C(hlthp) + idp:fmde", evaluated by formulaic.

Each process evaluates the formula on its own rows.  What a formula has to know of all rows is learned from rows that
every process gets: of each categorical number, as in C(hlthg), one row for each value; of a transform that remembers,
as center(x), poly(x, 2) or bs(x, df=5), all rows of the columns in the formula.  Of texts all processes know the levels
already.  So every process has the same columns, and those of any number of processes are the same.

https://matthewwardrop.github.io/formulaic/ describes the language, which is that of R and patsy.
"""

from __future__ import annotations

import ast
import builtins
import copyreg
import importlib
import re
import warnings
from collections.abc import Callable, Collection, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from bsp.algorithms.glm.data.coding import Coded, Kept, recoded
from bsp.algorithms.glm.data.table import MOST_LEVELS, Table
from bsp.algorithms.glm.errors import DataError, agreed
from bsp.arrays.procedures import world

_LOOKED_AT = 1000  # rows that show of what kind each part of a formula is
_MARKS = re.compile(r"\x1b\[[0-9;]*m|[⧛⧚]")  # by which formulaic points at a place in a formula
_WHOLE = re.compile(r"(\[[^\]]*\d)\.0\]")  # the level of a categorical number, which is a float


def is_formula(y: Any) -> bool:
    """Return whether `y` of a fit is a formula."""
    return isinstance(y, str) and "~" in y


class Formula(NamedTuple):
    """A formula that has been read.

    response, terms : formulaic's formulas of its two sides.   left, right : the columns of the table in them.
    """

    text: str
    response: Any
    terms: Any
    left: tuple[str, ...]
    right: tuple[str, ...]

    @property
    def target(self) -> str:
        """The response as text: the name of a column, or an expression."""
        return str(self.response)

    @property
    def is_column(self) -> bool:
        """Whether the response is a column as it is, and so may have labels."""
        return self.left == (self.target,)


class FormulaCoding(NamedTuple):
    """The coding of columns as a matrix by a formula; part of a fitted model."""

    text: str
    columns: tuple[Coded, ...]  # of the table that the formula uses
    spec: Any  # formulaic's, of the right-hand side, with all that it has learned

    @property
    def intercept(self) -> bool:
        """Whether the formula has an intercept, which is the model's and no column of the matrix."""
        return any(term.degree == 0 for term in self.spec.terms)  # a column may have this name, too

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the matrix's columns."""
        return tuple(_WHOLE.sub(r"\1]", str(name)) for name in self.spec.column_names[int(self.intercept) :])

    def rows(self, table: Table, kept: Kept) -> np.ndarray:
        """Return the kept rows, coded: shape (rows, len(self.names)), float64, C order.

        Raises DataError for a level that the fit did not know, and for a value that is no number.
        """
        found = evaluated(self.spec, frame_of(table, self.columns, kept), self.text)
        matrix = np.ascontiguousarray(found[:, int(self.intercept) :], np.float64)
        wrong = ~np.isfinite(matrix)
        if wrong.any():
            row, column = np.argwhere(wrong)[0]
            place = table.place(int(row if kept is None else np.flatnonzero(np.concatenate(kept))[row]))
            raise DataError(f"{table.source}: {place}: {self.names[column]} is {matrix[row, column]:g}")
        return matrix

    def dealt_rows(self, table: Table, kept: Kept) -> np.ndarray:
        """Return the kept rows, as `rows`; errors are the same on every process.  Cost: a superstep."""
        found: list[np.ndarray] = []

        def code() -> None:
            found.append(self.rows(table, kept))
            _check_alone(self.spec, frame_of(table, self.columns, kept), found[0], self.text)

        agreed(code)
        return found[0]


def formulas_needed(text: str) -> Any:
    """Return the module formulaic; raise ImportError that tells how to install it."""
    try:
        formulaic = importlib.import_module("formulaic")
    except ImportError:
        raise ImportError(f"{text!r}: formulas need formulaic: pip install 'nonstop-bsp[formulas]'") from None
    copyreg.pickle(importlib.import_module("formulaic.parser.types").Term, _reduced)
    return formulaic


def _reduced(term: Any) -> tuple[Any, ...]:
    """Return how pickle makes a term of a formula again.

    A term keeps the hash of its text, which another interpreter computes otherwise: fitted models that are equal would
    have other bytes there, and `--check` would call the program nondeterministic.
    """
    return _made_again, (type(term), {name: value for name, value in vars(term).items() if name != "_hash"})


def _made_again(kind: Any, attributes: dict[str, Any]) -> Any:
    """Return a term with these attributes, and its hash here; other parts of a formula may share the attributes."""
    copyreg.pickle(kind, _reduced)  # an interpreter that was given a fitted model may have read no formula
    term = kind(attributes["factors"], attributes["origin"])
    vars(term).update(attributes)
    return term


def read_formula(text: str, table: Table, taken: Collection[str]) -> Formula:
    """Read a formula for the columns of a table.

    taken : columns that are weights, offset or the like, and so not among those that "." stands for.
    Raises DataError if it is none, or names a column that is not there; ImportError without formulaic.
    """
    formulaic = formulas_needed(text)
    names = [name for name in table.names if name not in taken]
    sides = _told(text, lambda: formulaic.Formula(text, _context={"__formulaic_variables_available__": names}))
    response, terms = getattr(sides, "lhs", None), getattr(sides, "rhs", None)
    if response is None or terms is None:
        raise DataError(f"formula {text!r}: it has no response; write 'response ~ terms'")
    if not isinstance(terms, formulaic.SimpleFormula) or not isinstance(response, formulaic.SimpleFormula):
        raise DataError(f"formula {text!r}: it has several parts; effects are absorbed by absorb=, not by '|'")
    parts = [str(factor.expr) for side in (response, terms) for term in side for factor in term.factors]
    if any(re.search(r"\bQ\(", part) for part in parts):
        raise DataError(
            f"formula {text!r}: a name that is no Python name stands in backticks, `as here`, not in Q(...)"
        )
    if any(part.startswith("offset(") for part in parts):
        raise DataError(f"formula {text!r}: an offset goes beside the formula, as a column: fit(..., offset='column')")
    left, right = (_columns(side, table) for side in (response, terms))
    return Formula(text, response, terms, left, right)


def _columns(side: Any, table: Table) -> tuple[str, ...]:
    """Return the columns of a table that one side of a formula uses.  Raises DataError for one that is not there."""
    used = set().union(*(_used_by(factor, table.names) for term in side for factor in term.factors))
    for name in sorted(used):
        column, _, attribute = name.partition(".")
        if attribute and name not in table.names and column in table.names:
            raise DataError(
                f"{name!r} in a formula: there {column!r} is a column of numbers or texts, without pandas' attributes "
                f"such as .{attribute}: make a column of {name} before"
            )
        table.column(name)
    return tuple(name for name in table.names if name in used)


def _used_by(factor: Any, columns: Collection[str]) -> set[str]:
    """Return the columns that one part of a formula uses, and names in it that are none.

    formulaic's own `required_variables` leaves out those in center(x), bs(x), poly(x).
    """
    if factor.eval_method.value == "lookup":
        return {str(factor.expr)}
    if factor.eval_method.value != "python":
        return set()
    quoted = re.findall("`([^`]+)`", factor.expr)
    nodes = list(ast.walk(ast.parse(re.sub("`[^`]+`", "0", factor.expr), mode="eval")))
    called = {node.func for node in nodes if isinstance(node, ast.Call)}  # formulaic tells of an unknown one
    names = {node.id for node in nodes if isinstance(node, ast.Name) and node not in called}
    functions = {*importlib.import_module("formulaic.transforms").TRANSFORMS, *dir(builtins)}
    return {*quoted, *(name for name in names if name in columns or name not in functions)}


def coding_by(formula: Formula, table: Table, columns: tuple[Coded, ...], kept: Kept) -> FormulaCoding:
    """Return the coding of columns by a formula.  Collective.

    Cost: two supersteps, the second with the rows that are learned from.
    Raises DataError, the same on every process, if the formula cannot be evaluated.
    """
    return FormulaCoding(formula.text, columns, _learned(formula, frame_of(table, columns, kept)))


def _learned(formula: Formula, frame: Any) -> Any:
    """Return formulaic's specification of the columns, which has seen all rows that it needs."""
    factors = {str(factor.expr): factor for term in formula.terms for factor in term.factors}

    def look() -> tuple[bool, set[str]]:
        shown = frame.head(_LOOKED_AT)
        if not len(shown):
            return False, set()
        try:
            seen = evaluated(_specified(formula.terms), shown, formula.text).model_spec
        except DataError:  # perhaps of a transform that takes more rows: all of them will tell
            return True, set()
        coded = {expr for expr, (kind, _) in seen.encoder_state.items() if kind.value == "categorical"}
        return bool(seen.transform_state), coded - set(frame.columns)  # of texts all know the levels

    told = agreed(look)
    learns, grouped = any(each for each, _ in told), sorted(set().union(*(some for _, some in told)))

    def one_of_each(rows: Any) -> list[Any]:
        return [_one_of_each(factors[expr], rows, formula.text) for expr in grouped]

    pandas = importlib.import_module("pandas")
    shown = agreed(lambda: frame if learns else pandas.concat([frame.head(1), *one_of_each(frame)]))
    rows = pandas.concat(shown, ignore_index=True)
    one_of_each(rows)  # which may be too many of all processes together
    return evaluated(_specified(formula.terms), rows, formula.text).model_spec


def _one_of_each(factor: Any, rows: Any, text: str) -> Any:
    """Return one row, or more, for each value of a categorical part of a formula.

    Raises DataError if there are more than MOST_LEVELS values.
    """
    formulaic, pandas = importlib.import_module("formulaic"), importlib.import_module("pandas")
    some = rows.drop_duplicates(sorted(_used_by(factor, rows.columns) & set(rows.columns)))
    if len(some) <= MOST_LEVELS:
        return some
    kept = some.head(0)
    for low in range(0, len(some), MOST_LEVELS):  # as many at a time, because the matrix is as wide as it has values
        kept = pandas.concat([kept, some[low : low + MOST_LEVELS]])
        codes = evaluated(_specified(formulaic.Formula(f"0 + {{{factor.expr}}}")), kept, text)
        kept = kept[~pandas.DataFrame(np.asarray(codes)).duplicated().to_numpy()]
        if len(kept) > MOST_LEVELS:
            raise DataError(f"formula {text!r}: {factor.expr}: more than {MOST_LEVELS} different values")
    return kept


def _check_alone(spec: Any, frame: Any, found: np.ndarray, text: str) -> None:
    """Raise DataError if what a specification makes of a row depends on other rows, which other processes may have.

    found : the last columns that it makes of the frame.
    """
    some = min(_LOOKED_AT, len(frame) // 2)
    for part in (slice(0, some), slice(len(frame) - some, len(frame))) if some else ():
        alone = np.asarray(evaluated(spec, frame.iloc[part], text), np.float64)[:, -found.shape[1] :]
        known = found[part]
        size = np.abs(known, where=np.isfinite(known), out=np.zeros_like(known)).max(axis=0, initial=0)
        other = ~np.isclose(alone, known, 1e-9, 1e-9 * size, equal_nan=True).all(axis=0)
        if other.any():
            name = spec.column_names[-found.shape[1] :][int(np.argmax(other))]
            raise DataError(
                f"formula {text!r}: {name} of a row depends on other rows, and each process has some of them only: "
                "compute it before, as a column, or use what remembers all rows: center(x), scale(x), poly(x, 2)"
            )


def response_of(formula: Formula, table: Table, kept: Kept) -> np.ndarray:
    """Return the kept rows' responses, where the formula's is an expression: as many numbers.  Cost: a superstep.

    Raises DataError, the same on every process, if it is none, or depends on other rows.
    """
    response: list[np.ndarray] = []

    def evaluate() -> None:
        frame = frame_of(table, tuple(Coded(name, None) for name in formula.left), kept)
        found = evaluated(_specified(formula.response), frame, formula.text)
        if found.shape[1] != 1 or found.model_spec.transform_state:
            raise DataError(
                f"formula {formula.text!r}: the response must be one number for each row, of that row alone"
            )
        values = np.asarray(found, np.float64)
        _check_alone(found.model_spec, frame, values, formula.text)
        response.append(np.ascontiguousarray(values[:, 0]))

    agreed(evaluate)
    return response[0]


def _specified(side: Any) -> Any:
    """Return a new specification, which learns from the first rows that it is evaluated on."""
    formulaic = importlib.import_module("formulaic")
    return formulaic.ModelSpec.from_spec(side, output="numpy", na_action="ignore")


def evaluated(spec: Any, frame: Any, text: str) -> Any:
    """Return the columns that a specification makes of rows.  Raises DataError if it cannot."""
    mismatch = importlib.import_module("formulaic.errors").DataMismatchWarning

    def evaluate() -> Any:
        with warnings.catch_warnings(), np.errstate(all="ignore"):  # `rows` finds what is no number
            warnings.simplefilter("error", mismatch)
            try:
                return spec.get_model_matrix(frame)
            except mismatch:
                for expr, level in _unseen(spec, frame, text):
                    raise DataError(f"{expr} has {level}, which the model was not fitted to") from None
                raise

    return _told(text, evaluate)


def _unseen(spec: Any, frame: Any, text: str) -> Iterator[tuple[str, str]]:
    """Yield the categorical parts of a specification that have levels in a frame which it has not seen, with one."""
    formulaic = importlib.import_module("formulaic")
    for expr, (kind, known) in spec.encoder_state.items():
        if kind.value == "categorical":
            own = evaluated(_specified(formulaic.Formula(f"0 + {{{expr}}}")), frame, text).model_spec
            ((_, here),) = own.encoder_state.values()
            new = [level for level in here["categories"] if level not in known["categories"]]
            if new:
                yield expr, str(new[0]).removesuffix(".0")


def _told(text: str, work: Callable[[], Any]) -> Any:
    """Return work(); an error of formulaic's becomes a DataError in a sentence."""
    try:
        return work()
    except Exception as wrong:  # noqa: BLE001 - a formula may call any function, so it may raise anything
        said = " ".join(_MARKS.sub("", str(wrong)).split())
        raise DataError(f"formula {text!r}: {said or type(wrong).__name__}") from None


def frame_of(table: Table, columns: Sequence[Coded], kept: Kept) -> Any:
    """Return the kept rows of some columns as a data frame; texts are categorical, the reference level first.

    Raises DataError for a level that the coding does not know.
    """
    pandas = importlib.import_module("pandas")
    rows: Any = slice(None) if kept is None else np.concatenate([np.empty(0, bool), *kept])
    found = {}
    for column in columns:
        values = table.vector(column.name)[rows]
        numbers = recoded(table, column)
        if numbers is not None:
            levels = [column.reference, *(column.levels or ())]
            values = pandas.Categorical.from_codes(numbers[values] + 1, categories=levels)
        found[column.name] = values
    count = table.counts[world().pid if len(table.counts) > 1 else 0] if kept is None else int(rows.sum())
    return pandas.DataFrame(found, range(count))  # of as many rows where the formula uses no column
