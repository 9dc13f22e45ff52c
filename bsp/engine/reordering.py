"""Other orders: in which the processes of an element take their turns, and in which what they have sent is applied.

Turns.  The result of a program depends on them only if its processes share something that is not the runtime's, a
module or a file (Xu's reduction theorem, section 4.3).  Arrivals.  Puts to one place, and messages, are applied in the
order of (source pid, issue order), which D1 and D2 promise; in another order of the sources a program that needs that
promise does something else.  `--check` takes turns in another order, `bsp.verify` tries both.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import TYPE_CHECKING, TypeVar

from bsp.values.effects import Effect, Get, Row, Send

if TYPE_CHECKING:
    from bsp.engine.task import Task

_T = TypeVar("_T")


class Reordering:
    """An order that differs from the usual one in every superstep: its reverse, or drawn from a seed.

    meetings : whether two processes have sent to one, or put into the memory of one, in the same superstep.
    """

    def __init__(self, seed: int | None = None, turns: bool = True, arrivals: bool = False) -> None:
        self._draws = None if seed is None else random.Random(seed)
        self._turns, self._arrivals = turns, arrivals
        self.meetings = False

    def turns(self, running: Sequence[Task]) -> list[Task]:
        """Return the processes in the order of their next turns."""
        return self._reordered(running) if self._turns else list(running)

    def arrivals(self, effects: list[Effect]) -> list[Effect]:
        """Return a superstep's effects, given in the order of D1: those of the user's own calls by other sources first.

        What one process has sent keeps its order.
        """
        senders: dict[int, set[int]] = {}
        for effect in effects:
            if effect.context == 0 and not isinstance(effect, Get | Row):
                for dest in effect.dests if isinstance(effect, Send) else (effect.dest,):
                    senders.setdefault(dest, set()).add(effect.source)
        self.meetings = self.meetings or any(len(sources) > 1 for sources in senders.values())
        if not self._arrivals:
            return effects
        order = self._reordered(sorted({effect.source for effect in effects}))
        rank = {source: k for k, source in enumerate(order)}
        own = sorted((each for each in effects if each.context == 0), key=lambda each: rank[each.source])
        return [*own, *(each for each in effects if each.context)]

    def _reordered(self, given: Sequence[_T]) -> list[_T]:
        if self._draws is None:
            return list(given)[::-1]
        found = list(given)
        self._draws.shuffle(found)
        return found
