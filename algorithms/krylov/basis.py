"""Orthonormal bases of Krylov spaces: Arnoldi's step in one plan.

The vectors are the rows of one matrix, dealt as the vectors are, so that the components of a new vector along all of
them are one product and one sum.  Components are taken out twice: after the second time what is left is orthogonal to
rounding (Daniel, Gragg, Kaufman and Stewart, 1976; Giraud, Langou and Rozložník, 2005).

Cost of a step with j vectors: W = 2 nnz/p + 8 j n/p; H = the far columns of A and 2 j (p - 1) words; S = 3.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

import bsp.arrays as ba
from bsp.algorithms.krylov.operators import dot, norm_of, numbers, unit_of
from bsp.arrays import Array
from bsp.arrays.procedures import Axis, layout_of, node_of, relaid, world, wrap

_ROUNDING = 10 * float(np.finfo(float).eps)


class ArnoldiStep(NamedTuple):
    """The part of a product outside a basis (not normalised), the components along the basis, and the part's norm."""

    rest: Array
    column: np.ndarray
    norm: float


def empty_basis(like: Array, count: int) -> Array:
    """Return a matrix for so many vectors that are dealt like one.  Lazy."""
    layout = like.layout
    rows = ba.zeros((count, like.shape[0]), like.dtype)
    return wrap(relaid(node_of(rows), layout_of((Axis(count), *layout.axes), layout.replicated, layout.table)))


def expanded(apply: Callable[[Array], Array], basis: Array, j: int, vector: Array, norm: float) -> ArnoldiStep:
    """Make a vector of some norm row j of a basis; multiply it, and take components along rows up to j out.

    Computes the basis, and what is left of the product.
    """
    basis[j] = vector * (1.0 / norm)
    return outside(basis, j + 1, apply(basis[j]))


def outside(basis: Array, count: int, vector: Array) -> ArnoldiStep:
    """Take the components of a vector along the first rows of a basis out; compute what is left, and the basis.

    A rest that is rounding has the norm 0.  A vector whose squares overflow or vanish is multiplied by a power of two.
    """
    rows = basis[:count]
    bras = rows.conj() if rows.dtype.kind == "c" else rows
    first = bras @ vector
    left = vector - first @ rows
    second = bras @ left
    square = dot(left, left)
    rest = left - second @ rows
    with np.errstate(over="ignore", invalid="ignore"):
        ba.persist(basis, rest, first, second, square)
        coarse, fine, size = numbers(first, second, square)
        along = float(np.linalg.norm(coarse))
    if world().abstract:
        return ArnoldiStep(rest, coarse, 1.0)
    whole = along * along + size.real
    if (unit := unit_of(vector, whole)) is not None:
        step = outside(basis, count, vector * unit)
        return ArnoldiStep((step.rest / unit).persist(), step.column / unit, step.norm / float(unit))
    found = norm_of(size.real - float(np.linalg.norm(fine)) ** 2)
    return ArnoldiStep(rest, coarse + fine, found if found > _ROUNDING * norm_of(whole) else 0.0)
