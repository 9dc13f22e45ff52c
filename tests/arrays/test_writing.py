"""Assignments to computed arrays happen at once and in place, and nothing that was read before changes with them."""

from __future__ import annotations

import gc
from math import prod
from typing import Any

import numpy as np
import pytest
from expressions import PROCESSES, grids, nothing_replicated, shapes
from hypothesis import given
from hypothesis import strategies as st
from thinning import examples

import bsp
import bsp.arrays as ba
from bsp.arrays.execution import memory
from bsp.arrays.expressions.graph import LEAF

N = 1000


def places(x: Any) -> list[int]:
    """Return where this process's blocks of a computed array are in memory."""
    assert x._node.op is LEAF
    return [block.ctypes.data for block in x._node.value.values()]


def ran(p: int, main: Any) -> None:
    """Run `main(x)` as p processes, on a vector of 0, 1, 2, ... dealt to all, and compare the vector it returns."""

    def body(proc: bsp.Process) -> None:
        theirs = main(ba.arange(float(N), grid=(p,)), proc)
        mine = np.arange(float(N))
        if theirs is not None:
            x, change = theirs
            change(mine)
            np.testing.assert_array_equal(x.compute(), mine)

    bsp.run(body, nprocs=p)


ASSIGNED: dict[str, tuple[Any, Any]] = {
    "number": (7, 1.0),
    "slice": (slice(3, 900, 2), 4.0),
    "backwards": (slice(990, 2, -7), np.arange(142.0)),
    "list": (slice(0, 3), [1, 2, 3]),
    "other dtype": (slice(0, 500), np.arange(500, dtype=np.int16)),
    "extra axes": (slice(0, 4), np.ones((1, 1, 4))),
    "all": (slice(None), 2),
    "none": (slice(5, 5), 3.0),
    "ellipsis": (..., np.float32(0.5)),
    "positions": (np.array([1, -5, 1, 700]), np.array([1.0, 2.0, 3.0, 4.0])),
    "list of positions": ([999, 0], 8.0),
    "mask": (np.arange(N) % 7 == 3, 9.0),
}


@pytest.mark.parametrize("p", [1, 2, 3])
@pytest.mark.parametrize("name", list(ASSIGNED))
def test_an_assignment_writes_into_the_blocks_and_ends_no_superstep(name: str, p: int) -> None:
    key, value = ASSIGNED[name]

    def main(x: Any, proc: bsp.Process) -> Any:
        before, superstep = places(x), proc.superstep
        x[key] = value
        assert (places(x), proc.superstep) == (before, superstep)
        return x, lambda mine: mine.__setitem__(key, value)

    ran(p, main)


@pytest.mark.parametrize("p", [1, 2, 3])
def test_a_computed_mask_dealt_like_the_array_writes_in_place(p: int) -> None:
    def main(x: Any, proc: bsp.Process) -> Any:
        mask = (x % 3 == 1).persist()
        before, superstep = places(x), proc.superstep
        x[mask] = -1.0
        assert (places(x), proc.superstep) == (before, superstep)
        return x, lambda mine: mine.__setitem__(mine % 3 == 1, -1.0)

    ran(p, main)


@pytest.mark.parametrize("p", [1, 2])
def test_accumulating_at_positions_writes_in_place(p: int) -> None:
    def main(x: Any, proc: bsp.Process) -> Any:
        before = places(x)
        np.add.at(x, [3, 3, 990], 0.5)
        assert places(x) == before
        return x, lambda mine: np.add.at(mine, [3, 3, 990], 0.5)

    ran(p, main)


READERS: dict[str, Any] = {
    "result": lambda x: x.compute(),
    "blocks": lambda x: x.to_local(),
    "expression": lambda x: x * 1.0,
    "copy": lambda x: x.copy(),
    "pending sum": lambda x: x[3:].sum(),
    "computed reverse": lambda x: x[::-1].copy().persist(),
}


