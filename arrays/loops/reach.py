"""A guard tests, where a program runs, that the positions and integers which its loops reach are there.

An array statement computes with slices, which end where an array ends, and with integers of 64 bits.  So where a loop
would go beyond an array, count positions from its end, or need longer integers, the loop itself is carried out.  So it
is where `max(3, x[i])` may be an integer of Python's or one of 8 bits: an array has one dtype for all elements.
"""

from __future__ import annotations

import ast
import copy
from collections.abc import Collection, Iterator, Sequence
from typing import Any

from bsp.arrays.loops.expressions import Guard, array_of, call, ranges_of
from bsp.arrays.loops.integers import described, product_of
from bsp.arrays.loops.nests import (
    ElementStatement,
    LoopRange,
    LoopStays,
    affine,
    is_expanded,
    last_of,
    names_in,
    plus,
    reference,
    times,
)


def reached(loops: Sequence[LoopRange], statements: Sequence[ElementStatement], guard: Guard, masked: bool) -> None:
    """Add to a guard what statements reach in all iterations of loops.

    masked : some of these iterations are not the program's.  LoopStays if positions besides theirs are not known.
    """
    for each in statements:
        adds, conditional = isinstance(each.update, (ast.Add, ast.Sub)), masked or each.condition is not None
        for part in (each.target, each.value, each.condition):
            if part is not None:
                of_value = part is each.value
                reach(loops, part, guard, masked, adds and of_value, conditional and of_value, stored=True)
        if isinstance(each.update, ast.Mult) and (found := product_of(each.value, loops)) is not None:
            guard.integers[ast.unparse(found)] = found


def reach(
    loops: Sequence[LoopRange], node: ast.AST, guard: Guard, masked: bool = False, many: bool = False,
    conditional: bool = False, stored: bool = False,
) -> None:  # fmt: skip
    """Add to a guard what an expression reaches in all iterations of loops, those of its comprehensions included.

    many : its values are added up.   conditional : not all of them are computed.
    stored : nothing is computed with its value but what keeps its type.
    """
    for each in described(node, loops, many, conditional):
        guard.integers[ast.unparse(each)] = each
    for each in _choices(node, {loop.name for loop in loops}, stored):
        guard.choices[ast.unparse(each)] = each
    _positions(loops, node, guard, masked, many, conditional)


def _choices(node: ast.AST, loops: Collection[str], stored: bool) -> Iterator[ast.expr]:
    """Yield the program's choices between values: whether one is only stored, and a function that returns samples.

    Those inside comprehensions, whose loops are others, are left out.
    """
    if isinstance(node, (ast.Subscript, ast.GeneratorExp, ast.ListComp)):
        return
    values: list[ast.expr] = []
    if isinstance(node, ast.IfExp):
        values = [node.body, node.orelse]
    elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in ("max", "min"):
        values = node.args
    inside = [each for value in values for each in ast.walk(value)]
    if len(values) > 1 and not any(
        isinstance(each, (ast.GeneratorExp, ast.ListComp)) or (isinstance(each, ast.Subscript) and is_expanded(each))
        for each in inside
    ):
        samples: list[ast.expr] = [_Sample(loops).visit(copy.deepcopy(each)) for each in values]
        nothing = ast.arguments([], [], None, [], [], None, [])
        yield ast.Tuple([ast.Constant(stored), ast.Lambda(nothing, ast.Tuple(samples, ast.Load()))], ast.Load())
    for child in ast.iter_child_nodes(node):
        compared = isinstance(node, ast.Compare) or (isinstance(node, ast.IfExp) and child is node.test)
        yield from _choices(child, loops, compared or (stored and child in values))


class _Sample(ast.NodeTransformer):
    """Replace elements by ones of their arrays' types, and loop variables by 1."""

    def __init__(self, loops: Collection[str]) -> None:
        self._loops = loops

    def visit_Subscript(self, node: ast.Subscript) -> Any:
        """Replace an element."""
        return call("one'", ast.Name(array_of(node), ast.Load()))

    def visit_Name(self, node: ast.Name) -> Any:
        """Replace a loop variable."""
        return ast.Constant(1) if node.id in self._loops else node


def _positions(
    loops: Sequence[LoopRange], node: ast.AST, guard: Guard, masked: bool, many: bool, conditional: bool
) -> None:  # fmt: skip
    if isinstance(node, (ast.GeneratorExp, ast.ListComp)):
        inner, tests = [*loops, *ranges_of(node, loops)], [test for each in node.generators for test in each.ifs]
        for part in (*tests, node.elt):
            kept = part is not node.elt or isinstance(node, ast.GeneratorExp)
            reach(inner, part, guard, masked, many, conditional or bool(tests), kept)
    elif isinstance(node, ast.Subscript):
        _extent(loops, node, guard, masked)
    else:
        adds = isinstance(node, ast.Call) and ast.unparse(node.func).rpartition(".")[2] in ("sum", "prod")
        branches = isinstance(node, (ast.IfExp, ast.BoolOp))
        for child in ast.iter_child_nodes(node):
            _positions(loops, child, guard, masked, many or adds, conditional or branches)


def _extent(loops: Sequence[LoopRange], node: ast.Subscript, guard: Guard, masked: bool) -> None:
    """Add that the positions of an element are inside its array."""
    if is_expanded(node):
        return
    found = reference(node)
    names = [loop.name for loop in loops]
    for axis, index in enumerate(found.indices):
        if not names_in(index) & {*names}:
            if any(isinstance(each, (ast.Subscript, ast.Call)) for each in ast.walk(index)) and "len(" not in (
                ast.unparse(index)
            ):
                if not masked:
                    continue  # the statement indexes with it as the loop does, if that has iterations
                raise LoopStays(node, f"index {ast.unparse(index)} is not known beside a triangle")
            guard.extents[f"{found.array} {axis} {ast.unparse(index)}"] = (found.array, axis, index, index, True)
            continue
        try:
            first, last = _ends(loops, index)
        except LoopStays:
            if masked:
                raise
            continue  # no part of an array statement
        told = f"{found.array} {axis} {ast.unparse(first)} {ast.unparse(last)}"
        guard.extents[told] = (found.array, axis, first, last, False)


def _ends(loops: Sequence[LoopRange], index: ast.expr) -> tuple[ast.expr, ast.expr]:
    """Return the least and the greatest value of an affine index over some loops; LoopStays if it is none."""
    for loop in loops:
        if loop.name not in names_in(index):
            continue
        others = {each.name for each in loops} - {loop.name}
        at = affine(index, [loop.name])
        if at.offset is not None and names_in(at.offset) & others:
            low, high = _ends([each for each in loops if each is not loop], at.offset)
        else:
            low = high = at.offset or ast.Constant(0)
        least, most = (loop.start, last_of(loop)) if at.step > 0 else (last_of(loop), loop.start)
        return plus(times(at.step, least), low), plus(times(at.step, most), high)
    return index, index
