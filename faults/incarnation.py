"""One MPI job of agents, as bsprun sees it: starts them, drives the `Arbiter`, prints, fences, commits, ends.

Everything that an agent says comes over its own TCP connection; what the arbiter answers is carried out here.
"""

from __future__ import annotations

import base64
import contextlib
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
import time
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from bsp.errors import LaunchError
from bsp.faults.arbiter import Arbiter
from bsp.faults.checkpoint import Checkpoint, commit, name_at
from bsp.faults.events import KINDS
from bsp.faults.job import LOST, PREEMPTED, Job
from bsp.faults.messages import (
    END_COMPARED,
    Commit,
    Corrupt,
    Fence,
    Finished,
    Lost,
    Note,
    Order,
    Orders,
    Print,
    Reply,
    Say,
    Tell,
)
from bsp.faults.wire import Closed, Wire
from bsp.launch import _GRACE, cores, die_with_parent

_START = 60.0  # seconds for all elements to appear
_NOISE = (b"[warn] Epoll ", b"pmix_ptl_base: ")


class _Peer:
    """An agent's connection."""

    def __init__(self, wire: Wire) -> None:
        self.wire = wire
        self.element = -1
        self.host = ""
        self.port = 0
        self.pid = 0
        self.pidfd = -1


class Incarnation:
    """Until the program ends, a checkpoint is written to go on from, or a bundle is lost."""

    def __init__(self, job: Job, resume: Checkpoint | None, wake: socket.socket) -> None:
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
            "inject": self.asked.inject if self.job.incarnation == 0 else None,
            "checkpoint": self.job.checkpoints,
            "spins": self.launch.local and self.count <= cores(),
        }
        if self.resume is not None:
            parts = [tuple(asdict(part).values()) for part in self.resume.parts]
            settings["resume"] = str(Path(self.job.checkpoints) / self.resume.name), parts
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
        return [self.job.mpiexec, *flags, *self.launch.mpi_args, "-n", str(self.count), *agent]

    def run(self) -> int | None:
        """The status, or None if another incarnation is to go on from the last checkpoint."""
        environment = os.environ | self.launch.environment()
        if self.launch.local:
            base = os.path.join(self.job.folder, f"mpi-{self.job.incarnation}")
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
                if self.job.view is not None:
                    self.job.view.update(self.arbiter, now)
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
        return time.monotonic() - self.job.began

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
            self.job.log.record(
                "started", nprocs=self.launch.nprocs, bundles=self.launch.elements, elements=self.count,
                clones=self.asked.clones, standbys=self.asked.standbys, incarnation=self.job.incarnation,
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
            with self.job.view.aside() if self.job.view is not None else contextlib.nullcontext():
                sys.stdout.buffer.write(data)
                sys.stdout.buffer.flush()
        except BrokenPipeError:  # nobody reads on
            os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        self.job.printed += len(data)

    def _show_error(self, bundle: int, life: int, offset: int, data: bytes) -> None:
        shown = self.job.errors.get(bundle, 0)
        if offset + len(data) > shown:
            with self.job.view.aside() if self.job.view is not None else contextlib.nullcontext():
                sys.stderr.buffer.write(data[max(shown - offset, 0) :])
                sys.stderr.buffer.flush()
            self.job.errors[bundle] = offset + len(data)

    def _note(self, kind: str, fields: dict[str, Any]) -> None:
        if kind == "checkpoint" and "error" in fields:
            self.job.say(f"warning: no checkpoint at superstep {fields['superstep']}: {fields['error']}")
            self._obey(self.arbiter.committed(self._now(), max((w[2] for w in self.arbiter.orders.writes), default=-1)))
        if fields.pop("warning", False) and fields["bundle"] not in self._warned:
            self._warned.add(fields["bundle"])
            self.job.say(f"warning: {fields['text']} (more of these are in --events)")
        if kind == "degraded":
            self.job.say(
                f"warning: bundle {fields['bundle']} has {fields['clones']} of {fields['goal']} clones left, "
                "and no standby"
            )
        self.job.log.record(kind if kind in KINDS else "note", **fields)

    def _fence(self, effect: Fence) -> None:
        peer = self.peers.get(effect.element)
        self.job.log.record("fenced", element=effect.element, reason=effect.why)
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
            commit(Path(self.job.checkpoints), name_at(superstep), self.job.identity(), parts, head, self.asked.keep)
            size = sum(part.size for part in parts)
            self.job.log.record("checkpoint", name=name_at(superstep), superstep=superstep, bytes=size)
        except OSError as wrong:
            self._note("checkpoint", {"error": str(wrong), "superstep": superstep})
            return
        if self._purpose is None:
            self._obey(self.arbiter.committed(self._now(), effect.head))
            return
        if self._purpose == "refresh":
            self.job.log.record("refreshed", superstep=superstep, seconds=round(time.monotonic() - self._held_at, 3))
            self.status = None
        else:
            self.job.say(f"checkpoint of superstep {superstep} written; go on with --resume {self.job.checkpoints}")
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
        self.job.log.record("lost", bundle=bundle, superstep=superstep, why=why)
        self.over = True
        self.status = None

    def gave_up(self) -> int:
        """The loss in words; no checkpoint mends it."""
        sys.stdout.flush()
        sys.stderr.write(self.reason)
        self.job.log.record("ended", status=LOST)
        return LOST

    def _woken(self) -> None:
        with contextlib.suppress(BlockingIOError):
            self._wake.recv(64, socket.MSG_DONTWAIT)
        while self.job.signals:
            number = self.job.signals.pop(0)
            if number == signal.SIGTERM and self.asked.checkpoint is not None and self._started:
                if self._purpose is None:
                    self._hold("preempted")
                self._purpose = "preempted"
                continue
            what = "interrupted" if number == signal.SIGINT else f"ended by {signal.Signals(number).name}"
            self.job.say(what)
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
