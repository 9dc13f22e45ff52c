"""Products and factorisations; the formulas for their flops are in `table`.

The docstring of a rule gives the function of NumPy and what it counts.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from functools import lru_cache
from math import prod
from typing import Any

import numpy as np
from numpy.linalg import LinAlgError

from bsp.abstract import table
from bsp.abstract.array import into, owned, result, scalar
from bsp.abstract.elementwise import described, generalised, operand
from bsp.abstract.probe import DType, Shape, axes_of, axis_of, broadcast, outcome, shape_text
from bsp.abstract.table import TABLE, complexity, not_counted, product, product_kernel, rule
from bsp.abstract.work import counter

# ---------------------------------------------------------------------------------- products


def _count_product(batch: int, m: int, k: int, n: int, dtype: DType) -> None:
    """Count `batch` products of (m, k) by (k, n) matrices."""
    counter.flops(product_kernel(m, n, dtype, k), batch * product(m, k, n) * complexity(dtype))


@rule("dot")
def dot(a: Any, b: Any, out: Any = None) -> Any:
    """numpy.dot: sums over the last axis of `a` and the second last of `b`; a plain product if one is a scalar."""
    (a_key, a_shape), (b_key, b_shape) = described(a), described(b)
    found = outcome(np.dot, a_key, b_key)
    if not a_shape or not b_shape:
        counter.flops("elementwise", prod(a_shape + b_shape) * complexity(found))
        return into(out, a_shape + b_shape, found)
    place = max(len(b_shape) - 2, 0)
    if a_shape[-1] != b_shape[place]:
        raise ValueError(
            f"shapes {shape_text(a_shape)} and {shape_text(b_shape)} not aligned: {a_shape[-1]} (dim "
            f"{len(a_shape) - 1}) != {b_shape[place]} (dim {place})"
        )
    left, right = a_shape[:-1], b_shape[:place] + b_shape[place + 1 :]
    _count_product(1, prod(left), a_shape[-1], prod(right), found)
    return into(out, left + right, found)


@rule("vdot")
def vdot(a: Any, b: Any) -> Any:
    """numpy.vdot: the dot product of all elements, as vectors."""
    (a_key, a_shape), (b_key, b_shape) = described(a), described(b)
    if prod(a_shape) != prod(b_shape):
        raise ValueError(f"cannot reshape array of size {prod(b_shape)} into shape ({prod(a_shape)},)")
    found = outcome(np.vdot, a_key, b_key)
    _count_product(1, 1, prod(a_shape), 1, found)
    return scalar(found)


@rule("inner")
def inner(a: Any, b: Any) -> Any:
    """numpy.inner: sums over the last axes of both."""
    (a_key, a_shape), (b_key, b_shape) = described(a), described(b)
    found = outcome(np.inner, a_key, b_key)
    if not a_shape or not b_shape:
        counter.flops("elementwise", prod(a_shape + b_shape) * complexity(found))
        return result(a_shape + b_shape, found)
    if a_shape[-1] != b_shape[-1]:
        raise ValueError(
            f"shapes {shape_text(a_shape)} and {shape_text(b_shape)} not aligned: {a_shape[-1]} (dim "
            f"{len(a_shape) - 1}) != {b_shape[-1]} (dim {len(b_shape) - 1})"
        )
    _count_product(1, prod(a_shape[:-1]), a_shape[-1], prod(b_shape[:-1]), found)
    return result(a_shape[:-1] + b_shape[:-1], found)


@rule("outer", "linalg.outer")
def outer(a: Any, b: Any, out: Any = None) -> Any:
    """numpy.outer, numpy.linalg.outer: a product for each pair of elements."""
    (a_key, a_shape), (b_key, b_shape) = described(a), described(b)
    found = outcome(np.outer, a_key, b_key)
    shape = (prod(a_shape), prod(b_shape))
    counter.flops("elementwise", prod(shape) * complexity(found))
    return into(out, shape, found)


@rule("kron")
def kron(a: Any, b: Any) -> Any:
    """numpy.kron: a product for each pair of elements."""
    a, b = operand(a), operand(b)
    ndim = max(a.ndim, b.ndim)
    pad_a, pad_b = (1,) * (ndim - a.ndim) + a.shape, (1,) * (ndim - b.ndim) + b.shape
    found = outcome(np.multiply, a.dtype, b.dtype)
    shape = tuple(x * y for x, y in zip(pad_a, pad_b, strict=True))
    counter.flops("elementwise", prod(shape) * complexity(found))
    return result(shape, found)


@rule("tensordot", "linalg.tensordot")
def tensordot(a: Any, b: Any, axes: Any = 2) -> Any:
    """numpy.tensordot: a matrix product of the free axes over the summed ones."""
    (a_key, a_shape), (b_key, b_shape) = described(a), described(b)
    if hasattr(axes, "__iter__") and getattr(axes, "ndim", True):
        a_axes, b_axes = (list(each) if hasattr(each, "__iter__") else [each] for each in axes)
    else:
        a_axes, b_axes = list(range(-operator.index(axes), 0)), list(range(operator.index(axes)))
    if len(a_axes) != len(b_axes):
        raise ValueError("shape-mismatch for sum")
    pairs = list(zip(a_axes, b_axes, strict=True))
    if any(a_shape[i] != b_shape[j] for i, j in pairs):
        raise ValueError("shape-mismatch for sum")
    left = tuple(n for k, n in enumerate(a_shape) if k not in {i % len(a_shape) for i in a_axes})
    right = tuple(n for k, n in enumerate(b_shape) if k not in {j % len(b_shape) for j in b_axes})
    found = outcome(np.multiply, a_key, b_key)
    _count_product(1, prod(left), prod(a_shape[i] for i in a_axes), prod(right), found)
    return owned(left + right, found)


@rule("einsum")
def einsum(
    subscripts: Any,
    *operands: Any,
    out: Any = None,
    dtype: Any = None,
    order: Any = "K",
    casting: Any = "safe",
    optimize: Any = False,
) -> Any:
    """numpy.einsum: as many flops as operands for each combination of the indices; BLAS-3 if optimised."""
    if not isinstance(subscripts, str):
        raise not_counted(np.einsum, " with lists of indices")
    described_all = [described(value) for value in operands]
    ranks = [(key, len(shape)) for key, shape in described_all]
    options = {} if dtype is None else {"dtype": np.dtype(dtype)}
    found = _einsum_dtype(subscripts, tuple(ranks), tuple(options.items()))
    sizes: dict[Any, int] = {}
    inputs, output = _labels(subscripts, tuple(len(shape) for _, shape in described_all))
    for labels, (_, shape) in zip(inputs, described_all, strict=True):
        for label, length in zip(labels, shape, strict=True):
            if sizes.get(label, 1) != length and 1 not in (sizes.get(label, 1), length):
                raise ValueError(
                    f"operands could not be broadcast together: index {label!r} has lengths {sizes[label]} and {length}"
                )
            sizes[label] = max(sizes.get(label, 1), length) if length else 0
    flops = max(len(operands), 1) * prod(sizes.values()) * complexity(found)
    fast = bool(optimize) and len(operands) > 1 and found.char in table.BLAS_KINDS
    counter.flops("blas3" if fast else "elementwise", flops)
    return into(out, tuple(sizes[label] for label in output), found)


@lru_cache(maxsize=1 << 10)
def _einsum_dtype(subscripts: str, ranks: tuple[Any, ...], options: tuple[tuple[str, Any], ...]) -> DType:
    """Return the dtype of the result; NumPy checks the subscripts, on operands of one element."""
    ones = [np.ones((1,) * ndim, key if isinstance(key, np.dtype) else type(key(1))) for key, ndim in ranks]
    return np.asarray(np.einsum(subscripts, *ones, **dict(options))).dtype


@lru_cache(maxsize=1 << 10)
def _labels(subscripts: str, ranks: tuple[int, ...]) -> tuple[list[list[Any]], list[Any]]:
    """Return the index at each axis of each operand, and of the result; those of `...` are negative numbers."""
    given, arrow, output = subscripts.replace(" ", "").partition("->")
    terms = given.split(",")
    covered = 0
    inputs = []
    for term, ndim in zip(terms, ranks, strict=True):
        free = ndim - len(term.replace("...", ""))
        if "..." in term:
            covered = max(covered, free)
        inputs.append(_expanded(term, free))
    if arrow:
        return inputs, _expanded(output, covered)
    letters = given.replace(",", "").replace("...", "")
    once = sorted(letter for letter in set(letters) if letters.count(letter) == 1)
    return inputs, [*range(-covered, 0), *once]


def _expanded(term: str, free: int) -> list[Any]:
    """Return the indices of a term, with `free` negative numbers for its `...`."""
    before, dots, after = term.partition("...")
    return [*before, *(range(-free, 0) if dots else ()), *after]


@rule("einsum_path")
def einsum_path(*args: Any, **kwargs: Any) -> Any:
    """numpy.einsum_path: raises NotCounted."""
    raise not_counted(np.einsum_path)


@rule("cross", "linalg.cross")
def cross(a: Any, b: Any, axisa: int = -1, axisb: int = -1, axisc: int = -1, axis: Any = None) -> Any:
    """numpy.cross: six products and three differences for each pair of vectors of length 3."""
    if axis is not None:
        axisa = axisb = axisc = axis
    a, b = np.moveaxis(operand(a), axisa, -1), np.moveaxis(operand(b), axisb, -1)
    if a.shape[-1] != 3 or b.shape[-1] != 3:
        raise ValueError(
            f"Both input arrays must be (arrays of) 3-dimensional vectors, but they are {a.shape[-1]} and "
            f"{b.shape[-1]} dimensional instead."
        )
    found = outcome(np.multiply, a.dtype, b.dtype)
    shape = broadcast(a.shape, b.shape)
    counter.flops("elementwise", 9 * prod(shape[:-1]) * complexity(found))
    return TABLE[np.moveaxis](result(shape, found), -1, axisc)


@rule("linalg.matmul")
def linalg_matmul(x1: Any, x2: Any, /) -> Any:
    """numpy.linalg.matmul: as `@`."""
    return generalised(np.matmul, (x1, x2), {})


@rule("linalg.vecdot")
def linalg_vecdot(x1: Any, x2: Any, /, *, axis: int = -1) -> Any:
    """numpy.linalg.vecdot: as numpy.vecdot."""
    x1, x2 = (np.moveaxis(operand(x), axis, -1) for x in (x1, x2))
    return generalised(np.vecdot, (x1, x2), {})


@rule("trace", "linalg.trace")
def trace(a: Any, offset: int = 0, axis1: int = 0, axis2: int = 1, dtype: Any = None, out: Any = None) -> Any:
    """numpy.trace, numpy.linalg.trace: a sum over the diagonal."""
    return np.sum(np.diagonal(a, offset, axis1, axis2), axis=-1, dtype=dtype, out=out)


@rule("convolve")
def convolve(a: Any, v: Any, mode: str = "full") -> Any:
    """numpy.convolve: a product and a sum for each pair of elements."""
    a, v = operand(a), operand(v)
    if a.ndim > 1 or v.ndim > 1:
        raise ValueError("object too deep for desired array")
    if not a.size or not v.size:
        raise ValueError("a cannot be empty")
    longer, shorter = max(a.size, v.size), min(a.size, v.size)
    lengths = {"full": longer + shorter - 1, "same": longer, "valid": longer - shorter + 1}
    if mode not in lengths:
        raise ValueError(f"mode must be one of 'valid', 'same', or 'full' (got {mode!r})")
    found = outcome(np.convolve, a.dtype, v.dtype)
    counter.flops("elementwise", product(1, longer, shorter) * complexity(found))
    return result((lengths[mode],), found)


@rule("correlate")
def correlate(a: Any, v: Any, mode: str = "valid") -> Any:
    """numpy.correlate: as convolve, but with mode 'valid' by default."""
    return convolve(a, v, mode)


# --------------------------------------------------------------------------------- factorisations


def _matrices(a: Any, square: bool = False) -> tuple[Any, Shape, int, int]:
    """Return a stack of matrices: the array, the shape of the stack, rows and columns.  Raises LinAlgError."""
    a = operand(a)
    if a.ndim < 2:
        raise LinAlgError(f"{a.ndim}-dimensional array given. Array must be at least two-dimensional")
    m, n = a.shape[-2:]
    if square and m != n:
        raise LinAlgError("Last 2 dimensions of the array must be square")
    return a, a.shape[:-2], m, n


def _dtypes(function: Any, *arrays: Any, **options: Any) -> Any:
    """Return the dtypes of a factorisation, which NumPy computes from matrices of one element."""
    return outcome(function, *[(array.dtype, max(array.ndim, 1)) for array in arrays], **options)


@lru_cache(maxsize=64)
def _named(function: Callable[..., Any]) -> Any:
    """Return the named tuple in which NumPy returns the factors."""
    return type(function(np.ones((1, 1))))


def _factor(flops: float, stack: Shape, dtype: DType, columns: int | None = None) -> None:
    """Count a factorisation of each matrix of a stack.

    columns : of what LAPACK factors by blocks of columns; None: all flops are of class blas3.
    """
    narrow = 0.0 if columns is None else table.factored(columns)
    counter.factoring(flops * prod(stack) * complexity(dtype), narrow)


@rule("linalg.solve")
def solve(a: Any, b: Any) -> Any:
    """numpy.linalg.solve: LU, then two triangular solves; `b` of one dimension is a vector, else stacked matrices."""
    a, stack, n, _ = _matrices(a, square=True)
    b = operand(b)
    columns = 1 if b.ndim == 1 else b.shape[-1]
    if b.ndim == 0 or b.shape[-1 if b.ndim == 1 else -2] != n:
        raise ValueError(
            "solve: Input operand 1 has a mismatch in its core dimension 0, with gufunc signature (m,m),(m,n)->(m,n)"
        )
    found = outcome(np.linalg.solve, (a.dtype, 2), (b.dtype, 1))
    if b.ndim == 1:
        _factor(table.lu(n) + table.triangular_solves(n, 1), stack, found, n)
        return result((*stack, n), found)
    common = broadcast(stack, b.shape[:-2])
    _factor(table.lu(n) + table.triangular_solves(n, columns), common, found, n)
    return result((*common, n, columns), found)


@rule("linalg.inv")
def inv(a: Any) -> Any:
    """numpy.linalg.inv: 2n^3 flops."""
    a, stack, n, _ = _matrices(a, square=True)
    found = _dtypes(np.linalg.inv, a)
    _factor(table.inverse(n), stack, found, n)
    return result(a.shape, found)


@rule("linalg.det")
def det(a: Any) -> Any:
    """numpy.linalg.det: LU, and the product of its diagonal."""
    a, stack, n, _ = _matrices(a, square=True)
    found = _dtypes(np.linalg.det, a)
    _factor(table.lu(n) + n, stack, found, n)
    return result(stack, found)


@rule("linalg.slogdet")
def slogdet(a: Any) -> Any:
    """numpy.linalg.slogdet: as det."""
    a, stack, n, _ = _matrices(a, square=True)
    sign, log = _dtypes(np.linalg.slogdet, a)
    _factor(table.lu(n) + n, stack, sign, n)
    return _named(np.linalg.slogdet)(result(stack, sign), result(stack, log))


@rule("linalg.cholesky")
def cholesky(a: Any, /, *, upper: bool = False) -> Any:
    """numpy.linalg.cholesky: n^3/3 flops."""
    a, stack, n, _ = _matrices(a, square=True)
    found = _dtypes(np.linalg.cholesky, a)
    _factor(table.cholesky(n), stack, found, n)
    return result(a.shape, found)


@rule("linalg.qr")
def qr(a: Any, mode: str = "reduced") -> Any:
    """numpy.linalg.qr: Householder QR."""
    if mode not in ("reduced", "complete", "r", "raw"):
        raise ValueError(f"Unrecognized mode '{mode}'")
    a, stack, m, n = _matrices(a)
    found = outcome(np.linalg.qr, (a.dtype, 2), mode="r")
    _factor(table.qr(m, n, mode), stack, found, min(m, n))
    k = m if mode == "complete" else min(m, n)
    if mode == "raw":
        return result((*stack, n, m), found), result((*stack, min(m, n)), found)
    r = result((*stack, k, n), found)
    return r if mode == "r" else _named(np.linalg.qr)(result((*stack, m, k), found), r)


@rule("linalg.svd")
def svd(a: Any, full_matrices: bool = True, compute_uv: bool = True, hermitian: bool = False) -> Any:
    """numpy.linalg.svd: Golub-Reinsch; for a Hermitian matrix the eigenvalues."""
    a, stack, m, n = _matrices(a, square=hermitian)
    u, s, _ = _dtypes(np.linalg.svd, a)
    flops = table.eigh(n, compute_uv) if hermitian else table.svd(m, n, compute_uv, full_matrices)
    _factor(flops, stack, u)
    k = min(m, n)
    values = result((*stack, k), s)
    if not compute_uv:
        return values
    rows, columns = (m, n) if full_matrices else (k, k)
    left, right = result((*stack, m, rows), u), result((*stack, columns, n), u)
    return _named(np.linalg.svd)(left, values, right)


@rule("linalg.svdvals")
def svdvals(x: Any, /) -> Any:
    """numpy.linalg.svdvals: singular values alone."""
    return svd(x, compute_uv=False)


@rule("linalg.eigh")
def eigh(a: Any, UPLO: str = "L") -> Any:
    """numpy.linalg.eigh: 9n^3 flops."""
    if UPLO.upper() not in ("L", "U"):
        raise ValueError("UPLO argument must be 'L' or 'U'")
    a, stack, n, _ = _matrices(a, square=True)
    values, vectors = _dtypes(np.linalg.eigh, a)
    _factor(table.eigh(n, vectors=True), stack, vectors)
    return _named(np.linalg.eigh)(result((*stack, n), values), result(a.shape, vectors))


@rule("linalg.eigvalsh")
def eigvalsh(a: Any, UPLO: str = "L") -> Any:
    """numpy.linalg.eigvalsh: 4n^3/3 flops."""
    a, stack, n, _ = _matrices(a, square=True)
    found = _dtypes(np.linalg.eigvalsh, a)
    _factor(table.eigh(n, vectors=False), stack, a.dtype)
    return result((*stack, n), found)


@rule("linalg.eig")
def eig(a: Any) -> Any:
    """numpy.linalg.eig: 25n^3 flops.  The result is complex; NumPy's is real if all eigenvalues are."""
    a, stack, n, _ = _matrices(a, square=True)
    found = np.result_type(_dtypes(np.linalg.eig, a)[0], np.complex64)
    _factor(table.eig(n, vectors=True), stack, a.dtype)
    return _named(np.linalg.eig)(result((*stack, n), found), result(a.shape, found))


