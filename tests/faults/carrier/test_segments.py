"""Packets in shared memory: what is read is what was written, and what is gone is not mistaken for anything else."""

from __future__ import annotations

import os
import pickle
import resource
import socket
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from xxhash import xxh3_128_digest

from bsp.faults.carrier.job_key import fresh
from bsp.faults.carrier.mesh import Mesh
from bsp.faults.carrier.segments import LEAST, Segment, SegmentGone, Segments, bytes_of, flat_bytes, pickled, usable
from bsp.faults.carrier.wire import Closed, Wire
from bsp.faults.engine.worker import _digest
from bsp.faults.protocol.messages import BundlePacket, Packed


def of(segments: Segments, blocks: Sequence[np.ndarray]) -> Segment:
    """Return a segment with the bytes of these arrays, one behind the other."""
    segment = segments.empty(sum(block.nbytes for block in blocks))
    segment.append([flat_bytes(block) for block in blocks])
    return segment


@settings(deadline=None)
@given(st.lists(st.integers(0, 5000), max_size=6), st.integers(0, 2**32 - 1))
def test_blocks_come_back_as_they_were(sizes: list[int], seed: int) -> None:
    rng = np.random.default_rng(seed)
    blocks = [rng.integers(0, 256, size, np.uint8) for size in sizes]
    segment = of(Segments(), blocks)
    found = [np.empty_like(block) for block in blocks]
    segment.read_into(found)
    assert all(map(np.array_equal, found, blocks)) and len(segment) == sum(sizes)


def test_another_process_opens_it_by_reference_and_still_has_it_when_it_is_dropped() -> None:
    words = np.arange(1000.0)
    segment = of(Segments(), [words])
    told, _ = pickled(segment)
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
    segment = Segments().empty(0)
    pieces = [segment.append([b"head", np.full(100, fill, np.uint8)]) for fill in (1, 2, 3)]
    told, _ = pickled(pieces)
    before = len(os.listdir("/proc/self/fd"))
    found = pickle.loads(told)
    assert len(os.listdir("/proc/self/fd")) == before + 1
    expected = [b"head" + bytes([fill]) * 100 for fill in (1, 2, 3)]
    assert [bytes(bytes_of(piece)) for piece in found] == expected == [bytes(piece.view()) for piece in pieces]
    buffers: list[pickle.PickleBuffer] = []
    abroad = pickle.dumps(pieces[1:], 5, buffer_callback=buffers.append)
    assert [bytes(data) for data in pickle.loads(abroad, buffers=buffers)] == expected[1:]


def told_of(segment: Segment) -> bytes:
    """Return what travels to another process of the machine."""
    return pickled(segment)[0]


def inode_of(segment: Segment) -> int:
    return segment._file.inode


def test_memory_that_nobody_holds_is_used_again() -> None:
    segments = Segments()
    first = of(segments, [np.ones(1000)])
    inode = inode_of(first)
    reader = pickle.loads(told_of(first))
    del first
    second = of(segments, [np.full(1000, 2.0)])
    assert inode_of(second) != inode  # the reader has that
    assert np.array_equal(np.frombuffer(reader.view()), np.ones(1000))
    del reader
    third = of(segments, [np.full(1500, 3.0)])  # more than there was
    assert inode_of(third) == inode
    assert np.array_equal(np.frombuffer(third.view()), np.full(1500, 3.0))


def test_a_view_holds_the_memory_as_long_as_it_is_there() -> None:
    segments = Segments()
    segment = of(segments, [np.ones(1000)])
    inode, view = inode_of(segment), pickle.loads(told_of(segment)).view()
    del segment
    assert inode_of(of(segments, [np.zeros(1000)])) != inode
    assert np.array_equal(np.frombuffer(view), np.ones(1000))
    del view
    assert inode_of(of(segments, [np.zeros(1000)])) == inode


def test_a_reference_that_is_opened_after_the_memory_was_used_again_is_gone() -> None:
    segments = Segments()
    first = of(segments, [np.ones(1000)])
    told, inode = told_of(first), inode_of(first)
    del first
    second = of(segments, [np.zeros(1000)])
    assert inode_of(second) == inode
    with pytest.raises(SegmentGone, match="another segment"):
        pickle.loads(told)
    assert inode_of(pickle.loads(told_of(second))) == inode


@settings(deadline=None)
@given(st.lists(st.tuples(st.integers(1, 3000), st.integers(0, 5), st.booleans()), max_size=40))
def test_who_holds_a_segment_always_finds_in_it_what_was_written(steps: list[tuple[int, int, bool]]) -> None:
    """Each step writes a segment, and lets go one that somebody holds, or the reference to one that nobody opened."""
    segments = Segments()
    held: list[tuple[Segment, np.ndarray]] = []
    late: list[tuple[bytes, np.ndarray]] = []
    most = 0
    for k, (count, which, opens) in enumerate(steps):
        words = np.arange(k, k + count, dtype=np.int64)
        written = of(segments, [words])
        if opens:
            held.append((pickle.loads(told_of(written)), words))
        else:
            late.append((told_of(written), words))
        most = max(most, sum(each.size for each, _ in held) + written.size)
        del written
        if which < len(held):
            del held[which]
        for segment, expected in held:
            assert np.array_equal(np.frombuffer(segment.view(), np.int64), expected)
        for told, expected in late:
            try:
                found = pickle.loads(told)
            except SegmentGone:
                continue
            assert np.array_equal(np.frombuffer(found.view(), np.int64), expected)
            del found
        assert sum(file.room for file in segments._idle) <= 2 * most


