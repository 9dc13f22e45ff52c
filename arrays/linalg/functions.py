"""Linear algebra: the standard's `linalg` extension, and NumPy's norm, lstsq, cond, multi_dot.

How a function runs is decided by shapes, layouts and p alone:

- *whole*: a matrix of at most REPLICATED_SIZE elements, a replicated one, or p = 1: NumPy on every process.
- *stacks* (..., m, n): each matrix in one piece on one process, the leading axes dealt; NumPy on each block.
- *tall* (m >= n·p, or n² small): TSQR, and on its R, which every process has, everything else: svd, lstsq, pinv,
  matrix_rank, cond.  Wide matrices through their transposes.
- *large*: LU, Cholesky, Householder QR by panels (see `panels`).
- What has no distributed form (eig, eigh, svd of a large square matrix) is brought to every process if it has at most
  4096² elements, with a GatherWarning above 16 MB; beyond that GatherRefused.

All that can raise LinAlgError for the values it finds is computed when it is called, not later, so that the error
comes from this line and on every process alike: these are procedures, not nodes of an expression.  Matrix products,
norms by elements, diagonal, trace, cross stay lazy.

Factors are unique, so they do not depend on the layout: R's diagonal is real and >= 0, and of each pair of singular
vectors and each eigenvector the first entry at least half as large as the greatest is real and > 0.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from operator import index
from typing import Any, NamedTuple

import numpy as np
from numpy.linalg import LinAlgError

from bsp.arrays import build
from bsp.arrays.api import manipulation, reductions, ufuncs
from bsp.arrays.api.contraction import matmul, tensordot, vecdot
from bsp.arrays.api.creation import asarray, eye
from bsp.arrays.api.manipulation import concat, expand_dims, matrix_transpose, moveaxis, stack
from bsp.arrays.array import Array, wrap
from bsp.arrays.errors import GatherRefused
from bsp.arrays.execution.world import world
from bsp.arrays.expressions import layout as layouts
from bsp.arrays.expressions.graph import LEAF, Blocks, DType, leaf
from bsp.arrays.expressions.layout import Axis, automatic, dealt, layout_of
from bsp.arrays.gathering import SILENT_BYTES, warned
from bsp.arrays.linalg import panels, tall
from bsp.arrays.linalg.tall import Rows
from bsp.arrays.planning.chains import splits
from bsp.arrays.procedures.forecast import procedure
from bsp.errors import ShapeError
from bsp.values.payload import is_abstract

largest: Callable[..., Array] = reductions.max
least: Callable[..., Array] = reductions.min
total: Callable[..., Array] = reductions.sum
_UFUNCS: dict[str, Callable[..., Array]] = ufuncs.FUNCTIONS
absolute = _UFUNCS["absolute"]

GATHER_SIZE = 4096 * 4096  # elements of a matrix that is brought to every process where nothing else is possible


class QRResult(NamedTuple):
    """A = Q·R."""

    Q: Array
    R: Array


class SVDResult(NamedTuple):
    """A = U·diag(S)·Vh."""

    U: Array
    S: Array
    Vh: Array


class EighResult(NamedTuple):
    """Eigenvalues, ascending, and eigenvectors as columns."""

    eigenvalues: Array
    eigenvectors: Array


class EigResult(NamedTuple):
    """Eigenvalues in no order, and eigenvectors as columns; complex unless all eigenvalues are real."""

    eigenvalues: Array
    eigenvectors: Array


class SlogdetResult(NamedTuple):
    """det A = sign · exp(logabsdet)."""

    sign: Array
    logabsdet: Array


# ------------------------------------------------------------------------------ ways to run


def _matrix(x: Any, name: str, square: bool = False) -> Array:
    """An array of matrices, as NumPy's linalg types it: integers become float64."""
    array = wrap(build.strong(asarray(x)._node))
    if array.ndim < 2:
        raise LinAlgError(f"{name}: {array.ndim}-dimensional array given. Array must be at least two-dimensional")
    if square and array.shape[-1] != array.shape[-2]:
        raise LinAlgError(f"{name}: last 2 dimensions of the array must be square, not {array.shape[-2:]}")
    return _inexact(array, name)


def _inexact(array: Array, name: str) -> Array:
    if array.dtype.kind in "iub":
        return wrap(build.cast(array._node, np.dtype(np.float64)))
    if array.dtype.char not in "fdFD":
        raise TypeError(f"{name}: array type {array.dtype} is unsupported in linalg")
    return array


def _is_whole(array: Array) -> bool:
    """Whether NumPy on every process is the way."""
    node = array._node
    if array.size <= layouts.REPLICATED_SIZE or world().nprocs == 1:
        return True
    return node.op is LEAF and node.layout is not None and node.layout.replicated


def _is_tall(array: Array) -> bool:
    m, n = array.shape
    return m >= n and (m >= n * world().nprocs or n * n <= layouts.REPLICATED_SIZE)


def _values(array: Array) -> Any:
    """All of it on this process; a replicated array is there already, without a superstep."""
    node = array._node
    if node.op is LEAF and node.layout is not None and node.layout.replicated and node.layout.blocks == 1:
        (found,) = node.value.values()
        return found
    return array.compute()


