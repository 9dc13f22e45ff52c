"""How long the other side of a connection may be silent before it is taken for dead."""

from __future__ import annotations

import contextlib
import selectors
import socket
import time
from collections.abc import Iterable
from typing import cast

LOOK_SECONDS = 0.25  # between looks at what is silent; each side says something as often
_LIMIT = 14  # looks: 3.5 s
_LONGEST_LIMIT = 48  # looks: 12 s
LONGEST_SECONDS = _LONGEST_LIMIT * LOOK_SECONDS
_ANSWER_SECONDS = 1.0


class Silence:
    """Counts the looks since the other side was last heard.

    A look that comes late counts once: whoever did not run could not hear.  The limit grows with silences that were
    no deaths, because a program on a loaded machine may wait for its turn for seconds.
    """

    def __init__(self) -> None:
        self.looks = 0
        self._limit = _LIMIT

    def heard(self) -> None:
        """Begin anew."""
        self._limit = min(max(self._limit, 3 * self.looks), _LONGEST_LIMIT)
        self.looks = 0

    def look(self) -> bool:
        """Count a look; return True if the silence is too long."""
        self.looks += 1
        return self.looks > self._limit

    def excuse(self) -> bool:
        """Let the longest limit count for this silence, because the host is alive; return False if it is over."""
        self._limit = _LONGEST_LIMIT
        return self.looks <= _LONGEST_LIMIT


def host_answers(addresses: Iterable[str], port: int) -> bool:
    """Return whether a host connects us to a program that listens there; its kernel does so while the program waits."""
    with contextlib.ExitStack() as open_ones, selectors.DefaultSelector() as selector:
        for address in addresses:
            trial = open_ones.enter_context(socket.socket())
            trial.setblocking(False)
            trial.connect_ex((address, port))
            selector.register(trial, selectors.EVENT_WRITE)
        until = time.monotonic() + _ANSWER_SECONDS
        while selector.get_map() and (left := until - time.monotonic()) > 0:
            for key, _ in selector.select(left):
                trial = cast("socket.socket", key.fileobj)
                if trial.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR) == 0:
                    return True
                selector.unregister(trial)
    return False
