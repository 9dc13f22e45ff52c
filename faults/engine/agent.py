"""An element's agent: the process that runs the protocol for the element's workers.

The keeper of its host starts it.  It drives the protocol (`Member`) and holds all state that must survive a worker.  It
never runs user code, so it answers while user code computes, crashes or hangs.  It ends in order only when bsprun
orders it, and in every other case by SIGKILL.
"""

from __future__ import annotations

import math
import os
import queue
import select
import signal
import socket
import sys
import threading
import time
import traceback
from collections import deque
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import zmq
from xxhash import xxh3_128_digest

from bsp.faults.carrier.job_key import from_secret
from bsp.faults.carrier.mesh import BSPRUN, Mesh
from bsp.faults.carrier.message_faults import MessageFaults
from bsp.faults.carrier.segments import Segment
from bsp.faults.carrier.wire import Closed, Wire
from bsp.faults.checkpoints import archive, part_file
from bsp.faults.checkpoints.folder import PartFile, name_at, opened, write_part
from bsp.faults.engine import forks, idle
from bsp.faults.engine.control_messages import Addresses, Appeared, Confirmed, FromAgent, Introduced
from bsp.faults.engine.forks import Fork, Over, Signal, WorkerStarted, how_ended
from bsp.faults.engine.worker import Erred, work
from bsp.faults.injection import Fault, parse
from bsp.faults.protocol.member import Member
from bsp.faults.protocol.messages import (
    AgentReport,
    Answer,
    BundlePacket,
    Data,
    Deliver,
    Die,
    Died,
    Handover,
    Leave,
    Limits,
    Note,
    NotWritten,
    Once,
    Order,
    Passed,
    Read,
    Reply,
    Say,
    SendTo,
    StartWorker,
    StopWorker,
    Stuck,
    Submitted,
    Tell,
    Write,
    Wrote,
)
from bsp.hosts.build import build

_FLUSH = 0.001  # seconds between attempts to write what a worker has not taken yet
_LAST_WORDS = 1.0  # seconds to send what is left when the job ends
_AGAIN = 1.0  # seconds until an agent repeats what another bsprun needs to know
_LENT = 5.0  # seconds for another element to open the shared memory of a state
_CONFIRMED = 5.0  # seconds in which bsprun confirms that it knows of an injected fault


class _Worker:
    """A worker of this element, as its agent sees it."""

    def __init__(self, bundle: int, life: int, wire: Wire) -> None:
        self.bundle = bundle
        self.life = life
        self.wire = wire
        self.pid = 0
        self.watch = idle.Watch()


