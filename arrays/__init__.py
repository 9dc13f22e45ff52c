"""NumPy's arrays, dealt in blocks to the processes of a BSP program and planned as supersteps.

    import bsp.arrays as ba
    x = ba.random.default_rng(0).normal(size=(1_000_000, 20))     # every process runs the same line
    print((x.T @ x).explain())                                    # its supersteps and cost
    g = (x.T @ x).compute()                                       # a NumPy array, on every process

Arrays are created at once.  Arithmetic is lazy until a result is asked for: `compute()` brings it to every process,
`persist()` leaves its blocks on their processes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as _np

from bsp.arrays import fft as fft
from bsp.arrays import linalg as linalg
from bsp.arrays import random as random
from bsp.arrays.api.calculus import *
from bsp.arrays.api.choosing import *
from bsp.arrays.api.contraction import *
from bsp.arrays.api.creation import *
from bsp.arrays.api.dtypes import *
from bsp.arrays.api.interchange import *
from bsp.arrays.api.manipulation import *
from bsp.arrays.api.reductions import *
from bsp.arrays.api.statistics import *
from bsp.arrays.api.ufuncs import *
from bsp.arrays.array import Array as Array
from bsp.arrays.array import compute as compute
from bsp.arrays.array import persist as persist
from bsp.arrays.comprehensions.compiler import comprehension as comprehension
from bsp.arrays.editing import *
from bsp.arrays.errors import ArrayError as ArrayError
from bsp.arrays.errors import ComprehensionError as ComprehensionError
from bsp.arrays.errors import GatherRefused as GatherRefused
from bsp.arrays.errors import LayoutError as LayoutError
from bsp.arrays.errors import PlanTooLarge as PlanTooLarge
from bsp.arrays.execution.world import options as options
from bsp.arrays.files.csv import loadtxt as loadtxt
from bsp.arrays.files.csv import read_csv as read_csv
from bsp.arrays.files.formats import FUNCTIONS as _FILES
from bsp.arrays.files.formats import load as load
from bsp.arrays.files.formats import save as save
from bsp.arrays.files.hdf5 import read_hdf5 as read_hdf5
from bsp.arrays.files.hdf5 import write_hdf5 as write_hdf5
from bsp.arrays.files.npz import savez as savez
from bsp.arrays.files.npz import savez_compressed as savez_compressed
from bsp.arrays.files.parquet import read_parquet as read_parquet
from bsp.arrays.files.parquet import write_parquet as write_parquet
from bsp.arrays.files.text import savetxt as savetxt
from bsp.arrays.files.zarr import read_zarr as read_zarr
from bsp.arrays.files.zarr import write_zarr as write_zarr
from bsp.arrays.in_place import *
from bsp.arrays.namespace import FUNCTIONS as _FUNCTIONS
from bsp.arrays.polynomials import *
from bsp.arrays.procedures.bits import *
from bsp.arrays.procedures.forecast import explain as explain
from bsp.arrays.procedures.forecast import forecast as forecast
from bsp.arrays.procedures.lines import *
from bsp.arrays.selection.grids import *
from bsp.arrays.selection.masks import *
from bsp.arrays.selection.selecting import *
from bsp.arrays.selection.sliding import *
from bsp.arrays.sorting.counting import *
from bsp.arrays.sorting.distinct import *
from bsp.arrays.sorting.partition import *
from bsp.arrays.sorting.quantiles import *
from bsp.arrays.sorting.searching import *
from bsp.arrays.sorting.sets import *
from bsp.arrays.sorting.sorting import *

newaxis = None
e, pi, inf, nan = float(_np.e), float(_np.pi), float("inf"), float("nan")
bool = _np.bool_
int8, int16, int32, int64 = _np.int8, _np.int16, _np.int32, _np.int64
uint8, uint16, uint32, uint64 = _np.uint8, _np.uint16, _np.uint32, _np.uint64
float32, float64, complex64, complex128 = _np.float32, _np.float64, _np.complex64, _np.complex128

__array_api_version__ = "2024.12"
_NAMES = (
    *_FUNCTIONS, *_FILES, "Array", "ArrayError", "ComprehensionError", "GatherRefused", "LayoutError", "PlanTooLarge",
    "comprehension", "compute", "e", "explain", "fft", "forecast", "inf", "linalg", "nan", "newaxis", "options",
    "persist", "pi", "random",
)  # fmt: skip

# Type checkers read the imports above.  At run time the same functions take NumPy's arguments too (see `namespace`).
if not TYPE_CHECKING:
    globals().update(_FUNCTIONS | _FILES)
    __all__ = [*_NAMES]

    def __getattr__(name: str) -> None:
        """Raise AttributeError for a name that is missing; of one of NumPy's it tells what to use."""
        text = f"module 'bsp.arrays' has no attribute {name!r}"
        if not name.startswith("_") and hasattr(_np, name):
            text += f": use numpy.{name}; ba.asarray(x) deals an array that NumPy has made"
        raise AttributeError(text)


_DTYPES = (
    "bool", "complex128", "complex64", "float32", "float64", "int16", "int32", "int64", "int8", "uint16", "uint32",
    "uint64", "uint8",
)  # fmt: skip


def __dir__() -> list[str]:
    """Return the public names: what help and completion show."""
    return sorted({*_NAMES, *_DTYPES, "__array_api_version__"})
