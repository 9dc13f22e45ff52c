"""The table of NumPy's functions: the rule that computes the shape of each, and the formulas of what each costs.

`WEIGHTS` and the formulas below are the prices, each with its source.  `TABLE` maps a NumPy function to the
rule that returns its abstract result and counts its work (the rules are in elementwise, reductions, linear,
shaping and selecting).  A function that is not in the table runs as NumPy wrote it (see `numpys`); if NumPy wrote it in
C, it raises NotCounted.

Sources.  McMahon, The Livermore Fortran Kernels (UCRL-53745, 1986): add, subtract, multiply and compare 1,
divide and square root 4, exp, sin and similar functions 8.  GVL: Golub & Van Loan, Matrix Computations, 4th edition.
A flop is an operation on real numbers; an operation on complex ones counts 4 (a multiply-add is 8 instead of 2).
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from functools import lru_cache
from math import log2
from typing import Any

import numpy as np

from bsp.abstract.errors import NotCounted, program_here
from bsp.abstract.probe import DType

Rule = Callable[..., Any]
TABLE: dict[Any, Rule] = {}

# flops an element; a ufunc that is not named takes 1
WEIGHTS: dict[str, float] = {
    **dict.fromkeys(("divide", "floor_divide", "remainder", "fmod", "reciprocal", "sqrt"), 4),
    "divmod": 8,  # a division and a remainder
    "hypot": 7,  # two products, a sum, a root
    **dict.fromkeys(("gcd", "lcm"), 32),  # Euclid: at most one division for each 0.7 bits; an average
}
# the same of functions, whose flops are a class of their own
FUNCTIONS: dict[str, float] = {
    **dict.fromkeys(
        (
            "exp", "exp2", "expm1", "log", "log2", "log10", "log1p", "cbrt", "sin", "cos", "tan", "arcsin", "arccos",
            "arctan", "arctan2", "sinh", "cosh", "tanh", "arcsinh", "arccosh", "arctanh",
        ),
        8,
    ),
    **dict.fromkeys(("power", "float_power"), 17),  # exp(y log x)
    **dict.fromkeys(("logaddexp", "logaddexp2"), 18),  # max, difference, exp, log1p, sum
}  # fmt: skip
RANDOM = 8  # flops a random number
BLAS_KINDS = "fdFD"


@lru_cache(maxsize=1 << 12)
def weight(ufunc: np.ufunc, dtype: DType) -> float:
    """Return the flops an element of a ufunc that computes in this dtype."""
    return (FUNCTIONS.get(ufunc.__name__) or WEIGHTS.get(ufunc.__name__, 1)) * complexity(dtype)


def kernel_of(ufunc: np.ufunc) -> str:
    """Return the class of a ufunc's flops."""
    return "functions" if ufunc.__name__ in FUNCTIONS else "elementwise"


def complexity(dtype: DType) -> int:
    """Return the real flops of one operation in this dtype."""
    return 4 if dtype.kind == "c" else 1


def product_kernel(m: int, n: int, dtype: DType, k: int = 2) -> str:
    """Return the class of an (m, k) by (k, n) product: by the BLAS routine that NumPy calls for such a shape.

    Products of dtypes that BLAS does not have are plain loops: elementwise.
    """
    if dtype.char not in BLAS_KINDS:
        return "elementwise"
    if m == 1 and n == 1:
        return "blas1"
    return "blas2" if m == 1 or n == 1 or k == 1 else "blas3"


# ------------------------------------------------------------------------ flops; of order n^3: blas3, in part blas2

_UNBLOCKED = 128  # columns below which LAPACK factors column by column (NX of its ILAENV)


def factored(n: int) -> float:
    """Return the share of BLAS-2 in a factorisation of n columns: all of few columns, half of many (measured)."""
    return 1.0 if n <= _UNBLOCKED else 0.5


FEW = 32  # columns whose rates a machine is measured at: the classes "narrow" and "triangle"


def squared(n: int) -> dict[str, float]:
    """Return the classes of work in xᴴ·x, for x of n columns in the cache, by their shares.

    Measured with OpenBLAS 0.3 on AVX-512, n = 4, 8, 16, 64, 128 and 256 run at 27, 50, 75, 95, 127 and 160 % of the
    rate of 32.
    """
    if n < FEW:
        slow = min(1.0, 0.1 * (FEW / max(n, 1) - 1))
        return {"elementwise": slow, "narrow": 1 - slow}
    narrow = math.sqrt(FEW / n)
    return {"narrow": narrow, "blas3": 1 - narrow}


