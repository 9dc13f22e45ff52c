"""How far a job has come and how much it has sent, from the elements' reports: what a restart loses."""

from __future__ import annotations

from collections.abc import Collection

from bsp.faults.protocol.messages import AgentReport


class Reach:
    """The latest report of every clone, including clones that have died since."""

    def __init__(self) -> None:
        self._begun: dict[int, dict[int, int]] = {}  # by bundle and element: rounds begun
        self._sent: dict[int, int] = {}  # bytes, by element

    def hear(self, report: AgentReport, over: bool = False) -> None:
        """Record a report.

        A clone that is held at a head has not begun the round that follows.  When all is over (`over`) only the bytes
        sent are recorded, because no clone begins another round.
        """
        self._sent[report.element] = max(report.sent, self._sent.get(report.element, 0))
        if over:
            return
        for said in report.clones:
            self._begun.setdefault(said.bundle, {})[report.element] = said.head + (said.held != said.head)

    @property
    def sent(self) -> int:
        """Bytes that agents have sent to each other; for an agent that was killed, up to its last report."""
        return sum(self._sent.values())

    def lost(self, head: int, living: Collection[int]) -> int:
        """Return the number of rounds to be computed again from the state at `head`, for the bundle that loses most.

        living : elements that are alive.  For a bundle without living clones the reports of the dead ones count.
        The last of these rounds may have been computed in part only.
        """
        lost = 0
        for begun in self._begun.values():
            known = [rounds for element, rounds in begun.items() if element in living] or [*begun.values()]
            lost = max(lost, max(known) - head)
        return lost
