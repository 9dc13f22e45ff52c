"""Tables of all functions of `bsp.arrays`, by name and by the NumPy function that each of them replaces.

A function is public if its module lists it in `__all__`, and the module is one of `_MODULES` here and of the imports of
`bsp.arrays`.  At run time each takes NumPy's arguments as well as the standard's (see `signatures`).
"""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType
from typing import Any

import numpy as np

from bsp.abstract.creation import numpys_own
from bsp.arrays import editing, fft, in_place, linalg, polynomials
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
from bsp.arrays.procedures import bits, lines
from bsp.arrays.selection import grids, masks, selecting, sliding
from bsp.arrays.sorting import counting, distinct, partition, quantiles, searching, sets, sorting

_MODULES: tuple[ModuleType, ...] = (
    ufuncs, creation, manipulation, reductions, contraction, dtypes, bits, lines, choosing, calculus, statistics, masks,
    selecting, sorting, partition, editing, in_place, searching, sliding, distinct, sets, counting, quantiles, grids,
    polynomials, interchange,
)  # fmt: skip


def functions_of(module: ModuleType) -> dict[str, Callable[..., Any]]:
    """Return the public functions of a module by name."""
    return {name: getattr(module, name) for name in module.__all__}


def _numpys_own(name: str) -> Any:
    """Return the NumPy function of a name, or None; ufuncs are left out, since `__array_ufunc__` handles them."""
    found = numpys_own(name)
    return found if callable(found) and not isinstance(found, (np.ufunc, type)) else None


def _with_their_arguments(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function that also takes the arguments of the NumPy function of its name."""
    theirs = _numpys_own(name)
    found = function if theirs is None else numpys(function, theirs)
    if found is not function:  # so that it is pickled by its public name
        found.__module__, found.__qualname__ = "bsp.arrays", name
    return found


FUNCTIONS: dict[str, Callable[..., Any]] = {
    name: _with_their_arguments(name, function)
    for module in _MODULES for name, function in functions_of(module).items()
}  # fmt: skip

# for __array_function__: NumPy's functions are matched as objects, never by name alone
OF_NUMPY: dict[Any, Callable[..., Any]] = {
    theirs: FUNCTIONS[name] for name in FUNCTIONS if (theirs := _numpys_own(name)) is not None
}
_OTHERS = linalg.OF_NUMPY | fft.OF_NUMPY | sliding.OF_NUMPY | formats.OF_NUMPY
OF_NUMPY |= {theirs: numpys(function, theirs) for theirs, function in _OTHERS.items()}
