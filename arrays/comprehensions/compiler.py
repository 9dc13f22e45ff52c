"""The function `comprehension`, and the compiler from a comprehension's text to a graph of nodes.

An index names positions: operands are joined where their indices are equal, and an aggregate groups by the indices
on the left (Khan and Fegaras, section 2; einsum is the case of one sum of one product).  A comprehension becomes the
same graph that NumPy's functions would give.  Subscripts become views.  A sum of products becomes a contraction,
planned as `@` is.  Anything else becomes one fused elementwise program, whose values are reduced as they are computed.

Each text is parsed once.  For each combination of shapes, dtypes and integers it is compiled once, into a template: a
graph whose leaves have no data yet.  Each call fills the template with its operands.
"""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable, Mapping, Sequence
from functools import reduce
from inspect import signature
from math import prod
from typing import Any, NamedTuple

import numpy as np

from bsp.arrays import build
from bsp.arrays.api import contraction, ufuncs
from bsp.arrays.api.creation import made
from bsp.arrays.array import _POWERS, Array, _pow, wrap
from bsp.arrays.comprehensions.names import (
    AGGREGATES,
    CASTS,
    CONSTANTS,
    FUNCTIONS,
    Index,
    Indices,
    Values,
    aggregate_of,
)
from bsp.arrays.comprehensions.syntax import Comprehension, parsed
from bsp.arrays.errors import ComprehensionError
from bsp.arrays.execution.world import world
from bsp.arrays.expressions.graph import LEAF, PARAM, WEAK, Access, Kind, Node, Operation, kind_of, parameter
from bsp.arrays.expressions.layout import automatic, replicated
from bsp.arrays.kernels import elementwise as ew
from bsp.arrays.sorting.grouping import AGGREGATES as BY_GROUP
from bsp.arrays.typing import ArrayLike

BINARY: dict[type, np.ufunc] = {
    ast.Add: np.add, ast.Sub: np.subtract, ast.Mult: np.multiply, ast.Div: np.divide, ast.FloorDiv: np.floor_divide,
    ast.Mod: np.remainder, ast.Pow: np.power, ast.BitAnd: np.bitwise_and, ast.BitOr: np.bitwise_or,
    ast.BitXor: np.bitwise_xor, ast.LShift: np.left_shift, ast.RShift: np.right_shift, ast.Eq: np.equal,
    ast.NotEq: np.not_equal, ast.Lt: np.less, ast.LtE: np.less_equal, ast.Gt: np.greater, ast.GtE: np.greater_equal,
}  # fmt: skip
_UNARY: dict[type, np.ufunc] = {ast.USub: np.negative, ast.UAdd: np.positive, ast.Invert: np.invert}
_EXACT: dict[np.ufunc, Callable[..., Any]] = {
    np.add: operator.add, np.subtract: operator.sub, np.multiply: operator.mul, np.divide: operator.truediv,
    np.floor_divide: operator.floordiv, np.remainder: operator.mod, np.power: operator.pow,
    np.left_shift: operator.lshift, np.right_shift: operator.rshift, np.negative: operator.neg,
}  # fmt: skip
_COMPILED = 1024
_TABLE = 1 << 20  # up to this length the positions of an index are replicated; longer ones are dealt in blocks
_compiled: dict[Any, Any] = {}

Maker = Callable[[Mapping[str, Node], Values], Node]  # makes an input of a template from the operands of a call


