"""Linear algebra against NumPy, by defining properties, and by the costs that docstrings state."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from numpy.linalg import LinAlgError
from numpys_answers import as_numpys

import bsp
import bsp.arrays as ba
from bsp.arrays.errors import GatherRefused, GatherWarning
from bsp.arrays.execution import world as worlds
from bsp.arrays.expressions import layout
from bsp.arrays.linalg import elimination, householder, orthogonal, panels, row_blocks, square, ways
from bsp.arrays.planning.chains import splits
from bsp.cost.model import Level, Machine

PROCESSES = (1, 2, 3, 5, 8)


def forget() -> None:
    """What was planned for another REPLICATED_SIZE."""
    layout.automatic.cache_clear()
    layout.asked.cache_clear()
    worlds._plans.clear()


@pytest.fixture
def dealt(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Nothing is small: every array is dealt, and panels have two columns."""
    monkeypatch.setattr(layout, "REPLICATED_SIZE", 0)
    monkeypatch.setattr(panels, "LEAST", 2)
    monkeypatch.setattr(panels, "EVEN", 1)
    forget()
    yield
    monkeypatch.undo()
    forget()


@pytest.fixture
def by_panels(monkeypatch: pytest.MonkeyPatch) -> None:
    """However few flops a function takes, its distributed form does them."""
    monkeypatch.setattr(ways, "FEW", 0)


def sample(seed: int, *shape: int, dtype: Any = float) -> np.ndarray:
    rng = np.random.default_rng(seed)
    found = rng.normal(size=shape)
    if np.dtype(dtype).kind == "c":
        found = found + 1j * rng.normal(size=shape)
    return found.astype(dtype)


def close(found: Any, expected: Any, scale: float = 1e3) -> None:
    found = found.compute() if isinstance(found, ba.Array) else np.asarray(found)
    expected = np.asarray(expected)
    assert found.shape == expected.shape
    assert found.dtype == expected.dtype
    eps = np.finfo(expected.dtype).eps if expected.dtype.kind in "fc" else 0
    size = max(1.0, float(np.abs(expected).max(initial=0)), expected.shape[0] if expected.ndim else 1)
    np.testing.assert_allclose(found, expected, rtol=0, atol=scale * eps * size)


def same_everywhere(main: Callable[..., Any], nprocs: int, **options: Any) -> Any:
    results = bsp.run(main, nprocs=nprocs, **options)
    for other in results[1:]:
        np.testing.assert_equal(other, results[0])
    return results[0]


def counted(main: Callable[..., Any], nprocs: int, **options: Any) -> list[tuple[str, int]]:
    """(label, h) of each superstep."""
    rows = bsp.predict(main, nprocs=nprocs, **options).per_superstep
    return [(str(row["label"]), max(row["h_sent"], row["h_received"])) for row in rows]


# ------------------------------------------------------------------------------------ QR


def assert_qr(a: np.ndarray, q: Any, r: Any) -> None:
    q, r = np.asarray(q), np.asarray(r)
    k = min(a.shape[-2:])
    close(q @ r, a)
    close(np.swapaxes(q, -1, -2).conj() @ q, np.broadcast_to(np.eye(k, dtype=a.dtype), (*a.shape[:-2], k, k)))
    assert (np.tril(r, -1) == 0).all()
    diagonal = np.diagonal(r, axis1=-2, axis2=-1)
    assert (diagonal.real >= 0).all()
    close(diagonal.imag, np.zeros_like(diagonal.real))


@pytest.mark.parametrize("nprocs", PROCESSES)
@pytest.mark.parametrize(
    "shape", [(28, 1), (29, 3), (7, 7), (13, 11), (12, 20), (1, 5), (5, 1), (3, 5, 4), (2, 0, 3, 3)]
)
@pytest.mark.parametrize("dtype", [float, complex, np.float32])
def test_qr_factors_any_shape_with_a_diagonal_not_negative(dealt: None, shape: Any, nprocs: int, dtype: Any) -> None:
    a = sample(1, *shape, dtype=dtype)

    def main(proc: Any) -> Any:
        q, r = ba.linalg.qr(ba.asarray(a))
        alone = ba.linalg.qr(ba.asarray(a), mode="r")
        close(alone, r.compute())
        return q.compute(), r.compute()

    q, r = same_everywhere(main, nprocs)
    assert (q.dtype, r.dtype) == (a.dtype, a.dtype)
    assert_qr(a, q, r)


@pytest.mark.parametrize("nprocs", [1, 3])
@pytest.mark.parametrize("dtype", [">f8", ">c8"])
def test_another_byte_order_changes_nothing(dealt: None, by_panels: None, nprocs: int, dtype: str) -> None:
    native = np.dtype(dtype).newbyteorder("=")
    a, tall = sample(41, 9, 9, dtype=dtype), sample(42, 20, 3, dtype=dtype)
    definite = (a @ a.conj().T + np.eye(9)).astype(dtype)

    def factors(kind: Any) -> list[Any]:
        x, y, z = (ba.asarray(each.astype(kind)) for each in (a, tall, definite))
        found = [*ba.linalg.qr(x), ba.linalg.inv(x), *ba.linalg.slogdet(x), ba.linalg.eigvalsh(z)]
        found += [*ba.linalg.qr(y), *ba.linalg.svd(y, full_matrices=False), ba.linalg.cholesky(z), *ba.linalg.eigh(z)]
        return [each.compute() for each in (*found, ba.linalg.solve(z, x), ba.linalg.lstsq(y, y[:, 0])[0])]

    expected = same_everywhere(lambda proc: factors(native), nprocs)
    for found, right in zip(same_everywhere(lambda proc: factors(dtype), nprocs), expected, strict=True):
        assert found.dtype == right.dtype
        np.testing.assert_array_equal(found, right)


@pytest.mark.parametrize("nprocs", PROCESSES)
@pytest.mark.parametrize("pattern", ["direct", "tree"])
def test_tsqr_of_rows_dealt_raggedly_is_that_of_the_whole(nprocs: int, pattern: str) -> None:
    a = sample(2, 40, 4)
    cuts = np.sort(np.random.default_rng(3).integers(0, 41, nprocs - 1))  # some processes have fewer rows than columns
    pieces = np.split(a, cuts)

    def main(proc: Any) -> Any:
        rows = row_blocks.by_rows(ba.from_local(pieces[proc.pid]))
        q, r = row_blocks.tsqr(rows, a.dtype, pattern=pattern)
        without = row_blocks.tsqr(rows, a.dtype, False, pattern).r
        close(without, r)
        assert q is not None
        return row_blocks.to_array(q, a.dtype).compute(), r

    q, r = same_everywhere(main, nprocs)
    assert_qr(a, q, r)
    close(r, np.asarray(orthogonal._signed_qr(np.linalg.qr(a))[1]))


