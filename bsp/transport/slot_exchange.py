"""The memory of control exchanges, and what has arrived in it.

The transport holds a control exchange in every superstep, in slots of one of a few sizes (`bsp.transport.slots`).
"""

from __future__ import annotations

from collections.abc import Callable

from bsp.transport.compiled import read
from bsp.transport.header import Header, SmallPackets, unpack


class ExchangeSlots:
    """The slots of element `index`: memory that is sent and memory that is received, and the call that exchanges them.

    size : of each slot in bytes.  least : packets that are all shorter would fit into smaller slots.
    exchange : sends the slots of `out`, and receives those of `into`.
    fit : chooses the slots of the next exchange by the longest packet of this one.
    """

    __slots__ = ("_index", "exchange", "fit", "headers", "into", "least", "offsets", "out", "size")

    def __init__(
        self,
        size: int,
        least: int,
        elements: int,
        index: int,
        exchanging: Callable[[bytearray, bytearray], Callable[[], object]],
        fit: Callable[[int], None],
    ) -> None:
        """Make slots; `exchanging(out, into)` returns their `exchange`."""
        self.size, self.least = size, least
        self.out, self.into = bytearray(size * elements), bytearray(size * elements)
        self.offsets = [size * k for k in range(elements)]
        self.exchange, self.fit = exchanging(self.out, self.into), fit
        self.headers: list[Header] | None = None  # of the last exchange, once they have been read
        self._index = index

    def read_headers(self) -> list[Header]:
        """Return the headers of the last exchange, by element."""
        if self.headers is None:
            self.headers = [unpack(self.into, offset) for offset in self.offsets]
        return self.headers

    def found(self, superstep: int, digest: bytes, hint: int, longest: int) -> SmallPackets | None:
        """Return what the last exchange has brought to an element that sent packets and blocks; see `Transport.small`.

        superstep, digest, hint, longest : of what the element sent; bytes of its longest packet.
        """
        came = read(self.into, self.size, self._index, superstep, digest)
        if came is None:
            return None
        packets, theirs, hints, flags = came
        if longest or theirs:
            self.fit(max(longest, theirs))
        return packets, max(hint, hints), flags
