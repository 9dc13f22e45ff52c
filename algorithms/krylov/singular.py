"""The largest singular values of a large matrix, by a random start and subspace iteration.

The product with a few random vectors more than are wanted spans the best left singular vectors nearly; each round
multiplies by the conjugate transpose and by the matrix, with orthonormal columns after each product.  The factors are
those of the small triangular matrix that the transpose's product leaves; with the next product, which the next round
needs anyway, comes how well they fit.

Cost of a round with l vectors: W = 4 nnz l/p + 8 (m + n) l²/p; H = l times the far columns of A, to their readers and
back, and (p - 1) (2 l² + k) words; S = 5.

Source: Halko, Martinsson and Tropp, Finding structure with randomness (SIAM Review 53, 2011), algorithm 4.4.
"""

from __future__ import annotations

from typing import Any, Literal, NamedTuple, overload

import numpy as np

import bsp
import bsp.arrays as ba
from bsp.algorithms.krylov.errors import NoConvergence
from bsp.algorithms.krylov.operators import Matrix, adjoint, has_room, limit_of, numbers, operator, unit_near
from bsp.arrays import Array, ArrayError, linalg
from bsp.arrays.procedures import world


class SingularTriplets(NamedTuple):
    """The factors of the best approximation u·diag(s)·vh of a rank."""

    u: Array
    s: Array
    vh: Array


@overload
def svds(
    A: Matrix, k: int = 6, *, ncv: int | None = None, tol: float = 1e-8, maxiter: int | None = None,
    return_singular_vectors: Literal[True] = True, rng: int = 0,
) -> SingularTriplets: ...  # fmt: skip
@overload
def svds(
    A: Matrix, k: int = 6, *, ncv: int | None = None, tol: float = 1e-8, maxiter: int | None = None,
    return_singular_vectors: Literal[False], rng: int = 0,
) -> Array: ...  # fmt: skip
def svds(
    A: Matrix, k: int = 6, *, ncv: int | None = None, tol: float = 1e-8, maxiter: int | None = None,
    return_singular_vectors: bool = True, rng: int = 0,
) -> Any:  # fmt: skip
    """Return the k largest singular values of A, descending, and their vectors.

    A : a sparse or dense array of shape (m, n), or an object with `shape`, `T`, the conjugate transpose, and `@`, which
        multiplies matrices.
    ncv : the vectors of the subspace, k + 10 by default; the more, the fewer rounds.
    tol : good when norm(A v - s u) of each is at most tol times the largest s; values then have about twice as many
        right digits.
    maxiter : rounds at most; 1000 by default.
    rng : the seed of the first vectors, which are the same for any p.
    Returns u (m, k) and vh (k, n), dealt as the products of A and of its transpose are, and s (k,) on every process; s
    alone if `return_singular_vectors` is false.  Collective; the rounds are `proc.rounds`.
    Cost of a round, l = ncv: W = 4 nnz l/p + 8 (m + n) l²/p; H = twice l times the far columns of A, and (p - 1)
    (2 l² + k) words; S = 5.
    Raises NoConvergence.  A run without values makes `maxiter` rounds.
    """
    matrix = operator(A, "svds")
    m, n = matrix.shape
    if not 0 < k <= min(m, n):
        raise ArrayError(f"svds: {k} singular values of a matrix of shape {matrix.shape}")
    count = min(m, n, max(k, k + 10 if ncv is None else int(ncv)))
    limit = limit_of(tol, maxiter, "svds", tol)
    rounds = 1000 if maxiter is None else int(maxiter)
    back = adjoint(matrix)
    columns = _orthonormal(matrix @ ba.random.default_rng(rng).standard_normal((n, count)))[0]
    state = bsp.State(columns=columns, u=None, s=np.zeros(count), v=None, good=False)
    for _ in world().proc.rounds(rounds, state):
        rows, small = _orthonormal(back @ state.columns)
        if not np.isfinite(small).all():
            raise ArrayError("svds: A has a NaN or an infinity, or A @ v overflows")
        left, s, right = np.linalg.svd(small.conj().T)  # A is nearly columns · smallᴴ · rowsᴴ
        u = state.columns @ ba.asarray(left[:, :k].copy())
        v = rows @ ba.asarray(right[:k].conj().T.copy())
        product = matrix @ rows
        apart, size = abs(product @ ba.asarray(right[:k].conj().T.copy()) - u * s[:k]), float(s[0])
        if not has_room(size * size, s.dtype) and (unit := unit_near(size, s.dtype)) is not None:
            apart, size = apart * unit, size * float(unit)
        misfit = (apart**2).sum(axis=0)
        ba.persist(u, v, product, misfit)
        state.u, state.s, state.v = u, s[:k], v
        state.good = bool((np.sqrt(numbers(misfit)[0]) <= limit * size).all())
        if state.good:
            break
        state.columns = _orthonormal(product)[0]
    if not state.good and limit >= 0:
        raise NoConvergence(f"svds: {k} singular values are not good to tol={tol} after {rounds} rounds", state.s)
    values = ba.asarray(state.s)
    return SingularTriplets(state.u, values, state.v.conj().T) if return_singular_vectors else values


def _orthonormal(x: Array) -> tuple[Array, np.ndarray]:
    """Return Q and R of a tall matrix, computed, in one superstep and that of x."""
    q, r = linalg.qr(x)
    (small,) = numbers(r)
    return q, np.array(small)
