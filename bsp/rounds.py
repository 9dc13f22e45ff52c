"""The loop `proc.rounds`, at whose heads cloned execution recovers, and the `State` that it carries along."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from types import SimpleNamespace
from typing import TYPE_CHECKING

from bsp.engine.recovery import LoopPosition
from bsp.source import left_in_order

if TYPE_CHECKING:
    from bsp.engine.task import Task


class State(SimpleNamespace):
    """Named values that an iteration carries: `state = bsp.State(beta=np.zeros(3))`, then `state.beta`.

    Given to `proc.rounds`, it is what a clone that takes over receives, together with coarrays, `proc.rng` and the
    inbox: everything else that a round needs of the last one must be an attribute of it.  The values must be picklable
    (CannotMove).  An object that stands here from the loop's entry on stays the same object in such a clone, so other
    variables may refer to it: lists, dictionaries, sets, arrays of numbers that are not slices, distributed arrays of
    which no view has been taken, generators, and objects of classes without `__reduce__` and `__getnewargs__`.
    """


def rounds(task: Task, times: int, state: State | None) -> Iterator[int]:
    """Iterate over range(times); only an outermost loop is a place where cloned execution recovers.

    The place that is passed to `task.stand` is both report and answer: recovery may change its round, so that a clone
    that has just joined skips the rounds that its siblings have finished.
    """
    if task.round is not None:
        yield from range(times)
        return
    recovery = task.element.recovery
    place = LoopPosition(task.loops, 0, state, False, True)
    task.loops += 1
    try:
        while True:
            if recovery is not None:
                place.final = place.round >= times
                place.look()
                task.stand(place)  # may change place.round and place.final
            if place.round >= times or place.final:
                break
            task.round = place.round, times
            yield place.round
            place.round += 1
            place.entry = False
    finally:  # also after a break or return: all processes pass a final head here, too
        task.round = None
        if recovery is not None and not place.final and task.running and left_in_order(sys._getframe(1)):
            place.round, place.final, place.entry, place.left = place.round + 1, True, False, True
            place.look()
            task.stand(place)
