"""An element's agent: the MPI rank that runs the protocol for its workers.

bsprun starts `python -m bsp.faults.engine.agent SETTINGS PROGRAM...` through mpiexec.  The agent drives the protocol
(`Member`) and holds all state that must survive a worker.  It never runs user code, so it answers while user code
computes, crashes or hangs.  It ends in order only when bsprun orders it.  In every other case it ends by SIGKILL,
which the other ranks are certain to notice.
"""

from __future__ import annotations

import contextlib
import json
import os
import queue
import selectors
import signal
import socket
import sys
import threading
import time
import traceback
from dataclasses import replace
from pathlib import Path
from typing import Any

from xxhash import xxh3_128_digest

from bsp.faults.checkpoints import archive, part_file
from bsp.faults.checkpoints.folder import PartFile, name_at, opened, write_part
from bsp.faults.engine import forks, idle
from bsp.faults.engine.forks import Fork, Over, Signal, WorkerStarted
from bsp.faults.engine.wire import SECRET, Closed, Wire
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
from bsp.host import die_with_parent

_SLICE = 0.0002  # seconds between tests of MPI while a message is half sent or half received
_WAITING = 0.02  # seconds between them while a worker waits, in case the datagram of a message was lost
_SPIN = 0.0005  # seconds to test MPI before sleeping, where every element has a core


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

    def __init__(self, settings: dict[str, Any], program: list[str]) -> None:
        """Start the fork server and MPI, and connect to bsprun.

        settings : as `Command.words` makes them.  program : the script and its arguments.
        """
        self._settings = settings
        self._secret = os.environ.pop(SECRET)
        self._faults = list(parse(settings["inject"])) if settings.get("inject") else []
        # before MPI_Init: a process must not fork after that
        self._forks = forks.start(work(settings, program))
        from bsp.faults.engine.peers import Peers

        self._peers = Peers(self._faults, time.monotonic())
        self.element = self._peers.rank
        limits = Limits(**settings["limits"])
        self._limits = limits
        self._member = Member(self.element, settings["bundles"], limits, settings.get("resume") is not None)
        self._selector = selectors.DefaultSelector()
        self._workers: dict[int, _Worker] = {}
        self._began: set[int] = set()  # bundles that have had a worker here
        self._own: list[Any] = []  # messages of this element to itself
        # results of the threads that read and write checkpoints
        self._done: queue.SimpleQueue[Wrote | NotWritten | Handover] = queue.SimpleQueue()
        self._look_at = 0.0  # time of the next look at the workers
        self._spins = settings["spins"]
        self._bsprun = self._connect()

    def _connect(self) -> Wire:
        """Connect to bsprun, send the secret, and introduce this element with the address of its bell."""
        host, port = self._settings["bsprun"]
        end = socket.create_connection((host, port), timeout=30)
        end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        end.settimeout(None)
        end.sendall(self._secret.encode())
        wire = Wire(end)
        wire.send(("hello", self.element, os.getpid(), socket.gethostname(), self._peers.port))
        return wire

    # ---------------------------------------------------------------------------- the loop

    def run(self) -> None:
        """Run until bsprun orders the end, or is gone."""
        # faults of messages concern all elements and the whole run: one element logs them
        for fault in self._faults if self.element == 0 else ():
            if fault.kind in ("drop", "delay", "duplicate"):
                self._post(Note("injected", {"fault": str(fault), "element": None, "superstep": 0}))
        selector = self._selector
        for what in (self._peers.bell, self._forks, self._bsprun):
            selector.register(what, selectors.EVENT_READ, what)
        pending = False
        while True:
            now = time.monotonic()
            wait = min(self._member.deadline() - now, 0.1)
            waiting = any(clone.waiting is not None for clone in self._member.clones.values())
            if waiting and self._spins:
                self._spin()
            if self._peers.busy or pending:
                wait = min(wait, _SLICE)
            elif waiting:
                wait = min(wait, _WAITING)
            ready = selector.select(max(wait, 0.0))
            for key, _ in ready:
                self._read(key.data)
            self._from_peers()
            while not self._done.empty():
                done = self._done.get()
                if isinstance(done, NotWritten):
                    self._post(done)
                else:
                    self._perform(self._member.receive(time.monotonic(), done))
            now = time.monotonic()
            if now >= self._member.deadline():
                self._perform(self._member.tick(now))
            pending = self._flush()
            if now >= self._look_at:
                self._look_at = now + self._limits.hang_limit / idle.LOOKS
                self._look_at_workers()

    def _spin(self) -> None:
        """Test MPI for a short time without sleeping: while the worker waits, its core is free."""
        until = time.perf_counter() + _SPIN
        while time.perf_counter() < until:
            if self._from_peers() and not any(c.waiting is not None for c in self._member.clones.values()):
                return

    def _read(self, what: Any) -> None:
        """Handle a connection that has become readable."""
        if what is self._peers.bell:
            self._peers.hush()
        elif what is self._forks:
            self._from_forks()
        elif what is self._bsprun:
            self._from_bsprun()
        elif what.life in self._workers:
            self._from_worker(what)

    def _from_peers(self) -> bool:
        """Handle messages of other agents, and of this one to itself; return whether others had sent any."""
        now = time.monotonic()
        came = self._peers.take(now)
        for rank, message in came:
            # a packet with damaged bytes is ignored, and asked for again (N1, N7)
            if type(message) is not Data or _is_whole(message.packet):
                self._perform(self._member.receive(now, message, rank))
        while self._own:
            messages, self._own = self._own, []
            for message in messages:
                self._perform(self._member.receive(now, message, self.element))
        return bool(came)

    def _from_bsprun(self) -> None:
        """Handle messages of bsprun."""
        try:
            messages = self._bsprun.read()
        except Closed:
            _end_by_force("bsprun is gone")
        for message in messages:
            now = time.monotonic()
            if isinstance(message, Order):
                self._give_up(message)
                self._perform(self._member.command(now, message.orders))
            elif isinstance(message, Reply):
                self._perform(self._member.reply(now, message.once))
            else:
                self._peers.learn(message)

    def _give_up(self, order: Order) -> None:
        """Stop sending to elements that a new view does not contain."""
        view = order.orders.view
        if view.number > self._member.view.number:
            for rank in set(range(self._peers.size)) - view.elements():
                self._peers.give_up(rank)

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
                continue
            if isinstance(message, Submitted) and self._faults:
                self._strike(worker, message)
            self._perform(self._member.receive(time.monotonic(), message))

    def _forget(self, worker: _Worker) -> None:
        """Close the connection to a worker."""
        self._workers.pop(worker.life, None)
        with contextlib.suppress(KeyError, ValueError):
            self._selector.unregister(worker.wire)
        worker.wire.close()

    def _from_forks(self) -> None:
        """Handle messages of the fork server."""
        try:
            messages = self._forks.read()
        except Closed:
            _end_by_force("the fork server is gone")
        for message in messages:
            if isinstance(message, WorkerStarted):
                worker = self._workers.get(message.life)
                if worker is not None:
                    worker.pid = message.pid
            elif isinstance(message, Over):
                worker = self._workers.get(message.life)
                if worker is not None:
                    self._from_worker(worker)  # messages sent before it ended
                    self._forget(worker)
                died = Died(message.bundle, message.life, _how(message.status))
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
        self._selector.register(worker.wire, selectors.EVENT_READ, worker)
        self._forks.send(Fork(effect.bundle, effect.life, self.element, effect.bundle not in self._began))
        socket.send_fds(self._forks.end, [b"f"], [its.fileno()])
        its.close()
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
        """Continue writing to bsprun and the workers; return whether something is still to be written."""
        waiting = not self._bsprun.flush()
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
                    self._peers.send(effect.element, effect.message)
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
        try:
            self._bsprun.post(message)
        except Closed:
            _end_by_force("bsprun is gone")

    def _with_bytes(self, report: AgentReport) -> Tell:
        """Add the bytes sent to a report."""
        return Tell(replace(report, sent=self._peers.sent_bytes))

    def _leave(self) -> None:
        """End this element in order, after sending a last report.

        MPI_Finalize is left out, because it hangs after failures.
        """
        with contextlib.suppress(Closed):
            self._bsprun.post(self._with_bytes(self._member.report()))
            until = time.monotonic() + 1.0
            while not self._bsprun.flush() and time.monotonic() < until:
                time.sleep(_SLICE)
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
        self._peers.ring(self.element)

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
            self._peers.ring(self.element)

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
            self._bsprun.flush()
            _hit(fault, worker.pid if fault.worker is not None else os.getpid())


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
    return not any(packet.digest) or xxh3_128_digest(packet.data) == packet.digest


def _how(status: int) -> str:
    """Return how a worker ended, in words."""
    if status < 0:
        return f"was ended by {signal.Signals(-status).name}"
    return f"left with status {status}"


def _end_by_force(why: str) -> Any:
    """End this process by SIGKILL: other ranks are certain to notice it, unlike an exit with a status."""
    if os.environ.get("BSP_FAULTS_DEBUG"):
        print(f"agent {os.getpid()}: {why}", file=sys.stderr, flush=True)
    os.kill(os.getpid(), signal.SIGKILL)


def main() -> None:
    """Run an agent with the arguments of the command line."""
    settings = json.loads(sys.argv[1])
    if SECRET not in os.environ:
        sys.exit(
            "bsp.faults.engine.agent: an agent works for the bsprun that has started it; start the job with bsprun"
        )
    die_with_parent()
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        Agent(settings, sys.argv[2:]).run()
    except BaseException:  # noqa: BLE001 - whatever failed, this element is lost
        traceback.print_exc()
        sys.stderr.flush()
        _end_by_force("an error")


if __name__ == "__main__":
    main()
