"""The terms of the model from timed supersteps, and confidence intervals of them.

Noise only ever adds time, so a point's value is its minimum over all rounds.  The intervals come from a bootstrap over
rounds.  With k blocks of s bytes each, c(s) = (T - L) / k is the time of a block, and

    c(s) = o + g(s)·s/8        o = c(8) less one word at the g of the largest block
    L    = max(T(nothing), T(one block of 8 bytes) - o)

c(s) is made to grow with s, so that no g is negative.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from bsp.cost.model import WORD
from bsp.cost.terms import TERMS

TIGHT = 0.1  # relative width of a 95 % interval
_RESAMPLES = 200

Interval = tuple[float, float]


@dataclass(frozen=True)
class ProbePoint:
    """A kind of superstep to measure: every process puts `count` blocks of `size` bytes to its neighbour.

    kind : "blocks"; "sends": as messages; "cold": as messages that land in new memory; "fine": words one by one;
        "new": every process registers a coarray and nothing is sent.
    """

    size: int
    count: int
    kind: str = "blocks"


@dataclass(frozen=True)
class FittedRates:
    """The rates of one level in seconds, by term; the seconds of a word by block size; 95 % intervals by term."""

    rates: dict[str, float]
    blocks: tuple[tuple[int, float], ...]  # (bytes, seconds a word)
    intervals: dict[str, Interval]  # of the terms that must be certain

    @property
    def widths(self) -> dict[str, float]:
        """The relative widths of the intervals."""
        return {name: (high - low) / max(self.rates[name], 1e-300) for name, (low, high) in self.intervals.items()}

    @property
    def loosest(self) -> tuple[str, float]:
        """The term with the widest interval, and its relative width."""
        return max(self.widths.items(), key=lambda item: item[1])

    @property
    def tight(self) -> bool:
        """True if all intervals are narrow."""
        return self.loosest[1] <= TIGHT

    @property
    def refused(self) -> list[str]:
        """The terms that cannot be published, because their interval contains 0."""
        return [name for name, (low, _) in self.intervals.items() if low <= 0]


def fitted(samples: Sequence[Sequence[float]], points: Sequence[ProbePoint], hosts: int) -> FittedRates:
    """Return the fit to `samples`, rounds × points, in seconds a boundary; `hosts` processes share an element."""
    times = np.array(samples)
    rates, by_size = _rates(times.min(axis=0), points, hosts)
    rng = np.random.default_rng(0)
    drawn = [
        _rates(times[rng.integers(0, len(times), len(times))].min(axis=0), points, hosts)[0] for _ in range(_RESAMPLES)
    ]
    intervals = {}
    for term in TERMS:
        if term.certain:
            low, high = np.percentile([each[term.name] for each in drawn], [2.5, 97.5])
            intervals[term.name] = float(low), float(high)
    sizes = [point.size for point in points[-len(by_size) :]]
    return FittedRates(
        {term.name: rates[term.name] for term in TERMS}, tuple(zip(sizes, by_size, strict=True)), intervals
    )


def _rates(best: np.ndarray, points: Sequence[ProbePoint], hosts: int) -> tuple[dict[str, float], list[float]]:
    """Return every term, and g by block size, from one time for each point; see `program.POINTS` for their order."""
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
    put = rest[sizes.index(points[4].size)]
    words = points[4].size / WORD * points[4].count * hosts
    rates = {
        "L": L / hosts,
        "o": o,
        "g": g,
        "fine": (fine - L) / (2 * points[2].count * hosts),
        "registration": new - empty,
        "staged": max((sent - put) / words, g / 100),
        "fresh": max((cold - sent) / words, g / 100),
    }
    return {name: float(rate) for name, rate in rates.items()}, by_size.tolist()
