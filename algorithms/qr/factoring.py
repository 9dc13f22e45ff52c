"""QR factorisation by the method that A's shape, the machine, and the condition of R decide."""

from __future__ import annotations

from typing import Any, NoReturn

import numpy as np
from numpy.linalg import LinAlgError

from bsp import arrays as ba
from bsp.algorithms.qr import methods
from bsp.algorithms.qr.pricing import METHODS, of_factored, of_nothing, tries_gram
from bsp.arrays import linalg
from bsp.arrays.linalg import householder, row_blocks
from bsp.arrays.linalg.row_blocks import Factors, RowBlocks
from bsp.arrays.procedures import Array, DType, array_of, everywhere, leaf, node_of, procedure, replicated, world, wrap
from bsp.arrays.typing import ArrayLike
from bsp.declared import declares
from bsp.errors import ShapeError

__all__ = ["QR", "qr"]


class QR(tuple[Array, Array]):
    """The pair (Q, R), with the method that made it.

    method : "direct", "indirect", "cholesky", "cholesky2" or "columns".  reason : a sentence that says why.
    condition : σ₁/σₙ of R, and so of A; nan in a run without values, and for "columns", where R is dealt.
    """

    method: str
    reason: str
    condition: float

    def __new__(cls, q: Array, r: Array, method: str, reason: str, condition: float) -> QR:
        """Return the pair (q, r) with the attributes above."""
        found = super().__new__(cls, (q, r))
        found.method, found.reason, found.condition = method, reason, condition
        return found

    def __getnewargs__(self) -> tuple[Any, ...]:
        return (*self, self.method, self.reason, self.condition)


@procedure
def qr(A: ArrayLike, method: str = "auto") -> QR:
    """Factor A = Q·R: Q has orthonormal columns, R is upper triangular with a real diagonal >= 0.  Collective.

    A : (m, n), an array or what asarray takes; integers become float64.
    method : "direct", "indirect", "cholesky", "cholesky2": see `methods`; each is exact, or LinAlgError.
        "columns": reflections by block columns, for what is not tall: see `householder.householder`.
        "auto": for tall A the cheapest that leaves ‖QᴴQ - I‖ near machine precision.  Where AᴴA costs little beside
        direct (see `pricing.tries_gram`), A's condition is read from its Cholesky factor: up to 2, that is R.  Up to
        0.1/√(n·eps), cholesky2; above, the condition is read from R by a tree.
        With R there, indirect takes 4(m/p)n² flops more, direct 6(m/p)n² and twice the memory: so indirect up to
        0.1/(n·eps), then direct.  A is tall if every process has n rows or more, or n² <= REPLICATED_SIZE.
    Returns Q (m, k), dealt like A's rows, and R (k, n) on every process, k = min(m, n); "columns" leaves both by
        columns.  Of a wide A the first m columns are factored, and R's others are Qᴴ·A.
    Cost: `cost(m, n, p, method, machine)`.  A that is not by rows is brought so: one total exchange, mn/p words.
        A that every process has is factored by every process: no words.
    Raises LinAlgError, on every process, for NaN or infinity in A, and if a method that was asked for cannot do it.
    """
    if method not in ("auto", "columns", *METHODS):
        raise ValueError(f"qr: method={method!r} is none of auto, {', '.join(METHODS)}, columns")
    a = matrix(A, "qr")
    m, n = a.shape
    if m < n:
        return _wide(a, method)
    if method == "columns" or (method == "auto" and not row_blocks.is_tall(a)):
        q, r = householder.householder(a, a.dtype, True) if a.size else linalg.qr(a)
        assert q is not None
        _check_array(r, "qr")
        why = "it was asked for" if method == "columns" else f"{m} x {n} is not tall on {world().nprocs} processes"
        reason = f"columns: {why}"
        return QR(q, r, "columns", reason, np.nan)
    rows = rows_of(a)
    found, taken, reason, kappa = factored(rows, a.dtype, method, "qr")
    assert found.q is not None
    return QR(row_blocks.to_array(found.q, a.dtype), on_all(found.r), taken, reason, kappa)


