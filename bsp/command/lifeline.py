"""Each element's connection to the bsprun that started it, on one machine.

The element takes bsprun's own standard streams from it, so what it prints goes where bsprun's output goes and by
no other way: MPI's launcher would put a terminal of its own between.  It says how the job has ended (element 0),
and for which of its threads it still waits.  A connection that ends without a farewell is a dead element; what it
was doing stands in a note that it keeps in memory shared with bsprun, and in what faulthandler has written.
"""

from __future__ import annotations

import contextlib
import json
import mmap
import os
import re
import selectors
import socket
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from bsp.source import frames_of, program_line

_TURN = struct.Struct("<qq")  # whose turn it is, and the superstep
_LINE_AT = _TURN.size  # how it left by itself, or the line it was last seen at, as text
_NOTE_BYTES = 1024
_LOOK_EVERY = 1.0  # seconds between looks at the line under way
_STREAMS = (1, 2)


def _paths(folder: str, index: int) -> tuple[str, str]:
    return os.path.join(folder, f"note-{index}"), os.path.join(folder, f"crash-{index}")


# ------------------------------------------------------------------------------ on the element


class Lifeline:
    """An element's end of the connection."""

    def __init__(self, folder: str, index: int) -> None:
        """Connect, and take over standard output and error; of element 0 the input too, if it can be given."""
        self._socket = socket.socket(socket.AF_UNIX)
        self._socket.connect(os.path.join(folder, "socket"))
        self._say({"element": index})
        _, streams, _, _ = socket.recv_fds(self._socket, 64, 3)
        for number, stream in zip(range(3) if len(streams) == 3 else _STREAMS, streams, strict=True):
            os.dup2(stream, number)
            os.close(stream)
        note, crash = _paths(folder, index)
        with open(note, "w+b") as file:
            file.truncate(_NOTE_BYTES)
            self._note: mmap.mmap | bytearray = mmap.mmap(file.fileno(), _NOTE_BYTES)
        self.turn(-1, 0)
        import faulthandler

        faulthandler.enable(open(crash, "w"))  # noqa: SIM115 - open for the element's life

    def _say(self, message: dict[str, Any]) -> None:
        self._socket.sendall(json.dumps(message).encode() + b"\n")

    def turn(self, pid: int, superstep: int) -> None:
        """Note whose turn it is."""
        _TURN.pack_into(self._note, 0, pid, superstep)

    def _write_line(self, text: str) -> None:
        data = text.encode()[: _NOTE_BYTES - _LINE_AT - 1]
        self._note[_LINE_AT : _LINE_AT + len(data) + 1] = data + b"\0"

    def watch(self) -> None:
        """Note about once a second which line of the program runs, and how it leaves by `os._exit`."""
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

        def in_child() -> None:  # of os.fork: it is no element
            os._exit = leave
            self._note = bytearray(_NOTE_BYTES)
            self._socket.close()

        os._exit = noted
        os.register_at_fork(after_in_child=in_child)
        threading.Thread(target=look, daemon=True, name="bsprun looks which line runs").start()

    def broke(self) -> None:
        """Note that the runtime itself has failed, and has said how."""
        self._write_line("by an error of nonstop-bsp itself, told above")

    def farewell(self, **ending: Any) -> None:
        """The program is over here: `status`, `said` and `failed` of the job (element 0), and `threads` waited for."""
        self._say(ending)


# -------------------------------------------------------------------------------- in bsprun


@dataclass
class Ending:
    """What the elements have told: how the job ended, if it did, and which element died first, if one did."""

    status: int | None = None
    said: str = ""
    failed: bool = False
    lost: list[int] = field(default_factory=list)  # elements, in the order of their deaths
    waits: dict[int, list[str]] = field(default_factory=dict)  # by element: threads that keep it from ending


class Desk:
    """Where the elements of one job connect."""

    def __init__(self, folder: str, streams: tuple[int, ...]) -> None:
        """`streams` are the descriptors that elements take over: (1, 2), with 0 before them for element 0."""
        self.ending = Ending()
        self._connected = 0
        self._folder = folder
        self._streams = streams
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(os.path.join(folder, "socket"))
        self._listener.listen(1024)
        self._selector = selectors.DefaultSelector()
        self._selector.register(self._listener, selectors.EVENT_READ, self._accept)

    def close(self) -> None:
        """Hear nobody any more."""
        for key in list(self._selector.get_map().values()):
            if isinstance(key.fileobj, socket.socket):
                key.fileobj.close()
        self._selector.close()

    def wait(self, child: subprocess.Popen[bytes], seconds: float | None) -> int | None:
        """Hear the elements until `child` ends; its status then.

        None after so many seconds, or, where there is no limit, when the job has told how it ended.
        """
        until = None if seconds is None else time.monotonic() + seconds
        with _end_of(child, self._selector):
            while (code := child.poll()) is None:
                if self.ending.status is not None if until is None else time.monotonic() >= until:
                    return None
                self._hear(None if until is None else max(0.0, until - time.monotonic()))
        return code

    def drain(self, seconds: float) -> None:
        """Hear what elements that have ended still have to say."""
        until = time.monotonic() + seconds
        while len(self._selector.get_map()) > 1 and (left := until - time.monotonic()) > 0:
            self._hear(left)

    def all_have_left(self) -> bool:
        """Whether every element that has connected has said farewell, or is dead."""
        return len(self.ending.waits) + len(self.ending.lost) >= self._connected

    def _hear(self, seconds: float | None) -> None:
        for key, _ in self._selector.select(seconds):
            if key.data is not None:
                key.data()

    def _accept(self) -> None:
        connection, _ = self._listener.accept()
        self._connected += 1
        self._selector.register(connection, selectors.EVENT_READ, _Element(self, connection).read)

    def _met(self, element: int, connection: socket.socket) -> None:
        streams = self._streams if element == 0 else _STREAMS
        socket.send_fds(connection, [b"streams"], list(streams))

    def last_moments(self, element: int) -> tuple[int, int, str]:
        """Whose turn it was on a dead element, the superstep, and where it was or how it left, as far as is known."""
        note, crash = _paths(self._folder, element)
        try:
            with open(note, "rb") as file:
                data = file.read()
            pid, superstep = _TURN.unpack_from(data)
            line = data[_LINE_AT:].split(b"\0", 1)[0].decode(errors="replace")
            with open(crash, errors="replace") as text:
                return pid, superstep, _crashed_at(text.read()) or line
        except (OSError, struct.error):
            return -1, 0, ""


class _Element:
    """An element as its desk hears it."""

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
                ending.lost.append(self._index)
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


def _crashed_at(text: str) -> str:
    """The line that ran when faulthandler wrote this: the first of the thread that crashed, of the user's code."""
    section = text.partition("Current thread")[2].partition("\n\n")[0]
    found = [
        (name, int(number)) for name, number in re.findall(r'^  File "(.*)", line (\d+) in ', section, re.MULTILINE)
    ]
    return f"at {program_line(found)}" if found else ""


@contextlib.contextmanager
def _end_of(child: subprocess.Popen[bytes], selector: selectors.BaseSelector) -> Iterator[None]:
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
    """The threads that keep this interpreter from ending, and where each one is."""
    frames = sys._current_frames()
    others = [each for each in threading.enumerate() if each is not threading.main_thread() and not each.daemon]
    return [f"'{each.name}' at {program_line(frames_of(frames.get(each.ident or 0)))}" for each in others]
