"""What a runtime that can make a process again (bsp.faults) must be asked for; the plain engine has none.

An element with a `Recovery` stops at the head of every round of an outermost `rounds` loop, once all
its processes stand there: that is where a state can be taken, or put in place.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from bsp.engine.task import Task
    from bsp.rounds import State


@dataclass(slots=True)
class Place:
    """Where a process stands in an outermost loop."""

    loop: int  # outermost loops entered before
    round: int
    state: State | None
    final: bool  # the loop has ended, or been left
    entry: bool


class Recovery(Protocol):
    """The element's way to its agent."""

    def head(self, tasks: Sequence[Task]) -> None:
        """All processes stand at one head (`task.place`); changes the places if a state has been loaded."""

    def once(self, task: Task, call: Callable[[], Any]) -> Any:
        """The value of a call that is made by one clone for all."""

    def lines(self, data: bytes) -> None:
        """The next text of the program, of element 0."""
