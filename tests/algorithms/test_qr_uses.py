"""What rests on QR: singular values, principal components, least squares; NumPy, scikit-learn and NIST as oracles."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.linalg import LinAlgError
from thinning import examples

import bsp
import bsp.arrays as ba
from bsp.algorithms.qr import PCA, lstsq, pca, svd
from bsp.errors import ShapeError
from tools import qr_study as study

EPS = float(np.finfo(float).eps)


def sample(seed: int, *shape: int) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=shape)


def pieces_of(a: np.ndarray, nprocs: int, seed: int = 0) -> list[np.ndarray]:
    return np.split(a, np.sort(np.random.default_rng(seed).integers(0, len(a) + 1, nprocs - 1)))


def same_everywhere(main: Callable[..., Any], nprocs: int) -> Any:
    results = bsp.run(main, nprocs=nprocs)
    for other in results[1:]:
        np.testing.assert_equal(other, results[0])
    return results[0]


def computed(found: Any) -> list[Any]:
    return [each.compute() if isinstance(each, ba.Array) else each for each in found]


# ----------------------------------------------------------------------------------- singular values


@pytest.mark.parametrize("nprocs", [1, 2, 5, 64])
@pytest.mark.parametrize("kappa", [1e1, 1e9, 1e15])
def test_singular_values_of_tall_matrices_are_numpys(kappa: float, nprocs: int) -> None:
    a = study.of_condition(1000, 6, kappa)
    pieces = pieces_of(a, nprocs)
    u, s, vt = same_everywhere(lambda proc: computed(svd(ba.from_local(pieces[proc.pid]))), nprocs)
    assert (u.shape, s.shape, vt.shape) == ((1000, 6), (6,), (6, 6))
    np.testing.assert_allclose(s, np.linalg.svdvals(a), rtol=0, atol=20 * EPS)
    np.testing.assert_allclose((u * s) @ vt, a, rtol=0, atol=50 * EPS)
    for each in (u, vt.T):
        np.testing.assert_allclose(each.T @ each, np.eye(6), rtol=0, atol=50 * EPS)


def test_singular_vectors_have_signs_that_the_dealing_does_not_change() -> None:
    a = sample(1, 300, 4)
    alone = same_everywhere(lambda proc: computed(svd(a)), 1)
    for nprocs in (2, 7):
        pieces = pieces_of(a, nprocs)
        found = same_everywhere(lambda proc, pieces=pieces: computed(svd(ba.from_local(pieces[proc.pid]))), nprocs)
        for mine, expected in zip(found, alone, strict=True):
            np.testing.assert_allclose(mine, expected, rtol=0, atol=1e-13)


@pytest.mark.parametrize("shape", [(4, 9), (1, 1), (3, 3), (5, 0), (200, 150)])
@pytest.mark.parametrize("dtype", [float, complex])
def test_singular_values_of_any_shape(shape: Any, dtype: Any) -> None:
    a = sample(2, *shape).astype(dtype)
    if dtype is complex:
        a += 1j * sample(3, *shape)
    u, s, vt = same_everywhere(lambda proc: computed(svd(a)), 3)
    np.testing.assert_allclose((u * s) @ vt, a, rtol=0, atol=1e-12)
    np.testing.assert_allclose(s, np.linalg.svdvals(a), rtol=0, atol=1e-12)


# --------------------------------------------------------------------------------------- components


@pytest.mark.parametrize("nprocs", [1, 2, 3, 7, 64])
def test_components_are_scikit_learns_up_to_sign(nprocs: int) -> None:
    from sklearn.datasets import load_breast_cancer
    from sklearn.decomposition import PCA as Theirs

    a = load_breast_cancer().data
    theirs = Theirs(5, svd_solver="full").fit(a)
    pieces = pieces_of(a, nprocs)

    def main(proc: Any) -> Any:
        x = ba.from_local(pieces[proc.pid])
        found = pca(x, 5)
        assert found.scores.layout.axes[0] == x.layout.axes[0]
        return computed(found)

    found = PCA(*same_everywhere(main, nprocs))
    np.testing.assert_allclose(found.mean, theirs.mean_, rtol=1e-13)
    np.testing.assert_allclose(found.explained_variance, theirs.explained_variance_, rtol=1e-10)
    np.testing.assert_allclose(found.explained_variance_ratio, theirs.explained_variance_ratio_, rtol=1e-10)
    signs = np.sign(np.sum(found.components * theirs.components_, axis=1))
    np.testing.assert_allclose(found.components, theirs.components_ * signs[:, None], rtol=0, atol=1e-9)
    expected = theirs.transform(a) * signs
    np.testing.assert_allclose(found.scores, expected, rtol=0, atol=1e-9 * np.abs(expected).max())
    first = np.argmax(np.abs(found.components) >= np.abs(found.components).max(axis=1, keepdims=True) / 2, axis=1)
    assert (found.components[np.arange(5), first] > 0).all()


def test_variances_far_below_rounding_of_a_covariance_matrix_are_found() -> None:
    a = study.of_condition(500, 4, 1e10)  # variances down to 1e-20 of the greatest, A'A is exact to 1e-16 of it
    pieces = pieces_of(a, 3)
    variance = same_everywhere(lambda proc: computed(pca(ba.from_local(pieces[proc.pid]), 4))[1], 3)
    expected = np.linalg.svdvals(a - a.mean(axis=0)) ** 2 / 499
    np.testing.assert_allclose(variance, expected, rtol=1e-5)


@pytest.mark.parametrize("scale", [1e-300, 1e-200, 1e200, 1e300])
def test_shares_of_variances_are_numbers_where_variances_are_not(scale: float) -> None:
    a = sample(5, 40, 5)
    wanted = PCA(*same_everywhere(lambda proc: computed(pca(a, 3)), 2))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = PCA(*same_everywhere(lambda proc: computed(pca(a * scale, 3)), 2))
    np.testing.assert_allclose(found.explained_variance_ratio, wanted.explained_variance_ratio, rtol=1e-12)
    np.testing.assert_array_equal(found.explained_variance, 0.0 if scale < 1 else np.inf)
    np.testing.assert_allclose(found.components, wanted.components, rtol=0, atol=1e-12)
    np.testing.assert_allclose(found.scores / scale, wanted.scores, rtol=0, atol=1e-12)


@examples(40)
@given(st.integers(0, 1 << 30), st.floats(0, 1), st.integers(1, 12), st.sampled_from([1, 2, 3]))
def test_variances_are_exact_relative_to_themselves_by_either_way(
    seed: int, exponent: float, n: int, nprocs: int
) -> None:
    rng = np.random.default_rng(seed)
    q, _ = np.linalg.qr(rng.normal(size=(700, n)))
    a = (q * np.logspace(0, exponent, n)) @ np.linalg.qr(rng.normal(size=(n, n)))[0] + rng.normal(size=n) / 10
    pieces = pieces_of(a, nprocs)
    components, variance, _, mean, scores = same_everywhere(
        lambda proc: computed(pca(ba.from_local(pieces[proc.pid]), n)), nprocs
    )
    exact = a.astype(np.longdouble).mean(axis=0)
    np.testing.assert_allclose(mean, exact.astype(float), rtol=0, atol=8 * EPS)
    centred = (a - exact).astype(float)
    np.testing.assert_allclose(variance, np.linalg.svdvals(centred) ** 2 / 699, rtol=5000 * EPS)
    np.testing.assert_allclose(components @ components.T, np.eye(n), rtol=0, atol=20 * EPS * n**0.5)
    np.testing.assert_allclose(scores, centred @ components.T, rtol=0, atol=100 * EPS)


@pytest.mark.parametrize("shape", [(3, 8), (40, 3), (2, 1)])
def test_components_of_small_and_constant_data(shape: Any) -> None:
    def main(proc: Any) -> Any:
        return computed(pca(sample(4, *shape), min(shape))), computed(pca(np.ones(shape), 1))

    found, constant = same_everywhere(main, 3)
    a = sample(4, *shape)
    np.testing.assert_allclose(found[4] @ found[0] + found[3], a, rtol=0, atol=1e-13)
    assert constant[1] == constant[2] == 0


def test_components_that_cannot_be_are_refused() -> None:
    bad = sample(5, 40, 3)
    bad[17, 1] = np.nan

    def main(proc: Any) -> None:
        for k in (0, 4):
            with pytest.raises(ValueError, match=rf"pca: k={k} of A of shape \(40, 3\)"):
                pca(np.ones((40, 3)), k)
        with pytest.raises(TypeError, match="pca: A of real numbers"):
            pca(np.ones((4, 3), complex), 1)
        with pytest.raises(LinAlgError, match=r"pca: A\[17, 1\] is nan"):
            pca(bad, 1)

    bsp.run(main, nprocs=2)


# ------------------------------------------------------------------------------------ least squares


@pytest.mark.parametrize("nprocs", [1, 2, 7, 64])
@pytest.mark.parametrize("k", [None, 1, 3, 6])
@pytest.mark.parametrize("shape", [(120, 4), (4, 4), (3, 5), (1, 1), (50, 1)])
def test_least_squares_are_numpys(shape: Any, k: int | None, nprocs: int) -> None:
    a, b = sample(6, *shape), sample(7, shape[0], *([] if k is None else [k]))
    parts, rights = pieces_of(a, nprocs), pieces_of(b, nprocs)

    def main(proc: Any) -> Any:
        return computed(lstsq(ba.from_local(parts[proc.pid]), ba.from_local(rights[proc.pid])))

    x, rest, rank, s = same_everywhere(main, nprocs)
    expected = np.linalg.lstsq(a, b)
    assert rank == expected[2]
    assert (x.shape, rest.shape) == (expected[0].shape, expected[1].shape)
    for mine, its in zip((x, rest, s), (expected[0], expected[1], expected[3]), strict=True):
        np.testing.assert_allclose(mine, its, rtol=0, atol=1e-10)


@pytest.mark.parametrize("nprocs", [1, 3])
def test_where_the_rank_is_lower_x_is_the_shortest(nprocs: int) -> None:
    a, b = sample(8, 60, 5), sample(9, 60, 2)
    a[:, 3] = a[:, 0] - a[:, 1]
    a[:, 4] = 0
    x, rest, rank, s = same_everywhere(lambda proc: computed(lstsq(ba.asarray(a, grid=(nprocs, 1)), b)), nprocs)
    expected = np.linalg.lstsq(a, b)
    assert rank == expected[2] == 3
    assert rest.shape == (0,)
    np.testing.assert_allclose(x, expected[0], rtol=0, atol=1e-12)
    np.testing.assert_allclose(s, expected[3], rtol=0, atol=1e-12)


def test_rcond_decides_the_rank_as_numpys_does() -> None:
    a, b = study.of_condition(100, 5, 1e8), sample(10, 100)
    for rcond in (None, 1e-3, 1e-5, 0.0, -1):
        expected = np.linalg.lstsq(a, b, rcond=rcond)
        x, _, rank, _ = same_everywhere(lambda proc, rcond=rcond: computed(lstsq(a, b, rcond)), 2)
        assert rank == expected[2]
        np.testing.assert_allclose(x, expected[0], rtol=0, atol=1e-6 * np.abs(expected[0]).max())


@pytest.mark.parametrize("nprocs", [1, 2, 5])
def test_longleys_regression_has_nists_certified_digits(nprocs: int) -> None:
    from statsmodels.datasets import longley

    data = longley.load_pandas()
    a = np.column_stack([np.ones(16), data.exog.to_numpy()])
    certified = [-3482258.63459582, 15.0618722713733, -0.358191792925910e-01, -2.02022980381683,
                 -1.03322686717359, -0.511041056535807e-01, 1829.15146461355]  # fmt: skip
    b = data.endog.to_numpy()
    pieces, rights = pieces_of(a, nprocs), pieces_of(b, nprocs)

    def main(proc: Any) -> Any:
        return computed(lstsq(ba.from_local(pieces[proc.pid]), ba.from_local(rights[proc.pid])))

    x, rest, rank, _ = same_everywhere(main, nprocs)
    assert rank == 7
    np.testing.assert_allclose(x, certified, rtol=1e-9)
    np.testing.assert_allclose(rest, 836424.055505915, rtol=1e-9)


def test_ill_conditioned_equations_are_solved_to_what_the_data_allow() -> None:
    t = np.arange(1, 65) / 64
    a = t[:, None] ** np.arange(8)  # exact in binary; condition 1e6: its square leaves 4 digits of 16
    b = np.round(np.cos(3 * t) * 2**20) / 2**20
    exact = _exactly(a, b)
    x, *_ = same_everywhere(lambda proc: computed(lstsq(ba.asarray(a, grid=(4, 1)), b)), 4)
    normal = np.linalg.solve(a.T @ a, a.T @ b)
    error, squared = (np.linalg.norm(each - exact) / np.linalg.norm(exact) for each in (x, normal))
    assert error < 10 * EPS * np.linalg.cond(a)
    assert squared > 100 * error


def _exactly(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """The normal equations in fractions."""
    rows = [[Fraction(each) for each in row] for row in a]
    right = [Fraction(each) for each in b]
    n = a.shape[1]
    system = [
        [sum(row[i] * row[j] for row in rows) for j in range(n)]
        + [sum(row[i] * each for row, each in zip(rows, right, strict=True))]
        for i in range(n)
    ]
    for k in range(n):
        for i in range(n):
            if i != k:
                factor = system[i][k] / system[k][k]
                system[i] = [mine - factor * its for mine, its in zip(system[i], system[k], strict=True)]
    return np.array([float(system[k][n] / system[k][k]) for k in range(n)])


def test_least_squares_take_one_tree_of_the_matrix_and_its_right_side() -> None:
    def words(nprocs: int, abstract: bool) -> list[int]:
        def main(proc: Any) -> None:
            lstsq(ba.zeros((40 * nprocs, 5), grid=(nprocs, 1)) + 1.0, ba.ones((40 * nprocs,), grid=(nprocs,)))

        rows = bsp.predict(main, nprocs=nprocs, abstract=abstract, machine=bsp.Machine()).per_superstep
        return [h for row in rows if (h := max(row["h_sent"], row["h_received"]))]

    assert words(4, False) == words(4, True) == [3 * 36]


def test_shapes_and_values_that_do_not_fit_are_refused() -> None:
    a, b = sample(11, 30, 3), sample(12, 30)
    b[20] = np.inf

    def main(proc: Any) -> None:
        with pytest.raises(LinAlgError, match=r"lstsq: A has shape \(30, 3\) and b \(29,\): b has shape \(30,\) or"):
            lstsq(a, b[1:])
        with pytest.raises(LinAlgError, match=r"lstsq: \[A b\]\[20, 3\] is inf"):
            lstsq(a, b)
        with pytest.raises(ShapeError, match="lstsq: A of 2 dimensions"):
            lstsq(b, b)
        with pytest.raises(TypeError, match="lstsq: b of float32"):
            lstsq(a, b.astype(np.float16))

    bsp.run(main, nprocs=2)


def test_forecasts_are_made_of_all_of_them() -> None:
    def main(proc: Any) -> list[int]:
        x = ba.from_local(sample(proc.pid, 3000, 6))
        y = ba.from_local(sample(proc.pid, 3000))
        return [len(ba.forecast(*call).supersteps) for call in ((svd, x), (lambda x: pca(x, 2), x), (lstsq, x, y))]

    assert all(count > 0 for count in same_everywhere(main, 3))


def test_what_every_process_has_gives_factors_that_every_process_has() -> None:
    a = sample(13, 40, 3)

    def main(proc: Any) -> Any:
        before = proc.superstep
        found = svd(a)
        return [each.layout.replicated for each in found], proc.superstep - before

    assert same_everywhere(main, 3) == ([True] * 3, 0)
