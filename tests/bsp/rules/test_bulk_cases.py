"""The tests of Bulk (Buurlage, Bannink, Bisseling), case by case, as claims about this runtime.

Each docstring names the original section of Bulk's `test/*.cpp`.  A Bulk `var` is a coarray of one element
here, its `future` a Pending, its `queue` the inbox of a process or of a private handle.
"""

from __future__ import annotations

from operator import mul
from typing import Any

import numpy as np
import pytest
from tests_run import PROCESSES, SEVERAL, told_to_all

import bsp

PARTICLE = np.dtype([("id", np.int32), ("place", np.float64, 3), ("name", "S4")])
DTYPES = [
    "?", "i1", "u2", "i4", "u8", "f2", "f4", "f8", "c8", "c16", ">f8", "U5", "S3", "M8[s]", "m8[ms]", PARTICLE,
]  # fmt: skip


def sample(dtype: Any, pid: int, size: int) -> np.ndarray:
    """`size` values of a dtype that tell which process they come from."""
    dtype = np.dtype(dtype)
    numbers = (np.arange(size) * 3 + pid * 7) % 97
    if dtype.names:
        values = np.zeros(size, dtype)
        values["id"], values["name"] = numbers, numbers.astype("S4")
        values["place"] = numbers[:, None] + np.arange(3) / 4
        return values
    if dtype.kind == "c":
        return (numbers + 1j * pid).astype(dtype)
    return numbers.astype(dtype)


# ------------------------------------------------------------------------------------- communication


@pytest.mark.parametrize("nprocs", PROCESSES)
def test_a_variable_is_put_to_the_neighbour(run: Any, nprocs: int) -> None:
    """Bulk communication, "Put": x(next) = s; and its own copy has not changed before the sync."""

    def main(proc: bsp.Process) -> tuple[float, float]:
        x = proc.coarray(1, fill=-1)
        x[(proc.pid + 1) % proc.nprocs] = proc.pid
        before = x.local[0]
        proc.sync()
        return before, x.local[0]

    assert run(main, nprocs=nprocs) == [(-1.0, float((s - 1) % nprocs)) for s in range(nprocs)]


@pytest.mark.parametrize("nprocs", PROCESSES)
def test_a_variable_is_broadcast_by_puts(run: Any, nprocs: int) -> None:
    """Bulk communication, "Broadcast": x.broadcast(value), by hand and by the collective."""

    def main(proc: bsp.Process) -> tuple[list[float], float]:
        x = proc.coarray(proc.nprocs)
        for dest in range(proc.nprocs):
            x[dest, proc.pid] = 1.5 * proc.pid
        proc.sync()
        return x.local.tolist(), proc.broadcast(2.5 * proc.pid, root=proc.nprocs - 1)

    assert run(main, nprocs=nprocs) == [([1.5 * s for s in range(nprocs)], 2.5 * (nprocs - 1))] * nprocs


@pytest.mark.parametrize("nprocs", PROCESSES)
def test_a_put_from_supersteps_ago_is_there_and_a_later_one_is_not(run: Any, nprocs: int) -> None:
    """Bulk communication, "Delayed put": puts land at the next sync, each in its own superstep."""

    def main(proc: bsp.Process) -> list[float]:
        x = proc.coarray(1, fill=-1)
        proc.sync()
        seen = []
        for step in range(4):
            x[(proc.pid + 1) % proc.nprocs] = 10 * step + proc.pid
            seen.append(x.local[0])
            proc.sync()
        return [*seen, x.local[0]]

    for s, seen in enumerate(run(main, nprocs=nprocs)):
        left = (s - 1) % nprocs
        assert seen == [-1, left, 10 + left, 20 + left, 30 + left]


@pytest.mark.parametrize("nprocs", PROCESSES)
def test_a_future_keeps_what_it_read_through_later_supersteps(run: Any, nprocs: int) -> None:
    """Bulk communication, "Delayed get": a future may be looked at long after its sync."""

    def main(proc: bsp.Process) -> list[float]:
        x = proc.coarray(1)
        futures = []
        for step in range(4):
            x.local[0] = 10 * step + proc.pid
            futures.append(x[(proc.pid + 1) % proc.nprocs, 0])
            proc.sync()
        return [future.value for future in futures]

    expected = [[10.0 * step + (s + 1) % nprocs for step in range(4)] for s in range(nprocs)]
    assert run(main, nprocs=nprocs) == expected


