"""The short superstep in C against the reference in Python: the same bytes, the same memory, the same refusals."""

from __future__ import annotations

import os
import struct
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from tests_run import run_program

import bsp
from bsp.engine.delivery import asked_items, read, write
from bsp.engine.staging import Staging
from bsp.transport import copies, slots
from bsp.transport.base import Solo
from bsp.transport.header import BLOCKS, GET, SIZE, Header, unpack
from bsp.transport.packet import decode, opened
from bsp.values import blocks as blocks_in_python
from bsp.values import records
from bsp.values.effects import effect_of
from bsp.values.operations import KNOWN, combination, number_of
from bsp.values.parts import description
from bsp.values.payload import array_in, array_out
from bsp.values.records import (
    ASK,
    COMBINE,
    COPIED,
    FOR_ALL,
    LENT,
    MESSAGE,
    PART,
    PUT,
    VALUE,
    address_of,
    message_in,
    message_out,
)
from bsp.values.region import Region, resolve

try:
    from bsp.transport import _compiled as compiled
except ImportError:
    compiled = None

BSPRUN = str(Path(sys.executable).with_name("bsprun"))
needs_c = pytest.mark.skipif(compiled is None, reason="the package was installed without a C compiler")

READERS = [message_in] if compiled is None else [message_in, compiled.message_in]  # of small messages

OWNER = [0, 0, 0, 1, 1, 2, 2, 2]  # the element of each of 8 processes
HERE = 1  # the element that sends, with processes 3 and 4
SIZES = (0, 8, 40)  # bytes of the coarrays of a process


@st.composite
def parts(draw: st.DrawFn, source: int) -> Any:
    """Draw a put into a rectangular part of the largest coarray; its last item is (dtype, shape, index, values)."""
    itemsize, shape = draw(
        st.sampled_from([(1, (40,)), (1, (5, 8)), (2, (4, 5)), (8, (5, 1)), (4, (2, 5)), (1, (2, 4, 5))])
    )

    def index(length: int) -> st.SearchStrategy[Any]:
        bounds, steps = st.integers(-length, length), st.sampled_from([1, 2, 3, -1, -2])
        return st.integers(-length, length - 1) | st.builds(slice, bounds, bounds, steps)

    at = draw(st.tuples(*map(index, shape)))
    region = resolve(at, shape)
    values = np.arange(np.prod(region.shape, dtype=int) * itemsize, dtype=np.uint8) + 1
    kept = np.dtype(f"V{itemsize}"), shape, at, values.view(f"V{itemsize}").reshape(region.shape)
    dest, address, start = draw(st.integers(0, 7)), address_of(0, 2, source), region.start * itemsize
    if region.strides is None:
        return PUT, dest, address, start, values.tobytes(), kept
    return PART, dest, address, start, description(region.shape, region.strides, itemsize) + values.tobytes(), kept


@st.composite
def small_effects(draw: st.DrawFn) -> Any:
    source = draw(st.sampled_from([3, 4]))
    data = draw(st.binary(max_size=20))
    if draw(st.booleans()):
        return draw(st.sampled_from(FOR_ALL)), draw(st.integers(0, 7)), address_of(1, 0, source), 8, data, None
    if draw(st.booleans()):
        return draw(parts(source))
    if draw(st.booleans()):
        return MESSAGE, draw(st.integers(0, 7)), address_of(0, 0, source), 0, data, None
    if draw(st.booleans()):
        kind, dest, address, start, _, (dtype, _, _, values) = draw(parts(source))
        part = description((values.size,), (1,), dtype.itemsize) + values.tobytes()
        if not values.size:
            start, part = 0, description((1,), (1,), 1) + b"1"
        return COMBINE, dest, address, start, number_of("max") + part, None
    if draw(st.booleans()):
        return ASK, draw(st.integers(0, 7)), address_of(0, 1, source), 0, description((8,), (1,), 1), None
    index = draw(st.integers(0, 2))
    start = draw(st.integers(0, SIZES[index]))
    kind, data = draw(st.sampled_from([PUT, COPIED, LENT])), data[: SIZES[index] - start]
    values = data if kind == PUT else np.frombuffer(data, np.uint8)
    return kind, draw(st.integers(0, 7)), address_of(0, index, source), start, values, object()


