"""Array statements in the place of loops: assignments, updates and reductions."""

from __future__ import annotations

import ast
import copy
from collections.abc import Sequence
from typing import Any

from bsp.arrays.loops.expressions import ElementExpression, call, length, np_call, sliced, summed, whole
from bsp.arrays.loops.nests import (
    ORDERLESS,
    ElementStatement,
    Largest,
    LoopRange,
    LoopStays,
    Smallest,
    difference,
    is_expanded,
    names_in,
)
from bsp.arrays.loops.purity import refuse_impure
from bsp.arrays.loops.triangles import both

_EXTREMES = {Largest: "max", Smallest: "min"}


def array_statements(
    loops: Sequence[LoopRange], statements: Sequence[ElementStatement], masks: Sequence[ast.expr] = ()
) -> list[ast.stmt]:
    """Return the statements that do for all iterations what these do in each.

    masks : the conditions under which an iteration is one of the program's.
    """
    found: list[ast.stmt] = []
    names: dict[str, ast.expr] = {}
    for each in statements:
        for part in (each.target, each.value, each.condition):
            refuse_impure(part)
        value = replaced(names, each.value)
        condition = None if each.condition is None else replaced(names, each.condition)
        if isinstance(each.target, ast.Name):
            if each.update is None:
                if condition is not None:
                    raise LoopStays(each.node, f"{each.target.id} is set under a condition")
                names[each.target.id] = value
                continue
            found.append(_scalar(loops, each, value, both([*masks, condition])))
        else:
            found.append(_element(loops, each, value, condition, masks))
    return found


class _Substitute(ast.NodeTransformer):
    def __init__(self, names: dict[str, ast.expr]) -> None:
        self.names = names

    def visit_Name(self, node: ast.Name) -> Any:
        """Replace a name that the iteration has set."""
        return copy.deepcopy(self.names.get(node.id, node))


def replaced(names: dict[str, ast.expr], node: ast.expr) -> ast.expr:
    """Return a copy of an expression with other expressions for some of its names."""
    found: ast.expr = _Substitute(names).visit(copy.deepcopy(node))
    return found


def _updated(update: ast.operator, old: ast.expr, value: ast.expr) -> ast.expr:
    """Return the old value with another one added, multiplied, or the larger or smaller of both."""
    if isinstance(update, (Largest, Smallest)):
        return np_call("maximum" if isinstance(update, Largest) else "minimum", old, value)
    return ast.BinOp(old, update, value)


def _reduced(
    loops: Sequence[LoopRange], update: ast.operator | None, old: ast.expr, value: ast.expr,
    condition: ast.expr | None, kept: Sequence[str], over: Sequence[str], element: ast.expr,
) -> ast.expr:  # fmt: skip
    """Return what updates, one for each iteration of the loops `over`, make of the old value: all but none of them.

    element : the old value as one iteration has it.
    """
    assert update is not None
    if isinstance(update, (ast.Add, ast.Sub)):
        if condition is not None:
            value = ast.IfExp(condition, value, ast.Constant(0))
        return ast.BinOp(old, update, summed(loops, value, kept, over, copy.deepcopy(old)))
    if condition is not None:
        value = ast.IfExp(condition, value, ast.Constant(1) if isinstance(update, ast.Mult) else element)
    if over and not set(over) <= names_in(value):
        raise LoopStays(value, f"{ast.unparse(value)} is the same in all iterations of {over[-1]}")
    axes = ast.Tuple([ast.Constant(len(kept) + k) for k in range(len(over))], ast.Load())
    found = ElementExpression(loops, [*kept, *over]).visit(copy.deepcopy(value))
    if isinstance(update, ast.Mult):
        return ast.BinOp(old, update, call("product'", copy.deepcopy(old), found, axes))
    return _updated(update, old, np_call(_EXTREMES[type(update)], found, axis=axes))


def _unless_empty(loops: Sequence[LoopRange], over: Sequence[str], statement: ast.stmt) -> ast.stmt:
    """Return a statement that is skipped where the loops it reduces over have no iterations."""
    ranges = [loop for loop in loops if loop.name in over and (difference(loop.stop, loop.start) or 0) < 1]
    tests: list[ast.expr] = [ast.Compare(loop.start, [ast.Lt()], [loop.stop]) for loop in ranges]
    if not tests:
        return statement
    return ast.If(tests[0] if len(tests) == 1 else ast.BoolOp(ast.And(), tests), [statement], [])


def _element(
    loops: Sequence[LoopRange], each: ElementStatement, value: ast.expr, condition: ast.expr | None,
    masks: Sequence[ast.expr],
) -> ast.stmt:  # fmt: skip
    """Return the statement for an assignment to elements."""
    assert isinstance(each.target, ast.Subscript)
    target, kept = sliced(loops, each.target, stored=True)
    over = [loop.name for loop in loops if loop.name not in kept]
    old = copy.deepcopy(target)
    if over:
        if condition is not None and not isinstance(each.update, (ast.Add, ast.Sub, ast.Mult)):
            raise LoopStays(each.node, f"the largest or smallest {ast.unparse(each.target)} is under a condition")
        element = copy.deepcopy(each.target)
        element.ctx = ast.Load()
        of_terms = both([*(mask for mask in masks if names_in(mask) & {*over}), condition])
        found = _reduced(loops, each.update, old, value, of_terms, kept, over, element)
        if not is_expanded(each.target):
            found = call("kept'", old, found)
        mask = both([mask for mask in masks if not names_in(mask) & {*over}])
        if mask is not None:
            found = np_call(
                "where", ElementExpression(loops, kept).truth(copy.deepcopy(mask)), found, copy.deepcopy(old)
            )
    else:
        found = ElementExpression(loops, kept).visit(copy.deepcopy(value))
        if each.update is not None:
            found = _updated(each.update, old, found)
        condition = condition if is_expanded(each.target) and each.update is None else both([*masks, condition])
        if condition is not None:
            found = np_call(
                "where", ElementExpression(loops, kept).truth(copy.deepcopy(condition)), found, copy.deepcopy(old)
            )
    if is_expanded(each.target) and each.update is None and condition is None:
        if not set(kept) <= names_in(value):
            lengths = [length(next(loop for loop in loops if loop.name == name)) for name in kept]
            found = np_call("broadcast_to", found, ast.Tuple([*lengths], ast.Load()))
        if not isinstance(value, (ast.BinOp, ast.Constant)):
            found = np_call("array", found)  # no view, as its elements may be written before it is read
    stored = copy.deepcopy(target)
    assert isinstance(stored, (ast.Subscript, ast.Name))
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
    found = _reduced(loops, each.update, old, value, condition, [], over, old)
    if isinstance(found, ast.BinOp):  # a sum or a product: before it meets the old value, which may be a large integer
        found.right = whole(found.right, value, loops, old)
    else:
        found = whole(found, value, loops, old)
    made: ast.stmt = ast.Assign([ast.Name(name, ast.Store())], found)
    return _unless_empty(loops, over, made) if isinstance(each.update, (Largest, Smallest)) else made
