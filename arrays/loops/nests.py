"""Loop nests read from source: ranges, index expressions that are affine in one loop variable, statements."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from typing import NamedTuple


class LoopStays(Exception):
    """A loop that cannot become an array statement; the text says which line and why."""

    def __init__(self, node: ast.AST, why: str) -> None:
        super().__init__(why)
        self.line = getattr(node, "lineno", 0)


class LoopRange(NamedTuple):
    """One loop, for name in range(start, stop)."""

    name: str
    start: ast.expr
    stop: ast.expr


class AffineIndex(NamedTuple):
    """An index step·name + offset; name "" is none, a fixed position."""

    name: str
    step: int
    offset: ast.expr | None  # None: 0


def range_of(node: ast.For) -> LoopRange:
    """Return the range of a loop; LoopStays if it is none of step 1."""
    call = node.iter
    if not (isinstance(node.target, ast.Name) and isinstance(call, ast.Call) and isinstance(call.func, ast.Name)
            and call.func.id in ("range", "prange") and not call.keywords and 1 <= len(call.args) <= 2):  # fmt: skip
        raise LoopStays(node, "is no loop over range(stop) or range(start, stop)")
    if node.orelse:
        raise LoopStays(node, "has an else")
    start = call.args[0] if len(call.args) == 2 else ast.Constant(0)
    return LoopRange(node.target.id, start, call.args[-1])


def names_in(node: ast.AST) -> set[str]:
    """Return all names that a tree reads or writes."""
    return {each.id for each in ast.walk(node) if isinstance(each, ast.Name)}


def negated(node: ast.expr) -> ast.expr:
    """Return the negative of an expression."""
    if isinstance(node, ast.Constant) and isinstance(node.value, int):
        return ast.Constant(-node.value)
    return ast.UnaryOp(ast.USub(), node)


def plus(a: ast.expr, b: ast.expr) -> ast.expr:
    """Return the sum of two expressions; numbers at their ends are added."""
    (left, m), (right, n) = _apart(a), _apart(b)
    number = m + n
    rest = left if right is None else right if left is None else ast.BinOp(left, ast.Add(), right)
    if rest is None or not number:
        return ast.Constant(number) if rest is None else rest
    sign = ast.Add() if number > 0 else ast.Sub()
    return ast.BinOp(rest, sign, ast.Constant(abs(number)))


def _apart(node: ast.expr) -> tuple[ast.expr | None, int]:
    """Return an expression without the number at its end, and the number."""
    if isinstance(node, ast.Constant) and type(node.value) is int:
        return None, node.value
    if isinstance(node, ast.BinOp) and isinstance(node.op, (ast.Add, ast.Sub)):
        right, number = _apart(node.right)
        if right is None:
            rest, other = _apart(node.left)
            return rest, other + (number if isinstance(node.op, ast.Add) else -number)
    return node, 0


def affine(index: ast.expr, loops: Sequence[str]) -> AffineIndex:
    """Return an index as an affine expression of at most one loop variable."""
    used = names_in(index) & set(loops)
    if not used:
        return AffineIndex("", 0, index)
    if len(used) > 1:
        raise LoopStays(index, f"index {ast.unparse(index)} has two loop variables")
    (name,) = used
    step, offset = _linear(index, name)
    if step < 1:
        raise LoopStays(index, f"index {ast.unparse(index)} does not ascend with {name}")
    return AffineIndex(name, step, offset)


def _linear(node: ast.expr, name: str) -> tuple[int, ast.expr | None]:
    """Return the factor of a variable in an expression, and the rest."""
    if isinstance(node, ast.Name) and node.id == name:
        return 1, None
    if name not in names_in(node):
        return 0, node
    if isinstance(node, ast.BinOp) and isinstance(node.op, (ast.Add, ast.Sub)):
        (a, left), (b, right) = _linear(node.left, name), _linear(node.right, name)
        minus = isinstance(node.op, ast.Sub)
        signed = negated(right) if right is not None and minus else right
        rest = left if signed is None else signed if left is None else plus(left, signed)
        return a - b if minus else a + b, rest
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mult):
        for factor, other in ((node.left, node.right), (node.right, node.left)):
            if isinstance(factor, ast.Constant) and type(factor.value) is int:
                step, rest = _linear(other, name)
                return factor.value * step, None if rest is None else ast.BinOp(factor, ast.Mult(), rest)
    raise LoopStays(node, f"{ast.unparse(node)} is not affine in {name}")


class Reference(NamedTuple):
    """One use of an array in a statement."""

    array: str
    indices: tuple[ast.expr, ...]
    node: ast.Subscript


def reference(node: ast.Subscript) -> Reference:
    """Return a subscripted name with its indices: A[i, j], or A[i][j]."""
    indices: list[ast.expr] = []
    inner: ast.expr = node
    while isinstance(inner, ast.Subscript):
        given = inner.slice
        indices = [*(given.elts if isinstance(given, ast.Tuple) else [given]), *indices]
        inner = inner.value
    if not isinstance(inner, ast.Name):
        raise LoopStays(node, f"{ast.unparse(node)} is no element of a named array")
    if any(isinstance(each, ast.Slice) for each in indices):
        raise LoopStays(node, f"{ast.unparse(node)} has a slice inside a loop over elements")
    return Reference(inner.id, tuple(indices), node)


def references(node: ast.AST) -> Iterator[Reference]:
    """Yield the uses of arrays in a tree, outermost subscripts only."""
    if isinstance(node, ast.Subscript):
        yield reference(node)
        found = reference(node)
        for index in found.indices:
            yield from references(index)
        return
    for child in ast.iter_child_nodes(node):
        yield from references(child)


class ElementStatement(NamedTuple):
    """One assignment of a nest: target = value, or target (+)= value under a condition."""

    target: ast.Subscript | ast.Name
    value: ast.expr
    update: ast.operator | None  # of an augmented assignment
    condition: ast.expr | None
    node: ast.stmt


def flat(body: Sequence[ast.stmt], condition: ast.expr | None = None) -> Iterator[ElementStatement | ast.For]:
    """Yield the statements of a loop's body in their order; conditions become part of the assignments."""
    for node in body:
        if isinstance(node, ast.For):
            if condition is not None:
                raise LoopStays(node, "is a loop inside an if")
            yield node
        elif (
            isinstance(node, ast.Assign)
            and len(node.targets) == 1
            and isinstance(node.targets[0], (ast.Subscript, ast.Name))
        ):
            yield ElementStatement(node.targets[0], node.value, None, condition, node)
        elif isinstance(node, ast.AugAssign) and isinstance(node.target, (ast.Subscript, ast.Name)):
            yield ElementStatement(node.target, node.value, node.op, condition, node)
        elif isinstance(node, ast.If):
            inner = node.test if condition is None else ast.BoolOp(ast.And(), [condition, node.test])
            yield from flat(node.body, inner)
            if node.orelse:
                no: ast.expr = ast.UnaryOp(ast.Not(), node.test)
                yield from flat(node.orelse, no if condition is None else ast.BoolOp(ast.And(), [condition, no]))
        elif isinstance(node, ast.Pass) or (isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)):
            continue
        else:
            raise LoopStays(node, f"{ast.unparse(node).splitlines()[0]} is no assignment to an element")
