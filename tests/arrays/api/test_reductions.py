"""Sums, extremes and moments are NumPy's: of many pieces, of NaN and infinities, with initial values and weights."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numpys_answers import alike, as_numpys, random, roundings

import bsp
import bsp.arrays as ba

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


@pytest.mark.parametrize("name", ["sum", "prod", "max", "any", "all", "ptp", "count_nonzero", "nansum", "nanmax"])
@pytest.mark.parametrize("axis", [0, -1])
def test_a_number_has_an_axis_to_reduce(name: str, axis: int) -> None:
    alike(lambda xp, x: getattr(xp, name)(xp.sum(x), axis=axis), np.arange(1.0, 5.0))
    with pytest.raises(np.exceptions.AxisError):
        ba.sum(ba.asarray(2.5), axis=1)


@pytest.mark.parametrize("name", list(SCALARS))
@pytest.mark.parametrize("p", [1, 3])
def test_a_number_is_made_of_many_pieces(name: str, p: int) -> None:
    alike(SCALARS[name], random(400, 400), p=p)


@pytest.mark.parametrize("p", [1, 3])
def test_positions_of_extremes_in_lines_of_any_order_are_numpys(p: int) -> None:
    x = np.random.default_rng(5).integers(0, 40, (300, 230)).astype(float)  # each extreme several times
    x[17, 3] = np.nan
    for axis in (None, 0, 1):
        alike(lambda xp, x, axis=axis: xp.argmax(x, axis=axis), x, p=p)
        alike(lambda xp, x, axis=axis: xp.argmin(x.T, axis=axis), x, p=p)
        alike(lambda xp, x, axis=axis: xp.argmax(x[::3, ::-1], axis=axis), x, p=p)


@pytest.mark.parametrize("p", [1, 2, 3])
def test_a_sum_of_products_is_exact_whatever_its_length(p: int) -> None:
    for count in (0, 1, 7, 70_001):
        x, y = np.arange(count) % 7 - 3.0, np.arange(count) % 5 - 2.0
        alike(lambda xp, x, y: (x * y).sum(), x, y, p=p)
        alike(lambda xp, x, y: (x[::-1] * y[::-1]).sum(), x, y, p=p)
        alike(lambda xp, x, y: xp.linalg.norm(x), x, y, p=p)


@pytest.mark.filterwarnings("ignore:overflow", "ignore:invalid")
def test_a_sum_of_products_that_are_not_finite_is_numpys() -> None:
    for bad in (np.nan, np.inf, -np.inf, 1e300):
        x = np.linspace(-1, 1, 4000)
        x[[5, 3000]] = bad
        alike(lambda xp, x: (x * x[::-1]).sum(), x)
        alike(lambda xp, x: (x**2).sum(), x)


def test_in_is_a_question_of_all_elements() -> None:
    def main(proc: bsp.Process) -> tuple[bool, bool, int]:
        x = ba.asarray(np.arange(12).reshape(3, 4), grid=(3, 1))
        before = proc.superstep
        return 7 in x, 70 in x, proc.superstep - before

    ((yes, no, supersteps), *_) = bsp.run(main, nprocs=3)
    assert (yes, no) == (True, False)
    assert supersteps <= 4


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
        np.testing.assert_allclose(found, expected, rtol=0, atol=roundings(expected))

    bsp.run(main, nprocs=3)


def test_averages_have_weights_where_values_are_infinite() -> None:
    data = np.array([[np.inf, 1.0], [2.0, 3.0]])
    weights = np.array([[1.0, 2.0], [3.0, 4.0]])
    alike(lambda xp, x, w: xp.average(x, axis=0, weights=w), data, weights)
    alike(lambda xp, x: xp.average(x, axis=0, returned=True)[1], data)


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


@pytest.mark.parametrize("ufunc", [np.bitwise_and, np.bitwise_or, np.bitwise_xor, np.add, np.multiply])
@pytest.mark.parametrize("dtype", ["?", "u1", "i4"])
def test_a_mask_leaves_the_dtype_as_it_is(ufunc: Any, dtype: str) -> None:
    given = (np.arange(6).reshape(2, 3) % 4).astype(dtype)
    where = np.array([[True, False, True], [False, False, False]])
    found, known = ufunc.reduce(ba.asarray(given), axis=1, where=where), ufunc.reduce(given, axis=1, where=where)
    assert found.dtype == known.dtype
    np.testing.assert_array_equal(found.compute(), known)


REDUCTIONS_OF_ANY_ORDER = [
    "max",
    "min",
    "sum",
    "prod",
    "mean",
    "std",
    "var",
    "ptp",
    "average",
    "argmax",
    "median",
    "nanmax",
]


@pytest.mark.parametrize(
    "name", ["max", "min", "sum", "prod", "mean", "std", "var", "ptp", "average", "argmax", "median", "nanmax"]
)
@pytest.mark.parametrize("dtype", [">f8", ">i4", ">f2"])
@pytest.mark.parametrize("nprocs", [1, 3])
def test_numbers_of_another_byte_order_are_reduced(name: str, dtype: str, nprocs: int) -> None:
    given = (np.arange(60).reshape(20, 3) * 7 % 11).astype(dtype)

    def main(proc: bsp.Process) -> None:
        for axis in (None, 0, 1):
            found, known = getattr(np, name)(ba.asarray(given), axis=axis), getattr(np, name)(given, axis=axis)
            np.testing.assert_allclose(found.compute(), known, rtol=1e-3 if dtype == ">f2" else 1e-12)

    bsp.run(main, nprocs=nprocs)


@pytest.mark.parametrize("dtype", ["i1", "u1", "i4", "i8", "f8", ">i4"])
@pytest.mark.parametrize("decimals", [-2, -1, 0, 2])
def test_integers_are_rounded_to_tens(dtype: str, decimals: int) -> None:
    given = np.array([15, 25, 49, 127, 3], dtype)
    found, known = np.round(ba.asarray(given), decimals), np.round(given, decimals)
    assert found.dtype == known.dtype
    np.testing.assert_array_equal(found.compute(), known)


OUTS: dict[str, Any] = {
    "sum": lambda m, x, out: m.sum(x, axis=0, out=out),
    "max": lambda m, x, out: m.max(x, axis=1, out=out),
    "argmax": lambda m, x, out: m.argmax(x, axis=0, out=out.astype(int)),
    "any": lambda m, x, out: m.any(x, axis=0, out=out),
    "mean": lambda m, x, out: m.mean(x, axis=0, out=out),
    "median": lambda m, x, out: m.median(x, axis=0, out=out),
    "cumsum": lambda m, x, out: m.cumsum(x, axis=0, out=out),
    "concatenate": lambda m, x, out: m.concatenate([x, x], out=out),
    "add.reduce": lambda m, x, out: m.add.reduce(x, out=out),
    "sum of a mask": lambda m, x, out: m.sum(x, axis=0, where=out > 0),
}


@pytest.mark.parametrize("name", OUTS)
@pytest.mark.parametrize("shape", [(3, 2), (1, 2, 2), (4, 2)])
def test_results_are_not_broadcast_into_out(name: str, shape: tuple[int, ...]) -> None:
    def kind(x: Any, out: Any) -> Any:
        try:
            return np.asarray(OUTS[name](np, x, out)).shape
        except ValueError:
            return ValueError

    given, out = np.arange(4.0).reshape(2, 2), np.zeros(shape)
    assert kind(ba.asarray(given), ba.asarray(out)) == kind(given, out.copy())


def test_a_number_has_one_axis_where_numpy_gives_it_one() -> None:
    calls: dict[str, Callable[[Any], Any]] = {
        f"{name} {axis}": lambda x, name=name, axis=axis: getattr(np, name)(x, axis=axis)
        for name in ("argmax", "argmin", "nanargmax", "argsort", "cumsum", "cumprod", "nancumsum", "cumulative_sum",
                     "sort", "flip") for axis in (0, -1, 1, None)
    }  # fmt: skip
    calls |= {
        "argsort": np.argsort, "argmax keepdims": lambda x: np.argmax(x, axis=0, keepdims=True),
        "argpartition": lambda x: np.argpartition(x, 0), "take": lambda x: np.take(x, [0, 0], axis=-1),
        "take one": lambda x: np.take(x, 0, axis=0), "take beyond": lambda x: np.take(x, 1, axis=0),
        "repeat": lambda x: np.repeat(x, 3, axis=0), "compress": lambda x: np.compress([True], x, axis=0),
        "from initial": lambda x: np.cumulative_sum(x, include_initial=True), "method": lambda x: x.cumsum(0),
    }  # fmt: skip
    as_numpys(calls, [np.array(3.5)])


@pytest.mark.parametrize("nprocs", (1, 3))
def test_truth_values_are_counted_as_numpy_sums_them(nprocs: int) -> None:
    mask = np.random.default_rng(7).random((301, 97)) > 0.3

    def main(proc: bsp.Process) -> list[Any]:
        x = ba.asarray(mask, grid=(nprocs, 1))
        asked = [
            x.sum(), x.sum(dtype=np.int8), x.sum(dtype=np.float32), x.mean(), x.sum(axis=0), x.mean(axis=1),
            ba.count_nonzero(x), ba.count_nonzero(x, axis=1), (x & ~x[::-1]).sum(), ba.count_nonzero(x.astype(float)),
        ]  # fmt: skip
        return [each.compute() for each in asked]

    want = [
        mask.sum(), mask.sum(dtype=np.int8), mask.sum(dtype=np.float32), mask.mean(), mask.sum(axis=0),
        mask.mean(axis=1), np.count_nonzero(mask), np.count_nonzero(mask, axis=1), (mask & ~mask[::-1]).sum(),
        np.count_nonzero(mask),
    ]  # fmt: skip
    for found in bsp.run(main, nprocs=nprocs):
        for got, expected in zip(found, want, strict=True):
            np.testing.assert_array_equal(got, expected, strict=True)


@pytest.mark.parametrize("dtype", [">i4", ">u2", ">f2", ">f8", ">c8", ">M8[s]", ">m8[s]"])
def test_reductions_of_the_other_byte_order_have_this_machines(dtype: str) -> None:
    as_numpys(
        {
            "extremes": lambda x: (x.max(), x.min(axis=0), np.nanmax(x, axis=1, keepdims=True)),
            "mean": lambda x: (x.mean(), np.mean(x, axis=0), np.nanmean(x, axis=0)),
            "variance": lambda x: (x.var(), np.std(x, axis=0), np.nanvar(x, axis=1)),
        },
        [np.arange(60).reshape(6, 10).astype(dtype)],
    )


@pytest.mark.parametrize("dtype", ["f2", ">f2"])
def test_means_of_half_precision_count_and_add_beyond_its_range(dtype: str) -> None:
    x = np.full(70_000, 3, dtype)

    def main(proc: bsp.Process) -> None:
        array = ba.asarray(x)
        for found in (array.mean(), ba.nanmean(array), ba.mean(array, where=x > 0), array.var() + 3):
            assert found.compute() == 3 and found.dtype == np.float16

    bsp.run(main, nprocs=3)


@pytest.mark.parametrize(("given", "out"), [("f4", "f8"), ("f4", "c16"), ("f2", "f4"), ("i8", "f8"), ("?", "?"),
                                            ("?", "f4"), ("u1", "i2"), ("f8", "f4")])  # fmt: skip
def test_sums_and_products_are_computed_in_the_dtype_of_a_wider_result(given: str, out: str) -> None:
    x = np.array([[3, 7, 1], [5e4, 2, 0.1], [3e4, 1, 1e4]]).astype(given) if given != "i8" else np.full((3, 3), 2**40)
    functions = {
        "sum": np.sum, "prod": np.prod, "nansum": np.nansum, "nanprod": np.nanprod, "cumsum": np.cumsum,
        "cumprod": np.cumprod, "nancumsum": np.nancumsum, "add.reduce": np.add.reduce,
        "multiply.accumulate": np.multiply.accumulate, "mean": np.mean,
    }  # fmt: skip
    if given not in ("f4", "f2"):  # of others NumPy takes float64, or rounds twice
        del functions["mean"]
    calls = {
        name: lambda x, rows, whole, f=function: f(x, axis=0, out=whole if f(x, axis=0).ndim == 2 else rows)
        for name, function in functions.items()
    }
    calls["trace"] = lambda x, rows, whole: np.trace(x, out=rows[0, ...])
    as_numpys(calls, [x, np.zeros(3, out), np.zeros((3, 3), out)], tolerance=2)
