"""The fork server: a process that has imported everything and forks others within milliseconds.

A keeper has one for its agents, and an agent one for its workers.  Each starts it before its own connections have
threads, because a process with threads must not fork.  The server dies with its owner, and its children die with it.
It alone is their parent: it reports how they ended, and it sends them their signals.  It cannot hit another process
whose number the system has reused, because a number is not reused before the parent has waited for the process.
"""

from __future__ import annotations

import contextlib
import os
import selectors
import signal
import socket
import traceback
from collections.abc import Callable
from typing import NamedTuple

from bsp.faults.carrier.wire import Closed, Wire
from bsp.host import die_with_parent


class Fork(NamedTuple):
    """The request for a worker; the worker's end of its channel follows as a file descriptor."""

    bundle: int
    life: int
    element: int
    first: bool  # the first worker of this bundle on this element


class Signal(NamedTuple):
    """The request to send a signal to a worker, if it is still alive."""

    life: int
    number: int


class WorkerStarted(NamedTuple):
    """The notice that a worker has started."""

    life: int
    pid: int


class Over(NamedTuple):
    """The notice that a worker has ended."""

    bundle: int
    life: int
    status: int  # exit status, or minus the signal


def start(work: Callable[[socket.socket, Fork], None]) -> Wire:
    """Start the server as a child process, and return the connection to it.

    work : called as `work(channel, asked)` in each worker.
    """
    mine, its = socket.socketpair()
    parent = os.getpid()
    if os.fork() == 0:
        try:
            mine.close()
            die_with_parent()
            if os.getppid() != parent:
                os._exit(0)
            signal.signal(signal.SIGINT, signal.SIG_IGN)
            signal.signal(signal.SIGTERM, _stay)  # who is asked to leave needs us until it has left
            _Server(its, work).serve()
        except Closed:
            pass
        except BaseException:  # noqa: BLE001 - a copy of the agent must never run the agent's code
            traceback.print_exc()
        finally:
            os._exit(0)
    its.close()
    return Wire(mine)


def ask(server: Wire, asked: Fork, channel: socket.socket) -> None:
    """Ask a server for a worker, and give up its end of its channel; raise Closed if the server is gone."""
    with channel:
        server.send(asked)
        try:
            socket.send_fds(server.end, [b"f"], [channel.fileno()])
        except OSError as wrong:
            raise Closed(str(wrong)) from None


def _stay(number: int, frame: object) -> None:
    """Do nothing on a signal; a program that is started from here has its default again."""


def how_ended(status: int) -> str:
    """Return how a process ended, in words.

    status : its exit status, or minus the number of the signal that ended it.
    """
    if status == -signal.SIGKILL:
        return "was killed"
    if status < 0:
        return f"was ended by {signal.Signals(-status).name}"
    return f"left with status {status}"


class _Server:
    """The server's loop and its children."""

    def __init__(self, control: socket.socket, work: Callable[[socket.socket, Fork], None]) -> None:
        """Serve the agent at the other end of `control`."""
        self._control = control
        self._wire = Wire(control)
        self._work = work
        self._children: dict[int, tuple[int, int, int]] = {}  # by life: pid, pidfd, bundle
        self._selector = selectors.DefaultSelector()
        self._selector.register(control, selectors.EVENT_READ, None)

    def serve(self) -> None:
        """Handle requests and ended workers until the agent is gone."""
        while True:
            for key, _ in self._selector.select():
                if key.data is not None:
                    self._reap(key.data)
                    continue
                asked = self._wire.receive()
                if isinstance(asked, Fork):
                    self._fork(asked)
                elif isinstance(asked, Signal) and asked.life in self._children:
                    os.kill(self._children[asked.life][0], asked.number)

    def _fork(self, asked: Fork) -> None:
        """Fork a worker and report its process id."""
        _, fds, _, _ = socket.recv_fds(self._control, 1, 1)
        channel = socket.socket(fileno=fds[0])
        parent = os.getpid()
        pid = os.fork()
        if pid == 0:
            status = 1
            try:
                die_with_parent()
                # if the server died before `die_with_parent` took effect, the worker ends here
                if os.getppid() == parent:
                    self._selector.close()
                    for _, pidfd, _ in self._children.values():
                        os.close(pidfd)
                    self._control.close()
                    self._work(channel, asked)
                    status = 0
            except Closed:
                status = 0
            except BaseException:  # noqa: BLE001 - shown, and seen by the agent as the end of this worker
                traceback.print_exc()
            finally:
                os._exit(status)
        channel.close()
        pidfd = os.pidfd_open(pid)
        self._children[asked.life] = pid, pidfd, asked.bundle
        self._selector.register(pidfd, selectors.EVENT_READ, asked.life)
        self._wire.send(WorkerStarted(asked.life, pid))

    def _reap(self, life: int) -> None:
        """Wait for an ended worker and report its status."""
        pid, pidfd, bundle = self._children.pop(life)
        self._selector.unregister(pidfd)
        os.close(pidfd)
        status = 0
        with contextlib.suppress(ChildProcessError):
            status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        self._wire.send(Over(bundle, life, status))
