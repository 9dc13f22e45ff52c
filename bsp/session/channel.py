"""The connection of each element of a session with the caller: requests one way, text and results the other way."""

from __future__ import annotations

import io
import os
import pickle
import threading
from dataclasses import dataclass
from multiprocessing.connection import Client, Connection
from typing import Any

from bsp.session.handles import Key
from bsp.session.tracebacks import Told

TEXT, ERROR_TEXT, LINE, DISPLAY, CLEAR = "text", "error text", "line", "display", "clear"  # shown by the caller
INPUT, ANSWER, ELEMENT = "input", "answer", "element"


@dataclass(frozen=True)
class Request:
    """A function for all processes, and its arguments."""

    call: int  # how many calls came before it
    body: bytes  # the pickle of (function, args), with keys in the place of handles
    path: list[str]  # sys.path: the processes import modules from the same places
    cells: dict[str, str]  # names of the caller's cells by file, for messages
    dropped: list[Key]  # handles that the caller has lost
    keeps: bool  # whether arrays stay on the processes; else they are pickled, as every other value
    displays: bool  # whether the caller runs in IPython, where `display` shows values


@dataclass(frozen=True)
class NotSent:
    """The place of a result that cannot be pickled: the call has been carried out, and only its result is lost."""

    why: str


@dataclass(frozen=True)
class CallOutcome:
    """The outcome of a call on one element.

    results : pickles by pid.  raised : exceptions by pid, and the supersteps in which they were raised.
    failure : of the job, the same on every element.  culprit : the pid whose exception it is; -1 if it has none.
    in_step : whether all processes are at the end of the call, so that another one can follow.
    """

    results: dict[int, bytes]
    raised: dict[int, tuple[int, Told]]
    failure: Told | None
    status: int
    culprit: int
    in_step: bool
    superstep: int


def address(folder: str) -> str:
    """Return the path of the socket in a session's folder."""
    return os.path.join(folder, "session")


class Channel:
    """An element's end of its connection."""

    def __init__(self, folder: str, element: int) -> None:
        """Connect to the caller, whose folder is this user's alone."""
        self._connection: Connection[Any, Any] = Client(address(folder), "AF_UNIX")
        self._lock = threading.Lock()  # the program may print from threads
        self.send(ELEMENT, element)

    def send(self, kind: str, value: Any) -> None:
        """Send a message to the caller."""
        data = pickle.dumps((kind, value), 5)
        with self._lock:
            self._connection.send_bytes(data)

    def requests(self) -> Any:
        """Yield the caller's requests until it closes the session, or is gone."""
        while True:
            try:
                data = self._connection.recv_bytes()
            except (EOFError, OSError):
                return
            if not data:
                return
            yield pickle.loads(data)

    def ask(self) -> str:
        """Return the next line of the caller's standard input; "" at its end."""
        self.send(INPUT, None)
        return self._connection.recv_bytes().decode("utf-8", "surrogatepass")

    def stream(self, kind: str) -> io.BufferedWriter:
        """Return a stream whose bytes appear in the caller's output."""
        return io.BufferedWriter(_CallStream(self, kind))


class _CallStream(io.RawIOBase):
    """Bytes that are sent as messages."""

    def __init__(self, channel: Channel, kind: str) -> None:
        self._channel = channel
        self._kind = kind

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:
        self._channel.send(self._kind, bytes(data))
        return len(data)


class CallersInput(io.TextIOBase):
    """The standard input of process 0: lines that the caller is asked for."""

    def __init__(self, channel: Channel) -> None:
        self._channel = channel

    def readable(self) -> bool:
        """Return True."""
        return True

    def readline(self, size: int = -1, /) -> str:  # type: ignore[override]
        """Return the next line, whole; "" at the end."""
        return self._channel.ask()

    def read(self, size: int | None = -1, /) -> str:
        """Return all lines that are left."""
        return "".join(iter(self.readline, ""))
