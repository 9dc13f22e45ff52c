"""Krylov methods solve what scipy and dense solvers do, whatever p and the deal, in the supersteps that they state."""

from __future__ import annotations

import json
import pickle
import subprocess
import sys
import warnings
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as ss
import scipy.sparse.linalg
from hypothesis import given
from hypothesis import strategies as st
from thinning import examples

import bsp
import bsp.arrays as ba
from bsp.algorithms import krylov
from bsp.algorithms.krylov import npb
from bsp.arrays import sparse
from bsp.arrays.sparse import partition

PROCESSES = (1, 3, 4)


def mesh(*shape: int) -> ss.csr_array:
    """Poisson's matrix: the finite differences of -Laplace's operator on a mesh."""
    total = ss.csr_array((1, 1))
    size = 1
    for length in shape:
        line = ss.diags_array([-1.0, 2.0, -1.0], offsets=[-1, 0, 1], shape=(length, length))
        total = ss.csr_array(ss.kron(total, ss.eye_array(length)) + ss.kron(ss.eye_array(size), line))
        size *= length
    return total


def definite(n: int, seed: int = 0, kind: type = float) -> ss.csr_array:
    """A sparse positive definite matrix with eigenvalues between 1 and about 20."""
    rng = np.random.default_rng(seed)
    half = ss.random_array((n, n), density=min(1.0, 3 / n), rng=rng).toarray()
    if kind is complex:
        half = half * np.exp(2j * np.pi * rng.random((n, n)))
    return ss.csr_array(half @ half.conj().T + np.diag(np.linspace(1, 10, n)))


def vector(n: int, seed: int = 7, kind: type = float) -> np.ndarray:
    rng = np.random.default_rng(seed)
    return rng.normal(size=n) + (1j * rng.normal(size=n) if kind is complex else 0)


def residual(W: Any, x: Any, b: np.ndarray) -> float:
    return float(np.linalg.norm(b - W @ x) / np.linalg.norm(b))


def iterations(solve: Callable[[Callable[[Any], None]], Any], nprocs: int) -> list[list[int]]:
    """Return h of each superstep of each iteration after the first one; an iteration ends with the callback."""
    ends: list[int] = []

    def main(proc: bsp.Process) -> None:
        def callback(_: Any) -> None:
            if proc.pid == 0:
                ends.append(proc.superstep)

        solve(callback)

    rows = bsp.predict(main, nprocs=nprocs, machine=bsp.Machine(p=nprocs)).per_superstep
    steps = {row["superstep"]: max(row["h_sent"], row["h_received"]) for row in rows}
    return [[steps[k] for k in range(a, b)] for a, b in pairwise(ends)]


def far(W: ss.csr_array, bounds: tuple[int, ...]) -> int:
    """Return h of a product: the most words that a process sends or receives, one for each far column."""
    owner = np.searchsorted(bounds, np.arange(W.shape[0]), side="right") - 1
    pairs = {(owner[i], j) for i, j in zip(*W.nonzero(), strict=True) if owner[i] != owner[j]}
    into = np.bincount([p for p, _ in pairs], minlength=1)
    out = np.bincount([owner[j] for _, j in pairs], minlength=1)
    return int(max(into.max(), out.max()))


# ------------------------------------------------------------------------------ conjugate gradients


@pytest.mark.crossed
@pytest.mark.parametrize("variant", ["standard", "classic", "pipelined"])
@pytest.mark.parametrize("kind", [float, complex])
@pytest.mark.parametrize("nprocs", PROCESSES)
def test_cg_solves_definite_systems(nprocs: int, kind: type, variant: str) -> None:
    W, b, x0 = definite(61, kind=kind), vector(61, kind=kind), vector(61, 8)

    def main(proc: bsp.Process) -> list[Any]:
        A = sparse.from_scipy(W)
        given: list[dict[str, Any]] = [{}, {"x0": x0}, {"M": krylov.jacobi(A)}, {"M": lambda r: 0.1 * r}]
        found = [krylov.cg(A, b, rtol=1e-12, variant=variant, **each) for each in given]
        return [(x.compute(), x.dtype, info) for x, info in found]

    exact = np.linalg.solve(W.toarray(), b)
    for x, dtype, info in bsp.run(main, nprocs=nprocs)[0]:
        assert (info, dtype) == (0, b.dtype)
        assert residual(W, x, b) <= 2e-12
        np.testing.assert_allclose(x, exact, rtol=0, atol=1e-10)


@pytest.mark.parametrize("variant", ["standard", "classic", "pipelined"])
@pytest.mark.parametrize("kind", [np.float32, np.complex64])
def test_cg_converges_in_single_precision(kind: Any, variant: str) -> None:
    """Recursions that drift are begun anew while half of the digits are left, of those that the type has."""
    rng = np.random.default_rng(1)
    half = rng.normal(size=(20, 20)) + (1j * rng.normal(size=(20, 20)) if kind is np.complex64 else 0)
    W, b = (half @ half.conj().T + 2 * np.eye(20)).astype(kind), rng.normal(size=20).astype(kind)

    def main(proc: bsp.Process) -> Any:
        x, info = krylov.cg(ba.asarray(W), b, variant=variant)
        return x.compute(), info

    x, info = bsp.run(main, nprocs=2)[0]
    assert info == 0 and x.dtype == kind
    assert residual(W, x, b) <= 2e-5


@pytest.mark.parametrize("variant", ["standard", "classic", "pipelined"])
def test_cg_takes_scipys_steps(variant: str) -> None:
    """The same iterates, up to rounding, and as many; the callback sees each of them."""
    W, b = mesh(9, 8), vector(72)
    wanted: list[np.ndarray] = []
    M = ss.diags_array(1 / np.linspace(3, 5, 72))
    scipy.sparse.linalg.cg(W, b, rtol=1e-6, callback=lambda x: wanted.append(x.copy()), M=M)

    def main(proc: bsp.Process) -> list[np.ndarray]:
        seen: list[np.ndarray] = []
        inverse = ba.asarray(M.diagonal())
        krylov.cg(
            sparse.from_scipy(W), b, rtol=1e-6, M=lambda x: inverse * x, variant=variant,
            callback=lambda x: seen.append(x.compute()),
        )  # fmt: skip
        return seen

    found = bsp.run(main, nprocs=3)[1]
    assert len(found) == len(wanted)
    for mine, theirs in zip(found, wanted, strict=True):
        np.testing.assert_allclose(mine, theirs, rtol=0, atol=1e-9)


@pytest.mark.parametrize("nprocs", [1, 3])
@pytest.mark.parametrize(
    "solve",
    [
        lambda *given, **options: krylov.cg(*given, variant="standard", **options),
        lambda *given, **options: krylov.cg(*given, variant="classic", **options),
        lambda *given, **options: krylov.cg(*given, variant="pipelined", **options),
        krylov.bicgstab,
        krylov.minres,
    ],
    ids=["standard", "classic", "pipelined", "bicgstab", "minres"],
)
def test_what_is_called_good_is_good(solve: Any, nprocs: int) -> None:
    """The norm is that of b - A x, from which recursions drift away; what cannot be reached is told."""
    W, b = mesh(40, 40), vector(1600)

    def main(proc: bsp.Process) -> Any:
        A = sparse.from_scipy(W)
        (x, info), (_, failed) = solve(A, b, rtol=3e-14, maxiter=250), solve(A, b, rtol=1e-18, maxiter=400)
        return x.compute(), info, failed

    x, info, failed = bsp.run(main, nprocs=nprocs)[0]
    assert info == 0
    assert residual(W, x, b) <= 3.1e-14
    assert failed > 0 or failed == -10