outboxes = st.lists(st.lists(small_effects(), max_size=6), max_size=3)


def tasks_of(element: int) -> list[Any]:
    """Return processes with three coarrays each, as far as `apply` looks at them; `came` has their messages."""

    def process() -> Any:
        came: list[Any] = []
        coarrays = [
            SimpleNamespace(raw=np.zeros(n, np.uint8), _combine=lambda start, data: came.append((start, data)))
            for n in SIZES
        ]
        context = SimpleNamespace(coarrays=coarrays, receive=lambda source, data: came.append((source, data)))
        return SimpleNamespace(contexts={0: context}, came=came)

    return [process() for owner in OWNER if owner == element]


def applied(apply: Any, packet: bytes, element: int, blocks: Sequence[Any] = ()) -> tuple[list[bytes], list[Any]]:
    tasks, values = tasks_of(element), {}
    apply(packet, tasks, OWNER.index(element), values, list(blocks))
    told = [(source, type(value), value) for source, value in values.items()]  # equal bytes may be of arrays, or not
    told += [message for task in tasks for message in task.came]
    return [x.raw.tobytes() for task in tasks for x in task.contexts[0].coarrays], told


@needs_c
@given(outboxes, st.sampled_from([0, 52, 100, 1000]))
def test_packets_and_what_they_write(posted: list[list[Any]], room: int) -> None:
    expected_blocks: dict[int, list[Any]] = {}
    blocks: dict[int, list[Any]] = {}
    expected = records.pack(posted, OWNER, 3, HERE, room, expected_blocks)
    packets = compiled.pack(posted, OWNER, 3, HERE, room, blocks)
    assert packets == expected
    assert {k: list(map(id, some)) for k, some in blocks.items()} == {
        k: list(map(id, some)) for k, some in expected_blocks.items()
    }
    for element, packet in (packets or {}).items():
        some = blocks.get(element, [])
        assert applied(compiled.apply, packet, element, some) == applied(records.apply, packet, element, some)
        assert applied(compiled.apply, memoryview(packet), element, some) == applied(
            records.apply, packet, element, some
        )


def arranging(function: Any, packets: dict[int, bytes], out: dict[int, list[Any]]) -> Any:
    """Return what `arranged` says: of memory of a coarray which, and where in it; of other memory its size."""
    tasks = tasks_of(HERE)
    arrays = [x.raw for task in tasks for x in task.contexts[0].coarrays]
    given = {k: list(some) for k, some in out.items()}
    lent = [memory[:] for memory in arrays if memory.size]  # memory that some put may write over
    for some in given.values():
        some += lent
    into, arrived = function(dict(packets), tasks, OWNER.index(HERE), HERE, given)
    assert HERE not in given

    def place(block: Any) -> Any:
        inside = [k for k, x in enumerate(arrays) if block is not None and np.shares_memory(x, block)]
        if not inside:
            return None if block is None else block.nbytes
        return inside[0], block.__array_interface__["data"][0] - arrays[inside[0]].__array_interface__["data"][0]

    told = [{k: list(map(place, some)) for k, some in found.items()} for found in (into, arrived, given)]
    return told, [k in arrived for k in packets]


@needs_c
@given(outboxes, outboxes)
def test_blocks_go_where_the_reference_says(posted: list[list[Any]], own: list[list[Any]]) -> None:
    blocks: dict[int, list[Any]] = {}
    theirs = records.pack(posted, OWNER, 3, 2, 10_000, {}) or {}
    mine = records.pack(own, OWNER, 3, HERE, 10_000, blocks) or {}
    packets = {2: theirs.get(HERE, b""), HERE: mine.get(HERE, b"")}
    assert arranging(compiled.arranged, packets, blocks) == arranging(blocks_in_python.arranged, packets, blocks)


