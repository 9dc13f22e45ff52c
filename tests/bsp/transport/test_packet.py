"""Packets bring effects back as they were."""

from __future__ import annotations

import numpy as np
import pytest

from bsp.source import SourceLine
from bsp.transport.packet import DIRECT_BYTES, Packet, decode, opened
from bsp.values.effects import Put, PutEach, Send
from bsp.values.region import Region


def test_packets_bring_effects_back_as_they_were() -> None:
    large = np.arange(DIRECT_BYTES // 8 + 1.0)
    packet = Packet()
    packet.add(Put(1, 2, 0, 4, Region((3,), 5, 8), np.arange(3.0), "add"))
    packet.add(Put(1, 2, 0, 4, Region((2,), index=(np.array([0, 2]),)), np.arange(2.0), None, SourceLine(("a.py", 3))))
    packet.add(Put(1, 2, 0, 4, Region(large.shape, 0, large.size), large, None))
    packet.add(PutEach(1, 2, 0, 4, np.array([1, 1], np.int32), np.array([3.0, 4.0]), None))
    packet.add(Send(1, (2, 3), 1, b"tag", np.arange(6).reshape(2, 3), None), (3,))
    packet.add(Send(1, (2,), 1, None, None, b"pickle"), (2,))
    arrival = decode(
        *opened(packet.encode()), lambda pid, context, coarray: np.dtype(float), lambda source, dests, context: None
    )
    assert len(packet.blocks) == len(arrival.awaited) == 1
    first, second, third, fourth, fifth, sixth = arrival.effects
    assert isinstance(first, Put) and first.op == "add" and first.values.tolist() == [0, 1, 2]
    assert isinstance(second, Put) and second.line == ("a.py", 3)
    assert second.region.index is not None and second.region.index[0].tolist() == [0, 2]
    assert arrival.awaited[0] is third
    assert isinstance(fourth, PutEach) and fourth.positions.tolist() == [1, 1] and fourth.values.tolist() == [3, 4]
    assert isinstance(fifth, Send) and fifth.dests == (3,) and fifth.array is not None
    assert fifth.array.tolist() == [[0, 1, 2], [3, 4, 5]] and fifth.array.flags.writeable
    assert isinstance(sixth, Send) and sixth.pickled == b"pickle" and sixth.tag is None


@pytest.mark.parametrize("large", [False, True])
@pytest.mark.parametrize("name", ["l", "q", "L", "Q", "g", ">i8", "M8[us]", "S3"])
def test_an_array_arrives_with_the_dtype_that_it_has_on_its_senders_element(name: str, large: bool) -> None:
    """`l` and `q` are equal, and differ in pickles and in results of functions that look at `dtype.char`."""
    packet = Packet()
    packet.add(Send(0, (1,), 0, None, np.zeros(DIRECT_BYTES if large else 3, name), None), (1,))
    arrival = decode(
        *opened(packet.encode()), lambda pid, context, coarray: np.dtype(float), lambda source, dests, context: None
    )
    (sent,) = arrival.effects
    assert isinstance(sent, Send) and sent.array is not None
    assert (sent.array.dtype, sent.array.dtype.char) == (np.dtype(name), np.dtype(name).char)
