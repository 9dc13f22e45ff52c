"""Many ranges of edges at once, as the rows of a sparse matrix are, and numbers of vertices without repetitions."""

from __future__ import annotations

import numpy as np

_TABLE = 4  # numbers below this many times their count are found by a table, which takes a word for each
_ONE_BY_ONE = 8  # edges of each range that are tried before all others at once


def ranges(begins: np.ndarray, ends: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the numbers from each begin up to each end, one range after another, and their counts."""
    counts = ends - begins
    return np.repeat(begins - (np.cumsum(counts) - counts), counts) + np.arange(counts.sum()), counts


def distinct(numbers: np.ndarray, size: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the distinct ones of some numbers from 0 up to `size`, ascending, and the place of each number there."""
    if size > _TABLE * len(numbers):
        return np.unique(numbers, return_inverse=True)
    there = np.zeros(size, bool)
    there[numbers] = True
    found = np.flatnonzero(there)
    place = np.empty(size, np.int64)
    place[found] = np.arange(len(found))
    return found, place[numbers]


def first_marked(ends: np.ndarray, at: np.ndarray, stop: np.ndarray, marked: np.ndarray) -> np.ndarray:
    """Return for each range of edges the number of the first that has a marked end; -1 where none has.

    ends : of all edges.  at, stop : of each range, which is not empty.
    """
    found, left = np.full(len(at), -1), np.arange(len(at))
    for _ in range(_ONE_BY_ONE):  # most have one among the first
        hit = marked[ends[at]]
        found[left[hit]] = at[hit]
        more = ~hit & (at + 1 < stop)
        left, at, stop = left[more], at[more] + 1, stop[more]
        if not len(left):
            return found
    edges, counts = ranges(at, stop)
    (hits,) = np.nonzero(marked[ends[edges]])
    found[np.repeat(left, counts)[hits[::-1]]] = edges[hits[::-1]]  # of one range the first is written last
    return found
