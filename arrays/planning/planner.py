"""From a graph to a plan: fuse, place, combine, level.  Coordinates only; no block is ever touched here.

1. Fuse.  Views and elementwise operations disappear into the stage that uses them; a node that several stages
   need is a stage of its own.
2. Place.  Each stage is a group-by-join over labels; candidates for its process grid are the layouts its operands
   have (cell-wise join; partial reduce where the large operand lives) and, for contractions, all ways to deal p to
   the labels (group-by-join on a grid of all p processes: one index split is McColl's 3-D method).  The cheapest
   by the machine wins, the first of equals.
3. Combine.  Where a summed label is split, partial results are merged: on every process at once, or where the
   result will live, and passed on.
4. Level.  A stage runs in the superstep after the last thing that has to be brought to it was made.

Sources: Khan and Fegaras, sections 5 and 6; Elibol (NumS), section 3.4.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import partial
from math import prod
from typing import Any, NamedTuple

import numpy as np

from bsp.arrays.planning import layout as layouts
from bsp.arrays.planning.aggregates import ANY, MEAN, MOMENTS, SUM, Aggregate, Moments
from bsp.arrays.planning.elementwise import Elementwise
from bsp.arrays.planning.explain import text_of
from bsp.arrays.planning.graph import (
    LEAF,
    PARAM,
    Access,
    Along,
    Assemble,
    Contract,
    DType,
    Graph,
    Node,
    Reduce,
    Relayout,
    Reshape,
    Scan,
    View,
    kind_of,
)
from bsp.arrays.planning.kernels import Crossing, Finish, Fold, Kernel, Map, Merge, Product, pairs
from bsp.arrays.planning.layout import (
    Axis,
    Layout,
    Shape,
    automatic,
    dealt,
    factors,
    layout_of,
    replicated,
)
from bsp.arrays.planning.lshs import Loads
from bsp.arrays.planning.plan import Plan, flops_of
from bsp.arrays.planning.programs import Instruction, Program
from bsp.arrays.planning.slots import Slots
from bsp.arrays.planning.stages import Fetch, Ref, Spec, Stage, Value, expansion
from bsp.cost.model import Machine

_SPREAD = "dealt out"
LONGEST = 64  # operations in a program: beyond, a stage of its own

Access_ = tuple[Access, ...]


def identity(ndim: int) -> Access_:
    """Each axis indexed by the label of its number."""
    return tuple(Access(axis) for axis in range(ndim))


def through(view: Access_, access: Access_) -> Access_:
    """How the source of a view is indexed when the view is indexed by `view`."""
    found = []
    for label, start, step in access:
        if label < 0:
            found.append(Access(-1, start, 0))
            continue
        outer = view[label]
        found.append(Access(outer.label, start + step * outer.start, step * outer.step if outer.label >= 0 else 0))
    return tuple(found)


def aligned(view: Access_, node: Node, arg: Node) -> Access_:
    """How an argument is indexed that broadcasts to a node indexed by `view`."""
    shape = arg.kind.shape
    first = len(view) - len(shape)
    return tuple(
        Access(-1, 0, 0) if shape[axis] == 1 and node.kind.shape[first + axis] != 1 else view[first + axis]
        for axis in range(len(shape))
    )


class Operand(NamedTuple):
    """A fused expression: a program over references."""

    program: Program
    refs: tuple[Ref, ...]
    dtype: DType


class Planner:
    """Plans one graph for p processes on a machine."""

    def __init__(
        self, graph: Graph, nprocs: int, machine: Machine, schedule: str = "patterns", panels: int = 1,
        memory: float = 0.0,
    ) -> None:  # fmt: skip
        self.graph = graph
        self.nprocs = nprocs
        self.machine = machine
        self.schedule = schedule
        self.panels = panels  # supersteps in which what a contraction reads is brought, one part after the other
        self.memory = memory  # bytes a process may use; 0: no limit
        self.stages: list[Stage] = []
        self.values: list[Value] = []
        self._stored: dict[int, Value] = {}
        self._fetches: dict[Any, Fetch] = {}
        self._position = dict(graph.positions)
        self._params: dict[int, int] = {}
        self._moments: dict[tuple[int, tuple[int, ...]], Value] = {}
        self._of_moments: dict[tuple[int, tuple[int, ...]], int] = {}  # means and variances of the same
        for node in graph.nodes:
            if isinstance(node.op, Reduce) and (node.op.how is MEAN or isinstance(node.op.how, Moments)):
                key = (graph.positions[node.args[0]], node.op.axes)
                self._of_moments[key] = self._of_moments.get(key, 0) + 1
        self._inline: list[bool] = []
        self._made: list[Value] = []  # of nodes that are none of the graph's
        self.loads = None if schedule == "patterns" else Loads(nprocs, schedule)
        for i, node in enumerate(graph.nodes):
            if node.op is PARAM:
                self._params[i] = len(self._params)
        rates = machine.rates
        self._elementwise = machine.r / rates["elementwise"] if rates else 1.0

    def plan(self, gather: int) -> Plan:
        """Everything; the first `gather` roots are brought to every process."""
        self._fuse()
        leaves = 0
        for i, node in enumerate(self.graph.nodes):
            if node.op is LEAF:
                assert node.layout is not None
                value = self._value(f"x{leaves}", node.kind.shape, node.kind.dtype, node.layout)
                value.leaf = leaves
                self._stored[i] = value
                leaves += 1
                if self.loads is not None:
                    self.loads.hold(value)
        for i, node in enumerate(self.graph.nodes):  # arguments before users, so that no expansion goes deep
            if not self._inline[i] and node.op is not PARAM:
                self.root(i)
        roots = []
        for k, i in enumerate(self.graph.roots):
            value = self.root(i)
            if k < gather and not value.layout.replicated:
                value = self.copied(
                    Ref(value, identity(len(value.shape))), replicated(value.shape), "gather", f"whole {self.text(i)}"
                )
            roots.append(value)
        texts = self._name_all()
        mode = (gather, self.schedule, self.panels)
        small = [
            (i, value)
            for i, value in sorted(self._stored.items())
            if value.leaf < 0 and i not in self.graph.roots and prod(value.shape) <= layouts.REPLICATED_SIZE
        ]
        return Plan(self.graph, self.nprocs, self.machine, self.stages, self.values, roots, texts, small, mode)

    def _value(self, name: str, shape: Shape, dtype: DType, layout: Layout) -> Value:
        value = Value(len(self.values), name, shape, dtype, layout)
        self.values.append(value)
        return value

    def position(self, node: Node) -> int:
        """Of a node in the graph."""
        return self._position[node]

    def is_inline(self, node: Node) -> bool:
        """Whether a node is computed inside its users."""
        return self._inline[self._position[node]]

    # --------------------------------------------------------------------------- 1. fuse

    def _fuse(self) -> None:
        """Decide which nodes are computed inside their users."""
        nodes = self.graph.nodes
        count = len(nodes)
        roots = set(self.graph.roots)
        users: list[list[tuple[Any, bool]]] = [[] for _ in range(count)]  # (group, through a view)
        length = [0] * count
        self._inline = [False] * count
        for i in range(count):  # arguments first: how long the program would get
            op = nodes[i].op
            if isinstance(op, (Elementwise, View)):
                length[i] = 1 + sum(length[self._position[arg]] for arg in nodes[i].args)
                if length[i] > LONGEST:
                    length[i] = 0
        for i in reversed(range(count)):
            node = nodes[i]
            op = node.op
            if isinstance(op, View) and i not in roots and length[i]:
                self._inline[i] = True
                for arg in node.args:
                    users[self._position[arg]] += [(group, True) for group, _ in users[i]]
                continue
            group: Any = i
            if isinstance(op, Elementwise) and i not in roots and length[i] and users[i]:
                groups = {each for each, _ in users[i]}
                whole = not any(viewed for _, viewed in users[i]) or len(users[i]) == 1
                if len(groups) == 1 and whole and None not in groups:
                    self._inline[i] = True
                    (group,) = groups
            for k, arg in enumerate(node.args):
                to = group
                if isinstance(op, Contract):
                    to = (i, k)
                elif isinstance(op, (Assemble, Reshape, Along, Scan, Relayout)):
                    to = None  # such a stage reads values, it computes none on the way
                users[self._position[arg]].append((to, False))

    def operand(self, node: Node, view: Access_) -> Operand:
        """The program and references of a node indexed by `view`; common subexpressions once."""
        refs: dict[Ref, int] = {}
        params: dict[int, int] = {}
        code: dict[tuple[Any, ...], int] = {}
        seen: dict[tuple[int, Access_], tuple[str, int]] = {}

        def register(node: Node, view: Access_) -> tuple[str, int]:
            i = self._position[node]
            if i < 0:
                return ("ref", refs.setdefault(Ref(self._made[-1 - i], view), len(refs)))
            key = (i, view)
            if key in seen:
                return seen[key]
            if node.op is PARAM:
                found = ("param", params.setdefault(self._params[i], len(params)))
            elif isinstance(node.op, View) and self._inline[i]:
                found = register(node.args[0], through(view, node.op.access))
            elif isinstance(node.op, Elementwise) and self._inline[i]:
                args = tuple(register(arg, aligned(view, node, arg)) for arg in node.args)
                found = ("code", code.setdefault((node.op, args, node.kind.dtype), len(code)))
            else:
                found = ("ref", refs.setdefault(Ref(self.root(i), view), len(refs)))
            seen[key] = found
            return found

        if (
            self._position[node] < 0
            or self._inline[self._position[node]]
            or not isinstance(node.op, (Elementwise, View))
        ):
            last = register(node, view)
        elif isinstance(node.op, View):
            last = register(node.args[0], through(view, node.op.access))
        else:
            args = tuple(register(arg, aligned(view, node, arg)) for arg in node.args)
            last = ("code", code.setdefault((node.op, args, node.kind.dtype), len(code)))
        base = {"ref": 0, "param": len(refs), "code": len(refs) + len(params)}
        lines = tuple(Instruction(op, tuple(base[where] + k for where, k in args), dtype) for op, args, dtype in code)
        program = Program(len(refs), tuple(params), lines, base[last[0]] + last[1])
        return Operand(program, tuple(refs), node.kind.dtype)

    # ------------------------------------------------------------------------- expansion

    def root(self, i: int) -> Value:
        """The value of a node, its stages made now if they have not been."""
        found = self._stored.get(i)
        if found is None:
            found = self._stored[i] = self._expand(i)
        return found

    def _expand(self, i: int) -> Value:
        node = self.graph.nodes[i]
        op = node.op
        if isinstance(op, (Elementwise, View)):
            return self._map(i, node)
        if isinstance(op, Reduce):
            return self._reduce(i, node, op)
        if isinstance(op, Contract):
            return self._contract(i, node, op)
        from bsp.arrays.planning import shapes  # it needs what is here

        return shapes.expand(self, i, node)

    def _map(self, i: int, node: Node) -> Value:
        shape, dtype = node.kind.shape, node.kind.dtype
        operand = self.operand(node, identity(len(shape)))
        labels = tuple(range(len(shape)))
        work = max(1.0, self._elementwise * len(operand.program.code))
        spec = Spec(shape, operand.refs, labels, (), work, dtype.itemsize)
        tasks, pattern = self.placed(spec)
        kernel = Map(operand.program, dtype, [expansion(ref, labels) for ref in operand.refs])
        return self.stage(spec, tasks, kernel, tasks, dtype, self.text(i), pattern)

    def _reduce(self, i: int, node: Node, op: Reduce) -> Value:
        (arg,) = node.args
        text = self.text(i)
        if op.how is not MEAN and not isinstance(op.how, Moments):
            return self._folded(arg, op.how, op.axes, node.kind.dtype, text)
        key = (self.position(arg), op.axes)
        if self._of_moments.get(key, 0) < 2:
            return self._folded(arg, op.how, op.axes, node.kind.dtype, text)
        moments = self._moments.get(key)  # a mean and a deviation of the same: one pass for both
        if moments is None:
            held = MOMENTS.partial(arg.kind.dtype)
            moments = self._moments[key] = self._folded(arg, MOMENTS, op.axes, held, f"moments of {text}")
        ref = Ref(moments, identity(len(moments.shape)))
        spec = Spec(moments.shape, (ref,), tuple(range(len(moments.shape))), (), 2.0, node.kind.dtype.itemsize)
        count = prod(arg.kind.shape[axis] for axis in op.axes)
        kernel = Finish(op.how, count, node.kind.dtype)
        return self.stage(spec, moments.layout, kernel, moments.layout, node.kind.dtype, text, "in place")

    def _folded(self, arg: Node, how: Aggregate, over: tuple[int, ...], dtype: DType, text: str) -> Value:
        extents = arg.kind.shape
        operand = self.operand(arg, identity(len(extents)))
        labels = tuple(range(len(extents)))
        out = tuple(label for label in labels if label not in over)
        work = self._elementwise * (len(operand.program.code) + 1)
        held = how.partial(arg.kind.dtype)
        spec = Spec(extents, operand.refs, out, over, work, held.itemsize, _sides(operand.refs, out, over))
        tasks, pattern = self.placed(spec)
        slots = Slots(tasks, out, over)
        final = None if slots.labels else dtype
        expand = [expansion(ref, labels) for ref in operand.refs]
        kernel = Fold(operand.program, operand.dtype, expand, how, over, tasks, slots, final)
        what = f"partial {text}" if slots.labels else text
        value = self.stage(spec, tasks, kernel, slots.layout, final or held, what, pattern)
        return self._combined(value, slots, how, over, dtype, text) if slots.labels else value

    def _contract(self, i: int, node: Node, op: Contract) -> Value:
        if len(node.args) == 2:
            return self._joined(self.text(i), node, op, node.args)
        return self.cheapest(
            lambda: self._joined(self.text(i), node, op, node.args), lambda: self._pairwise(self.text(i), node, op)
        )

    def _pairwise(self, text: str, node: Node, op: Contract) -> Value:
        """A contraction of several factors as contractions of two, each a stage of its own."""
        terms: list[tuple[tuple[int, ...], Node]] = list(zip(op.labels, node.args, strict=True))
        value: Value | None = None
        for first, second, left, right, out in pairs(op.labels, op.out, self._extents(node, op)):
            args = (terms[first][1], terms[second][1])
            dtype = np.result_type(*[arg.kind.dtype for arg in args])
            extents = self._extents(node, op)
            product = Contract((left, right), out)
            step = Node(product, args, kind_of(tuple(extents[label] for label in out), dtype))
            value = self._joined(text, step, product, args)
            self._position[step] = -1 - len(self._made)
            self._made.append(value)
            terms = [term for k, term in enumerate(terms) if k not in (first, second)] + [(out, step)]
        assert value is not None
        return value

    @staticmethod
    def _extents(node: Node, op: Contract) -> Shape:
        extents = [1] * (max((label for labels in op.labels for label in labels), default=-1) + 1)
        for labels, arg in zip(op.labels, node.args, strict=True):
            for label, length in zip(labels, arg.kind.shape, strict=True):
                extents[label] = length
        return tuple(extents)

    def _joined(self, text: str, node: Node, op: Contract, args: Sequence[Node]) -> Value:
        """A contraction as one group-by-join."""
        extents = self._extents(node, op)
        operands = [
            self.operand(arg, tuple(Access(label) for label in labels))
            for labels, arg in zip(op.labels, args, strict=True)
        ]
        refs = tuple(ref for operand in operands for ref in operand.refs)
        sides = [tuple(sorted(set(labels))) for labels in op.labels]
        summed = tuple(label for label in range(len(extents)) if label not in op.out)
        classes: tuple[tuple[int, ...], ...]
        if len(sides) == 2:
            both = [label for label in sides[0] if label in sides[1]]
            classes = (
                tuple(label for label in both if label in op.out),
                tuple(label for label in sides[0] if label not in both),
                tuple(label for label in sides[1] if label not in both),
                summed,
            )
        else:  # each of the longest labels for itself
            longest = sorted(range(len(extents)), key=lambda label: (-extents[label], label))[:4]
            classes = tuple((label,) for label in longest)
        dtype = node.kind.dtype
        spec = Spec(extents, refs, op.out, summed, 2.0, dtype.itemsize, classes)
        expand = [
            expansion(ref, labels) for labels, operand in zip(sides, operands, strict=True) for ref in operand.refs
        ]

        def kernel_of(slots: Slots) -> Product:
            programs = [operand.program for operand in operands]
            return Product(sides, op.out, slots, dtype, programs, expand, extents)

        if len(sides) > 2:
            probe = kernel_of(Slots(replicated(extents), op.out, summed))
            spec = spec._replace(flops_on=probe.flops_on)
        tasks, pattern = self.placed(spec)
        slots = Slots(tasks, op.out, summed)
        kernel = kernel_of(slots)
        if self.panels > 1 and summed and not slots.labels and any(self.fetch(ref, tasks).moves for ref in refs):
            return self._in_panels(spec, tasks, kernel_of, dtype, text, pattern)
        value = self.stage(
            spec, tasks, kernel, slots.layout, dtype, f"partial {text}" if slots.labels else text, pattern,
        )  # fmt: skip
        if not slots.labels:
            return value
        how = ANY if dtype.kind == "b" else SUM
        return self._combined(value, slots, how, summed, dtype, text)

    def cheapest(self, *ways: Callable[[], Value]) -> Value:
        """The value made the way whose stages cost least, the first of equals; the others leave no trace."""
        prices = []
        for way in ways:
            stages, values, stored, made = len(self.stages), len(self.values), dict(self._stored), len(self._made)
            way()
            prices.append(self._price_of(self.stages[stages:]))
            del self.stages[stages:], self.values[values:], self._made[made:]
            self._stored = stored
            self._fetches = {key: fetch for key, fetch in self._fetches.items() if key[0] < values}
        return ways[prices.index(min(prices))]()

    def _price_of(self, stages: Sequence[Stage]) -> float:
        total = 0.0
        for stage in stages:
            total += flops_of(stage)
            total += sum(self.fetch_price(fetch) for fetch in dict.fromkeys(stage.fetches))
        return total

    def _in_panels(
        self, spec: Spec, tasks: Layout, kernel_of: Callable[[Slots], Product], dtype: DType, text: str, pattern: str
    ) -> Value:
        """A contraction whose factors are brought a part of the longest summed label at a time, each added to the last.

        The same words in as many supersteps as panels, for 1/panels of the memory (van de Geijn and Watts, SUMMA).
        """
        along = max(spec.over, key=lambda label: spec.labels[label])
        length = spec.labels[along]
        count = min(self.panels, max(length, 1))
        total: Value | None = None
        for first in range(count):  # every count-th position: of each owner the same share, so that none sends all
            size = len(range(first, length, count))
            labels = tuple(size if label == along else extent for label, extent in enumerate(spec.labels))
            refs = tuple(
                Ref(ref.value, tuple(
                    Access(label, start + step * first, step * count) if label == along else Access(label, start, step)
                    for label, start, step in ref.access
                ))
                for ref in spec.refs
            )  # fmt: skip
            axes = list(tasks.axes)
            axes[along] = Axis(size)
            here = layout_of(tuple(axes), tasks.replicated)
            slots = Slots(here, spec.out, spec.over)
            kernel = kernel_of(slots)
            if total is not None:
                kernel.adds = True
                refs = (*refs, Ref(total, tuple(Access(label) for label in spec.out)))
            panel = spec._replace(labels=labels, refs=refs)
            after = -1 if total is None else total.level
            total = self.stage(panel, here, kernel, slots.layout, dtype, text, f"{pattern} panel", after=after)
        assert total is not None
        return total

    # --------------------------------------------------------------------------- 2. place

    def placed(self, spec: Spec) -> tuple[Layout, str]:
        """The layout of a stage's tasks, and the name of the pattern."""
        if self.loads is not None and any(not ref.value.layout.replicated for ref in spec.refs):
            return self.loads.place(spec), self.schedule
        tasks, pattern = self._chosen(spec)
        if self.nprocs == 1 and tasks.blocks == 1:
            tasks = replicated(spec.labels)
        return tasks, pattern

    def _chosen(self, spec: Spec) -> tuple[Layout, str]:
        real = [ref for ref in spec.refs if not ref.value.layout.replicated]
        points = prod(spec.labels)
        size = prod(spec.labels[label] for label in spec.out)
        if not real:
            if size <= layouts.REPLICATED_SIZE and points * spec.work <= max(
                self.machine.L, 4 * layouts.REPLICATED_SIZE
            ):
                return replicated(spec.labels), "everywhere"
            real_out = automatic(tuple(spec.labels[label] for label in spec.out), self.nprocs, False)
            options = [(self._of_out(spec, real_out), "dealt")]
            if spec.classes:
                options += self._grids(spec)
            if size <= layouts.REPLICATED_SIZE:
                options.append((replicated(spec.labels), "everywhere"))
        else:
            options = []
            for ref in sorted(real, key=lambda ref: -prod(ref.value.shape) * ref.value.dtype.itemsize):
                tasks = self.like(ref, spec.labels)
                if tasks is not None and spec.over and tasks.table is not None:
                    continue  # blocks placed one by one share no slots: how many values they stand for differs
                if tasks is not None and all(tasks is not other for other, _ in options):
                    options.append((tasks, self._named(spec, tasks)))
            first = options[0][0] if options else None
            if first is not None and all(self.fetch(ref, first).local for ref in spec.refs):
                if not spec.classes:
                    return options[0]
            elif not spec.over and size <= layouts.REPLICATED_SIZE and _small_part(real, size):
                return replicated(spec.labels), "to all"
            if not spec.over or not options:
                out = automatic(tuple(spec.labels[label] for label in spec.out), self.nprocs, False)
                options.append((self._of_out(spec, out), "dealt"))
            if spec.classes:
                options += self._grids(spec)
        return min(options, key=lambda option: self.price(spec, option[0]))

    def _named(self, spec: Spec, tasks: Layout) -> str:
        if not spec.over:
            return "cell-wise join" if len(spec.refs) > 1 else "in place"
        if any(tasks.axes[label].deal > 1 for label in spec.over):
            return "partial reduce"
        return "group-by-join" if spec.classes else "in place"

    def like(self, ref: Ref, labels: Shape) -> Layout | None:
        """Tasks where a reference's blocks are."""
        source = ref.value.layout
        axes = [Axis(length) for length in labels]
        for axis, (label, start, step) in zip(source.axes, ref.access, strict=True):
            if label < 0 or axes[label].parts > 1:
                continue
            if start == 0 and step == 1 and axis.length == labels[label]:
                axes[label] = axis
            elif axis.parts > 1:
                axes[label] = Axis(labels[label], axis.parts, axis.deal, axis.stride)
        if source.table is not None:
            if tuple(axes) != source.axes or ref.access != identity(len(labels)):
                return None
            return layout_of(tuple(axes), False, source.table)
        return layout_of(tuple(axes))

    def _of_out(self, spec: Spec, out: Layout) -> Layout:
        """Tasks where the blocks of a result would be."""
        axes = [Axis(length) for length in spec.labels]
        for label, axis in zip(spec.out, out.axes, strict=True):
            axes[label] = axis
        return layout_of(tuple(axes))

    def _grids(self, spec: Spec) -> list[tuple[Layout, str]]:
        """Process grids of all p over the longest label of each class, the best few by estimate."""
        longest = [max(group, key=lambda label: spec.labels[label], default=-1) for group in spec.classes]
        found = []
        for grid in _factorings(self.nprocs, len(longest)):
            if any(
                count > 1 and (label < 0 or spec.labels[label] < count)
                for count, label in zip(grid, longest, strict=True)
            ):
                continue
            axes = [Axis(length) for length in spec.labels]
            for position, (label, count) in enumerate(zip(longest, grid, strict=True)):
                if count > 1:
                    axes[label] = Axis(spec.labels[label], count, count, prod(grid[position + 1 :]))
            found.append((self._estimate(spec, axes), grid, layout_of(tuple(axes))))
        found.sort(key=lambda each: each[0])

        def pattern(grid: tuple[int, ...]) -> str:
            only_summed = grid[-1] > 1 and max(grid[:-1], default=1) == 1
            return "partial reduce" if only_summed else f"group-by-join {'x'.join(map(str, grid))}"

        return [(tasks, pattern(grid)) for _, grid, tasks in found[:6]]

    def _estimate(self, spec: Spec, axes: Sequence[Axis]) -> float:
        """Words a process reads and merges, without looking where they are."""
        words = 0.0
        for ref in spec.refs:
            words += prod(spec.labels[label] / axes[label].deal for label in ref.labels) * ref.value.dtype.itemsize / 8
        split = prod(axes[label].deal for label in spec.over)
        if split > 1:
            words += prod(spec.labels[label] / axes[label].deal for label in spec.out) * spec.itemsize / 8
        return words

    def price(self, spec: Spec, tasks: Layout) -> float:
        """Flop-times: the fullest process, what is moved, and what merging takes; without end for too much memory."""
        machine = self.machine
        if self.memory:
            held = sum(
                (
                    fetch.regions_held() / self.panels
                    for ref in spec.refs
                    if not (fetch := self.fetch(ref, tasks)).direct
                ),
                np.zeros(self.nprocs),
            )
            if float(held.max(initial=0)) > self.memory:
                return float("inf")
        if spec.flops_on is not None:
            total = spec.flops_on(tasks)
        else:
            total = spec.work * float(tasks.held(self.nprocs).max(initial=0))
        out = np.zeros(self.nprocs, np.int64)
        into = np.zeros(self.nprocs, np.int64)
        messages = 0
        for ref in dict.fromkeys(spec.refs):
            fetch = self.fetch(ref, tasks)
            if not fetch.local:
                sent, received = fetch.traffic
                out, into = out + sent, into + received
                messages += fetch.messages
        h = max(out.max(initial=0), into.max(initial=0)) / 8
        if h:
            total += machine.price(h=h, supersteps=1, messages=messages)
        split = prod(tasks.axes[label].deal for label in spec.over)
        if split > 1:
            size = prod(spec.labels[label] for label in spec.out)
            words = size * spec.itemsize / 8
            each = prod(spec.labels[label] / tasks.axes[label].deal for label in spec.out) * spec.itemsize / 8
            if size <= layouts.REPLICATED_SIZE:
                total += min(
                    machine.price(h=(split - 1) * words, supersteps=1, messages=split),
                    machine.price(h=2 * words, supersteps=2, messages=2 * split),
                )
            else:
                total += machine.price(h=each, supersteps=1, messages=split)
        return total

    # -------------------------------------------------------------------------- 3. combine

    def _combined(
        self, value: Value, slots: Slots, how: Aggregate, over: tuple[int, ...], dtype: DType, text: str
    ) -> Value:
        """The merged result of partial ones."""
        kept_shape = value.shape[:-1]
        counts = slots.counts(over)
        count = prod(slots.tasks.shape[label] for label in over)
        if self.loads is not None:
            return self._in_tree(value, how, counts, count, dtype, text)
        if prod(kept_shape) <= layouts.REPLICATED_SIZE:
            whole, spread = replicated(kept_shape), automatic(kept_shape, self.nprocs, False)

            def twice() -> Value:
                merged = self._merged(value, spread, how, counts, count, dtype, text)
                return self.copied(Ref(merged, identity(len(kept_shape))), whole, "to all", text)

            ways = [lambda: self._merged(value, whole, how, counts, count, dtype, text), twice]
            for most in _ARITIES if self._all_slots(value) else ():
                digits = tuple(_digits(self.nprocs, most))
                if len(digits) > 1:
                    ways.append(partial(self._crossed, value, how, counts, count, dtype, text, digits))
            return self.cheapest(*ways)
        targets = [automatic(kept_shape, self.nprocs, False)]
        for axis in range(len(kept_shape)):
            grid = [each.deal for each in value.layout.axes[:-1]]
            grid[axis] *= value.layout.axes[-1].deal
            if prod(grid) <= self.nprocs:
                targets.append(dealt(kept_shape, grid, grid))
        target = min(targets, key=lambda layout: self._merge_price(value, layout))
        return self._merged(value, target, how, counts, count, dtype, text)

    def _all_slots(self, value: Value) -> bool:
        """Whether every process has one slot, in the order of the pids, of a result in one piece."""
        *kept, slots = value.layout.axes
        return slots.deal == self.nprocs and slots.stride == 1 and all(axis.parts == 1 for axis in kept)

    def _crossed(
        self, value: Value, how: Aggregate, counts: np.ndarray, count: int, dtype: DType, text: str,
        digits: tuple[int, ...],
    ) -> Value:  # fmt: skip
        """Everybody's result by an exchange for each digit of the pid, the last first: a butterfly of these arities.

        Neighbours, who share an element, merge first.  h = sum of (arity - 1)·n words in as many supersteps.
        """
        kept = len(value.shape) - 1
        done = 1  # processes whose results are merged
        copies: list[Axis] = []  # one for each digit done: the copies that its processes have
        for arity in digits:
            last = done * arity == self.nprocs
            slots = value.shape[-1]
            ndim = len(value.shape)
            groups = slots // arity
            cuts = Axis(slots, groups, groups, done * arity if groups > 1 else 0)
            new = Axis(arity, arity, arity, done)
            plain = tuple(Axis(length) for length in value.shape[:kept])
            tasks = layout_of((*plain, *copies, cuts, new))
            ref = Ref(value, tuple(Access(axis) for axis in range(ndim)))
            spec = Spec(tasks.shape, (ref,), tuple(range(kept)), (ndim - 1,), 1.0, value.dtype.itemsize)
            kernel = Crossing(how, counts, count, dtype if last else None, value.dtype, kept)
            copies.append(new)
            out = replicated(value.shape[:kept]) if last else layout_of(
                (*plain, *copies, Axis(groups, groups, groups, cuts.stride))
            )  # fmt: skip
            value = self.stage(spec, tasks, kernel, out, dtype if last else value.dtype, f"merged {text}", "butterfly")
            counts = counts.reshape(groups, arity).sum(axis=1)
            done *= arity
        return value

    def _in_tree(self, value: Value, how: Aggregate, counts: np.ndarray, count: int, dtype: DType, text: str) -> Value:
        """Neighbours merge until one is left, those of neighbouring processes first (NumS, section 3.4)."""
        assert self.loads is not None
        last = False
        while not last:
            slots, last = value.shape[-1], value.shape[-1] <= 2
            cuts = (*range(0, slots, 2), slots)
            label = len(value.shape) - 1
            labels = tuple(range(label + 1))
            ref = Ref(value, identity(label + 1))
            spec = Spec(value.shape, (ref,), labels[:-1], (label,), 1.0, value.dtype.itemsize)
            pairs = Axis(slots, len(cuts) - 1, cuts=cuts) if len(cuts) > 2 else Axis(slots)
            tasks = self.loads.place_pairs(ref, (*value.layout.axes[:-1], pairs))
            merged = np.add.reduceat(counts, cuts[:-1], axis=-1)
            kernel = Merge(how, counts, count, dtype if last else None, value.dtype)
            out_axes = value.layout.axes[:-1] + (() if last else (Axis(len(cuts) - 1, len(cuts) - 1),))
            out = layout_of(out_axes, False, tasks.table)
            value = self.stage(spec, tasks, kernel, out, dtype if last else value.dtype, f"merged {text}", "tree")
            counts = merged
        return value

    def _merge_tasks(self, value: Value, target: Layout) -> Layout:
        extra = tuple(Axis(length) for length in value.shape[len(target.axes) :])
        return layout_of(target.axes + extra, target.replicated)

    def _merge_price(self, value: Value, target: Layout) -> float:
        fetch = self.fetch(Ref(value, identity(len(value.shape))), self._merge_tasks(value, target))
        return self.fetch_price(fetch)

    def fetch_price(self, fetch: Fetch) -> float:
        out, into = fetch.traffic
        h = max(out.max(initial=0), into.max(initial=0)) / 8
        return self.machine.price(h=float(h), supersteps=1, messages=fetch.messages) if h else 0.0

    def _merged(
        self, value: Value, target: Layout, how: Aggregate, counts: np.ndarray, count: int, dtype: DType, text: str
    ) -> Value:
        tasks = self._merge_tasks(value, target)
        labels = tuple(range(len(value.shape)))
        kept_labels, over = labels[:-1], labels[-1:]
        spec = Spec(value.shape, (Ref(value, identity(len(labels))),), kept_labels, over, 1.0, dtype.itemsize)
        kernel = Merge(how, counts, count, dtype, value.dtype)
        return self.stage(spec, tasks, kernel, target, dtype, f"merged {text}", "merge")

    def copied(self, ref: Ref, target: Layout, pattern: str, text: str) -> Value:
        """What a reference reads, in another layout."""
        labels = tuple(range(len(target.axes)))
        spec = Spec(target.shape, (ref,), labels, (), 0.0, ref.value.dtype.itemsize)
        kernel = Map(Program(1, (), (), 0), ref.value.dtype, [expansion(ref, labels)])
        return self.stage(spec, target, kernel, target, ref.value.dtype, text, pattern)

    # --------------------------------------------------------------------------- 4. level

    def fetch(self, ref: Ref, tasks: Layout) -> Fetch:
        key = (ref.value.number, ref.access, tasks)
        found = self._fetches.get(key)
        if found is None:
            found = self._fetches[key] = Fetch(ref, tasks, self.nprocs)
        return found

    def stage(
        self, spec: Spec, tasks: Layout, kernel: Kernel, layout: Layout, dtype: DType, what: str, pattern: str,
        induced: Sequence[Layout] | None = None, after: int = -1,
    ) -> Value:  # fmt: skip
        """A new stage.

        induced : for each reference the tasks over labels of its own, if it has such.
        after : it runs in a later superstep than this one.
        """
        refs = spec.refs
        if induced is None and pattern != _SPREAD:
            refs = tuple(self._spread(ref, tasks) for ref in refs)
        shape = tuple(axis.length for axis in layout.axes)
        value = self._value(f"v{len(self.stages)}", shape, dtype, layout)
        stage = Stage(len(self.stages), spec.labels, tasks, refs, kernel, value, what, pattern)
        stage.level = after + 1
        for k, ref in enumerate(refs):
            fetch = self.fetch(ref, tasks if induced is None else induced[k])
            stage.fetches.append(fetch)
            stage.level = max(stage.level, ref.value.level + (1 if fetch.moves else 0))
        value.level = stage.level
        self.stages.append(stage)
        return value

    def _spread(self, ref: Ref, tasks: Layout) -> Ref:
        """A reference that all tasks read whole: dealt out first where few have it all (McColl 1.6.1, two phases)."""
        used = ref.labels
        if self.loads is not None or any(tasks.axes[label].parts > 1 for label in used):
            return ref
        once = self.fetch(ref, tasks)
        if not once.moves:
            return ref
        shape = tuple(tasks.shape[label] for label in used)
        column = {label: k for k, label in enumerate(used)}
        narrow = Ref(ref.value, tuple(
            Access(column[label] if label >= 0 else -1, start, step) for label, start, step in ref.access
        ))  # fmt: skip
        target = automatic(shape, self.nprocs, False)
        if target is ref.value.layout:
            return ref
        access = tuple(Access(label) for label in used)
        probe = Fetch(Ref(Value(-1, "", shape, ref.value.dtype, target), access), tasks, self.nprocs)
        if self.fetch_price(once) <= self.fetch_price(self.fetch(narrow, target)) + self.fetch_price(probe):
            return ref
        dealt_out = self.copied(narrow, target, _SPREAD, ref.value.name)
        return Ref(dealt_out, access)

    # ----------------------------------------------------------------------------- names

    def text(self, i: int) -> str:
        """Stands for a node in what a stage is called, until all values have names."""
        return f"#{i}#"

    def _name_all(self) -> list[str]:
        """Stages called by expressions over values; returns the roots' whole expressions."""
        named = {i: value.name for i, value in self._stored.items()}

        def written(found: re.Match[str]) -> str:
            i = int(found[1])
            return text_of(self.graph, i, {k: name for k, name in named.items() if k != i})

        for stage in self.stages:
            stage.what = re.sub("#(\\d+)#", written, stage.what)
        whole = {i: value.name for i, value in self._stored.items() if value.leaf >= 0}
        return [text_of(self.graph, i, whole) for i in self.graph.roots[: self.graph.asked]]


