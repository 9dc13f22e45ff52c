"""Faults a review found; each test is the smallest program that shows one.  What is not mended yet is marked."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import bsp
import bsp.arrays as ba

LARGE = 40_000  # elements: more than one piece of a fold


def tolerance(expected: np.ndarray) -> float:
    """Some roundings of the largest number there is."""
    if expected.dtype.kind not in "fc":
        return 0.0
    size = np.max(np.abs(expected), initial=1.0, where=np.isfinite(expected))
    return 64 * float(np.finfo(expected.dtype).eps) * float(size)


def alike(compute: Callable[..., Any], *data: np.ndarray, p: int = 3, grid: int = 3) -> None:
    """The same program with NumPy's arrays and with ours: values, shape, dtype."""
    with np.errstate(all="ignore"):
        expected = np.asarray(compute(np, *[each.copy() for each in data]))

    def main(proc: bsp.Process) -> None:
        with np.errstate(all="ignore"):
            found = compute(ba, *[ba.asarray(each, grid=(grid,) * each.ndim) for each in data])
            found = found.compute() if isinstance(found, ba.Array) else np.asarray(found)
        assert found.shape == expected.shape
        assert found.dtype == expected.dtype
        np.testing.assert_allclose(found, expected, rtol=0, atol=tolerance(expected))

    bsp.run(main, nprocs=p)


def refused(compute: Callable[..., Any], *data: np.ndarray) -> None:
    """NumPy's error is ours."""
    with pytest.raises((TypeError, ValueError, OverflowError)) as expected:
        compute(np, *[each.copy() for each in data])

    def main(proc: bsp.Process) -> None:
        with pytest.raises(expected.type):
            found = compute(ba, *[ba.asarray(each, grid=(3,) * each.ndim) for each in data])
            if isinstance(found, ba.Array):
                found.compute()

    bsp.run(main, nprocs=3)


def random(*shape: int) -> np.ndarray:
    return np.random.default_rng(0).normal(size=shape)


# --------------------------------------------------------------------------------- layouts


@pytest.mark.parametrize("name", ["sum", "max", "argmax", "mean", "var", "cumsum"])
@pytest.mark.parametrize("grid", [1, 2])
def test_a_process_grid_may_be_longer_than_the_grid(name: str, grid: int) -> None:
    data = random(7)

    def main(proc: bsp.Process) -> None:
        x = ba.asarray(data, grid=(grid,), process_grid=(3,))
        np.testing.assert_allclose(getattr(ba, name)(x).compute(), getattr(np, name)(data), rtol=1e-12)

    bsp.run(main, nprocs=3)


@pytest.mark.parametrize("name", ["sum", "std", "argmax", "cumsum", "median", "sort"])
@pytest.mark.parametrize("schedule", ["lshs", "round-robin"])
def test_blocks_placed_one_by_one_are_reduced_by_patterns(name: str, schedule: str) -> None:
    def main(proc: bsp.Process) -> None:
        for shape, grid in (((4, 4), (4, 4)), ((6, 5, 1), (1, 3, 3)), ((7, 4), (3, 2)), ((9,), (4,))):
            data = random(*shape)
            with ba.options(schedule=schedule):
                x = (ba.asarray(data, grid=grid) * 2).persist()
            for axis in range(len(shape)):
                found = getattr(ba, name)(x, axis=axis).compute()
                np.testing.assert_allclose(found, getattr(np, name)(2 * data, axis=axis), rtol=1e-9)

    bsp.run(main, nprocs=3)


# ------------------------------------------------------------------------- large expressions

