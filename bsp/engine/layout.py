"""Which processes stand on which element."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Layout:
    """Blocks of consecutive pids on each element, as even as can be."""

    nprocs: int
    elements: int

    def pids(self, element: int) -> range:
        """The processes of an element."""
        return range(self.nprocs * element // self.elements, self.nprocs * (element + 1) // self.elements)

    def owners(self) -> list[int]:
        """The element of each process."""
        return [element for element in range(self.elements) for _ in self.pids(element)]
