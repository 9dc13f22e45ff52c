"""The minimal residual method, for symmetric systems that may be indefinite or singular: two supersteps an iteration.

Lanczos' process makes orthogonal vectors, of which the next one is known when α, the product's component along the
last one, and β, the norm of the next one, are.  Here vectors are divided by their norms one step later than Paige and
Saunders do it: the sum for β then goes along with the far columns, and each iteration waits twice instead of three
times.  The iterate x of a step is computed while the product of the next but one is under way.

A residual that seems small is computed from x, in three supersteps; if it is not small, the process begins again from
there.

Cost of an iteration: W = 2 nnz/p + 20 n/p; H = the far columns of A and 2 (p - 1) words; S = 2.

Source: Paige and Saunders, Solution of sparse indefinite systems of linear equations (SIAM J. Numer. Anal. 12, 1975),
sections 5 and 6; Choi, Paige and Saunders (SIAM J. Sci. Comput. 33, 2011) for the stopping rule of singular systems.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

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
    preconditioner,
    reals,
    solved_in_unit,
    square,
    start,
    unit_of,
)
from bsp.arrays import Array, ArrayError
from bsp.arrays.procedures import world
from bsp.arrays.typing import ArrayLike

_ROUNDING = 10 * float(np.finfo(float).eps)


def minres(
    A: Matrix, b: ArrayLike, x0: ArrayLike | None = None, *, rtol: float = 1e-5, shift: float = 0.0,
    maxiter: int | None = None, M: Preconditioner | None = None, callback: Callable[[Array], Any] | None = None,
) -> tuple[Array, Info]:  # fmt: skip
    """Solve (A - shift·I) x = b for a symmetric (or Hermitian) A, definite or not; return x and 0.

    A : a sparse or dense array of shape (n, n), or any object with `shape` and `@`.
    M : approximates A⁻¹; symmetric and positive definite.
    rtol : x is good when the norm of the residual r = b - A x is at most rtol · norm(b); with M, both are norms
        sqrt(rᴴ M r).  Of a singular system without a solution: when norm(A r) is at most rtol² · norm(A) · norm(r), so
        that a condition up to 1/rtol² is not taken for singular.
    maxiter : iterations at most; 5 n by default.
    callback : called with x after each iteration.  What it keeps is lost with a process that is made again.
    The second result is 0 if x is good, else the iterations done, which are its `iterations` in any case.
    Cost of an iteration: W = 2 nnz/p + 20 n/p; H = the far columns of A and 2 (p - 1) words; S = 2.
    Collective; the iterations are `proc.rounds`.  A run without values makes `maxiter` of them.
    """
    matrix, right = square(A, b, "minres")
    apply = preconditioner(M)
    steps = 5 * matrix.shape[0] if maxiter is None else int(maxiter)
    right, x, r = start(matrix, right, x0)
    bb = dot(right, apply(right))
    state = bsp.State(x=x, done=0, good=False, replaced=np.inf)
    with np.errstate(over="ignore", invalid="ignore"):
        _begin(state, _expand(matrix, apply, r if x0 is None else r + shift * x, shift, right, x, bb))
    if (unit := unit_of(right, *reals(bb))) is not None:
        return solved_in_unit(
            unit, minres, matrix, right, x0, rtol=rtol, shift=shift, maxiter=maxiter, M=apply,
            callback=in_unit(callback, unit),
        )  # fmt: skip
    limit = limit_of(rtol * norm_of(*reals(bb)), maxiter, "minres", rtol)
    state.good = state.phi <= limit
    for _ in world().proc.rounds(0 if state.good or not np.isfinite(state.phi) else steps, state):
        if state.last is None:
            state.last, state.newest = state.newest, _expand(matrix, apply, _next(None, state.newest), shift)
        last = state.last
        beta = 0.0 if state.w is None else last.beta  # the first one is the residual's norm, and no part of A
        turn = _rotated(state, last.alpha, beta, state.newest.beta)
        if turn.least <= max(rtol**2, _ROUNDING) and limit >= 0:
            state.good = True  # x is, and the next step would be along the null space
            break
        w = last.y * (1.0 / last.beta)
        for factor, before in ((turn.delta, state.w), (turn.epsilon, state.wider)):
            w = w if before is None else w - factor * before
        w = w * (1.0 / turn.gamma)
        x = state.x + turn.step * w
        state.last, state.newest = state.newest, _expand(matrix, apply, _next(last, state.newest), shift, x, w)
        state.x, state.w, state.wider = x, w, state.w
        state.done += 1
        if callback is not None:
            callback(x)
        if not np.isfinite(state.phi):
            break  # A or M has a NaN
        if state.phi <= limit:
            _begin(state, _expand(matrix, apply, right - matrix @ x + shift * x, shift))
            before, state.replaced = state.replaced, state.phi
            state.good = state.phi <= limit
            if state.good or not state.phi < 0.5 * before:
                break
    return state.x, Info.of(state.good, state.done)


def _begin(state: bsp.State, first: LanczosVector) -> None:
    """Begin with a residual, which the first vector is made of."""
    state.last, state.newest, state.w, state.wider = None, first, None, None
    state.phi, state.cs, state.sn, state.dbar, state.epsilon, state.size = first.beta, -1.0, 0.0, 0.0, 0.0, 0.0


class LanczosVector(NamedTuple):
    """A vector r of Lanczos' process, not normalised; y = M r, A y, the norm β of r and α, y's share of A y over β²."""

    r: Array
    y: Array
    product: Array
    beta: float
    alpha: float


def _expand(A: Any, apply: Callable[[Array], Array], r: Array, shift: float, *besides: Array) -> LanczosVector:
    """Compute a vector of Lanczos' process and what is asked for besides, in two supersteps."""
    y = apply(r)
    product = A @ y - shift * y if shift else A @ y
    sums = dot(r, y), dot(y, product)
    ba.persist(r, y, product, *sums, *besides)
    square, along = reals(*sums)
    if square < 0:
        raise ArrayError(f"minres: rᴴ M r = {square:.3g}: M is not positive definite")
    return LanczosVector(r, y, product, norm_of(square), along / square if square else 0.0)


def _next(last: LanczosVector | None, newest: LanczosVector) -> Array:
    """Return the next r of Lanczos' process, zeros after a β of 0.  Lazy."""
    inverse = 1.0 / newest.beta if newest.beta else 0.0
    found = newest.product * inverse - (newest.alpha * inverse) * newest.r
    return found if last is None else found - (newest.beta / last.beta) * last.r


class _Turn(NamedTuple):
    """One rotation's contribution to x: x grows by step · (v - delta·w - epsilon·w before) / gamma.

    least : norm(A r) / (norm(A) · norm(r)) of the residual r before the step.
    """

    step: float
    gamma: float
    delta: float
    epsilon: float
    least: float


def _rotated(state: bsp.State, alpha: float, beta: float, following: float) -> _Turn:
    """Reduce the next column of Lanczos' matrix to triangular form (Paige and Saunders, section 5)."""
    delta = state.cs * state.dbar + state.sn * alpha
    gbar = state.sn * state.dbar - state.cs * alpha
    epsilon = state.epsilon
    state.epsilon, state.dbar = state.sn * following, -state.cs * following
    state.size = math.hypot(state.size, alpha, beta, following)
    least = math.hypot(gbar, state.dbar) / state.size if state.size else 0.0
    gamma = max(float(np.hypot(gbar, following)), float(np.finfo(float).tiny))
    state.cs, state.sn = gbar / gamma, following / gamma
    step = state.cs * state.phi
    state.phi *= state.sn
    return _Turn(step, gamma, delta, epsilon, least)
