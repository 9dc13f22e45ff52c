"""The end of a small superstep in C against that in Python, beside an element that a test plays; trees of numbers."""

from __future__ import annotations

import gc
import operator
import pickle
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

import bsp
from bsp.cost.model import DEFAULT
from bsp.cost.record.recorder import Recorder
from bsp.engine.element import Element
from bsp.engine.task import WAITING, Call
from bsp.errors import NotRegistered
from bsp.transport import compiled, slots
from bsp.transport.header import BLOCKS, GET, digest, unpack
from bsp.transport.mpi import MpiTransport
from bsp.transport.packet import Packet
from bsp.values import records
from bsp.values.effects import Send
from bsp.values.operations import KNOWN, Prefixes, combine, keeps, number_of, operation
from bsp.values.parts import description
from bsp.values.payload import array_head, array_out, is_small
from bsp.values.records import ARRAY, ASK, COMBINE, COPIED, LENT, MESSAGE, PUT, VALUE, address_of, message_out
from bsp.values.region import Region

needs_c = pytest.mark.skipif(not compiled.COMPILED, reason="the package was installed without a C compiler")
P = 5  # processes 0 and 1 are on the element that is tested, the others on the one that is played
OWNER = [0, 0, 1, 1, 1]
SIZES = (0, 8, 40)  # bytes of the coarrays of a process


class Peer:
    """A communicator of two elements; what element 1 sends in an exchange is made of what element 0 sends."""

    rank, size = 0, 2

    def __init__(self, packet: bytes, hint: int = 0, **changes: Any) -> None:
        self.packet, self.hint, self.changes = packet, hint, changes
        self.sent: list[tuple[Any, ...]] = []
        self.moved: list[Any] = []
        self.meanwhile: Any = lambda: None

    def Dup(self) -> Peer:
        return self

    def Barrier(self) -> None:
        pass

    def Alltoall(self, given: list[Any], taken: list[Any]) -> None:
        out, size, _ = given
        mine = unpack(out, size)
        self.sent.append((*mine._replace(clock=0.0), bytes(out[size + 64 : size + 64 + mine.inline])))
        into = bytearray(2 * size)
        longest = max(mine.row_max, len(self.packet))
        slots.fill(
            into, size, 0.0, mine.superstep, mine.digest, self.hint, {0: self.packet} if self.packet else {}, 0, False
        )
        header = unpack(into, 0)._replace(inline=len(self.packet), row_max=longest, **self.changes)
        into[:64] = header.pack()
        into[size : size + 64] = header.pack()
        self.meanwhile()
        taken[0][size:] = into[:size]

    def blocks(self, out: dict[int, list[Any]], into: dict[int, list[Any]], superstep: int) -> None:
        """Stand for the transport's exchange of blocks: those that come are of ones."""
        self.moved.append(({k: [bytes(b) for b in some] for k, some in out.items()}, superstep))
        for block in into.get(1, []):
            block[:] = 1


def element_beside(peer: Peer, posted: dict[int, list[Any]], hints: list[int]) -> Element:
    """Return an element whose two processes wait at a boundary."""
    element = Element(P, MpiTransport(peer))  # type: ignore[arg-type]
    element.transport.blocks = peer.blocks  # type: ignore[method-assign]
    element.host(lambda task: None)
    for task, hint in zip(element.tasks, hints, strict=True):
        proc = bsp.Process(task, task.contexts[0])
        for size in SIZES:
            proc.coarray(size, np.uint8)
        task.contexts[0].registered = len(SIZES)
        for channel in (0, 1):
            task.contexts[channel].outbox.effects += [
                effect for effect in posted.get(task.pid, []) if (effect[0] == VALUE) == channel
            ]
        task.call = Call("a call", digest("a call"), (task.contexts[0], task.contexts[1]), hint)
        task.state = WAITING
    return element