@pytest.mark.parametrize("variant", ["standard", "classic", "pipelined"])
@pytest.mark.parametrize("nprocs", [1, 4])
def test_cg_returns_the_iterations_done_if_they_were_too_few(nprocs: int, variant: str) -> None:
    W, b = mesh(12, 11), vector(132)

    def main(proc: bsp.Process) -> Any:
        A = sparse.from_scipy(W)
        x, info = krylov.cg(A, b, maxiter=5, variant=variant)
        again, last = krylov.cg(A, b, x0=x, variant=variant)
        done, none = krylov.cg(A, b, x0=again, maxiter=0, variant=variant)
        zero, good = krylov.cg(A, np.zeros(132), variant=variant)
        return info, x.compute(), last, again.compute(), none, done.compute(), good, zero.compute()

    info, x, last, again, none, done, good, zero = bsp.run(main, nprocs=nprocs)[0]
    assert (info, last, none, good) == (5, 0, 0, 0)
    assert residual(W, x, b) > 1e-5 >= residual(W, again, b)
    assert (again == done).all()
    assert not zero.any()


@pytest.mark.parametrize("nprocs", [2, 5, 8])
def test_cg_has_three_supersteps_an_iteration_or_two_or_one(nprocs: int) -> None:
    """H: the far columns, and one word to each other process for each sum that is not another one's equal."""
    W, b = mesh(12, 11), vector(132)
    bounds: list[Any] = []

    def solve(callback: Callable[[Any], None], variant: str, weighted: bool) -> None:
        A = sparse.from_scipy(W)
        bounds[:] = A.row_bounds
        inverse = krylov.jacobi(A)
        krylov.cg(A, b, maxiter=6, M=inverse if weighted else None, variant=variant, callback=callback)

    for weighted in (False, True):
        sums = 3 if weighted else 2
        for variant in ("standard", "classic", "pipelined"):
            steps = iterations(lambda callback, v=variant, w=weighted: solve(callback, v, w), nprocs)  # type: ignore[misc]
            halo, others = far(W, tuple(bounds)), nprocs - 1
            right = {
                "pipelined": [halo + sums * others],
                "classic": [halo + (sums - 1) * others, others],
                "standard": [halo, others, (sums - 1) * others],
            }[variant]
            assert steps == [right] * 5, (variant, weighted)


def test_cg_takes_the_cheaper_variant() -> None:
    """A boundary that costs more than the operations of one more vector is saved, and no other one."""

    def supersteps(*shape: int) -> int:
        W = mesh(*shape)
        ends: list[int] = []

        def main(proc: bsp.Process) -> None:
            callback = (lambda _: ends.append(proc.superstep)) if proc.pid == 0 else None
            krylov.cg(sparse.from_scipy(W), np.ones(W.shape[0]), maxiter=4, callback=callback)

        bsp.predict(main, nprocs=4, machine=bsp.Machine(p=4, L=5000.0))
        return ends[3] - ends[2]

    assert supersteps(12, 11) == 1
    assert supersteps(75, 80) == 2
    assert supersteps(150, 80) == 3


@given(st.data())
@examples(16)
def test_cg_on_any_deal(data: st.DataObject) -> None:
    """Rows may be dealt in any way: fewer than processes, none on some; vectors come as they are."""
    nprocs, n = data.draw(st.integers(1, 6)), data.draw(st.integers(1, 12))
    cuts = sorted(data.draw(st.lists(st.integers(0, n), min_size=nprocs - 1, max_size=nprocs - 1)))
    variant = data.draw(st.sampled_from(["standard", "classic", "pipelined"]))
    W, b = definite(n, 3), vector(n)

    def main(proc: bsp.Process) -> Any:
        A = sparse.from_scipy(W, bounds=(0, *cuts, n))
        x, info = krylov.cg(A, b, rtol=1e-9, variant=variant)
        return x.compute(), info

    x, info = bsp.run(main, nprocs=nprocs)[0]
    assert info == 0
    assert residual(W, x, b) <= 1e-8


@pytest.mark.parametrize("nprocs", [1, 3])
def test_operators_are_sparse_or_dense_or_functions(nprocs: int) -> None:
    W, b = definite(25), vector(25)

    def main(proc: bsp.Process) -> list[Any]:
        A = sparse.from_scipy(W)
        twice = krylov.LinearOperator(A.shape, lambda x: 2 * (A @ x))
        every: list[Any] = [A, 2 * A, twice, W, W.toarray(), ba.asarray(W.toarray(), grid=(proc.nprocs, 1))]
        return [krylov.cg(each, b, rtol=1e-11)[0].compute() for each in every]

    exact = np.linalg.solve(W.toarray(), b)
    for k, x in enumerate(bsp.run(main, nprocs=nprocs)[0]):
        np.testing.assert_allclose(x, exact / (2 if k in (1, 2) else 1), rtol=0, atol=1e-9)


@pytest.mark.parametrize("nprocs", [1, 3])
def test_mistakes_are_told(nprocs: int) -> None:
    every: list[Any] = [krylov.cg, krylov.minres, krylov.gmres, krylov.bicgstab]

    def main(proc: bsp.Process) -> None:
        A = sparse.eye(5)
        for wrong, text in [
            (lambda: krylov.cg(sparse.eye(5, 4), np.ones(5)), r"cg: A of shape \(5, 4\) is not square"),
            (lambda: krylov.cg(A, np.ones(4)), r"cg: A of shape \(5, 5\) and b of shape \(4,\) do not fit"),
            (lambda: krylov.cg(A, np.ones((5, 2))), "do not fit"),
            (lambda: krylov.cg(np.ones(5), np.ones(5)), "no matrix"),
            (lambda: krylov.cg(A, np.ones(5), x0=np.ones(6)), r"x0 of shape \(6,\)"),
            (lambda: krylov.cg(A, np.ones(5), variant="fast"), "one of auto, standard, classic, pipelined"),
            *((lambda f=f: f(A, np.ones(5), rtol=np.nan), f"{f.__name__}: a tolerance is NaN") for f in every),
            *(
                (lambda f=f: f(A, np.ones(5), maxiter=-1), f"{f.__name__}: -1 iterations at most: a number from 0")
                for f in every
            ),
            (lambda: krylov.cg(A, np.ones(5), atol=np.nan), "cg: a tolerance is NaN"),
            (lambda: krylov.eigsh(A, 2, tol=np.nan), "eigsh: a tolerance is NaN"),
            (lambda: krylov.svds(A, 2, tol=np.nan), "svds: a tolerance is NaN"),
            *((lambda f=f: f(A, np.ones(5), rtol=-1.0), f"{f.__name__}: a tolerance is negative") for f in every),
            (lambda: krylov.gmres(A, np.ones(5), atol=-1.0), "gmres: a tolerance is negative"),
            (lambda: krylov.svds(A, 2, tol=-1.0), "svds: a tolerance is negative"),
            (lambda: krylov.lsqr(A, np.ones(5), atol=np.nan), "lsqr: a tolerance is NaN"),
            (lambda: krylov.lsqr(A, np.ones(5), btol=-1.0), "lsqr: a tolerance is negative"),
            (lambda: krylov.gmres(A, np.ones(5), restart=0), r"gmres\(restart=0\): a cycle has 1 vector or more"),
            (lambda: krylov.gmres(A, np.ones(5), restart=-1), r"gmres\(restart=-1\): a cycle has 1 vector or more"),
            (lambda: krylov.eigsh(A * np.nan, 2), "eigsh: A or v0 has a NaN"),
            (lambda: krylov.svds(A * np.inf, 2), "svds: A has a NaN"),
            (lambda: krylov.cg(A, np.ones(5), M=3), "an operator or a function"),
            (lambda: krylov.LinearOperator((5, 5), lambda x: x).T, "no rmatvec"),
            (lambda: npb.matrix("Z"), "one of S, W, A, B, C"),
        ]:
            with pytest.raises((ba.ArrayError, ValueError), match=text):
                wrong()

    bsp.run(main, nprocs=nprocs)


