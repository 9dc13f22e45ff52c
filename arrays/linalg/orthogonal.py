"""QR and SVD, and what follows from them: rank, pseudo-inverse, least squares.  How they run: see `ways`.

Factors are unique, so they do not depend on the layout: R's diagonal is real and >= 0, and of each pair of singular
vectors the first entry at least half as large as the greatest is real and > 0.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal, NamedTuple, overload

import numpy as np
from numpy.linalg import LinAlgError

from bsp.arrays import build
from bsp.arrays.api import reductions, ufuncs
from bsp.arrays.api.contraction import matmul
from bsp.arrays.api.creation import asarray
from bsp.arrays.api.manipulation import concat, expand_dims
from bsp.arrays.array import Array, wrap
from bsp.arrays.execution.world import world
from bsp.arrays.gathering import decided
from bsp.arrays.linalg import factored, householder, row_blocks
from bsp.arrays.linalg.eigenpairs import leading
from bsp.arrays.linalg.ways import (
    adjoint,
    brought,
    everywhere,
    given,
    inexact,
    is_whole,
    matrix_of,
    once,
    stacks,
    values_of,
)
from bsp.arrays.procedures.forecast import procedure
from bsp.arrays.typing import ArrayLike

largest: Callable[..., Array] = reductions.max
total: Callable[..., Array] = reductions.sum
absolute: Callable[..., Array] = ufuncs.FUNCTIONS["absolute"]
_UFUNCS: dict[str, Callable[..., Array]] = ufuncs.FUNCTIONS


class QRResult(NamedTuple):
    """The result of `qr`: A = Q·R."""

    Q: Array
    R: Array


class SVDResult(NamedTuple):
    """The result of `svd`: A = U·diag(S)·Vh."""

    U: Array
    S: Array
    Vh: Array


# ------------------------------------------------------------------------------------ QR


@overload
def qr(x: ArrayLike, /, mode: Literal["reduced", "complete"] = "reduced") -> QRResult: ...
@overload
def qr(x: ArrayLike, /, mode: Literal["r"]) -> Array: ...
@procedure
def qr(x: ArrayLike, /, mode: Literal["reduced", "complete", "r"] = "reduced") -> Any:
    """Factor A = Q·R: Q with orthonormal columns, R upper triangular with a diagonal >= 0 (NumPy leaves its sign open).

    x : (..., m, n).  mode : "reduced": Q (..., m, k), R (..., k, n), k = min(m, n); "complete": Q (..., m, m);
        "r": R alone.
    Cost: tall: TSQR, 4(m/p)n² flops, one superstep of h = (p-1)n² words or log2 p of n² (see `tall`); Q is dealt like
    x.  Large: n/b panels, see `householder.householder`; Q and R are dealt by columns.  Wide: the QR of the first m
    columns, and Qᴴ times the rest.
    """
    if mode not in ("reduced", "complete", "r"):
        raise ValueError(f"qr: mode={mode!r} is none of 'reduced', 'complete', 'r'")
    a = matrix_of(x, "qr")
    m, n = a.shape[-2:]
    tall_or_wide = a.ndim > 2 or m < n or row_blocks.is_tall(a)
    whole = is_whole(a, np.inf if tall_or_wide else 4 * m * n * n - 4 * n**3 / 3)
    if a.ndim > 2 or whole:
        way: Any = _signed_qr_of("complete" if mode == "complete" else "reduced")
        found = everywhere(f"qr {mode}", way, a) if whole else stacks(way, [a], [2])
    elif mode == "complete" and m > n:
        values = brought(a, "qr", "mode='reduced' is distributed", m * m)
        found = once("qr complete", _signed_qr_of("complete"), values)
    else:
        found = _qr_dealt(a, mode != "r")
    return found[1] if mode == "r" else QRResult(*found)


def _signed_qr(found: Any) -> tuple[Any, Any]:
    q, r = found
    phase = row_blocks.phases(r)
    k = phase.shape[-1]
    if q.shape[-1] > k:  # mode "complete": the signs of the further columns are arbitrary
        more = np.ones((*phase.shape[:-1], q.shape[-1] - k), phase.dtype)
        phase = np.concatenate([phase, more], axis=-1)
    return q * phase[..., None, :], r * np.conj(phase)[..., :, None]


def _signed_qr_of(mode: Any) -> Callable[[Any], tuple[Any, Any]]:
    return lambda a: _signed_qr(np.linalg.qr(a, mode=mode))


def _qr_dealt(a: Array, want_q: bool) -> tuple[Any, Array]:
    m, n = a.shape
    if m < n:
        q, r = qr(a[:, :m])
        return q, concat([r, matmul(adjoint(q), a[:, m:])], axis=1).persist()
    if row_blocks.is_tall(a):
        rows, small = row_blocks.tsqr(row_blocks.by_rows(a), a.dtype, want_q)
        return None if rows is None else row_blocks.to_array(rows, a.dtype), given(small)
    return householder.householder(a, a.dtype, want_q)


# ----------------------------------------------------------------------------------- SVD


@overload
def svd(
    x: ArrayLike, /, full_matrices: bool = True, compute_uv: Literal[True] = True, hermitian: bool = False
) -> SVDResult: ...
@overload
def svd(
    x: ArrayLike, /, full_matrices: bool = True, *, compute_uv: Literal[False], hermitian: bool = False
) -> Array: ...
@procedure
def svd(x: ArrayLike, /, full_matrices: bool = True, compute_uv: bool = True, hermitian: bool = False) -> Any:
    """Factor A = U·diag(S)·Vh, singular values descending; without compute_uv return the singular values alone.

    Cost: tall: TSQR, then the SVD of R on every process (22n³ flops) and Q·U by rows, without further words; wide: the
    same of the transpose.  A large square matrix is brought to every process, and so is a tall one if full_matrices
    asks for a square U: pass full_matrices=False.
    """
    a = matrix_of(x, "svd", square=hermitian)
    if not compute_uv:
        return svdvals(a)
    m, n = a.shape[-2:]
    if is_whole(a):
        return SVDResult(*everywhere(f"svd {full_matrices}", lambda each: _svd_of(each, full_matrices), a))
    if a.ndim > 2:
        return SVDResult(*stacks(lambda each: _svd_of(each, full_matrices), [a], [2]))
    if full_matrices and m != n:
        values = brought(a, "svd with full_matrices=True", "pass full_matrices=False", max(m, n) ** 2)
        return SVDResult(*once("svd True", lambda each: _svd_of(each, True), values))
    if m < n and row_blocks.is_tall(a.T):
        u, s, vh = svd(adjoint(a), full_matrices=False)
        return SVDResult(adjoint(vh), s, adjoint(u))
    if not row_blocks.is_tall(a):
        values = brought(a, "svd", "singular values of a tall matrix are distributed")
        return SVDResult(*once("svd False", lambda each: _svd_of(each, False), values))
    u, s, vh = factored.svd_of(row_blocks.tsqr(row_blocks.by_rows(a), a.dtype), a.dtype)
    return SVDResult(u, given(s), given(vh))


def _svd_of(a: Any, full: bool) -> tuple[Any, Any, Any]:
    """Return NumPy's SVD with signs fixed by the smaller factor."""
    u, s, vh = np.linalg.svd(a, full_matrices=full)
    k = s.shape[-1]
    m, n = a.shape[-2:]
    small = np.conj(np.swapaxes(vh[..., :k, :], -1, -2)) if m >= n else u[..., :, :k]
    phase = leading(small)
    if u.shape[-1] == k and vh.shape[-2] == k:
        return u * np.conj(phase)[..., None, :], s, vh * phase[..., :, None]
    u, vh = u.copy(), vh.copy()
    u[..., :, :k] = u[..., :, :k] * np.conj(phase)[..., None, :]
    vh[..., :k, :] = vh[..., :k, :] * phase[..., :, None]
    return u, s, vh


