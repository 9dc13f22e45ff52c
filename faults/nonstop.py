"""bsprun's part of a nonstop job: starts the elements, arbitrates, prints, ends, starts again.

A job is one or more incarnations: each is an MPI job of agents with an `Arbiter` of its own.  A later
one goes on from a checkpoint of the one before: a planned refresh (the standbys are used up), a loss
that only a checkpoint can mend, or `--resume`.  What must outlive an incarnation is here: the text
that is out, the values of proc.once, the clock, the event log.
"""

from __future__ import annotations

import base64
import contextlib
import hashlib
import hmac
import json
import os
import pickle
import secrets
import selectors
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from bsp.errors import LaunchError
from bsp.faults.arbiter import Arbiter
from bsp.faults.checkpoint import Checkpoint, commit, latest, name_at
from bsp.faults.events import KINDS, EventLog
from bsp.faults.injection import check, parse
from bsp.faults.messages import (
    END_COMPARED,
    Commit,
    Corrupt,
    Fence,
    Finished,
    Limits,
    Lost,
    Note,
    Order,
    Orders,
    Print,
    Reply,
    Say,
    Tell,
)
from bsp.faults.placement import elements_for, place
from bsp.faults.wire import Closed, Wire
from bsp.launch import _GRACE, Launch, cores, die_with_parent, find_mpiexec, is_open_mpi, no_mpi

LOST = 3  # the status of a job that has lost a bundle
PREEMPTED = 75  # and of one that has written a checkpoint when asked to end (EX_TEMPFAIL)
_START = 60.0  # seconds for all elements to appear
_NOISE = (b"[warn] Epoll ", b"pmix_ptl_base: ")
_IDLE_RESTARTS = 3  # incarnations in a row that came no further


@dataclass
class Resilience:
    """What `bsprun` was asked for."""

    clones: float = 1.0
    vertical: int = 1
    standbys: int = 0
    limits: Limits = field(default_factory=Limits)
    checkpoint: str | None = None
    keep: int = 2
    resume: str | None = None
    inject: str | None = None
    events: str | None = None
    progress: bool = False
    refresh: bool = True


class _Peer:
    """An agent's connection."""

    def __init__(self, wire: Wire) -> None:
        self.wire = wire
        self.element = -1
        self.host = ""
        self.port = 0
        self.pid = 0
        self.pidfd = -1


def run(job: Launch, asked: Resilience) -> int:
    """The whole job; its exit status."""
    mpiexec = find_mpiexec()
    if mpiexec is None:
        raise LaunchError(no_mpi())
    if not is_open_mpi(mpiexec):
        raise LaunchError("--clones and checkpoints need Open MPI 5 with ULFM: pip install 'nonstop-bsp[mpi]'")
    with tempfile.TemporaryDirectory(prefix="bsprun-", ignore_cleanup_errors=True) as folder:
        return _Job(job, asked, folder, mpiexec).run()


