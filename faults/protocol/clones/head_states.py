"""The states of a clone at heads: those from which a new worker starts, and digests for comparison (N10, N11)."""

from __future__ import annotations

from bsp.faults.protocol.clones.votes import KEPT_STATES
from bsp.faults.protocol.messages import Handover, Snapshot


class HeadStates:
    """The newest state of the current loop, the last ones of earlier loops, and those kept for checkpoints."""

    def __init__(self) -> None:
        self.finals: list[Snapshot] = []  # the last states of earlier loops, in their order
        self.newest: Snapshot | None = None  # inside the current loop
        self.head = -1  # the latest head passed, by any worker of the clone
        self.entered = 0  # the first head of the loop that its worker is in
        # ranges of heads [first, last): rounds that every new worker runs again, because their loop was left early
        self.repeats: set[tuple[int, int]] = set()
        self.pins: dict[int, Handover] = {}  # by head: states kept for checkpoints
        self.digests: dict[int, bytes] = {}  # of its latest states, by head
        self.siblings: dict[int, dict[int, bytes]] = {}  # of siblings' states, by head and element

    @property
    def place(self) -> Snapshot | None:
        """The state from which a new worker starts; None: at the beginning of the program."""
        return self.newest or (self.finals[-1] if self.finals else None)

    def keep(self, snapshot: Snapshot) -> bool:
        """Store a state at a later head; return whether it was.

        A state without data, an older one, and one of a loop that has ended (a replay passes such heads) are ignored.
        Of a loop that was left early the last state inside it is kept: a new worker computes from there, and leaves the
        loop where its predecessor did.
        """
        newest = self.newest
        if snapshot.final and snapshot.data is None:
            kept = newest is not None and newest.loop == snapshot.loop
            self.repeats.add((newest.head if newest is not None and kept else self.entered, snapshot.head))
        if snapshot.data is None or (newest is not None and snapshot.exchange < newest.exchange):
            return False
        if newest is not None and newest.loop < snapshot.loop:
            self.finals.append(newest)
            self.repeats.add((newest.head, snapshot.head))
        if snapshot.final:
            if all(final.loop != snapshot.loop for final in self.finals):
                self.finals.append(snapshot)
            self.newest = None
        elif any(final.loop == snapshot.loop for final in self.finals):
            return False  # a replay passes heads that it has passed before
        else:
            self.newest = snapshot
        return True

    def later(self, loop: int, head: int) -> Snapshot | None:
        """Return the latest state of a loop, which a worker at `head` loads; None if there is no later one."""
        known = (*self.finals, *([] if self.newest is None else [self.newest]))
        return next((state for state in known if state.loop == loop and state.head > head), None)

    def note(self, head: int, digest: bytes) -> None:
        """Record the digest of the clone's own state at a head."""
        self.digests[head] = digest
        if len(self.digests) > KEPT_STATES:
            del self.digests[min(self.digests)]

    def hear(self, head: int, element: int, digest: bytes) -> None:
        """Record the digest of a sibling's state at a head."""
        self.siblings.setdefault(head, {})[element] = digest
        if len(self.siblings) > KEPT_STATES:
            del self.siblings[min(self.siblings)]
