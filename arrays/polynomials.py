"""NumPy's polynomials, given by coefficients from the highest power down; polyfit is least squares of a tall matrix.

Coefficients are few.  Functions of coefficients alone are lazy arithmetic, or call NumPy on every process (roots, poly,
polydiv: see `gathering`).  Arrays with an element for each observation stay in blocks.
"""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
from numpy.exceptions import RankWarning

from bsp.arrays import build
from bsp.arrays.api import reductions
from bsp.arrays.api.contraction import matmul, outer
from bsp.arrays.api.creation import arange, asarray, ones_like, zeros_like
from bsp.arrays.api.manipulation import concat, flip, stack
from bsp.arrays.api.ufuncs import astype
from bsp.arrays.array import Array, wrap
from bsp.arrays.editing import trim_zeros
from bsp.arrays.gathering import brought, decided, given, warned
from bsp.arrays.linalg import inv, lstsq
from bsp.arrays.selection.sliding import convolve
from bsp.arrays.typing import ArrayLike

__all__ = [
    "poly", "polyadd", "polyder", "polydiv", "polyfit", "polyint", "polymul", "polysub", "polyval", "roots",
    "vander",
]  # fmt: skip


def _array(x: Any) -> Array:
    return wrap(build.strong(asarray(x)._node))


def _line(name: str, p: Any) -> Array:
    """Return coefficients as they are; raise ValueError unless they have one axis."""
    found = _array(p)
    if found.ndim != 1:
        raise ValueError(f"{name}: coefficients have one axis, not the shape {found.shape}")
    return found


def _coefficients(p: Any) -> Array:
    found = _array(p)
    return found if found.ndim else found[None]


def _trimmed(p: Any) -> Array:
    """Return coefficients without the zeros before the first nonzero one; a single 0 if there is none.  Collective."""
    found = trim_zeros(_coefficients(p), "f")
    return found if found.size else zeros_like(found, shape=(1,))


def vander(x: ArrayLike, N: int | None = None, increasing: bool = False) -> Array:
    """Return the powers of each element as columns, with the highest power first unless `increasing`.  Lazy."""
    line = _array(x)
    if line.ndim != 1:
        raise ValueError("x must be a one-dimensional array or sequence.")
    count = line.shape[0] if N is None else N
    kind = np.promote_types(line.dtype, int)
    if count < 0:
        raise ValueError("negative dimensions are not allowed")
    if not count:
        return zeros_like(line, shape=(line.shape[0], 0), dtype=kind)
    base = astype(line, kind)
    powers = [ones_like(base)]
    for _ in range(count - 1):
        powers.append(powers[-1] * base)
    found = stack(powers, axis=1)
    return found if increasing else flip(found, axis=1)


def polyval(p: ArrayLike, x: ArrayLike) -> Array:
    """Return the values of a polynomial at x, by Horner's rule in one pass.

    Collective if `p` is an array of bsp.arrays: brings it to every process.
    """
    coefficients = np.asarray(brought("polyval: coefficients", p))
    values = _array(x)
    found = zeros_like(values)
    for one in coefficients:
        found = found * values + np.asarray(one)[()]
    return found


def _of_both(a1: Any, a2: Any, sign: int) -> Array:
    first, second = _coefficients(a1), _coefficients(a2)
    more = second.shape[0] - first.shape[0]
    if more > 0:
        first = concat([zeros_like(first, shape=(more,)), first])
    elif more < 0:
        second = concat([zeros_like(second, shape=(-more,)), second])
    return first + second if sign > 0 else first - second


def polyadd(a1: ArrayLike, a2: ArrayLike) -> Array:
    """Return the sum of two polynomials.  Lazy."""
    return _of_both(a1, a2, 1)


def polysub(a1: ArrayLike, a2: ArrayLike) -> Array:
    """Return the difference of two polynomials.  Lazy."""
    return _of_both(a1, a2, -1)


def polymul(a1: ArrayLike, a2: ArrayLike) -> Array:
    """Return the product of two polynomials, without the zeros that their coefficients begin with, as in NumPy.

    Collective: both factors are trimmed (see `trim_zeros`).  Cost: that of `convolve`.
    """
    return convolve(_trimmed(a1), _trimmed(a2))


