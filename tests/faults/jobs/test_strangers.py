"""Strangers at the ports of a real job: it does not notice them, and its key is where nobody else can read it."""

from __future__ import annotations

import contextlib
import os
import pickle
import random
import resource
import socket
import stat
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest
import zmq
from scenarios import BSPRUN as COMMAND
from scenarios import STEADY, Job, reference
from zmq.utils import z85

from bsp.faults.bsprun.job_file import JobFile, _read
from bsp.faults.carrier.job_key import fresh, from_secret
from bsp.faults.carrier.mesh import BSPRUN, Address, Mesh

pytestmark = [pytest.mark.jobs, pytest.mark.thorough]

SECONDS = 60.0  # at most, on a busy machine
VISITOR = -(1 << 50)
BSP = os.path.join(os.path.dirname(COMMAND), "bsp")


class Attacked:
    """A job that waits in its last round for the end of an attack."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.marker = folder, folder / "the payload has run"
        options = ["-p", "4", "-n", "2", "--clones", "2", "--listen", "0"]
        options += ["--checkpoint", str(folder / "saved"), "--every", "10"]
        with limited(1024):  # open files, as on most systems: 1,000 strangers are nearly all
            self.job = Job(folder, options, STEADY, {"XDG_STATE_HOME": str(folder / "state")}, strikes=True)
        self.job.event("started")
        self.job.round(5)

    @property
    def file(self) -> JobFile:
        """The job's file."""
        (path,) = (self.folder / "state" / "nonstop-bsp" / "jobs").glob("*.json")
        found = _read(path)
        assert found is not None
        return found

    def processes(self) -> list[psutil.Process]:
        """All processes of the job: bsprun, the keeper, agents, what they fork from, workers."""
        first = psutil.Process(self.job.bsprun.pid)
        return [first, *first.children(recursive=True)]

    def ports(self) -> list[int]:
        """The ports at which they listen, bsprun's first."""
        found = {
            each.laddr.port
            for process in self.processes()
            for each in process.net_connections("tcp")
            if each.status == psutil.CONN_LISTEN
        }
        first = self.file.bsprun[2]
        assert first in found and len(found) >= 6, found  # bsprun, the keeper, four agents
        return [first, *sorted(found - {first})]

    def ends_well(self) -> None:
        """It has the plain engine's output, no element has been lost, and nothing of a stranger's was unpickled."""
        self.job.let_end()
        assert self.job.bsprun.wait(300) == 0, self.job.story()
        assert self.job.out.read_bytes() == reference(STEADY)[1], self.job.story()
        assert not self.job.events("died") and not self.job.events("relaunched"), self.job.story()
        assert not [event for event in self.job.events("checkpoint") if "error" in event], self.job.story()
        assert not self.marker.exists()


