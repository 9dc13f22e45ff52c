"""The meaning of the names in a comprehension: functions, operands, and indices with their scopes and extents.

All results depend only on the text, the operands' shapes, and the integers among the operands.  Every mistake that can
be found without dtypes is raised here.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Container, Iterable, Mapping, Set
from typing import Any, NamedTuple

import numpy as np

from bsp.arrays.api import reductions, ufuncs
from bsp.arrays.array import Array
from bsp.arrays.comprehensions.syntax import Affine, Comprehension, Span, affine, axes_of, suggestion
from bsp.arrays.expressions.graph import Kind

AGGREGATES: dict[str, Callable[..., Array]] = {
    name: getattr(reductions, name) for name in ("sum", "prod", "min", "max", "any", "all", "mean", "var", "std")
}
FUNCTIONS: dict[str, Callable[..., Any]] = {
    name: function
    for name, function in ufuncs.FUNCTIONS.items()
    if name != "astype" and getattr(getattr(np, name, None), "nout", 1) == 1
}
CASTS = {
    name: np.dtype(name)
    for name in (
        "bool", "int", "float", "complex", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64",
        "float32", "float64", "complex64", "complex128",
    )
}  # fmt: skip
CONSTANTS = {"pi": float(np.pi), "e": float(np.e), "inf": float("inf"), "nan": float("nan")}

_INSTEAD: dict[type, str] = {
    ast.And: "& for `and`, with parentheses around comparisons",
    ast.Or: "| for `or`, with parentheses around comparisons",
    ast.Not: "~ for `not`", ast.MatMult: "sum(A[i,k] * B[k,j]) for a matrix product",
}  # fmt: skip

_AGGREGATES_INSTEAD = {
    "count": "sum(1), or sum(condition)", "avg": "mean(...)", "average": "mean(...)", "amin": "min(...)",
    "amax": "max(...)",
}  # fmt: skip
_RANGELESS = "index '{0}' is in no operand: give its range, ... for {0} in 0:n"

Values = Mapping[str, Any]  # Python numbers by name
Scope = dict[str, "Index"]


class Use(NamedTuple):
    """One use of an index in a subscript: coefficient · index + constant on an axis of an operand."""

    where: ast.expr
    operand: ast.Subscript
    axis: int
    length: int
    form: Affine


class Index:
    """An index in its scope, which is the whole comprehension or one aggregate: its uses and its positions."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.uses: list[Use] = []
        self.run = range(0)

    @property
    def extent(self) -> int:
        """The number of positions."""
        return len(self.run)


