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
from bsp.arrays.planning.moves import Pieces, pieces, stays


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


def expansion(ref: Ref, labels: Sequence[int]) -> tuple[Any, ...]:
    """Return the index that makes a region of `ref` broadcast over `labels`."""
    has = ref.labels
    return (*[slice(None) if label in has else None for label in labels], ...)


class Row(NamedTuple):
    """One piece of a region: its source block and its place in the region."""

    number: int  # of the row in the table of pieces
    source: int  # pid of the owner; -1: replicated
    block: Shape
    where: tuple[Any, ...]  # an index into the source block
    into: tuple[slice, ...]  # an index into the region


class ReadRegion(NamedTuple):
    """Box that one task reads of one reference, and its pieces."""

    shape: Shape
    rows: list[Row]


class Fetch:
    """Exchange that brings one reference to tasks of a layout: pieces, senders, receivers, and superstep."""

    def __init__(self, ref: Ref, tasks: Layout, nprocs: int, alike: Fetch | None = None) -> None:
        self.ref = ref
        self._alike = alike  # a fetch of another value of the same layout and dtype, with the same pieces
        self.tasks = tasks
        self.level = -1  # level of the first stage that reads it; set by the plan
        self.nprocs = nprocs
        self.local: bool = alike.local if alike else stays(ref.value.layout, ref.access, tasks)
        self._rows: dict[int, Row] = {}
        self._regions: dict[Shape, ReadRegion] = {}
        self._column = {label: k for k, label in enumerate(ref.labels)}

    @cached_property
    def pieces(self) -> Pieces:
        """Table of all pieces."""
        return (
            self._alike.pieces
            if self._alike
            else pieces(self.ref.value.layout, self.ref.access, self.tasks, self.nprocs)
        )

    @cached_property
    def traffic(self) -> tuple[np.ndarray, np.ndarray]:
        """Bytes that each process sends and receives."""
        if self.local:
            return np.zeros(self.nprocs, np.int64), np.zeros(self.nprocs, np.int64)
        if self._alike:
            return self._alike.traffic
        return self.pieces.traffic(self.nprocs, self.ref.value.dtype.itemsize)

    @cached_property
    def moves(self) -> bool:
        """True if any piece is sent from one process to another."""
        if self._alike:
            return self._alike.moves
        return not self.local and bool(self.traffic[0].any())

    @cached_property
    def messages(self) -> int:
        """Most pieces that one process sends, counted once for each receiver."""
        if self.local:
            return 0
        if self._alike:
            return self._alike.messages
        table = self.pieces
        return int(np.bincount(table.source, table.receivers(self.nprocs), self.nprocs).max(initial=0))

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

    # ------------------------------------------------------------------ on one process

    @cached_property
    def _cuts(self) -> tuple[list[list[int]], list[list[int]]]:
        """The cuts of the source's axes, and of the labels, as lists."""
        axes = [axis.bounds.tolist() for axis in self.ref.value.layout.axes]
        return axes, [self.tasks.axes[label].bounds.tolist() for label in self.ref.labels]

    @cached_property
    def _by_source(self) -> tuple[np.ndarray, np.ndarray]:
        """The rows of the table by their owner, and where each owner's begin and end."""
        if self._alike:
            return self._alike._by_source
        source = self.pieces.source
        order = np.argsort(source, kind="stable")
        return order, np.searchsorted(source[order], np.arange(self.nprocs + 1))

    @cached_property
    def _by_task(self) -> tuple[np.ndarray, np.ndarray, list[int]]:
        """The rows of the table by task, where each task's begin and end, and the numbers of parts that count tasks."""
        if self._alike:
            return self._alike._by_task
        table = self.pieces
        radix = [self.tasks.axes[label].parts for label in table.labels]
        codes = np.ravel_multi_index(tuple(table.task.T), radix) if radix else np.zeros(len(table.source), np.int64)
        order = np.argsort(codes, kind="stable")
        return order, np.searchsorted(codes[order], np.arange(int(np.prod(radix, dtype=np.int64)) + 1)), radix

    def row(self, number: int) -> Row:
        """Return a row of the table as slices; sender and receivers of the piece use the same object."""
        found = self._rows.get(number)
        if found is not None:
            return found
        table, (cuts, labels) = self.pieces, self._cuts
        low, high, at = table.start[number].tolist(), table.stop[number].tolist(), table.block[number].tolist()
        column = self._column
        index: list[Any] = []
        for axis, (label, first, step) in enumerate(self.ref.access):
            offset = cuts[axis][at[axis]]
            if label < 0:
                index.append(first - offset)
                continue
            k = column[label]
            begin = first + step * low[k] - offset
            end = begin + step * (high[k] - low[k])
            index.append(slice(begin, None if end < 0 else end, step))
        into = tuple(
            slice(low[k] - cut[part], high[k] - cut[part])
            for k, (cut, part) in enumerate(zip(labels, table.task[number].tolist(), strict=True))
        )
        owner = -1 if self.ref.value.layout.replicated else int(table.source[number])
        found = self._rows[number] = Row(number, owner, tuple(at), (*index, ...), into)
        return found

    def sends(self, pid: int) -> list[tuple[Row, tuple[int, ...]]]:
        """Return the rows that a process sends, in order, with the receivers of each."""
        if self.local:
            return []
        dests = self.pieces.dests
        order, bounds = self._by_source
        found = []
        for number in order[bounds[pid] : bounds[pid + 1]].tolist():
            to = (
                [*range(pid), *range(pid + 1, self.nprocs)]
                if dests is None
                else dests[number][dests[number] >= 0].tolist()
            )
            if to:
                found.append((self.row(number), tuple(to)))
        return found

    def regions(self, pid: int) -> dict[Shape, ReadRegion]:
        """Return the regions that a process's tasks read, by task coordinates."""
        table = self.pieces
        mine = self.tasks.mine(pid)
        if all(tuple(at[label] for label in table.labels) in self._regions for at in mine):
            return {at: self._regions[tuple(at[label] for label in table.labels)] for at in mine}
        order, bounds, radix = self._by_task
        found: dict[Shape, ReadRegion] = {}
        for at in mine:
            part = tuple(at[label] for label in table.labels)
            region = self._regions.get(part)
            if region is None:
                code = 0
                for k, parts in zip(part, radix, strict=True):
                    code = code * parts + k
                full = self.tasks.box(at)
                shape = tuple(full[label][1] - full[label][0] for label in table.labels)
                rows = order[bounds[code] : bounds[code + 1]].tolist()
                region = self._regions[part] = ReadRegion(shape, [self.row(number) for number in rows])
            found[at] = region
        return found

    def piece(self, block: np.ndarray, index: tuple[Any, ...]) -> Any:
        """Return a view of a piece of a block, with its axes in the order of the labels."""
        return block[index] if self._in_order else self._ordered(block[index])

    @cached_property
    def _in_order(self) -> bool:
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