@given(outboxes)
def test_records_are_the_effects_in_their_order(posted: list[list[Any]]) -> None:
    """An oracle that knows nothing of bytes: walk over the effects, and write each."""
    blocks: dict[int, list[Any]] = {}
    packets = records.pack(posted, OWNER, 3, HERE, 10_000, blocks)
    assert packets is not None
    for element in range(3):
        memory = {pid: [bytearray(n) for n in SIZES] for pid, owner in enumerate(OWNER) if owner == element}
        values, messages = {}, []
        for kind, dest, address, start, data, kept in [effect for effects in posted for effect in effects]:
            _, index, source = struct.unpack("<IIi", address)
            if kind in FOR_ALL and element >= OWNER[dest]:
                values[source] = data if kind == VALUE else bytearray(data)
            elif kind == PART and OWNER[dest] == element:
                dtype, shape, at, items = kept
                np.frombuffer(memory[dest][index], dtype).reshape(shape)[at] = items
            elif kind == MESSAGE and OWNER[dest] == element:
                messages.append((dest, source, data))
            elif kind == COMBINE:
                if OWNER[dest] == element:
                    messages.append((dest, start, data))
            elif kind not in (*FOR_ALL, ASK) and OWNER[dest] == element:
                memory[dest][index][start : start + len(data)] = bytes(data)
        flat = [bytes(x) for coarrays in memory.values() for x in coarrays]
        found = applied(records.apply, packets.get(element, b""), element, blocks.get(element, []))
        told = [(source, type(value), value) for source, value in values.items()]
        assert found == (flat, told + [each[1:] for each in sorted(messages, key=lambda each: each[0])])


@given(parts(3))
def test_a_put_into_a_part_is_the_same_on_the_general_way(record: Any) -> None:
    kind, dest, _, _, _, (dtype, shape, at, values) = record
    packet = records.pack([[record]], OWNER, 3, OWNER[dest], 1000, {})[OWNER[dest]]
    arrival = decode(*opened(packet), lambda *_: dtype, lambda *_: None)
    expected, found, here = (np.zeros(shape, dtype) for _ in range(3))
    expected[at] = values
    (effect,) = arrival.effects
    raw = found.reshape(-1).view(np.uint8)
    write(effect, SimpleNamespace(local=found, _flat=found.reshape(-1), raw=raw, dtype=dtype))
    if kind == PART:
        own = effect_of((*record[:5], (SimpleNamespace(dtype=dtype), resolve(at, shape))))
        here[own.region.index] = own.values.reshape(own.region.shape)
        assert here.tobytes() == expected.tobytes()
    assert found.tobytes() == expected.tobytes()


@needs_c
@given(st.lists(parts(3), min_size=1, max_size=4))
def test_gets_read_what_their_indices_select(puts: list[Any]) -> None:
    gets = []
    for _, dest, address, start, _, (dtype, shape, at, _) in puts:
        region = resolve(at, shape)
        count = int(np.prod(region.shape))
        if count:
            what = (region.shape, region.strides) if region.strides else ((count,), (1,))
            gets.append((ASK, dest, address, start, description(*what, dtype.itemsize), (region, dtype, shape, at)))
    packets = records.pack([gets], OWNER, 3, HERE, 10_000, {})
    assert packets is not None
    for element, packet in packets.items():
        tasks = tasks_of(element)
        for task in tasks:
            task.contexts[0].coarrays[2].raw[:] = np.arange(40)
        mine = [get for get in gets if OWNER[get[1]] == element]
        expected = [
            (3, dest, np.arange(40, dtype=np.uint8).view(dtype).reshape(shape)[at].tobytes())
            for _, dest, _, _, _, (_, dtype, shape, at) in mine
        ]
        first = OWNER.index(element)
        assert records.read_asked(packet, tasks, first) == expected
        assert compiled.read_asked(packet, tasks, first) == expected
        written = applied(compiled.apply, packet, element)
        assert written == applied(records.apply, packet, element) == ([bytes(n) for _ in tasks for n in SIZES], [])
        for (*record, (region, dtype, shape, _)), (_, _, contents) in zip(mine, expected, strict=True):
            own = effect_of((*record, (None, region, print)))  # as it is on the general way, here and elsewhere
            alone = records.pack([[(*record, None)]], OWNER, 3, HERE, 10_000, {})
            assert alone is not None
            (there,) = decode(*opened(alone[element]), lambda *_, dtype=dtype: dtype, lambda *_: None).effects
            raw = np.arange(40, dtype=np.uint8)
            flat = raw.view(dtype)
            coarray = SimpleNamespace(raw=raw, dtype=dtype, _flat=flat, local=flat.reshape(shape))
            for get in (own, there):
                assert read(get, coarray)[0].tobytes() == contents
                assert asked_items(get) * dtype.itemsize == len(contents)