@pytest.mark.parametrize("variant", ["standard", "classic", "pipelined"])
def test_cg_stops_where_there_is_no_next_step(variant: str) -> None:
    """Of an indefinite matrix a direction may have no curvature: not solved, and no exception."""

    def main(proc: bsp.Process) -> Any:
        A = sparse.from_scipy(np.diag([1.0, -1.0]))
        return krylov.cg(A, np.ones(2), variant=variant)[1], krylov.cg(A, [1.0, np.nan], variant=variant)[1]

    assert bsp.run(main, nprocs=2)[0] == (-1, -1)


@pytest.mark.filterwarnings("ignore:overflow:RuntimeWarning")
@pytest.mark.parametrize("variant", ["standard", "classic", "pipelined"])
def test_a_step_too_small_for_a_number_is_no_step(variant: str) -> None:
    """Where squares overflow and others vanish, the next ratio would divide by 0."""

    def main(proc: bsp.Process) -> Any:
        A = sparse.diags([10.0 ** np.linspace(-150, 150, 12)])
        x, info = krylov.cg(A, np.arange(12.0), np.ones(12), rtol=1e-8, variant=variant)
        overflowing = sparse.diags([np.array([np.inf, 1.0, 2.0])])
        return np.isfinite(x.compute()).all(), info, krylov.cg(overflowing, np.ones(3), variant=variant)[1]

    finite, *infos = bsp.run(main, nprocs=2)[0]
    assert finite and all(info != 0 for info in infos)


# -------------------------------------------------- systems that are not definite, or not symmetric


def unsymmetric(n: int, kind: type = float) -> ss.csr_array:
    rng = np.random.default_rng(5)
    more = ss.random_array((n, n), density=2 / n, rng=rng) * (1j if kind is complex else 1)
    return ss.csr_array(4 * ss.eye_array(n) + ss.diags_array([-1.0, -1.5], offsets=[-1, 2], shape=(n, n)) + more)


