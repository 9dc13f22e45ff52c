"""The rehearsal of `--check`: makes every process again at loop heads, as newcomers are made under clones.

A newcomer (bsp.faults) runs the script from the top, replays the deliveries, and receives the state of a sibling at the
head of a round.  Anything else that rounds change, in variables, modules or objects, it has as it was before the loop.
A program that needs such a value gives wrong results, and only after a failure; the rehearsal finds it without one.

Theory of operation.
1. All processes are made again at once, in a run of their own.  Up to the loop nothing needs to be replayed, because
   determinism makes the deliveries equal.  At the loop's entry all processes jump to the head, and from there on every
   superstep must have the bytes of the reference pass.  So must the state that a process has just received, and the one
   at the loop's end, as clones compare them.
2. This finds as much as making each process again alone among the others.  The first process that differs has had, up
   to that superstep, exactly the deliveries of the reference, as a lone newcomer would.  If no process differs, none
   would alone.
3. There are two such runs: one to the head of a round drawn from the seed, in every loop, and one over every loop to
   its end.
4. In the passes before them variables are compared (`bsp.checking.names`).  A name that a round surely needs of the
   last one, and whose value differs from that at the entry, is reported at once; a name that may be needed is reported
   when bytes differ.
"""

from __future__ import annotations

import importlib
import random
from collections.abc import Callable, Container, Sequence
from types import FrameType
from typing import Any

from bsp.checking.names import (
    NOTHING,
    AtEntry,
    Uses,
    at_entry,
    changes,
    fingerprint,
    fingerprints,
    naming,
    user_frames,
    uses,
    values_of,
)  # fmt: skip
from bsp.checking.record import (
    AGAIN,
    END,
    ENTRY,
    KEPT,
    MOST_LOOPS,
    RECORD,
    TURNS,
    Key,
    LoopHead,
    Record,
    draw,
    listed,
    undeclared,
)  # fmt: skip
from bsp.engine.task import IN_ONCE, Task
from bsp.errors import BspError, CannotMove, Nondeterminism, Undeclared
from bsp.source import NOWHERE, SourceLine