@declares(of_factored)
def factored(rows: RowBlocks, dtype: DType, method: str, name: str) -> tuple[Factors, str, str, float]:
    """Return Q and R, the method that was taken, why, and the condition."""
    if method == "auto":
        return _auto(rows, dtype, name)
    asked = f"{method}: it was asked for"
    if method == "direct":
        found = methods.direct(rows, dtype)
        check(found.r, rows, name)
        return found, method, asked, methods.condition(found.r)
    if method == "indirect":
        r = methods.r_only(rows, dtype)
        check(r, rows, name)
        made = methods.indirect(rows, r, dtype)
    else:
        r = methods.gram_factor(rows, dtype)
        make = methods.cholesky if method == "cholesky" else methods.cholesky2
        made = None if r is None else make(rows, r, dtype)
    if made is None:
        _refuse(rows, dtype, method, name)
    return made, method, asked, methods.condition(made.r)


def _auto(rows: RowBlocks, dtype: DType, name: str) -> tuple[Factors, str, str, float]:
    """Factor by the cheapest method that leaves Q orthogonal."""
    here = world()
    m, n = rows.layout.shape
    p = 1 if rows.layout.replicated else here.nprocs
    if not tries_gram(m, n, p, here.machine, dtype.itemsize):
        reason = f"direct: {m} x {n} on {p} processes is so small that reflections are cheapest, whatever the condition"
        return _by_reflections(rows, dtype, name, reason)
    r = methods.gram_factor(rows, dtype)
    limit = methods.cholesky_limit(n, dtype)
    kappa = np.inf if r is None else methods.condition(r, scaled=True)
    if not kappa > limit:
        made = methods.cholesky(rows, r, dtype)
        if made is not None:
            reason = (
                f"cholesky: with its columns scaled to length 1 A has condition {kappa:.1e}, at most {methods.NEAR:g}, "
                "so one pass leaves Q orthogonal"
            )
            return made, "cholesky", reason, methods.condition(made.r)
        made = methods.cholesky2(rows, r, dtype)
        if made is not None:
            reason = (
                f"cholesky2: with its columns scaled to length 1 A has condition {kappa:.1e}, at most {limit:.1e}, "
                "so AᴴA tells all of it"
            )
            return made, "cholesky2", reason, methods.condition(made.r)
        del made
    r = methods.r_only(rows, dtype)
    check(r, rows, name)
    kappa = methods.condition(r, scaled=True)
    sharp = methods.indirect_limit(n, dtype)
    said = f"with its columns scaled to length 1 A has condition {kappa:.1e}"
    if not kappa > sharp:
        made = methods.indirect(rows, r, dtype)
        if made is not None:
            beyond = f"too much for AᴴA (limit {limit:.1e})" if kappa > limit else "but AᴴA leaves the range of numbers"
            reason = f"indirect: {said}, {beyond}, at most {sharp:.1e}, so A·R⁻¹ is near to orthogonal and refined once"
            return made, "indirect", reason, methods.condition(made.r)
        del made
    beyond = f"too much for A·R⁻¹ (limit {sharp:.1e})" if kappa > sharp else "but A·R⁻¹ is not near to orthogonal"
    reason = f"direct: {said}, {beyond}, so reflections make Q"
    return _by_reflections(rows, dtype, name, reason)


def _by_reflections(rows: RowBlocks, dtype: DType, name: str, reason: str) -> tuple[Factors, str, str, float]:
    """Factor by the direct method."""
    found = methods.direct(rows, dtype)
    check(found.r, rows, name)
    return found, "direct", reason, methods.condition(found.r)


