"""The phases of a clone, and which phase may follow which.

Every clone is in exactly one phase.  `Member` decides about the next one; `TRANSITIONS` lists what may follow, and
`follow` refuses everything else, so that a decision made in the wrong phase is found where it is made.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum


class ClonePhase(StrEnum):
    """The phase of a clone."""

    JOINING = "joining"  # has no state yet: a sibling's, or one from a checkpoint, is on its way
    REPLAYING = "replaying"  # a new worker runs up to the point that has been reached; it cannot be late
    COMPUTING = "computing"  # its worker computes what no worker of this clone has computed before
    CALLING = "calling"  # its worker waits in proc.once
    WAITING = "waiting"  # its worker waits for the packets of an exchange
    RAISED = "raised"  # its worker has raised an exception that siblings or bsprun must confirm (N12)
    PAUSED = "paused"  # a passive clone that stands at a head
    HELD = "held"  # stands at a head because bsprun holds all clones (N13)
    JUMPING = "jumping"  # stands at a head until a sibling's later state comes (N6)
    ENDED = "ended"  # the program has ended in its worker; packets are still served (N8)
    STOPPED = "stopped"  # its worker has failed too often; bsprun has the clone made anew


_RUNS = frozenset({ClonePhase.REPLAYING, ClonePhase.COMPUTING})
# what a worker that runs can come to
_COMES_TO = frozenset({
    ClonePhase.CALLING, ClonePhase.WAITING, ClonePhase.RAISED, ClonePhase.PAUSED, ClonePhase.HELD, ClonePhase.JUMPING,
    ClonePhase.ENDED,
})  # fmt: skip
# In every phase with a worker, the worker may die: another one replays, or none does after too many.
_DIES = frozenset({ClonePhase.REPLAYING, ClonePhase.STOPPED})

TRANSITIONS: Mapping[ClonePhase, frozenset[ClonePhase]] = {
    ClonePhase.JOINING: frozenset({ClonePhase.REPLAYING}),
    ClonePhase.REPLAYING: _RUNS | _COMES_TO | _DIES,
    ClonePhase.COMPUTING: _RUNS | _COMES_TO | _DIES,
    ClonePhase.CALLING: _RUNS | _DIES,
    ClonePhase.WAITING: _RUNS | _DIES,
    ClonePhase.RAISED: frozenset({ClonePhase.WAITING}) | _DIES,
    ClonePhase.PAUSED: _RUNS | frozenset({ClonePhase.HELD, ClonePhase.JUMPING}) | _DIES,
    ClonePhase.HELD: _RUNS | frozenset({ClonePhase.PAUSED, ClonePhase.JUMPING}) | _DIES,
    ClonePhase.JUMPING: _RUNS | frozenset({ClonePhase.HELD}) | _DIES,
    ClonePhase.ENDED: frozenset(),
    ClonePhase.STOPPED: frozenset(),
}

# the worker's program runs: it can be late, and it can hang
RUNNING = frozenset({ClonePhase.REPLAYING, ClonePhase.COMPUTING, ClonePhase.CALLING})
# the worker stands at a head and waits for the agent's answer
AT_HEAD = frozenset({ClonePhase.PAUSED, ClonePhase.HELD, ClonePhase.JUMPING})


class WrongPhase(Exception):
    """A clone was to enter a phase that cannot follow its present one: a mistake in the protocol."""


def follow(present: ClonePhase, new: ClonePhase) -> ClonePhase:
    """Return the new phase; raise WrongPhase if it may not follow the present one."""
    if new not in TRANSITIONS[present]:
        raise WrongPhase(f"a clone that is {present} cannot be {new} next")
    return new


def table() -> str:
    """Return all transitions as text, a line for each phase."""
    width = max(map(len, ClonePhase))
    return "\n".join(
        f"{phase:<{width}} -> {', '.join(each for each in ClonePhase if each in TRANSITIONS[phase]) or '(the end)'}"
        for phase in ClonePhase
    )
