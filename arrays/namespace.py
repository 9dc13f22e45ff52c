"""All functions of the library by name, and which NumPy function each stands for.

Both take NumPy's arguments as well as the standard's (see `signatures`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from bsp.arrays import editing, fft, polynomials
from bsp.arrays import in_place as changing
from bsp.arrays.api import (
    calculus,
    choosing,
    contraction,
    creation,
    dtypes,
    interchange,
    manipulation,
    reductions,
    statistics,
    ufuncs,
)
from bsp.arrays.api.signatures import numpys
from bsp.arrays.files import formats
from bsp.arrays.linalg import functions as linalg
from bsp.arrays.procedures import lines
from bsp.arrays.selection import grids, selecting, sliding
from bsp.arrays.sorting import counting, quantiles, searching, sets, sorting
from bsp.arrays.sorting import partition as parting

_FAMILIES = (
    ufuncs, creation, manipulation, reductions, contraction, dtypes, lines, choosing, calculus, statistics, selecting,
    sorting, parting, editing, changing, searching, sliding, sets, counting, quantiles, grids, polynomials, interchange,
)  # fmt: skip
_FUNCTIONS: dict[str, Callable[..., Any]] = {
    name: function for family in _FAMILIES for name, function in family.FUNCTIONS.items()
}


def _numpys_own(name: str) -> Any:
    """NumPy's function of a name, if there is one that arrays are handed over by; ufuncs have a way of their own."""
    found = getattr(np, name, None)
    return found if callable(found) and not isinstance(found, (np.ufunc, type)) else None


def _with_their_arguments(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
    theirs = _numpys_own(name)
    found = function if theirs is None else numpys(function, theirs)
    if found is not function:  # it is pickled by the name it has here
        found.__module__, found.__qualname__ = "bsp.arrays", name
    return found


FUNCTIONS: dict[str, Callable[..., Any]] = {
    name: _with_their_arguments(name, function) for name, function in _FUNCTIONS.items()
}

# by __array_function__: matched as objects, never by name alone
OF_NUMPY: dict[Any, Callable[..., Any]] = {
    theirs: FUNCTIONS[name] for name in FUNCTIONS if (theirs := _numpys_own(name)) is not None
}
_OTHERS = linalg.OF_NUMPY | fft.OF_NUMPY | sliding.OF_NUMPY | formats.OF_NUMPY
OF_NUMPY |= {theirs: numpys(function, theirs) for theirs, function in _OTHERS.items()}
