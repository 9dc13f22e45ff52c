"""Element types: the dtypes that arrays can hold.  Every dtype of an array passes through `element_type`.

The bytes of an element have the same meaning on every process, because blocks are sent as they are in memory, and
pieces of them are filled, sorted and merged in place.  Text, whose length differs from array to array, and Python
objects and records, which lack the arithmetic, are refused, whatever the number of processes and elements.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from bsp.values.payload import as_array

KINDS = "biufcmM"  # of any length, in any byte order

_ROW = "element of a row "


class ElementTypeError(TypeError):
    """A dtype that arrays cannot hold."""


def element_type(given: Any, call: str = "") -> np.dtype[Any]:
    """Return `given` as the dtype of an array's elements.

    call : the name of the calling function, for the error message.
    Raises ElementTypeError, with a list of the supported dtypes, for any other dtype.
    """
    dtype: np.dtype[Any] = np.dtype(given)
    if dtype.kind not in KINDS and not (dtype.names and dtype.names[0].startswith(_ROW)):
        what = "Python objects" if dtype.hasobject else f"elements of dtype {dtype.str if not dtype.names else dtype}"
        raise ElementTypeError(
            f"{call}{': ' * bool(call)}arrays hold booleans, integers, floating-point and complex numbers, dates and "
            f"durations (dtype kinds {', '.join(KINDS)}), not {what}; NumPy's arrays take any dtype: x.compute() is one"
        )
    return dtype


def given_values(given: Any, dtype: np.dtype[Any] | None = None) -> Any:
    """Return what a program gives as the values of an array, or as an operand, as a NumPy array.

    Raises ElementTypeError for a masked array that hides elements: they would count as the others do; and for a sparse
    matrix of scipy's, which is an object to NumPy.
    """
    if type(given).__module__.startswith("scipy.sparse"):
        raise ElementTypeError(
            f"{type(given).__name__} is a sparse matrix of scipy's: bsp.arrays.sparse.from_scipy makes a sparse array "
            "of it, its toarray() a dense one"
        )
    if isinstance(given, np.ma.MaskedArray) and np.ma.is_masked(given):
        raise ElementTypeError(
            "arrays have no masks, and the hidden elements of a masked array would count: x.filled(value) gives them "
            "a value, and where= of reductions leaves elements out"
        )
    return as_array(given, dtype)


def whole_rows(dtype: np.dtype[Any], width: int) -> np.dtype[Any]:
    """Return a structured dtype for rows of `width` elements, so that rows compare as a whole; no result has it."""
    return np.dtype([(f"{_ROW}{k}", dtype) for k in range(width)])
