"""What the passes of `--check` tell each other: plain data, by superstep, process and loop.

Loops are outermost `proc.rounds` loops, numbered as they are entered.  Each is looked at in three
places: at its "entry", at the head of one round ("kept", drawn from the job's seed), and at its "end".
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from typing import Any

from bsp.errors import Undeclared

Key = tuple[int, str, int]  # loop, place, pid
ENTRY, KEPT, END = "entry", "kept", "end"
RECORD, TURNS, AGAIN = "record", "turns", "again"  # passes; the others make processes again, at KEPT and at END
MOST_LOOPS = 16  # that are rehearsed; a program with more of them runs the others as ever


@dataclass
class Head:
    """A loop as the first pass has found it."""

    line: str  # "solver.py:12"
    kept: int | None = None  # the round whose head is rehearsed; None if there was only one
    left: str | None = None  # the line of the `return` that has left it
    rounds: int = 0  # heads that were reached after the entry, the end included

    def place(self, which: str) -> str:
        """Where a process is made again, in words."""
        if which == KEPT:
            return f"at the head of round {self.kept} of the loop at {self.line}"
        return f"at the end of the loop at {self.line}"


@dataclass
class Record:
    """One pass."""

    digests: dict[tuple[int, int], bytes] = field(default_factory=dict)  # by (superstep, pid)
    once: dict[tuple[int, ...], bytes] = field(default_factory=dict)  # by pid, place, how many there
    clocks: dict[int, float] = field(default_factory=dict)  # by superstep
    loops: dict[int, Head] = field(default_factory=dict)
    variables: dict[Key, dict[str, bytes]] = field(default_factory=dict)  # fingerprints by name
    states: dict[Key, tuple[int, int, Any]] = field(default_factory=dict)  # superstep, round, what `capture` gives
    changed: dict[Key, list[str]] = field(default_factory=dict)  # in words: what a newcomer may be missing
    watched: dict[int, tuple[str, dict[str, tuple[str, bytes]]]] = field(default_factory=dict)  # see Checker.watch

    def merge(self, other: Record) -> None:
        """What another element has recorded in the same pass."""
        for name, values in vars(self).items():
            values.update(getattr(other, name))

    def joins(self, which: str, nprocs: int) -> list[int]:
        """The loops where every process can be made again."""
        return [k for k in self.loops if all((k, which, pid) in self.states for pid in range(nprocs))]

    def differs(self, other: Record) -> tuple[int, int] | None:
        """The first (superstep, pid) in which two passes do not do the same."""
        both = (key for key in sorted(self.digests) if other.digests.get(key) not in (None, self.digests[key]))
        return next(both, None)


def draw(seed: int, loop: int) -> random.Random:
    """The chances by which a loop's head is drawn: the same in every run and on every element."""
    return random.Random(f"{seed} {loop}")


def undeclared(record: Record, which: str, loops: list[int], pid: int, what: str) -> Undeclared:
    """A process that was made again in these loops goes another way; what it may have been missing."""
    named = [loop for loop in loops if record.changed.get((loop, which, pid))]
    if not loops:
        return Undeclared(f"process {pid}, made again, {what}")
    loop = named[-1] if named else loops[-1]
    head = record.loops[loop]
    if named:
        names = listed(record.changed[loop, which, pid])
        why = f"it has {names} as before the loop; put it into the bsp.State that proc.rounds is given"
    elif which == END and head.left is not None:
        why = (
            f"the loop was left by the return at {head.left}, but that process goes on behind the loop; "
            "leave it by break, with what is returned in the bsp.State"
        )
    else:
        why = (
            "something that rounds change (in a module, a closure, an object) is not in the bsp.State "
            "that proc.rounds is given"
        )
    return Undeclared(f"process {pid}, made again {head.place(which)}, {what}: {why}")


def listed(names: list[str]) -> str:
    """`a`, `a and b`, `a, b and c`."""
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"
