"""NumPy's rules for the number of bins of equal width in a histogram.

A rule computes a width from the number of elements, their extremes, quartiles or deviations, all of which are computed
where the elements are.  The number of bins is the span over the width, rounded up.  "scott" and "doane" use sums, whose
last digits depend on the blocks.  Their quotient is therefore rounded to 9 decimals first, so that the number of bins
does not depend on the blocks.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from bsp.arrays.api import reductions
from bsp.arrays.array import Array, compute
from bsp.arrays.sorting.quantiles import percentile
from bsp.errors import ValueNeeded
from bsp.values.payload import is_abstract


def _square_root(x: Array, span: Any) -> Any:
    return span / np.sqrt(x.size)


def _sturges(x: Array, span: Any) -> Any:
    return span / (np.log2(x.size) + 1.0)


def _rice(x: Array, span: Any) -> Any:
    return span / (2.0 * x.size ** (1.0 / 3))


def _scott(x: Array, span: Any) -> Any:
    return (24.0 * np.pi**0.5 / x.size) ** (1.0 / 3.0) * reductions.std(x, dtype=np.float64).compute()[()]


def _doane(x: Array, span: Any) -> Any:
    n = x.size
    if n <= 2:
        return 0.0
    mean, deviation = (
        each[()] for each in compute(reductions.mean(x, dtype=np.float64), reductions.std(x, dtype=np.float64))
    )
    if not deviation > 0.0:
        return 0.0
    skew = reductions.mean(((x - mean) / deviation) ** 3).compute()[()]
    error = np.sqrt(6.0 * (n - 2) / ((n + 1.0) * (n + 3)))
    return span / (1.0 + np.log2(n) + np.log2(1.0 + np.absolute(skew) / error))


def _freedman(x: Array, span: Any) -> Any:
    upper, lower = percentile(x, [75, 25]).compute()
    return 2.0 * np.subtract(upper, lower) * x.size ** (-1.0 / 3.0)


def _automatic(x: Array, span: Any) -> Any:
    return min(max(_freedman(x, span), _square_root(x, span) / 2), _sturges(x, span))


RULES: dict[str, Callable[[Array, Any], Any]] = {
    "auto": _automatic, "doane": _doane, "fd": _freedman, "rice": _rice, "scott": _scott, "sqrt": _square_root,
    "sturges": _sturges,
}  # fmt: skip
_SUMS = ("doane", "scott")
_OF_SIZE = ("rice", "sqrt", "sturges")  # rules that divide the span by a number which follows from the size alone


def number_of_bins(rule: str, x: Array, limits: Any, weights: Any) -> int:
    """Return the number of bins of a rule for the elements of a vector, or for those within `limits` (two numbers).

    Collective: a superstep for the extremes, and those of a percentile or of moments if the rule uses them.
    Raises ValueError for an unknown rule, TypeError for weights and for "stone", which has no distributed form, and
    ValueNeeded in a run with shapes only if the number does not follow from the size.
    """
    if rule == "stone":
        raise TypeError(
            "histogram: bins='stone' has no distributed form: it compares a hundred histograms and more; "
            f"bins= takes a number, edges, or one of {', '.join(RULES)}"
        )
    if rule not in RULES:
        raise ValueError(f"{rule!r} is not a valid estimator for `bins`")
    if weights is not None:
        raise TypeError("Automated estimation of the number of bins is not supported for weighted data")
    if x.dtype.kind == "b":
        x = x.astype(np.uint8)
    if limits is not None:
        np.histogram_bin_edges(np.empty(0), 1, limits)  # raises NumPy's errors for bad limits
        x = x[(x >= limits[0]) & (x <= limits[1])]
    if not x.size:
        return 1
    low: Any
    high: Any
    low, high = (each[()] for each in compute(reductions.min(x), reductions.max(x)))
    exact = x.dtype.kind in "iu"
    if is_abstract(low):
        if exact or limits is not None or rule not in _OF_SIZE:
            raise ValueNeeded(
                f"histogram(bins={rule!r}): how many bins there are follows from values, and this run has only shapes; "
                "give their number or their edges, or run without --abstract"
            )
        low, high = 0.0, 1.0  # any span gives this number
    np.histogram_bin_edges(np.array([low, high]), 1)  # raises NumPy's error for NaN and infinities
    span = int(high) - int(low) if exact else high - low
    width = RULES[rule](x, span)
    if not width:
        return 1
    whole = span if limits is None else limits[1] - limits[0]
    quotient = whole / max(width, 1) if exact else whole / width
    return int(np.ceil(np.round(quotient, 9) if rule in _SUMS else quotient))
