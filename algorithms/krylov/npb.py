"""The CG kernel of the NAS Parallel Benchmarks: an eigenvalue of a random sparse matrix by inverse iteration.

    from bsp.algorithms.krylov import npb
    print(npb.run("A"))                     # zeta, and whether it is the published value

The matrix is a weighted sum of outer products of random sparse vectors, plus a shift of its diagonal.  It is the
benchmark's own, number by number: its random numbers are a linear congruence modulo 2^46, and a vector's places are
drawn until they are distinct.  An outer iteration solves A z = x by 25 steps of conjugate gradients from zero; they
are `cg`'s, with two supersteps where Hestenes and Stiefel's, which the benchmark writes, take three.
Every process draws all vectors (they are a small part of the work) and keeps its own rows of the sum.

Source: Bailey et al., The NAS Parallel Benchmarks, RNR-94-007, section 2.1.2; the values of the classes are those
that the benchmark publishes.  Cost of an outer iteration: S = 56, of which `cg` takes 25·2 + 2; H as `cg`.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import scipy.sparse

import bsp
import bsp.arrays as ba
from bsp.algorithms.krylov.cg import cg
from bsp.algorithms.krylov.operators import dot
from bsp.arrays import ArrayError, sparse
from bsp.arrays.procedures import world
from bsp.arrays.sparse import SparseArray

_MODULUS, _FACTOR, _SEED = 2**46, 5**13, 314159265
_STEPS = 25  # of conjugate gradients in an outer iteration
_CONDITION = 0.1
_TOLERANCE = 1e-10


class ProblemClass(NamedTuple):
    """The size of a problem, and the eigenvalue that the benchmark publishes for it."""

    n: int
    nonzero: int  # of each random vector
    iterations: int
    shift: float
    zeta: float


CLASSES = {
    "S": ProblemClass(1400, 7, 15, 10.0, 8.5971775078648),
    "W": ProblemClass(7000, 8, 15, 12.0, 10.362595087124),
    "A": ProblemClass(14000, 11, 15, 20.0, 17.130235054029),
    "B": ProblemClass(75000, 13, 75, 60.0, 22.712745482631),
    "C": ProblemClass(150000, 15, 75, 110.0, 28.973605592845),
}


class NPBResult(NamedTuple):
    """The eigenvalue found, the residual of the last solve, and whether the eigenvalue is the published one."""

    zeta: float
    residual: float
    verified: bool


class _Numbers:
    """The benchmark's random numbers: x ← 5^13·x mod 2^46, made many at a time by jumps."""

    def __init__(self, seed: int, at_once: int = 1 << 16) -> None:
        powers = [1]
        for _ in range(at_once):
            powers.append(powers[-1] * _FACTOR % _MODULUS)
        self._powers = np.array(powers[1:], np.uint64)
        self._state = seed
        self._values = np.zeros(0)
        self._next = 0

    def take(self, count: int) -> np.ndarray:
        """Return the next numbers, in (0, 1)."""
        while self._next + count > len(self._values):
            more = _times(self._powers, self._state)
            self._state = int(more[-1])
            self._values = np.concatenate([self._values[self._next :], more * 2.0**-46])
            self._next = 0
        found = self._values[self._next : self._next + count]
        self._next += count
        return found

    def back(self, count: int) -> None:
        """Give back the last numbers taken."""
        self._next -= count


def _times(numbers: np.ndarray, by: int) -> np.ndarray:
    """Return products modulo 2^46 of numbers below it: in halves of 23 bits, which fit 64 bits."""
    half, mask = np.uint64(23), np.uint64(2**23 - 1)
    low, high = numbers & mask, numbers >> half
    by_low, by_high = np.uint64(by & (2**23 - 1)), np.uint64(by >> 23)
    crossed = (high * by_low + low * by_high) & mask
    return ((crossed << half) + low * by_low) & np.uint64(_MODULUS - 1)


def matrix(name: str) -> SparseArray:
    """Return the matrix of a class.  Collective: each process makes its own rows; S = 1."""
    problem = _class(name)
    places, values, starts = _vectors(problem)
    n = problem.n
    sizes = _CONDITION ** (np.arange(n) / n)  # the weights of the outer products, from 1 down to the condition
    vectors = scipy.sparse.csr_array((values, places, starts), shape=(n, n))
    columns = vectors.tocsc()

    def rows(low: int, high: int) -> scipy.sparse.csr_array:
        left = scipy.sparse.csr_array(columns[:, low:high].T * sizes)
        shift = scipy.sparse.eye_array(high - low, n, k=low) * (_CONDITION - problem.shift)
        return left @ vectors + shift

    return sparse.of_function((n, n), rows)


def _vectors(problem: ProblemClass) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the random vectors as rows of a CSR matrix: places, values, where rows start."""
    n, count = problem.n, problem.nonzero
    limit = 1 << (n - 1).bit_length()  # the least power of two that is not less than n
    numbers = _Numbers(_SEED)
    numbers.take(1)  # the benchmark draws one number before the matrix
    places = np.empty(n * (count + 1), np.int64)
    values = np.empty(n * (count + 1))
    starts = np.zeros(n + 1, np.int64)
    at = 0
    for row in range(n):
        chosen: dict[int, float] = {}
        while len(chosen) < count:
            drawn = numbers.take(2 * (count - len(chosen)) + 8)
            used = 0
            for value, place in zip(drawn[::2].tolist(), (drawn[1::2] * limit).astype(int).tolist(), strict=True):
                used += 2
                if place < n:
                    chosen.setdefault(place, value)
                if len(chosen) == count:
                    break
            numbers.back(len(drawn) - used)
        chosen[row] = 0.5
        places[at : at + len(chosen)] = list(chosen)
        values[at : at + len(chosen)] = list(chosen.values())
        at += len(chosen)
        starts[row + 1] = at
    return places[:at], values[:at], starts


def _class(name: str) -> ProblemClass:
    if name not in CLASSES:
        raise ArrayError(f"class {name!r} of the CG kernel: one of {', '.join(CLASSES)}")
    return CLASSES[name]


def run(name: str, a: SparseArray | None = None) -> NPBResult:
    """Run the kernel of a class.  Collective; the outer iterations are `proc.rounds`.

    a : `matrix(name)`, if it is made already.
    """
    problem = _class(name)
    a = matrix(name) if a is None else a
    state = bsp.State(x=(a @ ba.ones(problem.n) * 0.0 + 1.0).persist(), zeta=0.0, residual=0.0)
    for _ in world().proc.rounds(problem.iterations, state):
        z, residual = _solved(a, state.x)
        along, across = ba.compute(state.x @ z, z @ z)
        state.zeta = problem.shift + 1.0 / float(along)
        state.residual = residual
        state.x = (z * (1.0 / float(across) ** 0.5)).persist()
    verified = abs(state.zeta - problem.zeta) <= _TOLERANCE
    return NPBResult(state.zeta, state.residual, verified)


def _solved(a: SparseArray, x: ba.Array) -> tuple[ba.Array, float]:
    """Return z after 25 steps of conjugate gradients on A z = x from zero, and the norm of x - A z."""
    z, _ = cg(a, x, rtol=0.0, maxiter=_STEPS, variant="classic")
    error = x - a @ z
    return z, float(dot(error, error).item()) ** 0.5