class Rehearsal:
    """The `Recovery` of an element in one pass: examines heads, or moves all processes to one."""

    def __init__(self, name: str, record: Record, known: Record | None) -> None:
        """Begin the pass `name`, which fills `record`.  `known` is the reference; None in the first pass."""
        self.problem: BspError | None = None  # found at a head, to be raised at the next boundary
        self.passed = 0  # heads that every process here has passed
        self.joined: list[int] = []  # loops in which processes were made again
        self._name = name
        self._record = record
        self._known = known
        self._uses: dict[tuple[int, int], tuple[Any, Uses]] = {}  # by (loop, pid): the code of the loop's frame
        self._stood: dict[tuple[int, int], AtEntry] = {}  # by (loop, pid)
        self._meant: dict[tuple[int, int], dict[str, Any]] = {}  # by (loop, pid): names of objects in the State
        self._chance: dict[int, random.Random] = {}  # by loop: draws the head that is kept
        self._calls: dict[int, tuple[tuple[int, ...], int]] = {}  # last call of `once`, by pid: place, count there

    # ------------------------------------------------------------------------ Recovery

    def head(self, tasks: Sequence[Task]) -> None:
        """Examine the processes of this element, which have all reached one head, or move them to the recorded one."""
        place = tasks[0].place
        assert place is not None
        self.passed += 1
        if place.loop >= MOST_LOOPS or self._name == AGAIN:
            return
        if self._name in (KEPT, END):
            if place.entry:
                self._join(tasks, place.loop)
            elif place.final and self._name == KEPT and place.loop in self.joined:
                self._arrive(tasks, place.loop)
            return
        which = ENTRY if place.entry else END if place.final else KEPT
        if which == ENTRY:
            self._enter(tasks[0], place.loop)
        if place.loop not in self._record.loops:  # the first pass has not entered this loop
            return
        if which == END:
            for task in tasks:
                with task.as_current():
                    self._end(task, place.loop)
        head = self._record.loops[place.loop]
        if self._name == RECORD and which != ENTRY:
            head.rounds += 1
            if which == KEPT and self._chance[place.loop].random() * place.round < 1:
                # the k-th head replaces the kept one with chance 1/k: all are equally likely, however many there are
                head.kept = place.round
        if which == KEPT and self._name == TURNS:
            for task in tasks:
                with task.as_current():
                    self._exchanged(task, place.loop, place.round)
        if which == KEPT and place.round != head.kept:
            return
        for task in tasks:
            with task.as_current():
                self._look(task, (place.loop, which, task.pid))

    def once(self, task: Task, call: Callable[[], Any]) -> Any:
        """Return what this call of `proc.once` gave in the first pass, with its draws; the first pass calls `call`."""
        if task.element.thread == IN_ONCE:  # inside such a call
            return call()
        # calls are counted per place, because a process made again at a head has not made the calls before it
        stands = task.pid, task.element.superstep, task.loops, -1 if task.round is None else task.round[0]
        last, count = self._calls.get(task.pid, (stands, -1))
        count = count + 1 if last == stands else 0
        self._calls[task.pid] = stands, count
        calls = importlib.import_module("bsp.faults.engine.once_calls")
        made = self._record.once.get((*stands, count))
        if made is None:
            made = self._record.once[*stands, count] = calls.made(task, call, ())
        return calls.outcome(task, made)

    def lines(self, data: bytes) -> None:
        """Not used: the element itself prints the text of the first pass, and the others print nothing."""
        raise NotImplementedError

    # ------------------------------------------------------------------------ watching

    def _enter(self, task: Task, loop: int) -> None:
        """Record a loop at its entry, in the first pass: its line, and the generator that draws its kept head."""
        if self._name == RECORD:
            frame = next(user_frames(task), None)
            line = SourceLine((frame.f_code.co_filename, frame.f_lineno)) if frame is not None else NOWHERE
            self._record.loops[loop] = LoopHead(str(line))
            self._chance[loop] = draw(task.element.seed, loop)

    def _look(self, task: Task, key: Key) -> None:
        """Fingerprint a process's variables at a head; in the second pass also record its state, and what it may lack.

        The first pass fingerprints only names that are surely needed, which is cheap.  Names that changed in both
        passes alike are reported at once (`_blame`).
        """
        loop, which, pid = key
        frame = self._frame(task, loop, which)
        if frame is None:
            return
        code, used = self._uses[loop, pid]
        place = task.place
        assert place is not None
        if which == ENTRY:
            self._stood[loop, pid] = at_entry(place)
            own = {id(value) for value in place.own.values()}
            values = values_of(frame)
            self._meant[loop, pid] = {name: values[name] for name in used.sure if id(values.get(name)) in own}
        stood = self._stood[loop, pid]
        if self._name == RECORD:
            self._record.variables[key] = fingerprints(task, place, stood, used.sure | used.sure_behind, frame)
            return
        now = self._record.variables[key] = fingerprints(task, place, stood, None, frame)
        if which == ENTRY:
            return
        before = self._record.variables.get((loop, ENTRY, pid), {})
        changed = changes(before, now)
        self._blame(task, key, changed, used, frame)
        alive = used.behind | used.called | (used.live if which == KEPT else frozenset())
        named = _told(changed, now, alive, frame.f_locals, used)
        self._record.changed[key] = [used.text(name, code.co_filename) for name in named]
        self._capture(task, key)

    def _end(self, task: Task, loop: int) -> None:
        """Record the State at a loop's end; in the second pass, set `problem` if it is not that of the first."""
        now = self._record.ended[loop, task.pid] = _contents(task)
        before = now if self._known is None else self._known.ended.get((loop, task.pid), now)
        names = _differing(before, now)
        if names and self.problem is None:
            self.problem = Nondeterminism(
                f"process {task.pid} has something else in {names} at the end of the loop at "
                f"{self._record.loops[loop].line} when the program runs again, and clones compare the bytes of their "
                "states: it comes from the clock, unseeded randomness, id(), or what processes of one interpreter "
                "share; read clocks by proc.time() or proc.once(...), draw from proc.rng"
            )

    def _exchanged(self, task: Task, loop: int, k: int) -> None:
        """Set `problem` if a name that round k surely reads means another object of the State than at the entry.

        All heads are examined: names that change places in each round mean the same again at every other head.
        """
        meant = self._meant.get((loop, task.pid))
        frame = self._frame(task, loop, KEPT) if meant and self.problem is None else None
        if frame is None or meant is None:
            return
        values, own = values_of(frame), {id(value) for value in self._stood[loop, task.pid].values.values()}
        names = [name for name, value in meant.items() if values.get(name) is not value and id(values.get(name)) in own]
        if names:
            used = self._uses[loop, task.pid][1]
            where = f"in round {k} of the loop at {self._record.loops[loop].line} as the rounds before have left it"
            self.problem = _lacking(task.pid, "needs", names, where, used, frame)

    def _blame(self, task: Task, key: Key, changed: set[str], used: Uses, frame: FrameType) -> None:
        """Set `problem` if changed names are surely read by the next round, or by the code behind the loop.

        Both passes must have seen the same values; a name whose value is random is no evidence.
        """
        loop, which, pid = key
        assert self._known is not None and task.place is not None
        head, filename = self._known.loops[loop], frame.f_code.co_filename
        if which == END and frame.f_lineno in used.returns:
            head.left = str(SourceLine((filename, frame.f_lineno)))
        if self.problem is not None:
            return
        names = used.sure if which == KEPT else frozenset() if head.left else used.sure_behind
        then, first = self._known.variables.get(key, {}), self._known.variables.get((loop, ENTRY, pid), {})
        now, entry = self._record.variables[key], self._record.variables.get((loop, ENTRY, pid), {})
        guilty = [
            name for name in names & changed
            if then.get(name) == now.get(name) and first.get(name) == entry.get(name)  # alike in both passes
            and (which == END or entry.get(name) not in (None, NOTHING))  # else a round makes it
            and name in values_of(frame)
        ]  # fmt: skip
        if not guilty:
            return
        if which == KEPT:
            where = f"in round {head.kept} of the loop at {head.line} as the rounds before have left it"
        else:
            where = f"behind the loop at {head.line} as its {head.rounds} rounds have left it"
        self.problem = _lacking(pid, "needs" if which == KEPT else "reads", guilty, where, used, frame)

    def _frame(self, task: Task, loop: int, which: str) -> FrameType | None:
        """Return the user's frame that runs the loop; None if it is not on the stack of this process."""
        frames = list(user_frames(task))
        if which == ENTRY and frames:
            self._uses[loop, task.pid] = frames[0].f_code, uses(frames[0].f_code, frames[0].f_lineno)
            return frames[0]
        code = self._uses.get((loop, task.pid), (None, None))[0]
        return next((frame for frame in frames if frame.f_code is code), None)

    # ------------------------------------------------------------------- states and joins

    def _capture(self, task: Task, key: Key) -> None:
        """Record the state of a process at a head, unless effects are queued, with which none can be taken."""
        state, place = _nonstop(), task.place
        assert place is not None
        if not state.nothing_queued(task):
            return
        try:
            data = state.capture(task, place)
        except CannotMove as wrong:
            self.problem = self.problem or wrong
            return
        self._record.states[key] = task.element.superstep, place.round, data, _contents(task)

    def _join(self, tasks: Sequence[Task], loop: int) -> None:
        """Give all processes here their recorded states; the element goes on from the superstep of that head.

        Does nothing in a loop of which the state of some process, here or elsewhere, is missing.
        """
        assert self._known is not None
        if loop not in self._known.joins(self._name, tasks[0].nprocs):
            return
        self.joined.append(loop)
        for task in tasks:
            superstep, k, data, contents = self._known.states[loop, self._name, task.pid]
            assert task.place is not None
            _nonstop().restore(task, task.place, data)
            task.place.round, task.place.final = k, self._name == END
            task.element.superstep = superstep
            with task.as_current():
                altered = _altered(task, data, contents)
            if altered and self.problem is None:
                self.problem = CannotMove(
                    f"{altered} is not pickled to the same bytes once it has been pickled and loaded, and clones "
                    "compare the bytes of their states; let __setstate__ restore just what was pickled, and keep "
                    "objects that are alike in lists and dictionaries, not in sets, which have no order "
                    f"({task.line()}, process {task.pid}, superstep {superstep})"
                )

    def _arrive(self, tasks: Sequence[Task], loop: int) -> None:
        """Set `problem` if a process that was made again ends the loop with another state than in the reference."""
        assert self._known is not None
        for task in tasks:
            if (loop, END, task.pid) in self._known.states and _nonstop().nothing_queued(task):
                with task.as_current():
                    altered = _altered(task, *self._known.states[loop, END, task.pid][2:])
                if altered and self.problem is None:
                    what = f"has something else in {altered} at the end of that loop"
                    self.problem = undeclared(self._known, KEPT, self.joined, task.pid, what)


