"""Values assigned to parts of an array, and where they are in its blocks."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Any, NamedTuple

import numpy as np

from bsp.arrays.expressions.graph import Access
from bsp.arrays.expressions.layout import Shape
from bsp.arrays.kernels.fingerprints import meaning
from bsp.transport.header import digest


class Assignment(NamedTuple):
    """Values, which broadcast to `shape`, for the part of an array that an access shows."""

    access: tuple[Access, ...]
    shape: Shape
    values: Any

    def part(self, box: Sequence[tuple[int, int]]) -> WrittenPart | None:
        """Return the part of the assignment inside the index range of a block; None if there is none."""
        inside: list[Any] = []
        taken = []
        whole = True
        for (low, high), (label, start, step) in zip(box, self.access, strict=True):
            if label < 0:
                if not low <= start < high:
                    return None
                inside.append(start - low)
                whole = whole and high - low == 1
                continue
            # the k, 0 <= k < n, of which the position start + step·k is in the range low, ..., high - 1
            n, (near, far) = self.shape[label], ((low, high - 1) if step > 0 else (high - 1, low))
            first = max(0, -((start - near) // step))
            stop = min(n, (far - start) // step + 1)
            if first >= stop:
                return None
            begin, end = start + step * first - low, start + step * stop - low
            inside.append(slice(begin, end if end >= 0 else None, step))
            taken.append(slice(first, stop))
            whole = whole and stop - first == high - low
        values = self.values
        if values.ndim:
            values = self._in_order()[tuple(taken)]
        return WrittenPart(tuple(inside), values, whole)

    def _in_order(self) -> Any:
        """Return the values with the axes that the access maps, in the order of the array's axes.

        The others have length 1.
        """
        labels = [each.label for each in self.access if each.label >= 0]
        new = [axis for axis in range(len(self.shape)) if axis not in labels]
        whole = np.broadcast_to(self.values, self.shape).transpose([*labels, *new])
        return whole.reshape([self.shape[label] for label in labels])

    def __repr__(self) -> str:
        access = [tuple(each) for each in self.access]
        return f"{access} {self.shape} {self.values.dtype.str} {self.values.shape} {meaning(self.values).hex()}"


class WrittenPart(NamedTuple):
    """The part of an assignment that is in one block."""

    inside: tuple[Any, ...]  # its index in the block
    values: Any
    whole: bool  # whether it is the whole block

    def write(self, block: Any) -> None:
        """Write the values into the block."""
        block[self.inside] = self.values


class Assignments:
    """Assignments that wait until an array is computed, in their order.

    Those of an array and of the arrays that it was before share one list, of which each uses the first `count`.
    """

    __slots__ = ("_all", "_count")

    def __init__(self, every: list[Assignment] | None = None, count: int = 0) -> None:
        self._all = [] if every is None else every
        self._count = count

    def then(self, last: Assignment) -> Assignments:
        """Return these assignments, followed by another one."""
        every = self._all if len(self._all) == self._count else self._all[: self._count]
        every.append(last)
        return Assignments(every, self._count + 1)

    def __iter__(self) -> Iterator[Assignment]:
        return islice(self._all, self._count)

    def __repr__(self) -> str:
        return f"{self._count} assigned {digest(*self).hex()}"
