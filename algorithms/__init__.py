"""Algorithms that scientists use, as bulk-synchronous supersteps.

    from bsp.algorithms import glm, graphs, krylov, matmul, qr

    glm       linear, logistic, Poisson and Gamma regression, with penalties and summaries
    graphs    programs on graphs: ranks, paths, components
    krylov    iterative methods for sparse systems
    qr        QR of tall matrices, singular values, principal components, least squares
    matmul    products of dense matrices that trade memory for words

Each module documents what it computes, its cost (W, H, S, M) and its sources; the tests count words and supersteps.
The packages are loaded when first used.
"""

from __future__ import annotations

from types import ModuleType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from bsp.algorithms import glm as glm
    from bsp.algorithms import graphs as graphs
    from bsp.algorithms import krylov as krylov
    from bsp.algorithms import matmul as matmul
    from bsp.algorithms import qr as qr

__all__ = ["glm", "graphs", "krylov", "matmul", "qr"]


if not TYPE_CHECKING:  # type checkers read the imports above, and report names that do not exist

    def __getattr__(name: str) -> ModuleType:
        from importlib import import_module

        if name not in __all__:
            raise AttributeError(f"module 'bsp.algorithms' has no attribute {name!r}")
        return import_module(f"bsp.algorithms.{name}")


def __dir__() -> list[str]:
    """Return the public names: what help and completion show."""
    return sorted(__all__)
