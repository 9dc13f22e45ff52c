"""Numbers of pyarrow's arrays as NumPy's, without pandas: pyarrow's own to_numpy imports it, which takes a second."""

from __future__ import annotations

from typing import Any

import numpy as np

from bsp.arrays.typing import DTypeLike


def numbers_in(column: Any, dtype: DTypeLike, missing: float) -> np.ndarray:
    """Return the numbers of a pyarrow array of this dtype, `missing` where it has none: its own memory if none is."""
    kind = np.dtype(dtype)
    if not len(column):
        return np.empty(0, kind)
    valid, data = column.buffers()
    start, stop = column.offset, column.offset + len(column)
    found = np.frombuffer(data, kind, stop)[start:]
    if not column.null_count:
        return found
    bits = np.unpackbits(np.frombuffer(valid, np.uint8), count=stop, bitorder="little")[start:]
    return np.where(bits.view(np.bool_), found, np.asarray(missing, kind))
