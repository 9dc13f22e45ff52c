"""Imperfect nests: a loop over several statements and loops, as one loop for each of them where dependences allow it.

    for i in range(n):                     s[:] = 0                          (for all i)
        s = 0.0                            s[:] += A[i, j] * x[j]            (for all i and j)
        for j in range(m):         ->      y[:] = s[:] / d[:]                (for all i)
            s += A[i, j] * x[j]
        y[i] = s / d[i]

1. A name that every iteration sets before it reads it becomes an array, an element for each iteration; a name that is
   set once, of what nothing in the nest writes, its text.
2. Statement S goes before T if an element or variable that both use, and one writes, may be used by S first, in the
   order of iterations.  Statements in a cycle stay in one loop; others get loops of their own, in that order (Allen and
   Kennedy, Optimizing Compilers for Modern Architectures, section 2.4).
3. A loop that dependences still forbid stays, beside those that became array statements.
"""

from __future__ import annotations

import ast
import copy
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from bsp.arrays.loops.dependences import Positions, in_order, meeting, uses, whole_names
from bsp.arrays.loops.expressions import Guard
from bsp.arrays.loops.nests import (
    ElementStatement,
    Expanded,
    LoopRange,
    LoopStays,
    flat,
    names_in,
    range_of,
    reference,
    values_in,
    written_name,
)
from bsp.arrays.loops.perfect import carried_out, free, one_kind, primed
from bsp.arrays.loops.purity import refuse_impure
from bsp.arrays.loops.statements import replaced
from bsp.arrays.loops.triangles import boxed


class Staying(NamedTuple):
    """A part of a nest that stays a loop, and the function or module around it, with it in the place of the nest."""

    loop: ast.For
    around: ast.AST


class _Leaf(NamedTuple):
    """A statement of a nest, with the loops around it."""

    statement: ElementStatement
    path: tuple[ast.For, ...]

    @property
    def read(self) -> set[str]:
        """The names that it reads."""
        target = reference(self.statement.target).indices if isinstance(self.statement.target, ast.Subscript) else ()
        parts = (self.statement.value, self.statement.condition, *target)
        return {name for part in parts if part is not None for name in names_in(part)}

    @property
    def variable(self) -> str:
        """The variable that it assigns to; "" if that is an element."""
        return self.statement.target.id if isinstance(self.statement.target, ast.Name) else ""


def distributed(node: ast.For, function: ast.AST, guard: Guard) -> list[ast.stmt | Staying]:
    """Return the array statements of the parts of a nest, and parts that stay; LoopStays if all would.

    function : what the nest is in.  guard : gains what must hold.
    """
    written = list(_leaves(node))
    for leaf in written:  # of calls that do something besides, not even the order may change
        for part in (leaf.statement.target, leaf.statement.value, leaf.statement.condition):
            refuse_impure(part)
        for each in leaf.path:
            refuse_impure(each.iter)
    loops: dict[ast.For, LoopRange] = {}
    for leaf in written:
        for k, each in enumerate(leaf.path):
            loops[each] = loops.get(each) or boxed(range_of(each), [loops[outer] for outer in leaf.path[:k]])
    _variables_are_their_own(loops, written, function)
    private = _private(written, node, function)
    leaves, texts = _inlined([leaf._replace(statement=primed(leaf.statement)) for leaf in written], private)
    leaves = [_expanded(leaf, {name: private[name] for name in private if name not in texts}) for leaf in leaves]
    positions = Positions()
    groups, why = _ordered(leaves, loops, positions)
    if len(groups) == 1 and len(leaves) > 1:
        raise why or LoopStays(node, "its statements depend on each other")
    found: list[ast.stmt | Staying] = []
    refused: LoopStays | None = None
    for group in groups:
        try:
            found += _statements(group, loops, guard)
        except LoopStays as stays:
            refused = refused or stays
            for name in {name for leaf in group for name in (*leaf.read, written_name(leaf.statement))} & {*private}:
                inside = {id(leaf.statement.node) for leaf in group}
                touching = [each for each in written if name == each.variable or name in each.read]
                if name not in texts and not all(id(each.statement.node) in inside for each in touching):
                    raise stays from None
            found.append(_staying(node, function, group, written, texts))
    if all(isinstance(each, Staying) for each in found):
        raise refused or LoopStays(node, "has no statements")
    guard.positions |= positions.found
    return found


def _leaves(node: ast.For, path: tuple[ast.For, ...] = ()) -> Iterator[_Leaf]:
    """Yield the statements of a nest in their order."""
    for part in flat(node.body):
        if isinstance(part, ast.For):
            yield from _leaves(part, (*path, node))
        else:
            yield _Leaf(part, (*path, node))


