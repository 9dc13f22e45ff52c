"""Comprehensions over sparse operands give what NumPy gives with the aggregate's zero at the absent places."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
import scipy.sparse as ss

import bsp
import bsp.arrays as ba
from bsp.arrays import sparse
from bsp.arrays.errors import ComprehensionError

RNG = np.random.default_rng(5)
N, M, F = 13, 9, 3
DENSE = RNG.integers(1, 9, (N, M)) * (RNG.random((N, M)) < 0.3)
THERE = DENSE != 0
A, S = DENSE.astype(float), (RNG.integers(1, 9, (N, N)) * (RNG.random((N, N)) < 0.2)).astype(float)
x, z, X, Z, D = (RNG.integers(0, 9, shape) * 1.0 for shape in (M, N, (M, F), (F, N), (N, M)))


def held(values: Any, zero: Any) -> Any:
    """The values at the entries of A, and a zero elsewhere."""
    return np.where(THERE, values, zero)


DENSE_RESULTS: list[tuple[str, Any]] = [
    ("y[i] = sum(A[i,k] * x[k])", A @ x), ("y[i] = sum(x[k] * A[i,k])", A @ x), ("y[k] = sum(A[i,k] * z[i])", A.T @ z),
    ("y[i] = sum(T[k,i] * x[k])", A @ x), ("y[i,f] = sum(A[i,k] * X[k,f])", A @ X),
    ("y[f,i] = sum(A[i,k] * X[k,f])", (A @ X).T), ("y[k,f] = sum(A[i,k] * Z[f,i])", A.T @ Z.T),
    ("y[i] = 2 * sum(A[i,k] * x[k]) + z[i] / 3", 2 * (A @ x) + z / 3),
    ("y[i] = min(A[i,k] + x[k])", held(A + x, np.inf).min(1)),
    ("y[k] = max(A[i,k] - z[i])", held(A - z[:, None], -np.inf).max(0)),
    ("y[i] = max[k](minimum(A[i,k], x[k]))", held(np.minimum(A, x), -np.inf).max(1)),
    ("y[i] = any((A[i,k] > 3) & (x[k] > 4))", (THERE & (A > 3) & (x > 4)).any(1)),
    ("y[i] = any(A[i,k] * 1j)", THERE.any(1)), ("y[i] = all(A[i,k] * 1j - 3j)", (~THERE | (A != 3)).all(1)),
    ("y[i] = all(A[i,k] > 2)", (~THERE | (A > 2)).all(1)), ("y[i] = prod(A[i,k])", held(A, 1.0).prod(1)),
    ("s = sum(A[i,k] * z[i] * x[k])", z @ A @ x), ("s = max(A[i,k] * D[i,k])", held(A * D, -np.inf).max()),
    ("y[i] = sum(exp(A[i,k] / 9) * x[k])", held(np.exp(A / 9) * x, 0).sum(1)),
    ("y[i] = sum(A[i,k] * (k - i))", (A * (np.arange(M) - np.arange(N)[:, None])).sum(1)),
    ("y[i] = sum(A[i,k] * A[i,k])", (A * A).sum(1)), ("y[i] = sum(A[i,k] * D[i,k] * T[k,i])", (A * D * A).sum(1)),
    ("y[i] = sum[k](A[i,k] * sum(X[k,f] * w[f]))", A @ (X @ np.arange(F))),
    ("y[i,f] = max(A[i,k] * X[k,f])", np.where(THERE[:, :, None], A[:, :, None] * X, -np.inf).max(1)),
    ("y[f] = sum(A[i,k] * X[k,f])", (A @ X).sum(0)), ("y[i] = sum(A[i,k] * X[k,f] * w[f])", A @ X @ np.arange(F)),
    ("y[i] = sum(I[i,k])", DENSE.sum(1)), ("n[k] = sum(I[i,k] > 4)", ((DENSE > 4) & THERE).sum(0)),
    ("y[i] = sum(A[i,k]) * max(A[i,j])", A.sum(1) * held(A, -np.inf).max(1)),
    ("y[i] = sum(h[k] * h[k] * I[i,k])", DENSE.sum(1) * 100**2), ("y[i] = sum(A[i,k]) + _0[i]", A.sum(1) + z),
    ("y[_1] = sum(A[_1,k]) * max(A[_1,j])", A.sum(1) * held(A, -np.inf).max(1)),
    ("y[i] = sum(clip(A[i,k], max=x[k]))", held(np.minimum(A, x), 0).sum(1)),
    ("s = min(E[i,k] + x[k])", np.inf), ("y[f] = max(E[i,k] * X[k,f])", np.full(F, -np.inf)), ("s = sum(E[i,k])", 0),
    ("d[i] = min(S[i,j] + S[i,j])", np.where(S != 0, 2 * S, np.inf).min(1)),
]  # fmt: skip
SPARSE_RESULTS: list[tuple[str, Any]] = [
    ("C[i,k] = A[i,k] * x[k]", A * x), ("C[k,i] = A[i,k] * z[i] + 0 * x[k]", (A * z[:, None]).T),
    ("C[i,k] = sum(A[i,k] * X[k,f] * Z[f,i])", A * (X @ Z).T), ("C[i,k] = exp(A[i,k])", held(np.exp(A), 0)),
    ("C[i,j] = sum(A[i,k] * T[k,j])", A @ A.T), ("C[j,i] = sum(A[i,k] * A[j,k])", A @ A.T),
    ("C[k,l] = sum(A[i,k] * A[i,l])", A.T @ A),
    ("C[i,j] = min(S[i,k] + S[k,j])", None), ("C[i,j] = max[k](minimum(S[i,k], S[k,j]))", None),
]  # fmt: skip


def operands(text: str) -> dict[str, Any]:
    matrices = {"A": A, "S": S, "I": DENSE.astype(np.int8), "E": 0 * A}
    own: dict[str, Any] = {name: sparse.from_scipy(ss.csr_array(each)) for name, each in matrices.items()}
    own |= {"x": x, "z": z, "X": X, "Z": Z, "D": D, "w": np.arange(F) * 1.0, "h": np.full(M, 100, np.int8), "_0": z}
    own["T"] = own["A"].T
    return {name: each for name, each in own.items() if re.search(rf"\b{name}\b[\[)]", text)}


@pytest.mark.parametrize("nprocs", [1, 2, 5])
def test_dense_results_are_numpys(nprocs: int) -> None:
    def main(proc: bsp.Process) -> None:
        for text, wanted in DENSE_RESULTS:
            found = ba.comprehension(text, **operands(text))
            assert isinstance(found, ba.Array)
            np.testing.assert_allclose(found.compute(), wanted, rtol=1e-12, atol=0, err_msg=text)

    bsp.run(main, nprocs=nprocs)


@pytest.mark.parametrize("nprocs", [1, 2, 5])
def test_sparse_results_have_the_places_of_an_operand_or_of_a_product(nprocs: int) -> None:
    def main(proc: bsp.Process) -> None:
        for text, wanted in SPARSE_RESULTS:
            found: Any = ba.comprehension(text, **operands(text))
            assert isinstance(found, sparse.SparseArray)
            if wanted is None:
                a = sparse.from_scipy(ss.csr_array(S))
                add, multiply = (np.minimum, np.add) if "min(" in text else (np.maximum, np.minimum)
                wanted = a.dot(a, add=add, multiply=multiply).compute().toarray()
            np.testing.assert_allclose(found.compute().toarray(), wanted, rtol=1e-12, atol=0, err_msg=text)

    bsp.run(main, nprocs=nprocs)


def test_a_product_costs_what_the_operator_costs() -> None:
    def main(proc: bsp.Process) -> list[str]:
        a, v = sparse.from_scipy(ss.csr_array(A)), ba.asarray(x)
        return [str(ba.explain(each)) for each in (a @ v, ba.comprehension("y[i] = sum(A[i,k] * x[k])", A=a, x=v))]

    one, other = bsp.run(main, nprocs=3)[0]
    assert one == other


@pytest.mark.parametrize("text, message", [
    ("y[i] = sum(A[i,i] * x[i])", "two different plain indices"),
    ("y[i] = sum(A[i,k+1])", "two different plain indices"),
    ("C[i,k] = sum(A[i,k] * x[k])", r"sum is over no index: .*\n    C\[i,k\]"),
    ("y[i] = mean(A[i,k])", "of sparse operands there are sum, prod, min, max, any, all"),
    ("y[i] = A[i,k] * x[k]", "index 'k' is not on the left, and no aggregate is over it"),
    ("y[i] = sum(A[i,k] * z[k])", "index 'k' is 9 in A.* and 13 in z"),
    ("y[i] = sum(A)", r"A has shape \(13, 9\): index it, A\[i,j\]\n    y\[i\] = sum\(A\)\n"),
    ("y[i] = sum(A[i,k] * v[k])", "no operand is called 'v'"),
    ("y[i] = sum(foo(A[i,k]))", r"'foo' is no elementwise function.*\n    y\[i\] = sum\(foo\(A\[i,k\]\)\)\n"),
    ("y[i] = sum(~A[i,k])", r"invert.*\n    y\[i\] = sum\(~A\[i,k\]\)\n"),
    ("y[i] = sum(A[i,k] * x[-1-k])", "plain everywhere"),
    ("y[i] = sum(A[i,k]) for i in 0:3", "an index has no range"),
    ("C[i,j] = sum(A[i,k] * S[k,j])", "index 'k' is 9 in A.* and 13 in S"),
    ("C[i,j] = sum(exp(S[i,k]) * S[k,j])", "takes a product"),
    ("C[i,k,f] = A[i,k] * X[k,f]", "its indices alone are on the left"),
    ("y[i] = sum(A[i,k] + I[i,k])", "its places are not those of the other"),
    ("y[i,f,g] = max(A[i,k] * X[k,f] * X[k,g])", "at most one"),
])  # fmt: skip
def test_mistakes_are_shown(text: str, message: str) -> None:
    def main(proc: bsp.Process) -> None:
        own = operands(text)
        if "I" in own:  # another pattern
            own["I"] = sparse.eye(N, M)
        with pytest.raises((ComprehensionError, ba.ArrayError), match=message):
            ba.comprehension(text, **own)

    bsp.run(main, nprocs=2)


def test_operands_that_the_text_does_not_name_are_told() -> None:
    with pytest.raises(ComprehensionError, match="'y' is not in the text"):
        ba.comprehension("s = sum(A[i,k])", A=sparse.eye(3), y=3)