def substituted(n: int) -> dict[str, float]:
    """Return the classes of work in x @ r⁻¹, for a triangle r of n columns, by their shares.

    Measured as for `squared`, n = 8, 16, 64 and 128 run at 32, 58, 160 and 220 % of the rate of 32, which is 40 % of
    that of BLAS-2.
    """
    if n < FEW:
        slow = min(1.0, 0.8 * (FEW / max(n, 1) - 1))
        return {"elementwise": slow, "triangle": 1 - slow}
    return {"triangle": FEW / n, "blas2": 1 - FEW / n}


def reflected(n: int) -> float:
    """Return the share of elementwise work in Householder QR of tall blocks of n columns; the rest is BLAS-2.

    Measured of blocks in the cache: n = 8 runs at 37 % of the rate of BLAS-2, 32 at 70 %, 128 at 80 %.
    """
    return min(1.0, 3 / max(n, 1))


def product(m: int, k: int, n: int) -> float:
    """Return the flops of (m, k) @ (k, n): a multiplication and an addition for each of mkn (GVL 1.1.11)."""
    return 2.0 * m * k * n


def lu(n: int) -> float:
    """Return the flops of LU with partial pivoting (GVL 3.4)."""
    return 2 * n**3 / 3


def triangular_solves(n: int, columns: int) -> float:
    """Return the flops of forward and back substitution (GVL 3.1)."""
    return 2.0 * n * n * columns


def inverse(n: int) -> float:
    """Return the flops of an inverse: LU and n right-hand sides, using that those are the identity (GVL 3.4)."""
    return 2.0 * n**3


def cholesky(n: int) -> float:
    """Return the flops of a Cholesky factorisation (GVL 4.2)."""
    return n**3 / 3


def qr(m: int, n: int, mode: str) -> float:
    """Return the flops of Householder QR (GVL 5.2): R alone, Q with as many columns as R has rows, or all of Q."""
    long, short = max(m, n), min(m, n)
    factors = 2 * short**2 * (long - short / 3)  # 2n^2(m - n/3); of a wide matrix: 2m^2(n - m/3)
    if mode in ("r", "raw"):
        return factors
    if m <= n:
        return factors + 4 * m**3 / 3  # the square Q of m reflectors: below, with n = m
    if mode == "reduced":
        return 2 * factors
    return factors + 4 * (m * m * n - m * n * n + n**3 / 3)


def svd(m: int, n: int, vectors: bool, full: bool) -> float:
    """Return the flops of Golub-Reinsch (GVL figure 8.6.1): singular values, with thin factors, or with full ones."""
    m, n = max(m, n), min(m, n)
    if not vectors:
        return 4 * m * n * n - 4 * n**3 / 3
    if full:
        return 4.0 * m * m * n + 8 * m * n * n + 9 * n**3
    return 14.0 * m * n * n + 8 * n**3


def eigh(n: int, vectors: bool) -> float:
    """Return the flops of symmetric QR (GVL 8.3): 4n^3/3 for the values, 9n^3 with the vectors."""
    return 9.0 * n**3 if vectors else 4 * n**3 / 3


def eig(n: int, vectors: bool) -> float:
    """Return the flops of Hessenberg and QR iteration (GVL 7.5): 10n^3 for the values, 25n^3 with Q and T."""
    return (25.0 if vectors else 10.0) * n**3


def least_squares(m: int, n: int, columns: int) -> float:
    """Return the flops of least squares by singular values (GVL figure 5.5.1), and of its right-hand sides."""
    m, n = max(m, n), min(m, n)
    return 4.0 * m * n * n + 8 * n**3 + 2.0 * m * n * columns


def fourier(n: int) -> float:
    """Return the flops of a complex transform of length n by radix 2.

    Source: Van Loan, Computational Frameworks for the FFT, 1.4.
    """
    return 5 * n * log2(n) if n > 1 else 0.0


def comparisons(n: int) -> float:
    """Return the comparisons in sorting n keys: n log2 n."""
    return n * log2(n) if n > 1 else 0.0


# ------------------------------------------------------------------------------------------------- the table


def rule(*names: str) -> Callable[[Rule], Rule]:
    """Return a decorator that enters a rule for these functions of NumPy; names that this NumPy lacks are skipped."""

    def enter(function: Rule) -> Rule:
        for name in names:
            try:
                TABLE[operator.attrgetter(name)(np)] = function
            except AttributeError:
                continue
        return function

    return enter


def not_counted(function: Any, what: str = "") -> NotCounted:
    """Return the error for a function, or an option of one, that the table does not have."""
    module = getattr(function, "__module__", None) or "numpy"
    name = getattr(function, "__qualname__", None) or getattr(function, "__name__", repr(function))
    return NotCounted(
        f"{module}.{name}{what} at {program_here()}: --abstract has no entry for it in its table of shapes and flops "
        "(bsp/abstract/table.py); express it in functions that are there, or run without --abstract"
    )