class Indices:
    """The resolved indices of a comprehension: extents, the indices of each aggregate, the form of each subscript."""

    def __init__(self, read: Comprehension, kinds: Mapping[str, Kind], values: Values) -> None:
        self.read = read
        self.kinds = kinds
        self.values = values
        self.names = index_names(read, kinds, values)
        self._check_names()
        self.left = tuple(Index(each.id) for each in read.left)
        self.every: list[Index] = list(self.left)
        self.over: dict[ast.AST, tuple[Index, ...]] = {}  # the indices that each aggregate is over
        self.subscripts: dict[ast.AST, list[tuple[Index | None, Affine]]] = {}
        self.of: dict[ast.AST, Index] = {}  # the index of each name that is used as a value
        self._resolve(read.right, {index.name: index for index in self.left}, None)
        for name, span in read.spans.items():
            if all(index.name != name for index in self.every):
                raise read.mistake(span.name, f"index {name!r} has a range but is nowhere else")
        for index in self.every:
            self._extend(index)
        for index in self.every:
            for use in index.uses:
                self._within(index, use)

    def _check_names(self) -> None:
        """Raise ComprehensionError for a function or operand that is missing, and for an operand that is not used."""
        read, given = self.read, {*self.kinds, *self.values}
        known: set[ast.AST] = set()  # names in functions and subscripts: they are not checked as values
        for node in ast.walk(read.right):
            if isinstance(node, ast.Call):
                known.update(ast.walk(node.func))
                check_function(read, node, self.kinds)
            elif isinstance(node, ast.Subscript) and isinstance(node.value, ast.Name) and node not in known:
                known.update(ast.walk(node))
                name = node.value.id
                if name not in given and name not in AGGREGATES:
                    hint = suggestion(name, given) or f": give it, {name}=..."
                    raise read.mistake(node.value, f"no operand is called {name!r}{hint}")
            elif isinstance(node, ast.Name) and node not in known:
                self._check_value(node, given)
            instead = _INSTEAD.get(type(getattr(node, "op", None)))
            if instead is not None:
                raise read.mistake(node, f"write {instead}")
        check_all_named(read, given)

    def _check_value(self, node: ast.Name, given: set[str]) -> None:
        name = node.id
        shape = self.kinds[name].shape if name in self.kinds else ()
        if shape:
            sketch = ",".join("ijklmnopqrst"[axis % 12] for axis in range(len(shape)))
            raise self.read.mistake(node, f"{name} has shape {shape}: index it, {name}[{sketch}]")
        if name not in given and name not in self.names and name not in CONSTANTS:
            hint = suggestion(name, given | self.names) or f": give it, {name}=..."
            raise self.read.mistake(node, f"{name!r} is neither an operand nor an index{hint}")

    # --------------------------------------------------------------------------- scopes

    def _resolve(self, node: ast.AST, scope: Scope, inside: ast.Call | None) -> None:
        if isinstance(node, ast.Name):
            if node.id in self.names:
                self.of[node] = self._bound(node, scope, inside)
        elif isinstance(node, ast.Subscript):
            self._subscript(node, scope, inside)
        elif isinstance(node, ast.Call):
            if aggregate_of(node) is not None:
                self._aggregate(node, scope)
                return
            for part in (*node.args, *node.keywords):
                self._resolve(part, scope, inside)
        else:
            for child in ast.iter_child_nodes(node):
                self._resolve(child, scope, inside)

    def _bound(self, name: ast.Name, scope: Scope, inside: ast.Call | None) -> Index:
        if name.id in scope:
            return scope[name.id]
        read, word = self.read, name.id
        if inside is None:
            raise read.mistake(
                name, f"index {word!r} is not on the left, and no aggregate is over it: put it on the left, or write "
                f"sum({'...' if len(read.words(read.right)) > 40 else read.words(read.right)})"
            )  # fmt: skip
        how = aggregate_of(inside)
        over = ",".join(
            [read.words(each) for each in axes_of(inside.func)] if isinstance(inside.func, ast.Subscript) else []
        )
        raise read.mistake(
            name, f"index {word!r} is not on the left, and {how}[{over}] is not over it: {how}[{over},{word}]?"
        )

    def _aggregate(self, node: ast.Call, scope: Scope) -> None:
        read, how = self.read, aggregate_of(node)
        if len(node.args) != 1 or node.keywords or isinstance(node.args[0], ast.Starred):
            instead = {"min": "; of two values: minimum(x, y)", "max": "; of two values: maximum(x, y)"}.get(
                how or "", ""
            )
            raise read.mistake(node, f"{how} aggregates one expression{instead}")
        (body,) = node.args
        if isinstance(node.func, ast.Subscript):
            names = []
            for each in axes_of(node.func):
                if not isinstance(each, ast.Name):
                    raise read.mistake(each, f"{how}[...] names the indices it is over, as in {how}[k](...)")
                if each.id in scope or each.id in names:
                    where = "on the left" if each.id in {left.id for left in read.left} else "bound already"
                    raise read.mistake(each, f"{how} cannot be over {each.id!r}, which is {where}")
                names.append(each.id)
        else:
            names = [name for name in free(body, self.names) if name not in scope]
            if not names:
                raise read.mistake(
                    node, f"{how} is over no index: all that are in it are on the left, or bound by another aggregate; "
                    f"name them: {how}[k](...)"
                )  # fmt: skip
        own = {name: Index(name) for name in names}
        self.every += own.values()
        self.over[node] = tuple(own.values())
        self._resolve(body, scope | own, node)
        for each in axes_of(node.func) if isinstance(node.func, ast.Subscript) else []:
            if isinstance(each, ast.Name) and not own[each.id].uses and each.id not in read.spans:
                raise read.mistake(
                    each, f"index {each.id!r} is in no operand here: give its range, ... for {each.id} in 0:n"
                )

    def _subscript(self, node: ast.Subscript, scope: Scope, inside: ast.Call | None) -> None:
        read = self.read
        if not isinstance(node.value, ast.Name):
            raise read.mistake(node.value, f"{read.words(node.value)} cannot be indexed: index its operands")
        name = node.value.id
        if name not in self.kinds:
            what = "a number, and takes no index" if name in self.values else "an aggregate: write sum[k](...)"
            raise read.mistake(node.value, f"{name!r} is {what}")
        shape = self.kinds[name].shape
        axes = axes_of(node)
        if len(axes) != len(shape):
            given = f"{len(axes)} {'index' if len(axes) == 1 else 'indices'}"
            raise read.mistake(node, f"{given} for {name}, which has shape {shape}: {len(shape)} are needed")
        found: list[tuple[Index | None, Affine]] = []
        for axis, (each, length) in enumerate(zip(axes, shape, strict=True)):
            form = affine(read, each, self._integer)
            index = None if form.name is None else self._bound(form.name, scope, inside)
            if index is not None:
                form = self._from_end(form, length)
                index.uses.append(Use(each, node, axis, length, form))
            else:
                at = form.constant
                if not -length <= at < length:
                    raise read.mistake(
                        each, f"index {at} is out of range for axis {axis} of {name}, which has shape {shape}"
                    )
                form = Affine(None, 0, at % length)
            found.append((index, form))
        self.subscripts[node] = found

    @staticmethod
    def _from_end(form: Affine, length: int) -> Affine:
        """Return a form with a negative constant less an index, such as -1-i, as one that counts from the start."""
        if form.coefficient < 0 and form.constant < 0:
            return form._replace(constant=form.constant + length)
        return form

    def _integer(self, name: ast.Name) -> int | None:
        return _integer(self.read, name, self.kinds, self.values)

    # -------------------------------------------------------------------------- extents

    def _extend(self, index: Index) -> None:
        """Set the positions of an index: its range, or else the length of the axes that it indexes plainly."""
        read, name = self.read, index.name
        span = read.spans.get(name)
        if span is not None:
            index.run = range_of(read, span, self.kinds, self.values)
            return
        plain = [use for use in index.uses if use.form[1:] == (1, 0)]
        if plain:
            first = plain[0]
            for use in plain:
                if use.length != first.length:
                    raise read.mistake(
                        use.where, f"index {name!r} is {first.length} in {self._operand(first)} and {use.length} in "
                        f"{self._operand(use)}"
                    )  # fmt: skip
            index.run = range(first.length)
            return
        if index.uses:
            use = index.uses[0]
            low, high = self._fitting(index)
            raise read.mistake(
                use.where, f"index {name!r} is plain in no operand, so its range must be given; all that fits: "
                f"... for {name} in {low}:{high}"
            )  # fmt: skip
        where = next((each for each in read.left if each.id == name), None)
        where = where or next(node for node, of in self.of.items() if of is index and isinstance(node, ast.Name))
        raise read.mistake(where, _RANGELESS.format(name))

    def _operand(self, use: Use) -> str:
        name = self.read.words(use.operand.value)
        return f"{self.read.words(use.operand)} ({name} has shape {self.kinds[name].shape})"

    @staticmethod
    def _fitting(index: Index) -> tuple[int, int]:
        """Return start and stop of the longest range, from 0 or later, that keeps every use inside its axis."""
        lows, highs = [0], []
        for use in index.uses:
            _, by, constant = use.form
            ends = sorted([-constant / by, (use.length - 1 - constant) / by])
            lows.append(int(np.ceil(ends[0])))
            highs.append(int(np.floor(ends[1])) + 1)
        return max(lows), max(max(lows), min(highs))

    def _within(self, index: Index, use: Use) -> None:
        if not index.run:
            return
        _, by, constant = use.form
        for i in (index.run[0], index.run[-1]):
            at = by * i + constant
            if not 0 <= at < use.length:
                low, high = self._fitting(index)
                raise self.read.mistake(
                    use.where, f"index {at} (at {index.name} = {i}) is out of range for axis {use.axis} of "
                    f"{self._operand(use)}; all that fits: ... for {index.name} in {low}:{high}"
                )  # fmt: skip


