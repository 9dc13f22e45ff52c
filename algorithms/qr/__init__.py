"""QR of tall matrices in the cheapest way that keeps Q orthogonal, and what follows from it.

    Q, R = qr(A)                       # a method chosen by A's condition; Q, R name it, and why
    U, s, Vt = svd(A)                  # of a tall matrix
    model = pca(A, k=2)                # principal components
    x, residuals, rank, s = lstsq(A, b)

`factoring` chooses between the `methods`: Householder reflections in a tree (direct TSQR), R in a tree and Q = A·R⁻¹,
refined once (indirect TSQR), and Cholesky of AᵀA, once or twice (CholeskyQR2); what is not tall goes by block columns.
`pricing` has the cost of each.  `python -m tools.qr_study` shows how orthogonal each leaves Q.
"""

from bsp.algorithms.qr.components import PCA, pca
from bsp.algorithms.qr.factoring import QR, qr
from bsp.algorithms.qr.least_squares import lstsq
from bsp.algorithms.qr.pricing import cost
from bsp.algorithms.qr.singular import SVD, svd
from bsp.cost.model import Cost

__all__ = ["PCA", "QR", "SVD", "Cost", "cost", "lstsq", "pca", "qr", "svd"]


def __dir__() -> list[str]:
    """Return the public names: what help and completion show."""
    return sorted(__all__)