def _small_part(refs: Sequence[Ref], size: int) -> bool:
    """Whether a result is a row, a corner, ...: a small part of what references read in parts."""
    partly = any(label < 0 or start != 0 or step != 1 for ref in refs for label, start, step in ref.access)
    return partly and 4 * size <= max(prod(ref.value.shape) for ref in refs)


_ARITIES = (2, 4, 8, 16, 32)


def _digits(number: int, most: int) -> list[int]:
    """Factors of a number, each at most `most` if its primes are."""
    found = [1]
    for factor in factors(number):
        if found[-1] * factor <= most:
            found[-1] *= factor
        else:
            found.append(factor)
    return [digit for digit in found if digit > 1]


def _sides(refs: Sequence[Ref], out: Sequence[int], over: tuple[int, ...]) -> tuple[tuple[int, ...], ...]:
    """The classes of a reduction that joins as a contraction does, as min(A[i,k] + B[k,j]); () of any other."""
    sides = [set(ref.labels) for ref in refs if ref.labels]
    both = tuple(label for label in out if all(label in side for side in sides))
    rows = tuple(label for label in out if sides and label in sides[0] and label not in both)
    columns = tuple(label for label in out if sides and label not in sides[0])
    return (both, rows, columns, over) if rows and columns else ()


def _factorings(number: int, count: int) -> list[tuple[int, ...]]:
    """All ways to write a number as an ordered product of so many factors."""
    if count == 1:
        return [(number,)]
    found = []
    for first in range(1, number + 1):
        if number % first == 0:
            found += [(first, *rest) for rest in _factorings(number // first, count - 1)]
    return found