SCALARS: dict[str, Callable[..., Any]] = {
    "argmax": lambda xp, x: xp.argmax(x),
    "argmin of an expression": lambda xp, x: xp.argmin(x * 2 - x[:1]),
    "sum": lambda xp, x: xp.sum((x - x[:1]) ** 2),
    "sum of a stride": lambda xp, x: xp.sum(x[:, ::2] * 2),
    "transposed": lambda xp, x: xp.sum(x.T + x),
    "mean": lambda xp, x: xp.mean(x * x[:1]),
    "any": lambda xp, x: xp.any(x > x[:1]),
    "norm": lambda xp, x: xp.linalg.norm(x - x[0]),
    "count": lambda xp, x: xp.count_nonzero(x.T[1:, :-1] > 0),
}


@pytest.mark.parametrize("name", list(SCALARS))
@pytest.mark.parametrize("p", [1, 3])
def test_a_number_is_made_of_many_pieces(name: str, p: int) -> None:
    alike(SCALARS[name], random(400, 400), p=p)


def test_a_product_with_a_number_that_is_computed() -> None:
    alike(lambda xp, x, s: xp.einsum("ij,->ij", x, s * 2), random(4, 5), np.array(3.0))
    alike(lambda xp, x, y: xp.einsum("...i,...i", x, y), np.array([3]), np.arange(3))


DEEP: dict[str, Callable[[Any], Any]] = {
    "ufunc": lambda x: x * 0.5 + 1,
    "view": lambda x: x[::-1],
    "roll": lambda x: ba.roll(x, 1),
    "reduction": lambda x: x - ba.sum(x) * 0,
    "matmul": lambda x: ba.asarray(np.eye(10), grid=(3, 1)) @ x,
}


@pytest.mark.parametrize("name", list(DEEP))
def test_expressions_may_be_hundreds_of_operations_deep(name: str) -> None:
    def main(proc: bsp.Process) -> None:
        x = ba.asarray(np.ones(10), grid=(3,))
        for _ in range(1000 if name in ("ufunc", "view") else 300):
            x = DEEP[name](x)
        x.compute()

    bsp.run(main, nprocs=2)


def test_a_loop_may_assign_a_thousand_elements() -> None:
    def main(proc: bsp.Process) -> None:
        x = ba.asarray(np.zeros(1000), grid=(3,))
        for k in range(1000):
            x[k] = 2.0 * k
        np.testing.assert_array_equal(x.compute(), 2.0 * np.arange(1000))

    bsp.run(main, nprocs=2)


def test_a_plan_that_multiplies_what_it_computes_says_what_it_takes() -> None:
    import tracemalloc

    planned: list[int] = []

    def main(proc: bsp.Process) -> None:
        x = ba.from_function(lambda i, j: np.sin(i * 7.0 + j), (20_000, 16))
        found = (x * 2 + 1) @ ba.asarray(np.ones((16, 64)))
        planned.append(int(found.plan().peaks.sum()))
        if tracemalloc.is_tracing():
            tracemalloc.reset_peak()
        found.persist()

    bsp.run(main, nprocs=1)
    tracemalloc.start()
    try:
        bsp.run(main, nprocs=1)
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert planned[-1] >= most - (256 << 10)


# ------------------------------------------------------------------------------ evaluation


