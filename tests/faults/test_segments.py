"""Packets in shared memory: what is read is what was written, and what is gone is not mistaken for anything else."""

from __future__ import annotations

import os
import pickle
import socket
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bsp.faults.carrier.job_key import fresh
from bsp.faults.carrier.mesh import Mesh
from bsp.faults.carrier.segments import LEAST, Segment, SegmentGone, bytes_of, nearby, usable
from bsp.faults.carrier.wire import Closed, Wire
from bsp.faults.protocol.messages import BundlePacket


@settings(deadline=None)
@given(st.lists(st.integers(0, 5000), max_size=6), st.integers(0, 2**32 - 1))
def test_blocks_come_back_as_they_were(sizes: list[int], seed: int) -> None:
    rng = np.random.default_rng(seed)
    blocks = [rng.integers(0, 256, size, np.uint8) for size in sizes]
    segment = Segment.of(blocks)
    found = [np.empty_like(block) for block in blocks]
    segment.read_into(found)
    assert all(map(np.array_equal, found, blocks)) and len(segment) == sum(sizes)


def test_another_process_opens_it_by_reference_and_still_has_it_when_it_is_dropped() -> None:
    words = np.arange(1000.0)
    segment = Segment.of([words])
    with nearby():
        told = pickle.dumps(segment, 5)
    assert len(told) < 500
    here, there = os.pipe()
    if (child := os.fork()) == 0:
        try:
            found, back = pickle.loads(told), np.empty(1000)
            del segment
            os.write(there, b"o")
            found.read_into([back])
            os._exit(0 if np.array_equal(back, words) else 1)
        finally:
            os._exit(2)
    assert os.read(here, 1) == b"o"
    del segment
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def test_pieces_of_one_segment_are_opened_as_one_and_travel_as_bytes_to_other_machines() -> None:
    segment = Segment.empty()
    pieces = [segment.append([b"head", np.full(100, fill, np.uint8)]) for fill in (1, 2, 3)]
    with nearby():
        told = pickle.dumps(pieces, 5)
    before = len(os.listdir("/proc/self/fd"))
    found = pickle.loads(told)
    assert len(os.listdir("/proc/self/fd")) == before + 1
    expected = [b"head" + bytes([fill]) * 100 for fill in (1, 2, 3)]
    assert [bytes(bytes_of(piece)) for piece in found] == expected == [bytes(piece.view()) for piece in pieces]
    buffers: list[pickle.PickleBuffer] = []
    abroad = pickle.dumps(pieces[1:], 5, buffer_callback=buffers.append)
    assert [bytes(data) for data in pickle.loads(abroad, buffers=buffers)] == expected[1:]


def test_what_one_thread_pickles_for_a_file_holds_bytes_while_another_sends() -> None:
    segment = Segment.of([np.arange(5.0)])
    with nearby(), ThreadPoolExecutor(1) as other:
        told = other.submit(pickle.dumps, segment, 5).result()
    del segment
    assert np.array_equal(np.frombuffer(pickle.loads(told)), np.arange(5.0))


def test_one_that_was_dropped_is_gone_even_if_its_descriptor_is_somebody_elses() -> None:
    segment = Segment.of([np.ones(10)])
    with nearby():
        told = pickle.dumps(segment, 5)
    del segment
    with pytest.raises(SegmentGone):
        pickle.loads(told)
    other = Segment.of([np.zeros(10)])  # takes the same descriptor
    with pytest.raises(SegmentGone, match="another file"):
        pickle.loads(told)
    assert len(other) == 80


def test_its_bytes_travel_to_other_machines_and_into_checkpoints() -> None:
    words = np.arange(LEAST // 8, dtype=float)
    packet = BundlePacket(words.nbytes, bytes(16), Segment.of([words]))
    buffers: list[pickle.PickleBuffer] = []
    told = pickle.dumps(packet, 5, buffer_callback=buffers.append)
    found = pickle.loads(told, buffers=buffers)
    np.testing.assert_array_equal(np.frombuffer(found.data), words)


def test_a_message_whose_segment_is_gone_is_lost_and_others_are_not() -> None:
    key = fresh()
    one, two = Mesh(key, 0), Mesh(key, 1)
    try:
        one.meet(1, two.address)
        segment = Segment.of([np.ones(10)])
        one.send(1, segment)
        one.send(1, "behind it")
        assert two.socket.poll(10_000)
        del segment
        found: list[object] = []
        while "behind it" not in found:
            assert two.socket.poll(10_000)
            found += [message for _, message in two.take()]
        assert found == ["behind it"]
    finally:
        one.close()
        two.close()


def test_what_a_dead_worker_has_said_is_not_an_error_of_who_reads_it() -> None:
    mine, its = map(Wire, socket.socketpair())
    segment = Segment.of([np.ones(10)])
    its.send(segment)
    its.send("behind it")
    del segment
    assert mine.read() == ["behind it"]
    its.send(Segment.of([np.ones(10)]))
    with pytest.raises(Closed):
        mine.receive()
    mine.close()
    its.close()


def test_processes_of_one_user_can_open_each_others() -> None:
    assert usable()