@contextlib.contextmanager
def limited(number: int) -> Iterator[None]:
    """This process, and those that it starts, may have so many files open."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(number, hard), hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


@pytest.fixture
def attacked(tmp_path: Path) -> Iterator[Attacked]:
    found = Attacked(tmp_path)
    yield found
    found.job.stop()


class Payload:
    """Unpickled, it leaves a mark."""

    def __init__(self, marker: Path) -> None:
        self.marker = marker

    def __reduce__(self) -> tuple[Any, ...]:
        return Path.touch, (self.marker,)


# ------------------------------------------------------------------------------------ attacks


def scan(attacked: Attacked, stack: contextlib.ExitStack) -> None:
    """Connect to every port and close, again and again."""
    ports = attacked.ports()
    for _ in range(50):
        for port in ports:
            socket.create_connection(("127.0.0.1", port)).close()


def garbage(attacked: Attacked, stack: contextlib.ExitStack) -> None:
    """Send every port what is no message, and what looks like one of ZeroMQ without encryption."""
    draws = random.Random(1)
    bomb = bytes(20) + pickle.dumps(Payload(attacked.marker))
    greeting = b"\xff" + bytes(8) + b"\x7f\x03\x00" + b"NULL".ljust(20, b"\0") + bytes(32)
    ready = b"\x04\x26\x05READY\x0bSocket-Type\x00\x00\x00\x04PUSH"
    texts = [b"GET / HTTP/1.1\r\n\r\n", b"\xff" * 70, greeting + ready + bytes([0, len(bomb)]) + bomb]
    texts += [draws.randbytes(draws.randrange(1, 3000)) for _ in range(20)]
    for port in attacked.ports():
        for text in texts:
            end = stack.enter_context(socket.create_connection(("127.0.0.1", port)))
            with contextlib.suppress(OSError):
                end.sendall(text)


def wrong_key(attacked: Attacked, stack: contextlib.ExitStack) -> None:
    """Speak ZeroMQ, with a key that is not the job's, and with none."""
    context = stack.enter_context(zmq.Context())
    events = zmq.EVENT_HANDSHAKE_FAILED_AUTH | zmq.EVENT_HANDSHAKE_FAILED_PROTOCOL | zmq.EVENT_DISCONNECTED
    for port in attacked.ports():
        for key in (fresh(), None):
            stranger: zmq.Socket[bytes] = context.socket(zmq.PUSH)
            stranger.set(zmq.LINGER, 0)
            if key is not None:
                stranger.curve_publickey, stranger.curve_secretkey = key
                stranger.curve_serverkey = from_secret(attacked.file.secret).public
            monitor = stranger.get_monitor_socket(events | zmq.EVENT_HANDSHAKE_FAILED_NO_DETAIL)
            stranger.connect(f"tcp://127.0.0.1:{port}")
            with contextlib.suppress(zmq.Again):
                stranger.send_pyobj(Payload(attacked.marker), zmq.NOBLOCK)
            assert monitor.poll(SECONDS * 1000), "the stranger is not turned away"
            monitor.close()
            stranger.disable_monitor()
            stranger.close()


def thousand(attacked: Attacked, stack: contextlib.ExitStack) -> None:
    """Hold 1,000 connections open to bsprun, and as many to an agent."""
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    if most < 4000:
        pytest.skip(f"2,000 connections need more open files than the {most} that this user may have")
    stack.enter_context(limited(most))
    for port in attacked.ports()[:2]:
        for _ in range(1000):
            stack.enter_context(socket.create_connection(("127.0.0.1", port), SECONDS))


def replay(attacked: Attacked, stack: contextlib.ExitStack) -> None:
    """Record what one who has the key sends, with its handshake, and send the same bytes again, to every port."""
    with Forwarder(attacked.ports()[0]) as between, contextlib.closing(
        Mesh(from_secret(attacked.file.secret), VISITOR, network="127.0.0.1")
    ) as friend:  # fmt: skip
        friend.meet(BSPRUN, Address("another", "", between.port, "127.0.0.1"))
        friend.send(BSPRUN, Payload(attacked.marker))
        attacked.job.until(attacked.marker.exists, "what has the key is unpickled")
    attacked.marker.unlink()
    assert len(between.recorded) > 64 + 200  # the greeting, the two commands of the handshake
    for port in attacked.ports():
        end = stack.enter_context(socket.create_connection(("127.0.0.1", port), SECONDS))
        with contextlib.suppress(ConnectionError):
            end.sendall(between.recorded)
            while end.recv(1 << 16):  # until it is turned away
                pass


class Forwarder:
    """A port that hands on one connection to another, and keeps what the client sends."""

    def __init__(self, to: int) -> None:
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        self.recorded = b""
        self._to = to
        self._ends: list[socket.socket] = []
        self._threads = [threading.Thread(target=self._accept)]
        self._threads[0].start()

    def _accept(self) -> None:
        client, _ = self._listener.accept()
        server = socket.create_connection(("127.0.0.1", self._to))
        self._ends += [client, server]
        back = threading.Thread(target=self._pump, args=(server, client, False))
        self._threads.append(back)
        back.start()
        self._pump(client, server, True)

    def _pump(self, source: socket.socket, sink: socket.socket, keep: bool) -> None:
        with contextlib.suppress(OSError):
            while data := source.recv(1 << 16):
                if keep:
                    self.recorded += data
                sink.sendall(data)

    def __enter__(self) -> Forwarder:
        return self

    def __exit__(self, *_: object) -> None:
        for end in (*self._ends, self._listener):
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
            end.close()
        for thread in self._threads:
            thread.join()


