"""Operands of Krylov methods (matrices, functions, preconditioners), their sums, and how their vectors are dealt."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol, TypeAlias

import numpy as np
import scipy.sparse.linalg

import bsp
import bsp.arrays as ba
from bsp.algorithms.krylov.info import Info
from bsp.arrays import Array, ArrayError, sparse
from bsp.arrays.procedures import Layout, computed, known, node_of, relaid, world, wrap
from bsp.arrays.sparse import SparseArray
from bsp.arrays.typing import ArrayLike


class Operator(Protocol):
    """A linear map on vectors: sparse and dense arrays are, and any object with `shape` and `@`."""

    @property
    def shape(self) -> tuple[int, ...]:
        """The numbers of rows and columns."""

    def __matmul__(self, x: Array, /) -> Array:
        """Return the product with a vector, as a lazy array."""


class LinearOperator:
    """A linear map given as functions of vectors, which return lazy arrays.

    matvec : x to A @ x.  rmatvec : x to A.T @ x (A.conj().T of complex ones), which few methods need.
    """

    def __init__(
        self, shape: tuple[int, int], matvec: Callable[[Array], Array], rmatvec: Callable[[Array], Array] | None = None
    ) -> None:
        self.shape = shape
        self._matvec, self._rmatvec = matvec, rmatvec

    def __matmul__(self, x: Array) -> Array:
        """Return A @ x."""
        return self._matvec(x)

    @property
    def T(self) -> LinearOperator:
        """The transpose."""
        if self._rmatvec is None:
            raise ArrayError("this LinearOperator has no rmatvec, which the method needs")
        return LinearOperator(self.shape[::-1], self._rmatvec, self._matvec)


Matrix: TypeAlias = Operator | ArrayLike
Preconditioner: TypeAlias = Operator | Callable[[Array], Array]


def operator(A: Any, name: str) -> Any:
    """Return an operator whose own values are computed, so that products do not compute them again; else ArrayError.

    What has no `shape` becomes an array; scipy's sparse matrices, which every process has, are dealt.  Raises TypeError
    for scipy's LinearOperator.
    """
    if isinstance(A, scipy.sparse.linalg.LinearOperator):
        raise _foreign(f"{name}: A")
    if scipy.sparse.issparse(A):
        A = sparse.from_scipy(A)
    elif isinstance(A, np.ndarray) or not hasattr(A, "shape"):
        A = ba.asarray(A)
    if len(A.shape) != 2:
        raise ArrayError(f"{name}: A of shape {A.shape} is no matrix")
    if isinstance(A, (Array, SparseArray)):
        computed(node_of(A if isinstance(A, Array) else A.entries))
    return A


def _foreign(what: str) -> TypeError:
    """Return the error of an operand that is scipy's LinearOperator."""
    return TypeError(
        f"{what} is scipy's LinearOperator, whose functions take whole vectors of NumPy; "
        "krylov.LinearOperator(shape, matvec, rmatvec) takes functions of distributed vectors"
    )


def square_operator(A: Any, name: str) -> Any:
    """Return `operator(A)`; ArrayError if it is not square."""
    found = operator(A, name)
    if found.shape[0] != found.shape[1]:
        raise ArrayError(f"{name}: A of shape {found.shape} is not square")
    return found


def square(A: Any, b: Any, name: str) -> tuple[Any, Array]:
    """Return a square operator and the right-hand side as an array; ArrayError if they do not fit."""
    found, vector = square_operator(A, name), ba.asarray(b)
    if vector.ndim != 1 or vector.shape[0] != found.shape[0]:
        raise ArrayError(f"{name}: A of shape {found.shape} and b of shape {vector.shape} do not fit")
    return found, vector


def start(A: Any, b: Array, x0: Any) -> tuple[Array, Array, Array]:
    """Return b and the first x, dealt as the products of A are, and the residual b - A x.  Lazy.

    x0 : None means zeros, for which nothing is multiplied.  If b is zeros, so is x, as in scipy: no rounding errors of
        another x would be small beside norm(b).  To see it takes S = 1 where x0 is given.
    """
    like = A @ b
    dtype = like.dtype if like.dtype.kind in "fc" else np.dtype(float)
    b = placed(b.astype(dtype), like.layout)
    x = ba.zeros(A.shape[1], dtype) if x0 is None else ba.asarray(x0)
    if x.shape != b.shape:
        raise ArrayError(f"x0 of shape {x.shape} and b of shape {b.shape} do not fit")
    if x0 is not None:
        given = ba.any(b != 0)
        ba.persist(b, given)
        x = x if numbers(given)[0] else ba.zeros(A.shape[1], dtype)
    x = placed(x.astype(np.result_type(dtype, x.dtype)), like.layout)
    return b, x, b if x0 is None else b - A @ x


def replace(A: Any, b: Array, state: bsp.State) -> float:
    """Make state.r what it stands for, b - A x, and return its norm.  S = 2.

    Recursions let a residual drift away from it: by rounding errors times the largest x or r on the way.
    """
    state.r = b - A @ state.x
    square = dot(state.r, state.r)
    ba.persist(state.r, square)
    return norm_of(*reals(square))


def placed(x: Array, layout: Layout) -> Array:
    """Return an array in a layout, unless every process has all of it there.  Lazy."""
    return x if layout.replicated else wrap(relaid(node_of(x), layout))


