"""Formulas: a response and the columns of X as "mdvis ~ log(disea + 1) + C(hlthp) + idp:fmde", evaluated by formulaic.

Each process evaluates the formula on its own rows.  What a formula has to know of all rows is learned from rows that
every process gets: of each categorical number, as in C(hlthg), one row for each value; of a transform that remembers,
as center(x), poly(x, 2) or bs(x, df=5), all rows of the columns in the formula.  Of texts all processes know the levels
already.  So every process has the same columns, and those of any number of processes are the same.

https://matthewwardrop.github.io/formulaic/ describes the language, which is that of R and patsy.
"""

from __future__ import annotations

import ast
import importlib
import re
import warnings
from collections.abc import Callable, Collection, Sequence
from typing import Any, NamedTuple

import numpy as np

from bsp.algorithms.glm.data.coding import Coded, Kept, recoded
from bsp.algorithms.glm.data.table import MOST_LEVELS, Table
from bsp.algorithms.glm.errors import DataError, agreed

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
        return "Intercept" in self.spec.column_names

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the matrix's columns."""
        return tuple(_WHOLE.sub(r"\1]", str(name)) for name in self.spec.column_names if name != "Intercept")

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
        agreed(lambda: found.append(self.rows(table, kept)))
        return found[0]


def read_formula(text: str, table: Table, taken: Collection[str]) -> Formula:
    """Read a formula for the columns of a table.

    taken : columns that are weights, offset or the like, and so not among those that "." stands for.
    Raises DataError if it is none, or names a column that is not there; ImportError without formulaic.
    """
    try:
        formulaic = importlib.import_module("formulaic")
    except ImportError:
        raise ImportError(f"{text!r}: formulas need formulaic: pip install 'nonstop-bsp[formulas]'") from None
    names = [name for name in table.names if name not in taken]
    sides = _told(text, lambda: formulaic.Formula(text, _context={"__formulaic_variables_available__": names}))
    response, terms = getattr(sides, "lhs", None), getattr(sides, "rhs", None)
    if response is None or terms is None:
        raise DataError(f"formula {text!r}: it has no response; write 'response ~ terms'")
    if not isinstance(terms, formulaic.SimpleFormula) or not isinstance(response, formulaic.SimpleFormula):
        raise DataError(f"formula {text!r}: it has several parts; effects are absorbed by absorb=, not by '|'")
    left, right = (_columns(side, table) for side in (response, terms))
    return Formula(text, response, terms, left, right)


def _columns(side: Any, table: Table) -> tuple[str, ...]:
    """Return the columns of a table that one side of a formula uses.  Raises DataError for one that is not there.

    formulaic's own `required_variables` leaves out those in center(x), bs(x), poly(x).
    """
    known = importlib.import_module("formulaic.transforms").TRANSFORMS
    used: set[str] = set()
    for factor in {factor for term in side for factor in term.factors}:
        if factor.eval_method.value == "lookup":
            used.add(str(factor.expr))
        elif factor.eval_method.value == "python":
            quoted = re.findall("`([^`]+)`", factor.expr)
            nodes = list(ast.walk(ast.parse(re.sub("`[^`]+`", "0", factor.expr), mode="eval")))
            called = {node.func for node in nodes if isinstance(node, ast.Call)}  # formulaic tells of an unknown one
            names = {node.id for node in nodes if isinstance(node, ast.Name) and node not in called}
            used |= {*quoted, *(name for name in names if name in table.names or name not in known)}
    for name in sorted(used):
        table.column(name)
    return tuple(name for name in table.names if name in used)


def coding_by(formula: Formula, table: Table, columns: tuple[Coded, ...], kept: Kept) -> FormulaCoding:
    """Return the coding of columns by a formula.  Collective.

    Cost: two supersteps, the second with the rows that are learned from.
    Raises DataError, the same on every process, if the formula cannot be evaluated.
    """
    return FormulaCoding(formula.text, columns, _learned(formula, frame_of(table, columns, kept)))


def _learned(formula: Formula, frame: Any) -> Any:
    """Return formulaic's specification of the columns, which has seen all rows that it needs."""

    def look() -> tuple[bool, set[str]]:
        shown = frame.head(_LOOKED_AT)
        if not len(shown):
            return False, set()
        try:
            seen = evaluated(_specified(formula.terms), shown, formula.text).model_spec
        except DataError:  # perhaps of a transform that takes more rows: all of them will tell
            return True, set()
        grouped = [expr for expr, (kind, _) in seen.encoder_state.items() if kind.value == "categorical"]
        factors = {str(name) for expr in grouped for name in seen.factor_variables[expr]}
        return bool(seen.transform_state), factors & set(frame.select_dtypes("number").columns)

    told = agreed(look)
    learns, grouped = any(each for each, _ in told), sorted(set().union(*(names for _, names in told)))

    def shown_to_all() -> Any:
        if learns:
            return frame
        some = frame.drop_duplicates(grouped) if grouped else frame.head(1)
        if len(some) > MOST_LEVELS:
            raise DataError(f"formula {formula.text!r}: {', '.join(grouped)}: more than {MOST_LEVELS} different values")
        return some

    pandas = importlib.import_module("pandas")
    rows = pandas.concat(agreed(shown_to_all), ignore_index=True)
    return evaluated(_specified(formula.terms), rows, formula.text).model_spec


def response_of(formula: Formula, table: Table, kept: Kept) -> np.ndarray:
    """Return the kept rows' responses, where the formula's is an expression: as many numbers.

    Raises DataError if it is none, or remembers rows.
    """
    columns = tuple(Coded(name, None) for name in formula.left)
    found = evaluated(_specified(formula.response), frame_of(table, columns, kept), formula.text)
    if found.shape[1] != 1 or found.model_spec.transform_state:
        raise DataError(f"formula {formula.text!r}: the response must be one number for each row, of that row alone")
    return np.ascontiguousarray(found[:, 0], np.float64)


def _specified(side: Any) -> Any:
    """Return a new specification, which learns from the first rows that it is evaluated on."""
    formulaic = importlib.import_module("formulaic")
    return formulaic.ModelSpec.from_spec(side, output="numpy", na_action="ignore")


def evaluated(spec: Any, frame: Any, text: str) -> Any:
    """Return the columns that a specification makes of rows.  Raises DataError if it cannot."""
    mismatch = importlib.import_module("formulaic.errors").DataMismatchWarning

    def evaluate() -> Any:
        with (
            warnings.catch_warnings(),
            np.errstate(all="ignore"),
        ):  # what is no number is found, and told with its place
            warnings.simplefilter("error", mismatch)
            return spec.get_model_matrix(frame)

    return _told(text, evaluate)


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
    return pandas.DataFrame(found)