@given(st.data(), st.sampled_from(["add", "multiply", "min", "max", "and"]))
def test_a_put_with_an_operation_is_the_same_on_all_ways(data: st.DataObject, op: str) -> None:
    shape = data.draw(st.sampled_from([(6,), (3, 4), (2, 3, 2)]))
    dtype = data.draw(st.sampled_from(["u1", "i8"] if op == "and" else ["u1", "f4", "f8", "c8", "c16", "i8"]))
    index = st.one_of(st.integers(-2, 1), st.builds(slice, st.none(), st.none(), st.sampled_from([None, 2, -1])))
    at = data.draw(st.tuples(*[index] * len(shape)))
    rng = np.random.default_rng(3)
    region = resolve(at, shape)

    def values(shape: tuple[int, ...]) -> Any:  # products of complex ones are rounded in other ways by other loops
        found = rng.uniform(1, 9, shape) + (1j * rng.uniform(1, 9, shape) if dtype[0] == "c" else 0)
        return np.asarray(found).astype(dtype)

    before, given_ = values(shape), values(region.shape)
    expected = before.copy()
    KNOWN[op].accumulate_at(expected, at, given_, repeats=False)

    def main(proc: bsp.Process) -> Any:
        x = proc.coarray(shape, dtype)
        x.local = before
        proc.sync()
        if proc.pid == 0:
            x.put(1, given_, at=at, op=op)
        (record,) = proc._context.outbox.effects or [None]
        proc.sync()
        return record, x.local

    (record, untouched), (_, found) = bsp.run(main, nprocs=2)
    assert found.tobytes() == expected.tobytes()
    assert untouched.tobytes() == before.tobytes()
    assert record[0] == COMBINE
    own = effect_of(record)
    packets = records.pack([[record]], [0, 1], 2, 0, 10_000, {})
    assert packets is not None
    (there,) = decode(*opened(packets[1]), lambda *_: before.dtype, lambda *_: None).effects
    for effect in (own, there):
        local = before.copy()
        flat = local.reshape(-1)
        write(effect, SimpleNamespace(local=local, _flat=flat, raw=flat.view(np.uint8), dtype=local.dtype))
        assert local.tobytes() == expected.tobytes()


def test_a_part_that_runs_past_its_array_has_no_view() -> None:
    """Strides of damaged records may be so large that NumPy's own check overflows."""
    memory = np.zeros(96, np.uint8)
    for region in (
        Region((13,), 0, 13),
        Region((2,), 0, strides=(12,)),
        Region((2,), 3, strides=(-4,)),
        Region((3, 2), 2, strides=(-(2**60) + 8, 2)),
        Region((2**62, 3), 0, strides=(4, 1)),
    ):
        with pytest.raises(IndexError, match="runs past"):
            region.view(memory, np.dtype(float))


@pytest.mark.parametrize("data", [b"", b"\xff", b"\0", number_of("add") + description((2,), (1,), 8) + b"1"])
def test_damaged_operations_are_refused(data: bytes) -> None:
    with pytest.raises(ValueError, match=r"unknown operation|another part"):
        combination(data)


