"""The interface through which elements exchange data: control packets, blocks of known size, and rare objects.

`Solo` serves a single element; `bsp.transport.mpi` connects elements by MPI.  All elements call the same operations in
the same order, so exchanges need no names.
"""

from __future__ import annotations

import time
from typing import Any, Protocol

import numpy as np

from bsp.cost.choice import Choice
from bsp.transport.header import Header, SmallPackets
from bsp.transport.slot_exchange import ExchangeSlots

Blocks = dict[int, list[np.ndarray]]  # by the other element: uint8 arrays in an agreed order


class Transport(Protocol):
    """The operations by which an element exchanges data with the others."""

    index: int
    elements: int
    chosen: Choice | None  # the schedule of the last exchange, and the prices of all
    moved: str | None  # how data travelled in this superstep; the reader sets it back to None

    @property
    def slots(self) -> ExchangeSlots | None:
        """The slots of the next control exchange, in which C can end a superstep; None if there are none."""

    def restart_clock(self) -> None:
        """Set the clock to 0.  Collective: all elements begin the job at the same time."""

    def clock(self) -> float:
        """Return the seconds since the job began, by this element's clock."""

    def agreed_clock(self) -> float:
        """Return element 0's clock at the time it reached the last boundary: the same value on every element."""

    def small(
        self, superstep: int, digest: bytes, hint: int, packets: dict[int, bytes], block_bytes: int, asks: bool
    ) -> SmallPackets | None:
        """Exchange headers and packets that fit into slots, for an element with nothing else but blocks and replies.

        Returns the packets of the other elements, the largest hint, and whether blocks or replies follow, as flags.
        hint : of the calls here.
        block_bytes : what follows as blocks, for all other elements together.
        asks : whether a process here reads memory.
        Collective: the other elements call this or `control`.
        Returns None if another element has more, or a fault: `headers` and `packets` follow, as after `control`.
        """

    def headers(self) -> list[Header]:
        """Return the headers of the last control exchange, by element."""

    def control(self, header: Header, packets: dict[int, bytes]) -> list[Header]:
        """Exchange headers and the packets that fit into slots; return all headers.  `packets` fetches the rest."""

    def packets(self, flags: int) -> dict[int, bytes | memoryview]:
        """Return the packets of the last control exchange, by element.  Collective if some did not fit into slots.

        flags : of all headers together.
        """

    def room(self) -> int:
        """Return the largest packet that fits into a slot, in bytes."""

    def blocks(self, out: Blocks, into: Blocks, superstep: int) -> None:
        """Move blocks whose sizes sender and receiver have.  Collective: all elements call it, or none does."""

    def abort(self) -> None:
        """End all elements at once, because the others wait for one that cannot continue."""

    def gather(self, value: Any) -> list[Any]:
        """Return every element's value, by element, on every element.  Slow: for the start, errors and the end."""


class Solo:
    """The transport of a job with one element: nothing is exchanged."""

    index = 0
    elements = 1
    chosen: Choice | None = None
    moved: str | None = None
    slots: ExchangeSlots | None = None

    def __init__(self) -> None:
        self._began = time.perf_counter()
        self._agreed = 0.0

    def restart_clock(self) -> None:
        """Set the clock to 0."""
        self._began, self._agreed = time.perf_counter(), 0.0

    def clock(self) -> float:
        """Return the seconds since the start, or since the clock was restarted."""
        return time.perf_counter() - self._began

    def agreed_clock(self) -> float:
        """Return the clock at the last boundary."""
        return self._agreed

    def small(
        self, superstep: int, digest: bytes, hint: int, packets: dict[int, bytes], block_bytes: int, asks: bool
    ) -> SmallPackets | None:
        """Return no packets, since there are no other elements, and the hint."""
        self._agreed = time.perf_counter() - self._began
        return {}, hint, 0

    def headers(self) -> list[Header]:
        """Return no headers: there are no other elements."""
        return []

    def control(self, header: Header, packets: dict[int, bytes]) -> list[Header]:
        """Return this element's own header."""
        self._agreed = header.clock
        return [header]

    def packets(self, flags: int) -> dict[int, bytes | memoryview]:
        """Return no packets."""
        return {}

    def room(self) -> int:
        """Return 0: nothing is sent."""
        return 0

    def blocks(self, out: Blocks, into: Blocks, superstep: int) -> None:
        """Do nothing: there are no blocks to move."""

    def abort(self) -> None:
        """Do nothing: no other element waits."""

    def gather(self, value: Any) -> list[Any]:
        """Return the element's own value, in a list."""
        return [value]
