"""Masks and integer positions select and assign what NumPy would, whatever p and the layout; errors are everybody's."""

from __future__ import annotations

import pickle
from typing import Any, NamedTuple

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from thinning import examples

import bsp
import bsp.arrays as ba
from bsp.arrays.array import wrap
from bsp.values.canonical import pickled

PROCESSES = (1, 2, 3, 5, 8)
RNG = np.random.default_rng(7)
SHAPE = (13, 9, 4)
GRIDS: tuple[Any, ...] = (None, (4, 1, 1), (2, 2, 1), (1, 2, 2), (5, 2, 2))
ROWS, TABLE, FULL = RNG.random(13) < 0.5, RNG.random((13, 9)) < 0.5, RNG.random(SHAPE) < 0.5
COLUMNS = RNG.random(9) < 0.5
DOWN, ACROSS, DEEP = RNG.integers(-13, 13, (3, 1)), RNG.integers(-9, 9, 6), RNG.integers(-4, 4, 6)


class Dealt(NamedTuple):
    """A NumPy array to be dealt before it is used as an index or a value."""

    values: np.ndarray
    grid: Any


def dealt(part: Any) -> Any:
    return ba.asarray(part.values, grid=part.grid) if isinstance(part, Dealt) else part


def plain(part: Any) -> Any:
    return part.values if isinstance(part, Dealt) else part


KEYS: list[tuple[Any, ...]] = [
    (ROWS,), (Dealt(ROWS, (4,)),), (TABLE,), (Dealt(TABLE, (2, 3)),), (FULL,), (Dealt(FULL, (2, 3, 1)),),
    (slice(None), COLUMNS), (slice(2, 9, 2), Dealt(COLUMNS, (3,)), slice(None, None, -1)), (3, COLUMNS),
    (Dealt(ROWS, (2,)), Ellipsis, -1), (slice(None), ACROSS), (slice(None), Dealt(ACROSS, (3,))), (DOWN, ACROSS),
    (Dealt(DOWN, (3, 1)), Dealt(ACROSS, (2,))), (DOWN, slice(1, 8, 3), DEEP),
    (slice(None, None, -1), Dealt(ACROSS, (2,)), DEEP),
    (2, Dealt(ACROSS, (3,))), (Ellipsis, DEEP), (None, DOWN, Ellipsis), (slice(None), np.zeros(0, int)),
    (True,), (False, 1),
    (slice(None), np.array([3, 9])), (slice(None), Dealt(np.array([3, -10]), (2,))), (ACROSS[:3], DEEP[:2]),
    (np.zeros(4, bool),), (slice(None), np.zeros((2, 2), bool)),
]  # fmt: skip


def outcome(call: Any) -> Any:
    """What a call gives, or the error it raises, as something that compares."""
    try:
        return call()
    except (IndexError, ValueError, TypeError) as wrong:
        return type(wrong).__name__ if not isinstance(wrong, bsp.BspError) else "ValueError", str(wrong)


def same(got: Any, want: Any) -> bool:
    if isinstance(want, np.ndarray):
        return (
            isinstance(got, np.ndarray)
            and got.shape == want.shape
            and got.dtype == want.dtype
            and bool(np.array_equal(got, want))
        )
    return bool(got == want)


@examples(60)
@given(st.data())
def test_slices_along_an_axis_are_taken_whatever_the_order_in_memory(data: st.DataObject) -> None:
    axis, nprocs = data.draw(st.integers(0, 2)), data.draw(st.sampled_from(PROCESSES))
    shape = data.draw(st.sampled_from([(), (0,), (1,), (6,), (2, 3)]))
    order = data.draw(st.permutations(range(3)))
    grid = data.draw(st.sampled_from(GRIDS))
    step = data.draw(st.sampled_from([1, 2, -1]))
    x = RNG.normal(size=SHAPE)
    given = x.transpose(order)[:, ::step]
    at = RNG.integers(-given.shape[axis], given.shape[axis], shape)

    def main(proc: bsp.Process) -> tuple[Any, ...]:
        mine = ba.asarray(x, grid=grid).transpose(order)[:, ::step]
        key = (slice(None),) * axis
        found = ba.take(mine, at, axis=axis)
        whole = mine.copy()
        whole[(*key, at)] = 2.5
        return found.compute(), mine[(*key, at)].sum().compute(), whole.compute()

    written = given.copy()
    written[(*(slice(None),) * axis, at)] = 2.5
    for found, total, whole in bsp.run(main, nprocs=nprocs):
        np.testing.assert_array_equal(found, np.take(given, at, axis=axis))
        np.testing.assert_allclose(total, np.take(given, at, axis=axis).sum(), rtol=0, atol=1e-12)
        np.testing.assert_array_equal(whole, written)