def seen(element: Element) -> Any:
    """Return everything that a boundary changes."""
    packed = {} if element.pool is None else element.pool.packed
    arrays = {k: (x.shape, x.dtype, x.tobytes()) for k, x in packed.items() if isinstance(x, np.ndarray)}
    return (
        element.superstep, element.hint, element.pool is None, list((packed | arrays).items()),
        [x.raw.tobytes() for task in element.tasks for x in task.contexts[0].coarrays if x is not None],
        [task.contexts[k].arrived for task in element.tasks for k in (0, 1)],
        [task.contexts[k].outbox.effects for task in element.tasks for k in (0, 1)],
        element.transport.slots.size, [tuple(h._replace(clock=0.0)) for h in element.transport.headers()],
    )  # fmt: skip


def counts(element: Element) -> Any:
    """Return what an element has recorded, but for times."""
    recorder = element.recorder
    assert recorder is not None
    assert recorder.superstep == len(recorder._work) == 1, "one superstep, and the work of the process alone"
    return recorder._single, recorder._multi


answers: list[tuple[int, int, bytes]] = []  # to gets: the process that asked, the place, and what came


def asking(source: int, owner: int, start: int) -> Any:
    """Return the record of a get of two bytes of the largest coarray."""
    coarray, region = SimpleNamespace(dtype=np.dtype(np.uint8)), Region((2,), start, start + 2)
    what = coarray, region, lambda values: answers.append((source, start, values.tobytes()))
    return ASK, owner, address_of(0, 2, source), start, description((2,), (1,), 1), what


@st.composite
def effects(draw: st.DrawFn, sources: list[int], dests: st.SearchStrategy[int]) -> dict[int, list[Any]]:
    """Draw puts, small gets, messages and values of some processes, by their source."""
    posted: dict[int, list[Any]] = {}
    for source in sources:
        for _ in range(draw(st.integers(0, 4))):
            dest = draw(dests)
            if draw(st.booleans()):
                kind, data = VALUE, draw(st.binary(max_size=30))
                other = draw(st.integers(0, 2))
                if other == 1:
                    kind, data = ARRAY, array_out(draw(hnp.arrays(float, 2)))
                elif other == 2:
                    data = message_out(b"tag", None, data)
                    posted.setdefault(source, []).append((MESSAGE, dest, address_of(1, 0, source), 0, data, None))
                    continue
                posted.setdefault(source, []).append((kind, dest, address_of(1, 0, source), P, data, None))
                continue
            if draw(st.booleans()):
                posted.setdefault(source, []).append(asking(source, dest, draw(st.integers(0, 7))))
                continue
            if draw(st.booleans()):
                data = number_of("add") + description((2,), (3,), 1) + draw(st.binary(min_size=2, max_size=2))
                record = COMBINE, dest, address_of(0, 2, source), draw(st.integers(0, 7)), data, None
                posted.setdefault(source, []).append(record)
                continue
            index = draw(st.integers(0, 2))
            start = draw(st.integers(0, SIZES[index]))
            data = draw(st.binary(max_size=SIZES[index] - start))
            kind = draw(st.sampled_from([PUT, PUT, LENT, COPIED]))
            given = data if kind == PUT else np.frombuffer(data, np.uint8)
            posted.setdefault(source, []).append((kind, dest, address_of(0, index, source), start, given, None))
    return posted


@needs_c
@given(
    effects([0, 1], st.integers(0, P - 1)), effects([2, 3, 4], st.integers(0, 1)),
    st.lists(st.integers(0, 9), min_size=3, max_size=3), st.booleans(),
)  # fmt: skip
def test_a_superstep_ends_as_in_python(
    posted: dict[int, list[Any]], theirs: dict[int, list[Any]], hints: list[int], recorded: bool
) -> None:
    packed = records.pack(list(theirs.values()), OWNER, 2, 1, 4096, {})
    assert packed is not None
    packet = packed.get(0, b"")
    if len(packet) > 256 - 64:
        packet = b""  # the slots are small in the first superstep
    found = []
    for quick in (False, True):
        kinds = {effect[0] for some in theirs.values() for effect in some} if packet else set()
        follows = (BLOCKS if kinds.intersection(records.BLOCKS) else 0) | (GET if ASK in kinds else 0)
        peer = Peer(packet, hints[2], flags=follows)
        answers.clear()
        element = element_beside(peer, posted, hints[:2])
        element._quick = quick
        if recorded:
            element.recorder = Recorder(P, 2, range(2), DEFAULT)
        sizes = [
            32 + (0 if effect[0] in records.BLOCKS else len(effect[4]))
            for some in posted.values()
            for effect in some
            if effect[0] in records.FOR_ALL or effect[1] > 1
        ]
        if sum(sizes) > 256 - 64:
            return  # they go outside the slot, and another exchange follows
        element.meet()
        found.append((seen(element), peer.sent, peer.moved, list(answers), recorded and counts(element)))
    assert len(answers) == sum(effect[0] == ASK for some in posted.values() for effect in some)
    assert found[0] == found[1]
    assert found[0][0][0] == 1
    assert len(found[0][1]) == 1, "one exchange"


