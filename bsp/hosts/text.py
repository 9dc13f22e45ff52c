"""Text of elements on other hosts, written to bsprun's own streams."""

from __future__ import annotations

import os
import re
import threading
from collections.abc import Callable
from queue import SimpleQueue

# "[h2][[29,1],2][btl_tcp_frag.c:241:...] ... Connection reset", which Open MPI writes to this stream only; its rest
# stands alone where another element of the host has written between the two
_OF_MPI = re.compile(
    rb"\[[^\]\s]+:\d+\] (\*\*\*|PMIX |Delaying for )|\[[^\]\s]+\]\[\[\d+,\d+\],\d+\]\["
    rb"|(peer: \S+ )?mca_btl_tcp_\w+: \w+ failed"
)
_BEGINNINGS = (b"[", b"peer: ", b"mca_btl_tcp_")


class TextWriter:
    """Writes pieces of text in a thread of its own: whoever reads it may be slow, and the hosts must be heard.

    Lines in which MPI complains of broken connections are left out: bsprun says what broke them.
    """

    def __init__(self) -> None:
        self.lost = ""  # why standard output takes no more, if its reader has not just left: the disk is full
        self._begun: dict[str, bytes] = {}  # by host: the start of a line on standard error that may be MPI's
        self._queue: SimpleQueue[tuple[int, bytes, str, Callable[[bool], None]] | None] = SimpleQueue()
        self._thread = threading.Thread(target=self._write_all, daemon=True)
        self._thread.start()

    def write(self, stream: int, data: bytes, host: str, then: Callable[[bool], None]) -> None:
        """Write a host's text to a descriptor, 1 or 2; `then` is called with False if whoever read it has left."""
        self._queue.put((stream, data, host, then))

    def finish(self) -> None:
        """Return when all has been written."""
        self._queue.put(None)
        self._thread.join()

    def _write_all(self) -> None:
        while (item := self._queue.get()) is not None:
            stream, data, host, then = item
            then(self._written(stream, data if stream == 1 else self._sifted(data, host)))
        for begun in self._begun.values():
            if not _OF_MPI.match(begun):
                self._written(2, begun)

    def _written(self, stream: int, data: bytes) -> bool:
        """Write all of some data to a descriptor; False if whoever read it has left."""
        view = memoryview(data)
        try:
            while view:
                view = view[os.write(stream, view) :]
        except BrokenPipeError:
            return False
        except OSError as wrong:
            if stream == 1:  # the loss of a message is no reason to end the job
                self.lost = self.lost or os.strerror(wrong.errno or 0)
        return True

    def _sifted(self, data: bytes, host: str) -> bytes:
        """Return text without MPI's lines, as far as its lines are complete."""
        *lines, last = (self._begun.pop(host, b"") + data).split(b"\n")
        if last and any(last.startswith(each) or each.startswith(last) for each in _BEGINNINGS):
            self._begun[host], last = last, b""
        return b"".join(line + b"\n" for line in lines if not _OF_MPI.match(line)) + last
