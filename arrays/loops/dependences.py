"""Dependences: whether the statements of a loop nest may be carried out one after the other, each for all iterations.

They may if two uses of an element, one of them a write, come in the same order either way.  `meeting` compares two
uses by their indices, axis by axis, as Allen and Kennedy do (Optimizing Compilers for Modern Architectures, chapter 3):

- both a·i + b in the same loop: they meet at one distance, (b - b') / (a·step) iterations; never if that is a fraction;
- in others: never if gcd(a·step, a'·step') does not divide the difference of their first positions;
- never if one ends before the other begins.

Differences have to be numbers: n - 1 and n - 2 differ by one, n and m by what is not known.  What is not seen to be
independent counts as dependent.  An array statement reads all that it needs before it writes, so an element may be
written by an iteration after the one that reads it (y[i] = y[i + 1]).

All this is about positions from the first on, so an index that turns out to be negative, and is taken from the end, is
another position.  `Positions` gathers what has to be at least 0 when the program runs.

Loops that stay outside of the statements (`outside`) may come from anywhere in the nest.  The others then run inside
of them, each for all iterations; nothing changes if two uses of an element, one of them a write, are always in the same
iteration of each loop inside, whatever the iterations outside, or never meet, whatever these are: no variable of a loop
outside is part of the indices that show it.
"""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterator, Mapping, Sequence
from math import gcd, inf
from typing import NamedTuple

from bsp.arrays.loops.nests import (
    ORDERLESS,
    ElementStatement,
    LoopRange,
    LoopStays,
    Reference,
    affine,
    difference,
    names_in,
    plus,
    reference,
    references,
    times,
)


class Positions:
    """Positions that dependences were excluded by, which are so only where they are not negative."""

    def __init__(self) -> None:
        self.found: dict[str, ast.expr] = {}

    def add(self, *positions: ast.expr) -> None:
        """Add positions; not those that are numbers."""
        self.found |= {ast.unparse(each): each for each in positions if not isinstance(each, ast.Constant)}


class _Line(NamedTuple):
    """The positions of an index: one is `at`, others are multiples of the stride away, between first and last."""

    loop: LoopRange | None
    step: int  # of the index, in the loop's variable
    offset: ast.expr
    at: ast.expr
    first: ast.expr
    last: ast.expr
    stride: int


def _line(index: ast.expr, loops: Sequence[LoopRange], ignored: Collection[str]) -> _Line | None:
    """Return the positions of an index; None if they are not known.

    ignored : loop variables whose values are not known either.
    """
    try:
        at = affine(index, [loop.name for loop in loops])
    except LoopStays:
        return None
    if names_in(index) & {*ignored}:
        return None
    offset = at.offset or ast.Constant(0)
    if not at.name:
        return _Line(None, 0, index, index, index, index, 0)
    loop = next(each for each in loops if each.name == at.name)
    ends = [plus(times(at.step, end), offset) for end in (loop.start, plus(loop.stop, ast.Constant(-1)))]
    first, last = ends if at.step > 0 else ends[::-1]
    return _Line(loop, at.step, offset, ends[0], first, last, abs(at.step) * loop.step)


def meeting(
    one: Reference, of_one: Sequence[LoopRange], other: Reference, of_other: Sequence[LoopRange],
    common: Sequence[LoopRange], positions: Positions, ignored: Collection[str] = (),
) -> Mapping[str, int] | None:  # fmt: skip
    """Return how many iterations of common loops after one use the other one is, where that is known; None for never.

    of_one, of_other : the loops around each.  ignored : loop variables whose values may be any.
    """
    if one.array != other.array:
        return None
    variables = {loop.name for loop in (*of_one, *of_other)}
    shared = {loop.name for loop in common}
    found: dict[str, int] = {}
    for left, right in zip(one.indices, other.indices, strict=False):
        a, b = _line(left, of_one, ignored), _line(right, of_other, ignored)
        if a is None or b is None or (names_in(a.first) | names_in(b.first)) & variables:
            continue
        if any((below := difference(each.first, ast.Constant(0))) is not None and below < 0 for each in (a, b)):
            continue
        distance = _distance(a, b) if a.loop is not None and a.loop.name in shared else None
        apart = _apart(a, b, variables)
        if distance is not None or apart:
            positions.add(a.first, b.first)
        if apart or (distance is not None and a.loop and found.setdefault(a.loop.name, distance) != distance):
            return None
    same = _same_in_triangles(one, of_one, other, of_other, common, positions, ignored)
    if same is None or any(found.setdefault(name, 0) for name in same):
        return None
    return found


