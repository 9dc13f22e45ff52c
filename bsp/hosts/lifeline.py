"""The connection between an element and the bsprun that started it, on one machine.

Over it the element receives bsprun's own standard streams, so that its output goes directly to where bsprun's goes:
MPI's launcher would put a terminal of its own in between.  At its end the element sends for which of its threads it
still waits, and element 0 how the job has ended.  A connection that closes without such a farewell means that the
element has died.  What it was doing is in its note, a file mapped into its memory, and in faulthandler's output.
"""

from __future__ import annotations

import contextlib
import json
import mmap
import os
import re
import selectors
import signal
import socket
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import Any, NamedTuple

from bsp.source import frames_of, program_line

_TURN = struct.Struct("<qq")  # the pid that has its turn, and the superstep
IDLE = -2  # in the place of the pid
_LINE_AT = _TURN.size  # then text: the line last seen, or how the element exited
_NOTE_BYTES = 1024
_LOOK_EVERY = 1.0  # seconds between notes of the line that runs
_STREAMS = (1, 2)
_FATAL = {
    "Segmentation fault": signal.SIGSEGV, "Aborted": signal.SIGABRT, "Bus error": signal.SIGBUS,
    "Floating-point exception": signal.SIGFPE, "Illegal instruction": signal.SIGILL,
}  # fmt: skip


class LastMoments(NamedTuple):
    """The last that is known of an element that died."""

    pid: int = -1  # the process that had its turn; -1 if none ran yet, IDLE between the calls of a session
    superstep: int = 0
    line: str = ""  # where it was, or how it left itself: "near ...", "at ...", "by ..."
    signal: int = 0  # of a crash
    of_mpi: str = ""  # what MPI's library complained of


def _paths(folder: str, index: int) -> tuple[str, str, str]:
    return tuple(os.path.join(folder, f"{name}-{index}") for name in ("note", "crash", "mpi"))  # type: ignore[return-value]


# ------------------------------------------------------------------------------ on the element


