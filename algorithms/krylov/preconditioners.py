"""Preconditioners: what approximates the inverse of a matrix, and moves nothing."""

from __future__ import annotations

from functools import partial
from operator import mul
from typing import Any

import numpy as np
import scipy.sparse.linalg

import bsp.arrays as ba
from bsp.algorithms.krylov.operators import LinearOperator, Matrix, square_operator
from bsp.arrays import Array, ArrayError
from bsp.arrays.procedures import world
from bsp.arrays.sparse import LocalOperator, SparseArray


def jacobi(A: Array | SparseArray) -> LinearOperator:
    """Return the Jacobi preconditioner: division by the diagonal of A, where it is not zero.

    Cost: W = n/p each time, and nothing moves.
    Raises ArrayError if A has no method `diagonal`, as a matrix that is dealt by blocks.
    """
    if not hasattr(A, "diagonal"):
        raise ArrayError(
            f"jacobi: {A!r:.80} has no diagonal; of a matrix A that a partition deals by blocks, pass "
            "M=lambda x: x / d with d = partition.vector(A.diagonal())"
        )
    m, n = A.shape
    if m != n:
        raise ArrayError(f"jacobi: A of shape {A.shape} is not square")
    diagonal = A.diagonal()
    inverse = ba.where(diagonal == 0, 1.0, 1.0 / ba.where(diagonal == 0, 1.0, diagonal)).persist()
    return LinearOperator((m, n), partial(mul, inverse), partial(_by_conjugate, inverse))  # both can be pickled


def _by_conjugate(inverse: Array, x: Array) -> Array:
    return inverse.conj() * x


def block_jacobi(
    A: Matrix, *, exact: bool = False, drop_tol: float | None = None, fill_factor: float | None = None
) -> LocalOperator:  # fmt: skip
    """Return the block Jacobi preconditioner: each process solves with its own diagonal block of A.  Collective.

    A : a square sparse array, or a matrix of scipy.sparse, which every process has.  A block has the rows of a process,
        and the columns of these numbers; a partition that cuts few entries makes blocks that approximate A well.
    exact : factor blocks by scipy's `splu`, which leaves a symmetric block symmetric, as `cg` and `minres` need it;
        by default by `spilu`, which drops small entries of the factors.
    drop_tol, fill_factor : as in scipy's `spilu`.
    Cost: the factorisation, S = 1; each time two triangular solves, and nothing moves.
    Raises ArrayError on all processes if any block is singular.
    """
    found = square_operator(A, "block_jacobi")
    if not isinstance(found, SparseArray):
        raise ArrayError(f"block_jacobi: A is a {type(A).__name__}; it must be sparse, as sparse.from_scipy(A) is")
    stored = found.tocsr()
    here = world()
    low, high = stored.row_bounds[here.pid : here.pid + 2]
    kind = stored.dtype if stored.dtype.kind in "fc" else np.dtype(float)
    block = stored.local()[:, low:high].astype(kind).tocsc()

    def factored() -> _Block:
        try:
            return _Block(block, exact, drop_tol, fill_factor)
        except RuntimeError as error:
            message = f"block_jacobi: the block of process {here.pid}, rows {low} to {high}: {error}"
            raise ArrayError(message) from error

    return LocalOperator(stored, here.together("block_jacobi", factored))


class _Block:
    """A factored block, whose call solves with it.  It is pickled as the block, and factored again when loaded."""

    def __init__(self, block: Any, exact: bool, drop_tol: float | None, fill_factor: float | None) -> None:
        self._given = block, exact, drop_tol, fill_factor
        self._factors: Any = None  # of an empty block
        if block.shape[0]:
            options = {} if exact else {"drop_tol": drop_tol, "fill_factor": fill_factor}
            self._factors = (scipy.sparse.linalg.splu if exact else scipy.sparse.linalg.spilu)(block, **options)

    def __reduce__(self) -> Any:
        return _Block, self._given

    def __call__(self, share: Any) -> Any:
        if self._factors is None:
            return share
        kind = self._given[0].dtype
        if share.dtype.kind == "c" and kind.kind != "c":
            return self(share.real) + 1j * self(share.imag)
        return self._factors.solve(np.ascontiguousarray(share, kind))
