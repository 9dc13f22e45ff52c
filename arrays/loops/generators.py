"""Comprehensions outside of loops: np.array([x[i] + i for i in range(n)]), sum(x[i] * y[i] for i in range(n))."""

from __future__ import annotations

import ast
import copy
from collections.abc import Callable
from typing import Any

from bsp.arrays.loops.expressions import ElementExpression, Guard, length, np_call, ranges_of, reduction
from bsp.arrays.loops.nests import LoopRange, LoopStays, names_in
from bsp.arrays.loops.reach import reach


class Comprehensions(ast.NodeTransformer):
    """Replace arrays of comprehensions, and sums, products, extremes and truths of generators, in one statement.

    report : called with the line of each, whether it was replaced, and what it has become or why it stays.
    Where a program computes with other things than elements and numbers (`Guard`), it computes as it is written.
    """

    def __init__(self, report: Callable[[int, bool, ast.expr | str], None]) -> None:
        self._report = report

    def visit_Call(self, node: ast.Call) -> Any:
        """Replace a call of np.array or of a reduction."""
        try:
            made = array = arranged(node)
            if made is None and _has_elements(node):
                made = reduction(node, [], [])
            if made is None:
                return self.generic_visit(node)
            guard = Guard()
            guard.add(node.args[0], ())
            of = node.args[0]
            while array is not None and isinstance(of, ast.ListComp):
                guard.ranges.append(copy.deepcopy(of.generators[0].iter))
                of = of.elt
            reach([], node, guard)
        except LoopStays as why:
            self._report(node.lineno, False, str(why))
            return self.generic_visit(node)
        self._report(node.lineno, True, made)
        test = guard.test()
        return made if test is None else ast.copy_location(ast.IfExp(test, made, node), node)


def arranged(node: ast.Call) -> ast.expr | None:
    """Return the array of a list comprehension; None if the call makes none."""
    function = node.func
    if not (isinstance(function, ast.Attribute) and function.attr in ("array", "asarray")
            and getattr(function.value, "id", "") in ("np", "numpy") and len(node.args) == 1
            and all(each.arg == "dtype" for each in node.keywords)):  # fmt: skip
        return None
    value = node.args[0]
    loops: list[LoopRange] = []
    while isinstance(value, ast.ListComp):
        new = ranges_of(value, loops)
        if len(new) > 1:
            raise LoopStays(value, f"{ast.unparse(value)} puts two loops on one axis")
        if value.generators[0].ifs:
            raise LoopStays(value, f"the length of {ast.unparse(value)} depends on values")
        loops += new
        value = value.elt
    if not loops:
        return None
    names = [loop.name for loop in loops]
    found = ElementExpression(loops, names).visit(copy.deepcopy(value))
    if not set(names) <= names_in(value):
        found = np_call("broadcast_to", found, ast.Tuple([length(loop) for loop in loops], ast.Load()))
    if turned := [ast.Constant(axis) for axis, loop in enumerate(loops) if loop.descends]:
        found = np_call("flip", found, axis=ast.Tuple([*turned], ast.Load()))
    return np_call("array", found, **{str(each.arg): each.value for each in node.keywords})


def _has_elements(node: ast.Call) -> bool:
    """Return whether a generator computes with elements of arrays; others may be about numbers of Python's only."""
    of = node.args[0] if node.args else None
    if not isinstance(of, (ast.GeneratorExp, ast.ListComp)):
        return False
    names = {name for each in of.generators for name in names_in(each.target)}
    return any(isinstance(each, ast.Subscript) and names_in(each.slice) & names for each in ast.walk(of))