def _refuse(rows: RowBlocks, dtype: DType, method: str, name: str) -> NoReturn:
    """Raise LinAlgError with A's condition, for which R is computed by a tree."""
    r = methods.r_only(rows, dtype)
    check(r, rows, name)
    n = rows.layout.shape[1]
    limit = {
        "cholesky": methods.NEAR, "cholesky2": methods.cholesky_limit(n, dtype),
        "indirect": methods.indirect_limit(n, dtype),
    }[method]  # fmt: skip
    kappa = methods.condition(r, scaled=True)
    why = f"about {limit:.1e} is the most for {n} columns of {dtype};"
    if not kappa > limit:  # not too much; then it is the numbers themselves, as in `_auto`
        far = "A·R⁻¹ is not near to orthogonal" if method == "indirect" else "AᴴA leaves the range of numbers"
        why = f"that is not too much, but {far}: divide A by its largest element, or"
    raise LinAlgError(
        f"{name}: method={method!r} cannot make Q orthogonal: with its columns scaled to length 1 A has condition "
        f"{kappa:.1e}; {why} take method='auto' or 'direct'"
    )


def _wide(a: Array, method: str) -> QR:
    """Factor a wide matrix: the first m columns; the other columns of R are Qᴴ times A's."""
    m = a.shape[0]
    found = qr(a[:, :m], method)
    q, r = found
    turned = ba.matrix_transpose(q)
    turned = ba.conj(turned) if a.dtype.kind == "c" else turned
    whole: Array = ba.concat([r, ba.matmul(turned, a[:, m:])], axis=1)
    if found.method != "columns":
        whole = wrap(everywhere(node_of(whole)))
    whole = whole.persist()
    _check_array(whole, "qr")
    return QR(q, whole, found.method, f"{found.reason}; of the first {m} columns", found.condition)


# ------------------------------------------------------------------------ what comes in and goes out


def matrix(given: Any, name: str, what: str = "A") -> Array:
    """Return the argument as an array of two dimensions whose dtype LAPACK has.  Raises ShapeError or TypeError."""
    a = array_of(given)
    if a.ndim != 2:
        raise ShapeError(f"{name}: {what} of 2 dimensions, (m, n), not of shape {a.shape}")
    if a.dtype.kind in "iub":
        return a.astype(np.float64)
    if a.dtype.char not in "fdFD":
        raise TypeError(f"{name}: {what} of float32, float64, complex64 or complex128, not {a.dtype}")
    return a if a.dtype.isnative else a.astype(a.dtype.newbyteorder("="))  # BLAS and LAPACK write into such blocks


def rows_of(a: Array) -> RowBlocks:
    """Return A in blocks of whole rows; as it is where every process has all of it."""
    layout = a.layout
    if layout.replicated and layout.blocks == 1:
        return RowBlocks(layout, row_blocks.settled(a, layout))
    return row_blocks.by_rows(a)


def on_all(values: Any) -> Array:
    """Return an array of values that every process has, replicated however large it is."""
    layout = replicated(values.shape)
    return wrap(leaf(values.shape, values.dtype, layout, dict.fromkeys(layout.mine(0), values)))


@declares(of_nothing)
def check(r: Any, rows: RowBlocks, name: str, what: str = "A") -> None:
    """Raise LinAlgError on every process if R shows NaN or infinity in A; one superstep more finds where."""
    here = world()
    if np.isfinite(r).all():
        return
    first = ""
    for at in sorted(rows.blocks):
        wrong = np.argwhere(~np.isfinite(rows.blocks[at]))
        if len(wrong) and not first:
            i, j = (int(each) for each in wrong[0])
            row, column = i + rows.layout.box(at)[0][0], j + rows.layout.box(at)[1][0]
            first = f"{what}[{row}, {column}] is {rows.blocks[at][i, j]} (on process {here.pid})"
    everywhere = [first] if rows.layout.replicated else here.private.allgather(first)
    told = [text for text in everywhere if text]
    if told:
        raise LinAlgError(f"{name}: {told[0]}; all elements must be finite: fill or drop such rows")
    raise LinAlgError(f"{name}: the norms of the columns overflow: divide {what} by its largest element")


def _check_array(r: Array, name: str) -> None:
    """Raise LinAlgError if R, a dealt array, shows that A has NaN or infinity.  Collective."""
    _check_finite(ba.isfinite(r).all().compute(), name)


@declares(of_nothing)
def _check_finite(finite: Any, name: str) -> None:
    """Raise LinAlgError if not all elements were finite."""
    if not finite:
        raise LinAlgError(f"{name}: A has NaN or infinity, or its norms overflow: all elements must be finite")