@pytest.mark.parametrize(
    ("nprocs", "pattern", "supersteps"),
    [(4, "direct", 1), (5, "direct", 1), (4, "tree", 2), (8, "tree", 3), (5, "tree", 4), (7, "tree", 4)],
)
def test_tsqr_costs_what_its_docstring_says(nprocs: int, pattern: str, supersteps: int) -> None:
    n = 6

    def main(proc: Any) -> None:
        rows = row_blocks.by_rows(ba.zeros((nprocs * 10, n), grid=(nprocs, 1)))
        row_blocks.tsqr(rows, np.dtype(float), pattern=pattern, want_q=False)

    each = (nprocs - 1) * n * n if pattern == "direct" else n * n
    assert [h for _, h in counted(main, nprocs)] == [each] * supersteps


def test_tsqr_takes_the_tree_where_words_are_dear_and_one_superstep_where_supersteps_are() -> None:
    assert row_blocks.cheapest(Machine(g=1e3, L=1.0, o=0.0), 64, 50) == "tree"
    assert row_blocks.cheapest(Machine(g=1e-3, L=1e9, o=0.0), 64, 50) == "direct"


def test_qr_of_tall_rows_is_one_superstep_and_leaves_q_where_the_rows_are() -> None:
    def main(proc: Any) -> Any:
        x = ba.from_local(np.ones((1000, 10)) + np.eye(1000, 10, k=proc.pid))
        before = proc.superstep
        q, _ = ba.linalg.qr(x)
        return proc.superstep - before, q.layout.grid, q.layout.process_grid

    assert bsp.run(main, nprocs=4) == [(1, (4, 1), (4, 1))] * 4


@pytest.mark.parametrize("nprocs", [1, 3])
def test_an_infinity_that_nothing_is_divided_by_is_an_infinity_in_r(nprocs: int) -> None:
    a = np.array([[1.0, 2.0], [0.0, -np.inf]])
    q, r = same_everywhere(lambda proc: [each.compute() for each in ba.linalg.qr(a)], nprocs)
    np.testing.assert_array_equal(q, [[1.0, 0.0], [0.0, -1.0]])
    np.testing.assert_array_equal(r, [[1.0, 2.0], [0.0, np.inf]])


@pytest.mark.parametrize("nprocs", [1, 3])
def test_columns_that_depend_on_each_other_leave_q_orthonormal(dealt: None, nprocs: int) -> None:
    a = sample(3, 30, 4)
    a[:, 2] = a[:, 0]
    a[:, 3] = 0
    for matrix in (a, a[:5]):
        q, r = same_everywhere(lambda proc, m=matrix: [each.compute() for each in ba.linalg.qr(ba.asarray(m))], nprocs)
        close(q.T @ q, np.eye(4))
        close(q @ r, matrix)


def test_complete_qr_has_a_square_q(dealt: None) -> None:
    a = sample(4, 9, 2)
    q, r = same_everywhere(lambda proc: [e.compute() for e in ba.linalg.qr(ba.asarray(a), mode="complete")], 3)
    assert (q.shape, r.shape) == ((9, 9), (9, 2))
    close(q @ r, a)
    close(q.T @ q, np.eye(9))


# ----------------------------------------------------------------------------------- SVD


@pytest.mark.parametrize("nprocs", PROCESSES)
@pytest.mark.parametrize("shape", [(30, 3), (3, 30), (6, 6), (7, 5), (4, 1), (4, 3, 5)])
@pytest.mark.parametrize("dtype", [float, complex])
def test_svd_and_all_that_rests_on_it_is_numpys(dealt: None, shape: Any, nprocs: int, dtype: Any) -> None:
    a = sample(5, *shape, dtype=dtype)

    def main(proc: Any) -> Any:
        x = ba.asarray(a)
        u, s, vh = ba.linalg.svd(x, full_matrices=False)
        close((u * s[..., None, :]) @ vh, a)
        close(s, np.linalg.svdvals(a))
        close(ba.linalg.svdvals(x), np.linalg.svdvals(a))
        close(ba.linalg.pinv(x), np.linalg.pinv(a))
        close(ba.linalg.cond(x), np.linalg.cond(a), 1e5)
        close(ba.linalg.matrix_rank(x), np.linalg.matrix_rank(a))
        for ord in (2, -2, "nuc"):
            close(ba.linalg.matrix_norm(x, ord=ord), np.linalg.matrix_norm(a, ord=ord))
        return [each.compute() for each in ba.linalg.svd(x)]

    u, s, vh = same_everywhere(main, nprocs)
    m, n = shape[-2:]
    assert (u.shape[-2:], vh.shape[-2:]) == ((m, m), (n, n))
    close((u[..., : min(m, n)] * s[..., None, :]) @ vh[..., : min(m, n), :], a)


@pytest.mark.parametrize("shape", [(40, 3), (3, 40), (6, 6)])
def test_signs_do_not_depend_on_the_layout(monkeypatch: pytest.MonkeyPatch, shape: Any) -> None:
    a = sample(6, *shape)

    def main(proc: Any) -> Any:
        x = ba.asarray(a)
        return [each.compute() for each in (*ba.linalg.svd(x, full_matrices=False), *ba.linalg.qr(x))]

    forget()
    small = bsp.run(main, nprocs=1)[0]
    monkeypatch.setattr(layout, "REPLICATED_SIZE", 0)
    forget()
    for found, expected in zip(same_everywhere(main, 4), small, strict=True):
        close(found, expected)
    monkeypatch.undo()
    forget()


@pytest.mark.parametrize("nprocs", PROCESSES)
@pytest.mark.parametrize("columns", [None, 1, 3, 9])
@pytest.mark.parametrize("shape", [(40, 3), (3, 40), (6, 6), (3, 3)])
def test_least_squares_are_numpys(dealt: None, shape: Any, columns: int | None, nprocs: int) -> None:
    a, b = sample(7, *shape), sample(8, shape[0], *([] if columns is None else [columns]))
    expected = np.linalg.lstsq(a, b)

    def main(proc: Any) -> None:
        found = ba.linalg.lstsq(ba.asarray(a), ba.asarray(b))
        assert found[2] == expected[2]
        for k in (0, 1, 3):
            close(found[k], expected[k], 1e5)

    bsp.run(main, nprocs=nprocs)


