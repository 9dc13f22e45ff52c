"""Dependences: whether the statements of a loop nest may be carried out one after the other, each for all iterations.

They may if iterations do not touch what another one writes.  Two indices with the same text, in which every loop
variable occurs, are one element in one iteration only.  A fixed index T and a variable whose range begins at T + 1 or
ends before T never meet.  What is not seen to be independent counts as dependent.
"""

from __future__ import annotations

import ast
from collections.abc import Sequence

from bsp.arrays.loops.nests import ElementStatement, LoopRange, LoopStays, Reference, affine, reference, references


def independent(loops: Sequence[LoopRange], statements: Sequence[ElementStatement]) -> None:
    """Raise LoopStays with the dependence if iterations of a nest depend on each other."""
    names = [loop.name for loop in loops]
    writes: list[tuple[ElementStatement, Reference]] = []
    for each in statements:
        if isinstance(each.target, ast.Name):
            continue
        target = reference(each.target)
        used = [name for index in target.indices if (name := affine(index, names).name)]
        if len(used) != len(set(used)):
            raise LoopStays(each.node, f"{ast.unparse(each.target)} has a loop variable twice")
        missing = [name for name in names if name not in used]
        if missing and not isinstance(each.update, (ast.Add, ast.Sub)):
            raise LoopStays(each.node, f"iterations of {missing[0]} write the same element {ast.unparse(each.target)}")
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
                    _apart(loops, read, target, each, writer)
    for k, (each, first) in enumerate(writes):
        for other, second in writes[k + 1 :]:
            _apart(loops, first, second, other, each)


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
    loops: Sequence[LoopRange], one: Reference, target: Reference, statement: ElementStatement, writer: ElementStatement
) -> None:
    """Raise LoopStays if a use of an array may be an element that another iteration writes."""
    if one.array != target.array:
        return
    names = [loop.name for loop in loops]
    a, b = ([ast.unparse(index) for index in each.indices] for each in (one, target))
    if a == b and set(names) <= {affine(index, names).name for index in target.indices}:
        return
    for left, right in zip(one.indices, target.indices, strict=False):
        if _never(loops, left, right) or _never(loops, right, left):
            return
    raise LoopStays(
        statement.node, f"{ast.unparse(one.node)} may be what another iteration writes as {ast.unparse(writer.target)}"
    )


def _never(loops: Sequence[LoopRange], fixed: ast.expr, moving: ast.expr) -> bool:
    """Return whether an index that no loop variable changes is outside the range of one that is a loop variable."""
    names = [loop.name for loop in loops]
    if affine(fixed, names).name or not isinstance(moving, ast.Name):
        return False
    loop = next((each for each in loops if each.name == moving.id), None)
    text = ast.unparse(fixed)
    return loop is not None and (ast.unparse(loop.start) == f"{text} + 1" or ast.unparse(loop.stop) == text)
