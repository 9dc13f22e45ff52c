"""Least squares by bidiagonalisation, for rectangular matrices: two supersteps an iteration.

Golub and Kahan's process multiplies by A and by its conjugate transpose in turn.  Vectors are divided by their norms
after the product instead of before it, so that each norm's sum goes along with the next product's words: an iteration
waits for one exchange of far columns, and for one of contributions to them.

Cost of an iteration: W = 4 nnz/p + 8 m/p + 14 n/p for A of shape (m, n); H = the far columns of A twice, once to their
readers and once back, and 4 (p - 1) words; S = 2.

Source: Paige and Saunders, LSQR (ACM Trans. Math. Softw. 8, 1982): sections 4 and 5, and 6 for the stopping rules.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

import bsp
import bsp.arrays as ba
from bsp.algorithms.krylov.operators import (
    LinearOperator,
    Matrix,
    adjoint,
    dot,
    limit_of,
    norm_of,
    operator,
    placed,
    ratio,
    reals,
    unit_of,
)
from bsp.arrays import Array, ArrayError
from bsp.arrays.procedures import world
from bsp.arrays.typing import ArrayLike


class LSQRResult(NamedTuple):
    """Results of lsqr, in the order in which scipy's returns them.

    istop : why it stopped: 0 x is x0, 1 A x = b holds, 2 least squares, 3 the condition is beyond conlim, 4 to 6 the
        same to rounding, 7 iter_lim.
    r1norm, r2norm : norms of b - A x, and of that with damp · (x - x0).  arnorm : of Aᴴ (b - A x) - damp² · (x - x0).
    anorm, acond : estimates of the Frobenius norm of A (with damp) and of its condition.  xnorm : the norm of x - x0.
    var : estimates of the diagonal of (Aᴴ A + damp²)⁻¹ with calc_var, else None.
    """

    x: Array
    istop: int
    itn: int
    r1norm: float
    r2norm: float
    anorm: float
    acond: float
    arnorm: float
    xnorm: float
    var: Array | None


def lsqr(
    A: Matrix, b: ArrayLike, damp: float = 0.0, atol: float = 1e-6, btol: float = 1e-6, conlim: float = 1e8,
    iter_lim: int | None = None, show: bool = False, calc_var: bool = False, x0: ArrayLike | None = None,
) -> LSQRResult:  # fmt: skip
    """Return the x that makes norm(b - A x)² + damp² · norm(x - x0)² least, with how good it is, as scipy does.

    A : a sparse or dense array of shape (m, n), or an object with `shape`, `@` and `T`, the conjugate transpose.
    atol, btol : stops when norm(r) is at most btol · norm(b) + atol · norm(A) · norm(x), or
        norm(Aᴴ r) at most atol · norm(A) · norm(r).
    conlim : stops when the condition of A seems to be beyond it; 0: never.
    iter_lim : iterations at most; 2 n by default.
    show : process 0 prints a line for each iteration.
    Cost of an iteration, A of shape (m, n): W = 4 nnz/p + 8 m/p + 14 n/p; H = twice the far columns of A and 4 (p - 1)
    words; S = 2.
    Collective; the iterations are `proc.rounds`.  A run without values makes `iter_lim` of them.
    Raises ValueError if atol or btol is negative or NaN.
    """
    matrix, given = operator(A, "lsqr"), ba.asarray(b)
    if given.ndim != 1 or given.shape[0] != matrix.shape[0]:
        raise ArrayError(f"lsqr: A of shape {matrix.shape} and b of shape {given.shape} do not fit")
    back = adjoint(matrix)
    n = matrix.shape[1]
    first = back @ given
    dtype = first.dtype if first.dtype.kind in "fc" else np.dtype(float)
    x = ba.zeros(n, dtype) if x0 is None else ba.asarray(x0).astype(dtype)
    if x.shape != (n,):
        raise ArrayError(f"lsqr: x0 of shape {x.shape} for A of shape {matrix.shape}")
    x = placed(x, first.layout)
    given = placed(given.astype(dtype), (matrix @ x).layout)
    u = given if x0 is None else given - matrix @ x
    bb, square = dot(given, given), dot(u, u)
    v = (back @ u) * ratio(1.0, ba.sqrt(square.real))
    with np.errstate(over="ignore", invalid="ignore"):
        vv = dot(v, v)
        ba.persist(x, u, v, bb, square, vv)
    judged = limit_of(0.0, iter_lim, "lsqr", atol, btol) == 0.0
    if (unit := unit_of(given, *reals(bb))) is not None:
        return _in_unit(float(unit), lsqr(
            matrix, given * unit, damp, atol, btol, conlim, iter_lim, show, calc_var, None if x0 is None else x * unit
        ))  # fmt: skip
    if (unit := unit_of(v, *reals(vv))) is not None:
        return _of_scaled(float(unit), lsqr(
            _scaled(matrix, back, unit), given, damp * float(unit), atol, btol, conlim, iter_lim, show, calc_var,
            None if x0 is None else x / unit,
        ))  # fmt: skip
    bnorm, beta = (norm_of(each) for each in reals(bb, square))
    state = bsp.State(x=x, first=None if x0 is None else x, u=u, v=v, w=None, var=None, beta=beta, alpha=0.0, itn=0)
    if beta:
        _bidiagonal(matrix, back, state)
    state.istop, state.res2, state.ddnorm, state.anorm, state.theta, state.rho = 0, 0.0, 0.0, 0.0, 0.0, 1.0
    state.rhobar, state.phibar = state.alpha, beta
    found = _Norms(beta, beta, 0.0, 0.0, state.alpha * beta, 0.0)
    state.norms = found
    most = 2 * n if iter_lim is None else int(iter_lim)
    for _ in world().proc.rounds(most if found.arnorm else 0, state):
        state.itn += 1
        state.norms = found = _improved(matrix, back, state, damp, calc_var)
        state.istop = _reason(found, bnorm, atol, btol, conlim) if judged else 0
        state.istop = state.istop or (7 if state.itn >= most else 0)
        if show and world().proc.pid == 0:
            print(f"lsqr {state.itn:6d}  |r| {found.r1norm:.6e}  |Ar| {found.arnorm:.6e}  |x| {found.xnorm:.6e}")
        if state.istop:
            break
    var = (ba.zeros(n) if state.var is None else state.var) if calc_var else None
    r1norm, r2norm, anorm, acond, arnorm, xnorm = state.norms
    return LSQRResult(state.x, state.istop, state.itn, r1norm, r2norm, anorm, acond, arnorm, xnorm, var)


def _in_unit(unit: float, found: LSQRResult) -> LSQRResult:
    """Return the result of a problem from that of the one with b multiplied by a power of two."""
    r1norm, r2norm, arnorm, xnorm = (each / unit for each in (found.r1norm, found.r2norm, found.arnorm, found.xnorm))
    x = (found.x / unit).persist()
    return found._replace(x=x, r1norm=r1norm, r2norm=r2norm, arnorm=arnorm, xnorm=xnorm)


def _scaled(A: Any, back: Any, unit: Any) -> LinearOperator:
    """Return the product of an operator, whose conjugate transpose is `back`, with a power of two."""
    return LinearOperator(A.shape, lambda x: (A @ x) * unit, lambda x: (back @ x) * unit)


def _of_scaled(unit: float, found: LSQRResult) -> LSQRResult:
    """Return the result of a problem from that of the one with A multiplied by a power of two."""
    var = None if found.var is None else (found.var * unit * unit).persist()
    return found._replace(
        x=(found.x * unit).persist(), anorm=found.anorm / unit, arnorm=found.arnorm / unit, xnorm=found.xnorm * unit,
        var=var,
    )  # fmt: skip


class _Norms(NamedTuple):
    r1norm: float
    r2norm: float
    anorm: float
    acond: float
    arnorm: float
    xnorm: float


def _bidiagonal(A: Any, back: Any, state: bsp.State, *besides: Array) -> list[float]:
    """Replace u and v, whose norms are β and α, by the next ones; return the sums asked for besides.  S = 2.

    Besides: arrays to be computed in the same plan; those without axes are sums, the others are left where they are.
    """
    u, v = state.u, state.v
    square = dot(v, v)
    alpha = ba.sqrt(square.real)
    next_u = (A @ v) * ratio(1.0, alpha) - u * (alpha * (1.0 / state.beta) if state.beta else 0.0)
    following = dot(next_u, next_u)
    beta = ba.sqrt(following.real)
    next_v = (back @ next_u) * ratio(1.0, beta) - v * ratio(beta, alpha)
    ba.persist(next_u, next_v, square, following, *besides)
    state.before, state.u, state.v = v, next_u, next_v
    state.alpha, state.beta = (norm_of(each) for each in reals(square, following))
    return reals(*(each for each in besides if not each.ndim))


def _improved(A: Any, back: Any, state: bsp.State, damp: float, calc_var: bool) -> _Norms:
    """Take the next step of x; return the norms that belong to it (Paige and Saunders, sections 4.1 and 5)."""
    damped = float(np.hypot(state.rhobar, damp))
    turned, psi = state.rhobar / damped * state.phibar, damp / damped * state.phibar
    rho = float(np.hypot(damped, state.beta))
    cs, sn = damped / rho, state.beta / rho
    phi = cs * turned
    alpha, beta = state.alpha, state.beta
    w = state.before * (1.0 / alpha)
    if state.w is not None:
        w = w - (state.theta / state.rho) * state.w
    x = state.x + (phi / rho) * w
    moved = x if state.first is None else x - state.first
    besides = [w, x, dot(w, w), dot(moved, moved)]
    if calc_var:
        more = abs(w * (1.0 / rho)) ** 2
        state.var = more if state.var is None else state.var + more
        besides.append(state.var)
    ww, xx = _bidiagonal(A, back, state, *besides)
    state.x, state.w, state.rho = x, w, rho
    state.rhobar, state.theta, state.phibar = -cs * state.alpha, sn * state.alpha, sn * turned
    state.res2 += psi**2
    state.ddnorm += ww / rho**2
    anorm = state.anorm = float(np.sqrt(state.anorm**2 + alpha**2 + beta**2 + damp**2))
    r2norm = float(np.hypot(state.phibar, np.sqrt(state.res2)))
    r1norm = norm_of(r2norm**2 - damp**2 * xx) if damp else r2norm
    return _Norms(r1norm, r2norm, anorm, anorm * norm_of(state.ddnorm), abs(sn * phi) * state.alpha, norm_of(xx))


def _reason(found: _Norms, bnorm: float, atol: float, btol: float, conlim: float) -> int:
    """Return why to stop, as `LSQRResult.istop`, or 0 (Paige and Saunders, section 6)."""
    size = found.anorm * found.xnorm
    first = found.r2norm / (bnorm + size) if bnorm + size else 0.0
    second = found.arnorm / (found.anorm * found.r2norm) if found.anorm * found.r2norm else 0.0
    third = 1.0 / found.acond if found.acond else 1.0
    rules = (
        (1, found.r2norm <= btol * bnorm + atol * size), (2, second <= atol), (3, conlim > 0 and third <= 1.0 / conlim),
        (4, 1.0 + first <= 1.0), (5, 1.0 + second <= 1.0), (6, 1.0 + third <= 1.0),
    )  # fmt: skip
    return next((number for number, holds in rules if holds), 0)
