"""Stabilised biconjugate gradients, for systems that are not symmetric: four supersteps and two products an iteration.

Each of the two products of an iteration waits for one sum, or for five that go together: the next ρ and the norm of the
residual follow from sums with vectors that are known before the residual is.  A residual that seems small is computed
from x, in two supersteps; if it is not small, the method begins again from there.

Cost of an iteration: W = 4 nnz/p + 22 n/p; H = twice the far columns of A and 6 (p - 1) words; S = 4.

Source: van der Vorst, Bi-CGSTAB (SIAM J. Sci. Stat. Comput. 13, 1992), with M on the right.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import bsp
import bsp.arrays as ba
from bsp.algorithms.krylov.info import Info
from bsp.algorithms.krylov.operators import (
    Matrix,
    Preconditioner,
    dot,
    in_unit,
    limit_of,
    norm_of,
    numbers,
    preconditioner,
    ratio,
    reals,
    replace,
    solved_in_unit,
    square,
    start,
    unit_of,
)
from bsp.arrays import Array
from bsp.arrays.procedures import world
from bsp.arrays.typing import ArrayLike


def bicgstab(
    A: Matrix, b: ArrayLike, x0: ArrayLike | None = None, *, rtol: float = 1e-5, atol: float = 0.0,
    maxiter: int | None = None, M: Preconditioner | None = None, callback: Callable[[Array], Any] | None = None,
) -> tuple[Array, Info]:  # fmt: skip
    """Solve A x = b for any square A; return x and 0.

    A : a sparse or dense array of shape (n, n), or any object with `shape` and `@`.
    M : approximates A⁻¹, such as `jacobi(A)` or `block_jacobi(A)`.
    rtol, atol : x is good when the norm of b - A x is at most max(rtol · norm(b), atol).
    maxiter : iterations at most; 10 n by default.
    callback : called with x after each iteration.  What it keeps is lost with a process that is made again.
    The second result is 0 if x is good, else the iterations done; -10 if the method broke down: its vectors became
    orthogonal, and another x0 may help.  Its `iterations` are those done.
    Cost of an iteration: W = 4 nnz/p + 22 n/p; H = twice the far columns of A and 6 (p - 1) words; S = 4.
    Collective; the iterations are `proc.rounds`.  A run without values makes `maxiter` of them.
    """
    matrix, right = square(A, b, "bicgstab")
    apply = preconditioner(M)
    steps = 10 * matrix.shape[0] if maxiter is None else int(maxiter)
    right, x, r = start(matrix, right, x0)
    first = dot(r, r)
    bb = dot(right, right)
    with np.errstate(over="ignore", invalid="ignore"):
        ba.persist(right, x, r, first, bb)
    if (unit := unit_of(right, *reals(bb))) is not None:
        return solved_in_unit(
            unit, bicgstab, matrix, right, x0, rtol=rtol, atol=atol * float(unit), maxiter=maxiter, M=apply,
            callback=in_unit(callback, unit),
        )  # fmt: skip
    limit = limit_of(max(rtol * norm_of(*reals(bb)), atol), maxiter, "bicgstab", rtol, atol)
    (rr,) = reals(first)
    state = bsp.State(x=x, r=r, done=0, info=0 if norm_of(rr) <= limit else -1, replaced=np.inf)
    _begin(state, rr)
    for _ in world().proc.rounds(steps if state.info and np.isfinite(rr) else 0, state):
        fixed = state.fixed
        along = apply(state.p)
        v = matrix @ along
        alpha = ratio(state.rho, dot(fixed, v))
        s = state.r - alpha * v
        across = apply(s)
        t = matrix @ across
        sums = alpha, dot(t, s), dot(t, t), dot(s, s), dot(fixed, s), dot(fixed, t)
        omega = ratio(sums[1], sums[2])
        # the state has the new vectors before they are computed, so that they take the memory of the old ones
        state.x, state.r = state.x + alpha * along + omega * across, s - omega * t
        rho = sums[4] - omega * sums[5]
        beta = ratio(rho * alpha, omega) * (1.0 / state.rho)
        state.p = state.r + beta * (state.p - omega * v)
        ba.persist(state.x, state.r, state.p, rho, *sums)
        state.rho, step, ts, tt, ss = numbers(rho, *sums[:4])
        state.done += 1
        if callback is not None:
            callback(state.x)
        state.info = state.done
        rr = ss.real - abs(ts) * (abs(ts) / tt.real) if tt else ss.real
        if not np.isfinite([rr, abs(state.rho)]).all():
            break  # A or M has a NaN
        if norm_of(rr) <= limit:
            before, state.replaced = state.replaced, replace(matrix, right, state)
            if state.replaced <= limit:
                state.info = 0
            if state.replaced <= limit or not state.replaced < 0.5 * before:
                break
            _begin(state, state.replaced * state.replaced)
        elif not step or not ts or not state.rho:
            state.info = -10
            break
    return state.x, Info(state.info, state.done)


def _begin(state: bsp.State, square: float) -> None:
    """Begin with a residual, whose norm's square is given; all later ones are made orthogonal to its shadow, itself."""
    state.p = state.fixed = state.r
    state.rho = square
