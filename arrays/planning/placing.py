"""Placement: the choice of the processes that run the tasks of a stage.

Candidates are the layouts of the operands (cell-wise join; partial reduce on the processes that hold the large
operand), the automatic layout of the result and, for contractions, all factorisations of p over the labels
(group-by-join on a grid of all p processes; with a summed index split it is McColl's 3-D method).  Where no pattern
applies, because operands are cut or dealt differently or are placed one by one, block-by-block placement by load
simulated hierarchical scheduling is a candidate too.  The candidate with the least predicted cost on the machine is
taken, the first of equals.

Sources: Khan and Fegaras, section 6; Elibol (NumS), section 3.4.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np

from bsp.arrays.expressions import layout as layouts
from bsp.arrays.expressions.layout import Axis, Layout, Shape, automatic, layout_of, replicated
from bsp.arrays.planning.fusing import identity
from bsp.arrays.planning.hosts import Hosts
from bsp.arrays.planning.lshs import Loads, refined
from bsp.arrays.planning.stages import Fetch, Ref, Spec
from bsp.cost.flows import Flows
from bsp.cost.model import Cost, Machine

ONE_BY_ONE = 1024  # most block operations of a stage for which placing them one by one is tried


class Placer:
    """Chooser of task layouts for p processes on a machine; caches the fetches that it prices."""

    def __init__(self, nprocs: int, machine: Machine, schedule: str, panels: int, memory: float) -> None:
        self.nprocs = nprocs
        self.machine = machine
        self.schedule = schedule
        self.panels = panels  # supersteps over which the operands of a contraction are brought, a part in each
        self.memory = memory  # bytes a process may use; 0: no limit
        self.loads = None if schedule == "patterns" else Loads(nprocs, schedule)
        self._fetches: dict[int, dict[Any, Fetch]] = {}  # by number of the value
        self._alike: dict[Any, Fetch] = {}  # by what determines the pieces: the first fetch with these
        self._hosts = Hosts(machine, nprocs)

    def placed(self, spec: Spec) -> tuple[Layout, str]:
        """Return the layout of a stage's tasks and the name of the pattern."""
        if self.loads is not None and any(not ref.value.layout.replicated for ref in spec.refs):
            return self.loads.place(spec), self.schedule
        tasks, pattern = self._chosen(spec)
        if self.nprocs == 1 and tasks.blocks == 1:
            tasks = replicated(spec.labels)
        return tasks, pattern

    def _chosen(self, spec: Spec) -> tuple[Layout, str]:
        """Return the cheapest candidate and the name of its pattern.

        Three cases are decided without prices.  Small work on replicated operands is done on every process.  Tasks
        that find all operands where the largest is are placed there, unless the stage joins as a contraction does.  A
        small part of an operand is computed on every process.
        """
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
                if tasks is not None and all(tasks is not other for other, _ in options):
                    options.append((tasks, self._named(spec, tasks)))
            first = options[0][0] if options else None
            if first is not None and self._local(spec, first):
                if not spec.classes:
                    return options[0]
            elif not spec.over and size <= layouts.REPLICATED_SIZE and _small_part(real, size):
                return replicated(spec.labels), "to all"
            if not spec.over or not options:
                out = automatic(tuple(spec.labels[label] for label in spec.out), self.nprocs, False)
                options.append((self._of_out(spec, out), "dealt"))
            for ref in spec.beside:
                tasks = self.like(ref, spec.labels)
                if tasks is not None:
                    options.append((tasks, self._named(spec, tasks)))
            if spec.classes:
                options += self._grids(spec)
            elif first is None or not self._local(spec, first):
                options += self._one_by_one(spec)
        return min(options, key=lambda option: self.price(spec, option[0]))

    def _local(self, spec: Spec, tasks: Layout) -> bool:
        """Return whether every reference is read without communication."""
        return all(self.fetch(ref, tasks).local for ref in spec.refs)

    def _one_by_one(self, spec: Spec) -> list[tuple[Layout, str]]:
        """Return the placement by LSHS as a candidate; none if there are more than `ONE_BY_ONE` blocks."""
        axes = refined(spec)
        if prod(axis.parts for axis in axes) > ONE_BY_ONE:
            return []
        loads = Loads(self.nprocs, "lshs")
        for value in dict.fromkeys(ref.value for ref in spec.refs):
            loads.hold(value)
        return [(loads.place(spec, axes), "block by block")]

    def _named(self, spec: Spec, tasks: Layout) -> str:
        if not spec.over:
            return "cell-wise join" if len(spec.refs) > 1 else "in place"
        if any(tasks.split(label) > 1 for label in spec.over):
            return "partial reduce"
        return "group-by-join" if spec.classes else "in place"

    def like(self, ref: Ref, labels: Shape, layout: Layout | None = None) -> Layout | None:
        """Return a layout of tasks on the processes that hold a reference's blocks; None if there is none.

        layout : of the reference's value; None: that of the plan.
        """
        source = ref.value.layout if layout is None else layout
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
        """Return a layout of tasks on the processes that hold the blocks of a result with layout `out`."""
        axes = [Axis(length) for length in spec.labels]
        for label, axis in zip(spec.out, out.axes, strict=True):
            axes[label] = axis
        return layout_of(tuple(axes))

    def _grids(self, spec: Spec) -> list[tuple[Layout, str]]:
        """Return layouts on process grids of all p over each class's longest label; the six best by `_estimate`.

        Neighbours along the last axis of a grid have successive pids.  On several hosts each of the axes is tried in
        its place, because what moves along it stays inside hosts.
        """
        longest = [max(group, key=lambda label: spec.labels[label], default=-1) for group in spec.classes]
        found = []
        for grid in _factorings(self.nprocs, len(longest)):
            if any(
                count > 1 and (label < 0 or spec.labels[label] < count)
                for count, label in zip(grid, longest, strict=True)
            ):
                continue
            axes = self._dealt(spec, longest, grid, range(len(grid)))
            found.append((self._estimate(spec, axes), grid, layout_of(axes)))
        found.sort(key=lambda each: each[0])

        def pattern(grid: tuple[int, ...]) -> str:
            only_summed = grid[-1] > 1 and max(grid[:-1], default=1) == 1
            return "partial reduce" if only_summed else f"group-by-join {'x'.join(map(str, grid))}"

        tried = [(tasks, pattern(grid)) for _, grid, tasks in found[:6]]
        if self._hosts.several:
            for _, grid, _ in found[:6]:
                cut = [k for k, count in enumerate(grid) if count > 1]
                for last in cut[:-1]:
                    order = [*[k for k in range(len(grid)) if k != last], last]
                    tried.append((layout_of(self._dealt(spec, longest, grid, order)), pattern(grid)))
        return tried

    def _dealt(self, spec: Spec, longest: Sequence[int], grid: Sequence[int], order: Sequence[int]) -> tuple[Axis, ...]:
        """Return the labels' axes on a process grid, whose last axis in `order` has successive pids."""
        axes = [Axis(length) for length in spec.labels]
        for position, k in enumerate(order):
            if grid[k] > 1:
                stride = prod(grid[each] for each in order[position + 1 :])
                axes[longest[k]] = Axis(spec.labels[longest[k]], grid[k], grid[k], stride)
        return tuple(axes)

    def _estimate(self, spec: Spec, axes: Sequence[Axis]) -> float:
        """Return the words that a process reads and merges, as if none of them were local."""
        words = 0.0
        for ref in spec.refs:
            words += prod(spec.labels[label] / axes[label].deal for label in ref.labels) * ref.value.dtype.itemsize / 8
        split = prod(axes[label].deal for label in spec.over)
        if split > 1:
            words += prod(spec.labels[label] / axes[label].deal for label in spec.out) * spec.itemsize / 8
        return words

    def price(self, spec: Spec, tasks: Layout) -> float:
        """Return the predicted cost of a stage with these tasks, in flop-times.

        It adds the work of the fullest process, the exchange of operands, the merge of partial results, and the
        exchange with a value that the result is used beside.  Returns infinity if the regions that the tasks read
        exceed the memory limit.
        """
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
        moving = []
        for ref in dict.fromkeys(spec.refs):
            fetch = self.fetch(ref, tasks)
            if not fetch.local:
                moving.append(fetch)
                sent, received = fetch.traffic
                out, into = out + sent, into + received
                messages += fetch.messages
        h = max(out.max(initial=0), into.max(initial=0)) / 8
        if h:
            flat = Cost(0, h, 1, messages=messages)
            total += self._moving(moving) if self._hosts.several else machine.price(flat)
        split = prod(tasks.split(label) for label in spec.over)
        if split > 1:
            size = prod(spec.labels[label] for label in spec.out)
            words = size * spec.itemsize / 8
            each = prod(spec.labels[label] / tasks.split(label) for label in spec.out) * spec.itemsize / 8
            ways = [(each, split, 1)]
            if size <= layouts.REPLICATED_SIZE:
                ways = [((split - 1) * words, split, 1), (2 * words, 2 * split, 2)]
            stride = min((tasks.axes[label].stride for label in spec.over if tasks.axes[label].deal > 1), default=1)
            total += min(self._in_groups(*way, split, stride) for way in ways)
        else:
            total += sum(self.fetch_price(self.fetch(ref, tasks)) for ref in spec.beside)
        return total

    def _in_groups(self, words: float, messages: float, supersteps: int, count: int, stride: int) -> float:
        """Return the flop-times in which groups of so many processes, `stride` apart, exchange partial results."""
        if self._hosts.several:
            return self._hosts.group_price(words, messages, count, stride, supersteps)
        return float(self.machine.price(Cost(0, words, supersteps, messages=messages)))

    def _moving(self, fetches: Sequence[Fetch]) -> float:
        """Return the flop-times of the superstep in which these fetches move, on several hosts."""
        return self._hosts.price(
            Flows(self.nprocs, [(fetch.flow, fetch.ref.value.dtype.itemsize) for fetch in fetches])
        )

    def fetch_price(self, fetch: Fetch) -> float:
        """Return the predicted cost of a fetch's exchange, in flop-times."""
        out, into = fetch.traffic
        h = max(out.max(initial=0), into.max(initial=0)) / 8
        if not h:
            return 0.0
        if self._hosts.several:
            return self._moving([fetch])
        return Cost(0, float(h), 1, messages=fetch.messages).price(self.machine)

    def fetch(self, ref: Ref, tasks: Layout) -> Fetch:
        """Return the cached fetch of a reference for tasks of a layout."""
        own = self._fetches.setdefault(ref.value.number, {})
        found = own.get((ref.access, tasks))
        if found is None:
            key = (ref.value.layout, ref.value.dtype, ref.access, tasks)
            found = own[ref.access, tasks] = Fetch(ref, tasks, self.nprocs, self._alike.get(key))
            self._alike.setdefault(key, found)
        return found

    def forget(self, values: range) -> None:
        """Drop the cached fetches of values with these numbers, which have been discarded."""
        for number in values:
            self._fetches.pop(number, None)


def _small_part(refs: Sequence[Ref], size: int) -> bool:
    """Return whether a result is a small part of an operand, such as a row or a corner: at most a quarter of it."""
    partly = any(label < 0 or start != 0 or step != 1 for ref in refs for label, start, step in ref.access)
    return partly and 4 * size <= max(prod(ref.value.shape) for ref in refs)


def _factorings(number: int, count: int) -> list[tuple[int, ...]]:
    """Return all ways to write a number as an ordered product of `count` factors."""
    if count == 1:
        return [(number,)]
    found = []
    for first in range(1, number + 1):
        if number % first == 0:
            found += [(first, *rest) for rest in _factorings(number // first, count - 1)]
    return found
