"""Principal components: the singular vectors of the centred data, from R alone."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from bsp import arrays as ba
from bsp.algorithms.qr.factoring import check, matrix, on_all, rows_of
from bsp.algorithms.qr.methods import r_only
from bsp.arrays.linalg import row_blocks
from bsp.arrays.linalg.factored import signed_svd
from bsp.arrays.linalg.row_blocks import RowBlocks
from bsp.arrays.procedures import Array, procedure
from bsp.arrays.typing import ArrayLike


class PCA(NamedTuple):
    """Principal components; every process has all but the scores."""

    components: Array  # (k, n): directions, of length 1, by descending variance
    explained_variance: Array  # (k,): of the scores, with m - 1
    explained_variance_ratio: Array  # (k,): of all the variance
    mean: Array  # (n,)
    scores: Array  # (m, k): the data along the components, dealt like A's rows


@procedure
def pca(A: ArrayLike, k: int) -> PCA:
    """Return the k directions in which the rows of A vary most, and the rows along them.  Collective.

    A : (m, n), rows are observations, m >= 2; real.  k : 1 to min(m, n).
    From the R of A - mean by reflections, never from AᵀA, so that small variances are exact too (Golub, Van Loan
    2013, 8.6).  Of each component the first entry at least half as large as the greatest is > 0.
    Cost: a mean of columns, then R by a tree (`methods.r_only`), 22n³ flops, and 2(m/p)nk for the scores; M = (m/p)n.
    Raises ValueError for a k that does not fit, TypeError for complex A, LinAlgError for NaN or infinity.
    """
    a = matrix(A, "pca")
    m, n = a.shape
    if a.dtype.kind == "c":
        raise TypeError(f"pca: A of real numbers, not {a.dtype}")
    if m < 2 or not isinstance(k, (int, np.integer)) or not 1 <= k <= min(m, n):
        raise ValueError(f"pca: k={k} of A of shape {a.shape}: A has 2 rows or more, and k is 1 to min(m, n)")
    given = rows_of(a.persist())
    with np.errstate(invalid="ignore", over="ignore"):
        mean = ba.mean(a, axis=0).compute()
        rows = RowBlocks(given.layout, {at: block - mean for at, block in given.blocks.items()})
        r = r_only(rows, a.dtype)
    check(r, given, "pca")
    _, s, vt = signed_svd(r)
    variance = s**2 / (m - 1)
    total = np.sum(variance)
    ratio = variance / np.where(total > 0, total, 1)
    components = vt[:k].copy()
    scores = row_blocks.to_array(row_blocks.times(rows, components.T), a.dtype)
    small = [on_all(each.copy()) for each in (components, variance[:k], ratio[:k], mean)]
    return PCA(small[0], small[1], small[2], small[3], scores)