class _Job:
    """All incarnations."""

    def __init__(self, job: Launch, asked: Resilience, folder: str, mpiexec: str) -> None:
        self.job, self.asked, self.folder, self.mpiexec = job, asked, folder, mpiexec
        self.rows = place(job.elements, elements_for(job.elements, asked.clones), asked.vertical)
        if asked.inject:
            check(parse(asked.inject), len(self.rows) + asked.standbys, job.nprocs)
        self.log = EventLog(None if asked.events is None else Path(asked.events))
        self.view: Any = None
        if asked.progress:
            from bsp.faults.view import LiveView

            self.view = LiveView()
            self.log.subscribe(self.view.event)
        self.began = time.monotonic()
        self.checkpoints = asked.checkpoint or asked.resume or os.path.join(folder, "checkpoints")
        os.makedirs(self.checkpoints, exist_ok=True)
        self.printed = 0
        self.errors: dict[int, int] = {}  # bytes of standard error shown, by bundle
        self.once: dict[Any, bytes] = {}
        self.incarnation = 0
        self.signals: list[int] = []

    def identity(self) -> dict[str, Any]:
        """What must be equal for a checkpoint to be this job's."""
        program = self.job.program
        path = program[0]
        digest = ""
        if path != "-m" and os.path.isfile(path):
            with open(path, "rb") as file:
                digest = hashlib.sha256(file.read()).hexdigest()
        machine = json.dumps(self.job.machine, sort_keys=True, default=str)
        return {
            "program": [os.path.basename(path), *program[1:]],
            "script": digest,
            "nprocs": self.job.nprocs,
            "elements": self.job.elements,
            "seed": self.job.seed,
            "machine": hashlib.sha256(machine.encode()).hexdigest()[:16],
        }

    def run(self) -> int:
        resume: Checkpoint | None = None
        if self.asked.resume is not None:
            resume = self._latest()
            if resume is None:
                raise LaunchError(f"--resume {self.asked.resume}: none of its checkpoints can be used (see above)")
            self._adopt(resume, fresh=True)
        kept = {n: signal.signal(n, self._signalled) for n in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)}
        wake, waker = socket.socketpair()
        waker.setblocking(False)
        signal.set_wakeup_fd(waker.fileno())
        idle, last = 0, -1
        try:
            while True:
                incarnation = _Incarnation(self, resume, wake)
                try:
                    status = incarnation.run()
                finally:
                    incarnation.close()
                if status is not None:
                    self.log.record("ended", status=status, seconds=round(time.monotonic() - self.began, 3))
                    return status
                resume = self._latest()
                superstep = -1 if resume is None else int(resume.head["superstep"])
                idle = idle + 1 if superstep <= last else 0
                last = superstep
                if resume is None or idle >= _IDLE_RESTARTS:
                    return incarnation.gave_up()
                self._adopt(resume, fresh=False)
                self.incarnation += 1
                self.log.record("resumed", name=resume.name, superstep=superstep)
                incarnation.reason = ""
        finally:
            signal.set_wakeup_fd(-1)
            for number, handler in kept.items():
                signal.signal(number, handler)
            self.log.close()
            if self.view is not None:
                self.view.close()

    def _signalled(self, number: int, frame: Any) -> None:
        self.signals.append(number)

    def _latest(self) -> Checkpoint | None:
        try:
            return latest(Path(self.checkpoints), self.identity(), lambda text: self.say(f"checkpoint: {text}"))
        except ValueError as wrong:
            if self.asked.resume is not None and self.incarnation == 0:
                raise LaunchError(f"--resume {self.asked.resume}: {wrong}") from None
            return None

    def _adopt(self, resume: Checkpoint, fresh: bool) -> None:
        """What the checkpoint knows beside the bundles' states."""
        head = resume.head
        self.once = {tuple(token): base64.b64decode(value) for token, value in head["once"]}
        if fresh:
            self.printed = int(head["said"])
            self.began = time.monotonic() - float(head["seconds"])

    def say(self, text: str) -> None:
        """A line on standard error."""
        print(f"bsprun: {text}", file=sys.stderr, flush=True)


