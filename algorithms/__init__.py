"""Algorithms that scientists use, as bulk-synchronous supersteps.

    from bsp.algorithms import glm, matmul, qr

    glm       linear, logistic, Poisson and Gamma regression, with penalties and summaries
    qr        QR of tall matrices, singular values, principal components, least squares
    matmul    products of dense matrices that trade memory for words

Each module says what it computes, what it costs (W, H, S, M) and where that is from; the tests count.
The packages are loaded when first used.
"""

from __future__ import annotations

from types import ModuleType

__all__ = ["glm", "matmul", "qr"]


def __getattr__(name: str) -> ModuleType:
    from importlib import import_module

    if name not in __all__:
        raise AttributeError(f"module 'bsp.algorithms' has no attribute {name!r}")
    return import_module(f"bsp.algorithms.{name}")


def __dir__() -> list[str]:
    """Return the public names: what help and completion show."""
    return sorted(__all__)
