"""Loop nests read from source: ranges, index expressions that are affine in one loop variable, statements.

Ranges are normalised: start, start + step, ... below stop, whichever way the source goes through them.
"""

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
    """One loop over start, start + step, ... below stop; from the last to the first if it descends.

    header : what the source loops over.  low, high : a position is one of the program's only if it is not below the
        one, and below the other, which depend on loops around this one (see `triangles`).
    """

    name: str
    start: ast.expr
    stop: ast.expr
    header: ast.expr
    step: int = 1
    descends: bool = False
    low: ast.expr | None = None
    high: ast.expr | None = None


class AffineIndex(NamedTuple):
    """An index step·name + offset, step not 0; name "" is none, a fixed position."""

    name: str
    step: int
    offset: ast.expr | None  # None: 0


def range_of(node: ast.For | ast.comprehension) -> LoopRange:
    """Return the range of a loop; LoopStays if its step is no number."""
    call = node.iter
    at = node if isinstance(node, ast.For) else call
    if not (isinstance(node.target, ast.Name) and isinstance(call, ast.Call) and isinstance(call.func, ast.Name)
            and call.func.id in ("range", "prange") and not call.keywords and 1 <= len(call.args) <= 3):  # fmt: skip
        raise LoopStays(at, "is no loop over range(stop), range(start, stop) or range(start, stop, step)")
    if isinstance(node, ast.For) and node.orelse:
        raise LoopStays(at, "has an else")
    start = call.args[0] if len(call.args) > 1 else ast.Constant(0)
    stop = call.args[min(1, len(call.args) - 1)]
    rest, step = number_at_end(call.args[2]) if len(call.args) == 3 else (None, 1)
    if rest is not None or step == 0:
        raise LoopStays(at, f"its step is {ast.unparse(call.args[2])}, not a number other than 0")
    if step < 0:
        above = plus(stop, ast.Constant(1))  # the last position that may be reached; the first is start
        left = remainder(minus(start, above), -step)
        start, stop = plus(left, above), plus(start, ast.Constant(1))
    return LoopRange(node.target.id, start, stop, call, abs(step), step < 0)


def remainder(value: ast.expr, step: int) -> ast.expr:
    """Return value % step; 0 for a step of 1."""
    if step == 1:
        return ast.Constant(0)
    if isinstance(value, ast.Constant) and type(value.value) is int:
        return ast.Constant(value.value % step)
    return ast.BinOp(value, ast.Mod(), ast.Constant(step))


def times(factor: int, value: ast.expr) -> ast.expr:
    """Return a multiple of an expression."""
    if isinstance(value, ast.Constant) and type(value.value) is int:
        return ast.Constant(factor * value.value)
    return value if factor == 1 else ast.BinOp(ast.Constant(factor), ast.Mult(), value)


def last_of(loop: LoopRange) -> ast.expr:
    """Return the greatest position of a loop that has one."""
    end = plus(loop.stop, ast.Constant(-1))
    if loop.step == 1 or loop.descends:
        return end
    return minus(end, remainder(minus(end, loop.start), loop.step))


def names_in(node: ast.AST) -> set[str]:
    """Return all names that a tree reads or writes."""
    return {each.id for each in ast.walk(node) if isinstance(each, ast.Name)}


def values_in(node: ast.AST) -> set[str]:
    """Return the names whose values an expression depends on; of arrays with lengths and shapes only it does not."""
    if isinstance(node, ast.Attribute) and node.attr in ("shape", "size", "ndim", "dtype"):
        return set()
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "len":
        return set()
    if isinstance(node, ast.Name):
        return {node.id}
    return {name for child in ast.iter_child_nodes(node) for name in values_in(child)}


def negated(node: ast.expr) -> ast.expr:
    """Return the negative of an expression."""
    if isinstance(node, ast.Constant) and isinstance(node.value, int):
        return ast.Constant(-node.value)
    return ast.UnaryOp(ast.USub(), node)


def plus(a: ast.expr, b: ast.expr) -> ast.expr:
    """Return the sum of two expressions; numbers at their ends are added."""
    (left, m), (right, n) = number_at_end(a), number_at_end(b)
    number = m + n
    rest = left if right is None else right if left is None else ast.BinOp(left, ast.Add(), right)
    if rest is None or not number:
        return ast.Constant(number) if rest is None else rest
    sign = ast.Add() if number > 0 else ast.Sub()
    return ast.BinOp(rest, sign, ast.Constant(abs(number)))


def minus(a: ast.expr, b: ast.expr) -> ast.expr:
    """Return a - b; numbers at their ends are subtracted, and what is the same in both is left out."""
    known = difference(a, b)
    if known is not None:
        return ast.Constant(known)
    (left, m), (right, n) = number_at_end(a), number_at_end(b)
    rest = left if right is None else ast.BinOp(left or ast.Constant(0), ast.Sub(), right)
    return plus(rest or ast.Constant(0), ast.Constant(m - n))


def difference(a: ast.expr, b: ast.expr) -> int | None:
    """Return a - b, if both differ by a number only."""
    terms = linear(a)
    for text, factor in linear(b).items():
        terms[text] = terms.get(text, 0) - factor
    number = terms.pop("", 0)
    return None if any(terms.values()) else number