class Agent:
    """The agent's event loop, its connections, and the execution of the protocol's effects."""

    def __init__(self, job: dict[str, Any], program: list[str], keeper: Wire) -> None:
        """Start the fork server and open the connections.

        job : settings of this host's agents.  keeper : the channel that its keeper's settings for it come over.
        """
        settings, term, element, reign, bsprun, network = keeper.receive()
        self._keeper = keeper
        self._settings = settings
        self.element = element
        self._faults = list(parse(settings["inject"])) if settings.get("inject") else []
        self._forks = forks.start(work(settings, program))  # before the connections have threads
        network = network or job["network"]
        self._mesh = Mesh(from_secret(job["secret"]), element, term, network, reign=reign)
        faults = MessageFaults(self._faults, element)
        self._sources = self._mesh.sources
        self._mesh.faults = faults if faults.faults else None
        self._mesh.meet(BSPRUN, bsprun)
        self._addresses = 0  # number of the latest that have come
        self._known = False  # bsprun has sent orders, so it knows this agent
        self._again = False  # it is another bsprun than before, which needs to know what this agent knows
        self._appear_at = 0.0
        limits = Limits(**settings["limits"])
        self._limits = limits
        self._member = Member(element, settings["bundles"], limits, settings.get("resume") is not None)
        self._workers: dict[int, _Worker] = {}
        self._by_descriptor: dict[int, _Worker] = {}
        self._poller = zmq.Poller()
        self._began: set[int] = set()  # bundles that have had a worker here
        self._own: list[Any] = []  # messages of this element to itself
        self._unread: list[tuple[int, Any]] = []  # messages that came while a confirmation was waited for
        # results of the threads that read and write checkpoints, and what wakes the loop for them
        self._done: queue.SimpleQueue[Wrote | NotWritten | Handover] = queue.SimpleQueue()
        self._bell = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        self._look_at = 0.0  # time of the next look at the workers
        # states sent to others, and when: their shared memory stays until the receivers have opened it
        self._lent: deque[tuple[float, Handover | Passed]] = deque()

    # ---------------------------------------------------------------------------- the loop

    def run(self) -> None:
        """Run until bsprun orders the end, or has not been heard for too long."""
        # faults of messages concern all elements and the whole run: one element logs them
        for fault in self._faults if self.element == 0 else ():
            if fault.kind in ("drop", "delay", "duplicate"):
                self._post(Note("injected", {"fault": str(fault), "element": None, "superstep": 0}))
        for what in (*self._sources, self._forks.fileno(), self._bell, self._keeper.fileno()):
            self._poller.register(what, zmq.POLLIN)
        pending = False
        while True:
            now = time.monotonic()
            if not self._known and now >= self._appear_at:
                self._appear_at = now + (_AGAIN if self._again else self._limits.beat)
                estate = self._member.estate() if self._again else (None, ())
                self._post(Appeared(os.getpid(), self._mesh.address, build(), *estate))
            wait = min(self._member.deadline(), self._mesh.due(), now + 0.1) - now
            readable = self._poller.poll(max(0, math.ceil(1000 * (_FLUSH if pending else wait))))
            for descriptor, _ in readable:
                self._read(descriptor)
            if self._unread or self._mesh.due() <= time.monotonic():
                self._from_mesh()
            while not self._done.empty():
                done = self._done.get()
                if isinstance(done, NotWritten):
                    self._post(done)
                else:
                    self._perform(self._member.receive(time.monotonic(), done))
            now = time.monotonic()
            if now >= self._member.deadline():
                self._perform(self._member.tick(now))
            self._from_myself(now)
            pending = self._flush()
            if now >= self._look_at:
                self._look_at = now + self._limits.hang_limit / idle.LOOKS
                self._look_at_workers()
                while self._lent and self._lent[0][0] < now - _LENT:
                    self._lent.popleft()

    def _read(self, descriptor: Any) -> None:
        """Handle what has become readable."""
        if descriptor in self._by_descriptor:
            self._from_worker(self._by_descriptor[descriptor])
        elif descriptor in self._sources:
            self._from_mesh()
        elif descriptor == self._bell:
            os.eventfd_read(self._bell)
        elif descriptor == self._forks.fileno():
            self._from_forks()
        elif descriptor == self._keeper.fileno():
            self._from_keeper()

    def _from_mesh(self) -> None:
        """Handle messages of other agents and of bsprun."""
        unread, self._unread = self._unread, []
        for sender, message in unread:
            self._handle(sender, message)
        for sender, message in self._mesh.take():
            self._handle(sender, message)

    def _handle(self, sender: int, message: Any) -> None:
        now = time.monotonic()
        if sender == BSPRUN:
            self._from_bsprun(now, message)
        # a packet with damaged bytes is ignored, and asked for again (N1, N7)
        elif type(message) is not Data or _is_whole(message.packet):
            self._perform(self._member.receive(now, message, sender))
        self._from_myself(now)

    def _from_myself(self, now: float) -> None:
        """Handle this element's messages to itself."""
        while self._own:
            messages, self._own = self._own, []
            for message in messages:
                self._perform(self._member.receive(now, message, self.element))

    def _from_bsprun(self, now: float, message: Any) -> None:
        """Handle a message of bsprun."""
        if isinstance(message, Order):
            self._known = True
            self._perform(self._member.command(now, message.orders))
        elif isinstance(message, Reply):
            self._perform(self._member.reply(now, message.once))
        elif isinstance(message, Addresses) and message.number > self._addresses:
            self._addresses = message.number
            for gone in self._mesh.known() - message.of.keys() - {BSPRUN}:
                self._mesh.forget(gone)
            for element, address in message.of.items():
                if element != self.element:
                    self._mesh.meet(element, address)

    # ----------------------------------------------------------------------------- workers

    def _from_worker(self, worker: _Worker) -> None:
        """Handle messages of a worker."""
        try:
            messages = worker.wire.read()
        except Closed:
            self._forget(worker)  # the fork server will report how it ended
            return
        for message in messages:
            if worker.life not in self._workers:  # a message before has ended this worker
                return
            if isinstance(message, (Erred, Note)):
                self._post(message)
                if isinstance(message, Note) and message.kind == "injected":
                    self._await_confirmation(message.fields["fault"])
                continue
            if isinstance(message, Submitted) and self._faults:
                self._strike(worker, message)
            self._perform(self._member.receive(time.monotonic(), message))

    def _forget(self, worker: _Worker) -> None:
        """Close the connection to a worker."""
        self._workers.pop(worker.life, None)
        if self._by_descriptor.pop(worker.wire.fileno(), None) is not None:
            self._poller.unregister(worker.wire.fileno())
        worker.wire.close()

    def _from_keeper(self) -> None:
        """Handle the keeper's word that another bsprun has taken over (N16)."""
        try:
            for message in self._keeper.read():
                assert isinstance(message, Introduced), message
                self._mesh.reign = message.reign
                self._mesh.meet(BSPRUN, message.bsprun)
                if message.network:
                    self._mesh.address = self._mesh.address._replace(network=message.network)
                self._known, self._again, self._appear_at, self._addresses = False, True, 0.0, 0
        except Closed:
            _end_by_force("the keeper is gone")

    def _from_forks(self) -> None:
        """Handle messages of the fork server."""
        for message in self._forks.read():
            if isinstance(message, WorkerStarted):
                worker = self._workers.get(message.life)
                if worker is not None:
                    worker.pid = message.pid
            elif isinstance(message, Over):
                worker = self._workers.get(message.life)
                if worker is not None:
                    self._from_worker(worker)  # messages sent before it ended
                    self._forget(worker)
                died = Died(message.bundle, message.life, how_ended(message.status))
                self._perform(self._member.receive(time.monotonic(), died))

    def _start_worker(self, effect: StartWorker) -> None:
        """Have the fork server start a worker, after ending the clone's previous one."""
        self._stop_worker(effect.bundle)
        mine, its = socket.socketpair()
        for end in (mine, its):
            for option in (socket.SO_SNDBUF, socket.SO_RCVBUF):
                end.setsockopt(socket.SOL_SOCKET, option, 1 << 22)
        worker = _Worker(effect.bundle, effect.life, Wire(mine))
        self._workers[effect.life] = worker
        self._by_descriptor[worker.wire.fileno()] = worker
        self._poller.register(worker.wire.fileno(), zmq.POLLIN)
        forks.ask(self._forks, Fork(effect.bundle, effect.life, self.element, effect.bundle not in self._began), its)
        self._began.add(effect.bundle)

    def _stop_worker(self, bundle: int) -> None:
        """End the worker of a clone, if it has one."""
        for worker in [worker for worker in self._workers.values() if worker.bundle == bundle]:
            self._forget(worker)
            self._forks.send(Signal(worker.life, signal.SIGKILL))

    def _to_worker(self, bundle: int, message: Any) -> None:
        """Send a message to the worker of a clone."""
        for worker in self._workers.values():
            if worker.bundle == bundle:
                worker.watch.give()
                try:
                    worker.wire.post(message)
                except Closed:
                    self._forget(worker)
                return

    def _flush(self) -> bool:
        """Continue writing to the workers; return whether something is still to be written."""
        waiting = False
        for worker in list(self._workers.values()):
            if worker.wire.pending:
                try:
                    waiting = not worker.wire.flush() or waiting
                except Closed:
                    self._forget(worker)
        return waiting

    def _look_at_workers(self) -> None:
        """Detect workers that neither compute nor wait for this agent."""
        for worker in list(self._workers.values()):
            if worker.pid and (how := worker.watch.look(worker.pid)):
                stuck = Stuck(worker.bundle, worker.life, how == "stopped")
                self._perform(self._member.receive(time.monotonic(), stuck))

    # ----------------------------------------------------------------------------- effects

    def _perform(self, effects: list[Any]) -> None:
        """Perform effects of the protocol."""
        for effect in effects:
            kind = type(effect)
            if kind is SendTo:
                if effect.element == self.element:
                    self._own.append(effect.message)
                else:
                    self._mesh.send(effect.element, effect.message)
                    if isinstance(effect.message, (Handover, Passed)):
                        self._lent.append((time.monotonic(), effect.message))
            elif kind is Deliver or kind is Answer or kind is Once:
                self._to_worker(effect.bundle, effect)
            elif kind is Tell:
                self._post(self._with_bytes(effect.report))
            elif kind is Say or kind is Note:
                self._post(effect)
            elif kind is StartWorker:
                self._start_worker(effect)
            elif kind is StopWorker:
                self._stop_worker(effect.bundle)
            elif kind is Read:
                threading.Thread(target=self._read_part, args=(effect,), daemon=True).start()
            elif kind is Write:
                threading.Thread(target=self._write_part, args=(effect,), daemon=True).start()
            elif kind is Leave:
                self._leave()
            elif kind is Die:
                _end_by_force(effect.why)

    def _post(self, message: Any) -> None:
        """Send a message to bsprun."""
        self._mesh.send(BSPRUN, FromAgent(self._addresses, message))

    def _with_bytes(self, report: AgentReport) -> Tell:
        """Add the bytes sent to a report, and whether a signal has asked this element to leave."""
        return Tell(replace(report, sent=self._mesh.sent_bytes, leaving=asked_to_leave()))

    def _leave(self) -> None:
        """End this element in order, after sending a last report."""
        self._post(self._with_bytes(self._member.report()))
        self._mesh.close(_LAST_WORDS)
        os._exit(0)

    # ------------------------------------------------------------------------- checkpoints

    def _write_part(self, effect: Write) -> None:
        """Write a part of a checkpoint.  It runs in a thread, so that the agent continues to answer."""
        folder, snapshot = self._settings["checkpoint"], effect.handover.snapshot
        assert snapshot is not None
        try:
            printed = snapshot.said if effect.bundle == 0 else 0
            name = name_at(snapshot.superstep)
            of = self._part_of(name, effect.bundle) | {
                "assignment": effect.handover.since, "superstep": snapshot.superstep, "head": snapshot.head,
            }  # fmt: skip
            blocks = archive.blocks(part_file.members(effect.handover, of))
            part = write_part(Path(folder), name, effect.bundle, blocks)
            self._done.put(Wrote(effect.bundle, effect.head, (part, snapshot.superstep, printed)))
        except Exception as wrong:  # noqa: BLE001 - bsprun must be told, or it would wait for this part
            said = str(wrong) if isinstance(wrong, OSError) else f"{type(wrong).__name__}: {wrong}"
            self._done.put(NotWritten(effect.head, snapshot.superstep, said))
        os.eventfd_write(self._bell, 1)

    def _read_part(self, effect: Read) -> None:
        """Read this element's part of the checkpoint that the job resumes.  It runs in a thread, too.

        bsprun has verified the checkpoint's seal and sends the part's digest; nothing is unpickled before the digest is
        verified.
        """
        inside, told = self._settings["resume"]
        part = next(PartFile(*fields) for fields in told if fields[0] == effect.bundle)
        try:
            with opened(Path(inside), part) as source:
                found = archive.read(source)
            state = part_file.handover(found, self._part_of(Path(inside).name, effect.bundle))
        except Exception as wrong:  # noqa: BLE001 - whatever failed, this element has no state to continue from
            print(f"bsprun: element {self.element}: {inside}: {wrong}", file=sys.stderr, flush=True)
            _end_by_force("no state")
        else:
            self._done.put(state._replace(since=effect.since))
            os.eventfd_write(self._bell, 1)

    def _part_of(self, name: str, bundle: int) -> dict[str, Any]:
        """Return the names that a part must carry (N7)."""
        return {"job": self._settings["job"], "checkpoint": name, "bundle": bundle}

    # ------------------------------------------------------------------------------ faults

    def _strike(self, worker: _Worker, submitted: Submitted) -> None:
        """Carry out the injected faults of this element that are due when its worker has computed a superstep."""
        if submitted.compute < 0:  # not the superstep's first exchange
            return
        for fault in list(self._faults):
            if fault.kind not in ("kill", "stop", "signal") or fault.host != self.element:
                continue
            # a later superstep counts too: the worker may have jumped over the one named
            if fault.superstep is None or submitted.superstep < fault.superstep:
                continue
            self._faults.remove(fault)
            self._post(Note("injected", {"fault": str(fault), "element": self.element, "superstep": fault.superstep}))
            self._await_confirmation(str(fault))
            _hit(fault, self._pid_of(worker) if fault.worker is not None else os.getpid())

    def _pid_of(self, worker: _Worker) -> int:
        """Return the process id of a worker, whose first superstep may be here before the fork server's message."""
        while not worker.pid:
            select.select([self._forks], [], [])
            self._from_forks()
        return worker.pid

    def _await_confirmation(self, fault: str) -> None:
        """Wait until bsprun has heard of a fault.

        Its message may not leave a process that is killed, and others could tell of its consequences first, which may
        be the end of the job.
        """
        until = time.monotonic() + _CONFIRMED
        while time.monotonic() < until:
            self._mesh.wait(0.1)
            for sender, message in self._mesh.take():
                if sender == BSPRUN and message == Confirmed(fault):
                    return
                self._unread.append((sender, message))