def aggregate_of(node: ast.Call) -> str | None:
    """Return the name of the aggregate that a call is of, as in `sum` or `sum[k]`; None for any other function."""
    func = node.func.value if isinstance(node.func, ast.Subscript) else node.func
    return func.id if isinstance(func, ast.Name) and func.id in AGGREGATES else None


def check_function(read: Comprehension, call: ast.Call, kinds: Container[str]) -> None:
    """Raise ComprehensionError for a call of something that is neither an aggregate nor an elementwise function."""
    func = call.func
    if aggregate_of(call) is not None:
        return
    if not isinstance(func, ast.Name):
        whole = read.words(func)
        plain = whole.rpartition(".")[2]
        hint = f": write {plain}(...)" if plain in {*FUNCTIONS, *AGGREGATES} and "." in whole else ""
        raise read.mistake(func, f"{whole} is no function of a comprehension{hint}")
    if func.id not in FUNCTIONS and func.id not in CASTS:
        named = _AGGREGATES_INSTEAD.get(func.id)
        hint = f": write {named}" if named else suggestion(func.id, [*FUNCTIONS, *AGGREGATES, *CASTS])
        what = "an operand, indexed with [ ]" if func.id in kinds else "no elementwise function or aggregate"
        raise read.mistake(func, f"{func.id!r} is {what}{hint}")