@pytest.mark.parametrize("nprocs", PROCESSES)
@pytest.mark.parametrize("grid", GRIDS)
def test_an_index_selects_what_numpy_selects_on_every_process(grid: Any, nprocs: int) -> None:
    x = np.arange(float(np.prod(SHAPE))).reshape(SHAPE)

    def main(proc: bsp.Process) -> list[Any]:
        array = ba.asarray(x, grid=grid)
        return [outcome(lambda key=key: array[tuple(map(dealt, key))].compute()) for key in KEYS]

    want = [outcome(lambda key=key: x[tuple(map(plain, key))]) for key in KEYS]
    for results in bsp.run(main, nprocs=nprocs):
        for key, got, expected in zip(KEYS, results, want, strict=True):
            assert same(got, expected), (key, got, expected)


@pytest.mark.parametrize("nprocs", (1, 3, 8))
@pytest.mark.parametrize("grid", GRIDS)
def test_an_assignment_changes_what_numpy_changes(grid: Any, nprocs: int) -> None:
    x = np.zeros(SHAPE)
    cases: list[tuple[Any, Any]] = []
    for key in KEYS[:21]:
        shape = x[tuple(map(plain, key))].shape
        full = np.arange(1.0, 1 + np.prod(shape)).reshape(shape)
        cases += [(key, 7), (key, full), (key, Dealt(full, tuple(min(2, max(n, 1)) for n in shape)))]
        cases += [(key, full[:1]), (key, np.ones((2, 3, 5, 7))), *[(key, full[:, None])] * (full.size > 0)]

    def main(proc: bsp.Process) -> list[Any]:
        found = []
        for key, value in cases:
            array = ba.asarray(x, grid=grid)

            def change(array: Any = array, key: Any = key, value: Any = value) -> Any:
                array[tuple(map(dealt, key))] = dealt(value)
                return array.compute()

            found.append(outcome(change))
        return found

    def expected(key: Any, value: Any) -> Any:
        copy = x.copy()
        copy[tuple(map(plain, key))] = plain(value)
        return copy

    want = [outcome(lambda key=key, value=value: expected(key, value)) for key, value in cases]
    for results in bsp.run(main, nprocs=nprocs):
        for case, got, answer in zip(cases, results, want, strict=True):
            assert same(got, answer), (case, got, answer)


@examples(25)
@given(st.data())
def test_a_vector_in_any_cuts_is_indexed_like_numpys(data: Any) -> None:
    size = data.draw(st.integers(0, 40))
    x = np.arange(float(size))
    mask = np.array(data.draw(st.lists(st.booleans(), min_size=size, max_size=size)), bool)
    places = data.draw(st.lists(st.integers(-size, max(size - 1, 0)), max_size=30)) if size else []
    positions = np.array(places, np.int64)
    grids = [data.draw(st.one_of(st.none(), st.integers(1, 9))) for _ in range(3)]
    nprocs = data.draw(st.sampled_from(PROCESSES))

    def main(proc: bsp.Process) -> list[Any]:
        array, cut, where = (
            ba.asarray(each, grid=grid) for each, grid in zip((x, mask, positions), grids, strict=True)
        )
        changed = ba.asarray(x, grid=grids[0])
        changed[where] = ba.arange(float(len(positions)), grid=grids[1])
        return [array[cut].compute(), array[where].compute(), changed.compute(), ba.nonzero(cut)[0].compute()]

    copy = x.copy()
    copy[positions] = np.arange(float(len(positions)))
    for results in bsp.run(main, nprocs=nprocs):
        for got, want in zip(results, (x[mask], x[positions], copy, np.nonzero(mask)[0]), strict=True):
            assert same(got, want)


