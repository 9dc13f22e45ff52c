"""Calls of proc.once in a simulated job: no two elements make one at the same time, and none without the right to."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from bsp.faults.protocol.messages import Token


class Caller(NamedTuple):
    """A worker that makes a call."""

    element: int
    bundle: int
    life: int


class OnceCalls:
    """The calls that have been made, those that are being made, and to whom bsprun gave the latest permission."""

    def __init__(self, acts: Callable[[Caller], bool], wrong: list[str]) -> None:
        """Create an empty record.

        acts : returns whether a worker is still there, and can act.  wrong : violations are appended to it.
        """
        self._acts, self._wrong = acts, wrong
        self.made: dict[Token, int] = {}  # how often each call was begun
        self._permitted: dict[Token, int] = {}  # element with the latest permission
        self._open: dict[Token, set[Caller]] = {}  # calls that have not returned

    def permit(self, token: Token, element: int) -> None:
        """Record that bsprun gives an element permission: no other may be at the call now, nor begin it later."""
        self._permitted[token] = element
        for caller in self._open.get(token, ()):
            if caller.element != element and self._acts(caller):
                self._wrong.append(f"element {element} may make call {token} while element {caller.element} makes it")

    def begin(self, token: Token, caller: Caller) -> None:
        """Record that a worker begins a call."""
        self.made[token] = self.made.get(token, 0) + 1
        self._open.setdefault(token, set()).add(caller)
        self._check(token, caller)

    def end(self, token: Token, caller: Caller) -> None:
        """Record that a call has returned."""
        self._open.get(token, set()).discard(caller)

    def resumed(self, element: int) -> None:
        """Check the calls of an element that has been stopped, and has looked at its clock again."""
        for token, callers in self._open.items():
            for caller in callers:
                if caller.element == element and self._acts(caller):
                    self._check(token, caller)

    def _check(self, token: Token, caller: Caller) -> None:
        """Find a call that another element has been permitted to make since."""
        permitted = self._permitted.get(token, caller.element)
        if permitted != caller.element:
            self._wrong.append(f"element {caller.element} makes call {token}, which element {permitted} may make now")
