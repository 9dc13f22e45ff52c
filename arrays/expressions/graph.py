"""Expression graphs: typed nodes with interned operations and kinds.

A node is an operation on other nodes, with the shape and dtype of its result.  To build one takes about a
microsecond: kinds (shape, dtype) and operations are interned, so that inference is a look-up.
A leaf has data: its layout and this process's blocks.  A parameter is a Python number.  Its value is not part of the
graph's key, so a loop that changes a step size reuses its plan.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from math import prod
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeVar

import numpy as np

from bsp.arrays.expressions.element_types import element_type
from bsp.arrays.expressions.layout import Layout, Shape

if TYPE_CHECKING:
    from bsp.arrays.kernels.aggregates import Aggregate

DType = np.dtype[Any]
Blocks = dict[Shape, np.ndarray]  # this process's blocks, by block coordinates


class Kind:
    """Shape and dtype of a node; equal kinds are one object.

    weak : the Python type of a parameter, whose dtype yields to those of arrays (NEP 50); None for arrays.
    """

    __slots__ = ("dtype", "shape", "size", "weak")

    def __init__(self, shape: Shape, dtype: DType, weak: type | None = None) -> None:
        self.shape = shape
        self.dtype = dtype
        self.size = prod(shape)
        self.weak = weak

    @property
    def words(self) -> int:
        """Size of the data in words of 8 bytes, rounded up."""
        return -(-self.size * self.dtype.itemsize // 8)

    def __repr__(self) -> str:
        return self.weak.__name__ if self.weak is not None else f"{self.dtype.str}{list(self.shape)}"


@lru_cache(maxsize=1 << 14)
def kind_of(shape: Shape, dtype: DType) -> Kind:
    """Return the interned kind of this shape and dtype; raise TypeError for a dtype that arrays cannot hold."""
    return Kind(shape, element_type(dtype))


WEAK = {
    bool: Kind((), np.dtype(bool), bool),
    int: Kind((), np.dtype(np.int64), int),
    float: Kind((), np.dtype(np.float64), float),
    complex: Kind((), np.dtype(np.complex128), complex),
}


class Operation:
    """Operation of a node on its arguments.  Subclasses are interned by their parameters (see `interned`)."""

    name = ""

    def __repr__(self) -> str:
        return self.name


class SourceOperation(Operation):
    """Operation without arguments, of leaves and of parameters."""

    def __init__(self, name: str) -> None:
        self.name = name


LEAF, PARAM = SourceOperation("leaf"), SourceOperation("parameter")


OVERWRITE = Operation()  # an array, and a parameter with values that are assigned to parts of it
OVERWRITE.name = "assigned"


class Access(NamedTuple):
    """Index map of one axis of a view's source: position x on axis `label` of the view is start + step·x of the source.

    label : the axis of the view; -1: the source's axis is fixed at `start`.
    """

    label: int
    start: int = 0
    step: int = 1


class ViewOperation(Operation):
    """Another index map over the same elements: transposed, sliced, broadcast, flipped, or diagonal.  Moves no data."""

    def __init__(self, access: tuple[Access, ...]) -> None:
        self.access = access  # one map for each axis of the source
        self.name = f"view{[tuple(each) for each in access]}"


class Reduce(Operation):
    """Reduction by an aggregate over some axes, which the result lacks."""

    def __init__(self, how: Aggregate, axes: tuple[int, ...]) -> None:
        self.how = how
        self.axes = axes
        self.name = f"{how.name}{list(axes)}"


class Contract(Operation):
    """Product of arrays over named indices, summed over the indices that are not in the result: an einsum."""

    def __init__(self, labels: tuple[tuple[int, ...], ...], out: tuple[int, ...]) -> None:
        self.labels = labels  # by argument, the label of each axis
        self.out = out
        self.name = f"contract{[list(each) for each in labels]}->{list(out)}"


class Placement(NamedTuple):
    """Place of an argument of `Assemble`: its position x on each axis goes to start + step·x of the result."""

    starts: tuple[int, ...]
    steps: tuple[int, ...]


class Assemble(Operation):
    """One array from arguments written over each other, later ones on top: concatenate, roll, assignment."""

    def __init__(self, placements: tuple[Placement, ...]) -> None:
        self.placements = placements
        self.name = f"assemble{[tuple(each) for each in placements]}"


class Reshape(Operation):
    """Array of the same elements, in C order, with another shape."""

    def __init__(self, shape: Shape) -> None:
        self.shape = shape
        self.name = f"reshape{list(shape)}"


class OfLines(Protocol):
    """Function of stacks of lines, planes, ...: `call(*arrays)` maps arrays (..., core) to one (..., out_core).

    One with an attribute `pure` that is true depends on the arrays alone, and changes nothing: of a single line, an
    element calls it once for all of its processes.
    """

    @property
    def name(self) -> str:
        """Name that identifies the function: functions with one name are the same."""

    @property
    def work(self) -> float:
        """Operations for each point of the stage; with one operand, for each of its elements."""

    @property
    def call(self) -> Callable[..., Any]:
        """Function itself, which takes and returns stacks."""

    @property
    def fallible(self) -> bool:
        """True if the function can raise for some values."""


class Along(Operation):
    """Function of lines, planes, ...: each task gets the last `cores[k]` axes of argument k whole.

    The other axes are the same for all arguments and come first in the result.
    """

    def __init__(self, how: OfLines, cores: tuple[int, ...], out_core: Shape) -> None:
        self.how = how
        self.cores = cores
        self.out_core = out_core
        self.name = f"along {how.name}{list(cores)}->{list(out_core)}"


class Scan(Operation):
    """Cumulative results of an aggregate along one axis: cumsum, cumprod."""

    def __init__(self, how: Aggregate, ufunc: np.ufunc, axis: int) -> None:
        self.how = how
        self.ufunc = ufunc
        self.axis = axis
        self.name = f"cumulative {how.name}[{axis}]"


class Relayout(Operation):
    """Copy of an array in a given layout, by one total exchange."""

    def __init__(self, layout: Layout) -> None:
        self.layout = layout
        self.name = f"rechunk{list(layout.grid)}{list(layout.process_grid)}{'*' * layout.replicated}"


class Staged(Operation):
    """Operation that makes its own stages: a room above the planner defines it, and the planner calls `expand`."""

    def expand(self, planner: Any, i: int, node: Node) -> Any:
        """Create the stages of a node with this operation, the i-th of the planner's graph; return its value."""
        raise NotImplementedError


