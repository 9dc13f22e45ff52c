"""How elements talk: control slots, blocks of known size, and rare objects.

`Solo` is the element that has no others; `bsp.transport.mpi` holds the one over MPI.  An element calls the
same operations in the same order as all others, so a transport needs no names for exchanges.
"""

from __future__ import annotations

import time
from typing import Any, Protocol

import numpy as np

from bsp.cost.choice import Choice
from bsp.transport.header import Header

Blocks = dict[int, list[np.ndarray]]  # by the other element: uint8 arrays in an agreed order


class Transport(Protocol):
    """What an element needs of the others."""

    index: int
    elements: int
    chosen: Choice | None  # the last schedule of an exchange, and what the others were priced at
    moved: str | None  # how data travelled in this superstep; who reads it sets it back to None

    def restart_clock(self) -> None:
        """The job begins now, on all elements."""

    def clock(self) -> float:
        """Seconds since the job began, as this element sees it."""

    def agreed_clock(self) -> float:
        """Element 0's clock when it reached the last boundary: the same value on every element."""

    def quiet(self, superstep: int, digest: bytes) -> bool:
        """Control exchange of an element with nothing to say; whether all others had nothing either."""

    def headers(self) -> list[Header]:
        """The headers of the last control exchange, by element."""

    def control(self, header: Header, packets: dict[int, bytes]) -> list[Header]:
        """Control exchange; packets that fit stand in the slots, the others wait for `packets`."""

    def packets(self, flags: int) -> dict[int, bytes | memoryview]:
        """The packets that came with the last control exchange, by element; fetches those outside the slots.

        `flags` are those of all headers together.
        """

    def room(self) -> int:
        """The bytes of packet a slot holds."""

    def blocks(self, out: Blocks, into: Blocks, superstep: int) -> None:
        """Moves blocks whose sizes both sides know; called by all elements or by none."""

    def abort(self) -> None:
        """End all elements at once: the others wait for one that cannot go on."""

    def gather(self, value: Any) -> list[Any]:
        """Every element's value, by element, on every element.  For set-up, mistakes and ends."""


class Solo:
    """One element: everything is at home."""

    index = 0
    elements = 1
    chosen: Choice | None = None
    moved: str | None = None

    def __init__(self) -> None:
        self._began = time.perf_counter()
        self._agreed = 0.0

    def restart_clock(self) -> None:
        self._began = time.perf_counter()

    def clock(self) -> float:
        return time.perf_counter() - self._began

    def agreed_clock(self) -> float:
        return self._agreed

    def quiet(self, superstep: int, digest: bytes) -> bool:
        self._agreed = time.perf_counter() - self._began
        return True

    def headers(self) -> list[Header]:
        return []

    def control(self, header: Header, packets: dict[int, bytes]) -> list[Header]:
        self._agreed = header.clock
        return [header]

    def packets(self, flags: int) -> dict[int, bytes | memoryview]:
        return {}

    def room(self) -> int:
        return 0

    def blocks(self, out: Blocks, into: Blocks, superstep: int) -> None:
        return None

    def abort(self) -> None:
        return None

    def gather(self, value: Any) -> list[Any]:
        return [value]
