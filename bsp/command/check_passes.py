"""The passes of `bsprun --check`: jobs that run one after the other, and the causes of their differences.

The first pass runs the processes in the order of their pids, the second in a random order with other hashes.  If the
program has `proc.rounds` loops, two more passes make its processes anew at the heads of rounds.  If the second pass
differs from the first, further passes find the cause:

1. If the first pass, repeated, differs from itself, the cause is randomness or the clock.
2. If it differs only with other hashes, the cause is the order of a set.
3. Otherwise the cause is the order of turns.

Every pass reads a file that is the standard input from its start.  A pipe or a terminal could be read by one pass only,
and the others would differ from it: a program that reads it raises NoInput.
"""

from __future__ import annotations

import os
import pickle
import stat
from contextlib import suppress
from dataclasses import replace

from bsp.checking.record import AGAIN, END, KEPT, RECORD, TURNS, Record, undeclared
from bsp.command.launch import Launch, Outcome, one_pass
from bsp.errors import CollectiveMistake, Nondeterminism

_CLOCKS = ("time", "perf_counter", "monotonic", "clock", "now(", "today(")
_CLEAR = ("bsprun: Undeclared", "bsprun: CannotMove", "bsprun: Nondeterminism")  # errors that name what is wrong
_DRAWS = ("random", "rand", "uuid", "secrets", "rng", "shuffle", "choice", "sample")


def checked(job: Launch, folder: str) -> Outcome:
    """Run all passes; return how the program ended, or the first mistake."""
    try:
        return _Passes(job, folder).all()
    except _AskedToEnd as asked:
        return asked.outcome


class _AskedToEnd(Exception):
    """A signal has ended a pass, which is then no evidence of anything: there are no further passes."""

    def __init__(self, outcome: Outcome) -> None:
        self.outcome = outcome


class _Passes:
    def __init__(self, job: Launch, folder: str) -> None:
        self._job = job
        self._later = replace(job, trace=None, progress=False)
        self._folder = folder
        self._start: int | None = None  # of the standard input, if every pass can read it from there
        self._no_input = False  # whether only one pass could read it
        with suppress(OSError):  # it may be closed
            kind = os.fstat(0).st_mode
            self._no_input = stat.S_ISFIFO(kind) or stat.S_ISSOCK(kind) or os.isatty(0)
            if stat.S_ISREG(kind):
                self._start = os.lseek(0, 0, os.SEEK_CUR)
        self._hash_seed = None
        if "PYTHONHASHSEED" not in os.environ:  # a user who sets it wants that order of sets in every pass
            self._hash_seed = str((job.seed + 1) % 2**32)

    def all(self) -> Outcome:
        """Run one pass after the other until one fails."""
        first = self._pass(RECORD, RECORD)
        known = self._read(RECORD)
        if first.status or known is None:
            return first
        second = self._pass(TURNS, TURNS, known=RECORD, other_hashes=True)
        if second.status:
            return self._why(second, known)
        ready = self._read(TURNS)
        said = "no overlaps; another order of turns gives the same bytes"
        for name in (KEPT, END):
            loops = ready.joins(name, self._job.nprocs) if ready is not None else []
            if loops and ready is not None:
                found = self._pass(name, name, known=TURNS)
                if found.status:
                    return self._astray(found, name, loops, ready)
                said = f"{said.partition(', and')[0]}, and so do processes made again at the heads of rounds"
        return Outcome(first.status, f"{first.said}bsprun: --check: {said}\n")

    def _pass(
        self, name: str, record: str, known: str | None = None, other_hashes: bool = False,
        watch: tuple[int, int] | None = None,
    ) -> Outcome:  # fmt: skip
        asked = {
            "pass": name,
            "record": os.path.join(self._folder, record),
            "known": None if known is None else os.path.join(self._folder, known),
            "watch": watch,
        }
        job = self._job if name == RECORD else self._later
        if self._start is not None:
            os.lseek(0, self._start, os.SEEK_SET)
        outcome = one_pass(job, self._hash_seed if other_hashes else None, check=asked, no_input=self._no_input)
        if outcome.asked:
            raise _AskedToEnd(outcome)
        return outcome

    def _read(self, record: str) -> Record | None:
        path = os.path.join(self._folder, record)
        if not os.path.exists(path):
            return None
        with open(path, "rb") as file:
            found: Record = pickle.load(file)
        return found

    # ------------------------------------------------------------------- what went wrong

    def _astray(self, found: Outcome, name: str, loops: list[int], ready: Record) -> Outcome:
        """Return the outcome if a process that was made anew raised and the program had not."""
        if found.said.startswith(_CLEAR):
            return found
        pid = next((pid for pid in range(self._job.nprocs) if ready.changed.get((loops[-1], name, pid))), 0)
        wrong = undeclared(ready, name, loops, pid, "fails where the program did not")
        if self._job.program[0] == "--function":  # bsp.run raises the error that the answer file holds
            _answer(self._job.program[2], wrong)
        return Outcome(1, f"bsprun: Undeclared: {wrong}\n{found.said}")

    def _why(self, second: Outcome, known: Record) -> Outcome:
        """Run passes that find out why the second pass differs from the first; return the outcome."""
        if self._job.program[0] == "--function" or second.said.startswith(_CLEAR):
            return second
        at = known.differs(self._read(TURNS) or Record()) or (max(known.digests)[0], 0)
        for other_hashes in (False, True) if self._hash_seed is not None else (False,):
            ended = self._pass(AGAIN, "b", known=RECORD, other_hashes=other_hashes, watch=at)
            other = self._read("b")
            if other is None:
                return second
            where = known.differs(other)
            if where is None and not ended.status:
                continue
            self._pass(AGAIN, "a", known=RECORD, watch=where or at)
            if where is not None and where != at:
                self._pass(AGAIN, "b", known=RECORD, other_hashes=other_hashes, watch=where)
            wrong = _explained(where or at, self._read("a") or Record(), self._read("b") or Record(), other_hashes)
            return Outcome(1, f"bsprun: Nondeterminism: {wrong}\n" + (ended.said if where is None else ""))
        return second


