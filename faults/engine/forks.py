"""Workers in some milliseconds: a server that has imported everything forks them.

It is started before MPI_Init, which a process that forks must not have behind it, and dies with its
agent; so do the workers with it.  It alone is their parent: it knows how they ended, and it is the
one to end them, so that a number that the system has given to another process is never struck.
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

from bsp.faults.engine.wire import Closed, Wire
from bsp.host import die_with_parent


class Fork(NamedTuple):
    """A worker, please; its end of the channel follows."""

    bundle: int
    life: int
    element: int
    first: bool  # of this bundle here


class Signal(NamedTuple):
    """To a worker, if it still lives."""

    life: int
    number: int


class Forked(NamedTuple):
    """It lives."""

    life: int
    pid: int


class Over(NamedTuple):
    """A worker has ended: an exit status, or minus the signal."""

    bundle: int
    life: int
    status: int


def start(work: Callable[[socket.socket, Fork], None]) -> Wire:
    """The server, as a child of this process; `work(channel, asked)` is what a worker does."""
    mine, its = socket.socketpair()
    parent = os.getpid()
    if os.fork() == 0:
        try:
            mine.close()
            die_with_parent()
            if os.getppid() != parent:
                os._exit(0)
            signal.signal(signal.SIGINT, signal.SIG_IGN)
            _Server(its, work).serve()
        except Closed:
            pass
        except BaseException:  # noqa: BLE001 - a copy of the agent must never run the agent's code
            traceback.print_exc()
        finally:
            os._exit(0)
    its.close()
    return Wire(mine)


class _Server:
    def __init__(self, control: socket.socket, work: Callable[[socket.socket, Fork], None]) -> None:
        self._control = control
        self._wire = Wire(control)
        self._work = work
        self._children: dict[int, tuple[int, int, int]] = {}  # by life: pid, pidfd, bundle
        self._selector = selectors.DefaultSelector()
        self._selector.register(control, selectors.EVENT_READ, None)

    def serve(self) -> None:
        """Until the agent is gone."""
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
        _, fds, _, _ = socket.recv_fds(self._control, 1, 1)
        channel = socket.socket(fileno=fds[0])
        parent = os.getpid()
        pid = os.fork()
        if pid == 0:
            status = 1
            try:
                die_with_parent()
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
        self._wire.send(Forked(asked.life, pid))

    def _reap(self, life: int) -> None:
        pid, pidfd, bundle = self._children.pop(life)
        self._selector.unregister(pidfd)
        os.close(pidfd)
        status = 0
        with contextlib.suppress(ChildProcessError):
            status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        self._wire.send(Over(bundle, life, status))