@given(hnp.arrays(hnp.scalar_dtypes(), hnp.array_shapes(min_dims=0, max_dims=4, min_side=0, max_side=3)))
def test_small_arrays_as_bytes(array: np.ndarray) -> None:
    data = array_out(array)
    if array.dtype.kind in "SUMm" or not array.dtype.isnative:
        assert data is None
        return
    assert data is not None
    message = message_out(None, array, None)
    for found in (array_in(data), array_in(bytearray(data)), *(reader(message)[1] for reader in READERS)):
        assert found.dtype is array.dtype or found.dtype == array.dtype
        assert (found.shape, found.tobytes(), found.flags.writeable, found.flags.owndata) == (
            array.shape, array.tobytes(), True, True)  # fmt: skip


@given(st.none() | st.binary(max_size=9), st.none() | hnp.arrays(float, (2, 2)), st.binary(max_size=9))
def test_small_messages_as_bytes(tag: bytes | None, array: np.ndarray | None, pickled: bytes) -> None:
    data = message_out(tag, array, None if array is not None else pickled)
    assert data is not None
    for found in (*(reader(data) for reader in READERS), effect_of((MESSAGE, 4, address_of(2, 0, 3), 0, data, None))):
        came = found if isinstance(found, tuple) else (found.tag, found.array, found.pickled)
        assert came[0] == tag
        assert came[2] == (pickled if array is None else None)
        assert array is None or came[1].tobytes() == array.tobytes()
    assert message_out(b"1" * (1 << 16), None, pickled) is None


@needs_c
@given(st.integers(0, 40), st.sampled_from([b"", b"tag"]))
def test_a_message_that_is_cut_short_is_refused(kept: int, tag: bytes) -> None:
    data = message_out(tag, np.arange(4.0).reshape(2, 2), None)
    assert data is not None and len(data) > 40
    with pytest.raises(ValueError, match="a message ends"):
        compiled.message_in(data[:kept])


@given(st.data())
def test_blocks_that_share_memory_with_what_is_written(data: st.DataObject) -> None:
    memory = np.zeros(12, np.uint8)
    base = memory.__array_interface__["data"][0]
    parts = st.tuples(st.integers(0, 12), st.integers(0, 12)).map(sorted)
    held, written = data.draw(st.lists(parts, max_size=4)), data.draw(st.lists(parts, max_size=4))
    taken = {k for low, high in written for k in range(low, high)}
    blocks = [memory[low:high] for low, high in held]
    found = blocks_in_python.meeting(blocks, [(base + low, base + high) for low, high in written])
    assert found == [n for n, (low, high) in enumerate(held) if taken & set(range(low, high))]


@needs_c
def test_effects_of_other_kinds_have_no_packets() -> None:
    small = PUT, 0, address_of(0, 1, 3), 0, b"12345678", object()
    for pack in (records.pack, compiled.pack):
        assert pack([[small, object()]], OWNER, 3, HERE, 1000, {}) is None
        assert pack([[small]], OWNER, 3, HERE, 39, {}) is None
        assert set(pack([[small]], OWNER, 3, HERE, 40, {})) == {0}
        assert set(pack([[small]], OWNER, 3, 0, 0, {})) == {0}, "the own packet may have any length"


def of_part(start: int, data: bytes) -> bytes:
    """Return the packet of one put into a part of the largest coarray of process 0."""
    return records.pack([[(PART, 0, address_of(0, 2, 3), start, data, None)]], OWNER, 3, HERE, 1000, {})[0]


BOTH = [pytest.param(compiled, marks=needs_c, id="C"), pytest.param(None, id="Python")]