def _hit(fault: Fault, pid: int) -> None:
    """Send the signal of an injected fault; after a stop of limited length a forked process sends SIGCONT."""
    number = signal.SIGKILL if fault.kind == "kill" else signal.SIGSTOP
    if fault.kind == "signal":
        number = signal.Signals[str(fault.name)]
    if fault.seconds is not None and os.fork() == 0:  # the stopped process cannot wake itself
        time.sleep(fault.seconds)
        os.kill(pid, signal.SIGCONT)
        os._exit(0)
    os.kill(pid, number)


def _is_whole(packet: BundlePacket) -> bool:
    """Return whether the bytes of a packet are those that were sent (N7); a failure's description has no digest."""
    if isinstance(packet.data, Segment):  # it has not travelled
        return True
    return not any(packet.digest) or xxh3_128_digest(packet.data) == packet.digest


def _end_by_force(why: str) -> Any:
    """End this process by SIGKILL."""
    if os.environ.get("BSP_FAULTS_DEBUG"):
        print(f"agent {os.getpid()}: {why}", file=sys.stderr, flush=True)
    os.kill(os.getpid(), signal.SIGKILL)


_signals: list[int] = []  # that have asked this process to leave


def leave_when_asked(*more: int) -> None:
    """Take SIGTERM, and `more` signals, for the wish that this process leaves in good order (N15)."""
    for number in {signal.SIGTERM, *more}:
        signal.signal(number, lambda number, frame: _signals.append(number))


def asked_to_leave() -> str:
    """Return why this process is to leave; empty if it is not."""
    return signal.Signals(_signals[0]).name if _signals else ""


def lead(job: dict[str, Any], program: list[str]) -> Callable[[socket.socket, Fork], None]:
    """Return the function that runs an agent in a forked process: its settings come over the channel."""

    def life(channel: socket.socket, asked: Fork) -> None:
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        leave_when_asked()
        try:
            Agent(job, program, Wire(channel)).run()
        except Closed:
            _end_by_force("the fork server or the keeper is gone")
        except BaseException:  # noqa: BLE001 - whatever failed, this element is lost
            traceback.print_exc()
            sys.stderr.flush()
            _end_by_force("an error")

    return life
