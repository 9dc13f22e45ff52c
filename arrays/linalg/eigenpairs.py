"""Eigenvalues and eigenvectors of a Hermitian matrix that every process has: each finds the vectors that it owns.

Each element reduces the matrix to a real tridiagonal one, T = QᴴAQ, and finds T's eigenvectors by divide and conquer,
once for all of its processes; then each process applies Q, which takes most of the flops, to its own columns alone.

Golub and Van Loan 8.3.1, 8.4.3.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.linalg import LinAlgError

from bsp.abstract import table
from bsp.arrays.array import Array, wrap
from bsp.arrays.execution.world import world
from bsp.arrays.expressions.graph import leaf
from bsp.arrays.expressions.layout import dealt
from bsp.declared import Costs, declares


def eigenpairs(a: Any, lower: bool) -> tuple[Any, Array]:
    """Return the eigenvalues of a, ascending, and the eigenvectors as an array dealt by columns.

    a : (n, n), the same on every process.  lower : whether its lower triangle is read, or else the upper one.
    Of each vector the first entry at least half as large as its greatest is positive.
    Cost: at most 8n³/3 flops on each element, and 2n³/p; no words.
    Raises LinAlgError on every process if the iteration does not converge.
    """
    here, n = world(), a.shape[0]
    parts = max(1, min(n, here.nprocs))
    layout = dealt((n, n), (1, parts), (1, parts))
    spans = {at: layout.box(at)[1] for at in layout.mine(here.pid)}
    first, last = next(iter(spans.values()), (0, 0))
    found = here.once(f"reduced {lower}", lambda: _reduced(a, lower), [a])
    vectors = _own_vectors(found, a, first, last)
    vectors = vectors * np.conj(leading(vectors))
    return found.values, wrap(leaf((n, n), a.dtype, layout, dict.fromkeys(spans, vectors)))


def leading(vectors: Any) -> Any:
    """Return, for each column, the phase of its first entry at least half as large as its greatest."""
    size = np.abs(vectors)
    if not vectors.shape[-2]:
        return np.ones((*vectors.shape[:-2], vectors.shape[-1]), vectors.dtype)
    first = np.argmax(size >= size.max(axis=-2, keepdims=True) / 2, axis=-2)
    entry = np.take_along_axis(vectors, first[..., None, :], -2)[..., 0, :]
    length = np.abs(entry)
    zero = length == 0
    return np.where(zero, 1, entry / np.where(zero, 1, length)).astype(vectors.dtype)


class _Reduced(NamedTuple):
    """The eigenvalues of a matrix, the eigenvectors of T, and Q as LAPACK keeps it; without Q, those of the matrix."""

    values: Any
    vectors: Any
    reflections: Any = None
    factors: Any = None


def _of_reduced(costs: Costs, a: Any, lower: bool) -> _Reduced:
    """Declare the cost of `_reduced`."""
    n, real = a.shape[0], np.zeros(0, a.dtype).real.dtype
    reduction = table.complexity(a.dtype) * 4 * n**3 / 3  # GVL 8.3.1: half of it are products with vectors
    division = 4 * n**3 / 3  # products of halves by matrices of T's size, of quarters by ones of half the size, ...
    with costs.holding(a.size * a.dtype.itemsize / 8):
        costs.work(blas2=reduction / 2, blas3=reduction / 2 + division)
    return _Reduced(costs.array((n,), real), costs.array((n, n), real), costs.array((n, n), a.dtype))


@declares(_of_reduced)
def _reduced(a: Any, lower: bool) -> _Reduced:
    """Return all eigenvalues, with what their eigenvectors follow from."""
    if a.shape[0] < 2 or not np.isfinite(a).all():  # NumPy says what the eigenvalues of such a matrix are
        return _Reduced(*np.linalg.eigh(a, "L" if lower else "U"))
    from scipy.linalg.lapack import get_lapack_funcs

    (reduce,) = get_lapack_funcs((_letters(a)[0],), (a,))
    length, (divide,) = get_lapack_funcs((f"{_letters(a)[0]}_lwork",), (a,))[0], get_lapack_funcs(("stevd",), (a.real,))
    by_columns = np.array(a if lower else np.conj(a).T, order="F")
    most, _ = length(a.shape[0], lower=1)
    reflections, diagonal, beside, factors, _ = reduce(by_columns, lower=1, lwork=int(most.real), overwrite_a=1)
    values, vectors, failed = divide(diagonal, beside)
    if failed:
        raise LinAlgError("Eigenvalues did not converge")
    return _Reduced(values, vectors, reflections, factors)


def _letters(a: Any) -> tuple[str, str]:
    """Return LAPACK's names, without the letter of the dtype, for reducing a matrix and for applying Q."""
    return ("hetrd", "unmqr") if a.dtype.kind == "c" else ("sytrd", "ormqr")


def _of_own_vectors(costs: Costs, found: _Reduced, a: Any, first: int, last: int) -> Any:
    """Declare the cost of `_own_vectors`."""
    n = a.shape[0]
    with costs.holding(n * (last - first) * a.dtype.itemsize / 8):
        costs.work(blas3=table.complexity(a.dtype) * 2.0 * n * n * (last - first))
    return costs.array((n, last - first), a.dtype)


@declares(_of_own_vectors)
def _own_vectors(found: _Reduced, a: Any, first: int, last: int) -> Any:
    """Return the eigenvectors of a from the column `first` up to the column `last`."""
    own = np.array(found.vectors[:, first:last], a.dtype, order="F")
    if last > first and found.reflections is not None:
        from scipy.linalg.lapack import get_lapack_funcs

        (apply,) = get_lapack_funcs((_letters(a)[1],), (a,))
        _, wanted, _ = apply("L", "N", found.reflections[1:, :-1], found.factors, own[1:], -1)
        own[1:], _, _ = apply("L", "N", found.reflections[1:, :-1], found.factors, own[1:], int(wanted[0].real))
    return np.ascontiguousarray(own)
