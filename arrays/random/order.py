"""Random permutations of 0..n-1 of which any part can be computed alone, without a sort and without communication.

Up to SMALL numbers every process shuffles all of them.  Beyond, position i is written as (i // c, i % c) and goes
through ROUNDS of a Feistel network: in turns, one half is shifted by a random function of the other.  That is a
permutation of a·c >= n positions for any functions.  A result of n or more goes through the network again (seldom:
a·c - n < a + c), which leaves a permutation of 0..n-1.  The functions are tables of about sqrt(n) random numbers.

Sources: Luby and Rackoff (SIAM J. Comput. 17, 1988) for networks of random functions; Black and Rogaway (CT-RSA
2002) for halves of any size and for repeating the network.
"""

from __future__ import annotations

from functools import cached_property
from math import isqrt
from typing import Any

import numpy as np

from bsp.arrays.random.tiles import Streams

SMALL = 1 << 16  # up to so many numbers are shuffled as a whole
ROUNDS = 10
PIECE = 1 << 14  # positions computed at a time, so that they stay in the cache


class Permutation:
    """A permutation of 0..n-1 from a draw's streams, the same on every process.

    Cost: O(n) numbers for n <= SMALL, else O(sqrt n), once; then O(1) for each position asked for.
    """

    def __init__(self, n: int, streams: Streams) -> None:
        self.n = n
        self.streams = streams
        if n > SMALL:
            self._high = isqrt(n - 1) + 1
            self._low = -(-n // self._high)

    @cached_property
    def _whole(self) -> np.ndarray | None:
        """The whole permutation if it is short, else None."""
        return self.streams(0).permutation(self.n) if self.n <= SMALL else None

    @cached_property
    def _shifts(self) -> list[np.ndarray]:
        """The random functions of a long permutation, as tables."""
        sizes = [(self._low, self._high) if k % 2 else (self._high, self._low) for k in range(ROUNDS)]
        return [self.streams(k).integers(most, size=size) for k, (most, size) in enumerate(sizes)]

    def at(self, positions: np.ndarray) -> np.ndarray:
        """Return the numbers at these positions of the permutation."""
        if self._whole is not None:
            return np.asarray(self._whole[positions])
        return self._walked(positions, range(ROUNDS), 1)

    def where(self, values: np.ndarray) -> np.ndarray:
        """Return the positions of these numbers in the permutation: `where(at(i)) == i`."""
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
        high = numbers // self._low
        low = numbers - high * self._low
        move, back = (np.add, np.subtract) if sign > 0 else (np.subtract, np.add)
        for k in rounds:
            half, other, size = (low, high, self._low) if k % 2 else (high, low, self._high)
            unsigned = half.view(np.uint64)  # where numbers below 0 are huge: the least of two is the one in range
            move(unsigned, self._shifts[k][other].view(np.uint64), out=unsigned)
            np.minimum(unsigned, back(unsigned, np.uint64(size)), out=unsigned)
        found: Any = high * self._low + low
        return np.asarray(found)
