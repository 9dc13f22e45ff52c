"""Kernels: how the tasks of a stage compute blocks from the regions that were brought to them.

A kernel takes a process's tasks and returns the blocks of the stage's value.  Each task has its coordinates, the
index range of every label, and one region for each reference, with axes in label order.  No kernel changes a region,
so a block may be a region itself; only a block of `Room.spare`, which nothing else refers to, is written over.
Assignments, too, write into a block only if nothing else refers to it (`writing`).

Each kernel also declares its blocks and their cost, for runs without values: `declared` returns blocks of the same
shapes and counts the same operations, without calling `compute`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache
from itertools import pairwise
from math import prod
from typing import Any, NamedTuple, Protocol

import numpy as np

from bsp.abstract.work import CACHED, counter
from bsp.arrays.expressions.graph import Blocks, DType
from bsp.arrays.expressions.layout import Layout, Shape
from bsp.arrays.kernels.aggregates import MEAN, SUM, Aggregate, finished, typed
from bsp.arrays.kernels.elementwise import of_ufunc
from bsp.arrays.kernels.programs import PIECE, Program, flattened, part, pieces_of, run_in_pieces
from bsp.arrays.kernels.shared_errors import current


class StageTask(NamedTuple):
    """One task of a stage: its coordinates, its index ranges, and the regions that it reads."""

    at: Shape
    box: tuple[tuple[int, int], ...]  # index range of each label
    regions: list[Any]

    @property
    def shape(self) -> Shape:
        """Extent of each label in this task."""
        return extents(self.box)


@lru_cache(maxsize=4096)
def extents(box: tuple[tuple[int, int], ...]) -> Shape:
    """Return the number of positions along each axis of an index range."""
    return tuple(stop - start for start, stop in box)


def charge(kernel: str, flops: float, arrays: Iterable[Any]) -> None:
    """Count the flops of a kernel, and as memory traffic the bytes of those arrays that are too large for the cache."""
    counter.flops(kernel, flops)
    counter.moved(sum(array.nbytes for array in arrays if array.size > CACHED))


def charge_program(program: Program, points: int, arrays: Iterable[Any]) -> None:
    """Count the operations of a program for so many points, functions in their own class; memory as `charge`."""
    if program.functions:
        charge("functions", points * program.functions, [])
    charge("elementwise", points * (program.operations - program.functions), arrays)


def _in_columns(arrays: Sequence[Any], shape: Shape) -> bool:
    """Return whether all operands of this shape are stored by columns, as transposed ones are.

    The result is then stored so too, as NumPy's is: to read columns and write rows costs twice the time.
    """
    full = [array for array in arrays if array.shape == shape]
    return bool(full) and all(array.flags.f_contiguous and not array.flags.c_contiguous for array in full)


def filling(array: Any, shape: Shape) -> Any:
    """Return the array itself if it has the shape, else a view broadcast to it."""
    return array if array.shape == shape else np.broadcast_to(array, shape)


class SlotsInterface(Protocol):
    """Interface of `planning.slots.Slots` for kernels: the blocks to which partial results go."""

    labels: list[int]
    layout: Layout

    def place(self, at: Shape) -> Shape:
        """Return the coordinates of the block to which a task adds."""

    def mine(self, pid: int) -> list[Shape]:
        """Return the coordinates of all blocks of a process."""


class Room(Protocol):
    """Environment of a kernel: allocates memory and holds parameters."""

    pid: int
    params: Sequence[Any]
    spare: dict[Shape, Any]  # by task, a block of an operand that its result may be written over

    def empty(self, shape: Shape, dtype: DType) -> Any:
        """Return a new array; in a run without values, an array without data."""

    def once(self, name: str, make: Callable[[], Any], of: Sequence[Any]) -> Any:
        """Return what `make()` makes of some arrays; the processes of an element that have the same share it."""


class Kernel(Protocol):
    """Computation of a stage's tasks."""

    calculates: bool  # whether it does arithmetic, so that floating-point errors can come up
    fallible: bool  # whether it can raise for some values even with all floating-point errors ignored

    def flops(self, points: np.ndarray) -> np.ndarray:
        """Return the operations for so many points."""

    def temporary(self, points: int, tasks: Layout) -> int:
        """Return an upper bound on the bytes used besides regions and results."""

    def compute(self, room: Room, tasks: Iterable[StageTask]) -> Blocks:
        """Return the blocks that a process's tasks compute, by block coordinates."""

    def declared(self, room: Room, tasks: Iterable[StageTask]) -> Blocks:
        """Return the same blocks without values, and count the work."""


