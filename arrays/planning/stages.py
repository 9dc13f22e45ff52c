"""Parts of a plan: values, references to them, and stages that compute values from values.

A stage is a computation over labels (named index ranges).  Its tasks are the blocks of a layout over the labels, each
run by its owner.  A reference determines the box of a value that a task needs; a fetch brings that box to the task.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from typing import Any, NamedTuple

import numpy as np

from bsp.arrays.expressions.graph import Access, DType
from bsp.arrays.expressions.layout import Layout, Shape
from bsp.arrays.kernels.kernels import Kernel
from bsp.arrays.planning.moves import Meeting, Pieces, flow_of, meetings, pieces, stays
from bsp.cost.flows import Flow


@dataclass(eq=False)
class Value:
    """A distributed array inside a plan: a leaf, or the result of a stage."""

    number: int
    name: str
    shape: Shape
    dtype: DType  # of the stored elements; partial results may have a structured one
    layout: Layout
    level: int = 0  # the superstep in which it is computed; leaves: 0
    last: int = 0  # the superstep in which it is last used
    leaf: int = -1  # position among the graph's leaves
    asked: Layout | None = None  # a finer layout, of which `layout` is the merged one, that the program asked for

    @property
    def shown(self) -> Layout:
        """The layout of the value as the program sees it."""
        return self.layout if self.asked is None else self.asked


class Ref(NamedTuple):
    """A stage's reference to a value: for each axis of the value, the label and the affine map that index it."""

    value: Value
    access: tuple[Access, ...]

    @property
    def labels(self) -> tuple[int, ...]:
        """Labels of the reference, ascending, each once: the order of a region's axes."""
        return _labels(self.access)


@lru_cache(maxsize=1 << 14)
def _labels(access: tuple[Access, ...]) -> tuple[int, ...]:
    return tuple(sorted({each.label for each in access if each.label >= 0}))


class Spec(NamedTuple):
    """Description of a stage before its tasks are placed."""

    labels: Shape  # extent of each label
    refs: tuple[Ref, ...]
    out: tuple[int, ...]  # labels of the result
    over: tuple[int, ...]  # labels that are summed
    work: float  # flop-times for each point
    itemsize: int  # of the result
    classes: tuple[tuple[int, ...], ...] = ()  # of a join: batch, rows, columns, summed
    flops_on: Callable[[Layout], float] | None = None  # operations of the fullest process, if not work × points
    beside: tuple[Ref, ...] = ()  # to a value that the result is used beside, element by element


def expansion(ref: Ref, labels: Sequence[int]) -> tuple[Any, ...]:
    """Return the index that makes a region of `ref` broadcast over `labels`."""
    has = ref.labels
    return (*[slice(None) if label in has else None for label in labels], ...)


class PieceRow(NamedTuple):
    """One piece of a region: its source block and its place in the region."""

    number: int  # of the row in the table of pieces
    source: int  # pid of the owner; -1: replicated
    block: Shape
    where: tuple[Any, ...]  # an index into the source block
    into: tuple[slice, ...]  # an index into the region


class ReadRegion(NamedTuple):
    """Box that one task reads of one reference, and its pieces."""

    shape: Shape
    rows: list[PieceRow]


