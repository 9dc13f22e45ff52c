"""Array statements in the place of loops: slices for indices, sums and contractions for what is summed."""

from __future__ import annotations

import ast
import copy
from collections.abc import Sequence
from typing import Any

from bsp.arrays.loops.nests import (
    ORDERLESS,
    AffineIndex,
    ElementStatement,
    Largest,
    LoopRange,
    LoopStays,
    Smallest,
    affine,
    difference,
    minus,
    names_in,
    plus,
    reference,
)

_BUILTINS = {"min": "minimum", "max": "maximum", "abs": "abs"}
_LETTERS = "ijklmnpqrstuv"
_REDUCTIONS = {ast.Mult: "prod", Largest: "max", Smallest: "min"}  # besides sums


def array_statements(loops: Sequence[LoopRange], statements: Sequence[ElementStatement]) -> list[ast.stmt]:
    """Return the statements that do for all iterations what these do in each."""
    found: list[ast.stmt] = []
    names: dict[str, ast.expr] = {}
    for each in statements:
        value = _with(names, each.value)
        condition = None if each.condition is None else _with(names, each.condition)
        if isinstance(each.target, ast.Name):
            if each.update is None:
                if condition is not None:
                    raise LoopStays(each.node, f"{each.target.id} is set under a condition")
                names[each.target.id] = value
                continue
            found.append(_scalar(loops, each, value, condition))
        else:
            found.append(_element(loops, each, value, condition))
    return found


class _Substitute(ast.NodeTransformer):
    def __init__(self, names: dict[str, ast.expr]) -> None:
        self.names = names

    def visit_Name(self, node: ast.Name) -> Any:
        """Replace a name that the iteration has set."""
        return copy.deepcopy(self.names.get(node.id, node))


def _with(names: dict[str, ast.expr], node: ast.expr) -> ast.expr:
    found: ast.expr = _Substitute(names).visit(copy.deepcopy(node))
    return found


def _np(name: str, *args: ast.expr, **keywords: ast.expr) -> ast.Call:
    function = ast.Attribute(ast.Name("_np", ast.Load()), name, ast.Load())
    return ast.Call(function, [*args], [ast.keyword(key, value) for key, value in keywords.items()])


def _span(loop: LoopRange, at: AffineIndex) -> ast.expr:
    """Return the slice of an index; of one that descends the same elements in ascending order."""

    def moved(bound: ast.expr) -> ast.expr:
        scaled = bound if at.step == 1 else ast.BinOp(ast.Constant(at.step), ast.Mult(), bound)
        return scaled if at.offset is None else plus(scaled, at.offset)

    if at.step == -1:
        offset = at.offset or ast.Constant(0)
        ends = [minus(offset, plus(loop.stop, ast.Constant(-1))), plus(minus(offset, loop.start), ast.Constant(1))]
        return ast.Call(ast.Name("_span", ast.Load()), ends, [])
    if at.step == 1:
        return ast.Call(ast.Name("_span", ast.Load()), [moved(loop.start), moved(loop.stop)], [])
    stop = plus(moved(plus(loop.stop, ast.Constant(-1))), ast.Constant(1))
    return ast.Call(ast.Name("_span", ast.Load()), [moved(loop.start), stop, ast.Constant(at.step)], [])


def _sliced(loops: Sequence[LoopRange], node: ast.Subscript, stored: bool = False) -> tuple[ast.expr, list[str]]:
    """Return an element as a part of its array, and the loop variables of the part's axes.

    stored : the part is assigned to.
    """
    found = reference(node)
    parts: list[ast.expr] = []
    axes: list[str] = []
    turned: list[ast.expr] = []
    for index in found.indices:
        at = affine(index, [loop.name for loop in loops])
        if at.name in axes:
            raise LoopStays(node, f"{ast.unparse(node)} has the loop variable {at.name} twice")
        if at.name:
            if at.step < 0:
                if stored:
                    raise LoopStays(node, f"{ast.unparse(node)} does not ascend with {at.name}")
                turned.append(ast.Constant(len(axes)))
            axes.append(at.name)
            parts.append(_span(next(loop for loop in loops if loop.name == at.name), at))
        else:
            parts.append(index)
    place: ast.expr = parts[0] if len(parts) == 1 else ast.Tuple(parts, ast.Load())
    part: ast.expr = ast.Subscript(ast.Name(found.array, ast.Load()), place, ast.Load())
    return _np("flip", part, axis=ast.Tuple(turned, ast.Load())) if turned else part, axes


def _aligned(value: ast.expr, axes: Sequence[str], order: Sequence[str]) -> ast.expr:
    """Return a part with its axes in the order of loop variables, and axes of length 1 for the others."""
    if not axes:
        return value
    wanted = [name for name in order if name in axes]
    if list(axes) != wanted:
        turned = ast.Tuple([ast.Constant(axes.index(name)) for name in wanted], ast.Load())
        value = _np("transpose", value, turned)
    if len(wanted) < len(order):
        index: list[ast.expr] = [ast.Slice() if name in axes else ast.Constant(None) for name in order]
        value = ast.Subscript(value, ast.Tuple(index, ast.Load()), ast.Load())
    return value


