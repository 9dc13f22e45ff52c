"""An element: one operating-system process that hosts BSP processes, lets them run in turn, and ends supersteps.

Theory of operation.  Each process runs until its boundary.  When the last process here has reached it,
the element sends every other element a header with the calls its processes wait in, in the same packet
as everything small for that element.  All elements read all headers, so they compute the same verdict:
deliver, register coarrays first, or raise the same exception on every process.  No other
synchronisation exists: the exchange of packets is the barrier.

A superstep in which no process has more to deliver than small puts, gets and values, or puts into one range each, and
nothing to register or to report, takes a shorter way (`bsp.engine.shortcut`): one exchange of headers with packets
behind them (`Transport.small`), then large blocks and replies.  If all of it are records, C takes that way where it can
(`Element.meet`, `bsp/transport/c/superstep.c`).
"""

from __future__ import annotations

import contextvars
import os
import sys
import weakref
from _thread import get_ident
from collections.abc import Callable, Sequence
from types import ModuleType
from typing import TYPE_CHECKING, Any, BinaryIO

import numpy as np

from bsp.cost.model import DEFAULT, Machine
from bsp.engine.boundary import Boundary
from bsp.engine.console import Console, OutputLost, tell_failure
from bsp.engine.layout import Hosting
from bsp.engine.pool import Pool
from bsp.engine.registration import forget_released, register
from bsp.engine.reports import handled_by, report
from bsp.engine.shortcut import Packets, deliver_records, deliver_small
from bsp.engine.staging import Staging
from bsp.engine.task import END, IN_CHILD, RAISED, WAITING, Task
from bsp.engine.verdict import Verdict, judge
from bsp.errors import CollectiveMistake, LocalMistake, NotRegistered, SyncMismatch
from bsp.interpreter import turns
from bsp.interpreter.belongings import set_warning_state, warning_state, without_loop
from bsp.interpreter.garbage import collected_for
from bsp.interpreter.generators import lent
from bsp.interpreter.imports import Imports
from bsp.transport import header as h
from bsp.transport.base import Solo, Transport
from bsp.transport.compiled import COMPILED, end_superstep, pack
from bsp.values.blocks import Blocks
from bsp.values.effects import Effect, Get, Outbox, Put, PutEach, Row, Send, effect_of
from bsp.values.payload import received
from bsp.values.records import ASK, COPIED, KINDS, Record

if TYPE_CHECKING:
    import greenlet

    from bsp.checking.overlaps import Checker
    from bsp.coarray import Coarray
    from bsp.cost.prediction.abstraction import Abstraction
    from bsp.cost.prediction.sample import Sample
    from bsp.cost.prediction.sampled_collectives import SampledCollectives
    from bsp.cost.record.progress import RunProgress
    from bsp.cost.record.recorder import Recorder
    from bsp.engine.recovery import Recovery
    from bsp.engine.reordering import Reordering
    from bsp.hosts.lifeline import Lifeline


_alive: weakref.WeakSet[Element] = weakref.WeakSet()


def _in_child() -> None:
    """Mark every element as not running, in a child made by os.fork; its output goes straight to standard output."""
    for element in _alive:
        element.thread = IN_CHILD
        if element.turn is not None and element.turn.text is not None:
            sys.stdout = open(1, "w", buffering=1, closefd=False)  # noqa: SIM115


os.register_at_fork(after_in_child=_in_child)


