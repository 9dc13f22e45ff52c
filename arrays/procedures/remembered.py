"""Findings of procedures about the values of a computed array, kept with it: routes to positions, extremes.

A computed node never changes: to write to an array, or through a view of it, gives the array another node (`views`).
So a finding kept with a node stays valid, and is released with it.

Whether a finding is remembered decides how many supersteps a call takes, so it must be the same on all processes.  It
is: they run the same lines, and findings are read only from nodes in use, so garbage collection cannot matter.  Under
clones, checkpoints and `--check` nothing is remembered (`Element.recovery`): a restored process receives values, not
the findings of earlier rounds.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any, NamedTuple

from bsp.arrays.execution.world import world
from bsp.arrays.expressions.graph import Node
from bsp.arrays.procedures.forecast import SAFE

MOST = 4  # findings kept with an array; older ones are dropped


class Finding(NamedTuple):
    """A value that follows from the values of some nodes."""

    key: tuple[Any, ...]  # the kind of finding, and the nodes other than the one that keeps it
    value: Any


def recalled(nodes: Sequence[Node], what: Hashable) -> Any:
    """Return the remembered finding of computed nodes; None if there is none.  Local."""
    key = (what, *nodes[1:])
    return next((each.value for each in nodes[0].findings if each.key == key), None)


def remember(nodes: Sequence[Node], what: Hashable, value: Any) -> None:
    """Keep `value`, which must not be None, with computed nodes, until the first of them is released.  Local.

    Nothing is kept where the arrays are not small beside the memory limit: the choice follows from shapes alone.
    """
    here = world()
    large = here.memory and SAFE * 8 * max(node.kind.size for node in nodes) > here.memory
    if not large and here.task.element.recovery is None:
        nodes[0].findings = (*nodes[0].findings[-(MOST - 1) :], Finding((what, *nodes[1:]), value))
