"""The elements of a session, as the caller's interpreter starts, hears and ends them.

The elements are children of this interpreter, or of an mpiexec that is; the kernel kills them when this interpreter
dies in whatever way (see `bsp.command.start`).  The child has a process group of its own: an interrupt at a prompt,
which a terminal or Jupyter sends to the whole group, must not end a session that is idle.
"""

from __future__ import annotations

import contextlib
import os
import pickle
import subprocess
import threading
import warnings
from collections import deque
from collections.abc import Iterator
from multiprocessing.connection import Connection, Listener
from typing import Any

from bsp.command.launch import Launch, first_death
from bsp.errors import LaunchError
from bsp.host import die_with_parent
from bsp.hosts.lifeline import Desk
from bsp.hosts.processes import end
from bsp.notebook import backend_of_figures
from bsp.session.channel import ELEMENT, address
from bsp.session.folder import SessionFolder

_GRACE = 10.0  # seconds that elements have to end in good order


class Elements:
    """The running elements of one session."""

    def __init__(self, job: Launch) -> None:
        """Start the elements; return when all of them can take requests.  Raises LaunchError."""
        self._job = job
        self._owner = os.getpid()
        self._own_folder = SessionFolder()
        self._folder = self._own_folder.path
        job.program = ["--session", self._folder]
        self._heard: deque[tuple[int, str, Any]] = deque()
        self._connections: dict[int, Connection[Any, Any]] = {}
        self._lost = False
        self.ended = False
        self._freed = False
        self._using = threading.RLock()  # held to use the connections and the desk, and to close them
        self._uses = 0  # by the thread that holds it: a signal's handler may end the elements in the middle of one
        self._child: subprocess.Popen[bytes] | None = None
        self._desk = Desk(self._folder, (1, 2))
        self._listener = Listener(address(self._folder), "AF_UNIX", backlog=1024)
        try:
            self._start()
        except BaseException:
            self.kill()
            raise

    def _start(self) -> None:
        """Start the child, and wait until every element has connected."""
        job, started = self._job, threading.Event()
        problems: list[BaseException] = []
        environment = os.environ | job.environment() | backend_of_figures()
        environment.setdefault("PRTE_MCA_prte_tmpdir_base", self._folder)  # see `launch.one_pass`
        command = job.command(lifeline=self._folder, keeper=self._owner)

        def hold() -> None:
            # the kernel ends the child when the *thread* dies that has started it: this one lives as long as the child
            try:
                with open(self._launcher(), "wb") as said, warnings.catch_warnings():
                    # Python 3.12 warns of a fork beside threads; `die_with_parent` makes one system call
                    warnings.simplefilter("ignore", DeprecationWarning)
                    self._child = subprocess.Popen(
                        command, env=environment, preexec_fn=die_with_parent, process_group=0,
                        stdin=subprocess.DEVNULL, stdout=said, stderr=subprocess.STDOUT,
                    )  # fmt: skip
            except BaseException as problem:  # noqa: BLE001 - raised below, in the thread of the caller
                problems.append(problem)
            started.set()
            if self._child is not None:
                if self.ended:  # an interrupt has ended the start meanwhile
                    end(self._child)
                self._child.wait()

        threading.Thread(target=hold, daemon=True, name="bsp.Session waits for its elements to end").start()
        started.wait()
        if problems:
            raise problems[0]
        assert self._child is not None
        listening = self._listener._listener._socket  # type: ignore[attr-defined]
        self._desk.also(listening, self._accept)
        with self._desk.noticing(self._child):
            while len(self._connections) < job.elements:
                if self._child.poll() is not None or self._lost:
                    raise LaunchError(f"bsp.Session: {self._cause()}")
                self._desk.hear(None)
        self._desk.not_also(listening)
        self._listener.close()

    def _launcher(self) -> str:
        """Return the file with the text of the child itself."""
        return os.path.join(self._folder, "launcher")

    def _accept(self) -> None:
        """Accept the connection of an element."""
        connection = self._listener.accept()

        def read() -> None:
            try:
                data = connection.recv_bytes()
            except (EOFError, OSError):
                self._lost = True
                self._desk.not_also(connection)
                connection.close()
                return
            kind, value = pickle.loads(data)
            if kind == ELEMENT:
                elements[0] = value
                self._connections[value] = connection
            else:
                self._heard.append((elements[0], kind, value))

        elements = [-1]
        self._desk.also(connection, read)

    # ------------------------------------------------------------------------------------------- a call

    def send(self, request: Any) -> None:
        """Send a request to every element."""
        data = pickle.dumps(request, 5)
        with self._in_use():
            for connection in self._connections.values():
                with contextlib.suppress(OSError):  # a dead element: `hear` finds out
                    connection.send_bytes(data)

    def answer(self, element: int, line: str) -> None:
        """Send a line of standard input to an element that has asked for one."""
        with self._in_use(), contextlib.suppress(OSError):  # as above
            self._connections[element].send_bytes(line.encode("utf-8", "surrogatepass"))

    def waiting(self) -> bool:
        """Return whether a message has arrived, so that `hear` returns one at once."""
        if not self._heard:
            with self._in_use():
                if not (self._lost or self.ended):
                    self._desk.hear(0.0)
        return bool(self._heard)

    def hear(self) -> tuple[int, str, Any] | None:
        """Return the next message, as (element, kind, value); None if an element has died, or all were ended."""
        while not self._heard:
            with self._in_use():
                if self._lost or self.ended:
                    return None
                self._desk.hear(None)
        return self._heard.popleft()

    # ------------------------------------------------------------------------------------------- the end

    def cause_of_death(self) -> str:
        """Return which element died first, of what, and what it was doing; ends the others.

        Empty if another thread has ended them.
        """
        with self._in_use():
            text = "" if self.ended else self._cause()
            self.kill()
        return text

    def _cause(self) -> str:
        assert self._child is not None
        try:
            code = self._child.wait(_GRACE)
        except subprocess.TimeoutExpired:
            end(self._child)
            code = self._child.wait()
        self._desk.drain(_GRACE)
        with open(self._launcher(), errors="replace") as file:
            said = file.read().strip()
        if self._desk.ending.lost:
            return first_death(self._job, self._desk, said, code)[1]
        return f"the elements did not start (status {code})" + (f":\n{said}" if said else "")

    def elsewhere(self) -> bool:
        """Return whether this is a child made by os.fork, not the process that has started the elements."""
        return os.getpid() != self._owner

    def close(self) -> None:
        """End the elements: between calls in good order, else by force.  No effect in a child made by os.fork."""
        if self._freed or self.elsewhere():
            return
        try:
            if not self.ended:
                self._dismiss()
        finally:  # also if a Ctrl-C ends the wait
            self.kill()

    def _dismiss(self) -> None:
        """Ask the elements to end, and wait for that."""
        for connection in self._connections.values():
            with contextlib.suppress(OSError):
                connection.send_bytes(b"")
        if self._child is not None:
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._child.wait(_GRACE)

    def kill(self) -> None:
        """End the elements at once."""
        if self._freed or self.elsewhere():
            return
        self.ended = True
        if self._child is not None and self._child.poll() is None:
            end(self._child)
        with self._in_use():  # a thread that hears finds the connections at their ends, and leaves
            pass

    @contextlib.contextmanager
    def _in_use(self) -> Iterator[None]:
        """Inside, connections and desk stay open; behind the outermost use those of ended elements are closed."""
        with self._using:
            self._uses += 1
            try:
                yield
            finally:
                self._uses -= 1
                if self.ended and not self._uses and not self._freed:
                    self._free()

    def _free(self) -> None:
        self._freed = True
        for connection in self._connections.values():
            connection.close()
        self._listener.close()
        self._desk.close()
        self._own_folder.remove()
