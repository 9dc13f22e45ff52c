"""An iteration's rounds, and what it carries from one to the next."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from types import SimpleNamespace
from typing import TYPE_CHECKING

from bsp.engine.recovery import Place
from bsp.source import left_in_order

if TYPE_CHECKING:
    from bsp.engine.task import Task


class State(SimpleNamespace):
    """Named values: `state = bsp.State(beta=np.zeros(3))`, then `state.beta`.

    Given to `proc.rounds`, it is what a clone that takes over brings with it, beside coarrays, `proc.rng` and the
    inbox: everything else that a round needs of the last one must stand in it.
    """


def rounds(task: Task, times: int, state: State | None) -> Iterator[int]:
    """range(times); an outermost loop is a place where cloned execution recovers."""
    if task.round is not None:
        yield from range(times)
        return
    recovery = task.element.recovery
    place = Place(task.loops, 0, state, False, True)
    task.loops += 1
    try:
        while True:
            if recovery is not None:
                place.final = place.round >= times
                task.stand(place)  # may move it
            if place.round >= times or place.final:
                break
            task.round = place.round, times
            yield place.round
            place.round += 1
            place.entry = False
    finally:  # also after a break
        task.round = None
        if recovery is not None and not place.final and task.running and left_in_order(sys._getframe(1)):
            place.round, place.final, place.entry = place.round + 1, True, False
            task.stand(place)