@pytest.mark.parametrize("nprocs", PROCESSES)
def test_the_sugar_means_put_and_get(run: Any, nprocs: int) -> None:
    """Bulk communication, "Sugar": x(pid) = v and x(pid).get(); here x[pid, i] = v and x[pid, i].value."""

    def main(proc: bsp.Process) -> tuple[list[list[float]], list[list[float]], list[Any]]:
        right = (proc.pid + 1) % proc.nprocs
        sugar, plain = proc.coarray((3, 4)), proc.coarray((3, 4))
        value = proc.pid + 1.0
        sugar[right] = value
        plain.put(right, value)
        sugar[right, 0] = value + 10
        plain.put(right, value + 10, at=0)
        sugar[right, 1, 2] = value + 20
        plain.put(right, value + 20, at=(1, 2))
        sugar[right, 2, 1:3] = [value + 30, value + 31]
        plain.put(right, [value + 30, value + 31], at=(2, slice(1, 3)))
        sugar[right, ..., -1] = value + 40
        plain.put(right, value + 40, at=(..., -1))
        sugar[right, [1, 1], [0, 1]] = [value + 50, value + 51]
        plain.put(right, [value + 50, value + 51], at=([1, 1], [0, 1]))
        proc.sync()
        futures = [sugar[right], sugar[right, 0], sugar[right, 1, 2], sugar[right, 2, 1:3], sugar[right, [2, 0], 1]]
        proc.sync()
        return sugar.local.tolist(), plain.local.tolist(), [future.value.tolist() for future in futures]

    def held(s: int) -> np.ndarray:
        x = np.full((3, 4), (s - 1) % nprocs + 1.0)
        v = x[0, 0]
        x[0] += 10
        x[1, :2], x[1, 2], x[2, 1:3] = [v + 50, v + 51], v + 20, [v + 30, v + 31]
        x[:, -1] = v + 40
        return x

    for s, (sugar, plain, got) in enumerate(run(main, nprocs=nprocs)):
        assert sugar == plain == held(s).tolist()
        x = held((s + 1) % nprocs)
        assert got == [x.tolist(), x[0].tolist(), x[1, 2], x[2, 1:3].tolist(), x[[2, 0], 1].tolist()]


@pytest.mark.parametrize("nprocs", PROCESSES)
def test_put_and_get_to_oneself_follow_the_same_rules(run: Any, nprocs: int) -> None:
    """Bulk communication, "Put to self", "Get from self": no shortcut past the sync."""

    def main(proc: bsp.Process) -> tuple[float, float, float, bool]:
        x = proc.coarray(1, fill=proc.pid)
        x[proc.pid, 0] = 50.0 + proc.pid
        future = x[proc.pid, 0]
        before, ready = x.local[0], future.ready
        proc.sync()
        return before, x.local[0], future.value, ready

    assert run(main, nprocs=nprocs) == [(float(s), 50.0 + s, float(s), False) for s in range(nprocs)]


@pytest.mark.parametrize("nprocs", PROCESSES)
def test_gets_and_puts_play_nice_together(run: Any, nprocs: int) -> None:
    """Bulk communication, "Get and put play nice together": gets read before puts write, issued in either order."""

    def main(proc: bsp.Process) -> tuple[float, float, float]:
        right = (proc.pid + 1) % proc.nprocs
        x = proc.coarray(1, fill=proc.pid)
        proc.sync()
        early = x[right, 0]
        x[right, 0] = 100.0 + proc.pid
        late = x[right, 0]
        proc.sync()
        return early.value, late.value, x.local[0]

    for s, (early, late, held) in enumerate(run(main, nprocs=nprocs)):
        assert early == late == (s + 1) % nprocs
        assert held == 100 + (s - 1) % nprocs


