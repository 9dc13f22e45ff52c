"""The least and the greatest element of arrays of integers: told once, then kept with them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from bsp.arrays.execution.world import World
from bsp.arrays.expressions.graph import Node
from bsp.arrays.procedures.operands import layout_at, told
from bsp.arrays.procedures.remembered import recalled, remember

LARGEST = int(np.iinfo(np.int64).max)  # that is told: there are no arrays of so many elements


def extremes(here: World, nodes: Sequence[Node]) -> list[tuple[int, int]]:
    """Return the least and the greatest element, LARGEST at most, of computed arrays of integers; (0, -1) of none.

    Collective.

    Cost: one superstep, h = 2(p - 1) for each array that it was not called for before; nothing if there is none, and
    nothing for an array that every process has.
    """
    found: dict[Node, tuple[int, int]] = {}
    asked = []
    for node in dict.fromkeys(nodes):
        ends: tuple[int, int] | None = recalled([node], "extremes")
        if ends is None and layout_at(node).replicated and not here.abstract:
            ends = _ends(node.value.values())
        if ends is None:
            asked.append(node)
        else:
            found[node] = ends
    if asked and here.abstract:
        told(here, "extremes", here.empty((2 * len(asked),), np.dtype(np.int64)))
        found.update(dict.fromkeys(asked, (0, -1)))
    elif asked:
        own = np.array([_ends(node.value.values()) for node in asked], np.int64)
        every = np.stack(told(here, "extremes", own))
        for k, node in enumerate(asked):
            some = every[every[:, k, 0] <= every[:, k, 1], k]
            found[node] = (int(some[:, 0].min()), int(some[:, 1].max())) if len(some) else (0, -1)
    for node in asked:
        remember([node], "extremes", found[node])
    return [found[node] for node in nodes]


def _ends(blocks: Iterable[Any]) -> tuple[int, int]:
    """The least and the greatest element of some blocks; LARGEST if it is larger."""
    ends = [tuple(min(int(end), LARGEST) for end in (block.min(), block.max())) for block in blocks if block.size]
    return (min(low for low, _ in ends), max(high for _, high in ends)) if ends else (0, -1)
