"""The dtypes that arrays hold, in one list.  Every dtype that an array gets comes through `element_type`.

An element is a number of bytes that mean the same on every process: blocks travel as they lie in memory, and pieces
of them are filled, sorted and merged in place.  Text has a length for each array, and Python objects and records have
none of the arithmetic, so they are refused, whatever the number of processes and elements.
"""

from __future__ import annotations

from typing import Any

import numpy as np

KINDS = "biufcmM"  # of any length, in any byte order

_ROW = "element of a row "


def element_type(given: Any, call: str = "") -> np.dtype[Any]:
    """Return `given` as the dtype of an array's elements.

    call : the function that was asked for it, for the error.
    Raises TypeError, which names the dtypes that are supported, for any other one.
    """
    dtype: np.dtype[Any] = np.dtype(given)
    if dtype.kind not in KINDS and not (dtype.names and dtype.names[0].startswith(_ROW)):
        what = "Python objects" if dtype.hasobject else f"elements of dtype {dtype.str if not dtype.names else dtype}"
        raise TypeError(
            f"{call}{': ' * bool(call)}arrays hold booleans, integers, floating-point and complex numbers, dates and "
            f"durations (dtype kinds {', '.join(KINDS)}), not {what}; NumPy's arrays take any dtype: x.compute() is one"
        )
    return dtype


def whole_rows(dtype: np.dtype[Any], width: int) -> np.dtype[Any]:
    """Return the dtype of rows of `width` elements as elements, so that rows are compared whole; never a result's."""
    return np.dtype([(f"{_ROW}{k}", dtype) for k in range(width)])