@pytest.mark.parametrize("part", BOTH)
def test_what_is_damaged_is_refused(part: Any) -> None:
    apply, fill = (part.apply, part.fill) if part else (records.apply, slots.fill)
    packet = records.pack([[(PUT, 0, address_of(0, 1, 3), 0, b"12345678", None)]], OWNER, 3, HERE, 1000, {})[0]
    with pytest.raises(ValueError, match="ends inside a record"):
        applied(apply, packet[:-1], 0)
    with pytest.raises(ValueError, match="ends inside a record"):
        applied(apply, packet[:20], 0)
    past = records.pack([[(PUT, 0, address_of(0, 1, 3), 1, b"12345678", None)]], OWNER, 3, HERE, 1000, {})[0]
    with pytest.raises(IndexError, match="runs past"):
        applied(apply, past, 0)
    with pytest.raises(IndexError, match="not here"):
        applied(apply, packet, 2)
    with pytest.raises(ValueError, match="unknown kind 10"):
        applied(apply, b"\x0a" + packet[1:], 0)
    column = description((2,), (2,), 1)
    for start, data in ((-1, column), (38, column), (1, description((2,), (-2,), 1)), (2**63 - 1, column)):
        with pytest.raises((IndexError, ValueError), match=r"runs past|another part"):
            applied(apply, of_part(start % 2**64, data + b"12"), 0)
    for numbers in (
        (),
        (1, 1),
        (1, 0, 2, 2),
        (1, 1, -2, 2),
        (1, 1, 3, 2),
        (-1, 2),
        (2, 1, 2**33, 2**33, 1, 1),
        (65, 1),
    ):
        with pytest.raises(ValueError, match="another part than its items fill"):
            applied(apply, of_part(0, struct.pack(f"<{len(numbers)}q", *numbers) + b"12"), 0)
    read_asked = part.read_asked if part else records.read_asked
    for start, dest, data in ((-1, 0, column), (38, 0, column), (0, 3, column), (0, 0, column + b"1"), (0, 0, b"")):
        ask = ASK, dest, address_of(0, 2, 3), start % 2**64, data, None
        (asked,) = records.pack([[ask]], OWNER, 3, HERE, 1000, {}).values()
        with pytest.raises((IndexError, ValueError), match=r"runs past|another part|not here"):
            read_asked(asked, tasks_of(0), 0)
    block = np.ones(8, np.uint8)
    packet = records.pack([[(COPIED, 0, address_of(0, 1, 3), 0, block, None)]], OWNER, 3, HERE, 1000, {})[0]
    with pytest.raises(ValueError, match="no block"):
        applied(apply, packet, 0)
    with pytest.raises(ValueError, match="no record"):
        applied(apply, packet, 0, [block, block])
    with pytest.raises(ValueError, match="another size"):
        applied(apply, packet, 0, [block[:7]])
    assert not any(map(any, applied(apply, packet, 0, [None])[0])), "a block in its place is not written again"
    past = records.pack([[(LENT, 0, address_of(0, 1, 3), 1, block, None)]], OWNER, 3, HERE, 1000, {})[0]
    arranged = part.arranged if part else blocks_in_python.arranged

    def find(packet: bytes, tasks: list[Any], first: int) -> None:
        arranged({1: b"", 0: packet}, tasks, first, 1, {})

    with pytest.raises(IndexError, match="runs past"):
        find(past, tasks_of(0), 0)
    with pytest.raises(IndexError, match="not here"):
        find(packet, tasks_of(2), OWNER.index(2))
    with pytest.raises(ValueError, match="ends inside a record"):
        find(packet[:20], tasks_of(0), 0)
    with pytest.raises(ValueError, match="does not fit"):
        fill(bytearray(3 * 128), 128, 0.0, 0, b"abcdefgh", 0, {0: bytes(65)}, 0, False)
    with pytest.raises((ValueError, IndexError), match=r"does not fit|element 3"):
        fill(bytearray(3 * 128), 128, 0.0, 0, b"abcdefgh", 0, {3: b""}, 0, False)


@needs_c
def test_effects_that_are_none_are_refused() -> None:
    with pytest.raises(IndexError, match="process 8"):
        compiled.pack([[(PUT, 8, address_of(0, 1, 3), 0, b"", None)]], OWNER, 3, HERE, 1000, {})
    with pytest.raises(TypeError, match="address"):
        compiled.pack([[(PUT, 0, b"short", 0, b"", None)]], OWNER, 3, HERE, 1000, {})
    with pytest.raises(TypeError, match="bytes-like"):
        compiled.pack([[(LENT, 0, address_of(0, 1, 3), 0, None, None)]], OWNER, 3, HERE, 1000, {})


packets_of_slots = st.dictionaries(st.integers(0, 2), st.binary(min_size=1, max_size=128 - SIZE))


