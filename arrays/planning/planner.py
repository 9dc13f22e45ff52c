"""Planner: turns a graph into a plan in four steps.  It computes with coordinates only and reads no block.

1. Fuse.  Views and elementwise operations become part of the stage that uses them; a node that several stages need
   is a stage of its own (`fusing`).
2. Place.  Each stage is a group-by-join over labels; the cheapest layout of its tasks is taken (`placing`).
3. Combine.  Where a summed label is split, partial results are merged: at once on every process, or on the processes
   of the result's blocks, from which small results are then copied to all.
4. Level.  A stage runs in the first superstep in which all its operands are present; an operand that has to be sent
   arrives in the superstep after its own.

Sources: Khan and Fegaras, sections 5 and 6; Elibol (NumS), section 3.4.
"""

from __future__ import annotations

import re
from collections import ChainMap
from collections.abc import Callable, Sequence
from functools import partial
from math import prod
from typing import Any

import numpy as np

from bsp.arrays.expressions import layout as layouts
from bsp.arrays.expressions.graph import (
    LEAF,
    OVERWRITE,
    PARAM,
    Access,
    Contract,
    DType,
    ExpressionGraph,
    Node,
    Reduce,
    Staged,
    ViewOperation,
    kind_of,
)
from bsp.arrays.expressions.layout import (
    Axis,
    Layout,
    Shape,
    automatic,
    dealt,
    factors,
    layout_of,
    replicated,
    table_layout,
)
from bsp.arrays.kernels.aggregates import ANY, MEAN, MOMENTS, SUM, Aggregate, Moments
from bsp.arrays.kernels.elementwise import Elementwise
from bsp.arrays.kernels.folds import Crossing, Finish, Fold, Merge
from bsp.arrays.kernels.kernels import Kernel
from bsp.arrays.kernels.maps import Map, Overwrite
from bsp.arrays.kernels.products import Product, pairs
from bsp.arrays.kernels.programs import Program
from bsp.arrays.planning.chains import Chain, chains
from bsp.arrays.planning.explain import text_of
from bsp.arrays.planning.fusing import FusedOperand, Fusion, Prices, identity
from bsp.arrays.planning.lshs import Loads
from bsp.arrays.planning.placing import Placer
from bsp.arrays.planning.plan import Plan, flops_of
from bsp.arrays.planning.slots import Slots
from bsp.arrays.planning.stages import Fetch, Ref, Spec, Stage, Value, expansion
from bsp.cost.model import Machine

_SPREAD = "dealt out"


def planned(
    graph: ExpressionGraph, nprocs: int, machine: Machine, gather: int = 0, schedule: str = "patterns", panels: int = 1,
    memory: float = 0.0,
) -> Plan:  # fmt: skip
    """Return the plan of a whole graph.

    gather, schedule, panels, memory : see `Planner`.
    Broadcast operands that are cheaper to store are stages of their own, and operands of assemblies are computed in
    place, unless the plan would then move more words, take more supersteps, or exceed the memory limit.
    """
    planner = Planner(graph, nprocs, machine, schedule, panels, memory)
    plan = planner.plan(gather)
    if planner.fusion.plain or (nprocs == 1 and not memory):
        return plan
    other = Planner(graph, nprocs, machine, schedule, panels, memory, plain=True).plan(gather)
    worse = plan.words > other.words or plan.boundaries > other.boundaries
    return other if worse or (memory and plan.peak_bytes > memory) else plan