class _Elementwise(ast.NodeTransformer):
    """Rewrite the expression of one iteration as that of all, with an axis for each loop in `order`."""

    def __init__(self, loops: Sequence[LoopRange], order: Sequence[str]) -> None:
        self.loops, self.order = loops, order

    def visit_Subscript(self, node: ast.Subscript) -> Any:
        """Slice an element."""
        if not names_in(node) & set(self.order):
            return node
        part, axes = _sliced(self.loops, node)
        return _aligned(part, axes, self.order)

    def visit_Name(self, node: ast.Name) -> Any:
        """Replace a loop variable by its values."""
        loop = next((each for each in self.loops if each.name == node.id), None)
        return node if loop is None else _aligned(_np("arange", loop.start, loop.stop), [loop.name], self.order)

    def visit_Call(self, node: ast.Call) -> Any:
        """Keep elementwise functions of NumPy; those of math and the builtins become NumPy's."""
        if not names_in(node) & set(self.order) and not any(isinstance(each, ast.Subscript) for each in ast.walk(node)):
            return node
        args = [self.visit(each) for each in node.args]
        if isinstance(node.func, ast.Name) and node.func.id in _BUILTINS and not node.keywords:
            found = args[0]
            if node.func.id == "abs":
                return _np("abs", found)
            for other in args[1:]:
                found = _np(_BUILTINS[node.func.id], found, other)
            return found
        of = node.func.value if isinstance(node.func, ast.Attribute) and not node.keywords else None
        if isinstance(node.func, ast.Attribute) and isinstance(of, ast.Name) and of.id in ("np", "numpy", "math"):
            return _np(node.func.attr, *args)
        raise LoopStays(node, f"calls {ast.unparse(node.func)}, which is not known to work on arrays")

    def visit_BoolOp(self, node: ast.BoolOp) -> Any:
        """Combine conditions element by element."""
        name = "logical_and" if isinstance(node.op, ast.And) else "logical_or"
        found = self.visit(node.values[0])
        for other in node.values[1:]:
            found = _np(name, found, self.visit(other))
        return found

    def visit_UnaryOp(self, node: ast.UnaryOp) -> Any:
        """Negate conditions element by element."""
        operand = self.visit(node.operand)
        return _np("logical_not", operand) if isinstance(node.op, ast.Not) else ast.UnaryOp(node.op, operand)

    def visit_Compare(self, node: ast.Compare) -> Any:
        """Compare element by element; a < b < c as two comparisons."""
        parts = [self.visit(each) for each in (node.left, *node.comparators)]
        found: ast.expr | None = None
        for left, sign, right in zip(parts, node.ops, parts[1:], strict=False):
            if isinstance(sign, (ast.In, ast.NotIn, ast.Is, ast.IsNot)):
                raise LoopStays(node, f"{ast.unparse(node)} is no comparison of numbers")
            one = ast.Compare(left, [sign], [right])
            found = one if found is None else _np("logical_and", found, one)
        assert found is not None
        return found

    def visit_IfExp(self, node: ast.IfExp) -> Any:
        """Choose element by element."""
        return _np("where", self.visit(node.test), self.visit(node.body), self.visit(node.orelse))


def _summed(loops: Sequence[LoopRange], value: ast.expr, kept: Sequence[str], over: Sequence[str]) -> ast.expr:
    """Return the sum of an expression over some loops, with an axis for each of the others."""
    product = _contraction(loops, value, kept, over)
    if product is not None:
        return product
    used = [name for name in over if name in names_in(value)]
    found: ast.expr = _Elementwise(loops, [*kept, *used]).visit(copy.deepcopy(value))
    if used:
        found = _np("sum", found, axis=ast.Tuple([ast.Constant(len(kept) + k) for k in range(len(used))], ast.Load()))
    for name in over:
        if name not in used:
            loop = next(each for each in loops if each.name == name)
            found = ast.BinOp(found, ast.Mult(), ast.BinOp(loop.stop, ast.Sub(), loop.start))
    return found


