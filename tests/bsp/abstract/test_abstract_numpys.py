"""Functions that NumPy writes in Python run as NumPy wrote them, and make no real array of abstract ones."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from abstract_oracle import agree

from bsp.abstract import AbstractArray, counter
from bsp.abstract.numpys import USUAL, own
from bsp.abstract.table import TABLE
from bsp.errors import ValueNeeded

V = np.arange(6.0) + 1
M = np.arange(24.0).reshape(4, 6) + 1
S = np.eye(4) + 1

CALLS: dict[str, Callable[..., Any]] = {
    "polyfit": lambda v, m, s: np.polyfit(v, 2 * v, 2),
    "polyval": lambda v, m, s: np.polyval([1, 2, 3], m),
    "apply_along_axis": lambda v, m, s: np.apply_along_axis(np.sum, 0, m),
    "piecewise": lambda v, m, s: np.piecewise(v, [v > 2], [lambda x: 2 * x, 0.0]),
    "median of columns": lambda v, m, s: np.median(m, axis=0),
    "norms of rows": lambda v, m, s: np.linalg.norm(m, np.inf, axis=1),
    "nansum": lambda v, m, s: np.nansum(m, axis=1, keepdims=True),
    "a window": lambda v, m, s: v * np.hamming(6),
    "frequencies": lambda v, m, s: np.fft.fft(v) * np.fft.fftfreq(6),
    "a power": lambda v, m, s: np.linalg.matrix_power(s, 5),
    "covariance of columns": lambda v, m, s: np.cov(m, rowvar=False),
    "evaluated where points are": lambda v, m, s: np.polynomial.polynomial.polyval(v, [1, 2, 3]),
}


@pytest.mark.parametrize("name", list(CALLS))
def test_functions_without_an_entry_are_numpys(name: str) -> None:
    agree(CALLS[name], V, M, S)


N = 10**6
A, X, T, K = AbstractArray((N, N)), AbstractArray(N), AbstractArray((N, 50)), AbstractArray((N, N), int)
LARGE: dict[str, Callable[[], Any]] = {
    "triu": lambda: np.triu(A),
    "the power 0": lambda: np.linalg.matrix_power(A, 0),
    "cov": lambda: np.cov(T, rowvar=False),
    "kron": lambda: np.kron(X, X),
    "diag": lambda: np.diag(X),
    "pad": lambda: np.pad(A, 1),
    "tile": lambda: np.tile(A, 3),
    "block": lambda: np.block([[A, A]]),
    "take_along_axis": lambda: np.take_along_axis(A, K, 1),
    "gradient": lambda: np.gradient(A, X, axis=0),
    "insert": lambda: np.insert(A, 1, 0, axis=0),
    "nanmax": lambda: np.nanmax(A, axis=0),
    "lstsq": lambda: np.linalg.lstsq(T, X),
    "polyfit": lambda: np.polyfit(X, X, 3),
    "fft2": lambda: np.fft.fft2(A),
    "select": lambda: np.select([A > 0], [A]),
}


@pytest.mark.parametrize("name", list(LARGE))
def test_numpys_code_takes_no_memory_for_what_is_abstract(name: str) -> None:
    LARGE[name]()
    tracemalloc.start()
    LARGE[name]()
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 10 * N  # a vector of positions or two; a matrix would take N times as much


def test_work_and_memory_are_those_of_numpys_steps() -> None:
    counter.take()
    np.diff(AbstractArray(100), n=2)
    assert counter.take().elementwise == 99 + 98
    np.trapezoid(AbstractArray(100), dx=0.5)
    work = counter.take()
    assert (work.elementwise, work.blas1) == (99 + 99 + 4 * 99, 99)


def test_a_branch_on_a_value_in_numpys_code_names_the_programs_line() -> None:
    with pytest.raises(ValueNeeded, match=r"at test_abstract_numpys\.py:\d+: --abstract carries shapes"):
        np.roots(AbstractArray(4))


def test_only_numpys_functions_branch_as_usual() -> None:
    """A program's function of the same name has no usual data."""

    def average(x: Any) -> Any:
        return 0.0 if np.any(x == 0.0) else x.mean()

    assert "average" in USUAL
    with pytest.raises(ValueNeeded, match="a branch"):
        average(AbstractArray(3))


def test_what_numpy_writes_in_c_has_an_entry_or_is_refused() -> None:
    assert own(np.packbits) is None and own(np.dot) is None and np.dot in TABLE
    assert own(np.diff) is not None and np.diff not in TABLE