@pytest.mark.parametrize("nprocs", PROCESSES)
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("size", [1, 37, 9000])
def test_every_dtype_travels_by_put_get_and_message(run: Any, nprocs: int, dtype: Any, size: int) -> None:
    """Bulk communication, "Put and get non-int", "custom struct", "string": bit for bit, the dtype kept."""
    dtype = np.dtype(dtype)

    def main(proc: bsp.Process) -> list[bool]:
        s, p = proc.pid, proc.nprocs
        x = proc.register(np.zeros(size + 2, dtype))
        y = proc.register(sample(dtype, s, size))
        left, right = (s - 1) % p, (s + 1) % p
        values = sample(dtype, s, size)
        whole, one, each = y[right], y[right, 0], y.get_each(right, np.arange(size)[::-1])
        x.put(right, values, at=slice(0, size))
        x.put(right, values[-1], at=size)
        x.put_each(right, [size + 1], values[:1])
        proc.send(right, values)
        proc.send(right, values[0])
        proc.sync()
        theirs, mine = sample(dtype, right, size), sample(dtype, left, size)
        array, scalar = (message.payload for message in proc.inbox)
        return [
            same(x.local, np.concatenate([mine, mine[-1:], mine[:1]]).astype(dtype)),
            same(whole.value, theirs),
            same(np.asarray(one.value), theirs[0]),
            same(each.value, theirs[::-1]),
            same(array, mine),
            same(np.asarray(scalar), mine[0]),
        ]

    def same(a: np.ndarray, b: np.ndarray) -> bool:
        return np.asarray(a).shape == np.asarray(b).shape and bool(np.all(a == b)) and array_kind(a) == array_kind(b)

    def array_kind(a: np.ndarray) -> tuple[str, Any]:
        # a scalar has the native byte order, whatever the array's was
        return (a.dtype.kind, a.dtype.itemsize) if a.ndim == 0 else (a.dtype.str, a.dtype.fields)

    assert run(main, nprocs=nprocs) == [[True] * 6] * nprocs


@pytest.mark.parametrize("nprocs", PROCESSES)
def test_fields_of_a_structure_are_set_together(run: Any, nprocs: int) -> None:
    """Bulk communication, "custom struct": one record put by value, one field read back."""

    def main(proc: bsp.Process) -> tuple[int, list[float], bytes]:
        x = proc.coarray(2, dtype=PARTICLE)
        record = np.array((proc.pid, [0.5, 1.5, 2.5 + proc.pid], b"ab"), PARTICLE)
        x.put((proc.pid + 1) % proc.nprocs, record, at=1)
        proc.sync()
        future = x[proc.pid, 1]
        proc.sync()
        got = future.value
        assert x.local[0] == np.zeros(1, PARTICLE)[0]
        return int(got["id"]), got["place"].tolist(), bytes(got["name"])

    for s, got in enumerate(run(main, nprocs=nprocs)):
        left = (s - 1) % nprocs
        assert got == (left, [0.5, 1.5, 2.5 + left], b"ab")


@pytest.mark.parametrize("nprocs", PROCESSES)
@pytest.mark.parametrize(
    ("values", "dtype", "fits"),
    [
        (1.5, int, False), (1j, float, False), (np.float64(2), np.int32, False), ("x", float, False),
        (300, np.uint8, False), (-1, np.uint8, False), (2, bool, False), ([1, None], float, False),
        (255, np.uint8, True), (1, float, True), (True, int, True), (1.5, complex, True),
        (np.float64(0.5), np.float32, True), (np.int64(3), np.int8, True), ([], int, True),
    ],
    ids=str,
)  # fmt: skip
def test_values_cast_within_their_kind_or_are_refused(
    run: Any, nprocs: int, values: Any, dtype: Any, fits: bool
) -> None:
    """Bulk: a var<T> takes a T, at compile time.  Ours: what casts 'same_kind', and Python numbers that fit (B4)."""

    def main(proc: bsp.Process) -> tuple[str, list[Any]]:
        x = proc.coarray(1, dtype=dtype)
        proc.sync()
        said = ""
        try:
            x.put((proc.pid + 1) % proc.nprocs, values, at=slice(0, min(np.size(values), 1)))
        except bsp.CastError as error:
            said = str(error)
        proc.sync()
        return said, x.local.tolist()

    for said, held in run(main, nprocs=nprocs):
        assert (said == "") == fits
        assert fits or "put of" in said
        assert fits or str(np.dtype(dtype)) in said
        assert held == (np.full(1, values, dtype).tolist() if fits and np.size(values) else [0])


