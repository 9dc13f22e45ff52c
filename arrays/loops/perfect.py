"""Perfect nests, whose statements are all in the innermost loop: array statements, some loops outside of them."""

from __future__ import annotations

import ast
import copy
import itertools
from collections.abc import Iterator, Sequence
from typing import Any

from bsp.arrays.loops.dependences import Positions, independent
from bsp.arrays.loops.expressions import Guard
from bsp.arrays.loops.nests import (
    ElementStatement,
    LoopRange,
    LoopStays,
    flat,
    names_in,
    range_of,
    values_in,
    written_name,
)
from bsp.arrays.loops.purity import refuse_impure
from bsp.arrays.loops.reach import reached
from bsp.arrays.loops.statements import array_statements, replaced
from bsp.arrays.loops.triangles import both, bounds, boxed, safe


def nest(loops: list[LoopRange], node: ast.For, function: ast.AST, guard: Guard) -> list[ast.stmt]:
    """Return the array statements of a nest, of which the outer loops are given; LoopStays if it is none.

    guard : gains what must hold for them.
    """
    parts = list(flat(node.body))
    inner = [each for each in parts if isinstance(each, ast.For)]
    if inner and len(parts) == 1:
        return nest([*loops, boxed(range_of(inner[0]), loops)], inner[0], function, guard)
    if inner:
        raise LoopStays(inner[0], "stands beside other statements in its loop")
    statements = [primed(each) for each in parts if isinstance(each, ElementStatement)]
    own_names(loops, statements, node, function)
    return carried_out(loops, statements, guard)


def carried_out(loops: list[LoopRange], statements: Sequence[ElementStatement], guard: Guard) -> list[ast.stmt]:
    """Return the array statements of the statements of a nest; LoopStays if dependences forbid them.

    guard : gains what must hold for them.
    """
    rectangular(loops, statements)
    whole = _substituted(statements)
    masks = bounds(loops)
    masked = [safe(each, both(masks)) for each in statements]
    within = Guard()
    reached(loops, whole, within, bool(masks))
    why: LoopStays | None = None
    for outside in _outside(loops, statements):
        positions = Positions()
        inside = [loop for loop in loops if loop not in outside]
        try:
            independent(inside, whole, positions, outside)
            made = array_statements(inside, masked, masks)
        except LoopStays as refused:
            why = why or refused
            continue
        if outside and outside == loops[: len(outside)]:
            break  # these loops stay, and the nest inside them is read once more
        names = {loop.name for loop in loops}
        guard.positions |= positions.found
        guard.extents |= within.extents
        guard.integers |= within.integers
        guard.choices |= within.choices
        for each in whole:
            target = each.target if isinstance(each.target, ast.Subscript) else None
            for part in (target, each.condition, None if target is None and each.update is None else each.value):
                if part is not None:
                    guard.add(part, names)
        for loop in reversed(outside):
            made = [ast.For(ast.Name(loop.name, ast.Store()), loop.header, made, [])]
        return made
    assert why is not None
    raise why


def rectangular(loops: Sequence[LoopRange], statements: Sequence[ElementStatement]) -> None:
    """Raise LoopStays if the range of a loop is not the same in all iterations of the nest."""
    written = {written_name(each) for each in statements}
    for k, loop in enumerate(loops):
        refuse_impure(loop.header)
        values = set().union(*(values_in(part) for part in (loop.header, loop.low, loop.high) if part is not None))
        around = [outer.name for outer in loops[:k]]
        for what in (*around, *sorted(written)):
            if what in (values_in(loop.header) if what in around else values):
                raise LoopStays(loop.header, f"the range of {loop.name} depends on {what}")


class _Primed(ast.NodeTransformer):
    """Rename the variables of comprehensions, so that none has the name of something else; no text shows them."""

    def _renamed(self, node: ast.GeneratorExp | ast.ListComp) -> Any:
        self.generic_visit(node)
        own = [name for each in node.generators for name in names_in(each.target)]
        names: dict[str, ast.expr] = {name: ast.Name(f"{name}'", ast.Load()) for name in own}
        first = node.generators[0].iter  # is computed outside
        found: Any = replaced(names, node)
        found.generators[0].iter = first
        return found

    visit_GeneratorExp = visit_ListComp = _renamed


def primed(each: ElementStatement) -> ElementStatement:
    """Return a statement in which variables of comprehensions have names of their own."""
    condition = None if each.condition is None else _Primed().visit(copy.deepcopy(each.condition))
    return each._replace(value=_Primed().visit(copy.deepcopy(each.value)), condition=condition)


