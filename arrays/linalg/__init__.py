"""Linear algebra: the standard's `linalg` extension, and NumPy's norm, lstsq, cond, multi_dot.

    Q, R = ba.linalg.qr(A)             # tall matrices by TSQR, others by block columns
    x = ba.linalg.solve(A, b)          # A and x stay dealt

Names, arguments and errors are NumPy's; NumPy's own functions accept arrays, too: np.linalg.solve(A, b).
Factorisations are not lazy: they run when they are called, and every process must call them.

To write further procedures: `bsp.arrays.linalg.row_blocks` factors rows that are dealt to the processes, `factored`
computes SVD and least squares from their R, and `panels` works by block columns.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.linalg import LinAlgError

from bsp.arrays.api.contraction import matmul, tensordot, vecdot
from bsp.arrays.api.manipulation import matrix_transpose
from bsp.arrays.linalg.norms import cond, matrix_norm, norm, vector_norm
from bsp.arrays.linalg.orthogonal import QRResult, SVDResult, lstsq, matrix_rank, pinv, qr, svd, svdvals
from bsp.arrays.linalg.products import cross, diagonal, multi_dot, outer, trace
from bsp.arrays.linalg.square import (
    EighResult,
    EigResult,
    SlogdetResult,
    cholesky,
    det,
    eig,
    eigh,
    eigvals,
    eigvalsh,
    inv,
    matrix_power,
    slogdet,
    solve,
    tensorinv,
    tensorsolve,
)

__all__ = [
    "EigResult",
    "EighResult",
    "LinAlgError",
    "QRResult",
    "SVDResult",
    "SlogdetResult",
    "cholesky",
    "cond",
    "cross",
    "det",
    "diagonal",
    "eig",
    "eigh",
    "eigvals",
    "eigvalsh",
    "inv",
    "lstsq",
    "matmul",
    "matrix_norm",
    "matrix_power",
    "matrix_rank",
    "matrix_transpose",
    "multi_dot",
    "norm",
    "outer",
    "pinv",
    "qr",
    "slogdet",
    "solve",
    "svd",
    "svdvals",
    "tensordot",
    "tensorinv",
    "tensorsolve",
    "trace",
    "vecdot",
    "vector_norm",
]  # fmt: skip

# by NumPy's function: ours
OF_NUMPY: dict[Any, Callable[..., Any]] = {
    getattr(np.linalg, name): globals()[name] for name in __all__ if name.islower() and hasattr(np.linalg, name)
}


def __dir__() -> list[str]:
    """Return the public names: what help and completion show."""
    return sorted(__all__)
