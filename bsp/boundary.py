"""One superstep's traffic: packets out, packets in, and what the processes here find afterwards.

The steps, in the order every element takes them: (1) one control packet for each other element
carries everything small; (2) what was asked for is read; (3) large blocks follow where a header says
so, straight into their owners; (4) replies follow where a header says GET; (5) puts are applied in
the order of D1, messages handed out in the order of D2.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import TYPE_CHECKING

import numpy as np

from bsp import header as h
from bsp.delivery import Range, Ranges, address_range, alone, read, reply_bytes, write, written_range
from bsp.effects import Effect, Get, Put, PutEach, Send
from bsp.packet import DIRECT_BYTES, Arrival, Packet, decode
from bsp.transport import Blocks

if TYPE_CHECKING:
    from bsp.coarray import Coarray
    from bsp.element import Element

Answer = tuple[Get, np.ndarray]


class Boundary:
    """The traffic of one superstep of one element; made by the element, used once."""

    def __init__(self, element: Element, effects: Sequence[Effect]) -> None:
        """`effects` in (source pid, issue order) are split by the element that they go to."""
        self._element = element
        self._transport = element.transport
        self.sent = effects
        self._lent_here = False
        self._here: list[Effect] = []
        self._packets = {k: Packet() for k in range(self._transport.elements) if k != element.index}
        self._asked: dict[int, list[Get]] = {}
        owner, index = element.owner, element.index
        for effect in effects:
            if isinstance(effect, Send):
                for k in sorted({owner[dest] for dest in effect.dests}):
                    dests = tuple(dest for dest in effect.dests if owner[dest] == k)
                    if k == index:
                        borrowed = effect.borrowed or len(effect.dests) > len(dests)
                        self._lent_here = self._lent_here or borrowed
                        self._here.append(
                            Send(
                                effect.source, dests, effect.context, effect.tag, effect.array, effect.pickled, borrowed
                            )
                        )
                    else:
                        self._packets[k].add(effect, dests)
            elif owner[effect.dest] == index:
                self._here.append(effect)
                self._lent_here = self._lent_here or (isinstance(effect, Put) and effect.borrowed)
            else:
                self._packets[owner[effect.dest]].add(effect)
                if isinstance(effect, Get):
                    self._asked.setdefault(owner[effect.dest], []).append(effect)

    # --------------------------------------------------------------------------- out

    def send(self, common: h.Header, texts: bool = True) -> list[h.Header]:
        """The control exchange; `common` is what this element says to all.  Returns all headers."""
        packets = self._packets
        if texts:
            for pid, text in self._element.texts_for_packets():
                packets[0].texts.append((pid, text))
        encoded = [packets[k].encode() if k in packets else b"" for k in range(self._transport.elements)]
        flags, count, total, longest = common.flags, 0, 0, 0
        for k, packet in packets.items():
            size = len(encoded[k])
            if size:
                longest = max(longest, size)
                count += 1
                total += size
                if packet.blocks:
                    flags |= h.BLOCKS
                    total += packet.block_bytes
        if longest > self._transport.room():
            flags |= h.BODY
        if self._asked:
            flags |= h.GET
        if total:
            common = common._replace(flags=flags, row_count=count, row_total=total, row_max=longest)
        return self._transport.control(common, encoded)

    # ---------------------------------------------------------------------------- in

    def receive(self) -> list[Effect]:
        """The packets of the others, decoded; all effects for processes here, in D1's and D2's order."""
        dtype_of = self._element.dtype_of
        self._arrivals: dict[int, Arrival] = {
            k: decode(data, dtype_of) for k, data in enumerate(self._transport.packets()) if len(data)
        }
        ordered: list[Effect] = []  # elements hold blocks of consecutive pids: their order is the pids'
        for k in range(self._transport.elements):
            if k == self._element.index:
                ordered += self._here
            elif k in self._arrivals:
                ordered += self._arrivals[k].effects
        self._ordered = ordered
        return ordered

    def texts(self) -> list[tuple[int, bytes]]:
        """What processes of other elements printed."""
        return [text for arrival in self._arrivals.values() for text in arrival.texts]

    def deliver(self, headers: Sequence[h.Header]) -> None:
        """Steps (2) to (5)."""
        element = self._element
        flags = 0
        for header in headers:
            flags |= header.flags
        writes: list[tuple[Put | PutEach, Coarray]] = []
        reads: list[tuple[Get, Coarray]] = []
        sends: list[Send] = []
        for effect in self._ordered:
            if isinstance(effect, Send):
                sends.append(effect)
            elif isinstance(effect, Get):
                reads.append((effect, element.coarray(effect)))
            else:
                writes.append((effect, element.coarray(effect)))
        ranges: list[Range] = []
        if flags & (h.BLOCKS | h.GET) or reads or self._lends:
            ranges = [written_range(put, coarray) for put, coarray in writes]
        written = Ranges(ranges)
        if self._lends and ranges:
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
            get.deliver(values)
        for send in sends:
            element.hand_out(send)
        for effect in self.sent:
            if isinstance(effect, Put) and not effect.borrowed:
                element.staging.give_back(effect.values)

    @property
    def _lends(self) -> bool:
        """Whether anything that is sent from here may be memory that others write to."""
        return self._lent_here or any(packet.lends for packet in self._packets.values())

    def _keep_borrowed(self, written: Ranges) -> None:
        """Copy what was only lent (buffered=False, collectives) wherever this superstep writes over it."""
        for effect in self._here:
            if isinstance(effect, Put) and effect.borrowed and written.meet(address_range(effect.values)):
                effect.values = effect.values.copy()
            elif isinstance(effect, Send) and effect.array is not None:  # noqa: SIM102
                if effect.borrowed and written.meet(address_range(effect.array)):
                    effect.array = effect.array.copy()
        for packet in self._packets.values():
            for k, block in enumerate(packet.blocks):
                if written.meet(address_range(block)):
                    packet.blocks[k] = block.copy()

    def _read(
        self, reads: list[tuple[Get, Coarray]], written: Ranges
    ) -> tuple[list[Answer], dict[int, list[np.ndarray]]]:
        """Values for processes here, as their own copies, and replies for others, copied only if at risk."""
        answers: list[Answer] = []
        replies: dict[int, list[np.ndarray]] = {}
        for get, coarray in reads:
            values = read(get, coarray)
            if get.deliver is not None:
                answers.append((get, values.copy()))
            else:
                at_risk = written.meet(address_range(values))
                replies.setdefault(self._element.owner[get.source], []).append(values.copy() if at_risk else values)
        return answers, replies

    def _exchange_blocks(self, free: dict[int, Coarray]) -> set[int]:
        """Move large blocks; returns the ids of the puts whose values went straight to their owners.

        `free` are the puts whose memory no other put of this superstep touches, and their coarrays.
        """
        direct: set[int] = set()
        into: Blocks = {}
        for k, arrival in self._arrivals.items():
            for target in arrival.awaited:
                if isinstance(target, Put):
                    coarray, region = self._element.coarray(target), target.region
                    size = coarray.local.itemsize
                    if target.op is None and region.index is None and id(target) in free:
                        block = coarray.raw[region.start * size : region.stop * size]
                        direct.add(id(target))
                    else:
                        target.values = np.empty(prod(region.shape), coarray.local.dtype)
                        block = _bytes(target.values)
                else:
                    block = _bytes(target)
                into.setdefault(k, []).append(block)
        out = {k: [_bytes(block) for block in packet.blocks] for k, packet in self._packets.items() if packet.blocks}
        self._transport.blocks(out, into, self._element.superstep)
        return direct

    def _exchange_replies(self, replies: dict[int, list[np.ndarray]]) -> list[Answer]:
        """Send the values read here to those who asked, and receive what was asked of others.

        Answers under DIRECT_BYTES share one block; both sides know all sizes, so nothing is described.
        """
        out: Blocks = {}
        for k, values in replies.items():
            joined = b"".join([part.tobytes() for part in values if part.nbytes < DIRECT_BYTES])
            out[k] = [np.frombuffer(joined, np.uint8)]
            out[k] += [_bytes(part) for part in values if part.nbytes >= DIRECT_BYTES]
        answers: list[Answer] = []
        into: Blocks = {}
        for k, gets in self._asked.items():
            dtypes = [self._element.dtype(get) for get in gets]
            sizes = [reply_bytes(get, dtype.itemsize) for get, dtype in zip(gets, dtypes, strict=True)]
            joined_in = np.empty(sum(size for size in sizes if size < DIRECT_BYTES), np.uint8)
            into[k] = [joined_in]
            offset = 0
            for get, dtype, size in zip(gets, dtypes, sizes, strict=True):
                if size < DIRECT_BYTES:
                    answers.append((get, joined_in[offset : offset + size].view(dtype)))
                    offset += size
                else:
                    whole = np.empty(size // dtype.itemsize, dtype)
                    into[k].append(_bytes(whole))
                    answers.append((get, whole))
        self._transport.blocks(out, into, self._element.superstep)
        return [(get, values.copy() if values.base is not None else values) for get, values in answers]


def _bytes(array: np.ndarray) -> np.ndarray:
    """A contiguous array as its bytes."""
    return array.reshape(-1).view(np.uint8)
