"""The rehearsal of `--check`: every process is made again at loop heads, as a newcomer under clones is.

A newcomer (bsp.faults) runs the script from the top, is given what was delivered, and at the head of a
round receives the state of a sibling.  What rounds change besides, in variables, modules or objects, it
has as before the loop: the program is then wrong, and only when something fails.

Theory of operation.  All processes are made again at once, in a run of their own: up to the loop nothing
needs to be replayed, because determinism makes the deliveries equal; at the loop's entry all jump to the
head, and from there on every superstep must have the bytes of the reference.  This is as good as making
each process again alone among the others.  For the first process to differ has had, up to that superstep,
the very deliveries of the reference, just as a lone newcomer would; and if none differs, none would alone.

Two runs: to the head of a round drawn from the seed, in every loop; and over every loop to its end.  In
the passes before them variables are compared (`bsp.checking.names`): what a round surely needs of the
last one, and is another value than at the entry, is named at once; what may be needed is named when bytes
differ.
"""

from __future__ import annotations

import importlib
import pickle
import random
from collections.abc import Callable, Container, Sequence
from types import FrameType
from typing import Any

from bsp.checking.names import NOTHING, Uses, changes, fingerprints, user_frames, uses, values_of
from bsp.checking.record import AGAIN, END, ENTRY, KEPT, MOST_LOOPS, RECORD, Head, Key, Record, draw, listed
from bsp.engine.task import Task
from bsp.errors import BspError, CannotMove, Undeclared
from bsp.source import NOWHERE, Line
from bsp.values.canonical import pickled


