"""Stages that are no joins: assembling, reshaping and rechunking arrays, functions of whole lines, and scans."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import partial
from math import prod
from typing import Any

import numpy as np

from bsp.arrays.expressions import layout as layouts
from bsp.arrays.expressions.graph import (
    Access,
    Along,
    Assemble,
    Blocks,
    DType,
    Node,
    OfLines,
    Placement,
    Relayout,
    Reshape,
    Scan,
    ViewOperation,
)
from bsp.arrays.expressions.layout import Axis, Layout, Shape, automatic, dealt, layout_of, replicated
from bsp.arrays.kernels.aggregates import typed
from bsp.arrays.kernels.folds import Fold
from bsp.arrays.kernels.kernels import Room, StageTask, filling
from bsp.arrays.kernels.overlay import Layer, Overlay
from bsp.arrays.kernels.programs import Program
from bsp.arrays.kernels.shared_errors import current
from bsp.arrays.planning.fusing import identity, through
from bsp.arrays.planning.planner import Planner
from bsp.arrays.planning.slots import Slots
from bsp.arrays.planning.stages import Ref, Spec, Value, expansion


def expand(planner: Planner, i: int, node: Node) -> Value:
    """Create the stages of a node of one of these operations; return its value."""
    op = node.op
    if isinstance(op, Assemble):
        return _assemble(planner, i, node, op)
    if isinstance(op, Reshape):
        return _reshape(planner, i, node, op)
    if isinstance(op, Along):
        return _along(planner, i, node, op)
    if isinstance(op, Scan):
        return _scan(planner, i, node, op)
    assert isinstance(op, Relayout)
    value = planner.copied(read(planner, node.args[0]), planner.merged(op.layout), "rechunk", planner.text(i))
    value.asked = None if op.layout is value.layout else op.layout
    return value


def read(planner: Planner, node: Node) -> Ref:
    """Return a reference to a node's value; fused views become its access."""
    view = identity(len(node.kind.shape))
    while isinstance(node.op, ViewOperation) and planner.fusion.is_inline(node):
        view = through(view, node.op.access)
        (node,) = node.args
    return Ref(planner.root(planner.graph.positions[node]), view)


# ------------------------------------------------------------------------------- assemble


