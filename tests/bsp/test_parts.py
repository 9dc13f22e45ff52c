"""The parts that need no processes: regions, partitions, ranges, verdicts, packets, generators, staging."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from bsp.engine.delivery import Ranges, alone
from bsp.engine.staging import KEPT_BYTES, Staging
from bsp.engine.verdict import Report, judge
from bsp.errors import ProcessExited, ProcessFailed, SyncMismatch
from bsp.interpreter.generators import NumPyStream, generator
from bsp.source import Line, assigned_name, user_line
from bsp.transport.build import build, difference
from bsp.transport.header import Header, pack_quiet, set_body, set_inline, unpack
from bsp.transport.packet import DIRECT_BYTES, Packet, decode
from bsp.values.effects import Put, PutEach, Send
from bsp.values.partition import by_process
from bsp.values.region import OutOfRange, Region, resolve

SHAPES = hnp.array_shapes(min_dims=1, max_dims=3, min_side=1, max_side=5)


@given(SHAPES.flatmap(lambda shape: st.tuples(st.just(shape), hnp.basic_indices(shape, allow_newaxis=False))))
def test_a_basic_index_resolves_to_the_elements_numpy_selects(case: Any) -> None:
    shape, index = case
    flat = np.arange(np.prod(shape)).reshape(shape)
    region = resolve(index, shape)
    assert region.shape == np.shape(flat[index])
    assert region.positions(shape).tolist() == np.ravel(flat[index]).tolist()


@given(SHAPES.flatmap(lambda shape: st.tuples(st.just(shape), hnp.integer_array_indices(shape))))
def test_integer_arrays_resolve_to_the_elements_numpy_selects(case: Any) -> None:
    shape, index = case
    flat = np.arange(np.prod(shape)).reshape(shape)
    region = resolve(index, shape)
    assert region.shape == flat[index].shape
    assert region.positions(shape).tolist() == flat[index].ravel().tolist()


@pytest.mark.parametrize(
    ("at", "shape", "message"),
    [
        (3, (3,), "runs 1 past the end"),
        (-5, (3,), "runs 2 past the start"),
        (slice(1, 5), (3,), "runs 2 past the end"),
        (slice(-4, 2), (3,), "runs 1 past the start"),
        ((0, 4), (3, 4), "runs 1 past the end"),
        ((0, 0, 0), (3, 4), "has 3 indices for 2 dimensions"),
        ([0, 9], (3,), "out of bounds"),
        (np.array([True, False]), (3,), "has a mask of shape"),
        (0, (), "has 1 indices for 0 dimensions"),
    ],
)
def test_an_index_outside_says_by_how_much(at: Any, shape: tuple[int, ...], message: str) -> None:
    with pytest.raises(OutOfRange, match=message):
        resolve(at, shape)


@pytest.mark.parametrize("at", [None, 1.5, "a", [0.5], (..., ...), (None, 1)])
def test_what_is_no_index_is_a_type_error(at: Any) -> None:
    with pytest.raises(TypeError):
        resolve(at, (3, 4))


def test_a_region_that_is_a_range_of_memory_is_known_as_one() -> None:
    assert resolve((1, slice(None)), (3, 4)) == Region((4,), 4, 8)
    assert resolve(slice(1, 3), (3, 4)) == Region((2, 4), 4, 12)
    assert resolve((slice(None), 1), (3, 4)).index is not None
    assert resolve((1, 2), (3, 4)) == Region((), 6, 7)


@given(st.lists(st.integers(0, 40), max_size=200), st.integers(41, 300))
def test_a_partition_is_stable_and_complete(pids: list[int], nprocs: int) -> None:
    array = np.array(pids, int)
    parts = by_process(array, nprocs)
    assert parts is not None
    assert [pid for pid, _ in parts] == sorted(set(pids))
    for pid, items in parts:
        assert np.arange(len(pids))[items].tolist() == [k for k, found in enumerate(pids) if found == pid]


@pytest.mark.parametrize("nprocs", [2, 300, 70000])
def test_a_partition_refuses_pids_outside(nprocs: int) -> None:
    assert by_process(np.array([0, nprocs]), nprocs) is None
    assert by_process(np.array([-1, 0]), nprocs) is None
    everyone = by_process(np.arange(nprocs)[::-1].copy(), nprocs)
    assert everyone is not None and len(everyone) == nprocs


RANGES = st.lists(st.tuples(st.integers(0, 60), st.integers(0, 9)).map(lambda r: (r[0], r[0] + r[1])), max_size=12)


@given(RANGES, st.tuples(st.integers(0, 60), st.integers(1, 9)).map(lambda r: (r[0], r[0] + r[1])))
def test_ranges_meet_if_some_address_lies_in_both(ranges: list[tuple[int, int]], other: tuple[int, int]) -> None:
    covered = {address for low, high in ranges for address in range(low, high)}
    assert Ranges(ranges).meet(other) == bool(covered & set(range(*other)))


@given(RANGES)
def test_a_range_is_alone_if_it_meets_no_other(ranges: list[tuple[int, int]]) -> None:
    for k, free in enumerate(alone(ranges)):
        mine = set(range(*ranges[k]))
        others = {a for j, (low, high) in enumerate(ranges) if j != k for a in range(low, high)}
        if mine & others:
            assert not free
        elif mine and not any(
            low <= ranges[k][0] < high or ranges[k][0] <= low < ranges[k][1]
            for j, (low, high) in enumerate(ranges)
            if j != k
        ):
            assert free


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


def test_packets_bring_effects_back_as_they_were() -> None:
    large = np.arange(DIRECT_BYTES // 8 + 1.0)
    packet = Packet()
    packet.add(Put(1, 2, 0, 4, Region((3,), 5, 8), np.arange(3.0), "add"))
    packet.add(Put(1, 2, 0, 4, Region((2,), index=(np.array([0, 2]),)), np.arange(2.0), None, Line(("a.py", 3))))
    packet.add(Put(1, 2, 0, 4, Region(large.shape, 0, large.size), large, None))
    packet.add(PutEach(1, 2, 0, 4, np.array([1, 1], np.int32), np.array([3.0, 4.0]), None))
    packet.add(Send(1, (2, 3), 1, b"tag", np.arange(6).reshape(2, 3), None), (3,))
    packet.add(Send(1, (2,), 1, None, None, b"pickle"), (2,))
    arrival = decode(
        packet.encode(), lambda pid, context, coarray: np.dtype(float), lambda source, dests, context: None
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


def test_elements_that_compute_with_different_builds_are_told() -> None:
    mine = build()
    assert difference([mine, mine, mine]) is None
    other = tuple((name, "1.0" if name == "NumPy" else value) for name, value in mine)
    told = difference([mine, mine, other])
    assert told is not None
    assert told.startswith(f"NumPy is {np.__version__} on element 0 and 1.0 on element 2: results may differ")


def report(pid: int, state: str, call: str = "sync", **more: Any) -> Report:
    return Report(pid, state, call, call.encode(), Line(("solver.py", 58)), **more)


def test_a_process_that_returned_is_named_beside_those_that_wait() -> None:
    verdict = judge([report(p, "returned" if p == 2 else "waiting") for p in range(4)], 7)
    assert isinstance(verdict.failure, SyncMismatch) and not verdict.ended
    assert str(verdict.failure) == (
        "process 2 has returned; processes 0, 1, 3 wait in sync at solver.py:58 (superstep 7); "
        "every process must sync equally often"
    )


def test_the_first_error_by_superstep_and_pid_is_the_jobs() -> None:
    reports = [report(0, "waiting"), *(report(p, "raised", superstep=5 - p, error=f"E{p}") for p in (1, 2, 3))]
    verdict = judge(reports, 5)
    assert isinstance(verdict.failure, ProcessFailed) and verdict.culprit is reports[3]
    assert "process 3 raised E3 (solver.py:58, superstep 2) (and processes 1, 2 raised too)" in str(verdict.failure)


def test_the_status_is_the_first_non_zero_exit() -> None:
    ended = judge([report(0, "returned"), report(1, "raised", status=9, superstep=4), report(2, "raised", status=3)], 4)
    assert ended.ended and ended.status == 3
    left = judge([report(0, "waiting"), report(1, "raised", status=9)], 4)
    assert isinstance(left.failure, ProcessExited) and left.status == 9


def test_many_processes_are_named_as_runs() -> None:
    verdict = judge([report(p, "waiting", "sync" if p != 40 else "gather(root=0)") for p in range(64)], 0)
    assert "processes 0-39, 41-63 wait in sync" in str(verdict.failure)


def test_streams_are_the_generators_numpy_documents() -> None:
    assert generator(3, 2).random() == np.random.Generator(np.random.PCG64(np.random.SeedSequence([3, 2]))).random()
    kept = np.random.get_bit_generator()  # type: ignore[attr-defined]
    try:
        a, b = NumPyStream(0, 0), NumPyStream(0, 1)
        drawn: list[float] = []
        for k in range(400):  # past the 624 words of a key, with pairs of normals cut in the middle
            a.enter()
            drawn.append(float(np.random.standard_normal()) if k % 3 else float(np.random.random()))
            a.leave()
            b.enter()
            np.random.standard_normal(k % 4)
            b.leave()
    finally:
        np.random.set_bit_generator(kept)  # type: ignore[attr-defined]
    alone_state = np.random.RandomState(np.random.MT19937(np.random.SeedSequence([0, 0, 1])))
    wanted = [float(alone_state.standard_normal()) if k % 3 else float(alone_state.random_sample()) for k in range(400)]
    assert drawn == wanted


def test_staging_uses_memory_again_and_keeps_no_more_than_it_says() -> None:
    staging = Staging()
    source = np.arange(1 << 15, dtype=float).reshape(128, 256)
    first = staging.copy(source.T, source.dtype)
    assert np.array_equal(first, source.T) and first.flags.c_contiguous and not np.shares_memory(first, source)
    where = first.__array_interface__["data"][0]
    staging.give_back(first)
    again = staging.copy(source, source.dtype)
    assert again.__array_interface__["data"][0] == where and np.array_equal(again, source)
    huge = np.zeros(KEPT_BYTES + 8, np.uint8)
    held = staging.copy(huge, huge.dtype)
    staging.give_back(held)
    assert staging._kept == 0


def test_a_source_line_is_the_users_and_names_what_it_assigns() -> None:
    class Proc:
        def coarray(self, size: int) -> Line:
            frame = sys._getframe(1)
            return Line((frame.f_code.co_filename, frame.f_lineno))

    proc = Proc()
    rows = proc.coarray(3)
    assert assigned_name(rows) == "rows"
    left, right = proc.coarray(1), proc.coarray(2)
    assert assigned_name(left) is None is assigned_name(right)
    assert user_line(sys._getframe())[0] == __file__ and "test_parts.py:" in str(rows)