def adjoint(A: Any) -> Any:
    """Return the conjugate transpose of an operator, with its values computed."""
    turned = A.T
    if isinstance(A, (Array, SparseArray)) and A.dtype.kind == "c":
        turned = turned.conj()
        computed(node_of(turned if isinstance(turned, Array) else turned.entries))
    return turned


def ratio(a: Any, b: Array) -> Array:
    """Return a / b, or 0 where b is 0.  Lazy."""
    zero = b == 0
    return ba.where(zero, 0.0, a / ba.where(zero, 1.0, b))


def dot(u: Array, v: Array) -> Array:
    """Return the inner product of two vectors, conjugating the first.  Lazy."""
    return (u.conj() if u.dtype.kind == "c" else u) @ v


def numbers(*arrays: Array) -> list[Any]:
    """Return the values of computed arrays, as numbers or NumPy arrays; they move nothing if every process has them.

    In a run without values they are ones.
    """
    nodes = computed(*(node_of(each) for each in arrays))
    found = [known(node) for node in nodes]
    found = [each.compute() if have is None else have for each, have in zip(arrays, found, strict=True)]
    if world().abstract:
        return [np.ones(each.shape, each.dtype) if each.ndim else 1.0 for each in arrays]
    return [each if each.ndim else each.item() for each in found]


def reals(*sums: Array) -> list[float]:
    """Return computed sums, which are real up to rounding, as real numbers; any numbers in a run without values."""
    if world().abstract:
        return [1.0] * len(sums)
    return [each.real for each in numbers(*sums)]


def limit_of(limit: float, maxiter: int | None, name: str, *tolerances: float) -> float:
    """Return a limit of norms; in a run without values one that no norm reaches, so that `maxiter` rounds are priced.

    tolerances : what the limit was made of.  It may be NaN for want of a norm, they may not.
    Raises ValueError if `maxiter` is not given there, if it is negative, or if a tolerance is negative or NaN.
    """
    if any(np.isnan(each) for each in tolerances):
        raise ValueError(f"{name}: a tolerance is NaN, which nothing is within; 0 goes on as long as it helps")
    if any(each < 0 for each in tolerances):
        raise ValueError(f"{name}: a tolerance is negative; 0 goes on as long as it helps")
    if maxiter is not None and maxiter < 0:
        raise ValueError(f"{name}: {maxiter} iterations at most: a number from 0")
    if not world().abstract:
        return limit
    if maxiter is None:
        raise ValueError(f"{name} in a run without values: maxiter is the number of iterations to price; give it")
    return -1.0


def norm_of(square: float) -> float:
    """Return the square root of a sum of squares, which rounding may have made negative; NaN if it is not finite.

    A norm that is NaN is at most no limit, so that what has overflowed is never good.
    """
    return float(np.sqrt(max(square, 0.0))) if np.isfinite(square) else float("nan")


def unit_of(vector: Array, square: float) -> Any:
    """Return the power of two by which to multiply a vector so that sums of its squares are numbers, or None.

    square : the vector's square, computed.  None is returned if it leaves room for the squares of residuals as small as
        rounding, and of vectors as much larger; and for a vector of zeros, one with NaN or infinity, and one whose
        largest number is between 1/2 and 1.
    Cost: nothing if the square leaves room; else S = 1.
    """
    if not vector.size or has_room(square, vector.dtype):
        return None
    (largest,) = numbers(abs(vector).max())
    return unit_near(largest, vector.dtype)


def has_room(square: float, dtype: Any) -> bool:
    """Return whether a sum of squares leaves room in a dtype for those of far larger and smaller vectors."""
    kind = np.finfo(dtype)
    least = np.longdouble(kind.tiny) / np.longdouble(kind.eps) ** 3
    return bool(least <= square <= 1 / least)


def unit_near(largest: float, dtype: Any) -> Any:
    """Return the power of two that brings a number between 1/2 and 1; None if that is 1 or there is none.

    dtype : of the product, or complex with such parts; the power and 1 by it are normal numbers of it.
    """
    kind = np.finfo(dtype)
    power = int(np.frexp(largest)[1]) if np.isfinite(largest) else 0
    return np.ldexp(kind.dtype.type(1), max(min(-power, -kind.minexp), kind.minexp)) if power else None


def in_unit(callback: Callable[[Array], Any] | None, unit: Any) -> Callable[[Array], Any] | None:
    """Return a callback that gets x where a solver of a problem multiplied by a power of two calls it."""
    return None if callback is None else lambda x: callback(x / unit)


def solved_in_unit(
    unit: Any, solve: Callable[..., tuple[Array, Info]], A: Any, b: Array, x0: Any, **options: Any
) -> tuple[Array, Info]:
    """Return x and the info of a solver, which is given b and x0 multiplied by a power of two."""
    x, info = solve(A, b * unit, None if x0 is None else ba.asarray(x0) * unit, **options)
    return (x / unit).persist(), info


def identity(x: Array) -> Array:
    """Return x: the preconditioner of a method without one."""
    return x


def preconditioner(M: Any) -> Callable[[Array], Array]:
    """Return the function that applies a preconditioner: an operator, a function, or None.

    scipy's sparse matrices, which every process has, are dealt.
    """
    if M is None:
        return identity
    if isinstance(M, scipy.sparse.linalg.LinearOperator):
        raise _foreign("M")
    if scipy.sparse.issparse(M):
        M = sparse.from_scipy(M)
    if hasattr(M, "__matmul__"):
        return lambda x: M @ x
    if callable(M):
        return M  # type: ignore[no-any-return]
    raise ArrayError(f"M={M!r:.60}: an operator or a function of vectors that approximates A⁻¹")
