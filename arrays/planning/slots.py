"""Slots: the places of partial results until they are merged."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

import numpy as np

from bsp.arrays.expressions.layout import Axis, Layout, Shape, layout_of, replicated


class Slots:
    """Slots of partial results: a last axis of the value, present if some summed label is split.

    On a process grid a slot is a position in the grid of the split labels.  Where tasks are placed one by one, each
    process that contributes to a result block has a slot, in the order of pids, so that neighbouring processes have
    neighbouring slots.

    labels : the split summed labels; empty if there are no slots.
    layout : the layout of the stage's value.
    """

    def __init__(self, tasks: Layout, out: Sequence[int], over: Sequence[int]) -> None:
        self.tasks = tasks
        self.out = tuple(out)
        self._slot: np.ndarray | None = None  # slot of each task, where tasks are placed one by one
        kept = tuple(tasks.axes[label] for label in out)
        if tasks.replicated:
            self.labels: list[int] = []
            self.layout = replicated(tuple(axis.length for axis in kept))
        elif tasks.table is not None:
            self.labels = [label for label in over if tasks.axes[label].parts > 1]
            self.layout = self._placed(kept)
        else:
            self.labels = [label for label in over if tasks.axes[label].deal > 1]
            slots = _slot_axis([tasks.axes[label] for label in self.labels])
            self.layout = (
                layout_of((*kept, slots) if slots else kept) if slots or not self.labels else self._placed(kept)
            )
        self._deal = [tasks.axes[label].deal for label in self.labels]

    def _placed(self, kept: tuple[Axis, ...]) -> Layout:
        """Return the layout of partial results that no process grid gives; set each task's slot.

        Every block gets as many slots as the block with most contributing processes; its last process owns the rest.
        """
        if not self.labels:
            owner = self.tasks.owner.transpose(
                *self.out, *[k for k in range(len(self.tasks.axes)) if k not in self.out]
            )
            return layout_of(kept, False, tuple(owner.reshape(-1).tolist()))
        order = (*self.out, *[label for label in range(len(self.tasks.axes)) if label not in self.out])
        owner = self.tasks.owner.transpose(order).reshape(*[axis.parts for axis in kept], -1)
        flat = owner.reshape(-1, owner.shape[-1])
        most = max((len(np.unique(row)) for row in flat), default=1)
        table = np.empty((len(flat), most), np.int64)
        slot = np.empty_like(flat)
        for k, row in enumerate(flat):
            pids, slot[k] = np.unique(row, return_inverse=True)
            table[k, : len(pids)] = pids
            table[k, len(pids) :] = pids[-1]  # slots that no task fills
        back = slot.reshape([self.tasks.axes[label].parts for label in order]).transpose(np.argsort(order))
        self._slot = back
        return layout_of((*kept, Axis(most, most)), False, tuple(table.reshape(-1).tolist()))

    def place(self, at: Shape) -> Shape:
        """Return the coordinates of the block to which a task adds."""
        where = tuple(at[label] for label in self.out)
        if not self.labels:
            return where
        if self._slot is not None:
            return (*where, int(self._slot[at]))
        slot = 0
        for label, deal in zip(self.labels, self._deal, strict=True):
            slot = slot * deal + at[label] % deal
        return (*where, slot)

    def mine(self, pid: int) -> list[Shape]:
        """Return the blocks that a process must make, including those to which none of its tasks adds."""
        return self.layout.mine(pid)

    def counts(self, over: Sequence[int]) -> np.ndarray:
        """Return the number of values behind each slot's partial result.

        The array is by slot; by block and slot where tasks are placed one by one and the blocks differ.
        """
        if self._slot is not None:
            axes = self.tasks.axes
            sizes = np.ones((), np.int64)
            for label, axis in enumerate(axes):
                sizes = sizes[..., None] * (np.diff(axis.bounds) if label in over else np.ones(axis.parts, np.int64))
            found = np.zeros(self.layout.grid, np.int64)
            for at in np.ndindex(*self.tasks.grid):
                found[self.place(at)] += sizes[at]
            rows = found.reshape(-1, found.shape[-1])
            return rows[0] if (rows == rows[0]).all() else found
        counts = np.ones((), np.int64)
        for label in self.labels:
            axis = self.tasks.axes[label]
            digits = np.bincount(np.arange(axis.parts) % axis.deal, np.diff(axis.bounds), axis.deal)
            counts = counts[..., None] * digits.astype(np.int64)
        return counts.reshape(-1) * prod(self.tasks.shape[label] for label in over if label not in self.labels)


def _slot_axis(axes: Sequence[Axis]) -> Axis | None:
    """Return the axis of slots of split labels; None unless their digits are adjacent in the process grid."""
    if not axes:
        return None
    stride = axes[-1].stride
    for axis in reversed(axes):
        if axis.stride != stride:
            return None
        stride *= axis.deal
    slots = prod(axis.deal for axis in axes)
    return Axis(slots, slots, slots, axes[-1].stride)
