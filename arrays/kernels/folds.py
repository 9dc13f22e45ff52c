"""Kernels of aggregates.

`Fold` aggregates the elements of blocks, `Merge` and `Crossing` aggregate its partial results, and `Finish` divides and
casts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from math import prod
from typing import Any

import numpy as np

from bsp.arrays.expressions.graph import Blocks, DType
from bsp.arrays.expressions.layout import Layout, Shape
from bsp.arrays.kernels.aggregates import MEAN, SUM, Aggregate, finished, typed
from bsp.arrays.kernels.elementwise import of_ufunc
from bsp.arrays.kernels.kernels import Room, SlotsInterface, StageTask, charge, charge_program, filling, unfilled
from bsp.arrays.kernels.programs import PIECE, Program, flattened, part, pieces_of
from bsp.arrays.kernels.shared_errors import current

_PRODUCTS = (of_ufunc(np.multiply), of_ufunc(np.square))
_DOTTED = 32 * PIECE  # elements in one dot: enough to share among threads; sums of these are added pairwise


class Fold:
    """A kernel that applies a program to every element and aggregates the results over some labels."""

    def __init__(
        self, program: Program, dtype: DType, expand: Sequence[tuple[Any, ...]], how: Aggregate, over: tuple[int, ...],
        tasks: Layout, slots: SlotsInterface, final: DType | None,
    ) -> None:  # fmt: skip
        self.program = program
        self.dtype = dtype  # dtype of the program's results
        self.expand = expand
        self.how = how
        self.over = over
        self.final = final  # dtype of finished results; None: the blocks are partial results
        self.kept = [label for label in range(len(tasks.axes)) if label not in over]
        self.slots = slots
        self.extents = tasks.shape
        self.count = prod(tasks.shape[label] for label in over)
        self.fallible = program.fallible

    calculates = True

    def flops(self, points: np.ndarray) -> np.ndarray:
        """Return the operations for so many points."""
        return points * (self.program.operations + 1)

    def temporary(self, points: int, tasks: Layout) -> int:
        """Return an upper bound on the bytes of buffers and of temporaries while a piece is folded."""
        sizes = sum(dtype.itemsize for dtype in self.program.buffers)
        return (sizes + 4 * max(self.dtype.itemsize, 8)) * min(points, self.how.piece) + (1 << 14)

    def compute(self, room: Room, tasks: Iterable[StageTask]) -> Blocks:
        """Return the partial results of all tasks, merged where several tasks add to one block."""
        params = [room.params[k] for k in self.program.params]
        totals: dict[Shape, tuple[Any, int]] = {}
        current.name = self.how.term
        for task in tasks:
            where = self.slots.place(task.at)
            current.task, current.piece = task, None
            shape = task.shape
            count = prod(shape[label] for label in self.over)
            if where not in totals:
                totals[where] = self._folded(task, params, shape), count
            elif count:
                total, before = totals[where]
                new = self._folded(task, params, shape)
                if before:
                    self.how.into(total, new, before, count)
                else:
                    total = new
                totals[where] = total, before + count
        found = {where: self._finished(total) for where, (total, _) in totals.items()}
        return unfilled(room.pid, self.slots, found, lambda shape: self.how.start(shape, self.dtype))

    def declared(self, room: Room, tasks: Iterable[StageTask]) -> Blocks:
        """Return blocks without values and count the work, as `Kernel.declared` requires."""
        found: Blocks = {}
        partial = self.how.partial(self.dtype)
        for task in tasks:
            where, shape = self.slots.place(task.at), task.shape
            kept_shape = tuple(shape[label] for label in self.kept)
            if where in found and not prod(shape[label] for label in self.over):
                continue
            total = room.empty(kept_shape, partial)
            if prod(shape):
                charge("elementwise" if self.program.code else "blas1", prod(shape), task.regions)
                if self.program.code:
                    charge_program(self.program, prod(shape), [])
            if self.final is not None:
                total = room.empty(kept_shape, self.final)
            elif self.slots.labels:
                total = total[..., None]
            found.setdefault(where, total)
        return unfilled(room.pid, self.slots, found, lambda shape: room.empty(shape, partial))

    def _finished(self, total: Any) -> Any:
        if self.final is not None:
            return self.how.finish(total, self.count).astype(self.final, copy=False)
        return total[..., None] if self.slots.labels else total

    def _folded(self, task: StageTask, params: Sequence[Any], shape: Shape) -> Any:
        """Return the partial result of one task, an array over the labels that are not reduced."""
        program, over = self.program, self.over
        kept_shape = tuple(shape[label] for label in self.kept)
        partial = self.how.partial(self.dtype)
        if not prod(shape[label] for label in over) or not prod(kept_shape):
            return self.how.start(kept_shape, self.dtype)
        arrays = [region[index] for region, index in zip(task.regions, self.expand, strict=True)]
        origin = [(start, extent) for (start, _), extent in zip(task.box, self.extents, strict=True)]
        if program.plain:
            values = arrays[program.result] if program.result < len(arrays) else np.asarray(params[0], self.dtype)
            values = filling(values, shape)
            if self.how.at_once(values, over):
                return self.how.fold(values, over, origin).reshape(kept_shape)
            arrays = [values]
        flat = flattened(arrays, shape) if len(over) == len(shape) and self.how.plain else None
        if flat is not None:
            found = self._dotted(flat)
            return (self._folded_flat(flat, params, prod(shape)) if found is None else found).reshape(kept_shape)
        total = np.empty(kept_shape, partial)
        done: dict[Any, int] = {}
        most = self.how.piece
        scratch = program.scratch(most)
        buffer = np.empty(most if not program.plain else 0, self.dtype)
        for box in pieces_of(shape, most):
            inputs = [part(x, box) for x in arrays]
            lengths = tuple(len(range(*at.indices(length))) for at, length in zip(box, shape, strict=True))
            current.piece = box
            if program.plain:
                values = inputs[0]
            else:
                values = buffer[: prod(lengths)].reshape(lengths)
                program.run(inputs, params, values, scratch)
            here = [(start + (at.start or 0), extent) for (start, extent), at in zip(origin, box, strict=True)]
            new = self.how.fold(values, over, here)
            kept = tuple(box[label] for label in self.kept)
            key = tuple(at.start for at in kept)
            count = prod(lengths[label] for label in over)
            if key in done:
                self.how.into(total[(*kept, ...)], new, done[key], count)
            else:
                total[kept] = new
            done[key] = done.get(key, 0) + count
        return total

    def _dotted(self, arrays: list[np.ndarray]) -> np.ndarray | None:
        """Return a sum of products of two float64 vectors by the BLAS's dot, which writes no products; None for others.

        A dot notes no floating-point errors: where one must be noted, the products are computed after all.
        """
        if self.how not in (SUM, MEAN) or len(self.program.code) != 1 or np.geterr()["under"] != "ignore":
            return None
        (step,) = self.program.code
        if step.op not in _PRODUCTS or any(arg >= len(arrays) for arg in step.args):
            return None
        x, y = arrays[step.args[0]], arrays[step.args[-1]]
        if not (x.ndim == y.ndim == 1 and x.dtype == y.dtype == np.float64):
            return None
        starts = range(0, x.size, _DOTTED)
        found = np.asarray(np.add.reduce([np.dot(x[k : k + _DOTTED], y[k : k + _DOTTED]) for k in starts]))
        return found if np.isfinite(found) else None

    def _folded_flat(self, arrays: list[np.ndarray], params: Sequence[Any], size: int) -> np.ndarray:
        """Return the partial result of whole vectors; only for plain aggregates.

        Each piece is reduced by the ufunc, then the results of the pieces are.
        """
        program, scratch = self.program, self.program.scratch(PIECE)
        buffer = np.empty(PIECE, self.dtype)
        partial = self.how.partial(self.dtype)
        parts = np.empty(-(-size // PIECE), partial)
        for k, start in enumerate(range(0, size, PIECE)):
            inputs = [x[start : start + PIECE] if x.ndim else x for x in arrays]
            current.piece = start
            values = buffer[: min(PIECE, size - start)]
            program.run(inputs, params, values, scratch)
            parts[k] = self.how.fold(values, (0,), ())
        return np.asarray(self.how.ufunc.reduce(parts, dtype=typed(partial)))


class Merge:
    """A kernel that merges the partial results of several slots, the last label, into one."""

    calculates = True
    fallible = False

    def __init__(self, how: Aggregate, counts: np.ndarray, count: int, final: DType | None, partial: DType) -> None:
        self.how = how
        self.counts = counts  # values behind each slot's partial result; by block and slot if blocks differ
        self.count = count
        self.final = final  # dtype of finished results; None: again a partial result, in the slot of its task
        self.partial = partial

    def flops(self, points: np.ndarray) -> np.ndarray:
        """Return the operations for so many points."""
        return points

    def temporary(self, points: int, tasks: Layout) -> int:
        """Return an upper bound on the bytes used besides regions and results."""
        return points * self.partial.itemsize * 3 + 4096

    def compute(self, room: Room, tasks: Iterable[StageTask]) -> Blocks:
        """Return one block for each task."""
        found: Blocks = {}
        current.name = self.how.term
        for task in tasks:
            (parts,) = task.regions
            shape = parts.shape[:-1]
            where = task.at[:-1] if self.final is not None else task.at
            counts = (self.counts if self.counts.ndim == 1 else self.counts[task.at[:-1]])[slice(*task.box[-1])]
            if not counts.all():
                parts, counts = parts[..., counts > 0], counts[counts > 0]
            axis = len(shape)
            total = self.how.merge(parts, (axis,), counts) if counts.size else self.how.start_of(shape, self.partial)
            if self.final is not None:
                total = self.how.finish(total, self.count).astype(self.final, copy=False)
            total = np.asarray(total).reshape(shape)
            found[where] = total if self.final is not None else total[..., None]
        return found

    def declared(self, room: Room, tasks: Iterable[StageTask]) -> Blocks:
        """Return blocks without values and count the work, as `Kernel.declared` requires."""
        found: Blocks = {}
        for task in tasks:
            (parts,) = task.regions
            charge("blas1", parts.size, [parts])
            total = room.empty(parts.shape[:-1], self.final or self.partial)
            if self.final is not None:
                found[task.at[:-1]] = total
            else:
                found[task.at] = total[..., None]
        return found


class Finish:
    """A kernel that computes a mean, variance or standard deviation from shared moments."""

    calculates = True
    fallible = False

    def __init__(self, how: Aggregate, count: int, dtype: DType) -> None:
        self.how, self.count, self.dtype = how, count, dtype

    def flops(self, points: np.ndarray) -> np.ndarray:
        """Return two operations for each point."""
        return 2 * points

    def temporary(self, points: int, tasks: Layout) -> int:
        """Return an upper bound on the bytes used besides regions and results."""
        return 32 * points + 4096

    def compute(self, room: Room, tasks: Iterable[StageTask]) -> Blocks:
        """Return one block for each task."""
        found: Blocks = {}
        for task in tasks:
            (partial,) = task.regions
            found[task.at] = np.asarray(finished(self.how, partial, self.count)).astype(self.dtype, copy=False)
        return found

    def declared(self, room: Room, tasks: Iterable[StageTask]) -> Blocks:
        """Return blocks without values and count the work, as `Kernel.declared` requires."""
        return {task.at: room.empty(task.shape, self.dtype) for task in tasks}


class Crossing(Merge):
    """One round of a butterfly exchange: each process of a group merges the partial results of the whole group."""

    def __init__(
        self, how: Aggregate, counts: np.ndarray, count: int, final: DType | None, partial: DType, kept: int
    ) -> None:
        super().__init__(how, counts, count, final, partial)
        self.kept = kept  # number of the result's axes; then: copies of earlier rounds, slots, new copies

    def compute(self, room: Room, tasks: Iterable[StageTask]) -> Blocks:
        """Return this process's block: of the result in the last round, else of merged partial results.

        Merged partial results have one axis for each digit of the pid that is done, then the axis of slots.
        """
        return self._crossed(super().compute, room, tasks)

    def declared(self, room: Room, tasks: Iterable[StageTask]) -> Blocks:
        """Return blocks without values and count the work, as `Kernel.declared` requires."""
        return self._crossed(super().declared, room, tasks)

    def _crossed(
        self, merge: Callable[[Room, Iterable[StageTask]], Blocks], room: Room, tasks: Iterable[StageTask]
    ) -> Blocks:
        found: Blocks = {}
        for task in tasks:
            *outer, group, new = task.at
            (region,) = task.regions
            parts = region.reshape(*region.shape[: self.kept], region.shape[-1])
            inner = StageTask((*outer[: self.kept], 0), (*task.box[: self.kept], task.box[-2]), [parts])
            (merged,) = merge(room, [inner]).values()
            shape = parts.shape[:-1]
            if self.final is not None:
                found[tuple(outer[: self.kept])] = merged.reshape(shape)
            else:
                found[(*outer, new, group)] = merged.reshape(shape + (1,) * (len(outer) - self.kept + 2))
        return found
