"""Products by every method: right for any shape, grid and dtype, at the words, supersteps and memory stated."""

from __future__ import annotations

import itertools
import sys
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from thinning import examples

import bsp
import bsp.algorithms.matmul as mm
import bsp.arrays as ba
from bsp.algorithms.matmul import bounds, counts, methods, strassen
from bsp.algorithms.matmul.grids import Candidates
from bsp.algorithms.matmul.product import _cheapest
from bsp.arrays.errors import PlanTooLarge
from bsp.errors import ShapeError
from tools import matmul_study as study

forecasts: dict[Any, Any] = sys.modules["bsp.arrays.procedures.forecast"]._forecasts  # kept from earlier calls
METHODS: list[int | str] = [1, 2, 4, "recursive", "summa"]
SHAPES = [(12, 12, 12), (13, 7, 5), (1, 9, 30), (40, 3, 2), (3, 50, 4), (37, 41, 29)]
EMPTY = [(0, 3, 2), (3, 0, 2), (3, 2, 0), (0, 0, 0)]
PROCESSES = [1, 2, 3, 5, 7, 8, 64]


def integers(*shape: int, seed: int = 0, dtype: Any = np.int64) -> np.ndarray:
    return np.random.default_rng(seed).integers(-9, 10, shape).astype(dtype)


def machine(p: int) -> bsp.Machine:
    return bsp.Machine(p=p)


def counted(main: Any, p: int, on: bsp.Machine | None = None, **options: Any) -> list[tuple[str, int]]:
    """(label, h) of each superstep."""
    rows = bsp.predict(main, nprocs=p, machine=on or machine(p), **options).per_superstep
    return [(str(row["label"]), max(row["h_sent"], row["h_received"])) for row in rows]


def stated(cost: mm.Counted) -> list[tuple[str, int]]:
    return [(step.what, step.h) for step in cost.steps]


# ---------------------------------------------------------------------------------- products


@pytest.mark.parametrize("p", PROCESSES)
@pytest.mark.parametrize("method", [*METHODS, "auto"])
def test_every_method_multiplies_any_shapes_like_numpy(method: int | str, p: int) -> None:
    pairs = [(integers(m, k, seed=m), integers(k, n, seed=n)) for m, k, n in SHAPES + EMPTY]

    def main(proc: bsp.Process) -> list[np.ndarray]:
        return [mm.matmul(a, b, method).compute() for a, b in pairs]

    for found in bsp.run(main, nprocs=p):
        for product, (a, b) in zip(found, pairs, strict=True):
            np.testing.assert_array_equal(product, a @ b)
            assert product.dtype == (a @ b).dtype


GRIDS = [(2, 3, 2), (3, 2, 2), (1, 4, 3), (4, 1, 3), (3, 4, 1), (1, 1, 12), (5, 2, 1), (1, 12, 1)]


