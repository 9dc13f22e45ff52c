"""Reports, in which an element sends its whole state to bsprun each time (rule N14)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

from bsp.faults.protocol.messages.packets import Token


class Progress(NamedTuple):
    """The state of one clone as its element reports it to bsprun."""

    bundle: int
    since: int
    joined: bool  # has received the state and has continued from it
    holds: bool  # has received the complete state: the clone could continue as the last of its bundle (N5)
    exchange: int  # the next exchange that it announces
    superstep: int
    head: int  # the latest head passed
    held: int | None  # head at which a hold stops it; if it waits in an exchange during a hold, its next head (N13)
    raised: tuple[int, bytes] | None  # the program raised an exception: (exchange, digest) (N12)
    ended: bytes | None  # the program has ended: `Ended.digest`
    failing: str | None  # the reason why the clone cannot continue on this element
    stale: bool  # a sibling's state would repair what `failing` names
    said: int  # bytes of standard output written here; bundle 0 only
    once: tuple[Token, int, bytes | None] | None  # waits in proc.once: token, life, result if it has called
    tails: int  # how often the clone was late (N2)
    pins: tuple[int, ...]  # heads whose state is kept for a checkpoint
    parts: tuple[tuple[int, Any], ...]  # parts of checkpoints written: (head, the writer's result)
    given: int = 0  # bytes of the sibling's state from which the clone started
    again: int = 0  # rounds computed between that state and joining
    restarts: int = -1  # no worker here will run rounds before this head again, but for those in `repeats`
    repeats: tuple[tuple[int, int], ...] = ()  # see Clone.repeats
    line: str = ""  # the program's at which its worker waits, or did last
    waits_for: tuple[int, ...] = ()  # the bundles whose packets its worker waits for
    seconds: float = 0.0  # that its worker has waited, or computed
    phase: str = ""  # see clones/phases.py
    calls: bool = False  # its worker has permission to make the call that `once` names


class Divergence(NamedTuple):
    """A difference between clones of one bundle: in the bytes of an exchange, or in the states at a head (N11)."""

    bundle: int
    exchange: int  # if negative, the difference is between states, and -1 - exchange is the head
    superstep: int
    votes: tuple[tuple[int, bytes], ...]  # (element, digest); -1 - element: a later, different digest of the same clone


@dataclass(frozen=True, slots=True)
class AgentReport:
    """The state of an element, as it sends it to bsprun (N14)."""

    element: int
    view: int
    clones: tuple[Progress, ...]
    divergences: tuple[Divergence, ...] = ()
    overdue: tuple[tuple[int, int], ...] = ()  # (bundle, element) of clones for which too many bytes are retained
    number: int = 0  # a larger number is newer; 0: not numbered
    sent: int = 0  # bytes sent to other elements
    paused: float = 0.0  # seconds: the element's longest recent pause (N3)
    leaving: str = ""  # why it is to leave; empty: it is not (N15)
    kept: tuple[Token, ...] = ()  # values of proc.once and proc.time that bsprun had it keep lately (N16)
