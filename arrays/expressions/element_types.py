"""Element types: the dtypes that arrays can hold.  Every dtype of an array passes through `element_type`.

The bytes of an element have the same meaning on every process, because blocks are sent as they are in memory, and
pieces of them are filled, sorted and merged in place.  Text, whose length differs from array to array, and Python
objects and records, which lack the arithmetic, are refused, whatever the number of processes and elements.
"""

from __future__ import annotations

from typing import Any

import numpy as np

KINDS = "biufcmM"  # of any length, in any byte order

_ROW = "element of a row "


class ElementTypeError(TypeError):
    """A dtype that arrays cannot hold."""


def element_type(given: Any, call: str = "", values: object = None) -> np.dtype[Any]:
    """Return `given` as the dtype of an array's elements.

    call : the name of the calling function, for the error message.
    values : what a program gave and NumPy found this dtype for, if known.
    Raises ElementTypeError, with a list of the supported dtypes, for any other dtype.
    """
    dtype: np.dtype[Any] = np.dtype(given)
    if type(values).__module__.startswith("scipy.sparse"):  # an object to NumPy
        raise ElementTypeError(
            f"{type(values).__name__} is a sparse matrix of scipy's: bsp.arrays.sparse.from_scipy makes a sparse array "
            "of it, its toarray() a dense one"
        )
    if dtype.kind not in KINDS and not (dtype.names and dtype.names[0].startswith(_ROW)):
        what = "Python objects" if dtype.hasobject else f"elements of dtype {dtype.str if not dtype.names else dtype}"
        raise ElementTypeError(
            f"{call}{': ' * bool(call)}arrays hold booleans, integers, floating-point and complex numbers, dates and "
            f"durations (dtype kinds {', '.join(KINDS)}), not {what}; NumPy's arrays take any dtype: x.compute() is one"
        )
    return dtype


def whole_rows(dtype: np.dtype[Any], width: int) -> np.dtype[Any]:
    """Return a structured dtype for rows of `width` elements, so that rows compare as a whole; no result has it."""
    return np.dtype([(f"{_ROW}{k}", dtype) for k in range(width)])
