"""Eigenvalues of symmetric matrices by Lanczos' method, with all vectors kept orthogonal, and thick restarts.

A round grows an orthonormal basis to `ncv` vectors, finds the eigenvalues of the small matrix that A is in it, and
keeps the best combinations as the next round's first vectors.  What A is in the basis is taken from the components that
are taken out of each product anyway, so that restarts need no case of their own: columns of kept vectors are diagonal,
and the first new vector's has the components along them.

Cost of a step with j vectors: W = 2 nnz/p + 8 j n/p; H = the far columns of A and 2 j (p - 1) words; S = 3, and 1 at
the end of a round, in which nothing moves.

Source: Wu and Simon, Thick-restart Lanczos method for large symmetric eigenvalue problems (SIAM J. Matrix Anal. Appl.
22, 2000).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal, overload

import numpy as np

import bsp
import bsp.arrays as ba
from bsp.algorithms.krylov.basis import empty_basis, expanded, outside
from bsp.algorithms.krylov.errors import NoConvergence
from bsp.algorithms.krylov.operators import (
    Matrix,
    dot,
    limit_of,
    norm_of,
    placed,
    reals,
    square_operator,
    start,
    unit_of,
)
from bsp.arrays import Array, ArrayError
from bsp.arrays.procedures import world
from bsp.arrays.typing import ArrayLike

_SKEW = 1e-3  # products with a symmetric matrix may have errors, as those of an inner solver: not so large ones
_ROUNDING = 10 * float(np.finfo(float).eps)
_ORDERS: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "LM": lambda values: -abs(values), "SM": abs, "LA": np.negative, "SA": np.positive,
}  # fmt: skip


@overload
def eigsh(
    A: Matrix, k: int = 6, *, which: str = "LM", v0: ArrayLike | None = None, ncv: int | None = None,
    maxiter: int | None = None, tol: float = 0.0, return_eigenvectors: Literal[True] = True, rng: int = 0,
) -> tuple[Array, Array]: ...  # fmt: skip
@overload
def eigsh(
    A: Matrix, k: int = 6, *, which: str = "LM", v0: ArrayLike | None = None, ncv: int | None = None,
    maxiter: int | None = None, tol: float = 0.0, return_eigenvectors: Literal[False], rng: int = 0,
) -> Array: ...  # fmt: skip
def eigsh(
    A: Matrix, k: int = 6, *, which: str = "LM", v0: ArrayLike | None = None, ncv: int | None = None,
    maxiter: int | None = None, tol: float = 0.0, return_eigenvectors: bool = True, rng: int = 0,
) -> Any:  # fmt: skip
    """Return k eigenvalues of a symmetric (or Hermitian) A, ascending, and its eigenvectors as columns.

    A : a sparse or dense array of shape (n, n), or any object with `shape` and `@`.
    which : "LM", "SM" the largest or smallest in magnitude, "LA", "SA" algebraically.  Those inside the spectrum ("SM"
        of an indefinite A) take many rounds, for nothing is inverted.
    v0 : the first vector; by default random numbers of the seed `rng`, the same for any p.
    ncv : the vectors of a basis; by default 2 k + 1, 20 or n.  Each process has its part of them.
    maxiter : rounds at most; 10 n by default.
    tol : an eigenvalue w is good when norm(A v - w v) is at most tol · |w|, or rounding.
    Returns w (k,) on every process, and v (n, k), dealt by rows as the products of A are; w alone if
        `return_eigenvectors` is false.  Collective; the rounds are `proc.rounds`.
    Cost of a step with j vectors, of which a round has up to `ncv`: W = 2 nnz/p + 8 j n/p; H = the far columns of A and
        2 j (p - 1) words; S = 3, and 1 at the end of a round.
    Raises NoConvergence, or ArrayError if products show that A is not symmetric, which costs nothing.  A run without
        values makes `maxiter` rounds.
    """
    matrix = square_operator(A, "eigsh")
    n = matrix.shape[0]
    if which not in _ORDERS:
        raise ValueError(f"eigsh(which={which!r}): one of {', '.join(_ORDERS)}")
    if not 0 < k <= n:
        raise ArrayError(f"eigsh: {k} eigenvalues of a matrix of shape {matrix.shape}")
    count = min(n, max(2 * k + 1, 20) if ncv is None else int(ncv))
    if count < min(k + 1, n):
        raise ArrayError(f"eigsh: ncv={ncv} vectors for {k} eigenvalues: {min(k + 1, n)} or more")
    first = ba.random.default_rng(rng).standard_normal(n) if v0 is None else ba.asarray(v0)
    if first.shape != (n,):
        raise ArrayError(f"eigsh: v0 of shape {first.shape} for A of shape {matrix.shape}")
    _, _, vector = start(matrix, first, None)
    square = dot(vector, vector)
    with np.errstate(over="ignore", invalid="ignore"):
        ba.persist(vector, square)
    state = bsp.State(vector=vector, norm=norm_of(*reals(square)), kept=None, values=np.zeros(0), good=False, draws=0)
    if (unit := unit_of(vector, *reals(square))) is not None:
        state.vector = vector * unit
        square = dot(state.vector, state.vector)
        ba.persist(state.vector, square)
        state.norm = norm_of(*reals(square))
    if np.isnan(state.norm):
        raise ValueError("eigsh: v0 has NaN or infinity")
    if not state.norm:
        raise ArrayError("eigsh: v0 is zero")
    limit = limit_of(0.0, maxiter, "eigsh", tol)
    for _ in world().proc.rounds(10 * n if maxiter is None else int(maxiter), state):
        basis, small = _grown(matrix, count, state, rng)
        if not np.isfinite(small).all():
            raise ArrayError("eigsh: A or v0 has a NaN or an infinity, or A @ v overflows")
        values, vectors = np.linalg.eigh(small)
        left = state.norm * abs(vectors[-1])
        good = left <= np.maximum(tol * abs(values), _ROUNDING * abs(values).max(initial=0.0))
        good &= limit >= 0
        order = np.argsort(_ORDERS[which](values), kind="stable")
        state.good = bool(good[order[:k]].all())
        more = min(int(good[order[:k]].sum()), (count - k) // 2)
        keep = np.sort(order[:k] if state.good else order[: min(k + more, len(order) - 1)])
        state.kept = (ba.asarray(vectors[:, keep].T.copy()) @ basis[: len(small)]).persist()
        state.values = values[keep]
        if state.good:
            break
    if not state.good and limit >= 0:
        raise NoConvergence(f"eigsh: {k} eigenvalues ({which}) are not good to tol={tol} after the last round",
                            state.values)  # fmt: skip
    found = ba.asarray(state.values)
    return (found, state.kept.T) if return_eigenvectors else found


def _grown(matrix: Any, count: int, state: bsp.State, seed: int) -> tuple[Array, np.ndarray]:
    """Grow a basis from the kept vectors and the next one; return it and what the matrix is in it."""
    basis = empty_basis(state.vector, count)
    begin = len(state.values)
    small = np.zeros((count, count), basis.dtype)
    if begin:
        basis[:begin] = state.kept
        small[range(begin), range(begin)] = state.values
    beside = 0.0  # the component of the next product along the vector before, if A is symmetric
    for j in range(begin, count):
        state.vector, column, state.norm = expanded(lambda v: matrix @ v, basis, j, state.vector, state.norm)
        small[: j + 1, j] = column
        if j > begin and not world().abstract:
            apart = column[:j].copy()
            apart[-1] -= beside
            if abs(apart).max() > _SKEW * abs(small).max():
                raise ArrayError(f"eigsh: A, of shape {matrix.shape}, is not symmetric (or Hermitian)")
        beside = state.norm
        small[j, : j + 1] = column.conj()
        small[j, j] = column[j].real
        if not state.norm and j + 1 < count:  # the space is closed: go on outside
            state.draws += 1
            state.vector, _, state.norm = outside(basis, j + 1, _drawn(seed + state.draws, state.vector))
            if not state.norm:
                return basis, small[: j + 1, : j + 1]
    return basis, small


def _drawn(seed: int, like: Array) -> Array:
    """Return random numbers, dealt as a vector is.  Lazy."""
    drawn = ba.random.default_rng(seed).standard_normal(like.shape[0])
    return placed(drawn.astype(like.dtype), like.layout)
