"""cov, corrcoef, histograms of several coordinates and what leaves NaN out are NumPy's, whatever the blocks."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpys_answers import as_numpys
from thinning import examples

import bsp
import bsp.arrays as ba

RNG = np.random.default_rng(0)
A, B, W = RNG.normal(size=(4, 30)), RNG.normal(size=(3, 30)), RNG.integers(0, 4, 30)
processes = st.integers(1, 5)
ways = st.sampled_from(["blocks", "fine", "ragged"])


@examples(60)
@given(st.sampled_from(["matrix", "columns", "vector", "integers", "complex", "both"]), st.booleans(),
       st.sampled_from([None, 0, 1, 2, 1.5]), st.sampled_from(["none", "f", "a", "fa"]), processes, ways)  # fmt: skip
def test_covariances(kind: str, bias: bool, ddof: Any, weights: str, nprocs: int, way: str) -> None:
    x: Any = {"matrix": A, "columns": A.T, "vector": A[0], "integers": (A * 9).astype(int), "complex": A + 1j * A[::-1],
              "both": A}[kind]  # fmt: skip
    options: dict[str, Any] = {"bias": bias, "ddof": ddof, "rowvar": kind != "columns"}
    if "f" in weights:
        options["fweights"] = W
    if "a" in weights:
        options["aweights"] = W + 0.5
    calls: dict[str, Any] = {
        "cov": lambda x, y: np.cov(x, y if kind == "both" else None, **options),
        "corrcoef": lambda x, y: np.corrcoef(x, y if kind == "both" else None, kind != "columns"),
    }
    as_numpys(calls, [x, B], nprocs=nprocs, ways=(way,), tolerance=512)


def test_covariances_of_dealt_weights_other_dtypes_and_mistakes() -> None:
    as_numpys(
        {
            "dealt weights": lambda a, w: np.cov(a, fweights=w, aweights=w * 0.5 + 1),
            "single": lambda a, w: np.cov(a, dtype=np.float32),
            "of nothing": lambda a, w: np.cov(a[:0]),
            "no freedom": lambda a, w: np.cov(a, ddof=30),
            "one observation": lambda a, w: np.cov(a[:, :1]),
            "a number": lambda a, w: np.corrcoef(a[0]),
            "three axes": lambda a, w: np.cov(a[None]),
            "ddof": lambda a, w: np.cov(a, ddof=0.5),
            "weights that are none": lambda a, w: np.cov(a, fweights=w + 0.5),
            "negative weights": lambda a, w: np.cov(a, fweights=w - 2),
            "negative analytic weights": lambda a, w: np.cov(a, aweights=w - 2.0),
            "weights of another length": lambda a, w: np.cov(a, aweights=w[:3]),
            "weights of two axes": lambda a, w: np.cov(a, aweights=a * a),
        },
        [A, W], tolerance=512,
    )  # fmt: skip


def test_no_freedom_is_told_to_every_process_once() -> None:
    def main(proc: bsp.Process) -> None:
        x = ba.asarray(A)
        with pytest.warns(RuntimeWarning, match="Degrees of freedom <= 0") as caught:
            np.cov(x, ddof=30)
        assert len(caught) == 1

    bsp.run(main, nprocs=3)


BINS = [5, [3, 4], [[-1.0, 0, 1], 3], np.array([-1.0, 0, 0.5, 2]), [[-2.0, 0, 2], [0.0, 1]], [4], 0, [1.0, 0.5, 0]]


@examples(60)
@given(st.sampled_from(range(len(BINS))), st.sampled_from([None, [[-1, 1], [0, 2]], [None, [0, 1]], [[1, 0], None]]),
       st.booleans(), st.booleans(), st.sampled_from([0, 1, 40]), processes, ways)  # fmt: skip
def test_histograms_of_the_plane(
    which: int, bounds: Any, density: bool, weighted: bool, size: int, nprocs: int, way: str
) -> None:
    rng = np.random.default_rng(size)
    x, y, w = rng.normal(size=size), rng.normal(size=size), rng.integers(1, 5, size) * 1.0
    bins = BINS[which]
    as_numpys(
        {"histogram2d": lambda x, y, w: np.histogram2d(x, y, bins, bounds, density, w if weighted else None)},
        [x, y, w], nprocs=nprocs, ways=(way,),
    )  # fmt: skip


def test_histograms_of_points_in_rows_edges_and_mistakes() -> None:
    as_numpys(
        {
            "rows": lambda p, w: np.histogramdd(p, bins=(2, 3, 4)),
            "columns": lambda p, w: np.histogramdd([p[:, 0], p[:, 1]], bins=3, weights=w),
            "one coordinate": lambda p, w: np.histogramdd(p[:, 0], bins=3),
            "single precision": lambda p, w: np.histogramdd((p * 64).round().astype("f4") / 3, bins=6),
            "too many bins": lambda p, w: np.histogramdd(p, bins=(2, 3)),
            "other lengths": lambda p, w: np.histogram2d(w, w[:3]),
            "edges": lambda p, w: np.histogram_bin_edges(p, 7),
            "edges of a range": lambda p, w: np.histogram_bin_edges(w, 7, (0, 9)),
            "edges of edges": lambda p, w: np.histogram_bin_edges(w, [1, 2, 5]),
            "edges that fall": lambda p, w: np.histogram_bin_edges(w, [1, 2, 0]),
        },
        [RNG.normal(size=(40, 3)), RNG.normal(size=40)],
    )


@examples(60)
@given(st.sampled_from(["nanargmin", "nanargmax", "nancumsum", "nancumprod", "nanmean", "nanvar", "nanstd", "nansum",
                        "nanprod", "nanmin", "nanmax"]),
       st.sampled_from([(13,), (5, 4), (0, 3), (4, 1)]), st.sampled_from([None, 0, -1]),
       st.sampled_from([np.float64, np.float32, np.float16, np.int64, np.complex128]), st.booleans(),
       processes, ways)  # fmt: skip
def test_what_leaves_nan_out(
    name: str, shape: tuple[int, ...], axis: Any, dtype: Any, all_nan: bool, nprocs: int, way: str
) -> None:
    rng = np.random.default_rng(3)
    x = rng.integers(1, 5, shape).astype(dtype)
    if x.dtype.kind in "fc" and x.size:
        x[rng.random(shape) < 0.3] = np.nan
        if all_nan:
            x[..., :1] = np.nan
    as_numpys(
        {name: lambda x: getattr(np, name)(x, axis=axis)}, [x], nprocs=nprocs, ways=(way,), tolerance=512,
    )  # fmt: skip


def test_masks_of_means_and_variances() -> None:
    as_numpys(
        {
            "mean": lambda a, w: np.mean(a, axis=1, where=w > 1),
            "mean of none": lambda a, w: np.mean(a, axis=1, where=w > 99),
            "var": lambda a, w: np.var(a, axis=1, where=w > 1, ddof=1),
            "var of none": lambda a, w: np.var(a, axis=1, where=w > 99),
            "std": lambda a, w: np.std(a, where=w > 1, keepdims=True),
            "integers": lambda a, w: np.mean(w, where=w > 1),
            "nanmean": lambda a, w: np.nanmean(a, axis=1, where=w > 1, dtype=np.float32),
            "nanvar": lambda a, w: np.nanvar(a, axis=0, where=w > 1, ddof=3),
            "nanmax": lambda a, w: np.nanmax(a, axis=0, where=w > 1, initial=-9.0),
        },
        [A, W], tolerance=256,
    )  # fmt: skip


def test_functions_of_each_element_that_are_no_ufuncs() -> None:
    z = np.array([0.0, 1, -np.inf, np.inf, np.nan, 2.5])
    as_numpys(
        {
            name: (lambda x, name=name: getattr(np, name)(x))
            for name in (
                "sinc",
                "i0",
                "fix",
                "isneginf",
                "isposinf",
                "iscomplex",
                "isreal",
                "iscomplexobj",
                "isrealobj",
            )
        },
        [z],
    )
    as_numpys(
        {
            "common_type": lambda a, w: np.common_type(a, w),
            "vdot": lambda a, w: np.vdot(a + 1j, a),
            "matvec": lambda a, w: np.matvec(a, a[0]),
            "vecmat": lambda a, w: np.vecmat(a[:, 0] + 1j, a),
            "vdot of others": lambda a, w: np.vdot(a, w),
        },
        [A, W],
    )


def test_statistics_run_abstractly() -> None:
    def main(proc: bsp.Process) -> None:
        x = ba.asarray(np.random.rand(4, 20_000))
        for found in (np.cov(x), np.corrcoef(x), np.cov(x, fweights=x[0]), np.histogram2d(x[0], x[1])[0],
                      np.nanargmax(x), np.nanvar(x), np.mean(x, where=x > 0.5)):  # fmt: skip
            found.persist()

    assert bsp.predict(main, nprocs=4, machine=bsp.Machine(p=4), abstract=True).per_superstep


def test_the_product_of_a_covariance_is_of_partial_sums() -> None:
    def main(proc: bsp.Process) -> float:
        x = ba.zeros((4, 40_000), grid=(1, proc.nprocs))
        return float(np.cov(x).cost().H)

    assert bsp.run(main, nprocs=4)[0] < 200


@pytest.mark.parametrize("nprocs", [2])
def test_a_rule_without_a_distributed_form_is_refused(nprocs: int) -> None:
    def main(proc: bsp.Process) -> None:
        with pytest.raises(TypeError, match=r"no distributed form.*takes a number, edges, or one of auto"):
            np.histogram_bin_edges(ba.asarray(A), "stone")

    bsp.run(main, nprocs=nprocs)


@pytest.mark.parametrize("rule", ["auto", "doane", "fd", "rice", "scott", "sqrt", "sturges", "nonsense"])
def test_named_rules_for_bins(rule: str) -> None:
    x = RNG.normal(size=501)
    calls: dict[str, Any] = {
        "counts": lambda x: np.histogram(x, rule),
        "within": lambda x: np.histogram(x, rule, range=(-1, 2)),
        "outside": lambda x: np.histogram(x, rule, range=(50, 60)),
        "density": lambda x: np.histogram(x, rule, density=True),
        "edges": lambda x: np.histogram_bin_edges(x, rule),
        "integers": lambda x: np.histogram((x * 20).astype(int), rule),
        "few integers": lambda x: np.histogram((x > 0).astype(int), rule),
        "booleans": lambda x: np.histogram(x > 0, rule),
        "single": lambda x: np.histogram(x.astype("f4"), rule),
        "rows": lambda x: np.histogram(x[:500].reshape(20, 25), rule),
        "alike": lambda x: np.histogram(x * 0 + 1, rule),
        "of two": lambda x: np.histogram(x[:2], rule),
        "of nothing": lambda x: np.histogram(x[:0], rule),
        "NaN": lambda x: np.histogram(x * np.nan, rule),
        "a range backwards": lambda x: np.histogram(x, rule, range=(2, 1)),
        "weights": lambda x: np.histogram(x, rule, weights=x),
    }
    for nprocs in (1, 3):
        as_numpys(calls, [x], nprocs=nprocs, tolerance=512)