@pytest.mark.parametrize("nprocs", PROCESSES)
def test_several_variables_of_several_types_do_not_mix(run: Any, nprocs: int) -> None:
    """Bulk communication, "Multiple variables": matched by the order in which they are made."""

    def main(proc: bsp.Process) -> list[Any]:
        right = (proc.pid + 1) % proc.nprocs
        a, b = proc.coarray(1, dtype=int), proc.coarray(1, dtype=complex)
        a[right, 0] = proc.pid
        c = proc.coarray((2, 2), dtype=bool)
        b[right, 0] = 1j * proc.pid
        c[right, 1] = True
        proc.sync()
        d = proc.coarray(1, dtype=int)
        d[right, 0] = -proc.pid
        a[right, 0] = proc.pid + 7
        proc.sync()
        return [variable.local.tolist() for variable in (a, b, c, d)]

    for s, held in enumerate(run(main, nprocs=nprocs)):
        left = (s - 1) % nprocs
        assert held == [[left + 7], [1j * left], [[False, False], [True, True]], [-left]]


@pytest.mark.parametrize("nprocs", SEVERAL)
def test_unequal_numbers_of_variables_are_told_to_all_at_the_boundary(run: Any, nprocs: int) -> None:
    """Bulk communication, "unequal numbers of variables per rank".  Ours: a mistake, named with both processes."""

    def main(proc: bsp.Process) -> None:
        for _ in range(proc.pid + 1):
            proc.coarray(1)
        proc.sync()

    error = told_to_all(run, main, nprocs)
    assert type(error) is bsp.RegistrationMismatch
    assert "process 0 has registered 1 coarray(s) and process 1 2" in str(error)
    assert "(test_bulk_cases.py:" in str(error)
    assert "on process 1 has no partner, superstep 0)" in str(error)


@pytest.mark.parametrize("nprocs", PROCESSES)
def test_a_process_that_needs_no_variable_makes_an_empty_one(run: Any, nprocs: int) -> None:
    """Bulk communication, "unequal numbers of variables": how to say it here; and dropping a handle is no release."""

    def main(proc: bsp.Process) -> list[float]:
        scratch = [proc.coarray(1 if k <= proc.pid else 0) for k in range(proc.nprocs)]
        last = scratch[-1]
        proc.sync()
        for k, x in enumerate(scratch):
            for dest in range(k, proc.nprocs):
                x.put(dest, 1, at=0, op="add")
        if proc.pid % 2:
            scratch.clear()
            del x
        proc.sync()
        last.put(proc.nprocs - 1, 1, at=0, op="add")
        proc.sync()
        return last.local.tolist()

    assert run(main, nprocs=nprocs) == [[]] * (nprocs - 1) + [[2.0 * nprocs]]


# ------------------------------------------------------------------------------------------ coarrays


@pytest.mark.parametrize("nprocs", PROCESSES)
def test_a_coarray_has_a_size_a_local_image_and_remote_images(run: Any, nprocs: int) -> None:
    """Bulk coarray, "Coarray": size, local write, remote write, iteration over the local image."""

    def main(proc: bsp.Process) -> tuple[Any, ...]:
        x = proc.coarray(10, dtype=int, fill=1)
        x.local[5] = proc.pid
        x[(proc.pid + 1) % proc.nprocs, 2] = proc.pid + 100
        proc.sync()
        return x.shape, str(x.dtype), len(x.local), [int(value) for value in x.local], x.shape_on(0)

    for s, found in enumerate(run(main, nprocs=nprocs)):
        left = (s - 1) % nprocs
        assert found == ((10,), "int64", 10, [1, 1, left + 100, 1, 1, s, 1, 1, 1, 1], (10,))


