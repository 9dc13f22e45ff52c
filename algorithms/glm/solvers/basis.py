"""Orthogonal coordinates of nearly collinear columns: X·R⁻¹ instead of X, R being that of a QR factorisation of √W·X.

X'WX has the square of the condition of √W·X: of columns that differ by 1e-6 of their size it keeps 4 of 16 digits.  The
columns of (X - means)·R⁻¹ are orthogonal to each other and to the intercept where R was made, and nearly so elsewhere;
made by substitution, row by row, they are as exact as if X had been rounded once more.  Sums over them lose nothing,
and R⁻¹ brings coefficients and covariances back with the digits that the condition of X itself leaves.
Source: Björck, Numerical Methods for Least Squares Problems (1996), sections 2.4 and 2.5.
"""

from __future__ import annotations

from functools import cached_property

import numpy as np

EPS = float(np.finfo(float).eps)
NEAR = 1e6  # the condition of the scaled normal equations from which R is taken: they would lose 6 digits, R loses 3


class OrthogonalBasis:
    """The coordinates (x[columns] - means)·r⁻¹ of a row x.

    columns : (c,) of X, those that are kept.   means : (c,), 0 in models without an intercept.
    r : (c, c), upper triangular.   digits : that are left of coefficients and errors, of about 16.
    """

    def __init__(self, columns: np.ndarray, means: np.ndarray, r: np.ndarray) -> None:
        self.columns, self.means, self.r = columns, means, r

    def applied(self, X: np.ndarray) -> np.ndarray:
        """Return the coordinates of some rows, by substitution.  Cost: W = n·c² flops."""
        from scipy.linalg.blas import dtrsm  # it takes as long to import as many a fit

        found: np.ndarray = np.subtract(X[:, self.columns], self.means, order="C")
        if found.size:
            dtrsm(1.0, self._triangle, found.T, trans_a=1, overwrite_b=1)  # transposed, as BLAS stores matrices
        return found

    @cached_property
    def _triangle(self) -> np.ndarray:
        return np.asfortranarray(self.r)

    @cached_property
    def back(self) -> np.ndarray:
        """The matrix (c, c) that makes coefficients of the columns from those of the coordinates: r⁻¹."""
        return np.linalg.solve(self.r, np.eye(len(self.r)))

    @property
    def spreads(self) -> np.ndarray:
        """The lengths (c,) of the weighted columns less their means."""
        found: np.ndarray = np.linalg.norm(self.r, axis=0)
        return found

    def scaled(self, slopes: np.ndarray) -> np.ndarray:
        """Return coefficients of the columns, each times the length of its column, from those of the coordinates."""
        found: np.ndarray = np.linalg.solve(self.r, slopes) * self.spreads
        return found

    @property
    def inflation(self) -> np.ndarray:
        """The factors (c,) by which the others increase a column's variance, and so its coefficient's."""
        found: np.ndarray = (self.back * self.back).sum(axis=1) * self.spreads**2
        return found


def digits_left(condition_of_columns: float) -> int:
    """Return how many decimal digits a solution has after the loss by a condition."""
    return max(0, int(-np.log10(EPS * max(condition_of_columns, 1.0))))


def near_note(names: tuple[str, ...], basis: OrthogonalBasis) -> str:
    """Return a sentence on the columns that are nearly collinear, and the digits that are left."""
    inflation = basis.inflation
    which = np.flatnonzero(inflation >= 0.01 * inflation.max())
    near = [names[j] for j in basis.columns[which]]
    what = f"columns {', '.join(near)} are" if 1 < len(near) <= 10 else f"{len(near)} columns are"
    if len(near) == 1:
        what = f"column {near[0]} and others are"
    left = digits_left(float(np.sqrt(inflation.max())))
    return (
        f"{what} nearly collinear (variance inflation {inflation.max():.2g}): the fit is by the R of a QR "
        f"factorisation, and about {left} digits of its coefficients and standard errors are right"
    )
