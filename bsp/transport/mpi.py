"""The transport between MPI ranks.  Together with `exchange` the only module that imports mpi4py.

A boundary is one `Alltoall` of slots of fixed size: a header, and the packet if it fits.  The size of the slots is the
smallest that would have held the packets of the last superstep, which all elements derive from its headers.  So a
program that repeats small supersteps needs one MPI call for each.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable
from functools import partial
from time import perf_counter
from typing import Any

import numpy as np
from mpi4py import MPI

from bsp.cost.choice import Choice
from bsp.cost.model import DEFAULT, Machine
from bsp.errors import LocalMistake
from bsp.source import here
from bsp.transport.compiled import fill
from bsp.transport.exchange import Blocks, ExchangeSizes, checked, choose_large, choose_small, exchange, swap
from bsp.transport.header import BODY, SIZE, Header, SmallPackets, clock_of, set_body, set_inline, unpack
from bsp.transport.slot_exchange import ExchangeSlots

_SLOTS = (256, 1024, 4096, 16384, 65536)  # bytes of a slot
_CHEAP = 4096  # bytes: an Alltoall of such slots costs little more than one of headers alone
_TOGETHER = 1 << 17  # bytes of an element's larger slots, all of which travel, whatever is in them

_PAIR = Choice("blocks between 2 elements", "latin", False, ())  # one round, one way


def _refused() -> None:
    """Raise LocalMistake.  Replaces MPI.Finalize, after which the other ranks would wait for this one for ever."""
    raise LocalMistake(f"MPI.Finalize() at {here()}: MPI is bsprun's while the job runs, which ends it with the job")


class MpiTransport:
    """The transport of one rank of a communicator."""

    def __init__(self, comm: MPI.Comm, schedule: str = "auto", seed: int = 0, machine: Machine = DEFAULT) -> None:
        MPI.Finalize = _refused
        self.comm = comm.Dup()
        self.index = comm.rank
        self.elements = comm.size
        if schedule != "auto":
            checked(schedule)
        self._schedule = schedule
        self._seed = seed
        self._machine = machine
        self.chosen: Choice | None = None
        self.moved: str | None = None
        self._slots: dict[int, ExchangeSlots] = {}
        self._sizes = [size for size in _SLOTS if size <= _CHEAP or size * self.elements <= _TOGETHER]
        self._use(_SLOTS[0])
        self.came = self.slots  # those of the last exchange
        self._bodies: dict[int, bytes] = {}
        self._began = 0.0
        self.restart_clock()

    def restart_clock(self) -> None:
        """Set the clock to 0 after a barrier."""
        self.comm.Barrier()
        self._began = perf_counter()
        self.came.headers = None
        self.came.into[:8] = bytes(8)  # the clock that `agreed_clock` finds there

    def close(self) -> None:
        """Free the communicator."""
        self.comm.Free()

    def _use(self, size: int) -> None:
        if size not in self._slots:
            least = max((smaller - SIZE + 1 for smaller in _SLOTS if smaller < size), default=0)
            self._slots[size] = ExchangeSlots(
                size, least, self.elements, self.index, partial(self._exchanging, size), self._fit
            )
        self.slots = self._slots[size]

    def _exchanging(self, size: int, out: bytearray, into: bytearray) -> Callable[[], None]:
        """Return the function that exchanges slots."""
        return partial(self.comm.Alltoall, [out, size, MPI.BYTE], [into, size, MPI.BYTE])

    # ----------------------------------------------------------------- control

    def clock(self) -> float:
        """Return the seconds since the start, or since the clock was restarted."""
        return perf_counter() - self._began

    def agreed_clock(self) -> float:
        """Return element 0's clock as it was sent at the last boundary."""
        return clock_of(self.came.into) if self.came.headers is None else self.came.headers[0].clock

    def small(
        self, superstep: int, digest: bytes, hint: int, packets: dict[int, bytes], block_bytes: int, asks: bool
    ) -> SmallPackets | None:
        """Exchange headers and packets that fit into slots, for an element with nothing else but what follows them."""
        slots = self.came = self.slots
        longest = fill(
            slots.out, slots.size, perf_counter() - self._began, superstep, digest, hint, packets, block_bytes, asks
        )
        slots.exchange()
        slots.headers = None
        return slots.found(superstep, digest, hint, longest)

    def headers(self) -> list[Header]:
        """Return the headers of the last exchange, by element."""
        return self.came.read_headers()

    def room(self) -> int:
        """Return the bytes of a packet that fit into its slot beside the header."""
        return self.slots.size - SIZE

    def control(self, header: Header, packets: dict[int, bytes]) -> list[Header]:
        """Exchange headers and, within them, the packets that fit their slots; keep the other packets for `packets`."""
        slots = self.came = self.slots
        out, room = slots.out, slots.size - SIZE
        packed = header.pack()
        for offset in slots.offsets:
            out[offset : offset + SIZE] = packed
        self._bodies = {}
        for k, packet in packets.items():
            offset, size = slots.offsets[k], len(packet)
            if size <= room:
                set_inline(out, offset, size)
                out[offset + SIZE : offset + SIZE + size] = packet
            else:
                set_body(out, offset, size)
                self._bodies[k] = packet
        slots.exchange()
        slots.headers = [
            header if k == self.index else unpack(slots.into, offset) for k, offset in enumerate(slots.offsets)
        ]
        return slots.headers

    def packets(self, flags: int) -> dict[int, bytes | memoryview]:
        """Return the packets received in the slots; then exchange the longer ones, and choose the next slot size."""
        headers, slots = self.headers(), self.came
        found: dict[int, bytes | memoryview] = {}
        longest = 0
        for k, header in enumerate(headers):
            if header.row_max > longest:
                longest = header.row_max
            if header.inline:
                start = slots.offsets[k] + SIZE
                found[k] = bytes(slots.into[start : start + header.inline])
        if flags & BODY:
            out = {k: [np.frombuffer(body, np.uint8)] for k, body in self._bodies.items()}
            into = {k: [np.empty(header.body, np.uint8)] for k, header in enumerate(headers) if header.body}
            if self._schedule == "auto":
                choice = choose_small(self._traffic(), self._machine)
            else:
                choice = Choice(f"packets between {self.elements} elements", self._schedule, True, ())
            self._move(out, into, choice, headers[0].superstep)
            found |= {k: body.data for k, (body,) in into.items()}
            self._bodies = {}
        if longest:
            self._fit(longest)
        return found

    def _fit(self, packet: int) -> None:
        """Use the smallest slot that would have held the largest packet of this superstep; if none would, the smallest.

        Not called if no element had a packet.
        """
        for size in self._sizes:
            if size - SIZE >= packet:
                break
        else:
            size = self._sizes[0]
        if size != self.slots.size:
            self._use(size)

    # ------------------------------------------------------------------ blocks

    def blocks(self, out: Blocks, into: Blocks, superstep: int) -> None:
        """Exchange blocks by the given schedule, or by the cheapest one."""
        if self._schedule != "auto":
            choice = Choice(f"blocks between {self.elements} elements", self._schedule, True, ())
        elif self.elements == 2:
            self.chosen, self.moved, other = _PAIR, _PAIR.chosen, 1 - self.index
            swap(self.comm, other, out.get(other, ()), into.get(other, ()))
            return
        else:
            sizes = [sum(block.nbytes for block in out.get(k, ())) for k in range(self.elements)]
            choice = choose_large(self.comm, self._traffic(), sizes, self._machine)
        self._move(out, into, choice, superstep)

    def _traffic(self) -> ExchangeSizes:
        headers = self.headers()
        return ExchangeSizes([header.row_total for header in headers], [header.row_count for header in headers])

    def _move(self, out: Blocks, into: Blocks, choice: Choice, superstep: int) -> None:
        self.chosen, self.moved = choice, choice.chosen
        exchange(self.comm, out, into, choice.chosen, (self._seed, superstep))

    def abort(self) -> None:
        """End all elements by MPI_Abort with status 1."""
        MPI.COMM_WORLD.Abort(1)

    def gather(self, value: Any) -> list[Any]:
        """Return every element's value, pickled by an allgather."""
        return [pickle.loads(data) for data in self.comm.allgather(pickle.dumps(value, 5))]
