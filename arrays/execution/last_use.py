"""Arrays that nobody can read after an evaluation: its results may be written over them.

In a loop such as `x = x + a * p; ba.persist(x)`, the old x is referred to by the expression of the new one alone, which
is dropped when the new one is computed.  Python's reference counts show that.  They are those of this process:
whether memory is used again changes no values, plans or supersteps, as in `memory.alone`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection
from functools import cache
from itertools import chain
from sys import getrefcount
from typing import Any, NoReturn

import numpy as np

from bsp.arrays.compiled import capture
from bsp.arrays.errors import ArrayError
from bsp.arrays.expressions.graph import OVERWRITE, ExpressionGraph, Node, kind_of, leaf
from bsp.arrays.expressions.layout import replicated


class Overwritten(dict[Any, Any]):
    """Blocks of a leaf that were written over by a plan that then ended with an error."""

    def __missing__(self, at: Any) -> NoReturn:
        raise ArrayError(
            "an array that this is computed from was being written over when an evaluation was interrupted: compute "
            "it again from what is left, or start anew"
        )


def unread(graph: ExpressionGraph, stored: Collection[Node]) -> list[int]:
    """Return the positions of the leaves that nothing refers to but nodes that will be dropped.

    stored : the nodes that an evaluation turns into leaves, so that they drop their arguments.
    """
    outside, ours = _outside(graph), _ours()
    needed: set[Node] = set()
    for node in reversed(graph.positions):  # users before arguments
        if node not in stored and (node in needed or outside[node] > ours[0]):
            needed.add(node)
            needed.update(node.args)
    return [
        k for k, leaf in enumerate(graph.leaves)
        if leaf not in needed and type(leaf.value) is dict and _references(leaf) <= ours[1]
    ]  # fmt: skip


def _outside(graph: ExpressionGraph) -> dict[Node, int]:
    """Return the references to each node besides those of the graph and of its nodes, and a constant."""
    counts: Counter[Node] = Counter()
    counts.subtract(graph.nodes)
    counts.subtract(graph.leaves)
    counts.subtract(chain.from_iterable(node.args for node in graph.positions))
    for node in graph.positions:  # no other name of this function refers to one
        counts[node] += getrefcount(node)
    return counts


def _references(leaf: Node) -> int:
    return getrefcount(leaf.value)


@cache
def _ours() -> tuple[int, int]:
    """Return what `_outside` and `_references` find for a leaf to which nothing refers but an expression."""
    one = np.dtype(bool)
    graph = capture([Node(OVERWRITE, (leaf((), one, replicated(()), {}),), kind_of((), one))])
    return _outside(graph)[graph.leaves[0]], _references(graph.leaves[0])
