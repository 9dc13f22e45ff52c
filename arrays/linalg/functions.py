"""Linear algebra: the standard's `linalg` extension, and NumPy's norm, lstsq, cond, multi_dot.

How a function runs is decided by shapes, layouts and p alone:

- *whole*: a matrix of at most REPLICATED_SIZE elements, a replicated one, one whose factors take few flops, or p = 1:
  it is brought to every process, and each element calls NumPy or LAPACK once for all of its processes.
- *stacks* (..., m, n): each matrix is in one piece on one process, the leading axes are dealt; NumPy takes each block.
- *tall* (m >= n·p, or n² small): TSQR; svd, lstsq, pinv, matrix_rank and cond follow from its R, which every process
  has.  Wide matrices are handled through their transposes.
- *large*: LU, Cholesky, Householder QR by panels (see `panels`).
- Functions without a distributed form (eig, eigh, svd of a large square matrix) gather the matrix on every process if
  it has at most 4096² elements, with a GatherWarning above 16 MB; for more elements they raise GatherRefused.

Functions that can raise LinAlgError because of values are procedures, computed when they are called, so that the error
is raised at this line, on every process.  Matrix products, norms by elements, diagonal, trace and cross are lazy.

Factors are unique, so they do not depend on the layout: R's diagonal is real and >= 0, and of each pair of singular
vectors and each eigenvector the first entry at least half as large as the greatest is real and > 0.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from operator import index
from typing import Any, Literal, NamedTuple, overload

import numpy as np
from numpy.linalg import LinAlgError

from bsp.abstract import table
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
from bsp.arrays.gathering import SILENT_BYTES, decided, warned
from bsp.arrays.linalg import cholesky_panels, elimination, factored, householder, row_blocks, transposed
from bsp.arrays.linalg.eigenpairs import eigenpairs, leading
from bsp.arrays.planning.chains import splits
from bsp.arrays.procedures.forecast import procedure
from bsp.arrays.typing import ArrayLike, Axes, DTypeLike, Ord
from bsp.errors import ShapeError
from bsp.values.payload import as_array

largest: Callable[..., Array] = reductions.max
least: Callable[..., Array] = reductions.min
total: Callable[..., Array] = reductions.sum
_UFUNCS: dict[str, Callable[..., Array]] = ufuncs.FUNCTIONS
absolute = _UFUNCS["absolute"]

# Flops, for each element of REPLICATED_SIZE, that one element does no later than two do by panels, which are narrow and
# wait for each other: 2n³/3 of an LU with n = 1172.
FEW = 1 << 16
GATHER_SIZE = 4096 * 4096  # most elements of a matrix that functions without a distributed form gather


class QRResult(NamedTuple):
    """The result of `qr`: A = Q·R."""

    Q: Array
    R: Array


class SVDResult(NamedTuple):
    """The result of `svd`: A = U·diag(S)·Vh."""

    U: Array
    S: Array
    Vh: Array


class EighResult(NamedTuple):
    """The result of `eigh`: eigenvalues, ascending, and eigenvectors as columns."""

    eigenvalues: Array
    eigenvectors: Array


class EigResult(NamedTuple):
    """The result of `eig`: eigenvalues in no order, eigenvectors as columns; real only if all eigenvalues are."""

    eigenvalues: Array
    eigenvectors: Array


class SlogdetResult(NamedTuple):
    """The result of `slogdet`: det A = sign · exp(logabsdet)."""

    sign: Array
    logabsdet: Array


# ------------------------------------------------------------------------------ ways to run


def _matrix(x: Any, name: str, square: bool = False) -> Array:
    """Return `x` as an array of matrices with the dtype that NumPy's linalg computes in: integers become float64."""
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


def _is_whole(array: Array, flops: float = np.inf) -> bool:
    """Return True if an element has the function of NumPy done on all of the matrix, for all of its processes.

    That is so if it is small, replicated, of few flops, or p = 1.
    flops : of a real matrix, for a function that has a distributed form: a few do not repay its supersteps, in which
        all processes of an element have their turns.
    """
    node, here = array._node, world()
    if array.size <= layouts.REPLICATED_SIZE or here.nprocs == 1:
        return True
    few = FEW * layouts.REPLICATED_SIZE * here.machine.sharing(here.nprocs)
    if array.ndim == 2 and table.complexity(array.dtype) * flops <= few:
        return True
    return node.op is LEAF and node.layout is not None and node.layout.replicated


