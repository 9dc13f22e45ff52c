"""LAPACK's and BLAS's kernels on blocks stored by rows, against NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from bsp.arrays.linalg import triangles

TYPES = (np.float32, np.float64, np.complex64, np.complex128)


def sample(seed: int, *shape: int, dtype: Any) -> np.ndarray:
    rng = np.random.default_rng(seed)
    found = rng.normal(size=shape)
    if np.dtype(dtype).kind == "c":
        found = found + 1j * rng.normal(size=shape)
    return found.astype(dtype)


def close(found: Any, expected: Any) -> None:
    assert found.dtype == expected.dtype
    assert found.shape == expected.shape
    np.testing.assert_allclose(found, expected, rtol=0, atol=200 * np.finfo(expected.dtype).eps * abs(expected).max())


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize(("rows", "columns"), [(1, 1), (7, 3), (5, 5), (90, 33)])
def test_a_panel_is_factored_with_partial_pivoting(dtype: Any, rows: int, columns: int) -> None:
    panel = sample(1, rows, columns, dtype=dtype)
    before = panel.copy()
    factors, pivots = triangles.lu(panel)
    order = np.arange(rows)
    for k, other in enumerate(pivots):
        order[[k, other]] = order[[other, k]]
    lower = np.tril(factors, -1) + np.eye(rows, columns, dtype=dtype)
    close(lower @ np.triu(factors[:columns]), panel[order])
    assert (panel == before).all()
    assert (abs(lower) <= 1.5).all()  # partial pivoting; for complex ones LAPACK compares |re| + |im|


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize(("rows", "columns"), [(1, 1), (5, 5), (9, 4), (90, 33)])
def test_a_panel_of_a_definite_matrix_is_factored(dtype: Any, rows: int, columns: int) -> None:
    x = sample(2, rows, rows, dtype=dtype)
    a = x @ x.conj().T + rows * np.eye(rows, dtype=dtype)
    panel = np.asarray(a[:, :columns]) + np.triu(np.full((rows, columns), np.nan, dtype), 1)  # not read
    found = triangles.cholesky(panel)
    close(found, np.linalg.cholesky(a)[:, :columns])


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("bad", [-1.0, 0.0])
def test_a_panel_of_another_matrix_is_refused(dtype: Any, bad: float) -> None:
    panel = np.eye(6, 3, dtype=dtype)
    panel[2, 2] = bad
    assert triangles.cholesky(panel) is None


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("columns", [1, 4, 40])
@pytest.mark.parametrize("strided", [False, True])
def test_triangular_systems_are_solved(dtype: Any, columns: int, strided: bool) -> None:
    both = sample(3, 12, 12, dtype=dtype) / 4 + np.eye(12, dtype=dtype)
    right = sample(4, 12, 2 * columns, dtype=dtype)[:, ::2] if strided else sample(4, 12, columns, dtype=dtype)
    close(triangles.lower_solve(both, right), np.linalg.solve(np.tril(both, -1) + np.eye(12, dtype=dtype), right))
    close(triangles.upper_solve(both, right), np.linalg.solve(np.triu(both), right))


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize(("m", "k", "n"), [(5, 3, 4), (1, 1, 1), (64, 7, 33), (0, 3, 4), (5, 3, 0)])
@pytest.mark.parametrize("turned", [False, True])
def test_a_product_is_subtracted_in_place(dtype: Any, m: int, k: int, n: int, turned: bool) -> None:
    """The target is rows of a larger matrix, as a panel's trailing rows are; the rest of it stays."""
    matrix, left = sample(5, m + 2, n, dtype=dtype), sample(6, m, k, dtype=dtype)
    right = sample(7, n, k, dtype=dtype).T if turned else sample(7, k, n, dtype=dtype)
    expected = matrix.copy()
    expected[2:] -= left @ right
    triangles.subtract_product(matrix[2:], left, right)
    if expected.size:
        close(matrix, expected)
    assert (matrix[:2] == expected[:2]).all()
