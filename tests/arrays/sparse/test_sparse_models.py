"""A modelled matrix is priced as a real one of its kind: the words of a product without its entries."""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce
from typing import Any

import numpy as np
import pytest
import scipy.sparse as ss

import bsp
import bsp.arrays as ba
from bsp.algorithms import graphs, krylov
from bsp.arrays import sparse
from bsp.arrays.sparse import partition

Make = Callable[[], sparse.SparseArray]


def stencil(lengths: tuple[int, ...], around: bool = False) -> ss.csr_array:
    """The matrix of a mesh's nodes and their neighbours."""
    lines = [ss.diags_array([np.ones(n - 1), np.ones(n), np.ones(n - 1)], offsets=[-1, 0, 1]) for n in lengths]
    if around:
        return ss.csr_array(reduce(ss.kron, lines))
    found = ss.csr_array((int(np.prod(lengths)),) * 2)
    for axis, each in enumerate(lines):
        parts = [each if k == axis else ss.eye_array(n) for k, n in enumerate(lengths)]
        found = found + reduce(ss.kron, parts)
    return ss.csr_array(found)


def used_like(exponent: float, n: int, nnz: int) -> ss.csr_array:
    """A matrix whose columns have entries by a power law, at random positions."""
    rng = np.random.default_rng(2)
    share = np.diff(np.arange(n + 1) ** (1 - 1 / (exponent - 1)))
    per = np.minimum(rng.poisson(nnz * share / share.sum()), n)
    columns = np.repeat(rng.permutation(n), per)
    rows = np.concatenate([rng.choice(n, count, replace=False) for count in per])
    return ss.csr_array((np.ones(len(rows)), (rows, columns)), shape=(n, n))


def priced(make: Make, nprocs: int, turned: bool = False) -> tuple[int, int, float]:
    """The h and all words of a repeated product, and its flops."""

    def main(proc: bsp.Process) -> None:
        A = make()
        A = A.T if turned else A
        y = A.sum(axis=0).persist()
        (A @ (A @ y)).persist()
        found.append((A._pattern.far.exchange.words, float(A._pattern.outline.counts.max())))

    found: list[tuple[int, float]] = []
    rows = bsp.predict(main, nprocs=nprocs, machine=bsp.Machine(p=nprocs), abstract=True).per_superstep
    (row, *_) = [each for each in reversed(rows) if "sparse product" in each["call"]]
    return max(row["h_sent"], row["h_received"]), found[0][0], found[0][1]


BRICKS = (16, 12, 10)
CASES: list[tuple[ss.csr_array, str, tuple[int, ...] | None]] = [
    (ss.csr_array(ss.random_array((4000, 4000), density=0.001, rng=3)), "uniform", None),
    (stencil((4000,)), "mesh", None), (stencil((60, 60)), "mesh", None), (stencil((16, 16, 16)), "mesh", None),
    (stencil((30, 50)), "mesh", (30, 50)), (stencil((40, 40), True), "mesh", (40, 40)),
    (stencil((12, 12, 12), True), "mesh", None),
    (stencil(BRICKS), "bricks", BRICKS), (stencil((12, 12, 12), True), "bricks", None),
]  # fmt: skip


@pytest.mark.parametrize("nprocs", [1, 2, 5, 8])
@pytest.mark.parametrize("number", range(len(CASES)))
def test_words_of_a_model_are_those_of_real_patterns(number: int, nprocs: int) -> None:
    real, kind, mesh = CASES[number]

    def make() -> sparse.SparseArray:
        if kind != "bricks":
            return sparse.from_coo(
                *_own(real), real.shape, bounds=np.linspace(0, real.shape[0], nprocs + 1).astype(int)
            )
        return partition.bricks(mesh or (12, 12, 12), nprocs).matrix(sparse.from_scipy(real))

    def modelled() -> sparse.SparseArray:
        return sparse.model(real.shape, real.nnz, kind, mesh=mesh)

    if nprocs == 1:
        assert bsp.predict(lambda proc: modelled() @ ba.ones(real.shape[0]), nprocs=1, abstract=True) is not None
        return
    (h, words, entries), (h_, words_, entries_) = priced(make, nprocs), priced(modelled, nprocs)
    assert words_ == pytest.approx(words, rel=0.1)
    assert h_ == pytest.approx(h, rel=0.1)
    assert entries_ == pytest.approx(entries, rel=0.1)