@rule("linalg.eigvals")
def eigvals(a: Any) -> Any:
    """numpy.linalg.eigvals: 10n^3 flops; complex, as in eig."""
    a, stack, n, _ = _matrices(a, square=True)
    found = np.result_type(_dtypes(np.linalg.eigvals, a), np.complex64)
    _factor(table.eig(n, vectors=False), stack, a.dtype)
    return result((*stack, n), found)


@rule("linalg.lstsq")
def lstsq(a: Any, b: Any, rcond: Any = None) -> Any:
    """numpy.linalg.lstsq: by singular values.  Full rank is assumed, so there are residuals if m > n."""
    a, b = operand(a), operand(b)
    if a.ndim != 2:
        raise LinAlgError(f"{a.ndim}-dimensional array given. Array must be two-dimensional")
    m, n = a.shape
    if b.ndim not in (1, 2):
        raise LinAlgError(f"{b.ndim}-dimensional array given. Array must be two-dimensional")
    if b.shape[0] != m:
        raise LinAlgError("Incompatible dimensions")
    columns = b.shape[1:]
    found = outcome(np.linalg.solve, (a.dtype, 2), (b.dtype, 1))
    real = np.finfo(found).dtype if found.kind == "c" else found
    _factor(table.least_squares(m, n, prod(columns)), (), found)
    residuals = result((prod(columns) if m > n else 0,), real)
    return result((n, *columns), found), residuals, scalar(np.dtype(np.int32), int), result((min(m, n),), real)


