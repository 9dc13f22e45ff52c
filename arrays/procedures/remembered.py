"""What procedures have found out about the values of a computed array, kept with it: routes to positions, extremes.

A computed node never changes: to write to an array, or through a view of it, gives the array another node (`views`).
So what is kept with a node stays right, and is released with it.

Whether something is remembered decides how many supersteps a call takes, so it must be the same on all processes.
They run the same lines, and only nodes that are in use are asked, so garbage collection cannot matter.  Under clones,
checkpoints and `--check` nothing is remembered (`Element.recovery`): a process that is made again receives values, not
what earlier rounds have found out about them.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any, NamedTuple

from bsp.arrays.execution.world import world
from bsp.arrays.expressions.graph import Node
from bsp.arrays.procedures.forecast import SAFE

MOST = 4  # findings kept with an array: the newest


class Finding(NamedTuple):
    """Something that follows from the values of some nodes."""

    key: tuple[Any, ...]  # what it is, and the nodes besides the one that keeps it
    value: Any


def recalled(nodes: Sequence[Node], what: Hashable) -> Any:
    """Return what was remembered of computed nodes; None if nothing was.  Local."""
    key = (what, *nodes[1:])
    return next((each.value for each in nodes[0].findings if each.key == key), None)


def remember(nodes: Sequence[Node], what: Hashable, value: Any) -> None:
    """Keep `value`, which is not None, with computed nodes until the first of them goes.  Local.

    Nothing is kept where the arrays are not small beside the memory limit: the choice follows from shapes alone.
    """
    here = world()
    large = here.memory and SAFE * 8 * max(node.kind.size for node in nodes) > here.memory
    if not large and here.task.element.recovery is None:
        nodes[0].findings = (*nodes[0].findings[-(MOST - 1) :], Finding((what, *nodes[1:]), value))
