"""Fusion: the choice of nodes that are computed inside their users, and the programs that compute them.

A view becomes an index map on its source.  A chain of elementwise operations becomes one program over its inputs, in
which each common subexpression is computed once (Khan and Fegaras, section 5: fused comprehensions).
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any, NamedTuple

from bsp.arrays.expressions.graph import (
    PARAM,
    Access,
    Along,
    Assemble,
    Contract,
    DType,
    Graph,
    Node,
    Relayout,
    Reshape,
    Scan,
    ViewOperation,
)
from bsp.arrays.kernels.elementwise import Elementwise
from bsp.arrays.kernels.programs import Instruction, Program
from bsp.arrays.planning.stages import Ref, Value

LONGEST = 64  # operations in one program; a longer expression is split into stages

Accesses = tuple[Access, ...]


@lru_cache(maxsize=64)
def identity(ndim: int) -> Accesses:
    """Return the access that indexes each axis by the label of the same number."""
    return tuple(Access(axis) for axis in range(ndim))


def through(view: Accesses, access: Accesses) -> Accesses:
    """Return the access to the source of a view.

    view : the access to the view itself.
    access : the view's own map from its axes to those of its source.
    """
    found = []
    for label, start, step in access:
        if label < 0:
            found.append(Access(-1, start, 0))
            continue
        outer = view[label]
        found.append(Access(outer.label, start + step * outer.start, step * outer.step if outer.label >= 0 else 0))
    return tuple(found)


def aligned(view: Accesses, node: Node, arg: Node) -> Accesses:
    """Return the access to an argument that broadcasts to a node, where `view` is the access to the node."""
    shape = arg.kind.shape
    first = len(view) - len(shape)
    return tuple(
        Access(-1, 0, 0) if shape[axis] == 1 and node.kind.shape[first + axis] != 1 else view[first + axis]
        for axis in range(len(shape))
    )


class FusedOperand(NamedTuple):
    """A fused expression: a program and the references that it reads."""

    program: Program
    refs: tuple[Ref, ...]
    dtype: DType


class Fusion:
    """Fusion decisions for one graph, and the programs of its operands."""

    def __init__(self, graph: Graph) -> None:
        self.positions = graph.positions
        self.made: dict[Node, Value] = {}  # values of nodes outside the graph, which the planner makes
        params = [i for i, node in enumerate(graph.nodes) if node.op is PARAM]
        self._params = {i: k for k, i in enumerate(params)}
        self._inline = _decided(graph)

    def is_inline(self, node: Node) -> bool:
        """Return whether a node is computed inside its users."""
        return node not in self.made and self._inline[self.positions[node]]

    def operand(self, node: Node, view: Accesses, value_of: Callable[[int], Value]) -> FusedOperand:
        """Return the program and references that compute a node.

        view : the access to the node.
        value_of : returns the value of a node, by position, that is not computed inside its users.
        """
        reading = _Reading(self, value_of)
        last = reading.place(node, view, node not in self.made and isinstance(node.op, (Elementwise, ViewOperation)))
        refs, params, code = reading.refs, reading.params, reading.code
        base = {"ref": 0, "param": len(refs), "code": len(refs) + len(params)}
        lines = tuple(Instruction(op, tuple(base[where] + k for where, k in args), dtype) for op, args, dtype in code)
        program = Program(len(refs), tuple(params), lines, base[last[0]] + last[1])
        return FusedOperand(program, tuple(refs), node.kind.dtype)

    def param(self, node: Node) -> int:
        """Return the number of a parameter among the graph's parameters."""
        return self._params[self.positions[node]]


class _Reading:
    """Builder of one operand: collects its references, parameters and instructions, each once."""

    def __init__(self, fusion: Fusion, value_of: Callable[[int], Value]) -> None:
        self.refs: dict[Ref, int] = {}
        self.params: dict[int, int] = {}
        self.code: dict[tuple[Any, ...], int] = {}
        self._seen: dict[tuple[Any, Accesses], tuple[str, int]] = {}
        self._fusion = fusion
        self._value_of = value_of

    def place(self, node: Node, view: Accesses, here: bool = False) -> tuple[str, int]:
        """Return the register of a node's value, as (kind of register, number), adding what it needs.

        here : compute the node in this program even if it is not computed inside its users.
        """
        fusion = self._fusion
        key = fusion.positions.get(node, node), view  # equal nodes have one position
        found = self._seen.get(key)
        if found is not None:
            return found
        here = here or fusion.is_inline(node)
        if node in fusion.made:
            found = ("ref", self.refs.setdefault(Ref(fusion.made[node], view), len(self.refs)))
        elif node.op is PARAM:
            found = ("param", self.params.setdefault(fusion.param(node), len(self.params)))
        elif here and isinstance(node.op, ViewOperation):
            found = self.place(node.args[0], through(view, node.op.access))
        elif here and isinstance(node.op, Elementwise):
            args = tuple(self.place(arg, aligned(view, node, arg)) for arg in node.args)
            found = ("code", self.code.setdefault((node.op, args, node.kind.dtype), len(self.code)))
        else:
            value = self._value_of(fusion.positions[node])
            found = ("ref", self.refs.setdefault(Ref(value, view), len(self.refs)))
        self._seen[key] = found
        return found


def _decided(graph: Graph) -> list[bool]:
    """Return, for each node, whether it is computed inside its users.

    A view is, unless it is a root.  An elementwise operation is, if all its uses are in one group and none of them is
    through a view, or if it has a single use.  A group is a stage or a factor of a contraction; None stands for
    stages whose kernels only read values.  Longer programs than `LONGEST` are not fused.
    """
    nodes, positions = graph.nodes, graph.positions
    count = len(nodes)
    roots = set(graph.roots)
    users: list[list[tuple[Any, bool]]] = [[] for _ in range(count)]  # by node: (group, through a view)
    length = [0] * count
    inline = [False] * count
    for i in range(count):  # arguments first: the length of the program if everything is fused
        op = nodes[i].op
        if isinstance(op, (Elementwise, ViewOperation)):
            length[i] = 1 + sum(length[positions[arg]] for arg in nodes[i].args)
            if length[i] > LONGEST:
                length[i] = 0
    for i in reversed(range(count)):
        node = nodes[i]
        op = node.op
        if isinstance(op, ViewOperation) and i not in roots and length[i]:
            inline[i] = True
            for arg in node.args:
                users[positions[arg]] += [(group, True) for group, _ in users[i]]
            continue
        group: Any = i
        if isinstance(op, Elementwise) and i not in roots and length[i] and users[i]:
            groups = {each for each, _ in users[i]}
            whole = not any(viewed for _, viewed in users[i]) or len(users[i]) == 1
            if len(groups) == 1 and whole and None not in groups:
                inline[i] = True
                (group,) = groups
        for k, arg in enumerate(node.args):
            to = group
            if isinstance(op, Contract):
                to = (i, k)
            elif isinstance(op, (Assemble, Reshape, Along, Scan, Relayout)):
                to = None  # the kernels of these stages take no programs
            users[positions[arg]].append((to, False))
    return inline
