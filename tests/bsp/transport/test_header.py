"""Headers of control packets come out of their slot as they went in."""

from __future__ import annotations

from bsp.transport.header import Header, pack_quiet, set_body, set_inline, unpack


def test_headers_survive_their_slot() -> None:
    header = Header(1.5, 7, 3, 20, b"12345678", -1, 2, 99, 0, 1 << 40, 64)
    slots = bytearray(200)
    slots[64:128] = header.pack()
    assert unpack(slots, 64) == header
    set_inline(slots, 64, 21)
    set_body(slots, 64, 1 << 33)
    assert unpack(slots, 64) == header._replace(inline=21, body=1 << 33)
    slots[:64] = pack_quiet(2.0, 5, b"abcdefgh")
    assert unpack(slots, 0) == Header(2.0, 5, 0, 0, b"abcdefgh", -1, 0, 0, 0, 0, 0)
