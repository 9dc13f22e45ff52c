"""All functions of the library by name, and which NumPy function each stands for."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from bsp.arrays import fft, linalg
from bsp.arrays.functions import contraction, creation, dtypes, interchange, manipulation, reductions, ufuncs
from bsp.arrays.selection import counting, quantiles, searching, selecting, sets, sorting

FUNCTIONS: dict[str, Callable[..., Any]] = {
    **ufuncs.FUNCTIONS,
    **creation.FUNCTIONS,
    **manipulation.FUNCTIONS,
    **reductions.FUNCTIONS,
    **contraction.FUNCTIONS,
    **dtypes.FUNCTIONS,
    **selecting.FUNCTIONS,
    **sorting.FUNCTIONS,
    **searching.FUNCTIONS,
    **sets.FUNCTIONS,
    **counting.FUNCTIONS,
    **quantiles.FUNCTIONS,
    **interchange.FUNCTIONS,
}


def _of_numpy() -> dict[Any, Callable[..., Any]]:
    """The functions NumPy hands over by __array_function__: matched as objects, never by name alone."""
    found: dict[Any, Callable[..., Any]] = {}
    for name, function in FUNCTIONS.items():
        theirs = getattr(np, name, None)
        if theirs is not None and not isinstance(theirs, (np.ufunc, type)) and callable(theirs):
            found[theirs] = function
    return found


OF_NUMPY = _of_numpy()
OF_NUMPY |= linalg.OF_NUMPY | fft.OF_NUMPY
