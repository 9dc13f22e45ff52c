"""Placement of block operations one by one: load simulated hierarchical scheduling (LSHS), and round-robin.

LSHS (NumS, section 3.4) simulates the load of each process: memory, words in and words out.  Each block operation goes
to that process, among those that hold an operand, which minimises max memory + max words in + max words out.  This
implementation is deterministic: it takes operations in C order of their blocks, and the first of equal processes.
Blocks that were brought to a process stay there, so they are not brought twice.

Round-robin gives each operation to the next process, wherever its operands are, as a scheduler without knowledge of
data locality would.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from bsp.arrays.expressions.layout import Axis, Layout, Shape, layout_of, table_layout
from bsp.arrays.planning.moves import pieces
from bsp.arrays.planning.stages import Ref, Spec, Value

_Copies = dict[tuple[int, ...], set[int]]  # pieces of one value, (block..., start...) -> the processes that have it


class Loads:
    """Simulated loads: the words that each process holds, has received and has sent so far."""

    def __init__(self, nprocs: int, schedule: str) -> None:
        self.nprocs = nprocs
        self.schedule = schedule
        self.loads = np.zeros((3, nprocs))  # rows: memory, words in, words out
        self._most = [0.0, 0.0, 0.0]
        self._next = 0
        self._copies: dict[int, _Copies] = {}

    def hold(self, value: Value) -> None:
        """Add a leaf to the memory of the processes that hold it, and advance round-robin past its blocks."""
        self._next = (self._next + value.layout.blocks) % self.nprocs
        self.loads[0] += value.layout.held(self.nprocs) * value.dtype.itemsize / 8
        self._most[0] = float(self.loads[0].max(initial=0))

    def place(self, spec: Spec, axes: tuple[Axis, ...] | None = None) -> Layout:
        """Return the layout of a stage's tasks, placed one by one, and add their loads.

        axes : the cuts of the tasks; None: those of all operands together (`refined`).
        """
        if axes is None:
            axes = refined(spec)
        grid = layout_of(axes)
        count = grid.blocks
        if self.schedule == "round-robin":
            owner = (self._next + np.arange(count)) % self.nprocs
            self._next = (self._next + count) % self.nprocs
            return table_layout(axes, owner)
        out_size = np.ones(())
        for label, axis in enumerate(axes):
            out_size = out_size[..., None] * (np.diff(axis.bounds) if label in spec.out else np.ones(axis.parts))
        sizes = (out_size * spec.itemsize / 8).reshape(-1).tolist()
        operands = [
            _Operand(ref, grid, self.nprocs, self._copies.setdefault(ref.value.number, {})) for ref in spec.refs
        ]
        owner = np.empty(count, np.int64)
        merged: dict[tuple[int, ...], set[int]] = {}
        over = [label for label in spec.over if axes[label].parts > 1]
        for k, at in enumerate(np.ndindex(*grid.grid)):
            wanted = [operand.needs(at) for operand in operands]
            options = sorted({pid for needs in wanted for _, _, holders in needs for pid in holders}) or [
                k % self.nprocs
            ]
            # a process that already holds a partial result of this block adds to it: no more memory
            key = tuple(part for label, part in enumerate(at) if label not in over)
            have = merged.setdefault(key, set()) if over else set()
            owner[k] = pid = self._cheapest(options, wanted, sizes[k], have)
            self._move(pid, wanted, 0.0 if pid in have else sizes[k])
            have.add(pid)
        return table_layout(axes, owner)

    def place_pairs(self, ref: Ref, axes: tuple[Axis, ...]) -> Layout:
        """Return the layout of the tasks that merge pairs of slots, which are the last axis."""
        labels = tuple(axis.length for axis in axes)
        spec = Spec(labels, (ref,), tuple(range(len(labels) - 1)), (), 1.0, ref.value.dtype.itemsize)
        return self.place(spec, axes)

    def _cheapest(self, options: Sequence[int], wanted: list[list[_Need]], size: float, have: set[int]) -> int:
        """Return the process of `options` that makes the sum of the three maximal loads least.

        Of equals the one with the least memory, then the first.

        wanted : for each operand the pieces that the operation reads.
        size : words of its result.
        have : processes that already hold a partial result of the same block.
        """
        best, found = None, options[0]
        for pid in options:
            into = 0.0
            out: dict[int, float] = {}
            for needs in wanted:
                for words, source, holders in needs:
                    if pid not in holders:
                        into += words
                        out[source] = out.get(source, 0.0) + words
            memory = self.loads[0, pid] + into + (0.0 if pid in have else size)
            cost = max(self._most[0], memory) + max(self._most[1], self.loads[1, pid] + into)
            cost += max([self._most[2], *[self.loads[2, source] + words for source, words in out.items()]])
            order = (cost, self.loads[0, pid] + into)
            if best is None or order < best:
                best, found = order, pid
        return found

    def _move(self, pid: int, wanted: list[list[_Need]], size: float) -> None:
        """Add the loads of an operation on process `pid`; the pieces that are sent stay there as copies."""
        loads = self.loads
        for needs in wanted:
            for words, source, holders in needs:
                if pid not in holders:
                    holders.add(pid)
                    loads[0, pid] += words
                    loads[1, pid] += words
                    loads[2, source] += words
                    self._most[2] = max(self._most[2], loads[2, source])
        loads[0, pid] += size
        self._most[0] = max(self._most[0], loads[0, pid])
        self._most[1] = max(self._most[1], loads[1, pid])


_Need = tuple[float, int, set[int]]  # (words of a piece, its owner, the processes that have it)


class _Operand:
    """Pieces of one reference that each task needs."""

    def __init__(self, ref: Ref, grid: Layout, nprocs: int, copies: _Copies) -> None:
        probe = table_layout(grid.axes, np.zeros(grid.blocks, np.int64))
        table = pieces(ref.value.layout, ref.access, probe, nprocs)
        self._labels = table.labels
        self._needs: dict[Shape, list[_Need]] = {}
        words = (table.sizes * ref.value.dtype.itemsize / 8).tolist()
        whole = ref.value.layout.replicated
        for k, task in enumerate(map(tuple, table.task.tolist())):
            source = int(table.source[k])
            key = (*table.block[k].tolist(), *table.start[k].tolist())
            holders = copies.setdefault(key, set(range(nprocs)) if whole else {source})
            self._needs.setdefault(task, []).append((words[k], source, holders))

    def needs(self, at: Shape) -> list[_Need]:
        return self._needs.get(tuple(at[label] for label in self._labels), [])


def refined(spec: Spec) -> tuple[Axis, ...]:
    """Return axes that are cut wherever an operand is, so that each task needs one block of each operand."""
    return tuple(_cut(spec, label) for label in range(len(spec.labels)))


def _cut(spec: Spec, label: int) -> Axis:
    """Return a label's axis with the cuts of all operands; even cuts stay in the form of even cuts."""
    length = spec.labels[label]
    cuts = {0, length}
    even = set()
    for ref in spec.refs:
        for axis, (of, start, step) in zip(ref.value.layout.axes, ref.access, strict=True):
            if of == label and axis.parts > 1:
                if start == 0 and step == 1 and axis.length == length and axis.cuts is None:
                    even.add(axis.parts)
                positions = -((start - axis.bounds) // step) if step > 0 else (start - axis.bounds) // -step + 1
                cuts |= {int(each) for each in np.clip(positions, 0, length)}
    if len(even) == 1:
        (parts,) = even
        if cuts <= {int(each) for each in Axis(length, parts).bounds}:
            return Axis(length, parts)
    found = tuple(sorted(cuts))
    return Axis(length, len(found) - 1, cuts=found) if len(found) > 2 else Axis(length)
