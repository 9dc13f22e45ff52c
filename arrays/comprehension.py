"""Array comprehensions: `comprehension("C[i,j] = sum(A[i,k] * B[k,j])", A=a, B=b)`.

An index names positions: operands are joined where their indices are equal, and an aggregate groups by the indices
on the left (Khan and Fegaras, section 2; einsum is the case of one sum of one product).  A comprehension becomes the
same graph as NumPy's functions would: subscripts are views, a sum of products is a contraction, planned as `@` is,
anything else is one fused elementwise program, folded as it is computed.

A text is read once, and compiled once for each combination of shapes, dtypes and integers: into a template, the
nodes still without data, that each call fills with its operands.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable, Mapping, Sequence
from math import prod
from typing import Any, NamedTuple

import numpy as np

from bsp.arrays import aggregates as ag
from bsp.arrays import build, contraction, reductions, ufuncs
from bsp.arrays import elementwise as ew
from bsp.arrays.array import _POWERS, Array, _pow, wrap
from bsp.arrays.comprehension_syntax import Affine, Comprehension, affine, axes_of, parsed, suggestion
from bsp.arrays.creation import made
from bsp.arrays.errors import ComprehensionError
from bsp.arrays.graph import LEAF, PARAM, WEAK, Access, Kind, Node, Operation, kind_of, parameter
from bsp.arrays.layout import automatic, replicated
from bsp.arrays.world import world

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

_BINARY: dict[type, np.ufunc] = {
    ast.Add: np.add, ast.Sub: np.subtract, ast.Mult: np.multiply, ast.Div: np.divide, ast.FloorDiv: np.floor_divide,
    ast.Mod: np.remainder, ast.Pow: np.power, ast.BitAnd: np.bitwise_and, ast.BitOr: np.bitwise_or,
    ast.BitXor: np.bitwise_xor, ast.LShift: np.left_shift, ast.RShift: np.right_shift, ast.Eq: np.equal,
    ast.NotEq: np.not_equal, ast.Lt: np.less, ast.LtE: np.less_equal, ast.Gt: np.greater, ast.GtE: np.greater_equal,
}  # fmt: skip
_UNARY: dict[type, np.ufunc] = {ast.USub: np.negative, ast.UAdd: np.positive, ast.Invert: np.invert}
_INSTEAD: dict[type, str] = {
    ast.And: "& for `and`, with parentheses around comparisons",
    ast.Or: "| for `or`, with parentheses around comparisons",
    ast.Not: "~ for `not`", ast.MatMult: "sum(A[i,k] * B[k,j]) for a matrix product",
}  # fmt: skip

_RANGELESS = "index '{0}' is in no operand: give its range, ... for {0} in 0:n"
_COMPILED = 1024
_TABLE = 1 << 20  # positions of an index that every process makes for itself; of more, each makes its part
_compiled: dict[Any, Template] = {}

Values = Mapping[str, Any]  # Python numbers by name
Maker = Callable[[Mapping[str, Node], Values], Node]  # an input of a template, from the operands


def comprehension(text: str, /, **operands: Any) -> Array:
    """The array a comprehension describes, as an expression: nothing is computed yet.

        comprehension("C[i,j] = sum(A[i,k] * B[k,j])", A=a, B=b)                a product of matrices
        comprehension("D[i,j] = min(A[i,k] + A[k,j])", A=a)                     a step of all shortest paths
        comprehension("x[i] = sum[j](A[i,j] * max[k](B[j,k]))", A=a, B=b)       an aggregate inside another
        comprehension("d[i] = A[i+1] - A[i] for i in 0:n-1", A=a, n=len(a))     affine indices need ranges

    operands : by the names in the text: arrays, what np.asarray takes, or numbers.
    Left : the result's name, and the plain names of its indices, in the order of its axes.
    Right : + - * / // % ** << >> & | ^ ~, comparisons, `x if c else y`, elementwise functions and dtypes by NumPy's
    names, pi, e, inf, nan.
    1. The same index on several axes joins them by equality, on two axes of one operand it takes the diagonal.  An
       index is a value too: its position, int64.
    2. An axis may be indexed by coefficient·i + constant, with integers and integer operands.  A constant or
       a constant less an index that is below 0 counts from the end: A[-1], A[-1-i].
    3. Aggregates: sum, prod, min, max, any, all, mean, var, std.  `sum[k](...)` is over k; `sum(...)` is over the
       indices inside that are neither on the left nor aggregated further in or out.  Each aggregate's indices are
       its own.
    4. The extent of an index is that of the axes it indexes plainly, unless it has a range, `for i in start:stop:step`
       (Python's range); position 0 of the result's axis then is i = start.
    A sum of products is in the dtype of the sum; products of small integers do not overflow on the way to it.

    Cost: a sum of a product costs what matmul does, factors that the summed indices do not touch are multiplied
    afterwards, and more factors are taken in einsum's order.  Else W = the elementwise operations, none of their
    results in memory, and h as for reductions.  NumPy operands are equal on all processes; each keeps its blocks.
    Raises ComprehensionError, with a caret under what is wrong.
    """
    if not isinstance(text, str):
        raise TypeError(f"comprehension() takes a text, not {type(text).__name__}")
    read = parsed(text)
    values: dict[str, Any] = {}
    nodes: dict[str, Node] = {}
    key: list[Any] = [text]
    for name in sorted(operands):
        value = operands[name]
        if type(value) in WEAK:
            values[name] = value
            key.append((name, value if isinstance(value, int) else None, type(value)))
            continue
        if isinstance(value, (np.ndarray, np.integer)) and not np.ndim(value) and np.asarray(value).dtype.kind in "iu":
            values[name] = int(value)  # as an index; as a value it keeps its dtype
            key.append((name, values[name], value.dtype))
        nodes[name] = build.operand(value)
        key.append((name, nodes[name].kind))
    found = _compiled.get(tuple(key))
    if found is None:
        compiler = Compiler(read, {name: node.kind for name, node in nodes.items()}, values)
        if len(_compiled) >= _COMPILED:
            _compiled.clear()
        found = _compiled[tuple(key)] = compiler.template()
    return wrap(found.filled(nodes, values))


class Step(NamedTuple):
    """An operation in a template, on the results of earlier steps."""

    op: Operation
    args: tuple[int, ...]
    kind: Kind


class Template:
    """A graph without its data."""

    def __init__(self, root: Node, inputs: Mapping[Node, Maker]) -> None:
        self.steps: list[Step | Maker] = []
        index: dict[Node, int] = {}
        stack = [root]
        while stack:
            node = stack.pop()
            if node in index:
                continue
            waiting = [arg for arg in node.args if arg not in index]
            if waiting:
                stack += [node, *reversed(waiting)]
                continue
            index[node] = len(self.steps)
            if node in inputs:
                self.steps.append(inputs[node])
            elif node.op is PARAM:
                self.steps.append(_constant(node.value))
            else:
                self.steps.append(Step(node.op, tuple(index[arg] for arg in node.args), node.kind))

    def filled(self, nodes: Mapping[str, Node], values: Values) -> Node:
        """The graph on some operands."""
        built: list[Node] = []
        for step in self.steps:
            if isinstance(step, Step):
                built.append(Node(step.op, tuple([built[k] for k in step.args]), step.kind))
            else:
                built.append(step(nodes, values))
        return built[-1]


def _constant(value: Any) -> Maker:
    return lambda nodes, values: parameter(value)


class Use(NamedTuple):
    """A subscript that has an index: coefficient · index + constant on an axis of an operand."""

    where: ast.expr
    operand: ast.Subscript
    axis: int
    length: int
    form: Affine


class Index:
    """An index in its scope: the whole comprehension, or one aggregate."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.uses: list[Use] = []
        self.run = range(0)

    @property
    def extent(self) -> int:
        """How many positions it takes."""
        return len(self.run)


class Term(NamedTuple):
    """An expression of arrays: a node, and the index of each of its axes."""

    indices: tuple[Index, ...]
    node: Node


class Number(NamedTuple):
    """An expression of numbers only.  `value` is one whose type is right; what it is in a call, `make` says."""

    value: Any
    make: Callable[[Values], Any]
    known: bool  # whether it is the same in every call of this template


Scope = dict[str, Index]


class Indices:
    """What the names of indices in a comprehension mean: scopes, extents, and the form of every subscript.

    Pure functions of the text, the operands' shapes, and the integers among them.
    """

    def __init__(self, read: Comprehension, kinds: Mapping[str, Kind], values: Values) -> None:
        self.read = read
        self.kinds = kinds
        self.values = values
        self.names = self._names()
        self.left = tuple(Index(each.id) for each in read.left)
        self.every: list[Index] = list(self.left)
        self.over: dict[ast.AST, tuple[Index, ...]] = {}  # of each aggregate
        self.subscripts: dict[ast.AST, list[tuple[Index | None, Affine]]] = {}
        self.of: dict[ast.AST, Index] = {}  # of each name that is the value of an index
        self._resolve(read.right, {index.name: index for index in self.left}, None)
        for name, span in read.spans.items():
            if all(index.name != name for index in self.every):
                raise read.mistake(span.name, f"index {name!r} has a range but is nowhere else")
        for index in self.every:
            self._extend(index)
        for index in self.every:
            for use in index.uses:
                self._within(index, use)

    def _names(self) -> set[str]:
        """Every name that is an index."""
        read = self.read
        found = {each.id: each for each in read.left} | {name: span.name for name, span in read.spans.items()}
        for node in ast.walk(read.right):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Subscript):
                found |= {each.id: each for each in axes_of(node.func) if isinstance(each, ast.Name)}
        for name, where in found.items():
            if name in self.kinds or name in self.values:
                raise read.mistake(where, f"{name!r} is an index here, and an operand is given under this name")
        for node in ast.walk(read.right):
            if isinstance(node, ast.Subscript):
                found |= {each.id: each for each in ast.walk(node.slice) if isinstance(each, ast.Name)}
        return {name for name in found if name not in self.kinds and name not in self.values}

    # --------------------------------------------------------------------------- scopes

    def free(self, node: ast.AST) -> dict[str, ast.Name]:
        """The indices that an expression leaves to be bound, by first appearance."""
        if isinstance(node, ast.Name):
            return {node.id: node} if node.id in self.names else {}
        if isinstance(node, ast.Subscript):
            return self._free(axes_of(node))
        if isinstance(node, ast.Call):
            parts = [*node.args, *node.keywords]
            if aggregate_of(node) is None:
                return self._free(parts)
            if isinstance(node.func, ast.Name):
                return {}
            over = {each.id for each in axes_of(node.func) if isinstance(each, ast.Name)}
            return {name: where for name, where in self._free(parts).items() if name not in over}
        return self._free(ast.iter_child_nodes(node))

    def _free(self, nodes: Iterable[ast.AST]) -> dict[str, ast.Name]:
        found: dict[str, ast.Name] = {}
        for node in nodes:
            for name, where in self.free(node).items():
                found.setdefault(name, where)
        return found

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
            names = [name for name in self.free(body) if name not in scope]
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
        """A constant below 0, less an index, counts from the end."""
        if form.coefficient < 0 and form.constant < 0:
            return form._replace(constant=form.constant + length)
        return form

    def _integer(self, name: ast.Name) -> int | None:
        if name.id in self.values and isinstance(self.values[name.id], int):
            return int(self.values[name.id])
        if name.id in self.values or name.id in self.kinds:
            what = (
                f"is {self.values[name.id]!r}" if name.id in self.values else f"has shape {self.kinds[name.id].shape}"
            )
            if name.id in self.kinds and not self.kinds[name.id].shape:
                what = f"is an array: give {name.id}=int(...)"
            raise self.read.mistake(name, f"indices are made of integers; {name.id!r} {what}")
        return None

    # -------------------------------------------------------------------------- extents

    def _extend(self, index: Index) -> None:
        """Its range, or else the length of the axes it indexes plainly."""
        read, name = self.read, index.name
        span = read.spans.get(name)
        if span is not None:
            start, stop, step = (self._end(each) for each in (span.start, span.stop, span.step))
            if step == 0 and span.step is not None:
                raise read.mistake(span.step, f"the range of {name!r} has step 0")
            assert stop is not None
            index.run = range(start or 0, stop, 1 if step is None else step)
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

    def _end(self, node: ast.expr | None) -> int | None:
        if node is None:
            return None
        form = affine(self.read, node, self._integer)
        if form.name is not None:
            known = suggestion(form.name.id, [*self.kinds, *self.values])
            raise self.read.mistake(
                form.name,
                f"a range is made of integers; {form.name.id!r} is no operand{known or f': {form.name.id}=...'}",
            )
        return form.constant

    def _operand(self, use: Use) -> str:
        name = self.read.words(use.operand.value)
        return f"{self.read.words(use.operand)} ({name} has shape {self.kinds[name].shape})"

    @staticmethod
    def _fitting(index: Index) -> tuple[int, int]:
        """The longest start:stop with which every use stays inside its axis."""
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
    """The name of an aggregate, with or without its indices; None: another function."""
    func = node.func.value if isinstance(node.func, ast.Subscript) else node.func
    return func.id if isinstance(func, ast.Name) and func.id in AGGREGATES else None


