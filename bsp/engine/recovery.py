"""The interface that cloned execution (bsp.faults) gives to an element; the plain engine has none.

An element with a `Recovery` stops at the head of every round of an outermost `rounds` loop, once all
its processes have reached it: there the state of the processes can be captured, or replaced.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

from bsp.values.identity import keeps_identity

if TYPE_CHECKING:
    from bsp.engine.task import Task
    from bsp.rounds import State


@dataclass(slots=True)
class LoopPosition:
    """A process's position in its outermost `rounds` loops."""

    loop: int  # outermost loops entered before
    round: int
    state: State | None
    final: bool  # the loop has ended, or been left
    entry: bool  # this is the first head of the loop
    left: bool = False  # by break or return, or at the end of a function: what follows depends on where
    own: dict[str, Any] = field(default_factory=dict)  # the objects that have stood in `state` since the entry, by name

    def look(self) -> None:
        """Update `own` at a head: at the entry every object stands there, later those that have not been replaced."""
        values = {} if self.state is None else vars(self.state)
        if self.entry:
            self.own = {name: value for name, value in values.items() if keeps_identity(value)}
        else:
            self.own = {name: value for name, value in self.own.items() if values.get(name) is value}


class Recovery(Protocol):
    """The part of cloned execution that an element calls."""

    def head(self, tasks: Sequence[Task]) -> None:
        """Handle a round's head that all processes here have reached; `task.place` holds it.

        If a state has been loaded, it changes the places, and the processes go on from there.
        """

    def once(self, task: Task, call: Callable[[], Any]) -> Any:
        """Return the value of a call that one clone makes for all clones of its process."""

    def lines(self, data: bytes) -> None:
        """Pass on the next text of the program, from element 0."""