def test_several_results_of_a_ufunc_may_be_computed_one_after_the_other() -> None:
    def main(proc: bsp.Process) -> None:
        quotient, rest = divmod(ba.asarray(np.arange(9), grid=(3,)), 4)
        np.testing.assert_array_equal(quotient.compute(), np.arange(9) // 4)
        np.testing.assert_array_equal(rest.compute(), np.arange(9) % 4)

    bsp.run(main, nprocs=3)


def test_options_that_differ_by_process_are_one_error() -> None:
    def main(proc: bsp.Process) -> None:
        x = ba.asarray(random(10, 10), grid=(3, 3))
        with ba.options(schedule="lshs" if proc.pid == 0 else "patterns"):
            (x @ x).persist()

    with pytest.raises(bsp.SyncMismatch):
        bsp.run(main, nprocs=3)


# ------------------------------------------------------------------------- dtypes and errors


@pytest.mark.parametrize("name", ["divide", "arctan2", "hypot", "float_power", "copysign", "logaddexp", "logical_and"])
@pytest.mark.parametrize("number", [300, -1])
def test_python_integers_need_fit_only_what_the_ufunc_computes_in(name: str, number: int) -> None:
    data = np.arange(1, 8, dtype=np.uint8)
    alike(lambda xp, x: getattr(xp, name)(x, number), data)
    alike(lambda xp, x: getattr(xp, name)(number, x), data)


def test_python_integers_fit_the_dtype_that_is_asked_for() -> None:
    alike(lambda xp, x: xp.add(x, 300, dtype=np.int64), np.arange(7, dtype=np.uint8))


def test_in_is_a_question_of_all_elements() -> None:
    def main(proc: bsp.Process) -> tuple[bool, bool, int]:
        x = ba.asarray(np.arange(12).reshape(3, 4), grid=(3, 1))
        before = proc.superstep
        return 7 in x, 70 in x, proc.superstep - before

    ((yes, no, supersteps), *_) = bsp.run(main, nprocs=3)
    assert (yes, no) == (True, False)
    assert supersteps <= 4


def test_divmod_of_a_number() -> None:
    alike(lambda xp, x: divmod(50, x)[1], np.arange(1, 8))


def _assigned(key: Any, value: Any) -> Callable[..., Any]:
    def compute(xp: Any, x: Any) -> Any:
        operator.setitem(x, key, value)
        return x

    return compute


@pytest.mark.parametrize("key", [0, slice(1, 3), [0, 2]], ids=str)
@pytest.mark.parametrize(("dtype", "value"), [("f8", 1j), ("i8", 1j), ("i8", float("nan"))], ids=str)
def test_assignment_refuses_numbers_that_the_dtype_cannot_say(key: Any, dtype: str, value: Any) -> None:
    refused(_assigned(key, value), np.arange(7).astype(dtype))


# ------------------------------------------------------------------------------- functions


@pytest.mark.parametrize("name", ["min", "max"])
def test_extremes_start_from_an_initial_value(name: str) -> None:
    alike(lambda xp, x: getattr(xp, name)(x, axis=0, initial=0.5), random(7, 3))
    alike(lambda xp, x: getattr(xp, name)(x, initial=0.5, keepdims=True), np.zeros((0, 3)))


@pytest.mark.filterwarnings("ignore:All-NaN")
@pytest.mark.parametrize("name", ["nanmin", "nanmax"])
def test_the_extreme_of_nothing_but_nan_is_nan(name: str) -> None:
    alike(lambda xp, x: getattr(xp, name)(x, axis=0), np.array([[np.nan, 1.0], [np.nan, 2.0]]))


@pytest.mark.parametrize("name", ["nanmean", "nanvar", "nanstd"])
@pytest.mark.parametrize("dtype", ["f2", "f4", "c8"])
def test_moments_without_nan_keep_the_dtype(name: str, dtype: str) -> None:
    data = np.array([[1.0, np.nan, 3.0], [2.0, 5.0, 4.0]]).astype(dtype)
    expected = getattr(np, name)(data, axis=1)

    def main(proc: bsp.Process) -> None:
        found = getattr(ba, name)(ba.asarray(data, grid=(2, 2)), axis=1).compute()
        assert found.dtype == expected.dtype
        np.testing.assert_allclose(found, expected, rtol=0, atol=tolerance(expected))

    bsp.run(main, nprocs=3)


def test_averages_have_weights_where_values_are_infinite() -> None:
    data = np.array([[np.inf, 1.0], [2.0, 3.0]])
    weights = np.array([[1.0, 2.0], [3.0, 4.0]])
    alike(lambda xp, x, w: xp.average(x, axis=0, weights=w), data, weights)
    alike(lambda xp, x: xp.average(x, axis=0, returned=True)[1], data)


def test_three_factors_may_share_their_only_index() -> None:
    alike(lambda xp, x: xp.einsum("i,i,i->i", x, x, x), random(8))
    alike(lambda xp, x, y, z: xp.einsum("ij,jk,ki", x, y, z), random(3, 1), random(8, 8), random(8, 1))


def test_axes_go_first_where_an_ellipsis_of_none_is_between() -> None:
    data = random(9, 2, 3)
    alike(lambda xp, x: x[:, [0, 1, 1, 0], ..., [0, 2, 1, 1]], data)
    alike(lambda xp, x: x[:, [0, 1, 1, 0], ..., 2], data)
    alike(lambda xp, x: x[:, x[0, :, 0] > 0, ..., 2], data)
    alike(lambda xp, x: x[:, x[0, :, 0] > 0, ..., :2], data)
    alike(lambda xp, x: x[x > 0, ...], data)


def test_a_zero_dimensional_index_does_not_hide_a_list() -> None:
    alike(lambda xp, x: x[np.array(0), [1, 2]], random(7, 5))


def test_matmul_and_vecdot_take_what_numpy_gives_them() -> None:
    alike(lambda xp, x, y: np.vecdot(x, y, axis=0), random(7, 5), random(7, 5))
    alike(lambda xp, x, y: np.matmul(x, y, dtype=np.complex128), random(7, 5), random(5, 3))


def test_the_median_of_complex_numbers_with_nan_is_nan() -> None:
    alike(lambda xp, x: xp.median(x), np.array([1 + 1j, complex(np.nan, 2), 3, 4 - 1j, 0]))


@pytest.mark.parametrize(
    "name", ["digitize", pytest.param("repeat", marks=pytest.mark.xfail(strict=True, reason="counts are values"))]
)
def test_functions_that_look_at_a_few_values_can_be_predicted(name: str) -> None:
    def main(proc: bsp.Process) -> None:
        if name == "digitize":
            ba.digitize(ba.zeros(1 << 20), ba.arange(10.0))
        else:
            ba.repeat(ba.zeros(1 << 20), ba.ones(1 << 20, dtype=int))

    bsp.predict(main, nprocs=3, machine=bsp.Machine(p=3), abstract=True)


def test_plans_are_refused_by_memory_in_sorting_too() -> None:
    def main(proc: bsp.Process) -> None:
        x = ba.asarray(random(100_000), grid=(3,))
        with ba.options(memory=1e4), pytest.raises(ba.PlanTooLarge):
            ba.sort(x)

    bsp.run(main, nprocs=3)


# --------------------------------------------------------- what changes to the library no test noticed


def test_a_square_and_its_transpose_are_added_on_a_square_process_grid() -> None:
    data = random(6, 6)

    def main(proc: bsp.Process) -> None:
        for grid in ((2, 2), (4, 4)):
            x = ba.asarray(data, grid=grid, process_grid=(2, 2))
            np.testing.assert_array_equal((x + x.T).compute(), data + data.T)
            np.testing.assert_allclose((x @ x.T + x.T).compute(), data @ data.T + data.T, rtol=1e-12)

    bsp.run(main, nprocs=4)


@pytest.mark.parametrize("name", ["argmin", "argmax"])
def test_of_equal_extremes_the_first_is_found_in_blocks_dealt_in_turn(name: str) -> None:
    for data in (np.zeros(12), np.tile([1.0, 0.0], 6), np.tile([0.0, np.nan], 6)):

        def main(proc: bsp.Process, data: np.ndarray = data) -> None:
            for grid in (4, 5, 6):
                x = ba.asarray(data, grid=(grid,), process_grid=(2,))
                for each, values in ((x, data), (x[1:], data[1:]), (x[::-1], data[::-1])):
                    assert int(getattr(ba, name)(each)) == getattr(np, name)(values)

        bsp.run(main, nprocs=2)


@pytest.mark.filterwarnings("ignore:Degrees of freedom", "ignore:invalid value", "ignore:divide by zero")
@pytest.mark.parametrize("name", ["var", "std"])
def test_a_correction_may_be_more_than_the_count(name: str) -> None:
    alike(lambda xp, x: getattr(xp, name)(x, axis=0, ddof=5), random(3, 4))
    alike(lambda xp, x: getattr(xp, name)(x, axis=0, ddof=3), random(3, 4))


@pytest.mark.parametrize("p", [4, 6, 8])
def test_moments_merged_by_a_butterfly_weigh_what_they_stand_for(p: int) -> None:
    machine = bsp.Machine(p=p, g=1.0, o=1e6, L=1.0)

    def main(proc: bsp.Process) -> list[str]:
        data = random(2 * p + 1, 300)
        grid = (p, 1)
        x = ba.asarray(data, grid=grid)
        found = ba.var(x, axis=0)
        patterns = [stage.pattern for stage in found.plan().stages]
        np.testing.assert_allclose(found.compute(), data.var(axis=0), rtol=1e-12)
        counts = [3 if pid % 3 else 0 for pid in range(p)]
        rows = random(sum(counts), 300)
        start = sum(counts[: proc.pid])
        ragged = ba.from_local(rows[start : start + counts[proc.pid]])
        np.testing.assert_allclose(ba.var(ragged, axis=0).compute(), rows.var(axis=0), rtol=1e-12)
        return patterns

    (patterns, *_) = bsp.run(main, nprocs=p, machine=machine)
    assert "butterfly" in patterns


def test_products_of_truth_values_are_joined_by_or() -> None:
    left, right = random(5, 12) > -0.5, random(12, 4) > -0.5

    def main(proc: bsp.Process) -> None:
        x = ba.asarray(left, grid=(1, 6), process_grid=(1, 2))
        y = ba.asarray(right, grid=(6, 1), process_grid=(2, 1))
        np.testing.assert_array_equal((x @ y).compute(), left @ right)
        np.testing.assert_array_equal(ba.einsum("ij,jk->", x, y).compute(), np.einsum("ij,jk->", left, right))

    bsp.run(main, nprocs=2)
    bsp.run(main, nprocs=5)


def test_what_a_late_and_an_early_stage_both_read_is_there_for_the_early_one() -> None:
    data = random(60)

    def main(proc: bsp.Process) -> None:
        x = ba.asarray(data, grid=(3,))
        late = x[::-1] * ba.sum(x * ba.sum(x * ba.sum(x)))
        early = x[::-1] + 1
        for found, expected in zip(
            ba.persist(late, early),
            (data[::-1] * np.sum(data * np.sum(data * np.sum(data))), data[::-1] + 1),
            strict=True,
        ):
            np.testing.assert_allclose(found.compute(), expected, rtol=1e-9)

    bsp.run(main, nprocs=3)


def test_what_is_on_its_way_is_held_by_the_plan() -> None:
    def main(proc: bsp.Process) -> tuple[int, int]:
        plan = ba.rechunk(ba.asarray(random(60, 60), grid=(3, 1)), grid=(1, 3)).plan()
        terms = dict(plan.memory(0))
        return int(sum(held for name, held in terms.items() if "on its way" in name).min()), plan.words

    for held, words in bsp.run(main, nprocs=3):
        assert held >= 2 * 8 * words * 0.9


def test_the_least_and_the_greatest_integer_of_a_dtype_fit() -> None:
    for number in (-128, 127):
        alike(_assigned(0, number), np.zeros(5, np.int8))
        alike(lambda xp, x, number=number: xp.add(x, number), np.zeros(5, np.int8))
    for number in (-129, 128):
        refused(_assigned(0, number), np.zeros(5, np.int8))


@pytest.mark.parametrize("name", ["cumsum", "cumprod"])
def test_running_results_go_on_from_block_to_block_dealt_in_turn(name: str) -> None:
    data = random(7, 9)

    def main(proc: bsp.Process) -> None:
        x = ba.asarray(data, grid=(5, 4), process_grid=(2, 2))
        for axis in (0, 1):
            np.testing.assert_allclose(getattr(ba, name)(x, axis=axis).compute(), getattr(np, name)(data, axis=axis))

    bsp.run(main, nprocs=4)
    bsp.run(main, nprocs=5)


FROM_A_LINE: dict[str, Callable[..., Any]] = {
    "sort": lambda xp, x: xp.sort(x),
    "argsort": lambda xp, x: np.argsort(x, stable=True) if xp is np else xp.argsort(x),
    "unique": lambda xp, x: xp.unique(x),
    "searchsorted": lambda xp, x: xp.searchsorted(xp.sort(x), x),
    "median": lambda xp, x: xp.median(x),
    "mask": lambda xp, x: x[x > 0],
    "histogram": lambda xp, x: xp.histogram(x, bins=4)[0],
    "bincount": lambda xp, x: xp.bincount((x > 0).astype(int)),
    "isin": lambda xp, x: xp.isin(x, x[:3]),
}


@pytest.mark.parametrize("name", list(FROM_A_LINE))
def test_lines_of_a_process_grid_and_small_arrays_are_counted_once(name: str) -> None:
    data = random(12, 10)

    def main(proc: bsp.Process) -> None:
        for x in (ba.asarray(data, grid=(2, 2)), ba.asarray(data)):
            for line, values in ((x[:, 3], data[:, 3]), (x[5], data[5])):
                found = FROM_A_LINE[name](ba, line.persist()).compute()
                np.testing.assert_allclose(found, FROM_A_LINE[name](np, values), rtol=1e-12)

    bsp.run(main, nprocs=4)


@pytest.mark.parametrize("name", ["sort", "argsort", "unique", "median", "mask"])
def test_a_long_column_of_a_process_grid_is_a_line(name: str) -> None:
    data = random(20_000, 4).round(3)

    def main(proc: bsp.Process) -> None:
        line = (ba.asarray(data, grid=(2, 2))[:, 3] * 1).persist()
        np.testing.assert_array_equal(FROM_A_LINE[name](ba, line).compute(), FROM_A_LINE[name](np, data[:, 3]))

    bsp.run(main, nprocs=4)


@pytest.mark.parametrize("name", ["concatenate", "vstack", "hstack"])
def test_the_rule_of_casting_is_kept_when_arrays_are_joined(name: str) -> None:
    data = random(5, 3)

    def main(proc: bsp.Process) -> None:
        x = ba.asarray(data, grid=(2, 1))
        with pytest.raises(TypeError, match="according to the rule 'same_kind'"):
            getattr(np, name)([x, x], dtype=np.int64)
        found = getattr(np, name)([x, x], dtype=np.int64, casting="unsafe").compute()
        np.testing.assert_array_equal(found, getattr(np, name)([data, data], dtype=np.int64, casting="unsafe"))

    for p in (1, 3):
        bsp.run(main, nprocs=p)


def test_full_of_a_dealt_array_brings_it_nowhere() -> None:
    data = random(400, 300)
    seen = []

    def main(proc: bsp.Process) -> None:
        x = ba.asarray(data)
        before = proc.superstep
        found = ba.full((2, 400, 300), x)
        seen.append((before, proc.superstep))
        np.testing.assert_array_equal(found.compute(), np.full((2, 400, 300), data))
        assert ba.full((400, 300), x, dtype=int).dtype == ba.full((3,), [1, 2, 3]).dtype == int
        assert ba.full((5,), x.max()).compute().tolist() == [data.max()] * 5

    traced = bsp.predict(main, nprocs=4, machine=bsp.Machine(p=4))
    assert sum(row["h_received"] for row in traced.per_superstep[slice(*seen[0])]) <= data.size / 4