class Compiler:
    """A comprehension on operands of certain kinds, as a graph of nodes without data."""

    def __init__(self, read: Comprehension, kinds: Mapping[str, Kind], values: Values) -> None:
        self.read = read
        self.kinds = kinds
        self.values = values
        self.inputs: dict[Node, Maker] = {}
        self._operands: dict[str, Node] = {}
        self._check_names()
        self.indices = Indices(read, kinds, values)
        self._depth = 0

    def _check_names(self) -> None:
        """Functions and operands are there, and no operand is left over."""
        read, given = self.read, {*self.kinds, *self.values}
        ends = [each for span in read.spans.values() for each in span[1:] if each is not None]
        seen = {each.id for end in (read.right, *ends) for each in ast.walk(end) if isinstance(each, ast.Name)}
        for node in ast.walk(read.right):
            if isinstance(node, ast.Call) and aggregate_of(node) is None:
                self._check_function(node.func)
            elif isinstance(node, ast.Subscript) and isinstance(node.value, ast.Name):
                name = node.value.id
                if name not in given and name not in AGGREGATES:
                    known = suggestion(name, given) or f": give it, {name}=..."
                    raise read.mistake(node.value, f"no operand is called {name!r}{known}")
        for name in sorted(given - seen):
            raise read.mistake(read.right, f"the operand {name!r} is not in the text{suggestion(name, seen - given)}")

    def _check_function(self, func: ast.expr) -> None:
        read = self.read
        if not isinstance(func, ast.Name):
            whole = read.words(func)
            plain = whole.rpartition(".")[2]
            hint = f": write {plain}(...)" if plain in {*FUNCTIONS, *AGGREGATES} and "." in whole else ""
            raise read.mistake(func, f"{whole} is no function of a comprehension{hint}")
        if func.id not in FUNCTIONS and func.id not in CASTS:
            known = suggestion(func.id, [*FUNCTIONS, *AGGREGATES, *CASTS])
            what = "an operand, indexed with [ ]" if func.id in self.kinds else "no elementwise function or aggregate"
            raise read.mistake(func, f"{func.id!r} is {what}{known}")

    def template(self) -> Template:
        """The whole."""
        left = self.indices.left
        found = self.term(self.build(self.read.right))
        node = build.strong(found.node)
        present = [index for index in left if index in found.indices]
        node = build.permuted(node, [found.indices.index(index) for index in present])
        if len(present) < len(left):
            shape = tuple(index.extent for index in left)
            node = build.viewed(node, shape, [Access(left.index(index)) for index in present])
        return Template(node, self.inputs)

    # ---------------------------------------------------------------------- expressions

    def build(self, node: ast.expr) -> Term | Number:
        """An expression; what NumPy says is wrong with it is said with its place."""
        try:
            return self._build(node)
        except ComprehensionError:
            raise
        except (TypeError, ValueError, OverflowError) as error:
            raise self.read.mistake(node, str(error)) from error

    def _build(self, node: ast.expr) -> Term | Number:
        if isinstance(node, ast.Constant) and type(node.value) in WEAK:
            return _known(node.value)
        if isinstance(node, ast.Name):
            return self._name(node)
        if isinstance(node, ast.Subscript):
            return self._subscript(node)
        if isinstance(node, ast.BinOp) and type(node.op) in _BINARY:
            left, right = self.build(node.left), self.build(node.right)
            if isinstance(node.op, ast.Pow) and isinstance(left, Term) and isinstance(right, Number):
                return self._power(left, right)
            return self._ufunc(_BINARY[type(node.op)], left, right)
        if isinstance(node, ast.UnaryOp) and type(node.op) in _UNARY:
            return self._ufunc(_UNARY[type(node.op)], self.build(node.operand))
        if isinstance(node, ast.Compare) and all(type(op) in _BINARY for op in node.ops):
            return self._compare(node)
        if isinstance(node, ast.IfExp):
            return self._called(ufuncs.where, [self.build(each) for each in (node.test, node.body, node.orelse)], {})
        if isinstance(node, ast.Call):
            return self._aggregate(node) if aggregate_of(node) is not None else self._call(node)
        instead = _INSTEAD.get(type(getattr(node, "op", None)))
        if instead is not None:
            raise self.read.mistake(node, f"write {instead}")
        raise self.read.mistake(node, f"{self.read.words(node)} is no part of a comprehension: {type(node).__name__}")

    def _name(self, node: ast.Name) -> Term | Number:
        name = node.id
        if node in self.indices.of:
            return self._positions(self.indices.of[node])
        if name in self.kinds:
            shape = self.kinds[name].shape
            if shape:
                sketch = ",".join("ijklmnopqrst"[axis % 12] for axis in range(len(shape)))
                raise self.read.mistake(node, f"{name} has shape {shape}: index it, {name}[{sketch}]")
            return Term((), self._operand(name))
        if name in self.values:
            value = self.values[name]
            if isinstance(value, int):
                return Number(value, lambda values: values[name], True)
            return Number(value, lambda values: values[name], False)
        if name in CONSTANTS:
            return _known(CONSTANTS[name])
        known = suggestion(name, [*self.kinds, *self.values, *self.indices.names])
        raise self.read.mistake(node, f"{name!r} is neither an operand nor an index{known}")

    def _operand(self, name: str) -> Node:
        """An operand: a leaf without data."""
        if name not in self._operands:
            node = Node(LEAF, (), self.kinds[name])
            self._operands[name] = node
            self.inputs[node] = lambda nodes, values: nodes[name]
        return self._operands[name]

    def _positions(self, index: Index) -> Term:
        """The values of an index, int64."""
        run = index.run
        node = Node(LEAF, (), kind_of((len(run),), np.dtype(np.int64)))
        self.inputs[node] = lambda nodes, values: _table(run)
        return Term((index,), node)

    def _subscript(self, node: ast.Subscript) -> Term:
        """An operand that is indexed: a view, unless it is indexed plainly."""
        assert isinstance(node.value, ast.Name)
        operand = self._operand(node.value.id)
        forms = self.indices.subscripts[node]
        own = tuple(dict.fromkeys(index for index, _ in forms if index is not None))
        access = []
        for index, (_, by, constant) in forms:
            if index is None:
                access.append(Access(-1, constant, 0))
                continue
            run = index.run
            start, step = (by * run[0] + constant if run else 0), (by * run.step if len(run) > 1 else 1)
            access.append(Access(own.index(index), start, step))
        shape = tuple(index.extent for index in own)
        if shape == operand.kind.shape and access == [Access(axis) for axis in range(len(shape))]:
            return Term(own, operand)
        return Term(own, build.viewed(operand, shape, access))

    def _power(self, base: Term, exponent: Number) -> Term:
        """With NumPy's short ways where the exponent is the same in every call."""
        if exponent.known and exponent.value in _POWERS:
            return Term(base.indices, _pow(wrap(base.node), exponent.value)._node)
        found = self._ufunc(np.power, base, exponent)
        assert isinstance(found, Term)
        return found

    def _compare(self, node: ast.Compare) -> Term | Number:
        parts = [self.build(each) for each in (node.left, *node.comparators)]
        found = self._ufunc(_BINARY[type(node.ops[0])], parts[0], parts[1])
        for op, left, right in zip(node.ops[1:], parts[1:], parts[2:], strict=False):
            found = self._ufunc(np.logical_and, found, self._ufunc(_BINARY[type(op)], left, right))
        return found

    def _call(self, node: ast.Call) -> Term | Number:
        read = self.read
        assert isinstance(node.func, ast.Name)
        name = node.func.id
        for each in node.args:
            if isinstance(each, ast.Starred):
                raise read.mistake(each, "arguments are written one by one")
        args = [self.build(each) for each in node.args]
        named = {str(each.arg): self.build(each.value) for each in node.keywords}
        if name in CASTS:
            if len(args) != 1 or named:
                raise read.mistake(node, f"{name} casts one expression")
            term = self.term(args[0])
            return Term(term.indices, build.cast(build.strong(term.node), CASTS[name]))
        ufunc = getattr(np, ufuncs.STANDARD.get(name, name), None)
        if isinstance(ufunc, np.ufunc) and name not in ("ceil", "floor", "trunc"):
            if len(args) != ufunc.nin or named:
                raise read.mistake(node, f"{name} takes {ufunc.nin} argument{'s' if ufunc.nin > 1 else ''}")
            return self._ufunc(ufunc, *args)
        return self._called(FUNCTIONS[name], args, named)

    # --------------------------------------------------------------------- combinations

    def _ufunc(self, ufunc: np.ufunc, *parts: Term | Number) -> Term | Number:
        numbers = [part for part in parts if isinstance(part, Number)]
        if len(numbers) == len(parts):
            makes = [number.make for number in numbers]

            def make(values: Values) -> Any:
                with np.errstate(all="ignore"):
                    return np.asarray(ufunc(*[each(values) for each in makes])).item()

            return Number(make(self.values), make, all(number.known for number in numbers))
        indices, nodes = self._aligned(parts)
        return Term(indices, build.apply(ew.of_ufunc(ufunc), *nodes))

    def _called(self, function: Callable[..., Any], args: Sequence[Term | Number], named: Mapping[str, Any]) -> Term:
        """A function of arrays; numbers that every call shares go in as they are."""
        indices, nodes = self._aligned([*args, *named.values()])
        given = [
            part.value if isinstance(part, Number) and part.known and isinstance(part.value, int) else wrap(node)
            for part, node in zip([*args, *named.values()], nodes, strict=True)
        ]
        found = function(*given[: len(args)], **dict(zip(named, given[len(args) :], strict=True)))
        return Term(indices, found._node)

    def term(self, part: Term | Number) -> Term:
        """A number as an array of no dimensions."""
        if isinstance(part, Term):
            return part
        node = Node(PARAM, (), WEAK[type(part.value)])
        node.value = part.value
        make = part.make
        self.inputs[node] = lambda nodes, values: parameter(make(values))
        return Term((), node)

    def _aligned(self, parts: Sequence[Term | Number]) -> tuple[tuple[Index, ...], list[Node]]:
        """Nodes that broadcast against each other, and the indices of the axes of what they broadcast to.

        Inside aggregates in the order in which indices appear, so that operands are read along their rows; outside
        as on the left.
        """
        terms = [self.term(part) for part in parts]
        indices = tuple(dict.fromkeys(index for term in terms for index in term.indices))
        if not self._depth and any(term.indices != indices for term in terms if term.indices):
            indices = tuple(index for index in self.indices.left if index in indices)
        return indices, [_spread(term, indices) for term in terms]

    # ----------------------------------------------------------------------- aggregates

    def _aggregate(self, node: ast.Call) -> Term:
        how, body, over = aggregate_of(node), node.args[0], self.indices.over[node]
        assert how is not None
        self._depth += 1
        whole = self.term(self.build(body))
        found = self._contracted(how, body, over, whole) if all(index.extent for index in over) else None
        self._depth -= 1
        if found is not None:
            return found
        missing = tuple(index for index in over if index not in whole.indices)
        indices = missing + whole.indices
        value = build.strong(whole.node)
        if missing:
            value = build.broadcast(value, tuple(index.extent for index in indices))
        axes = tuple(axis for axis, index in enumerate(indices) if index in over)
        kept = tuple(index for index in indices if index not in over)
        return Term(kept, AGGREGATES[how](wrap(value), axis=axes)._node)

    def _contracted(self, how: str, body: ast.expr, over: tuple[Index, ...], whole: Term) -> Term | None:
        """A sum of a product, a mean of one, or whether any of a conjunction holds: pair by pair, as einsum.

        Factors without summed indices are multiplied in afterwards.  None if the body is no such product.
        """
        if how not in ("sum", "mean", "any"):
            return None
        dtype = whole.node.kind.dtype
        target = {"sum": ag.SUM, "mean": ag.MEAN, "any": ag.ANY}[how].result(dtype)
        inner: list[Term] = []
        outer: list[tuple[np.ufunc, Term | Number]] = []
        quotients: list[Term] = []
        for ufunc, each in _factors(body, ast.BitAnd if how == "any" else ast.Mult):
            part = self.build(each) if each is not None else _known(-1)
            if isinstance(part, Number) or not any(index in over for index in part.indices):
                outer.append((np.negative if each is None else ufunc, part))
            elif ufunc is np.divide:
                quotients.append(part)
            else:
                inner.append(part)
        for part in quotients:
            k = next((k for k, term in enumerate(inner) if set(part.indices) <= set(term.indices)), None)
            divided = self._ufunc(np.divide, _known(1) if k is None else inner[k], part)
            assert isinstance(divided, Term)
            inner[len(inner) if k is None else k : len(inner) if k is None else k + 1] = [divided]
        touched = {index for term in inner for index in term.indices}
        apart = any(isinstance(part, Term) and set(part.indices) - touched for _, part in outer)
        if not set(over) <= touched or (len(inner) < 2 and not apart) or len(touched) > 52:
            return None
        if how == "any" and any(term.node.kind.dtype.kind != "b" for term in inner):
            return None
        if how != "any" and np.result_type(*[term.node.kind.dtype for term in inner]) != target:
            inner = [Term(term.indices, build.cast(build.strong(term.node), target)) for term in inner]
        found: Term | Number = self._einsum(inner, over)
        if how == "mean":
            found = self._ufunc(np.divide, found, _known(prod(index.extent for index in over)))
        for ufunc, part in outer:
            found = self._ufunc(ufunc, found) if ufunc is np.negative else self._ufunc(ufunc, found, part)
        assert isinstance(found, Term)
        return Term(found.indices, build.cast(found.node, target))

    def _einsum(self, factors: Sequence[Term], over: tuple[Index, ...]) -> Term:
        """The sum over `over` of a product."""
        every = list(dict.fromkeys(index for term in factors for index in term.indices))
        letters = {index: "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"[k] for k, index in enumerate(every)}
        left = self.indices.left
        kept = [index for index in every if index not in over]
        kept.sort(key=lambda index: left.index(index) if index in left else len(left))
        sides = [
            "".join(letters[index] for index in indices) for indices in (*[term.indices for term in factors], kept)
        ]
        found = contraction.einsum(f"{','.join(sides[:-1])}->{sides[-1]}", *[wrap(term.node) for term in factors])
        return Term(tuple(kept), found._node)