def _brought(array: Array, name: str, advice: str, result: int = 0) -> Any:
    """All of a matrix that nothing else can be done with; `result`: elements of the result, if it has more."""
    p, size = world().nprocs, max(array.size, result)
    if size > GATHER_SIZE:
        raise GatherRefused(
            f"{name} of shape {array.shape} has no distributed form; in one piece it takes "
            f"{size * array.itemsize / 1e9:.3g} GB on each of {p} processes; {advice}"
        )
    if size * array.itemsize > SILENT_BYTES:
        warned(
            f"{name} of shape {array.shape} takes {size * array.itemsize / 1e6:.3g} MB on each of {p} processes, "
            f"which all do the same work; {advice}"
        )
    return _values(array)


def _given(found: Any) -> Array:
    """A result that every process has alike."""
    return wrap(build.from_whole(found if is_abstract(found) else np.asarray(found)))


def _everywhere(function: Callable[..., Any], *arrays: Array) -> tuple[Array, ...]:
    """NumPy on every process; no words but for bringing the arrays together."""
    values = [_values(each) for each in arrays]
    world().passes(sum(each.size for each in values), values[0].dtype)  # LAPACK's copy
    return tuple(_given(each) for each in _tuple(function(*values)))


def _tuple(found: Any) -> tuple[Any, ...]:
    return tuple(found) if isinstance(found, tuple) else (found,)


def _stacks(function: Callable[..., Any], arrays: Sequence[Array], cores: Sequence[int]) -> tuple[Array, ...]:
    """NumPy on stacks: leading axes broadcast and dealt, the last `cores[k]` of each array in one piece.

    Cost: one total exchange where matrices are cut or leading axes dealt differently; one superstep more, one word,
    in which processes agree whether some matrix was singular.
    """
    here = world()
    outer = np.broadcast_shapes(*[each.shape[: each.ndim - core] for each, core in zip(arrays, cores, strict=True)])
    free = len(outer)
    first = arrays[0].layout
    if arrays[0].shape[:free] == outer and not first.replicated and first.table is None:
        lead = first.axes[:free]
    else:
        lead = automatic(outer, here.nprocs, False).axes
    if prod(axis.deal for axis in lead) == 1 and here.nprocs > 1:
        lead = automatic(outer, here.nprocs, False).axes
    placed = []
    owns = [array.shape[array.ndim - core :] for array, core in zip(arrays, cores, strict=True)]
    for array, own in zip(arrays, owns, strict=True):
        spread = wrap(build.broadcast(array._node, outer + own))
        placed.append(tall.settled(spread, layout_of((*lead, *[Axis(length) for length in own]))))
    samples = _tuple(function(*[here.empty((0, *own), array.dtype) for array, own in zip(arrays, owns, strict=True)]))
    made: list[Blocks] = [{} for _ in samples]
    said = ""
    for at in layout_of(lead).mine(here.pid):
        blocks = [found[at + (0,) * core] for found, core in zip(placed, cores, strict=True)]
        try:
            for k, each in enumerate(_tuple(function(*blocks))):
                made[k][at + (0,) * (samples[k].ndim - 1)] = each
        except LinAlgError as error:
            said = str(error)
    told = [text for text in here.private.allgather(said) if text]
    if told:
        raise LinAlgError(told[0])
    results = []
    for sample, own_blocks in zip(samples, made, strict=True):
        layout = layout_of((*lead, *[Axis(length) for length in sample.shape[1:]]))
        results.append(wrap(leaf((*outer, *sample.shape[1:]), sample.dtype, layout, own_blocks)))
    return tuple(results)


def _adjoint(array: Array) -> Array:
    turned = matrix_transpose(array)
    return _UFUNCS["conjugate"](turned) if array.dtype.kind == "c" else turned


def _real(dtype: DType) -> DType:
    return np.dtype(f"f{dtype.itemsize // 2}") if dtype.kind == "c" else dtype


# --------------------------------------------------------------------------------- signs


def _signed_qr(found: Any) -> tuple[Any, Any]:
    q, r = found
    phase = tall.phases(r)
    k = phase.shape[-1]
    if q.shape[-1] > k:  # complete: the columns beyond are any
        q, r = np.array(q), np.array(r)
        q[..., :k] = q[..., :k] * phase[..., None, :]
        r[..., :k, :] = r[..., :k, :] * np.conj(phase)[..., :, None]
        return q, r
    return q * phase[..., None, :], r * np.conj(phase)[..., :, None]


def _leading(vectors: Any) -> Any:
    """Of each column the phase of its first entry at least half as large as its greatest."""
    size = np.abs(vectors)
    if not vectors.shape[-2]:
        return np.ones((*vectors.shape[:-2], vectors.shape[-1]), vectors.dtype)
    if is_abstract(vectors):
        return np.sum(vectors, axis=-2)
    first = np.argmax(size >= size.max(axis=-2, keepdims=True) / 2, axis=-2)
    entry = np.take_along_axis(vectors, first[..., None, :], -2)[..., 0, :]
    length = np.abs(entry)
    zero = length == 0
    return np.where(zero, 1, entry / np.where(zero, 1, length)).astype(vectors.dtype)


def _svd_of(a: Any, full: bool) -> tuple[Any, Any, Any]:
    """NumPy's, with signs fixed by the smaller factor."""
    u, s, vh = np.linalg.svd(a, full_matrices=full)
    k = s.shape[-1]
    m, n = a.shape[-2:]
    small = np.conj(np.swapaxes(vh[..., :k, :], -1, -2)) if m >= n else u[..., :, :k]
    phase = _leading(small)
    if u.shape[-1] == k and vh.shape[-2] == k:
        return u * np.conj(phase)[..., None, :], s, vh * phase[..., :, None]
    u, vh = np.array(u), np.array(vh)
    u[..., :, :k] = u[..., :, :k] * np.conj(phase)[..., None, :]
    vh[..., :k, :] = vh[..., :k, :] * phase[..., :, None]
    return u, s, vh


