"""Comprehensions over sparse operands: their absent entries do not take part.

An aggregate over A[i,k] becomes a vector over the entries of A, in which each operand has its elements at the entries'
positions along some of the axes, and which is combined along the axes that the aggregate is over.  So every expression
that holds for dense operands holds for sparse ones, of any number of axes, with the absent entries as the zero of the
aggregate.  Where all indices of A are on the left, the result is sparse and has the places of A.  Products of two
sparse matrices are those of `matmul`.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable
from copy import deepcopy
from typing import Any

import numpy as np

from bsp.arrays.api.creation import arange, asarray, full
from bsp.arrays.array import Array
from bsp.arrays.comprehensions.compiler import BINARY, comprehension, named_operands
from bsp.arrays.comprehensions.names import Indices, aggregate_of, check_all_named, free, outermost
from bsp.arrays.comprehensions.syntax import Comprehension, axes_of, parsed
from bsp.arrays.errors import ArrayError, ComprehensionError
from bsp.arrays.expressions.graph import kind_of
from bsp.arrays.sparse.array import SparseArray
from bsp.arrays.sparse.base import SparseBase
from bsp.arrays.sparse.creation import as_sparse
from bsp.arrays.sparse.semirings import Semiring

_ADD: dict[str, np.ufunc] = {
    "sum": np.add, "prod": np.multiply, "min": np.minimum, "max": np.maximum, "any": np.logical_or,
    "all": np.logical_and,
}  # fmt: skip


def comprehended(text: str, operands: dict[str, Any]) -> Any:
    """Return what a comprehension with sparse operands describes: a dense array, lazy, or a sparse one.

    Raises ComprehensionError, with a caret under the mistake.
    """
    read = parsed(text)
    check_all_named(read, operands.keys())
    for what in (*read.keys.values(), *(span.name for span in read.spans.values())):
        raise read.mistake(what, "with sparse operands an index has no range, and no groups")
    whole = _Sparse(read, operands)
    for node in whole._sparse_in(read.right):
        whole._indices(node)
    sparse = {name: each for name, each in operands.items() if isinstance(each, SparseBase)}
    nodes, values = named_operands({name: each for name, each in operands.items() if name not in sparse})
    kinds = {name: kind_of(each.shape, each.dtype) for name, each in sparse.items()}
    kinds |= {name: node.kind for name, node in nodes.items()}
    Indices(read, kinds, values)  # raises for mistakes that dense operands may have, too
    return whole.result()


class _Sparse:
    """A comprehension with sparse operands."""

    def __init__(self, read: Comprehension, operands: dict[str, Any]) -> None:
        self.read = read
        self.operands = operands
        self.left = [each.id for each in read.left]
        self.prefix = "_"  # of names that are made here: no operand or index begins with it
        while self.prefix in read.text:
            self.prefix += "_"

    def result(self) -> Any:
        """Return the array that the comprehension describes."""
        read = self.read
        subscripts = self._sparse_in(read.right)
        for node in subscripts:
            names = self._indices(node)
            if set(names) <= set(self.left):
                return self._placed(node, names)
        calls = [call for call in outermost(read.right) if self._sparse_in(call)]
        if len(calls) == 1 and calls[0] is read.right and (found := self._of_two(calls[0])) is not None:
            return found
        results: dict[str, Any] = {}
        replaced: dict[int, ast.expr] = {}
        for number, call in enumerate(calls):
            array, axes = self._aggregate(call)
            name = f"{self.prefix}{number}"
            results[name] = array
            replaced[id(call)] = _subscript(name, axes)
        return self._rest(results, replaced)

    def _rest(self, results: dict[str, Any], replaced: dict[int, ast.expr]) -> Array:
        """Return the right side, with the results of aggregates in their places."""
        right = _swapped(self.read.right, replaced)
        return self._evaluated(self.left, right, {**self.operands, **results}, self.read.right)

    def _evaluated(self, left: list[str], right: ast.expr, operands: dict[str, Any], where: ast.expr) -> Array:
        """Return what an expression of dense operands, made of the part `where` of the text, describes."""
        text = f"_[{', '.join(left)}] = {ast.unparse(right)}" if left else f"_ = {ast.unparse(right)}"
        named = {each.id for each in ast.walk(right) if isinstance(each, ast.Name)}
        try:
            return comprehension(text, **{name: each for name, each in operands.items() if name in named})
        except ComprehensionError as wrong:  # its text is one that the user has not written
            raise self.read.mistake(where, str(wrong).partition("\n")[0]) from None

    def _sparse_in(self, node: ast.AST) -> list[ast.Subscript]:
        """Return the subscripts of sparse operands in an expression."""
        return [
            each for each in ast.walk(node)
            if isinstance(each, ast.Subscript) and isinstance(each.value, ast.Name)
            and isinstance(self.operands.get(each.value.id), SparseBase)
        ]  # fmt: skip

    def _array(self, node: ast.Subscript) -> Any:
        assert isinstance(node.value, ast.Name)
        return self.operands[node.value.id]

    def _indices(self, node: ast.Subscript) -> list[str]:
        """Return the indices of a sparse operand, by axis."""
        axes, ndim = axes_of(node), self._array(node).ndim
        names = [each.id for each in axes if isinstance(each, ast.Name) and each.id not in self.operands]
        if len(axes) != ndim or len(set(names)) != ndim:
            many = {1: "one plain index", 2: "two different plain indices, as in A[i,k]"}
            raise self.read.mistake(
                node, f"a sparse operand of {ndim} axes has {many.get(ndim, f'{ndim} different plain indices')}"
            )
        return names

    # ------------------------------------------------------------------------------- results

    def _placed(self, node: ast.Subscript, names: list[str]) -> Any:
        """Return the sparse result that has the places of a sparse operand."""
        if set(self.left) != set(names):
            raise self.read.mistake(node, "the result has the places of this: its indices alone are on the left")
        places = self._array(node)
        at = _AtEntries(self, places, names, None)
        right = at.visit(deepcopy(self.read.right))
        found = places.with_entries(self._evaluated([at.entry], right, at.operands, self.read.right))
        return _turned(found, [names.index(each) for each in self.left])

    def _over(self, call: ast.Call) -> tuple[str, ast.expr, list[str]]:
        """Return the aggregate's name, its expression, and the indices that it is over."""
        how = aggregate_of(call)
        if how not in _ADD:
            raise self.read.mistake(call, f"of sparse operands there are {', '.join(_ADD)}")
        if len(call.args) != 1 or call.keywords:
            raise self.read.mistake(call, f"{how} aggregates one expression")
        if isinstance(call.func, ast.Subscript):
            over = [each.id for each in axes_of(call.func) if isinstance(each, ast.Name)]
        else:
            over = [name for name in free(call.args[0], self._names(call)) if name not in self.left]
        return how, call.args[0], over

    def _names(self, node: ast.AST) -> set[str]:
        """Return all indices in the subscripts of an expression."""
        return {
            name.id
            for each in ast.walk(node) if isinstance(each, ast.Subscript)
            for axis in axes_of(each) for name in ast.walk(axis)
            if isinstance(name, ast.Name) and name.id not in self.operands
        }  # fmt: skip

    def _aggregate(self, call: ast.Call) -> tuple[Array, list[str]]:
        """Return an aggregate over the entries of a sparse operand, and the indices of its axes."""
        how, body, over = self._over(call)
        node = self._sparse_in(body)[0]
        names, places = self._indices(node), self._array(node)
        axes = tuple(axis for axis, name in enumerate(names) if name in over)
        if len(axes) == 1 and len(names) == 2 and isinstance(places, SparseArray):
            row, column = names if axes == (1,) else names[::-1]
            plain = self._product(how, body, over, row, column)
            if plain is not None:
                return plain
        at = _AtEntries(self, places, names, how)
        rest = [name for name in over if name not in names]
        inside = self._names(body)
        kept = [name for name in self.left if name in inside and name not in names]
        right = at.visit(deepcopy(body))
        if rest:
            right = ast.Call(_subscript(how, rest), [right], [])
        semiring = Semiring(_ADD[how])
        if len(axes) == len(names):
            if how in ("min", "max") and not places.nnz:
                values = self._evaluated([at.entry, *kept], right, at.operands, call)
                return full(values.shape[1:], semiring.zero_of(values.dtype), values.dtype), kept
            whole = ast.Call(_subscript(how, [at.entry]), [right], [])
            return self._evaluated(kept, whole, at.operands, call), kept
        own = [name for name in names if name not in over]
        if len(kept) > 1:
            raise self.read.mistake(
                call, f"beside {', '.join(map(repr, own))} it has the indices {', '.join(kept)}: at most one"
            )
        values = self._evaluated([at.entry, *kept], right, at.operands, call)
        dtype = semiring.add.reduce(np.zeros(1, values.dtype)).dtype
        values = values != 0 if dtype.kind == "b" else values.astype(dtype)  # complex numbers are not cast to bool
        found = places._over(axes, semiring.add, semiring.zero_of(dtype), values)
        return found, [*own, *kept]

    def _product(
        self, how: str, body: ast.expr, over: list[str], row: str, column: str
    ) -> tuple[Array, list[str]] | None:
        """Return the sum of a product of a sparse and a dense operand, as `@` makes it; None if it is another."""
        if how != "sum" or over != [column] or not (isinstance(body, ast.BinOp) and isinstance(body.op, ast.Mult)):
            return None
        sides = [body.left, body.right]
        first = [each for each in sides if each in self._sparse_in(body)]
        if len(first) != 1 or not all(isinstance(each, ast.Subscript) for each in sides):
            return None
        (other,) = [each for each in sides if each is not first[0]]
        assert isinstance(first[0], ast.Subscript)
        assert isinstance(other, ast.Subscript)
        axes = [each.id for each in axes_of(other) if isinstance(each, ast.Name)]
        if len(axes) != len(axes_of(other)) or len(set(axes)) != len(axes) or column not in axes or row in axes:
            return None
        a = self._array(first[0])
        a = a if self._indices(first[0]) == [row, column] else a.T
        x = asarray(self.operands[other.value.id])  # type: ignore[attr-defined]
        if x.ndim != len(axes) or x.ndim > 2 or any(name in self.operands for name in axes):
            return None
        kept = [name for name in axes if name != column]
        try:
            return _summed(a, "sum") @ (x if axes[0] == column else x.T), [row, *kept]
        except ArrayError as wrong:
            raise self.read.mistake(body, str(wrong)) from None

    def _of_two(self, call: ast.Call) -> SparseArray | None:
        """Return the sparse product of two sparse operands; None if the aggregate is none."""
        how, body, over = self._over(call)
        subscripts = self._sparse_in(body)
        pairs = [self._indices(node) for node in subscripts]
        if len(pairs) != 2 or set(pairs[0]) == set(pairs[1]):
            return None
        for node in subscripts:
            if self._array(node).ndim != 2:
                raise self.read.mistake(node, "a product of two sparse operands is one of matrices: see `tensordot`")
        read, common = self.read, set(pairs[0]) & set(pairs[1])
        sides = [body.left, body.right] if isinstance(body, ast.BinOp) else getattr(body, "args", [])
        if sides != subscripts or len(common) != 1 or set(over) != common or len(self.left) != 2:
            raise read.mistake(
                call, f"of two sparse operands {how} takes a product, as in C[i,j] = sum(A[i,k] * B[k,j])"
            )
        multiply = BINARY.get(type(body.op)) if isinstance(body, ast.BinOp) else None
        if isinstance(body, ast.Call) and isinstance(body.func, ast.Name):
            multiply = getattr(np, body.func.id, None)
        if multiply is None:
            raise read.mistake(body, f"{read.words(body)} is no product of a semiring")
        (shared,) = common
        a, b = (_summed(as_sparse(self._array(node)), how) for node in subscripts)
        a, row = (a, pairs[0][0]) if pairs[0][1] == shared else (a.T, pairs[0][1])
        b = b if pairs[1][0] == shared else b.T
        try:
            found: SparseArray = a.dot(b, add=_ADD[how], multiply=multiply)
        except ArrayError as wrong:
            raise read.mistake(body, str(wrong)) from None
        return found if self.left[0] == row else found.T