@pytest.mark.parametrize("nprocs", PROCESSES)
def test_an_external_buffer_is_written_in_place(run: Any, nprocs: int) -> None:
    """Bulk coarray, "external buffer": the array of the caller's own is what the others write to."""

    def main(proc: bsp.Process) -> tuple[bool, list[float]]:
        buffer = np.zeros((2, 3))
        row = buffer[1]
        x = proc.register(buffer)
        proc.sync()
        x[(proc.pid + 1) % proc.nprocs, 1] = [1, 2, proc.pid]
        proc.sync()
        return x.local is buffer, row.tolist()

    for s, (itself, row) in enumerate(run(main, nprocs=nprocs)):
        assert itself, "Process.register: `local` is that very array"
        assert row == [1, 2, (s - 1) % nprocs]


SLICES = [
    slice(None), slice(2, 5), slice(None, 3), slice(-3, None), slice(0, 10, 3), slice(None, None, -1),
    slice(8, 1, -2), slice(4, 4), slice(7, 2), [3, 1, 9], [-1, 0], [], np.array([True, False] * 5),
]  # fmt: skip


@pytest.mark.parametrize("nprocs", PROCESSES)
@pytest.mark.parametrize("at", SLICES, ids=str)
@pytest.mark.parametrize("registered_now", [False, True])
def test_slices_of_a_coarray_are_put_and_got_like_numpys(run: Any, nprocs: int, at: Any, registered_now: bool) -> None:
    """Bulk coarray, "Coarray slicing", "spans", "get slice": a value for all, a value for each, and read back."""

    def main(proc: bsp.Process) -> tuple[list[int], list[int], list[int]]:
        right = (proc.pid + 1) % proc.nprocs
        one, each = proc.coarray(10, dtype=int), proc.coarray(10, dtype=int)
        source = proc.register(np.arange(10) + 10 * proc.pid)
        count = len(np.arange(10)[at])
        if not registered_now:
            proc.sync()
        future = source[right, at]
        one[right, at] = 5 + proc.pid
        each[right, at] = np.arange(count) + 20 * proc.pid
        proc.sync()
        return one.local.tolist(), each.local.tolist(), future.value.tolist()

    for s, (one, each, got) in enumerate(run(main, nprocs=nprocs)):
        left, right = (s - 1) % nprocs, (s + 1) % nprocs
        flat, ranged = np.zeros(10, int), np.zeros(10, int)
        flat[at] = 5 + left
        ranged[at] = np.arange(len(ranged[at])) + 20 * left
        assert one == flat.tolist()
        assert each == ranged.tolist()
        assert got == (np.arange(10) + 10 * right)[at].tolist()


@pytest.mark.parametrize("nprocs", PROCESSES)
@pytest.mark.parametrize("equal", [True, False])
def test_slices_from_all_to_all(run: Any, nprocs: int, equal: bool) -> None:
    """Bulk coarray, "all-to-all slices", equal and unequal: process s gives s + 1 words to each, or 3."""

    def start(source: int) -> int:
        return 3 * source if equal else source * (source + 1) // 2

    def main(proc: bsp.Process) -> list[int]:
        x = proc.coarray(start(proc.nprocs), dtype=int, fill=-1)
        proc.sync()
        for dest in range(proc.nprocs):
            size = start(proc.pid + 1) - start(proc.pid)
            x[dest, start(proc.pid) : start(proc.pid + 1)] = 100 * proc.pid + 10 * dest + np.arange(size)
        proc.sync()
        return x.local.tolist()

    expected = [
        [100 * source + 10 * s + k for source in range(nprocs) for k in range(start(source + 1) - start(source))]
        for s in range(nprocs)
    ]
    assert run(main, nprocs=nprocs) == expected