def _eigh_of(lower: Any) -> Callable[[Any], tuple[Any, Any]]:
    def function(a: Any) -> tuple[Any, Any]:
        values, vectors = np.linalg.eigh(a, lower)
        return values, vectors * np.conj(_leading(vectors))[..., None, :]

    return function


# ------------------------------------------------------------------------------------ QR


@procedure
def qr(x: Any, /, mode: str = "reduced") -> Any:
    """A = Q·R, Q with orthonormal columns, R upper triangular with a diagonal >= 0 (NumPy leaves its sign open).

    x : (..., m, n).  mode : "reduced": Q (..., m, k), R (..., k, n), k = min(m, n); "complete": Q (..., m, m);
        "r": R alone.
    Cost: tall: TSQR, 4(m/p)n² flops, one superstep of h = (p-1)n² words or log2 p of n² (see `tall`); Q lies like x.
        Large: n/b panels, see `panels.householder`; Q and R lie by columns.  Wide: of the first m columns, and
        Qᴴ times the rest.
    """
    if mode not in ("reduced", "complete", "r"):
        raise ValueError(f"qr: mode={mode!r} is none of 'reduced', 'complete', 'r'")
    a = _matrix(x, "qr")
    m, n = a.shape[-2:]
    if a.ndim > 2 or _is_whole(a):
        way: Any = _signed_qr_of("complete" if mode == "complete" else "reduced")
        found = _everywhere(way, a) if _is_whole(a) else _stacks(way, [a], [2])
    elif mode == "complete" and m > n:
        values = _brought(a, "qr", "mode='reduced' is distributed", m * m)
        found = tuple(_given(each) for each in _signed_qr(np.linalg.qr(values, mode="complete")))
    else:
        found = _qr_dealt(a, mode != "r")
    return found[1] if mode == "r" else QRResult(*found)


def _signed_qr_of(mode: Any) -> Callable[[Any], tuple[Any, Any]]:
    return lambda a: _signed_qr(np.linalg.qr(a, mode=mode))


def _qr_dealt(a: Array, want_q: bool) -> tuple[Any, Array]:
    m, n = a.shape
    if m < n:
        q, r = qr(a[:, :m])
        return q, concat([r, matmul(_adjoint(q), a[:, m:])], axis=1).persist()
    if _is_tall(a):
        q, r = tall.tsqr(tall.by_rows(a), a.dtype, want_q)
        return None if q is None else tall.to_array(q, a.dtype), _given(r)
    return panels.householder(a, a.dtype, want_q)


# ----------------------------------------------------------------------------------- SVD


@procedure
def svd(x: Any, /, full_matrices: bool = True, compute_uv: bool = True, hermitian: bool = False) -> Any:
    """A = U·diag(S)·Vh, singular values descending; without compute_uv these alone.

    Cost: tall: TSQR, then the SVD of R on every process (22n³ flops) and Q·U by rows, no more words; wide: of the
    transpose.  A large square matrix is brought to every process, and so is a tall one if full_matrices asks for a
    square U: pass full_matrices=False.
    """
    if not compute_uv:
        return svdvals(x)
    a = _matrix(x, "svd", square=hermitian)
    m, n = a.shape[-2:]
    if _is_whole(a):
        return SVDResult(*_everywhere(lambda each: _svd_of(each, full_matrices), a))
    if a.ndim > 2:
        return SVDResult(*_stacks(lambda each: _svd_of(each, full_matrices), [a], [2]))
    if full_matrices and m != n:
        values = _brought(a, "svd with full_matrices=True", "pass full_matrices=False", max(m, n) ** 2)
        return SVDResult(*[_given(each) for each in _svd_of(values, True)])
    if m < n and _is_tall(a.T):
        u, s, vh = svd(_adjoint(a), full_matrices=False)
        return SVDResult(_adjoint(vh), s, _adjoint(u))
    if not _is_tall(a):
        values = _brought(a, "svd", "singular values of a tall matrix are distributed")
        return SVDResult(*[_given(each) for each in _svd_of(values, False)])
    q, r = tall.tsqr(tall.by_rows(a), a.dtype)
    assert q is not None
    u, s, vh = _svd_of(r, False)
    return SVDResult(tall.to_array(tall.times(q, u), a.dtype), _given(s), _given(vh))


@procedure
def svdvals(x: Any, /) -> Array:
    """Singular values, descending: (..., min(m, n)).  Cost: as `svd` without vectors."""
    a = _matrix(x, "svdvals")
    if _is_whole(a):
        return _everywhere(np.linalg.svdvals, a)[0]
    if a.ndim > 2:
        return _stacks(np.linalg.svdvals, [a], [2])[0]
    return _given(np.linalg.svdvals(_small_factor(a, "svdvals")))