def linear(node: ast.expr) -> dict[str, int]:
    """Return an expression as a sum of multiples of others, by their texts; that of "" is the number."""
    if isinstance(node, ast.Constant) and type(node.value) is int:
        return {"": node.value}
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        return {text: -factor for text, factor in linear(node.operand).items()}
    if isinstance(node, ast.BinOp) and isinstance(node.op, (ast.Add, ast.Sub)):
        found, sign = linear(node.left), 1 if isinstance(node.op, ast.Add) else -1
        for text, factor in linear(node.right).items():
            found[text] = found.get(text, 0) + sign * factor
        return found
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mult):
        for one, other in ((node.left, node.right), (node.right, node.left)):
            rest, number = number_at_end(one)
            if rest is None:
                return {text: number * factor for text, factor in linear(other).items()}
    return {ast.unparse(node): 1}


def number_at_end(node: ast.expr) -> tuple[ast.expr | None, int]:
    """Return an expression without the number at its end, or at its beginning, and the number."""
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        rest, number = number_at_end(node.operand)
        return (None, -number) if rest is None else (node, 0)
    if isinstance(node, ast.Constant) and type(node.value) is int:
        return None, node.value
    if isinstance(node, ast.BinOp) and isinstance(node.op, (ast.Add, ast.Sub)):
        right, number = number_at_end(node.right)
        if right is None:
            rest, other = number_at_end(node.left)
            return rest, other + (number if isinstance(node.op, ast.Add) else -number)
        left, number = number_at_end(node.left)
        if left is None and isinstance(node.op, ast.Add):
            rest, other = number_at_end(node.right)
            return rest, other + number
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
    if not step:
        raise LoopStays(index, f"index {ast.unparse(index)} does not change with {name}")
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
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        step, rest = _linear(node.operand, name)
        return -step, None if rest is None else negated(rest)
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


class Expanded(ast.Load):
    """The context of a name that an iteration sets, in its place an array with an element for each iteration."""


def is_expanded(node: ast.expr) -> bool:
    """Return whether a subscripted name is one that iterations set."""
    while isinstance(node, ast.Subscript):
        node = node.value
    return isinstance(node, ast.Name) and isinstance(node.ctx, Expanded)


class Largest(ast.operator):
    """The operator of target = max(target, value), as if Python had one."""


class Smallest(ast.operator):
    """The operator of target = min(target, value)."""


ORDERLESS = (ast.Add, ast.Sub, ast.Mult, Largest, Smallest)  # updates whose order over iterations does not matter
_EXTREMES = {"max": Largest, "maximum": Largest, "min": Smallest, "minimum": Smallest}


class ElementStatement(NamedTuple):
    """One assignment of a nest: target = value, or target (+)= value under a condition."""

    target: ast.Subscript | ast.Name
    value: ast.expr
    update: ast.operator | None  # of an augmented assignment
    condition: ast.expr | None
    node: ast.stmt


def written_name(each: ElementStatement) -> str:
    """Return the name of the array, or of the variable, that a statement assigns to."""
    node: ast.AST = each.target
    while isinstance(node, ast.Subscript):
        node = node.value
    return node.id if isinstance(node, ast.Name) else ""


def _extreme(
    target: ast.Subscript | ast.Name, value: ast.expr, condition: ast.expr | None, node: ast.stmt
) -> ElementStatement:
    """Return an assignment; target = max(target, value) as an update."""
    if isinstance(value, ast.Call) and len(value.args) == 2 and not value.keywords:
        called = value.func.attr if isinstance(value.func, ast.Attribute) else ast.unparse(value.func)
        operator = _EXTREMES.get(called)
        old = [ast.unparse(each) == ast.unparse(target) for each in value.args]
        if operator is not None and old.count(True) == 1:
            return ElementStatement(target, value.args[old.index(False)], operator(), condition, node)
    return ElementStatement(target, value, None, condition, node)


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
            if any(isinstance(each, ast.Slice) for each in ast.walk(node.targets[0])):
                raise LoopStays(node, f"{ast.unparse(node.targets[0])} is a part of an array, not an element")
            yield _extreme(node.targets[0], node.value, condition, node)
        elif isinstance(node, ast.AugAssign) and isinstance(node.target, (ast.Subscript, ast.Name)):
            yield ElementStatement(node.target, node.value, node.op, condition, node)
        elif isinstance(node, ast.If):
            inside = [each for part in (node.body, node.orelse) for each in flat(part)]
            changed = {written_name(each) for each in inside[:-1] if isinstance(each, ElementStatement)}
            if both := changed & values_in(node.test):
                raise LoopStays(node, f"{sorted(both)[0]} is changed, and part of the condition")
            inner = node.test if condition is None else ast.BoolOp(ast.And(), [condition, node.test])
            yield from flat(node.body, inner)
            if node.orelse:
                no: ast.expr = ast.UnaryOp(ast.Not(), node.test)
                yield from flat(node.orelse, no if condition is None else ast.BoolOp(ast.And(), [condition, no]))
        elif isinstance(node, ast.Pass) or (isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)):
            continue
        else:
            raise LoopStays(node, f"{ast.unparse(node).splitlines()[0]} is no assignment to an element")
