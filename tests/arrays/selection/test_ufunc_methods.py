"""reduce, accumulate, reduceat, outer and at of every ufunc give what NumPy's give, whatever the blocks."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpys_answers import as_numpys, dealt, dealt_always
from thinning import examples

import bsp
import bsp.arrays as ba
from bsp.arrays import gathering
from bsp.arrays.errors import GatherRefused, GatherWarning
from bsp.arrays.kernels.aggregates import ASSOCIATIVE

UFUNCS = {
    name: found
    for name, found in sorted(vars(np).items())
    if isinstance(found, np.ufunc) and found.signature is None and found.nin == 2 and found.nout == 1
}
DTYPES = [np.int64, np.int8, np.uint8, np.float64, np.float32, np.complex128, np.bool_]
SHAPES = [(1,), (7,), (13,), (5, 4), (3, 2, 5), (4, 1), (6, 0), (0, 3), (0,)]


def values(shape: tuple[int, ...], dtype: Any) -> np.ndarray:
    rng = np.random.default_rng(7)
    found: np.ndarray = rng.integers(1, 5, shape).astype(dtype)
    return found


ufuncs = st.sampled_from([each for name, each in UFUNCS.items() if each.__name__ == name])
dtypes = st.sampled_from(DTYPES)
shapes = st.sampled_from(SHAPES)
processes = st.sampled_from([1, 2, 3, 5])
ways = st.sampled_from(["blocks", "fine", "ragged"])


@examples(120)
@given(ufuncs, dtypes, shapes, st.sampled_from([0, -1, 1, None, (0, 1), ()]), st.booleans(), processes, ways)
def test_reduce(
    ufunc: np.ufunc, dtype: Any, shape: tuple[int, ...], axis: Any, keepdims: bool, nprocs: int, way: str
) -> None:
    as_numpys(
        {ufunc.__name__: lambda x: ufunc.reduce(x, axis=axis, keepdims=keepdims)},
        [values(shape, dtype)], nprocs=nprocs, ways=(way,), tolerance=256,
    )  # fmt: skip


@examples(120)
@given(ufuncs, dtypes, shapes, st.sampled_from([0, -1, 1, None]), processes, ways)
def test_accumulate(
    ufunc: np.ufunc, dtype: Any, shape: tuple[int, ...], axis: Any, nprocs: int, way: str
) -> None:  # fmt: skip
    as_numpys(
        {ufunc.__name__: lambda x: ufunc.accumulate(x, axis=axis)},
        [values(shape, dtype)], nprocs=nprocs, ways=(way,), tolerance=256,
    )  # fmt: skip


@examples(120)
@given(ufuncs, dtypes, shapes, st.sampled_from([0, -1, 1]), st.lists(st.integers(0, 6), max_size=5), st.booleans(),
       processes, ways)  # fmt: skip
def test_reduceat(
    ufunc: np.ufunc, dtype: Any, shape: tuple[int, ...], axis: int, at: list[int], ordered: bool, nprocs: int, way: str
) -> None:
    indices = sorted(at) if ordered else at
    as_numpys(
        {ufunc.__name__: lambda x: ufunc.reduceat(x, indices, axis=axis)},
        [values(shape, dtype)], nprocs=nprocs, ways=(way,), tolerance=256,
    )  # fmt: skip


@examples(60)
@given(st.lists(st.integers(0, 39), min_size=1, max_size=12), st.integers(1, 6), ways)
def test_segments_over_many_pieces(at: list[int], nprocs: int, way: str) -> None:
    """Segments that begin on one process and end on another, or cover several; positions twice; a dealt `indices`."""
    x = np.random.default_rng(3).integers(-50, 50, 40)
    wide = np.random.default_rng(4).integers(-50, 50, (40, 3))
    indices = np.sort(at)
    as_numpys(
        {
            "add": lambda v, w, i: np.add.reduceat(v, indices),
            "dealt indices": lambda v, w, i: np.add.reduceat(v, i),
            "maximum": lambda v, w, i: np.maximum.reduceat(w, indices),
            "across": lambda v, w, i: np.minimum.reduceat(w.T, indices, axis=1, dtype=float),
        },
        [x, wide, indices], nprocs=nprocs, ways=(way,),
    )  # fmt: skip


def ufunc_at(ufunc: np.ufunc, *args: Any) -> Callable[..., Any]:
    def call(x: Any) -> Any:
        ufunc.at(x, *args)
        return x

    return call


@examples(100)
@given(ufuncs, dtypes, dtypes, st.lists(st.integers(-5, 4), max_size=9), st.booleans(), processes, ways)
def test_at_positions_counts_each_one(
    ufunc: np.ufunc, dtype: Any, other: Any, at: list[int], several: bool, nprocs: int, way: str
) -> None:
    where = np.array(at, int)
    what: Any = values(where.shape, other) if several else other(3)
    as_numpys(
        {
            "known": ufunc_at(ufunc, where, what),
            "rows": lambda x: ufunc_at(ufunc, (slice(1, 4), where), what)(np.concatenate([x[:, None]] * 5, axis=1)),
        },
        [values((5,), dtype)], nprocs=nprocs, ways=(way,), tolerance=256,
    )  # fmt: skip


def test_at_of_dealt_positions_and_values_of_slices_masks_and_one_argument() -> None:
    rng = np.random.default_rng(5)
    x, at, what = rng.normal(size=30), rng.integers(-30, 30, 200), rng.normal(size=200)

    def changed(call: Callable[..., None]) -> Callable[..., Any]:
        def changing(x: Any, at: Any, what: Any) -> Any:
            call(x, at, what)
            return x

        return changing

    as_numpys(
        {
            "dealt": changed(lambda x, at, what: np.add.at(x, at, what)),
            "dealt positions": changed(lambda x, at, what: np.subtract.at(x, at, 1)),
            "dealt values": changed(lambda x, at, what: np.add.at(x, np.arange(200) % 7, what)),
            "slice": changed(lambda x, at, what: np.multiply.at(x, slice(2, 20, 3), what[:6])),
            "position": changed(lambda x, at, what: np.add.at(x, 3, 1.5)),
            "mask": changed(lambda x, at, what: np.add.at(x, x > 0, 1.5)),
            "negative": changed(lambda x, at, what: np.negative.at(x, [1, 1, 2])),
            "square of dealt": changed(lambda x, at, what: np.sqrt.at(x * x, at[:3])),
            "slice of one argument": changed(lambda x, at, what: np.negative.at(x, slice(None, None, 2))),
            "beyond": changed(lambda x, at, what: np.add.at(x, [1, 30], 1)),
            "dealt beyond": changed(lambda x, at, what: np.add.at(x, at + 30, 1)),
            "too many values": changed(lambda x, at, what: np.add.at(x, [1, 2], what)),
        },
        [x, at, what], tolerance=8,
    )  # fmt: skip


def test_sums_at_positions_are_the_same_bytes_for_every_layout() -> None:
    rng = np.random.default_rng(6)
    at, what = rng.integers(0, 5, 1000), rng.normal(size=1000)
    want = np.zeros(5)
    np.add.at(want, at, what)

    def main(proc: bsp.Process, way: str) -> Any:
        x = dealt(proc, np.zeros(5), way)
        np.add.at(x, dealt(proc, at, way), dealt(proc, what, way))
        return x.compute()

    with dealt_always():
        for way in ("blocks", "fine", "ragged"):
            for nprocs in (1, 4):
                assert all(found.tobytes() == want.tobytes() for found in bsp.run(main, way, nprocs=nprocs))


def test_options_of_reduce() -> None:
    x = np.random.default_rng(8).integers(1, 9, (6, 5))
    as_numpys(
        {
            "initial": lambda x: np.maximum.reduce(x, axis=0, initial=5),
            "initial of nothing": lambda x: np.maximum.reduce(x[:0], axis=0, initial=5),
            "where": lambda x: np.bitwise_or.reduce(x, axis=1, where=x > 3),
            "where without": lambda x: np.maximum.reduce(x, axis=1, where=x > 3),
            "where and initial": lambda x: np.maximum.reduce(x, axis=1, where=x > 3, initial=0),
            "of lines": lambda x: np.subtract.reduce(x, axis=1, initial=100),
            "of lines where": lambda x: np.subtract.reduce(x, axis=1, where=x > 3, initial=100),
            "of lines where without": lambda x: np.subtract.reduce(x, axis=1, where=x > 3),
            "dtype": lambda x: np.add.reduce(x, dtype=np.float32),
            "dtype of lines": lambda x: np.divide.reduce(x, axis=1, dtype=np.float32),
            "out": lambda x: np.add.reduce(x, axis=0, out=np.zeros_like(x[0])),
            "out of lines": lambda x: np.subtract.accumulate(x, axis=0, out=np.zeros_like(x)),
            "not reorderable": lambda x: np.subtract.reduce(x, axis=None),
            "of no axes": lambda x: np.add.reduce(x[0, 0]),
            "accumulate of no axes": lambda x: np.add.accumulate(x[0, 0]),
            "reduceat of no axes": lambda x: np.add.reduceat(x[0, 0], [0]),
            "reduceat beyond": lambda x: np.add.reduceat(x, [0, 9]),
            "reduceat before": lambda x: np.add.reduceat(x, [-1]),
            "reduceat of floats": lambda x: np.add.reduceat(x, [1.5]),
            "logical": lambda x: np.logical_xor.reduce(x, axis=0),
        },
        [x],
    )


def test_a_line_that_no_process_may_have_alone_is_brought_at_a_price(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gathering, "SILENT_BYTES", 8_000)
    monkeypatch.setattr(gathering, "MOST_BYTES", 80_000)

    def main(proc: bsp.Process) -> None:
        x = ba.arange(5_000.0, grid=2)
        with pytest.warns(GatherWarning, match=r"subtract\.reduce of one line .* 0\.04 MB to each of 2 processes"):
            np.subtract.reduce(x)
        with pytest.raises(GatherRefused, match=r"power\.accumulate of one line .* would bring 0\.00016 GB to each"):
            np.power.accumulate(ba.arange(20_000.0, grid=2))
        with warnings.catch_warnings(action="error"):
            np.add.reduce(ba.arange(20_000.0, grid=2))

    bsp.run(main, nprocs=2)


def test_costs_are_those_of_partial_results() -> None:
    """h of a reduceat is one line for each block that a segment goes on into; of `at` with known positions nothing."""

    def main(proc: bsp.Process) -> list[int]:
        x = ba.zeros((40_000, 3), grid=(proc.nprocs, 1))
        at = np.arange(0, 40_000, 100)
        marks = [proc.superstep]
        np.add.reduceat(x, at)
        marks.append(proc.superstep)
        np.add.at(x, at, 1.0)
        marks.append(proc.superstep)
        return np.diff(marks).tolist()

    ran = bsp.predict(main, nprocs=4, machine=bsp.Machine(p=4))
    assert [max(row["h_sent"], row["h_received"]) for row in ran.per_superstep] == [0]
    assert bsp.run(main, nprocs=4) == [[1, 0]] * 4


def test_functions_of_arrays_have_the_methods_of_their_ufuncs() -> None:
    x = ba.arange(40.0)
    np.testing.assert_array_equal(ba.subtract.outer(x[:3], x[:2]).compute(), np.subtract.outer([0, 1, 2], [0, 1]))
    assert float(ba.add.reduce(x)) == 780
    ba.add.at(x, [1, 1, 3], 10.0)
    np.testing.assert_array_equal(ba.maximum.accumulate(x[:4]).compute(), [0, 21, 21, 21])
    with pytest.raises(AttributeError):
        ba.isclose.reduce  # noqa: B018


def test_associative_ufuncs_are() -> None:
    rng = np.random.default_rng(9)
    a, b, c = rng.integers(1, 50, (3, 200))
    for ufunc in ASSOCIATIVE:
        np.testing.assert_allclose(ufunc(ufunc(a, b), c), ufunc(a, ufunc(b, c)), rtol=1e-12, atol=0)


def test_methods_run_abstractly() -> None:
    def main(proc: bsp.Process) -> None:
        x = ba.asarray(np.random.rand(1000, 40))
        for found in (np.hypot.reduce(x), np.maximum.accumulate(x), np.add.reduceat(x, [0, 500]),
                      np.subtract.reduce(x), np.power.accumulate(x, axis=1)):  # fmt: skip
            found.persist()
        np.add.at(x, [1, 2, 2], 1.0)
        np.add.at(x, ba.arange(50_000) % 1000, 1.0)
        assert x.persist().shape == (1000, 40)

    assert bsp.predict(main, nprocs=4, machine=bsp.Machine(p=4), abstract=True).per_superstep


def test_reductions_over_no_axis_take_initial_and_where() -> None:
    calls: dict[str, Callable[..., Any]] = {
        "initial": lambda x, m: np.power.reduce(x, axis=(), initial=2),
        "where": lambda x, m: np.power.reduce(x, axis=(), initial=2, where=m, keepdims=True),
        "where alone": lambda x, m: np.power.reduce(x, axis=(), where=m),
        "nothing": lambda x, m: np.divide.reduce(x, axis=()),
        "of a number": lambda x, m: np.copysign.reduce(x[1], axis=None, initial=-1),
        "of a number with a mask": lambda x, m: np.subtract.reduce(x[1], axis=None, initial=7, where=m[1]),
    }
    as_numpys(calls, [np.array([1, -3, 5, 2]), np.array([True, False, True, True])])