class _Incarnation:
    """One MPI job."""

    def __init__(self, job: _Job, resume: Checkpoint | None, wake: socket.socket) -> None:
        self.all = job
        self.launch, self.asked = job.job, job.asked
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
        self._strangers: dict[socket.socket, bytearray] = {}
        self._child: subprocess.Popen[bytes] | None = None
        self._why: dict[int, str] = {}  # elements that are being fenced
        self._purpose: str | None = None  # of a hold
        self._held_at = 0.0
        self._end_at: float | None = None
        self._started = False
        self._half_line = b""
        self._warned: set[int] = set()  # bundles whose lateness has been told

    # ------------------------------------------------------------------------------ start

    def command(self) -> list[str]:
        """mpiexec's command line."""
        host, port = self._listener.getsockname()[:2]
        settings = {
            "bsprun": (host if self.launch.local else socket.gethostname(), port),
            "secret": self._secret,
            "bundles": self.launch.elements,
            "nprocs": self.launch.nprocs,
            "seed": self.launch.seed,
            "machine": self.launch.machine,
            "every": self.asked.limits.every,
            "limits": asdict(self.asked.limits),
            "inject": self.asked.inject if self.all.incarnation == 0 else None,
            "checkpoint": self.all.checkpoints,
            "spins": self.launch.local and self.count <= cores(),
        }
        if self.resume is not None:
            parts = [tuple(asdict(part).values()) for part in self.resume.parts]
            settings["resume"] = str(Path(self.all.checkpoints) / self.resume.name), parts
        flags = ["--with-ft", "ulfm"]
        if self.count > cores() and self.launch.local:
            flags.append("--oversubscribe")
        flags += ["--bind-to", "none"]
        if not self.launch.local:
            for name in sorted(self.launch.environment()):
                flags += ["-x", name]
        if self.launch.hostfile is not None:
            flags += ["--hostfile", self.launch.hostfile]
        agent = [sys.executable, "-m", "bsp.faults.agent", json.dumps(settings), *self.launch.program]
        return [self.all.mpiexec, *flags, *self.launch.mpi_args, "-n", str(self.count), *agent]

    def run(self) -> int | None:
        """The status, or None if another incarnation is to go on from the last checkpoint."""
        environment = os.environ | self.launch.environment()
        if self.launch.local:
            base = os.path.join(self.all.folder, f"mpi-{self.all.incarnation}")
            os.makedirs(base, exist_ok=True)
            environment.setdefault("PRTE_MCA_prte_tmpdir_base", base)
        self._child = subprocess.Popen(
            self.command(), env=environment, stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, preexec_fn=_child_of_ours
        )
        assert self._child.stderr is not None
        os.set_blocking(self._child.stderr.fileno(), False)
        self._selector.register(self._child.stderr, selectors.EVENT_READ, self._launcher_says)
        until = time.monotonic() + _START
        while not self.over:
            for key, _ in self._selector.select(0.05):
                key.data() if key.fileobj in (self._listener, self._wake) else key.data(key.fileobj)
            if self.over:
                break
            now = self._now()
            if self._started:
                self._obey(self.arbiter.tick(now))
                for peer in list(self.peers.values()):
                    self._flush(peer)
                if self.all.view is not None:
                    self.all.view.update(self.arbiter, now)
            elif time.monotonic() > until:
                raise LaunchError(f"{len(self.peers)} of {self.count} elements appeared within {_START:g} s")
            if self._child.poll() is not None and not self.peers and not self.over:
                if not self._started:
                    raise LaunchError(f"the elements could not be started (mpiexec's status {self._child.returncode})")
                self._lose("every element is gone", 0, self._superstep())
            if self._end_at is not None and time.monotonic() > self._end_at:
                self.over = True
        return self.status

    def _launcher_says(self, pipe: Any) -> None:
        """What mpiexec and the C level of elements write; not what Open MPI says of ranks whose end we deal with."""
        data = b""
        with contextlib.suppress(BlockingIOError, ValueError):
            data = os.read(pipe.fileno(), 1 << 16)
        if not data:
            with contextlib.suppress(KeyError, ValueError):
                self._selector.unregister(pipe)
        *lines, self._half_line = (self._half_line + data).split(b"\n")
        for line in lines:
            if not any(noise in line for noise in _NOISE):
                sys.stderr.buffer.write(line + b"\n")
        sys.stderr.flush()

    def _now(self) -> float:
        return time.monotonic() - self.all.began

    def _superstep(self) -> int:
        return max((p.superstep for r in self.arbiter.reports.values() for p in r.clones), default=0)

    # ----------------------------------------------------------------------- connections

    def _accept(self) -> None:
        end, _ = self._listener.accept()
        end.setblocking(False)
        self._strangers[end] = bytearray()
        self._selector.register(end, selectors.EVENT_READ, self._stranger)

    def _stranger(self, end: Any) -> None:
        """Nothing of his is unpickled before he has said the job's secret."""
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
        try:
            messages = peer.wire.read()
        except Closed:
            self._gone(peer)
            return
        for message in messages:
            if isinstance(message, Tell):
                self._obey(self.arbiter.report(self._now(), message.report))
            elif isinstance(message, Say):
                self._obey(self.arbiter.text(self._now(), peer.element, message.offset, message.data))
            elif isinstance(message, Note):
                self._note(message.kind, message.fields)
            elif message[0] == "hello":
                self._hello(peer, *message[1:])
            else:
                self._show_error(*message)

    def _hello(self, peer: _Peer, element: int, pid: int, host: str, port: int) -> None:
        peer.element, peer.host, peer.port, peer.pid = element, host, port, pid
        if host == socket.gethostname():
            with contextlib.suppress(OSError):
                peer.pidfd = os.pidfd_open(pid)
        self.peers[element] = peer
        self.arbiter.appeared(self._now(), element)
        if len(self.peers) == self.count:
            self._started = True
            bells = [
                ("127.0.0.1" if self.launch.local else self.peers[e].host, self.peers[e].port)
                for e in range(self.count)
            ]
            for other in self.peers.values():
                self._post(other, bells)
            self.all.log.record(
                "started", nprocs=self.launch.nprocs, bundles=self.launch.elements, elements=self.count,
                clones=self.asked.clones, standbys=self.asked.standbys, incarnation=self.all.incarnation,
                seconds=round(self._now(), 3), agents={f"{e}": self.peers[e].pid for e in range(self.count)},
            )  # fmt: skip
            self._obey(self.arbiter.tick(self._now()))

    def _gone(self, peer: _Peer) -> None:
        """The connection is: so is the agent, or it will be at once."""
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
            self._obey(self.arbiter.died(self._now(), peer.element, self._why.pop(peer.element, "was killed")))

    def _kill(self, peer: _Peer) -> None:
        if peer.pidfd >= 0:
            with contextlib.suppress(ProcessLookupError):
                signal.pidfd_send_signal(peer.pidfd, signal.SIGKILL)

    def _bury(self, peer: _Peer) -> None:
        if peer.pidfd >= 0:
            os.close(peer.pidfd)
            peer.pidfd = -1

    def _post(self, peer: _Peer, message: Any) -> None:
        with contextlib.suppress(Closed):
            peer.wire.post(message)

    def _flush(self, peer: _Peer) -> None:
        with contextlib.suppress(Closed):
            peer.wire.flush()

    # --------------------------------------------------------------------------- effects

    def _obey(self, effects: Sequence[Any]) -> None:
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
                self._lose(f"{why} (bsprun --check tells)", found.bundle, found.superstep, "Corruption")
        if self._purpose is None and not self.over and self._end_at is None and self._may_refresh():
            self._hold("refresh")

    def _may_refresh(self) -> bool:
        """A bundle lacks clones, nobody stands by, and the rest are well."""
        return self.asked.refresh and not self.arbiter.view.standbys and bool(self.arbiter.degraded())

    def _hold(self, purpose: str) -> None:
        self._purpose, self._held_at = purpose, time.monotonic()
        self._obey(self.arbiter.hold(self._now()))

    def _print(self, data: bytes) -> None:
        try:
            with self.all.view.aside() if self.all.view is not None else contextlib.nullcontext():
                sys.stdout.buffer.write(data)
                sys.stdout.buffer.flush()
        except BrokenPipeError:  # nobody reads on
            os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        self.all.printed += len(data)

    def _show_error(self, bundle: int, life: int, offset: int, data: bytes) -> None:
        shown = self.all.errors.get(bundle, 0)
        if offset + len(data) > shown:
            with self.all.view.aside() if self.all.view is not None else contextlib.nullcontext():
                sys.stderr.buffer.write(data[max(shown - offset, 0) :])
                sys.stderr.buffer.flush()
            self.all.errors[bundle] = offset + len(data)

    def _note(self, kind: str, fields: dict[str, Any]) -> None:
        if kind == "checkpoint" and "error" in fields:
            self.all.say(f"warning: no checkpoint at superstep {fields['superstep']}: {fields['error']}")
            self._obey(self.arbiter.committed(self._now(), max((w[2] for w in self.arbiter.orders.writes), default=-1)))
        if fields.pop("warning", False) and fields["bundle"] not in self._warned:
            self._warned.add(fields["bundle"])
            self.all.say(f"warning: {fields['text']} (more of these are in --events)")
        if kind == "degraded":
            self.all.say(
                f"warning: bundle {fields['bundle']} has {fields['clones']} of {fields['goal']} clones left, "
                "and no standby"
            )
        self.all.log.record(kind if kind in KINDS else "note", **fields)

    def _fence(self, effect: Fence) -> None:
        peer = self.peers.get(effect.element)
        self.all.log.record("fenced", element=effect.element, reason=effect.why)
        if peer is None:
            self._obey(self.arbiter.died(self._now(), effect.element, effect.why))
            return
        self._why[effect.element] = f"was fenced: {effect.why}"
        self._kill(peer)
        if peer.pidfd < 0:  # on another machine: it hears nobody and ends itself
            self._selector.unregister(peer.wire.end)
            peer.wire.close()
            del self.peers[effect.element]
            self._obey(self.arbiter.died(self._now(), effect.element, effect.why))

    # ----------------------------------------------------------------------- checkpoints

    def _commit(self, effect: Commit) -> None:
        parts = [part for part, _, _ in effect.parts]
        superstep = effect.parts[0][1]
        head = {
            "superstep": superstep,
            "said": max(said for _, _, said in effect.parts),
            "seconds": round(self._now(), 6),
            "once": [[list(token), base64.b64encode(value).decode()] for token, value in self.arbiter.once.items()],
        }
        try:
            commit(Path(self.all.checkpoints), name_at(superstep), self.all.identity(), parts, head, self.asked.keep)
            size = sum(part.size for part in parts)
            self.all.log.record("checkpoint", name=name_at(superstep), superstep=superstep, bytes=size)
        except OSError as wrong:
            self._note("checkpoint", {"error": str(wrong), "superstep": superstep})
            return
        if self._purpose is None:
            self._obey(self.arbiter.committed(self._now(), effect.head))
            return
        if self._purpose == "refresh":
            self.all.log.record("refreshed", superstep=superstep, seconds=round(time.monotonic() - self._held_at, 3))
            self.status = None
        else:
            self.all.say(f"checkpoint of superstep {superstep} written; go on with --resume {self.all.checkpoints}")
            self.status = PREEMPTED
        self._leave()

    def _leave(self) -> None:
        """Everybody leaves; who has not after a while is made to."""
        self._obey(self.arbiter.end(self._now()))
        self._end_at = time.monotonic() + _GRACE

    # ----------------------------------------------------------------------------- the end

    def _finish(self, effect: Finished) -> None:
        status, said = pickle.loads(effect.digests[0][END_COMPARED:])
        sys.stdout.flush()
        sys.stderr.write(said)
        sys.stderr.flush()
        self.status = status
        self._leave()

    def _lose(self, why: str, bundle: int, superstep: int, what: str = "BundleLost") -> None:
        """A bundle's state is lost: the last checkpoint, or the end."""
        layout = self.launch.nprocs
        first, last = layout * bundle // self.launch.elements, layout * (bundle + 1) // self.launch.elements - 1
        processes = f"process {first}" if first == last else f"processes {first}-{last}"
        self.reason = f"bsprun: {what}: {processes} (bundle {bundle}), superstep {superstep}: {why}\n"
        self.all.log.record("lost", bundle=bundle, superstep=superstep, why=why)
        self.over = True
        self.status = None

    def gave_up(self) -> int:
        """The loss in words; no checkpoint mends it."""
        sys.stdout.flush()
        sys.stderr.write(self.reason)
        self.all.log.record("ended", status=LOST)
        return LOST

    def _woken(self) -> None:
        with contextlib.suppress(BlockingIOError):
            self._wake.recv(64, socket.MSG_DONTWAIT)
        while self.all.signals:
            number = self.all.signals.pop(0)
            if number == signal.SIGTERM and self.asked.checkpoint is not None and self._started:
                if self._purpose is None:
                    self._hold("preempted")
                self._purpose = "preempted"
                continue
            what = "interrupted" if number == signal.SIGINT else f"ended by {signal.Signals(number).name}"
            self.all.say(what)
            self.status, self.over = 128 + number, True

    def close(self) -> None:
        """Nothing of this incarnation stays behind."""
        for peer in self.peers.values():
            self._kill(peer)
            self._bury(peer)
            peer.wire.close()
        for end in self._strangers:
            end.close()
        self._listener.close()
        self._selector.close()
        if self._child is not None:
            _end(self._child, 0.5 if self.status is not None else 0.0)
            if self._child.stderr is not None:
                self._child.stderr.close()


def _child_of_ours() -> None:
    die_with_parent()


def _end(child: subprocess.Popen[bytes], patience: float) -> None:
    """The launcher and whatever it still has; all agents are dead or leaving."""
    import psutil

    family: list[Any] = []
    with contextlib.suppress(psutil.NoSuchProcess):
        family = psutil.Process(child.pid).children(recursive=True)
    with contextlib.suppress(subprocess.TimeoutExpired):
        child.wait(patience)
    if child.poll() is None:
        child.kill()
        child.wait()
    for process in family:
        with contextlib.suppress(psutil.NoSuchProcess):
            process.kill()
    psutil.wait_procs(family, timeout=_GRACE)
