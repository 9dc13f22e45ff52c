"""A random order of 0..n-1 of which any part can be had alone: no sort, no words.

Up to SMALL numbers every process shuffles all of them.  Beyond, position i is written as (i // c, i % c) and goes
through ROUNDS of a Feistel network: one half is shifted by a random function of the other, in turns.  That is a
permutation of a·c >= n positions whatever the functions are; what falls on n or more goes through again (seldom:
a·c - n < a + c), which leaves a permutation of 0..n-1.  The functions are tables of about sqrt(n) random numbers.

Sources: Luby and Rackoff (SIAM J. Comput. 17, 1988) for networks of random functions; Black and Rogaway (CT-RSA
2002) for halves of any size and for going through again.
"""

from __future__ import annotations

from math import isqrt
from typing import Any

import numpy as np

from bsp.arrays.random.tiles import Streams

SMALL = 1 << 16
ROUNDS = 10
PIECE = 1 << 14  # positions at a time, so that they stay in a cache


class Order:
    """A permutation of 0..n-1 from a draw's streams, the same on every process.

    Cost: O(n) numbers for n <= SMALL, else O(sqrt n), once; then O(1) for each position asked for.
    """

    def __init__(self, n: int, streams: Streams) -> None:
        self.n = n
        self._whole: np.ndarray | None = None
        if n <= SMALL:
            self._whole = streams(0).permutation(n)
            return
        self._high = isqrt(n - 1) + 1
        self._low = -(-n // self._high)
        self._shifts = [
            streams(k).integers(self._low if k % 2 else self._high, size=self._high if k % 2 else self._low)
            for k in range(ROUNDS)
        ]

    def at(self, positions: np.ndarray) -> np.ndarray:
        """What stands at these positions."""
        if self._whole is not None:
            return np.asarray(self._whole[positions])
        return self._walked(positions, range(ROUNDS), 1)

    def where(self, values: np.ndarray) -> np.ndarray:
        """The positions at which these stand: `where(at(i)) == i`."""
        if self._whole is not None:
            inverse = np.empty_like(self._whole)
            inverse[self._whole] = np.arange(self.n)
            return np.asarray(inverse[values])
        return self._walked(values, range(ROUNDS - 1, -1, -1), -1)

    def _walked(self, numbers: np.ndarray, rounds: range, sign: int) -> np.ndarray:
        found = np.array(numbers, np.int64, order="C")
        flat = found.reshape(-1)
        for start in range(0, flat.size, PIECE):
            part = flat[start : start + PIECE]
            part[...] = self._through(part, rounds, sign)
            while (beyond := np.flatnonzero(part >= self.n)).size:
                part[beyond] = self._through(part[beyond], rounds, sign)
        return found

    def _through(self, numbers: np.ndarray, rounds: range, sign: int) -> np.ndarray:
        high, low = np.divmod(numbers, self._low)
        for k in rounds:
            half, other, size = (low, high, self._low) if k % 2 else (high, low, self._high)
            half += sign * self._shifts[k][other]
            _wrap(half, size, sign)
        found: Any = high * self._low + low
        return np.asarray(found)


def _wrap(numbers: np.ndarray, size: int, sign: int) -> None:
    """Numbers less than one size out of 0..size-1, into it again."""
    if sign > 0:
        np.subtract(numbers, size, out=numbers, where=numbers >= size)
    else:
        np.add(numbers, size, out=numbers, where=numbers < 0)