@procedure
def svdvals(x: ArrayLike, /) -> Array:
    """Return the singular values, descending: (..., min(m, n)).  Cost: that of `svd` without vectors."""
    a = matrix_of(x, "svdvals")
    if is_whole(a):
        return everywhere("svdvals", np.linalg.svdvals, a)[0]
    if a.ndim > 2:
        return stacks(np.linalg.svdvals, [a], [2])[0]
    return once("svdvals", np.linalg.svdvals, _small_factor(a, "svdvals"))[0]


def _small_factor(a: Array, name: str) -> Any:
    """Return, on every process, a matrix with the singular values of a large one: R, or the whole matrix."""
    for each in (a, a.T):
        if row_blocks.is_tall(each):
            r = row_blocks.tsqr(row_blocks.by_rows(each), a.dtype, want_q=False).r
            spoilt = decided(np.isnan(r).any(), usual=False)
            if spoilt and not decided(reductions.any(_UFUNCS["isnan"](a)), usual=True):
                return np.full_like(r, np.inf)  # infinities made R NaN; NumPy raises for NaN in x, not for infinities
            return r
    return brought(a, name, "singular values of a tall or wide matrix are distributed")


@procedure
def matrix_rank(
    x: ArrayLike, /, tol: ArrayLike | None = None, hermitian: bool = False, *, rtol: ArrayLike | None = None
) -> Array:
    """Count the singular values that exceed `tol`, or `rtol` times the largest (max(m, n)·eps unless given).

    hermitian : eigenvalues of the lower triangle take the place of singular values.
    Cost: that of `svdvals`, or of `eigvalsh`.
    """
    array = asarray(x)
    if array.ndim < 2:
        return wrap(build.cast(build.strong(reductions.any(array)._node), np.dtype(np.intp)))
    if tol is not None and rtol is not None:
        raise ValueError("matrix_rank: `tol` and `rtol` can't be both set.")
    s = svdvals(matrix_of(array, "matrix_rank", square=hermitian))
    if not s.shape[-1]:
        return total(s > 0, axis=-1)
    if tol is None:
        relative = max(array.shape[-2:]) * np.finfo(s.dtype).eps if rtol is None else _number(rtol)
        bound = largest(s, axis=-1, keepdims=True) * relative
    else:
        bound = _number(tol)
    return total(s > bound, axis=-1)


