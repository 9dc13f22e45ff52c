"""Solution of systems with a Hessian that may be singular: dependent columns are found and left out.

The matrix is scaled to a diagonal of ones, so that no unit of measurement decides, and factored in the order of the
columns: one of which less than TOLERANCE is left, when those before it have been subtracted, is left out (as in R's
lm: the first columns stay, whatever the rounding).  Its coefficient stays where it is, at 0 from a start of zeros.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

TOLERANCE = 64 * np.finfo(float).eps


class Factored(NamedTuple):
    """The factor of a scaled matrix: scale·A·scale of the kept rows and columns is lower·lower'."""

    kept: np.ndarray  # indices, ascending
    scale: np.ndarray  # (kept,)
    lower: np.ndarray  # (kept, kept)

    def solve(self, b: np.ndarray) -> np.ndarray:
        """Return x with A·x = b in the kept rows and columns, 0 in the others."""
        x = np.zeros(b.shape)
        scaled = (b[self.kept].T * self.scale).T
        x[self.kept] = (np.linalg.solve(self.lower.T, np.linalg.solve(self.lower, scaled)).T * self.scale).T
        return x

    def inverse(self, d: int) -> np.ndarray:
        """Return the inverse (d, d) of the kept rows and columns, 0 in the others."""
        found = np.zeros((d, d))
        half = np.linalg.solve(self.lower, np.diag(self.scale))
        with np.errstate(over="ignore", invalid="ignore"):
            found[np.ix_(self.kept, self.kept)] = half.T @ half
        return found


def factor(a: np.ndarray, among: np.ndarray | None = None) -> Factored:
    """Factor a positive semidefinite (d, d) matrix, of the columns `among` (None: all).

    Cost: W = d³/3.
    """
    indices = np.arange(len(a)) if among is None else among
    indices = indices[a.diagonal()[indices] > 0]
    scale = 1 / np.sqrt(a.diagonal()[indices])
    scaled = a[np.ix_(indices, indices)] * scale * scale[:, None]
    limit = max(TOLERANCE, 16 * np.finfo(float).eps * len(a))
    try:
        lower = np.linalg.cholesky(scaled)
    except np.linalg.LinAlgError:
        lower = None
    if lower is None or (lower.diagonal() ** 2 <= limit).any():
        keep = _swept(scaled, limit)
        indices, scale = indices[keep], scale[keep]
        lower = np.linalg.cholesky(scaled[np.ix_(keep, keep)])
    return Factored(indices, scale, lower)


def condition(a: np.ndarray, by: Factored) -> float:
    """Return about the condition of the kept rows and columns, scaled: at most d times too large, d² too small.

    It is the scaled matrix's 1-norm times the largest variance inflation factor.  Cost: W = 2d³.
    """
    if not len(by.kept):
        return 1.0
    scaled = a[np.ix_(by.kept, by.kept)] * by.scale * by.scale[:, None]
    inverse = np.linalg.solve(by.lower, np.eye(len(by.lower)))
    return float(np.abs(scaled).sum(axis=0).max() * (inverse * inverse).sum(axis=0).max())


def _swept(a: np.ndarray, limit: float) -> np.ndarray:
    """Return the columns of a scaled matrix of which those before them leave more than `limit`."""
    rest = a.copy()
    keep = []
    for j in range(len(a)):
        if rest[j, j] > limit:
            keep.append(j)
            column = rest[j:, j] / np.sqrt(rest[j, j])
            rest[j:, j:] -= column[:, None] * column
    return np.array(keep, int)


def explained(
    a: np.ndarray,
    by: Factored,
    names: tuple[str, ...],
    intercept: bool,
    among: np.ndarray | None = None,
    nothing: str = "0 everywhere",
) -> tuple[str, ...]:
    """Return a sentence on each column, of those `among` (None: all), that was left out: what it is made of.

    names : of the columns, without the intercept's.   nothing : what a column of zeros is, where there is none.
    """
    sentences = []
    for j in np.setdiff1d(np.arange(len(a)) if among is None else among, by.kept):
        others = np.arange(0)
        if a[j, j] > 0:
            share = by.solve(a[:, j]) * np.sqrt(np.maximum(a.diagonal(), 0) / a[j, j])
            others = np.flatnonzero(np.abs(share) > 1e-6)
        made_of = [names[i - intercept] for i in others if i >= intercept]
        what = f"a combination of {', '.join(made_of)}" if made_of else "constant" if intercept else nothing
        sentences.append(f"column {names[j - intercept]} is {what}")
    return tuple(sentences)
