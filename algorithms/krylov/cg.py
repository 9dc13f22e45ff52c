"""The method of conjugate gradients for symmetric positive definite systems: three supersteps an iteration, two or one.

Hestenes and Stiefel's iteration (1952) has three points at which processes wait: the product, and two dot products that
depend on each other.  It has the fewest operations, and is the cheapest where vectors are long.  Chronopoulos and Gear
(1989) get both dot products from vectors that are known at once, so that an iteration is the product's superstep and
one for the sums; one vector more is carried along.  Ghysels and Vanroose (2014) multiply while the sums are
under way: one superstep, for three more vectors to be carried along, and residuals that drift more.  So r and the
products with the last direction are computed anew, in a few supersteps, when the residual seems to be good, and
pipelined also when it has fallen by half of the digits (Sleijpen and van der Vorst, 1996; Cools and others, 2018).

A step gives the state its new vectors before they are computed: nothing else then refers to the old ones, whose memory
they take.

Cost of an iteration: W = 2 nnz/p + 12 n/p (standard 10 n/p, pipelined 16 n/p, with a preconditioner 20 n/p); H = the
far columns of A and 3 (p - 1) words, without a preconditioner 2 (p - 1); S = 2 (standard 3, pipelined 1).
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
    identity,
    in_unit,
    limit_of,
    norm_of,
    preconditioner,
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

_FRESH = 7.0  # times the root of the precision: a norm that has fallen to this part; half of the digits are left
_MORE, _MORE_PLAIN = 8.0, 4.0  # operations for each row that a pipelined iteration has more, with M and without
_FEWER = 2.0  # operations for each row that a standard iteration has fewer


def cg(
    A: Matrix, b: ArrayLike, x0: ArrayLike | None = None, *, rtol: float = 1e-5, atol: float = 0.0,
    maxiter: int | None = None, M: Preconditioner | None = None, callback: Callable[[Array], Any] | None = None,
    variant: str = "auto",
) -> tuple[Array, Info]:  # fmt: skip
    """Solve A x = b for a symmetric (or Hermitian) positive definite A; return x and 0.

    A : a sparse or dense array of shape (n, n), or any object with `shape` and `@`.
    M : approximates A⁻¹, such as `jacobi(A)`; symmetric and positive definite too.
    rtol, atol : x is good when the norm of b - A x is at most max(rtol · norm(b), atol).
    maxiter : iterations at most; 10 n by default.
    callback : called with x after each iteration.  What it keeps is lost with a process that is made again.
    variant : "standard" (three supersteps an iteration), "classic" (two), "pipelined" (one), or "auto", the cheapest on
        this machine.
    The second result is 0 if x is good, else the iterations done, as in scipy; -1 if none could be done.  Its
    `iterations` are those done in any case.
    Cost of an iteration, without preconditioner: W = 2 nnz/p + 12 n/p; H = the far columns of A and 2 (p - 1) words,
    with `M` 3 (p - 1); S = 2, of "standard" 3, of "pipelined" 1.
    Collective; the iterations are `proc.rounds`, so clones and checkpoints keep them running.  A run without values
    makes `maxiter` iterations.
    """
    matrix, right = square(A, b, "cg")
    if variant not in ("auto", *_VARIANTS):
        raise ValueError(f"cg(variant={variant!r}): one of auto, {', '.join(_VARIANTS)}")
    here, n = world(), matrix.shape[0]
    apply = preconditioner(M)
    limit_of(0.0, maxiter, "cg")
    if variant == "auto":
        more = _MORE_PLAIN if apply is identity else _MORE
        # the operations for each row that a superstep is worth
        worth = here.machine.L * here.nprocs / max(n, 1) if here.nprocs > 1 else 0.0
        variant = "pipelined" if worth > more else "classic" if worth > _FEWER else "standard"
    steps = 10 * n if maxiter is None else int(maxiter)
    right, x, r = start(matrix, right, x0)
    bb = dot(right, right)
    state = bsp.State(x=x, r=r, p=None, done=0, good=False)
    begin, advance = _VARIANTS[variant]
    with np.errstate(over="ignore", invalid="ignore"):
        begin(matrix, apply, state, right, bb)
    if (unit := unit_of(right, *reals(bb))) is not None:
        return solved_in_unit(
            unit, cg, matrix, right, x0, rtol=rtol, atol=atol * float(unit), maxiter=maxiter, M=apply,
            callback=in_unit(callback, unit), variant=variant,
        )  # fmt: skip
    limit = limit_of(max(rtol * norm_of(*reals(bb)), atol), maxiter, "cg", rtol, atol)
    state.fresh = norm_of(state.rr)  # the norm when r was computed from x last
    state.good = state.fresh <= limit
    fallen = _FRESH * float(np.sqrt(np.finfo(x.dtype).eps))
    for _ in here.proc.rounds(0 if state.good or not np.isfinite(state.fresh) else steps, state):
        if not advance(matrix, apply, state):
            break  # A or M is not definite, has a NaN, or numbers of too many sizes
        state.done += 1
        if callback is not None:
            callback(state.x)
        norm, before = norm_of(state.rr), state.fresh
        if norm <= limit or (variant == "pipelined" and norm <= fallen * before):
            replace(matrix, right, state)
            begin(matrix, apply, state)
            state.fresh = norm_of(state.rr)
            state.good = state.fresh <= limit
            if state.good or (norm <= limit and not state.fresh < 0.5 * before):
                break
            if state.fresh > 2 * norm:
                state.p = None  # the last direction no longer fits: begin without it
    return state.x, Info.of(state.good, state.done)


def _step_ratio(state: bsp.State) -> float:
    """Return β of the next step: how much of the last direction goes on; any number in a run without values."""
    return 1.0 if world().abstract else state.gamma / state.before if state.p is not None else 0.0


def _moves(alpha: float) -> bool:
    """Return whether a step can be done, and changes x."""
    return bool(np.isfinite(alpha)) and alpha != 0


def _scalars(state: bsp.State) -> tuple[float, float]:
    """Return α and β of the next step, any numbers in a run without values; α is not finite if there is none."""
    if world().abstract:
        return 1.0, 1.0
    beta = _step_ratio(state)
    curvature = state.delta - (beta * state.gamma / state.alpha if beta else 0.0)
    return state.gamma / curvature if curvature else np.nan, beta


def _standard(A: Any, apply: Callable[[Array], Array], state: bsp.State, *besides: Array) -> None:
    """Compute what a standard step needs from x's residual r, and what is asked for besides."""
    u = apply(state.r)
    sums = dot(state.r, u), dot(state.r, state.r)
    ba.persist(state.x, state.r, u, *sums, *besides)
    state.u = u
    state.gamma, state.rr = reals(*sums)