def _number(value: Any) -> Any:
    """Return a tolerance as it is if it is one number; else as an array with one more axis, for the singular values."""
    return value if np.ndim(value) == 0 and not isinstance(value, Array) else expand_dims(asarray(value), axis=-1)


@procedure
def pinv(
    x: ArrayLike, /, rcond: ArrayLike | None = None, hermitian: bool = False, *, rtol: ArrayLike | None = None
) -> Array:
    """Return the pseudo-inverse; singular values up to `rtol` times the largest count as 0 (default: max(m, n)·eps).

    Cost: tall: TSQR, then R's pseudo-inverse on every process, times Qᴴ; wide: the same of the transpose.
    """
    if rcond is not None and rtol is not None:
        raise ValueError("pinv: `rtol` and `rcond` can't be both set.")
    a = matrix_of(x, "pinv", square=hermitian)
    m, n = a.shape[-2:]
    cut: Any = rtol if rtol is not None else rcond
    cut = max(m, n) * np.finfo(a.dtype).eps if cut is None else cut
    if isinstance(cut, Array):
        cut = values_of(cut)

    def function(each: Any) -> Any:
        return np.linalg.pinv(each, rtol=cut, hermitian=hermitian)

    name = f"pinv {hermitian} {np.asarray(cut).tolist()}"
    if is_whole(a) or not m * n:
        return everywhere(name, function, a)[0]
    if a.ndim > 2:
        if not np.ndim(cut):
            return stacks(function, [a], [2])[0]
        cuts = asarray(np.broadcast_to(cut, a.shape[:-2])[..., None])
        return stacks(lambda each, own: np.linalg.pinv(each, rtol=own[..., 0], hermitian=hermitian), [a, cuts], [2, 1])[
            0
        ]
    if m < n:
        return adjoint(pinv(adjoint(a), rtol=cut))
    if not row_blocks.is_tall(a):
        return once(name, function, brought(a, "pinv", "inv and solve of a regular matrix are distributed"))[0]
    q, r = row_blocks.tsqr(row_blocks.by_rows(a), a.dtype)
    assert q is not None
    inverse = world().once(name, lambda: function(r), [r])
    return adjoint(row_blocks.to_array(row_blocks.times(q, np.conj(inverse).T), a.dtype))


