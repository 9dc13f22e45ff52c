"""Dependences: whether the statements of a loop nest may be carried out one after the other, each for all iterations.

They may if iterations do not touch what another one writes.  Two uses of an array in which every loop variable has an
index with the same text in both are one element in one iteration only.  A fixed index T and one whose range begins
after T or ends before T never meet.  What is not seen to be independent counts as dependent.

Loops that stay outside of the statements (`outside`) may come from anywhere in the nest.  The others then run inside
of them, each for all iterations; nothing changes if two uses of an element, one of them a write, are always in the same
iteration of each loop inside, whatever the iterations outside, or never meet, whatever these are: no variable of a loop
outside is part of the indices that show it.
"""

from __future__ import annotations

import ast
from collections.abc import Sequence

from bsp.arrays.loops.nests import (
    ORDERLESS,
    ElementStatement,
    LoopRange,
    LoopStays,
    Reference,
    affine,
    difference,
    names_in,
    number_at_end,
    plus,
    reference,
    references,
)


def independent(
    loops: Sequence[LoopRange], statements: Sequence[ElementStatement], outside: Sequence[LoopRange] = ()
) -> None:
    """Raise LoopStays with the dependence if iterations of a nest depend on each other.

    outside : loops of the nest that the others are moved into.
    """
    names = [loop.name for loop in loops]
    moved = {loop.name for loop in outside}
    writes: list[tuple[ElementStatement, Reference]] = []
    for each in statements:
        if isinstance(each.target, ast.Name):
            continue
        target = reference(each.target)
        used = [name for index in target.indices if (name := affine(index, names).name)]
        if len(used) != len(set(used)):
            raise LoopStays(each.node, f"{ast.unparse(each.target)} has a loop variable twice")
        missing = [name for name in names if name not in used]
        if missing and not isinstance(each.update, ORDERLESS):
            raise LoopStays(each.node, f"iterations of {missing[0]} write the same element {ast.unparse(each.target)}")
        if moved and not isinstance(each.update, ORDERLESS):
            _apart(loops, target, target, each, each, moved)
        writes.append((each, target))
    changed = {target.array for _, target in writes}
    for each in statements:
        for part in (each.value, each.condition):
            if part is None:
                continue
            if whole := changed & _used_whole(part):
                raise LoopStays(each.node, f"{sorted(whole)[0]}, which iterations write, is used as a whole")
            for read in references(part):
                for writer, target in writes:
                    _apart(loops, read, target, each, writer, moved)
    for k, (each, first) in enumerate(writes):
        for other, second in writes[k + 1 :]:
            _apart(loops, first, second, other, each, moved)


def _used_whole(node: ast.AST) -> set[str]:
    """Return the names that an expression uses otherwise than by elements, lengths and shapes."""
    if isinstance(node, ast.Name):
        return {node.id}
    if isinstance(node, ast.Attribute) and node.attr in ("shape", "size", "ndim", "dtype"):
        return set()
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "len":
        return set()
    if isinstance(node, ast.Subscript):
        found = set()
        while isinstance(node, ast.Subscript):
            found |= _used_whole(node.slice)
            node = node.value
        return found if isinstance(node, ast.Name) else found | _used_whole(node)
    return {name for child in ast.iter_child_nodes(node) for name in _used_whole(child)}


def _apart(
    loops: Sequence[LoopRange], one: Reference, target: Reference, statement: ElementStatement,
    writer: ElementStatement, outside: set[str],
) -> None:  # fmt: skip
    """Raise LoopStays if a use of an array may be an element that another iteration writes."""
    if one.array != target.array:
        return
    names = [loop.name for loop in loops]
    same = [right for left, right in zip(one.indices, target.indices, strict=False)
            if ast.unparse(left) == ast.unparse(right)]  # fmt: skip
    if set(names) <= {affine(index, names).name for index in same if not names_in(index) & outside}:
        return
    for left, right in zip(one.indices, target.indices, strict=False):
        if outside & (names_in(left) | names_in(right)):
            continue
        if _never(loops, left, right) or _never(loops, right, left):
            return
    raise LoopStays(
        statement.node, f"{ast.unparse(one.node)} may be what another iteration writes as {ast.unparse(writer.target)}"
    )


def _never(loops: Sequence[LoopRange], fixed: ast.expr, moving: ast.expr) -> bool:
    """Return whether an index that no loop variable changes is outside the range of one that is a loop variable."""
    names = [loop.name for loop in loops]
    at = affine(moving, names)
    if affine(fixed, names).name or not at.name or at.step != 1:
        return False
    if number_at_end(fixed)[1] < 0:  # it may be counted from the end
        return False
    loop = next(each for each in loops if each.name == at.name)
    offset = at.offset or ast.Constant(0)
    before, behind = difference(plus(loop.start, offset), fixed), difference(plus(loop.stop, offset), fixed)
    return (before is not None and before > 0) or (behind is not None and behind <= 0)