@pytest.mark.parametrize("columns", [1, 9])
@pytest.mark.parametrize("shape", [(40, 5), (5, 40)])
def test_least_squares_of_deficient_rank_have_the_least_norm(dealt: None, shape: Any, columns: int) -> None:
    a = sample(9, shape[0], 2) @ sample(10, 2, shape[1])
    b = sample(11, shape[0], columns)
    expected = np.linalg.lstsq(a, b)

    def main(proc: Any) -> None:
        x, rest, rank, _ = ba.linalg.lstsq(ba.asarray(a), ba.asarray(b))
        assert (rank, rest.shape) == (2, (0,))
        close(x, expected[0], 1e5)
        assert int(ba.linalg.matrix_rank(ba.asarray(a))) == 2
        close(ba.linalg.pinv(ba.asarray(a)), np.linalg.pinv(a, rtol=1e-12), 1e5)

    bsp.run(main, nprocs=3)


def test_least_squares_of_few_right_hand_sides_are_one_superstep_of_n_plus_k_squared() -> None:
    p, n, k = 4, 20, 2

    def main(proc: Any) -> None:
        x = ba.zeros((2000, n + k), grid=(p, 1)) + 1
        x.persist()
        before = proc.superstep
        a, b = x[:, :n].persist(), x[:, n:].persist()
        assert proc.superstep == before + 2
        ba.linalg.lstsq(a, b)

    steps = counted(main, p)
    assert steps[-1] == ("tsqr", (p - 1) * (n + k) ** 2)
    assert [label for label, _ in steps].count("tsqr") == 1


# ----------------------------------------------------------------------------- square ones


@pytest.mark.parametrize("nprocs", PROCESSES)
@pytest.mark.parametrize("n", [1, 2, 7, 13, 24])
@pytest.mark.parametrize("dtype", [float, complex, np.float32])
def test_square_matrices_are_solved_inverted_and_factored_like_numpys(
    dealt: None, n: int, nprocs: int, dtype: Any
) -> None:
    a = sample(12, n, n, dtype=dtype) + np.asarray(5 * np.eye(n), dtype=dtype)[::-1]  # pivots are far below
    definite = (a @ a.conj().T + np.eye(n)).astype(dtype)

    def main(proc: Any) -> None:
        x = ba.asarray(a, grid=(min(n, 3), min(n, 2)))
        for k in (None, 1, 3, n + 5):
            b = sample(13, n, *([] if k is None else [k]), dtype=dtype)
            close(ba.linalg.solve(x, ba.asarray(b)), np.linalg.solve(a, b))
        close(ba.linalg.inv(x), np.linalg.inv(a))
        close(ba.linalg.det(x), np.linalg.det(a))
        for found, expected in zip(ba.linalg.slogdet(x), np.linalg.slogdet(a), strict=True):
            close(found, expected)
        h = ba.asarray(definite)
        close(ba.linalg.cholesky(h), np.linalg.cholesky(definite))
        close(ba.linalg.cholesky(h, upper=True), np.linalg.cholesky(definite, upper=True))
        values, vectors = ba.linalg.eigh(h)
        close(values, np.linalg.eigvalsh(definite))
        close(ba.linalg.eigvalsh(h), np.linalg.eigvalsh(definite))
        close(vectors * values @ vectors.conj().T, definite)

    bsp.run(main, nprocs=nprocs)


@pytest.mark.parametrize("nprocs", [1, 3, 8])
def test_panels_in_two_phases_give_the_same(dealt: None, nprocs: int) -> None:
    a, b = sample(14, 20, 20), sample(15, 20, 9)
    wide = Machine(g=1e3, L=1.0, o=1e-6)  # words are dear: a panel goes in two phases

    def main(proc: Any) -> Any:
        x = ba.asarray(a)
        q, r = ba.linalg.qr(x)
        found = ba.linalg.solve(x, ba.asarray(b)), ba.linalg.cholesky(x @ x.T), q, r
        return [each.compute() for each in found]

    narrow = same_everywhere(main, nprocs)
    for found, expected in zip(same_everywhere(main, nprocs, machine=wide), narrow, strict=True):
        close(found, expected, 1e5)


@pytest.mark.parametrize("dtype", [float, np.float32, complex, np.complex64])
def test_one_large_matrix_is_inverted_and_factored_like_numpys(dtype: Any) -> None:
    a = sample(31, 200, 200, dtype=dtype)
    lower = np.tril(a @ a.conj().T / 200 + np.eye(200)).astype(dtype)  # only this triangle is read
    singular = a.copy()
    singular[:, 7] = 0

    def main(proc: bsp.Process) -> None:
        eps = np.finfo(dtype).eps
        inverse, factor = (each.compute() for each in (ba.linalg.inv(a), ba.linalg.cholesky(lower)))
        assert inverse.dtype == factor.dtype == np.dtype(dtype)
        assert inverse.flags.c_contiguous
        assert np.linalg.norm(inverse @ a - np.eye(200)) <= 200 * eps * np.linalg.cond(a)
        close(factor, np.linalg.cholesky(lower))
        for right in (a[:, 0], a[:, :5]):
            solved = ba.linalg.solve(a, right).compute()
            assert (solved.shape, solved.dtype) == (right.shape, right.dtype)
            assert np.linalg.norm(a @ solved - right) <= 200 * eps * np.linalg.cond(a)
        close(ba.linalg.cholesky(lower.conj().T, upper=True), np.linalg.cholesky(lower.conj().T, upper=True))
        for function in (ba.linalg.inv, lambda x: ba.linalg.solve(x, a[0])):
            with pytest.raises(LinAlgError, match="Singular matrix"):
                function(singular)
        with pytest.raises(LinAlgError, match="Matrix is not positive definite"):
            ba.linalg.cholesky(-lower)

    bsp.run(main, nprocs=1)


def test_only_the_lower_triangle_is_factored(dealt: None) -> None:
    a = sample(16, 9, 9)
    a = a @ a.T + np.eye(9)
    expected = np.linalg.cholesky(a)
    a[np.triu_indices(9, 1)] = np.nan
    close(same_everywhere(lambda proc: ba.linalg.cholesky(ba.asarray(a)).compute(), 3), expected)