def _variables_are_their_own(loops: Mapping[ast.For, LoopRange], leaves: Sequence[_Leaf], function: ast.AST) -> None:
    """Raise LoopStays if a loop variable is something else, too, or if a range depends on what is written."""
    written = {written_name(leaf.statement) for leaf in leaves}
    for node, loop in loops.items():
        if loop.name in free(function, node):
            raise LoopStays(node, f"{loop.name} is used outside of the loop")
        if loop.name in written:
            raise LoopStays(node, f"{loop.name} is assigned to in the loop")
        if changed := values_in(node.iter) & written:
            raise LoopStays(node, f"the range of {loop.name} depends on {sorted(changed)[0]}")
    for leaf in leaves:
        names = [loops[each].name for each in leaf.path]
        if len(names) != len(set(names)):
            raise LoopStays(leaf.path[-1], f"{names[-1]} is the variable of two loops")


def _private(leaves: Sequence[_Leaf], node: ast.For, function: ast.AST) -> dict[str, tuple[ast.For, ...]]:
    """Return the names that each iteration of some loops sets before it reads them, and those loops."""
    inside = {id(each) for each in ast.walk(node)}
    outside = {each.id for each in ast.walk(function)
               if isinstance(each, ast.Name) and isinstance(each.ctx, ast.Load) and id(each) not in inside}  # fmt: skip
    found = {}
    for name in dict.fromkeys(leaf.variable for leaf in leaves):
        touching = [leaf for leaf in leaves if name == leaf.variable or name in leaf.read]
        first = touching[0]
        sets = first.variable == name and first.statement.update is None and first.statement.condition is None
        within = all(leaf.path[: len(first.path)] == first.path for leaf in touching)
        if name and name not in outside and sets and name not in first.read and within:
            found[name] = first.path
    return found


def _inlined(
    leaves: Sequence[_Leaf], private: Mapping[str, tuple[ast.For, ...]]
) -> tuple[list[_Leaf], dict[str, ast.expr]]:
    """Return statements with the texts of private names that are set once, of what nothing writes; and these texts."""
    texts: dict[str, ast.expr] = {}
    found: list[_Leaf] = []
    written = {written_name(leaf.statement) for leaf in leaves}
    sets = [leaf.variable for leaf in leaves]
    for leaf in leaves:
        each = leaf.statement
        value, condition = (
            replaced(texts, each.value),
            None if each.condition is None else replaced(texts, each.condition),
        )
        generates = any(isinstance(part, (ast.GeneratorExp, ast.ListComp)) for part in ast.walk(value))
        once = leaf.variable in private and sets.count(leaf.variable) == 1
        if once and not generates and not values_in(value) & written:
            texts[leaf.variable] = value
            continue
        target = each.target if isinstance(each.target, ast.Name) else replaced(texts, each.target)
        assert isinstance(target, (ast.Name, ast.Subscript))
        found.append(leaf._replace(statement=each._replace(target=target, value=value, condition=condition)))
    return found, texts


class _Elements(ast.NodeTransformer):
    """Write names that iterations set as elements of arrays."""

    def __init__(self, names: Mapping[str, tuple[ast.For, ...]]) -> None:
        self.names = names

    def visit_Name(self, node: ast.Name) -> Any:
        """Index a name by its loops."""
        if node.id not in self.names:
            return node
        indices: list[ast.expr] = [ast.Name(ast.unparse(each.target), ast.Load()) for each in self.names[node.id]]
        return ast.Subscript(ast.Name(node.id, Expanded()), ast.Tuple(indices, ast.Load()), ast.Load())


def _expanded(leaf: _Leaf, names: Mapping[str, tuple[ast.For, ...]]) -> _Leaf:
    """Return a statement whose private names are elements of arrays."""
    written = _Elements(names)
    target, value, condition = (
        None if part is None else written.visit(copy.deepcopy(part))
        for part in (leaf.statement.target, leaf.statement.value, leaf.statement.condition)
    )
    assert isinstance(target, (ast.Name, ast.Subscript))
    assert value is not None
    return leaf._replace(statement=leaf.statement._replace(target=target, value=value, condition=condition))