def _small_factor(a: Array, name: str) -> Any:
    """A matrix on every process with the singular values of a large one: R, or all of it."""
    for each in (a, a.T):
        if _is_tall(each):
            r = tall.tsqr(tall.by_rows(each), a.dtype, want_q=False).r
            if not is_abstract(r) and np.isnan(r).any() and not bool(reductions.any(_UFUNCS["isnan"](a))):
                return np.full_like(r, np.inf)  # what an infinity has made NaN: NumPy refuses NaN, not infinities
            return r
    return _brought(a, name, "singular values of a tall or wide matrix are distributed")


@procedure
def matrix_rank(x: Any, /, tol: Any = None, hermitian: bool = False, *, rtol: Any = None) -> Array:
    """How many singular values exceed `tol`, or `rtol` times the largest (max(m, n)·eps unless given)."""
    array = asarray(x)
    if array.ndim < 2:
        return wrap(build.cast(build.strong(reductions.any(array)._node), np.dtype(np.intp)))
    if tol is not None and rtol is not None:
        raise ValueError("matrix_rank: `tol` and `rtol` can't be both set.")
    s = svdvals(array)
    if not s.shape[-1]:
        return total(s > 0, axis=-1)
    if tol is None:
        relative = max(array.shape[-2:]) * np.finfo(s.dtype).eps if rtol is None else _number(rtol)
        bound = largest(s, axis=-1, keepdims=True) * relative
    else:
        bound = _number(tol)
    return total(s > bound, axis=-1)


def _number(value: Any) -> Any:
    """A tolerance: a number, or one for each matrix of a stack."""
    return value if np.ndim(value) == 0 and not isinstance(value, Array) else expand_dims(asarray(value), axis=-1)


@procedure
def pinv(x: Any, /, rcond: Any = None, hermitian: bool = False, *, rtol: Any = None) -> Array:
    """The pseudo-inverse; singular values up to `rtol` times the largest count as 0 (max(m, n)·eps unless given).

    Cost: tall: TSQR, then R's pseudo-inverse on every process, times Qᴴ; wide: of the transpose.
    """
    if rcond is not None and rtol is not None:
        raise ValueError("pinv: `rtol` and `rcond` can't be both set.")
    a = _matrix(x, "pinv", square=hermitian)
    m, n = a.shape[-2:]
    cut = rtol if rtol is not None else rcond
    cut = max(m, n) * np.finfo(a.dtype).eps if cut is None else cut
    if isinstance(cut, Array):
        cut = _values(cut)

    def function(each: Any) -> Any:
        return np.linalg.pinv(each, rtol=cut, hermitian=hermitian)

    if _is_whole(a) or not m * n:
        return _everywhere(function, a)[0]
    if a.ndim > 2:
        if not np.ndim(cut):
            return _stacks(function, [a], [2])[0]
        cuts = asarray(np.broadcast_to(cut, a.shape[:-2])[..., None])
        return _stacks(
            lambda each, own: np.linalg.pinv(each, rtol=own[..., 0], hermitian=hermitian), [a, cuts], [2, 1]
        )[0]
    if m < n:
        return _adjoint(pinv(_adjoint(a), rtol=cut))
    if not _is_tall(a):
        return _given(function(_brought(a, "pinv", "inv and solve of a regular matrix are distributed")))
    q, r = tall.tsqr(tall.by_rows(a), a.dtype)
    assert q is not None
    return _adjoint(tall.to_array(tall.times(q, np.conj(function(r)).T), a.dtype))


@procedure
def lstsq(a: Any, b: Any, rcond: Any = None) -> tuple[Array, Array, Any, Array]:
    """NumPy's least squares: the x of least norm among those that make ‖b - a·x‖ least; residuals, rank, s.

    a : (m, n).  b : (m,) or (m, k).  rcond : singular values up to rcond times the largest count as 0; None:
        max(m, n)·eps; negative: eps.  residuals : squared norms by column; empty if the rank is below n or m <= n.
    Cost: tall: TSQR of (a, b) side by side, without Q: 4(m/p)(n+k)² flops, one superstep of h = (p-1)(n+k)² words
        (or log2 p of (n+k)²), and R's SVD on every process; k > n: Q is made, and Qᴴb summed over the rows.  Wide:
        the transpose's QR.
    Raises LinAlgError for shapes that do not fit.
    """
    matrix, right = _matrix(a, "lstsq"), _inexact(wrap(build.strong(asarray(b)._node)), "lstsq")
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
    cut = max(m, n) * np.finfo(dtype).eps if rcond is None else rcond if rcond >= 0 else np.finfo(dtype).eps
    if _is_whole(matrix) and (_is_whole(right) or not m * n):
        x, rest, rank, s = np.linalg.lstsq(_values(matrix), _values(right), rcond=cut)
        found = (_given(x), _given(rest), rank, _given(s))
    elif m < n and _is_tall(matrix.T):
        found = _lstsq_wide(matrix, right, cut)
    elif _is_tall(matrix) and m:
        found = _lstsq_tall(matrix, right, cut)
    else:
        x, rest, rank, s = np.linalg.lstsq(
            _brought(matrix, "lstsq", "solve() of a regular square matrix is distributed"), _values(right), rcond=cut
        )
        found = (_given(x), _given(rest), rank, _given(s))
    x, rest, rank, s = found
    return (x[:, 0] if flat else x), rest, rank if is_abstract(rank) else np.int32(rank), s


def _kept(s: Any, cut: Any) -> tuple[Any, Any]:
    """1/s, and 0 where s is as good as 0; and the rank."""
    keep = s > cut * np.max(s) if s.shape[0] else s > 0
    return np.where(keep, 1 / np.where(keep, s, 1), 0).astype(s.dtype), np.count_nonzero(keep)


