"""Distributions: how the processes' local data represent global data, and the laws that they must obey.

A distribution takes a process's part of a global value, and puts parts back into one.  Neither communicates: they only
relate representations (Xu, section 3.3.5).  Laws: taking leaves the global value alone; putting all parts back gives
it again, in whatever order the processes come.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable
from numbers import Complex
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from bsp.verify.polynomials import NeedsValue

_COMPLEX = (complex, np.complexfloating)


class Unlawful(AssertionError):
    """A distribution that breaks one of its laws, or local data that represent nothing."""


class NoAxis(ValueError):
    """A distribution along the first axis was given a value without axes."""


class Distribution:
    """A distribution of arrays along their first axis, given by the positions of each process.

    positions : (length, pid, nprocs) to the positions, in ascending order, that the process has.
    """

    def __init__(self, positions: Callable[[int, int, int], Any], name: str = "a distribution") -> None:
        self._positions = positions
        self.name = name

    def __repr__(self) -> str:
        return self.name

    def take(self, whole: ArrayLike, pid: int, nprocs: int) -> Any:
        """Return a process's part of a global value; a copy."""
        array = np.asarray(whole)
        return array[self._at(array, pid, nprocs)].copy()

    def put(self, whole: np.ndarray, part: ArrayLike, pid: int, nprocs: int) -> None:
        """Write a process's part into a global array of the right shape."""
        at = self._at(whole, pid, nprocs)
        given = np.asarray(part)
        if given.shape != whole[at].shape:
            raise Unlawful(f"process {pid} returned shape {given.shape}; its part by {self} has {whole[at].shape}")
        whole[at] = given

    def _at(self, whole: np.ndarray, pid: int, nprocs: int) -> Any:
        if not whole.ndim:
            raise NoAxis(f"{self} distributes arrays along their first axis; a scalar has none")
        return self._positions(len(whole), pid, nprocs)


def Blocks() -> Distribution:
    """Return the distribution in ranges of about equal length, in the order of processes."""
    return Distribution(lambda n, pid, p: slice(n * pid // p, n * (pid + 1) // p), "Blocks()")


def Cyclic() -> Distribution:
    """Return the distribution in turn: process k has positions k, k + p, k + 2p, ..."""
    return Distribution(lambda n, pid, p: slice(pid, None, p), "Cyclic()")


class Everywhere(Distribution):
    """The distribution of values that every process has whole; the copies must agree."""

    def __init__(self) -> None:
        super().__init__(lambda n, pid, p: slice(None), "Everywhere()")

    def take(self, whole: ArrayLike, pid: int, nprocs: int) -> Any:
        """Return a copy of the whole."""
        return whole.copy() if isinstance(whole, np.ndarray) else copy.deepcopy(whole)

    def put(self, whole: np.ndarray, part: ArrayLike, pid: int, nprocs: int) -> None:
        """Write the whole; processes with other values write over it, which is seen as a difference."""
        given = np.asarray(part)
        if given.shape != whole.shape:
            raise Unlawful(f"process {pid} returned shape {given.shape}; the specification has {whole.shape}")
        whole[...] = given


class OnRoot(Everywhere):
    """The distribution of values that one process has; the others have None."""

    def __init__(self, root: int = 0) -> None:
        super().__init__()
        self.root, self.name = root, f"OnRoot({root})"

    def take(self, whole: ArrayLike, pid: int, nprocs: int) -> Any:
        """Return a copy of the whole, or None."""
        return super().take(whole, pid, nprocs) if pid == self.root else None

    def put(self, whole: np.ndarray, part: ArrayLike, pid: int, nprocs: int) -> None:
        """Write the whole, if the process is the root."""
        if pid == self.root:
            super().put(whole, part, pid, nprocs)


def collected(by: Distribution, parts: list[Any], like: Any) -> np.ndarray:
    """Return the global array of all parts, of the shape of `like`.

    Raises Unlawful if two processes have different values of an element, or some element is no process's.
    """
    wanted = np.asarray(like)
    whole = np.full(wanted.shape, _Unwritten, object)
    for pid, part in enumerate(parts):
        before = whole.copy()
        by.put(whole, part, pid, len(parts))
        changed = differences(before, whole) & ~_unwritten(before)
        if changed.any():  # each process is compared with those before it: the last one hides none
            at = tuple(int(k) for k in np.argwhere(changed)[0])
            where = f"element {list(at)} of the result" if at else "the result"
            raise Unlawful(
                f"{where} is {plain(before[at])!r} on a process before process {pid} and {plain(whole[at])!r} on "
                f"process {pid}: by {by} they must agree"
            )
    missing = _unwritten(whole)
    if missing.any():
        at = tuple(int(k) for k in np.argwhere(missing)[0])
        raise Unlawful(f"element {list(at)} of the result is no process's by {by}")
    return whole


def plain(value: Any) -> Any:
    """Return an array or number of NumPy as Python's lists and numbers, for messages; anything else as it is."""
    return value.tolist() if isinstance(value, (np.ndarray, np.generic)) else value


def same(a: Any, b: Any) -> bool:
    """Return whether two elements are equal, polynomials for all values.

    NaN equals NaN; complex numbers are compared part by part.
    """
    try:
        if a == b:
            return True
    except NeedsValue:  # polynomials that are equal for some values at most
        return False
    if isinstance(a, _COMPLEX) or isinstance(b, _COMPLEX):
        return isinstance(a, Complex) and isinstance(b, Complex) and bool(same(a.real, b.real) and same(a.imag, b.imag))
    return bool(a != a and b != b)


def differences(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Return where two arrays of one shape have elements that are not the same."""
    found = [not same(x, y) for x, y in zip(a.reshape(-1), b.reshape(-1), strict=True)]
    return np.array(found, bool).reshape(a.shape)


class _Unwritten:
    """The value of elements that no process has written."""


def _unwritten(whole: np.ndarray) -> np.ndarray:
    """Return which elements no process has written."""
    return np.array([each is _Unwritten for each in whole.reshape(-1)], bool).reshape(whole.shape)


def lawful(by: Distribution, lengths: Iterable[int] = range(8), nprocs: Iterable[int] = range(1, 6)) -> None:
    """Check the laws of a distribution for small lengths and numbers of processes; raise Unlawful for the first breach.

    Round trip: putting back what all processes have taken gives the global value.  Taking leaves it alone.  The order
    in which processes put does not matter.
    """
    counts = list(nprocs)
    for n in lengths:
        for p in counts:
            whole = np.arange(n * 2).reshape(n, 2) + 1
            kept = whole.copy()
            parts = [by.take(whole, pid, p) for pid in range(p)]
            where = f"for {n} elements on {p} processes"
            if (whole != kept).any():
                raise Unlawful(f"{by}: taking a part changes the global value, {where}")
            try:
                again = collected(by, parts, whole)
            except Unlawful as wrong:
                raise Unlawful(f"{by}, {where}: {wrong}") from None
            if (again != whole).any():
                raise Unlawful(f"{by}: putting the parts back does not give the global value, {where}")