def _own(real: ss.csr_array) -> tuple[Any, Any, Any]:
    """All triples on process 0."""
    rows, columns = real.tocoo().coords
    mine = slice(None if bsp.process().pid == 0 else 0)
    return rows[mine], columns[mine], real.data[mine]


@pytest.mark.parametrize("nprocs", [2, 8])
def test_words_of_a_power_law_are_about_those_of_such_a_matrix(nprocs: int) -> None:
    real = used_like(2.3, 3000, 15000)
    bounds = np.linspace(0, 3000, nprocs + 1).astype(int)
    _, words, _ = priced(lambda: sparse.from_scipy(real, bounds=bounds), nprocs)
    _, words_, _ = priced(lambda: sparse.model(real.shape, real.nnz, "power law", exponent=2.3), nprocs)
    _, uniform, _ = priced(lambda: sparse.model(real.shape, real.nnz), nprocs)
    assert words_ == pytest.approx(words, rel=0.1)
    assert abs(words_ - words) < abs(uniform - words)


@pytest.mark.thorough
def test_what_is_lazy_is_priced_with_matrices_of_any_size() -> None:
    """Conjugate gradients, written out, on 10^9 unknowns and 512 processes."""
    n = 1000**3

    def main(proc: bsp.Process) -> None:
        A = sparse.model((n, n), 7 * n - 6 * n // 1000, "bricks")
        assert (A.shape, A.nnz) == ((n, n), 6994 * 10**6)
        r = A.vector(ba.ones(n))
        p, x = (A @ r).persist(), 0 * r
        for _ in range(2):
            w = A @ p
            alpha = (r @ r) / (p @ w)
            x, s = x + alpha * p, r - alpha * w
            p = s + (s @ s) / (r @ r) * p
            r = s
            ba.persist(x, r, p)
        ba.persist((2 * A).T @ x, A.T.sum(axis=1), A.diagonal(), abs(A).max(axis=0), A @ ba.ones((n, 2)))

    found = bsp.predict(main, nprocs=512, machine=bsp.Machine(p=512), abstract=True)
    assert 6 * 125**2 in [row["h_sent"] for row in found.per_superstep]


METHODS: dict[str, tuple[Callable[..., Any], int]] = {  # by name: a call of so many rounds, a round's supersteps
    "minres": (lambda A, b, times: krylov.minres(A, b, rtol=1e-30, maxiter=times), 2),
    "gmres": (lambda A, b, times: krylov.gmres(A, b, rtol=0, restart=4, maxiter=times), 3 * 4 + 2),
    "bicgstab": (lambda A, b, times: krylov.bicgstab(A, b, rtol=0, maxiter=times), 4),
    "lsqr": (lambda A, b, times: krylov.lsqr(A, b, atol=0, btol=0, conlim=0, iter_lim=times), 2),
    "eigsh": (lambda A, b, times: krylov.eigsh(A, 2, v0=b, ncv=6, maxiter=times), 3 * 4),
    "svds": (lambda A, b, times: krylov.svds(A, 2, ncv=6, tol=0, maxiter=times), 5),
}


@pytest.mark.parametrize("name", METHODS)
def test_rounds_of_krylov_methods_on_a_model_move_what_those_on_a_mesh_move(name: str) -> None:
    """The third round of each method has its supersteps, and the same h in each, as that with the real matrix."""
    W = ss.csr_array(ss.diags_array([-1.0, 4.0, -1.0], offsets=[-1, 0, 1], shape=(4000, 4000)))
    b = np.random.default_rng(0).normal(size=4000)
    call, supersteps = METHODS[name]

    def main(proc: bsp.Process, modelled: bool, times: int) -> None:
        A = sparse.model(W.shape, W.nnz, "mesh") if modelled else sparse.from_scipy(W, bounds=range(0, 4001, 1000))
        try:
            call(A, ba.asarray(b), times)
        except krylov.NoConvergence:
            assert name in ("eigsh", "svds")
            assert not modelled

    def h(modelled: bool, times: int) -> list[int]:
        found = bsp.predict(main, modelled, times, nprocs=4, machine=bsp.Machine(p=4), abstract=modelled)
        return [row["h_sent"] for row in found.per_superstep]

    rounds = [h(modelled, 3)[len(h(modelled, 2)) :] for modelled in (True, False)]
    assert rounds[0] == rounds[1]
    assert 0 <= len(rounds[0]) - supersteps <= (name == "eigsh")  # and one in which nothing moves
    with pytest.raises(ValueError, match=f"{name} in a run without values: maxiter is the number"):
        bsp.predict(lambda proc: call(sparse.model((9, 9), 21), np.ones(9), None), nprocs=2, abstract=True)


@pytest.mark.parametrize("variant, supersteps", [("standard", 3), ("classic", 2), ("pipelined", 1)])
def test_conjugate_gradients_of_a_model_move_what_those_of_a_mesh_move(variant: str, supersteps: int) -> None:
    """An iteration has the supersteps that `cg` states, and h of the far columns and three sums in both."""
    W = ss.csr_array(ss.diags_array([-1.0, 4.0, -1.0], offsets=[-1, 0, 1], shape=(4000, 4000)))
    b = np.random.default_rng(0).normal(size=4000)

    def main(proc: bsp.Process, modelled: bool) -> None:
        A = sparse.model(W.shape, W.nnz, "mesh") if modelled else sparse.from_scipy(W, bounds=range(0, 4001, 1000))
        krylov.cg(A, ba.asarray(b), rtol=0, maxiter=5, variant=variant)

    def iterations(modelled: bool) -> list[tuple[int, int]]:
        found = bsp.predict(main, modelled, nprocs=4, machine=bsp.Machine(p=4), abstract=modelled).per_superstep
        return [(row["h_sent"], row["h_received"]) for row in found][-4 * supersteps :]

    halo, late = {1: (8, []), 2: (5, [3]), 3: (2, [3, 3])}[supersteps]
    assert iterations(True) == iterations(False) == 4 * [(h, h) for h in (halo, *late)]
    with pytest.raises(ValueError, match="maxiter is the number of iterations to price"):
        bsp.predict(lambda proc: krylov.cg(sparse.model((9, 9), 21), np.ones(9)), nprocs=2, abstract=True)


@pytest.mark.parametrize("nprocs", [1, 3])
def test_conjugate_gradients_solve(nprocs: int) -> None:
    W = ss.csr_array(ss.diags_array([-1.0 + 1j, 4.0, -1.0 - 1j], offsets=[-1, 0, 1], shape=(300, 300)))
    b = np.random.default_rng(0).normal(size=300)

    def main(proc: bsp.Process) -> None:
        for matrix in (W, W.real.tocsr(), W.real.toarray()):
            A = sparse.from_scipy(matrix) if ss.issparse(matrix) else ba.asarray(matrix)
            for variant in ("standard", "classic", "pipelined"):
                x, info = krylov.cg(A, b, rtol=1e-10, variant=variant)
                assert info == 0
                assert np.linalg.norm(matrix @ x.compute() - b) <= 2e-10 * np.linalg.norm(b)

    bsp.run(main, nprocs=nprocs)


@pytest.mark.parametrize("nprocs", [1, 3])
def test_a_model_has_no_places_and_is_for_runs_without_values(nprocs: int) -> None:
    def main(proc: bsp.Process) -> None:
        with pytest.raises(ba.ArrayError, match="it has no entries, and is for runs without values only"):
            sparse.model((9, 9), 20)

    bsp.run(main, nprocs=nprocs)

    def without(proc: bsp.Process) -> None:
        A = sparse.model((90, 90), 200)
        for call in (A.local, A.compute, A.triples, A.tocsc, lambda: A @ A, lambda: A + A, lambda: A[2:5],
                     lambda: sparse.kron(A, A), lambda: A.pattern):  # fmt: skip
            with pytest.raises(ba.ArrayError, match="a modelled matrix has no places of entries"):
                call()
        for call, text in [
            (lambda: sparse.model((9, 9), 82), "82 entries in a matrix of shape"),
            (lambda: sparse.model((9, 9), 8, "chess"), "uniform, mesh, bricks, power law"),
            (lambda: sparse.model((9, 9), 8, "power law", exponent=2.0), "above 2"),
            (lambda: sparse.model((10, 10), 45, "mesh"), "a mesh of 3x3 nodes"),
            (lambda: sparse.model((9, 8), 8, "mesh", mesh=(3, 3)), "do not fit"),
        ]:
            with pytest.raises(ba.ArrayError, match=text):
                call()
        for shape in [(0, 0), (0, 5), (5, 0), (2, 7)]:
            A = sparse.model(shape, 0)
            (A @ ba.ones(shape[1])).persist()

    bsp.predict(without, nprocs=nprocs, machine=bsp.Machine(p=nprocs), abstract=True)


def test_matrices_that_programs_make_are_priced_without_values() -> None:
    """Random ones are models; triples, and products of sparse arrays, are real, for their indices are."""

    def main(proc: bsp.Process) -> None:
        R = sparse.random(5000, 3000, density=0.01)
        assert R.nnz == 150_000
        (R.T @ (R @ ba.ones(3000))).persist()
        at = np.arange(proc.pid, 40, proc.nprocs)
        A = sparse.from_coo(at, (at * 7 + 1) % 40, 1.0, (40, 40))
        assert (A @ A.T).nnz == 40
        (A.T @ (A @ ba.ones(40))).persist()

    assert bsp.predict(main, nprocs=4, machine=bsp.Machine(p=4), abstract=True).per_superstep


REAL = ss.csr_array(ss.random_array((80, 80), density=0.08, rng=4))
CALLS: dict[str, Callable[[sparse.SparseArray], Any]] = {
    "rows": lambda A: A[10:40],
    "part": lambda A: A[::3, 5:60],
    "element": lambda A: A[7, 3],
    "product": lambda A: (A @ ba.ones(80)).persist(),
    "square": lambda A: A @ A,
    "sum": lambda A: A + A.T,
    "sums": lambda A: A.sum(axis=0).persist(),
    "by coordinates": lambda A: A.tocoo()[2:9].sum().persist(),
}


@pytest.mark.parametrize("nprocs", [1, 2, 5])
@pytest.mark.parametrize("name", CALLS)
def test_a_run_without_values_sends_what_one_with_values_sends(name: str, nprocs: int) -> None:
    """The places of the entries are there in both."""

    def main(proc: bsp.Process) -> None:
        CALLS[name](sparse.from_scipy(REAL))

    def sent(abstract: bool) -> list[tuple[int, int, int]]:
        rows = bsp.predict(main, nprocs=nprocs, machine=bsp.Machine(p=nprocs), abstract=abstract)
        return [(row["h_sent"], row["h_received"], row["messages"]) for row in rows]

    assert sent(True) == sent(False)


def test_matrices_of_values_that_are_not_there_name_the_model() -> None:
    def main(proc: bsp.Process) -> None:
        at, values = proc.rng.integers(0, 9, size=10), proc.rng.normal(size=10)
        some, every = np.arange(10), ba.random.default_rng(0).integers(0, 9, size=10)
        calls: dict[str, list[Callable[[], Any]]] = {
            "from_coo": [
                lambda: sparse.from_coo(at, at, 1.0, (9, 9)), lambda: sparse.from_coo(some, some, values),
                lambda: sparse.from_coo(every, every, 1.0), lambda: sparse.from_coo((some, at, some), 1.0),
                lambda: sparse.from_coo((some, some), values),
            ],
            "from_local": [lambda: sparse.from_local(np.zeros((3, 4)))],
            "diags": [lambda: sparse.diags([np.ones(5)], offsets=[0])],
            "of_function": [lambda: sparse.of_function((9, 4), lambda low, high: np.ones((high - low, 4)))],
        }  # fmt: skip
        for name, each in calls.items():
            for call in each:
                with pytest.raises(bsp.ValueNeeded, match=rf"^{name} needs the values of .* take sparse\.model"):
                    call()
        for call in (
            lambda: graphs.from_edges(at, some),
            lambda: graphs.from_edges(some, some, values),
            lambda: graphs.rmat(5),
        ):
            with pytest.raises(bsp.ValueNeeded, match="what a graph costs follows from its edges"):
                call()

    bsp.predict(main, nprocs=2, machine=bsp.Machine(p=2), abstract=True)
