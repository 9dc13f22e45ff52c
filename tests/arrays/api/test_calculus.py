"""gradient, trapezoid, ediff1d, unwrap, interp, convolve, correlate and windows are NumPy's, whatever the blocks."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpys_answers import as_numpys
from thinning import examples

import bsp
import bsp.arrays as ba
from bsp.arrays import gathering
from bsp.arrays.errors import GatherRefused, GatherWarning
from bsp.arrays.selection import sliding

RNG = np.random.default_rng(0)
V, A, X = RNG.normal(size=17), RNG.normal(size=(7, 5)), np.sort(RNG.normal(size=17))
processes = st.integers(1, 5)
ways = st.sampled_from(["blocks", "fine", "ragged"])


@examples(60)
@given(st.sampled_from([(3,), (17,), (7, 5), (3, 4, 5), (2, 2), (1, 5)]), st.sampled_from([None, 0, -1, (0, 1), 3]),
       st.integers(1, 3), st.sampled_from(["none", "one", "numbers", "points", "even"]),
       st.sampled_from([np.float64, np.float32, np.int64, np.int8, np.complex128, np.bool_]),
       processes, ways)  # fmt: skip
def test_gradient(
    shape: tuple[int, ...], axis: Any, edge_order: int, spacing: str, dtype: Any, nprocs: int, way: str
) -> None:
    f = np.random.default_rng(1).integers(0, 9, shape).astype(dtype)
    count = len(shape) if axis is None else len(axis) if isinstance(axis, tuple) else 1
    places = range(len(shape)) if axis is None else axis if isinstance(axis, tuple) else [axis]
    if any(not -len(shape) <= place < len(shape) for place in places):
        spacing = "none"
    points = [np.cumsum(np.arange(1.0, 1 + shape[place])) for place in places] if spacing == "points" else []
    args: list[Any] = {
        "none": [], "one": [0.5], "numbers": [2, 0.5, 3.0][:count], "points": points,
        "even": [np.arange(shape[place]) * 2 for place in places] if spacing == "even" else [],
    }[spacing]  # fmt: skip
    as_numpys(
        {"gradient": lambda f: np.gradient(f, *args, axis=axis, edge_order=edge_order)},
        [f], nprocs=nprocs, ways=(way,),
    )  # fmt: skip


def test_gradient_of_dealt_coordinates_and_wrong_ones() -> None:
    as_numpys(
        {
            "dealt": lambda v, a, x: np.gradient(v, x),
            "dealt and even": lambda v, a, x: np.gradient(v, x * 0 + np.arange(17.0)),
            "of both axes": lambda v, a, x: np.gradient(a, x[:7], 2.0, edge_order=2),
            "of another length": lambda v, a, x: np.gradient(v, x[:3]),
            "of two axes": lambda v, a, x: np.gradient(v, a),
            "too many": lambda v, a, x: np.gradient(v, 1, 2),
        },
        [V, A, X],
    )


def test_integrals_and_differences() -> None:
    as_numpys(
        {
            "trapezoid": lambda v, a, x: np.trapezoid(v),
            "of points": lambda v, a, x: np.trapezoid(v, x),
            "along an axis": lambda v, a, x: np.trapezoid(a, dx=0.5, axis=0),
            "of points along an axis": lambda v, a, x: np.trapezoid(a, x[:7], axis=0),
            "of a matrix of points": lambda v, a, x: np.trapezoid(a, a * a, axis=1),
            "of integers": lambda v, a, x: np.trapezoid((v * 9).astype(int)),
            "of one": lambda v, a, x: np.trapezoid(v[:1]),
            "of other points": lambda v, a, x: np.trapezoid(v, x[:3]),
            "ediff1d": lambda v, a, x: np.ediff1d(a),
            "with ends": lambda v, a, x: np.ediff1d(v, to_begin=-9, to_end=[1, 2]),
            "of another kind": lambda v, a, x: np.ediff1d((v * 9).astype(int), to_begin=1.5),
            "of nothing": lambda v, a, x: np.ediff1d(v[:0]),
            "unwrap": lambda v, a, x: np.unwrap(v * 9),
            "along the first axis": lambda v, a, x: np.unwrap(a * 9, axis=0),
            "of integers in a period": lambda v, a, x: np.unwrap((v * 9).astype(int), period=7),
            "of an even period": lambda v, a, x: np.unwrap((v * 9).astype(int), period=6),
            "with discontinuities": lambda v, a, x: np.unwrap(v * 9, discont=4.0),
        },
        [V, A, X],
    )


@examples(80)
@given(st.sampled_from([1, 2, 5, 17, 60]), st.sampled_from([1, 2, 5, 17, 60]),
       st.sampled_from(["full", "same", "valid", 0, 2, "x"]),
       st.sampled_from([np.int64, np.float64, np.complex128, np.bool_, np.float32]), processes, ways)  # fmt: skip
def test_convolve_and_correlate(n: int, m: int, mode: Any, dtype: Any, nprocs: int, way: str) -> None:
    rng = np.random.default_rng(n + m)
    a, v = (rng.integers(-4, 5, size).astype(dtype) for size in (n, m))
    if dtype is np.complex128:
        a, v = a + 1j * np.arange(n), v - 1j * np.arange(m)
    as_numpys(
        {
            "convolve": lambda a, v: np.convolve(a, v, mode),
            "correlate": lambda a, v: np.correlate(a, v, mode),
            "of a list": lambda a, v: np.convolve(a, [1, 2, 3], mode),
            "of other dtypes": lambda a, v: np.correlate(a, v * 1.5 if dtype is not np.bool_ else v, mode),
        },
        [a, v], nprocs=nprocs, ways=(way,),
    )  # fmt: skip


def test_what_cannot_be_convolved() -> None:
    as_numpys(
        {
            "nothing": lambda v, a: np.convolve(v, []),
            "nothing with something": lambda v, a: np.correlate(v[:0], v),
            "a matrix": lambda v, a: np.convolve(a, v),
            "numbers": lambda v, a: np.convolve(v, 2.0),
        },
        [V, A],
    )


def test_a_convolution_moves_the_overlaps_only() -> None:
    def main(proc: bsp.Process) -> None:
        ba.convolve(ba.zeros(40_000), np.ones(9))

    ran = bsp.predict(main, nprocs=4, machine=bsp.Machine(p=4))
    assert [max(row["h_sent"], row["h_received"]) for row in ran.per_superstep] == [8]


def test_two_long_vectors_are_convolved_at_a_price_that_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gathering, "SILENT_BYTES", 1_000)
    monkeypatch.setattr(gathering, "MOST_BYTES", 4_000)

    def main(proc: bsp.Process) -> None:
        x = ba.arange(600.0, grid=2)
        with warnings.catch_warnings(record=True, action="always") as caught:
            np.convolve(x, x[:300])
        assert [each.category for each in caught] == [GatherWarning]
        with pytest.raises(GatherRefused, match="the shorter vector has no distributed form and would bring"):
            np.convolve(x, x)

    bsp.run(main, nprocs=2)


@examples(60)
@given(st.sampled_from([(17,), (7, 5), (1,), (0,)]), st.sampled_from([1, 2, 3, 7, 0, -1, 9, (2, 3), (3, 2, 1)]),
       st.sampled_from([None, 0, -1, (0, 1), (0, 0), 4]), st.sampled_from([0, 64]), processes, ways)  # fmt: skip
def test_sliding_windows(
    shape: tuple[int, ...], window: Any, axis: Any, few: int, nprocs: int, way: str
) -> None:  # fmt: skip
    x = np.arange(np.prod(shape)).reshape(shape)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sliding, "FEW", few)
        as_numpys(
            {"windows": lambda x: np.lib.stride_tricks.sliding_window_view(x, window, axis)},
            [x], nprocs=nprocs, ways=(way,),
        )  # fmt: skip


@examples(60)
@given(st.integers(1, 60), st.integers(0, 40), st.booleans(), st.sampled_from([None, 4.0, -3]),
       st.sampled_from(["numpy", "dealt"]), processes, ways)  # fmt: skip
def test_interp(n: int, m: int, complex_values: bool, period: Any, points: str, nprocs: int, way: str) -> None:
    """Few points, brought to all; many, looked up; at points, beyond them, NaN and infinite ones."""
    rng = np.random.default_rng(n)
    xp = np.sort(rng.choice(np.arange(100) * (0.1 if period is None else 0.03), n, replace=False))  # in one period
    fp: Any = rng.integers(-9, 9, n) * 1.0
    if complex_values:
        fp = fp + 1j * rng.integers(-9, 9, n)
    x = np.concatenate([rng.integers(-10, 110, m) / 10, [np.nan, np.inf, -np.inf][: m % 4]])
    args = {"left": -1.0, "right": 7.0} if n % 2 else {}
    if points == "numpy":
        as_numpys({"interp": lambda x: np.interp(x, xp, fp, period=period, **args)}, [x], nprocs=nprocs, ways=(way,))
    else:
        as_numpys(
            {"interp": lambda x, xp, fp: np.interp(x, xp, fp, period=period, **args)},
            [x, xp, fp], nprocs=nprocs, ways=(way,),
        )  # fmt: skip


def test_interp_of_infinite_points_and_wrong_ones() -> None:
    xp, fp = np.array([1.0, 2, 3, 4]), np.array([1.0, np.inf, np.nan, 3])
    x = np.array([0.5, 1, 1.5, 2, 2.5, 3, 3.5, 4, 4.5] * 9)
    as_numpys(
        {
            "infinite": lambda x, xp, fp: np.interp(x, xp, fp),
            "infinite and looked up": lambda x, xp, fp: np.interp(x[:5], xp, fp),
            "a matrix": lambda x, xp, fp: np.interp(x.reshape(9, 9), xp, fp),
            "a number": lambda x, xp, fp: np.interp(1.5, xp, fp),
            "other lengths": lambda x, xp, fp: np.interp(x, xp, fp[:2]),
            "no points": lambda x, xp, fp: np.interp(x, xp[:0], fp[:0]),
            "points in a matrix": lambda x, xp, fp: np.interp(x, xp[None], fp),
            "no period": lambda x, xp, fp: np.interp(x, xp, fp, period=0),
        },
        [x, xp, fp],
    )


def test_calculus_runs_abstractly() -> None:
    def main(proc: bsp.Process) -> None:
        x = ba.asarray(np.random.rand(50_000))
        points = ba.asarray(np.random.rand(90_000))
        for found in (np.gradient(x), np.gradient(x, points[:50_000]), np.trapezoid(x), np.convolve(x, x[:9]),
                      np.correlate(x, np.ones(5)), np.interp(x, [0.0, 1.0], [1.0, 2.0]), np.interp(x, points, points),
                      ba.sliding_window_view(x, 5), np.unwrap(x)):  # fmt: skip
            found.persist()

    assert bsp.predict(main, nprocs=4, machine=bsp.Machine(p=4), abstract=True).per_superstep