class Rehearsal:
    """An element's `Recovery` in one pass: it watches heads, or moves processes to one."""

    def __init__(self, name: str, record: Record, known: Record | None) -> None:
        """`known` is the reference; the first pass has none."""
        self.problem: BspError | None = None  # found at a head, to be raised at the next boundary
        self.passed = 0  # heads: as many on every process
        self.joined: list[int] = []  # loops in which processes were made again
        self._name = name
        self._record = record
        self._known = known
        self._uses: dict[tuple[int, int], tuple[Any, Uses]] = {}  # by (loop, pid): the code of the loop's frame
        self._chance: dict[int, random.Random] = {}  # which head of a loop is kept
        self._calls: dict[int, tuple[tuple[int, ...], int]] = {}  # of `once`, by pid: where, how many there

    # ------------------------------------------------------------------------ Recovery

    def head(self, tasks: Sequence[Task]) -> None:
        """All processes here stand at one head."""
        place = tasks[0].place
        assert place is not None
        self.passed += 1
        if place.loop >= MOST_LOOPS or self._name == AGAIN:
            return
        if self._name in (KEPT, END):
            if place.entry:
                self._join(tasks, place.loop)
            return
        which = ENTRY if place.entry else END if place.final else KEPT
        if which == ENTRY:
            self._enter(tasks[0], place.loop)
        if place.loop not in self._record.loops:  # the passes have gone different ways
            return
        head = self._record.loops[place.loop]
        if self._name == RECORD and which != ENTRY:
            head.rounds += 1
            if which == KEPT and self._chance[place.loop].random() * place.round < 1:
                head.kept = place.round  # each head with the same chance, however many there will be
        if which == KEPT and place.round != head.kept:
            return
        for task in tasks:
            with task.as_main():
                self._look(task, (place.loop, which, task.pid))

    def once(self, task: Task, call: Callable[[], Any]) -> Any:
        """The value that the first pass has had."""
        # a process that is made again at a head has not called what was called before it
        stands = task.pid, task.element.superstep, task.loops, -1 if task.round is None else task.round[0]
        last, count = self._calls.get(task.pid, (stands, -1))
        count = count + 1 if last == stands else 0
        self._calls[task.pid] = stands, count
        value = self._record.once.get((*stands, count))
        if value is None:
            value = self._record.once[*stands, count] = pickled(call())
        return pickle.loads(value)

    def lines(self, data: bytes) -> None:
        """The text of the first pass is printed, by the element."""
        raise NotImplementedError

    # ------------------------------------------------------------------------ watching

    def _enter(self, task: Task, loop: int) -> None:
        if self._name == RECORD:
            frame = next(user_frames(task), None)
            line = Line((frame.f_code.co_filename, frame.f_lineno)) if frame is not None else NOWHERE
            self._record.loops[loop] = Head(str(line))
            self._chance[loop] = draw(task.element.seed, loop)

    def _look(self, task: Task, key: Key) -> None:
        """The variables of a process at a head; in the second pass also its state, and what it would miss."""
        loop, which, pid = key
        frame = self._frame(task, loop, which)
        if frame is None:
            return
        code, used = self._uses[loop, pid]
        place = task.place
        assert place is not None
        if self._name == RECORD:
            self._record.variables[key] = fingerprints(task, place, used.sure | used.sure_behind, frame)
            return
        now = self._record.variables[key] = fingerprints(task, place, None, frame)
        if which == ENTRY:
            return
        before = self._record.variables.get((loop, ENTRY, pid), {})
        changed = changes(before, now)
        self._blame(task, key, changed, used, frame)
        alive = used.behind | used.called | (used.live if which == KEPT else frozenset())
        named = _told(changed, now, alive, frame.f_locals, used)
        self._record.changed[key] = [used.text(name, code.co_filename) for name in named]
        self._capture(task, key)

    def _blame(self, task: Task, key: Key, changed: set[str], used: Uses, frame: FrameType) -> None:
        """What the next round, or the code behind the loop, surely reads; seen alike in both passes."""
        loop, which, pid = key
        assert self._known is not None and task.place is not None
        head, filename = self._known.loops[loop], frame.f_code.co_filename
        if which == END and frame.f_lineno in used.returns:
            head.left = str(Line((filename, frame.f_lineno)))
        if self.problem is not None:
            return
        names = used.sure if which == KEPT else frozenset() if head.left else used.sure_behind
        then, first = self._known.variables.get(key, {}), self._known.variables.get((loop, ENTRY, pid), {})
        now, entry = self._record.variables[key], self._record.variables.get((loop, ENTRY, pid), {})
        guilty = [
            name for name in names & changed
            if then.get(name) == now.get(name) and first.get(name) == entry.get(name)  # in every run
            and (which == END or entry.get(name) not in (None, NOTHING))  # else the first round makes it
            and name in values_of(frame)
        ]  # fmt: skip
        if not guilty:
            return
        guilty.sort(key=lambda name: (used.changes.get(name, 0), name))
        told = listed([used.text(name, filename) for name in guilty])
        needs = (
            f"needs {told} in round {head.kept} of the loop at {head.line} as the rounds before have left it"
            if which == KEPT
            else f"reads {told} behind the loop at {head.line} as its {head.rounds} rounds have left it"
        )
        self.problem = Undeclared(
            f"process {pid} {needs}, and a process that is made again there has it as before the loop; put it into "
            f"the bsp.State that proc.rounds is given: {', '.join(f'state.{name}' for name in guilty)}"
        )

    def _frame(self, task: Task, loop: int, which: str) -> FrameType | None:
        """The user's frame that runs the loop."""
        frames = list(user_frames(task))
        if which == ENTRY and frames:
            self._uses[loop, task.pid] = frames[0].f_code, uses(frames[0].f_code, frames[0].f_lineno)
            return frames[0]
        code = self._uses.get((loop, task.pid), (None, None))[0]
        return next((frame for frame in frames if frame.f_code is code), None)

    # ------------------------------------------------------------------- states and joins

    def _capture(self, task: Task, key: Key) -> None:
        state, place = _nonstop(), task.place
        assert place is not None
        if not state.nothing_queued(task):
            return
        try:
            data = state.capture(task, place)
        except CannotMove as wrong:
            self.problem = self.problem or wrong
            return
        self._record.states[key] = task.element.superstep, place.round, data

    def _join(self, tasks: Sequence[Task], loop: int) -> None:
        """All processes here become what they were at the head; the element goes on from its superstep."""
        assert self._known is not None
        if loop not in self._known.joins(self._name, tasks[0].nprocs):
            return
        self.joined.append(loop)
        for task in tasks:
            superstep, k, data = self._known.states[loop, self._name, task.pid]
            assert task.place is not None
            _nonstop().restore(task, task.place, data)
            task.place.round, task.place.final = k, self._name == END
            task.element.superstep = superstep


def _told(
    changed: set[str], now: dict[str, bytes], alive: frozenset[str], own: Container[str], used: Uses
) -> list[str]:
    """What of the changed names is worth telling: what may be read again, each object once."""

    def told(name: str) -> bool:
        base = name.partition(".")[0]
        if base in alive or base not in own or f"{name.rpartition('.')[0]}." in now:  # a module's own
            return not any(other.startswith(f"{name}.") for other in changed)  # its attributes say more
        return False

    order = sorted(changed, key=lambda name: (name.partition(".")[0] not in own, used.changes.get(name, 0), name))
    found: dict[tuple[str, bytes], str] = {}  # self.beta is model.beta
    for name in filter(told, order):
        found.setdefault((name.rpartition(".")[2] if "." in name else name, now[name]), name)
    return list(found.values())


def _nonstop() -> Any:
    return importlib.import_module("bsp.faults.checkpoints.state")