def _known(value: Any) -> Number:
    return Number(value, lambda values: value, True)


def _factors(node: ast.expr, product: type[ast.operator]) -> list[tuple[np.ufunc, ast.expr | None]]:
    """The factors of a product, each with how it is multiplied in; None: a change of sign."""
    if isinstance(node, ast.BinOp) and isinstance(node.op, product):
        return _factors(node.left, product) + _factors(node.right, product)
    if product is ast.Mult and isinstance(node, ast.BinOp) and isinstance(node.op, ast.Div):
        return [*_factors(node.left, product), (np.divide, node.right)]
    if product is ast.Mult and isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        return [*_factors(node.operand, product), (np.negative, None)]
    return [(_BINARY[product], node)]


def _spread(term: Term, indices: tuple[Index, ...]) -> Node:
    """A term's node with its axes in this order, and axes of length 1 where it has not an index."""
    present = [index for index in indices if index in term.indices]
    node = build.permuted(term.node, [term.indices.index(index) for index in present])
    if not present:
        return node
    first = indices.index(present[0])
    axes = [k for k, index in enumerate(indices[first:]) if index not in present]
    return build.expanded(node, axes) if axes else node


def _table(run: range) -> Node:
    """The positions of an index."""
    shape = (len(run),)
    layout = replicated(shape) if len(run) <= _TABLE else automatic(shape, world().nprocs)

    def make(size: Any, box: Any) -> Any:
        return np.arange(box[0][0], box[0][1], dtype=np.int64) * run.step + run.start

    return made(shape, np.dtype(np.int64), layout, make)._node