def outermost(node: ast.AST) -> list[ast.Call]:
    """Return the outermost aggregates of an expression, from left to right."""
    if isinstance(node, ast.Call) and aggregate_of(node) is not None:
        return [node]
    return [call for child in ast.iter_child_nodes(node) for call in outermost(child)]


def index_names(read: Comprehension, kinds: Mapping[str, Kind], values: Values) -> set[str]:
    """Return the names of all indices: on the left, with a range, of an aggregate, or in a subscript of an operand.

    An operand's name in a subscript is an integer, no index.  Raises ComprehensionError for an operand's name in one of
    the other places.
    """
    found = {each.id: each for each in read.left} | {name: span.name for name, span in read.spans.items()}
    every = [node for part in (read.right, *read.keys.values()) for node in ast.walk(part)]
    for node in every:
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Subscript):
            found |= {each.id: each for each in axes_of(node.func) if isinstance(each, ast.Name)}
    for name, where in found.items():
        if name in kinds or name in values:
            raise read.mistake(where, f"{name!r} is an index here, and an operand is given under this name")
    for node in every:
        if isinstance(node, ast.Subscript):
            found |= {each.id: each for each in ast.walk(node.slice) if isinstance(each, ast.Name)}
    return {name for name in found if name not in kinds and name not in values}


def free(node: ast.AST, names: Container[str]) -> dict[str, ast.Name]:
    """Return the indices of an expression that none of its aggregates binds, by first appearance."""
    if isinstance(node, ast.Name):
        return {node.id: node} if node.id in names else {}
    if isinstance(node, ast.Subscript):
        return _free(axes_of(node), names)
    if isinstance(node, ast.Call):
        parts = [*node.args, *node.keywords]
        if aggregate_of(node) is None:
            return _free(parts, names)
        if isinstance(node.func, ast.Name):
            return {}
        assert isinstance(node.func, ast.Subscript)
        over = {each.id for each in axes_of(node.func) if isinstance(each, ast.Name)}
        return {name: where for name, where in _free(parts, names).items() if name not in over}
    return _free(ast.iter_child_nodes(node), names)


def _free(nodes: Iterable[ast.AST], names: Container[str]) -> dict[str, ast.Name]:
    found: dict[str, ast.Name] = {}
    for node in nodes:
        for name, where in free(node, names).items():
            found.setdefault(name, where)
    return found


def names_in(read: Comprehension) -> set[str]:
    """Return every name in a comprehension, except those of its result and of the plain indices on the left."""
    ends = [each for span in read.spans.values() for each in span[1:] if each is not None]
    parts = (read.right, *read.keys.values(), *ends)
    return {each.id for part in parts for each in ast.walk(part) if isinstance(each, ast.Name)}


def check_all_named(read: Comprehension, given: Set[str]) -> None:
    """Raise ComprehensionError for an operand that the text does not name."""
    seen = names_in(read)
    for name in sorted(given - seen):
        raise read.mistake(read.right, f"the operand {name!r} is not in the text{suggestion(name, seen - given)}")


def range_of(read: Comprehension, span: Span, kinds: Mapping[str, Kind], values: Values) -> range:
    """Return the positions of an index that has a range, as Python's range."""

    def end(node: ast.expr | None) -> int | None:
        if node is None:
            return None
        form = affine(read, node, lambda name: _integer(read, name, kinds, values))
        if form.name is not None:
            word = form.name.id
            hint = suggestion(word, [*kinds, *values]) or f": give it, {word}=..."
            raise read.mistake(form.name, f"a range is made of integers; {word!r} is no operand{hint}")
        return form.constant

    start, stop, step = (end(each) for each in (span.start, span.stop, span.step))
    if step == 0 and span.step is not None:
        raise read.mistake(span.step, f"the range of {span.name.id!r} has step 0")
    assert stop is not None
    return range(start or 0, stop, 1 if step is None else step)


def _integer(read: Comprehension, name: ast.Name, kinds: Mapping[str, Kind], values: Values) -> int | None:
    """Return the integer operand of a name; None for the name of an index.  Raises for any other operand."""
    if name.id in values and isinstance(values[name.id], int):
        return int(values[name.id])
    if name.id in values or name.id in kinds:
        what = f"is {values[name.id]!r}" if name.id in values else f"has shape {kinds[name.id].shape}"
        if name.id in kinds and not kinds[name.id].shape:
            what = f"is an array: give {name.id}=int(...)"
        raise read.mistake(name, f"indices are made of integers; {name.id!r} {what}")
    return None
