"""The assignment of processes to elements."""

from __future__ import annotations

from dataclasses import dataclass


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
