"""Linear algebra: the standard's `linalg` extension, and NumPy's norm, lstsq, cond, multi_dot.

    Q, R = ba.linalg.qr(A)             # tall matrices by TSQR, others by block columns
    x = ba.linalg.solve(A, b)          # A and x stay dealt

Names, arguments and errors are NumPy's; NumPy's own functions accept arrays, too: np.linalg.solve(A, b).
Factorisations are not lazy: they run when they are called, and every process must call them.

To write further procedures: `bsp.arrays.linalg.row_blocks` factors rows that are dealt to the processes, `factored`
computes SVD and least squares from their R, and `panels` works by block columns.
"""

from bsp.arrays.linalg.functions import (
    EighResult,
    EigResult,
    LinAlgError,
    QRResult,
    SlogdetResult,
    SVDResult,
    cholesky,
    cond,
    cross,
    det,
    diagonal,
    eig,
    eigh,
    eigvals,
    eigvalsh,
    inv,
    lstsq,
    matmul,
    matrix_norm,
    matrix_power,
    matrix_rank,
    matrix_transpose,
    multi_dot,
    norm,
    outer,
    pinv,
    qr,
    slogdet,
    solve,
    svd,
    svdvals,
    tensordot,
    tensorinv,
    tensorsolve,
    trace,
    vecdot,
    vector_norm,
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


def __dir__() -> list[str]:
    """Return the public names: what help and completion show."""
    return sorted(__all__)