def comprehension(text: str, /, **operands: ArrayLike) -> Array:
    """Return the array that a comprehension describes, as a lazy expression; only groups are computed at once.

        comprehension("C[i,j] = sum(A[i,k] * B[k,j])", A=a, B=b)                a product of matrices
        comprehension("D[i,j] = min(A[i,k] + A[k,j])", A=a)                     a step of all shortest paths
        comprehension("x[i] = sum[j](A[i,j] * max[k](B[j,k]))", A=a, B=b)       an aggregate inside another
        comprehension("d[i] = A[i+1] - A[i] for i in 0:n-1", A=a, n=len(a))     an affine index needs a range
        comprehension("S[b[i]] = sum(x[i]) for b[i] in 0:9", b=b, x=x)          sums by group

    operands : the operands by their names in the text: arrays, NumPy array-likes, or numbers.
    Left : the result's name, and the plain names of its indices, in the order of its axes.
    Right : + - * / // % ** << >> & | ^ ~, comparisons, `x if c else y`, elementwise functions and dtypes by NumPy's
    names, pi, e, inf, nan.
    1. The same index on several axes joins them by equality; on two axes of one operand it takes the diagonal.  An
       index is also a value: its position, int64.
    2. An axis may be indexed by coefficient·i + constant, with integers and integer operands.  A negative constant,
       alone or less an index, counts from the end: A[-1], A[-1-i].
    3. Aggregates: sum, prod, min, max, any, all, mean, var, std.  `sum[k](...)` is over k; `sum(...)` is over the
       indices inside that are neither on the left nor bound by an enclosing or an inner aggregate.  Each aggregate
       has indices of its own.
    4. The extent of an index is that of the axes it indexes plainly, unless it has a range, `for i in start:stop:step`
       (Python's range); position 0 of the result's axis then is i = start.
    5. A computed index on the left names a group: in S[b[i]] = sum(x[i]) each b[i] is an integer from 0, or in its
       range.  S[i//4] has bins, S[(i+1) % n] is rotated, and S[i+1], for i+1 in 0:n+2, is padded.  An aggregate
       combines the members of a group, separately for each of the other indices on the left: S[b[i], c[i]] = sum(1)
       counts pairs, S[b[i], j] = mean(X[i,j]) averages rows.  For an empty group sum gives 0, prod 1, min inf (for
       integers the greatest one), mean nan.  Collective: the values are computed at once.
    The factors of a product of integers inside sum, prod, mean, var or std have the dtype of the aggregate: products of
    small integers do not overflow.
    Sparse operands (`bsp.arrays.sparse`): their absent entries do not take part, as if they were the zero of the
    aggregate.  The result is sparse where both indices of one are on the left, and for products of two.

    Cost: a sum of a product costs as much as matmul.  Factors without summed indices are multiplied in afterwards, and
    three or more factors are taken in einsum's order; so with an infinite factor a sum may be inf where adding the
    products one by one gives nan.  Any other comprehension has W = its elementwise operations,
    stores none of their results, and has h as for reductions.  Groups take two supersteps: one finds the least and
    the greatest key, one brings together the groups of all processes, with h at most 2g words for g groups.  NumPy
    operands must be equal on all processes; each process keeps its blocks.
    Raises ComprehensionError, with a caret under the mistake.
    """
    if not isinstance(text, str):
        raise TypeError(f"comprehension() takes a text, not {type(text).__name__}")
    for value in operands.values():
        described = getattr(type(value), "__array_comprehension__", None)
        if described is not None:
            return described(text, operands)  # type: ignore[no-any-return]
    read = parsed(text)
    nodes, values = named_operands(operands)
    key: list[Any] = [text]
    for name in sorted(operands):
        number = values.get(name)
        kind = nodes[name].kind if name in nodes else None
        key.append((name, number if isinstance(number, int) else None, type(number), kind))
    if read.keys:
        from bsp.arrays.comprehensions.groups import grouped  # imported here: that module imports this one

        return wrap(grouped(read, nodes, values, tuple(key)))
    template = compiled(tuple(key), lambda: _compiler(read, nodes, values).template())
    return wrap(template.filled(nodes, values)[0])


def named_operands(operands: Mapping[str, Any]) -> tuple[dict[str, Node], dict[str, Any]]:
    """Return the arrays among the operands, as nodes, and the numbers; a NumPy integer is in both.

    Its use in an index takes the number; its use as a value keeps the dtype, by the node.
    """
    nodes, values = {}, {}
    for name, value in operands.items():
        if type(value) in WEAK:
            values[name] = value
            continue
        if isinstance(value, (np.ndarray, np.integer)) and not np.ndim(value) and np.asarray(value).dtype.kind in "iu":
            values[name] = int(value)
        nodes[name] = build.operand(value)
    return nodes, values


