"""Elements of a vector selected by a mask, picked only when they are read; their sum is computed without picking.

Picking writes the selected elements, and reading them again takes as long.  A sum of x over a mask is the dot product
of both, computed piece by piece in the cache, in a third of the time.  Elements that are not selected may be infinite
or NaN.  Then, and only then, the dot product is not finite where the sum may be finite, and the elements are picked
after all.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np

from bsp.arrays.expressions.layout import Shape

PIECE = 1 << 13  # elements: below the size at which a BLAS uses threads, whose number must not change a sum


class SelectedBlocks(Mapping[Shape, Any]):
    """The blocks of x[mask] for a float64 vector, by block coordinates; each block is picked on first use.

    A block's sum is bitwise the same whether its elements were picked before, or the block was pickled, or neither.
    """

    def __init__(
        self, values: Mapping[Shape, Any], masks: Mapping[Shape, Any], pick: Callable[[Any, Any], Any]
    ) -> None:
        self._values = dict(values)
        self._masks = dict(masks)
        self._pick = pick
        self._picked: dict[Shape, Any] = {}
        self._totals: dict[Shape, np.float64] = {}
        self._places = list(masks)

    def __getitem__(self, at: Shape) -> Any:
        if at not in self._picked:
            self.total(at)  # first: picking drops the values and the mask that it is computed from
        if at not in self._picked:
            self._picked[at] = self._pick(self._values.pop(at), self._masks.pop(at))
        return self._picked[at]

    def __iter__(self) -> Iterator[Shape]:
        return iter(self._places)

    def __len__(self) -> int:
        return len(self._places)

    def total(self, at: Shape) -> np.float64:
        """Return the sum of a block, without picking its elements unless the dot product is not finite."""
        if at not in self._totals:
            with np.errstate(all="ignore"):
                found = _dot(self._values[at], self._masks[at])
            if not np.isfinite(found):
                self._picked[at] = self._pick(self._values.pop(at), self._masks.pop(at))
                found = np.add.reduce(self._picked[at])
            self._totals[at] = found
        return self._totals[at]

    def __reduce__(self) -> Any:
        return _moved, (dict(self), self._totals)


def _moved(picked: dict[Shape, Any], totals: dict[Shape, np.float64]) -> SelectedBlocks:
    found = SelectedBlocks({}, picked, np.compress)
    found._masks = {}
    found._picked, found._totals = picked, totals
    return found


def _dot(x: np.ndarray, mask: np.ndarray) -> np.float64:
    ones = np.empty(min(PIECE, x.size))
    parts = np.empty(-(-x.size // PIECE))
    for k in range(len(parts)):
        piece = x[k * PIECE : (k + 1) * PIECE]
        one = ones[: piece.size]
        np.copyto(one, mask[k * PIECE : (k + 1) * PIECE])
        parts[k] = one.dot(piece)
    return np.float64(np.add.reduce(parts))
