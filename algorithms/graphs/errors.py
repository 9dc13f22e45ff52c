"""The errors of graph programs."""

from __future__ import annotations

from bsp.arrays import ArrayError


class GraphError(ArrayError):
    """A mistake in a graph or in a program on it."""


class NegativeCycle(GraphError):
    """A cycle of edges whose lengths sum to less than zero: there are no shortest paths."""
