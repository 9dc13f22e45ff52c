"""Python's integers in loops, which have no end, where array statements compute with 64 bits.

An expression of loop variables and integers is described by its operations, and a guard finds, where the program runs,
the interval of its values.  If that may leave 64 bits, or if Python would give no integer where NumPy raises or gives
one (a negative power, a division by 0), the loop is carried out as it is written.
"""

from __future__ import annotations

import ast
import operator
from collections.abc import Collection, Iterator, Sequence
from typing import Any

import numpy as np

from bsp.arrays.loops.nests import LoopRange, names_in

_SIGNS: dict[type[ast.operator], str] = {
    ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.Pow: "**", ast.LShift: "<<", ast.RShift: ">>",
    ast.FloorDiv: "//", ast.Mod: "%", ast.Div: "/",
}  # fmt: skip
_DIVISIONS = ("/", "//", "%")
_MOST = 1 << 62  # of the absolute value of an integer
_OF_MANY = 1 << 31  # of one that is added up: 2^31 of them are still less
_POWERS = 62  # the largest exponent that is computed
_CORNERS = {"+": operator.add, "-": operator.sub, "*": operator.mul, "<<": operator.lshift, ">>": operator.rshift}


def described(
    node: ast.AST, loops: Sequence[LoopRange], many: bool = False, conditional: bool = False
) -> Iterator[ast.expr]:  # fmt: skip
    """Yield the descriptions of the largest integer expressions in a tree that may leave 64 bits, for `fit`.

    Comprehensions, which have loops of their own, are left out.
    many : the values of all iterations are added up.   conditional : not all of them are computed.
    """
    if isinstance(node, (ast.Subscript, ast.GeneratorExp, ast.ListComp)):
        return
    if isinstance(node, (ast.BinOp, ast.UnaryOp)) and _is_whole(node):
        names = {loop.name for loop in loops}
        if names_in(node) & names and _is_risky(node, names, conditional):
            limit = ast.Constant(_OF_MANY if many else _MOST)
            yield ast.Tuple([limit, _description(node, loops, conditional)], ast.Load())
        return
    for child in ast.iter_child_nodes(node):
        yield from described(child, loops, many, conditional or isinstance(node, (ast.IfExp, ast.BoolOp)))


def _is_whole(node: ast.expr) -> bool:
    """Return whether an expression has names, numbers and arithmetic only."""
    if isinstance(node, ast.BinOp):
        return type(node.op) in _SIGNS and _is_whole(node.left) and _is_whole(node.right)
    if isinstance(node, ast.UnaryOp):
        return isinstance(node.op, (ast.USub, ast.UAdd)) and _is_whole(node.operand)
    return isinstance(node, ast.Name) or (isinstance(node, ast.Constant) and type(node.value) in (int, float))


def _is_risky(node: ast.AST, names: Collection[str], conditional: bool) -> bool:
    """Return whether an expression may leave 64 bits, or divide by 0, where its loop variables are positions."""
    for each in ast.walk(node):
        if not isinstance(each, ast.BinOp):
            continue
        varying = [bool(names_in(side) & {*names}) for side in (each.left, each.right)]
        if isinstance(each.op, (ast.Add, ast.Sub, ast.Mult)) and any(varying) and names_in(each) - {*names}:
            return True  # of a number that may be large
        if isinstance(each.op, (ast.Pow, ast.LShift)) and any(varying):
            return True
        if isinstance(each.op, (ast.FloorDiv, ast.Mod, ast.Div)) and varying[1] and not conditional:
            return True
        if isinstance(each.op, ast.Mult) and (all(varying) or _large(each.left) or _large(each.right)):
            return True
    return False


def _large(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and isinstance(node.value, int) and abs(node.value) > _OF_MANY


def _description(node: ast.expr, loops: Sequence[LoopRange], conditional: bool = False) -> ast.expr:
    """Return an expression as tuples of a sign and its operands; a loop variable is its range.

    The sign of a division is followed by "?" under a condition, which may be that the divisor is not 0.
    """
    if isinstance(node, ast.BinOp):
        sign = _SIGNS[type(node.op)]
        sign += "?" if conditional and sign in _DIVISIONS else ""
        operands = [_description(each, loops, conditional) for each in (node.left, node.right)]
        return ast.Tuple([ast.Constant(sign), *operands], ast.Load())
    if isinstance(node, ast.UnaryOp):
        inner = _description(node.operand, loops, conditional)
        if isinstance(node.op, ast.UAdd):
            return inner
        return ast.Tuple([ast.Constant("-"), ast.Constant(0), inner], ast.Load())
    loop = next((each for each in loops if isinstance(node, ast.Name) and each.name == node.id), None)
    return node if loop is None else loop.header


def product_of(value: ast.expr, loops: Sequence[LoopRange]) -> ast.expr | None:
    """Return the description of the product of an integer expression over all iterations; None if it is no such."""
    if not _is_whole(value) or not names_in(value) & {loop.name for loop in loops}:
        return None
    parts = [ast.Constant("product"), _description(value, loops), *(loop.header for loop in loops)]
    return ast.Tuple([ast.Constant(_MOST), ast.Tuple(parts, ast.Load())], ast.Load())


# ------------------------------------------------------------------------------ where the program runs


class _Leaves(Exception):
    """An integer may leave its bits, or is none."""


def fit(descriptions: Sequence[tuple[int, Any]]) -> bool:
    """Return whether the values of all descriptions are integers of 64 bits, or are no integers of Python's."""
    try:
        for most, each in descriptions:
            found = _interval(each)
            if found is not None and max(map(abs, found)) > most:
                return False
    except _Leaves:
        return False
    return True


def _interval(of: Any) -> tuple[int, int] | None:
    """Return the least and the greatest value that a description may have; None if it is no integer."""
    if isinstance(of, range):
        return (min(of[0], of[-1]), max(of[0], of[-1])) if len(of) else (0, 0)
    if isinstance(of, (int, np.integer)):
        return int(of), int(of)
    if not isinstance(of, tuple):
        return None
    if of[0] == "product":
        return _of_product(of[1], of[2:])
    sign, left, right = of[0], _interval(of[1]), _interval(of[2])
    if right is not None and sign in _DIVISIONS and right[0] <= 0 <= right[1]:
        raise _Leaves  # Python raises ZeroDivisionError
    sign = sign.rstrip("?")
    if sign == "**" and left is not None and left[0] < 0 and right is None:
        raise _Leaves  # Python gives a complex number
    if left is None or right is None or sign == "/":
        return None
    if sign in ("**", "<<", ">>") and not (right[0] >= 0 and right[1] <= _POWERS):
        raise _Leaves
    largest = max(map(abs, left))
    if sign == "**":
        most = max(largest ** right[1], 1)
        found = 0 if left[0] >= 0 else -most, most
    elif sign in ("//", "%"):
        most = max(largest, *map(abs, right))
        found = -most, most
    else:
        corners = [_CORNERS[sign](a, b) for a in left for b in right]
        found = min(corners), max(corners)
    if max(map(abs, found)) > _MOST:
        raise _Leaves
    return found


def _of_product(of: Any, ranges: Sequence[range]) -> tuple[int, int] | None:
    found = _interval(of)
    if found is None:
        return None
    count = int(np.prod([len(each) for each in ranges], dtype=float))
    most = max(map(abs, found))
    if most > 1 and count > _POWERS:
        raise _Leaves
    return -(most**count) if most > 1 else -1, most**count if most > 1 else 1