def compiled(key: tuple[Any, ...], make: Callable[[], Any]) -> Any:
    """Return the cached template for a text and the kinds of its operands; call `make` if there is none."""
    found = _compiled.get(key)
    if found is None:
        found = make()
        if len(_compiled) >= _COMPILED:
            _compiled.clear()
        _compiled[key] = found
    return found


def _compiler(read: Comprehension, nodes: Mapping[str, Node], values: Values) -> Compiler:
    return Compiler(read, {name: node.kind for name, node in nodes.items()}, values)


class Step(NamedTuple):
    """An operation in a template, on the results of earlier steps."""

    op: Operation
    args: tuple[int, ...]
    kind: Kind


class Template:
    """A graph whose leaves have no data: a list of steps in topological order, filled by each call."""

    def __init__(self, roots: Sequence[Node], inputs: Mapping[Node, Maker]) -> None:
        self.steps: list[Step | Maker] = []
        index: dict[Node, int] = {}
        stack = [*roots]
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
        self.roots = [index[root] for root in roots]

    def filled(self, nodes: Mapping[str, Node], values: Values) -> list[Node]:
        """Build the graph on the operands of a call; return its roots."""
        built: list[Node] = []
        for step in self.steps:
            if isinstance(step, Step):
                built.append(Node(step.op, tuple([built[k] for k in step.args]), step.kind))
            else:
                built.append(step(nodes, values))
        return [built[k] for k in self.roots]


def _constant(value: Any) -> Maker:
    return lambda nodes, values: parameter(value)


class ArrayTerm(NamedTuple):
    """An expression of arrays: a node, and the index of each of its axes."""

    indices: tuple[Index, ...]
    node: Node


class Number(NamedTuple):
    """An expression of numbers only.  `value` is an example of its type; `make` computes the number of a call."""

    value: Any
    make: Callable[[Values], Any]
    known: bool  # whether every call of this template has the same number