def _values(array: Array) -> Any:
    """Return all values on this process.  Collective: gathers them, with no superstep for a replicated array."""
    node = array._node
    if node.op is LEAF and node.layout is not None and node.layout.replicated and node.layout.blocks == 1:
        (found,) = node.value.values()
        return found
    return array.compute()


def _brought(array: Array, name: str, advice: str, result: int = 0) -> Any:
    """Gather a matrix whose function has no distributed form.  Collective: warns or refuses if it is large.

    result : the number of elements of the result, if it has more than the matrix.
    """
    p, size = world().nprocs, max(array.size, result)
    if size > GATHER_SIZE:
        raise GatherRefused(
            f"{name} of shape {array.shape} has no distributed form; in one piece it takes "
            f"{size * array.itemsize / 1e9:.3g} GB on each of {p} processes; {advice}"
        )
    if size * array.itemsize > SILENT_BYTES:
        warned(
            f"{name} of shape {array.shape} takes {size * array.itemsize / 1e6:.3g} MB on each of {p} processes, "
            f"and each element does all of the work; {advice}"
        )
    return _values(array)


def _given(found: Any) -> Array:
    """Return an array of a result that every process has alike, and that nobody changes."""
    return wrap(build.from_own(as_array(found)))


def _everywhere(name: str, function: Callable[..., Any], *arrays: Array) -> tuple[Array, ...]:
    """Call a NumPy function on every element.  The only words are those that gather the arrays."""
    values = [_values(each) for each in arrays]
    world().passes(sum(each.size for each in values), values[0].dtype)  # LAPACK works on a copy
    return _once(name, function, *values)


def _once(name: str, function: Callable[..., Any], *values: Any) -> tuple[Array, ...]:
    """Call a NumPy function on values that all processes have, once an element.  The name tells functions apart."""
    return tuple(_given(each) for each in world().once(name, lambda: _tuple(function(*values)), values))


def _tuple(found: Any) -> tuple[Any, ...]:
    return tuple(found) if isinstance(found, tuple) else (found,)


def _stacks(function: Callable[..., Any], arrays: Sequence[Array], cores: Sequence[int]) -> tuple[Array, ...]:
    """Call a NumPy function on stacks of matrices: leading axes broadcast and dealt, the core of each in one piece.

    cores : for each array, the number of its last axes that make its core.
    Cost: one total exchange where matrices are cut or leading axes dealt differently; one superstep more, one word, in
    which processes agree whether some matrix was singular.
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
        placed.append(row_blocks.settled(spread, layout_of((*lead, *[Axis(length) for length in own]))))
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
    phase = row_blocks.phases(r)
    k = phase.shape[-1]
    if q.shape[-1] > k:  # mode "complete": the signs of the further columns are arbitrary
        q, r = np.array(q), np.array(r)
        q[..., :k] = q[..., :k] * phase[..., None, :]
        r[..., :k, :] = r[..., :k, :] * np.conj(phase)[..., :, None]
        return q, r
    return q * phase[..., None, :], r * np.conj(phase)[..., :, None]


def _svd_of(a: Any, full: bool) -> tuple[Any, Any, Any]:
    """Return NumPy's SVD with signs fixed by the smaller factor."""
    u, s, vh = np.linalg.svd(a, full_matrices=full)
    k = s.shape[-1]
    m, n = a.shape[-2:]
    small = np.conj(np.swapaxes(vh[..., :k, :], -1, -2)) if m >= n else u[..., :, :k]
    phase = leading(small)
    if u.shape[-1] == k and vh.shape[-2] == k:
        return u * np.conj(phase)[..., None, :], s, vh * phase[..., :, None]
    u, vh = np.array(u), np.array(vh)
    u[..., :, :k] = u[..., :, :k] * np.conj(phase)[..., None, :]
    vh[..., :k, :] = vh[..., :k, :] * phase[..., :, None]
    return u, s, vh


def _is_lower(triangle: str) -> bool:
    """Return whether NumPy's UPLO is the lower triangle; raise NumPy's error if it is neither."""
    if triangle.upper() not in ("L", "U"):
        raise ValueError("UPLO argument must be 'L' or 'U'")
    return triangle.upper() == "L"


