"""Data movement: the pieces of blocks that tasks need, by index arithmetic on cuts (Khan and Fegaras, section 5).

A stage has *labels*, named index ranges; its tasks are the blocks of a layout over them.  A reference maps labels to
the axes of a source.  A task needs a box of the source.  Along each label, the task's range is divided where the
source's parts begin, and the pieces are the product of these divisions.  The pieces of all tasks are computed at
once, as columns of a table.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from bsp.arrays.expressions.graph import Access
from bsp.arrays.expressions.layout import Axis, Layout


class Meeting(NamedTuple):
    """Intersections of a label's parts with the parts of the source axes that it indexes; one row for each."""

    task: np.ndarray  # part of the label, which is the task's coordinate
    start: np.ndarray  # range of label positions
    stop: np.ndarray
    parts: np.ndarray  # part on each of the source axes, shape (rows, axes)


@lru_cache(maxsize=4096)
def meeting(label: Axis, axes: tuple[tuple[Axis, Access], ...]) -> Meeting:
    """Return the intersections along one label."""
    length = label.length
    cuts = [np.clip(_positions(axis, access), 0, length) for axis, access in axes]
    edges = np.unique(np.concatenate([label.bounds, *cuts, [0, length]]))
    start, stop = edges[:-1], edges[1:]
    task = np.searchsorted(label.bounds, start, side="right") - 1
    parts = np.empty((len(start), len(axes)), np.int64)
    for column, ((axis, access), cut) in enumerate(zip(axes, cuts, strict=True)):
        found = np.searchsorted(cut, start, side="right") - 1
        parts[:, column] = found if access.step > 0 else axis.parts - 1 - found
    return Meeting(task, start, stop, parts)


def _positions(axis: Axis, access: Access) -> np.ndarray:
    """Return the label positions at which the parts of a source axis begin and end, in ascending order."""
    bounds, start, step = axis.bounds, access.start, access.step
    if step > 0:
        return -((start - bounds) // step)
    return ((start - bounds) // -step + 1)[::-1]


class Pieces(NamedTuple):
    """Table of all pieces of one reference, one row each."""

    labels: tuple[int, ...]  # the labels of the reference, ascending
    task: np.ndarray  # (rows, labels): part of each of these labels
    start: np.ndarray  # (rows, labels): range of positions along each
    stop: np.ndarray
    block: np.ndarray  # (rows, source axes): the source block
    source: np.ndarray  # (rows,): the pid of the source block's owner
    dests: np.ndarray | None  # (rows, k): pids that receive the piece; -1: no further one.  None: all but the source

    @property
    def sizes(self) -> np.ndarray:
        """Elements of each piece."""
        found: np.ndarray = np.prod(self.stop - self.start, axis=1, dtype=np.int64)
        return found

    def receivers(self, nprocs: int) -> np.ndarray:
        """Return the number of processes that receive each piece."""
        if self.dests is None:
            return np.full(len(self.source), nprocs - 1)
        found: np.ndarray = (self.dests >= 0).sum(axis=1)
        return found

    def pairs(self, itemsize: int) -> tuple[np.ndarray, np.ndarray, np.ndarray] | None:
        """Return source, receiver and bytes of all that moves; None if every piece goes to everybody."""
        if self.dests is None:
            return None
        rows, columns = np.nonzero(self.dests >= 0)
        return self.source[rows], self.dests[rows, columns], self.sizes[rows] * itemsize

    def traffic(self, nprocs: int, itemsize: int) -> tuple[np.ndarray, np.ndarray]:
        """Return the bytes that each process sends and receives."""
        size = self.sizes * itemsize
        out = np.bincount(self.source, size * self.receivers(nprocs), nprocs).astype(np.int64)
        if self.dests is None:
            into = size.sum() - np.bincount(self.source, size, nprocs).astype(np.int64)
        elif self.dests.shape[1] == 1:
            rows = np.flatnonzero(self.dests[:, 0] >= 0)
            into = np.bincount(self.dests[rows, 0], size[rows], nprocs).astype(np.int64)
        else:
            rows, columns = np.nonzero(self.dests >= 0)
            into = np.bincount(self.dests[rows, columns], size[rows], nprocs).astype(np.int64)
        return out, into


def stays(source: Layout, access: Sequence[Access], tasks: Layout) -> bool:
    """Return whether every task runs on the process that holds all it reads.

    Needs no table of pieces.  The test is sufficient, not necessary: it may return False where nothing moves.
    """
    if source.replicated:
        return True
    if tasks.replicated or tasks.table is not None or source.table is not None:
        return False
    named = set()
    for axis, (label, start, step) in zip(source.axes, access, strict=True):
        if label < 0:
            if axis.deal > 1:
                return False
            continue
        at = tasks.axes[label]
        if axis.deal > 1 or at.deal > 1:
            same = axis.parts == at.parts and axis.deal == at.deal and axis.stride == at.stride
            if start != 0 or step != 1 or axis.length != at.length or axis.cuts != at.cuts or not same:
                return False
        named.add(label)
    return all(at.deal == 1 for label, at in enumerate(tasks.axes) if label not in named)


def pieces(source: Layout, access: Sequence[Access], tasks: Layout, nprocs: int) -> Pieces:
    """Return the table of all pieces of a reference.

    source : the layout of the value; a replicated one has no owners, so its pieces have no receivers.
    access : the labels that index its axes.
    tasks : the layout of the tasks over the labels.
    """
    by_label: dict[int, list[int]] = {}
    for position, (label, _, _) in enumerate(access):
        if label >= 0:
            by_label.setdefault(label, []).append(position)
    labels = tuple(sorted(by_label))
    met = [meeting(tasks.axes[label], tuple((source.axes[a], access[a]) for a in by_label[label])) for label in labels]
    counts = [len(each.task) for each in met]
    rows = int(np.prod(counts, dtype=np.int64)) if counts else 1
    which = np.indices(counts).reshape(len(counts), rows) if counts else np.zeros((0, 1), np.int64)
    task = np.empty((rows, len(labels)), np.int64)
    start, stop = np.empty_like(task), np.empty_like(task)
    block = np.empty((rows, len(access)), np.int64)
    for column, (label, each) in enumerate(zip(labels, met, strict=True)):
        chosen = which[column]
        task[:, column], start[:, column], stop[:, column] = each.task[chosen], each.start[chosen], each.stop[chosen]
        for k, a in enumerate(by_label[label]):
            block[:, a] = each.parts[chosen, k]
    for a, (label, position, _) in enumerate(access):
        if label < 0:
            block[:, a] = source.axes[a].part_of(position)
    if source.replicated:
        nobody = np.full((rows, 1), -1, np.int64)
        return Pieces(labels, task, start, stop, block, np.zeros(rows, np.int64), nobody)
    owners = source.owner[tuple(block.T)].reshape(rows)
    if tasks.replicated:
        return Pieces(labels, task, start, stop, block, owners, None)
    others = [label for label in range(len(tasks.axes)) if label not in labels]
    count = int(np.prod([tasks.axes[label].parts for label in others], dtype=np.int64))
    runs = tasks.owner.transpose(*labels, *others).reshape(*[tasks.axes[label].parts for label in labels], count)
    dests = runs[tuple(task.T)].reshape(rows, runs.shape[-1])
    if dests.shape[1] > 1:
        dests = np.sort(dests, axis=1)
        dests[:, 1:][dests[:, 1:] == dests[:, :-1]] = -1
    else:
        dests = dests.copy()
    dests[dests == owners[:, None]] = -1
    return Pieces(labels, task, start, stop, block, owners, dests)