@rule("linalg.pinv")
def pinv(a: Any, rcond: Any = None, hermitian: bool = False, *, rtol: Any = None) -> Any:
    """numpy.linalg.pinv: the thin singular value decomposition, and a product."""
    a, stack, m, n = _matrices(a, square=hermitian)
    found = _dtypes(np.linalg.pinv, a)
    _factor(table.pseudo_inverse(m, n), stack, found)
    return result((*stack, n, m), found)


@rule("linalg.matrix_rank")
def matrix_rank(A: Any, tol: Any = None, hermitian: bool = False, *, rtol: Any = None) -> Any:
    """numpy.linalg.matrix_rank: singular values."""
    a = operand(A)
    if a.ndim < 2:
        counter.flops("blas1", a.size)
        return scalar(np.dtype(int), int)
    values = svd(a, compute_uv=False, hermitian=hermitian)
    return result(values.shape[:-1], np.dtype(np.intp))


@rule("linalg.cond")
def cond(x: Any, p: Any = None) -> Any:
    """numpy.linalg.cond: singular values; in other norms the norms of the matrix and of its inverse."""
    if p in (None, 2, -2):
        values = svd(x, compute_uv=False)
        return result(values.shape[:-1], values.dtype)
    return norm(x, p, axis=(-2, -1)) * norm(inv(x), p, axis=(-2, -1))


