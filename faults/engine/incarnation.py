"""bsprun's part of one incarnation: it starts an MPI job of agents and carries out what the `Arbiter` decides.

Each agent has a TCP connection of its own to bsprun.  Its messages are passed to the arbiter, and the arbiter's
effects are performed here: orders, printing, fencing, checkpoints, the end.
"""

from __future__ import annotations

import base64
import contextlib
import hmac
import os
import pickle
import queue
import secrets
import selectors
import signal
import socket
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import psutil

from bsp.errors import LaunchError
from bsp.faults.checkpoints.folder import Checkpoint, commit, discard, name_at
from bsp.faults.checkpoints.key import VARIABLE
from bsp.faults.engine.agent_command import Command
from bsp.faults.engine.job import LOST, PREEMPTED, Job, digest_of
from bsp.faults.engine.start_limit import Start
from bsp.faults.engine.wire import SECRET, Closed, Wire
from bsp.faults.protocol.arbiter import Arbiter
from bsp.faults.protocol.messages import (
    END_COMPARED,
    Commit,
    Corrupt,
    Fence,
    Finished,
    Lost,
    Note,
    NotWritten,
    Order,
    Orders,
    Print,
    Reply,
    Say,
    Tell,
)
from bsp.faults.protocol.text import Shown
from bsp.host import die_with_parent
from bsp.hosts.processes import GRACE, kill

_DISCARD = 9  # port in the address of an element that is not there
_RETRY = 60.0  # seconds until a refresh whose checkpoint could not be written is tried again
# beginnings of Open MPI's messages about ranks whose end is handled here
_NOISE = (b"[warn] Epoll ", b"pmix_ptl_base: ")


class NotStarted(LaunchError):
    """Elements died, or hung, before they appeared; the incarnation can be started again."""


class _Peer:
    """The connection to an agent, and the identity of its process."""

    def __init__(self, wire: Wire) -> None:
        self.wire = wire
        self.element = -1
        self.host = ""
        self.port = 0
        self.pid = 0
        self.pidfd = -1
        self.local = False  # on this machine, where its end can be observed with certainty