_Operation = TypeVar("_Operation", bound=Operation)
_interned: dict[Any, Any] = {}


def interned(cls: type[_Operation], *parameters: Any) -> _Operation:
    """Return the interned operation of a class with these parameters, which must be hashable."""
    key = (cls, *parameters)
    found: _Operation | None = _interned.get(key)
    if found is None:
        if len(_interned) > 1 << 16:
            _interned.clear()
        found = _interned[key] = cls(*parameters)
    return found


class Node:
    """One operation in an expression.  Its operation changes once: computed, it becomes a leaf."""

    __slots__ = ("args", "computed", "findings", "given", "kind", "layout", "op", "origin", "value")

    op: Operation
    args: tuple[Node, ...]
    kind: Kind
    value: Any  # a leaf's Blocks, or a parameter's number
    layout: Layout | None  # of a leaf only
    origin: Any  # of a leaf that a procedure has made: its description, else None
    findings: tuple[Any, ...]  # of a leaf, facts about its values that procedures found (`selection.remembered`)
    given: Any  # of a leaf: a digest of what the program made it of, if it is still to be compared (`World.give`)
    computed: bool  # whether it was computed before as an intermediate result

    def __init__(self, op: Operation, args: tuple[Node, ...], kind: Kind) -> None:
        self.op = op
        self.args = args
        self.kind = kind
        self.computed = False

    def become(self, layout: Layout, blocks: Blocks) -> None:
        """Turn the node into a leaf with this layout and this process's blocks; drop its arguments."""
        self.op, self.args = LEAF, ()
        self.layout, self.value, self.origin, self.findings, self.given = layout, blocks, None, (), None

    def __reduce__(self) -> Any:
        if self.op is LEAF:
            return leaf, (self.kind.shape, self.kind.dtype, self.layout, self.value)
        if self.op is PARAM:
            return parameter, (self.value,)
        raise TypeError("an array that is not computed yet cannot be pickled: persist() it first")


def leaf(shape: Shape, dtype: DType, layout: Layout, blocks: Mapping[Shape, Any]) -> Node:
    """Return a leaf: a node with data.

    blocks : this process's blocks, by block coordinates.
    """
    node = Node(LEAF, (), kind_of(shape, dtype))
    node.layout, node.value, node.origin, node.findings, node.given = layout, blocks, None, (), None
    return node


def parameter(value: Any) -> Node:
    """Return a parameter: a node for a Python number."""
    node = Node(PARAM, (), WEAK[type(value)])
    node.value = value
    return node


class ExpressionGraph(NamedTuple):
    """Expressions of one evaluation: nodes, arguments before users, and a key that is equal for equal structures."""

    nodes: list[Node]
    positions: dict[Node, int]  # of every node at or below the roots; equal nodes have one position
    roots: tuple[int, ...]  # positions: results that were asked for, then those kept besides
    given: tuple[Node, ...]  # the roots themselves
    asked: int  # how many of the roots were asked for
    leaves: list[Node]
    params: list[Any]
    key: tuple[Any, ...]


def capture(roots: Sequence[Node]) -> ExpressionGraph:
    """Return the graph below some nodes, in which equal subexpressions are one node.

    A node that was computed before as an intermediate result, and is an argument of a node that was not, becomes a
    root too, so that its value is kept: values that a loop carries from round to round are computed at most twice.
    """
    index: dict[Node, int] = {}
    nodes: list[Node] = []
    leaves: list[Node] = []
    params: list[Any] = []
    key: list[Any] = []
    known: dict[Any, int] = {}
    kept: dict[Node, None] = {}
    stack: list[Any] = list(reversed(roots))  # None: the arguments of the node below it have their positions
    while stack:
        node = stack.pop()
        if node is None:
            node = stack.pop()
        elif node in index:
            continue
        else:
            waiting = [arg for arg in node.args if arg not in index]
            if waiting:
                stack += (node, None)
                stack += waiting[::-1]
                continue
        op = node.op
        if op is LEAF:
            leaves.append(node)
            key.append((LEAF, node.kind, node.layout))
        elif op is PARAM:
            params.append(node.value)
            key.append(node.kind)
        else:
            own: list[Any] = [op, node.kind]
            for arg in node.args:
                own.append(index[arg])
                if arg.computed and not node.computed and arg.op is not LEAF and arg.op is not PARAM:
                    kept[arg] = None
            form = tuple(own)
            position = known.setdefault(form, len(nodes))
            if position < len(nodes):
                index[node] = position
                continue
            key.append(form)
        index[node] = len(nodes)
        nodes.append(node)
    every, given = tuple([index[root] for root in roots]), tuple(roots)
    asked = len(every)
    if kept:
        shown = set(every)
        extra = {index[node]: node for node in kept if index[node] not in shown}
        every, given = every + tuple(extra), given + tuple(extra.values())
    return ExpressionGraph(nodes, index, every, given, asked, leaves, params, (every, asked, *key))
