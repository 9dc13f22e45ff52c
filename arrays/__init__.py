"""NumPy's arrays, dealt in blocks to the processes of a BSP program and planned as supersteps.

    import bsp.arrays as ba
    x = ba.random.default_rng(0).normal(size=(1_000_000, 20))     # every process runs the same line
    print((x.T @ x).explain())                                    # what it will do, and cost
    g = (x.T @ x).compute()                                       # NumPy's array, on every process

Creation happens at once, arithmetic when a result is asked for: `compute()` brings it to every process,
`persist()` leaves it where its blocks are.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as _np

from bsp.arrays import fft, linalg, random
from bsp.arrays import methods as _methods  # noqa: F401 - gives arrays their methods
from bsp.arrays.array import Array, compute, persist
from bsp.arrays.comprehensions.compiler import comprehension
from bsp.arrays.errors import ArrayError, ComprehensionError, GatherRefused, LayoutError, PlanTooLarge
from bsp.arrays.execution.world import options
from bsp.arrays.files.formats import FUNCTIONS as _FILES
from bsp.arrays.namespace import FUNCTIONS as _FUNCTIONS
from bsp.arrays.procedures.forecast import explain, forecast

newaxis = None
e, pi, inf, nan = float(_np.e), float(_np.pi), float("inf"), float("nan")
bool = _np.bool_
int8, int16, int32, int64 = _np.int8, _np.int16, _np.int32, _np.int64
uint8, uint16, uint32, uint64 = _np.uint8, _np.uint16, _np.uint32, _np.uint64
float32, float64, complex64, complex128 = _np.float32, _np.float64, _np.complex64, _np.complex128

globals().update(_FUNCTIONS | _FILES)
if TYPE_CHECKING:

    def __getattr__(name: str) -> Any: ...  # NumPy's names, as many as it has


__array_api_version__ = "2024.12"
__all__ = [
    *_FUNCTIONS, *_FILES, "Array", "ArrayError", "ComprehensionError", "GatherRefused", "LayoutError", "PlanTooLarge",
    "comprehension", "compute", "e", "explain", "fft", "forecast", "inf", "linalg", "nan", "newaxis", "options",
    "persist", "pi", "random",
]  # fmt: skip


_DTYPES = (
    "bool", "complex128", "complex64", "float32", "float64", "int16", "int32", "int64", "int8", "uint16", "uint32",
    "uint64", "uint8",
)  # fmt: skip


def __dir__() -> list[str]:
    """Return the public names: what help and completion show."""
    return sorted({*__all__, *_DTYPES, "__array_api_version__"})
