"""Which element runs which bundles: horizontal clones side by side, vertical clones below (McColl 1.8.3).

Row 0 is what all elements run at once, and what can set MinTime: element e runs bundle e mod n, so HC = P/n need
not be whole, and a bundle has P/n first-row clones, rounded down or up.  Below it lie VC - 1 rows of instances
that an element runs when a sibling elsewhere is missed.

Why the rows below differ from element to element: an element that is lost leaves each of its bundles to the other
elements that hold it.  Were these the same few (two elements that mirror each other), one loss would give all its
work to them, and one loss more would take the last instances of several bundles.  So two elements share as few
bundles as can be.  The n elements of a layer (e div n) run row r as row 0 shifted by d(layer, r); two elements
share as many bundles as their distance occurs among the differences of their layers' shifts.  Shifts that repeat
few differences (Golomb rulers) are chosen greedily; among equals the one farthest from all earlier ones, because
neighbouring elements tend to share a node.

Rows 0 to r together hold every bundle equally often, or once more.  A whole layer holds all bundles whatever its
shifts are; the last one, if P/n is not whole, holds an interval of them in each row, laid where bundles are fewest.

The result is a function of (n, P, VC) alone: bsprun and every element compute the same.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from itertools import accumulate

Placement = tuple[tuple[int, ...], ...]

_NEAR = 4  # layers before it that a layer is chosen against; beyond five clones in a row it hardly matters


def place(bundles: int, elements: int, vertical: int = 1) -> Placement:
    """For each element the bundles it runs, row 0 first; none twice.

    Work: O(elements·vertical²); 0.1 s for 10,000 elements and 4 rows.
    """
    _check(bundles, elements, vertical)
    layers: list[list[int]] = []
    while (left := elements - len(layers) * bundles) > 0:
        layers.append(_shifts(bundles, min(left, bundles), vertical, layers[-_NEAR:]))
    return tuple(
        tuple((element + shift) % bundles for shift in layers[element // bundles]) for element in range(elements)
    )


def elements_for(bundles: int, clones: float) -> int:
    """Round(n·HC): how many elements run `bundles` bundles at the horizontal level `clones`, whole or not."""
    if bundles < 1:
        raise ValueError(f"there must be 1 bundle or more, not {bundles}")
    if not (math.isfinite(clones) and clones >= 1):
        raise ValueError(f"clones must be 1 or more (1: no clones, 1.5: half of the bundles twice), not {clones}")
    return round(bundles * clones)


def instances(placement: Placement, bundle: int) -> tuple[int, ...]:
    """The elements that run a bundle, those that run it in their first row first, and so on."""
    found = sorted((row.index(bundle), element) for element, row in enumerate(placement) if bundle in row)
    if not found:
        raise ValueError(f"no element runs bundle {bundle}")
    return tuple(element for _, element in found)


def _check(bundles: int, elements: int, vertical: int) -> None:
    if bundles < 1:
        raise ValueError(f"there must be 1 bundle or more, not {bundles}")
    if elements < bundles:
        raise ValueError(
            f"{bundles} bundles need {bundles} elements or more, not {elements}: "
            "give more elements, or put more processes into a bundle"
        )
    if vertical < 1:
        raise ValueError(f"vertical must be 1 or more (1: no vertical clones), not {vertical}")
    if vertical > bundles:
        raise ValueError(
            f"vertical {vertical} would put one of {bundles} bundles twice on an element: "
            f"give vertical {bundles} or less, or put fewer processes into a bundle"
        )


class _Layer:
    """The shifts of one layer, a row at a time, and what its elements share because of them."""

    def __init__(self, bundles: int, width: int, near: Sequence[Sequence[int]]) -> None:
        self.shifts = [0]
        self._bundles = bundles
        self._width = width
        self._held = [1] * width + [0] * (bundles - width)  # this layer's instances of each bundle
        self._inside: Counter[int] = Counter()  # bundles shared in this layer, by distance of the elements
        self._near = near
        self._outside = [Counter(-there % bundles for there in layer) for layer in near]  # and with each layer near

    @property
    def even(self) -> bool:
        """Whether every bundle is held equally often, or once more."""
        return max(self._held) - min(self._held) <= 1

    def lay(self) -> None:
        """One more row: evenly first, then sharing least, then far from all that came before."""
        before = [0, *accumulate([*self._held, *self._held])]

        def order(shift: int) -> tuple[int, int, int]:
            return before[shift + self._width] - before[shift], self._sharing(shift), -self._nearest(shift)

        shift = min((shift for shift in range(self._bundles) if shift not in self.shifts), key=order)
        self._inside.update(self._distances(shift))
        for layer, distances in zip(self._near, self._outside, strict=True):
            distances.update((shift - there) % self._bundles for there in layer)
        for bundle in range(shift, shift + self._width):
            self._held[bundle % self._bundles] += 1
        self.shifts.append(shift)

    def _distances(self, shift: int) -> Counter[int]:
        """At which distances two elements of the layer would share a bundle more."""
        return Counter(sign * (shift - above) % self._bundles for above in self.shifts for sign in (1, -1))

    def _sharing(self, shift: int) -> int:
        """What the row would add to the sum of squares of bundles shared by two elements (per element)."""
        inside = sum(more * (more + 2 * self._inside[d]) for d, more in self._distances(shift).items())
        return inside + sum(
            2 + 4 * distances[(shift - there) % self._bundles]
            for layer, distances in zip(self._near, self._outside, strict=True)
            for there in layer
        )

    def _nearest(self, shift: int) -> int:
        """How close two instances of a bundle would be, in this layer and the one before it."""
        last = self._near[-1] if self._near else ()
        return min([*self._distances(shift), *((there - shift) % self._bundles or self._bundles for there in last)])


def _shifts(bundles: int, width: int, rows: int, near: Sequence[Sequence[int]]) -> list[int]:
    """One shift a row for a layer of `width` elements that follows the layers near."""
    layer = _Layer(bundles, width, near)
    for _ in range(1, rows):
        layer.lay()
        if not layer.even:  # one in twenty sizes: what was fewest is no interval
            return _tiling(bundles, width, rows)
    return layer.shifts


def _tiling(bundles: int, width: int, rows: int) -> list[int]:
    """Each interval begins where the last one ended: always even.  A step aside once all has been tiled evenly."""
    period = bundles // math.gcd(bundles, width)
    return [(row * width + row // period) % bundles for row in range(rows)]