class _AtEntries(ast.NodeTransformer):
    """Turns an expression of the indices of a sparse operand into one of its entries.

    places : the operand, whose axes have the indices `names`.
    operands : those of the new expression, over the index `entry`.
    """

    def __init__(self, whole: _Sparse, places: Any, names: list[str], how: str | None) -> None:
        self.whole, self.places, self.names, self.how = whole, places, names, how
        self.sides = {name: axis for axis, name in enumerate(names)}
        self.entry = "entry"
        while self.entry in whole.operands or self.entry in whole.read.text:
            self.entry += "_"
        self.operands: dict[str, Any] = {
            name: each for name, each in whole.operands.items() if not isinstance(each, SparseBase)
        }

    def _new(self, array: Array, axes: Iterable[ast.expr] = ()) -> ast.Subscript:
        """Return the subscript of an operand that is made here."""
        name = f"_{self.entry}{len(self.operands)}"
        self.operands[name] = array
        index = ast.Tuple([ast.Name(self.entry), *axes], ast.Load())
        return ast.Subscript(ast.Name(name), index, ast.Load())

    def visit_Call(self, node: ast.Call) -> ast.AST:
        """Visit the arguments; an aggregate's own indices are not those of the entries."""
        node.args = [self.visit(each) for each in node.args]
        for named in node.keywords:
            named.value = self.visit(named.value)
        return node

    def visit_Name(self, node: ast.Name) -> ast.AST:
        """Replace an index that is used as a value by the positions of the entries."""
        if node.id not in self.sides:
            return node
        side = self.sides[node.id]
        return self._new(self.places._along((side,), arange(self.places.shape[side])))

    def visit_Subscript(self, node: ast.Subscript) -> ast.AST:
        """Replace an operand by its elements at the entries."""
        read = self.whole.read
        if not isinstance(node.value, ast.Name) or node.value.id not in self.whole.operands:
            return node
        value, axes = self.whole.operands[node.value.id], axes_of(node)
        if isinstance(value, SparseBase):
            return self._new(_summed(self._same_places(node, value), self.how).entries)
        at = {
            k: self.sides[each.id] for k, each in enumerate(axes)
            if isinstance(each, ast.Name) and each.id in self.sides
        }  # fmt: skip
        for each in axes:
            if any(isinstance(part, ast.Name) and part.id in self.sides for part in ast.walk(each)) and not isinstance(
                each, ast.Name
            ):
                raise read.mistake(each, "an index of a sparse operand is plain everywhere")
        if not at:
            return node
        x = asarray(value)
        rest = [axis for axis in range(len(axes)) if axis not in at]
        if x.ndim != len(axes) or len(rest) > 1 or len(set(at.values())) != len(at):
            raise read.mistake(node, f"{node.value.id} has shape {x.shape}: at the entries of a sparse operand there "
                               "are arrays with its indices, each once, and one other index at most")  # fmt: skip
        turned = _summed(x.transpose([*at, *rest]), self.how)
        if rest and len(at) == 2 and isinstance(self.places, SparseArray):
            raise read.mistake(node, f"{node.value.id} has shape {x.shape}: at the entries of a matrix there are "
                               "vectors and matrices")  # fmt: skip
        return self._new(self.places._along(tuple(at.values()), turned), [axes[axis] for axis in rest])

    def _same_places(self, node: ast.Subscript, value: Any) -> Any:
        names = self.whole._indices(node)
        if set(self.names) != set(names):
            raise self.whole.read.mistake(node, "two sparse operands of other indices: C[i,j] = sum(A[i,k] * B[k,j])")
        value = _turned(value, [names.index(each) for each in self.names])
        if not self.places._has_places_of(value):
            raise self.whole.read.mistake(node, "its places are not those of the other sparse operand")
        return value


def _turned(a: Any, order: list[int]) -> Any:
    """Return a sparse array with its axes in another order."""
    if order == sorted(order):
        return a
    return a.T if isinstance(a, SparseArray) else a.transpose(order)


def _summed(a: Any, how: str | None) -> Any:
    """Return an array whose products do not overflow in a sum."""
    if how not in ("sum", "prod"):
        return a
    dtype = np.add.reduce(np.zeros(1, a.dtype)).dtype
    return a if dtype == a.dtype else a.astype(dtype)


def _subscript(name: str, axes: Iterable[str]) -> ast.expr:
    names: list[ast.expr] = [ast.Name(each) for each in axes]
    return ast.Subscript(ast.Name(name), ast.Tuple(names, ast.Load()), ast.Load()) if names else ast.Name(name)


def _swapped(right: ast.expr, replaced: dict[int, ast.expr]) -> ast.expr:
    """Return a copy of an expression in which parts are replaced, by their id()."""
    return deepcopy(right, dict(replaced))  # what is in the memo counts as copied
