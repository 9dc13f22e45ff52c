"""Krylov methods for large sparse systems, with scipy.sparse.linalg's signatures.

    from bsp.arrays import sparse
    from bsp.algorithms import krylov
    A = sparse.diags([-1.0, 2.0, -1.0], offsets=[-1, 0, 1], shape=(n, n))
    x, info = krylov.cg(A, b, M=krylov.jacobi(A))      # info is 0 if x is good; info.iterations

`cg` is for positive definite matrices, `minres` for symmetric ones, `gmres` and `bicgstab` for all square ones, `lsqr`
for least squares; `eigsh` finds eigenvalues of symmetric matrices at an end of the spectrum, `svds` the largest
singular values.  `jacobi` and `block_jacobi` make preconditioners.  `bsp.algorithms.krylov.npb` is the CG kernel of the
NAS Parallel Benchmarks.

Vectors are arrays, and each iteration is one plan; the modules state its words and supersteps.  The iterations are
`proc.rounds`: clones and checkpoints keep them running.
"""

from bsp.algorithms.krylov.bicgstab import bicgstab
from bsp.algorithms.krylov.cg import cg
from bsp.algorithms.krylov.eigen import eigsh
from bsp.algorithms.krylov.errors import NoConvergence
from bsp.algorithms.krylov.gmres import gmres
from bsp.algorithms.krylov.info import Info
from bsp.algorithms.krylov.lsqr import LSQRResult, lsqr
from bsp.algorithms.krylov.minres import minres
from bsp.algorithms.krylov.operators import LinearOperator
from bsp.algorithms.krylov.preconditioners import block_jacobi, jacobi
from bsp.algorithms.krylov.singular import SingularTriplets, svds

__all__ = [
    "Info", "LSQRResult", "LinearOperator", "NoConvergence", "SingularTriplets", "bicgstab", "block_jacobi", "cg",
    "eigsh", "gmres", "jacobi", "lsqr", "minres", "svds",
]  # fmt: skip


def __dir__() -> list[str]:
    """Return the public names: what help and completion show."""
    return sorted(__all__)
