"""Comprehensions: NumPy's values for every p, plans as good as those of `@`, and errors that show the place."""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from thinning import examples

import bsp
import bsp.arrays as ba
from bsp.arrays.comprehensions.compiler import _compiled
from bsp.arrays.errors import ComprehensionError
from bsp.arrays.expressions.graph import capture
from bsp.arrays.kernels.programs import PIECE

PROCESSES = (1, 2, 3, 5, 8)
RNG = np.random.default_rng(11)
A, B, C = RNG.normal(size=(13, 7)), RNG.normal(size=(7, 11)), RNG.normal(size=(11, 13))
S, X = RNG.normal(size=(9, 9)), RNG.normal(size=(5, 6, 7))
U, V = RNG.normal(size=(6, 4)), RNG.normal(size=(7, 4))
x, y = RNG.normal(size=7), RNG.normal(size=13)
M = RNG.integers(-4, 5, size=(13, 7))
P, Q = RNG.random((13, 7)) < 0.3, RNG.random((7, 11)) < 0.3
T = RNG.normal(size=(13, 7)).astype(np.float32)
V = RNG.integers(-99, 100, (13, 7)).astype(np.int8)

CASES: list[tuple[str, dict[str, Any], Any]] = [
    # products
    ("C[i,j] = sum(A[i,k] * B[k,j])", {"A": A, "B": B}, A @ B),
    ("C[j,i] = sum(A[i,k] * B[k,j])", {"A": A, "B": B}, (A @ B).T),
    ("y[i] = sum(A[i,k] * x[k])", {"A": A, "x": x}, A @ x),
    ("y[k] = sum(y[i] * A[i,k])", {"A": A, "y": y}, y @ A),
    ("G[j,k] = sum(A[i,j] * A[i,k])", {"A": A}, A.T @ A),
    ("s = sum(x[i] * x[i])", {"x": x}, x @ x),
    ("O[i,j] = y[i] * x[j]", {"x": x, "y": y}, np.outer(y, x)),
    ("D[i,l] = sum(A[i,j] * B[j,k] * C[k,l])", {"A": A, "B": B, "C": C}, A @ B @ C),
    ("t = sum(A[i,j] * B[j,k] * C[k,i])", {"A": A, "B": B, "C": C}, np.trace(A @ B @ C)),
    ("M[k,f] = sum(X[i,j,k] * U[j,f] * W[i,f])", {"X": X, "U": U, "W": U[:5]}, np.einsum("ijk,jf,if->kf", X, U, U[:5])),
    ("C[i,j] = alpha * sum(A[i,k] * B[k,j]) + beta * D[i,j]", {"A": A, "B": B, "D": A @ B, "alpha": 2.0, "beta": -0.5},
     1.5 * A @ B),
    ("y[i] = sum(-2 * d[i] * A[i,k] * x[k] / n)", {"A": A, "x": x, "d": y, "n": 7}, -2 / 7 * y * (A @ x)),
    ("y[i] = sum(A[i,k] / x[k] * B[k,j])", {"A": A, "x": x, "B": B}, (A / x) @ B.sum(1)),
    ("y[i] = sum(exp(A[i,k]) * x[k])", {"A": A, "x": x}, np.exp(A) @ x),
    ("C[i,j] = mean(A[i,k] * B[k,j])", {"A": A, "B": B}, A @ B / 7),
    ("N[i,j] = sum(P[i,k] * Q[k,j])", {"P": P, "Q": Q}, P.astype(int) @ Q.astype(int)),
    ("R[i,j] = any(P[i,k] & Q[k,j])", {"P": P, "Q": Q}, P @ Q),
    ("N[i,j] = sum(M[i,k] * M[j,k])", {"M": M.astype(np.int8)}, M @ M.T),
    ("n[i] = sum(100 * V[i,k])", {"V": V}, 100 * V.sum(1)),  # in the dtype of the sum, not in 8 bits
    ("n = prod(V[i,0] * c)", {"V": V, "c": 99}, (99 * V[:, 0].astype(int)).prod()),
    ("n[i] = mean(-V[i,k] * 100)", {"V": V}, -100 * V.mean(1)),
    ("n[i] = std(100 * V[i,k])", {"V": V}, 100 * V.std(1)),
    ("n[i] = var(V[i,k] * V[i,0])", {"V": V}, (V * V[:, :1].astype(float)).var(1)),
    ("n[i] = sum[j](V[i,0] * V[i,1]) for j in 0:4", {"V": V}, 4 * V[:, 0].astype(int) * V[:, 1]),
    ("M[i,j] = sum(y[j] * A[i,k])", {"A": A, "y": y}, np.outer(A.sum(1), y)),
    # other aggregates
    ("D[i,j] = min(A[i,k] + B[k,j])", {"A": A, "B": B}, (A[:, :, None] + B).min(1)),
    ("D[i,j] = max[k](minimum(A[i,k], B[k,j]))", {"A": A, "B": B}, np.minimum(A[:, :, None], B).max(1)),
    ("n[i] = sqrt(sum(A[i,j]**2))", {"A": A}, np.linalg.norm(A, axis=1)),
    ("p = prod(x[i])", {"x": x}, x.prod()),
    ("r[i] = any(A[i,j] > 2)", {"A": A}, (A > 2).any(1)),
    ("r[i] = all(-3 < A[i,j] < 1.5)", {"A": A}, np.all(np.abs(A + 0.75) < 2.25, axis=1)),
    ("m[j] = mean(A[i,j])", {"A": A}, A.mean(0)),
    ("m[j] = std(A[i,j])", {"A": A}, A.std(0)),
    ("Z[i,j] = (A[i,j] - mean(A[k,j])) / std(A[k,j])", {"A": A}, (A - A.mean(0)) / A.std(0)),
    ("F[i,j] = exp(A[i,j] - max(A[i,k])) / sum[l](exp(A[i,l] - max(A[i,k])))", {"A": A},
     np.exp(A) / np.exp(A).sum(1, keepdims=True)),
    ("x[i] = sum[j](A[i,j] * max[k](B[j,k]))", {"A": A, "B": B}, A @ B.max(1)),
    ("x[i] = sum(A[i,j] * max(B[j,k]))", {"A": A, "B": B}, A @ B.max(1)),
    ("d[i,j] = sqrt(sum((A[i,k] - A[j,k])**2))", {"A": A}, np.linalg.norm(A[:, None] - A, axis=-1)),
    ("s = sum(A[i,k]) - sum(B[k,j])", {"A": A, "B": B}, A.sum() - B.sum()),  # each k is its aggregate's own
    ("s = sum[k](2.5) for k in 0:n", {"n": 4}, 10.0),
    # views
    ("B[i,j] = A[j,i]", {"A": A}, A.T),
    ("Y[k,i,j] = X[i,j,k]", {"X": X}, X.transpose(2, 0, 1)),
    ("d[i] = S[i,i]", {"S": S}, np.diagonal(S)),
    ("t = sum(S[i,i])", {"S": S}, np.trace(S)),
    ("D[i,j] = A[i+1, j] - A[i, j] for i in 0:12", {"A": A}, np.diff(A, axis=0)),
    ("L[i] = x[i-1] - 2*x[i] + x[i+1] for i in 1:n-1", {"x": x, "n": 7}, np.diff(x, 2)),
    ("R[i] = x[n-1-i] for i in 0:n", {"x": x, "n": 7}, x[::-1]),
    ("R[i] = x[-1-i] for i in 0:n", {"x": x, "n": np.int64(7)}, x[::-1]),
    ("R[i] = x[i] for i in 6:-1:-2", {"x": x}, x[6::-2]),
    ("E[i,j] = A[2*i+1, 3*j] for i in 0:6, j in 0:3", {"A": A}, A[1:13:2, ::3]),
    ("E[i,j] = A[2*i+1, 3*j] for i in 0:6 for j in 0:3", {"A": A}, A[1:13:2, ::3]),
    ("f[i] = A[i, 0] + A[i, -1]", {"A": A}, A[:, 0] + A[:, -1]),
    ("s = A[2, 3]", {"A": A}, A[2, 3]),
    ("c[i] = sum(A[i,k]) for k in 1:n//2", {"A": A, "n": 9}, A[:, 1:4].sum(1)),
    ("n[i] = A[i,0] for i in 4:4", {"A": A}, A[4:4, 0]),
    ("B[i,j] = A[i,j]", {"A": A}, A),
    # values of indices, numbers, functions
    ("E[i,j] = where(i == j, 1.0, 0.0) for i in 0:n, j in 0:n", {"n": 6}, np.eye(6)),
    ("E[i,j] = 1.0 if i <= j else 0.0 for i in 0:4, j in 2:9:3", {},
     (np.arange(4)[:, None] <= [2, 5, 8]).astype(float)),
    ("K[i,j] = 3 for i in 0:2, j in 0:3", {}, np.full((2, 3), 3)),
    ("b[i] = x[i] * 2**70 / 2**69", {"x": x}, 2 * x),
    ("s = 2 * alpha + 1", {"alpha": 1.5}, np.float64(4.0)),
    ("m = sum(i * x[i]) / sum(x[i])", {"x": x}, (np.arange(7) * x).sum() / x.sum()),
    ("c[i] = cos(2*pi*i/n) for i in 0:n", {"n": 8}, np.cos(2 * np.pi * np.arange(8) / 8)),
    ("B[i,j] = clip(A[i,j], -1, 1) + round(x[j], 2) + maximum(A[i,j], 0)", {"A": A, "x": x},
     np.clip(A, -1, 1) + np.round(x, 2) + np.maximum(A, 0)),
    ("B[i,j] = nan_to_num(inf if A[i,j] > 0 else nan, nan=7) / 1e308", {"A": A},
     np.where(A > 0, np.finfo(float).max, 7) / 1e308),
    ("B[i,j] = clip(A[i,j], min=0, max=top)", {"A": A, "top": 0.5}, np.clip(A, 0, 0.5)),
    ("B[i,j] = M[i,j] // 2 + M[i,j] % 3 ^ M[i,j] & 1 | 4", {"M": M}, M // 2 + M % 3 ^ M & 1 | 4),
    ("B[i,j] = int64(A[i,j]) << 1", {"A": A}, A.astype(np.int64) << 1),
    ("B[i,j] = ~(A[i,j] < 0) & (A[i,j] != x[j])", {"A": A, "x": x}, (A >= 0) & (x != A)),
    ("B[i,j] = T[i,j] * 2 / alpha - 1", {"T": T, "alpha": 3.0}, T * 2 / 3.0 - 1),
    ("B[i,j] = T[i,j] * alpha", {"T": T, "alpha": np.float64(3)}, T * np.float64(3)),
    ("n[i] = sum(T[i,j]**2)**0.5", {"T": T}, (T**2).sum(1) ** 0.5),
    ("Y[i,\n  j] = A[i,j]   # the first\n   + x[j]  # and the second", {"A": A, "x": x}, A + x),
]  # fmt: skip


def close(found: Any, expected: Any, text: str) -> None:
    expected = np.asarray(expected)
    assert (found.shape, found.dtype) == (expected.shape, expected.dtype), text
    atol = 1e-5 if expected.dtype == np.float32 else 1e-12
    np.testing.assert_allclose(found, expected, rtol=0, atol=atol * 20, err_msg=text)


@pytest.mark.parametrize("p", PROCESSES)
def test_comprehensions_give_numpys_values_shapes_and_dtypes(p: int) -> None:
    def main(proc: bsp.Process) -> None:
        for k, (text, operands, expected) in enumerate(CASES):
            given = {
                name: ba.asarray(value, grid=(2, 3, 1)[: value.ndim] if (k + proc.nprocs) % 2 else None)
                if isinstance(value, np.ndarray) and value.ndim and k % 3
                else value
                for name, value in operands.items()
            }
            close(ba.comprehension(text, **given).compute(), expected, text)

    bsp.run(main, nprocs=p)


@pytest.mark.parametrize("p", [1, 3, 8])
def test_empty_and_one_element_operands(p: int) -> None:
    def main(proc: bsp.Process) -> None:
        for m, k, n in itertools.product((0, 1, 2), repeat=3):
            a, b = np.full((m, k), 2.0), np.full((k, n), 3.0)
            for text, expected in (
                ("C[i,j] = sum(A[i,k] * B[k,j])", a @ b),
                ("C[i,j] = sum(A[i,k] + B[k,j])", (a[:, :, None] + b).sum(1)),
                ("C[i,j] = prod(-A[i,k] * B[k,j])", (-a[:, :, None] * b).prod(1)),
                ("C[i,k] = A[i,k] * sum(B[k,j])", a * b.sum(1)),
            ):
                close(ba.comprehension(text, A=a, B=b).compute(), expected, text)

    bsp.run(main, nprocs=p)


@pytest.mark.parametrize("p", [1, 3])
def test_durations_are_added_with_weights(p: int) -> None:
    spans, weights = np.array([1, 2, 4], "m8[h]"), np.array([3, 1, 2])

    def main(proc: bsp.Process) -> None:
        for text, expected in (
            ("s = sum(t[i] * w[i])", (spans * weights).sum()),
            ("s = mean(t[i] * w[i])", (spans * weights).mean()),
            ("s[j] = sum(t[i] * w[j])", spans.sum() * weights),
        ):
            found = ba.comprehension(text, t=ba.asarray(spans), w=weights).compute()
            assert found.dtype == expected.dtype
            assert np.array_equal(found, expected), text

    bsp.run(main, nprocs=p)


@pytest.mark.parametrize("p", PROCESSES)
def test_min_plus_squaring_finds_all_shortest_paths(p: int) -> None:
    n = 12
    rng = np.random.default_rng(3)
    lengths = np.where(rng.random((n, n)) < 0.25, rng.integers(1, 9, (n, n)), np.inf)
    np.fill_diagonal(lengths, 0)
    shortest = lengths.copy()
    for k in range(n):  # Floyd and Warshall
        shortest = np.minimum(shortest, shortest[:, k, None] + shortest[k])

    def main(proc: bsp.Process) -> None:
        d = ba.asarray(lengths, grid=(2, 2))
        for _ in range(4):
            d = ba.comprehension("D[i,j] = min(D[i,k] + D[k,j])", D=d).persist()
        np.testing.assert_array_equal(d.compute(), shortest)

    bsp.run(main, nprocs=p)


# ------------------------------------------------------------------------------------- plans

SAME_PLANS: list[tuple[str, Callable[..., Any]]] = [
    ("C[i,j] = sum(A[i,k] * B[k,j])", lambda a, b: a @ b),
    ("C[i,j] = sum(B[k,j] * A[i,k])", lambda a, b: ba.einsum("kj,ik->ij", b, a)),
    ("C[j,k] = sum(A[i,j] * A[i,k])", lambda a, b: ba.einsum("ij,ik->jk", a, a)),
    ("C[i,j] = sum(A[i,k] * B[k,l] * A[j,l])", lambda a, b: ba.einsum("ik,kl,jl->ij", a, b, a)),
    ("C[i,j] = sum(2.0 * A[i,k] * B[k,j])", lambda a, b: (a @ b) * 2.0),
    ("C[i] = sum(A[i,j])", lambda a, b: ba.sum(a, axis=1)),
    ("C[i,j] = sqrt(A[i,j]) + B[i,j] * 3", lambda a, b: ba.sqrt(a) + b * 3),
    ("C[i,j] = A[i,j] - max(A[i,k])", lambda a, b: a - ba.max(a, axis=1, keepdims=True)),
]


@pytest.mark.parametrize("text, function", SAME_PLANS)
def test_a_comprehension_plans_as_the_functions_would(text: str, function: Callable[..., Any]) -> None:
    def main(proc: bsp.Process) -> None:
        a, b = (ba.ones((160, 160), grid=(2, 3), process_grid=(2, 3)) for _ in range(2))
        operands = {name: array for name, array in (("A", a), ("B", b)) if f"{name}[" in text}
        found, wanted = ba.comprehension(text, **operands), function(a, b)
        assert found.explain() == wanted.explain()
        assert found.plan().words == wanted.plan().words

    bsp.run(main, nprocs=6)


def test_sum_of_a_product_is_the_very_graph_of_matmul() -> None:
    def main(proc: bsp.Process) -> None:
        a, b = ba.ones((30, 20), grid=(2, 2)), ba.ones((20, 40), grid=(2, 2))
        found = ba.comprehension("C[i,j] = sum(A[i,k] * B[k,j])", A=a, B=b)
        assert capture([found._node]).key == capture([(a @ b)._node]).key

    bsp.run(main, nprocs=4)


@pytest.mark.parametrize("p", [4, 8])
def test_min_plus_moves_the_words_of_matmul_and_keeps_no_intermediate(p: int) -> None:
    """Khan and Fegaras, section 6: a group-by-join of any semiring goes to a grid of processes."""
    n = 256

    def main(proc: bsp.Process) -> None:
        a = ba.ones((n, n))
        step, product = ba.comprehension("D[i,j] = min(A[i,k] + A[k,j])", A=a).plan(), (a @ a).plan()
        assert (step.words, step.boundaries) == (product.words, product.boundaries)
        assert step.peak_bytes < product.peak_bytes + 40 * PIECE < 8 * n**3 / p / 2

    bsp.run(main, nprocs=p)


def test_views_and_cell_wise_joins_of_equal_layouts_move_nothing() -> None:
    def main(proc: bsp.Process) -> None:
        a, b = ba.ones((300, 200)), ba.ones((300, 200))
        assert ba.comprehension("C[i,j] = A[i,j] * 2 + B[i,j]", A=a, B=b).plan().words == 0
        assert ba.comprehension("C[j,i] = A[i,j]", A=a).plan().words == 0
        assert ba.comprehension("C[i,j] = A[i,j] + i - j", A=a).plan().words == 0

    bsp.run(main, nprocs=6)


def test_a_text_is_compiled_once_for_shapes_dtypes_and_integers() -> None:
    def main(proc: bsp.Process) -> None:
        text = "B[i,j] = A[i,j] * alpha + n for i in 0:n  # compiled once"

        def compiled() -> int:
            return sum(key[0] == text for key in _compiled)

        for alpha in (1.0, 2.0, 3.5):
            found = ba.comprehension(text, A=A, alpha=alpha, n=5).compute()
            np.testing.assert_array_equal(found, A[:5] * alpha + 5)
        assert compiled() == 1
        np.testing.assert_array_equal(ba.comprehension(text, A=A, alpha=1.0, n=6).compute(), A[:6] + 6)
        np.testing.assert_array_equal(ba.comprehension(text, A=T, alpha=1.0, n=6).compute(), T[:6] + 6)
        assert compiled() == 3

    bsp.run(main, nprocs=1)


def test_a_compiled_text_takes_the_numbers_of_each_call() -> None:
    texts = {
        "B[i] = x[i]**alpha": lambda x, alpha: x**alpha,
        "B[i] = clip(x[i], -alpha, alpha*2)": lambda x, alpha: np.clip(x, -alpha, alpha * 2),
        "B[i] = where(x[i] > alpha, alpha, sqrt(alpha))": lambda x, alpha: np.where(x > alpha, alpha, np.sqrt(alpha)),
        "B[i] = sum(alpha * x[j] * x[i] / (1 + alpha))": lambda x, alpha: alpha / (1 + alpha) * x.sum() * x,
    }

    def main(proc: bsp.Process) -> None:
        positive = np.abs(x)
        for text, function in texts.items():
            for alpha in (0.5, 2.0, 0.25):
                found = ba.comprehension(text, x=positive, alpha=alpha).compute()
                np.testing.assert_allclose(found, function(positive, alpha), rtol=0, atol=1e-12, err_msg=text)

    bsp.run(main, nprocs=2)


def test_an_abstract_run_predicts_a_comprehension() -> None:
    def main(proc: bsp.Process) -> None:
        a = ba.ones((2000, 2000))
        ba.comprehension("D[i,j] = min(A[i,k] + A[k,j]) + i", A=a).persist()

    assert bsp.predict(main, nprocs=4, machine=bsp.Machine(p=4), abstract=True).per_superstep


# ------------------------------------------------------------------------------------ errors

ERRORS: list[tuple[str, dict[str, Any], str]] = [
    ("C[i,j] = sum(A[i,k] * A[k,j])", {"A": A},
     """index 'k' is 7 in A[i,k] (A has shape (13, 7)) and 13 in A[k,j] (A has shape (13, 7))
    C[i,j] = sum(A[i,k] * A[k,j])
                            ^"""),
    ("p[i] = A[i,j]", {"A": A},
     """index 'j' is not on the left, and no aggregate is over it: put it on the left, or write sum(A[i,j])
    p[i] = A[i,j]
               ^"""),
    ("p[i] = sum[j](A[i,j] * B[j,k])", {"A": A, "B": B},
     """index 'k' is not on the left, and sum[j] is not over it: sum[j,k]?
    p[i] = sum[j](A[i,j] * B[j,k])
                               ^"""),
    ("p[i] = sum(A[i,j] * max(A[i,j]))", {"A": A},
     """max is over no index: all that are in it are on the left, or bound by another aggregate; name them: max[k](...)
    p[i] = sum(A[i,j] * max(A[i,j]))
                        ^^^^^^^^^^^"""),
    ("p[i] = sum[i](A[i,i])", {"A": S},
     """sum cannot be over 'i', which is on the left
    p[i] = sum[i](A[i,i])
               ^"""),
    ("p[i,j] = A[i]", {"A": A},
     """1 index for A, which has shape (13, 7): 2 are needed
    p[i,j] = A[i]
             ^^^^"""),
    ("p[i,j] = A", {"A": A},
     """A has shape (13, 7): index it, A[i,j]
    p[i,j] = A
             ^"""),
    ("p[i] = beta", {},
     """'beta' is neither an operand nor an index: give it, beta=...
    p[i] = beta
           ^^^^"""),
    ("p[i,j] = a[i,j] + 1", {"A": A},
     """no operand is called 'a'; did you mean 'A'?
    p[i,j] = a[i,j] + 1
             ^"""),
    ("p[i,j] = Z[i,j]", {},
     """no operand is called 'Z': give it, Z=...
    p[i,j] = Z[i,j]
             ^"""),
    ("p[i] = x[i] * apha", {"x": x, "alpha": 2.0},
     """'apha' is neither an operand nor an index; did you mean 'alpha'?
    p[i] = x[i] * apha
                  ^^^^"""),
    ("p[i] = 2 * x[i]", {"x": x, "alpha": 2.0},
     """the operand 'alpha' is not in the text
    p[i] = 2 * x[i]
           ^^^^^^^^"""),
    ("p[i] = x[i] * beta", {"x": x},
     """'beta' is neither an operand nor an index: give it, beta=...
    p[i] = x[i] * beta
                  ^^^^"""),
    ("p[i] = squrt(x[i])", {"x": x},
     """'squrt' is no elementwise function or aggregate; did you mean 'sqrt'?
    p[i] = squrt(x[i])
           ^^^^^"""),
    ("p[i] = np.sqrt(x[i])", {"x": x},
     """np.sqrt is no function of a comprehension: write sqrt(...)
    p[i] = np.sqrt(x[i])
           ^^^^^^^"""),
    ("p[i] = max(x[i], 0)", {"x": x},
     """max aggregates one expression; of two values: maximum(x, y)
    p[i] = max(x[i], 0)
           ^^^^^^^^^^^^"""),
    ("p[i] = where(x[i])", {"x": x},
     """where takes 3 arguments: where(condition, x, y)
    p[i] = where(x[i])
           ^^^^^^^^^^^"""),
    ("p[i] = sinc(x[i], x[i])", {"x": x},
     """sinc has too many arguments: a comprehension has no array for the result
    p[i] = sinc(x[i], x[i])
           ^^^^^^^^^^^^^^^^"""),
    ("p[i] = sqrt(x[i], x[i])", {"x": x},
     """sqrt takes 1 argument
    p[i] = sqrt(x[i], x[i])
           ^^^^^^^^^^^^^^^^"""),
    ("p[i] = x[i+1] - x[i]", {"x": x},
     """index 7 (at i = 6) is out of range for axis 0 of x[i+1] (x has shape (7,)); all that fits: ... for i in 0:6
    p[i] = x[i+1] - x[i]
             ^^^"""),
    ("p[i] = x[i-1]", {"x": x},
     """index 'i' is plain in no operand, so its range must be given; all that fits: ... for i in 1:8
    p[i] = x[i-1]
             ^^^"""),
    ("p[i] = x[i*i]", {"x": x},
     """i*i is no affine index such as i, 2*i+1, n-1-i or 0: a product of two indices
    p[i] = x[i*i]
             ^^^"""),
    ("p[i] = sum(x[i+k] * w[k])", {"x": x, "w": x},
     """i+k is no affine index such as i, 2*i+1, n-1-i or 0: 'i' and 'k' are two indices on one axis \
(an integer is given as i=...)
    p[i] = sum(x[i+k] * w[k])
                 ^^^"""),
    ("p[i] = A[i, :]", {"A": A},
     """: is no affine index such as i, 2*i+1, n-1-i or 0: name the index and give its range at the end, \
as in B[i] = A[i+1] for i in 0:9
    p[i] = A[i, :]
                ^"""),
    ("p[i] = A[i, 7]", {"A": A},
     """index 7 is out of range for axis 1 of A, which has shape (13, 7)
    p[i] = A[i, 7]
                ^"""),
    ("p[i] = A[i, h]", {"A": A, "h": 0.5},
     """indices are made of integers; 'h' is 0.5
    p[i] = A[i, h]
                ^"""),
    ("E[i,j] = x[i]", {"x": x},
     """index 'j' is in no operand: give its range, ... for j in 0:n
    E[i,j] = x[i]
        ^"""),
    ("E[i] = x[i] for j in 0:4", {"x": x},
     """index 'j' has a range but is nowhere else
    E[i] = x[i] for j in 0:4
                    ^"""),
    ("E[i] = x[i] for i in 0:n", {"x": x},
     """a range is made of integers; 'n' is no operand: give it, n=...
    E[i] = x[i] for i in 0:n
                           ^"""),
    ("E[i] = x[i] for i in 9", {"x": x},
     """a range is written: for i in start:stop, or start:stop:step
    E[i] = x[i] for i in 9
                         ^"""),
    ("E[i] = x[i] * i", {"x": x, "i": 3},
     """'i' is an index here, and an operand is given under this name
    E[i] = x[i] * i
      ^"""),
    ("E[i,i] = x[i]", {"x": x},
     """index 'i' is on the left twice
    E[i,i] = x[i]
        ^"""),
    ("E[i+1] = x[i]", {"x": x},
     """i+1 on the left names groups, and no aggregate is on the right: E[...] = sum(x[i])?
    E[i+1] = x[i]
      ^^^"""),
    ("E[0] = x[i]", {"x": x},
     """on the left are plain names of indices; ranges come last: ... for i in 1:9
    E[0] = x[i]
      ^"""),
    ("E[i] += x[i]", {"x": x},
     """the left side is a new array: write `=`, and the old one on the right
    E[i] += x[i]
         ^^"""),
    ("sum(x[i])", {"x": x},
     """a comprehension is written: name[indices] = expression, as in C[i,j] = sum(A[i,k] * B[k,j])
    sum(x[i])
    ^^^^^^^^^"""),
    ("E[i] = (x[i] + 1", {"x": x},
     """'(' is never closed
    E[i] = (x[i] + 1
           ^"""),
    ("E[i] = x[i]) + (x[i]", {"x": x},
     """unmatched ')'
    E[i] = x[i]) + (x[i]
               ^"""),
    ("E[i] = x[i], 1", {"x": x},
     """a comma outside brackets
    E[i] = x[i], 1
           ^^^^^^^"""),
    ("E[i] = int64(x[i]) * 2**63", {"x": x},
     """multiply: Python integer 9223372036854775808 out of bounds for int64
    E[i] = int64(x[i]) * 2**63
           ^^^^^^^^^^^^^^^^^^^"""),
    ("E[i] = x[i] + 1 // n", {"x": x, "n": 0},
     """integer division or modulo by zero
    E[i] = x[i] + 1 // n
                  ^^^^^^"""),
    ("E[i] = ", {"x": x},
     """an expression is missing here
    E[i] =
          ^"""),
    ("E[i] = x[i] > 0 and x[i] < 1", {"x": x},
     """write & for `and`, with parentheses around comparisons
    E[i] = x[i] > 0 and x[i] < 1
           ^^^^^^^^^^^^^^^^^^^^^"""),
    ("E[i,j] = A[i,k] @ B[k,j]", {"A": A, "B": B},
     """write sum(A[i,k] * B[k,j]) for a matrix product
    E[i,j] = A[i,k] @ B[k,j]
             ^^^^^^^^^^^^^^^"""),
    ("m[i] = min(Z[i,j])", {"Z": np.ones((3, 0))},
     """min: zero-size array of shape (3, 0) to a reduction which has no identity
    m[i] = min(Z[i,j])
           ^^^^^^^^^^^"""),
    ("m[i] =\n  x[i]\n    + x[i]  +  q[i]", {"x": x},
     """no operand is called 'q': give it, q=...
    + x[i]  +  q[i]
               ^"""),
]  # fmt: skip


@pytest.mark.parametrize("text, operands, message", ERRORS)
def test_errors_say_what_is_wrong_and_where(text: str, operands: dict[str, Any], message: str) -> None:
    def main(proc: bsp.Process) -> None:
        with pytest.raises(ComprehensionError) as caught:
            ba.comprehension(text, **operands)
        assert isinstance(caught.value, ValueError)
        if message:
            assert str(caught.value) == message

    bsp.run(main, nprocs=1)


def test_what_numpy_refuses_is_shown_with_its_place() -> None:
    def main(proc: bsp.Process) -> None:
        for text, where in (
            ("N[i] = 1 + ~x[i]", "~x[i]"),
            ("N[i] = u[i] + 300", "u[i] + 300"),
            ("N[i] = x[i] - (b[i] - b[i])", "b[i] - b[i]"),
        ):
            operands = {"x": x, "u": np.ones(7, np.uint8), "b": x > 0}
            with pytest.raises(ComprehensionError) as caught:
                ba.comprehension(text, **{name: value for name, value in operands.items() if f"{name}[" in text})
            line, carets = str(caught.value).split("\n")[-2:]
            assert line[carets.index("^") : len(carets)] == where

    bsp.run(main, nprocs=1)


# -------------------------------------------------------------- against a naive interpreter

EXTENTS = {"i": 3, "j": 2, "k": 4, "l": 2}
HOW: dict[str, Callable[[list[float]], float]] = {
    "sum": sum, "min": min, "max": max, "mean": lambda all: sum(all) / len(all),
    "prod": lambda all: float(np.prod(all)),
}  # fmt: skip


class Tree(NamedTuple):
    """An expression: its text, and its value when indices have values."""

    text: str
    value: Callable[[dict[str, int]], float]


@st.composite
def trees(draw: Any, operands: dict[str, Any], scope: tuple[str, ...], depth: int) -> Tree:
    """A random expression; operands are made up on the way."""

    def operand(must: tuple[str, ...] = ()) -> Tree:
        axes = (*must, *draw(st.lists(st.sampled_from(scope + must), max_size=2)))[:3] if scope or must else ()
        name, parts, forms, shape = f"A{len(operands)}", [], [], []
        for index in axes:
            last = EXTENTS[index] - 1
            by, at = draw(st.sampled_from([(1, 0), (1, 0), (1, 2), (2, 1), (-1, last), (0, -1)]))
            part = index if (by, at) == (1, 0) else f"{by}*{index}+{at}" if by > 0 else f"{at}-{index}" if by else "-1"
            parts.append(part)
            forms.append((index, by, at))
            shape.append(max(1, by * last + at + 1, at + 1) + draw(st.integers(0, 1)))
        if not axes:
            return Tree("1.5", lambda where: 1.5)
        data = operands[name] = np.random.default_rng(len(operands) + 7 * depth).integers(-3, 4, shape).astype(float)
        return Tree(
            f"{name}[{','.join(parts)}]",
            lambda where: float(data[tuple(by * where[index] + at if by else -1 for index, by, at in forms)]),
        )

    def tree() -> Tree:
        return draw(trees(operands, scope, depth - 1))

    choice = draw(
        st.sampled_from(("operand", "index", "binary", "binary", "function", "where", "aggregate", "aggregate"))
    )
    free = [index for index in EXTENTS if index not in scope]
    if depth == 0 or (choice == "aggregate" and not free) or choice == "operand":
        return operand()
    if choice == "index":
        index = draw(st.sampled_from(scope)) if scope else ""
        return Tree(index or "2", lambda where: where[index] if index else 2)
    if choice == "binary":
        a, b, sign = tree(), tree(), draw(st.sampled_from("+-**"))
        call = {"+": lambda p, q: p + q, "-": lambda p, q: p - q, "*": lambda p, q: p * q}[sign]
        return Tree(f"({a.text} {sign} {b.text})", lambda where: call(a.value(where), b.value(where)))
    if choice == "function":
        a, b = tree(), tree()
        return Tree(f"minimum({a.text}, abs({b.text}))", lambda where: min(a.value(where), abs(b.value(where))))
    if choice == "where":
        a, b, c = tree(), tree(), tree()
        return Tree(
            f"where({a.text} < {b.text}, -{c.text}, 1)",
            lambda where: -c.value(where) if a.value(where) < b.value(where) else 1,
        )
    over = tuple(draw(st.lists(st.sampled_from(free), min_size=1, max_size=2, unique=True)))
    first = operand(over)
    rest = draw(trees(operands, scope + over, depth - 1))
    sign = draw(st.sampled_from("+**"))
    how = draw(st.sampled_from(("sum", "sum", "sum", "min", "max", "mean", "prod")))

    def value(where: dict[str, int]) -> float:
        found = []
        for at in itertools.product(*[range(EXTENTS[index]) for index in over]):
            here = where | dict(zip(over, at, strict=True))
            p, q = first.value(here), rest.value(here)
            found.append(p + q if sign == "+" else p * q)
        return HOW[how](found)

    told = draw(st.booleans()) or not all(re.search(rf"\b{index}\b", first.text) for index in over)
    named = f"[{','.join(over)}]" if told else ""
    return Tree(f"{how + named}({first.text} {sign} {rest.text})", value)


@st.composite
def random_comprehensions(draw: Any) -> tuple[str, dict[str, Any], Any]:
    left = draw(st.sampled_from(((), ("i",), ("i", "j"), ("j", "i"), ("k", "i", "j"))))
    operands: dict[str, Any] = {}
    tree = draw(trees(operands, left, 3))
    names = [index for index in EXTENTS if index in left or re.search(rf"\b{index}\b", tree.text)]
    ranges = ", ".join(f"{index} in 0:{EXTENTS[index]}" for index in names)
    expected = np.empty([EXTENTS[index] for index in left])
    for at in np.ndindex(*expected.shape):
        expected[at] = tree.value(dict(zip(left, at, strict=True)))
    text = f"R{list(left) if left else ''} = {tree.text}".replace("'", "") + (f" for {ranges}" if ranges else "")
    return text, operands, expected


@examples(60)
@given(random_comprehensions(), st.sampled_from(PROCESSES), st.booleans())
def test_random_comprehensions_give_what_nested_loops_give(case: Any, p: int, dealt: bool) -> None:
    text, operands, expected = case

    def main(proc: bsp.Process) -> None:
        given = {
            name: ba.asarray(value, grid=(2, 1, 2)[: value.ndim]) if dealt else value
            for name, value in operands.items()
        }
        with np.errstate(all="ignore"):
            found = ba.comprehension(text, **given).compute()
        assert found.shape == expected.shape
        scale = max(1.0, float(np.max(np.abs(expected), initial=0.0)))
        np.testing.assert_allclose(found, expected, rtol=0, atol=1e-12 * scale, err_msg=text)

    bsp.run(main, nprocs=p)
