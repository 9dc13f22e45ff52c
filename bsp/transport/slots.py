"""Slots: a control exchange gives each element as many bytes, a header and the packet behind it.

The functions here serve elements that have nothing but packets that fit, and blocks that follow them.  They are the
reference; `bsp.transport.compiled` has the same in C.
"""

from __future__ import annotations

from bsp.transport.header import SIZE, pack_small, set_inline, small_inline


def fill(
    slots: bytearray,
    slot: int,
    clock: float,
    superstep: int,
    digest: bytes,
    hint: int,
    packets: dict[int, bytes],
    block_bytes: int,
    asks: bool,
) -> int:
    """Write a header into every slot, and behind it the element's packet; return the length of the longest packet.

    slot : bytes of each slot, enough for every packet.  packets : by element; others get none.
    block_bytes : what follows the packets as blocks, for all elements together.  asks : whether a process here reads
        memory, so that replies follow.
    """
    sizes = list(map(len, packets.values()))
    longest = max(sizes, default=0)
    if longest > slot - SIZE or any(slot * k >= len(slots) for k in packets):
        raise ValueError(f"a packet does not fit into a slot of {slot} bytes")
    header = pack_small(clock, superstep, digest, hint, (len(sizes), sum(sizes), longest), block_bytes, asks)
    for offset in range(0, len(slots), slot):
        slots[offset : offset + SIZE] = header
    for k, packet in packets.items():
        set_inline(slots, slot * k, len(packet))
        start = slot * k + SIZE
        slots[start : start + len(packet)] = packet
    return longest


def read(
    slots: bytearray, slot: int, index: int, superstep: int, digest: bytes
) -> tuple[dict[int, bytes], int, int, int] | None:
    """Return what other elements than `index` have sent here, and what they say of all they send.

    That is: the packets by element, the length of the longest to any element, the largest hint, and their flags
    together, of FOLLOWS.  Returns None if another element has more, a fault, or is at another boundary.
    """
    found: dict[int, bytes] = {}
    longest = hint = flags = 0
    for k, offset in enumerate(range(0, len(slots), slot)):
        if k == index:
            continue
        sent = small_inline(slots, offset, superstep, digest)
        if sent is None:
            return None
        inline, most, theirs, follow = sent
        flags |= follow
        longest, hint = max(longest, most), max(hint, theirs)
        if inline:
            found[k] = bytes(slots[offset + SIZE : offset + SIZE + inline])
    return found, longest, hint, flags