class Map:
    """A kernel that applies a program to every element."""

    def __init__(self, program: Program, dtype: DType, expand: Sequence[tuple[Any, ...]]) -> None:
        self.program = program
        self.dtype = dtype
        self.expand = expand  # makes each region broadcast over all labels
        self.calculates, self.fallible = not program.plain, program.fallible
        self._expands = any(part is None for index in expand for part in index)

    def flops(self, points: np.ndarray) -> np.ndarray:
        """Return the operations for so many points."""
        return points * self.program.operations

    def temporary(self, points: int, tasks: Layout) -> int:
        """Return an upper bound on the bytes used besides regions and results."""
        return sum(dtype.itemsize for dtype in self.program.buffers) * min(points, PIECE) + 4096

    def compute(self, room: Room, tasks: Iterable[StageTask]) -> Blocks:
        """Return one block for each task."""
        params = [room.params[k] for k in self.program.params]
        return {task.at: self._block(room, task, params) for task in tasks}

    def declared(self, room: Room, tasks: Iterable[StageTask]) -> Blocks:
        """Return blocks without values and count the work, as `Kernel.declared` requires."""
        found: Blocks = {}
        for task in tasks:
            if self.program.plain:
                found[task.at] = self._block(room, task, [room.params[k] for k in self.program.params])
            else:
                out = found[task.at] = room.empty(task.shape, self.dtype)
                charge_program(self.program, out.size, [*task.regions, out])
        return found

    def _block(self, room: Room, task: StageTask, params: Sequence[Any]) -> Any:
        """Return a task's block.  A program without instructions copies nothing: its block is a view of a region."""
        program, shape = self.program, task.shape
        arrays = task.regions
        if self._expands:
            arrays = [region[index] for region, index in zip(arrays, self.expand, strict=True)]
        if program.plain:
            only = arrays[program.result] if program.result < len(arrays) else np.asarray(params[0], self.dtype)
            return filling(only, shape)
        out = room.spare.pop(task.at, None)
        if out is None:
            by_columns = not program.fallible and _in_columns(arrays, shape)  # errors are sought in the order of rows
            out = room.empty(shape[::-1], self.dtype).T if by_columns else room.empty(shape, self.dtype)
        current.task, current.piece = task, None
        run_in_pieces(program, arrays, params, out)
        return out


class Overwrite(Map):
    """A kernel that applies a program to every element, and then writes assigned values over some of the results."""

    def __init__(self, program: Program, dtype: DType, expand: Sequence[tuple[Any, ...]], assigned: int) -> None:
        super().__init__(program, dtype, expand)
        self.assigned = assigned  # position of the `Assignments` among the graph's parameters

    def compute(self, room: Room, tasks: Iterable[StageTask]) -> Blocks:
        """Return one block for each task."""
        return self._written(room, tasks, super().compute)

    def declared(self, room: Room, tasks: Iterable[StageTask]) -> Blocks:
        """Return blocks without values and count the work, as `Kernel.declared` requires."""
        return self._written(room, tasks, super().declared)

    def _written(
        self, room: Room, tasks: Iterable[StageTask], blocks: Callable[[Room, Iterable[StageTask]], Blocks]
    ) -> Blocks:
        """Return the blocks of all tasks, by `blocks`, with the assigned values.

        A block of a program without instructions may be somebody else's, and is copied before.
        """
        found: Blocks = {}
        for task in tasks:
            ((at, block),) = blocks(room, [task]).items()
            if self.program.plain:
                block, region = room.empty(task.shape, self.dtype), block
                block[...] = region
            for each in room.params[self.assigned]:
                part = each.part(task.box)
                if part is not None:
                    part.write(block)
            found[at] = block
        return found


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


def unfilled(pid: int, slots: SlotsInterface, blocks: Blocks, empty: Callable[[Shape], Any]) -> Blocks:
    """Return the blocks, with an empty one for each slot of this process that no task filled.

    Slots can stay unfilled only where tasks are placed one by one.
    """
    if slots.labels and slots.layout.table is not None:
        for at in slots.mine(pid):
            if at not in blocks:
                blocks[at] = empty(slots.layout.block_shape(at))
    return blocks


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


