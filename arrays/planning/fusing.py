"""Fusion: the choice of nodes that are computed inside their users, and the programs that compute them.

A view becomes an index map on its source.  A chain of elementwise operations becomes one program over its inputs, in
which each common subexpression is computed once (Khan and Fegaras, section 5: fused comprehensions).

A program computes each operation for every point of its stage.  So an operand that is broadcast, such as `sin(x)` in
`sin(x)[:, None] * y`, would be computed again and again.  It becomes a stage of its own, computed once for each of its
elements, where that costs less than what it saves (`Prices`).
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any, NamedTuple

from bsp.abstract.table import complexity
from bsp.abstract.work import rate_of
from bsp.arrays.expressions import layout as layouts
from bsp.arrays.expressions.graph import (
    PARAM,
    Access,
    Along,
    Assemble,
    Contract,
    DType,
    ExpressionGraph,
    Node,
    Reduce,
    Relayout,
    Reshape,
    Scan,
    Staged,
    ViewOperation,
)
from bsp.arrays.kernels.elementwise import Elementwise
from bsp.arrays.kernels.programs import Instruction, Program
from bsp.arrays.planning.stages import Ref, Value
from bsp.cost.model import WORD, Machine

LONGEST = 64  # operations in one program; a longer expression is split into stages
_STAGE = 2e-5  # seconds that one more stage takes, however small (measured: 10 to 30 µs of Python)
_WORD = 2.0  # flop-times to write a word to memory or to read it, on a machine without measured bandwidth

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


class Prices:
    """Prices of computing a broadcast operand for each point of the stage that uses it, or once for each element."""

    def __init__(self, machine: Machine, nprocs: int) -> None:
        rates = machine.rates
        self.flop = machine.r / rates["elementwise"] if rates else 1.0  # flop-times of an elementwise operation
        self._of_function = machine.r / rate_of(rates, "functions") if rates else 1.0  # of a flop of a function
        self._byte = machine.r / rates["bandwidth"] if "bandwidth" in rates else _WORD / WORD
        self._stage = _STAGE * machine.r
        self._nprocs = nprocs

    def work(self, op: Elementwise, dtype: DType) -> float:
        """Return the flop-times of an operation for an element."""
        return (self._of_function if op.function else self.flop) * op.weight * complexity(dtype)

    def of_program(self, program: Program) -> float:
        """Return the flop-times of a program for an element."""
        return self.flop * (program.operations - program.functions) + self._of_function * program.functions

    def stores(self, node: Node, work: float, points: int) -> bool:
        """Return whether to compute an operand once in a stage of its own: its work, a write, a read, and the stage.

        work : flop-times for each element of the operand.
        points : points of the stage that uses it, for each of which it would be computed.
        """
        size = node.kind.size
        if size >= points:
            return False
        own = size if size <= layouts.REPLICATED_SIZE else size / self._nprocs
        fused = work * points / self._nprocs
        return own * (work + 2 * self._byte * node.kind.dtype.itemsize) + self._stage < fused


class Fusion:
    """Fusion decisions for one graph, and the programs of its operands.

    prices : decide which broadcast operands are stages of their own.  None: plain fusion, in which no operand is one
        because of its price, and no operand of an assembly is fused.
    plain : whether plain fusion decides the same.
    """

    def __init__(self, graph: ExpressionGraph, prices: Prices | None = None) -> None:
        self.positions = graph.positions
        self._graph = graph
        self._beside: dict[int, tuple[int, ...]] | None = None
        self.made: dict[Node, Value] = {}  # values of nodes outside the graph, which the planner makes
        params = [i for i, node in enumerate(graph.nodes) if node.op is PARAM]
        self._params = {i: k for k, i in enumerate(params)}
        self._inline, self.plain = _decided(graph, prices)

    def is_inline(self, node: Node) -> bool:
        """Return whether a node is computed inside its users."""
        return node not in self.made and self._inline[self.positions[node]]

    def beside(self, node: Node) -> tuple[int, ...]:
        """Return the positions of what an elementwise expression reads beside a contraction, element by element."""
        if self._beside is None:
            self._beside = {}
            for user in self._graph.nodes:
                if isinstance(user.op, Elementwise) and not self.is_inline(user):
                    read = self._read_alike(user)
                    for i in read:
                        if isinstance(self._graph.nodes[i].op, Contract):
                            self._beside.setdefault(i, tuple(k for k in read if k != i))
        return self._beside.get(self.positions.get(node, -1), ())

    def _read_alike(self, user: Node) -> list[int]:
        """Return the positions of the values of the same shape that an elementwise expression reads, but for views."""
        found: dict[int, None] = {}
        waiting, seen = list(user.args), {user}
        while waiting:
            node = waiting.pop()
            if node in seen or node.kind.shape != user.kind.shape:
                continue
            seen.add(node)
            if not self.is_inline(node):
                found[self.positions[node]] = None
            elif isinstance(node.op, Elementwise):
                waiting += node.args
        return list(found)

    def operand(self, node: Node, view: Accesses, value_of: Callable[[int], Value], here: bool = False) -> FusedOperand:
        """Return the program and references that compute a node.

        view : the access to the node.
        here : compute the node in this program even if it is not computed inside its users.
        value_of : returns the value of a node, by position, that is not computed inside its users.
        """
        reading = _Reading(self, value_of)
        seen_through = node not in self.made and isinstance(node.op, ViewOperation)  # results that are views, too
        last = reading.place(node, view, here or seen_through)
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


def _decided(graph: ExpressionGraph, prices: Prices | None) -> tuple[list[bool], bool]:
    """Return, for each node, whether it is computed inside its users; and whether plain fusion decides the same.

    A view is, unless it is a root.  An elementwise operation is, if all its uses are in one group and none of them is
    through a view, or if it has a single use.  Neither is, if it is broadcast and cheaper to store.  A group is a
    stage, a factor of a contraction, or an argument of an assembly; None stands for stages whose kernels only read
    values.  Longer programs than `LONGEST` are not fused.
    """
    nodes, positions = graph.nodes, graph.positions
    count = len(nodes)
    roots = set(graph.roots)
    users: list[list[tuple[Any, bool]]] = [[] for _ in range(count)]  # by node: (group, through a view)
    length = [0] * count
    work = [0.0] * count  # flop-times for each element, if everything is fused
    points: dict[Any, int] = {None: 0}  # by group, the points for which its program is computed
    inline = [False] * count
    plain = True
    stores = prices.stores if prices is not None else lambda *_: False
    for i in range(count):  # arguments first: the length of the program if everything is fused
        op = nodes[i].op
        if isinstance(op, (Elementwise, ViewOperation)):
            length[i] = 1 + sum(length[positions[arg]] for arg in nodes[i].args)
            work[i] = sum(work[positions[arg]] for arg in nodes[i].args)
            if isinstance(op, Elementwise) and prices is not None:
                work[i] += prices.work(op, nodes[i].kind.dtype)
            if length[i] > LONGEST:
                length[i], work[i] = 0, 0.0
    for i in reversed(range(count)):
        node = nodes[i]
        op = node.op
        view = isinstance(op, ViewOperation)
        group: Any = i
        if (view or isinstance(op, Elementwise)) and i not in roots and length[i] and users[i]:
            groups = {each for each, _ in users[i]}
            whole = not any(viewed for _, viewed in users[i]) or len(users[i]) == 1
            fits = view or (len(groups) == 1 and whole and None not in groups)
            part = not view or node.kind.size < node.args[0].kind.size  # of another view, the argument is asked
            if fits and part and len(groups) == 1 and stores(node, work[i], points[next(iter(groups))]):
                plain = False
            elif fits and view:
                inline[i] = True
                users[positions[node.args[0]]] += [(each, True) for each, _ in users[i]]
                continue
            elif fits:
                inline[i], (group,) = True, groups
                plain = plain and not (isinstance(group, tuple) and isinstance(nodes[group[0]].op, Assemble))
        if group == i:
            points[i] = node.kind.size
        for k, arg in enumerate(node.args):
            to = group
            if isinstance(op, Contract) or (isinstance(op, Assemble) and prices is not None):
                to = (i, k)
                points[to] = arg.kind.size
            elif isinstance(op, Reduce):
                points[to] = arg.kind.size
            elif isinstance(op, (Reshape, Along, Scan, Relayout, Staged)):
                to = None  # the kernels of these stages take no programs
            users[positions[arg]].append((to, False))
    return inline, plain
