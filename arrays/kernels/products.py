"""The kernel of contractions, `Product`: sums of products over labels, by matrix products of two operands at a time."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache
from itertools import pairwise
from math import prod
from typing import Any, NamedTuple

import numpy as np

from bsp.arrays.expressions.graph import Blocks, DType
from bsp.arrays.expressions.layout import Layout, Shape
from bsp.arrays.kernels.kernels import Room, SlotsInterface, StageTask, charge, charge_program, filling, unfilled
from bsp.arrays.kernels.programs import PIECE, Program, part, pieces_of
from bsp.arrays.kernels.shared_errors import current

Labels = tuple[int, ...]


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
        self.given = not any(program.code for program in programs)  # no factor is computed
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
        if self.given or len(self.factors) > 2:
            return None
        computed = [labels for program, labels in zip(self.programs, self.factors, strict=True) if program.code]
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
def _groups(left: Labels, right: Labels, out: Labels) -> tuple[Labels, Labels, Labels, Labels]:
    """Return the labels of a pair in four groups: stack, row, column and summed labels."""
    both = [label for label in left if label in right]
    return (
        tuple(label for label in both if label in out), tuple(label for label in left if label not in right),
        tuple(label for label in right if label not in left), tuple(label for label in both if label not in out),
    )  # fmt: skip


def _pair(room: Room, a: Any, b: Any, left: Labels, right: Labels, out: Labels, shape: Shape) -> Any:
    """Return the product of two terms by one matmul of stacks of matrices."""
    batch, rows, columns, summed = _groups(left, right, out)
    if len(summed) > 1:  # their order is free: of one operand's memory, so that it need not be copied

        def copied(order: Labels) -> int:
            return _copied(a, left, (batch, rows, order)) + _copied(b, right, (batch, order, columns))

        summed = min(summed, _as_stored(a, left, summed), _as_stored(b, right, summed), key=copied)
    first, second = (
        _arranged(a, _stacked(left, (batch, rows, summed), shape)),
        _arranged(b, _stacked(right, (batch, summed, columns), shape)),
    )
    lengths = (*first.shape[:-1], second.shape[-1])
    dtype = first.dtype if first.dtype is second.dtype else np.result_type(first, second)
    found = np.matmul(first, second, out=room.empty(lengths, dtype))
    extents, order = _unstacked(batch + rows + columns, out, shape)
    if found.shape != extents:
        found = found.reshape(extents)
    return found if order is None else found.transpose(order)


def _as_stored(array: Any, labels: Labels, group: Labels) -> Labels:
    """Return a group of labels in the order in which their axes lie in memory."""
    return tuple(sorted(group, key=lambda label: -abs(array.strides[labels.index(label)])))


def _copied(array: Any, labels: Labels, groups: tuple[Labels, ...]) -> int:
    """Return how many elements `_arranged` copies: none if the axes of each group lie in memory as one axis."""
    for group in groups:
        axes = [labels.index(label) for label in group if array.shape[labels.index(label)] != 1]
        for outer, inner in pairwise(axes):
            if array.strides[outer] != array.strides[inner] * array.shape[inner]:
                return int(array.size)
    return 0


class Arrangement(NamedTuple):
    """How an array becomes another: the lengths of its axes, and their order; None: it is right."""

    lengths: Shape
    order: tuple[int, ...] | None


@lru_cache(maxsize=1024)
def _stacked(labels: Labels, groups: tuple[Labels, ...], shape: Shape) -> Arrangement:
    """Return how a term becomes a stack of matrices: one axis for each group of labels, none for an empty stack."""
    order = tuple(labels.index(label) for group in groups for label in group)
    lengths = tuple(prod(shape[label] for label in group) for group in groups)
    return Arrangement(lengths if groups[0] else lengths[1:], None if order == tuple(range(len(labels))) else order)


@lru_cache(maxsize=1024)
def _unstacked(found: Labels, out: Labels, shape: Shape) -> Arrangement:
    """Return how the product of stacks, with the labels `found`, becomes that of the terms."""
    order = tuple(found.index(label) for label in out)
    return Arrangement(tuple(shape[label] for label in found), None if found == out else order)


def _arranged(array: Any, how: Arrangement) -> Any:
    """Return a term as a stack of matrices for matmul."""
    if how.order is not None:
        array = array.transpose(how.order)
    return array if array.shape == how.lengths else array.reshape(how.lengths)