def _eigh_of(lower: Any) -> Callable[[Any], tuple[Any, Any]]:
    def function(a: Any) -> tuple[Any, Any]:
        values, vectors = np.linalg.eigh(a, lower)
        vectors *= np.conj(leading(vectors))[..., None, :]
        return values, vectors

    return function


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
    a = _matrix(x, "qr")
    m, n = a.shape[-2:]
    tall_or_wide = a.ndim > 2 or m < n or row_blocks.is_tall(a)
    whole = _is_whole(a, np.inf if tall_or_wide else 4 * m * n * n - 4 * n**3 / 3)
    if a.ndim > 2 or whole:
        way: Any = _signed_qr_of("complete" if mode == "complete" else "reduced")
        found = _everywhere(f"qr {mode}", way, a) if whole else _stacks(way, [a], [2])
    elif mode == "complete" and m > n:
        values = _brought(a, "qr", "mode='reduced' is distributed", m * m)
        found = _once("qr complete", _signed_qr_of("complete"), values)
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
    if row_blocks.is_tall(a):
        rows, small = row_blocks.tsqr(row_blocks.by_rows(a), a.dtype, want_q)
        return None if rows is None else row_blocks.to_array(rows, a.dtype), _given(small)
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
    if not compute_uv:
        return svdvals(x)
    a = _matrix(x, "svd", square=hermitian)
    m, n = a.shape[-2:]
    if _is_whole(a):
        return SVDResult(*_everywhere(f"svd {full_matrices}", lambda each: _svd_of(each, full_matrices), a))
    if a.ndim > 2:
        return SVDResult(*_stacks(lambda each: _svd_of(each, full_matrices), [a], [2]))
    if full_matrices and m != n:
        values = _brought(a, "svd with full_matrices=True", "pass full_matrices=False", max(m, n) ** 2)
        return SVDResult(*_once("svd True", lambda each: _svd_of(each, True), values))
    if m < n and row_blocks.is_tall(a.T):
        u, s, vh = svd(_adjoint(a), full_matrices=False)
        return SVDResult(_adjoint(vh), s, _adjoint(u))
    if not row_blocks.is_tall(a):
        values = _brought(a, "svd", "singular values of a tall matrix are distributed")
        return SVDResult(*_once("svd False", lambda each: _svd_of(each, False), values))
    u, s, vh = factored.svd_of(row_blocks.tsqr(row_blocks.by_rows(a), a.dtype), a.dtype)
    return SVDResult(u, _given(s), _given(vh))


@procedure
def svdvals(x: ArrayLike, /) -> Array:
    """Return the singular values, descending: (..., min(m, n)).  Cost: that of `svd` without vectors."""
    a = _matrix(x, "svdvals")
    if _is_whole(a):
        return _everywhere("svdvals", np.linalg.svdvals, a)[0]
    if a.ndim > 2:
        return _stacks(np.linalg.svdvals, [a], [2])[0]
    return _once("svdvals", np.linalg.svdvals, _small_factor(a, "svdvals"))[0]


def _small_factor(a: Array, name: str) -> Any:
    """Return, on every process, a matrix with the singular values of a large one: R, or the whole matrix."""
    for each in (a, a.T):
        if row_blocks.is_tall(each):
            r = row_blocks.tsqr(row_blocks.by_rows(each), a.dtype, want_q=False).r
            spoilt = decided(np.isnan(r).any(), usual=False)
            if spoilt and not decided(reductions.any(_UFUNCS["isnan"](a)), usual=True):
                return np.full_like(r, np.inf)  # infinities made R NaN; NumPy raises for NaN in x, not for infinities
            return r
    return _brought(a, name, "singular values of a tall or wide matrix are distributed")


