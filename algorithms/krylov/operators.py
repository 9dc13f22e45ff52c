"""What a Krylov method multiplies by: matrices and functions, and preconditioners as what approximates an inverse."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

import bsp.arrays as ba
from bsp.arrays import Array, ArrayError
from bsp.arrays.sparse import SparseArray


class Operator(Protocol):
    """A linear map on vectors: sparse and dense arrays are, and any object with `shape` and `@`."""

    @property
    def shape(self) -> tuple[int, ...]:
        """The numbers of rows and columns."""

    def __matmul__(self, x: Array) -> Array:
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


def square(A: Any, b: Any, name: str) -> tuple[Any, Array]:
    """Return a square operator and the right-hand side, dealt as its rows are; ArrayError if they do not fit."""
    vector = ba.asarray(b)
    shape = getattr(A, "shape", None)
    if shape is None:
        A = ba.asarray(A)
        shape = A.shape
    if len(shape) != 2 or shape[0] != shape[1]:
        raise ArrayError(f"{name}: A of shape {shape} is not square")
    if vector.ndim != 1 or vector.shape[0] != shape[0]:
        raise ArrayError(f"{name}: A of shape {shape} and b of shape {vector.shape} do not fit")
    return A, A.vector(vector) if isinstance(A, SparseArray) else vector


def identity(x: Array) -> Array:
    """Return x: the preconditioner of a method without one."""
    return x


def preconditioner(M: Any) -> Callable[[Array], Array]:
    """Return the function that applies a preconditioner: an operator, a function, or None."""
    if M is None:
        return identity
    if hasattr(M, "__matmul__"):
        return lambda x: M @ x
    if callable(M):
        return M  # type: ignore[no-any-return]
    raise ArrayError(f"M={M!r:.60}: an operator or a function of vectors that approximates A⁻¹")


def jacobi(A: Any) -> LinearOperator:
    """Return the Jacobi preconditioner: division by the diagonal of A, where it is not zero.

    Cost: W = n/p each time, and nothing moves.
    """
    diagonal = A.diagonal()
    inverse = ba.where(diagonal == 0, 1.0, 1.0 / ba.where(diagonal == 0, 1.0, diagonal)).persist()
    return LinearOperator(A.shape, lambda x: inverse * x, lambda x: inverse.conj() * x)