def _lacking(pid: int, reads: str, names: list[str], where: str, used: Uses, frame: FrameType) -> Undeclared:
    """Return the error for names that surely have other values in a process that is made again.

    reads, where : how and where the process reads them, in words.
    """
    names = sorted(names, key=lambda name: (used.changes.get(name, 0), name))
    told = listed([used.text(name, frame.f_code.co_filename) for name in names])
    return Undeclared(
        f"process {pid} {reads} {told} {where}, and a process that is made again there has it as before the loop; "
        f"put it into the bsp.State that proc.rounds is given, and use it as {listed([f'state.{n}' for n in names])}"
    )


def _contents(task: Task) -> dict[str, bytes | None]:
    """Return a fingerprint of each attribute of the State that a process has given to its loop."""
    place = task.place
    values = {} if place is None or place.state is None else vars(place.state)
    named = naming(task, place)
    return {name: fingerprint(value, named) for name, value in values.items()}


def _altered(task: Task, data: Any, contents: dict[str, bytes | None]) -> str:
    """Return in words what differs in a process's state from the result of `capture`, `data`; empty if nothing does.

    Clones compare the bytes of their states (N11), so a difference would stop a job.
    """
    state, place = _nonstop(), task.place
    assert place is not None
    try:
        if state.same_bytes(state.capture(task, place), data):
            return ""
    except CannotMove:
        pass  # what was captured once cannot be any more: its fingerprint is None
    return _differing(contents, _contents(task)) or "the bsp.State"


