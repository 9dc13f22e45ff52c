"""The short way through a boundary: one exchange of headers and packets, whose contents are applied as they are read.

It serves elements that have nothing but small puts and messages (`Boundary.small_packets`), or records
(`bsp.values.records`): small values for all, and puts into one range each, of any size.  Large ones follow the packets
as blocks, straight into their coarrays where nothing else meets the place.

D1 holds: records are applied in the order of (source pid, issue); `bsp.values.blocks` says where blocks are received.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from bsp.engine.delivery import write
from bsp.transport.compiled import apply, arranged
from bsp.transport.packet import decode, opened, plain_put, pooled_pickle
from bsp.values.blocks import Blocks
from bsp.values.effects import Effect, Put, PutEach, Row, Send
from bsp.values.payload import Packed, items_in
from bsp.values.records import KINDS

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


def deliver_blocks(element: Element, packets: Packets, out: Blocks, travels: bool) -> None:
    """Exchange the blocks that follow packets of records, and apply everything.

    packets : by element, this one too if it has any; all hold records.
    out : blocks of processes here, by the element of their receivers, this one too.
    travels : whether some element sends blocks to another: then all elements exchange blocks, else none does.
    """
    tasks, first = element.tasks, element.tasks[0].pid
    into, arrived = arranged(packets, tasks, first, element.index, out)
    if travels:
        element.transport.blocks(out, into, element.superstep)
    given: dict[int, Packed] = {}
    for k in sorted(packets):
        apply(packets[k], tasks, first, given, arrived[k])
    if given:
        element.take(given)
