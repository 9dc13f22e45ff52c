"""Compact encoding of ascending positions, which a process sends along with the elements it takes from there.

The high bits of m places below n are sent as a bitmap with one bit for each place and one for each step of the high
part; the low bits, about log2(n/m) of each place, are sent as they are (Elias 1974, Fano 1971).  That is about
2 + log2(n/m) bits a place, half a bit more than any encoding of m places out of n needs.
"""

from __future__ import annotations

import numpy as np


def _low_bits(count: int, bound: int) -> int:
    """Return how many low bits of each place are sent as they are."""
    return max(0, (bound // max(count, 1)).bit_length() - 1)


def packed_size(count: int, bound: int) -> int:
    """Return the number of bytes that `packed` takes for `count` places below a bound."""
    if not count:
        return 0
    low = _low_bits(count, bound)
    return -(-count * low // 8) + -(-(count + (bound >> low) + 1) // 8)


def packed(places: np.ndarray, bound: int) -> np.ndarray:
    """Encode ascending, different places below a bound as bytes (uint8)."""
    count = places.size
    if not count:
        return np.empty(0, np.uint8)
    low = _low_bits(count, bound)
    bits = np.empty((count, low), np.uint8)
    for k in range(low):
        bits[:, k] = (places >> k) & 1
    steps = np.zeros(count + (bound >> low) + 1, np.uint8)
    steps[(places >> low) + np.arange(count)] = 1
    return np.concatenate([np.packbits(bits), np.packbits(steps)])


def unpacked(message: np.ndarray, count: int, bound: int) -> np.ndarray:
    """Decode the places that `packed` encoded, as int64."""
    if not count:
        return np.empty(0, np.int64)
    low = _low_bits(count, bound)
    split = -(-count * low // 8)
    steps = np.unpackbits(message[split:])
    places = (np.flatnonzero(steps) - np.arange(count)) << low
    bits = np.unpackbits(message[:split], count=count * low).reshape(count, low)
    for k in range(low):
        places |= bits[:, k].astype(np.int64) << k
    return places