@needs_c
@given(
    packets_of_slots, st.floats(0, 1e9), st.integers(0, 2**32 - 1), st.binary(min_size=8, max_size=8),
    st.integers(0, 2**64 - 1), st.sampled_from([0, 1, 10**12]), st.booleans(),
)  # fmt: skip
def test_slots_are_the_same(
    packets: dict[int, bytes], clock: float, superstep: int, digest: bytes, hint: int, block_bytes: int, asks: bool
) -> None:
    mine, theirs = bytearray(b"?" * 384), bytearray(b"?" * 384)
    longest = slots.fill(mine, 128, clock, superstep, digest, hint, packets, block_bytes, asks)
    assert compiled.fill(theirs, 128, clock, superstep, digest, hint, packets, block_bytes, asks) == longest
    assert mine == theirs
    for index in range(3):
        found = slots.read(mine, 128, index, superstep, digest)
        assert compiled.read(mine, 128, index, superstep, digest) == found
        others = {k: packet for k, packet in sorted(packets.items()) if k != index}
        assert found == (others, longest, hint, (BLOCKS if block_bytes else 0) | (GET if asks else 0))
    assert unpack(mine, 0).row_total == sum(map(len, packets.values())) + block_bytes


@needs_c
@pytest.mark.parametrize("change", [{"flags": 16}, {"superstep": 6}, {"digest": b"hgfedcba"}])
def test_headers_with_more_to_say_are_noticed(change: dict[str, Any]) -> None:
    found = bytearray(3 * 128)
    slots.fill(found, 128, 0.0, 5, b"abcdefgh", 0, {}, 0, False)
    found[128 : 128 + SIZE] = Header(0.0, 5, 0, 0, b"abcdefgh", -1, 0, 0, 0, 0, 0)._replace(**change).pack()
    for read_slots in (slots.read, compiled.read):
        assert read_slots(found, 128, 0, 5, b"abcdefgh") is None
        assert read_slots(found, 128, 1, 5, b"abcdefgh") == ({}, 0, 0, 0)


@pytest.mark.parametrize("long_way", [False, True])
@pytest.mark.parametrize("items", [4, 9000])
def test_gaps_between_fields_are_left_alone(long_way: bool, items: int) -> None:
    """The dtype of a view of some fields has the others as gaps, which are not the coarray's."""

    def main(proc: bsp.Process) -> list[list[int]]:
        whole = np.zeros(items, [("a", "i4"), ("b", "i4")])
        whole["b"] = 7
        x = proc.register(whole[["a"]])
        proc.sync()
        values = np.zeros(items, x.dtype)
        values["a"] = 5
        x.put(1 - proc.pid, values)
        if long_way:
            x.get(0)
        proc.sync()
        return [sorted(set(whole[name].tolist())) for name in "ab"]

    assert run_program(main, nprocs=2) == [[[5], [7]]] * 2


def test_a_put_of_a_finalizer_waits_for_the_next_superstep(monkeypatch: pytest.MonkeyPatch) -> None:
    """Effects may be issued while packets travel: by a thread, a finalizer or a handler of a signal."""
    small, late = Solo.small, []

    def meanwhile(self: Solo, *given: Any) -> Any:
        if late:
            late.pop()()
        return small(self, *given)

    monkeypatch.setattr(Solo, "small", meanwhile)

    def main(proc: bsp.Process) -> list[float]:
        x, y = proc.coarray(2), proc.coarray(2)
        proc.sync()
        x.put(0, [1.0, 2.0])
        late.append(lambda: y.put(0, [5.0, 6.0]))
        proc.sync()
        assert y.local.tolist() == [0, 0]
        proc.sync()
        return x.local.tolist() + y.local.tolist()

    assert run_program(main, nprocs=1) == [[1, 2, 5, 6]]


# makes every second element of a job go without the compiled part
SITE = """
import os
if os.environ.get("OMPI_COMM_WORLD_RANK", "0") in os.environ["PURE_RANKS"].split():
    os.environ["BSP_PURE_PYTHON"] = "1"
"""