class Incarnation:
    """An MPI job of agents, from its start to the end of the program, a checkpoint to continue from, or a loss."""

    def __init__(self, job: Job, resume: Checkpoint | None, wake: socket.socket) -> None:
        """Listen for agents.

        resume : the checkpoint to continue from, if any.  wake : a socket that becomes readable when a signal arrives.
        """
        self.job = job
        self.launch, self.asked = job.launch, job.asked
        self.resume = resume
        self.count = len(job.rows) + self.asked.standbys
        self.arbiter = Arbiter(job.rows, self.asked.standbys, self.asked.limits)
        self.arbiter.orders = Orders(self.arbiter.view, printed=job.printed)
        self.arbiter.once = job.once
        self.peers: dict[int, _Peer] = {}
        self.status: int | None = None
        self.over = False
        self.reason = ""
        self._wake = wake
        self._secret = secrets.token_hex(32)
        self._selector = selectors.DefaultSelector()
        self._listener = socket.create_server(("127.0.0.1" if self.launch.local else "", 0), backlog=256)
        self._selector.register(self._listener, selectors.EVENT_READ, self._accept)
        self._selector.register(wake, selectors.EVENT_READ, self._woken)
        self._strangers: dict[socket.socket, bytearray] = {}  # connections without a complete secret yet
        self._child: subprocess.Popen[bytes] | None = None
        self._why: dict[int, str] = {}  # reasons, of elements that are being fenced
        self._purpose: str | None = None  # of a hold: "refresh" or "preempted"
        self._held_at = 0.0
        self._end_at: float | None = None  # time at which bsprun stops waiting for agents to leave
        self._started = False
        self._half_line = b""
        # commits that have ended, with the error, if any
        self._settled: queue.SimpleQueue[tuple[Commit, str]] = queue.SimpleQueue()
        self._bell = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        self._selector.register(self._bell, selectors.EVENT_READ, self._settle)
        self._failed_head = -1  # head of the last checkpoint that could not be written
        self._refresh_at = 0.0  # no refresh is tried before this time
        self._hosts: dict[int, str] = {}  # of all elements that have appeared
        # for how many seconds bsprun last stood still, and when
        self._stood, self._stood_at = 0.0, float("-inf")
        self._warned: set[int] = set()  # bundles for which a warning has been printed

    # ------------------------------------------------------------------------------ start

    def command(self) -> Command:
        """Return the command that starts the agents."""
        job = self.job
        return Command(
            job.launch, job.asked, job.mpiexec, self.count, job.folder, job.checkpoints, digest_of(job.identity),
            job.incarnation, self.resume,
        )  # fmt: skip

    def run(self) -> int | None:
        """Run the incarnation; return the exit status, or None to continue from the last checkpoint."""
        if self.job.preempted and self.resume is not None:
            return self._stand()
        command = self.command()
        environment = os.environ | command.environment(os.environ) | {SECRET: self._secret}
        # the agents do not need the user's key
        environment.pop(VARIABLE, None)
        if self.launch.local:
            os.makedirs(environment["PRTE_MCA_prte_tmpdir_base"], exist_ok=True)
        host, port = self._listener.getsockname()[:2]
        self._child = subprocess.Popen(
            command.words(host if self.launch.local else socket.gethostname(), port),
            env=environment,
            stdin=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            preexec_fn=die_with_parent,
        )
        assert self._child.stderr is not None
        os.set_blocking(self._child.stderr.fileno(), False)
        self._selector.register(self._child.stderr, selectors.EVENT_READ, self._launcher_says)
        start = Start(self._child.pid)
        turned = time.monotonic()
        while not self.over:
            ready = self._selector.select(0.05)
            before, turned = turned, time.monotonic()
            if turned - before > 1.0:  # measured over a whole turn: a stop may happen anywhere in it
                self._stood, self._stood_at = turned - before, turned
            for key, _ in ready:
                key.data() if key.fileobj in (self._listener, self._wake) else key.data(key.fileobj)
            if self.over:
                break
            now = self._now()
            if self._started:
                self._obey(self.arbiter.tick(now))
                for peer in list(self.peers.values()):
                    self._flush(peer)
                self.job.output.show(self.arbiter, now)
            elif start.is_over():
                self._start_without(start.seconds)
            if self._child.poll() is not None and not self.peers and not self.over:
                if not self._started:
                    raise LaunchError(f"the elements could not be started (mpiexec's status {self._child.returncode})")
                self._lose("every element is gone", 0, self.superstep())
            if self._end_at is not None and time.monotonic() > self._end_at:
                self.over = True
        return self.status

    def _launcher_says(self, pipe: Any) -> None:
        """Pass on what mpiexec and C code in elements write, without Open MPI's messages about ranks that have died."""
        data = b""
        with contextlib.suppress(BlockingIOError, ValueError):
            data = os.read(pipe.fileno(), 1 << 16)
        if not data:
            with contextlib.suppress(KeyError, ValueError):
                self._selector.unregister(pipe)
        *lines, self._half_line = (self._half_line + data).split(b"\n")
        for line in lines:
            if not any(noise in line for noise in _NOISE):
                self.job.output.complain(line + b"\n")

    def _now(self) -> float:
        """Return the seconds since the job began."""
        return time.monotonic() - self.job.began

    def _start_without(self, waited: float) -> None:
        """Start without the elements that have not appeared, if the others hold all bundles; else raise NotStarted."""
        missing = sorted(set(range(self.count)) - self.peers.keys())
        there = {bundle for e, row in enumerate(self.job.rows) if e in self.peers for bundle in row}
        names = ", ".join(map(str, missing))
        if len(there) < self.launch.elements:
            raise NotStarted(f"{len(self.peers)} of {self.count} elements appeared in {waited:.0f} s; not {names}")
        self.job.say(f"warning: elements {names} did not appear in {waited:.0f} s; the job starts without them")
        self._begin()
        for element in missing:
            self._obey(self.arbiter.died(self._now(), element, "did not appear", confirmed=False))

    def superstep(self) -> int:
        """Return the latest superstep that an element has reported."""
        return max((p.superstep for r in self.arbiter.reports.values() for p in r.clones), default=0)

    # ----------------------------------------------------------------------- connections

    def _accept(self) -> None:
        """Accept a connection, of which nothing is known yet."""
        end, _ = self._listener.accept()
        end.setblocking(False)
        self._strangers[end] = bytearray()
        self._selector.register(end, selectors.EVENT_READ, self._stranger)

    def _stranger(self, end: Any) -> None:
        """Read the secret from a new connection; nothing that it sends is unpickled before the secret is verified."""
        said = self._strangers[end]
        data = b""
        with contextlib.suppress(OSError):
            data = end.recv(len(self._secret) - len(said))
        said += data
        if data and len(said) < len(self._secret):
            return
        del self._strangers[end]
        self._selector.unregister(end)
        if not hmac.compare_digest(bytes(said), self._secret.encode()):
            end.close()
            return
        end.setblocking(True)
        end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        peer = _Peer(Wire(end))
        self._selector.register(end, selectors.EVENT_READ, lambda _: self._read(peer))

    def _read(self, peer: _Peer) -> None:
        """Handle messages of an agent."""
        try:
            messages = peer.wire.read()
        except Closed:
            self._gone(peer)
            return
        for message in messages:
            if isinstance(message, Tell):
                self._obey(self.arbiter.report(self._now(), message.report))
            elif isinstance(message, Say):
                self._obey(self.arbiter.text(self._now(), peer.element, *message))
            elif isinstance(message, Note):
                self._note(message.kind, message.fields)
            elif isinstance(message, NotWritten):
                self._failed(*message)
            elif message[0] == "hello":
                self._hello(peer, *message[1:])
            else:
                self._show_error(*message)

    def _hello(self, peer: _Peer, element: int, pid: int, host: str, port: int) -> None:
        """Handle the introduction of an agent; the job begins when all have introduced themselves."""
        peer.element, peer.host, peer.port, peer.pid = element, host, port, pid
        if host == socket.gethostname():
            with contextlib.suppress(OSError):
                peer.pidfd = os.pidfd_open(pid)
                peer.local = True
        self.peers[element] = peer
        self._hosts[element] = host
        self.arbiter.appeared(self._now(), element)
        if element in self.arbiter.dead:  # the job has begun without it
            self._why[element] = "did not appear"
            self._kill(peer)
        elif len(self.peers) == self.count:
            self._begin()

    def _begin(self) -> None:
        """Begin the job: send every agent the addresses of all bells."""
        self._started = True
        bells = [("127.0.0.1", _DISCARD)] * self.count
        for e, peer in self.peers.items():
            bells[e] = "127.0.0.1" if self.launch.local else peer.host, peer.port
        for peer in self.peers.values():
            self._post(peer, bells)
        self.job.log.record(
            "started", nprocs=self.launch.nprocs, bundles=self.launch.elements, elements=self.count,
            clones=self.asked.clones, standbys=self.asked.standbys, incarnation=self.job.incarnation,
            seconds=round(self._now(), 3), agents={f"{e}": peer.pid for e, peer in sorted(self.peers.items())},
        )  # fmt: skip
        self.job.log.record("view", **self.arbiter.view.plain())
        if self.job.preempted:
            self._preempt()
        self._obey(self.arbiter.tick(self._now()))

    def _gone(self, peer: _Peer) -> None:
        """Handle the loss of a connection: the agent is dead, or is killed now."""
        self._selector.unregister(peer.wire.end)
        peer.wire.close()
        if peer.element < 0 or self.peers.pop(peer.element, None) is None:
            return
        if self.over or self._end_at is not None:
            self.over = self.over or not self.peers
            self._bury(peer)
            return
        self._kill(peer)
        self._bury(peer)
        if self._started:
            how = self._why.pop(peer.element, "") or self._how_ended()
            self._obey(self.arbiter.died(self._now(), peer.element, how, confirmed=peer.local))

    def _how_ended(self) -> str:
        """Return the likely reason why an element ended that was not fenced."""
        alone = self.asked.limits.alone
        if time.monotonic() - self._stood_at < alone:
            return (
                f"had not heard bsprun, which stood still for {self._stood:.0f} s, and ended itself after {alone:g} s"
            )
        if self._child is not None and self._child.poll() is not None:
            return "was ended with the MPI launcher"
        return "was killed"

    def _kill(self, peer: _Peer) -> None:
        """Kill an agent on this machine."""
        if peer.pidfd >= 0:
            with contextlib.suppress(ProcessLookupError):
                signal.pidfd_send_signal(peer.pidfd, signal.SIGKILL)

    def _bury(self, peer: _Peer) -> None:
        """Release the handle of a dead agent's process."""
        if peer.pidfd >= 0:
            os.close(peer.pidfd)
            peer.pidfd = -1

    def _post(self, peer: _Peer, message: Any) -> None:
        """Send a message to an agent, if it is still connected."""
        with contextlib.suppress(Closed):
            peer.wire.post(message)

    def _flush(self, peer: _Peer) -> None:
        """Continue writing to an agent."""
        with contextlib.suppress(Closed):
            peer.wire.flush()

    # --------------------------------------------------------------------------- effects

    def _obey(self, effects: Sequence[Any]) -> None:
        """Perform effects of the arbiter; start a refresh if one has become possible."""
        for effect in effects:
            if isinstance(effect, Order):
                for peer in self.peers.values():
                    self._post(peer, effect)
            elif isinstance(effect, Reply):
                if effect.element in self.peers:
                    self._post(self.peers[effect.element], effect)
            elif isinstance(effect, Print):
                self._print(effect.data)
            elif isinstance(effect, Note):
                self._note(effect.kind, effect.fields)
            elif isinstance(effect, Fence):
                self._fence(effect)
            elif isinstance(effect, Commit):
                self._commit(effect)
            elif isinstance(effect, Finished):
                self._finish(effect)
            elif isinstance(effect, Lost):
                self._lose(effect.why, effect.bundle, effect.superstep)
            elif isinstance(effect, Corrupt):
                found = effect.found
                told = ", ".join(f"element {e}: {d.hex()[:8]}" for e, d in found.votes if e >= 0)
                what = "computed different bytes" if found.exchange >= 0 else "came to a round in different states"
                why = f"its clones {what} ({told}); faulty hardware, or a program that is not deterministic"
                # a corrupt clone may have computed results that were given since the last checkpoint
                self.job.once = {}
                self._lose(f"{why} (bsprun --check tells)", found.bundle, found.superstep, "Corruption")
        if self._purpose is None and not self.over and self._end_at is None and self._may_refresh():
            self._hold("refresh")

    def _may_refresh(self) -> bool:
        """Return whether to refresh: a bundle lacks clones, no standby is left, and all hosts are there."""
        may = self.asked.refresh and time.monotonic() >= self._refresh_at and self._has_all_machines()
        return may and not self.arbiter.view.standbys and bool(self.arbiter.degraded())

    def _has_all_machines(self) -> bool:
        """Return whether a new MPI job can start on the same hosts, and will find the checkpoints there."""
        if self.launch.local:
            return True
        alive = {peer.host for peer in self.peers.values()}
        return self.asked.checkpoint is not None and set(self._hosts.values()) <= alive

    def _hold(self, purpose: str) -> None:
        """Stop all clones at one head, with a checkpoint; `purpose` decides what happens then."""
        self._purpose, self._held_at = purpose, time.monotonic()
        self._obey(self.arbiter.hold(self._now()))

    def _print(self, data: bytes) -> None:
        """Print standard output of the program."""
        self.job.output.print(data)
        self.job.printed += len(data)

    def _show_error(self, bundle: int, life: int, offset: int, data: bytes) -> None:
        """Print those bytes of a bundle's standard error that have not been shown."""
        new = self.job.errors.setdefault(bundle, Shown()).add(offset, data)
        if new:
            self.job.output.complain(new)

    def _note(self, kind: str, fields: dict[str, Any]) -> None:
        """Log an event, and print a warning for some kinds."""
        if fields.pop("warning", False) and fields["bundle"] not in self._warned:
            self._warned.add(fields["bundle"])
            self.job.say(f"warning: {fields['text']} (more of these are in --events)")
        if kind == "injected":
            self.job.struck.add(fields["fault"])
        if kind == "degraded":
            self.job.say(
                f"warning: bundle {fields['bundle']} has {fields['clones']} of {fields['goal']} clones left"
                f"{' (and {} passive)'.format(fields['passive']) if fields['passive'] else ''}, and no standby"
            )
        self.job.log.record(kind, **fields)

    def _fence(self, effect: Fence) -> None:
        """Kill an element and report its death to the arbiter."""
        peer = self.peers.get(effect.element)
        self.job.log.record("fenced", element=effect.element, reason=effect.why)
        if peer is None:
            self._obey(self.arbiter.died(self._now(), effect.element, effect.why))
            return
        self._why[effect.element] = f"was fenced: {effect.why}"
        self._kill(peer)
        # It cannot be killed from here.  Without orders from bsprun it ends itself; until then its death is unconfirmed
        # (N9).
        if not peer.local:
            self._selector.unregister(peer.wire.end)
            peer.wire.close()
            del self.peers[effect.element]
            self._obey(self.arbiter.died(self._now(), effect.element, effect.why, confirmed=False))

    # ----------------------------------------------------------------------- checkpoints

    def _commit(self, effect: Commit) -> None:
        """Commit a checkpoint in the background; `_settle` handles the result."""
        parts = [part for part, _, _ in effect.parts]
        superstep = effect.parts[0][1]
        head = {
            "superstep": superstep,
            "head": effect.head,
            "said": max(said for _, _, said in effect.parts),
            "seconds": round(self._now(), 6),
            "once": [[list(token), base64.b64encode(value).decode()] for token, value in self.arbiter.once.items()],
        }
        job = self.job

        def write() -> None:
            try:
                commit(Path(job.checkpoints), job.key, name_at(superstep), job.identity, parts, head, self.asked.keep)
                self._settled.put((effect, ""))
            except OSError as wrong:
                self._settled.put((effect, str(wrong)))
            os.eventfd_write(self._bell, 1)

        self.job.disk.do(write)

    def _settle(self, _: Any) -> None:
        """Handle commits that have ended, well or not."""
        os.eventfd_read(self._bell)
        while not self._settled.empty():
            effect, wrong = self._settled.get()
            if self.over or self._end_at is not None:
                continue
            if wrong:
                self._failed(effect.head, effect.parts[0][1], wrong)
            else:
                self._committed(effect)

    def _failed(self, head: int, superstep: int, why: str) -> None:
        """Handle a checkpoint that could not be written: warn, and end the hold that it was for.

        Each writer of a part may report the failure; only the first report counts.
        """
        if head <= self._failed_head:
            return
        self._failed_head = head
        self.job.say(f"warning: no checkpoint at superstep {superstep}: {why}")
        self.job.log.record("checkpoint", error=why, superstep=superstep)
        folder = Path(self.job.checkpoints)
        self.job.disk.do(lambda: discard(folder, name_at(superstep)))
        if self._purpose == "preempted":
            self.job.say(f"{self.job.interrupted()}; the last checkpoint stands in {self.job.checkpoints}")
            self.status = 128 + signal.SIGTERM
            self._leave()
        elif self._purpose == "refresh":
            self._purpose, self._refresh_at = None, time.monotonic() + _RETRY
            self.job.say(f"warning: the job goes on with fewer clones; it is refreshed in {_RETRY:g} s if it can be")
            self._obey(self.arbiter.release(self._now(), head))
        else:
            self._obey(self.arbiter.committed(self._now(), head))

    def _committed(self, effect: Commit) -> None:
        """Handle a checkpoint that is complete: end this incarnation if it was written for that."""
        superstep = effect.parts[0][1]
        size = sum(part.size for part, _, _ in effect.parts)
        self.job.log.record("checkpoint", name=name_at(superstep), superstep=superstep, bytes=size)
        if self._purpose is None:
            self._obey(self.arbiter.committed(self._now(), effect.head))
            return
        if self._purpose == "refresh":
            pause, lost = time.monotonic() - self._held_at, self.arbiter.reach.lost(effect.head, self.arbiter.reports)
            self.job.log.record("refreshed", superstep=superstep, pause=round(pause, 3), bytes=size, rounds_lost=lost)
            self.status = None
        else:
            self.job.say(f"checkpoint of superstep {superstep} written; go on with --resume {self.job.checkpoints}")
            self.status = PREEMPTED
        self._leave()

    def _leave(self) -> None:
        """Let every agent leave; those that do not within a time limit are killed."""
        self._obey(self.arbiter.end(self._now()))
        self._end_at = time.monotonic() + GRACE

    # ----------------------------------------------------------------------------- the end

    def _finish(self, effect: Finished) -> None:
        """Handle the end of the program."""
        status, said = pickle.loads(effect.digests[0][END_COMPARED:])
        self.job.output.complain(said.encode())
        self.status = status
        self._leave()

    def _lose(self, why: str, bundle: int, superstep: int, what: str = "BundleLost") -> None:
        """End this incarnation after a loss: the job continues from the last checkpoint, or ends."""
        layout = self.launch.nprocs
        first, last = layout * bundle // self.launch.elements, layout * (bundle + 1) // self.launch.elements - 1
        processes = f"process {first}" if first == last else f"processes {first}-{last}"
        self.reason = f"bsprun: {what}: {processes} (bundle {bundle}), superstep {superstep}: {why}\n"
        self.job.log.record("lost", bundle=bundle, superstep=superstep, reason=why)
        self.over = True
        self.status = None

    def gave_up(self) -> int:
        """Print why the job cannot continue; return its exit status."""
        if self.asked.checkpoint is not None and self.resume is not None:
            self.reason += f"bsprun: {self.resume.name} stands; go on with --resume {self.job.checkpoints}\n"
        self.job.output.complain(self.reason.encode())
        self.job.log.record("ended", status=LOST, **self.job.totals())
        return LOST

    def _woken(self) -> None:
        """Handle signals."""
        with contextlib.suppress(BlockingIOError):
            self._wake.recv(64, socket.MSG_DONTWAIT)
        while self.job.signals:
            number = self.job.signals.pop(0)
            if number == signal.SIGTERM and self.asked.checkpoint is not None and not self.job.preempted:
                if self._started:
                    self.job.preempted = True
                    self.job.say("SIGTERM: a checkpoint is written at the next round; a second SIGTERM ends the job")
                    self._preempt()
                    continue
                if self.resume is not None:
                    self.status, self.over = self._stand(), True
                    continue
            self.job.say(self.job.interrupted(number))
            self.status, self.over, self.job.left = 128 + number, True, True

    def _preempt(self) -> None:
        """Hold all clones for a checkpoint after which the job ends."""
        if self._purpose is None:
            self._hold("preempted")
        self._purpose = "preempted"

    def _stand(self) -> int:
        """End before anything was computed: the checkpoint from which the job was to continue is still the last."""
        assert self.resume is not None
        self.job.say(f"{self.resume.name} stands; go on with --resume {self.job.checkpoints}")
        return PREEMPTED

    def close(self) -> None:
        """End all that belongs to this incarnation: agents, connections, the launcher."""
        for peer in self.peers.values():
            self._kill(peer)
            self._bury(peer)
            peer.wire.close()
        for end in self._strangers:
            end.close()
        self._listener.close()
        self._selector.close()
        if not self.job.disk.finish(GRACE):  # wait for a checkpoint that is being committed
            self.job.say("warning: the disk with the checkpoints does not answer")
        os.close(self._bell)
        if self._child is not None:
            _end(self._child, 0.5 if self.status is not None else 0.0)
            if self._child.stderr is not None:
                self._child.stderr.close()


def _end(child: subprocess.Popen[bytes], patience: float) -> None:
    """End the launcher and its remaining children; all agents are dead or leaving."""
    family: list[Any] = []
    with contextlib.suppress(psutil.NoSuchProcess):
        family = psutil.Process(child.pid).children(recursive=True)
    with contextlib.suppress(subprocess.TimeoutExpired):
        child.wait(patience)
    if child.poll() is None:
        child.kill()
        child.wait()
    kill(family)
