"""Four ways to factor tall rows, and the tests of whether their Q is orthogonal.

- *direct*: reflections in a tree (Benson, Gleich, Demmel 2013).  Q is orthogonal to rounding, whatever A.
- *indirect*: R by the same tree without Q, then Q₁ = A·R⁻¹, which is less orthogonal the greater A's condition is;
  one refinement, Q₁ = Q·R₂ with R₂ by a second such tree, mends that (Constantine and Gleich 2011).
- *cholesky*: R is the Cholesky factor of AᴴA, Q = A·R⁻¹.  Q is orthogonal to eps times the square of A's condition: to
  rounding only where A's columns are nearly orthogonal already, as those of noise are.
- *cholesky2*: the same, and once more from Q (Yamamoto, Nakatsukasa, Yanagisawa, Fukaya 2015).  AᴴA has the square of
  A's condition, so it ends where that is 1/eps.

Both refinements work because Q₁ is much better conditioned than A; its own R₂, which every process has, tells
whether it is: no claim about orthogonality rests on an estimate.  The scale of A's columns does not matter to any of
them, so the condition that decides is that of the columns brought to length 1 (van der Sluis 1969).
"""

from __future__ import annotations

from math import inf, sqrt
from typing import Any

import numpy as np
from numpy.linalg import LinAlgError

from bsp.algorithms.qr import passes
from bsp.arrays.linalg import row_blocks
from bsp.arrays.linalg.row_blocks import Factors, RowBlocks
from bsp.arrays.procedures import DType, world

NEAR = 2.0  # the condition up to which one Cholesky factor, or one refinement, leaves Q orthogonal to rounding


def cholesky_limit(columns: int, dtype: DType) -> float:
    """Return the condition up to which AᴴA is as good as A: rounding changes Q₁ᴴQ₁ - I by less than about 1/100."""
    return 0.1 / sqrt(max(1, columns) * float(np.finfo(dtype).eps))


def indirect_limit(columns: int, dtype: DType) -> float:
    """Return the condition up to which A·R⁻¹ is near to orthogonal."""
    return 0.1 / (max(1, columns) * float(np.finfo(dtype).eps))


def condition(r: Any, scaled: bool = False) -> float:
    """Return σ₁/σₙ of an upper triangular R, and so of A; `scaled`: with columns of length 1."""
    if not r.size:
        return 1.0
    largest = np.abs(r).max(axis=0)
    if scaled:
        if not largest.all():
            return inf
        r = r / largest
        r = r / np.linalg.norm(r, axis=0)
    else:
        r = r / max(largest.max(), np.finfo(r.dtype).tiny)
    s = np.linalg.svdvals(r)
    return float(s[0] / s[-1]) if s[-1] else inf


def direct(rows: RowBlocks, dtype: DType) -> Factors:
    """Return Q and R by Householder reflections, up and down a tree.

    Cost: W = 6(m/p)n² + the tree's, H = (a-1)n² words and S = 1 for each of its log_a p levels (see `row_blocks.tsqr`),
    M = 2(m/p)n words: the reflections, and Q.
    """
    with np.errstate(all="ignore"):  # what is not finite in A is found in R
        return row_blocks.tsqr(rows, dtype)


def r_only(rows: RowBlocks, dtype: DType) -> Any:
    """Return R by the tree.  Cost: W = 2(m/p)n² + the tree's, H and S as `direct`, M = a piece of the rows."""
    with np.errstate(all="ignore"):
        return row_blocks.tsqr(rows, dtype, want_q=False).r


def indirect(rows: RowBlocks, r: Any, dtype: DType) -> Factors | None:
    """Return Q = A·R⁻¹·R₂⁻¹ and R₂·R, R₂ the R of A·R⁻¹; None if that was not near to orthogonal.  `r`: of `r_only`.

    Cost: with `r_only` W = 6(m/p)n² + two trees', H and S those of two trees, M = (m/p)n words: Q.
    """
    if not np.diagonal(r).all():
        return None
    with np.errstate(all="ignore"):
        q = passes.divided(rows, r, dtype)
        second = r_only(q, dtype)
    if not (np.isfinite(second).all() and condition(second) <= NEAR):
        return None
    return Factors(passes.divided(q, second, dtype, in_place=True, near=True), second @ r)