@pytest.mark.parametrize("way", [1, 2, 3, 5, 8, "broadcast", "two-phase broadcast"])
def test_any_grid_and_any_rounds_multiply_right_at_the_words_stated(
    way: int | str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Grids that no choice would make, among them those whose rounds divide nothing."""
    a, b = integers(11, 23), integers(23, 9)
    for grid in GRIDS:
        if isinstance(way, str) and grid[2] > 1:
            continue
        rest: Any = {"way": way} if isinstance(way, str) else {"rounds": way}
        schedule = methods.Schedule(11, 23, 9, *grid, **rest)
        monkeypatch.setitem(methods.METHODS, 1, lambda *given, schedule=schedule: Candidates([schedule], []))
        methods.options.cache_clear()
        _cheapest.cache_clear()

        def main(proc: bsp.Process) -> None:
            np.testing.assert_array_equal(mm.matmul(a, b, 1).compute(), a @ b)

        try:
            cost = mm.cost(11, 23, 9, 12, 1)
            assert cost.schedule == schedule
            assert counted(main, 12)[:-1] == stated(cost)
        finally:
            methods.options.cache_clear()
            _cheapest.cache_clear()


def of(members: int) -> Any:
    """Numbers of parts that a brick of so many processes may be cut into along one side."""
    return st.sampled_from([parts for parts in range(1, members + 1) if members % parts == 0])


@st.composite
def schedules(draw: Any) -> methods.Schedule:
    """Any schedule on at most 12 processes, of any shape: what a choice would never make among them."""
    shape = draw(st.tuples(*[st.integers(0, 24)] * 3))
    rows, columns, layers = draw(st.sampled_from([*GRIDS, (2, 2, 3), (1, 6, 2), (12, 1, 1)]))
    rounds = draw(st.sampled_from([1, 2, 3, 5, 8]))
    along = draw(st.sampled_from("mkn")) if rounds > 1 else "k"
    across = draw(of(columns)), draw(of(rows)), draw(of(layers))
    sums = draw(st.sampled_from([1, 2, 5])) if along == "k" else 1
    way = "spread" if rounds > 1 else "shifted"
    return methods.Schedule(*shape, rows, columns, layers, rounds, way, along, across, draw(st.booleans()), sums)


@examples(60)
@given(schedules())
def test_any_schedule_multiplies_right_at_the_words_and_in_the_memory_stated(schedule: methods.Schedule) -> None:
    a, b = integers(schedule.m, schedule.k), integers(schedule.k, schedule.n, seed=1)
    found: list[ba.Forecast] = []

    def main(proc: bsp.Process) -> None:
        left, right = mm.laid_out(ba.asarray(a, grid=(1, 1)), ba.asarray(b, grid=(1, 1)), 1)
        if proc.pid == 0:
            found.append(ba.forecast(mm.matmul, left, right, 1))
        proc.sync(label="from here")
        product = mm.matmul(left, right, 1)
        proc.sync(label="to here")
        assert product.layout is schedule.layouts(12)[2]
        np.testing.assert_array_equal(product.compute(), a @ b)

    with mock.patch.dict(methods.METHODS, {1: lambda *given: Candidates([schedule], [])}):
        # they know the method by its number
        for cache in (methods.options.cache_clear, _cheapest.cache_clear, forecasts.clear):
            cache()
        try:
            cost = mm.cost(schedule.m, schedule.k, schedule.n, 12, 1)
            steps = counted(main, 12)
        finally:
            for cache in (methods.options.cache_clear, _cheapest.cache_clear, forecasts.clear):
                cache()
    assert cost.schedule == schedule
    labels = [label for label, _ in steps]
    assert steps[labels.index("from here") + 1 : labels.index("to here")] == stated(cost)
    assert tuple(step.h for step in found[0].supersteps) == cost.h
    assert found[0].peak_bytes <= 8 * cost.memory


@examples(15)
@given(
    st.tuples(*[st.integers(0, 20)] * 3), st.integers(1, 12), st.sampled_from(METHODS),
    st.sampled_from([None, 0.5, 0.8]),
)  # fmt: skip
def test_words_are_those_of_the_formula_for_any_shape(shape: Any, p: int, method: Any, part: float | None) -> None:
    m, k, n = shape
    a, b = integers(m, k), integers(k, n)
    memory = None if part is None else part * 8 * mm.cost(m, k, n, p, method).memory
    try:
        cost = mm.cost(m, k, n, p, method, memory, machine(p))
    except PlanTooLarge:
        return

    def main(proc: bsp.Process) -> None:
        found = mm.matmul(a, b, method, memory)
        assert found.layout is cost.schedule.layouts(p)[2]

    assert counted(main, p) == stated(cost)


@pytest.mark.parametrize("p", [3, 8])
@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize(
    "dtypes",
    [("i1", "i1"), ("u4", "i2"), ("f4", "f4"), ("f4", "f8"), ("c8", "f8"), ("?", "?"), ("?", "f4"), ("f2", "f2")],
)
def test_dtypes_are_numpys(dtypes: tuple[str, str], method: int | str, p: int) -> None:
    rng = np.random.default_rng(1)
    a, b = rng.integers(0, 3, (17, 40)).astype(dtypes[0]), rng.integers(0, 3, (40, 12)).astype(dtypes[1])
    if a.dtype.kind == "c":
        a = (a * (1 - 2j)).astype(a.dtype)

    def main(proc: bsp.Process) -> np.ndarray:
        return mm.matmul(a, b, method).compute()

    found = bsp.run(main, nprocs=p)[-1]
    assert found.dtype == (a @ b).dtype
    np.testing.assert_array_equal(found, a @ b)  # small integers, whatever the type


@pytest.mark.parametrize("method", [*METHODS, "auto"])
def test_floats_are_within_rounding_of_numpys_product(method: int | str) -> None:
    rng = np.random.default_rng(3)
    a, b = rng.normal(size=(70, 90)), rng.normal(size=(90, 50))

    def main(proc: bsp.Process) -> np.ndarray:
        return mm.matmul(a, b, method).compute()

    first, *others = bsp.run(main, nprocs=12)
    for other in others:
        np.testing.assert_array_equal(other, first)
    assert (abs(first - a @ b) <= 90 * np.finfo(float).eps * (abs(a) @ abs(b))).all()


LAYOUTS = {
    "rows": lambda x: ba.asarray(x, grid=(6, 1)),
    "columns": lambda x: ba.asarray(x, grid=(1, 6)),
    "cyclic": lambda x: ba.asarray(x, grid=(7, 5), process_grid=(2, 3)),
    "one process": lambda x: ba.asarray(x, grid=(1, 1)),
    "everywhere": lambda x: ba.asarray(x),
    "transposed": lambda x: ba.asarray(x.T, grid=(3, 2)).T,
    "an expression": lambda x: ba.asarray(x - 1, grid=(3, 2)) + 1,
    "lists": lambda x: x.tolist(),
}


@pytest.mark.parametrize("method", [1, 4, "auto"])
@pytest.mark.parametrize("right", list(LAYOUTS))
def test_operands_come_in_any_layout(right: str, method: int | str) -> None:
    a, b = integers(31, 26), integers(26, 18)

    def main(proc: bsp.Process) -> list[np.ndarray]:
        return [mm.matmul(left(a), LAYOUTS[right](b), method).compute() for left in LAYOUTS.values()]

    for found in bsp.run(main, nprocs=6)[-1]:
        np.testing.assert_array_equal(found, a @ b)


def test_large_arrays_are_dealt_and_multiplied_where_they_lie() -> None:
    """Made by nobody's grid, on two processes: the layout of `automatic` is the method's, so one superstep is all."""
    n = 200

    def main(proc: bsp.Process, product: bool) -> None:
        a, b = ba.ones((n, n)).persist(), ba.ones((n, n)).persist()
        if product:
            mm.matmul(a, b)

    before, after = (counted(lambda proc, product=product: main(proc, product), 2) for product in (False, True))
    assert after[len(before) :] == [("matmul: blocks 1 of 1", n * n // 2)]


# --------------------------------------------------------------------------- words, supersteps


@pytest.mark.parametrize("p", [2, 7, 8, 13, 64])
@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("shape", [(64, 64, 64), (30, 50, 7), (6, 4, 200), (3, 2, 4)])
def test_supersteps_and_words_are_those_stated_with_and_without_values(
    shape: tuple[int, int, int], method: int | str, p: int
) -> None:
    m, k, n = shape
    a, b = integers(m, k), integers(k, n)
    expected = stated(mm.cost(m, k, n, p, method, None, machine(p)))
    assert counted(lambda proc: mm.matmul(a, b, method), p) == expected
    assert counted(lambda proc: mm.matmul(a, b, method), p, abstract=True) == expected


@pytest.mark.parametrize("itemsize", [1, 4, 16])
def test_words_count_bytes_of_the_elements(itemsize: int) -> None:
    kind = {1: "i1", 4: "f4", 16: "c16"}[itemsize]
    a, b = integers(21, 33, dtype=kind), integers(33, 14, dtype=kind)
    for method in METHODS:
        cost = mm.cost(21, 33, 14, 12, method, None, machine(12), itemsize=itemsize)
        assert counted(lambda proc, method=method: mm.matmul(a, b, method), 12) == stated(cost)


WORDS_DECIDE = bsp.Machine(p=64, g=1e3, L=1.0, o=0.0)


@pytest.mark.parametrize("q", [2, 4, 8])
def test_method_1_moves_a_row_and_a_column_of_blocks_in_one_superstep(q: int) -> None:
    n, p = 16 * q, q * q
    cost = mm.cost(n, n, n, p, 1, machine=WORDS_DECIDE)
    assert cost.h == (2 * n * n // q - 2 * n * n // p,)
    assert cost.flops == 2 * n**3 / p


@pytest.mark.parametrize("q", [3, 4, 8])
def test_method_2_takes_a_pair_at_a_time(q: int) -> None:
    n, p = 16 * q, q * q
    cost = mm.cost(n, n, n, p, 2, machine=WORDS_DECIDE)
    assert cost.h == (2 * n * n // p,) * q
    assert cost.memory <= 7 * n * n // p  # A, B, C, a pair, a product


@pytest.mark.parametrize("q", [2, 4])
def test_method_4_moves_three_faces_of_a_cube_in_two_supersteps(q: int) -> None:
    n, p = 16 * q, q**3
    cost = mm.cost(n, n, n, p, 4, machine=WORDS_DECIDE)
    inputs, sums = cost.h
    assert inputs == 2 * (n * n // q**2 - n * n // p)
    assert sums == n * n // q**2 - n * n // p
    assert cost.words == pytest.approx(bounds.loomis_whitney(n, n, n, p), rel=1e-12)


@pytest.mark.parametrize("p", [64, 512, 4096])
def test_the_recursion_is_method_4_with_room_and_method_2_without(p: int) -> None:
    n = 4096
    costs = {method: mm.cost(n, n, n, p, method) for method in (2, 4)}
    assert mm.cost(n, n, n, p, "recursive", 8 * costs[4].memory).h == costs[4].h
    least = mm.cost(n, n, n, p, "recursive", 8 * costs[2].memory)
    assert least.memory <= costs[2].memory
    assert least.words <= costs[2].words


def test_less_memory_never_means_fewer_words_and_always_fits() -> None:
    n, p, last = 2048, 512, 0
    flat = bsp.Machine(p=p, g=1e3, L=0.0, o=0.0)
    most = mm.cost(n, n, n, p, "recursive", machine=flat).memory
    seen = set()
    for part in (1.0, 0.8, 0.6, 0.4, 0.3):
        cost = mm.cost(n, n, n, p, "recursive", part * 8 * most, flat)
        assert cost.memory <= part * most
        assert cost.words >= 0.99 * last  # where pieces divide evenly there may be a few less
        last = cost.words
        seen.add(cost.schedule)
    assert len(seen) >= 4


# ----------------------------------------------------------------- words under a memory limit

SIDES = {
    "square": (4096, 4096, 4096),
    "ragged": (3001, 2003, 4999),
    "panel": (256, 262144, 256),
    "panel, ragged": (777, 50003, 911),
    "tall": (262144, 256, 256),
    "wide": (200, 333, 100003),
    "outer product": (65536, 256, 65536),
    "vectors": (8192, 8192, 8),
    "vector": (16384, 16384, 1),
}


@pytest.mark.crossed
@pytest.mark.parametrize("p", [3, 7, 16, 61, 64, 127, 343, 512])
@pytest.mark.parametrize("name", list(SIDES))
def test_words_are_near_the_lower_bounds_whatever_the_shape_and_the_memory(name: str, p: int) -> None:
    """Where words decide.  The bounds are `loomis_whitney` and 2V/√M, the leading term of `memory_dependent`.

    In 1.75 times its share of A, B and C a process has room for a brick beside its blocks.  In less, M is what its
    blocks of A and B leave: they stay where they are while they are multiplied.
    """
    m, k, n = SIDES[name]
    on = bsp.Machine(p=p, g=1e6, L=1.0, o=0.0)
    share, operands = (m * k + k * n + m * n) / p, (m * k + k * n) / p
    least = bounds.loomis_whitney(m, k, n, p)
    for part in (1.1, 1.25, 1.5, 1.75, 2.0, 2.5, 3.0, 5.0, 8.0, 30.0):
        cost = mm.cost(m, k, n, p, memory=8 * part * share, machine=on)
        room = part * share - (0 if part >= 1.75 else operands)
        assert cost.memory <= part * share
        assert cost.words <= (1.3 if part >= 1.75 else 1.4) * max(least, 2 * m * k * n / p / room**0.5)
        assert cost.words >= bounds.memory_dependent(m, k, n, p, part * share)


@pytest.mark.parametrize("sides", [(4096, 4096, 4096), (1024, 1024, 1024), (65536, 256, 65536), (16384, 16384, 8)])
def test_a_product_in_the_least_memory_moves_at_most_twice_the_words_of_a_grid_that_copies_two_matrices(
    sides: tuple[int, int, int],
) -> None:
    """The least memory is what the refusal of less states; 2.2 for words that do not divide evenly."""
    m, k, n = sides
    p, on = 512, bsp.Machine(p=512, g=500.0, L=1e5, o=1e3)
    share = (m * k + k * n + m * n) / p
    with pytest.raises(PlanTooLarge, match="needs"):
        mm.cost(m, k, n, p, memory=8 * share, machine=on)
    ways = methods.options(sides, p, "recursive", float(int(share)), on)
    least = min(counts.counted(s, 8, "blas", "recursive").memory for _, s, _ in ways)
    cost = mm.cost(m, k, n, p, memory=8 * least, machine=on)
    assert cost.memory <= least <= 1.03 * share
    edges = [(x, y, z) for x, y, z in itertools.product(*[[2**e for e in range(10)]] * 3) if x * y * z == p]
    flat = [at for at in edges if min(at) == 1 and all(at[i] <= (m, n, k)[i] for i in range(3))]
    assert cost.words <= 2.2 * min(((y - 1) * m * k + (x - 1) * k * n + (z - 1) * m * n) / p for x, y, z in flat)


@examples(150)
@given(
    st.tuples(*[st.sampled_from([0, 1, 2, 3, 5, 9])] * 3), st.sampled_from([1, 2, 8, 12, 27, 100]),
    st.sampled_from([0.5, 1.0, 1.1, 1.5, 2.2, 4.0]),
)  # fmt: skip
def test_small_sides_under_a_limit_fit_in_it_or_are_refused(sides: Any, p: int, part: float) -> None:
    m, k, n = sides
    limit = max(8.0, 8 * part * (m * k + k * n + m * n) / p)
    try:
        cost = mm.cost(m, k, n, p, memory=limit, machine=machine(p))
    except PlanTooLarge:
        assert limit < 8 * mm.cost(m, k, n, p, machine=machine(p)).memory
        return
    assert 8 * cost.memory <= limit


@given(grid=st.sampled_from(GRIDS), rounds=st.integers(2, 60), side=st.integers(1, 3))
def test_rounds_cost_no_words_where_bricks_are_cut_along_the_sides_that_are_not_in_them(
    grid: tuple[int, int, int], rounds: int, side: int
) -> None:
    rows, columns, layers = grid
    m, k, n = side * rows * columns * layers, 60 * layers, side * rows * columns
    even = methods.Schedule(m, k, n, *grid, across=(columns, rows, 1))
    cut = even._replace(rounds=rounds, way="spread")
    assert counts.counted(cut, 8, "blas", 1).words == counts.counted(even, 8, "blas", 1).words


@pytest.mark.parametrize("p", [343, 512])
@pytest.mark.parametrize("shape", [(256, 262144, 256), (262144, 256, 256), (256, 256, 262144)])
def test_a_panel_is_multiplied_in_few_words_and_messages_on_the_default_machine(
    shape: tuple[int, int, int], p: int
) -> None:
    m, k, n = shape
    for part in (1.5, 2.0, 5.0, 6.5, 8.0, 100.0):
        cost = mm.cost(m, k, n, p, memory=8 * part * (m * k + k * n + m * n) / p)
        assert cost.words <= 1.1 * bounds.loomis_whitney(m, k, n, p)
        assert sum(step.messages for step in cost.steps) < p / 4 * max(1, cost.schedule.rounds)


@pytest.mark.parametrize(("p", "part"), [(343, 1.3), pytest.param(512, 5.0, marks=pytest.mark.rest)])
def test_words_supersteps_and_memory_of_a_panel_are_those_of_a_run_without_values(p: int, part: float) -> None:
    m, k, n = SIDES["panel"]
    limit = 8 * part * (m * k + k * n + m * n) / p
    cost = mm.cost(m, k, n, p, memory=limit, machine=machine(p))
    found: list[ba.Forecast] = []

    def main(proc: bsp.Process) -> None:
        a, b = ba.ones((m, k), grid=cost.schedule.layouts(p)[0].grid), ba.ones((k, n), grid=(p, 1))
        if proc.pid == 0:
            found.append(ba.forecast(mm.matmul, a, b, "auto", limit))

    bsp.predict(main, nprocs=p, machine=machine(p), abstract=True)
    assert tuple(step.h for step in found[0].supersteps) == cost.h
    assert 0.6 * 8 * cost.memory <= found[0].peak_bytes <= 8 * cost.memory <= limit


@pytest.mark.parametrize("p", [2, 5, 8, 12])
@pytest.mark.parametrize("shape", [(40, 44, 36), (7, 301, 9), (101, 6, 53), (33, 34, 1)])
def test_products_under_a_limit_are_numpys_in_the_words_stated(shape: tuple[int, int, int], p: int) -> None:
    m, k, n = shape
    a, b = integers(m, k), integers(k, n, seed=1)
    on = bsp.Machine(p=p, g=1e4, L=1.0, o=1.0)
    enough = mm.cost(m, k, n, p, machine=on).memory
    seen = set()
    for part in (1.0, 0.95, 0.8, 0.7, 0.6, 0.5, 0.4):
        limit = 8 * part * enough
        try:
            cost = mm.cost(m, k, n, p, memory=limit, machine=on)
        except PlanTooLarge:
            continue
        seen.add(cost.schedule)

        def main(proc: bsp.Process, limit: float = limit) -> None:
            np.testing.assert_array_equal(mm.matmul(a, b, memory=limit).compute(), a @ b)

        assert counted(main, p, on)[: cost.supersteps] == stated(cost)
    assert len({schedule.rounds for schedule in seen}) >= (2 if shape == (40, 44, 36) else 1)


# ------------------------------------------------------------------------------------- memory


@pytest.mark.crossed
@pytest.mark.parametrize("p", [2, 7, 8, 64])
@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("leaf", ["blas", "strassen"])
def test_memory_is_not_below_what_a_run_without_values_takes(
    method: int | str, p: int, leaf: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(strassen, "CUTOFF", 8)
    methods.counted.cache_clear()
    methods.options.cache_clear()
    _cheapest.cache_clear()
    try:
        for m, k, n in ((64, 64, 64), (130, 71, 90), (20, 301, 30)):
            for part in (None, 0.6):
                limit = None if part is None else part * 8 * mm.cost(m, k, n, p, method, leaf=leaf).memory
                try:
                    cost = mm.cost(m, k, n, p, method, limit, machine(p), leaf=leaf)
                except PlanTooLarge:
                    continue
                found: list[ba.Forecast] = []

                def main(proc: bsp.Process) -> None:
                    a, b = ba.ones((m, k), grid=(1, 1)), ba.ones((k, n), grid=(1, 1))
                    a, b = mm.laid_out(a, b, method, limit, leaf)
                    if proc.pid == 0:
                        found.append(ba.forecast(mm.matmul, a, b, method, limit, leaf))

                bsp.predict(main, nprocs=p, machine=machine(p))
                assert tuple(step.h for step in found[0].supersteps) == cost.h
                assert 0.3 * 8 * cost.memory <= found[0].peak_bytes <= 8 * cost.memory
    finally:
        methods.counted.cache_clear()
        methods.options.cache_clear()
        _cheapest.cache_clear()


def test_any_limit_of_memory_is_one_unless_it_is_0_or_infinite() -> None:
    assert mm.cost(64, 64, 64, 5, memory=np.inf) == mm.cost(64, 64, 64, 5, memory=0)
    with pytest.raises(PlanTooLarge) as whole:
        mm.cost(64, 64, 64, 5, memory=8)
    with pytest.raises(PlanTooLarge) as less:
        mm.cost(64, 64, 64, 5, memory=7)
    assert str(less.value) == str(whole.value).replace("limit 8 B", "limit 7 B")


def test_what_does_not_fit_is_refused_with_the_least_that_is_needed() -> None:
    with pytest.raises(
        PlanTooLarge, match=r"matmul of \(100, 100\) by \(100, 100\) on 4 processes needs .* limit 60 KB"
    ):
        mm.cost(100, 100, 100, 4, memory=60_000)
    least = min(mm.cost(100, 100, 100, 4, method).memory for method in METHODS)
    assert mm.cost(100, 100, 100, 4, memory=8 * least).memory <= least

    def main(proc: bsp.Process) -> int:
        a = ba.ones((200, 200)).persist()
        before = proc.superstep
        with pytest.raises(PlanTooLarge, match="take more processes, or more memory"):
            mm.matmul(a, a, memory=1000)
        with ba.options(memory=1000), pytest.raises(PlanTooLarge):
            mm.matmul(a, a)
        return proc.superstep - before

    assert bsp.run(main, nprocs=3) == [0, 0, 0]


def test_the_machine_profile_says_how_much_memory_there_is() -> None:
    n, p = 256, 64
    free = mm.cost(n, n, n, p, machine=machine(p))
    small = bsp.Machine(p=p, memory=8 * free.memory / 2)
    cost = mm.cost(n, n, n, p, machine=small)
    assert cost.memory <= free.memory / 2

    def main(proc: bsp.Process) -> None:
        a, b = mm.laid_out(ba.ones((n, n), grid=(8, 8)), ba.ones((n, n), grid=(8, 8)))
        proc.sync(label="from here")
        mm.matmul(a, b)

    found = counted(main, p, small)
    assert found[found.index(("from here", 0)) + 1 :] == stated(cost)


# -------------------------------------------------------------------------------------- choice


def test_auto_is_the_cheapest_by_the_machine() -> None:
    n, p = 512, 64
    for g, L in ((1.0, 1e7), (1e4, 1.0), (4.0, 2e4)):
        on = bsp.Machine(p=p, g=g, L=L)
        auto = mm.cost(n, n, n, p, machine=on)
        assert auto.price(on) == min(mm.cost(n, n, n, p, method, machine=on).price(on) for method in METHODS)
    assert mm.cost(n, n, n, p, machine=bsp.Machine(p=p, g=1.0, L=1e7)).supersteps == 1
    assert mm.cost(n, n, n, p, machine=bsp.Machine(p=p, g=1e4, L=1.0)).method == 4


def test_auto_takes_the_grid_that_operands_have_if_bringing_them_costs_more() -> None:
    n, p = 240, 6
    a, b = integers(n, n), integers(n, n)

    def main(proc: bsp.Process) -> tuple[int, ...]:
        return mm.matmul(ba.asarray(a, grid=(1, p)), ba.asarray(b, grid=(1, p))).grid

    assert bsp.run(main, nprocs=p)[0] == (1, p)
    assert mm.cost(n, n, n, p, 1).schedule[3:5] != (1, p)


@pytest.mark.parametrize("method", [1, 2, 4, "recursive", "summa", "auto"])
def test_what_is_laid_out_moves_no_further(method: int | str) -> None:
    a, b = integers(40, 44), integers(44, 36)
    cost = mm.cost(40, 44, 36, 8, method, None, machine(8))

    def main(proc: bsp.Process) -> None:
        left, right = ba.asarray(a, grid=(8, 1)), ba.asarray(b, grid=(8, 1))
        left, right = mm.laid_out(left, right, method)
        for _ in range(2):
            first, second = mm.matmul(left, right, method), mm.matmul(a, b, method)
            for at, block in first._node.value.items():
                np.testing.assert_array_equal(block, second._node.value[at])

    brought, *others = counted(main, 8)
    assert others == 4 * stated(cost)
    assert 0 < brought[1] <= 1.1 * (40 * 44 + 44 * 36) / cost.schedule.processes  # blocks are not quite even


def test_operands_made_on_the_methods_grid_move_no_further() -> None:
    a, b = integers(40, 44), integers(44, 36)
    for method in (1, 2, "summa"):
        cost = mm.cost(40, 44, 36, 8, method, None, machine(8))
        grid = cost.schedule[3:5]

        def main(proc: bsp.Process, method: Any = method, grid: Any = grid) -> None:
            mm.matmul(ba.asarray(a, grid=grid), ba.asarray(b, grid=grid), method)

        assert counted(main, 8) == stated(cost)


def test_a_prime_number_of_processes_does_not_mean_a_row_of_them() -> None:
    words_matter, work_matters = bsp.Machine(p=37, g=1e4), bsp.Machine(p=37, g=0.01, o=0.0)
    assert mm.cost(592, 592, 592, 37, 1, machine=words_matter).schedule[3:5] == (6, 6)
    assert mm.cost(592, 592, 592, 37, 1, machine=work_matters).schedule.processes == 37


def test_mistakes_are_named_where_they_are_made() -> None:
    def main(proc: bsp.Process) -> None:
        a, b = np.ones((2, 3)), np.ones((4, 2))
        with pytest.raises(ShapeError, match=r"\(2, 3\) and \(4, 2\) do not match: 3 columns of A meet 4 rows of B"):
            mm.matmul(a, b)
        with pytest.raises(ShapeError, match=r"B has shape \(3,\), not two axes; .*matvec"):
            mm.matmul(a, np.ones(3))
        with pytest.raises(ValueError, match=r"method=3; it is one of 1, 2, 4, 'recursive', 'summa', or 'auto'"):
            mm.matmul(a, b.T[:, :3].T, method=3)
        with pytest.raises(ValueError, match="leaf='gpu'; it is 'blas' or 'strassen'"):
            mm.matmul(a, a.T, leaf="gpu")
        with pytest.raises(TypeError, match="A holds object; matrices hold numbers"):
            mm.matmul(np.array([[None]]), a)
        assert proc.superstep == 0

    bsp.run(main, nprocs=2)
    with pytest.raises(ValueError, match="lengths from 0, processes from 1"):
        mm.cost(2, 2, 2, 0)


# ------------------------------------------------------------------------------------ Strassen


@pytest.mark.parametrize("shape", [(64, 64, 64), (65, 67, 63), (100, 33, 50), (16, 200, 17), (31, 31, 31)])
def test_strassens_product_of_integers_is_exact_and_of_floats_within_its_bound(
    shape: tuple[int, int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(strassen, "CUTOFF", 8)
    m, k, n = shape
    rng = np.random.default_rng(5)

    def main(proc: bsp.Process) -> None:
        from bsp.arrays.execution.world import world

        for kind in (np.int64, np.uint8, np.float64, np.complex128):
            a, b = integers(m, k, dtype=kind), integers(k, n, seed=1, dtype=kind)
            np.testing.assert_array_equal(strassen.product(world(), a, b, "strassen"), a @ b)
        a, b = rng.normal(size=(m, k)), rng.normal(size=(k, n))
        error = abs(strassen.product(world(), a, b, "strassen") - a @ b).max()
        levels = int(np.ceil(np.log2(min(shape) / 8)))
        assert 0 < error <= 18**levels * (64 + 6 * 8) * np.finfo(float).eps * abs(a).max() * abs(b).max()  # Higham 23.3
        a, b = a > 0, b > 0
        np.testing.assert_array_equal(strassen.product(world(), a, b, "strassen"), a @ b)

    bsp.run(main, nprocs=1)
    assert strassen.flops(m, k, n) < 2 * m * k * n


@pytest.mark.parametrize("method", METHODS)
def test_strassen_may_be_the_leaf_of_any_method(method: int | str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(strassen, "CUTOFF", 4)
    a, b = integers(45, 61), integers(61, 39)

    def main(proc: bsp.Process) -> np.ndarray:
        return mm.matmul(a, b, method, leaf="strassen").compute()

    np.testing.assert_array_equal(bsp.run(main, nprocs=5)[0], a @ b)


# ------------------------------------------------------------------------------ bounds, study


@pytest.mark.parametrize("p", [4, 7, 64, 512, 4096])
@pytest.mark.parametrize("shape", [(4096, 4096, 4096), (65536, 64, 64), (64, 65536, 64), (4096, 4096, 32)])
def test_no_method_is_below_the_lower_bounds(shape: tuple[int, int, int], p: int) -> None:
    m, k, n = shape
    for method in METHODS:
        cost = mm.cost(m, k, n, p, method)
        if cost.schedule.processes == p:
            assert cost.words >= bounds.loomis_whitney(m, k, n, p) * (1 - 1e-12) - p
            assert cost.words >= bounds.memory_independent(m, k, n, p) * (1 - 1e-12) - p
        assert cost.words >= bounds.memory_dependent(m, k, n, p, cost.memory)


def test_the_bound_of_loomis_and_whitney_is_that_of_the_sides() -> None:
    """One, two and three sides long (Al Daas and others 2022, theorem 3): the least surfaces of a box of V products."""
    assert bounds.loomis_whitney(8, 8, 8, 8) == pytest.approx(3 * 16 - 3 * 8, rel=1e-12)
    assert bounds.loomis_whitney(1 << 12, 2, 2, 4) == pytest.approx(4 - 4 / 4, rel=1e-12)  # B, all of it
    m, n, k, p = 1024, 1024, 4, 16
    assert bounds.loomis_whitney(m, k, n, p) == pytest.approx(2 * (m * n * k * k / p) ** 0.5 - 2 * m * k / p, rel=1e-12)


@pytest.mark.thorough
def test_the_document_of_the_study_is_what_the_study_gives() -> None:
    document = Path(__file__).parents[2] / "docs" / "matmul-study.md"
    assert document.read_text() == study.document()


@pytest.mark.thorough
def test_the_study_is_printed_or_written(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert study.main(["--side", "64"]) == 0
    printed = capsys.readouterr().out
    assert printed.count("| recursive |") == len(study.PROCESSES)
    assert study.main(["--side", "64", "--write", str(tmp_path / "s.md")]) == 0
    written = (tmp_path / "s.md").read_text()
    assert written == study.document(64)
    assert all(line in written for line in printed.splitlines())
    with pytest.raises(SystemExit):
        study.main(["--side", "0"])
    assert "1 or more" in capsys.readouterr().err


# --------------------------------------------------------------------------------------- jobs


@pytest.mark.thorough
@pytest.mark.jobs
def test_bits_do_not_depend_on_the_number_of_elements() -> None:
    rng = np.random.default_rng(7)
    a, b = rng.normal(size=(300, 260)), rng.normal(size=(260, 280))
    x = rng.normal(size=260)
    least = min(mm.cost(300, 260, 280, 3, memory=8 * part * 78_000).memory for part in (1.3, 2.0))
    limits = [8 * least, 8 * 2.0 * 78_000]
    assert all(mm.cost(300, 260, 280, 3, memory=limit).schedule.rounds > 1 for limit in limits)

    def main(proc: bsp.Process) -> list[np.ndarray]:
        import bsp.algorithms.matmul as mm
        import bsp.arrays as ba

        found = [mm.matmul(a, b, method).compute() for method in (1, 2, 4, "recursive", "summa", "auto")]
        found.append(mm.matmul(ba.asarray(a, grid=(3, 1)), ba.asarray(b, grid=(1, 3)), 2).compute())
        found += [mm.matmul(a, b, memory=limit).compute() for limit in limits]
        return [*found, mm.matvec(a, ba.asarray(x, grid=(3,))).compute()]

    alone, one, two = (bsp.run(main, nprocs=3, elements=elements)[0] for elements in (1, 2, 3))
    for other in (one, two):
        for first, second in zip(alone, other, strict=True):
            np.testing.assert_array_equal(first, second)
    np.testing.assert_allclose(alone[0], a @ b, rtol=0, atol=1e-11)