@pytest.mark.parametrize("nprocs", PROCESSES)
def test_values_that_do_not_fit_the_slice_are_refused_at_the_call(run: Any, nprocs: int) -> None:
    """Bulk coarray slicing: a span of another size (undefined there)."""

    def main(proc: bsp.Process) -> tuple[list[str], float]:
        x = proc.coarray((4, 3))
        proc.sync()
        right = (proc.pid + 1) % proc.nprocs
        said = []
        for at, values in ((0, [1.0, 2.0]), ((slice(0, 2), 1), np.ones(3)), (..., np.ones((3, 4))), ((0, 0), [1, 2])):
            try:
                x.put(right, values, at=at)
            except bsp.ShapeError as error:
                said.append(str(error))
        proc.sync()
        return said, x.local.sum()

    for said, total in run(main, nprocs=nprocs):
        regions = ["(2,) into a region of shape (3,)", "(3,) into a region of shape (2,)",
                   "(3, 4) into a region of shape (4, 3)", "(2,) into a region of shape ()"]  # fmt: skip
        assert len(said) == 4
        for text, fragment in zip(said, regions, strict=True):
            assert f"put of values of shape {fragment} of 'x'" in text
            assert "they do not broadcast" in text
            assert ("at=slice(" in text) == (fragment == regions[-1])
        assert total == 0


# ------------------------------------------------------------------------------------------ messages


PAYLOADS = [
    1, -(2**70), 1.5, "text", "", b"bytes", None, True, (1, "two", 3.0), [1, [2, [3]]], {"key": {1, 2}}, 2 + 1j,
    frozenset({1}), ..., range(3), slice(1, 2),
]  # fmt: skip


@pytest.mark.parametrize("nprocs", PROCESSES)
def test_single_self_and_multiple_messages(run: Any, nprocs: int) -> None:
    """Bulk messages, "Message passing": one to the neighbour, one to oneself, several to one process."""

    def main(proc: bsp.Process) -> list[list[tuple[int, Any]]]:
        seen = []
        proc.send((proc.pid + 1) % proc.nprocs, 1234)
        proc.sync()
        seen.append([(m.source, m.payload) for m in proc.inbox])
        proc.send(proc.pid, 5678)
        proc.sync()
        seen.append([(m.source, m.payload) for m in proc.inbox])
        for k in range(3):
            proc.send(0, (proc.pid, k))
        proc.sync()
        seen.append([(m.source, m.payload) for m in proc.inbox])
        return seen

    for s, (single, own, multiple) in enumerate(run(main, nprocs=nprocs)):
        assert single == [((s - 1) % nprocs, 1234)]
        assert own == [(s, 5678)]
        assert multiple == ([(o, (o, k)) for o in range(nprocs) for k in range(3)] if s == 0 else [])


def test_what_cannot_be_pickled_is_named_as_payload_or_as_tag(run: Any) -> None:
    def main(proc: bsp.Process) -> None:
        with pytest.raises(bsp.CannotSend, match="send to process 1 of function: "):
            proc.send(1, lambda: 0)
        for payload in (3, np.ones(2)):
            with pytest.raises(bsp.CannotSend, match="send to process 1 of a function as tag: "):
                proc.send(1, payload, tag=lambda: 0)
        proc.sync()
        assert proc.inbox == []

    run(main, nprocs=2)


@pytest.mark.parametrize("nprocs", PROCESSES)
def test_messages_of_every_type_in_one_superstep(run: Any, nprocs: int) -> None:
    """Bulk messages, "multiple types", "string and array components": what is sent is what arrives."""

    def main(proc: bsp.Process) -> list[tuple[str, str, Any]]:
        for payload in PAYLOADS:
            proc.send((proc.pid + 1) % proc.nprocs, payload, tag=payload if payload != {"key": {1, 2}} else "dict")
        proc.sync()
        return [(repr(m.payload), type(m.payload).__name__, repr(m.tag)) for m in proc.inbox]

    expected = [
        (repr(payload), type(payload).__name__, repr(payload) if payload != {"key": {1, 2}} else "'dict'")
        for payload in PAYLOADS
    ]
    assert run(main, nprocs=nprocs) == [expected] * nprocs