class Fetch:
    """Exchange that brings one reference to tasks of a layout: pieces, senders, receivers, and superstep."""

    def __init__(self, ref: Ref, tasks: Layout, nprocs: int, alike: Fetch | None = None) -> None:
        self.ref = ref
        self._alike = alike  # a fetch of another value of the same layout and dtype, with the same pieces
        self.tasks = tasks
        self.level = -1  # level of the first stage that reads it; set by the plan
        self.nprocs = nprocs
        self.local: bool = alike.local if alike else stays(ref.value.layout, ref.access, tasks)
        self._rows: dict[int, PieceRow] = {}
        self._regions: dict[Shape, ReadRegion] = {}
        self._labels = ref.labels
        self._column = {label: k for k, label in enumerate(self._labels)}

    @cached_property
    def flow(self) -> Flow:
        """All that moves, without a list of the pieces."""
        if self._alike:
            return self._alike.flow
        return flow_of(self.ref.value.layout, self.ref.access, self.tasks, self.nprocs)

    @cached_property
    def _sums(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Elements that each process sends and receives, and pieces that it sends, once for each receiver."""
        if self.local:
            return (np.zeros(self.nprocs, np.int64),) * 3
        if self._alike:
            return self._alike._sums
        return self.flow.sums(self.nprocs)

    @cached_property
    def traffic(self) -> tuple[np.ndarray, np.ndarray]:
        """Bytes that each process sends and receives."""
        out, into, _ = self._sums
        itemsize = self.ref.value.dtype.itemsize
        return out * itemsize, into * itemsize

    @cached_property
    def moves(self) -> bool:
        """True if any piece is sent from one process to another."""
        return not self.local and bool(self._sums[0].any())

    @property
    def messages(self) -> int:
        """Most pieces that one process sends, counted once for each receiver."""
        return int(self._sums[2].max(initial=0))

    def regions_held(self) -> np.ndarray:
        """Return, by process, the bytes of the regions of all its tasks, as if each region were copied together."""
        tasks = self.tasks
        itemsize = self.ref.value.dtype.itemsize
        if tasks.replicated:
            size = int(np.prod([tasks.shape[label] for label in self.ref.labels], dtype=np.int64))
            return np.full(self.nprocs, size * itemsize, np.int64)
        sizes = np.ones((), np.int64)
        for label, axis in enumerate(tasks.axes):
            sizes = sizes[..., None] * (np.diff(axis.bounds) if label in self.ref.labels else np.ones(axis.parts, int))
        return np.bincount(tasks.owner.reshape(-1), sizes.reshape(-1) * itemsize, self.nprocs).astype(np.int64)

    @cached_property
    def direct(self) -> bool:
        """True if each task reads from exactly one block, which its own process holds."""
        if not self.local:
            return False
        used = set()
        for axis, (label, start, step) in zip(self.ref.value.layout.axes, self.ref.access, strict=True):
            if label < 0:
                continue
            at = self.tasks.axes[label]
            same = (axis.length, axis.parts, axis.cuts) == (at.length, at.parts, at.cuts)
            if label in used or start or step != 1 or not same:
                return False
            used.add(label)
        return True

    @property
    def whole(self) -> bool:
        """True if each task reads one block of its own process as it is, an element for each of its points."""
        labels = [each.label for each in self.ref.access]
        return self.direct and labels == list(range(len(self.tasks.axes)))

    # ------------------------------------------------------------------ on one process

    @cached_property
    def _cuts(self) -> tuple[list[list[int]], list[list[int]]]:
        """The cuts of the source's axes, and of the labels, as lists."""
        axes = [axis.bounds.tolist() for axis in self.ref.value.layout.axes]
        return axes, [self.tasks.axes[label].bounds.tolist() for label in self._labels]

    @cached_property
    def _met(self) -> list[Meeting]:
        """The divisions along each label.  A row of the table of pieces is one division of each, the last fastest."""
        return meetings(self.ref.value.layout, self.ref.access, self.tasks)

    @cached_property
    def _listed(self) -> list[tuple[list[int], list[int], list[int], list[list[int]]]]:
        """The divisions as lists: part of the label, start, stop, parts of the source's axes."""
        return [
            (each.task.tolist(), each.start.tolist(), each.stop.tolist(), each.parts.tolist()) for each in self._met
        ]

    @cached_property
    def _begins(self) -> list[list[int]]:
        """For each label, where the divisions of each of its parts begin, and the end."""
        return [
            np.searchsorted(each.task, np.arange(self.tasks.axes[label].parts + 1)).tolist()
            for label, each in zip(self._labels, self._met, strict=True)
        ]

    @cached_property
    def _places(self) -> list[tuple[int, int]]:
        """For each axis of the source its label and its number among the label's axes; its part if it has no label."""
        seen: dict[int, int] = {}
        found = []
        for axis, (label, position, _) in zip(self.ref.value.layout.axes, self.ref.access, strict=True):
            if label < 0:
                found.append((-1, axis.part_of(position)))
            else:
                found.append((self._column[label], seen.get(label, 0)))
                seen[label] = seen.get(label, 0) + 1
        return found

    def row(self, number: int) -> PieceRow:
        """Return a row of the table as slices; sender and receivers of the piece use the same object."""
        found = self._rows.get(number)
        if found is not None:
            return found
        (cuts, labels), divided = self._cuts, self._listed
        rest, which = number, [0] * len(divided)
        for k in range(len(divided) - 1, -1, -1):
            rest, which[k] = divmod(rest, len(divided[k][0]))
        at: list[int] = []
        index: list[Any] = []
        for axis, ((label, first, step), (k, place)) in enumerate(zip(self.ref.access, self._places, strict=True)):
            if label < 0:
                at.append(place)
                index.append(first - cuts[axis][place])
                continue
            _, starts, stops, parts = divided[k]
            low, high, part = starts[which[k]], stops[which[k]], parts[which[k]][place]
            at.append(part)
            begin = first + step * low - cuts[axis][part]
            end = begin + step * (high - low)
            index.append(slice(begin, None if end < 0 else end, step))
        into = []
        for k, cut in enumerate(labels):
            tasks, starts, stops, _ = divided[k]
            offset = cut[tasks[which[k]]]
            into.append(slice(starts[which[k]] - offset, stops[which[k]] - offset))
        owner = self.ref.value.layout.owner_of(tuple(at))
        found = self._rows[number] = PieceRow(number, owner, tuple(at), (*index, ...), tuple(into))
        return found

    @cached_property
    def _table(self) -> tuple[Pieces, np.ndarray, np.ndarray]:
        """The table of all pieces, its rows by owner, and where each owner's begin: for blocks placed one by one."""
        table = pieces(self.ref.value.layout, self.ref.access, self.tasks, self.nprocs)
        order = np.argsort(table.source, kind="stable")
        return table, order, np.searchsorted(table.source[order], np.arange(self.nprocs + 1))

    def sends(self, pid: int) -> list[tuple[PieceRow, tuple[int, ...]]]:
        """Return the rows that a process sends, in order, with the receivers of each."""
        source, tasks = self.ref.value.layout, self.tasks
        if self.local:
            return []
        if not (source.regular and (tasks.replicated or tasks.regular)):
            table, order, bounds = self._table
            numbers = order[bounds[pid] : bounds[pid + 1]].tolist()
            if table.dests is not None:
                listed = [(number, table.dests[number]) for number in numbers]
                return [(self.row(n), tuple(to[to >= 0].tolist())) for n, to in listed if (to >= 0).any()]
        else:
            numbers = self._sent_by(pid)
        if tasks.replicated:
            to_all = (*range(pid), *range(pid + 1, self.nprocs))
            return [(self.row(number), to_all) for number in numbers] if to_all else []
        found = []
        for number in numbers:
            to = tuple(dest for dest in self._receivers(number) if dest != pid)
            if to:
                found.append((self.row(number), to))
        return found

    def _sent_by(self, pid: int) -> list[int]:
        """Return the numbers of the rows whose source is on a process, on a process grid."""
        layout = self.ref.value.layout
        digits = layout.digits_of(pid)
        if digits is None:
            return []
        owned = [0] * len(self._met)  # what each label determines of the pid
        for axis, digit, (k, part) in zip(layout.axes, digits, self._places, strict=True):
            if k >= 0:
                owned[k] += digit * axis.stride
            elif part % axis.deal != digit:
                return []
        numbers = [0]
        for of, divisions, each in zip(owned, self._by_owner, self._met, strict=True):
            here, count = divisions.get(of, ()), len(each.task)
            numbers = [number * count + which for number in numbers for which in here]
        return numbers

    @cached_property
    def _by_owner(self) -> list[dict[int, list[int]]]:
        """For each label, its divisions by the part of the owner's pid that they determine."""
        axes = self.ref.value.layout.axes
        found: list[dict[int, list[int]]] = []
        for k, each in enumerate(self._met):
            of = np.zeros(len(each.task), np.int64)
            for axis, (label, place) in zip(axes, self._places, strict=True):
                if label == k:
                    of += each.parts[:, place] % axis.deal * axis.stride
            found.append({})
            for which, owner in enumerate(of.tolist()):
                found[-1].setdefault(owner, []).append(which)
        return found

    @cached_property
    def _others(self) -> list[int]:
        """Differences of the pids, on a process grid, that run tasks with the same part of each label."""
        found = np.zeros(1, np.int64)
        for label, axis in enumerate(self.tasks.axes):
            if label not in self._column and axis.deal > 1:
                found = (found[:, None] + np.unique(axis.digits())).reshape(-1)
        return sorted(found.tolist())

    def _receivers(self, number: int) -> list[int]:
        """Return the processes that read a row, on a process grid."""
        first = 0
        for label, (tasks, *_) in zip(reversed(self._labels), reversed(self._listed), strict=True):
            number, k = divmod(number, len(tasks))
            axis = self.tasks.axes[label]
            first += tasks[k] % axis.deal * axis.stride
        return [first + other for other in self._others]

    def regions(self, pid: int) -> dict[Shape, ReadRegion]:
        """Return the regions that a process's tasks read, by task coordinates."""
        found: dict[Shape, ReadRegion] = {}
        labels = self._labels
        for at in self.tasks.mine(pid):
            part = tuple(at[label] for label in labels)
            region = self._regions.get(part)
            if region is None:
                full = self.tasks.box(at)
                shape = tuple(full[label][1] - full[label][0] for label in labels)
                numbers = [0]
                for k, begins, (tasks, *_) in zip(part, self._begins, self._listed, strict=True):
                    here = range(begins[k], begins[k + 1])
                    numbers = [number * len(tasks) + which for number in numbers for which in here]
                region = self._regions[part] = ReadRegion(shape, [self.row(number) for number in numbers])
            found[at] = region
        return found

    def piece(self, block: np.ndarray, index: tuple[Any, ...]) -> Any:
        """Return a view of a piece of a block, with its axes in the order of the labels."""
        return block[index] if self.in_order else self._ordered(block[index])

    @cached_property
    def in_order(self) -> bool:
        """True if the axes of a block that have labels are in the order of these, each label once."""
        labels = [each.label for each in self.ref.access if each.label >= 0]
        return labels == sorted(set(labels))

    def _ordered(self, part: np.ndarray) -> Any:
        """Return a piece with its axes in the order of the labels."""
        labels = [each.label for each in self.ref.access if each.label >= 0]
        while len(set(labels)) != len(labels):  # two axes with one label: their diagonal, which becomes the last axis
            second = next(k for k, label in enumerate(labels) if label in labels[:k])
            first = labels.index(labels[second])
            part = np.diagonal(part, axis1=first, axis2=second)
            labels = [label for k, label in enumerate(labels) if k not in (first, second)] + [labels[first]]
        return part.transpose(np.argsort(labels))


@dataclass(eq=False)
class Stage:
    """One computation over labels.

    labels : the extent of each label.
    tasks : the layout over the labels, whose owners run the tasks.
    kernel : the computation of a task (see `kernels`).
    out : the value that the stage computes.
    what : the expression as text.
    pattern : the name of the pattern by which the tasks were placed.
    level : the superstep in which the stage runs.
    fetches : one for each reference.
    """

    number: int
    labels: Shape
    tasks: Layout
    refs: tuple[Ref, ...]
    kernel: Kernel
    out: Value
    what: str
    pattern: str
    level: int = 0
    fetches: list[Fetch] = field(default_factory=list)


def walk(stages: Sequence[Stage]) -> Iterator[tuple[Stage, Fetch]]:
    """Yield every fetch of some stages with its stage, in the order in which pieces are sent."""
    for stage in stages:
        for fetch in stage.fetches:
            yield stage, fetch
