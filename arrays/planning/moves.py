"""Data movement: the pieces of blocks that tasks need, by index arithmetic on cuts (Khan and Fegaras, section 5).

A stage has *labels*, named index ranges; its tasks are the blocks of a layout over them.  A reference maps labels to
the axes of a source.  A task needs a box of the source.  Along each label, the task's range is divided where the
source's parts begin, and the pieces are the product of these divisions.  On a process grid, what
each process sends and receives follows from the divisions alone (`flow_of`).  Where blocks or tasks are placed one by
one, the pieces of all tasks are computed at once, as columns of a table.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from bsp.arrays.expressions.graph import Access
from bsp.arrays.expressions.layout import Axis, Layout
from bsp.cost.flows import Flow, FlowEnds


class Meeting(NamedTuple):
    """Intersections of a label's parts with the parts of the source axes that it indexes; one row for each."""

    task: np.ndarray  # part of the label, which is the task's coordinate
    start: np.ndarray  # range of label positions
    stop: np.ndarray
    parts: np.ndarray  # part on each of the source axes, shape (rows, axes)


@lru_cache(maxsize=512)
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


def meetings(source: Layout, access: Sequence[Access], tasks: Layout) -> list[Meeting]:
    """Return the intersections along each label of a reference, in the order of the labels."""
    labels = sorted({each.label for each in access if each.label >= 0})
    indexed = list(zip(source.axes, access, strict=True))
    return [
        meeting(tasks.axes[label], tuple((axis, at) for axis, at in indexed if at.label == label)) for label in labels
    ]


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

    def flow(self, nprocs: int) -> Flow:
        """Return the traffic: each row a group, or all in one if every piece goes to everybody."""
        if self.dests is None:
            owners, at = np.unique(self.source, return_inverse=True)
            size = np.bincount(at, self.sizes, len(owners)).astype(np.int64)
            senders = FlowEnds(0 * owners, owners, np.bincount(at, minlength=len(owners)), size, 0 * owners)
            everybody, one = np.arange(nprocs), np.ones(nprocs, np.int64)
            return Flow(1, senders, FlowEnds(0 * everybody, everybody, one, one, 0 * everybody))
        rows, one = np.arange(len(self.source)), np.ones(len(self.source), np.int64)
        group, columns = np.nonzero(self.dests >= 0)
        dest = self.dests[group, columns]
        senders = FlowEnds(rows, self.source, one, self.sizes, 0 * rows)
        return Flow(len(rows), senders, FlowEnds(group, dest, 0 * group + 1, 0 * group + 1, 0 * group))


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
    met = meetings(source, access, tasks)
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


# ------------------------------------------------------------------ on process grids


@lru_cache(maxsize=256)
def _along(label: Axis, axes: tuple[tuple[Axis, Access], ...]) -> Flow:
    """Return what moves along one label; a pid is the part of the owner's, or of the receiver's, that it determines.

    Parts of the tasks that meet a single part of the source are a group with one sender, together with all others that
    meet that one.  Any other part of the tasks is the only receiver of its group.
    """
    met = meeting(label, axes)
    source = np.zeros(len(met.task), np.int64)
    for column, (axis, _) in enumerate(axes):
        source += met.parts[:, column] % axis.deal * axis.stride
    task = met.task % label.deal * label.stride
    span = int(task.max(initial=0)) + 1
    codes, at = np.unique(source * span + task, return_inverse=True)
    source, task = codes // span, codes % span
    pieces = np.bincount(at, minlength=len(codes))
    size = np.bincount(at, met.stop - met.start, len(codes)).astype(np.int64)
    _, of_source = np.unique(source, return_inverse=True)
    _, of_task, meets = np.unique(task, return_inverse=True, return_counts=True)
    fanned = meets[of_task] == 1
    _, first, group = np.unique(
        np.where(fanned, of_source, len(codes) + of_task), return_index=True, return_inverse=True
    )
    once = np.zeros(len(codes), bool)
    once[first] = True
    ends = []
    for pid, weighed in ((source, ~fanned), (task, fanned)):
        rows = np.flatnonzero(weighed | once)
        share = np.where(weighed, (pieces, size), 1)[:, rows]
        ends.append(FlowEnds(group[rows], pid[rows], share[0], share[1], np.arange(len(rows))))
    return Flow(len(first), *ends)


_WHOLE = Flow(1, *[FlowEnds(*(np.array([each]) for each in (0, 0, 1, 1, 0)))] * 2)  # one piece, the same for all


def flow_of(source: Layout, access: Sequence[Access], tasks: Layout, nprocs: int) -> Flow:
    """Return the traffic that brings a reference to tasks; the arguments are those of `pieces`.

    On process grids the owner of a piece is a sum over its labels, and so is the process that receives it.  So the
    traffic is a product of what moves along the labels.  Each piece goes to all processes that run tasks with these
    parts of its labels.
    """
    if source.replicated:
        return Flow(0, *[FlowEnds(*[np.zeros(0, np.int64)] * 5)] * 2)
    if not (source.regular and (tasks.replicated or tasks.regular)):
        return pieces(source, access, tasks, nprocs).flow(nprocs)
    by_label: dict[int, list[tuple[Axis, Access]]] = {}
    fixed = 0
    for axis, at in zip(source.axes, access, strict=True):
        if at.label >= 0:
            by_label.setdefault(at.label, []).append((axis, at))
        elif axis.deal > 1:
            fixed += axis.part_of(at.start) % axis.deal * axis.stride
    parts = [_along(tasks.axes[label], tuple(axes)) for label, axes in by_label.items()] or [_WHOLE]
    groups, senders, receivers = parts[0]
    for part in parts[1:]:
        senders = _product(senders, part.senders, part.groups)
        receivers = _product(receivers, part.receivers, part.groups)
        groups *= part.groups
    if fixed:
        senders = senders._replace(pid=senders.pid + fixed)
    others = np.arange(nprocs) if tasks.replicated else np.zeros(1, np.int64)
    for label, axis in enumerate(tasks.axes):
        if label not in by_label and axis.deal > 1:
            others = (others[:, None] + np.arange(min(axis.deal, axis.parts)) * axis.stride).reshape(-1)
    if len(others) > 1:
        group, pid, *shares = (np.repeat(each, len(others)) for each in receivers)
        receivers = FlowEnds(group, pid + np.tile(others, len(receivers.pid)), *shares)
    return Flow(groups, senders, receivers)


def _product(first: FlowEnds, second: FlowEnds, groups: int) -> FlowEnds:
    """Return the ends of a flow along two labels, of those along each; the second has so many groups."""
    return FlowEnds(
        (first.group[:, None] * groups + second.group).reshape(-1),
        (first.pid[:, None] + second.pid).reshape(-1),
        (first.pieces[:, None] * second.pieces).reshape(-1),
        (first.size[:, None] * second.size).reshape(-1),
        (first.piece[:, None] * len(second.piece) + second.piece).reshape(-1),
    )
