"""How far a job has come and what it has sent, as bsprun has heard: what a restart from an earlier head loses."""

from __future__ import annotations

from collections.abc import Collection

from bsp.faults.protocol.messages import Report


class Reach:
    """The latest word of every clone, also of those that are dead since."""

    def __init__(self) -> None:
        self._begun: dict[int, dict[int, int]] = {}  # by bundle and element: rounds begun
        self._sent: dict[int, int] = {}  # bytes, by element

    def hear(self, report: Report, over: bool = False) -> None:
        """Who is held at a head has not begun the round behind it; nobody begins one when all is over."""
        self._sent[report.element] = max(report.sent, self._sent.get(report.element, 0))
        if over:  # who is held no longer goes
            return
        for said in report.clones:
            self._begun.setdefault(said.bundle, {})[report.element] = said.head + (said.held != said.head)

    @property
    def sent(self) -> int:
        """Bytes that agents have sent each other; of one that was killed, up to its last word."""
        return sum(self._sent.values())

    def lost(self, head: int, living: Collection[int]) -> int:
        """Rounds to be computed again from the state at `head`: of a bundle without living clones, what the dead had.

        The last of them may have been computed in part only.
        """
        lost = 0
        for begun in self._begun.values():
            known = [rounds for element, rounds in begun.items() if element in living] or [*begun.values()]
            lost = max(lost, max(known) - head)
        return lost