def polyder(p: ArrayLike, m: int = 1) -> Array:
    """Return the m-th derivative of a polynomial.  Lazy."""
    if int(m) < 0:
        raise ValueError("Order of derivative must be positive (see polyint)")
    found = _line("polyder", p)
    for _ in range(int(m)):
        found = found[:-1] * arange(found.shape[0] - 1, 0, -1) if found.shape[0] else found
    return found


def polyint(p: ArrayLike, m: int = 1, k: ArrayLike | None = None) -> Array:
    """Return the m-th integral of a polynomial, with integration constants k, 0 by default."""
    times = int(m)
    if times < 0:
        raise ValueError("Order of integral must be positive (see polyder)")
    constants = np.zeros(times) if k is None else np.atleast_1d(brought("polyint: constants", k))
    if len(constants) == 1 and times > 1:
        constants = constants[0] * np.ones(times)
    if len(constants) < times:
        raise ValueError("k must be a scalar or a rank-1 array of length 1 or >m.")
    found = _line("polyint", p)
    for constant in constants[:times]:
        found = concat([found / arange(found.shape[0], 0, -1), asarray([constant])])
    return found


def polyfit(
    x: ArrayLike, y: ArrayLike, deg: int, rcond: float | None = None, full: bool = False,
    w: ArrayLike | None = None, cov: bool | Literal["unscaled"] = False,
) -> Any:  # fmt: skip
    """Return the polynomial of degree `deg` that fits points best, in the sense of least squares.

    As in NumPy, columns are scaled, and a rank-deficient matrix gives a RankWarning.
    Cost: that of `linalg.lstsq` of a matrix of deg + 1 columns with a row for each point; it stays in blocks.
    """
    order = int(deg) + 1
    points, values = _array(x) + 0.0, _array(y) + 0.0
    if order < 1:
        raise ValueError("expected deg >= 0")
    if points.ndim != 1:
        raise TypeError("expected 1D vector for x")
    if not points.size:
        raise TypeError("expected non-empty vector for x")
    if values.ndim not in (1, 2):
        raise TypeError("expected 1D or 2D array for y")
    if points.shape[0] != values.shape[0]:
        raise TypeError("expected x and y to have same length")
    limit = points.shape[0] * np.finfo(points.dtype).eps if rcond is None else rcond
    left = vander(points, order)
    if w is not None:
        weights = _array(w) + 0.0
        if weights.ndim != 1:
            raise TypeError("expected a 1-d array for weights")
        if weights.shape[0] != values.shape[0]:
            raise TypeError("expected w and y to have the same length")
        left = left * weights[:, None]
        values = values * (weights[:, None] if values.ndim == 2 else weights)
    scale = reductions.sum(left * left, axis=0) ** 0.5
    left = left / scale
    found, residuals, rank, singular = lstsq(left, values, limit)
    found = (found.T / scale).T
    if full:
        return found, residuals, rank, singular, limit
    if decided(rank != order, usual=False):
        warned("Polyfit may be poorly conditioned", RankWarning)
    if not cov:
        return found
    base = inv(matmul(left.T, left)) / outer(scale, scale)
    factor: Any = 1
    if not (isinstance(cov, str) and cov == "unscaled"):
        if points.shape[0] <= order:
            raise ValueError("the number of data points must exceed order to scale the covariance matrix")
        factor = residuals / (points.shape[0] - order)
    return found, base * factor if values.ndim == 1 else base[:, :, None] * factor


def roots(p: ArrayLike) -> Array:
    """Return the roots of a polynomial, the eigenvalues of its companion matrix.

    Collective for an array of bsp.arrays: brings it to every process, where NumPy computes the roots.
    """
    return given(np.asarray(np.roots(brought("roots", p))))


def poly(seq_of_zeros: ArrayLike) -> Array:
    """Return the polynomial with the given roots, or the characteristic polynomial of a matrix.

    Collective for an array of bsp.arrays: brings it to every process, where NumPy computes the polynomial.
    """
    return given(np.asarray(np.poly(brought("poly", seq_of_zeros))))


def polydiv(u: ArrayLike, v: ArrayLike) -> tuple[Array, Array]:
    """Return the quotient and the remainder of two polynomials.

    Collective for arrays of bsp.arrays: brings them to every process, where NumPy divides them.
    """
    quotient, remainder = np.polydiv(brought("polydiv", u), brought("polydiv", v))
    return given(quotient), given(remainder)
