"""The placement of clones: horizontal clones on elements side by side, vertical clones below (McColl 1.8.3).

Row 0 is what all elements run at once, and what can set MinTime.  Element e of P runs bundle e mod n there, so that
HC = P/n need not be whole: a bundle has P/n first-row clones, rounded down or up.  Below it lie VC - 1 rows of
instances that an element runs only when siblings elsewhere are late or lost.

Why the lower rows differ from element to element: when an element is lost, each of its bundles passes to other
elements that hold it.  If these were always the same few (two elements that mirror each other), one loss would give
them all its work, and a second loss would take the last instances of several bundles.  Two elements should therefore
share as few bundles as possible.  The n elements of a layer (e div n) run row r as row 0 shifted by d(layer, r).  The
number of bundles that two elements share is the number of times their distance occurs among the differences of their
layers' shifts.  Shifts whose differences rarely repeat (Golomb rulers) are chosen greedily; among equals, the one
farthest from all earlier ones, because neighbouring elements are often on one node.

Rows 0 to r together hold every bundle equally often, up to a difference of one.  A complete layer holds all bundles
whatever its shifts are.  If P/n is not whole, the last layer holds an interval of the bundles in each row; the
interval is laid where bundles have the fewest instances.

The result is a function of (n, P, VC) alone: bsprun and every element compute the same.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from itertools import accumulate

Placement = tuple[tuple[int, ...], ...]

_NEAR = 4  # earlier layers that a layer's shifts are chosen against; beyond five row-0 clones there is little gain


def place(bundles: int, elements: int, vertical: int = 1) -> Placement:
    """Return the bundles that each element runs, row 0 first; no element runs a bundle twice.

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
    """Return round(n·HC): the number of elements for n bundles and HC horizontal clones, whole or not."""
    if bundles < 1:
        raise ValueError(f"there must be 1 bundle or more, not {bundles}")
    if not (math.isfinite(clones) and clones >= 1):
        raise ValueError(f"clones must be 1 or more (1: no clones, 1.5: half of the bundles twice), not {clones}")
    return round(bundles * clones)


def instances(placement: Placement, bundle: int) -> tuple[int, ...]:
    """Return the elements that run a bundle, ordered by the row in which they run it."""
    found = sorted((row.index(bundle), element) for element, row in enumerate(placement) if bundle in row)
    if not found:
        raise ValueError(f"no element runs bundle {bundle}")
    return tuple(element for _, element in found)


def _check(bundles: int, elements: int, vertical: int) -> None:
    """Raise ValueError if no placement of these sizes exists."""
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
    """The shifts of one layer, chosen row by row, with the counts that the choice depends on."""

    def __init__(self, bundles: int, width: int, near: Sequence[Sequence[int]]) -> None:
        """Create a layer of `width` elements with row 0 only; `near` holds the shifts of the layers before it."""
        self.shifts = [0]
        self._bundles = bundles
        self._width = width
        self._held = [1] * width + [0] * (bundles - width)  # instances of each bundle in this layer
        self._inside: Counter[int] = Counter()  # bundles shared by two elements of this layer, by distance
        self._near = near
        self._outside = [Counter(-there % bundles for there in layer) for layer in near]  # and with each near layer

    @property
    def even(self) -> bool:
        """True if the numbers of instances of any two bundles differ by at most one."""
        return max(self._held) - min(self._held) <= 1

    def lay(self) -> None:
        """Add a row: most even first, then least shared bundles, then farthest from earlier instances."""
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
        """Return the distances at which two elements of the layer would share one bundle more, with their counts."""
        return Counter(sign * (shift - above) % self._bundles for above in self.shifts for sign in (1, -1))

    def _sharing(self, shift: int) -> int:
        """Return how much the row would increase the sum of squares of bundles shared by two elements, per element."""
        inside = sum(more * (more + 2 * self._inside[d]) for d, more in self._distances(shift).items())
        return inside + sum(
            2 + 4 * distances[(shift - there) % self._bundles]
            for layer, distances in zip(self._near, self._outside, strict=True)
            for there in layer
        )

    def _nearest(self, shift: int) -> int:
        """Return the least distance of two instances of a bundle, in this layer and to the one before it."""
        last = self._near[-1] if self._near else ()
        return min([*self._distances(shift), *((there - shift) % self._bundles or self._bundles for there in last)])


def _shifts(bundles: int, width: int, rows: int, near: Sequence[Sequence[int]]) -> list[int]:
    """Return the shift of each row for a layer of `width` elements; `near` holds the shifts of the layers before it."""
    layer = _Layer(bundles, width, near)
    for _ in range(1, rows):
        layer.lay()
        # In one of twenty sizes the bundles with fewest instances form no interval.
        if not layer.even:
            return _tiling(bundles, width, rows)
    return layer.shifts


def _tiling(bundles: int, width: int, rows: int) -> list[int]:
    """Return shifts in which each row's interval begins where the last one ended, which is always even.

    Once all bundles have been tiled equally often, the next interval steps aside by one, so that rows do not repeat.
    """
    period = bundles // math.gcd(bundles, width)
    return [(row * width + row // period) % bundles for row in range(rows)]