@pytest.mark.parametrize("nprocs", PROCESSES)
@pytest.mark.parametrize("words", [3, 6000])
def test_arrays_inside_messages_and_arrays_of_odd_layout_arrive_equal(run: Any, nprocs: int, words: int) -> None:
    """Bulk messages, "array components": alone, inside a tuple, transposed, strided, 0-d, masked, of objects."""

    def build(pid: int) -> list[Any]:
        base = np.arange(2.0 * words).reshape(2, words) + pid
        return [
            base, base.T, base[:, ::-2], base[0, 1:], np.array(7 + pid), base.astype(">i4"),
            np.array([pid, None, "x"], object), (base, {"row": base[0]}),
        ]  # fmt: skip

    def main(proc: bsp.Process) -> list[bool]:
        for payload in build(proc.pid):
            proc.send((proc.pid + 1) % proc.nprocs, payload)
        proc.send((proc.pid + 1) % proc.nprocs, np.ma.masked_greater(np.arange(5) + proc.pid, 2))
        proc.sync()
        *arrays, nested, masked = (message.payload for message in proc.inbox)
        left = (proc.pid - 1) % proc.nprocs
        *wanted, (whole, row) = build(left)
        return [
            *(a.dtype == b.dtype and a.shape == b.shape and np.array_equal(a, b)
              for a, b in zip(arrays, wanted, strict=True)),
            all(a.flags.c_contiguous and a.flags.aligned and a.flags.writeable for a in arrays),
            np.array_equal(nested[0], whole) and np.array_equal(nested[1]["row"], row["row"]),
            isinstance(masked, np.ma.MaskedArray) and masked.mask.tolist() == [k + left > 2 for k in range(5)],
        ]  # fmt: skip

    results = run(main, nprocs=nprocs)
    assert results == [[True] * 10] * nprocs


@pytest.mark.parametrize("nprocs", PROCESSES)
def test_several_queues_are_private_handles_each_emptied_by_its_own_sync(run: Any, nprocs: int) -> None:
    """Bulk messages, "multiple queues".  Ours: a tag tells messages apart; a private handle is a queue of its own."""

    def main(proc: bsp.Process) -> list[list[Any]]:
        numbers, words = proc.private(), proc.private()
        right = (proc.pid + 1) % proc.nprocs
        numbers.send(right, proc.pid)
        words.send(right, f"from {proc.pid}")
        proc.send(right, "mine", tag="t")
        seen = []
        for handle in (numbers, words, proc):
            handle.sync()
            seen.append([[m.payload for m in queue.inbox] for queue in (numbers, words, proc)])
        numbers.sync()
        seen.append([[m.payload for m in queue.inbox] for queue in (numbers, words, proc)])
        return seen

    for s, seen in enumerate(run(main, nprocs=nprocs)):
        left = (s - 1) % nprocs
        assert seen == [
            [[left], [], []],
            [[left], [f"from {left}"], []],
            [[left], [f"from {left}"], ["mine"]],
            [[], [f"from {left}"], ["mine"]],
        ]


@pytest.mark.parametrize("nprocs", PROCESSES)
def test_the_queue_is_cleared_by_every_sync(run: Any, nprocs: int) -> None:
    """Bulk messages, "clear_queues": cleared unless asked otherwise.  Ours: a new list; keep the old one at will."""

    def main(proc: bsp.Process) -> list[list[int]]:
        kept = []
        for step in range(3):
            proc.send((proc.pid + 1) % proc.nprocs, step)
            proc.sync()
            kept.append(proc.inbox)
        proc.sync()
        return [[m.payload for m in inbox] for inbox in [*kept, proc.inbox]]

    assert run(main, nprocs=nprocs) == [[[0], [1], [2], []]] * nprocs


# ---------------------------------------------------------------------------------- folds, sub-worlds


