"""The generalised minimal residual method, with restarts: three supersteps a step.

A round is a cycle: an orthonormal basis of the Krylov space grows by `restart` vectors, then x moves by the combination
of them that makes the residual least.  Between rounds x and its residual are all that is kept.  M is applied on the
right, so what becomes least is the norm of b - A x itself (scipy makes that of M (b - A x) least).

Cost of step j of a cycle: W = 2 nnz/p + 8 j n/p; H = the far columns of A and 2 j (p - 1) words; S = 3, and 2 at the
end of a cycle.

Source: Saad and Schultz, GMRES (SIAM J. Sci. Stat. Comput. 7, 1986).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import bsp
import bsp.arrays as ba
from bsp.algorithms.krylov.basis import empty_basis, expanded
from bsp.algorithms.krylov.info import Info
from bsp.algorithms.krylov.operators import (
    Matrix,
    Preconditioner,
    dot,
    in_unit,
    limit_of,
    norm_of,
    preconditioner,
    reals,
    solved_in_unit,
    square,
    start,
    unit_of,
)
from bsp.arrays import Array
from bsp.arrays.procedures import world
from bsp.arrays.typing import ArrayLike


def gmres(
    A: Matrix, b: ArrayLike, x0: ArrayLike | None = None, *, rtol: float = 1e-5, atol: float = 0.0,
    restart: int | None = None, maxiter: int | None = None, M: Preconditioner | None = None,
    callback: Callable[[Any], Any] | None = None, callback_type: str = "pr_norm",
) -> tuple[Array, Info]:  # fmt: skip
    """Solve A x = b for any square A; return x and 0.

    A : a sparse or dense array of shape (n, n), or any object with `shape` and `@`.
    M : approximates A⁻¹, such as `jacobi(A)` or `block_jacobi(A)`.
    rtol, atol : x is good when the norm of b - A x is at most max(rtol · norm(b), atol).
    restart : the vectors of a cycle, 1 or more; min(20, n) by default.  Each process has its part of them.
    maxiter : cycles at most; 10 n by default.
    callback : called after each step with norm(b - A x) / norm(b), or with x after each cycle (callback_type="x").
        What it keeps is lost with a process that is made again.
    The second result is 0 if x is good, else the steps done, which are its `iterations` in any case.
    Cost of step j of a cycle: W = 2 nnz/p + 8 j n/p; H = the far columns of A and 2 j (p - 1) words; S = 3.  The end of
    a cycle: the far columns of A and p - 1 words; S = 2.
    Collective; the cycles are `proc.rounds`.  A run without values makes `maxiter` of them.
    """
    if callback_type not in ("pr_norm", "x"):
        raise ValueError(f"gmres(callback_type={callback_type!r}): pr_norm or x")
    if restart is not None and restart < 1:
        raise ValueError(f"gmres(restart={restart}): a cycle has 1 vector or more")
    operand, right = square(A, b, "gmres")
    n = operand.shape[0]
    apply = preconditioner(M)
    count = min(20 if restart is None else int(restart), n)
    cycles = 10 * n if maxiter is None else int(maxiter)
    right, x, r = start(operand, right, x0)
    squares = dot(r, r), dot(right, right)
    with np.errstate(over="ignore", invalid="ignore"):
        ba.persist(right, x, r, *squares)
    rr, bb = reals(*squares)
    if (unit := unit_of(right, bb)) is not None:
        return solved_in_unit(
            unit, gmres, operand, right, x0, rtol=rtol, atol=atol * float(unit), restart=restart, maxiter=maxiter,
            M=apply, callback=callback if callback_type == "pr_norm" else in_unit(callback, unit),
            callback_type=callback_type,
        )  # fmt: skip
    norm, bnorm = norm_of(rr), norm_of(bb)
    limit = limit_of(max(rtol * bnorm, atol), maxiter, "gmres", rtol, atol)
    state = bsp.State(x=x, r=r, norm=norm, done=0)
    for _ in world().proc.rounds(0 if norm <= limit or not np.isfinite(norm) else cycles, state):
        basis = empty_basis(state.r, count)
        matrix = np.zeros((count + 1, count), basis.dtype)
        vector, length = state.r, state.norm
        weights = np.zeros(0)
        for j in range(count):
            vector, matrix[: j + 1, j], length = expanded(lambda v: operand @ apply(v), basis, j, vector, length)
            if not np.isfinite(matrix[: j + 1, j]).all():
                break  # A or M has a NaN: the step cannot be done
            matrix[j + 1, j] = length
            weights, left = _least(matrix[: j + 2, : j + 1], state.norm)
            state.done += 1
            if callback is not None and callback_type == "pr_norm":
                callback(left / bnorm)
            if left <= limit or not length:
                break
        if not len(weights):
            break
        x = state.x + apply(ba.asarray(weights) @ basis[: len(weights)])
        r = right - operand @ x
        square_of = dot(r, r)
        ba.persist(x, r, square_of)
        before = state.norm
        state.x, state.r, state.norm = x, r, norm_of(*reals(square_of))
        if callback is not None and callback_type == "x":
            callback(x)
        if limit >= 0 and (state.norm <= limit or not state.norm < before):
            break  # good, or no better: the next cycle would be the same
    return state.x, Info.of(state.norm <= limit, state.done)


def _least(matrix: np.ndarray, norm: float) -> tuple[np.ndarray, float]:
    """Return the combination of a basis that makes the residual least, and its norm."""
    first = np.zeros(len(matrix), matrix.dtype)
    first[0] = norm
    weights = np.linalg.lstsq(matrix, first, rcond=None)[0]
    return weights, float(np.linalg.norm(first - matrix @ weights))
