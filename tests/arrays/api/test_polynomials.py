"""polyfit and the arithmetic of polynomials are NumPy's."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.exceptions import RankWarning
from numpys_answers import as_numpys
from thinning import examples

import bsp
import bsp.arrays as ba

RNG = np.random.default_rng(0)
X, Y, C, D = np.linspace(-1, 1, 40), RNG.normal(size=40), RNG.normal(size=5), RNG.integers(1, 5, 3)


@examples(30)
@given(st.integers(0, 4), st.booleans(), st.booleans(), st.sampled_from([False, True, "unscaled"]),
       st.integers(1, 4), st.sampled_from(["blocks", "fine", "ragged"]))  # fmt: skip
def test_polyfit(deg: int, weighted: bool, two: bool, cov: Any, nprocs: int, way: str) -> None:
    as_numpys(
        {
            "polyfit": lambda x, y, w: np.polyfit(
                x, np.stack([y, y * y], 1) if two else y, deg, w=w if weighted else None, cov=cov
            ),
            "full": lambda x, y, w: np.polyfit(x, y, deg, full=True)[:2],
        },
        [X, Y, Y * Y], nprocs=nprocs, ways=(way,), tolerance=1 << 14,
    )  # fmt: skip


def test_what_cannot_be_fitted() -> None:
    as_numpys(
        {
            "negative": lambda x, y: np.polyfit(x, y, -1),
            "a matrix of points": lambda x, y: np.polyfit(x[None], y, 1),
            "nothing": lambda x, y: np.polyfit(x[:0], y[:0], 1),
            "other lengths": lambda x, y: np.polyfit(x, y[:3], 1),
            "other weights": lambda x, y: np.polyfit(x, y, 1, w=y[:3]),
            "a matrix of weights": lambda x, y: np.polyfit(x, y, 1, w=y[None]),
            "too few": lambda x, y: np.polyfit(x[:2], y[:2], 1, cov=True),
            "of three axes": lambda x, y: np.polyfit(x, y[:, None, None], 1),
        },
        [X, Y],
    )


def test_a_fit_of_low_rank_is_told_to_every_process_once() -> None:
    def main(proc: bsp.Process) -> None:
        x, y = ba.ones(40), ba.asarray(Y)
        with pytest.warns(RankWarning) as caught:
            np.polyfit(x, y, 2)
        assert len(caught) == 1

    bsp.run(main, nprocs=3)


def test_arithmetic_of_polynomials() -> None:
    as_numpys(
        {
            "polyval": lambda c, d, x: np.polyval(C, x),
            "polyval of dealt coefficients": lambda c, d, x: np.polyval(c, x),
            "polyval of integers": lambda c, d, x: np.polyval([1, 2, 3], d),
            "polyval of complex ones": lambda c, d, x: np.polyval([1j, 2], x),
            "polyval of none": lambda c, d, x: np.polyval([], x),
            "polyadd": lambda c, d, x: np.polyadd(c, d),
            "polyadd of equal ones": lambda c, d, x: np.polyadd(c, c),
            "polysub": lambda c, d, x: np.polysub(d, c),
            "polymul": lambda c, d, x: np.polymul(c, d),
            "polymul without zeros in front": lambda c, d, x: np.polymul(d * [0, 0, 1], c),
            "polymul of zeros": lambda c, d, x: np.polymul(d * 0, c),
            "polymul of none": lambda c, d, x: np.polymul(c, d[:0]),
            "polydiv": lambda c, d, x: np.polydiv(c, d),
            "polyder": lambda c, d, x: np.polyder(c),
            "polyder twice": lambda c, d, x: np.polyder(d, 2),
            "polyder of too many": lambda c, d, x: np.polyder(d, -1),
            "polyint": lambda c, d, x: np.polyint(d),
            "polyint twice": lambda c, d, x: np.polyint(c, 2, [3, 4]),
            "polyint with one constant": lambda c, d, x: np.polyint(c, 2, k=3),
            "polyint with too few": lambda c, d, x: np.polyint(c, 3, k=[3, 4]),
            "roots": lambda c, d, x: np.roots(c),
            "poly": lambda c, d, x: np.poly(c),
            "poly of a matrix": lambda c, d, x: np.poly(np.stack([c[:2], c[1:3]])),
            "vander": lambda c, d, x: np.vander(c),
            "vander of few": lambda c, d, x: np.vander(d, 2),
            "vander of none": lambda c, d, x: np.vander(d, 0),
            "vander increasing": lambda c, d, x: np.vander(x, 4, increasing=True),
            "vander of a matrix": lambda c, d, x: np.vander(c[None]),
        },
        [C, D, X], tolerance=1 << 10,
    )  # fmt: skip


@pytest.mark.parametrize("shape", [(), (2, 3)])
def test_coefficients_of_derivatives_and_integrals_have_one_axis(shape: tuple[int, ...]) -> None:
    def main(proc: bsp.Process) -> None:
        for name in ("polyder", "polyint"):
            with pytest.raises(ValueError, match=f"{name}: coefficients have one axis, not the shape"):
                getattr(ba, name)(ba.ones(shape))

    bsp.run(main, nprocs=2)


def test_polynomials_run_abstractly() -> None:
    def main(proc: bsp.Process) -> None:
        x = ba.asarray(np.random.rand(50_000))
        for found in (np.polyfit(x, x, 3), np.polyval([1.0, 2.0], x), np.polymul(x, x[:5]), np.vander(x, 3)):
            found.persist()

    assert bsp.predict(main, nprocs=4, machine=bsp.Machine(p=4), abstract=True).per_superstep


def test_powers_of_what_is_not_finite_are_numpys() -> None:
    x = np.array([np.inf, np.nan, 2.0, -np.inf])
    as_numpys({"vander": lambda x: np.vander(x, 3), "increasing": lambda x: np.vander(x, increasing=True)}, [x])


@pytest.mark.parametrize(("start", "stop"), [(-1, 100), (1, -100), (2, 50)])
@pytest.mark.parametrize("num", [0, 1, 5])
def test_complex_numbers_of_constant_ratio_go_round_zero(start: int, stop: int, num: int) -> None:
    found, known = ba.geomspace(start, stop, num, dtype=complex), np.geomspace(start, stop, num, dtype=complex)
    np.testing.assert_allclose(found.compute(), known, rtol=0, atol=1e-13 * abs(stop))