@procedure
def matrix_rank(
    x: ArrayLike, /, tol: ArrayLike | None = None, hermitian: bool = False, *, rtol: ArrayLike | None = None
) -> Array:
    """Count the singular values that exceed `tol`, or `rtol` times the largest (max(m, n)·eps unless given)."""
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
    a = _matrix(x, "pinv", square=hermitian)
    m, n = a.shape[-2:]
    cut: Any = rtol if rtol is not None else rcond
    cut = max(m, n) * np.finfo(a.dtype).eps if cut is None else cut
    if isinstance(cut, Array):
        cut = _values(cut)

    def function(each: Any) -> Any:
        return np.linalg.pinv(each, rtol=cut, hermitian=hermitian)

    name = f"pinv {hermitian} {np.asarray(cut).tolist()}"
    if _is_whole(a) or not m * n:
        return _everywhere(name, function, a)[0]
    if a.ndim > 2:
        if not np.ndim(cut):
            return _stacks(function, [a], [2])[0]
        cuts = asarray(np.broadcast_to(cut, a.shape[:-2])[..., None])
        return _stacks(
            lambda each, own: np.linalg.pinv(each, rtol=own[..., 0], hermitian=hermitian), [a, cuts], [2, 1]
        )[0]
    if m < n:
        return _adjoint(pinv(_adjoint(a), rtol=cut))
    if not row_blocks.is_tall(a):
        return _once(name, function, _brought(a, "pinv", "inv and solve of a regular matrix are distributed"))[0]
    q, r = row_blocks.tsqr(row_blocks.by_rows(a), a.dtype)
    assert q is not None
    inverse = world().once(name, lambda: function(r), [r])
    return _adjoint(row_blocks.to_array(row_blocks.times(q, np.conj(inverse).T), a.dtype))


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
    cut = factored.cut_of(rcond, m, n, dtype)
    if _is_whole(matrix) and (_is_whole(right) or not m * n):
        found = _lstsq_once(_values(matrix), _values(right), cut)
    elif m < n and row_blocks.is_tall(matrix.T):
        found = _lstsq_wide(matrix, right, cut)
    elif row_blocks.is_tall(matrix) and m:
        found = _lstsq_tall(matrix, right, cut)
    else:
        values = _brought(matrix, "lstsq", "solve() of a regular square matrix is distributed")
        found = _lstsq_once(values, _values(right), cut)
    x, rest, rank, s = found
    return (x[:, 0] if flat else x), rest, rank, s


def _lstsq_once(a: Any, b: Any, cut: Any) -> tuple[Array, Array, Any, Array]:
    x, rest, rank, s = world().once(f"lstsq {cut}", lambda: np.linalg.lstsq(a, b, rcond=cut), [a, b])
    return _given(x), _given(rest), rank, _given(s)


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
        return _given(x), _given(rest), rank, _given(s)
    q, r = row_blocks.tsqr(rows, a.dtype)
    assert q is not None
    c = _values(matmul(_adjoint(row_blocks.to_array(q, a.dtype)), b))
    u, s, vh = world().once("svd of R", lambda: np.linalg.svd(r, full_matrices=False), [r])
    inverse, rank = _kept(s, cut)
    x = _given(np.conj(vh).T @ (inverse[:, None] * (np.conj(u).T @ c)))
    rest = _given(np.empty(0, s.dtype))
    if a.shape[0] > n and decided(rank == n, usual=True):
        away = b - matmul(a, x)
        rest = total(absolute(away) ** 2, axis=0).persist()
    return x, rest, rank, _given(s)


def _lstsq_wide(a: Array, b: Array, cut: Any) -> tuple[Array, Array, Any, Array]:
    q, r = row_blocks.tsqr(row_blocks.by_rows(_adjoint(a)), a.dtype)
    assert q is not None
    u, s, vh = world().once("svd of R", lambda: np.linalg.svd(r, full_matrices=False), [r])
    inverse, rank = _kept(s, cut)
    small = u @ (inverse[:, None] * (vh @ _values(b)))
    return row_blocks.to_array(row_blocks.times(q, small), a.dtype), _given(np.empty(0, s.dtype)), rank, _given(s)


# ------------------------------------------------------------------------- square matrices


@procedure
def cholesky(x: ArrayLike, /, *, upper: bool = False) -> Array:
    """Return the L of A = L·Lᴴ, lower triangular with a positive diagonal; upper: Lᴴ.  Reads only A's lower triangle.

    Cost: large: n³/3p flops, n/b panels of n²/2 words in all (see `panels`); the result is dealt by columns.
    Raises LinAlgError on every process if a matrix is not positive definite.
    """
    a = _matrix(x, "cholesky", square=True)
    if upper:
        a = _adjoint(a)  # with `upper` NumPy reads the upper triangle
    if _is_whole(a, a.shape[-1] ** 3 / 3):
        found = _everywhere("cholesky", transposed.cholesky, a)[0]
    elif a.ndim > 2:
        found = _stacks(np.linalg.cholesky, [a], [2])[0]
    else:
        found = cholesky_panels.cholesky(a, a.dtype)
    return _adjoint(found) if upper else found


