"""One pass over this process's rows of X: the sums of an objective, its gradient and its Hessian.

Cost of a pass over n rows of k columns: W = 2nk for the linear predictor, 2nk for the gradient and nk² for the
Hessian; n·k words are read from memory, once.  A chunk of rows that fits into the processor's cache gives its
part of all three before the next is read; three products over the whole of X would read it three times and write
a scaled copy of it.  The chunks depend on k alone, and so does the order of the sums.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from bsp.algorithms.glm.solvers.survey import Survey

CHUNK = 1 << 16  # words of X


class Sums(NamedTuple):
    """Sums over this process's rows; weighted, not divided by the weights' sum."""

    loss: Any
    gradient: np.ndarray  # (d,)
    curvature: np.ndarray | None  # the Hessian (d, d), or its diagonal (d,)


class Gram:
    """[1 X]' diag(weights) [1 X], added up over chunks of rows: (d, d), the row of ones if asked for.

    signed : whether weights may be below 0, where no square root makes a product of a matrix with itself.
    """

    def __init__(self, k: int, intercept: bool, signed: bool = False) -> None:
        self.intercept, self.signed = intercept, signed
        self.inner, self.edge, self.corner = np.zeros((k, k)), np.zeros(k), np.zeros(())
        self.room = np.empty((0, k))

    def add(self, X: Any, weights: np.ndarray) -> None:
        """Add rows.  Cost: W = n·k² flops; twice that without BLAS's product of a matrix with itself."""
        if is_sparse(X):
            scaled = X.copy()
            scaled.data = scaled.data * np.repeat(weights, np.diff(X.indptr))
            inner = (X.T @ scaled).toarray()
        elif len(weights) and (weights == weights[0]).all():  # as where a solver begins
            inner = X.T @ X
            inner *= weights[0]
        elif self.signed:
            inner = X.T @ (X * weights[:, None])
        else:
            if len(self.room) < len(X):
                self.room = np.empty_like(X)
            scaled = np.multiply(X, np.sqrt(weights)[:, None], out=self.room[: len(X)])
            inner = scaled.T @ scaled
        self.inner = np.add(self.inner, inner, out=inner)
        if self.intercept:
            self.edge = self.edge + weights @ X
            self.corner = self.corner + weights.sum()

    def whole(self) -> np.ndarray:
        """Return the whole matrix (d, d)."""
        if not self.intercept:
            return self.inner
        top = np.concatenate([np.reshape(self.corner, 1), self.edge])
        return np.concatenate([top[None, :], np.concatenate([self.edge[:, None], self.inner], axis=1)])


def is_sparse(X: Any) -> bool:
    """Return whether X is a sparse matrix."""
    return hasattr(X, "indptr")


def chunk_length(k: int) -> int:
    """Return how many rows of k columns make a chunk."""
    return max(64, CHUNK // max(k, 1), k)


def chunks(of: Survey) -> Iterator[tuple[slice, Any]]:
    """Yield chunks: slices of rows, and their part of X, shifted.  A sparse X is one chunk, unless there is a basis."""
    X, shift = of.rows.X, of.shift
    n, k = X.shape
    if is_sparse(X):
        shift = None  # it has been
        if of.basis is None:
            yield slice(0, n), X
            return
    length = chunk_length(k)
    room = None if shift is None else np.empty((min(length, n), k))
    for first in range(0, n, length):
        rows = slice(first, min(first + length, n))
        part = X[rows].toarray() if is_sparse(X) else X[rows]
        if room is not None and shift is not None:
            part = np.subtract(part, shift, out=room[: len(part)])
        yield rows, part if of.basis is None else of.basis.applied(part)


def predictor(of: Survey, X: Any, beta: np.ndarray, rows: slice) -> np.ndarray:
    """Return eta (n,) of some rows, of which X is theirs."""
    slopes = beta[of.model.fit_intercept :]
    eta: np.ndarray = X @ slopes if slopes.any() else np.zeros(X.shape[0])
    if of.model.fit_intercept:
        eta = eta + beta[0]
    return eta if of.rows.offset is None else eta + of.rows.offset[rows]


def bordered(first: Any, rest: np.ndarray, intercept: bool) -> np.ndarray:
    """Return a vector with a component for the intercept, if there is one, before the others."""
    return np.concatenate([np.reshape(first, 1), rest]) if intercept else rest


def add_up(of: Survey, beta: np.ndarray, curvature: str) -> Sums:
    """Return the sums at `beta` over this process's rows.

    curvature : "none", "diagonal" or "full".
    """
    intercept = of.model.fit_intercept
    loss: Any = np.zeros(())
    gradient, diagonal, gram = np.zeros(of.d), np.zeros(of.d), Gram(of.k, intercept)
    with np.errstate(over="ignore", invalid="ignore"):  # of a step too far; the objective says so
        for rows, X in chunks(of):
            eta = predictor(of, X, beta, rows)
            some, score, curve = of.family.expansion(eta, of.rows.y[rows])
            if curvature != "none":
                curve = of.family.bend(eta, curve)
            if of.weights is not None:
                w = of.weights[rows]
                some, score, curve = w * some, w * score, w * curve
            loss = loss + some.sum()
            gradient = gradient + bordered(score.sum(), score @ X, intercept)
            if curvature == "full":
                gram.add(X, curve)
            elif curvature == "diagonal":
                squares = X.multiply(X) if is_sparse(X) else X * X
                diagonal = diagonal + bordered(curve.sum(), curve @ squares, intercept)
    found = {"full": gram.whole, "diagonal": lambda: diagonal, "none": lambda: None}[curvature]()
    return Sums(loss, gradient, found)