def _lstsq_tall(a: Array, b: Array, cut: Any) -> tuple[Array, Array, Any, Array]:
    n, k = a.shape[1], b.shape[1]
    rows = tall.by_rows(a)
    beside = tall.by_rows(b, rows.layout)
    spare = None
    if k <= n:
        layout = layout_of((rows.layout.axes[0], Axis(n + k)))
        both = {at: np.concatenate([rows.blocks[at], beside.blocks[at]], axis=1) for at in rows.blocks}
        r = tall.tsqr(Rows(layout, both), a.dtype, want_q=False).r
        r, c, under = r[:n, :n], r[:n, n:], r[n:, n:]
        spare = np.sum(np.abs(under) ** 2, axis=0)
    else:
        q, r = tall.tsqr(rows, a.dtype)
        assert q is not None
        c = _values(matmul(_adjoint(tall.to_array(q, a.dtype)), b))
    u, s, vh = np.linalg.svd(r, full_matrices=False)
    inverse, rank = _kept(s, cut)
    x = _given(np.conj(vh).T @ (inverse[:, None] * (np.conj(u).T @ c)))
    rest = _given(np.empty(0, s.dtype))
    if a.shape[0] > n and (is_abstract(rank) or rank == n):
        if spare is None:
            away = b - matmul(a, x)
            rest = total(absolute(away) ** 2, axis=0).persist()
        else:
            rest = _given(spare)
    return x, rest, rank, _given(s)


def _lstsq_wide(a: Array, b: Array, cut: Any) -> tuple[Array, Array, Any, Array]:
    q, r = tall.tsqr(tall.by_rows(_adjoint(a)), a.dtype)
    assert q is not None
    u, s, vh = np.linalg.svd(r, full_matrices=False)
    inverse, rank = _kept(s, cut)
    small = u @ (inverse[:, None] * (vh @ _values(b)))
    return tall.to_array(tall.times(q, small), a.dtype), _given(np.empty(0, s.dtype)), rank, _given(s)


# ------------------------------------------------------------------------- square matrices


@procedure
def cholesky(x: Any, /, *, upper: bool = False) -> Array:
    """L of A = L·Lᴴ, lower triangular with a positive diagonal; upper: Lᴴ.  Only A's lower triangle is read.

    Cost: large: n³/3p flops, n/b panels of n²/2 words in all (see `panels`); the result lies by columns.
    Raises LinAlgError on every process if a matrix is not positive definite.
    """
    a = _matrix(x, "cholesky", square=True)
    if upper:
        a = _adjoint(a)  # NumPy reads the upper triangle then
    if _is_whole(a):
        found = _everywhere(np.linalg.cholesky, a)[0]
    elif a.ndim > 2:
        found = _stacks(np.linalg.cholesky, [a], [2])[0]
    else:
        found = panels.cholesky(a, a.dtype)
    return _adjoint(found) if upper else found


@procedure
def solve(x1: Any, x2: Any, /) -> Array:
    """x of x1·x = x2: x1 (..., n, n), x2 (n,) or (..., n, k); leading axes broadcast.

    Cost: large: LU with partial pivoting by panels, (2n³/3 + 2n²k)/p flops, n/b panels of n²/2 words in all, and back
        n/b steps (see `panels`); small x1 and many columns: x1 on every process, x2 by columns.
    Raises LinAlgError on every process if a matrix is singular; ValueError, with both shapes, if they do not fit.
    """
    a = _matrix(x1, "solve", square=True)
    b = _inexact(wrap(build.strong(asarray(x2)._node)), "solve")
    vector = b.ndim == 1
    if b.ndim == 0 or b.shape[-1 if vector else -2] != a.shape[-1]:
        raise ShapeError(f"solve: shapes {a.shape} and {b.shape} do not match: x2 has shape (n,) or (..., n, k)")
    try:
        np.broadcast_shapes(a.shape[:-2], () if vector else b.shape[:-2])
    except ValueError:
        raise ShapeError(f"solve: shapes {a.shape} and {b.shape} do not broadcast") from None
    dtype = np.result_type(a.dtype, b.dtype)
    a, b = a.astype(dtype), b.astype(dtype)
    if vector:
        b = b[:, None]
    if (_is_whole(a) and _is_whole(b)) or not a.size or not b.size:
        found = _everywhere(np.linalg.solve, a, b)[0]
    elif a.ndim > 2 or b.ndim > 2:
        found = _stacks(np.linalg.solve, [a, b], [2, 2])[0]
    elif _is_whole(a):
        found = _solve_columns(a, b)
    else:
        found = panels.solve(a, b, dtype)
    return found[..., 0] if vector else found


def _solve_columns(a: Array, b: Array) -> Array:
    """A small matrix on every process, its right-hand sides by columns."""
    layout = b.layout
    if layout.replicated or layout.table is not None or layout.axes[0].parts > 1:
        parts = min(world().nprocs, b.shape[1])
        layout = dealt(b.shape, (1, parts), (1, parts))
    right = tall.settled(b, layout)
    values = _values(a)
    np.linalg.inv(values)  # a singular matrix: LinAlgError on every process, with columns or without
    return wrap(leaf(b.shape, b.dtype, layout, {at: np.linalg.solve(values, each) for at, each in right.items()}))