@pytest.mark.parametrize("attack", [scan, garbage, replay, wrong_key, thousand])
def test_the_job_does_not_notice(attacked: Attacked, attack: Callable[[Attacked, contextlib.ExitStack], None]) -> None:
    """Its output is the undisturbed run's, while the strangers' connections stay open until its end."""
    with contextlib.ExitStack() as stack:
        attack(attacked, stack)
        attacked.ends_well()


# ------------------------------------------------------------------------------------ the key


def test_the_jobs_key_is_where_nobody_else_can_read_it(attacked: Attacked) -> None:
    """In no argument, log, output or environment, in no file that others may read, in none that user code has open."""
    began = attacked.job.began - time.monotonic() + time.time()
    text = attacked.file.secret.encode()
    secrets = text, z85.decode(text)

    def holds(data: bytes) -> bool:
        return any(secret in data for secret in secrets)

    environment = os.environ | {"XDG_STATE_HOME": str(attacked.folder / "state"), "BSP_JOB_KEY": text.decode()}
    address = f"127.0.0.1:{attacked.ports()[0]}"
    with contextlib.ExitStack() as stack:
        command = [BSP, "join", address, "--slots", "1", "--name", "second"]
        joiner = stack.enter_context(subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL))
        stack.callback(joiner.kill)
        attacked.job.event("appeared")
        subprocess.run([BSP, "status", "--json"], env=environment, check=True, stdout=subprocess.DEVNULL)
        joined = psutil.Process(joiner.pid)
        there = [*attacked.processes(), joined, *joined.children(recursive=True)]
        assert len(there) >= 16, there  # bsprun, two keepers with what they fork from, five agents with that, workers
        for process in psutil.process_iter():
            with contextlib.suppress(OSError):
                assert not holds(Path(f"/proc/{process.pid}/cmdline").read_bytes()), process
        for process in there:
            with contextlib.suppress(OSError):  # it has ended
                assert not holds(Path(f"/proc/{process.pid}/environ").read_bytes()), process
                for each in Path(f"/proc/{process.pid}/fd").iterdir():
                    assert not (each.is_file() and holds(read(each))), (process, os.readlink(each))
        found = {path for path in files(attacked.folder, began) if holds(read(path))}
        assert found == set((attacked.folder / "state" / "nonstop-bsp" / "jobs").glob("*.json"))
        assert all(path.stat().st_mode & 0o077 == 0 for path in found)
        elsewhere = [Path("/dev/shm"), Path(tempfile.gettempdir()), Path.home(), Path.cwd()]
        exposed = [path for folder in elsewhere for path in files(folder, began, 0o077)]
        assert not [path for path in exposed if holds(read(path))]
        attacked.ends_well()
        joiner.wait(SECONDS)
    assert not [path for path in files(attacked.folder, began) if holds(read(path))]


def read(path: Path) -> bytes:
    """The contents of a file; nothing of one that is gone."""
    with contextlib.suppress(OSError):
        return path.read_bytes()
    return b""


def files(folder: Path, since: float, mode: int = 0o777) -> Iterator[Path]:
    """The files below a folder that have been written since then, and have one of these permissions."""
    for inside, _, names in os.walk(folder):
        for name in names:
            path = Path(inside, name)
            with contextlib.suppress(OSError):
                told = path.lstat()
                if stat.S_ISREG(told.st_mode) and told.st_mtime >= since - 1 and told.st_mode & mode:
                    yield path