@procedure
def solve(x1: ArrayLike, x2: ArrayLike, /) -> Array:
    """Return the x of x1·x = x2: x1 (..., n, n), x2 (n,) or (..., n, k); leading axes broadcast.

    Cost: large: LU with partial pivoting by panels, (2n³/3 + 2n²k)/p flops, n/b panels of n²/2 words in all, and n/b
    steps of back substitution (see `panels`); small x1 and many columns: x1 on every process, x2 by columns.
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
    whole = _is_whole(a, _lu_flops(a))
    if (whole and _is_whole(b)) or not a.size or not b.size:
        found = _everywhere("solve", transposed.solve, a, b)[0]
    elif a.ndim > 2 or b.ndim > 2:
        found = _stacks(np.linalg.solve, [a, b], [2, 2])[0]
    elif whole:
        found = _solve_columns(a, b)
    else:
        found = elimination.solve(a, b, dtype)
    return found[..., 0] if vector else found


def _solve_columns(a: Array, b: Array) -> Array:
    """Solve a small system gathered on every process, with its right-hand sides dealt by columns."""
    layout = b.layout
    if layout.replicated or layout.table is not None or layout.axes[0].parts > 1:
        parts = min(world().nprocs, b.shape[1])
        layout = dealt(b.shape, (1, parts), (1, parts))
    right = row_blocks.settled(b, layout)
    values = _values(a)
    # also on a process without columns of b, to raise LinAlgError as the others do
    factors = world().once("factors", lambda: transposed.factors(values), [values])
    return wrap(leaf(b.shape, b.dtype, layout, {at: transposed.solved(factors, each) for at, each in right.items()}))


def _lu_flops(a: Array) -> float:
    return float(2 * a.shape[-1] ** 3 / 3)


@procedure
def inv(x: ArrayLike, /) -> Array:
    """Return the inverse.  Raises LinAlgError for a singular matrix.

    Cost: large: 2n³/p flops, n/b panels twice, n² words in all (see `elimination`).
    """
    a = _matrix(x, "inv", square=True)
    if _is_whole(a, 3 * _lu_flops(a)):
        return _everywhere("inv", transposed.inverse, a)[0]
    if a.ndim > 2:
        return _stacks(np.linalg.inv, [a], [2])[0]
    return elimination.inverse(a, a.dtype)


@procedure
def slogdet(x: ArrayLike, /) -> SlogdetResult:
    """Return the determinant's sign (of modulus 1, or 0) and the logarithm of its modulus.  Cost: LU, see `solve`."""
    a = _matrix(x, "slogdet", square=True)
    if _is_whole(a, _lu_flops(a)):
        return SlogdetResult(*_everywhere("slogdet", np.linalg.slogdet, a))
    if a.ndim > 2:
        return SlogdetResult(*_stacks(np.linalg.slogdet, [a], [2]))
    return SlogdetResult(*[_given(each) for each in elimination.determinant(a, a.dtype)])


@procedure
def det(x: ArrayLike, /) -> Array:
    """Return the determinant.  Cost: LU, see `solve`."""
    a = _matrix(x, "det", square=True)
    if _is_whole(a, _lu_flops(a)):
        return _everywhere("det", np.linalg.det, a)[0]
    if a.ndim > 2:
        return _stacks(np.linalg.det, [a], [2])[0]
    sign, log = elimination.determinant(a, a.dtype)
    return _given(sign * np.exp(log).astype(a.dtype))


@procedure
def eigh(x: ArrayLike, /, UPLO: Literal["L", "U"] = "L") -> EighResult:
    """Return eigenvalues, ascending, and eigenvectors of Hermitian matrices; only the triangle UPLO is read.

    Cost: stacks: 9n³ flops for each matrix, where it is.  A large matrix is brought to every process, which finds the
    vectors that it owns, 8n³/3 + 2n³/p flops: see `eigenpairs`; they are dealt by columns.
    """
    a = _matrix(x, "eigh", square=True)
    if a.ndim > 2 and not _is_whole(a):
        return EighResult(*_stacks(_eigh_of(UPLO), [a], [2]))
    if _is_whole(a):
        return EighResult(*_everywhere(f"eigh {UPLO}", _eigh_of(UPLO), a))
    values, vectors = eigenpairs(
        _brought(a, "eigh", "svd of a tall matrix X gives the eigenvectors of XᴴX"), _is_lower(UPLO)
    )
    return EighResult(_given(values), vectors)