class Element:
    """The host of some of the `nprocs` processes of a job: it runs them in turn, and ends their supersteps.

    `turn` is the process whose code runs now, None after the end.
    """

    def __init__(
        self,
        nprocs: int,
        transport: Transport | None = None,
        seed: int = 0,
        checker: Checker | None = None,
        machine: Machine = DEFAULT,
        recorder: Recorder | None = None,
        recovery: Recovery | None = None,
        lifeline: Lifeline | None = None,
        console: BinaryIO | None = None,
        profile: str | None = None,
    ) -> None:
        """Make an element; the optional parts observe or extend it.

        seed : of the job.  checker : for --check.  recorder : for traces.  recovery : for cloned execution.
        lifeline : signs of life for the launcher.
        console : where element 0 writes the text of all processes; None: the caller's sys.stdout.
        profile : a folder for the profiles of all processes; None: no profiles.
        """
        self.profile = profile
        self.nprocs = nprocs
        self.machine = machine
        self.recorder = recorder
        self.recovery = recovery
        self.progress: RunProgress | None = None
        self.abstract: Abstraction | None = None
        self.sample: Sample | None = None  # some processes run and stand for all
        self.sampled: SampledCollectives | None = None
        self.transport: Transport = transport or Solo()
        self.index = self.transport.index
        self.layout = Hosting(nprocs, self.transport.elements)
        self.owner = self.layout.owners()
        self.seed = seed
        self.checker = checker
        self.checking = checker is not None
        self.superstep = 0
        self.hint = 0
        self.turn: Task | None = None
        self.thread: int | None = get_ident()
        _alive.add(self)
        self.hub: greenlet.greenlet | None = None
        self.tasks: list[Task] = []
        self.failure: Exception | None = None
        self.verdict: Verdict | None = None
        self.staging = Staging()
        self.pool: Pool | None = None  # what processes gave to all in the superstep that has just ended
        self.shared: dict[Any, Any] = {}  # results that libraries share between processes here; never changed
        self.prices: dict[tuple[str, int, bool, bool], tuple[str, tuple[tuple[str, float], ...]]] = {}  # see `choice`
        self.calls: dict[Any, Any] = {}  # what collectives have found out about calls like these
        self.lifeline = lifeline
        self.reordering: Reordering | None = None
        self._watched = False  # see `_is_watched`; found when the processes begin to run
        self._quick = False  # whether supersteps may end in C, likewise
        self.console = Console(self, sys.stdout if console is None else console)
        self._imports = Imports(lambda: self.turn)
        if checker is not None:
            checker.attach(self)

    # --------------------------------------------------------------- hosting processes

    def host(self, body: Callable[[Task], Any], main: Callable[[int], ModuleType | None] = lambda pid: None) -> None:
        """Make the processes of this element; each one runs `body(task)`.

        main : returns the `__main__` module of a pid, or None if it has none of its own.
        """
        for pid in self.layout.pids(self.index) if self.sample is None else self.sample.pids:
            task = Task(self, pid, self.seed, main(pid))
            task.body = _bound(body, task)
            self.tasks.append(task)

    def go_on(self, body: Callable[[Task], Any]) -> None:
        """Give the processes another body, which another `run` runs; what they have is kept.

        Coarrays, names, generators, the inbox and the number of supersteps stay; effects that no boundary has
        delivered are dropped.  Allowed after a `run` whose verdict is `in_step`.
        """
        assert self.verdict is None or self.verdict.in_step
        self.failure = self.verdict = None
        for task in self.tasks:
            task.go_on(_bound(body, task))

    def run(self) -> Verdict:
        """Run all processes of this element from start to end; return how the job ended, the same on every element.

        The interpreter's `__main__`, streams, argv, warning filters and global generators are as before when it
        returns.
        """
        kept = sys.modules["__main__"], sys.stdout, sys.stdin, sys.argv
        kept_warnings = warning_state()
        self.thread = get_ident()
        self._watched = self._is_watched()
        self._quick = COMPILED and self.transport.slots is not None and not self._watched and self.profile is None
        if self.progress is not None:
            self.progress.begin(self.superstep)
        if self.recorder is not None:
            self.recorder.begin()
        with lent(), without_loop():
            try:
                if len(self.tasks) == 1:
                    self._run_alone(self.tasks[0])
                else:
                    with self._imports.noticed(), collected_for(len(self.tasks)):
                        self._run_in_turns()
                return self._conclude()
            finally:
                self.turn = None
                sys.modules["__main__"], sys.stdout, sys.stdin, sys.argv = kept
                set_warning_state(kept_warnings)

    def _run_alone(self, task: Task) -> None:
        """Run the only process of this element; it needs no greenlet, because its boundaries are plain calls."""
        task.enter()
        if self.lifeline is not None:
            self.lifeline.turn(task.pid, self.superstep)
        task.run()
        if self.failure is None:
            self.meet()
        task.leave()

    def _run_in_turns(self) -> None:
        """Run the processes in greenlets: each one to its next boundary, in pid order, then end the superstep.

        A `reordering` gives them another order, to find results that depend on it.
        """
        import greenlet

        self.hub = greenlet.getcurrent()
        for task in self.tasks:
            task.greenlet = greenlet.greenlet(task.run)
            if task.context is None:
                task.context = contextvars.copy_context()  # the context of a process alone on its element
            task.greenlet.gr_context = task.context
        running = list(self.tasks)
        recorder, abstract = self.recorder, self.abstract
        enter, leave = turns.enter, turns.leave
        note = None if self.lifeline is None else self.lifeline.turn
        while running:
            if self.reordering is not None:
                running = self.reordering.turns(running)
            # as `Task.enter` and `leave`, without their calls; a child of os.fork, whose `note` is another, ends before
            for task in running:
                began = 0.0 if recorder is None else recorder.clock()
                self.turn = task
                if abstract is not None:
                    abstract.enter(task.pid)
                enter(task.own)
                if note is not None:
                    note(task.pid, self.superstep)
                task.greenlet.switch()  # type: ignore[union-attr]
                leave(task.own)
                if recorder is not None:
                    recorder.turn(began)
            if self.failure is None:
                self.gather_heads()
            running = [task for task in self.tasks if task.state is WAITING]

    def _conclude(self) -> Verdict:
        """Finish records and profiles, and return the verdict.

        After a mistake or a non-zero status, text that was not delivered is printed now; after an orderly end none is
        left.
        """
        assert self.verdict is not None
        if self.progress is not None:
            self.progress.end(self.superstep)
        if self.recorder is not None:
            self.recorder.finish(self.transport.gather)
        if self.profile is not None:
            self._write_profiles(self.profile)
        if isinstance(self.verdict.failure, SyncMismatch):
            handled = [(task.pid, text) for task in self.tasks if (text := handled_by(task, SyncMismatch))]
            if found := [each for some in self.transport.gather(handled) for each in some]:
                pid, text = min(found)
                self.verdict.failure.add_note(f"process {pid} was handling an exception there:\n{text.rstrip()}")
        if self.verdict.failure is not None or self.verdict.status:
            texts = [(task.pid, task.take_text()) for task in self.tasks if task.has_text()]
            self.console.show([text for some in self.transport.gather(texts) for text in some])
        return self.verdict

    def _write_profiles(self, folder: str) -> None:
        """Write the profiles of the processes here; element 0 also writes the merged one.  Collective over elements.

        Raises OutputLost where there is no room for them.
        """
        from bsp.interpreter.profiling import process_file, write_merged

        profiles = [(task.pid, task.profile) for task in self.tasks if task.profile is not None]
        try:
            for pid, profile in profiles:
                profile.dump(process_file(folder, pid))
            parts = self.transport.gather([profile.by_place for _, profile in profiles])
            if self.index == 0:
                write_merged(folder, [part for some in parts for part in some])
        except OSError as wrong:  # a full disk
            raise OutputLost(wrong.errno, wrong.strerror, folder) from wrong

    # ---------------------------------------------------------- the end of a superstep

    def gather_heads(self) -> None:
        """Go through the head of a round if all processes here wait at the same one; else end the superstep."""
        first = self.tasks[0]
        if first.place is None or any(task.place is None or task.call != first.call for task in self.tasks):
            self.meet()
            return
        assert self.recovery is not None
        self.recovery.head(self.tasks)

    def meet(self) -> None:
        """End the superstep.  An exception of the runtime itself, not of the program, ends the whole job.

        C ends it if there is nothing here but records, and nobody looks at every effect.  If only then another element
        turns out to have more, C returns what it has taken out of the outboxes, and Python goes on behind the exchange
        of headers.
        """
        self.pool = None
        if self.recorder is not None and self.hub is None:
            self.recorder.alone()
        try:
            ended = self._quick and end_superstep(self, self.transport, self.transport.clock())
            if ended is not True:
                self._end_superstep(None if ended is False else ended)
        except BaseException as error:
            if self.transport.elements > 1:  # the others would wait for this element's packets for ever
                tell_failure(error, self.lifeline)
                self.transport.abort()
            raise

    def _end_superstep(self, taken: list[list[Any]] | None) -> None:
        """Do everything that happens at a boundary, from the arrival of the last process to delivery.

        taken : what was in the outboxes, if C has exchanged headers and packets already (`meet`).  Text that threads
            have printed since then, and coarrays that they have released, wait for the next superstep.

        1. Compare the calls here and collect the flags for the header.
        2. Exchange headers and packets; every element then sees the same flags, and takes the same branch below.
        3. REGISTERED: exchange the tables of new coarrays, and exchange headers again, now with the effects.
        4. FAULTS: exchange reports and judge them; nothing is delivered.
        5. Deliver, release coarrays, print, and begin the next superstep.
        """
        if self.progress is not None:
            self.progress.met()
        tasks = self.tasks
        first = tasks[0].call
        digest = first.digest
        flags = hint = 0
        outboxes: list[Outbox] = []
        printed = False
        bad = -1
        for task in tasks:
            call = task.call
            if call.digest != digest:
                flags |= h.RETURNED if call is END or first is END else h.MIXED
                bad = task.pid if bad < 0 else bad
            if task.state is RAISED:
                flags |= h.RAISED
                bad = task.pid if bad < 0 else bad
            if call.hint > hint:
                hint = call.hint
            if task.fault is not None:  # a collective found it when it compared what arrived here
                flags |= h.RAISED
                bad = task.pid if bad < 0 else bad
            for context in call.contexts:
                if context.outbox.effects:
                    outboxes.append(context.outbox)
                if context.releases or context.registered != len(context.coarrays):
                    flags |= h.REGISTERED
            if task.text is not None and task.text.tell():
                printed = True
        if taken is not None:
            flags, printed = 0, False
        if flags or printed or self._watched:
            boundary, headers = self._tell(digest, flags, bad, hint)
        else:
            more = self._take_shortcut(outboxes, digest, hint, taken)
            if more is None:
                self._advance()
                return
            boundary, headers = more
        seen, self.hint = h.combined(headers, headers[self.index])
        if seen & h.REGISTERED and not seen & h.FAULTS:
            try:
                register(self)
            except CollectiveMistake as mismatch:
                self._fail(mismatch)
                return
            if self.recorder is not None:
                self.recorder.registered()
            # an element that announced a registration has held its effects back: they go out now
            boundary, headers = self._tell(digest, 0, -1, hint, None if flags & h.REGISTERED else boundary)
            seen, self.hint = h.combined(headers, headers[self.index])
        if seen & h.FAULTS:
            self._disagree()
            return
        effects = boundary.receive(seen)
        if self.checker is not None and not self._passes(self.checker, boundary.sent, effects):
            return
        if self.progress is not None:
            self.progress.moved(boundary.sent, effects)
        boundary.deliver(seen)
        if flags & h.REGISTERED:
            forget_released(self)
        self.console.show(boundary.texts())
        self._advance()

    def _is_watched(self) -> bool:
        """Return whether each boundary is a `Boundary`: something looks at every effect, or arrays have no values."""
        return (
            self.progress is not None or self.checking or self.abstract is not None or self.sample is not None
            or self.reordering is not None
        )  # fmt: skip

    def _take_shortcut(
        self, outboxes: list[Outbox], digest: bytes, hint: int, taken: list[list[Any]] | None
    ) -> tuple[Boundary, list[h.Header]] | None:
        """Exchange and deliver nothing, small puts and messages, or records and blocks.

        If some element has anything else, return the boundary and the headers of all elements, as `_tell` does.

        What is exchanged is taken out of the outboxes before: what a thread or a finalizer issues meanwhile waits for
        the next superstep.

        taken : as for `_end_superstep`.
        """
        transport, boundary, exchanged = self.transport, None, taken is not None
        if taken is None:
            taken = [outbox.take() for outbox in outboxes]
        blocks: dict[int, list[Any]] = {}  # the bytes of large puts, by the element of their receivers, this one too
        packets: dict[int, bytes] | None = {}
        if taken:
            packets = pack(taken, self.owner, transport.elements, self.index, transport.room(), blocks)
        if packets is None:
            for outbox, effects in zip(outboxes, taken, strict=True):
                outbox.put_back(effects)
            boundary = Boundary(self, self._drain())
            packets = boundary.small_packets()
            if packets is None or any(task.fault for task in self.tasks):
                return self._tell(digest, 0, -1, hint, boundary)
        if self.recorder is not None and boundary is None and not exchanged:
            self.count(taken)
        mine = packets.pop(self.index, b"")
        leaving = sum(block.nbytes for k, some in blocks.items() for block in some if k != self.index) if blocks else 0
        asks = boundary is None and any(record[0] == ASK for records in taken for record in records)
        if exchanged:
            assert transport.slots is not None
            longest = max(map(len, packets.values()), default=0)
            found = transport.slots.found(self.superstep, digest, hint, longest)
        else:
            found = transport.small(self.superstep, digest, hint, packets, leaving, asks)
        flags = (h.BLOCKS if leaving else 0) | (h.GET if asks else 0) | (0 if found is None else found[2])
        follows = bool(blocks or flags)
        if found is None or (follows and (boundary or any(data[0] not in KINDS for data in found[0].values()))):
            issued = [effect_of(effect) for effects in taken for effect in effects] if boundary is None else ()
            return boundary or Boundary(self, issued), transport.headers()
        came, self.hint, _ = found
        if follows:
            self.deliver({**came, self.index: mine}, blocks, flags, taken)
        elif mine or boundary or came:
            texts = deliver_small(self, {**came, self.index: mine}, boundary.here if boundary else ())
            if texts:
                self.console.show(texts)
        return None

    def _tell(
        self, digest: bytes, flags: int, bad: int, hint: int, boundary: Boundary | None = None
    ) -> tuple[Boundary, list[h.Header]]:
        """Exchange headers and packets; return the boundary and the headers of all elements.

        Effects stay in their outboxes while a fault or a registration has to be settled first.  Draining them may find
        mistakes of the processes here, which go into the header as RAISED.
        """
        held = bool(flags & (h.FAULTS | h.REGISTERED))
        if boundary is None:
            boundary = Boundary(self, () if held else self._drain())
        faulty = [task.pid for task in self.tasks if task.fault is not None]
        if faulty:
            flags, bad = flags | h.RAISED, faulty[0]
        header = h.Header(self.transport.clock(), self.superstep, flags, 0, digest, bad, 0, hint, 0, 0, 0)
        return boundary, boundary.send(header, texts=not held)

    def _advance(self) -> None:
        """Begin the next superstep, or record the orderly end; make what was delivered visible to the processes."""
        if self.tasks[0].call is END:  # the end is an exchange but no superstep (B5)
            self.verdict = Verdict(True, None, 0, in_step=True)
            return
        self.superstep += 1
        if self.sample is not None:
            self.superstep += self.recorder.extra()  # type: ignore[union-attr]
        if self.lifeline is not None and self.hub is None:
            self.lifeline.turn(self.tasks[0].pid, self.superstep)
        if self.profile is not None:
            for task in self.tasks:
                task.superstep_profiled()
        if self.recorder is not None:
            self.recorder.ended(self.tasks, self.transport)
        if self.progress is not None:
            self.progress.ended(self.tasks[0], self.superstep)
        for task in self.tasks:
            for context in task.call.contexts:
                if context.arriving or context.arrived or context.inbox is not None:
                    context.arrived, context.arriving, context.inbox = context.arriving, [], None

    def _drain(self) -> list[Effect]:
        """Return the effects of all processes here in (source pid, issue order).

        A mistake in a call that could not be checked before (B3) becomes the `fault` of its process.
        """
        effects: list[Effect] = []
        for task in self.tasks:
            try:
                for context in task.call.contexts:
                    if context.outbox.effects:
                        effects += context.outbox.drain()
            except (LocalMistake, TypeError) as mistake:
                task.fault = mistake
        if self.reordering is not None:
            effects = self.reordering.arrivals(effects)
        if self.recorder is not None:
            self.recorder.issued(effects)
        if self.abstract is not None:
            effects = self.abstract.without_counted(effects)
        return effects if self.sample is None else self.sample.among(effects)

    # ------------------------------------------------------------ services to boundaries

    def coarray(self, effect: Put | PutEach | Get) -> Coarray:
        """Return the instance that an effect addresses, on one of the processes here."""
        return self.instance(effect.dest, effect.context, effect.coarray)

    def instance(self, pid: int, context: int, coarray: int) -> Coarray:
        """Return the instance of a coarray on a process here."""
        instance = self._at(pid).contexts[context].coarrays[coarray]
        assert instance is not None
        return instance

    def dtype_of(self, pid: int, context: int, coarray: int) -> np.dtype[Any]:
        """Return the dtype of a coarray's instance on a process here."""
        return self.instance(pid, context, coarray).dtype

    def landing(self, source: int, dests: tuple[int, ...] | range, context: int) -> np.ndarray | None:
        """Return the array into which the receiver wants the next array from `source`, or None.

        Each array that arrives takes the next place.  A message for several receivers has no single place: it uses one
        place of each, and each receiver gets a copy.  A range of receivers stands for all processes here.
        """
        if isinstance(dests, range):
            dests = (self.tasks[0].pid,) if len(self.tasks) == 1 else ()
        place = None
        for dest in dests:
            landings = self._at(dest).contexts[context].landings
            if landings and landings.get(source):
                place = landings[source].pop(0)
        return place if len(dests) == 1 else None

    def dtype(self, get: Get) -> np.dtype[Any]:
        """Return the dtype of the answer to a get of a process here: that of its own instance, the same everywhere."""
        return self.dtype_of(get.source, get.context, get.coarray)

    def _at(self, pid: int) -> Task:
        """Return the process `pid`, which runs here."""
        return self.tasks[pid - self.tasks[0].pid if self.sample is None else self.sample.place[pid]]

    def hand_out(self, send: Send) -> None:
        """Append a message to the inboxes of its receivers here; every receiver gets a copy of its own (D9).

        A pooled one goes to the pool, once.
        """
        if send.pooled:
            self._pool(send)
            return
        for k, dest in enumerate(send.dests):
            array = send.array
            lent = send.borrowed and not send.kept
            if self.abstract is not None:  # without values a copy costs nothing, and is what its receiver holds
                self.abstract.charge(dest)
                lent = not send.kept
            if array is not None and not send.shared and (lent or k):  # the first may have the buffered one
                array = array.copy()
            if array is not None:
                array = received(array)
            arriving = self._at(dest).contexts[send.context].arriving
            arriving.append((send.source, send.tag, array, send.pickled))

    def _pool(self, send: Send) -> None:
        """Put a value for all processes here into the pool."""
        array = send.array
        if array is not None:
            array = received(array.copy() if send.borrowed and not send.shared else array)
        packed = send.pickled if array is None else array
        assert packed is not None
        self.take({send.source: packed})

    def take(self, values: dict[int, Any]) -> None:
        """Put values that processes give to all into the pool, by source in the order of the pids.

        Those that have come as records are bytes; a bytearray is an array's (`bsp.values.payload.array_out`).
        """
        if self.pool is None:
            self.pool = Pool(len(self.tasks), values)
        else:
            self.pool.add(values)

    def deliver(self, packets: Packets, out: Blocks, flags: int, issued: list[list[Record]]) -> None:
        """Exchange blocks and replies, apply everything, and take back the memory of copies; see `deliver_records`."""
        deliver_records(self, packets, out, flags, issued)
        for records in issued:
            for kind, _, _, _, data, _ in records:
                if kind == COPIED:
                    self.staging.give_back(data)

    def count(self, issued: list[list[Record]]) -> None:
        """Count the records of processes here that this superstep delivers, where traffic is recorded."""
        assert self.recorder is not None
        for records in issued:
            self.recorder.packed(records)

    def take_row(self, row: Row) -> None:
        """Put values for each process here into the pool."""
        if self.pool is None:
            self.pool = Pool(len(self.tasks), {})
        self.pool.rows.append(row)

    # ------------------------------------------------------------------------ mistakes

    def failure_for(self, task: Task) -> Exception:
        """Return the job's failure as a new exception object for one process.

        Each process needs its own: raising an object adds to its traceback and context.
        """
        assert self.failure is not None
        failure = type(self.failure)(*self.failure.args)
        failure.__cause__ = None
        return failure

    def refuse(self, task: Task, call: str) -> None:
        """Raise NotRegistered for a boundary called on another process's handle, or after the end."""
        turn = self.turn
        if turn is None:
            raise NotRegistered(f"{call} on process {task.pid}: the run it belongs to has ended")
        raise NotRegistered(f"{call} on process {task.pid} called by process {turn.pid}: each process uses its own")

    def _passes(self, checker: Checker, sent: Sequence[Effect], received: Sequence[Effect]) -> bool:
        """Return whether the checker accepts the superstep; if not, its finding becomes the failure of the job."""
        problem = checker.judge(self, sent, received)
        if problem is not None:
            self._fail(problem)
        return problem is None

    def _disagree(self) -> None:
        """Exchange reports on all processes and judge them.  Collective over the elements."""
        reports = [
            each
            for some in self.transport.gather([report(task, self.superstep) for task in self.tasks])
            for each in some
        ]
        self.verdict = judge(reports, self.superstep)
        self.failure = self.verdict.failure

    def interrupted(self, task: Task) -> None:
        """End the run because a process was interrupted, if all of it is in this interpreter and no bsprun watches it.

        The others do not compute on to the end of their superstep, which may be far.
        """
        if self.transport.elements == 1 and self.lifeline is None and self.failure is None:
            self.verdict = judge([report(task, self.superstep)], self.superstep)
            self.failure = self.verdict.failure

    def _fail(self, mistake: Exception) -> None:
        """Record an exception that every process of the job raises."""
        self.failure = mistake
        self.verdict = Verdict(False, mistake, 1)


def _bound(body: Callable[[Task], Any], task: Task) -> Callable[[], Any]:
    """Return `body` as a function without arguments, for one task."""
    return lambda: body(task)
