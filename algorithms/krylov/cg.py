"""The method of conjugate gradients for symmetric positive definite systems: two supersteps an iteration, or one.

Hestenes and Stiefel's iteration has three points at which processes wait: the product, and two dot products that
depend on each other.  Chronopoulos and Gear (1989) get both dot products from vectors that are known at once, so that
an iteration is the product's superstep and one for the sums.  Ghysels and Vanroose (2014) multiply while the sums are
under way: one superstep, for three more vectors to be carried along, and residuals that drift a little more.

Cost of an iteration: W = 2 nnz/p + 12 n/p (pipelined 20 n/p); H = the far columns of A and 3 (p - 1) words;
S = 2 (pipelined 1).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import bsp
import bsp.arrays as ba
from bsp.algorithms.krylov.operators import preconditioner, square
from bsp.arrays import Array
from bsp.arrays.procedures import known, node_of, world

_MORE = 8.0  # operations for each row that the pipelined iteration has more than the other one


def cg(
    A: Any, b: Any, x0: Any = None, *, rtol: float = 1e-5, atol: float = 0.0, maxiter: int | None = None, M: Any = None,
    callback: Callable[[Array], Any] | None = None, variant: str = "auto",
) -> tuple[Array, int]:  # fmt: skip
    """Solve A x = b for a symmetric (or Hermitian) positive definite A; return x and 0, or the iterations done.

    A : a sparse or dense array of shape (n, n), or any object with `shape` and `@`.
    M : approximates A⁻¹, such as `jacobi(A)`; symmetric and positive definite too.
    rtol, atol : x is good when the norm of b - A x is at most max(rtol · norm(b), atol).
    maxiter : iterations at most; 10 n by default.
    callback : called with x after each iteration.
    variant : "classic" (two supersteps an iteration), "pipelined" (one), or "auto", the cheaper one on this machine.
    The second result is 0 if x is good, as in scipy.  Collective; the iterations are `proc.rounds`, so clones and
    checkpoints keep them running.  A run without values makes `maxiter` iterations.
    """
    A, b = square(A, b, "cg")
    if variant not in ("auto", "classic", "pipelined"):
        raise ValueError(f"cg(variant={variant!r}): auto, classic or pipelined")
    here, n = world(), A.shape[0]
    if variant == "auto":
        variant = "pipelined" if _MORE * n / here.nprocs < here.machine.L else "classic"
    apply = preconditioner(M)
    if here.abstract and maxiter is None:
        raise ValueError("cg in a run without values: maxiter is the number of iterations to price; give it")
    steps = 10 * n if maxiter is None else int(maxiter)
    x = ba.zeros(n, np.result_type(b.dtype, float)) if x0 is None else ba.asarray(x0) + 0.0
    r = b - A @ x if x0 is not None else b + 0 * x
    bb = dot(b, b)
    state = bsp.State(x=x, r=r, done=0, good=False)
    begin, advance = (_classic, _step) if variant == "classic" else (_pipelined, _step_pipelined)
    begin(A, apply, state, bb)
    (square_of_b,) = _numbers(bb)
    limit = -1.0 if here.abstract else max(rtol * float(np.sqrt(abs(square_of_b))), atol)
    state.good = bool(np.sqrt(state.rr) <= limit)
    for _ in here.proc.rounds(0 if state.good else steps, state):
        advance(A, apply, state)
        state.done += 1
        if callback is not None:
            callback(state.x)
        if np.sqrt(state.rr) <= limit:
            state.good = True
            break
    return state.x, 0 if state.good else state.done


def dot(u: Array, v: Array) -> Array:
    """Return the inner product of two vectors, conjugating the first.  Lazy."""
    return (u.conj() if u.dtype.kind == "c" else u) @ v


def _numbers(*sums: Array) -> list[Any]:
    """Return sums that have been computed as numbers, without a superstep; any numbers in a run without values.

    Complex ones must be real up to rounding, so these are their real parts.
    """
    if world().abstract:
        return [1.0] * len(sums)
    found = [known(node_of(each)) for each in sums]
    return [(each if own is None else own).item().real for each, own in zip(sums, found, strict=True)]


def _classic(A: Any, apply: Callable[[Array], Array], state: bsp.State, *besides: Array) -> None:
    """Compute the first direction, and what is asked for besides."""
    u = apply(state.r)
    w = A @ u
    sums = dot(state.r, u), dot(w, u), dot(state.r, state.r)
    ba.persist(state.x, state.r, u, w, *sums, *besides)
    state.u, state.w = u, w
    state.gamma, state.delta, state.rr = _numbers(*sums)
    state.p = state.s = None
    state.alpha = state.beta = 0.0


def _scalars(state: bsp.State) -> tuple[float, float]:
    """Return α and β of the next step; any numbers in a run without values."""
    if world().abstract:
        return 1.0, 1.0
    if state.p is None:
        return state.gamma / state.delta if state.delta else 0.0, 0.0
    beta = state.gamma / state.before
    return state.gamma / (state.delta - beta * state.gamma / state.alpha), beta


def _step(A: Any, apply: Callable[[Array], Array], state: bsp.State) -> None:
    alpha, beta = _scalars(state)
    p = state.u if state.p is None else state.u + beta * state.p
    s = state.w if state.s is None else state.w + beta * state.s
    x, r = state.x + alpha * p, state.r - alpha * s
    u = apply(r)
    w = A @ u
    sums = dot(r, u), dot(w, u), dot(r, r)
    ba.persist(x, r, u, w, p, s, *sums)
    state.x, state.r, state.u, state.w, state.p, state.s = x, r, u, w, p, s
    state.before, state.alpha = state.gamma, alpha
    state.gamma, state.delta, state.rr = _numbers(*sums)


def _pipelined(A: Any, apply: Callable[[Array], Array], state: bsp.State, *besides: Array) -> None:
    """Compute what the first step of the pipelined iteration starts from."""
    u = apply(state.r)
    w = A @ u
    ba.persist(state.x, state.r, u, w, *besides)
    m = apply(w)
    n = A @ m
    sums = dot(state.r, u), dot(w, u), dot(state.r, state.r)
    ba.persist(m, n, *sums)
    state.u, state.w, state.m, state.n = u, w, m, n
    state.gamma, state.delta, state.rr = _numbers(*sums)
    state.p = state.s = state.q = state.z = None
    state.alpha = 0.0


def _step_pipelined(A: Any, apply: Callable[[Array], Array], state: bsp.State) -> None:
    alpha, beta = _scalars(state)
    first = state.p is None
    z = state.n if first else state.n + beta * state.z
    q = state.m if first else state.m + beta * state.q
    s = state.w if first else state.w + beta * state.s
    p = state.u if first else state.u + beta * state.p
    x, r = state.x + alpha * p, state.r - alpha * s
    u, w = state.u - alpha * q, state.w - alpha * z
    m = apply(w)
    n = A @ m
    sums = dot(r, u), dot(w, u), dot(r, r)
    ba.persist(x, r, u, w, p, s, q, z, m, n, *sums)
    state.x, state.r, state.u, state.w, state.m, state.n = x, r, u, w, m, n
    state.p, state.s, state.q, state.z = p, s, q, z
    state.before, state.alpha = state.gamma, alpha
    state.gamma, state.delta, state.rr = _numbers(*sums)