@pytest.mark.parametrize("nprocs", [*PROCESSES, 12])
def test_folds_over_all_processes(run: Any, nprocs: int) -> None:
    """Bulk algorithm, "foldl", "min", "max", "sum", "product": by name, by function, of numbers and of words."""

    def main(proc: bsp.Process) -> list[Any]:
        value = (proc.pid * 5 + 3) % 7 + 1
        return [
            proc.allreduce(value),
            proc.allreduce(value, "min"),
            proc.allreduce(value, "max"),
            proc.allreduce(value, "multiply"),
            proc.allreduce(value, mul),
            proc.allreduce(value, lambda a, b: a + b),
            proc.allreduce(str(value), lambda a, b: a + b),
            proc.allreduce([value]),
            proc.allreduce((value, proc.pid), max),
            proc.allreduce(value > 1, "logical_and"),
        ]

    values = [(s * 5 + 3) % 7 + 1 for s in range(nprocs)]
    product = 1
    for value in values:
        product *= value
    expected: list[Any] = [sum(values), min(values), max(values), product, product, sum(values)]
    expected += ["".join(map(str, values)), values, max((v, s) for s, v in enumerate(values)), min(values) > 1]
    assert run(main, nprocs=nprocs) == [expected] * nprocs


@pytest.mark.parametrize("nprocs", PROCESSES)
@pytest.mark.parametrize("size", [0, 1, 10, 5000])
def test_folds_of_each_element(run: Any, nprocs: int, size: int) -> None:
    """Bulk algorithm, "foldl_each": elementwise over the images of a coarray; the images stay as they are."""

    def main(proc: bsp.Process) -> list[bool]:
        x = proc.register((np.arange(size) * 3 + proc.pid * 5) % 11)
        before = x.local.copy()
        found = [proc.allreduce(x.local, op) for op in ("add", "max", np.minimum)]
        images = [(np.arange(size) * 3 + s * 5) % 11 for s in range(proc.nprocs)]
        wanted = [np.add.reduce(images), np.maximum.reduce(images), np.minimum.reduce(images)]
        return [
            np.array_equal(x.local, before),
            *(np.array_equal(a, b) and a.dtype == b.dtype for a, b in zip(found, wanted, strict=True)),
        ]

    assert run(main, nprocs=nprocs) == [[True] * 4] * nprocs


@pytest.mark.parametrize("nprocs", PROCESSES)
def test_accumulating_puts_fold_at_the_owner(run: Any, nprocs: int) -> None:
    """Bulk algorithm, "foldl" over coarray images, as puts with op: every put counts, every repeat counts."""

    def main(proc: bsp.Process) -> list[int]:
        x = proc.coarray(4, dtype=int, fill=2)
        proc.sync()
        for dest in range(proc.nprocs):
            x.put(dest, proc.pid, at=0, op="add")
            x.put(dest, 10 - proc.pid, at=1, op="min")
            x.put_each([dest] * 3, [2, 2, 3], [1, 1, proc.pid], op="add")
        proc.sync()
        return x.local.tolist()

    total = nprocs * (nprocs - 1) // 2
    assert run(main, nprocs=nprocs) == [[2 + total, 2, 2 + 2 * nprocs, 2 + total]] * nprocs


@pytest.mark.parametrize("nprocs", [*PROCESSES, 12])
def test_a_split_world_works_in_parts(run: Any, nprocs: int) -> None:
    """Bulk world, "split" (rank reorder, get, put).  Ours: `group=` names the members, in the order that counts."""

    def main(proc: bsp.Process) -> tuple[list[int], int, Any]:
        part = [pid for pid in reversed(range(proc.nprocs)) if pid % 2 == proc.pid % 2]
        members = proc.allgather(proc.pid, group=part)
        upto = proc.scan(1, group=part)
        x = proc.coarray(1, dtype=int, fill=proc.pid)
        neighbour = part[(part.index(proc.pid) + 1) % len(part)]
        future = x[neighbour, 0]
        x[neighbour, 0] = 100 + proc.pid
        proc.sync()
        return members, upto, (future.value, x.local[0])

    for s, (members, upto, (got, held)) in enumerate(run(main, nprocs=nprocs)):
        part = [pid for pid in reversed(range(nprocs)) if pid % 2 == s % 2]
        rank = part.index(s)
        assert members == part
        assert upto == rank + 1
        assert got == part[(rank + 1) % len(part)]
        assert held == 100 + part[(rank - 1) % len(part)]
