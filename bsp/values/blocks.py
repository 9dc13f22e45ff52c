"""Where the blocks that follow packets of records are received, so that puts apply in their order (D1).

A block from another element is received in its place in a coarray if no other put of the superstep meets that place;
else in memory of its own, from which it is written in its turn.  Blocks that are sent from memory that some put writes
over are copied first.
The functions here are the reference for `c/blocks.c` (`bsp.transport.compiled`).
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping, Sequence
from itertools import accumulate
from typing import Any

from bsp.values.memory import at_page
from bsp.values.parts import read_part
from bsp.values.records import BLOCKS, COMBINE, PART, PUTS, each, memory_of

Range = tuple[int, int]  # of addresses, the second exclusive
Blocks = dict[int, list[Any]]  # by element, in the order of their records: arrays of bytes


def arranged(
    packets: Mapping[int, Any], tasks: Sequence[Any], first: int, index: int, out: Blocks
) -> tuple[Blocks, Blocks]:
    """Return where blocks are received, and what is to be written afterwards, each by the element of the sender.

    packets : of records, by element, that of the processes here (element `index`) too if there is one.
    tasks, first : as for `records.apply`.
    out : blocks of the processes here, by the element of their receivers.  Those for processes here are taken out, and
        blocks that some put of this superstep writes over are replaced by copies.

    The second is for `records.apply`: None for a block that is received in its place.
    """
    found = {k: places(packets[k], tasks, first) for k in sorted(packets)}
    ranges = [(start, stop) for some in found.values() for start, stop, _ in some]
    lonely = iter(alone(ranges))
    into: Blocks = {}
    arrived: Blocks = {}
    for k, some in found.items():
        arrived[k] = []
        for start, stop, place in some:
            free = next(lonely)
            if place is not None and k != index:
                block = place if free else at_page(stop - start)
                into.setdefault(k, []).append(block)
                arrived[k].append(None if free else block)
    for blocks in out.values():
        for number in meeting(blocks, ranges):
            blocks[number] = blocks[number].copy()
    arrived[index] = out.pop(index, [])
    return into, arrived


def alone(ranges: Sequence[Range]) -> list[bool]:
    """Return, for each range, whether it meets none of the others.

    One pass over the ranges in order of their starts: a range that meets an earlier one meets, if any, the one that
    reaches furthest.  An empty range inside another one counts as meeting it, which only costs a staged copy.
    """
    if len(ranges) == 1:
        return [True]
    order = sorted(range(len(ranges)), key=ranges.__getitem__)
    free = [True] * len(ranges)
    widest = -1  # the earlier range that reaches furthest
    for k in order:
        if widest >= 0 and ranges[k][0] < ranges[widest][1]:
            free[k] = free[widest] = False
        if widest < 0 or ranges[k][1] > ranges[widest][1]:
            widest = k
    return free


def places(packet: bytes, tasks: Sequence[Any], first: int) -> list[tuple[int, int, Any]]:
    """Return where the puts of a packet write, in their order: (address, address after it, the place of a block).

    tasks, first : as for `apply`.  Small puts have None for a place.
    """
    found = []
    for kind, context, coarray, _, dest, start, size, data in each(packet):
        if kind in PUTS:
            part = read_part(data if kind == PART else data[1:]) if kind in (PART, COMBINE) else None
            low, high = (start, start + size) if part is None else part.extent(start)
            memory = memory_of(tasks, first, context, coarray, dest, low, high)
            address = memory.__array_interface__["data"][0]
            found.append((address + low, address + high, memory[low:high] if kind in BLOCKS else None))
    return found


def meeting(blocks: Sequence[Any], ranges: Sequence[Range]) -> list[int]:
    """Return the numbers of the blocks that share memory with a range of addresses (the second exclusive)."""
    found = sorted((low, high) for low, high in ranges if low < high)
    starts = [low for low, _ in found]
    tops = list(accumulate((high for _, high in found), max))  # the furthest end of the first ranges
    met = []
    for number, block in enumerate(blocks):
        start = block.__array_interface__["data"][0]
        before = bisect_left(starts, start + len(block))  # ranges that begin before the block ends
        if len(block) and before and tops[before - 1] > start:
            met.append(number)
    return met