@pytest.mark.parametrize("machine", [Machine(g=1e-3, L=1e9, o=1e-6), Machine(g=1e3, L=1.0, o=1e-6)])
def test_panels_cost_what_their_docstring_says(by_panels: None, machine: Machine) -> None:
    n, p = 256, 4
    width = panels.LEAST
    assert panels.width_for(n, p) == width

    def main(proc: Any) -> None:
        x = ba.rechunk(ba.eye(n), grid=(1, n // width), process_grid=(1, p)).persist()
        ba.linalg.cholesky(x)

    steps = [h for label, h in counted(main, p, machine=machine) if label == "cholesky"]
    words = [(n - k * width) * width for k in range(n // width)]
    if machine.L > 1:
        assert steps == [(p - 1) * each for each in words]  # one superstep a panel
    else:
        assert steps == [h for each in words for h in (each * (p - 1) // p, each * (p - 1) // p)]
    assert sum(words) == n * n // 2 + n * width // 2


def test_one_right_hand_side_goes_from_owner_to_owner(by_panels: None) -> None:
    n, p = 256, 4

    def main(proc: Any) -> None:
        ba.linalg.solve(ba.eye(n), ba.ones(n, grid=(p,)))

    steps = [h for label, h in counted(main, p) if label == "back substitution"]
    assert steps == [n] * (n // panels.LEAST)


def test_the_determinant_of_a_singular_matrix_is_zero(dealt: None) -> None:
    a = sample(17, 9, 9)
    a[:, 4] = 0

    def main(proc: Any) -> Any:
        return float(ba.linalg.det(ba.asarray(a))), [float(each) for each in ba.linalg.slogdet(ba.asarray(a))]

    assert same_everywhere(main, 3) == (0.0, [0.0, -np.inf])


@pytest.mark.parametrize("nprocs", [2, 5])
@pytest.mark.parametrize("dtype", [float, complex])
def test_a_matrix_of_few_flops_is_brought_to_every_element_and_factored_there(nprocs: int, dtype: Any) -> None:
    """More elements than REPLICATED_SIZE, fewer flops than the supersteps of panels are worth; one superstep each."""
    a = sample(18, 150, 150, dtype=dtype)
    positive, right = a @ a.conj().T + np.eye(150), sample(19, 150, 150, dtype=dtype)

    def main(proc: Any) -> Any:
        x, y, b = ba.asarray(a).persist(), ba.asarray(positive).persist(), ba.asarray(right).persist()
        began = proc.superstep
        factor, inverse, (sign, log) = ba.linalg.cholesky(y), ba.linalg.inv(x), ba.linalg.slogdet(x)
        q, r = ba.linalg.qr(x)
        solved = ba.linalg.solve(x, ba.asarray(right[:, 0])), ba.linalg.solve(x, b)
        steps = proc.superstep - began
        return (
            steps, factor.compute(), inverse.compute(), complex(sign), float(log), (q @ r).compute(),
            *[each.compute() for each in solved],
        )  # fmt: skip

    steps, factor, inverse, sign, log, product, one, many = same_everywhere(main, nprocs)
    assert steps == 8  # each brings its matrix, and two more bring right-hand sides to where they are solved for
    condition = np.linalg.cond(a)
    close(factor, np.linalg.cholesky(positive))
    close(inverse, np.linalg.inv(a), 10 * condition)
    close(product, a)
    wanted = np.linalg.slogdet(a)
    assert abs(sign - wanted[0]) < 1e-10 and abs(log - wanted[1]) < 1e-10
    close(one, np.linalg.solve(a, right[:, 0]), 10 * condition)
    close(many, np.linalg.solve(a, right), 10 * condition)


@pytest.mark.parametrize("columns", [1, 2, 300])
def test_every_process_learns_of_a_singular_matrix_of_few_flops(columns: int) -> None:
    def main(proc: Any) -> None:
        a, b = ba.asarray(np.ones((150, 150))), ba.asarray(np.ones((150, columns)))
        for function in (ba.linalg.inv, lambda x: ba.linalg.solve(x, b)):
            with pytest.raises(LinAlgError, match="Singular matrix"):
                function(a)
        proc.sync()

    bsp.run(main, nprocs=4)


def test_what_processes_of_an_element_share_is_written_to_by_none_for_another() -> None:
    a = sample(20, 6, 6) + 6 * np.eye(6)

    def main(proc: Any) -> Any:
        first = ba.linalg.inv(ba.asarray(a))
        second = ba.linalg.inv(ba.asarray(a))
        first[0, :] += 1
        first[1, 1] = 7.0
        return first.compute(), second.compute()

    first, second = same_everywhere(main, 4)
    changed = np.linalg.inv(a)
    close(second, changed)
    changed[0, :] += 1
    changed[1, 1] = 7
    close(first, changed)


def test_a_process_that_calls_more_gets_its_own_results_and_so_do_the_others() -> None:
    """No superstep tells that there were more calls; what is shared is found by its name and values."""
    x, y = np.diag([1.0, 2.0, 3.0]), np.diag([2.0, 2.0, 3.0])

    def main(proc: Any) -> float:
        if proc.pid == 0:
            ba.linalg.det(ba.asarray(x))
            ba.linalg.inv(ba.asarray(y))
        ba.linalg.det(ba.asarray(x * (proc.pid + 1)))
        return float(ba.linalg.det(ba.asarray(y)))

    assert bsp.run(main, nprocs=4) == pytest.approx([12.0] * 4)


def test_a_result_of_values_that_differ_is_not_taken_for_one_of_all() -> None:
    def main(proc: Any) -> float:
        return float(ba.linalg.det(ba.asarray(np.eye(3) * (proc.pid + 1))))

    with pytest.raises(bsp.SyncMismatch, match="same values to its arrays"):
        bsp.run(main, nprocs=3)


def test_a_matrix_that_is_singular_for_numpy_is_so_on_every_process() -> None:
    """The LU of the transpose has no pivot 0; some processes have no columns of the right-hand side."""
    rng = np.random.default_rng(0)
    a = np.triu(rng.normal(size=(150, 150)))
    a[5, 5] = 0
    right = rng.normal(size=(150, 3))

    def main(proc: Any) -> None:
        x = ba.asarray(a)
        for function in (ba.linalg.inv, lambda x: ba.linalg.solve(x, ba.asarray(right)), ba.linalg.solve):
            arguments = (x, ba.ones(150)) if function is ba.linalg.solve else (x,)
            with pytest.raises(LinAlgError, match="Singular matrix"):
                function(*arguments)
        proc.sync()

    for nprocs in (1, 5):
        bsp.run(main, nprocs=nprocs)


def test_a_matrix_with_an_infinity_has_numpys_solution() -> None:
    a = sample(21, 150, 150)
    a[3, 4] = np.inf
    inverse, solved = same_everywhere(
        lambda proc: (ba.linalg.inv(ba.asarray(a)).compute(), ba.linalg.solve(ba.asarray(a), ba.ones(150)).compute()), 3
    )
    np.testing.assert_array_equal(np.isnan(inverse), np.isnan(np.linalg.inv(a)))
    np.testing.assert_array_equal(np.isnan(solved), np.isnan(np.linalg.solve(a, np.ones(150))))


def test_a_warning_of_what_an_element_computes_once_reaches_every_process() -> None:
    def main(proc: Any) -> list[str]:
        seen: list[str] = []
        with np.errstate(all="call", call=lambda kind, flag: seen.append(kind)):
            ba.linalg.det(ba.asarray(1e200 * np.eye(4)))
        return seen

    assert bsp.run(main, nprocs=3) == [["overflow"]] * 3


def test_a_prediction_counts_what_an_element_does_once_for_all_of_its_processes() -> None:
    machine = Machine(p=2, r=1e6, levels=(Level("inside", 1.0, 1.0, 1.0), Level("between", 1.0, 1.0, 1.0)))

    def main(proc: Any) -> None:
        ba.linalg.inv(ba.asarray(np.eye(100)))

    two, eight = [bsp.predict(main, nprocs=p, machine=machine, abstract=True).seconds for p in (2, 8)]
    assert two == pytest.approx(2 * 100**3 / 1e6, rel=0.05)
    assert eight == pytest.approx(two, rel=0.05)


def test_small_matrices_cost_no_words_and_no_superstep() -> None:
    def main(proc: Any) -> int:
        x = ba.eye(20) * 2
        x.persist()
        before = proc.superstep
        ba.linalg.inv(x)
        ba.linalg.cholesky(x)
        ba.linalg.qr(x)
        ba.linalg.svd(x)
        ba.linalg.solve(x, x)
        return proc.superstep - before

    assert bsp.run(main, nprocs=4) == [0] * 4


def test_a_small_matrix_solves_many_columns_where_they_are() -> None:
    a, b = sample(18, 5, 5), sample(19, 5, 40)

    def main(proc: Any) -> Any:
        x, y = ba.asarray(a), ba.asarray(b, grid=(1, 4))
        before = proc.superstep
        solved = square._solve_columns(x, y)
        return proc.superstep - before, solved.layout.grid, solved.compute()

    steps, grid, found = same_everywhere(main, 4)
    assert (steps, grid) == (0, (1, 4))
    close(found, np.linalg.solve(a, b))


# ---------------------------------------------------------------------------------- stacks


@pytest.mark.parametrize("nprocs", PROCESSES)
@pytest.mark.parametrize("lead", [(5,), (2, 3), (1,), (0,)])
def test_stacks_are_numpys_matrix_by_matrix(dealt: None, lead: Any, nprocs: int) -> None:
    a = sample(20, *lead, 4, 4)
    definite = a @ np.swapaxes(a, -1, -2) + np.eye(4)
    b = sample(21, 4, 2)

    def main(proc: Any) -> None:
        x = ba.asarray(a)
        close(ba.linalg.inv(x), np.linalg.inv(a))
        close(ba.linalg.det(x), np.linalg.det(a))
        close(ba.linalg.solve(x, ba.asarray(b)), np.linalg.solve(a, b))
        close(ba.linalg.solve(x, ba.asarray(b[:, 0])), np.linalg.solve(a, b[:, 0]))
        close(ba.linalg.cholesky(ba.asarray(definite)), np.linalg.cholesky(definite))
        for found, expected in zip(ba.linalg.slogdet(x), np.linalg.slogdet(a), strict=True):
            close(found, expected)
        values, vectors = ba.linalg.eigh(ba.asarray(definite))
        close(values, np.linalg.eigvalsh(definite))
        close((vectors * values[..., None, :]) @ vectors.mT, definite)
        close(ba.linalg.matrix_power(x, -2), np.linalg.matrix_power(a, -2), 1e6)

    bsp.run(main, nprocs=nprocs)


@pytest.mark.parametrize("nprocs", [1, 3, 8])
@pytest.mark.parametrize("n", [1, 2, 5, 24])
@pytest.mark.parametrize("dtype", [np.float32, float, np.complex64, complex])
@pytest.mark.parametrize("triangle", ["L", "U"])
def test_each_process_finds_its_eigenvectors_from_one_triangle(
    dealt: None, triangle: Any, dtype: Any, n: int, nprocs: int
) -> None:
    a = sample(31, n, n, dtype=dtype)
    a = (a + a.conj().T).astype(dtype)
    read = np.tril(a) if triangle == "L" else np.triu(a)

    def main(proc: Any) -> list[Any]:
        values, vectors = ba.linalg.eigh(ba.asarray(read), triangle)
        assert not vectors.layout.replicated or n == 1 or nprocs == 1
        close(values, np.linalg.eigvalsh(a))
        close(a @ vectors.compute() - vectors.compute() * values.compute(), np.zeros((n, n), dtype))
        close(vectors.conj().T @ vectors, np.eye(n, dtype=dtype))
        return [vectors.compute().tobytes()]

    first, *others = bsp.run(main, nprocs=nprocs)
    assert all(other == first for other in others)


def test_eigenvectors_of_no_finite_matrix_are_what_numpy_says(dealt: None) -> None:
    a = np.eye(6)
    a[2, 2] = np.nan

    def main(proc: Any) -> None:
        values, vectors = ba.linalg.eigh(ba.asarray(a))
        assert np.isnan(values.compute()).any()
        assert vectors.shape == (6, 6)
        with pytest.raises(ValueError, match="UPLO argument must be 'L' or 'U'"):
            ba.linalg.eigh(ba.eye(6), "X")  # type: ignore[arg-type]

    bsp.run(main, nprocs=2)


def test_a_stack_costs_one_total_exchange_and_one_word() -> None:
    def main(proc: Any) -> None:
        ba.linalg.inv(ba.rechunk(ba.zeros((8, 60, 60)) + ba.eye(60), grid=(1, 4, 1), process_grid=(1, 4, 1)).persist())

    steps = counted(main, 4)[-2:]
    assert steps[0] == ("rechunk(x0)", 8 * 60 * 60 * 3 // 16)
    assert steps[1][1] <= 12


# ----------------------------------------------------------------------------------- errors


@pytest.mark.parametrize("nprocs", [1, 3])
@pytest.mark.parametrize("stacked", [False, True])
def test_linalgerror_reaches_every_process(dealt: None, nprocs: int, stacked: bool) -> None:
    good = np.broadcast_to(np.eye(7), (4, 7, 7)).copy()
    good[2, 5] = 0  # singular, and not definite
    a = good if stacked else good[2]
    broken = np.full((40, 3) if not stacked else (4, 5, 3), np.nan)

    def main(proc: Any) -> list[str]:
        x = ba.asarray(a)
        said = []
        for call in (
            lambda: ba.linalg.inv(x),
            lambda: ba.linalg.solve(x, ba.ones(7)),
            lambda: ba.linalg.cholesky(x),
            lambda: ba.linalg.svd(ba.asarray(broken), full_matrices=False),
        ):
            with pytest.raises(LinAlgError) as caught:
                call()
            said.append(str(caught.value))
        return said

    (found, *others) = bsp.run(main, nprocs=nprocs)
    assert found == ["Singular matrix", "Singular matrix", "Matrix is not positive definite", "SVD did not converge"]
    assert others == [found] * (nprocs - 1)


def test_shapes_that_do_not_fit_are_named() -> None:
    def main(proc: Any) -> None:
        x = ba.ones((3, 4))
        for function in (ba.linalg.inv, ba.linalg.cholesky, ba.linalg.det, ba.linalg.slogdet, ba.linalg.eigh):
            with pytest.raises(LinAlgError, match=r"must be square, not \(3, 4\)"):
                function(x)
        for function in (ba.linalg.svd, ba.linalg.matrix_rank, ba.linalg.pinv):
            with pytest.raises(LinAlgError, match=r"must be square, not \(3, 4\)"):
                function(x, hermitian=True)
        with pytest.raises(LinAlgError, match=r"must be square, not \(3, 4\)"):
            ba.linalg.svd(x, compute_uv=False, hermitian=True)
        for function in (ba.linalg.qr, ba.linalg.svd, ba.linalg.pinv, ba.linalg.matrix_norm):
            with pytest.raises(LinAlgError, match="1-dimensional array given"):
                function(ba.ones(3))
        with pytest.raises(ValueError, match=r"solve: shapes \(3, 3\) and \(4,\) do not match"):
            ba.linalg.solve(ba.eye(3), ba.ones(4))
        with pytest.raises(ValueError, match=r"solve: shapes \(2, 3, 3\) and \(4, 3, 1\) do not broadcast"):
            ba.linalg.solve(ba.ones((2, 3, 3)), ba.ones((4, 3, 1)))
        with pytest.raises(LinAlgError, match=r"a has shape \(3, 4\), b \(2,\)"):
            ba.linalg.lstsq(x, ba.ones(2))
        with pytest.raises(LinAlgError, match=r"square, not shape \(3, 4\)"):
            ba.linalg.matrix_power(x, 2)
        with pytest.raises(TypeError, match="float16 is unsupported"):
            ba.linalg.qr(ba.ones((2, 2), dtype=np.float16))
        with pytest.raises(ValueError, match="Invalid norm order"):
            ba.linalg.norm(x, 3)

    bsp.run(main, nprocs=2)


def test_what_has_no_distributed_form_is_refused_or_names_its_price(
    dealt: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ways, "SILENT_BYTES", 400)

    def warned(proc: Any) -> None:
        with pytest.warns(
            GatherWarning, match=r"eigh of shape \(8, 8\) takes 0.000512 MB on each of 2 processes"
        ) as told:
            ba.linalg.eigh(ba.eye(8))
        assert told[0].filename == __file__

    def refused(proc: Any) -> None:
        for call, advice in (
            (lambda: ba.linalg.eigh(ba.eye(8)), "svd of a tall matrix"),
            (lambda: ba.linalg.svd(ba.eye(8)), "tall"),
            (lambda: ba.linalg.svd(ba.ones((40, 2))), "full_matrices=False"),
            (lambda: ba.linalg.qr(ba.ones((40, 2)), mode="complete"), "mode='reduced'"),
        ):
            with pytest.raises(GatherRefused, match=advice):
                call()

    bsp.run(warned, nprocs=2)
    monkeypatch.setattr(ways, "GATHER_SIZE", 50)
    bsp.run(refused, nprocs=2)


# -------------------------------------------------------------------------- norms, products


@pytest.mark.parametrize("ord", [1, 2, np.inf, -1, -2, -np.inf, "fro", "nuc"])
@pytest.mark.parametrize("shape", [(3, 0), (0, 3), (0, 0), (2, 3, 0)])
def test_norms_of_matrices_without_elements_are_numpys(dealt: None, shape: tuple[int, ...], ord: Any) -> None:
    def outcome(xp: Any) -> Any:
        try:
            return np.asarray(xp.linalg.matrix_norm(xp.empty(shape), ord=ord)).tolist()
        except ValueError as wrong:
            return type(wrong)

    assert bsp.run(lambda proc: outcome(ba), nprocs=3) == [outcome(np)] * 3


@pytest.mark.parametrize("nprocs", [1, 3])
@pytest.mark.parametrize("dtype", [float, complex, np.float32, np.int64])
def test_norms_are_numpys(dealt: None, nprocs: int, dtype: Any) -> None:
    a = (sample(22, 4, 5, 3) * 10).astype(dtype) if dtype is np.int64 else sample(22, 4, 5, 3, dtype=dtype)

    def main(proc: Any) -> None:
        x = ba.asarray(a)
        for ord in (2, 1, 0, 3, 0.5, -1, np.inf, -np.inf):
            for axis in (None, 1, (0, 2)):
                for keepdims in (False, True):
                    expected = np.linalg.vector_norm(a, axis=axis, keepdims=keepdims, ord=ord)
                    close(ba.linalg.vector_norm(x, axis=axis, keepdims=keepdims, ord=ord), expected)
        for ord in ("fro", "nuc", 1, -1, 2, -2, np.inf, -np.inf):
            close(ba.linalg.matrix_norm(x, ord=ord), np.linalg.matrix_norm(a, ord=ord))
            close(
                np.linalg.norm(x, ord, axis=(2, 0), keepdims=True), np.linalg.norm(a, ord, axis=(2, 0), keepdims=True)
            )
        close(np.linalg.norm(x), np.linalg.norm(a))
        close(np.linalg.norm(x, axis=1), np.linalg.norm(a, axis=1))
        close(np.linalg.norm(x[0]), np.linalg.norm(a[0]))
        close(np.linalg.norm(x[0, 0], 1), np.linalg.norm(a[0, 0], 1))
        for p in (None, 1, 2, -2, np.inf, "fro"):
            close(ba.linalg.cond(x[0, :3], p), np.linalg.cond(a[0, :3], p), 1e5)

    bsp.run(main, nprocs=nprocs)


@pytest.mark.parametrize("dtype", [np.float16, np.longdouble, np.clongdouble])
def test_norms_that_need_no_singular_values_take_all_numbers(dealt: None, dtype: Any) -> None:
    a = sample(43, 5, 3, dtype=dtype)

    def main(proc: Any) -> None:
        for ord in ("fro", 1, -1, np.inf, -np.inf):
            close(np.linalg.norm(ba.asarray(a), ord), np.linalg.norm(a, ord))
        with pytest.raises(TypeError, match=r"svdvals: array type .* is unsupported in linalg"):
            ba.linalg.norm(ba.asarray(a), 2)

    bsp.run(main, nprocs=3)


@pytest.mark.parametrize("nprocs", [1, 3, 8])
def test_products_are_numpys(dealt: None, nprocs: int) -> None:
    a, b, c, d = sample(23, 5, 7), sample(24, 7, 2), sample(25, 2, 6), sample(26, 6)
    v, w = sample(27, 4, 3), sample(28, 3)

    def main(proc: Any) -> None:
        x, y, z, u = (ba.asarray(each) for each in (a, b, c, d))
        close(np.linalg.multi_dot([x, y, z, u]), np.linalg.multi_dot([a, b, c, d]))
        close(ba.linalg.multi_dot([x, y]), a @ b)
        close(ba.linalg.cross(ba.asarray(v), ba.asarray(w)), np.cross(v, w))
        close(np.cross(ba.asarray(v.T), ba.asarray(w[:, None]), axis=0), np.cross(v.T, w[:, None], axis=0))
        close(ba.linalg.outer(u, ba.asarray(w)), np.outer(d, w))
        close(ba.linalg.diagonal(x, offset=-1), np.diagonal(a, -1))
        close(ba.linalg.trace(x, offset=1), np.trace(a, 1))
        for n in (0, 1, 2, 5):
            close(ba.linalg.matrix_power(x[:, :5], n), np.linalg.matrix_power(a[:, :5], n))

    bsp.run(main, nprocs=nprocs)


def test_matrices_are_multiplied_in_the_cheapest_order() -> None:
    best, price = splits((10, 100, 5, 50))
    assert (best[0, 2], price[0, 2]) == (1, 7500)  # (A·B)·C, not 75000


# --------------------------------------------------------------------------- other machinery


def test_numpys_functions_are_ours() -> None:
    a = sample(29, 6, 4)

    def main(proc: Any) -> None:
        x = ba.asarray(a)
        for name in ("qr", "svd", "pinv", "svdvals", "matrix_rank", "norm", "cond", "matrix_transpose", "trace"):
            found = getattr(np.linalg, name)(x)
            for each in found if isinstance(found, tuple) else (found,):
                assert isinstance(each, ba.Array), name

    bsp.run(main, nprocs=2)


def test_without_values_the_same_words_travel_in_the_same_supersteps() -> None:
    def main(proc: Any) -> None:
        x = ba.from_function(lambda i, j: np.sin(1.0 * i * j) + 300.0 * (i == j), (200, 200))
        y = ba.from_function(lambda i, j: np.sin(1.0 * i * j), (2000, 10))
        for each in (ba.linalg.solve(x, ba.ones(200)), ba.linalg.inv(x), ba.linalg.cholesky(x @ x.T)):
            assert each.shape[0] == 200
        ba.linalg.qr(x)
        ba.linalg.qr(y)
        ba.linalg.svd(y, full_matrices=False)
        ba.linalg.lstsq(y, y[:, :2])
        ba.linalg.slogdet(x)
        ba.linalg.eigh(x)
        ba.linalg.inv(ba.zeros((8, 50, 50)) + ba.eye(50))
        ba.fft.fftn(x).persist()

    real, without = counted(main, 4), counted(main, 4, abstract=True)
    assert real == without


@pytest.mark.parametrize("nprocs", [1, 2, 3, 5])
@pytest.mark.parametrize("machine", [Machine(g=1e3, L=1.0, o=0.0), Machine(g=0.1, L=1e6, o=1.0)])
@pytest.mark.parametrize("dtype", [np.float32, np.complex128])
def test_panels_declare_the_supersteps_and_words_that_they_take(
    dealt: None, dtype: Any, machine: Machine, nprocs: int
) -> None:
    """A panel is spread in one superstep where supersteps are dear, in two where words are."""
    n = 23

    def main(proc: Any) -> None:
        unit = ba.eye(n, dtype=dtype)
        x = ba.from_function(lambda i, j: np.sin(1.0 * i * j).astype(dtype), (n, n), dtype=dtype) + 30 * unit
        ba.linalg.solve(x, ba.ones(n, dtype=dtype))
        ba.linalg.solve(x, ba.ones((n, 7), dtype=dtype))
        ba.linalg.inv(x)
        ba.linalg.slogdet(x)
        ba.linalg.cholesky(x @ ba.conjugate(x.T))
        householder.householder(x, np.dtype(dtype), want_q=False)
        householder.householder(ba.concat([x, x[:5]]), np.dtype(dtype), want_q=True)

    real, without = (counted(main, nprocs, machine=machine, abstract=each) for each in (False, True))
    assert real == without
    assert nprocs == 1 or {"lu", "back substitution", "cholesky", "qr", "q of qr"} <= {label for label, _ in real}


def test_elimination_and_reflections_keep_no_panel_that_has_been_applied() -> None:
    n = 512
    a = sample(n, n, 1) + 30 * np.eye(n)

    def peak(work: Callable[[Any], Any]) -> float:
        """Return the most memory that `work` takes, in matrices."""

        def main(proc: Any) -> int:
            x = ba.asarray(a).persist()
            tracemalloc.start()
            work(x)
            found = tracemalloc.get_traced_memory()[1]
            tracemalloc.stop()
            return found

        return float(bsp.run(main, nprocs=1)[0]) / a.nbytes

    # the columns and, at the first panel, what is taken from them, a panel, and the rows that are exchanged
    assert peak(lambda x: elimination.determinant(x, x.dtype)) < 2.6
    assert peak(lambda x: householder.householder(x, x.dtype, False)) < 3.6


@pytest.mark.thorough
@pytest.mark.jobs
def test_factors_are_the_same_in_several_interpreters() -> None:
    def main(proc: Any) -> Any:
        import numpy as np

        import bsp.arrays as ba

        rng = np.random.default_rng(1)
        a, b = rng.normal(size=(200, 200)), rng.normal(size=(3000, 7))
        x = ba.linalg.solve(ba.asarray(a), ba.ones(200)).compute()
        q, r = ba.linalg.qr(ba.asarray(b))
        return x, q.compute(), r.compute()

    alone = same_everywhere(main, 3)
    np.testing.assert_equal(same_everywhere(main, 3, elements=2), alone)


@pytest.mark.parametrize("nprocs", [1, 3])
def test_eigenvalues_of_any_matrix_are_numpys(nprocs: int) -> None:
    rng = np.random.default_rng(5)
    a = rng.normal(size=(6, 6))
    symmetric = a + a.T
    real_stack = np.stack([symmetric, np.triu(a), np.eye(6)])
    as_numpys(
        {
            "complex": lambda a, s, r: tuple(np.linalg.eig(a)),
            "real": lambda a, s, r: tuple(np.linalg.eig(np.triu(a))),
            "values": lambda a, s, r: np.linalg.eigvals(a),
            "integers": lambda a, s, r: np.linalg.eigvals((a * 9).astype(int)),
            "a stack, one of which is complex": lambda a, s, r: tuple(np.linalg.eig(s)),
            "a real stack": lambda a, s, r: tuple(np.linalg.eig(r)),
            "values of a stack": lambda a, s, r: (np.linalg.eigvals(s), np.linalg.eigvals(r)),
            "no square": lambda a, s, r: np.linalg.eig(a[:3]),
            "a vector": lambda a, s, r: np.linalg.eigvals(a[0]),
        },
        [a, np.stack([symmetric, a, a.T]), real_stack], nprocs=nprocs, tolerance=1 << 10,
    )  # fmt: skip


def test_tensors_as_maps_and_crosses_along_axes_are_numpys() -> None:
    rng = np.random.default_rng(6)
    as_numpys(
        {
            "tensorinv": lambda a, b, c: np.linalg.tensorinv(a),
            "of one axis": lambda a, b, c: np.linalg.tensorinv(a.reshape(6, 2, 3), ind=1),
            "no ind": lambda a, b, c: np.linalg.tensorinv(a, ind=0),
            "tensorsolve": lambda a, b, c: np.linalg.tensorsolve(a, b),
            "of axes": lambda a, b, c: np.linalg.tensorsolve(a.reshape(3, 2, 6), b.reshape(6), axes=(0, 1)),
            "that do not fit": lambda a, b, c: np.linalg.tensorsolve(a, b[0]),
            "cross": lambda a, b, c: np.cross(c, c * 2 + 1, axisa=0, axisb=0),
            "cross along axes": lambda a, b, c: np.cross(c, c * 2 + 1, 0, 0, 0),
            "cross along one": lambda a, b, c: np.cross(c, c * c, axis=0),
        },
        [rng.normal(size=(2, 3, 3, 2)), rng.normal(size=(2, 3)), rng.normal(size=(3, 4))], tolerance=1 << 10,
    )  # fmt: skip


def test_what_is_refused_or_infinite_is_so_for_every_number_of_processes() -> None:
    """A tolerance for each matrix, infinities, NaN, matrices that have no inverse or are not square."""
    rng = np.random.default_rng(0)
    stack, tall, square, zeros = (
        rng.normal(size=(4, 3, 3)),
        rng.normal(size=(12, 3)),
        np.eye(6) * 2,
        np.zeros((4, 3, 3)),
    )
    zeros[1] = np.eye(3)
    calls: dict[str, Any] = {
        "tolerances": lambda s, t, q, z: np.linalg.pinv(s, rtol=np.array([0.1, 0.2, 0.9, 0.1])),
        "one tolerance for all": lambda s, t, q, z: np.linalg.pinv(s, rtol=np.array([0.5])),
        "ranks": lambda s, t, q, z: np.linalg.matrix_rank(s, tol=np.array([0.1, 0.2, 0.9, 0.1])),
        "too many tolerances": lambda s, t, q, z: np.linalg.pinv(s, rtol=np.array([[0.1], [0.9]])),
        "tolerances that do not fit": lambda s, t, q, z: np.linalg.pinv(s, rtol=np.array([0.1, 0.2])),
        "signs of NaN": lambda s, t, q, z: np.linalg.slogdet(q * np.nan),
        "exponents": lambda s, t, q, z: np.linalg.matrix_power(q, 2.0),
        "powers": lambda s, t, q, z: np.linalg.matrix_power(q, np.int64(-2)),
        "rank": lambda s, t, q, z: np.linalg.lstsq(t, t[:, 0], rcond=None)[2],
    }
    for name in ("svdvals", "matrix_rank", "pinv", "cond"):
        function = getattr(np.linalg, name)
        for number in (np.inf, np.nan):
            calls[f"{name} of {number}"] = lambda s, t, q, z, function=function, number=number: function(t * number)
    for p in (None, 1, -2, np.inf, "fro", "x"):
        calls[f"cond {p}"] = lambda s, t, q, z, p=p: [np.linalg.cond(each, p) for each in (s, q, q * 0, z)]
        calls[f"cond {p} of a tall one"] = lambda s, t, q, z, p=p: np.linalg.cond(t, p)
    for nprocs in (1, 3):
        as_numpys(calls, [stack, tall, square, zeros], nprocs=nprocs, ways=["blocks"], tolerance=4096)
