"""Dates and durations are dtypes like others: sequences, differences, extremes, order, sets, files; NaT as NumPy's."""

from __future__ import annotations

import datetime
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpys_answers import agree, as_numpys, dealt_always, outcome
from thinning import examples

import bsp
import bsp.arrays as ba

DAY = np.timedelta64(1, "D")
NO_DATE = np.datetime64("NaT")
RNG = np.random.default_rng(0)
DATES = np.datetime64("2026-01-01") + RNG.integers(-300, 300, 30) * DAY
GAPS = np.where(RNG.random(30) < 0.2, NO_DATE, DATES)
SPANS = DATES - DATES[0]
T, D = np.timedelta64, np.datetime64
SEQUENCES: list[tuple[Any, ...]] = [
    (D("2026-01-01"), D("2026-02-01")),
    (D("2026-01-01"), D("2026-02-01"), T(7, "D")),
    (D("2026-01-01"), D("2026-01-03"), T(6, "h")),
    (D("2026-01-01"), D("2026-01-03T05")),
    (D("2026-01-01"), 5),
    (D("2026-01-01"), T(5, "D")),
    (T(5, "h"),),
    (T(1, "D"), T(2, "D"), T(5, "h")),
    (D("2026-01-05"), D("2026-01-01"), -1),
    (D("2026-01-05"), D("2026-01-01")),
    (D("2026-01-05"),),
    (D("2026-01-05"), D("2026-02-05"), 0),
    (NO_DATE, D("2026-01-01")),
    (D("2026-01-01"), D("2026-01-03"), 1.5),
    (datetime.date(2026, 1, 1), datetime.date(2026, 1, 4)),
    (datetime.date(2026, 1, 1), datetime.date(2026, 1, 4), datetime.timedelta(hours=5)),
]


@pytest.mark.parametrize("nprocs", [1, 3])
def test_sequences(nprocs: int) -> None:
    calls = [(args, None) for args in SEQUENCES]
    calls += [(("2026-01", "2026-03"), "M8[D]"), ((0, 5), "m8[s]"), ((0, 10, 3), "M8[D]"), (("2026", 4), "M8[Y]")]
    with dealt_always():
        for found in bsp.run(
            lambda proc: [outcome(lambda: ba.arange(*args, dtype=dtype), []) for args, dtype in calls], nprocs=nprocs
        ):
            for (args, dtype), each in zip(calls, found, strict=True):
                agree(each, outcome(lambda args=args, dtype=dtype: np.arange(*args, dtype=dtype), []), f"{args}", 0)