@procedure
def lstsq(a: ArrayLike, b: ArrayLike, rcond: float | None = None) -> tuple[Array, Array, Any, Array]:
    """Solve a least-squares problem as NumPy does: among the x that minimise ‖b - a·x‖, the one of least norm.

    a : (m, n).  b : (m,) or (m, k).  rcond : singular values up to rcond times the largest count as 0; None:
        max(m, n)·eps; negative: eps.
    Returns x, residuals, rank and singular values.  residuals : squared norms by column; empty if the rank is below n
    or m <= n.
    Cost: tall: TSQR of (a, b) side by side, without Q: 4(m/p)(n+k)² flops, one superstep of h = (p-1)(n+k)² words
    (or log2 p of (n+k)²), and R's SVD on every process; k > n: Q is made, and Qᴴb summed over the rows.  Wide:
    the transpose's QR.
    Raises LinAlgError for shapes that do not fit.
    """
    matrix, right = matrix_of(a, "lstsq"), inexact(wrap(build.strong(asarray(b)._node)), "lstsq")
    if matrix.ndim != 2 or right.ndim not in (1, 2):
        raise LinAlgError(f"lstsq: a of 2 dimensions and b of 1 or 2, not {matrix.ndim} and {right.ndim}")
    if matrix.shape[0] != right.shape[0]:
        raise LinAlgError(f"lstsq: incompatible dimensions: a has shape {matrix.shape}, b {right.shape}")
    m, n = matrix.shape
    dtype = np.result_type(matrix.dtype, right.dtype)
    matrix, right = matrix.astype(dtype), right.astype(dtype)
    flat = right.ndim == 1
    if flat:
        right = right[:, None]
    cut = factored.cut_of(rcond, m, n, dtype)
    if is_whole(matrix) and (is_whole(right) or not m * n):
        found = _lstsq_once(values_of(matrix), values_of(right), cut)
    elif m < n and row_blocks.is_tall(matrix.T):
        found = _lstsq_wide(matrix, right, cut)
    elif row_blocks.is_tall(matrix) and m:
        found = _lstsq_tall(matrix, right, cut)
    else:
        values = brought(matrix, "lstsq", "solve() of a regular square matrix is distributed")
        found = _lstsq_once(values, values_of(right), cut)
    x, rest, rank, s = found
    return (x[:, 0] if flat else x), rest, rank, s


def _lstsq_once(a: Any, b: Any, cut: Any) -> tuple[Array, Array, Any, Array]:
    x, rest, rank, s = world().once(f"lstsq {cut}", lambda: np.linalg.lstsq(a, b, rcond=cut), [a, b])
    return given(x), given(rest), rank, given(s)


def _kept(s: Any, cut: Any) -> tuple[Any, Any]:
    """Return 1/s, with 0 for singular values that count as 0, and the rank."""
    keep = s > cut * np.max(s) if s.shape[0] else s > 0
    return np.where(keep, 1 / np.where(keep, s, 1), 0).astype(s.dtype), np.sum(keep, dtype=np.int32)


def _lstsq_tall(a: Array, b: Array, cut: Any) -> tuple[Array, Array, Any, Array]:
    n, k = a.shape[1], b.shape[1]
    rows = row_blocks.by_rows(a)
    if k <= n:
        r = row_blocks.tsqr(factored.beside(rows, b), a.dtype, want_q=False).r
        x, rest, rank, s = world().once(
            f"lstsq {a.shape[0]} {n} {cut}", lambda: factored.solved(r, a.shape[0], n, cut), [r]
        )
        return given(x), given(rest), rank, given(s)
    q, r = row_blocks.tsqr(rows, a.dtype)
    assert q is not None
    c = values_of(matmul(adjoint(row_blocks.to_array(q, a.dtype)), b))
    u, s, vh = world().once("svd of R", lambda: np.linalg.svd(r, full_matrices=False), [r])
    inverse, rank = _kept(s, cut)
    x = given(np.conj(vh).T @ (inverse[:, None] * (np.conj(u).T @ c)))
    rest = given(np.empty(0, s.dtype))
    if a.shape[0] > n and decided(rank == n, usual=True):
        away = b - matmul(a, x)
        rest = total(absolute(away) ** 2, axis=0).persist()
    return x, rest, rank, given(s)


def _lstsq_wide(a: Array, b: Array, cut: Any) -> tuple[Array, Array, Any, Array]:
    q, r = row_blocks.tsqr(row_blocks.by_rows(adjoint(a)), a.dtype)
    assert q is not None
    u, s, vh = world().once("svd of R", lambda: np.linalg.svd(r, full_matrices=False), [r])
    inverse, rank = _kept(s, cut)
    small = u @ (inverse[:, None] * (vh @ values_of(b)))
    return row_blocks.to_array(row_blocks.times(q, small), a.dtype), given(np.empty(0, s.dtype)), rank, given(s)
