"""Words that products of a matrix and a vector move, by process."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from bsp.cost.units import counted


class ProductTraffic(NamedTuple):
    """Traffic of one product of a matrix and a vector, by process, in words of the vector's elements."""

    out: np.ndarray  # words sent
    into: np.ndarray  # words received
    entries: np.ndarray  # of the matrix
    messages: np.ndarray  # processes to which each sends

    @property
    def h(self) -> int:
        """The size of the h-relation: the most words that a process sends or receives."""
        return int(max(self.out.max(initial=0), self.into.max(initial=0)))

    @property
    def words(self) -> int:
        """All words that move."""
        return int(self.out.sum())

    @property
    def balance(self) -> float:
        """The most entries of a process as a multiple of the mean."""
        total = int(self.entries.sum())
        return float(self.entries.max(initial=0) * len(self.entries) / total) if total else 1.0

    def __repr__(self) -> str:
        return (
            f"product on {counted(len(self.out), 'process', 'processes')}: "
            f"h = {counted(self.h, 'word')}, {counted(self.words, 'word')} "
            f"in all, {counted(int(self.messages.max(initial=0)), 'message')} at most from one process, "
            f"{self.balance:.2f} times the mean of entries on the fullest"
        )


class GridTraffic(NamedTuple):
    """Traffic of one product of a matrix that is dealt by two-dimensional blocks: two supersteps."""

    elements: ProductTraffic  # of the vector, to the processes that have entries in their columns
    sums: ProductTraffic  # of products, to the owners of their rows

    @property
    def h(self) -> int:
        """The sum of the sizes of both h-relations."""
        return self.elements.h + self.sums.h

    @property
    def words(self) -> int:
        """All words that move."""
        return self.elements.words + self.sums.words

    @property
    def balance(self) -> float:
        """The most entries of a process as a multiple of the mean."""
        return self.elements.balance

    def __repr__(self) -> str:
        most = int((self.elements.messages + self.sums.messages).max(initial=0))
        return (
            f"product on {counted(len(self.elements.out), 'process', 'processes')} in two supersteps: "
            f"h = {self.elements.h} + "
            f"{counted(self.sums.h, 'word')}, {counted(self.words, 'word')} in all, {counted(most, 'message')} at most "
            f"from one process, {self.balance:.2f} times the mean of entries on the fullest"
        )


def product_traffic(entries: np.ndarray, source: np.ndarray, dest: np.ndarray) -> ProductTraffic:
    """Return the traffic of words that go from `source` to `dest`, one word for each pair of these.

    entries : of the matrix, on each process.
    """
    nprocs = len(entries)
    joined = np.unique(source.astype(np.int64) * nprocs + dest)
    out, into = (np.bincount(end, minlength=nprocs) for end in (source, dest))
    return ProductTraffic(out, into, entries, np.bincount(joined // nprocs, minlength=nprocs))