@rule("linalg.matrix_power")
def matrix_power(a: Any, n: int) -> Any:
    """numpy.linalg.matrix_power: a product for each bit of n after the first, another for each of them that is set."""
    a, _, _, _ = _matrices(a, square=True)
    if n < 0:
        a, n = inv(a), -n
    if n == 0:
        return TABLE[np.copy](a)
    for _ in range(n.bit_length() - 1 + n.bit_count() - 1):
        a = generalised(np.matmul, (a, a), {})
    return a if n > 1 else TABLE[np.copy](a)


@rule("linalg.multi_dot")
def multi_dot(arrays: Any, *, out: Any = None) -> Any:
    """numpy.linalg.multi_dot: the products in the order that takes least flops."""
    arrays = [operand(array) for array in arrays]
    if len(arrays) < 2:
        raise ValueError("Expecting at least two arrays.")
    if any(array.ndim != 2 for array in arrays[1:-1]) or any(arrays[k].ndim not in (1, 2) for k in (0, -1)):
        raise LinAlgError("multi_dot takes matrices; the first and the last may be vectors")
    rows = [array.shape[0] if array.ndim == 2 else 1 for array in arrays[:1]]
    ends = [*rows, *(array.shape[-1] if array.ndim == 2 or k == 0 else 1 for k, array in enumerate(arrays))]

    @lru_cache(None)
    def best(i: int, j: int) -> tuple[float, int]:
        """Return the multiplications for the product of arrays i..j, and the last array of its left part."""
        if i == j:
            return 0.0, i
        return min((best(i, k)[0] + best(k + 1, j)[0] + ends[i] * ends[k + 1] * ends[j + 1], k) for k in range(i, j))

    def multiply(i: int, j: int) -> Any:
        """Return the product of arrays i..j in the best order."""
        if i == j:
            return arrays[i]
        k = best(i, j)[1]
        return dot(multiply(i, k), multiply(k + 1, j))

    product_of_all = multiply(0, len(arrays) - 1)
    return into(out, product_of_all.shape, product_of_all.dtype) if out is not None else product_of_all