def _step_standard(A: Any, apply: Callable[[Array], Array], state: bsp.State) -> bool:
    state.p = _next(state.u, _step_ratio(state), state.p)
    w = A @ state.p
    bent = dot(state.p, w)
    ba.persist(state.p, w, bent)
    (curvature,) = reals(bent)
    alpha = state.gamma / curvature if curvature else np.nan
    if not _moves(alpha):
        return False
    state.x, state.r = state.x + alpha * state.p, state.r - alpha * w
    state.u = apply(state.r)
    sums = dot(state.r, state.u), dot(state.r, state.r)
    ba.persist(state.x, state.r, state.u, *sums)
    state.before = state.gamma
    state.gamma, state.rr = reals(*sums)
    return True


def _classic(A: Any, apply: Callable[[Array], Array], state: bsp.State, *besides: Array) -> None:
    """Compute what a step needs from x's residual r and the last direction p, and what is asked for besides."""
    u = apply(state.r)
    w = A @ u
    s = None if state.p is None else A @ state.p
    sums = dot(state.r, u), dot(w, u), dot(state.r, state.r)
    ba.persist(state.x, state.r, u, w, *_there(s), *sums, *besides)
    state.u, state.w, state.s = u, w, s
    state.gamma, state.delta, state.rr = reals(*sums)


def _step_classic(A: Any, apply: Callable[[Array], Array], state: bsp.State) -> bool:
    alpha, beta = _scalars(state)
    if not _moves(alpha):
        return False
    state.p, state.s = _next(state.u, beta, state.p), _next(state.w, beta, state.s)
    state.x, state.r = state.x + alpha * state.p, state.r - alpha * state.s
    state.u = apply(state.r)
    state.w = A @ state.u
    sums = dot(state.r, state.u), dot(state.w, state.u), dot(state.r, state.r)
    ba.persist(state.x, state.r, state.u, state.w, state.p, state.s, *sums)
    state.before, state.alpha = state.gamma, alpha
    state.gamma, state.delta, state.rr = reals(*sums)
    return True


def _next(u: Array, beta: float, before: Array | None) -> Array:
    """Return u + β · the vector of the step before, if there was one."""
    return u if before is None or not beta else u + beta * before


def _there(*vectors: Array | None) -> list[Array]:
    """Return the vectors that there are."""
    return [each for each in vectors if each is not None]


def _pipelined(A: Any, apply: Callable[[Array], Array], state: bsp.State, *besides: Array) -> None:
    """Compute what a pipelined step needs, as `_classic` does for the other one."""
    u = apply(state.r)
    w = A @ u
    s = None if state.p is None else A @ state.p
    ba.persist(state.x, state.r, u, w, *_there(s), *besides)
    m = apply(w)
    n = A @ m
    q = None if s is None else apply(s)
    z = None if q is None else A @ q
    sums = dot(state.r, u), dot(w, u), dot(state.r, state.r)
    ba.persist(m, n, *_there(q, z), *sums)
    state.u, state.w, state.m, state.n, state.s, state.q, state.z = u, w, m, n, s, q, z
    state.gamma, state.delta, state.rr = reals(*sums)


def _step_pipelined(A: Any, apply: Callable[[Array], Array], state: bsp.State) -> bool:
    alpha, beta = _scalars(state)
    if not _moves(alpha):
        return False
    plain = apply is identity
    state.z, state.s = _next(state.n, beta, state.z), _next(state.w, beta, state.s)
    state.p = _next(state.u, beta, state.p)
    state.q = state.s if plain else _next(state.m, beta, state.q)
    state.x, state.r = state.x + alpha * state.p, state.r - alpha * state.s
    state.u = state.r if plain else state.u - alpha * state.q
    state.w = state.w - alpha * state.z
    state.m = apply(state.w)
    state.n = A @ state.m
    sums = dot(state.r, state.u), dot(state.w, state.u), dot(state.r, state.r)
    ba.persist(
        state.x, state.r, state.u, state.w, state.p, state.s, state.q, state.z, state.m, state.n, *sums
    )  # fmt: skip
    state.before, state.alpha = state.gamma, alpha
    state.gamma, state.delta, state.rr = reals(*sums)
    return True


# by name: what a step needs at first, and a step, which returns False if there is none
_VARIANTS = {
    "standard": (_standard, _step_standard),
    "classic": (_classic, _step_classic),
    "pipelined": (_pipelined, _step_pipelined),
}