@procedure
def inv(x: Any, /) -> Array:
    """The inverse.  Cost: as `solve` for the identity: 8n³/3p flops.  Raises LinAlgError if a matrix is singular."""
    a = _matrix(x, "inv", square=True)
    if _is_whole(a):
        return _everywhere(np.linalg.inv, a)[0]
    if a.ndim > 2:
        return _stacks(np.linalg.inv, [a], [2])[0]
    return panels.solve(a, None, a.dtype)


@procedure
def slogdet(x: Any, /) -> SlogdetResult:
    """The determinant's sign (of modulus 1, or 0) and the logarithm of its modulus.  Cost: LU, see `solve`."""
    a = _matrix(x, "slogdet", square=True)
    if _is_whole(a):
        return SlogdetResult(*_everywhere(np.linalg.slogdet, a))
    if a.ndim > 2:
        return SlogdetResult(*_stacks(np.linalg.slogdet, [a], [2]))
    return SlogdetResult(*[_given(each) for each in panels.determinant(a, a.dtype)])


@procedure
def det(x: Any, /) -> Array:
    """The determinant.  Cost: LU, see `solve`."""
    a = _matrix(x, "det", square=True)
    if _is_whole(a):
        return _everywhere(np.linalg.det, a)[0]
    if a.ndim > 2:
        return _stacks(np.linalg.det, [a], [2])[0]
    sign, log = panels.determinant(a, a.dtype)
    return _given(sign * np.exp(log).astype(a.dtype))


@procedure
def eigh(x: Any, /, UPLO: Any = "L") -> EighResult:
    """Eigenvalues, ascending, and eigenvectors of Hermitian matrices; only the triangle UPLO is read.

    Cost: stacks: 9n³ flops each where it lies.  A large matrix is brought to every process.
    """
    a = _matrix(x, "eigh", square=True)
    if a.ndim > 2 and not _is_whole(a):
        return EighResult(*_stacks(_eigh_of(UPLO), [a], [2]))
    values = _values(a) if _is_whole(a) else _brought(a, "eigh", "svd of a tall matrix X gives the eigenvectors of XᴴX")
    return EighResult(*[_given(each) for each in _eigh_of(UPLO)(values)])


@procedure
def eigvalsh(x: Any, /, UPLO: Any = "L") -> Array:
    """Eigenvalues of Hermitian matrices, ascending.  Cost: as `eigh`, 4n³/3 flops."""
    a = _matrix(x, "eigvalsh", square=True)

    def function(each: Any) -> Any:
        return np.linalg.eigvalsh(each, UPLO)

    if a.ndim > 2 and not _is_whole(a):
        return _stacks(function, [a], [2])[0]
    advice = "svdvals of a tall matrix X gives the eigenvalues of XᴴX"
    return _given(function(_values(a) if _is_whole(a) else _brought(a, "eigvalsh", advice)))


def _unsymmetric(x: Any, name: str, function: Callable[..., Any]) -> tuple[Array, ...]:
    """NumPy's eigenvalues of square matrices: real where those of all matrices are, whoever has them."""
    a = _matrix(x, name, square=True)
    if a.ndim > 2 and not _is_whole(a):

        def complex_ones(each: Any) -> tuple[Any, ...]:
            return tuple(found.astype(np.result_type(found.dtype, np.complex64)) for found in _tuple(function(each)))

        found = _stacks(complex_ones, [a], [2])
        if a.dtype.kind == "c" or is_abstract(a) or (not world().abstract and bool(reductions.any(found[0].imag != 0))):
            return found
        return tuple(each.real for each in found)
    advice = "eigh of a Hermitian matrix takes a third of the work"
    values = _values(a) if _is_whole(a) else _brought(a, name, advice)
    return tuple(_given(each) for each in _tuple(function(values)))


@procedure
def eig(x: Any, /) -> EigResult:
    """Eigenvalues and eigenvectors of square matrices, as NumPy's.

    Cost: stacks: 25n³ flops each where it lies, one superstep.  A large matrix is brought to every process.
    """
    return EigResult(*_unsymmetric(x, "eig", np.linalg.eig))


@procedure
def eigvals(x: Any, /) -> Array:
    """Eigenvalues of square matrices, as NumPy's.  Cost: as `eig`, 10n³ flops."""
    return _unsymmetric(x, "eigvals", np.linalg.eigvals)[0]


def tensorinv(a: Any, ind: int = 2) -> Array:
    """The inverse of an array as a map from its last axes to its first `ind`.  Cost: as `inv`."""
    array = asarray(a)
    if ind <= 0:
        raise ValueError("Invalid ind argument.")
    shape = array.shape[ind:] + array.shape[:ind]
    return manipulation.reshape(inv(manipulation.reshape(array, (prod(array.shape[ind:]), -1))), shape)


def tensorsolve(a: Any, b: Any, axes: Any = None) -> Array:
    """The x with tensordot(a, x, x.ndim) = b; `axes` of a go last before.  Cost: as `solve`."""
    array, right = asarray(a), asarray(b)
    if axes is not None:
        order = [axis for axis in range(array.ndim) if axis not in axes] + list(axes)
        array = manipulation.permute_dims(array, order)
    shape = array.shape[right.ndim - array.ndim :] if array.ndim > right.ndim else ()
    size = prod(shape)
    if array.size != size**2:
        raise LinAlgError("Input arrays must satisfy the requirement prod(a.shape[b.ndim:]) == prod(a.shape[:b.ndim])")
    return manipulation.reshape(solve(manipulation.reshape(array, (size, size)), manipulation.ravel(right)), shape)


