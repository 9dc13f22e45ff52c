"""The errors of graph programs."""

from __future__ import annotations

from typing import Any

from bsp.arrays import ArrayError


class GraphError(ArrayError):
    """A mistake in a graph or in a program on it."""


class NegativeCycle(GraphError):
    """A cycle of edges whose lengths sum to less than zero: there are no shortest paths."""

    def __init__(self, cycle: tuple[int, ...]) -> None:
        self.cycle = cycle  # its vertices, in order
        shown = " -> ".join(map(str, (*cycle, cycle[0]) if len(cycle) <= _SHOWN else cycle[:_SHOWN]))
        rest = "" if len(cycle) <= _SHOWN else f" -> ... ({len(cycle)} vertices)"
        super().__init__(f"the edges of the cycle {shown}{rest} sum to less than 0: there are no shortest paths")

    def __reduce__(self) -> Any:
        return NegativeCycle, (self.cycle,)


_SHOWN = 12  # vertices of a cycle in a message
