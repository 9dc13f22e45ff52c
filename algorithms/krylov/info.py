"""The second result of an iterative solver: scipy's integer, which also knows the iterations done."""

from __future__ import annotations

from typing import Self


class Info(int):
    """0 if the solution is good, else what the solver says of its end, as in scipy; `iterations` counts either way.

    A count kept by a `callback` is the program's own: a process that is made again elsewhere has lost it.
    """

    iterations: int

    def __new__(cls, value: int, iterations: int) -> Self:
        """Return `value` as an integer with a number of iterations."""
        info = super().__new__(cls, value)
        info.iterations = iterations
        return info

    @classmethod
    def of(cls, good: bool, iterations: int) -> Self:
        """Return 0 if the solution is good, else the iterations; -1 if it is not and none could be done."""
        return cls(0 if good else iterations or -1, iterations)

    def __reduce__(self) -> tuple[type[Info], tuple[int, int]]:
        """Return what pickle makes the same object of."""
        return type(self), (int(self), self.iterations)