class Compiler:
    """Compiles a comprehension, for operands of given kinds, to a graph of nodes without data."""

    def __init__(self, read: Comprehension, kinds: Mapping[str, Kind], values: Values) -> None:
        self.read = read
        self.kinds = kinds
        self.values = values
        self.inputs: dict[Node, Maker] = {}
        self._operands: dict[str, Node] = {}
        self.indices = Indices(read, kinds, values)
        self._depth = 0

    def template(self) -> Template:
        """Compile the whole comprehension; the axes of the result are in the order of the left side."""
        left = self.indices.left
        found = self.term(self.build(self.read.right))
        node = build.strong(found.node)
        present = [index for index in left if index in found.indices]
        node = build.permuted(node, [found.indices.index(index) for index in present])
        if len(present) < len(left):
            shape = tuple(index.extent for index in left)
            node = build.viewed(node, shape, [Access(left.index(index)) for index in present])
        return Template([node], self.inputs)

    # ---------------------------------------------------------------------- expressions

    def build(self, node: ast.expr) -> ArrayTerm | Number:
        """Compile an expression; re-raise an error of NumPy as one that points at the expression in the text."""
        try:
            return self._build(node)
        except ComprehensionError:
            raise
        except (TypeError, ValueError, ArithmeticError) as error:
            raise self.read.mistake(node, str(error)) from error

    def _build(self, node: ast.expr) -> ArrayTerm | Number:
        if isinstance(node, ast.Constant) and type(node.value) in WEAK:
            return _known(node.value)
        if isinstance(node, ast.Name):
            return self._name(node)
        if isinstance(node, ast.Subscript):
            return self._subscript(node)
        if isinstance(node, ast.BinOp) and type(node.op) in BINARY:
            left, right = self.build(node.left), self.build(node.right)
            if isinstance(node.op, ast.Pow) and isinstance(left, ArrayTerm) and isinstance(right, Number):
                return self._power(left, right)
            return self._ufunc(BINARY[type(node.op)], left, right)
        if isinstance(node, ast.UnaryOp) and type(node.op) in _UNARY:
            return self._ufunc(_UNARY[type(node.op)], self.build(node.operand))
        if isinstance(node, ast.Compare) and all(type(op) in BINARY for op in node.ops):
            return self._compare(node)
        if isinstance(node, ast.IfExp):
            return self._called(ufuncs.where, [self.build(each) for each in (node.test, node.body, node.orelse)], {})
        if isinstance(node, ast.Call):
            return self._aggregate(node) if aggregate_of(node) is not None else self._call(node)
        raise self.read.mistake(node, f"{self.read.words(node)} is no part of a comprehension: {type(node).__name__}")

    def _name(self, node: ast.Name) -> ArrayTerm | Number:
        name = node.id
        if node in self.indices.of:
            return self._positions(self.indices.of[node])
        if name in self.kinds:
            return ArrayTerm((), self._operand(name))
        if name in self.values:
            value = self.values[name]
            if isinstance(value, int):
                return Number(value, lambda values: values[name], True)
            return Number(value, lambda values: values[name], False)
        return _known(CONSTANTS[name])

    def _operand(self, name: str) -> Node:
        """Return the leaf of an operand, without data; one leaf for each name."""
        if name not in self._operands:
            node = Node(LEAF, (), self.kinds[name])
            self._operands[name] = node
            self.inputs[node] = lambda nodes, values: nodes[name]
        return self._operands[name]

    def _positions(self, index: Index) -> ArrayTerm:
        """Return the positions of an index as an int64 vector."""
        run = index.run
        node = Node(LEAF, (), kind_of((len(run),), np.dtype(np.int64)))
        self.inputs[node] = lambda nodes, values: _table(run)
        return ArrayTerm((index,), node)

    def _subscript(self, node: ast.Subscript) -> ArrayTerm:
        """Compile a subscript to a view of the operand, or to the operand itself if it is shown unchanged."""
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
            return ArrayTerm(own, operand)
        return ArrayTerm(own, build.viewed(operand, shape, access))

    def _power(self, base: ArrayTerm, exponent: Number) -> ArrayTerm:
        """Compile a power; an exponent that every call shares may use square, sqrt or reciprocal, as in NumPy."""
        if exponent.known and exponent.value in _POWERS:
            return ArrayTerm(base.indices, _pow(wrap(base.node), exponent.value)._node)
        found = self._ufunc(np.power, base, exponent)
        assert isinstance(found, ArrayTerm)
        return found

    def _compare(self, node: ast.Compare) -> ArrayTerm | Number:
        parts = [self.build(each) for each in (node.left, *node.comparators)]
        found = self._ufunc(BINARY[type(node.ops[0])], parts[0], parts[1])
        for op, left, right in zip(node.ops[1:], parts[1:], parts[2:], strict=False):
            found = self._ufunc(np.logical_and, found, self._ufunc(BINARY[type(op)], left, right))
        return found

    def _call(self, node: ast.Call) -> ArrayTerm | Number:
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
            return ArrayTerm(term.indices, build.cast(build.strong(term.node), CASTS[name]))
        ufunc = getattr(np, name, None)
        if isinstance(ufunc, np.ufunc) and name not in ("ceil", "floor", "trunc"):
            if len(args) != ufunc.nin or named:
                raise read.mistake(node, f"{name} takes {ufunc.nin} argument{'s' if ufunc.nin > 1 else ''}")
            return self._ufunc(ufunc, *args)
        function = FUNCTIONS[name]
        if "out" in {*[*signature(function).parameters][: len(args)], *named}:
            raise read.mistake(node, f"{name} has too many arguments: a comprehension has no array for the result")
        if name == "where" and len(args) != 3:
            raise read.mistake(node, "where takes 3 arguments: where(condition, x, y)")
        return self._called(function, args, named)

    # --------------------------------------------------------------------- combinations

    def _ufunc(self, ufunc: np.ufunc, *parts: ArrayTerm | Number) -> ArrayTerm | Number:
        numbers = [part for part in parts if isinstance(part, Number)]
        if len(numbers) == len(parts):
            makes = [number.make for number in numbers]

            def make(values: Values) -> Any:
                return _calculated(ufunc, [each(values) for each in makes])

            return Number(make(self.values), make, all(number.known for number in numbers))
        indices, nodes = self._aligned(parts)
        return ArrayTerm(indices, build.apply(ew.of_ufunc(ufunc), *nodes))

    def _called(
        self, function: Callable[..., Any], args: Sequence[ArrayTerm | Number], named: Mapping[str, Any]
    ) -> ArrayTerm:
        """Call a function of arrays; pass integers that every call shares as Python integers."""
        indices, nodes = self._aligned([*args, *named.values()])
        given = [
            part.value if isinstance(part, Number) and part.known and isinstance(part.value, int) else wrap(node)
            for part, node in zip([*args, *named.values()], nodes, strict=True)
        ]
        found = function(*given[: len(args)], **dict(zip(named, given[len(args) :], strict=True)))
        return ArrayTerm(indices, found._node)

    def term(self, part: ArrayTerm | Number) -> ArrayTerm:
        """Return an expression as a term: a number becomes a parameter, an array of no dimensions."""
        if isinstance(part, ArrayTerm):
            return part
        node = Node(PARAM, (), WEAK[type(part.value)])
        node.value = part.value
        make = part.make
        self.inputs[node] = lambda nodes, values: parameter(make(values))
        return ArrayTerm((), node)

    def _aligned(self, parts: Sequence[ArrayTerm | Number]) -> tuple[tuple[Index, ...], list[Node]]:
        """Return the indices of all terms together, and a node for each term with its axes in their order.

        The nodes broadcast against each other.  Inside aggregates the indices are in order of appearance, so that
        operands are read along their rows; outside they are in the order of the left side.
        """
        terms = [self.term(part) for part in parts]
        indices = tuple(dict.fromkeys(index for term in terms for index in term.indices))
        if not self._depth and any(term.indices != indices for term in terms if term.indices):
            indices = tuple(index for index in self.indices.left if index in indices)
        return indices, [_spread(term, indices) for term in terms]

    # ----------------------------------------------------------------------- aggregates

    def _aggregate(self, node: ast.Call) -> ArrayTerm:
        how, body, over = aggregate_of(node), node.args[0], self.indices.over[node]
        assert how is not None
        self._depth += 1
        whole = self.term(self.build(body))
        found = self._contracted(how, body, over, whole) if all(index.extent for index in over) else None
        whole = whole if found is not None else self.widened(how, body, whole)
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
        return ArrayTerm(kept, AGGREGATES[how](wrap(value), axis=axes)._node)

    def widened(self, how: str, body: ast.expr, whole: ArrayTerm) -> ArrayTerm:
        """Return the body of an aggregate; a product of integers gets factors of the aggregate's dtype.

        So products of small integers do not overflow before they are added.
        """
        dtype = whole.node.kind.dtype
        target = BY_GROUP[how].result(dtype)
        factors = [each for _, each in _factors(body, ast.Mult)]
        if dtype.kind not in "iu" or target.kind == "b" or target == dtype or len(factors) - factors.count(None) < 2:
            return whole
        wide: list[ArrayTerm | Number] = []
        for each in factors:
            part = _known(-1) if each is None else self.build(each)
            if isinstance(part, ArrayTerm):
                part = ArrayTerm(part.indices, build.cast(build.strong(part.node), target))
            wide.append(part)
        return self.term(reduce(lambda one, other: self._ufunc(np.multiply, one, other), wide))

    def _contracted(self, how: str, body: ast.expr, over: tuple[Index, ...], whole: ArrayTerm) -> ArrayTerm | None:
        """Compile a sum of a product, a mean of one, or any() of a conjunction, to an einsum over pairs of factors.

        Factors without summed indices are multiplied in afterwards.  Returns None if the body is no such product.
        """
        if how not in ("sum", "mean", "any"):
            return None
        dtype = whole.node.kind.dtype
        target = BY_GROUP[how].result(dtype)
        if target.kind == "m":  # no product of matrices has durations
            return None
        inner: list[ArrayTerm] = []
        outer: list[tuple[np.ufunc, ArrayTerm | Number]] = []
        quotients: list[ArrayTerm] = []
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
            assert isinstance(divided, ArrayTerm)
            inner[len(inner) if k is None else k : len(inner) if k is None else k + 1] = [divided]
        touched = {index for term in inner for index in term.indices}
        apart = any(isinstance(part, ArrayTerm) and set(part.indices) - touched for _, part in outer)
        if not set(over) <= touched or (len(inner) < 2 and not apart) or len(touched) > 52:
            return None
        if how == "any" and any(term.node.kind.dtype.kind != "b" for term in inner):
            return None
        if how != "any" and np.result_type(*[term.node.kind.dtype for term in inner]) != target:
            inner = [ArrayTerm(term.indices, build.cast(build.strong(term.node), target)) for term in inner]
        found: ArrayTerm | Number = self._einsum(inner, over)
        if how == "mean":
            found = self._ufunc(np.divide, found, _known(prod(index.extent for index in over)))
        for ufunc, part in outer:
            found = self._ufunc(ufunc, found) if ufunc is np.negative else self._ufunc(ufunc, found, part)
        assert isinstance(found, ArrayTerm)
        return ArrayTerm(found.indices, build.cast(found.node, target))

    def _einsum(self, factors: Sequence[ArrayTerm], over: tuple[Index, ...]) -> ArrayTerm:
        """Return the sum over `over` of the product of some factors."""
        every = list(dict.fromkeys(index for term in factors for index in term.indices))
        letters = {index: "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"[k] for k, index in enumerate(every)}
        left = self.indices.left
        kept = [index for index in every if index not in over]
        kept.sort(key=lambda index: left.index(index) if index in left else len(left))
        sides = [
            "".join(letters[index] for index in indices) for indices in (*[term.indices for term in factors], kept)
        ]
        found = contraction.einsum(f"{','.join(sides[:-1])}->{sides[-1]}", *[wrap(term.node) for term in factors])
        return ArrayTerm(tuple(kept), found._node)


