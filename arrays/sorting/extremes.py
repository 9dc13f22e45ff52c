"""The least and the greatest element of arrays of integers, exchanged once and then remembered with each array."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from bsp.arrays.execution.world import World
from bsp.arrays.expressions.graph import Node
from bsp.arrays.procedures.operands import layout_at, told
from bsp.arrays.procedures.remembered import recalled, remember
from bsp.declared import Reported, declares

LARGEST = int(np.iinfo(np.int64).max)  # larger elements are sent as this; no array has so many elements


def extremes(here: World, nodes: Sequence[Node]) -> list[tuple[int, int]]:
    """Return the least and the greatest element of each computed array of integers; (0, -1) for an empty array.

    Collective.  Both are LARGEST at most.

    Cost: one superstep, h = 2(p - 1) for each dealt array that has not been asked about before; no superstep if there
    is no such array.
    """
    found: dict[Node, tuple[int, int]] = {}
    asked = []
    for node in dict.fromkeys(nodes):
        ends: tuple[int, int] | None = recalled([node], "extremes")
        if ends is None and layout_at(node).replicated:
            ends = _ends(node.value.values())
        if ends is None:
            asked.append(node)
        else:
            found[node] = ends
    for node, ends in zip(asked, _agreed(here, asked) if asked else (), strict=True):
        remember([node], "extremes", ends)
        found[node] = ends
    return [found[node] for node in nodes]


def _agreed_cost(costs: Reported, here: World, nodes: Sequence[Node]) -> list[tuple[int, int]]:
    """Declare the cost of `_agreed`; return the answer for empty arrays."""
    costs.tell("extremes", costs.memory((2 * len(nodes),), np.dtype(np.int64)))
    return [(0, -1)] * len(nodes)


@declares(_agreed_cost)
def _agreed(here: World, nodes: Sequence[Node]) -> list[tuple[int, int]]:
    """Return the least and the greatest element of each dealt array.  Collective: one superstep."""
    own = np.array([_ends(node.value.values()) for node in nodes], np.int64)
    every = np.stack(told(here, "extremes", own))
    some = [every[every[:, k, 0] <= every[:, k, 1], k] for k in range(len(nodes))]
    return [(int(each[:, 0].min()), int(each[:, 1].max())) if len(each) else (0, -1) for each in some]


@declares(lambda costs, blocks: (0, -1))
def _ends(blocks: Iterable[Any]) -> tuple[int, int]:
    """Return the least and the greatest element of some blocks, each at most LARGEST; (0, -1) without elements."""
    ends = [tuple(min(int(end), LARGEST) for end in (block.min(), block.max())) for block in blocks if block.size]
    return (min(low for low, _ in ends), max(high for _, high in ends)) if ends else (0, -1)