def matrix_power(x: Any, n: int, /) -> Array:
    """The n-th power, by squaring: at most 2·log2 n products.  Negative: of the inverse."""
    array = wrap(build.strong(asarray(x)._node))
    if array.ndim < 2 or array.shape[-1] != array.shape[-2]:
        raise LinAlgError(f"matrix_power: last 2 dimensions of the array must be square, not shape {array.shape}")
    try:
        n = index(n)
    except TypeError as wrong:
        raise TypeError("exponent must be an integer") from wrong
    if n < 0:
        array, n = inv(array), -n
    if not n:
        unit = eye(array.shape[-1], dtype=array.dtype)
        return wrap(build.broadcast(unit._node, array.shape))
    found = None
    while n:
        if n % 2:
            found = array if found is None else matmul(found, array)
        n //= 2
        if n:
            array = matmul(array, array)
    assert found is not None
    return found


# ----------------------------------------------------------------------------------- norms


def vector_norm(x: Any, /, *, axis: Any = None, keepdims: bool = False, ord: Any = 2) -> Array:
    """(Σ|x|^ord)^(1/ord) over axes; ±inf: extremes; 0: how many are not 0.  Lazy.  Cost: as a reduction."""
    array = wrap(build.strong(asarray(x)._node))
    if array.dtype.kind in "iub":
        array = array.astype(np.float64)
    axis = None if axis is None else _norm_axes(axis)
    ord = 2 if ord is None else ord
    if ord == np.inf:
        return largest(absolute(array), axis=axis, keepdims=keepdims)
    if ord == -np.inf:
        return least(absolute(array), axis=axis, keepdims=keepdims)
    if ord == 0:
        return total((array != 0).astype(_real(array.dtype)), axis=axis, keepdims=keepdims)
    if ord == 1:
        return total(absolute(array), axis=axis, keepdims=keepdims)
    if ord == 2:
        squares = array.real**2 + array.imag**2 if array.dtype.kind == "c" else array * array
        return _UFUNCS["sqrt"](total(squares, axis=axis, keepdims=keepdims))
    if not isinstance(ord, (int, float, np.number)):
        raise ValueError(f"Invalid norm order {ord!r} for vectors")
    return total(absolute(array) ** ord, axis=axis, keepdims=keepdims) ** (1 / ord)


def _norm_axes(axis: Any) -> tuple[Any, ...]:
    """The axes of a norm: a tuple, or what Python makes an integer of, as NumPy has it."""
    if isinstance(axis, tuple):
        return axis
    try:
        return (int(axis),)
    except (TypeError, ValueError):
        raise TypeError("'axis' must be None, an integer or a tuple of integers") from None


def matrix_norm(x: Any, /, *, keepdims: bool = False, ord: Any = "fro") -> Array:
    """Of the last two axes: "fro"; "nuc", ±2: of singular values; ±1: of column sums; ±inf: of row sums.

    Lazy, but for those of singular values (see `svdvals`).  Cost: as a reduction.
    """
    array = _matrix(x, "matrix_norm")
    if ord is None or ord == "fro":
        return vector_norm(array, axis=(-2, -1), keepdims=keepdims)
    if ord == "nuc" or ord in (2, -2):
        s = svdvals(array)
        found = total(s, axis=-1) if ord == "nuc" else largest(s, axis=-1) if ord == 2 else least(s, axis=-1)
    elif ord in (1, -1, np.inf, -np.inf):
        sums = total(absolute(array), axis=-2 if abs(ord) == 1 else -1)
        found = largest(sums, axis=-1) if ord > 0 else least(sums, axis=-1)
    else:
        raise ValueError(f"Invalid norm order {ord!r} for matrices.")
    return found[..., None, None] if keepdims else found


def norm(x: Any, ord: Any = None, axis: Any = None, keepdims: bool = False) -> Array:
    """NumPy's: of all elements as one vector; of vectors along an axis; of matrices over two."""
    array = wrap(build.strong(asarray(x)._node))
    if axis is None:
        if ord is None:
            return vector_norm(array, keepdims=keepdims)
        if array.ndim not in (1, 2):
            raise ValueError("Improper number of dimensions to norm.")
        axis = tuple(range(array.ndim))
    axes = _norm_axes(axis)
    if len(axes) == 1:
        if isinstance(ord, str):
            raise ValueError(f"Invalid norm order '{ord}' for vectors")
        return vector_norm(array, axis=axes[0], keepdims=keepdims, ord=2 if ord is None else ord)
    if len(axes) != 2:
        raise ValueError("Improper number of dimensions to norm.")
    first, second = (build.normal_axis(each, array.ndim) for each in axes)
    if first == second:
        raise ValueError("Duplicate axes given.")
    found = matrix_norm(moveaxis(array, (first, second), (-2, -1)), ord="fro" if ord is None else ord)
    return expand_dims(found, axis=(first, second)) if keepdims else found