def gram_factor(rows: RowBlocks, dtype: DType, shift: Any = None) -> Any:
    """Return R₁ of AᴴA = R₁ᴴR₁; None if that has no Cholesky factor in floating point.

    shift : a row that is subtracted from all rows of A.

    Cost: W = (m/p)n², and half of AᴴA summed over processes: H = (p-1)n²/2, S = 1, or about n² in 2, or up and down
    a tree: the cheapest.
    """
    with np.errstate(all="ignore"):  # what is no number has no factor
        squared = passes.gram(rows, dtype, shift)
    return _cholesky(_summed(rows, squared))


def is_near(r: Any, rows: int, limit: float = NEAR) -> bool:
    """Return whether the R of `gram_factor` of so many rows is of a condition up to a limit, columns scaled.

    AᴴA must be exact, too: of columns whose squares come near to the least numbers it is not.
    """
    numbers = np.finfo(r.dtype)
    least = np.sqrt(rows * numbers.tiny / numbers.eps)
    return condition(r, scaled=True) <= limit and bool((np.linalg.norm(r, axis=0) >= least).all())


def column_means(rows: RowBlocks, dtype: DType) -> Any:
    """Return the means of the columns over all rows.  Cost: (m/p)n flops, one sum of n words."""
    with np.errstate(all="ignore"):
        return _added(rows, passes.total(rows, dtype)) / rows.layout.shape[0]


def cholesky(rows: RowBlocks, r: Any, dtype: DType) -> Factors | None:
    """Return Q = A·R⁻¹ and R, of `gram_factor`; None if Q would not be orthogonal to rounding.

    Cost: with `gram_factor` W = 2(m/p)n², H and S those of a sum of n²/2 words, M = (m/p)n words: Q.  A is read twice.
    """
    if not is_near(r, rows.layout.shape[0]):
        return None
    with np.errstate(all="ignore"):
        return Factors(passes.divided(rows, r, dtype, near=True), r)


def cholesky2(rows: RowBlocks, r: Any, dtype: DType) -> Factors | None:
    """Return Q = A·R₁⁻¹·R₂⁻¹ and R₂·R₁, R₂ of Q₁ᴴQ₁, Q₁ = A·R₁⁻¹; None if Q₁ was not near to orthogonal.

    r : R₁, of `gram_factor`.

    Cost: with `gram_factor` W = 4(m/p)n², H and S those of two sums of n²/2 words, M = (m/p)n words: Q.  A is read
    twice, Q written and then read and written.
    """
    with np.errstate(all="ignore"):
        q, squared = passes.divided_and_gram(rows, r, dtype)
    second = _cholesky(_summed(rows, squared))
    if second is None or condition(second) > NEAR:
        return None
    return Factors(passes.divided(q, second, dtype, in_place=True, near=True), second @ r)


def _summed(rows: RowBlocks, squared: Any) -> Any:
    """Return a Hermitian matrix summed over processes; its upper triangle travels.

    What has overflowed becomes NaN: BLAS decides the signs of infinities, so those of two processes need have no sum.
    """
    upper = np.triu_indices(squared.shape[0])
    whole = np.zeros_like(squared)
    whole[upper] = _added(rows, squared[upper])
    return whole


def _added(rows: RowBlocks, own: Any) -> Any:
    """Return an array of sums over this process's rows summed over processes; what is not finite becomes NaN."""
    own[~np.isfinite(own)] = np.nan
    here = world()
    return own if here.nprocs == 1 or rows.layout.replicated else here.private.allreduce(own)


def _cholesky(upper: Any) -> Any:
    """Return R of RᴴR, of which only the upper triangle is read; None if it is not positive definite or not finite."""
    if not np.isfinite(upper).all():
        return None
    try:
        return np.linalg.cholesky(upper, upper=True)
    except LinAlgError:
        return None
