"""Triangles: loops whose ranges depend on loops around them, as loops over all positions that they reach, with a mask.

    for i in range(n):                      for i in range(n):
        for j in range(i + 1):       ->         for j in range(n):
            C[i, j] = f(...)                        if j < i + 1:
                                                        C[i, j] = f(...)

An array statement computes what iterations beside the mask would, and both branches of an `if`, so divisors, and
arguments of functions, are 1 there.  Where all positions of such a loop are not inside the arrays when the program
runs, the loop itself is carried out (`reach`).
"""

from __future__ import annotations

import ast
import copy
from collections.abc import Sequence
from typing import Any

from bsp.arrays.loops.nests import (
    ElementStatement,
    LoopRange,
    LoopStays,
    affine,
    last_of,
    names_in,
    plus,
    times,
)


def boxed(loop: LoopRange, around: Sequence[LoopRange]) -> LoopRange:
    """Return a loop over all that it goes over in any iteration of the loops around it, with its own ends as bounds.

    It is returned as it is if its range does not depend on them, or in a way that is not affine.
    """
    outer = [each.name for each in around]
    if not names_in(loop.header) & {*outer}:
        return loop
    if (loop.step != 1 and names_in(loop.start) & {*outer}) or (loop.step != 1 and loop.descends):
        return loop
    try:
        start, stop = _end(loop.start, around, lowest=True), _end(loop.stop, around, lowest=False)
    except LoopStays:
        return loop
    low = loop.start if names_in(loop.start) & {*outer} else None
    high = loop.stop if names_in(loop.stop) & {*outer} else None
    ends = [start, stop] if loop.step == 1 else [start, stop, ast.Constant(loop.step)]
    if loop.descends:
        ends = [plus(stop, ast.Constant(-1)), plus(start, ast.Constant(-1)), ast.Constant(-1)]
    header = ast.copy_location(ast.Call(ast.Name("range", ast.Load()), ends, []), loop.header)
    return loop._replace(start=start, stop=stop, header=header, low=low, high=high)


def _end(node: ast.expr, around: Sequence[LoopRange], lowest: bool) -> ast.expr:
    """Return the lowest or the highest value of the end of a range, over the loops around it."""
    at = affine(node, [loop.name for loop in around])
    if not at.name:
        return node
    loop = next(each for each in around if each.name == at.name)
    value = loop.start if (at.step > 0) == lowest else last_of(loop)
    return plus(times(at.step, value), at.offset or ast.Constant(0))


def bounds(loops: Sequence[LoopRange]) -> list[ast.expr]:
    """Return the conditions under which an iteration of loops over all positions is one of the program's."""
    found: list[ast.expr] = []
    for loop in loops:
        name = ast.Name(loop.name, ast.Load())
        if loop.low is not None:
            found.append(ast.Compare(name, [ast.GtE()], [loop.low]))
        if loop.high is not None:
            found.append(ast.Compare(name, [ast.Lt()], [loop.high]))
    return found


def both(conditions: Sequence[ast.expr | None]) -> ast.expr | None:
    """Return that all of some conditions hold; None if there are none."""
    found = [each for each in conditions if each is not None]
    return None if not found else found[0] if len(found) == 1 else ast.BoolOp(ast.And(), found)


_QUIET = ("abs", "max", "min", "maximum", "minimum", "invert", "where", "clip", "isnan", "isinf", "isfinite")


class _Safe(ast.NodeTransformer):
    """Divide by 1, and call functions with 1, where a mask does not hold, or a branch inside is not taken."""

    def __init__(self, mask: ast.expr | None) -> None:
        self.mask = mask

    def _under(self, conditions: Sequence[ast.expr], node: ast.expr) -> ast.expr:
        """Return an expression that is computed only where conditions hold, too."""
        found: ast.expr = _Safe(both([self.mask, *conditions])).visit(node)
        return found

    def _safe(self, node: ast.expr, value: int = 1) -> ast.expr:
        known = isinstance(node, (ast.GeneratorExp, ast.ListComp)) or (isinstance(node, ast.Constant) and node.value)
        if known or self.mask is None:
            return node
        return ast.IfExp(copy.deepcopy(self.mask), node, ast.Constant(value))

    def visit_BinOp(self, node: ast.BinOp) -> Any:
        """Make divisors, and both operands of powers, 1."""
        self.generic_visit(node)
        if isinstance(node.op, (ast.Div, ast.FloorDiv, ast.Mod, ast.Pow)):
            node.right = self._safe(node.right)
        if isinstance(node.op, ast.Pow):
            node.left = self._safe(node.left)
        return node

    def visit_Call(self, node: ast.Call) -> Any:
        """Make arguments 1, or 0 where 1 is a pole."""
        name = ast.unparse(node.func).rpartition(".")[2]
        if name == "len":
            return node
        self.generic_visit(node)
        if name not in _QUIET and not name.startswith(("logical_", "bitwise_")):
            node.args = [self._safe(each, 0 if name in ("arctanh", "atanh") else 1) for each in node.args]
        return node

    def visit_IfExp(self, node: ast.IfExp) -> Any:
        """Compute each branch where it is taken."""
        node.test = self.visit(node.test)
        taken, other = copy.deepcopy(node.test), ast.UnaryOp(ast.Not(), copy.deepcopy(node.test))
        node.body, node.orelse = self._under([taken], node.body), self._under([other], node.orelse)
        return node

    def visit_BoolOp(self, node: ast.BoolOp) -> Any:
        """Compute each condition where those before it leave the answer open."""
        done: list[ast.expr] = []
        for k, each in enumerate(node.values):
            node.values[k] = self._under(done, each)
            known = copy.deepcopy(node.values[k])
            done.append(known if isinstance(node.op, ast.And) else ast.UnaryOp(ast.Not(), known))
        return node

    def visit_Subscript(self, node: ast.Subscript) -> Any:
        """Leave indices as they are."""
        return node

    def _generated(self, node: ast.GeneratorExp | ast.ListComp) -> Any:
        tests: list[ast.expr] = []
        for each in node.generators:  # ranges are left as they are
            for k, test in enumerate(each.ifs):
                each.ifs[k] = self._under(tests, test)
                tests.append(copy.deepcopy(each.ifs[k]))
        node.elt = self._under(tests, node.elt)
        return node

    visit_GeneratorExp = visit_ListComp = _generated


def safe(each: ElementStatement, mask: ast.expr | None) -> ElementStatement:
    """Return a statement that computes without errors where a mask, or its own condition, does not hold."""
    condition = None if each.condition is None else _Safe(mask).visit(copy.deepcopy(each.condition))
    value = _Safe(both([mask, condition])).visit(copy.deepcopy(each.value))
    return each._replace(value=value, condition=condition)