@needs_c
def test_who_has_more_to_say_changes_nothing_before_the_general_way() -> None:
    put = PUT, 3, address_of(0, 1, 0), 0, b"12345678", None
    far = {0: [(PUT, 3, address_of(0, 2, 0), 0, bytes(40), None)] * 3}  # does not fit into a slot

    def ended(posted: dict[int, list[Any]], change: Any) -> tuple[Any, Element]:
        peer = Peer(b"")
        element = element_beside(peer, posted, [0, 0])
        change(element.tasks[1])
        before = [list(task.contexts[k].outbox.effects) for task in element.tasks for k in (0, 1)]
        answer = compiled.end_superstep(element, element.transport, 0.0)
        if answer is False:
            assert not peer.sent
            assert before == [task.contexts[k].outbox.effects for task in element.tasks for k in (0, 1)]
        return answer, element

    def set_(name: str, value: Any) -> Any:
        return lambda task: setattr(task, name, value)

    assert ended({0: [put]}, lambda task: None)[0] is True
    for change in (
        set_("state", "raised"),
        set_("fault", TypeError()),
        set_("call", Call("another", digest("another"), ())),
        lambda task: task.text.write(b"printed"),
        lambda task: task.contexts[0].releases.append(0),
        lambda task: setattr(task.contexts[0], "registered", 2),
        lambda task: task.contexts[1].outbox.effects.append(Send(1, (0,), 0, None, None, b"")),
    ):
        assert ended({0: [put]}, change)[0] is False
    assert ended(far, lambda task: None)[0] is False


@needs_c
def test_if_the_other_element_has_more_to_say_python_goes_on() -> None:
    put = PUT, 1, address_of(0, 1, 0), 0, b"12345678", None
    message = Packet()
    message.add(Send(3, (1,), 0, None, None, pickle.dumps("hello")), (1,))
    element = element_beside(Peer(message.encode()), {0: [put]}, [0, 0])
    assert compiled.end_superstep(element, element.transport, 0.0) == [[put]]
    element._end_superstep([[put]])
    assert element.tasks[1].contexts[0].coarrays[1].raw.tobytes() == b"12345678"
    assert [pickle.loads(arrived[3]) for arrived in element.tasks[1].contexts[0].arrived] == ["hello"]
    assert element.superstep == 1
    for change in ({"flags": 16}, {"superstep": 7}, {"digest": bytes(8)}):
        element = element_beside(Peer(b"", **change), {}, [0, 0])
        assert compiled.end_superstep(element, element.transport, 0.0) == []
        assert element.superstep == 0


@needs_c
def test_what_is_issued_while_packets_travel_waits() -> None:
    put = PUT, 1, address_of(0, 1, 0), 0, b"12345678", None
    peer = Peer(b"")
    element = element_beside(peer, {0: [put]}, [0, 0])
    box = element.tasks[0].contexts[0].outbox
    peer.meanwhile = lambda: box.effects.append(put)
    assert compiled.end_superstep(element, element.transport, 0.0) is True
    assert box.effects == [put]


@needs_c
def test_text_and_registrations_of_threads_while_packets_travel_wait() -> None:
    message = Packet()
    message.add(Send(3, (1,), 0, None, None, pickle.dumps("hello")), (1,))
    peer = Peer(message.encode())
    element = element_beside(peer, {}, [0, 0])
    task = element.tasks[1]

    def meanwhile() -> None:
        task.text.write(b"late")
        task.contexts[0].releases.append(0)

    peer.meanwhile = meanwhile
    element._quick = True
    element.meet()
    assert (element.superstep, len(peer.sent)) == (1, 1)
    assert task.text.getvalue() == b"late"
    assert task.contexts[0].releases == [0]


