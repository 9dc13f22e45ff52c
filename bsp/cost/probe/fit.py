"""From timed supersteps to L, o and g(s): minima, and how sure they are.

Noise only ever adds time, so a point's value is its minimum over all rounds.  The intervals come from a
bootstrap over rounds.  With k blocks of s bytes each, c(s) = (T - L) / k is what a block costs, and

    c(s) = o + g(s)·s/8        o = c(8) less one word at the g of the largest block
    L    = max(T(nothing), T(one block of 8 bytes) - o)

c(s) is made to grow with s, so no g is negative.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from bsp.cost.model import WORD

if TYPE_CHECKING:
    from bsp.cost.probe.program import Point

TIGHT = 0.1  # width of a 95 % interval, relative
_RESAMPLES = 200
_CERTAIN = ("L", "o", "g", "fine", "registration")  # what must be known well; the rest are differences of these

Interval = tuple[float, float]


@dataclass(frozen=True)
class Fit:
    """Seconds: a superstep, a block, a word one by one, new coarrays, and a word by block size; with 95 % intervals."""

    L: float
    o: float
    fine: float
    registration: float
    staged: float
    fresh: float
    g: float  # in the largest blocks
    blocks: tuple[tuple[int, float], ...]  # (bytes, seconds a word)
    intervals: dict[str, Interval]

    @property
    def widths(self) -> dict[str, float]:
        """Relative widths of the intervals."""
        return {name: (high - low) / max(getattr(self, name), 1e-300) for name, (low, high) in self.intervals.items()}

    @property
    def loosest(self) -> tuple[str, float]:
        """The parameter known least well."""
        return max(self.widths.items(), key=lambda item: item[1])

    @property
    def tight(self) -> bool:
        """Whether all intervals are narrow."""
        return self.loosest[1] <= TIGHT

    @property
    def refused(self) -> list[str]:
        """What cannot be published: parameters whose interval reaches down to 0."""
        return [name for name, (low, _) in self.intervals.items() if low <= 0]


def fitted(samples: Sequence[Sequence[float]], points: Sequence[Point], hosts: int) -> Fit:
    """`samples` are rounds × points, in seconds a boundary; `hosts` processes of an element share each of them."""
    times = np.array(samples)
    names, values = _parameters(times.min(axis=0), points, hosts)
    rng = np.random.default_rng(0)
    drawn = np.array(
        [
            _parameters(times[rng.integers(0, len(times), len(times))].min(axis=0), points, hosts)[1]
            for _ in range(_RESAMPLES)
        ]
    )
    low, high = np.percentile(drawn, [2.5, 97.5], axis=0)
    found = dict(zip(names, values, strict=True))
    intervals = {name: (float(low[k]), float(high[k])) for k, name in enumerate(names) if name in _CERTAIN}
    blocks = tuple((name, found[name]) for name in names if isinstance(name, int))
    numbers = {name: found[name] for name in ("L", "o", "fine", "registration", "staged", "fresh", "g")}
    return Fit(**numbers, blocks=blocks, intervals=intervals)


def _parameters(best: np.ndarray, points: Sequence[Point], hosts: int) -> tuple[list[str | int], list[float]]:
    """Names (block sizes for g(s)) and values, from one time for each point; see `probing.POINTS` for their order."""
    (empty, one, fine, new, sent, cold), rest = best[:6].tolist(), best[6:]
    sizes = [point.size for point in points[6:]]
    counts = hosts * np.array([point.count for point in points[6:]])
    slope = (rest[0] - empty) / counts[0]
    L = max(empty, one - slope * hosts)
    cost = (rest - L) / counts
    largest = sizes[-1] / WORD
    o = cost[0] - cost[-1] / largest
    g = (cost[-1] - o) / largest
    by_size = np.maximum((np.maximum.accumulate(cost) - o) * WORD / np.array(sizes), g / 100)
    one_by_one = (fine - L) / (2 * points[2].count * hosts)
    put = rest[sizes.index(points[4].size)]
    words = points[4].size / WORD * points[4].count * hosts
    staged, fresh = max((sent - put) / words, g / 100), max((cold - sent) / words, g / 100)
    names: list[str | int] = ["L", "o", "fine", "registration", "staged", "fresh", "g", *sizes]
    return names, [L / hosts, o, one_by_one, new - empty, staged, fresh, g, *by_size.tolist()]