def _differing(before: dict[str, bytes | None], now: dict[str, bytes | None]) -> str:
    """Return in words the attributes of a State whose fingerprints differ; empty if none does."""
    names = [f"state.{name}" for name in {**before, **now} if before.get(name) != now.get(name)]
    return listed(names) if names else ""


def _told(
    changed: set[str], now: dict[str, bytes], alive: frozenset[str], own: Container[str], used: Uses
) -> list[str]:
    """Return the changed names worth reporting: those that may be read again, each object once.

    changed : names whose values differ.  now : their fingerprints.  alive : names that may be read.  own : names of the
    loop's own frame.
    """

    def told(name: str) -> bool:
        """Return whether a name may be read again, and none of its attributes is listed instead."""
        base = name.partition(".")[0]
        if base in alive or base not in own or f"{name.rpartition('.')[0]}." in now:  # or it belongs to a module
            return not any(other.startswith(f"{name}.") for other in changed)  # its attributes are more precise
        return False

    order = sorted(changed, key=lambda name: (name.partition(".")[0] not in own, used.changes.get(name, 0), name))
    found: dict[tuple[str, bytes], str] = {}  # self.beta and model.beta are one object: report it once
    for name in filter(told, order):
        found.setdefault((name.rpartition(".")[2] if "." in name else name, now[name]), name)
    return list(found.values())


def _nonstop() -> Any:
    """Import and return bsp.faults.checkpoints.state, by name: `bsp` does not import `bsp.faults`."""
    return importlib.import_module("bsp.faults.checkpoints.state")