@pytest.mark.parametrize("p", [1, 2])
@pytest.mark.parametrize("name", list(READERS))
def test_what_was_read_before_an_assignment_stays_and_one_copy_is_made(name: str, p: int) -> None:
    def main(x: Any, proc: bsp.Process) -> Any:
        def values() -> Any:
            if isinstance(reader, dict):
                return [block.tolist() for block in reader.values()]
            return (reader.compute() if isinstance(reader, ba.Array) else reader).tolist()

        reader = READERS[name](ba.arange(float(N), grid=(p,)))
        expected = values()
        reader = READERS[name](x)
        x[10] = -3.0
        after = places(x)
        x[11] = -4.0
        x[[12, 13]] = -5.0
        assert places(x) == after  # the first assignment has made a copy, if one was needed
        assert values() == expected
        return x, lambda mine: mine.__setitem__(slice(10, 14), [-3.0, -4.0, -5.0, -5.0])

    ran(p, main)


@pytest.mark.parametrize("p", [1, 2, 3])
def test_an_assignment_through_a_view_is_in_place_and_shows_in_the_whole_family(p: int) -> None:
    def main(x: Any, proc: bsp.Process) -> Any:
        view, other = x[100::3], x[90:]
        before = places(x)
        view[::-1][2] = 5.0
        view[:4] = [1.0, 2.0, 3.0, 4.0]
        assert places(x) == before
        assert other[[10, 13, 16, 19]].compute().tolist() == [1.0, 2.0, 3.0, 4.0]

        def change(mine: Any) -> None:
            mine[100::3][::-1][2] = 5.0
            mine[100::3][:4] = [1.0, 2.0, 3.0, 4.0]

        return x, change

    ran(p, main)


def test_a_view_that_was_computed_itself_takes_part() -> None:
    def main(x: Any, proc: bsp.Process) -> Any:
        view, table = x[100:200].persist(), x.reshape(50, 20)
        row = table[7].persist()
        view[5] = -1.0
        row[3] = -2.0
        x[101] = -3.0
        table[0, 0] = -4.0
        assert [float(view[k]) for k in (1, 5, 43)] == [-3.0, -1.0, -2.0]
        return x, lambda mine: mine.__setitem__([105, 143, 101, 0], [-1.0, -2.0, -3.0, -4.0])

    for p in (1, 2):
        ran(p, main)


def test_processes_that_assign_differently_meet_a_mismatch() -> None:
    def main(proc: bsp.Process) -> None:
        x = ba.zeros(N, grid=(2,))
        x[proc.pid] = 1.0
        x.sum().compute()

    with pytest.raises(bsp.SyncMismatch, match=r"sum\(x0\) at test_writing.py.* same values to its arrays"):
        bsp.run(main, nprocs=2)


def test_a_procedure_that_exchanges_finds_other_assignments_too() -> None:
    def main(proc: bsp.Process) -> None:
        x = ba.arange(float(N), grid=(2,))
        x[5] = float(proc.pid)
        ba.sort(x)

    with pytest.raises(bsp.SyncMismatch, match="same values to its arrays"):
        bsp.run(main, nprocs=2)


