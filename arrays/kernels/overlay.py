"""The kernel that writes arrays over each other into one: concatenate, roll, assignment to a slice.

What is computed for a place is computed there.  What a later argument overwrites is not copied first.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from math import prod
from typing import Any, NamedTuple

import numpy as np

from bsp.arrays.expressions.graph import Blocks, DType, Placement
from bsp.arrays.expressions.layout import Layout
from bsp.arrays.kernels.kernels import Room, StageTask, charge_program
from bsp.arrays.kernels.programs import PIECE, Program, part, run_in_pieces
from bsp.arrays.kernels.shared_errors import current

Fill = Callable[[Program, Sequence[Any], Any], None]
Where = tuple[slice, ...]

_FEW = 16  # places of layers that are compared one by one


class Layer(NamedTuple):
    """One argument of an overlay.

    program : computes it from its regions.
    expand : makes each region broadcast over all axes.
    placement : its place in the result.
    layout : its cuts, which follow from those of the result.
    """

    program: Program
    expand: Sequence[tuple[Any, ...]]
    placement: Placement
    layout: Layout


class Overlay:
    """A kernel that computes layers into one block, later ones on top."""

    def __init__(self, layers: Sequence[Layer], dtype: DType) -> None:
        self.layers = layers
        self.dtype = dtype
        self.programs = [layer.program for layer in layers]
        self.calculates = any(not program.plain for program in self.programs)
        self.fallible = any(program.fallible for program in self.programs)

    def flops(self, points: np.ndarray) -> np.ndarray:
        """Return the operations for so many points of the result: those of the layers, on average."""
        whole = max(1, sum(prod(layer.layout.shape) for layer in self.layers))
        operations = sum(prod(layer.layout.shape) * layer.program.operations for layer in self.layers)
        return points * (operations / whole)

    def temporary(self, points: int, tasks: Layout) -> int:
        """Return an upper bound on the bytes used besides regions and results."""
        return 4096 + max(
            (sum(dtype.itemsize for dtype in program.buffers) for program in self.programs), default=0
        ) * min(points, PIECE)  # fmt: skip

    def spares(self, operand: int) -> bool:
        """Return whether the result may be written over this operand: the one layer below all others."""
        first = self.layers[0]
        return operand == 0 and first.program.plain and len(first.expand) == 1

    def compute(self, room: Room, tasks: Iterable[StageTask]) -> Blocks:
        """Return one block for each task."""

        def fill(program: Program, arrays: Sequence[Any], out: Any) -> None:
            run_in_pieces(program, arrays, [room.params[k] for k in program.params], out)

        return {task.at: self._block(room, task, fill) for task in tasks}

    def declared(self, room: Room, tasks: Iterable[StageTask]) -> Blocks:
        """Return blocks without values and count the work, as `Kernel.declared` requires."""

        def fill(program: Program, arrays: Sequence[Any], out: Any) -> None:
            charge_program(program, out.size, [*arrays, out])

        return {task.at: self._block(room, task, fill) for task in tasks}

    def _block(self, room: Room, task: StageTask, fill: Fill) -> Any:
        """Return a task's block.  One layer that is all of it, and is only read, is not copied."""
        regions = iter(task.regions)
        present: list[tuple[Layer, Where, list[Any]]] = []
        for layer in self.layers:
            arrays = [next(regions)[index] for index in layer.expand]
            if prod(layer.layout.block_shape(task.at)):
                present.append((layer, self._where(layer, task), arrays))
        if len(present) == 1:
            ((layer, _, arrays),) = present
            if layer.program.plain and arrays[layer.program.result].shape == task.shape:
                return arrays[layer.program.result]
        block = room.spare.pop(task.at, None)
        over = block is not None and _stays(block, present)
        if over:
            del present[0]
        else:
            block = room.empty(task.shape, self.dtype)
        hiding = _hiding([where for _, where, _ in present])
        for k, (layer, where, arrays) in enumerate(present):
            program = layer.program
            if not program.plain:
                current.task, current.piece = task._replace(box=layer.layout.box(task.at)), None
                target = block[(*where, ...)]
                overlaps = over and any(np.may_share_memory(array, target) for array in arrays)
                out = room.empty(target.shape, self.dtype) if overlaps else target
                fill(program, arrays, out)
                if overlaps:
                    target[...] = out
                continue
            values = arrays[program.result]
            for place, inside in _uncovered(where, [present[later][1] for later in hiding(k)]):
                block[place] = part(values, inside)
        return block

    @staticmethod
    def _where(layer: Layer, task: StageTask) -> Where:
        """Return the place of a layer in a task's block."""
        where = []
        for (start, _), axis, k, first, step in zip(
            task.box, layer.layout.axes, task.at, layer.placement.starts, layer.placement.steps, strict=True
        ):
            low = first + step * int(axis.bounds[k]) - start
            count = int(axis.bounds[k + 1] - axis.bounds[k])
            where.append(slice(low, low + step * (count - 1) + 1, step))
        return tuple(where)


def _stays(block: Any, present: Sequence[tuple[Layer, Where, list[Any]]]) -> bool:
    """Return whether the lowest layer is this block as it is, and no layer reads of it what another has written."""
    lowest = present[0][2][0]
    same = lowest.shape == block.shape and lowest.strides == block.strides and lowest.ctypes.data == block.ctypes.data
    return same and not any(np.may_share_memory(array, block) for _, _, arrays in present[2:] for array in arrays)


def _hiding(places: Sequence[Where]) -> Callable[[int], Iterable[int]]:
    """Return a function that gives, for a place, the later ones that may share elements with it.

    Of hundreds of places, as those of the numbers of a list, to compare all pairs one by one would take seconds.
    """
    count = len(places)
    if count <= _FEW:
        return lambda k: range(k + 1, count)
    low, high = (np.array([[getattr(at, end) for at in place] for place in places]) for end in ("start", "stop"))
    return lambda k: k + 1 + np.flatnonzero(((low[k + 1 :] < high[k]) & (low[k] < high[k + 1 :])).all(axis=1))


def _uncovered(where: Where, later: Sequence[Where]) -> Iterator[tuple[Where, Where]]:
    """Yield boxes that cover a layer's place but for what one later layer hides: as places in the block, in the layer.

    Of several later layers the one that hides most is taken.  Only layers without steps hide anything.
    """

    def hidden(over: Where) -> list[range]:
        return [range(max(a.start, b.start), min(a.stop, b.stop)) for a, b in zip(where, over, strict=True)]

    solid = [over for over in later if all(at.step == 1 for at in (*where, *over))]
    most = max(map(hidden, solid), key=lambda each: prod(map(len, each)), default=[])
    if not prod(map(len, most)) or not solid:
        yield where, (slice(None),) * len(where)
        return
    rest = list(where)
    for axis, over in enumerate(most):
        for side in (slice(where[axis].start, over.start), slice(over.stop, where[axis].stop)):
            if side.start < side.stop:
                place = (*rest[:axis], side, *rest[axis + 1 :])
                yield place, tuple(
                    slice(a.start - b.start, a.stop - b.start) for a, b in zip(place, where, strict=True)
                )  # fmt: skip
        rest[axis] = slice(over.start, over.stop)
