"""The short way through a boundary: one exchange of headers and packets, whose contents are applied as they are read.

It serves elements that have nothing but small puts and messages (`Boundary.small_packets`), or records
(`bsp.values.records`): small values for all, puts into one range each, of any size, and small gets.  Large puts follow
the packets as blocks, straight into their coarrays where nothing else meets the place, then replies, as blocks too.

D1 holds: what gets ask for is read before anything is written, and records are applied in the order of (source pid,
issue); `bsp.values.blocks` says where blocks are received.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

from bsp.engine.delivery import write
from bsp.transport.compiled import apply, arranged, read_asked
from bsp.transport.header import BLOCKS, GET
from bsp.transport.packet import decode, opened, plain_put, pooled_pickle
from bsp.values.blocks import Blocks
from bsp.values.effects import Effect, Put, PutEach, Row, Send
from bsp.values.payload import Packed, items_in, received
from bsp.values.records import ASK, KINDS, Record

if TYPE_CHECKING:
    from bsp.engine.element import Element

Packets = dict[int, Any]  # by element: bytes


def deliver_small(element: Element, packets: Packets, here: Sequence[Effect]) -> list[tuple[int, bytes]]:
    """Apply everything that elements have sent, in D1's and D2's order; return the texts that arrived.

    packets : by element, this one too, none of which has more to deliver.
    here : effects of processes here for each other, which are in no packet.
    """
    texts: list[tuple[int, bytes]] = []
    given: dict[int, Packed] = {}
    for k in sorted(packets):
        data = packets[k]
        if here and k == element.index:
            _apply(element, here)
        if not data:
            continue
        if data[0] in KINDS:
            apply(data, element.tasks, element.tasks[0].pid, given, [])
            continue
        records, printed = opened(data)
        texts += printed
        for record in records:
            if (put := plain_put(record)) is not None:
                dest, context, coarray, start, stop, values = put
                target = element.instance(dest, context, coarray)
                target._flat[start:stop] = items_in(values, target._dtype, stop - start)
            elif (pooled := pooled_pickle(record)) is not None:
                given.update([pooled])
            else:
                _apply(element, decode([record], [], element.dtype_of, element.landing).effects)
    if given:
        element.take(given)
    return texts


def _apply(element: Element, effects: Sequence[Effect]) -> None:
    """Write puts, and hand out messages, in their order."""
    for effect in effects:
        if isinstance(effect, Send):
            element.hand_out(effect)
        elif isinstance(effect, Put | PutEach):
            write(effect, element.coarray(effect))
        else:
            assert isinstance(effect, Row)
            element.take_row(effect)


def deliver_records(
    element: Element, packets: Packets, out: Blocks, flags: int, issued: Sequence[Sequence[Record]]
) -> None:
    """Exchange what follows packets of records, and apply everything.

    packets : by element, this one too if it has any; all hold records.
    out : blocks of processes here, by the element of their receivers, this one too.
    flags : of all elements together: with BLOCKS, and with GET, all elements exchange blocks.
    issued : the records of processes here.
    """
    tasks, first = element.tasks, element.tasks[0].pid
    asked = {k: read_asked(packets[k], tasks, first) for k in sorted(packets)} if flags & GET else {}
    if element.recorder is not None:
        element.recorder.replied(chain(*asked.values()))
    arrived: Blocks = {}
    if out or flags & BLOCKS:
        into, arrived = arranged(packets, tasks, first, element.index, out)
        if flags & BLOCKS:
            element.transport.blocks(out, into, element.superstep)
    given: dict[int, Packed] = {}
    for k in sorted(packets):
        apply(packets[k], tasks, first, given, arrived.get(k, []))
    if given:
        element.take(given)
    if flags & GET:
        contents = {k: b"".join([data for _, _, data in some]) for k, some in asked.items()}
        _reply(element, contents, [record for records in issued for record in records if record[0] == ASK])


def _reply(element: Element, contents: dict[int, bytes], asked: Sequence[Record]) -> None:
    """Exchange replies to gets, one block for each element that has asked, and give them to the processes here.

    contents : what the gets of each element ask for, one after the other.  asked : the gets of processes here.
    """
    index, owner = element.index, element.owner
    sizes: dict[int, int] = {}
    for _, dest, _, _, _, (coarray, region, _) in asked:
        sizes[owner[dest]] = sizes.get(owner[dest], 0) + prod(region.shape) * coarray.dtype.itemsize
    out = {k: [np.frombuffer(data, np.uint8)] for k, data in contents.items() if data and k != index}
    come = {k: np.empty(size, np.uint8) for k, size in sizes.items() if k != index}
    element.transport.blocks(out, {k: [block] for k, block in come.items()}, element.superstep)
    come[index] = np.frombuffer(contents.get(index, b""), np.uint8)
    taken = dict.fromkeys(come, 0)
    for _, dest, _, _, _, (coarray, region, deliver) in asked:
        k, count = owner[dest], prod(region.shape)
        start, taken[k] = taken[k], taken[k] + count * coarray.dtype.itemsize
        deliver(received(items_in(come[k][start : taken[k]], coarray.dtype, count).copy()))
