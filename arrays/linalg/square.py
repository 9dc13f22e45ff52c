"""Square matrices: Cholesky, linear systems, inverses, determinants, eigenvalues, powers.  How they run: see `ways`.

Of each eigenvector of `eigh` the first entry at least half as large as the greatest is real and > 0.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from operator import index
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.linalg import LinAlgError

from bsp.arrays import build
from bsp.arrays.api import manipulation, reductions
from bsp.arrays.api.contraction import matmul
from bsp.arrays.api.creation import asarray, eye
from bsp.arrays.array import Array, wrap
from bsp.arrays.execution.world import world
from bsp.arrays.expressions.graph import leaf
from bsp.arrays.expressions.layout import dealt
from bsp.arrays.gathering import decided
from bsp.arrays.linalg import cholesky_panels, elimination, row_blocks, transposed
from bsp.arrays.linalg.eigenpairs import eigenpairs, leading
from bsp.arrays.linalg.ways import (
    adjoint,
    as_tuple,
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
from bsp.errors import ShapeError


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


@procedure
def cholesky(x: ArrayLike, /, *, upper: bool = False) -> Array:
    """Return the L of A = L·Lᴴ, lower triangular with a positive diagonal; upper: Lᴴ.  Reads only A's lower triangle.

    Cost: large: n³/3p flops, n/b panels of n²/2 words in all (see `panels`); the result is dealt by columns.
    Raises LinAlgError on every process if a matrix is not positive definite.
    """
    a = matrix_of(x, "cholesky", square=True)
    if upper:
        a = adjoint(a)  # with `upper` NumPy reads the upper triangle
    if is_whole(a, a.shape[-1] ** 3 / 3):
        found = everywhere("cholesky", transposed.cholesky, a)[0]
    elif a.ndim > 2:
        found = stacks(np.linalg.cholesky, [a], [2])[0]
    else:
        found = cholesky_panels.cholesky(a, a.dtype)
    return adjoint(found) if upper else found


@procedure
def solve(x1: ArrayLike, x2: ArrayLike, /) -> Array:
    """Return the x of x1·x = x2: x1 (..., n, n), x2 (n,) or (..., n, k); leading axes broadcast.

    Cost: large: LU with partial pivoting by panels, (2n³/3 + 2n²k)/p flops, n/b panels of n²/2 words in all, and n/b
    steps of back substitution (see `panels`); small x1 and many columns: x1 on every process, x2 by columns.
    Raises LinAlgError on every process if a matrix is singular; ValueError, with both shapes, if they do not fit.
    """
    a = matrix_of(x1, "solve", square=True)
    b = inexact(wrap(build.strong(asarray(x2)._node)), "solve")
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
    whole = is_whole(a, _lu_flops(a))
    if (whole and is_whole(b)) or not a.size or not b.size:
        found = everywhere("solve", transposed.solve, a, b)[0]
    elif a.ndim > 2 or b.ndim > 2:
        found = stacks(np.linalg.solve, [a, b], [2, 2])[0]
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
    values = values_of(a)
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
    a = matrix_of(x, "inv", square=True)
    if is_whole(a, 3 * _lu_flops(a)):
        return everywhere("inv", transposed.inverse, a)[0]
    if a.ndim > 2:
        return stacks(np.linalg.inv, [a], [2])[0]
    return elimination.inverse(a, a.dtype)


@procedure
def slogdet(x: ArrayLike, /) -> SlogdetResult:
    """Return the determinant's sign (of modulus 1, or 0) and the logarithm of its modulus.  Cost: LU, see `solve`."""
    a = matrix_of(x, "slogdet", square=True)
    if is_whole(a, _lu_flops(a)):
        return SlogdetResult(*everywhere("slogdet", np.linalg.slogdet, a))
    if a.ndim > 2:
        return SlogdetResult(*stacks(np.linalg.slogdet, [a], [2]))
    return SlogdetResult(*[given(each) for each in elimination.determinant(a, a.dtype)])


@procedure
def det(x: ArrayLike, /) -> Array:
    """Return the determinant.  Cost: LU, see `solve`."""
    a = matrix_of(x, "det", square=True)
    if is_whole(a, _lu_flops(a)):
        return everywhere("det", np.linalg.det, a)[0]
    if a.ndim > 2:
        return stacks(np.linalg.det, [a], [2])[0]
    sign, log = elimination.determinant(a, a.dtype)
    return given(sign * np.exp(log).astype(a.dtype))


@procedure
def eigh(x: ArrayLike, /, UPLO: Literal["L", "U"] = "L") -> EighResult:
    """Return eigenvalues, ascending, and eigenvectors of Hermitian matrices; only the triangle UPLO is read.

    Cost: stacks: 9n³ flops for each matrix, where it is.  A large matrix is brought to every process, which finds the
    vectors that it owns, 8n³/3 + 2n³/p flops: see `eigenpairs`; they are dealt by columns.
    """
    a = matrix_of(x, "eigh", square=True)
    if a.ndim > 2 and not is_whole(a):
        return EighResult(*stacks(_eigh_of(UPLO), [a], [2]))
    if is_whole(a):
        return EighResult(*everywhere(f"eigh {UPLO}", _eigh_of(UPLO), a))
    values, vectors = eigenpairs(
        brought(a, "eigh", "svd of a tall matrix X gives the eigenvectors of XᴴX"), _is_lower(UPLO)
    )
    return EighResult(given(values), vectors)


@procedure
def eigvalsh(x: ArrayLike, /, UPLO: Literal["L", "U"] = "L") -> Array:
    """Return the eigenvalues of Hermitian matrices, ascending.  Cost: as `eigh`, 4n³/3 flops."""
    a = matrix_of(x, "eigvalsh", square=True)

    def function(each: Any) -> Any:
        return np.linalg.eigvalsh(each, UPLO)

    if a.ndim > 2 and not is_whole(a):
        return stacks(function, [a], [2])[0]
    advice = "svdvals of a tall matrix X gives the eigenvalues of XᴴX"
    values = values_of(a) if is_whole(a) else brought(a, "eigvalsh", advice)
    return once(f"eigvalsh {UPLO}", function, values)[0]


def _unsymmetric(x: Any, name: str, function: Callable[..., Any]) -> tuple[Array, ...]:
    """Apply NumPy's eig or eigvals to square matrices: real results if all eigenvalues of all matrices are real."""
    a = matrix_of(x, name, square=True)
    if a.ndim > 2 and not is_whole(a):

        def complex_ones(each: Any) -> tuple[Any, ...]:
            return tuple(found.astype(np.result_type(found.dtype, np.complex64)) for found in as_tuple(function(each)))

        found = stacks(complex_ones, [a], [2])
        if a.dtype.kind == "c" or decided(reductions.any(found[0].imag != 0), usual=False):
            return found
        return tuple(each.real for each in found)
    advice = "eigh of a Hermitian matrix takes a third of the work"
    values = values_of(a) if is_whole(a) else brought(a, name, advice)
    return once(name, function, values)


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
    """Return the n-th power, by squaring: at most 2·log2 n products.  A negative n takes powers of the inverse.

    Cost: that of the products, which are lazy; with a negative n that of `inv` before.
    """
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
