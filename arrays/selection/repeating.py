"""`repeat` with a dealt array of counts: each process repeats its own positions of the axis."""

from __future__ import annotations

import numpy as np

from bsp.arrays import build
from bsp.arrays.array import Array
from bsp.arrays.execution.world import world
from bsp.arrays.expressions.layout import ragged
from bsp.arrays.procedures.forecast import procedure
from bsp.arrays.procedures.operands import computed, evened, layout_at, made_of
from bsp.declared import Costs, declares
from bsp.errors import ValueNeeded


def _unknown_length(costs: Costs, array: Array, counts: Array, axis: int) -> Array:
    """Raise ValueNeeded instead of declaring the cost of `repeated`: the result's length depends on values."""
    raise ValueNeeded("repeat: how long the result is follows from the values of `repeats`")


@procedure
@declares(_unknown_length)
def repeated(array: Array, counts: Array, axis: int) -> Array:
    """Repeat position k of an axis counts[k] times.  Collective.

    Cost: one superstep for the lengths, h = p - 1; what brings array and counts into slabs along the axis, if they
    have another layout; and one exchange that evens the result out, if some process has more than twice the mean.
    """
    here = world()
    if not np.can_cast(counts.dtype, np.int64, "safe"):
        raise TypeError(f"Cannot cast array data from {counts.dtype!r} to dtype('int64') according to the rule 'safe'")
    length, p = array.shape[axis], here.nprocs
    slabs = [length * (pid + 1) // p - length * pid // p for pid in range(p)]
    layout, line = ragged(array.shape, axis, slabs), ragged((length,), 0, slabs)
    node, numbers = computed(build.strong(array._node), build.strong(counts._node))
    node = node if layout_at(node) is layout else build.relaid(node, layout)
    numbers = numbers if layout_at(numbers) is line else build.relaid(numbers, line)
    node, numbers = computed(node, numbers)
    (times,) = numbers.value.values()
    (block,) = node.value.values()
    negative = bool((times < 0).any())
    piece = block[:0] if negative else np.repeat(block, times, axis=axis)
    told = here.private.allgather((negative, piece.shape[axis]))
    if any(wrong for wrong, _ in told):
        raise ValueError("repeats may not contain negative values.")
    lengths = [own for _, own in told]
    shape = (*array.shape[:axis], sum(lengths), *array.shape[axis + 1 :])
    target = ragged(shape, axis, lengths)
    return evened(made_of(shape, array.dtype, target, dict.fromkeys(target.mine(here.pid), piece)), axis)
