"""The traffic of one superstep on one element: packets out, packets in, delivery to the processes here.

Every element takes the same steps in the same order: (1) one control packet for each other element
carries everything small; (2) the memory that gets address is read; (3) large blocks follow where a header
announces BLOCKS, straight into their owners; (4) replies follow where a header announces GET; (5) puts are
applied in the order of D1, and messages are handed out in the order of D2.

A superstep with nothing but small puts and messages, or puts into one range each, takes a shorter way
(`bsp.engine.shortcut`), where often no boundary is made at all.

Gets are read before any put is written, so they return the contents as they stood when every process
reached the boundary (D1).  Step (3) writes into coarrays before step (5), which is allowed only for blocks
whose memory no other put of this superstep touches (`delivery.alone`).  Values that are still in a coarray's
memory, those of gets and borrowed ones, are copied first where a put would write over them (`_read`,
`_keep_borrowed`).
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import TYPE_CHECKING

import numpy as np

from bsp.engine.delivery import Range, Ranges, address_range, asked_items, read, write, written_range
from bsp.transport import header as h
from bsp.transport.base import Blocks
from bsp.transport.packet import DIRECT_BYTES, Arrival, Packet, Pickle, decode, opened
from bsp.values.blocks import alone
from bsp.values.effects import Effect, Get, Put, PutEach, Row, Send
from bsp.values.memory import empty
from bsp.values.payload import items_in, received

if TYPE_CHECKING:
    from bsp.coarray import Coarray
    from bsp.engine.element import Element

Answer = tuple[Get, np.ndarray]


class Boundary:
    """The traffic of one superstep of one element; made by the element, used once.

    Call order: `send`, `receive`, `deliver`; or `small_packets`, and where somebody needs more, or sends blocks,
    `receive`, `deliver`.
    What the processes here issued for each other never leaves the element.
    """

    __slots__ = (
        "_arrivals", "_asked", "_element", "_lends", "_ordered", "_packets", "_small", "_transport", "here", "sent",
    )  # fmt: skip

    def __init__(self, element: Element, effects: Sequence[Effect]) -> None:
        """Split `effects`, in (source pid, issue order), by the element that they go to."""
        self._element = element
        self._transport = element.transport
        self.sent = effects
        self._small = True  # whether there is nothing here but small puts and messages
        self._lends = False  # whether something in `here` still refers to memory that this superstep may write to
        self.here: list[Effect] = []  # those for processes here
        self._packets: dict[int, Packet] = {}
        self._asked: dict[int, list[Get]] = {}
        owner, index = element.owner, element.index
        for effect in effects:
            if isinstance(effect, Send):
                if effect.pooled:
                    self._deal(effect)
                elif len(effect.dests) != 1:
                    self._scatter(effect)
                elif (k := owner[effect.dests[0]]) == index:
                    self._lends = self._lends or (effect.borrowed and not effect.shared)
                    self.here.append(effect)
                else:
                    self._packet(k).add(effect, (effect.dests[0],))
            elif isinstance(effect, Row):
                self._deal_row(effect)
            else:
                k = owner[effect.dest]
                if isinstance(effect, Get):
                    self._small = False
                    if k != index:
                        self._asked.setdefault(k, []).append(effect)
                if k != index:
                    self._packet(k).add(effect)
                    continue
                self.here.append(effect)
                if isinstance(effect, Put):
                    self._lends = self._lends or effect.borrowed
                    self._small = self._small and effect.values.nbytes < DIRECT_BYTES

    def _scatter(self, effect: Send) -> None:
        """Assign a message for several processes to each of their elements, once."""
        owner = self._element.owner
        for k in sorted({owner[dest] for dest in effect.dests}):
            dests = tuple(dest for dest in effect.dests if owner[dest] == k)
            if k == self._element.index:
                # receivers on other elements: the packet refers to the same array, so those here get a copy
                borrowed = effect.borrowed or len(effect.dests) > len(dests)
                self._lends = self._lends or (borrowed and not effect.shared)
                self.here.append(effect.to(dests, borrowed))
            else:
                self._packet(k).add(effect, dests)

    def _deal(self, effect: Send) -> None:
        """Assign a value for all processes of a range to each of their elements, once."""
        if effect.borrowed and effect.array is not None and effect.array.nbytes < DIRECT_BYTES:
            effect.array, effect.borrowed = effect.array.copy(), False
        for k in range(self._element.owner[effect.dests[0]], self._transport.elements):
            if k == self._element.index:
                self.here.append(effect)
                self._lends = self._lends or (effect.borrowed and not effect.shared)
            else:
                self._packet(k).add(effect)

    def _deal_row(self, row: Row) -> None:
        """Assign each element its part of a row."""
        for k in range(self._transport.elements):
            part = row.part(self._element.layout.pids(k))
            if k == self._element.index:
                self.here.append(part)
            else:
                self._packet(k).add(part)

    # --------------------------------------------------------------------------- out

    def _packet(self, k: int) -> Packet:
        """Return the packet that collects the effects for element `k`."""
        packet = self._packets.get(k)
        if packet is None:
            packet = self._packets[k] = Packet()
        return packet

    def send(self, header: h.Header, texts: bool = True) -> list[h.Header]:
        """Exchange control packets with all other elements; return the headers of all elements.

        header : this element's header; flags and sizes of its packets are added here.
        texts : whether to send the text that processes here printed, to element 0.
        """
        if texts:
            found = self._element.console.texts_for_packets()
            if found:
                self._packet(0).texts = found
        encoded: dict[int, bytes] = {}
        flags, total, longest = header.flags, 0, 0
        for k, packet in self._packets.items():
            data = encoded[k] = packet.encode()
            total += len(data)
            longest = max(longest, len(data))
            if packet.blocks:
                flags |= h.BLOCKS
                total += packet.block_bytes
        if encoded:
            if longest > self._transport.room():  # too long for a control packet: a second exchange brings the bodies
                flags |= h.BODY
            if self._asked:
                flags |= h.GET
            header = header._replace(flags=flags, row_count=len(encoded), row_total=total, row_max=longest)
        return self._transport.control(header, encoded)

    def small_packets(self) -> dict[int, bytes] | None:
        """Return the packets for the other elements if all that was issued here fits into their slots, else None."""
        if not self._small or self._lends:
            return None
        encoded = {}
        room = self._transport.room()
        for k, packet in self._packets.items():
            if packet.blocks:
                return None
            data = encoded[k] = packet.encode()
            if len(data) > room:
                return None
        return encoded

    # ---------------------------------------------------------------------------- in

    def receive(self, flags: int) -> list[Effect]:
        """Decode the packets of the other elements; return all effects for processes here, in D1's and D2's order.

        flags : those of the headers of all elements together, here and in `deliver`.
        """
        dtype_of, landing = self._element.dtype_of, self._element.landing
        self._arrivals = {
            k: decode(*opened(data), dtype_of, landing) for k, data in self._transport.packets(flags).items()
        }
        self._ordered = self.here
        if self._arrivals:
            self._arrivals[self._element.index] = Arrival(self.here, [], [])
            # elements hold blocks of consecutive pids: their order is the pids'
            self._ordered = [effect for k in sorted(self._arrivals) for effect in self._arrivals[k].effects]
        return self._ordered

    def texts(self) -> list[tuple[int, bytes]]:
        """Return the texts, as (pid, bytes), that arrived from processes of other elements."""
        return [text for arrival in self._arrivals.values() for text in arrival.texts]

    def deliver(self, flags: int) -> None:
        """Carry out steps (2) to (5)."""
        element = self._element
        lends = self._lends or any(packet.lends for packet in self._packets.values())
        writes: list[tuple[Put | PutEach, Coarray]] = []
        reads: list[tuple[Get, Coarray]] = []
        sends: list[Send] = []
        for effect in self._ordered:
            if isinstance(effect, Send):
                sends.append(effect)
            elif isinstance(effect, Row):
                element.take_row(effect)
            elif isinstance(effect, Get):
                reads.append((effect, element.coarray(effect)))
            else:
                writes.append((effect, element.coarray(effect)))
        if reads and element.recorder is not None:
            element.recorder.answered(reads)
        ranges: list[Range] = []
        if flags & (h.BLOCKS | h.GET) or reads or lends:
            ranges = [written_range(put, coarray) for put, coarray in writes]
        written = Ranges(ranges if lends or reads else ())  # nothing else is compared with them
        if lends and ranges:
            self._keep_borrowed(written)
        answers, replies = self._read(reads, written) if reads else ([], {})
        direct: set[int] = set()
        if flags & h.BLOCKS:
            free = {id(put): coarray for (put, coarray), lonely in zip(writes, alone(ranges), strict=True) if lonely}
            direct = self._exchange_blocks(free)
        if flags & h.GET:
            answers += self._exchange_replies(replies)
        for put, coarray in writes:
            if id(put) not in direct:
                write(put, coarray)
        for get, values in answers:
            assert get.deliver is not None
            get.deliver(received(values))
        for send in sends:
            element.hand_out(send)
        for effect in self.sent:
            if isinstance(effect, Put) and not effect.borrowed:
                element.staging.give_back(effect.values)

    def _keep_borrowed(self, written: Ranges) -> None:
        """Copy borrowed memory (buffered=False, collectives) where this superstep writes over it.

        A borrowed value must arrive as it was at the boundary, so it is copied before the first write.  Elsewhere no
        copy is made.
        """
        for effect in self.here:
            if isinstance(effect, Put) and effect.borrowed and written.meet(address_range(effect.values)):
                effect.values = effect.values.copy()
            elif isinstance(effect, Send) and effect.array is not None:
                lent = effect.borrowed and not effect.shared
                if lent and written.meet(address_range(effect.array)):
                    effect.array = effect.array.copy()
        for packet in self._packets.values():
            for k, block in enumerate(packet.blocks):
                if written.meet(address_range(block)):
                    packet.blocks[k] = block.copy()

    def _read(
        self, reads: list[tuple[Get, Coarray]], written: Ranges
    ) -> tuple[list[Answer], dict[int, list[np.ndarray]]]:
        """Read the memory that gets address: answers for processes here, replies by element for processes elsewhere.

        Answers are copies of the receiver's own (D9).  Replies are sent from the coarray's memory itself, and copied
        only where a put of this superstep may write over it.
        """
        answers: list[Answer] = []
        replies: dict[int, list[np.ndarray]] = {}
        abstract = self._element.abstract
        for get, coarray in reads:
            if abstract is not None:
                abstract.charge(get.source)
            values, lent = read(get, coarray)
            if lent and (get.deliver is not None or written.meet(address_range(values))):
                values = values.copy()
            if get.deliver is not None:
                answers.append((get, values))
            else:
                replies.setdefault(self._element.owner[get.source], []).append(values)
        return answers, replies

    def _exchange_blocks(self, free: dict[int, Coarray]) -> set[int]:
        """Move large blocks; return the ids of the puts whose values went straight into their owners' memory.

        free : puts whose memory no other put of this superstep touches, by id, and their coarrays.
        """
        direct: set[int] = set()
        pickles: list[Pickle] = []
        into: Blocks = {}
        for k, arrival in self._arrivals.items():
            for target in arrival.awaited:
                if isinstance(target, Put):
                    coarray, region = self._element.coarray(target), target.region
                    size = coarray.local.itemsize
                    # straight into the coarray: a contiguous range, nothing to combine with, no other put there, and
                    # no gaps between fields, which a put leaves alone
                    gaps = coarray.local.dtype.names is not None
                    if target.op is None and region.index is None and id(target) in free and not gaps:
                        block = coarray.raw[region.start * size : region.stop * size]
                        direct.add(id(target))
                    else:
                        target.values = empty(prod(region.shape), coarray.local.dtype)
                        block = _bytes(target.values)
                elif isinstance(target, Pickle):
                    pickles.append(target)
                    block = target.block
                else:
                    block = _bytes(target)
                into.setdefault(k, []).append(block)
        out = {k: [_bytes(block) for block in packet.blocks] for k, packet in self._packets.items() if packet.blocks}
        self._transport.blocks(out, into, self._element.superstep)
        for pickle in pickles:
            pickle.send.pickled = pickle.block.tobytes()
        return direct

    def _exchange_replies(self, replies: dict[int, list[np.ndarray]]) -> list[Answer]:
        """Send the replies for gets of other elements, and receive the answers to the gets of processes here.

        Answers under DIRECT_BYTES share one block.  Both sides compute all sizes from the gets themselves, so the
        blocks carry no description.
        """
        out: Blocks = {}
        for k, values in replies.items():
            joined = b"".join([part.tobytes() for part in values if part.nbytes < DIRECT_BYTES])
            out[k] = [np.frombuffer(joined, np.uint8)]
            out[k] += [_bytes(part) for part in values if part.nbytes >= DIRECT_BYTES]
        answers: list[Answer] = []
        into: Blocks = {}
        for k, gets in self._asked.items():
            wanted = [(get, self._element.dtype(get), asked_items(get)) for get in gets]
            small = sum(dtype.itemsize * count for _, dtype, count in wanted if dtype.itemsize * count < DIRECT_BYTES)
            joined_in = np.empty(small, np.uint8)
            into[k] = [joined_in]
            offset = 0
            for get, dtype, count in wanted:
                size = dtype.itemsize * count
                if size < DIRECT_BYTES:
                    answers.append((get, items_in(joined_in[offset : offset + size], dtype, count)))
                    offset += size
                else:
                    whole = empty(count, dtype)
                    into[k].append(_bytes(whole))
                    answers.append((get, whole))
        self._transport.blocks(out, into, self._element.superstep)
        # a view into the shared block becomes an array of the receiver's own (D9)
        return [(get, values.copy() if values.nbytes < DIRECT_BYTES else values) for get, values in answers]


def _bytes(array: np.ndarray) -> np.ndarray:
    """Return the memory of a contiguous array as bytes, for MPI to send from or receive into.

    Of any other array, reshape would return a copy, and what MPI receives into a copy is lost.
    """
    assert array.flags.c_contiguous
    return array.reshape(-1).view(np.uint8)