def indefinite(n: int, kind: type = float) -> ss.csr_array:
    W = definite(n, kind=kind).toarray()
    W[: n // 2] *= -1
    return ss.csr_array((W + W.conj().T) / 2)


METHODS: dict[str, tuple[Callable[..., Any], Callable[..., ss.csr_array]]] = {
    "minres": (krylov.minres, indefinite),
    "gmres": (krylov.gmres, unsymmetric),
    "bicgstab": (krylov.bicgstab, unsymmetric),
}


@pytest.mark.crossed
@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("kind", [float, complex])
@pytest.mark.parametrize("nprocs", PROCESSES)
def test_systems_that_are_not_definite_are_solved(nprocs: int, kind: type, method: str) -> None:
    """With a first x, with a preconditioner, on any deal, as a function, and of one row."""
    solve, make = METHODS[method]
    n = 53
    W, b, x0 = make(n, kind), vector(n, kind=kind), vector(n, 8)
    weights = np.linspace(0.2, 0.4, n)

    def main(proc: bsp.Process) -> list[Any]:
        A = sparse.from_scipy(W)
        ragged = sparse.from_scipy(W, bounds=(0,) * proc.nprocs + (n,))
        weight = ba.asarray(weights)
        cases: list[tuple[Any, dict[str, Any]]] = [
            (A, {}), (A, {"x0": x0}), (A, {"M": lambda r: weight * r}), (ragged, {}), (W.toarray(), {}),
            (krylov.LinearOperator(A.shape, lambda x: A @ x), {}),
        ]  # fmt: skip
        found = [solve(each, b, rtol=1e-11, **options) for each, options in cases]
        one, zero = solve(np.array([[2.0]]), [3.0], rtol=1e-11), solve(A, np.zeros(n, kind))
        assert (one[1], one[0].tolist(), zero[1], abs(zero[0]).sum().item()) == (0, [1.5], 0, 0)
        return [(x.compute(), info) for x, info in found]

    for x, info in bsp.run(main, nprocs=nprocs)[0]:
        assert info == 0
        assert residual(W, x, b) <= 5e-11
        np.testing.assert_allclose(x, np.linalg.solve(W.toarray(), b), rtol=0, atol=1e-8)


@pytest.mark.parametrize("method", METHODS)
def test_they_take_scipys_iterations(method: str) -> None:
    """The same x after the same number of steps, up to rounding; too few steps are told by their number."""
    solve, make = METHODS[method]
    W, b, steps = make(53), vector(53), 6
    wanted: list[np.ndarray] = []
    options: dict[str, Any] = {"restart": 4, "callback_type": "x"} if method == "gmres" else {}
    theirs = getattr(scipy.sparse.linalg, method)
    theirs(W, b, rtol=0.0, maxiter=steps, callback=lambda x: wanted.append(x.copy()), **options)

    def main(proc: bsp.Process) -> Any:
        seen: list[np.ndarray] = []
        A = sparse.from_scipy(W)
        _, info = solve(A, b, rtol=0.0, maxiter=steps, callback=lambda x: seen.append(x.compute()), **options)
        assert info.iterations == info == pickle.loads(pickle.dumps(info)).iterations
        return seen, info

    found, info = bsp.run(main, nprocs=3)[1]
    assert info == (4 if method == "gmres" else 1) * steps
    assert len(found) == len(wanted) == steps
    for mine, other in zip(found, wanted, strict=True):
        np.testing.assert_allclose(mine, other, rtol=0, atol=1e-10)


@pytest.mark.parametrize("nprocs", [1, 3])
def test_minres_solves_shifted_and_singular_systems(nprocs: int) -> None:
    W, b = mesh(40), vector(40)
    closed = ss.csr_array(W - ss.csr_array(([1.0, 1.0], ([0, 39], [0, 39])), shape=(40, 40)))  # its null vector: ones

    def main(proc: bsp.Process) -> Any:
        shifted = krylov.minres(sparse.from_scipy(W), b, shift=1.1, rtol=1e-11)
        singular = krylov.minres(sparse.from_scipy(closed), b, rtol=1e-9)
        again = krylov.minres(sparse.from_scipy(W), b, shifted[0], shift=1.1, rtol=1e-9)
        assert again[1] == 0 and (again[0] == shifted[0]).all()  # it was good already
        with pytest.raises(ba.ArrayError, match="M is not positive definite"):
            krylov.minres(sparse.from_scipy(W), b, M=lambda x: -x)
        return [(x.compute(), info) for x, info in (shifted, singular)]

    (shifted, first), (singular, second) = bsp.run(main, nprocs=nprocs)[0]
    assert (first, second) == (0, 0)
    assert residual(W - 1.1 * ss.eye_array(40), shifted, b) <= 1e-10
    least = b - b.mean() - closed @ singular
    assert np.linalg.norm(least) <= 1e-8 * np.linalg.norm(b)


def test_bicgstab_tells_when_it_breaks_down() -> None:
    """A rotation by a right angle makes the product orthogonal to the first residual."""

    def main(proc: bsp.Process) -> Any:
        return krylov.bicgstab(sparse.from_scipy(np.array([[0.0, 1.0], [-1.0, 0.0]])), [1.0, 0.0])[1]

    assert bsp.run(main, nprocs=2) == [-10] * 2


def test_gmres_reports_norms_and_restarts() -> None:
    W, b = unsymmetric(53), vector(53)

    def main(proc: bsp.Process) -> Any:
        A = sparse.from_scipy(W)
        norms: list[float] = []
        x, info = krylov.gmres(A, b, restart=5, rtol=1e-9, callback=norms.append)
        assert info.iterations == len(norms)
        _, few = krylov.gmres(A, b, restart=3, maxiter=1)
        with pytest.raises(ValueError, match="pr_norm or x"):
            krylov.gmres(A, b, callback_type="legacy")
        return norms, x.compute(), info, few

    norms, x, info, few = bsp.run(main, nprocs=3)[0]
    assert (info, few) == (0, 3)
    assert len(norms) > 5
    assert all(after <= before * (1 + 1e-12) for before, after in pairwise(norms))  # what is made least cannot grow
    assert abs(norms[-1] - residual(W, x, b)) <= 1e-12


@pytest.mark.parametrize("nprocs", [2, 5])
def test_their_iterations_have_the_stated_supersteps_and_words(nprocs: int) -> None:
    """One superstep for each exchange of far columns, and one for sums that depend on it; H is theirs."""
    W, b, others = mesh(12, 11), vector(132), nprocs - 1
    bounds: list[Any] = []

    def counted(method: str, **options: Any) -> list[list[int]]:
        def solve(callback: Callable[[Any], None]) -> None:
            A = sparse.from_scipy(W)
            bounds[:] = A.row_bounds
            getattr(krylov, method)(A, b, rtol=1e-12, maxiter=6, callback=callback, **options)

        return iterations(solve, nprocs)

    assert counted("minres") == [[far(W, tuple(bounds)) + others, others]] * 5
    halo = far(W, tuple(bounds))
    assert counted("bicgstab") == [[halo, others, halo + 2 * others, 3 * others]] * 5
    steps = counted("gmres", restart=6)
    assert steps[:5] == [[halo, j * others, (j + 1) * others] for j in range(2, 7)]


# ------------------------------------------------------------------- large, small and wrong numbers

SCALES: list[tuple[float, Any]] = [
    (1e-200, float), (1e200, float), (1e308, float), (1e-305, float), (1e-25, np.float32), (1e25, np.float32),
    (1e-200, complex), (1e-25, np.complex64),
]  # fmt: skip
SOLVERS_BY_NAME = ["cg", "minres", "gmres", "bicgstab"]


def banded(kind: Any = float) -> np.ndarray:
    """A small positive definite matrix."""
    return (np.diag(np.arange(1.0, 8)) + np.diag(np.full(6, 0.1), 1) + np.diag(np.full(6, 0.1), -1)).astype(kind)


@pytest.mark.parametrize("method", SOLVERS_BY_NAME)
@pytest.mark.parametrize("nprocs", [1, 2, 3, 4])
def test_norms_whose_squares_are_no_numbers_are_norms(nprocs: int, method: str) -> None:
    """x is as good as that of an ordinary b, also for callbacks, and no overflow is told."""
    W, solve = banded(), getattr(krylov, method)
    b = np.linspace(-1, 1, 7) + 0.25

    def main(proc: bsp.Process) -> None:
        for scale, kind in SCALES:
            matrix, right = W.astype(kind), (b * scale).astype(kind)
            options: list[dict[str, Any]] = [{}, {"x0": right / 2}, {"M": np.eye(7) / 3}]
            if method != "minres":
                options.append({"atol": 0.5 * scale, "rtol": 0.0})
            for more in options:
                seen: list[Any] = []
                if method == "gmres":
                    more["callback_type"] = "x"
                x, info = solve(matrix, right, callback=seen.append, **more)
                found = x.compute()
                assert info == 0
                assert np.linalg.norm(W @ (found / scale) - b) <= (0.5 if "atol" in more else 2e-5)
                assert np.array_equal(seen[-1].compute(), found)

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        bsp.run(main, nprocs=nprocs)


@pytest.mark.parametrize("method", SOLVERS_BY_NAME)
@pytest.mark.parametrize("nprocs", [1, 2, 3, 4])
def test_what_is_not_finite_is_not_good(nprocs: int, method: str, capfd: pytest.CaptureFixture[str]) -> None:
    """x is the first one, and info is not 0: infinity is at most infinity, but no solution."""
    solve, ones = getattr(krylov, method), np.ones(7)

    def main(proc: bsp.Process) -> None:
        for wrong in (np.inf, -np.inf, np.nan):
            right = ones.copy()
            right[3] = wrong
            for first in (None, 2 * ones):
                x, info = solve(banded(), right, x0=first)
                assert (info, info.iterations) == (-1, 0)
                assert np.array_equal(x.compute(), np.zeros(7) if first is None else first)
        assert solve(banded() * np.nan, ones)[1] != 0
        one = banded()
        one[3, 3] = np.nan
        found = solve(one, ones)[1]
        assert found == -1 if method in ("cg", "gmres") else found != 0

    bsp.run(main, nprocs=nprocs)
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize("nprocs", [1, 3])
def test_an_ordinary_system_has_no_superstep_more(nprocs: int) -> None:
    """b times a power of two gives x times that, exactly, and in as many supersteps if its squares are numbers."""
    W, b = mesh(6, 7), vector(42)

    def main(proc: bsp.Process) -> None:
        A = sparse.from_scipy(W)
        krylov.cg(A, b)  # the first product finds out what moves
        for method in SOLVERS_BY_NAME:
            taken, found = [], []
            for power in (0, 10, -300, 900):
                begin = proc.superstep
                x, info = getattr(krylov, method)(A, np.ldexp(b, power))
                taken.append(proc.superstep - begin)
                found.append(np.ldexp(x.compute(), -power))
                assert info == 0
            assert all(np.array_equal(each, found[0]) for each in found)
            assert taken[0] == taken[1] == taken[2]
            assert nprocs == 1 or taken[3] > taken[0]

    bsp.run(main, nprocs=nprocs)


@pytest.mark.parametrize("nprocs", [1, 2, 3, 4])
def test_minres_does_not_take_a_small_matrix_for_singular(nprocs: int) -> None:
    """Beside a b that is 1e10 times as large as A, or more: that norm(A r) is small says nothing."""
    W = banded()

    def main(proc: bsp.Process) -> None:
        for scale in (1e-20, 1e-10, 1e12):
            x, info = krylov.minres(W * scale, np.ones(7))
            assert info == 0
            assert residual(W * scale, x.compute(), np.ones(7)) <= 1e-5
        x, info = krylov.minres(W * 1e-200, np.ones(7))  # of which squares vanish
        assert info != 0 or residual(W * 1e-200, x.compute(), np.ones(7)) <= 1e-5

    bsp.run(main, nprocs=nprocs)


@pytest.mark.parametrize("nprocs", [1, 2, 3, 4])
def test_lsqr_of_large_and_small_sides(nprocs: int) -> None:
    rng = np.random.default_rng(2)
    W = ss.csr_array(rng.normal(size=(30, 12)) * (rng.random((30, 12)) < 0.5))
    b, x0 = vector(30), vector(12, 8)
    wanted = scipy.sparse.linalg.lsqr(W, b, x0=x0, damp=0.3, atol=1e-9, btol=1e-9, calc_var=True)

    def main(proc: bsp.Process) -> None:
        for scale in (1e-200, 1e-305, 1e200, 1e305):
            found = krylov.lsqr(W, b * scale, x0=x0 * scale, damp=0.3, atol=1e-9, btol=1e-9, calc_var=True)
            assert (found.istop, found.itn) == (wanted[1], wanted[2])
            np.testing.assert_allclose(found.x.compute() / scale, wanted[0], rtol=0, atol=1e-7)
            scales = np.array([scale, scale, 1.0, 1.0, scale, scale])
            np.testing.assert_allclose(np.array(found[3:9]) / scales, wanted[3:9], rtol=0.05, atol=1e-6)
            np.testing.assert_allclose(found.var.compute(), wanted[9], rtol=0.05, atol=0)  # type: ignore[union-attr]
        assert krylov.lsqr(W, np.full(30, np.inf), iter_lim=5).istop == 7

    bsp.run(main, nprocs=nprocs)


@pytest.mark.parametrize("nprocs", [1, 2, 3, 4])
def test_lsqr_of_large_and_small_matrices(nprocs: int) -> None:
    """The squares of their products vanish or overflow; x0 was taken for the solution, or x was NaN."""
    rng = np.random.default_rng(2)
    W = ss.csr_array(rng.normal(size=(30, 12)) * (rng.random((30, 12)) < 0.5))
    b, x0 = vector(30), vector(12, 8)
    wanted = scipy.sparse.linalg.lsqr(W, b, x0=x0, damp=0.3, atol=1e-9, btol=1e-9, calc_var=True)

    def main(proc: bsp.Process) -> None:
        for scale in (1e-140, 1e-200, 1e140, 1e200):
            found = krylov.lsqr(
                W * scale, b, x0=x0 / scale, damp=0.3 * scale, atol=1e-9, btol=1e-9, calc_var=abs(np.log10(scale)) < 150
            )
            assert (found.istop, found.itn) == (wanted[1], wanted[2])
            np.testing.assert_allclose(found.x.compute() * scale, wanted[0], rtol=0, atol=1e-7)
            scales = np.array([1.0, 1.0, scale, 1.0, scale, 1 / scale])
            np.testing.assert_allclose(np.array(found[3:9]) / scales, wanted[3:9], rtol=0.05, atol=1e-6)
            if found.var is not None:
                np.testing.assert_allclose(found.var.compute() * scale * scale, wanted[9], rtol=0.05, atol=0)

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        bsp.run(main, nprocs=nprocs)


@pytest.mark.parametrize("nprocs", [1, 2, 3, 4])
def test_eigenvalues_and_singular_values_of_large_and_small_matrices(nprocs: int) -> None:
    W = indefinite(24).toarray()
    values, singular = extreme(np.linalg.eigvalsh(W), 3, "LM"), np.linalg.svd(W, compute_uv=False)[:3]
    size = singular[0]

    def main(proc: bsp.Process) -> None:
        cases = [
            (1e-200, float),
            (1e200, float),
            (1e-305, float),
            (1e304, float),
            (1e-25, np.float32),
            (1e25, np.float32),
        ]
        for scale, kind in cases:
            matrix, rough = (W * scale).astype(kind), (1e-12 if kind is float else 2e-6) * size
            w, v = (each.compute() for each in krylov.eigsh(matrix, 3))
            np.testing.assert_allclose(w / scale, values, rtol=0, atol=rough)
            np.testing.assert_allclose(W @ v, v * (w / scale), rtol=0, atol=10 * rough)
            u, s, vh = (each.compute() for each in krylov.svds(matrix, 3, tol=1e-8 if kind is float else 1e-5))
            np.testing.assert_allclose(s / scale, singular, rtol=0, atol=rough)
            np.testing.assert_allclose(W @ vh.T, u * (s / scale), rtol=0, atol=(1e-7 if kind is float else 1e-4) * size)
        for first in (1e-200, 1e200):
            found = krylov.eigsh(W, 3, v0=np.full(24, first), return_eigenvectors=False).compute()
            np.testing.assert_allclose(found, values, rtol=0, atol=1e-12 * size)
        for wrong in (np.nan, np.inf):
            with pytest.raises(ValueError, match="eigsh: v0 has NaN or infinity"):
                krylov.eigsh(W, 3, v0=np.full(24, wrong))

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        bsp.run(main, nprocs=nprocs)


# ---------------------------------------------------------------------------------- preconditioners


@pytest.mark.parametrize("method", SOLVERS_BY_NAME)
@pytest.mark.parametrize("nprocs", [1, 2, 3, 4])
def test_operands_may_be_scipys_matrices_but_not_its_operators(nprocs: int, method: str) -> None:
    W, b, solve = definite(30), vector(30), getattr(krylov, method)
    M = ss.diags_array(1 / W.diagonal())

    def main(proc: bsp.Process) -> None:
        jacobi, blocks = krylov.jacobi(sparse.from_scipy(W)), krylov.block_jacobi(W, exact=True)
        for inverse in (M, ss.csr_matrix(M), M.toarray(), jacobi, blocks):
            x, info = solve(W, b, M=inverse, rtol=1e-9)
            assert info == 0
            assert residual(W, x.compute(), b) <= 1e-7
        foreign = scipy.sparse.linalg.aslinearoperator(W)
        for A, inverse, what in ((foreign, None, f"{method}: A"), (W, foreign, "M")):
            with pytest.raises(TypeError, match=rf"^{what} is scipy's LinearOperator, .* krylov.LinearOperator\(shape"):
                solve(A, b, M=inverse)
        x, info = solve(np.zeros((0, 0)), np.zeros(0))
        assert (x.shape, info) == ((0,), 0)

    bsp.run(main, nprocs=nprocs)


@pytest.mark.parametrize("kind", [float, complex, np.float32])
@pytest.mark.parametrize("nprocs", PROCESSES)
def test_block_jacobi_solves_with_own_blocks(nprocs: int, kind: Any) -> None:
    """Vectors or matrices, real or complex, rows on some processes only; the exact factors of a whole matrix solve."""
    W = unsymmetric(50, complex if kind is complex else float).astype(kind)
    x, X = vector(50), vector(50)[:, None] * np.array([1.0, 2j])
    bounds = (0, *(10 * k for k in range(nprocs - 1)), 50)  # the first of several has no row

    def main(proc: bsp.Process) -> list[Any]:
        A = sparse.from_scipy(W, bounds=bounds)
        M = krylov.block_jacobi(A, exact=True)
        rough = krylov.block_jacobi(A, drop_tol=1e-9, fill_factor=50)
        turned = krylov.block_jacobi(A.T.tocsr().T, exact=True)
        before = proc.superstep
        found = [(each @ y).persist() for each in (M, rough, turned) for y in (x, X)]
        assert proc.superstep - before <= 2 * len(found)
        return [each.compute() for each in found]

    blocks = np.zeros((50, 50), W.dtype)
    for low, high in pairwise(bounds):
        blocks[low:high, low:high] = W.toarray()[low:high, low:high]
    tolerance = 1e-4 if kind is np.float32 else 1e-7
    for k, found in enumerate(bsp.run(main, nprocs=nprocs)[0]):
        np.testing.assert_allclose(found, np.linalg.solve(blocks, X if k % 2 else x), rtol=0, atol=tolerance)


@pytest.mark.parametrize("nprocs", [1, 4])
@pytest.mark.thorough
def test_block_jacobi_saves_iterations_and_moves_nothing(nprocs: int) -> None:
    W, b = mesh(16, 15), vector(240)
    U = ss.csr_array(W + ss.diags_array([0.3, -0.4], offsets=[-1, 2], shape=(240, 240)))

    def main(proc: bsp.Process) -> list[tuple[int, int, float]]:
        counts = []
        A, B = sparse.from_scipy(W), sparse.from_scipy(U)
        exact, rough = krylov.block_jacobi(A, exact=True), krylov.block_jacobi(B)
        assert (exact @ (A @ ba.ones(240)).persist()).cost().H == 0
        for solve, operand, matrix, M in [
            (krylov.cg, A, W, exact), (krylov.minres, A, W, exact), (krylov.gmres, B, U, rough),
            (krylov.bicgstab, B, U, rough),
        ]:  # fmt: skip
            steps = []
            for each in (None, M):
                seen: list[Any] = []
                x, info = solve(operand, b, rtol=1e-8, M=each, callback=seen.append)
                assert info == 0
                assert residual(matrix, x.compute(), b) <= 1e-7
                steps.append(len(seen))
            counts.append(steps)
        return counts

    for without, weighted in bsp.run(main, nprocs=nprocs)[0]:
        assert weighted < without * 2 / 3
        if nprocs == 1:
            assert weighted <= 4


def test_a_singular_block_is_told_on_all_processes() -> None:
    def main(proc: bsp.Process) -> None:
        A = sparse.from_coo([0, 1, 2, 3], [0, 1, 3, 2], 1.0 if proc.pid == 0 else 0.0, (4, 4), bounds=(0, 2, 3, 4))
        for wrong, text in [
            (lambda: krylov.block_jacobi(A, exact=True), "block_jacobi: the block of process 1, rows 2 to 3"),
            (lambda: krylov.block_jacobi(sparse.eye(4, 5)), r"block_jacobi: A of shape \(4, 5\) is not square"),
            (lambda: krylov.jacobi(sparse.eye(4, 5)), r"^jacobi: A of shape \(4, 5\) is not square"),
            (lambda: krylov.block_jacobi(np.eye(3)), "block_jacobi: A is a ndarray; it must be sparse"),
            (lambda: sparse.LocalOperator(sparse.eye(4, 5), abs), "not square"),
            (lambda: sparse.LocalOperator(A, abs) @ np.ones(3), "do not fit"),
        ]:
            with pytest.raises((ba.ArrayError, bsp.BspError), match=text):
                wrong()

    bsp.run(main, nprocs=3)


# ------------------------------------------------------------------------------------ least squares


@pytest.mark.crossed
@pytest.mark.parametrize("kind", [float, complex])
@pytest.mark.parametrize("shape", [(70, 30), (30, 70), (40, 40)])
@pytest.mark.parametrize("nprocs", PROCESSES)
def test_lsqr_returns_what_scipys_does(nprocs: int, shape: tuple[int, int], kind: type) -> None:
    rng = np.random.default_rng(2)
    m, n = shape
    dense = rng.normal(size=shape) * (rng.random(shape) < 0.3) + np.eye(m, n)
    W = ss.csr_array(dense + (1j * dense[::-1, ::-1] if kind is complex else 0))
    b, x0 = vector(m, kind=kind), vector(n, 8)
    cases: list[dict[str, Any]] = [{}, {"damp": 0.5}, {"x0": x0, "damp": 0.3}, {"calc_var": True, "damp": 0.1}]

    def main(proc: bsp.Process) -> list[Any]:
        A = sparse.from_scipy(W)
        found = [krylov.lsqr(A, b, atol=1e-10, btol=1e-10, **each) for each in cases]
        found.append(krylov.lsqr(W.toarray(), b, atol=1e-10, btol=1e-10))
        return [(each.x.compute(), each, None if each.var is None else each.var.compute()) for each in found]

    for (x, found, var), options in zip(bsp.run(main, nprocs=nprocs)[0], [*cases, {}], strict=True):
        wanted = scipy.sparse.linalg.lsqr(W, b, atol=1e-10, btol=1e-10, **options)
        np.testing.assert_allclose(x, wanted[0], rtol=0, atol=1e-7)
        assert (found.istop, abs(found.itn - wanted[2]) <= 2) == (wanted[1], True)
        np.testing.assert_allclose(found[3:7], wanted[3:7], rtol=0.05, atol=1e-6)
        assert abs(found.xnorm - np.linalg.norm(x - options.get("x0", 0))) <= 1e-10
        assert abs(found.r1norm - np.linalg.norm(b - W @ x)) <= 1e-8
        if var is not None:  # scipy's, of complex systems, are sums of squares of complex numbers
            exact = np.linalg.inv((W.conj().T @ W).toarray() + 0.1**2 * np.eye(n)).diagonal().real
            assert (var > 0).all() and (var <= exact * 1.2).all()
            if kind is float:
                np.testing.assert_allclose(var, wanted[9], rtol=0.05, atol=1e-6)


@pytest.mark.parametrize("method", SOLVERS_BY_NAME)
@pytest.mark.parametrize("nprocs", [1, 3])
def test_a_side_of_zeros_is_solved_by_zeros_whatever_x0(nprocs: int, method: str) -> None:
    def main(proc: bsp.Process) -> None:
        x, info = getattr(krylov, method)(definite(30), np.zeros(30), vector(30))
        assert (info, info.iterations, np.abs(x.compute()).max()) == (0, 0, 0.0)

    bsp.run(main, nprocs=nprocs)


def test_lsqr_of_a_side_of_zeros_goes_on_until_x_is_good() -> None:
    W = definite(30).toarray()

    def main(proc: bsp.Process) -> Any:
        found = krylov.lsqr(W, np.zeros(30), x0=vector(30), iter_lim=300)
        return found.istop, float(np.linalg.norm(W @ found.x.compute())) / found.anorm

    istop, left = bsp.run(main, nprocs=2)[0]
    assert istop in (1, 2)
    assert left <= 1e-4


def test_lsqr_stops_for_scipys_reasons() -> None:
    W = ss.csr_array(np.vander(np.linspace(0, 1, 30), 12))
    b = vector(30)

    def main(proc: bsp.Process) -> Any:
        A = sparse.from_scipy(W)
        capped = krylov.lsqr(A, b, iter_lim=3)
        conditioned = krylov.lsqr(A, b, atol=0, btol=0, conlim=100.0)
        none = krylov.lsqr(A, np.zeros(30))
        orthogonal = krylov.lsqr(sparse.from_scipy(np.array([[1.0], [0.0]])), [0.0, 1.0])
        for wrong in (lambda: krylov.lsqr(A, np.ones(12)), lambda: krylov.lsqr(A, b, x0=b)):
            with pytest.raises(ba.ArrayError, match="lsqr: "):
                wrong()
        return [each.istop for each in (capped, conditioned, none, orthogonal)], capped.itn

    assert bsp.run(main, nprocs=3)[0] == ([7, 3, 0, 0], 3)


@pytest.mark.parametrize("nprocs", [2, 5])
def test_lsqr_has_two_supersteps_an_iteration(nprocs: int) -> None:
    W, b = mesh(12, 11), vector(132)
    ends: list[int] = []
    bounds: list[Any] = []

    def main(proc: bsp.Process) -> None:
        A = sparse.from_scipy(W)
        bounds[:] = A.row_bounds
        for limit in (4, 7):
            krylov.lsqr(A, b, iter_lim=limit, atol=0, btol=0)
            ends.append(proc.superstep) if proc.pid == 0 else None

    rows = bsp.predict(main, nprocs=nprocs, machine=bsp.Machine(p=nprocs)).per_superstep
    steps = [max(row["h_sent"], row["h_received"]) for row in rows]
    halo, others = far(W, tuple(bounds)), nprocs - 1
    assert steps[-6:] == [halo + 3 * others, halo + others] * 3
    assert ends[1] - ends[0] == len(rows) - ends[0]


# ----------------------------------------------------------------- eigenvalues and singular values


def extreme(values: np.ndarray, k: int, which: str) -> np.ndarray:
    order = {"LM": -abs(values), "SM": abs(values), "LA": -values, "SA": values}[which]
    return np.sort(values[np.argsort(order, kind="stable")[:k]])


@pytest.mark.thorough
@pytest.mark.crossed
@pytest.mark.parametrize("which", ["LM", "SM", "LA", "SA"])
@pytest.mark.parametrize("kind", [float, complex])
@pytest.mark.parametrize("nprocs", PROCESSES)
def test_eigsh_finds_eigenvalues_at_the_ends(nprocs: int, kind: type, which: str) -> None:
    """With restarts; of rows on some processes only; from a first vector; of a matrix with equal ones."""
    n, k = 67, 4
    W = indefinite(n, kind)

    def main(proc: bsp.Process) -> Any:
        A = sparse.from_scipy(W, bounds=(0,) + (n,) * proc.nprocs)
        w, v = krylov.eigsh(A, k, which=which)
        again = krylov.eigsh(W.toarray(), k, which=which, v0=np.arange(1.0, n + 1), ncv=11, return_eigenvectors=False)
        equal = krylov.eigsh(sparse.diags([[3.0] * 4 + [-2.0] * 30]), k, which=which, return_eigenvectors=False)
        return [each.compute() for each in (w, v, again, equal)]

    w, v, again, equal = bsp.run(main, nprocs=nprocs)[0]
    wanted = extreme(np.linalg.eigvalsh(W.toarray()), k, which)
    scale = np.linalg.norm(W.toarray(), 2)
    np.testing.assert_allclose(w, wanted, rtol=0, atol=1e-12 * scale)
    np.testing.assert_allclose(again, wanted, rtol=0, atol=1e-12 * scale)
    np.testing.assert_allclose(equal, extreme(np.array([3.0] * 4 + [-2.0] * 30), k, which), rtol=0, atol=1e-13)
    np.testing.assert_allclose(W @ v, v * w, rtol=0, atol=1e-11 * scale)
    np.testing.assert_allclose(v.conj().T @ v, np.eye(k), rtol=0, atol=1e-12)


@given(st.data())
@examples(12)
def test_eigsh_of_small_matrices(data: st.DataObject) -> None:
    """All eigenvalues, one, of fewer rows than processes, of zeros."""
    nprocs, n = data.draw(st.integers(1, 4)), data.draw(st.integers(1, 8))
    k = data.draw(st.integers(1, n))
    values = np.array(data.draw(st.lists(st.integers(-3, 3), min_size=n, max_size=n)), float)
    q = np.linalg.qr(np.random.default_rng(n).normal(size=(n, n)))[0]
    W = (q * values) @ q.T

    def main(proc: bsp.Process) -> Any:
        w, v = krylov.eigsh(W, k, which="LA")
        return w.compute(), v.compute()

    w, v = bsp.run(main, nprocs=nprocs)[0]
    np.testing.assert_allclose(w, np.sort(values)[n - k :], rtol=0, atol=1e-12)
    np.testing.assert_allclose(W @ v, v * w, rtol=0, atol=1e-12)
    np.testing.assert_allclose(v.T @ v, np.eye(k), rtol=0, atol=1e-12)


@pytest.mark.crossed
@pytest.mark.parametrize("kind", [float, complex])
@pytest.mark.parametrize("shape", [(90, 40), (40, 90), (9, 9)])
@pytest.mark.parametrize("nprocs", PROCESSES)
def test_svds_finds_the_largest_singular_values(nprocs: int, shape: tuple[int, int], kind: type) -> None:
    rng = np.random.default_rng(4)
    dense = rng.normal(size=shape) * (rng.random(shape) < 0.2) + (1j * rng.normal(size=shape) if kind is complex else 0)
    k = 5

    def main(proc: bsp.Process) -> Any:
        found = krylov.svds(sparse.from_scipy(ss.csr_array(dense)), k)
        turned = krylov.svds(sparse.from_scipy(ss.csr_array(dense.T)).T, k, return_singular_vectors=False)
        whole = krylov.svds(dense, k, ncv=k + 3, return_singular_vectors=False)
        return [each.compute() for each in (*found, turned, whole)]

    u, s, vh, turned, whole = bsp.run(main, nprocs=nprocs)[0]
    wanted = np.linalg.svd(dense, compute_uv=False)[:k]
    for found in (s, turned, whole):
        np.testing.assert_allclose(found, wanted, rtol=0, atol=1e-10 * wanted[0])
    np.testing.assert_allclose(dense @ vh.conj().T, u * s, rtol=0, atol=1e-7 * wanted[0])
    np.testing.assert_allclose(u.conj().T @ u, np.eye(k), rtol=0, atol=1e-12)
    np.testing.assert_allclose(vh @ vh.conj().T, np.eye(k), rtol=0, atol=1e-12)


@pytest.mark.parametrize("nprocs", PROCESSES)
@pytest.mark.parametrize("kind", ["triangle", "random", "skew", "complex symmetric"])
def test_eigsh_refuses_what_is_not_symmetric(nprocs: int, kind: str) -> None:
    k = np.random.default_rng(0).standard_normal((60, 60))
    dense = {
        "triangle": np.triu(np.ones((9, 9))),
        "random": k,
        "skew": k - k.T,
        "complex symmetric": (k + k.T) * (1 + 1j),
    }

    def main(proc: bsp.Process) -> None:
        with pytest.raises(bsp.arrays.ArrayError, match=r"eigsh: A, of shape .* is not symmetric"):
            krylov.eigsh(sparse.from_scipy(ss.csr_array(dense[kind])), 2)

    bsp.run(main, nprocs=nprocs)


def test_bicgstab_of_a_large_matrix_and_side_does_not_overflow() -> None:
    matrix, scale = mesh(8, 8), 1e40

    def main(proc: bsp.Process) -> None:
        x, info = krylov.bicgstab(sparse.from_scipy(matrix * scale), np.full(64, 1e60), rtol=1e-8)
        error = np.linalg.norm(matrix @ (x.compute() * (scale / 1e60)) - 1)
        assert info == 0
        assert error <= 1e-6

    bsp.run(main, nprocs=1)


def test_jacobi_names_what_to_do_with_a_matrix_dealt_by_blocks() -> None:
    def main(proc: bsp.Process) -> None:
        a = sparse.from_scipy(mesh(6, 5))
        deal = partition.of_graph(a, proc.nprocs)
        b = deal.grid(a)
        with pytest.raises(
            bsp.arrays.ArrayError, match=r"jacobi: .*dealt by blocks.*partition.vector\(A.diagonal\(\)\)"
        ):
            krylov.jacobi(b)
        d = deal.vector(a.diagonal())
        assert krylov.cg(b, deal.vector(np.ones(30)), M=lambda x: x / d)[1] == 0

    bsp.run(main, nprocs=4)


def test_steps_of_eigsh_and_rounds_of_svds_have_the_stated_supersteps() -> None:
    W = mesh(12, 11)

    def main(proc: bsp.Process) -> Any:
        A = sparse.from_scipy(W)
        steps: list[int] = []

        def counted(x: Any) -> Any:
            steps.append(proc.superstep)
            return A @ x

        operand = krylov.LinearOperator((132, 132), counted, lambda x: A.T @ x)
        krylov.eigsh(operand, 3, ncv=12)
        grown, steps[:] = np.diff(steps).tolist(), []
        krylov.svds(operand, 3)
        return grown, np.diff(steps).tolist()

    grown, rounds = bsp.run(main, nprocs=3)[0]
    assert set(grown[2:12]) == {3}
    assert set(grown[2:]) <= {3, 4}  # a step after a restart has its superstep before it
    assert len(rounds) > 4
    assert set(rounds[2:]) == {5}


@pytest.mark.parametrize("nprocs", [1, 3])
def test_mistakes_of_eigenvalues_are_told(nprocs: int) -> None:
    def main(proc: bsp.Process) -> None:
        A = sparse.from_scipy(mesh(40))
        for wrong, text in [
            (lambda: krylov.eigsh(A, 41), "41 eigenvalues of a matrix of shape"),
            (lambda: krylov.eigsh(A, which="BE"), "one of LM, SM, LA, SA"),
            (lambda: krylov.eigsh(A, 4, ncv=4), "5 or more"),
            (lambda: krylov.eigsh(A, v0=np.zeros(40)), "v0 is zero"),
            (lambda: krylov.eigsh(A, v0=np.ones(4)), r"v0 of shape \(4,\)"),
            (lambda: krylov.eigsh(sparse.eye(4, 5)), "not square"),
            (lambda: krylov.svds(A, 0), "0 singular values"),
        ]:
            with pytest.raises((ba.ArrayError, ValueError), match=text):
                wrong()
        for call in (lambda: krylov.eigsh(A, 2, ncv=4, maxiter=2), lambda: krylov.svds(A, 2, ncv=2, maxiter=2)):
            with pytest.raises(krylov.NoConvergence, match=r"2 .* are not good") as caught:
                call()
            assert 2 <= len(caught.value.values) <= 3

    bsp.run(main, nprocs=nprocs)


# ---------------------------------------------------------------------- NAS Parallel Benchmarks, CG


@pytest.mark.parametrize(
    ("name", "nprocs"),
    [("S", 1), ("S", 3), ("W", 2), pytest.param("A", 2, marks=pytest.mark.thorough)],
)
def test_npb_finds_the_published_eigenvalue(name: str, nprocs: int) -> None:
    def main(proc: bsp.Process) -> npb.NPBResult:
        return npb.run(name)

    zeta, error, verified = bsp.run(main, nprocs=nprocs)[0]
    assert verified
    assert abs(zeta - npb.CLASSES[name].zeta) <= 1e-10
    assert error < 1e-12


def test_an_outer_iteration_of_npb_has_the_stated_supersteps() -> None:
    """The first vector takes three."""

    def main(proc: bsp.Process) -> int:
        a = npb.matrix("S")
        before = proc.superstep
        npb.run("S", a)
        return proc.superstep - before

    assert bsp.run(main, nprocs=3) == [npb.CLASSES["S"].iterations * 56 + 3] * 3


# --------------------------------------------------------------------------------- killed elements

SOLVERS = """
import hashlib, time
import numpy as np
import bsp
import bsp.arrays as ba
from bsp.algorithms import krylov
from bsp.arrays import sparse

proc = bsp.process()
n = 400
A = sparse.diags([-1.0, -1.0, 4.0, -1.0, -1.0], offsets=[-20, -1, 0, 1, 20], shape=(n, n))
b = np.random.default_rng(3).normal(size=n)

def tell(name, x, info):
    print(proc.pid, name, info, hashlib.sha256(x.compute().tobytes()).hexdigest()[:16])

slow = lambda _: time.sleep(0.01 if proc.pid == 0 else 0)
tell("classic", *krylov.cg(A, b, variant="classic", callback=slow))
tell("standard", *krylov.cg(A, b, variant="standard", callback=slow))
tell("pipelined", *krylov.cg(A, b, variant="pipelined", M=krylov.jacobi(A), callback=slow))
"""


MORE_SOLVERS = """
M = krylov.jacobi(A)
tell("minres", *krylov.minres(A, b, M=M))
tell("bicgstab", *krylov.bicgstab(A, b, M=M))
tell("gmres", *krylov.gmres(A, b, M=M, restart=6))
tell("lsqr", *krylov.lsqr(A, b, iter_lim=20, calc_var=True)[:2])
tell("eigsh", krylov.eigsh(A, 2)[1], 0)
tell("svds", krylov.svds(A, 2, tol=1e-3)[0], 0)
"""


def job(*words: object) -> subprocess.CompletedProcess[str]:
    bsprun = str(Path(sys.executable).with_name("bsprun"))
    return subprocess.run([bsprun, *map(str, words)], capture_output=True, text=True, timeout=300)


@pytest.mark.jobs
@pytest.mark.thorough
def test_a_killed_element_changes_nothing(tmp_path: Path) -> None:
    """Every method's loop is one of rounds: a newcomer takes a sibling's state at a head and goes on."""
    path = tmp_path / "solvers.py"
    path.write_text(SOLVERS)
    quiet = job("-p", 4, "-n", 1, path)
    assert (quiet.returncode, quiet.stderr) == (0, "")
    faults, log = "kill:element=1,superstep=40;kill:worker=2,superstep=75", tmp_path / "events.jsonl"
    killed = job("-p", 4, "-n", 2, "--clones", 2, "--standby", 1, "--inject", faults, "--events", log, path)
    assert (killed.returncode, killed.stdout) == (0, quiet.stdout), killed.stderr
    assert {json.loads(line)["kind"] for line in log.read_text().splitlines()} >= {"died", "promoted", "relaunched"}


@pytest.mark.jobs
@pytest.mark.thorough
def test_states_of_all_methods_are_all_that_a_round_needs(tmp_path: Path) -> None:
    """Processes that are made again at heads of rounds go on with the same bytes."""
    path = tmp_path / "solvers.py"
    path.write_text(SOLVERS.replace("0.01", "0") + MORE_SOLVERS)
    rehearsed = job("-p", 3, "-n", 1, "--check", path)
    assert rehearsed.returncode == 0, rehearsed.stderr
    assert "processes made again at the heads of rounds" in rehearsed.stderr