def _known(value: Any) -> Number:
    return Number(value, lambda values: value, True)


def _calculated(ufunc: np.ufunc, numbers: list[Any]) -> Any:
    """Apply a ufunc to Python numbers: exactly, by Python, if all are integers; else by NumPy."""
    if ufunc in _EXACT and all(type(number) is int for number in numbers):
        if ufunc in (np.power, np.left_shift) and abs(numbers[1]) > 1024:
            raise OverflowError(f"{ufunc.__name__}: {numbers[1]} is too much for an exact integer")
        return _EXACT[ufunc](*numbers)
    with np.errstate(all="ignore"):
        return np.asarray(ufunc(*numbers)).item()


def _factors(node: ast.expr, product: type[ast.operator]) -> list[tuple[np.ufunc, ast.expr | None]]:
    """Split a product into factors, each with the ufunc that combines it; the factor None is a change of sign."""
    if isinstance(node, ast.BinOp) and isinstance(node.op, product):
        return _factors(node.left, product) + _factors(node.right, product)
    if product is ast.Mult and isinstance(node, ast.BinOp) and isinstance(node.op, ast.Div):
        return [*_factors(node.left, product), (np.divide, node.right)]
    if product is ast.Mult and isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        return [*_factors(node.operand, product), (np.negative, None)]
    return [(BINARY[product], node)]


def _spread(term: ArrayTerm, indices: tuple[Index, ...]) -> Node:
    """Return a term's node with its axes in the order of `indices`, and an axis of length 1 for each one it lacks."""
    present = [index for index in indices if index in term.indices]
    node = build.permuted(term.node, [term.indices.index(index) for index in present])
    if not present:
        return node
    first = indices.index(present[0])
    axes = [k for k, index in enumerate(indices[first:]) if index not in present]
    return build.expanded(node, axes) if axes else node


def _table(run: range) -> Node:
    """Return the leaf with the positions of an index: replicated if short, else in blocks.  No words."""
    shape = (len(run),)
    layout = replicated(shape) if len(run) <= _TABLE else automatic(shape, world().nprocs)

    def make(size: Any, box: Any) -> Any:
        return np.arange(box[0][0], box[0][1], dtype=np.int64) * run.step + run.start

    return made(shape, np.dtype(np.int64), layout, make)._node