def _same_in_triangles(
    one: Reference, of_one: Sequence[LoopRange], other: Reference, of_other: Sequence[LoopRange],
    common: Sequence[LoopRange], positions: Positions, ignored: Collection[str],
) -> set[str] | None:  # fmt: skip
    """Return the common loops that two uses which meet are in the same iteration of, by bounds; None if they never do.

    Bounds and equal positions are differences of variables of at most so much (A[j, i] and A[i, j] with j <= i meet
    where i = j); the least such numbers are shortest paths.
    """
    if all(loop.low is None and loop.high is None for loop in (*of_one, *of_other)):
        return set()
    nodes = [(side, loop.name) for side, loops in enumerate((of_one, of_other)) for loop in loops]
    most: dict[tuple[tuple[int, str], tuple[int, str]], float] = {(a, b): inf for a in nodes for b in nodes}

    def at_most(a: tuple[int, str], b: tuple[int, str], number: int) -> None:
        most[a, b] = min(most[a, b], number)

    for side, loops in enumerate((of_one, of_other)):
        names = [loop.name for loop in loops]
        for loop in loops:
            for end, sign in ((loop.low, 1), (loop.high, -1)):
                at = affine(end, names) if end is not None and not names_in(end) & {*ignored} else None
                number = (
                    None if at is None or at.step != 1 else difference(at.offset or ast.Constant(0), ast.Constant(0))
                )
                if at is None or number is None:
                    continue
                if sign > 0:  # loop.name >= at.name + number
                    at_most((side, at.name), (side, loop.name), -number)
                else:
                    at_most((side, loop.name), (side, at.name), number - 1)
    for left, right in zip(one.indices, other.indices, strict=False):
        a, b = _line(left, of_one, ignored), _line(right, of_other, ignored)
        if a is None or b is None or a.loop is None or b.loop is None or (a.step, b.step) != (1, 1):
            continue
        gap = difference(b.offset, a.offset)  # the one variable is so much more than the other
        if gap is None or (names_in(a.first) | names_in(b.first)) & {name for _, name in nodes}:
            continue
        positions.add(a.first, b.first)
        at_most((0, a.loop.name), (1, b.loop.name), gap)
        at_most((1, b.loop.name), (0, a.loop.name), -gap)
    for k in nodes:
        for i in nodes:
            for j in nodes:
                most[i, j] = min(most[i, j], most[i, k] + most[k, j])
    if any(most[each, each] < 0 for each in nodes):
        return None
    pairs = [((0, loop.name), (1, loop.name)) for loop in common]
    return {a[1] for a, b in pairs if most[a, b] <= 0 and most[b, a] <= 0}


def _distance(a: _Line, b: _Line) -> int | None:
    """Return after how many iterations of a loop b is where a was; None if it is not known."""
    if a.loop is None or a.loop is not b.loop or a.step != b.step:
        return None
    gap = difference(a.offset, b.offset)  # a.step * i + a.offset == a.step * j + b.offset
    if gap is None or gap % (a.step * a.loop.step):
        return None
    distance = gap // (a.step * a.loop.step)
    return -distance if a.loop.descends else distance