@procedure
def cond(x: Any, /, p: Any = None) -> Array:
    """The condition number: of singular values (p None, 2, -2), else norm(x, p)·norm(inv(x), p); inf if singular."""
    a = _matrix(x, "cond")
    if not a.shape[-1] * a.shape[-2]:
        raise LinAlgError("cond is not defined on empty arrays")
    if not world().abstract and (a.ndim > 2 or _is_whole(a)):

        def function(each: Any) -> Any:
            return np.linalg.cond(each, p)

        return _everywhere(function, a)[0] if _is_whole(a) else _stacks(function, [a], [2])[0]
    if p in (None, 2, -2):
        s = svdvals(a)
        ends: tuple[Array, Array] = (s[..., 0], s[..., -1])
        found = ends[1] / ends[0] if p == -2 else ends[0] / ends[1]
    elif a.shape[-1] != a.shape[-2]:
        raise LinAlgError("Last 2 dimensions of the array must be square")
    else:
        try:
            other = inv(a)
        except LinAlgError:
            return _given(np.asarray(np.inf, _real(a.dtype)))
        found = matrix_norm(a, ord=p) * matrix_norm(other, ord=p)
    isnan = _UFUNCS["isnan"]  # 0/0, of a matrix of zeros: infinite, unless it had NaN
    return ufuncs.where(isnan(found) & ~reductions.any(isnan(a), axis=(-2, -1)), np.inf, found).astype(found.dtype)


# -------------------------------------------------------------------------------- products


def multi_dot(arrays: Sequence[Any], *, out: Any = None) -> Array:
    """The product of several matrices in the order that takes fewest flops; the first and last may be vectors.

    `A @ B @ C` is reordered too where that takes at most half the operations and all are of one dtype.
    """
    given = [asarray(each) for each in arrays]
    if len(given) < 2:
        raise ValueError("Expecting at least two arrays.")
    first, last = given[0].ndim == 1, given[-1].ndim == 1
    if first:
        given[0] = given[0][None]
    if last:
        given[-1] = given[-1][:, None]
    for each in given:
        if each.ndim != 2:
            raise LinAlgError(f"multi_dot: {each.ndim}-dimensional array given. Array must be two-dimensional")
    best, _ = splits((given[0].shape[0], *[each.shape[1] for each in given]))
    found = _product(given, best, 0, len(given) - 1)
    if first:
        found = found[0]
    return ufuncs.stored(found[..., 0] if last else found, out)


def _product(given: list[Array], best: dict[tuple[int, int], int], i: int, j: int) -> Array:
    if i == j:
        return given[i]
    k = best[i, j]
    return matmul(_product(given, best, i, k), _product(given, best, k + 1, j))


def outer(x1: Any, x2: Any, /) -> Array:
    """All products of two vectors' elements.  Lazy."""
    a, b = asarray(x1), asarray(x2)
    if a.ndim != 1 or b.ndim != 1:
        raise ValueError(f"outer: input arrays must be one-dimensional, not {a.ndim} and {b.ndim}-dimensional")
    found: Array = a[:, None] * b[None, :]
    return found


def cross(x1: Any, x2: Any, /, *, axis: int = -1) -> Array:
    """Cross products of vectors of three elements along an axis; the others broadcast.  Lazy."""
    a, b = asarray(x1), asarray(x2)
    a, b = moveaxis(a, axis, -1), moveaxis(b, axis, -1)
    if a.shape[-1] != 3 or b.shape[-1] != 3:
        raise ShapeError(f"cross: both arrays have 3 elements along the axis, not {a.shape[-1]} and {b.shape[-1]}")
    (a0, a1, a2), (b0, b1, b2) = ([each[..., k] for k in range(3)] for each in (a, b))
    return moveaxis(stack([a1 * b2 - a2 * b1, a2 * b0 - a0 * b2, a0 * b1 - a1 * b0], axis=-1), -1, axis)


def _numpys_cross(a: Any, b: Any, axisa: int = -1, axisb: int = -1, axisc: int = -1, axis: int | None = None) -> Array:
    """numpy.cross: the vectors stand along `axisa` and `axisb`, the products along `axisc`; `axis`: along all three."""
    if axis is not None:
        axisa = axisb = axisc = axis
    found = cross(moveaxis(asarray(a), axisa, -1), moveaxis(asarray(b), axisb, -1))
    return moveaxis(found, -1, axisc)


def diagonal(x: Any, /, *, offset: int = 0) -> Array:
    """The diagonals of the last two axes.  Lazy."""
    return manipulation.diagonal(x, offset, -2, -1)


def trace(x: Any, /, *, offset: int = 0, dtype: Any = None) -> Array:
    """The sums of the diagonals of the last two axes.  Lazy."""
    return total(diagonal(x, offset=offset), axis=-1, dtype=dtype)


FUNCTIONS: dict[str, Callable[..., Any]] = {
    each.__name__: each
    for each in (
        cholesky, cond, cross, det, diagonal, eig, eigvals, eigh, eigvalsh, inv, lstsq, matmul, matrix_norm,
        matrix_power, matrix_rank, matrix_transpose, multi_dot, norm, outer, pinv, qr, slogdet, solve, svd, svdvals,
        tensordot, tensorinv, tensorsolve, trace, vecdot, vector_norm,
    )
}  # fmt: skip
OF_NUMPY: dict[Any, Callable[..., Any]] = {
    getattr(np.linalg, name): function for name, function in FUNCTIONS.items() if hasattr(np.linalg, name)
} | {np.cross: _numpys_cross}

__all__ = [*FUNCTIONS, "EigResult", "EighResult", "LinAlgError", "QRResult", "SVDResult", "SlogdetResult"]