def _ordered(
    leaves: Sequence[_Leaf], loops: Mapping[ast.For, LoopRange], positions: Positions
) -> tuple[list[list[_Leaf]], LoopStays | None]:
    """Return statements in groups, those in a cycle of dependences together, each after what it depends on.

    Also a dependence that goes against the order of the statements, if there is one.
    """
    count = len(leaves)
    before = [[False] * count for _ in range(count)]  # whether some iteration of the one may have to be first
    why: LoopStays | None = None
    for k in range(count):
        for m in range(k + 1, count):
            orders, told = _orders(leaves[k], leaves[m], loops, positions)
            before[k][m] = bool(orders & {0, 1})
            before[m][k] = -1 in orders
            if -1 in orders:
                why = why or LoopStays(leaves[m].statement.node, told)
    for k in range(count):
        for a in range(count):
            for b in range(count):
                before[a][b] |= before[a][k] and before[k][b]
    groups: list[list[int]] = []
    for k in range(count):
        if not any(k in group for group in groups):
            groups.append([m for m in range(count) if m == k or (before[k][m] and before[m][k])])
    found: list[list[_Leaf]] = []
    while groups:
        ready = next(group for group in groups
                     if not any(before[other[0]][group[0]] for other in groups if other is not group))  # fmt: skip
        groups.remove(ready)
        found.append([leaves[m] for m in ready])
    return found, why


def _orders(
    one: _Leaf, other: _Leaf, loops: Mapping[ast.For, LoopRange], positions: Positions
) -> tuple[set[int], str]:  # fmt: skip
    """Return where iterations of the second of two statements use what the first one uses (`in_order`), and a text."""
    common = [loops[a] for a, b in zip(one.path, other.path, strict=False) if a is b]
    around = [[loops[each] for each in leaf.path] for leaf in (one, other)]
    for leaf, writer in ((one, other), (other, one)):
        name = written_name(writer.statement)
        if writer.variable and name in {*leaf.read, leaf.variable}:
            return {-1, 0, 1}, f"{name} is used outside of the iteration that sets it"
        if name in whole_names(leaf.statement):
            return {-1, 0, 1}, f"{name}, which iterations write, is used as a whole"
    writes = [None if leaf.variable else reference(leaf.statement.target) for leaf in (one, other)]  # type: ignore[arg-type]
    pairs = [(writes[0], writes[1])]
    pairs += [(writes[0], read) for read in uses(other.statement)] + [(read, writes[1]) for read in uses(one.statement)]
    found: set[int] = set()
    told = ""
    for first, second in pairs:
        if first is None or second is None:
            continue
        distances = meeting(first, around[0], second, around[1], common, positions)
        if distances is None:
            continue
        order = in_order(common, distances)
        if -1 in order and not told:
            told = f"{ast.unparse(first.node)} may be what another iteration uses as {ast.unparse(second.node)}"
        found |= order
    return found, told


def _statements(group: Sequence[_Leaf], loops: Mapping[ast.For, LoopRange], guard: Guard) -> list[ast.stmt]:
    """Return the array statements of a group; LoopStays if it has to stay."""
    for leaf in group:
        if leaf.variable and leaf.statement.update is None:
            raise LoopStays(leaf.statement.node, f"{leaf.variable} is used outside of its iteration")
        if leaf.path != group[0].path:
            raise LoopStays(leaf.path[-1], "depends on statements beside it in its loop")
    statements = [leaf.statement for leaf in group]
    one_kind(statements)
    return carried_out([loops[each] for each in group[0].path], statements, guard)


def _staying(
    node: ast.For, function: ast.AST, group: Sequence[_Leaf], written: Sequence[_Leaf], texts: Mapping[str, ast.expr]
) -> Staying:
    """Return a nest with the statements of a group only, and with the names that these need."""
    kept = {id(leaf.statement.node) for leaf in group}
    for leaf in reversed(written):
        needed = {name for each in written if id(each.statement.node) in kept for name in each.read}
        if leaf.variable in texts and leaf.variable in needed:
            kept.add(id(leaf.statement.node))
    (loop,) = _only(node, kept)
    assert isinstance(loop, ast.For)
    return Staying(loop, ast.Module([_instead(function, node), loop], []))


def _only(node: ast.stmt, kept: set[int]) -> list[ast.stmt]:
    """Return a copy of a statement with some of those inside it; none if it has none of these."""
    if not isinstance(node, (ast.For, ast.If)):
        return [copy.deepcopy(node)] if id(node) in kept else []
    found = copy.copy(node)
    found.body, found.orelse = (
        [new for each in part for new in _only(each, kept)] for part in (node.body, node.orelse)
    )
    if not found.body and not found.orelse:
        return []
    found.body = found.body or [ast.copy_location(ast.Pass(), node)]
    return [found]


def _instead(tree: Any, node: ast.AST) -> Any:
    """Return a tree without a statement."""
    if tree is node:
        return ast.Pass()
    if isinstance(tree, list):
        return [_instead(each, node) for each in tree]
    if not isinstance(tree, ast.stmt | ast.mod | ast.excepthandler):
        return tree
    found = copy.copy(tree)
    for name, value in ast.iter_fields(tree):
        setattr(found, name, _instead(value, node))
    return found
