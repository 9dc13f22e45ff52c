"""The transport between MPI ranks.  Together with `exchange` the only module that imports mpi4py.

A boundary is one `Alltoall` of slots of fixed size: a header, and the packet if it fits.  The size of the slots is the
smallest that would have held the packets of the last superstep, which all elements derive from its headers.  So a
program that repeats small supersteps needs one MPI call for each.
"""

from __future__ import annotations

import pickle
from time import perf_counter
from typing import Any

import numpy as np
from mpi4py import MPI

from bsp.cost.choice import Choice
from bsp.cost.model import DEFAULT, Machine
from bsp.errors import LocalMistake
from bsp.source import here
from bsp.transport.base import SmallPackets
from bsp.transport.compiled import fill, read
from bsp.transport.exchange import Blocks, ExchangeSizes, checked, choose_large, choose_small, exchange
from bsp.transport.header import (
    BODY,
    SIZE,
    Header,
    clock_of,
    set_body,
    set_inline,
    unpack,
)

_SLOTS = (256, 1024, 4096)  # bytes: an Alltoall of 4 KiB slots costs little more than one of 64 B

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
        self._alltoall = self.comm.Alltoall
        self._slots: dict[int, tuple[bytearray, bytearray, Any, Any, list[int]]] = {}
        self._use(_SLOTS[0])
        self._came = self._into, self._offsets  # the slots of the last exchange
        self._headers: list[Header] | None = None
        self._bodies: dict[int, bytes] = {}
        self._began = 0.0
        self.restart_clock()

    def restart_clock(self) -> None:
        """Set the clock to 0 after a barrier."""
        self.comm.Barrier()
        self._began = perf_counter()

    def close(self) -> None:
        """Free the communicator."""
        self.comm.Free()

    def _use(self, slot: int) -> None:
        if slot not in self._slots:
            out, into = bytearray(slot * self.elements), bytearray(slot * self.elements)
            offsets = [slot * k for k in range(self.elements)]
            self._slots[slot] = out, into, [out, slot, MPI.BYTE], [into, slot, MPI.BYTE], offsets
        self._slot = slot
        self._out, self._into, self._out_spec, self._into_spec, self._offsets = self._slots[slot]

    # ----------------------------------------------------------------- control

    def clock(self) -> float:
        """Return the seconds since the start, or since the clock was restarted."""
        return perf_counter() - self._began

    def agreed_clock(self) -> float:
        """Return element 0's clock as it was sent at the last boundary."""
        return clock_of(self._came[0]) if self._headers is None else self._headers[0].clock

    def small(
        self, superstep: int, digest: bytes, hint: int, packets: dict[int, bytes], block_bytes: int
    ) -> SmallPackets | None:
        """Exchange headers and packets that fit into slots, for an element with nothing else but blocks."""
        slot = self._slot
        mine = fill(self._out, slot, perf_counter() - self._began, superstep, digest, hint, packets, block_bytes)
        self._alltoall(self._out_spec, self._into_spec)
        self._headers = None
        self._came = self._into, self._offsets
        self._bodies = {}
        came = read(self._into, slot, self.index, superstep, digest)
        if came is None:
            return None
        found, theirs, hints, blocks = came
        if mine or theirs:
            self._fit(max(mine, theirs))
        return found, max(hint, hints), blocks

    def headers(self) -> list[Header]:
        """Return the headers of the last exchange, by element."""
        if self._headers is None:
            into, offsets = self._came
            self._headers = [unpack(into, offset) for offset in offsets]
        return self._headers

    def room(self) -> int:
        """Return the bytes of a packet that fit into its slot beside the header."""
        return self._slot - SIZE

    def control(self, header: Header, packets: dict[int, bytes]) -> list[Header]:
        """Exchange headers and, within them, the packets that fit their slots; keep the other packets for `packets`."""
        out, room = self._out, self._slot - SIZE
        packed = header.pack()
        for offset in self._offsets:
            out[offset : offset + SIZE] = packed
        self._bodies = {}
        for k, packet in packets.items():
            offset, size = self._offsets[k], len(packet)
            if size <= room:
                set_inline(out, offset, size)
                out[offset + SIZE : offset + SIZE + size] = packet
            else:
                set_body(out, offset, size)
                self._bodies[k] = packet
        self._alltoall(self._out_spec, self._into_spec)
        self._came = self._into, self._offsets
        into = self._into
        self._headers = [header if k == self.index else unpack(into, offset) for k, offset in enumerate(self._offsets)]
        return self._headers

    def packets(self, flags: int) -> dict[int, bytes | memoryview]:
        """Return the packets received in the slots; then exchange the longer ones, and choose the next slot size."""
        headers = self.headers()
        slots, offsets = self._came
        found: dict[int, bytes | memoryview] = {}
        longest = 0
        for k, header in enumerate(headers):
            if header.row_max > longest:
                longest = header.row_max
            if header.inline:
                start = offsets[k] + SIZE
                found[k] = bytes(slots[start : start + header.inline])
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
        """Use the smallest slot that would have held the largest packet of this superstep.

        Not called if no element had a packet.
        """
        for slot in _SLOTS:
            if slot - SIZE >= packet:
                break
        else:
            slot = _SLOTS[0]
        if slot != self._slot:
            self._use(slot)

    # ------------------------------------------------------------------ blocks

    def blocks(self, out: Blocks, into: Blocks, superstep: int) -> None:
        """Exchange blocks by the given schedule, or by the cheapest one."""
        if self._schedule != "auto":
            choice = Choice(f"blocks between {self.elements} elements", self._schedule, True, ())
        elif self.elements == 2:
            choice = _PAIR
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