@procedure
def eigvalsh(x: ArrayLike, /, UPLO: Literal["L", "U"] = "L") -> Array:
    """Return the eigenvalues of Hermitian matrices, ascending.  Cost: as `eigh`, 4n³/3 flops."""
    a = _matrix(x, "eigvalsh", square=True)

    def function(each: Any) -> Any:
        return np.linalg.eigvalsh(each, UPLO)

    if a.ndim > 2 and not _is_whole(a):
        return _stacks(function, [a], [2])[0]
    advice = "svdvals of a tall matrix X gives the eigenvalues of XᴴX"
    values = _values(a) if _is_whole(a) else _brought(a, "eigvalsh", advice)
    return _once(f"eigvalsh {UPLO}", function, values)[0]


def _unsymmetric(x: Any, name: str, function: Callable[..., Any]) -> tuple[Array, ...]:
    """Apply NumPy's eig or eigvals to square matrices: real results if all eigenvalues of all matrices are real."""
    a = _matrix(x, name, square=True)
    if a.ndim > 2 and not _is_whole(a):

        def complex_ones(each: Any) -> tuple[Any, ...]:
            return tuple(found.astype(np.result_type(found.dtype, np.complex64)) for found in _tuple(function(each)))

        found = _stacks(complex_ones, [a], [2])
        if a.dtype.kind == "c" or decided(reductions.any(found[0].imag != 0), usual=False):
            return found
        return tuple(each.real for each in found)
    advice = "eigh of a Hermitian matrix takes a third of the work"
    values = _values(a) if _is_whole(a) else _brought(a, name, advice)
    return _once(name, function, values)


@procedure
def eig(x: ArrayLike, /) -> EigResult:
    """Return eigenvalues and eigenvectors of square matrices, as NumPy's.

    Cost: stacks: 25n³ flops for each matrix, where it is, and one superstep.  A large one is gathered everywhere.
    """
    return EigResult(*_unsymmetric(x, "eig", np.linalg.eig))


@procedure
def eigvals(x: ArrayLike, /) -> Array:
    """Return the eigenvalues of square matrices, as NumPy's.  Cost: as `eig`, 10n³ flops."""
    return _unsymmetric(x, "eigvals", np.linalg.eigvals)[0]


def tensorinv(a: ArrayLike, ind: int = 2) -> Array:
    """Return the inverse of an array as a map from its last axes to its first `ind`.  Cost: as `inv`."""
    array = asarray(a)
    if ind <= 0:
        raise ValueError("Invalid ind argument.")
    shape = array.shape[ind:] + array.shape[:ind]
    return manipulation.reshape(inv(manipulation.reshape(array, (prod(array.shape[ind:]), -1))), shape)


def tensorsolve(a: ArrayLike, b: ArrayLike, axes: Sequence[int] | None = None) -> Array:
    """Return the x with tensordot(a, x, x.ndim) = b; the `axes` of a are moved to its end first.  Cost: as `solve`."""
    array, right = asarray(a), asarray(b)
    if axes is not None:
        order = [axis for axis in range(array.ndim) if axis not in axes] + list(axes)
        array = manipulation.permute_dims(array, order)
    shape = array.shape[right.ndim - array.ndim :] if array.ndim > right.ndim else ()
    size = prod(shape)
    if array.size != size**2:
        raise LinAlgError("Input arrays must satisfy the requirement prod(a.shape[b.ndim:]) == prod(a.shape[:b.ndim])")
    return manipulation.reshape(solve(manipulation.reshape(array, (size, size)), manipulation.ravel(right)), shape)


def matrix_power(x: ArrayLike, n: int, /) -> Array:
    """Return the n-th power, by squaring: at most 2·log2 n products.  A negative n takes powers of the inverse."""
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


def vector_norm(x: ArrayLike, /, *, axis: Axes = None, keepdims: bool = False, ord: float = 2) -> Array:
    """Return (Σ|x|^ord)^(1/ord) over axes; ±inf: extremes; 0: the count of nonzeros.  Lazy.  Cost: a reduction."""
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
        return ufuncs.sqrt(total(squares, axis=axis, keepdims=keepdims))
    if not isinstance(ord, (int, float, np.number)):
        raise ValueError(f"Invalid norm order {ord!r} for vectors")
    found: Array = total(absolute(array) ** ord, axis=axis, keepdims=keepdims) ** (1 / ord)
    return found


