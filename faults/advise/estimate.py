"""Estimation of the predictability D from measured round times, or of the finding that no D fits.

McColl's model has one exponent, D, for all tails.  A machine need not follow it, and a TailLimit for one loss in 10^9
lies far beyond anything measured.  So D is estimated from the largest times only (Hill), only where they look like a
power law (a goodness-of-fit gate), and with a confidence interval.  Where the gate refuses, the times themselves are
used: resampled, never beyond the largest one seen.

A time is a ratio to the MinTime of its round.  The element that set MinTime is left out: given MinTime, the others are
Pareto with the same D from 1 on (a Pareto law cut at any height is one again).
Source: Hill 1975; Anderson and Darling with an estimated scale: Stephens 1974; reference formula 10.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import chdtrc, gammaincinv

from bsp.faults.advise.models import chance_to_spare, expected_maximum

SHARES = (1.0, 0.5, 0.25, 0.1)  # shares of the times tried as the tail; the largest that passes the gate is taken
LEAST = 100  # fewer large times than this are no evidence of a power law
LEVEL = 0.05  # the gate wrongly refuses one true power law in 20, each time it is applied
_STEPS = 8192  # intervals of Simpson's rule

_NONE = np.zeros(0)


class Limit(NamedTuple):
    """A TailLimit, and whether it lies beyond every measured time."""

    value: float
    beyond: bool


@dataclass(frozen=True)
class RoundTimes:
    """The distribution of an element's time in a round, in units of MinTime.

    Pareto with exponent `D` above `threshold`, which a fraction `share` of times exceed; as measured (`times`, sorted)
    below it, and everywhere if `D` is None.  `of` > 1: each of `times` is the largest of `of` elements, as in a trace;
    methods still return values for a single element.
    """

    D: float | None
    threshold: float = 1.0
    share: float = 1.0
    times: np.ndarray = field(default_factory=lambda: _NONE, repr=False, compare=False)
    of: int = 1

    def __post_init__(self) -> None:
        if self.D is None and not len(self.times):
            raise ValueError("Tail: neither D nor times; give one of both")
        if self.D is not None and not self.D > 0:
            raise ValueError(f"Tail: D is {self.D:g}; a tail exponent is above 0 (inf: no tails)")
        if not len(self.times) and (self.share < 1 or self.of > 1):
            raise ValueError(f"Tail: share {self.share:g} of no times, largest of {self.of}; give the times")

    def survival(self, t: ArrayLike) -> np.ndarray:
        """Return P[time > t], in the shape of `t`."""
        at = np.asarray(t, dtype=float)
        found = np.ones_like(at)
        if len(self.times):
            found = self._of_one(1 - np.searchsorted(self.times, at, side="right") / len(self.times))
        if self.D is not None:
            high = np.maximum(at, self.threshold) / self.threshold
            found = np.where(at >= self.threshold, self.share * high**-self.D, found)
        return found

    def _of_one(self, s: np.ndarray) -> np.ndarray:
        """Return P[one element's time > t] from P[the largest of `of` > t].

        All of them are below t with probability (1 - P[one > t])^of.
        """
        return s if self.of == 1 else -np.expm1(np.log1p(-np.minimum(s, 1 - 1e-16)) / self.of)

    def quantile(self, s: ArrayLike) -> np.ndarray:
        """Return the least t with P[time > t] <= s, in the shape of `s`."""
        chance = np.asarray(s, dtype=float)
        found = np.ones_like(chance)
        n = len(self.times)
        if n:
            of_all = 1 - (1 - chance) ** self.of  # the chance for the largest of `of`, which `times` are
            found = self.times[np.clip(np.ceil(n * (1 - of_all)).astype(int) - 1, 0, n - 1)]
        if self.D is not None:
            far = self.threshold * (np.minimum(chance, self.share) / self.share) ** (-1 / self.D)
            found = np.where(chance <= self.share, far, found)
        return found

    def draw(self, rng: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
        """Draw independent times in an array of that shape; measured ones are resampled with replacement."""
        return self.quantile(1 - rng.random(shape))

    def limit(self, p: int, hc: int, rounds: int, epsilon: float) -> Limit:
        """Return the TailLimit for this tail, as `models.tail_limit` does for a Pareto tail.

        Where no measured time is large enough to determine it, the largest one is returned, marked as `beyond`.
        """
        chance = chance_to_spare(p, rounds, epsilon) ** (1 / hc)
        return self.limit_for(chance)

    def limit_for(self, chance: float) -> Limit:
        """Return the limit, at least 1 (MinTime), that one clone exceeds with probability `chance`."""
        found = max(1.0, float(self.quantile(chance)))
        if not len(self.times):
            return Limit(found, False)
        largest = float(self.times[-1])
        # resampling never exceeds the largest time, so there the limit is known only if enough times came near it
        if self.D is None:
            return Limit(found, float(self.survival(np.nextafter(largest, 0))) > chance)
        return Limit(found, found > largest)

    def mean_of_maximum(self, p: int, hc: int) -> float:
        """Return the mean time of a round: of the largest of `p` bundles, each the least of `hc` times.

        The counterpart of `models.expected_maximum` for this tail: ∫ 1 - (1 - P[time > t]^HC)^p dt.  Computed as a sum
        over measured times, then Simpson's rule in ln t, and the power law's own remainder beyond the t at which all
        are done but for a probability of 10^-9.
        """
        if not len(self.times):
            return 1.0 if math.isinf(self.D or 0) else expected_maximum(p, hc * (self.D or 0))
        body = self.times if self.D is None else self.times[self.times < self.threshold]
        edges = np.concatenate([[0.0], body, [] if self.D is None else [self.threshold]])
        measured = float(np.sum(np.diff(edges) * self._late(edges[:-1], p, hc)))
        if self.D is None:
            return measured
        a = hc * self.D
        if a <= 1:
            return math.inf
        far = max(1.0, math.log(p * self.share**hc / 1e-9) / a)
        logs = np.linspace(0, far, _STEPS + 1)
        t = self.threshold * np.exp(logs)
        heights = t * self._late(t, p, hc)
        inside = far / _STEPS / 3 * (heights[0] + heights[-1] + 4 * heights[1::2].sum() + 2 * heights[2:-1:2].sum())
        return measured + float(inside) + float(heights[-1]) / (a - 1)

    def _late(self, t: np.ndarray, p: int, hc: int) -> np.ndarray:
        """Return the probability that some of `p` bundles has no clone done by t."""
        with np.errstate(divide="ignore"):  # at the smallest times all are late: log 0
            late: np.ndarray = -np.expm1(p * np.log1p(-(self.survival(t) ** hc)))
        return late


def hill(times: ArrayLike, k: int) -> float:
    """Return Hill's estimate of D from the k largest times: k / Σ ln(X_i / X_(k+1)); infinite if they are all equal."""
    ordered = np.sort(np.asarray(times, dtype=float))
    if not 1 <= k < len(ordered) or not ordered[-k - 1] > 0:
        raise ValueError(f"hill: k is {k} of {len(ordered)} times; needs 1 <= k < number of times, and times above 0")
    total = float(np.sum(np.log(ordered[-k:] / ordered[-k - 1])))
    return k / total if total > 0 else math.inf


def hill_interval(D: float, k: int, confidence: float = 0.95) -> tuple[float, float]:
    """Return the confidence interval of the true exponent, given Hill's estimate `D` from `k` times.

    Σ ln(X_i / X_(k+1)) is Gamma(k, 1/D) exactly (Rényi), so the interval is that of D·Gamma(k)/k.
    """
    edges = ((1 - confidence) / 2, (1 + confidence) / 2)
    low, high = (D * float(gammaincinv(k, edge)) / k for edge in edges)
    return low, high


def goodness(times: ArrayLike, k: int) -> float:
    """Return the p-value of the hypothesis that the k largest times are Pareto (Anderson-Darling).

    The test is that ln(X_i / X_(k+1)) are exponential.  A² gives weight to the far tail, which determines a TailLimit.
    The scale is estimated from the same times, so the distribution is Stephens': A²·(1 + 0.6/k), with p by the formulas
    of D'Agostino and Stephens (1986), table 4.14.
    """
    ordered = np.sort(np.asarray(times, dtype=float))
    logs = np.log(ordered[-k:] / ordered[-k - 1])
    if not logs[-1] > 0:
        return 0.0
    z = np.maximum(logs / logs.mean(), 1e-12)  # times equal to X_(k+1) give 0, whose logarithm below is infinite
    odd = 2 * np.arange(1, k + 1) - 1
    a2 = -k - float(np.mean(odd * (np.log(-np.expm1(-z)) - z[::-1])))
    a = a2 * (1 + 0.6 / k)
    if a < 0.26:
        return 1 - math.exp(-12.2204 + 67.459 * a - 110.3 * a * a)
    if a < 0.51:
        return 1 - math.exp(-6.1327 + 20.218 * a - 18.663 * a * a)
    if a < 0.95:
        return math.exp(0.9209 - 3.353 * a + 0.3 * a * a)
    a = min(a, 10.0)  # the formula's parabola turns near there; p is below 10^-6
    return math.exp(0.731 - 3.009 * a + 0.15 * a * a)


@dataclass(frozen=True)
class Estimate:
    """The estimated tail, with Hill's D, its confidence interval and the p-value of the gate."""

    tail: RoundTimes
    D: float  # Hill's estimate from the share that passed the gate, or from the last one tried if none did
    low: float  # ends of the 95 % confidence interval
    high: float
    used: int  # number of largest times that D is estimated from
    count: int  # number of all times
    p_value: float
    accepted: bool
    warnings: tuple[str, ...] = ()

    def text(self) -> str:
        """Return the estimate in one line."""
        if self.accepted:
            return (
                f"D = {self.D:.3g} (95 %: {self.low:.3g} to {self.high:.3g}) from the {self.used} largest of"
                f" {self.count} times; a power law is not refused (p = {self.p_value:.2g})"
            )
        why = f"a power law is refused (p = {self.p_value:.1g})" if self.used else f"fewer than {LEAST} large times"
        return f"no D: {why}; the {self.count} times themselves are drawn again instead"


def estimate(times: ArrayLike, of: int = 1, warnings: tuple[str, ...] = ()) -> Estimate:
    """Estimate D from ratios of round times to MinTime; fall back to their own distribution if the gate refuses.

    The largest share of the times that passes the gate is taken as the tail.
    of : each time is the largest of that many elements (their largest has the same D, and `of` times the frequency).
    """
    ordered = np.sort(np.asarray(times, dtype=float).ravel())
    n = len(ordered)
    if n < 2 or not ordered[0] > 0 or not math.isfinite(float(ordered[-1])):
        raise ValueError(f"estimate: {n} times; needs two or more, all above 0 and finite")
    D, p_value, used = math.nan, 0.0, 0
    for share in SHARES:
        k = min(n - 1, round(share * n))
        if of > 1 and share > 0.5:
            continue  # the largest of many follows a power law only far out
        if k < LEAST:
            break
        D, p_value, used = hill(ordered, k), goodness(ordered, k), k
        if p_value >= LEVEL:
            bend = _bend(k / n, of)
            D *= bend
            # the share of times above the threshold, from the largest of `of` to a single element
            tail = RoundTimes(D, float(ordered[-k - 1]), -math.expm1(math.log1p(-k / n) / of), ordered, of)
            return Estimate(tail, D, *hill_interval(D, k), k, n, p_value, True, warnings)
    low, high = hill_interval(D, used) if used and math.isfinite(D) else (math.nan, math.nan)
    return Estimate(RoundTimes(None, times=ordered, of=of), D, low, high, used, n, p_value, False, warnings)


def _bend(share: float, of: int) -> float:
    """Return the factor by which Hill's D for the largest of `of` elements is too small for a single one.

    1 for of = 1, and far out in the tail; 1.06 at a quarter of the times.  It is the mean of
    ln(P[one > X_(k+1)] / P[one > X_i]) over the k largest.
    """
    if of == 1:
        return 1.0
    v = share * (np.arange(_STEPS) + 0.5) / _STEPS
    each = np.log(-np.expm1(np.log1p(-v) / of))
    return float(math.log(-math.expm1(math.log1p(-share) / of)) - each.mean())


def same_elements_late(seconds: np.ndarray) -> float:
    """Return the p-value of the hypothesis that all elements are alike (Kruskal and Wallis).

    seconds : shape (rounds, elements).
    A small value means that slowness stays with an element.  The models draw every round anew, so they would advise
    cloning to hide slow elements that replacing would cure.
    """
    rounds, elements = seconds.shape
    relative = seconds / seconds.min(axis=1, keepdims=True)
    _, place, counts = np.unique(relative, return_inverse=True, return_counts=True)
    ranks = (np.cumsum(counts) - (counts - 1) / 2)[place].reshape(seconds.shape)
    n = rounds * elements
    h = 12 / (n * (n + 1)) * rounds * float(np.sum((ranks.mean(axis=0) - (n + 1) / 2) ** 2))
    return float(chdtrc(elements - 1, h))
