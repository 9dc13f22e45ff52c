"""The assignment of processes to elements, and the numbers of both that there can be."""

from __future__ import annotations

from dataclasses import dataclass
from numbers import Integral
from typing import Any

from bsp.errors import LaunchError


@dataclass(frozen=True)
class Hosting:
    """An assignment of consecutive pids to each element, in blocks whose sizes differ by one at most."""

    nprocs: int
    elements: int

    def pids(self, element: int) -> range:
        """Return the pids of an element."""
        return range(self.nprocs * element // self.elements, self.nprocs * (element + 1) // self.elements)

    def owners(self) -> list[int]:
        """Return the element of each process, by pid."""
        return [element for element in range(self.elements) for _ in self.pids(element)]


_LEAST = {"nprocs": 1, "elements": 1, "seed": 0, "blas_threads": 1}


def check_numbers(call: str, **given: Any) -> None:
    """Raise LaunchError for an argument of `call` that is neither None, a seed excepted, nor a number it can be."""
    for name, value in given.items():
        if value is None and name != "seed":
            continue
        if not isinstance(value, Integral) or isinstance(value, bool) or value < _LEAST[name]:
            raise LaunchError(f"{call}: {name} = {value!r}; a whole number, {_LEAST[name]} or more")