class Lifeline:
    """The element's side of the connection."""

    def __init__(self, folder: str, index: int) -> None:
        """Connect and take over bsprun's standard output and error; element 0 also its input, if bsprun sends it."""
        self._socket = socket.socket(socket.AF_UNIX)
        streams: list[int] = []
        with contextlib.suppress(ConnectionError):
            self._socket.connect(os.path.join(folder, "socket"))
            self._say({"element": index})
            _, streams, _, _ = socket.recv_fds(self._socket, 64, 3)
        if not streams:
            os._exit(1)  # bsprun ends this job, and tells why
        for number, stream in zip(range(3) if len(streams) == 3 else _STREAMS, streams, strict=True):
            os.dup2(stream, number)
            os.close(stream)
        note, crash, self._of_mpi = _paths(folder, index)
        with open(note, "w+b") as file:
            file.truncate(_NOTE_BYTES)
            self._write_into(mmap.mmap(file.fileno(), _NOTE_BYTES))
        self.turn(-1, 0)
        import faulthandler

        faulthandler.enable(open(crash, "w"))  # noqa: SIM115 - open for the element's life

    @contextlib.contextmanager
    def starting_mpi(self) -> Iterator[None]:
        """Inside, Open MPI's library starts; its complaints go to bsprun at once, not among what the program prints."""
        complaints = os.open(self._of_mpi, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        settings = {f"{library}_OUTPUT_STDERR_FD": str(complaints) for library in ("OPAL", "PMIX")}
        settings["OMPI_MCA_opal_base_help_aggregate"] = "0"
        os.environ.update(settings)
        try:
            yield
        finally:
            for name in settings:  # programs that the element starts have no such descriptor
                del os.environ[name]

    def _say(self, message: dict[str, Any]) -> None:
        self._socket.sendall(json.dumps(message).encode() + b"\n")

    def _write_into(self, note: mmap.mmap | bytearray) -> None:
        """Write into this memory from now on."""
        self._note = note
        # turn(pid, superstep): note which process has its turn, and the superstep; without a call of Python
        self.turn: Callable[[int, int], None] = partial(_TURN.pack_into, note, 0)

    def _write_line(self, text: str) -> None:
        data = text.encode(errors="backslashreplace")[: _NOTE_BYTES - _LINE_AT - 1]
        self._note[_LINE_AT : _LINE_AT + len(data) + 1] = data + b"\0"

    def watch(self) -> None:
        """Note about once a second which line of the program runs, and a call of `os._exit`."""
        main, leave = threading.get_ident(), os._exit

        def look() -> None:
            while True:
                time.sleep(_LOOK_EVERY)
                frame = sys._current_frames().get(main)
                if frame is not None:
                    self._write_line(f"near {program_line(frames_of(frame))}")
                del frame

        def noted(status: int) -> Any:
            self._write_line(f"by os._exit({status}) at {program_line(frames_of(sys._getframe(1)))}")
            leave(status)

        def in_child() -> None:  # a child of os.fork is no element
            os._exit = leave
            self._write_into(bytearray(_NOTE_BYTES))
            self._socket.close()

        os._exit = noted
        os.register_at_fork(after_in_child=in_child)
        threading.Thread(target=look, daemon=True, name="bsprun looks which line runs").start()

    def idle(self) -> None:
        """Note that no process runs: a session waits for its next call."""
        self.turn(IDLE, 0)

    def broke(self, how: str) -> None:
        """Note how the runtime ended this element: "by ..."."""
        self._write_line(how)

    def farewell(self, **ending: Any) -> None:
        """Send that the program has ended here.

        ending : `threads` that this element waits for; from element 0 also the job's `status`, `said` and `failed`.
        """
        self._say(ending)


# -------------------------------------------------------------------------------- in bsprun


@dataclass
class Ending:
    """The elements' reports of ends: of the job, of the program on each element, and of elements that died."""

    status: int | None = None
    said: str = ""
    failed: bool = False
    lost: dict[int, float] = field(default_factory=dict)  # elements in the order of their deaths, and when (monotonic)
    waits: dict[int, list[str]] = field(default_factory=dict)  # by element: threads that keep it from ending

    @property
    def begun(self) -> bool:
        """True if the job has told how it ended, or an element is lost."""
        return self.status is not None or bool(self.lost)


class Desk:
    """bsprun's side of the connections of one job's elements."""

    def __init__(self, folder: str, streams: tuple[int, ...], selector: selectors.BaseSelector | None = None) -> None:
        """`streams` are the descriptors that elements take over: output, error, and before them the input of element 0.

        A `selector` that somebody else waits with takes the connections; their `data` is what to call.
        """
        self.ending = Ending()
        self.met: set[int] = set()  # elements that have connected
        self._folder = folder
        self._streams = streams
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(os.path.join(folder, "socket"))
        self._listener.listen(1024)
        self._selector = selectors.DefaultSelector() if selector is None else selector
        self._selector.register(self._listener, selectors.EVENT_READ, self._accept)

    def close(self) -> None:
        """Close all connections."""
        for key in list(self._selector.get_map().values()):
            if isinstance(key.fileobj, socket.socket):
                key.fileobj.close()
        self._selector.close()

    def wait(self, child: subprocess.Popen[bytes], seconds: float | None) -> int | None:
        """Read messages of elements until `child` ends; return its status.

        Return None after so many seconds, or, without a limit, when the end of the job has begun (`Ending.begun`).
        """
        until = None if seconds is None else time.monotonic() + seconds
        with end_of(child, self._selector):
            while (code := child.poll()) is None:
                if self.ending.begun if until is None else time.monotonic() >= until:
                    return None
                self.hear(None if until is None else max(0.0, until - time.monotonic()))
        return code

    def noticing(self, child: subprocess.Popen[bytes]) -> contextlib.AbstractContextManager[None]:
        """Inside, `hear` returns when the child ends, too."""
        return end_of(child, self._selector)

    def also(self, connection: Any, read: Callable[[], None]) -> None:
        """Call `read()` when there is something to read from a further connection."""
        self._selector.register(connection, selectors.EVENT_READ, read)

    def not_also(self, connection: Any) -> None:
        """Undo `also`."""
        self._selector.unregister(connection)

    def drain(self, seconds: float) -> None:
        """Read what elements had sent before they ended, for at most so many seconds."""
        until = time.monotonic() + seconds
        while len(self._selector.get_map()) > 1 and (left := until - time.monotonic()) > 0:
            self.hear(left)

    def all_have_left(self) -> bool:
        """Return True if every element that has connected has said farewell or is dead."""
        return len(self.ending.waits) + len(self.ending.lost) >= len(self.met)

    def hear(self, seconds: float | None) -> None:
        """Wait for what is heard next, at most so many seconds."""
        for key, _ in self._selector.select(seconds):
            if key.data is not None:
                key.data()

    def _accept(self) -> None:
        connection, _ = self._listener.accept()
        self._selector.register(connection, selectors.EVENT_READ, _Element(self, connection).read)

    def _met(self, element: int, connection: socket.socket) -> None:
        self.met.add(element)
        streams = self._streams if element == 0 else self._streams[-2:]
        with contextlib.suppress(OSError):  # it has died meanwhile: its connection is about to be found closed
            socket.send_fds(connection, [b"streams"], list(streams))

    def superstep(self) -> int:
        """Return the furthest superstep in which an element that has connected has been."""
        return max((self.last_moments(element).superstep for element in self.met), default=0)

    def last_moments(self, element: int) -> LastMoments:
        """Return the last that is known of a dead element, as far as it is known."""
        note, crash, of_mpi = _paths(self._folder, element)
        try:
            with open(note, "rb") as file:
                data = file.read()
            pid, superstep = _TURN.unpack_from(data)
        except (OSError, struct.error):
            return LastMoments(of_mpi=_text_of(of_mpi))
        line = data[_LINE_AT:].split(b"\0", 1)[0].decode(errors="replace")
        if pid == IDLE and line.startswith("near "):  # a line of an earlier call, or of this package
            line = ""
        crashed = _text_of(crash)
        return LastMoments(pid, superstep, _crashed_at(crashed) or line, _crashed_by(crashed), _text_of(of_mpi))


class _Element:
    """One element's connection, read by the desk."""

    def __init__(self, desk: Desk, connection: socket.socket) -> None:
        self._desk = desk
        self._connection = connection
        self._index = -1
        self._left = False
        self._unread = b""

    def read(self) -> None:
        ending = self._desk.ending
        try:
            data = self._connection.recv(1 << 16)
        except OSError:
            data = b""
        if not data:
            self._desk._selector.unregister(self._connection)
            self._connection.close()
            if not self._left:
                ending.lost[self._index] = time.monotonic()
            return
        *lines, self._unread = (self._unread + data).split(b"\n")
        for message in map(json.loads, lines):
            if "element" in message:
                self._index = message["element"]
                self._desk._met(self._index, self._connection)
            else:
                self._left = True
                ending.waits[self._index] = message["threads"]
                if "status" in message:
                    ending.status, ending.said = message["status"], message["said"]
                    ending.failed = message["failed"]


def _text_of(path: str) -> str:
    """Return what a file holds; nothing if there is none."""
    try:
        with open(path, errors="replace") as file:
            return file.read()
    except OSError:
        return ""


def _crashed_by(text: str) -> int:
    """Return the signal that faulthandler reported in `text`; 0 if it reported none."""
    said = re.search(r"^Fatal Python error: (.*)$", text, re.MULTILINE)
    return _FATAL.get(said[1], 0) if said else 0


def _crashed_at(text: str) -> str:
    """Return the line of the user's code at which the thread crashed, from faulthandler's output; empty if none."""
    section = text.partition("Current thread")[2].partition("\n\n")[0]
    found = [
        (name, int(number)) for name, number in re.findall(r'^  File "(.*)", line (\d+) in ', section, re.MULTILINE)
    ]
    return f"at {program_line(found)}" if found else ""


@contextlib.contextmanager
def end_of(child: subprocess.Popen[bytes], selector: selectors.BaseSelector) -> Iterator[None]:
    """Wake the selector when a child ends."""
    descriptor = os.pidfd_open(child.pid) if child.returncode is None else -1
    if descriptor < 0:
        yield
        return
    selector.register(descriptor, selectors.EVENT_READ, None)
    try:
        yield
    finally:
        selector.unregister(descriptor)
        os.close(descriptor)


def threads_waited_for() -> list[str]:
    """Return the names and lines of the threads that keep this interpreter from ending."""
    frames = sys._current_frames()
    others = [each for each in threading.enumerate() if each is not threading.main_thread() and not each.daemon]
    return [f"'{each.name}' at {program_line(frames_of(frames.get(each.ident or 0)))}" for each in others]