class Product:
    """A contraction kernel: the product of factors, summed over the labels that the result lacks.

    Two factors take one matmul of stacks of matrices.  More are multiplied pair by pair, the pair with the fewest
    flops first; each product is summed over the labels that nothing else needs.
    """

    def __init__(
        self, factors: Sequence[tuple[int, ...]], out: tuple[int, ...], slots: SlotsInterface, dtype: DType,
        programs: Sequence[Program], expand: Sequence[tuple[Any, ...]], extents: Shape,
    ) -> None:  # fmt: skip
        self.factors = tuple(factors)  # labels of each factor, ascending
        self.out = out
        self.slots = slots
        self.dtype = dtype
        self.programs = tuple(programs)
        self.fallible = any(program.fallible for program in programs)
        self.expand = expand  # makes each region broadcast over the labels of its factor
        self.path = pairs(self.factors, out, extents)
        shared = {label for labels in self.factors for label in labels} - set(out)
        self.summed = sorted(shared)

    calculates = True
    adds = False  # whether the last region is the sum of earlier panels, added to in place: nothing else reads it

    def flops(self, points: np.ndarray) -> np.ndarray:
        """Return the operations for so many points of two factors: a product and a sum for each."""
        return 2 * points

    def flops_on(self, tasks: Layout) -> float:
        """Return the operations of the process with the most work."""

        def part(label: int) -> int:
            axis = tasks.axes[label]
            return int(np.bincount(np.arange(axis.parts) % axis.deal, np.diff(axis.bounds)).max(initial=0))

        if tasks.table is not None:
            return float(2 * tasks.held(int(tasks.owner.max(initial=0)) + 1).max(initial=0))
        computed = sum(
            program.operations * prod(map(part, labels))
            for program, labels in zip(self.programs, self.factors, strict=True)
        )
        return float(sum(2 * prod(map(part, {*a, *b})) for _, _, a, b, _ in self.path) + computed)

    def temporary(self, points: int, tasks: Layout) -> int:
        """Return an upper bound on the bytes of computed and reordered factors and of intermediate products."""
        longest = tuple(int(np.diff(axis.bounds).max(initial=0)) for axis in tasks.axes)

        def size(labels: Iterable[int]) -> int:
            return prod(longest[label] for label in labels) * self.dtype.itemsize

        in_pieces = self._along(longest) is not None
        total = 8192
        for program, labels in zip(self.programs, self.factors, strict=True):
            if program.code:
                total += min(size(labels), 3 * PIECE * self.dtype.itemsize) if in_pieces else size(labels)
                total += sum(dtype.itemsize for dtype in program.buffers) * PIECE
        for _, _, left, right, kept in self.path:
            total += sum(size(labels) for labels in (left, right) if len(labels) > 2) + size(kept)
        return total

    def compute(self, room: Room, tasks: Iterable[StageTask]) -> Blocks:
        """Return the blocks of the product; partial ones have a last axis of slots."""
        params = [[room.params[k] for k in program.params] for program in self.programs]
        totals: Blocks = {}
        for task in tasks:
            where = self.slots.place(task.at)
            current.task, current.piece = task, None
            if self.adds:
                *regions, totals[where] = task.regions
                task = task._replace(regions=regions)
            self._add(totals, where, self._product(room, task, params))
        return self._slotted(room, totals, lambda shape: np.zeros(shape, self.dtype))

    def declared(self, room: Room, tasks: Iterable[StageTask]) -> Blocks:
        """Return blocks without values and count the work; computed factors count as staying in the cache."""
        totals: Blocks = {}
        for task in tasks:
            where = self.slots.place(task.at)
            if self.adds:
                *regions, totals[where] = task.regions
                task = task._replace(regions=regions)
            self._add(totals, where, self._declared(room, task))
        return self._slotted(room, totals, lambda shape: room.empty(shape, self.dtype))

    def _add(self, totals: Blocks, where: Shape, new: Any) -> None:
        if where not in totals:
            totals[where] = new
        elif self.dtype.kind == "b":
            totals[where] |= new
        else:
            totals[where] += new

    def _slotted(self, room: Room, totals: Blocks, empty: Callable[[Shape], Any]) -> Blocks:
        if not self.slots.labels:
            return totals
        return unfilled(room.pid, self.slots, {where: total[..., None] for where, total in totals.items()}, empty)

    def _product(self, room: Room, task: StageTask, params: list[list[Any]]) -> Any:
        """Return a task's product.  Its regions are in the order of the factors, one or more for each."""
        shape = task.shape
        regions = [region[index] for region, index in zip(task.regions, self.expand, strict=True)]
        sides = []
        for program in self.programs:
            sides.append(regions[: program.arrays])
            regions = regions[program.arrays :]
        along = self._along(shape)
        if along is None:
            return self._multiplied(room, [
                _factor(program, side, values, tuple(shape[label] for label in labels))
                for program, side, values, labels in zip(self.programs, sides, params, self.factors, strict=True)
            ], shape)  # fmt: skip
        return self._in_pieces(room, along, sides, params, shape)

    def _along(self, shape: Shape) -> int | None:
        """Return the label along which computed factors are cut into pieces that fit the cache; None: they are not cut.

        Candidates are the summed labels if the result is small, and labels of the result that every computed factor
        has; the longest is taken.
        """
        computed = [labels for program, labels in zip(self.programs, self.factors, strict=True) if program.code]
        if not computed or len(self.factors) > 2:
            return None
        small = prod(shape[label] for label in self.out) <= PIECE
        options = [
            label
            for label in sorted({label for labels in computed for label in labels})
            if (label not in self.out and small) or (label in self.out and all(label in labels for labels in computed))
        ]
        return max(options, key=lambda label: shape[label], default=None)

    def _declared(self, room: Room, task: StageTask) -> Any:
        """Return a task's product without values, and count its work."""
        shape = task.shape
        for program, labels in zip(self.programs, self.factors, strict=True):
            if program.code:
                charge_program(program, prod(shape[label] for label in labels), [])
        out = room.empty(tuple(shape[label] for label in self.out), self.dtype)
        for _, _, left, right, _ in self.path:
            sizes = [prod(shape[label] for label in {*a} - {*b}) for a, b in ((left, right), (right, left))]
            kernel = "blas3" if min(sizes) > 1 else "blas2" if max(sizes) > 1 else "blas1"
            kernel = kernel if self.dtype.kind in "fc" else "elementwise"
            charge(kernel, 2 * prod(shape[label] for label in {*left, *right}),
                   [*task.regions, out] if kernel != "blas3" else [])  # fmt: skip
        return out

    def _in_pieces(self, room: Room, along: int, sides: list[list[Any]], params: list[list[Any]], shape: Shape) -> Any:
        """Return the product of two factors, computed for a piece of label `along` at a time.

        The products of the pieces are added up if the label is summed, else written side by side.
        """
        across = max(
            prod(shape[label] for label in labels if label != along)
            for program, labels in zip(self.programs, self.factors, strict=True)
            if program.code
        )
        step = max(1, 2 * PIECE // max(across, 1))
        total: Any = None
        if along in self.out:
            total = room.empty(tuple(shape[label] for label in self.out), self.dtype)
        for start in range(0, max(shape[along], 1), step):
            size = max(0, min(step, shape[along] - start))
            extents = tuple(size if label == along else extent for label, extent in enumerate(shape))

            def cut(labels: Labels, start: int = start, size: int = size) -> tuple[slice, ...]:
                return tuple(slice(start, start + size) if label == along else slice(None) for label in labels)

            factors = []
            for program, side, values, labels in zip(self.programs, sides, params, self.factors, strict=True):
                pieces = [part(x, cut(labels)) for x in side]
                factors.append(_factor(program, pieces, values, tuple(extents[label] for label in labels)))
            new = self._multiplied(room, factors, extents)
            if along in self.out:
                total[cut(self.out)] = new
            elif total is None:
                total = new
            elif self.dtype.kind == "b":
                total |= new
            else:
                total += new
        return total

    def _multiplied(self, room: Room, factors: list[Any], shape: Shape) -> Any:
        """Return the product of all factors, pair by pair in the order of `path`."""
        terms = list(factors)
        for i, j, left, right, kept in self.path:
            found = _pair(room, terms[i], terms[j], left, right, kept, shape)
            terms = [term for k, term in enumerate(terms) if k not in (i, j)] + [found]
        (only,) = terms
        return only if only.dtype == self.dtype else only.astype(self.dtype)


def _factor(program: Program, side: list[Any], params: list[Any], shape: Shape) -> Any:
    """Return one factor of a product: the region itself, or the result of the factor's program."""
    if program.plain:
        return filling(side[program.result] if program.result < len(side) else np.asarray(params[0]), shape)
    out = np.empty(shape, program.code[-1].dtype)
    for box in pieces_of(shape, PIECE):
        piece = out[(*box, ...)]
        program.run([part(x, box) for x in side], params, piece, program.scratch(piece.size))
    return out


Labels = tuple[int, ...]


@lru_cache(maxsize=1024)
def pairs(factors: tuple[Labels, ...], out: Labels, extents: Shape) -> list[tuple[int, int, Labels, Labels, Labels]]:
    """Return the order in which factors are multiplied, as one tuple for each product of two.

    A tuple holds the positions of the two terms, their labels, and the labels of the product.  Each product replaces
    its two terms and goes to the end of the list of terms.  Greedy: the pair with the fewest operations, then the
    smallest result, then the first in the list.
    """
    terms = list(factors)
    path = []
    while len(terms) > 1:
        options = []
        for i in range(len(terms)):
            for j in range(i + 1, len(terms)):
                both = {*terms[i], *terms[j]}
                needed = {*out}.union(*[term for k, term in enumerate(terms) if k not in (i, j)])
                kept = both & needed
                options.append(
                    (prod(extents[x] for x in both), prod(extents[x] for x in kept), i, j, tuple(sorted(kept)))
                )
        _, _, i, j, kept_labels = min(options)
        if len(terms) == 2:
            kept_labels = out
        path.append((i, j, terms[i], terms[j], kept_labels))
        terms = [term for k, term in enumerate(terms) if k not in (i, j)] + [kept_labels]
    return path


@lru_cache(maxsize=1024)
def _groups(left: Labels, right: Labels, out: Labels) -> tuple[list[int], list[int], list[int], list[int]]:
    """Return the labels of a pair in four groups: stack, row, column and summed labels."""
    both = [label for label in left if label in right]
    return (
        [label for label in both if label in out], [label for label in left if label not in right],
        [label for label in right if label not in left], [label for label in both if label not in out],
    )  # fmt: skip


def _pair(room: Room, a: Any, b: Any, left: Labels, right: Labels, out: Labels, shape: Shape) -> Any:
    """Return the product of two terms by one matmul of stacks of matrices."""
    batch, rows, columns, summed = _groups(left, right, out)
    if len(summed) > 1:  # their order is free: of one operand's memory, so that it need not be copied

        def copied(order: list[int]) -> int:
            return _copied(a, left, (batch, rows, order)) + _copied(b, right, (batch, order, columns))

        summed = min(summed, _as_stored(a, left, summed), _as_stored(b, right, summed), key=copied)
    first, second = (
        _arranged(a, left, (batch, rows, summed), shape),
        _arranged(b, right, (batch, summed, columns), shape),
    )
    lengths = (*first.shape[:-1], second.shape[-1])
    found = np.matmul(first, second, out=room.empty(lengths, np.result_type(first, second)))
    order = [*batch, *rows, *columns]
    found = found.reshape([shape[label] for label in order])
    return found if order == list(out) else found.transpose([order.index(label) for label in out])


def _as_stored(array: Any, labels: Labels, group: list[int]) -> list[int]:
    """Return a group of labels in the order in which their axes lie in memory."""
    return sorted(group, key=lambda label: -abs(array.strides[labels.index(label)]))


def _copied(array: Any, labels: Labels, groups: tuple[list[int], ...]) -> int:
    """Return how many elements `_arranged` copies: none if the axes of each group lie in memory as one axis."""
    for group in groups:
        axes = [labels.index(label) for label in group if array.shape[labels.index(label)] != 1]
        for outer, inner in pairwise(axes):
            if array.strides[outer] != array.strides[inner] * array.shape[inner]:
                return int(array.size)
    return 0


def _arranged(array: Any, labels: Labels, groups: tuple[list[int], ...], shape: Shape) -> Any:
    """Return a term as a stack of matrices for matmul: one axis for each group of labels, none for an empty stack."""
    order = [labels.index(label) for group in groups for label in group]
    if order != list(range(len(labels))):
        array = array.transpose(order)
    lengths = [prod(shape[label] for label in group) for group in groups]
    if not groups[0]:
        lengths = lengths[1:]
    return array if array.shape == tuple(lengths) else array.reshape(lengths)