class Late:
    """An object that is part of a cycle; collected, it issues a put."""

    def __init__(self, box: Any, put: Any) -> None:
        self.box, self.put, self.itself = box, put, self

    def __del__(self) -> None:
        self.box.effects.append(self.put)


@pytest.fixture
def little_to_collect() -> Iterator[None]:
    """Hide the objects that are there from the collector, which looks at all of them in every run."""
    gc.freeze()
    yield
    gc.unfreeze()


@needs_c
@pytest.mark.usefixtures("little_to_collect")
@pytest.mark.parametrize("fits", [True, False])
def test_puts_of_finalizers_are_not_lost(fits: bool) -> None:
    """The collector may run wherever C makes an object."""
    put = PUT, 0, address_of(0, 2, 0), 0, bytes(8), None
    value = VALUE, 0, address_of(1, 0, 1), P, b"1" * (9 if fits else 200), None
    for more in range(25):  # objects that are made before the collector runs
        element = element_beside(Peer(b""), {0: [put] * 3, 1: [value] * 2}, [0, 0])
        box = element.tasks[0].contexts[0].outbox
        late = [(PUT, 0, address_of(0, 2, 0), 8 + k, b"2", None) for k in range(20)]
        kept = gc.get_threshold()
        gc.collect()
        for each in late:
            Late(box, each)
        try:
            gc.set_threshold(gc.get_count()[0] + more, 1, 1)
            answer = compiled.end_superstep(element, element.transport, 0.0)
        finally:
            gc.set_threshold(*kept)
        gc.collect()
        written = element.tasks[0].contexts[0].coarrays[2].raw[8:28].tobytes().count(b"2")
        assert answer is fits
        assert written + len([each for each in box.effects if each in late]) == len(late)
        assert fits or box.effects[:3] == [put] * 3


@needs_c
def test_an_exchange_that_fails_and_damaged_packets_raise() -> None:
    def broken() -> None:
        raise NotRegistered("broken")

    peer = Peer(b"")
    element = element_beside(peer, {}, [0, 0])
    peer.meanwhile = broken
    with pytest.raises(NotRegistered, match="broken"):
        compiled.end_superstep(element, element.transport, 0.0)
    put = records.pack([[(PUT, 1, address_of(0, 1, 3), 1, b"12345678", None)]], OWNER, 2, 1, 4096, {})
    assert put is not None
    for packet, said in ((put[0], "past its coarray"), (put[0][:20], "inside a record")):
        element = element_beside(Peer(packet), {}, [0, 0])
        with pytest.raises((IndexError, ValueError), match=said):
            compiled.end_superstep(element, element.transport, 0.0)


numbers = st.one_of(
    st.integers(-5, 5), st.floats(allow_nan=False), st.booleans(), st.complex_numbers(allow_nan=False, max_magnitude=9)
)


@needs_c
@given(st.lists(numbers, min_size=1, max_size=40), st.sampled_from(["add", "multiply", "logical_and", "max"]))
def test_trees_of_numbers_give_the_bytes_of_combine(values: list[Any], name: str) -> None:
    op = KNOWN[name]
    packed = {pid: pickle.dumps(value, 5) for pid, value in enumerate(values)}
    tree, prefixes = compiled.tree_of_plain(packed, op.scalar), compiled.prefixes_of_plain(packed, op.scalar, 1)
    try:
        expected = [combine(values[:count], op) for count in range(1, len(values) + 1)]
    except (TypeError, OverflowError):  # max of complex numbers
        assert tree is NotImplemented
        return
    if len(values) > 1:
        assert pickle.dumps(tree) == pickle.dumps(expected[-1])
    assert pickle.dumps(prefixes[1:]) == pickle.dumps(expected[1:])
    assert prefixes[0] == values[0]
    for least in (2, max(2, len(values)), len(values) + 1):
        assert pickle.dumps(compiled.prefixes_of_plain(packed, op.scalar, least)) == pickle.dumps(expected[least - 1 :])
    assert pickle.dumps(Prefixes(values, op).first(len(values))) == pickle.dumps(expected[-1])


