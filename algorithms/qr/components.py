"""Principal components: the singular vectors of the centred data, from R alone."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from bsp.algorithms.qr import methods, passes
from bsp.algorithms.qr.factoring import check, matrix, on_all, rows_of
from bsp.algorithms.qr.pricing import of_centred, of_projected
from bsp.arrays.linalg import row_blocks
from bsp.arrays.linalg.factored import signed_svd
from bsp.arrays.linalg.row_blocks import RowBlocks
from bsp.arrays.procedures import Array, DType, procedure
from bsp.arrays.typing import ArrayLike
from bsp.declared import declares

EXACT = 1000.0  # units of eps: how much the rounding of AᵀA may change a variance, relative to itself


class PCA(NamedTuple):
    """Principal components; every process has all but the scores."""

    components: Array  # (k, n): directions, of length 1, by descending variance
    explained_variance: Array  # (k,): of the scores, with m - 1; infinite or 0 beyond the range of numbers
    explained_variance_ratio: Array  # (k,): of all the variance
    mean: Array  # (n,)
    scores: Array  # (m, k): the data along the components, dealt like A's rows


@procedure
def pca(A: ArrayLike, k: int) -> PCA:
    """Return the k directions in which the rows of A vary most, and the rows along them.  Collective.

    A : (m, n), rows are observations, m >= 2; real.  k : 1 to min(m, n).  Of a sparse array pass its `todense()`: its
        rows less their mean are dense.  `krylov.svds` leaves it sparse, and takes no mean.
    Small variances are exact too, relative to themselves: see `centred`.  Of each component the first entry at least
    half as large as the greatest is > 0.
    Cost: a sum of columns, (m/p)n² flops and a sum of n²/2 words, 22n³ flops, and 2(m/p)nk for the scores: A is read
    three times, and never copied; where AᵀA is not exact enough, R by a tree (`methods.r_only`), M = (m/p)n.
    Raises ValueError for a k that does not fit, TypeError for complex A, LinAlgError for NaN or infinity.
    """
    a = matrix(A, "pca")
    m, n = a.shape
    if a.dtype.kind == "c":
        raise TypeError(f"pca: A of real numbers, not {a.dtype}")
    if m < 2 or not isinstance(k, (int, np.integer)) or not 1 <= k <= min(m, n):
        raise ValueError(f"pca: k={k} of A of shape {a.shape}: A has 2 rows or more, and k is 1 to min(m, n)")
    given = rows_of(a.persist())
    mean, r = centred(given, a.dtype, np.sqrt(EXACT / n))
    check(r, given, "pca")
    _, s, vt = signed_svd(r)
    with np.errstate(over="ignore", under="ignore"):
        variance = s**2 / (m - 1)  # may be beyond the range of numbers, where the shares of it are not
    relative = (s / np.where(s[0] > 0, s[0], 1)) ** 2
    total = np.sum(relative)
    ratio = relative / np.where(total > 0, total, 1)
    components = vt[:k].copy()
    scores = row_blocks.to_array(_projected(given, mean, components.T.copy(), a.dtype), a.dtype)
    small = [on_all(each.copy()) for each in (components, variance[:k], ratio[:k], mean)]
    return PCA(small[0], small[1], small[2], small[3], scores)


_projected = declares(of_projected)(passes.projected)


@declares(of_centred)
def centred(rows: RowBlocks, dtype: DType, limit: float) -> tuple[Any, Any]:
    """Return the means of A's columns, and the R of A - mean.

    limit : the condition, with columns scaled to length 1, up to which R is the Cholesky factor of the Gram matrix of
        A - mean; above, R is made by reflections (Golub, Van Loan 2013, 8.6).  Rounding of the Gram matrix changes a
        singular value by at most about n·κ²·eps/2 of itself (Demmel, Veselić 1992), so limit² · n is the error, in eps.
    """
    mean = methods.column_means(rows, dtype)
    r = methods.gram_factor(rows, dtype, mean)
    if r is not None and methods.is_near(r, rows.layout.shape[0], limit):
        return mean, r
    with np.errstate(all="ignore"):
        away = RowBlocks(rows.layout, {at: block - mean for at, block in rows.blocks.items()})
    return mean, methods.r_only(away, dtype)
