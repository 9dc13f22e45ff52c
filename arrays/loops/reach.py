"""A guard tests, where a program runs, that the positions and integers which its loops reach are there.

An array statement computes with slices, which end where an array ends, and with integers of 64 bits.  So where a loop
would go beyond an array, count positions from its end, or need longer integers, the loop itself is carried out.
"""

from __future__ import annotations

import ast
from collections.abc import Sequence

from bsp.arrays.loops.expressions import Guard, ranges_of
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
                reach(loops, part, guard, masked, many=adds and of_value, conditional=conditional and of_value)
        if isinstance(each.update, ast.Mult) and (found := product_of(each.value, loops)) is not None:
            guard.integers[ast.unparse(found)] = found


def reach(
    loops: Sequence[LoopRange], node: ast.AST, guard: Guard, masked: bool = False, many: bool = False,
    conditional: bool = False,
) -> None:  # fmt: skip
    """Add to a guard what an expression reaches in all iterations of loops, those of its comprehensions included.

    many : its values are added up.   conditional : not all of them are computed.
    """
    for each in described(node, loops, many, conditional):
        guard.integers[ast.unparse(each)] = each
    _positions(loops, node, guard, masked, many, conditional)


def _positions(
    loops: Sequence[LoopRange], node: ast.AST, guard: Guard, masked: bool, many: bool, conditional: bool
) -> None:  # fmt: skip
    if isinstance(node, (ast.GeneratorExp, ast.ListComp)):
        inner, tests = [*loops, *ranges_of(node, loops)], [test for each in node.generators for test in each.ifs]
        for part in (*tests, node.elt):
            reach(inner, part, guard, masked, many, conditional or bool(tests))
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