SCRIPT = """
import sys
import numpy as np
import bsp
from bsp.transport.compiled import COMPILED
proc = bsp.process()
print(proc.pid, COMPILED, file=sys.stderr)
x, y, z = proc.coarray(3), proc.coarray((2, 2), np.int16), proc.coarray(5000, fill=proc.pid)
proc.sync()
before = 0.0
for k in range(6):
    right = (proc.pid + 1) % proc.nprocs
    x.put(right, x.local + [proc.pid, k, 0.5])
    if k != 1:
        z.put(right, z.local[::-1] + k, buffered=k > 2)  # a block
    y.put(right, np.int16(k), at=(proc.pid % 2, slice(0, 2)))
    if k == 3 and proc.pid == 1:
        x.put(0, 1.0, at=2, op="add")  # one process has more to say than others
    if k == 4:
        proc.send(right, "a message")
    if k == 2:
        x.put(right, np.full(3, 2.0))
        y.put(right, np.ones((2, 2), np.int16))  # a long packet: the slots grow, and shrink again
        for _ in range(20):
            y.put(right, np.ones((2, 2), np.int16))
    now = proc.time()
    assert now >= before, "the clock goes back"
    before = now
    total = proc.allreduce(int(x.local.sum()) + proc.pid)
    print(proc.pid, k, total, x.local, y.local.ravel(), z.local.sum(), [m.payload for m in proc.inbox])
"""


@pytest.mark.thorough
@pytest.mark.jobs
@needs_c
def test_elements_with_and_without_it_understand_each_other(tmp_path: Path) -> None:
    script = tmp_path / "program.py"
    script.write_text(SCRIPT)
    (tmp_path / "sitecustomize.py").write_text(SITE)

    def run(elements: int, pure: str) -> tuple[str, list[str]]:
        environment = os.environ | {"PYTHONPATH": f"{tmp_path}:{os.environ.get('PYTHONPATH', '')}", "PURE_RANKS": pure}
        environment.pop("BSP_PURE_PYTHON", None)
        command = [BSPRUN, "-p", "5", "-n", str(elements), str(script)]
        done = subprocess.run(command, env=environment, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        return done.stdout, sorted(done.stderr.splitlines())

    alone, compiled_in = run(1, "0")
    assert compiled_in == [f"{pid} False" for pid in range(5)]
    assert run(2, "") == (alone, [f"{pid} True" for pid in range(5)])
    assert run(2, "1") == (alone, ["0 True", "1 True", "2 False", "3 False", "4 False"])


# ------------------------------------------------------------------------------------- large blocks


@pytest.mark.parametrize("copy", [copies.copy, pytest.param(getattr(compiled, "copy", None), marks=needs_c)])
@pytest.mark.parametrize("dtype", [np.uint8, float, "datetime64[s]"])
def test_copies_fill_their_place_and_nothing_else(copy: Any, dtype: Any) -> None:
    """Places begin anywhere in a line of the cache, and are empty, part of a line, or some lines long."""
    data = np.random.default_rng(1).integers(1, 255, 5000).astype(np.uint8)
    for offset in (0, 1, 8, 63, 64):
        for size in (0, 1, 63, 64, 65, 127, 128, 200, 4096):
            place = np.zeros(5000, np.uint8)
            copy(place[offset : offset + size], data[7 : 7 + size])
            np.testing.assert_array_equal(place[offset : offset + size], data[7 : 7 + size])
            assert not place[:offset].any() and not place[offset + size :].any()
    for repeat in (100, 2000):  # the latter is copied past the caches
        values = data[:4992].view(dtype).repeat(repeat)
        np.testing.assert_array_equal(Staging().copy(values, np.dtype(dtype)), values)
        cut = np.zeros(values.nbytes, np.uint8)
        copy(cut[3:-1], values.view(np.uint8)[:-4])
        assert cut[:3].tolist() == [0, 0, 0]
        assert cut[-1] == 0
        np.testing.assert_array_equal(cut[3:-1], values.view(np.uint8)[:-4])
    with pytest.raises(ValueError, match="4 bytes into the place of 5"):
        copy(bytearray(5), b"abcd")
    with pytest.raises((TypeError, BufferError)):
        copy(b"abcd", b"abcd")