def test_the_memory_of_files_that_are_not_used_is_given_back(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = [0.0]
    monkeypatch.setattr("bsp.faults.carrier.segments.time.monotonic", lambda: clock[0])
    segments = Segments()
    before = len(os.listdir("/proc/self/fd"))
    del_one, keep_one = of(segments, [np.ones(1000)]), of(segments, [np.ones(1000)])
    del del_one
    clock[0] = 6.0
    del keep_one
    segments.tidy()
    assert len(os.listdir("/proc/self/fd")) == before + 2
    clock[0] = 12.0
    segments.tidy()
    assert len(os.listdir("/proc/self/fd")) == before + 1


@pytest.mark.parametrize("size", [0, 1, 1 << 18, (1 << 20) + 7])
def test_the_digest_of_a_state_is_the_same_wherever_its_arrays_are(size: int) -> None:
    data = np.random.default_rng(size).bytes(size)
    piece = Segments().empty(size).append([b"head", data])
    assert piece.digest == xxh3_128_digest(b"head" + data)
    shared, own = (Packed(b"rest", ("x",), (each,)) for each in (piece, bytearray(piece.view())))
    assert _digest(shared) == _digest(own) != _digest(Packed(b"rest", ("x",), (b"head" + data + b"1",)))


def test_what_one_thread_pickles_for_a_file_holds_bytes_while_another_sends() -> None:
    segments = [of(Segments(), [np.arange(5.0)])]
    told: list[bytes] = []

    class Sent:
        def __reduce__(self) -> tuple[type, tuple[()]]:
            with ThreadPoolExecutor(1) as other:
                told.append(other.submit(pickle.dumps, segments.pop(), 5).result())
            return int, ()

    pickled(Sent())
    assert np.array_equal(np.frombuffer(pickle.loads(told[0])), np.arange(5.0))


def test_one_that_was_dropped_is_gone_even_if_its_descriptor_is_somebody_elses() -> None:
    segment = of(Segments(), [np.ones(10)])
    told, _ = pickled(segment)
    del segment
    with pytest.raises(SegmentGone):
        pickle.loads(told)
    other = of(Segments(), [np.zeros(10)])  # takes the same descriptor
    with pytest.raises(SegmentGone, match="another file"):
        pickle.loads(told)
    assert len(other) == 80


def test_it_is_copied_when_half_of_the_descriptors_are_in_use() -> None:
    segment = Segments().empty(0)
    state = Packed(b"", ("a", "b"), tuple(segment.append([np.full(1 << 16, fill, np.uint8)]) for fill in (1, 2)))
    (told, _), before = pickled((segment, state)), len(os.listdir("/proc/self/fd"))
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (2 * segment._file.descriptor, hard))
    try:
        found, pieces = pickle.loads(told)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    assert len(os.listdir("/proc/self/fd")) == before
    assert bytes(found) == bytes(segment.view())
    assert pieces.size == state.size
    again, buffers = pickled(pieces)
    expected = [bytes(bytes_of(piece)) for piece in state.arrays]
    assert [bytes(piece) for piece in pickle.loads(again, buffers=buffers).arrays] == expected


def test_its_bytes_travel_to_other_machines_and_into_checkpoints() -> None:
    words = np.arange(LEAST // 8, dtype=float)
    packet = BundlePacket(words.nbytes, bytes(16), of(Segments(), [words]))
    buffers: list[pickle.PickleBuffer] = []
    told = pickle.dumps(packet, 5, buffer_callback=buffers.append)
    found = pickle.loads(told, buffers=buffers)
    np.testing.assert_array_equal(np.frombuffer(found.data), words)


def test_a_message_whose_segment_is_gone_is_lost_and_others_are_not() -> None:
    key = fresh()
    one, two = Mesh(key, 0), Mesh(key, 1)
    try:
        one.meet(1, two.address)
        segment = of(Segments(), [np.ones(10)])
        one.send(1, segment)
        one.send(1, "behind it")
        del segment
        found: list[object] = []
        while "behind it" not in found:
            two.wait(10)
            found += [message for _, message in two.take()]
        assert found == ["behind it"]
    finally:
        one.close()
        two.close()


def test_what_a_dead_worker_has_said_is_not_an_error_of_who_reads_it() -> None:
    mine, its = map(Wire, socket.socketpair())
    segment = of(Segments(), [np.ones(10)])
    its.send(segment)
    its.send("behind it")
    del segment
    assert mine.read() == ["behind it"]
    its.send(of(Segments(), [np.ones(10)]))
    with pytest.raises(Closed):
        mine.receive()
    mine.close()
    its.close()


def test_processes_of_one_user_can_open_each_others() -> None:
    assert usable()
