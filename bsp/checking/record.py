"""Records that the passes of `--check` hand to each other: plain data, by superstep, process and loop.

Loops are outermost `proc.rounds` loops, numbered in the order in which they are entered.  Each is examined at three
places: at its "entry", at the head of one round ("kept", drawn from the job's seed), and at its "end".
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from typing import Any

from bsp.errors import Undeclared

Key = tuple[int, str, int]  # loop, place, pid
ENTRY, KEPT, END = "entry", "kept", "end"
RECORD, TURNS, AGAIN = "record", "turns", "again"  # passes; two more, KEPT and END, make processes again there
MOST_LOOPS = 16  # loops that are rehearsed; further loops of a program run as usual


@dataclass
class LoopHead:
    """A loop, as the first pass has run it."""

    line: str  # "solver.py:12"
    kept: int | None = None  # the round whose head is rehearsed; None if there was only one
    left: str | None = None  # the line of the `return` that left the loop, if one did
    rounds: int = 0  # heads reached after the entry, including the end

    def place(self, which: str) -> str:
        """Return in words where in this loop a process is made again."""
        if which == KEPT:
            return f"at the head of round {self.kept} of the loop at {self.line}"
        return f"at the end of the loop at {self.line}"


@dataclass
class Record:
    """Everything that one pass records."""

    digests: dict[tuple[int, int], bytes] = field(default_factory=dict)  # by (superstep, pid)
    once: dict[tuple[int, ...], bytes] = field(default_factory=dict)  # by pid, place, count there
    clocks: dict[int, float] = field(default_factory=dict)  # agreed times, by superstep
    loops: dict[int, LoopHead] = field(default_factory=dict)
    variables: dict[Key, dict[str, bytes]] = field(default_factory=dict)  # fingerprints by name
    # superstep, round, result of `capture`, fingerprints of the State's attributes
    states: dict[Key, tuple[int, int, Any, dict[str, bytes | None]]] = field(default_factory=dict)
    ended: dict[tuple[int, int], dict[str, bytes | None]] = field(default_factory=dict)  # likewise, by (loop, pid)
    changed: dict[Key, list[str]] = field(default_factory=dict)  # in words: names that a newcomer may lack
    watched: dict[int, tuple[str, dict[str, tuple[str, bytes]]]] = field(default_factory=dict)  # see Checker.watch

    def merge(self, other: Record) -> None:
        """Add what another element has recorded in the same pass."""
        for name, values in vars(self).items():
            values.update(getattr(other, name))

    def joins(self, which: str, nprocs: int) -> list[int]:
        """Return the loops in which the states of all processes are recorded, so that they can be made again."""
        return [k for k in self.loops if all((k, which, pid) in self.states for pid in range(nprocs))]

    def differs(self, other: Record) -> tuple[int, int] | None:
        """Return the first (superstep, pid) whose digests differ between two passes; None if there is none."""
        both = (key for key in sorted(self.digests) if other.digests.get(key) not in (None, self.digests[key]))
        return next(both, None)


def draw(seed: int, loop: int) -> random.Random:
    """Return the generator that draws the kept head of a loop: the same in every run and on every element."""
    return random.Random(f"{seed} {loop}")


def undeclared(record: Record, which: str, loops: list[int], pid: int, what: str) -> Undeclared:
    """Return the error for a process that was made again and then behaved differently; it suggests what may be missing.

    record : the reference pass.  which : KEPT or END, where processes were made again.  loops : the loops in which they
    were.  what : in words, the difference.
    """
    named = [loop for loop in loops if record.changed.get((loop, which, pid))]
    if not loops:
        return Undeclared(f"process {pid}, made again, {what}")
    loop = named[-1] if named else loops[-1]
    head = record.loops[loop]
    if named:
        names = listed(record.changed[loop, which, pid])
        why = (
            f"it has {names} as before the loop; put it into the bsp.State that proc.rounds is given, and use it there"
        )
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
    """Return names as a list in words: `a`, `a and b`, `a, b and c`."""
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"