def _answer(path: str, wrong: Exception) -> None:
    """Replace the error in the answer file of a function's job by `wrong`, unless it is a collective mistake."""
    from bsp.values import by_value

    with open(path, "rb") as file:
        error = pickle.load(file)[1]
    if not isinstance(error, CollectiveMistake):
        wrong.add_note(f"it raises {type(error).__name__}: {error}")
        with open(path, "wb") as file:
            by_value.dump((None, wrong), file)


def _explained(at: tuple[int, int], one: Record, two: Record, other_hashes: bool) -> Nondeterminism:
    superstep, pid = at
    line, first = one.watched.get(superstep, ("its end", {}))[0] or "its end", ""
    source = ""
    for s in sorted(one.watched):
        ours, theirs = one.watched[s][1], two.watched.get(s, ("", {}))[1]
        differing = sorted(
            (place, name) for name, (place, data) in ours.items() if theirs.get(name, ("", data))[1] != data
        )
        if differing:
            told = [f"'{name}'" + (f" ({place})" if place else "") for place, name in differing]
            source = " ".join(place for place, _ in differing)
            first = f", first seen in {told[0]} in superstep {s}" + (f", and {len(told) - 1} more" if told[1:] else "")
            break
    if other_hashes:
        return Nondeterminism(
            f"process {pid} does something else in superstep {superstep} ({line}) when words hash otherwise "
            f"(another PYTHONHASHSEED){first}: the order of a set, or a hash(), reaches the result; sort the set"
        )
    clock, drawn = any(word in source for word in _CLOCKS), any(word in source for word in _DRAWS)
    cause = "the clock" if clock and not drawn else "unseeded randomness" if drawn and not clock else ""
    return Nondeterminism(
        f"process {pid} does something else in superstep {superstep} ({line}) when the program runs again{first}: "
        f"{cause or 'unseeded randomness, the clock, or a file that it changes'} reaches the result; draw from "
        "proc.rng, read clocks by proc.time() or proc.once(...)"
    )