class Planner:
    """Planner of one graph for p processes on a machine.

    plain : see `Fusion`.
    """

    def __init__(
        self, graph: ExpressionGraph, nprocs: int, machine: Machine, schedule: str = "patterns", panels: int = 1,
        memory: float = 0.0, plain: bool = False,
    ) -> None:  # fmt: skip
        self.graph = graph
        self.nprocs = nprocs
        self.machine = machine
        self.schedule = schedule
        self.panels = panels  # supersteps over which the operands of a contraction are brought, a part in each
        self.stages: list[Stage] = []
        self.values: list[Value] = []
        prices = Prices(machine, nprocs)
        self.fusion = Fusion(graph, None if plain else prices)
        self.placer = Placer(nprocs, machine, schedule, panels, memory)
        self._chains, self._inside = chains(graph)
        self._stored: dict[int, Value] = {}
        self._best: dict[Any, int] = {}  # see `cheapest`
        self._moments: dict[tuple[int, tuple[int, ...]], Value] = {}
        self._of_moments: dict[tuple[int, tuple[int, ...]], int] = {}  # how many use the same moments
        for node in graph.nodes:
            if isinstance(node.op, Reduce) and (node.op.how is MEAN or isinstance(node.op.how, Moments)):
                key = (graph.positions[node.args[0]], node.op.axes)
                self._of_moments[key] = self._of_moments.get(key, 0) + 1
        self._prices = prices

    def plan(self, gather: int) -> Plan:
        """Return the plan of the whole graph.

        gather : so many of the first roots are copied to every process.
        """
        leaves = 0
        for i, node in enumerate(self.graph.nodes):
            if node.op is LEAF:
                assert node.layout is not None
                value = self._value(f"x{leaves}", node.kind.shape, node.kind.dtype, self.merged(node.layout))
                value.leaf, value.asked = leaves, None if node.layout is value.layout else node.layout
                self._stored[i] = value
                leaves += 1
                if self.placer.loads is not None:
                    self.placer.loads.hold(value)
        for i, node in enumerate(self.graph.nodes):  # arguments before users, so that no expansion goes deep
            if node.op is not PARAM and not self.fusion.is_inline(node) and i not in self._inside:
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
        asked = set(self.graph.roots)
        small = [
            (i, value)
            for i, value in sorted(self._stored.items())
            if value.leaf < 0 and i not in asked and prod(value.shape) <= layouts.REPLICATED_SIZE
        ]
        return Plan(self.graph, self.nprocs, self.machine, self.stages, self.values, roots, texts, small, mode)

    def merged(self, layout: Layout) -> Layout:
        """Return the layout in which a plan computes: with merged blocks, unless blocks are placed one by one."""
        if self.schedule != "patterns" or layout.table is not None:
            return layout
        found = layout.merged
        return replicated(found.shape) if self.nprocs == 1 and found.blocks == 1 else found

    def _value(self, name: str, shape: Shape, dtype: DType, layout: Layout) -> Value:
        value = Value(len(self.values), name, shape, dtype, layout)
        self.values.append(value)
        return value

    # ------------------------------------------------------------------------- expansion

    def root(self, i: int) -> Value:
        """Return the value of a node; create its stages if they do not exist yet."""
        found = self._stored.get(i)
        if found is None:
            found = self._stored[i] = self._expand(i)
        return found

    def _expand(self, i: int) -> Value:
        """Create the stages of a node by the kind of its operation; return its value."""
        node = self.graph.nodes[i]
        op = node.op
        if isinstance(op, (Elementwise, ViewOperation)):
            return self._map(i, node)
        if op is OVERWRITE:
            return self._overwritten(i, node)
        if isinstance(op, Reduce):
            return self._reduce(i, node, op)
        if isinstance(op, Contract):
            return self._contract(i, node, op)
        if isinstance(op, Staged):
            found: Value = op.expand(self, i, node)
            return found
        from bsp.arrays.planning import reshaping as shapes  # `reshaping` imports this module

        return shapes.expand(self, i, node)

    def _map(self, i: int, node: Node) -> Value:
        """Return the value of an elementwise expression or a view, as one stage."""
        shape, dtype = node.kind.shape, node.kind.dtype
        operand = self.fusion.operand(node, identity(len(shape)), self.root, here=True)
        labels = tuple(range(len(shape)))
        work = max(1.0, self._prices.of_program(operand.program))
        spec = Spec(shape, operand.refs, labels, (), work, dtype.itemsize)
        tasks, pattern = self.placer.placed(spec)
        kernel = Map(operand.program, dtype, [expansion(ref, labels) for ref in operand.refs])
        value = self.stage(spec, tasks, kernel, tasks, dtype, self.text(i), pattern)
        self.keep_grid(value, operand.refs)
        return value

    def keep_grid(self, value: Value, refs: Sequence[Ref]) -> None:
        """Show a value with the grid that the program asked for an operand beside which it is computed."""
        for ref in refs:
            asked = None if ref.value.asked is None else self.placer.like(ref, value.shape, ref.value.asked)
            if asked is not None and asked.merged is not asked and self.merged(asked) is value.layout:
                value.asked = asked
                return

    def _overwritten(self, i: int, node: Node) -> Value:
        """Return the value of an array with assigned values, as one stage."""
        arg, assigned = node.args
        shape, dtype = node.kind.shape, node.kind.dtype
        labels, view = tuple(range(len(shape))), identity(len(shape))
        if self.fusion.is_inline(arg):
            operand = self.fusion.operand(arg, view, self.root)
        else:
            ref = Ref(self.root(self.graph.positions[arg]), view)
            operand = FusedOperand(Program(1, (), (), 0), (ref,), dtype)
        work = max(1.0, self._prices.of_program(operand.program))
        spec = Spec(shape, operand.refs, labels, (), work, dtype.itemsize)
        tasks, pattern = self.placer.placed(spec)
        expand = [expansion(ref, labels) for ref in operand.refs]
        kernel = Overwrite(operand.program, dtype, expand, self.fusion.param(assigned))
        return self.stage(spec, tasks, kernel, tasks, dtype, self.text(i), pattern)

    def _reduce(self, i: int, node: Node, op: Reduce) -> Value:
        """Return the value of a reduction; means and variances of one array over the same axes share their moments."""
        (arg,) = node.args
        text = self.text(i)
        if op.how is not MEAN and not isinstance(op.how, Moments):
            return self._folded(arg, op.how, op.axes, node.kind.dtype, text)
        key = (self.graph.positions[arg], op.axes)
        if self._of_moments.get(key, 0) < 2:
            return self._folded(arg, op.how, op.axes, node.kind.dtype, text)
        moments = self._moments.get(key)  # a mean and a variance of the same array share one pass
        if moments is None:
            held = MOMENTS.partial(arg.kind.dtype)
            moments = self._moments[key] = self._folded(arg, MOMENTS, op.axes, held, f"moments of {text}")
        ref = Ref(moments, identity(len(moments.shape)))
        spec = Spec(moments.shape, (ref,), tuple(range(len(moments.shape))), (), 2.0, node.kind.dtype.itemsize)
        count = prod(arg.kind.shape[axis] for axis in op.axes)
        kernel = Finish(op.how, count, node.kind.dtype)
        return self.stage(spec, moments.layout, kernel, moments.layout, node.kind.dtype, text, "in place")

    def _folded(self, arg: Node, how: Aggregate, over: tuple[int, ...], dtype: DType, text: str) -> Value:
        """Return an aggregate's value: a stage that folds and, if a reduced label is split, stages that merge."""
        extents = arg.kind.shape
        operand = self.fusion.operand(arg, identity(len(extents)), self.root)
        labels = tuple(range(len(extents)))
        out = tuple(label for label in labels if label not in over)
        work = self._prices.of_program(operand.program) + self._prices.flop
        held = how.partial(arg.kind.dtype)
        spec = Spec(extents, operand.refs, out, over, work, held.itemsize, _sides(operand.refs, out, over))
        tasks, pattern = self.placer.placed(spec)
        slots = Slots(tasks, out, over)
        final = None if slots.labels else dtype
        expand = [expansion(ref, labels) for ref in operand.refs]
        kernel = Fold(operand.program, operand.dtype, expand, how, over, tasks, slots, final)
        what = f"partial {text}" if slots.labels else text
        value = self.stage(spec, tasks, kernel, slots.layout, final or held, what, pattern)
        return self._combined(value, slots, how, over, dtype, text) if slots.labels else value

    def _contract(self, i: int, node: Node, op: Contract) -> Value:
        """Return the value of a contraction: as a chain, as one join, or pair by pair if that is cheaper."""
        if i in self._chains:
            chain = self._chains[i]
            value, _, _ = self._chained(chain, chain.first, chain.last)
            return value
        if len(node.args) == 2:
            return self._joined(self.text(i), node, op, node.args)
        return self.cheapest(
            lambda: self._joined(self.text(i), node, op, node.args), lambda: self._pairwise(self.text(i), node, op)
        )

    def _chained(self, chain: Chain, i: int, j: int) -> tuple[Value, Node, str]:
        """Create the stages that multiply factors i to j of a chain; return the value, a node for it, and its text."""
        sides: list[tuple[Node, str]] = []
        split = int(chain.best[i, j])
        for first, last in ((i, split), (split + 1, j)):
            if first == last:
                factor = chain.factors[first]
                k = self.graph.positions[factor]
                sides.append((factor, self._stored[k].name if k in self._stored else self.text(k)))
            else:
                _, part, text = self._chained(chain, first, last)
                sides.append((part, f"({text})"))
        product, dtype = chain.product(i, j), chain.factors[0].kind.dtype
        (left, a), (right, b) = sides
        node = Node(product, (left, right), kind_of(chain.shape(i, j), dtype))
        value = self._joined(f"{a} @ {b}", node, product, node.args)
        self.fusion.made[node] = value
        return value, node, f"{a} @ {b}"

    def _pairwise(self, text: str, node: Node, op: Contract) -> Value:
        """Return the value of a contraction of several factors, as contractions of two, each a stage of its own."""
        terms: list[tuple[tuple[int, ...], Node]] = list(zip(op.labels, node.args, strict=True))
        value: Value | None = None
        for first, second, left, right, out in pairs(op.labels, op.out, self._extents(node, op)):
            args = (terms[first][1], terms[second][1])
            dtype = np.result_type(*[arg.kind.dtype for arg in args])
            extents = self._extents(node, op)
            product = Contract((left, right), out)
            step = Node(product, args, kind_of(tuple(extents[label] for label in out), dtype))
            value = self._joined(text, step, product, args)
            self.fusion.made[step] = value
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
        """Return the value of a contraction as one group-by-join."""
        extents = self._extents(node, op)
        operands = [
            self.fusion.operand(arg, tuple(Access(label) for label in labels), self.root)
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
        else:  # the four longest labels, each a class of its own
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

        beside = self._used_beside(node, op.out)
        spec = spec._replace(beside=beside)
        if len(sides) > 2:
            probe = kernel_of(Slots(replicated(extents), op.out, summed))
            spec = spec._replace(flops_on=probe.flops_on)
        tasks, pattern = self.placer.placed(spec)
        slots = Slots(tasks, op.out, summed)
        kernel = kernel_of(slots)
        if self.panels > 1 and summed and not slots.labels and any(self.placer.fetch(ref, tasks).moves for ref in refs):
            return self._in_panels(spec, tasks, kernel_of, dtype, text, pattern)
        value = self.stage(
            spec, tasks, kernel, slots.layout, dtype, f"partial {text}" if slots.labels else text, pattern,
        )  # fmt: skip
        if not slots.labels:
            return value
        how = ANY if dtype.kind == "b" else SUM
        return self._combined(value, slots, how, summed, dtype, text, [ref.value.layout for ref in beside])

    def _used_beside(self, node: Node, out: tuple[int, ...]) -> tuple[Ref, ...]:
        """Return a reference to a stored value that a contraction's result is used beside, such as C in C + A @ B."""
        for i in self.fusion.beside(node):
            value = self._stored.get(i)
            if value is not None and not value.layout.replicated:
                return (Ref(value, tuple(Access(label) for label in out)),)
        return ()

    def cheapest(self, *ways: Callable[[], Value], alike: Any = None) -> Value:
        """Return the value made by the way whose stages cost least, the first of equals.

        Each way is tried, priced and undone; then the cheapest is carried out.

        alike : a key that determines the prices, if there is one; then only the first call with it tries.
        """
        best = self._best.get(alike)
        if best is None:
            prices = []
            for way in ways:
                stages, values = len(self.stages), len(self.values)
                stored, made = len(self._stored), len(self.fusion.made)
                way()
                prices.append(self._price_of(self.stages[stages:]))
                self.placer.forget(range(values, len(self.values)))
                del self.stages[stages:], self.values[values:]
                while len(self._stored) > stored:  # a way only adds to these, at the end
                    self._stored.popitem()
                while len(self.fusion.made) > made:
                    self.fusion.made.popitem()
            best = prices.index(min(prices))
            if alike is not None:
                self._best[alike] = best
        return ways[best]()

    def _price_of(self, stages: Sequence[Stage]) -> float:
        total = 0.0
        for stage in stages:
            total += flops_of(stage)
            total += sum(self.placer.fetch_price(fetch) for fetch in dict.fromkeys(stage.fetches))
        return total

    def _in_panels(
        self, spec: Spec, tasks: Layout, kernel_of: Callable[[Slots], Product], dtype: DType, text: str, pattern: str
    ) -> Value:
        """Return the value of a contraction that is computed in panels of the longest summed label.

        Each panel's product is added to the sum so far.  The exchange has the same words, in as many supersteps as
        panels, and takes 1/panels of the memory (van de Geijn and Watts, SUMMA).
        """
        along = max(spec.over, key=lambda label: spec.labels[label])
        length = spec.labels[along]
        count = min(self.panels, max(length, 1))
        total: Value | None = None
        for first in range(count):  # every count-th position, so that all owners send the same share of each panel
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

    # -------------------------------------------------------------------------- 3. combine

    def _combined(
        self, value: Value, slots: Slots, how: Aggregate, over: tuple[int, ...], dtype: DType, text: str,
        wanted: Sequence[Layout] = (),
    ) -> Value:  # fmt: skip
        """Return the result merged from partial results.

        wanted : the layout of the value that it is used beside, if there is one.

        Small results end on every process, by the cheapest of: a direct merge on all processes, a merge of blocks that
        are then copied to all, and butterflies.  Large results are merged on the processes of their blocks.
        """
        kept_shape = value.shape[:-1]
        counts = slots.counts(over)
        count = prod(slots.tasks.shape[label] for label in over)
        if self.placer.loads is not None:
            return self._in_tree(self.placer.loads, value, how, counts, count, dtype, text)
        if counts.ndim > 1:  # counts differ from block to block, so merged blocks keep the cuts of partial ones
            kept, owner = value.layout.axes[:-1], value.layout.owner
            merged = self._merged(value, table_layout(kept, owner[..., 0]), how, counts, count, dtype, text)
            if prod(kept_shape) > layouts.REPLICATED_SIZE:
                return merged
            return self.copied(Ref(merged, identity(len(kept_shape))), replicated(kept_shape), "to all", text)
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
            alike = (how, value.shape, value.dtype, value.layout, counts.tobytes(), count, dtype)
            return self.cheapest(*ways, alike=alike)
        targets = [automatic(kept_shape, self.nprocs, False)]
        for axis in range(len(kept_shape)):
            grid = [each.deal for each in value.layout.axes[:-1]]
            grid[axis] *= value.layout.axes[-1].deal
            if prod(grid) <= self.nprocs:
                targets.append(dealt(kept_shape, grid, grid))
        target = min(wanted or targets, key=lambda layout: self._merge_price(value, layout))
        return self._merged(value, target, how, counts, count, dtype, text)

    def _all_slots(self, value: Value) -> bool:
        """Return whether the result is in one piece and every process has one slot, in the order of pids."""
        *kept, slots = value.layout.axes
        return slots.deal == self.nprocs and slots.stride == 1 and all(axis.parts == 1 for axis in kept)

    def _crossed(
        self, value: Value, how: Aggregate, counts: np.ndarray, count: int, dtype: DType, text: str,
        digits: tuple[int, ...],
    ) -> Value:  # fmt: skip
        """Return the result on every process by a butterfly: one exchange for each digit of the pid, the last first.

        Neighbouring processes, which share an element, merge first.

        digits : the arities of the exchanges; their product is p.
        Cost: h = sum of (arity - 1)·n words, in len(digits) supersteps.
        """
        kept = len(value.shape) - 1
        done = 1  # processes whose results are merged
        copies: list[Axis] = []  # an axis for each digit done: the copies on its processes
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

    def _in_tree(
        self, loads: Loads, value: Value, how: Aggregate, counts: np.ndarray, count: int, dtype: DType, text: str
    ) -> Value:
        """Return the result of a tree that merges pairs of neighbouring slots until one is left (NumS, section 3.4)."""
        last = False
        while not last:
            slots, last = value.shape[-1], value.shape[-1] <= 2
            cuts = (*range(0, slots, 2), slots)
            label = len(value.shape) - 1
            labels = tuple(range(label + 1))
            ref = Ref(value, identity(label + 1))
            spec = Spec(value.shape, (ref,), labels[:-1], (label,), 1.0, value.dtype.itemsize)
            pairs = Axis(slots, len(cuts) - 1, cuts=cuts) if len(cuts) > 2 else Axis(slots)
            tasks = loads.place_pairs(ref, (*value.layout.axes[:-1], pairs))
            merged = np.add.reduceat(counts, cuts[:-1], axis=-1)
            kernel = Merge(how, counts, count, dtype if last else None, value.dtype)
            out_axes = value.layout.axes[:-1] + (() if last else (Axis(len(cuts) - 1, len(cuts) - 1),))
            out = layout_of(out_axes, False, tasks.table)
            value = self.stage(spec, tasks, kernel, out, dtype if last else value.dtype, f"merged {text}", "tree")
            counts = merged
        return value

    def _merge_tasks(self, value: Value, target: Layout) -> Layout:
        extra = tuple(Axis(length) for length in value.shape[len(target.axes) :])
        return layout_of(target.axes + extra, target.replicated, target.table)

    def _merge_price(self, value: Value, target: Layout) -> float:
        fetch = self.placer.fetch(Ref(value, identity(len(value.shape))), self._merge_tasks(value, target))
        return self.placer.fetch_price(fetch)

    def _merged(
        self, value: Value, target: Layout, how: Aggregate, counts: np.ndarray, count: int, dtype: DType, text: str
    ) -> Value:
        """Return the result of one stage that merges all slots, with layout `target`."""
        tasks = self._merge_tasks(value, target)
        labels = tuple(range(len(value.shape)))
        kept_labels, over = labels[:-1], labels[-1:]
        spec = Spec(value.shape, (Ref(value, identity(len(labels))),), kept_labels, over, 1.0, dtype.itemsize)
        kernel = Merge(how, counts, count, dtype, value.dtype)
        return self.stage(spec, tasks, kernel, target, dtype, f"merged {text}", "merge")

    def copied(self, ref: Ref, target: Layout, pattern: str, text: str) -> Value:
        """Return a copy of the elements that a reference reads, in layout `target`."""
        labels = tuple(range(len(target.axes)))
        spec = Spec(target.shape, (ref,), labels, (), 0.0, ref.value.dtype.itemsize)
        kernel = Map(Program(1, (), (), 0), ref.value.dtype, [expansion(ref, labels)])
        return self.stage(spec, target, kernel, target, ref.value.dtype, text, pattern)

    # --------------------------------------------------------------------------- 4. level

    def stage(
        self, spec: Spec, tasks: Layout, kernel: Kernel, layout: Layout, dtype: DType, what: str, pattern: str,
        induced: Sequence[Layout] | None = None, after: int = -1,
    ) -> Value:  # fmt: skip
        """Create a stage and return its value.

        layout, dtype : of the value.
        what, pattern : its expression and the name of its placement, for `explain`.
        induced : for each reference the layout of the tasks over its own labels; None: `tasks` for all.
        after : a level; the stage runs in a later superstep.
        """
        refs = spec.refs
        if induced is None and pattern != _SPREAD:
            refs = tuple(self._spread(ref, tasks) for ref in refs)
        shape = tuple(axis.length for axis in layout.axes)
        value = self._value(f"v{len(self.stages)}", shape, dtype, layout)
        stage = Stage(len(self.stages), spec.labels, tasks, refs, kernel, value, what, pattern)
        stage.level = after + 1
        for k, ref in enumerate(refs):
            fetch = self.placer.fetch(ref, tasks if induced is None else induced[k])
            stage.fetches.append(fetch)
            stage.level = max(stage.level, ref.value.level + (1 if fetch.moves else 0))
        value.level = stage.level
        self.stages.append(stage)
        return value

    def _spread(self, ref: Ref, tasks: Layout) -> Ref:
        """Return the reference to use for one that all tasks read whole: the same, or one to a dealt-out copy.

        Where few processes hold the value, two phases can cost less than one: deal it out, then gather it from all
        (McColl, section 1.6.1).
        """
        used = ref.labels
        if self.placer.loads is not None or any(tasks.axes[label].parts > 1 for label in used):
            return ref
        once = self.placer.fetch(ref, tasks)
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
        if self.placer.fetch_price(once) <= self.placer.fetch_price(
            self.placer.fetch(narrow, target)
        ) + self.placer.fetch_price(probe):
            return ref
        dealt_out = self.copied(narrow, target, _SPREAD, ref.value.name)
        return Ref(dealt_out, access)

    # ----------------------------------------------------------------------------- names

    def text(self, i: int) -> str:
        """Return a placeholder for a node in a stage's text, which `_name_all` replaces once all values have names."""
        return f"#{i}#"

    def _name_all(self) -> list[str]:
        """Replace placeholders in the stages' texts by expressions over values; return the roots' whole expressions."""
        named = {i: value.name for i, value in self._stored.items()}

        def written(found: re.Match[str]) -> str:
            i = int(found[1])
            return "x" if self.graph.nodes[i].op is LEAF else text_of(self.graph, i, ChainMap({}, named))

        for stage in self.stages:
            stage.what = re.sub("#(\\d+)#", written, stage.what)
        whole = {i: value.name for i, value in self._stored.items() if value.leaf >= 0}
        return [text_of(self.graph, i, whole) for i in self.graph.roots[: self.graph.asked]]


_ARITIES = (2, 4, 8, 16, 32)


def _digits(number: int, most: int) -> list[int]:
    """Return factors of a number, each at most `most` unless it is a larger prime."""
    found = [1]
    for factor in factors(number):
        if found[-1] * factor <= most:
            found[-1] *= factor
        else:
            found.append(factor)
    return [digit for digit in found if digit > 1]


def _sides(refs: Sequence[Ref], out: Sequence[int], over: tuple[int, ...]) -> tuple[tuple[int, ...], ...]:
    """Return the classes of a reduction that joins as a contraction does, such as min(A[i,k] + B[k,j]).

    The classes are batch, rows, columns and summed labels; the result is () for any other reduction.
    """
    sides = [set(ref.labels) for ref in refs if ref.labels]
    both = tuple(label for label in out if all(label in side for side in sides))
    rows = tuple(label for label in out if sides and label in sides[0] and label not in both)
    columns = tuple(label for label in out if sides and label not in sides[0])
    return (both, rows, columns, over) if rows and columns else ()