def test_one_bad_position_in_one_block_is_an_error_on_every_process() -> None:
    def main(proc: bsp.Process) -> list[Any]:
        x = ba.arange(1000.0, grid=4)
        bad = np.arange(100)
        bad[70] = -1001
        where = ba.asarray(bad, grid=4)

        def assign() -> None:
            x[where] = ba.arange(100.0, grid=4)

        return [outcome(lambda: x[where].compute()), outcome(assign), outcome(lambda: x[[5, 1000]])]

    text = "index -1001 is out of bounds for axis 0 with size 1000"
    other = "index 1000 is out of bounds for axis 0 with size 1000"
    assert bsp.run(main, nprocs=4) == [[("IndexError", text), ("IndexError", text), ("IndexError", other)]] * 4


def test_selected_elements_stay_where_they_are_at_the_price_of_counts() -> None:
    def main(proc: bsp.Process) -> Any:
        x = ba.arange(40_000.0)
        mask = (x % 3 == 0).persist()
        before = proc.superstep
        found = x[mask]
        steps = proc.superstep - before
        lengths = np.diff(found.layout.axes[0].bounds).tolist()
        before = proc.superstep
        uneven = x[(x < 5000).persist()]
        return steps, lengths, proc.superstep - before, np.diff(uneven.layout.axes[0].bounds).tolist()

    for steps, lengths, more, even in bsp.run(main, nprocs=4):
        assert (steps, lengths) == (1, [3334, 3333, 3333, 3334])
        assert (more, even) == (3, [1250] * 4)  # the mask, counts, and one exchange that evens out


def test_known_positions_cost_one_superstep_and_dealt_ones_two() -> None:
    positions = RNG.integers(0, 40_000, 20_000)

    def main(proc: bsp.Process) -> list[int]:
        x, y = ba.arange(40_000.0), ba.zeros((40_000, 4), process_grid=(4, 1)).persist()
        where = ba.asarray(positions)
        marks = [proc.superstep]
        for call in (
            lambda: x[positions],
            lambda: x[where],
            lambda: y[:, [0, 2]],
            lambda: x.__setitem__(positions, 3.0),
        ):
            call()
            marks.append(proc.superstep)
        return np.diff(marks).tolist()

    assert bsp.run(main, nprocs=4) == [[1, 2, 0, 0]] * 4


def test_functions_of_positions_are_numpys() -> None:
    x = RNG.integers(-3, 4, (6, 7, 5)) * 1.0
    along = RNG.integers(-7, 7, (6, 2, 5))
    calls: list[tuple[str, tuple[Any, ...], dict[str, Any]]] = [
        ("take", (x, [1, -2]), {}), ("take", (x, [[1, -2]]), {"axis": 1}), ("take", (x, [[1, -9]]), {"axis": 1}),
        ("take", (x, [[1, -9]]), {"axis": 1, "mode": "clip"}), ("compress", ([0, 1, 1], x), {"axis": 1}),
        ("compress", ([0, 1, 1], x), {}), ("compress", (np.ones(8, bool), x), {"axis": 2}), ("extract", (x > 0, x), {}),
        ("take_along_axis", (x, along), {"axis": 1}), ("take_along_axis", (x, np.full((6, 2, 5), 9)), {"axis": 1}),
        ("argwhere", (x,), {}), ("flatnonzero", (x,), {}),
    ]  # fmt: skip

    def main(proc: bsp.Process, grid: Any) -> list[Any]:
        array = ba.asarray(x, grid=grid)
        return [
            outcome(lambda n=n, a=a, k=k: getattr(ba, n)(*[array if e is x else e for e in a], **k).compute())
            for n, a, k in calls
        ]

    want = [outcome(lambda n=n, a=a, k=k: getattr(np, n)(*a, **k)) for n, a, k in calls]
    for nprocs, grid in ((1, None), (4, (2, 2, 1)), (4, (1, 3, 2))):
        for results in bsp.run(main, grid, nprocs=nprocs):
            for call, got, expected in zip(calls, results, want, strict=True):
                assert same(got, expected), (call, got, expected)


