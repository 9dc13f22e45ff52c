"""Numbers at random that follow from a vertex and a seed, whatever process has the vertex."""

from __future__ import annotations

import numpy as np

_STEP = 0x9E3779B97F4A7C15
_FIRST, _SECOND = np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)


def mixed(numbers: np.ndarray, seed: int = 0) -> np.ndarray:
    """Return 64 bits that look random for each integer: different ones for different integers.

    Source: the finalizer of SplitMix64 (Steele, Lea and Flood, 2014).
    """
    x = numbers.astype(np.uint64) + np.uint64(_STEP * (seed + 1) % 2**64)
    x = (x ^ (x >> np.uint64(30))) * _FIRST
    x = (x ^ (x >> np.uint64(27))) * _SECOND
    return np.asarray(x ^ (x >> np.uint64(31)))