def _norm_axes(axis: Any) -> tuple[Any, ...]:
    """Return the axes of a norm as a tuple; raise NumPy's TypeError for anything but a tuple or an integer."""
    if isinstance(axis, tuple):
        return axis
    try:
        return (int(axis),)
    except (TypeError, ValueError):
        raise TypeError("'axis' must be None, an integer or a tuple of integers") from None


def matrix_norm(x: ArrayLike, /, *, keepdims: bool = False, ord: Ord = "fro") -> Array:
    """Return norms of the last two axes: "fro"; "nuc", ±2: by singular values; ±1: of column sums; ±inf: of row sums.

    Lazy, except those by singular values (see `svdvals`).  Cost: a reduction.
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


def norm(x: ArrayLike, ord: Ord = None, axis: int | tuple[int, ...] | None = None, keepdims: bool = False) -> Array:
    """Return NumPy's norm: of all elements as one vector, of vectors along an axis, or of matrices over two axes."""
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
def cond(x: ArrayLike, /, p: Ord = None) -> Array:
    """Return condition numbers: by singular values (p None, ±2), else norm(x, p)·norm(inv(x), p); inf if singular."""
    a = _matrix(x, "cond")
    if not a.shape[-1] * a.shape[-2]:
        raise LinAlgError("cond is not defined on empty arrays")
    if a.ndim > 2 or _is_whole(a):

        def function(each: Any) -> Any:
            return np.linalg.cond(each, p)

        return _everywhere(f"cond {p}", function, a)[0] if _is_whole(a) else _stacks(function, [a], [2])[0]
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
    isnan = _UFUNCS["isnan"]  # 0/0, of a matrix of zeros, counts as infinite; NaN in x stays NaN
    return ufuncs.where(isnan(found) & ~reductions.any(isnan(a), axis=(-2, -1)), np.inf, found).astype(found.dtype)


# -------------------------------------------------------------------------------- products


def multi_dot(arrays: Sequence[ArrayLike], *, out: Array | None = None) -> Array:
    """Multiply several matrices in the order that takes the fewest flops; the first and last may be vectors.

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


def _product(given: list[Array], best: np.ndarray, i: int, j: int) -> Array:
    if i == j:
        return given[i]
    k = int(best[i, j])
    return matmul(_product(given, best, i, k), _product(given, best, k + 1, j))


def outer(x1: ArrayLike, x2: ArrayLike, /) -> Array:
    """Return all products of two vectors' elements.  Lazy."""
    a, b = asarray(x1), asarray(x2)
    if a.ndim != 1 or b.ndim != 1:
        raise ValueError(f"outer: input arrays must be one-dimensional, not {a.ndim} and {b.ndim}-dimensional")
    found: Array = a[:, None] * b[None, :]
    return found


def cross(x1: ArrayLike, x2: ArrayLike, /, *, axis: int = -1) -> Array:
    """Return cross products of vectors of three elements along an axis; the other axes broadcast.  Lazy."""
    a, b = asarray(x1), asarray(x2)
    a, b = moveaxis(a, axis, -1), moveaxis(b, axis, -1)
    if a.shape[-1] != 3 or b.shape[-1] != 3:
        raise ShapeError(f"cross: both arrays have 3 elements along the axis, not {a.shape[-1]} and {b.shape[-1]}")
    (a0, a1, a2), (b0, b1, b2) = ([each[..., k] for k in range(3)] for each in (a, b))
    return moveaxis(stack([a1 * b2 - a2 * b1, a2 * b0 - a0 * b2, a0 * b1 - a1 * b0], axis=-1), -1, axis)


def _numpys_cross(a: Any, b: Any, axisa: int = -1, axisb: int = -1, axisc: int = -1, axis: int | None = None) -> Array:
    """Implement numpy.cross: vectors along `axisa` and `axisb`, products along `axisc`; `axis` sets all three."""
    if axis is not None:
        axisa = axisb = axisc = axis
    found = cross(moveaxis(asarray(a), axisa, -1), moveaxis(asarray(b), axisb, -1))
    return moveaxis(found, -1, axisc)


def diagonal(x: ArrayLike, /, *, offset: int = 0) -> Array:
    """Return the diagonals of the last two axes.  Lazy."""
    return manipulation.diagonal(x, offset, -2, -1)


def trace(x: ArrayLike, /, *, offset: int = 0, dtype: DTypeLike | None = None) -> Array:
    """Return the sums of the diagonals of the last two axes.  Lazy."""
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
