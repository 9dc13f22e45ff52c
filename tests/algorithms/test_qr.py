"""QR: defining properties for any shape, dealing and condition; what it costs; what it says."""

from __future__ import annotations

import pickle
import tracemalloc
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.linalg import LinAlgError
from thinning import examples

import bsp
import bsp.arrays as ba
from bsp.algorithms.qr import QR, cost, passes, qr
from bsp.algorithms.qr.methods import is_near
from bsp.arrays.execution import memory
from bsp.arrays.execution import world as worlds
from bsp.arrays.expressions import layout
from bsp.arrays.linalg import row_blocks
from bsp.cost.model import Machine
from bsp.errors import ShapeError
from tools import qr_study as study

EPS = float(np.finfo(float).eps)
METHODS = ("direct", "indirect", "cholesky2")
MACHINES = {
    "default": Machine(),
    "words are dear": Machine(g=1e3, L=1.0, o=0.0),
    "supersteps are dear": Machine(g=1e-3, L=1e8, o=0.0),
}


@pytest.fixture
def dealt(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Nothing is small: every array is dealt."""

    def forget() -> None:
        layout.automatic.cache_clear()
        layout.asked.cache_clear()
        worlds._plans.clear()

    monkeypatch.setattr(layout, "REPLICATED_SIZE", 0)
    forget()
    yield
    monkeypatch.undo()
    forget()


def sample(seed: int, *shape: int, dtype: Any = float) -> np.ndarray:
    rng = np.random.default_rng(seed)
    found = rng.normal(size=shape)
    return (found + 1j * rng.normal(size=shape) if np.dtype(dtype).kind == "c" else found).astype(dtype)


def pieces_of(a: np.ndarray, nprocs: int, seed: int = 0) -> list[np.ndarray]:
    """Rows cut anywhere; some processes have none."""
    return np.split(a, np.sort(np.random.default_rng(seed).integers(0, len(a) + 1, nprocs - 1)))


def same_everywhere(main: Callable[..., Any], nprocs: int, **options: Any) -> Any:
    results = bsp.run(main, nprocs=nprocs, **options)
    for other in results[1:]:
        np.testing.assert_equal(other, results[0])
    return results[0]


def assert_qr(a: np.ndarray, q: np.ndarray, r: np.ndarray) -> None:
    """Orthonormal to 1e-14 and better, backward stable, R unique."""
    k, eps = min(a.shape), float(np.finfo(r.dtype).eps)
    size = float(np.linalg.norm(a)) or 1.0
    assert (q.shape, r.shape) == ((a.shape[0], k), (k, a.shape[1]))
    assert np.abs(q.conj().T @ q - np.eye(k)).max(initial=0) <= 20 * eps * max(1, k) ** 0.5
    assert np.linalg.norm(q @ r - a) <= 20 * eps * max(1, k) ** 0.5 * size
    assert (np.tril(r, -1) == 0).all()
    diagonal = np.diagonal(r)
    assert (diagonal.real >= 0).all()
    assert np.abs(diagonal.imag).max(initial=0) <= 20 * eps * size


def run_qr(pieces: list[np.ndarray], method: str, **options: Any) -> tuple[Any, ...]:
    def main(proc: Any) -> Any:
        found = qr(ba.from_local(pieces[proc.pid]), method)
        q, r = found
        return q.compute(), r.compute(), found.method, found.reason, found.condition

    return tuple(same_everywhere(main, len(pieces), **options))


# ---------------------------------------------------------------------------------- any matrix


@pytest.mark.parametrize("nprocs", [1, 2, 3, 5, 7, 8])
@pytest.mark.parametrize("method", ["auto", *METHODS])
@pytest.mark.parametrize("shape", [(40, 1), (41, 3), (9, 9), (5, 3), (1, 1), (3, 8), (1, 4), (6, 0), (0, 0), (0, 3)])
def test_any_shape_is_factored_however_its_rows_are_dealt(shape: Any, method: str, nprocs: int) -> None:
    a = sample(1, *shape)
    q, r, *_ = run_qr(pieces_of(a, nprocs), method)
    assert_qr(a, q, r)


@pytest.mark.parametrize("dtype", [complex, np.float32, np.complex64])
@pytest.mark.parametrize("method", ["auto", *METHODS])
@pytest.mark.parametrize("nprocs", [1, 3])
def test_types_are_kept_and_the_diagonal_is_real(nprocs: int, method: str, dtype: Any) -> None:
    a = sample(2, 50, 4, dtype=dtype)
    q, r, *_ = run_qr(pieces_of(a, nprocs), method)
    assert (q.dtype, r.dtype) == (a.dtype, a.dtype)
    assert_qr(a, q, r)


@pytest.mark.parametrize("method", ["auto", *METHODS])
@pytest.mark.parametrize("dtype", [">f8", ">c8"])
def test_another_byte_order_changes_nothing(method: str, dtype: str) -> None:
    a = sample(16, 300, 4, dtype=dtype)
    q, r, taken, *_ = run_qr(pieces_of(a, 3), method)
    expected = run_qr(pieces_of(a.astype(a.dtype.newbyteorder("=")), 3), method)
    assert (taken, q.dtype, r.dtype) == (expected[2], expected[0].dtype, expected[1].dtype)
    np.testing.assert_array_equal(q, expected[0])
    np.testing.assert_array_equal(r, expected[1])


@pytest.mark.parametrize("method", ["auto", *METHODS])
def test_more_processes_than_rows_are_no_trouble(method: str) -> None:
    a = sample(3, 50, 4)
    q, r, *_ = run_qr(pieces_of(a, 64), method)
    assert_qr(a, q, r)


@pytest.mark.parametrize("shape", [(60, 40), (40, 60)])
def test_what_is_not_tall_goes_by_block_columns(dealt: None, shape: Any) -> None:
    a = sample(4, *shape)

    def main(proc: Any) -> Any:
        found = qr(a)
        return [each.compute() for each in found], found.method

    (q, r), method = same_everywhere(main, 4)
    assert_qr(a, q, r)
    assert method == "columns"


@pytest.mark.parametrize("nprocs", [1, 3])
@pytest.mark.parametrize("shape", [(200, 40), (5, 7), (4, 0)])
def test_block_columns_can_be_asked_for(shape: Any, nprocs: int) -> None:
    a = sample(17, *shape)

    def main(proc: Any) -> Any:
        found = qr(a, "columns")
        return [each.compute() for each in found], found.reason.partition(";")[0]

    (q, r), reason = same_everywhere(main, nprocs)
    assert_qr(a, q, r)
    assert reason == "columns: it was asked for"


@pytest.mark.parametrize("nprocs", [1, 2, 7])
def test_r_is_numpys_whatever_the_method_and_the_dealing(nprocs: int) -> None:
    a = sample(5, 300, 6)
    expected = np.linalg.qr(a, mode="r")
    expected *= np.sign(np.diagonal(expected))[:, None]
    for method in ("auto", *METHODS):
        _, r, *_ = run_qr(pieces_of(a, nprocs), method)
        np.testing.assert_allclose(r, expected, rtol=0, atol=100 * EPS * np.linalg.norm(a))


def test_q_lies_as_the_rows_do_and_r_is_on_every_process() -> None:
    def main(proc: Any) -> Any:
        x = ba.from_local(sample(proc.pid, 500 + 100 * proc.pid, 8))
        out = []
        for method in ("auto", *METHODS):
            q, r = qr(x, method)
            out.append(q.layout is x.layout and r.layout.replicated)
        small = qr(np.eye(5, 3))
        return out, [each.layout.replicated for each in small]

    assert same_everywhere(main, 3) == ([True] * 4, [True, True])


def test_an_r_too_large_to_be_replicated_by_itself_is_replicated(dealt: None) -> None:
    a = sample(6, 600, 20)
    assert same_everywhere(lambda proc: qr(ba.asarray(a))[1].layout.replicated, 3)


@examples(15)
@given(st.integers(0, 2**32 - 1), st.integers(1, 60), st.integers(1, 6), st.integers(-120, 120), st.integers(1, 6))
def test_columns_of_any_scale_and_rank(seed: int, m: int, n: int, decade: int, nprocs: int) -> None:
    rng = np.random.default_rng(seed)
    a = rng.integers(-2, 3, (m, n)) * 10.0 ** (rng.integers(-3, 4, n) + decade)  # often of lower rank
    q, r, *_ = run_qr(pieces_of(a, nprocs, seed), "auto")
    assert_qr(a, q, r)


# -------------------------------------------------------------------------- accuracy and choice


@pytest.mark.parametrize("nprocs", [1, 2, 4])
@pytest.mark.parametrize("exponent", range(16))
def test_auto_is_orthogonal_to_1e_14_at_any_condition(exponent: int, nprocs: int) -> None:
    a = study.of_condition(3000, 8, 10.0**exponent)
    q, r, method, reason, condition = run_qr(pieces_of(a, nprocs), "auto")
    assert_qr(a, q, r)
    assert np.linalg.norm(q.T @ q - np.eye(8), 2) < 1e-14
    assert reason.startswith(f"{method}: ")
    assert 0.5 < condition / 10.0**exponent < 2


def test_auto_takes_the_four_methods_in_turn_as_the_condition_grows() -> None:
    taken = {
        exponent: run_qr(pieces_of(study.of_condition(3000, 8, 10.0**exponent), 2), "auto")[2:4]
        for exponent in (0.2, 2, 10, 15)
    }
    assert [method for method, _ in taken.values()] == ["cholesky", "cholesky2", "indirect", "direct"]
    for method, reason in taken.values():
        assert reason.startswith(f"{method}: with its columns scaled to length 1 A has condition ")


def test_columns_of_different_length_are_no_reason_to_do_more() -> None:
    a = sample(7, 3000, 8) * np.logspace(0, -14, 8)
    q, r, method, _, condition = run_qr(pieces_of(a, 2), "auto")
    assert_qr(a, q, r)
    assert method == "cholesky"
    assert condition > 1e13


@examples(60)
@given(st.integers(0, 1 << 30), st.floats(-0.3, 0.5), st.integers(1, 40), st.sampled_from([1, 2, 3]))
def test_one_pass_is_as_orthogonal_as_reflections_or_is_refused(
    seed: int, exponent: float, n: int, nprocs: int
) -> None:
    rng = np.random.default_rng(seed)
    q, _ = np.linalg.qr(rng.normal(size=(900, n)))
    v, _ = np.linalg.qr(rng.normal(size=(n, n)))
    a = (q * np.logspace(0, exponent, n)) @ v * np.exp(rng.normal(size=n) * 20)
    if is_near(np.linalg.qr(a, mode="r"), 900):
        found, r, *_ = run_qr(pieces_of(a, nprocs), "cholesky")
        assert np.abs(found.T @ found - np.eye(n)).max() <= 20 * EPS * n**0.5
        assert (np.linalg.norm(found @ r - a, axis=0) <= 20 * EPS * n**0.5 * np.linalg.norm(a, axis=0)).all()
    else:
        with pytest.raises(
            LinAlgError, match=r"method='cholesky' cannot make Q orthogonal.*about 2.0e\+00 is the most"
        ):
            run_qr(pieces_of(a, nprocs), "cholesky")


def test_one_pass_takes_no_columns_whose_squares_underflow() -> None:
    a = sample(8, 3000, 8)
    for scale in (1e-145, 1e-150, 1e-155, 1e-158, 1e-160):
        q, r, *_ = run_qr(pieces_of(a * scale, 2), "auto")
        assert np.abs(q.T @ q - np.eye(8)).max() < 1e-14
        np.testing.assert_allclose(q @ (r / scale), a, rtol=0, atol=1e-13)


@pytest.mark.parametrize("scale", [1e-170, 1e-200, 1e170, 1e250])
def test_what_squares_to_infinity_or_nothing_is_factored_by_reflections(scale: float) -> None:
    a = sample(8, 3000, 8) * scale
    q, r, method, *_ = run_qr(pieces_of(a, 2), "auto")
    assert np.abs(q.T @ q - np.eye(8)).max() < 1e-14
    np.testing.assert_allclose(q @ (r / scale), a / scale, rtol=0, atol=1e-13)
    assert method in ("indirect", "direct")


def test_where_supersteps_are_dear_one_tree_is_cheapest_for_a_small_matrix() -> None:
    a = sample(9, 300, 3)
    _, _, method, reason, _ = run_qr(pieces_of(a, 8), "auto", machine=MACHINES["supersteps are dear"])
    assert method == "direct"
    assert "so small that reflections are cheapest" in reason


@pytest.mark.parametrize("nprocs", [1, 4])
def test_dependent_and_zero_columns_leave_q_orthonormal(nprocs: int) -> None:
    a = sample(10, 3000, 6)
    a[:, 2] = a[:, 0]
    a[:, 4] = 0
    for method in ("auto", "direct"):
        q, r, taken, _, condition = run_qr(pieces_of(a, nprocs), method)
        assert_qr(a, q, r)
        assert taken == "direct"
        assert condition > 1e15
    q, r, *_ = run_qr(pieces_of(np.zeros((3000, 3)), nprocs), "auto")
    assert_qr(np.zeros((3000, 3)), q, r)


@pytest.mark.parametrize("nprocs", [1, 3])
def test_a_method_that_cannot_do_it_names_the_condition(nprocs: int) -> None:
    a = study.of_condition(400, 8, 1e10)
    with pytest.raises(
        LinAlgError, match=r"method='cholesky2' cannot make Q orthogonal.*condition \d\.\de\+(09|10).*auto"
    ):
        run_qr(pieces_of(a, nprocs), "cholesky2")
    a[:, 3] = 0
    with pytest.raises(LinAlgError, match=r"method='indirect' cannot make Q orthogonal.*condition inf.*'direct'"):
        run_qr(pieces_of(a, nprocs), "indirect")


@pytest.mark.parametrize("nprocs", [1, 2, 3])
@pytest.mark.parametrize("method", ["cholesky", "cholesky2"])
@pytest.mark.parametrize("scale", [1e200, 1e-200])
def test_a_method_whose_squares_are_no_numbers_names_that(scale: float, method: str, nprocs: int) -> None:
    a = study.of_condition(400, 3, 1.5) * scale
    with pytest.raises(LinAlgError, match=r"condition 1\.\de\+00; that is not too much, but AᴴA leaves the range"):
        run_qr(pieces_of(a, nprocs), method)


@pytest.mark.parametrize("method", ["auto", *METHODS])
@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("nprocs", [1, 3])
def test_nan_and_infinity_are_named_with_their_place(nprocs: int, value: float, method: str) -> None:
    a = sample(11, 3000, 4)
    a[2500, 2] = value
    pieces = np.array_split(a, nprocs)

    def main(proc: Any) -> str:
        with pytest.raises(LinAlgError) as caught:
            qr(ba.from_local(pieces[proc.pid]), method)
        return str(caught.value)

    text = same_everywhere(main, nprocs)
    assert text == (
        f"qr: A[2500, 2] is {value} (on process {nprocs - 1}); all elements must be finite: fill or drop such rows"
    )


def test_wide_matrices_and_block_columns_refuse_nan_too(dealt: None) -> None:
    for shape in ((3, 8), (40, 30), (30, 40)):
        a = sample(12, *shape)
        a[1, -1] = np.nan

        def main(proc: Any, a: np.ndarray = a) -> str:
            with pytest.raises(LinAlgError) as caught:
                qr(a)
            return str(caught.value)

        assert "finite" in same_everywhere(main, 3)


def test_bad_arguments_are_refused() -> None:
    def main(proc: Any) -> None:
        with pytest.raises(
            ValueError, match="qr: method='best' is none of auto, direct, indirect, cholesky, cholesky2, columns"
        ):
            qr(np.eye(3), "best")
        with pytest.raises(ShapeError, match=r"qr: A of 2 dimensions, \(m, n\), not of shape \(3,\)"):
            qr(np.ones(3))
        with pytest.raises(TypeError, match="not float16"):
            qr(np.ones((3, 2), np.float16))
        with pytest.raises(
            ValueError, match="cost: method='lu' is none of direct, indirect, cholesky, cholesky2, auto"
        ):
            cost(10, 2, 2, "lu", proc.machine)

    bsp.run(main, nprocs=2)


def test_the_result_is_a_pair_that_says_how_it_was_found() -> None:
    def main(proc: Any) -> Any:
        found = qr(np.eye(4, 2), "direct")
        again = pickle.loads(pickle.dumps(found))
        return type(again) is QR, len(found), found.method, found.reason, again.reason, found.condition

    assert same_everywhere(main, 2) == (True, 2, "direct", *["direct: it was asked for"] * 2, 1.0)


def test_a_is_not_changed_and_factoring_twice_gives_the_same_bytes() -> None:
    a = study.of_condition(3000, 8, 1e9)

    def main(proc: Any) -> Any:
        x = ba.asarray(a)
        first = [each.compute() for each in qr(x)]
        second = [each.compute() for each in qr(x)]
        np.testing.assert_array_equal(x.compute(), a)
        return all(np.array_equal(*pair) for pair in zip(first, second, strict=True))

    assert same_everywhere(main, 3)


@pytest.mark.thorough
@pytest.mark.jobs
def test_bytes_do_not_depend_on_the_number_of_interpreters() -> None:
    matrices = [study.of_condition(3000, 6, kappa) for kappa in (1e2, 1e9)]

    def main(proc: Any) -> Any:
        import numpy as np

        import bsp.arrays as ba
        from bsp.algorithms.qr import lstsq, pca, qr

        out = [np.asarray(each.compute()) for a in matrices for each in qr(ba.asarray(a))]
        out += [np.asarray(each.compute()) for each in pca(ba.asarray(matrices[0]), 2)]
        return [*out, np.asarray(lstsq(ba.asarray(matrices[1]), np.ones(3000))[0].compute())]

    alone = bsp.run(main, nprocs=3)
    several = bsp.run(main, nprocs=3, elements=2)
    for one, other in zip(alone, several, strict=True):
        assert [each.tobytes() for each in one] == [each.tobytes() for each in other]


# ---------------------------------------------------------------------------------------- cost


def counted(body: Callable[[Any], Any], nprocs: int, machine: Machine, abstract: bool) -> list[int]:
    """h of each superstep of qr alone."""

    def rows(proc: Any) -> Any:
        return ba.from_local(sample(proc.pid, 400, 6))

    def whole(proc: Any) -> None:
        body(rows(proc))

    def words(main: Callable[[Any], Any]) -> list[int]:
        found = bsp.predict(main, nprocs=nprocs, machine=machine, abstract=abstract).per_superstep
        return [max(row["h_sent"], row["h_received"]) for row in found]

    return words(whole)[len(words(rows)) :]


@pytest.mark.parametrize("shape", [(3, 8), (1, 3), (0, 3), (40, 35)])
@pytest.mark.parametrize("nprocs", [1, 4])
def test_matrices_that_are_not_tall_are_predicted_with_all_their_supersteps(
    nprocs: int, shape: tuple[int, int]
) -> None:
    def main(proc: bsp.Process) -> None:
        a = ba.from_function(lambda i, j: np.sin(i * 7.7 + j * 3.1), shape).persist()
        ba.persist(*qr(a))

    with_values, without = (
        bsp.predict(main, nprocs=nprocs, machine=Machine(p=nprocs), abstract=each) for each in (False, True)
    )
    assert without.supersteps == with_values.supersteps


@pytest.mark.parametrize("abstract", [False, True])
@pytest.mark.parametrize("machine", list(MACHINES))
@pytest.mark.parametrize("nprocs", [1, 2, 3, 5, 7, 8, 64])
def test_words_and_supersteps_are_those_of_cost(nprocs: int, machine: str, abstract: bool) -> None:
    where = MACHINES[machine]
    for method in (*METHODS, "cholesky"):
        h = counted(lambda x, method=method: qr(x, method), nprocs, where, abstract)
        expected = cost(400 * nprocs, 6, nprocs, method, where)
        assert (sum(h), len(h)) == (expected.H, expected.S)


def test_a_cost_needs_sizes_alone() -> None:
    assert cost(400, 6, 4) == cost(400, 6, 4, "auto", Machine())


@pytest.mark.parametrize("nprocs", [2, 5])
def test_auto_takes_no_more_than_cost_says_and_without_values_just_that(nprocs: int) -> None:
    where = MACHINES["words are dear"]
    bound = cost(400 * nprocs, 6, nprocs, "auto", where)
    h = counted(lambda x: qr(x), nprocs, where, True)
    assert (sum(h), len(h)) == (bound.H, bound.S)
    well = cost(400 * nprocs, 6, nprocs, "cholesky", where)
    h = counted(lambda x: qr(x), nprocs, where, False)
    assert (sum(h), len(h)) == (well.H, well.S)
    assert bound.H > well.H


@pytest.mark.parametrize(("m", "n"), [(40_000, 8), (40_000, 32), (20_000, 100), (3000, 300), (700, 600)])
@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("nprocs", [1, 2])
def test_memory_is_at_most_what_cost_says(method: str, m: int, n: int, nprocs: int) -> None:
    """What is traced, and Q, whose blocks NumPy does not trace."""
    traced: list[int] = []

    def main(proc: Any) -> None:
        x = ba.from_local(sample(proc.pid, m // nprocs, n))
        proc.sync()
        if proc.pid == 0:
            traced.append(tracemalloc.get_traced_memory()[0])
            tracemalloc.reset_peak()
        proc.sync()
        kept = qr(x, method)
        proc.sync()
        if proc.pid == 0:
            traced.append(tracemalloc.get_traced_memory()[1])
        assert kept[0].shape == (m, n)

    bsp.run(main, nprocs=nprocs)  # imports, caches
    memory.release()  # what the pool kept would not be counted
    tracemalloc.start()
    try:
        bsp.run(main, nprocs=nprocs)
    finally:
        tracemalloc.stop()
    before, peak = traced[-2:]
    expected = 8 * nprocs * cost(m, n, nprocs, method, Machine(p=nprocs)).M
    assert 0.3 * expected <= peak - before <= expected + 65536  # Python's own objects


def test_explain_says_at_most_for_auto_and_exactly_for_direct() -> None:
    def main(proc: Any) -> Any:
        x = ba.from_local(sample(proc.pid, 4000, 6))
        return ba.forecast(qr, x).explain(), ba.forecast(qr, x, "direct").explain()

    auto, direct = same_everywhere(main, 4)
    assert "at most" in auto
    assert "at most" not in direct


def test_costs_are_mccolls_for_p_of_two() -> None:
    machine = Machine(g=1e3, L=1.0, o=0.0)
    found = cost(1 << 20, 32, 4, "direct", machine)
    assert (found.W, found.H, found.S) == (6 * 2**18 * 32**2 + 20 * 32**3, 2 * 32**2, 2)
    assert found.M == 2 * 2**18 * 32 + 2 * 1024 * 32 + 2 * 2**8 * 32**2 + 8 * 32**2
    assert cost(1 << 20, 32, 4, "indirect", machine)[1:3] == (4 * 32**2, 4)
    assert cost(1 << 20, 32, 4, "cholesky2", machine)[1:3] == (4 * (3 * 132), 4)  # 528 words in two phases, twice


@pytest.mark.parametrize("arity", [2, 3, 4, 5, 8])
@pytest.mark.parametrize("nprocs", [5, 8, 9, 13])
def test_trees_of_any_arity_give_one_r_or_are_refused(arity: int, nprocs: int) -> None:
    a = sample(13, 5 * nprocs, 4)
    pieces = pieces_of(a, nprocs)

    def main(proc: Any) -> Any:
        found = row_blocks.tsqr(row_blocks.by_rows(ba.from_local(pieces[proc.pid])), a.dtype, pattern=arity)
        assert found.q is not None
        return row_blocks.to_array(found.q, a.dtype).compute(), found.r

    if arity > nprocs or 2 * row_blocks.tree_of(nprocs, arity)[0] < nprocs:
        with pytest.raises(ValueError, match=f"arity {arity} does not reach {nprocs} processes"):
            bsp.run(main, nprocs=nprocs)
    else:
        assert_qr(a, *same_everywhere(main, nprocs))


def test_the_tree_has_the_arity_that_is_cheapest() -> None:
    assert row_blocks.cheapest(Machine(g=1e3, L=1.0, o=0.0), 64, 50) == "tree"
    assert row_blocks.cheapest(Machine(g=1e-3, L=1e9, o=0.0), 64, 50) == "direct"
    assert row_blocks.cheapest(Machine(), 64, 32) == 4


# ------------------------------------------------------------------------------------ the pieces


@pytest.mark.parametrize("rows", [0, 1, 5, 1023, 5000])
@pytest.mark.parametrize("columns", [1, 3, 200])
def test_blocks_in_the_cache_are_factored_as_one_matrix_is(rows: int, columns: int) -> None:
    a = sample(14, rows, columns)

    def main(proc: Any) -> None:
        own = row_blocks.Blocked([a[: rows // 3], a[rows // 3 :]], columns, a.dtype, True)
        without = row_blocks.Blocked([a], columns, a.dtype, False)
        q = np.concatenate(own.times(np.eye(len(own.r))))
        np.testing.assert_allclose(q @ own.r, a, rtol=0, atol=1e-12)
        np.testing.assert_allclose(q.T @ q, np.eye(q.shape[1]), rtol=0, atol=1e-13)
        np.testing.assert_allclose(abs(without.r), abs(own.r), rtol=0, atol=1e-11)

    bsp.run(main, nprocs=1)


@pytest.mark.parametrize("dtype", [float, complex, np.float32])
def test_division_by_a_triangle_and_its_gram_matrix_are_what_they_say(dtype: Any) -> None:
    a, r = sample(15, 2500, 5, dtype=dtype), np.triu(sample(16, 5, 5, dtype=dtype)) + 3 * np.eye(5, dtype=dtype)
    eps = np.finfo(dtype).eps

    def main(proc: Any) -> None:
        rows = row_blocks.by_rows(ba.asarray(a, grid=(3, 1)))
        found, summed = passes.divided_and_gram(rows, r, a.dtype)
        q = np.concatenate([found.blocks[at] for at in sorted(found.blocks)])
        np.testing.assert_allclose(q @ r, a, rtol=0, atol=1e3 * eps)
        np.testing.assert_allclose(summed, q.conj().T @ q, rtol=0, atol=1e3 * eps * len(a))
        np.testing.assert_allclose(passes.gram(rows, a.dtype), a.conj().T @ a, rtol=0, atol=1e3 * eps * len(a))
        near = passes.divided(rows, r, a.dtype, near=True)
        np.testing.assert_allclose(
            np.concatenate([near.blocks[at] for at in sorted(near.blocks)]), q, rtol=0, atol=1e3 * eps
        )
        again = passes.divided(found, r, a.dtype, in_place=True)
        assert all(again.blocks[at] is found.blocks[at] for at in found.blocks)
        np.testing.assert_allclose(np.concatenate([*again.blocks.values()]) @ r, q, rtol=0, atol=1e3 * eps)

    bsp.run(main, nprocs=1)


# ------------------------------------------------------------------------------------- the study


def test_the_documented_table_is_what_the_study_finds() -> None:
    text = (Path(__file__).parents[2] / "docs" / "qr-accuracy.md").read_text()
    assert text.startswith(study.HEAD)
    lines = [line for line in text.splitlines() if line.startswith("| 1e")]
    assert len(lines) == len(study.EXPONENTS)
    for exponent in (0, 6, 10, 15):
        documented = [cell.strip() for cell in lines[exponent].strip("|").split("|")]
        (fresh,) = [line for line in study.table([exponent]).splitlines() if line.startswith("| 1e")]
        found = [cell.strip() for cell in fresh.strip("|").split("|")]
        assert found[6] == documented[6]
        for mine, its in zip(found[1:6], documented[1:6], strict=True):
            assert ("refused" in mine) == ("refused" in its)
            if "refused" not in mine:
                pairs = zip(mine.split(","), its.split(","), strict=True)
                assert all(abs(np.log10(float(x)) - np.log10(float(y))) < 1 for x, y in pairs)


def test_every_method_that_is_not_refused_is_orthogonal_in_the_table() -> None:
    text = (Path(__file__).parents[2] / "docs" / "qr-accuracy.md").read_text()
    taken = []
    for line in text.splitlines():
        if line.startswith("| 1e"):
            cells = [cell.strip() for cell in line.strip("|").split("|")]
            assert all(cell == "refused" or float(cell.split(",")[0]) < 1e-14 for cell in cells[1:6])
            assert cells[5] != "refused"
            taken.append(cells[6])
    assert list(dict.fromkeys(taken)) == ["cholesky", "cholesky2", "indirect", "direct"]


def test_the_study_is_printed(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(study, "table", lambda: "the table")
    assert study.main([]) == 0
    assert capsys.readouterr().out == "the table\n"


def test_the_study_is_written_where_it_is_asked_to_be(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(study, "table", lambda: "the table")
    target = tmp_path / "table.md"
    assert study.main(["--write", str(target)]) == 0
    assert target.read_text() == study.HEAD + "the table\n"


@pytest.mark.parametrize("scale", [1e300, 1e-310])
def test_the_reason_is_true_near_the_ends_of_the_range_of_numbers(scale: float) -> None:
    a = np.random.default_rng(0).normal(size=(500, 4)) * scale
    q, r, method, reason, _ = run_qr(pieces_of(a, 2), "auto")
    assert method != "cholesky2"
    assert "too much" not in reason
    np.testing.assert_allclose(q.T @ q, np.eye(4), rtol=0, atol=1e-14)
    np.testing.assert_allclose(q @ (r / scale), a / scale, rtol=0, atol=1e-11)