def _contraction(
    loops: Sequence[LoopRange], value: ast.expr, kept: Sequence[str], over: Sequence[str]
) -> ast.expr | None:
    """Return a product of elements, summed, as an einsum; None if it is no such product."""
    factors: list[ast.expr] = []
    waiting = [value]
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mult):
            waiting += [node.right, node.left]
        else:
            factors.append(node)
    names = {loop.name for loop in loops}
    arrays = [each for each in factors if names_in(each) & names]
    if len(arrays) < 2 or not all(isinstance(each, ast.Subscript) for each in arrays):
        return None
    letter = {loop.name: _LETTERS[k] for k, loop in enumerate(loops)}
    parts, texts = [], []
    for each in arrays:
        assert isinstance(each, ast.Subscript)
        part, axes = _sliced(loops, each)
        parts.append(part)
        texts.append("".join(letter[name] for name in axes))
    used = set("".join(texts))
    if not all(letter[name] in used for name in (*kept, *over)):
        return None
    text = ",".join(texts) + "->" + "".join(letter[name] for name in kept)
    found: ast.expr = _np("einsum", ast.Constant(text), *parts)
    for factor in factors:
        if factor not in arrays:
            found = ast.BinOp(factor, ast.Mult(), found)
    return found


def _updated(update: ast.operator, old: ast.expr, value: ast.expr) -> ast.expr:
    """Return the old value with another one added, multiplied, or the larger or smaller of both."""
    if isinstance(update, (Largest, Smallest)):
        return _np("maximum" if isinstance(update, Largest) else "minimum", old, value)
    return ast.BinOp(old, update, value)


def _reduced(
    loops: Sequence[LoopRange], update: ast.operator | None, old: ast.expr, value: ast.expr,
    condition: ast.expr | None, kept: Sequence[str], over: Sequence[str],
) -> ast.expr:  # fmt: skip
    """Return what updates, one for each iteration of the loops `over`, make of the old value: all but none of them."""
    assert update is not None
    if isinstance(update, (ast.Add, ast.Sub)):
        if condition is not None:
            value = ast.IfExp(condition, value, ast.Constant(0))
        return ast.BinOp(old, update, _summed(loops, value, kept, over))
    if condition is not None:
        value = ast.IfExp(condition, value, ast.Constant(1) if isinstance(update, ast.Mult) else old)
    if over and not set(over) <= names_in(value):
        raise LoopStays(value, f"{ast.unparse(value)} is the same in all iterations of {over[-1]}")
    axes = ast.Tuple([ast.Constant(len(kept) + k) for k in range(len(over))], ast.Load())
    found = _Elementwise(loops, [*kept, *over]).visit(copy.deepcopy(value))
    return _updated(update, old, _np(_REDUCTIONS[type(update)], found, axis=axes))


def _unless_empty(loops: Sequence[LoopRange], over: Sequence[str], statement: ast.stmt) -> ast.stmt:
    """Return a statement that is skipped where the loops it reduces over have no iterations."""
    ranges = [loop for loop in loops if loop.name in over and (difference(loop.stop, loop.start) or 0) < 1]
    tests: list[ast.expr] = [ast.Compare(loop.start, [ast.Lt()], [loop.stop]) for loop in ranges]
    if not tests:
        return statement
    return ast.If(tests[0] if len(tests) == 1 else ast.BoolOp(ast.And(), tests), [statement], [])


def _element(
    loops: Sequence[LoopRange], each: ElementStatement, value: ast.expr, condition: ast.expr | None
) -> ast.stmt:
    """Return the statement for an assignment to elements."""
    assert isinstance(each.target, ast.Subscript)
    target, kept = _sliced(loops, each.target, stored=True)
    over = [loop.name for loop in loops if loop.name not in kept]
    old = copy.deepcopy(target)
    if over:
        if condition is not None and not isinstance(each.update, (ast.Add, ast.Sub, ast.Mult)):
            raise LoopStays(each.node, f"the largest or smallest {ast.unparse(each.target)} is under a condition")
        found = _reduced(loops, each.update, old, value, condition, kept, over)
    else:
        found = _Elementwise(loops, kept).visit(copy.deepcopy(value))
        if each.update is not None:
            found = _updated(each.update, old, found)
        if condition is not None:
            found = _np("where", _Elementwise(loops, kept).visit(copy.deepcopy(condition)), found, copy.deepcopy(old))
    stored = copy.deepcopy(target)
    assert isinstance(stored, ast.Subscript)
    stored.ctx = ast.Store()
    made: ast.stmt = ast.Assign([stored], found)
    return _unless_empty(loops, over, made) if isinstance(each.update, (Largest, Smallest)) and over else made


def _scalar(
    loops: Sequence[LoopRange], each: ElementStatement, value: ast.expr, condition: ast.expr | None
) -> ast.stmt:
    """Return the statement for a sum, a product, or an extreme, in a variable."""
    assert isinstance(each.target, ast.Name)
    name = each.target.id
    if not isinstance(each.update, ORDERLESS) or name in names_in(value):
        raise LoopStays(each.node, f"{name} depends on the iteration before")
    old, over = ast.Name(name, ast.Load()), [loop.name for loop in loops]
    found = _reduced(loops, each.update, old, value, condition, [], over)
    made: ast.stmt = ast.Assign([ast.Name(name, ast.Store())], found)
    return _unless_empty(loops, over, made) if isinstance(each.update, (Largest, Smallest)) else made