def _apart(a: _Line, b: _Line, variables: Collection[str]) -> bool:
    """Return whether two indices have no position in common."""
    same = a.loop is not None and a.loop is b.loop and a.step == b.step  # so are their beginnings, known or not
    gap = difference(a.offset, b.offset) if same else difference(a.at, b.at)
    divisor = gcd(a.stride, b.stride)
    if gap is not None and (gap % divisor if divisor else gap):
        return True
    if (names_in(a.last) | names_in(b.last)) & {*variables}:
        return False
    return any((gap := difference(low.first, high.last)) is not None and gap > 0 for low, high in ((a, b), (b, a)))


def in_order(loops: Sequence[LoopRange], distances: Mapping[str, int]) -> set[int]:
    """Return whether the second of two uses may come in an iteration before (-1), the same (0), or a later one (1)."""
    found: set[int] = set()
    for loop in loops:
        distance = distances.get(loop.name)
        if distance:
            return found | {1 if distance > 0 else -1}
        if distance is None:
            found |= {-1, 1}
    return found | {0}


def uses(each: ElementStatement) -> Iterator[Reference]:
    """Yield the elements that a statement reads; not the old value of one that it updates."""
    target = reference(each.target).indices if isinstance(each.target, ast.Subscript) else ()
    for part in (each.value, each.condition, *target):
        if part is not None:
            yield from references(part)


def whole_names(each: ElementStatement) -> set[str]:
    """Return the names that a statement reads otherwise than by elements, lengths and shapes."""
    target = reference(each.target).indices if isinstance(each.target, ast.Subscript) else ()
    return {name for part in (each.value, each.condition, *target) if part is not None for name in _used_whole(part)}


def independent(
    loops: Sequence[LoopRange], statements: Sequence[ElementStatement], positions: Positions,
    outside: Sequence[LoopRange] = (),
) -> None:  # fmt: skip
    """Raise LoopStays with the dependence if iterations of a nest depend on each other.

    positions : gains what has to be at least 0 for that.  outside : loops of the nest that the others are moved into.
    """
    names = [loop.name for loop in loops]
    moved = {loop.name for loop in outside}

    def ordered(read: Reference, at: int, write: Reference, writer: int) -> None:
        """Raise LoopStays unless the uses of an element by two statements come in the order of the statements."""
        distances = meeting(read, loops, write, loops, loops, positions, moved)
        if distances is None:
            return
        wrong = -1 if at <= writer else 1  # the write comes before what is read first, or after what is read later
        if all(distances.get(name) == 0 for name in names) if moved else wrong not in in_order(loops, distances):
            return
        told = f"{ast.unparse(read.node)} may be what another iteration writes as {ast.unparse(write.node)}"
        raise LoopStays(statements[at].node, told)

    writes: list[tuple[int, Reference]] = []
    for k, each in enumerate(statements):
        if isinstance(each.target, ast.Name):
            continue
        target = reference(each.target)
        used = [name for index in target.indices if (name := affine(index, names).name)]
        if len(used) != len(set(used)):
            if len(used) != len(target.indices) or len(set(used)) != 1:
                raise LoopStays(each.node, f"{ast.unparse(each.target)} has a loop variable twice")
            for index in target.indices:  # none counts from the end, where two iterations could write one element
                at = _line(index, loops, moved)
                if at is None or names_in(at.first) & {*names}:
                    raise LoopStays(each.node, f"{ast.unparse(each.target)} has a loop variable twice")
                positions.add(at.first)
        missing = [name for name in names if name not in used]
        if missing and not isinstance(each.update, ORDERLESS):
            raise LoopStays(each.node, f"iterations of {missing[0]} write the same element {ast.unparse(each.target)}")
        if moved and not isinstance(each.update, ORDERLESS):
            ordered(target, k, target, k)
        writes.append((k, target))
    changed = {target.array for _, target in writes}
    for k, each in enumerate(statements):
        if whole := changed & whole_names(each):
            raise LoopStays(each.node, f"{sorted(whole)[0]}, which iterations write, is used as a whole")
        for read in uses(each):
            for writer, target in writes:
                ordered(read, k, target, writer)
    for n, (k, first) in enumerate(writes):
        for other, second in writes[n + 1 :]:
            ordered(first, k, second, other)


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