@needs_c
@given(
    hnp.arrays(hnp.scalar_dtypes(), hnp.array_shapes(max_dims=3, min_side=0, max_side=4)).filter(is_small),
    st.integers(1, 9),
    st.sampled_from(["add", "multiply", "max", "and"]),
)
def test_trees_of_small_arrays_give_the_bytes_of_combine(array: np.ndarray, count: int, name: str) -> None:
    op, dtype = KNOWN[name], array.dtype
    values = [np.roll(array, k) for k in range(count)]
    given = {pid: bytearray(array_out(value) or b"") for pid, value in enumerate(values)}
    head = array_head(dtype.num, array.shape)
    with np.errstate(all="ignore"):
        found = compiled.tree_of_small(given, op.ufunc, head, array.shape, dtype)
        if not keeps(name, dtype):
            assert found is NotImplemented or count == 1 or found.dtype != dtype
            return
        expected = combine(values, op)
        if count > 1 and op.ufunc(array, array).dtype == dtype:
            assert (found.dtype, found.shape, found.tobytes()) == (dtype, array.shape, expected.tobytes())
            assert found.flags.owndata and found.flags.writeable
    assert all(value == bytearray(array_out(values[pid]) or b"") for pid, value in given.items())  # nothing is changed
    for other in (b"", b"1", head[:-1], bytearray(array_out(array[None]) or b""), array):
        damaged = {**given, count - 1: bytearray(other) if isinstance(other, bytes) else other}
        assert compiled.tree_of_small(damaged, op.ufunc, head, array.shape, dtype) is NotImplemented


@needs_c
def test_arrays_shorter_than_their_form_are_for_python() -> None:
    head = array_head(np.dtype(float).num, (3,))
    given = {0: bytearray(head + bytes(23)), 1: bytearray(head + bytes(24))}
    assert compiled.tree_of_small(given, np.add, head, (3,), np.dtype(float)) is NotImplemented
    with pytest.raises(TypeError, match="begin with bytes"):
        compiled.tree_of_small(given, np.add, None, (3,), np.dtype(float))


@needs_c
def test_other_values_are_for_python() -> None:
    for packed in ({0: pickle.dumps([1]), 1: pickle.dumps([2])}, {0: np.ones(2), 1: np.ones(2)}, {0: b"no pickle"}, {}):
        assert compiled.tree_of_plain(packed, operator.add) is NotImplemented
        assert compiled.prefixes_of_plain(packed, operator.add, 1) is NotImplemented
    mixed = {0: pickle.dumps(1), 1: pickle.dumps("a")}
    assert compiled.tree_of_plain(mixed, operator.add) is NotImplemented
    with pytest.raises(TypeError):
        compiled.tree_of_plain([1], operator.add)
    assert compiled.tree_of_small({}, np.add, b"", (1,), np.dtype(float)) is NotImplemented
    with pytest.raises(ValueError, match="prefixes of 0"):
        compiled.prefixes_of_plain({}, operator.add, 0)


@pytest.mark.parametrize("nprocs", [1, 2, 5])
@pytest.mark.parametrize("op", ["add", "min", "logical_or", "multiply", np.hypot, lambda a, b: a + b, "and"])
@pytest.mark.parametrize("value", [lambda k: k, lambda k: k % 2 == 1, lambda k: "ab"[k % 2], lambda k: np.int8(k)])
def test_the_second_call_of_a_reduction_gives_what_the_first_gave(op: Any, value: Any, nprocs: int) -> None:
    """The second takes a shorter way; so do scans."""

    def main(proc: bsp.Process) -> Any:
        found = []
        for _ in range(2):
            mine = value(proc.pid)
            found.append([proc.allreduce(mine, op), proc.scan(mine, op), proc.exscan(mine, op)])
        assert [list(map(type, some)) for some in found] == [list(map(type, found[0]))] * 2
        assert found[0] == found[1]
        return found[0]

    if op is np.hypot and isinstance(value(0), np.generic):
        with pytest.raises(bsp.errors.UnknownOperation, match="hypot of int8 values gives float16"):
            bsp.run(main, nprocs=nprocs)
        return
    try:
        expected = [combine([value(k) for k in range(count)], operation(op)) for count in range(1, nprocs + 1)]
    except TypeError:
        with pytest.raises(bsp.errors.ShapeError, match="do not combine"):
            bsp.run(main, nprocs=nprocs)
        return
    results = bsp.run(main, nprocs=nprocs)
    assert [row[0] for row in results] == [expected[-1]] * nprocs
    assert [row[1] for row in results] == expected
    assert [row[2] for row in results][1:] == expected[:-1]