def _outside(loops: list[LoopRange], statements: Sequence[ElementStatement]) -> Iterator[list[LoopRange]]:
    """Yield the choices of loops of a nest that could stay outside of its statements: the fewest, sums first."""
    targets = [names_in(each.target) for each in statements]
    order = sorted(loops, key=lambda loop: all(loop.name in names for names in targets))
    for count in range(len(loops)):
        for chosen in itertools.combinations(order, count):
            yield [loop for loop in loops if loop in chosen]


def _substituted(statements: Sequence[ElementStatement]) -> list[ElementStatement]:
    """Return the statements with the values of the iteration's own names in their place."""
    names: dict[str, ast.expr] = {}
    found = []
    for each in statements:
        value = replaced(names, each.value)
        condition = None if each.condition is None else replaced(names, each.condition)
        if isinstance(each.target, ast.Name) and each.update is None:
            names[each.target.id] = value
        found.append(each._replace(value=value, condition=condition))
    return found


def own_names(
    loops: Sequence[LoopRange], statements: Sequence[ElementStatement], node: ast.For, function: ast.AST
) -> None:
    """Raise LoopStays if a name that an iteration sets is read before, or outside of the nest; or a sum inside it."""
    own = {each.target.id for each in statements if isinstance(each.target, ast.Name) and each.update is None}
    inside = {id(each) for each in ast.walk(node)}
    for name in ast.walk(function):
        if isinstance(name, ast.Name) and isinstance(name.ctx, ast.Load) and name.id in own and id(name) not in inside:
            raise LoopStays(node, f"{name.id} is used outside of the loop")
    for loop in loops:
        if loop.name in free(function, node):
            raise LoopStays(node, f"{loop.name} is used outside of the loop")
    done: set[str] = set()
    written: set[str] = set()
    one_kind(statements)
    for each in statements:
        read = names_in(each.value) | (names_in(each.condition) if each.condition is not None else set())
        if isinstance(each.target, ast.Name):
            if (each.target.id in own and each.target.id in read) or each.target.id in {loop.name for loop in loops}:
                raise LoopStays(each.node, f"{each.target.id} depends on the iteration before")
            if each.update is None:
                if read & written:  # its text would be put after the write
                    raise LoopStays(each.node, f"{each.target.id} is of an array that the iteration has written")
                done.add(each.target.id)
            elif each.target.id in own:
                raise LoopStays(each.node, f"{each.target.id} depends on the iteration before")
        else:
            written.add(written_name(each))
            for other in statements:
                sets = isinstance(other.target, ast.Name) and other.update is None
                if sets and written_name(each) in names_in(other.value):
                    raise LoopStays(each.node, f"{written_name(each)} is written, and a name was set from it")
        if (read & own) - done:
            raise LoopStays(each.node, f"{sorted((read & own) - done)[0]} is used before the iteration sets it")


def one_kind(statements: Sequence[ElementStatement]) -> None:
    """Raise LoopStays if a variable that statements update is read by some, or updated in several ways."""
    sums: dict[str, str] = {}  # and products, and extremes, and what they are
    for each in statements:
        if isinstance(each.target, ast.Name) and each.update is not None:
            kind = "Add" if isinstance(each.update, ast.Sub) else type(each.update).__name__
            if sums.setdefault(each.target.id, kind) != kind:
                raise LoopStays(each.node, f"{each.target.id} depends on the iteration before")
    for each in statements:
        used = names_in(each.value) | (names_in(each.condition) if each.condition is not None else set())
        used |= names_in(each.target) if isinstance(each.target, ast.Subscript) else set()
        if used & set(sums):
            raise LoopStays(each.node, f"{sorted(used & set(sums))[0]} depends on the iteration before")


def free(tree: ast.AST, nest: ast.AST) -> set[str]:
    """Return the names that a tree reads outside of a nest, and of other loops and comprehensions that set them."""
    if tree is nest:
        return set()
    if isinstance(tree, ast.Name):
        return {tree.id} if isinstance(tree.ctx, ast.Load) else set()
    found = {name for child in ast.iter_child_nodes(tree) for name in free(child, nest)}
    if isinstance(tree, ast.For):  # its range is made, and its else carried out, where it may have set nothing
        return (found - names_in(tree.target)).union(*(free(each, nest) for each in (tree.iter, *tree.orelse)))
    if isinstance(tree, (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)):
        own = {name for each in tree.generators for name in names_in(each.target)}
        return (found - own) | free(tree.generators[0].iter, nest)
    return found