def test_arithmetic_and_comparisons() -> None:
    as_numpys(
        {
            "difference": lambda d, g, s: d - g,
            "of neighbours": lambda d, g, s: np.diff(d),
            "later": lambda d, g, s: (d + DAY, d + s, d - 3 * DAY, d + 1),
            "other units": lambda d, g, s: d.astype("M8[s]") - g,
            "comparisons": lambda d, g, s: (d < g, d >= np.datetime64("2026-01-01"), g == g, g != d),
            "with numbers": lambda d, g, s: (d == 3, s != np.arange(30.0), np.arange(30)[:, None] == d, d == s),
            "with numbers of another shape": lambda d, g, s: d == np.arange(3),
            "with text": lambda d, g, s: d == "2026-01-01",
            "ratio": lambda d, g, s: (s / DAY, s // DAY, s % (7 * DAY), s * 2, s / 2, -s, abs(s)),
            "dates added": lambda d, g, s: d + d,
            "no date": lambda d, g, s: (np.isnat(g), np.isfinite(g)),
            "where": lambda d, g, s: np.where(np.isnat(g), d, g),
            "clip": lambda d, g, s: np.clip(d, d[0], d[0] + 9 * DAY),
            "integers": lambda d, g, s: (d.astype(int), s.astype(int)),
            "gradient": lambda d, g, s: np.gradient(d),
            "trapezoid": lambda d, g, s: np.trapezoid(np.arange(30), d),
        },
        [DATES, GAPS, SPANS], tolerance=0,
    )  # fmt: skip


def test_extremes_sums_and_means() -> None:
    as_numpys(
        {
            "extremes": lambda d, g, s: (d.min(), d.max(), np.ptp(d), d.argmin(), d.argmax()),
            "of no dates": lambda d, g, s: (g.min(), g.max(), g.argmin(), g.argmax()),
            "but no dates": lambda d, g, s: (np.nanmin(g), np.nanmax(g), np.fmin.reduce(g)),
            "of none": lambda d, g, s: d[:0].max(),
            "sums": lambda d, g, s: (s.sum(), s.cumsum(), np.sum(s.reshape(6, 5), axis=0), s.sum(where=s > DAY)),
            "means": lambda d, g, s: (s.mean(), np.mean(s.reshape(6, 5), axis=1)),
            "running": lambda d, g, s: np.maximum.accumulate(d),
            "segments": lambda d, g, s: np.minimum.reduceat(d, [0, 7, 20]),
            "medians": lambda d, g, s: (np.median(s), np.nanmedian(g - g[0]), np.median(g - d)),
            "quantiles": lambda d, g, s: (np.quantile(s, [0.1, 0.5, 0.9]), np.quantile(d, 0.3), np.quantile(g, 0.3)),
            "quantiles of rows": lambda d, g, s: np.quantile(s.reshape(6, 5), 0.3, axis=1),
            "sum of dates": lambda d, g, s: d.sum(),
            "mean of dates": lambda d, g, s: d.mean(),
            "median of dates": lambda d, g, s: np.median(d),
            "deviation": lambda d, g, s: s.std(),
            "product": lambda d, g, s: s.prod(),
            "numbers of days": lambda d, g, s: d.sum(dtype="i8"),
            "running numbers": lambda d, g, s: d.cumsum(dtype=float),
            "mean of numbers": lambda d, g, s: np.mean(d, dtype=float),
            "deviation of numbers": lambda d, g, s: s.std(dtype="f4"),
            "interpolated": lambda d, g, s: np.interp(d, [0.0, 1.0], [2.0, 3.0]),
            "interpolated to": lambda d, g, s: np.interp([0.5], [0.0, 1.0], s[:2]),
        },
        [DATES, GAPS, SPANS], tolerance=0,
    )  # fmt: skip


def test_dates_are_true_but_the_first_day() -> None:
    as_numpys(
        {
            "any and all": lambda d, g, s: (d.any(), d.all(), g.all(), d[:0].any(), np.all(g.reshape(6, 5), axis=0)),
            "count": lambda d, g, s: (np.count_nonzero(d), np.count_nonzero(g.reshape(6, 5), axis=1)),
            "positions": lambda d, g, s: (np.flatnonzero(d), g.nonzero(), np.argwhere(d)),
            "where": lambda d, g, s: np.where(d, s, -s),
            "zeros": lambda d, g, s: np.trim_zeros(d),
            "or": lambda d, g, s: np.logical_or.reduce(d),
            "equal": lambda d, g, s: (np.array_equal(g, g), np.array_equal(g, g, equal_nan=True)),
        },
        [np.where(np.arange(30) % 7, DATES, np.datetime64(0, "D")), np.where(np.arange(30) % 4, GAPS, NO_DATE), SPANS],
        tolerance=0,
    )  # fmt: skip


def test_dates_have_no_place_among_numbers() -> None:
    """Only one process has values that NumPy could not compare, and all raise the error."""

    def main(proc: bsp.Process) -> None:
        dates = ba.asarray(np.where(np.arange(30) < 5, NO_DATE, DATES).astype("M8[ns]"), grid=5)
        with pytest.raises(TypeError):
            ba.histogram(dates, bins=np.array([0, 1, 2]))
        proc.sync()

    with dealt_always():
        bsp.run(main, nprocs=3)


@examples(30)
@given(st.integers(0, 40), st.booleans(), st.integers(1, 5), st.sampled_from(["blocks", "fine", "ragged"]))
def test_order_sets_and_indices(size: int, gaps: bool, nprocs: int, way: str) -> None:
    rng = np.random.default_rng(size)
    d = np.datetime64("2026-01-01") + rng.integers(-9, 9, size) * DAY
    if gaps:
        d[rng.random(size) < 0.3] = NO_DATE
    as_numpys(
        {
            "sort": lambda d: (np.sort(d), np.argsort(d, kind="stable"), np.lexsort((d,))),
            "unique": lambda d: np.unique(d, return_index=True, return_inverse=True, return_counts=True),
            "unique of all": lambda d: np.unique(d, True, True, equal_nan=False),
            "sets": lambda d: (np.isin(d, d[:3]), np.union1d(d, d[:2] + DAY), np.setdiff1d(d, d[:2])),
            "masks": lambda d: (d[d > np.datetime64("2026-01-01")], d[~np.isnat(d)], np.nonzero(~np.isnat(d))),
            "positions": lambda d: (d[::-1], np.searchsorted(np.sort(d), d)),
            "edits": lambda d: (np.insert(d, 0, np.datetime64("2020-01-01")), np.concatenate([d, d])),
        },
        [d], nprocs=nprocs, ways=(way,),
    )  # fmt: skip


def changed(d: Any) -> Any:
    d[3] = np.datetime64("2020-01-01")
    d[4:6] = NO_DATE
    return d


def test_what_is_assigned_filled_and_made() -> None:
    as_numpys(
        {
            "assigned": lambda d, s: changed(d),
            "filled": lambda d, s: d.fill(np.datetime64("1999-09-09")),
            "zeros": lambda d, s: (np.zeros_like(d), np.full_like(s, DAY)),
            "units": lambda d, s: (d.astype("M8[M]"), d.astype("M8[h]")),
        },
        [DATES, SPANS],
    )

    def main(proc: bsp.Process) -> Any:
        made = ba.full(5, np.datetime64("2026-01-01"))
        return made.compute(), ba.asarray(["2026-01-01", "NaT"], dtype="M8[D]").tolist(), repr(made), made[0].item()

    for whole, listed, text, one in bsp.run(main, nprocs=2):
        np.testing.assert_array_equal(whole, np.full(5, np.datetime64("2026-01-01")))
        assert listed == [datetime.date(2026, 1, 1), None]
        assert text.startswith("<datetime64[D][5] on every process: ['2026-01-01', '2026-01-01'")
        assert one == datetime.date(2026, 1, 1)


def test_dates_are_kept_in_npy_files(tmp_path: Path) -> None:
    def main(proc: bsp.Process) -> Any:
        ba.save(tmp_path / "dates.npy", ba.asarray(GAPS, grid=proc.nprocs))
        return ba.load(tmp_path / "dates.npy").compute()

    for found in bsp.run(main, nprocs=3):
        np.testing.assert_array_equal(found, GAPS)
    np.testing.assert_array_equal(np.load(tmp_path / "dates.npy"), GAPS)


def test_dates_run_abstractly() -> None:
    def main(proc: bsp.Process) -> None:
        d = ba.arange(np.datetime64("2000-01-01"), np.datetime64("2100-01-01"))
        for found in (np.diff(d), d.max(), np.sort(d), d[d > np.datetime64("2020-01-01")], np.unique(d)):
            found.persist()

    assert bsp.predict(main, nprocs=4, machine=bsp.Machine(p=4), abstract=True).per_superstep


@pytest.mark.jobs
def test_dates_travel_between_interpreters() -> None:
    def main(proc: bsp.Process) -> Any:
        d = ba.asarray(GAPS, grid=proc.nprocs)
        return np.sort(d).compute(), (d - d[0]).persist().rechunk(grid=1).compute(), d.max().compute()

    for ordered, spans, last in bsp.run(main, nprocs=4, elements=2):
        np.testing.assert_array_equal(ordered, np.sort(GAPS))
        np.testing.assert_array_equal(spans, GAPS - GAPS[0])
        np.testing.assert_array_equal(last, GAPS.max())
