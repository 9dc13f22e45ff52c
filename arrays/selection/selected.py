"""What a mask selects of a vector, picked when somebody asks for it: sums are had without.

Picking writes the selected elements and reading them again takes as long; a sum of x over a mask is the dot product
of both, piece by piece in the cache, at a third of the time.  Elements that are not selected may be infinite or NaN:
then, and only then, the dot product is not finite where the sum may be, and the elements are picked after all.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np

from bsp.arrays.expressions.layout import Shape

PIECE = 1 << 13  # elements: below the size at which a BLAS takes threads, whose number must not change a sum


class Selected(Mapping[Shape, Any]):
    """The blocks of x[mask] for float64 vectors, by coordinates.

    A block's sum does not depend on whether its elements were asked for before, nor on whether they have moved.
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
            self.total(at)  # what it is made from goes with this
        if at not in self._picked:
            self._picked[at] = self._pick(self._values.pop(at), self._masks.pop(at))
        return self._picked[at]

    def __iter__(self) -> Iterator[Shape]:
        return iter(self._places)

    def __len__(self) -> int:
        return len(self._places)

    def total(self, at: Shape) -> np.float64:
        """The sum of a block."""
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


def _moved(picked: dict[Shape, Any], totals: dict[Shape, np.float64]) -> Selected:
    found = Selected({}, picked, np.compress)
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
