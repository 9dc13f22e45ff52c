"""Chains of elementwise operations, evaluated piece by piece.

A program is straight-line code over registers: first the arrays, then the parameters, then one register for each
instruction.  It runs over pieces so small that all intermediate results stay in the cache.  Each array is therefore
read from memory, and the result written to it, once, whatever the length of the chain.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import prod
from typing import Any, NamedTuple

import numpy as np

from bsp.arrays.expressions.graph import DType
from bsp.arrays.kernels.elementwise import Elementwise
from bsp.arrays.kernels.shared_errors import AFTER, current, first_failing

PIECE = 1 << 15  # elements
Slices = tuple[Any, ...]


class Instruction(NamedTuple):
    """One line of a program: apply `op` to the registers `args`, with a result of `dtype`."""

    op: Elementwise
    args: tuple[int, ...]
    dtype: DType


class Program:
    """Straight-line code over `arrays` array registers, then those of `params`, then one for each instruction.

    result : the number of the register that holds the result.
    operations : for an element; an exponential or the like counts as many as it has flops.
    """

    def __init__(self, arrays: int, params: tuple[int, ...], code: tuple[Instruction, ...], result: int) -> None:
        self.arrays = arrays
        self.params = params  # positions among the graph's parameters
        self.code = code
        self.result = result
        self.first = arrays + len(params)
        self.buffers, self.slots = self._allocate()
        self._lent = self._in_result()
        self.functions = sum(step.op.weight for step in code if step.op.function)  # their flops for an element
        self.operations = self.functions + sum(not step.op.function for step in code)
        self.fallible = any(step.op.name.startswith("power") and step.dtype.kind == "i" for step in code)

    @property
    def plain(self) -> bool:
        """True if the program has no instructions: its result is one of its inputs."""
        return not self.code

    def spares(self, array: int) -> bool:
        """Return whether the result may be written over this array, element by element."""
        if not self.code or self.result != self.first + len(self.code) - 1:
            return False
        last = self.code[-1]
        return isinstance(last.op.call, np.ufunc) or array not in last.args

    def _allocate(self) -> tuple[list[DType], list[int]]:
        """Return the dtypes of the buffers and each instruction's buffer; -1 for the result, which goes into `out`.

        Instructions share a buffer if their values are never needed at the same time.
        """
        last = {}
        for k, step in enumerate(self.code):
            for arg in step.args:
                last[arg] = k
        buffers: list[DType] = []
        free: dict[DType, list[int]] = {}
        slot: list[int] = []
        for k, step in enumerate(self.code):
            ended = [arg for arg in dict.fromkeys(step.args) if arg >= self.first and last[arg] == k]
            overlaps = isinstance(step.op.call, np.ufunc)  # a ufunc may write into one of its inputs
            if overlaps:
                self._give_back(ended, slot, free)
            if self.first + k == self.result:
                slot.append(-1)
            elif free.get(step.dtype):
                slot.append(free[step.dtype].pop())
            else:
                slot.append(len(buffers))
                buffers.append(step.dtype)
            if not overlaps:
                self._give_back(ended, slot, free)
        return buffers, slot

    def _give_back(self, ended: list[int], slot: list[int], free: dict[DType, list[int]]) -> None:
        for arg in ended:
            free.setdefault(self.code[arg - self.first].dtype, []).append(slot[arg - self.first])

    def _in_result(self) -> int:
        """Return the first buffer whose values may lie in the place of the result, which saves cache; -1: none."""
        if not self.code or self.result != self.first + len(self.code) - 1:
            return -1
        last = self.code[-1]
        read = [self.slots[arg - self.first] for arg in last.args if arg >= self.first]
        for slot, dtype in enumerate(self.buffers):
            if dtype == last.dtype and (isinstance(last.op.call, np.ufunc) or slot not in read):
                return slot
        return -1

    def scratch(self, shape: int | tuple[int, ...]) -> list[np.ndarray]:
        """Return buffers for pieces of this shape, or of at most so many elements."""
        return [np.empty(shape, dtype) for dtype in self.buffers]

    def run(
        self, arrays: Sequence[np.ndarray], params: Sequence[Any], out: np.ndarray, scratch: Sequence[np.ndarray],
        over: bool = False,
    ) -> None:  # fmt: skip
        """Fill `out` with the result for arrays that broadcast to it; `scratch` has at least its size.

        over : whether `out` may be one of the arrays, as the caller knows from `spares`.
        If an operation raises while errors are collected (see `shared_errors`), the error is noted, the program ends,
        and the contents of `out` are undefined.
        """
        registers = [*arrays, *params]
        shape, size, last = out.shape, out.size, self.result - self.first
        lent = -1 if over else self._lent
        try:
            for k, (op, args, _) in enumerate(self.code):
                if k == last or self.slots[k] == lent >= 0:
                    target = out
                else:
                    target = scratch[self.slots[k]]
                    if target.shape != shape:
                        target = target[:size].reshape(shape)
                current.step = k
                op.call(*[registers[arg] for arg in args], out=target)
                registers.append(target)
        except Exception as error:
            if current.notes is None:
                raise
            current.notes.fail(error, lambda: first_failing(op.call, [registers[arg] for arg in args], target))
        current.step = AFTER


def run_in_pieces(
    program: Program, arrays: Sequence[np.ndarray], params: Sequence[Any], out: np.ndarray, over: bool = False
) -> None:
    """Fill `out` with a program's result, piece by piece, for arrays that broadcast to it.

    over : whether `out` may be one of the arrays.
    A program of one operation keeps nothing in the cache, so it runs over everything at once.
    """
    order = memory_order(out)
    if order is not None:
        arrays, out = [x.transpose(order) if x.ndim else x for x in arrays], out.transpose(order)
    if out.size <= PIECE or not program.buffers:
        program.run(arrays, params, out, program.scratch(out.shape), over)
        return
    scratch = program.scratch(PIECE)
    flat = flattened(arrays, out.shape) if out.flags.c_contiguous else None
    if flat is not None:
        line = out.reshape(-1)
        for start in range(0, line.size, PIECE):
            box = (slice(start, start + PIECE),)
            current.piece = start
            program.run([x[box] if x.ndim else x for x in flat], params, line[box], scratch, over)
    else:
        for box in pieces_of(out.shape, PIECE):
            current.piece = box
            program.run([part(x, box) for x in arrays], params, out[box], scratch, over)


def memory_order(array: np.ndarray) -> tuple[int, ...] | None:
    """Return the order of the axes that makes a transposed array contiguous; None in C order, or if there is none."""
    if array.flags.c_contiguous:
        return None
    order = tuple(sorted(range(array.ndim), key=lambda axis: -array.strides[axis]))
    return order if array.transpose(order).flags.c_contiguous else None


def pieces_of(shape: tuple[int, ...], most: int) -> Iterator[Slices]:
    """Yield slices that cover a shape in C order, each of at most `most` elements."""
    axis, inner = len(shape), 1
    while axis > 0 and inner * shape[axis - 1] <= most:
        axis -= 1
        inner *= shape[axis]
    if axis == 0:
        yield (slice(None),) * len(shape)
        return
    axis -= 1
    step = max(1, most // inner)
    rest = (slice(None),) * (len(shape) - axis - 1)
    for outer in np.ndindex(*shape[:axis]):
        lead = tuple(slice(at, at + 1) for at in outer)
        for start in range(0, shape[axis], step):
            yield (*lead, slice(start, start + step), *rest)


def part(array: np.ndarray, box: Slices) -> np.ndarray:
    """Return the part of an array inside `box`, a piece of the shape to which the array broadcasts."""
    if not array.ndim:
        return array
    return array[tuple(at if length != 1 else slice(None) for at, length in zip(box, array.shape, strict=True))]


def flattened(arrays: Sequence[np.ndarray], shape: tuple[int, ...]) -> list[np.ndarray] | None:
    """Return all arrays as vectors, or None unless each is in C order with the whole shape, or is a single number."""
    found: list[np.ndarray] = []
    for array in arrays:
        if array.shape == shape and array.flags.c_contiguous:
            found.append(array.reshape(-1))
        elif prod(array.shape) == 1:
            found.append(array.reshape(()))
        else:
            return None
    return found