def test_put_along_axis_replaces_in_every_line() -> None:
    x, where = RNG.normal(size=(6, 7)), RNG.permuted(np.tile(np.arange(7), (6, 1)), axis=1)[:, :3]

    def main(proc: bsp.Process) -> Any:
        array = ba.asarray(x, grid=(2, 2))
        ba.put_along_axis(array, where, -1.0, axis=1)
        return array.compute()

    want = x.copy()
    np.put_along_axis(want, where, -1.0, axis=1)
    assert all(same(got, want) for got in bsp.run(main, nprocs=4))


def test_an_abstract_run_takes_the_largest_results() -> None:
    def main(proc: bsp.Process) -> None:
        x = ba.asarray(np.random.rand(100_000))
        y = ba.asarray(np.random.rand(300, 400))
        where = np.random.randint(0, 100_000, 70_000)
        assert x[x > 0.5].shape == (100_000,)
        assert y[y > 0.5].shape == (120_000,)
        assert x[where].shape == x[ba.asarray(where)].shape == (70_000,)
        x[x > 0.5] = x[x > 0.5] * 2
        x[where] = 1.0
        x.persist()

    assert bsp.predict(main, nprocs=4, machine=bsp.Machine(p=4), abstract=True).per_superstep


@pytest.mark.thorough
@pytest.mark.jobs
def test_processes_of_several_elements_select_alike() -> None:
    results = bsp.run(_selected, nprocs=3, elements=2)
    x = np.arange(30_000.0)
    for mask, picked in results:
        assert np.array_equal(mask, x[x % 7 == 0]) and np.array_equal(picked, x[::-3])


def _selected(proc: bsp.Process) -> Any:
    x = ba.arange(30_000.0)
    return x[x % 7 == 0].compute(), x[ba.asarray(np.arange(30_000)[::-3])].compute()


@pytest.mark.parametrize("p", [1, 2, 3, 5])
@pytest.mark.parametrize("hidden", [0.5, np.inf, np.nan])
def test_sums_of_what_a_mask_selects_are_those_of_its_elements(p: int, hidden: float) -> None:
    data = np.random.default_rng(3).normal(size=50_000)
    data[::97] = hidden
    mask = data < 0.25  # none of the hidden ones

    def main(proc: bsp.Process) -> None:
        x = ba.asarray(data, grid=(p,))
        chosen = x[x < 0.25]
        for expected, found in (
            (data[mask].sum(), chosen.sum()), (data[mask].mean(), chosen.mean()),
            (data[mask].sum(keepdims=True), chosen.sum(keepdims=True)), (data[mask].std(), chosen.std()),
            (np.sqrt(abs(data[mask])).sum(), ba.sqrt(abs(chosen)).sum()), (data[mask].max(), chosen.max()),
        ):  # fmt: skip
            np.testing.assert_allclose(np.asarray(found), expected, rtol=1e-12)
            assert np.shape(found) == np.shape(expected)
        np.testing.assert_array_equal(chosen.compute(), data[mask])
        everything = data[data == data]
        np.testing.assert_allclose(float(x[x == x].sum()), everything.sum(), rtol=1e-12)
        one, two = x[x < 0], x[x < 0]
        two.compute()
        moved = pickle.loads(pickled(two._node))
        assert pickled(one._node) == pickled(two._node) == pickled(moved)
        assert float(one.sum()) == float(two.sum()) == float(wrap(moved).sum()) == float(x[x < 0].sum())
        assert float(x[x < -100].sum()) == 0.0

    bsp.run(main, nprocs=p)