# ----------------------------------------------------------------------------------------- norms


@rule("linalg.norm")
def norm(x: Any, ord: Any = None, axis: Any = None, keepdims: bool = False) -> Any:
    """numpy.linalg.norm: a product and a sum an element; a matrix's spectral and nuclear norms by singular values."""
    x = operand(x)
    if axis is None and not (ord is None or (ord in ("f", "fro") and x.ndim == 2) or (ord == 2 and x.ndim == 1)):
        axis = tuple(range(x.ndim))
    elif axis is None:
        return _norm_of_all(x, keepdims)
    axes = axis if isinstance(axis, tuple) else (axis,)
    if len(axes) == 2:
        if ord not in (None, "fro", "f", "nuc", 1, -1, 2, -2, np.inf, -np.inf):
            raise ValueError("Invalid norm order for matrices.")
        if ord in (2, -2, "nuc"):
            rows, columns = (x.shape[axis_of(each, x.ndim)] for each in axes)
            found = _norm_dtype(x.dtype)
            left = _left(x.shape, axes, keepdims)
            _factor(
                table.svd(rows, columns, vectors=False, full=False), (prod(x.shape) // max(rows * columns, 1),), x.dtype
            )
            return result(left, found)
    elif len(axes) != 1:
        raise ValueError("Improper number of dimensions to norm.")
    elif isinstance(ord, str):
        raise ValueError(f"Invalid norm order '{ord}' for vectors")
    counter.flops("blas1", 2 * x.size * complexity(x.dtype))
    return result(_left(x.shape, axes, keepdims), _norm_dtype(x.dtype))


def _norm_of_all(x: Any, keepdims: bool) -> Any:
    """Count the norm of all elements, as a vector."""
    counter.flops("blas1", 2 * x.size * complexity(x.dtype))
    return result((1,) * x.ndim if keepdims else (), _norm_dtype(x.dtype))


def _left(shape: Shape, axes: tuple[Any, ...], keepdims: bool) -> Shape:
    """Return the shape that is left when `axes` are reduced."""
    gone = axes_of(axes, len(shape))
    return tuple(1 if k in gone else n for k, n in enumerate(shape) if keepdims or k not in gone)


def _norm_dtype(dtype: DType) -> DType:
    """Return the dtype of a norm."""
    found: DType = outcome(np.linalg.norm, dtype)
    return found


@rule("linalg.vector_norm")
def vector_norm(x: Any, /, *, axis: Any = None, keepdims: bool = False, ord: Any = 2) -> Any:
    """numpy.linalg.vector_norm: as norm, over any number of axes."""
    x = operand(x)
    counter.flops("blas1", 2 * x.size * complexity(x.dtype))
    return result(_left(x.shape, tuple(axes_of(axis, x.ndim)), keepdims), _norm_dtype(x.dtype))


@rule("linalg.matrix_norm")
def matrix_norm(x: Any, /, *, keepdims: bool = False, ord: Any = "fro") -> Any:
    """numpy.linalg.matrix_norm: as norm, over the last two axes."""
    return norm(x, ord, (-2, -1), keepdims)