class Counted:
    """A value that notes how often it is unpickled."""

    unpickled = 0

    def __init__(self, number: int) -> None:
        self.number = number

    def __setstate__(self, state: dict[str, int]) -> None:
        self.__dict__.update(state)
        Counted.unpickled += 1

    def __add__(self, other: Counted) -> Counted:
        return Counted(self.number + other.number)


def test_objects_are_unpickled_once_a_process() -> None:
    def main(proc: bsp.Process) -> list[int]:
        return [proc.allreduce(Counted(proc.pid), "add").number for _ in range(3)]

    Counted.unpickled = 0
    assert bsp.run(main, nprocs=3) == [[3] * 3] * 3
    assert Counted.unpickled <= 3 * 3 * 4  # an element looks once whether they are numbers


def test_a_reduction_that_is_asked_for_by_no_name_is_refused_in_every_call() -> None:
    def main(proc: bsp.Process) -> None:
        proc.allreduce(1)
        proc.allreduce(1, algorithm="")

    with pytest.raises(bsp.errors.UnknownAlgorithm):
        bsp.run(main, nprocs=2)


def test_a_prefix_does_not_depend_on_values_behind_it() -> None:
    """The last value fits into no float; nobody asks for its sum."""
    values = [1.5, 1.5, 1.5, 10**400]
    assert bsp.run(lambda proc: proc.exscan(values[proc.pid]), nprocs=4) == [0, 1.5, 3.0, 4.5]


def test_rows_of_numbers_are_checked_by_their_pickles() -> None:
    """Their text could be too long, and does not tell one NaN from another."""

    def main(proc: bsp.Process) -> list[int]:
        return proc.alltoall([10**5000 + proc.pid] * proc.nprocs)

    assert bsp.run(main, nprocs=2, check=True) == [[10**5000, 10**5000 + 1]] * 2


def test_a_put_that_is_copied_while_the_superstep_ends_waits_for_the_next() -> None:
    """A copy of a large block lets other threads run, and the process may end its superstep in one of them."""

    def main(proc: bsp.Process) -> list[float]:
        x, staging = proc.coarray(1 << 17), proc._task.element.staging
        proc.sync()
        copied, taken = staging.copy, []

        def copy(*given: Any) -> Any:
            taken.append(proc._context.outbox.take())
            return copied(*given)

        staging.copy = copy  # type: ignore[method-assign]
        try:
            x.put(0, np.ones(1 << 17))
        finally:
            staging.copy = copied  # type: ignore[method-assign]
        assert taken == [[]]
        proc.sync()
        return x.local[:2].tolist()

    assert bsp.run(main, nprocs=1) == [[1, 1]]


def test_text_that_is_printed_after_it_was_sent_waits() -> None:
    element = Element(P, MpiTransport(Peer(b"")))  # type: ignore[arg-type]
    element.host(lambda task: None)
    element.index = 1
    text = element.tasks[1].text
    assert text is not None
    text.write(b"sent")
    assert element.console.texts_for_packets() == [(1, b"sent")]
    text.write(b"late")
    element.console.show([])
    assert element.console.texts_for_packets() == [(1, b"late")]
    element.console.show([])
    element.console.show([])
    assert text.getvalue() == b""


def test_numbers_that_are_too_large_for_each_other_do_not_combine() -> None:
    def main(proc: bsp.Process) -> None:
        proc.allreduce([1.5, 10**400][proc.pid])

    with pytest.raises(bsp.errors.ShapeError, match="do not combine: int too large"):
        bsp.run(main, nprocs=2)