def _induced(tasks: Layout, shape: Shape, placement: Placement) -> Layout:
    """Return the layout of an argument that follows from the cuts of the result."""
    axes = []
    for axis, length, start, step in zip(tasks.axes, shape, placement.starts, placement.steps, strict=True):
        cuts = np.clip(-((start - axis.bounds) // step), 0, length)
        cuts[0], cuts[-1] = 0, length
        if start == 0 and step == 1 and length == axis.length:
            axes.append(axis)
        else:
            axes.append(Axis(length, axis.parts, axis.deal, axis.stride, tuple(int(cut) for cut in cuts)))
    return layout_of(tuple(axes), tasks.replicated)


def _assemble(planner: Planner, i: int, node: Node, op: Assemble) -> Value:
    """Return the value of an assembly; in an assignment, where the first argument has its shape, with that layout."""
    operands = [planner.fusion.operand(arg, identity(len(arg.kind.shape)), planner.root) for arg in node.args]
    refs = tuple(ref for operand in operands for ref in operand.refs)
    layer_of = [k for k, operand in enumerate(operands) for _ in operand.refs]
    shape = node.kind.shape
    shapes = [arg.kind.shape for arg in node.args]
    candidates: list[Layout] = []
    if all(ref.value.layout.replicated for ref in refs):
        candidates = [replicated(shape) if prod(shape) <= layouts.REPLICATED_SIZE else automatic(shape, planner.nprocs)]
    elif shapes[0] == shape and (base := next(filter(_lies, operands[0].refs), None)) is not None:
        like = planner.placer.like(base, shape)  # an assignment: the array keeps its layout
        candidates = [like if like is not None else automatic(shape, planner.nprocs, False)]
    else:
        for ref in sorted(refs, key=lambda ref: -prod(ref.value.shape)):
            source = ref.value.layout
            if not source.replicated and [each.label for each in ref.access] == list(range(len(shape))):
                candidates.append(dealt(shape, source.grid, source.process_grid))
                break
        candidates.append(automatic(shape, planner.nprocs, False))

    def induced(tasks: Layout) -> list[Layout]:
        return [_induced(tasks, size, each) for size, each in zip(shapes, op.placements, strict=True)]

    def price(tasks: Layout) -> float:
        own = induced(tasks)
        fullest = float(tasks.held(planner.nprocs).max(initial=0))
        return fullest + sum(
            planner.placer.fetch_price(planner.placer.fetch(ref, own[k])) for ref, k in zip(refs, layer_of, strict=True)
        )

    tasks = min(candidates, key=price)
    labels = tuple(range(len(shape)))
    spec = Spec(shape, refs, labels, (), 1.0, node.kind.dtype.itemsize)
    own = induced(tasks)
    layers = [
        Layer(operand.program, [expansion(ref, labels) for ref in operand.refs], placement, layout)
        for operand, placement, layout in zip(operands, op.placements, own, strict=True)
    ]
    kernel = Overlay(layers, node.kind.dtype)
    value = planner.stage(
        spec, tasks, kernel, tasks, node.kind.dtype, planner.text(i), "assemble", [own[k] for k in layer_of]
    )  # fmt: skip
    planner.keep_grid(value, refs)
    return value


def _lies(ref: Ref) -> bool:
    """Return whether a reference's value is dealt on a process grid."""
    return ref.value.layout.table is None and not ref.value.layout.replicated


# -------------------------------------------------------------------------------- reshape


class Relabel:
    """A kernel that gives blocks another shape; each is a contiguous range of elements, in the order of the blocks."""

    calculates = fallible = False

    def __init__(self, tasks: Layout, layout: Layout, expand: tuple[Any, ...]) -> None:
        self.layout = layout
        self.expand = expand
        self._from = tasks.grid

    def flops(self, points: np.ndarray) -> np.ndarray:
        """Return no operations."""
        return points * 0

    def temporary(self, points: int, tasks: Layout) -> int:
        """Return a constant: where a region has to be copied to be reshaped, the copy is the result."""
        return 4096

    def compute(self, room: Room, tasks: Iterable[StageTask]) -> Blocks:
        """Return one block for each task: the block of the same rank in C order."""
        found: Blocks = {}
        grid = [axis.parts for axis in self.layout.axes]
        for task in tasks:
            rank = int(np.ravel_multi_index(task.at, self._from)) if self._from else 0
            at = tuple(int(k) for k in np.unravel_index(rank, grid)) if grid else ()
            region = filling(task.regions[0][self.expand], task.shape)
            found[at] = region.reshape(self.layout.block_shape(at))
        return found

    declared = compute  # it reads no values


def contiguous(shape: Shape, nprocs: int) -> Layout:
    """Return a layout whose blocks are ranges of elements in C order, at most one for each process.

    Leading axes are cut into single positions until there are enough blocks.
    """
    grid, left = [1] * len(shape), nprocs
    for axis, length in enumerate(shape):
        if length >= left or axis == len(shape) - 1:
            grid[axis] = max(1, min(left, length))
            break
        grid[axis] = max(1, length)
        left = max(1, left // max(1, length))
    return dealt(shape, grid, grid)


def _ranges(layout: Layout) -> Layout:
    """Return the layout of the flattened array whose parts are the blocks of a contiguous layout."""
    sizes = layout.sizes.reshape(-1)
    cuts = tuple(int(cut) for cut in np.concatenate([[0], np.cumsum(sizes)]))
    even = Axis(cuts[-1], len(sizes))
    same = np.array_equal(even.bounds, cuts)
    return layout_of((Axis(cuts[-1], len(sizes), len(sizes), 1 if len(sizes) > 1 else 0, None if same else cuts),))


def is_contiguous(layout: Layout) -> bool:
    """Return whether each block is a range of elements in C order and belongs to the process of its rank."""
    if layout.table is not None or layout.replicated:
        return False
    whole = True  # all earlier axes are cut into single positions
    for axis in layout.axes:
        if axis.parts > 1 and not whole:
            return False
        whole = whole and axis.parts == axis.length
    owner = layout.owner.reshape(-1)
    return np.array_equal(owner, np.arange(owner.size))


def _relabelled(planner: Planner, ref: Ref, tasks: Layout, layout: Layout, text: str) -> Value:
    shape = tuple(axis.length for axis in tasks.axes)
    spec = Spec(shape, (ref,), tuple(range(len(shape))), (), 0.0, ref.value.dtype.itemsize)
    kernel = Relabel(tasks, layout, expansion(ref, range(len(shape))))
    return planner.stage(spec, tasks, kernel, layout, ref.value.dtype, text, "reshape")


def _reshape(planner: Planner, i: int, node: Node, op: Reshape) -> Value:
    """Return the value of a reshape, in up to three steps.

    The source is brought into contiguous blocks, which become ranges of one flat axis; the ranges are cut anew if the
    new shape does not allow these; then they are given the new shape.
    """
    (arg,) = node.args
    ref = read(planner, arg)
    text = planner.text(i)
    source_shape, shape = arg.kind.shape, node.kind.shape
    if ref.value.layout.replicated and prod(shape) <= layouts.REPLICATED_SIZE:
        return _relabelled(planner, ref, replicated(source_shape), replicated(shape), text)
    like = planner.placer.like(ref, source_shape)
    here = like if like is not None and is_contiguous(like) else contiguous(source_shape, planner.nprocs)
    line = _relabelled(planner, ref, here, _ranges(here), text)
    there = _fitting(line.layout, shape)
    if there is None:
        there = contiguous(shape, planner.nprocs)
        line = planner.copied(Ref(line, identity(1)), _ranges(there), "reshape", text)
    return _relabelled(planner, Ref(line, identity(1)), line.layout, there, text)


def _fitting(line: Layout, shape: Shape) -> Layout | None:
    """Return a layout of `shape`, cut along its first axis, whose blocks are these ranges; None if there is none."""
    (axis,) = line.axes
    if not shape or not prod(shape):
        return None
    inner = prod(shape[1:])
    if any(int(cut) % inner for cut in axis.bounds):
        return None
    cuts = tuple(int(cut) // inner for cut in axis.bounds)
    even = np.array_equal(Axis(shape[0], axis.parts).bounds, cuts)
    first = Axis(shape[0], axis.parts, axis.deal, axis.stride, None if even else cuts)
    return layout_of((first, *[Axis(length) for length in shape[1:]]))


# ---------------------------------------------------------------------------------- along


class LinesKernel:
    """A kernel that applies a function to stacks of lines, planes, ..."""

    calculates = True

    def __init__(
        self, how: OfLines, free: int, out_core: Shape, dtype: DType, expand: Sequence[Any],
        labels: Sequence[tuple[int, ...]],
    ) -> None:  # fmt: skip
        self.how = how
        self.fallible = how.fallible
        self.shared = not free and getattr(how, "pure", False)  # every process has the whole line
        self.expand = expand  # makes each region broadcast over the labels of its argument
        self.labels = labels  # labels of each argument
        self.free = free
        self.out_core = out_core
        self.dtype = dtype

    def flops(self, points: np.ndarray) -> np.ndarray:
        """Return the operations for so many points, by the function's own count."""
        return np.asarray(points * self.how.work)

    def temporary(self, points: int, tasks: Layout) -> int:
        """Return an estimate of the bytes of temporaries: three times those of the operands."""
        return points * 8 * 3 + 4096

    def compute(self, room: Room, tasks: Iterable[StageTask]) -> Blocks:
        """Return one block for each task."""
        found: Blocks = {}
        for task in tasks:
            where, shape = self._out(task)
            if not prod(shape) and not prod(task.shape[: self.free]):
                found[where] = room.empty(shape, self.dtype)
                continue
            regions = [
                filling(region[index], tuple(task.shape[label] for label in labels))
                for region, index, labels in zip(task.regions, self.expand, self.labels, strict=True)
            ]
            current.task, current.piece = task, None
            call = partial(self.how.call, *regions)
            result = np.asarray(room.once(self.how.name, call, regions) if self.shared else call())
            found[where] = result.astype(self.dtype, copy=False).reshape(shape)
        return found

    def declared(self, room: Room, tasks: Iterable[StageTask]) -> Blocks:
        """Return blocks without values and count the work, as `Kernel.declared` requires."""
        found: Blocks = {}
        for task in tasks:
            where, shape = self._out(task)
            found[where] = room.empty(shape, self.dtype)
            for region in task.regions:  # NumPy's functions of lines work on a copy in the result's dtype
                room.empty(region.shape, self.dtype)
        return found

    def _out(self, task: StageTask) -> tuple[Shape, Shape]:
        """Return the coordinates and the shape of a task's block."""
        return task.at[: self.free] + (0,) * len(self.out_core), task.shape[: self.free] + self.out_core


def _along(planner: Planner, i: int, node: Node, op: Along) -> Value:
    """Return the value of a function of lines.

    The labels are the free axes, shared by all arguments, followed by the core axes of each argument, which are never
    split.  Without free axes every process computes the whole result.
    """
    free = len(node.kind.shape) - len(op.out_core)
    outer = node.kind.shape[:free]
    refs, labels, own = [], list(outer), []
    for arg, core in zip(node.args, op.cores, strict=True):
        ref = read(planner, arg)
        new = list(range(len(labels), len(labels) + core))
        labels += arg.kind.shape[len(arg.kind.shape) - core :]
        own.append((*range(free), *new))
        at = {**{axis: axis for axis in range(free)}, **{free + k: label for k, label in enumerate(new)}}
        refs.append(Ref(ref.value, tuple(
            Access(at[label] if label >= 0 else -1, start, step) for label, start, step in ref.access
        )))  # fmt: skip
    extents = tuple(labels)
    rest = tuple(Axis(length) for length in extents[free:])
    known = all(ref.value.layout.replicated for ref in refs)
    if (known and prod(node.kind.shape) <= layouts.REPLICATED_SIZE) or not free:
        tasks = replicated(extents)
    else:
        options = []
        for ref in refs:
            like = None if ref.value.layout.replicated else planner.placer.like(ref, extents)
            if like is not None and like.table is None:
                options.append(layout_of(like.axes[:free] + rest))
        options.append(layout_of(automatic(outer, planner.nprocs, False).axes + rest))
        spec = Spec(extents, tuple(refs), tuple(range(free)), (), float(op.how.work), 8)
        tasks = min(options, key=lambda option: planner.placer.price(spec, option))
    out_axes = tasks.axes[:free] + tuple(Axis(length) for length in op.out_core)
    layout = replicated(node.kind.shape) if tasks.replicated else layout_of(out_axes)
    spec = Spec(extents, tuple(refs), tuple(range(free)), (), float(op.how.work), node.kind.dtype.itemsize)
    expand = [expansion(ref, mine) for ref, mine in zip(refs, own, strict=True)]
    kernel = LinesKernel(op.how, free, op.out_core, node.kind.dtype, expand, own)
    return planner.stage(spec, tasks, kernel, layout, node.kind.dtype, planner.text(i), "along" if free else "to all")


# ----------------------------------------------------------------------------------- scan


class Prefix:
    """A kernel for cumulative results along one label, on top of the totals of the earlier parts."""

    calculates = True
    fallible = False

    def __init__(
        self, ufunc: np.ufunc, axis: int, dtype: DType, expand: tuple[Any, ...], filled: np.ndarray | None = None
    ) -> None:
        self.ufunc = ufunc
        self.expand = expand
        self.axis = axis
        self.dtype = dtype
        self.filled = filled  # by part of a split axis: it has elements, and so a total; None: not split

    def flops(self, points: np.ndarray) -> np.ndarray:
        """Return two operations for each point."""
        return 2 * points

    def temporary(self, points: int, tasks: Layout) -> int:
        """Return an upper bound on the bytes used besides regions and results."""
        return 4096

    def compute(self, room: Room, tasks: Iterable[StageTask]) -> Blocks:
        """Return one block for each task; tasks come in the order of the parts along the axis."""
        found: Blocks = {}
        before: dict[Shape, Any] = {}
        current.name = "accumulate"
        for task in tasks:
            values = task.regions[0][self.expand]
            values = filling(values, task.shape[: values.ndim])
            out = self.ufunc.accumulate(values, axis=self.axis, dtype=typed(self.dtype))
            others = tuple(k for axis, k in enumerate(task.at) if axis != self.axis)
            if self.filled is not None:
                earlier = np.flatnonzero(self.filled[: task.at[self.axis]])
                if earlier.size:
                    totals = np.take(task.regions[1], earlier, self.axis)
                    total = self.ufunc.reduce(totals, axis=self.axis, keepdims=True, dtype=typed(self.dtype))
                    self.ufunc(total, out, out=out)
            elif others in before:
                self.ufunc(before[others], out, out=out)
            if self.filled is None and out.shape[self.axis]:
                before[others] = np.take(out, [-1], self.axis)
            found[task.at[: values.ndim]] = out
        return found

    def declared(self, room: Room, tasks: Iterable[StageTask]) -> Blocks:
        """Return blocks without values and count the work, as `Kernel.declared` requires."""
        found: Blocks = {}
        for task in tasks:
            values = task.regions[0][self.expand]
            out = found[task.at[: values.ndim]] = room.empty(task.shape[: values.ndim], self.dtype)
            self.ufunc(out, out)
        return found


def _scan(planner: Planner, i: int, node: Node, op: Scan) -> Value:
    """Return the value of a scan.

    One stage if the scanned axis is not split.  Else a first stage reduces each part, and a second one, which receives
    the totals of all parts, scans its own part on top of the earlier totals.
    """
    ref = read(planner, node.args[0])
    shape, dtype, axis = node.kind.shape, node.kind.dtype, op.axis
    text = planner.text(i)
    like = replicated(shape) if ref.value.layout.replicated else planner.placer.like(ref, shape)
    tasks = like if like is not None and like.table is None else automatic(shape, planner.nprocs)
    at = tasks.axes[axis] if not tasks.replicated else Axis(shape[axis])
    labels = tuple(range(len(shape)))
    if at.deal == 1:
        spec = Spec(shape, (ref,), labels, (), 2.0, dtype.itemsize)
        kernel = Prefix(op.ufunc, axis, dtype, expansion(ref, labels))
        return planner.stage(spec, tasks, kernel, tasks, dtype, text, "scan")
    if at.parts != at.deal:  # parts dealt in turn: use one part for each process instead
        at = Axis(shape[axis], at.deal, at.deal, at.stride)
        tasks = layout_of((*tasks.axes[:axis], at, *tasks.axes[axis + 1 :]))
    out = tuple(label for label in labels if label != axis)
    partial = op.how.partial(dtype)
    slots = Slots(tasks, out, (axis,))
    fold = Fold(Program(1, (), (), 0), dtype, [expansion(ref, labels)], op.how, (axis,), tasks, slots, None)
    spec = Spec(shape, (ref,), out, (axis,), 1.0, partial.itemsize)
    totals = planner.stage(spec, tasks, fold, slots.layout, partial, f"partial {text}", "partial reduce")
    whole = len(shape)  # one more label: the totals of all parts
    access = (*[Access(label) for label in out], Access(whole))
    moved = Ref(totals, access)
    extents = (*shape, at.deal)
    both = layout_of((*tasks.axes, Axis(at.deal)))
    spec = Spec(extents, (ref, moved), labels, (axis,), 2.0, dtype.itemsize)
    of_parts = _PrefixOfParts(op.ufunc, axis, dtype, expansion(ref, labels), np.diff(at.bounds) > 0)
    return planner.stage(spec, both, of_parts, tasks, dtype, text, "scan")


class _PrefixOfParts(Prefix):
    """A `Prefix` kernel whose totals have the parts of the axis as their last axis."""

    def compute(self, room: Room, tasks: Iterable[StageTask]) -> Blocks:
        """Return one block for each task, after moving the totals' last axis to the position of the scanned one."""

        def moved() -> Iterable[StageTask]:
            for task in tasks:
                yield StageTask(task.at, task.box, [task.regions[0], np.moveaxis(task.regions[1], -1, self.axis)])

        return super().compute(room, moved())