@pytest.mark.parametrize("p", [2, 3])
def test_plans_do_not_depend_on_when_garbage_is_collected(p: int) -> None:
    """Plans are alike where process 0 alone keeps the base of two views in memory, in a cycle."""

    def main(proc: bsp.Process) -> Any:
        x = ba.arange(float(N), grid=(p,))
        first, second = x[: N // 2], x[N // 2 :]
        deep = second[10:20]
        cycle: list[Any] = [x]
        if proc.pid == 0:
            cycle.append(cycle)
        del x, cycle
        before = proc.superstep
        first[3] = 1.0
        second[4] = 2.0
        deep[5] = 3.0
        first[6] = 4.0
        assert proc.superstep == before
        total = (first + second).persist()
        second.persist()
        deep[0] = 5.0
        second[1] = 6.0
        return total.compute(), first.compute(), second.compute(), (deep * second[:10]).compute()

    gc.disable()
    try:
        found = bsp.run(main, nprocs=p)
    finally:
        gc.enable()
    x = np.arange(float(N))
    first, second = x[: N // 2], x[N // 2 :]
    first[3], second[4], second[15], first[6] = 1.0, 2.0, 3.0, 4.0
    total = first + second
    second[10], second[1] = 5.0, 6.0
    for each in found:
        for mine, theirs in zip(each, (total, first, second, second[10:20] * second[:10]), strict=True):
            np.testing.assert_array_equal(mine, theirs)


def test_values_that_the_dtype_cannot_hold_are_left_to_the_plan() -> None:
    def main(proc: bsp.Process) -> None:
        x = ba.zeros(N, dtype=np.float32)
        x[0] = np.float64(1.5)
        assert x._node.op is LEAF
        x[1] = np.float64(1e300)
        assert x._node.op is not LEAF
        with pytest.warns(RuntimeWarning, match="overflow"):
            x.persist()
        with pytest.raises(OverflowError):
            ba.zeros(3, dtype=np.int8)[0] = 300
        with pytest.raises(TypeError):
            x[0] = 1j
        with pytest.raises(bsp.ShapeError, match=r"from shape \(2,\) into shape \(3,\)"):
            x[:3] = [1.0, 2.0]
        assert x[:2].compute().tolist() == [1.5, np.inf]

    bsp.run(main, nprocs=1)


def test_assignments_to_an_array_that_is_not_computed_are_one_stage_whatever_their_positions() -> None:
    def main(proc: bsp.Process) -> None:
        plans = []
        for first in (0, 300):
            x, mine = ba.arange(float(N), grid=(2,)) * 2.0, np.arange(float(N)) * 2.0
            for k in range(first, first + 100):
                value = np.array([float(k), -1.0])
                x[k : k + 2] = value
                mine[k : k + 2] = value
                value[:] = 99.0  # a copy was taken
                if k == first + 50:
                    before, then = x + 0.0, mine.copy()
            plans.append(x.plan())
            np.testing.assert_array_equal(x.compute(), mine)
            np.testing.assert_array_equal(before.compute(), then)
        assert plans[0] is plans[1]
        assert [stage.what for stage in plans[0].stages] == ["assigned((x0 * c), c)"]

    bsp.run(main, nprocs=2)


def test_processes_that_assign_differently_to_an_expression_meet_a_mismatch() -> None:
    def main(proc: bsp.Process) -> None:
        x = ba.zeros(N, grid=(2,)) + 1.0
        x[proc.pid] = 1.0
        x.persist()

    with pytest.raises(bsp.SyncMismatch, match=r"assigned\(\(x0 \+ c\), c\) with c = 1.0, 1 assigned [0-9a-f]{16} at"):
        bsp.run(main, nprocs=2)


@st.composite
def assignments(draw: Any) -> Any:
    """(p, shape, grid, steps): each step assigns by a key of one of three kinds, or keeps something that was read."""
    shape = draw(shapes())
    steps = draw(st.lists(st.tuples(st.sampled_from("iiisspmktlvo"), st.integers(0, 1 << 16)), min_size=1, max_size=10))
    return draw(st.sampled_from(PROCESSES)), shape, draw(grids(shape)), steps


def key_of(kind: str, rng: np.random.Generator, shape: tuple[int, ...]) -> Any:
    if kind == "m":
        return rng.random(shape) < 0.4
    if kind == "p" and shape and shape[0]:
        return rng.integers(-shape[0], shape[0], int(rng.integers(0, 4)))
    parts: list[Any] = []
    for length in shape[: int(rng.integers(0, len(shape) + 1))]:
        if kind == "i" and length:
            parts.append(int(rng.integers(-length, length)))
        else:
            ends = [int(each) for each in rng.integers(-length - 1, length + 2, 2)]
            parts.append(slice(*ends, int(rng.choice([-3, -1, 1, 2]))))
    return tuple(parts)


@examples(60)
@given(assignments())
def test_assignments_are_numpys_and_leave_what_was_read(program: Any) -> None:
    p, shape, grid, steps = program

    def main(proc: bsp.Process) -> None:
        theirs = np.arange(float(prod(shape))).reshape(shape)
        mine = ba.asarray(theirs.copy(), grid=grid)
        kept: list[Any] = []
        for kind, seed in steps:
            rng = np.random.default_rng(seed)
            if kind == "k":
                reader = (mine.compute, lambda: mine + 0.0, mine.copy)[seed % 3]()
                kept.append((reader, theirs.copy()))
            elif kind == "o" and theirs.ndim:  # by a part of the array itself
                mine[1:], theirs[1:] = mine[:-1], theirs[:-1].copy()
                mine[:1], theirs[:1] = mine[-1:], theirs[-1:].copy()
            elif kind == "l":
                mine, theirs = mine + 1.0, np.asarray(theirs + 1.0)
            elif kind == "v" and theirs.ndim:
                view = mine[1:]
                kept.append((view, theirs[1:]))
                view[...] = float(seed)
                theirs[1:] = float(seed)
            elif kind == "t" and theirs.ndim:
                turned = mine.T
                key = key_of("s", rng, turned.shape)
                turned[key] = float(seed)
                theirs.T[key] = float(seed)
            else:
                key = key_of(kind, rng, shape)
                part = theirs[key].shape
                value = float(seed) if seed % 2 or kind in "mp" else rng.random(part[int(rng.integers(0, 2)) :])
                mine[key] = value
                theirs[key] = value
        np.testing.assert_array_equal(mine.compute(), theirs)
        for reader, values in kept:
            found = reader.compute() if isinstance(reader, ba.Array) else reader
            np.testing.assert_array_equal(found, values)

    with nothing_replicated():
        bsp.run(main, nprocs=p)


def test_only_a_block_that_nothing_else_refers_to_is_alone() -> None:
    for make in (
        lambda: np.zeros(7),
        lambda: np.zeros((3, 4)).T,
        lambda: memory.empty((memory.SMALLEST,), np.dtype("i1")),
    ):
        blocks = {(): make()}
        assert memory.alone(blocks, ())
        for view in (lambda: blocks[()], lambda: blocks[()][1:], lambda: memoryview(blocks[()]), lambda: dict(blocks)):
            reader = view()
            assert not memory.alone(blocks, ())
            del reader
            assert memory.alone(blocks, ())
    for shared in (np.frombuffer(bytearray(8)), np.broadcast_to(np.zeros(1), 4), np.zeros((3, 4))[:, 1]):
        blocks = {(): shared}
        del shared
        assert not memory.alone(blocks, ())


EMPTY: dict[str, Any] = {
    "a new axis": lambda x: (x[None], slice(1, None)),
    "a new axis behind": lambda x: (x[..., None], (slice(None), slice(None, -1))),
    "a row": lambda x: (x.reshape(1, -1), slice(1, None)),
    "one element": lambda x: (x[3:4].reshape(1, 1), slice(1, None)),
    "an axis of the base, too": lambda x: (x[None], (slice(0, 0), slice(1, None))),
}


@pytest.mark.parametrize("nprocs", [1, 3])
@pytest.mark.parametrize("lazy", [False, True])
@pytest.mark.parametrize("way", EMPTY)
def test_an_assignment_to_no_elements_changes_none(way: str, lazy: bool, nprocs: int) -> None:
    def main(proc: bsp.Process) -> None:
        x = ba.arange(7.0) + 0.0 if lazy else ba.arange(7.0).persist()
        part, key = EMPTY[way](x)
        part[key] = 99
        part[key] = np.zeros(np.asarray(part[key].compute()).shape)
        np.testing.assert_array_equal(x.compute(), np.arange(7.0))

    bsp.run(main, nprocs=nprocs)


@pytest.mark.parametrize("dtype", ["g", "G"])
def test_the_padding_of_long_numbers_is_no_difference_between_processes(dtype: str) -> None:
    def main(proc: bsp.Process) -> None:
        own = np.random.default_rng(proc.pid)
        x, known = ba.zeros(8, dtype=dtype, grid=(3,)), np.zeros(8, dtype)
        for k in range(40):
            held = [np.frombuffer(own.bytes(16 * n), np.uint8) for n in (1, 2, 3, 5, 8)]  # memory is not clean
            del held
            x[k % 8] = known[k % 8] = np.float64(k) / 3
            x[1:4] = known[1:4] = [1, 2, k]
            x[::2] = known[::2] = np.asarray(known[:4], dtype) / 7
        np.testing.assert_array_equal(x.compute(), known)

    bsp.run(main, nprocs=3)


@pytest.mark.parametrize("key", [slice(None), [0, 1], [True, True]])
@pytest.mark.parametrize("values", [[300, 2], (-1, 2), [np.nan, 2], [1 + 2j, 0], [1.7, 2], [True, 1]])
def test_sequences_are_assigned_with_numpys_errors(key: Any, values: Any) -> None:
    def assigned(x: Any) -> Any:
        try:
            x[key] = values
        except Exception as error:  # noqa: BLE001 - compared
            return type(error)
        return np.asarray(x).tolist()

    given = np.array([3, 5], "u1")
    assert assigned(ba.asarray(given)) == assigned(given.copy())
