"""Functions that NumPy writes in Python, run as NumPy wrote them on abstract arrays.

Their own steps are calls of NumPy, for which there are rules.  So shapes, dtypes, errors, work and memory are those of
NumPy's own code.  It runs with other globals: what would make a real array of an abstract one (`asarray`, `empty`, ...)
keeps it abstract.  Where the code branches on a value the run ends with ValueNeeded, but for the branches in `USUAL`.
"""

from __future__ import annotations

import builtins
import inspect
from collections.abc import Callable
from functools import lru_cache, partial
from types import FrameType, FunctionType, ModuleType
from typing import Any

import numpy as np

from bsp.abstract.array import AbstractArray, owned
from bsp.abstract.creation import arange
from bsp.abstract.elementwise import from_sequence, holds_abstract
from bsp.abstract.probe import checked_shape, probe
from bsp.abstract.table import TABLE
from bsp.abstract.work import counter

# How NumPy's functions branch on data that is full, finite and without special structure.
USUAL = {
    "_assert_finite": True,  # eig: or LinAlgError
    **dict.fromkeys(("nanmin", "nanmax", "nanargmin", "nanargmax"), False),  # some slices are NaN alone
    "average": False,  # the weights sum to zero
    **dict.fromkeys(("linspace", "geomspace"), False),  # the ends are equal; are zero, or imaginary
    "polyfit": False,  # the fit is badly conditioned
    "cond": False,  # a matrix has NaN
    **dict.fromkeys(("eig", "eigvals"), False),  # all eigenvalues are real: the result is complex
    "gradient": False,  # coordinates are evenly spaced
    "lstsq": False,  # the rank is less than n
}
_DIMENSIONS = 64  # of an array, at most
_REAL = {"_multi_dot_matrix_chain_order"}  # what depends on shapes alone: its arrays have values


def usual(frame: FrameType) -> bool | None:
    """Return how a branch in one of NumPy's functions is taken; None if it is not in one, or depends on the data."""
    return USUAL.get(frame.f_code.co_name) if _MARK in frame.f_globals else None


# ---------------------------------------------------------------------- what NumPy's functions make arrays by


def _asarray(value: Any, dtype: Any = None, *args: Any, **kwargs: Any) -> Any:
    """numpy.asarray: an abstract array as it is."""
    if isinstance(value, (list, tuple)) and holds_abstract(value):
        return from_sequence(value, dtype)
    if type(value) is not AbstractArray:
        return np.asarray(value, dtype)
    found = owned((), value.dtype) if value.is_scalar else value
    return found if dtype is None else found.astype(dtype, copy=False)


def _array(value: Any, dtype: Any = None, *, copy: Any = True, ndmin: int = 0, **kwargs: Any) -> Any:
    """numpy.array: a copy of an abstract array."""
    found = _asarray(value, dtype)
    if type(found) is not AbstractArray:
        return np.array(value, dtype, copy=copy, ndmin=ndmin, **kwargs)
    if copy and found is value:
        found = found.copy()
    return found.reshape((1,) * (ndmin - found.ndim) + found.shape) if found.ndim < ndmin else found


def _empty(shape: Any, dtype: Any = float, *args: Any, **kwargs: Any) -> Any:
    """numpy.empty: abstract, unless of Python objects."""
    found = np.dtype(dtype)
    return np.empty(shape, found) if found.hasobject else owned(checked_shape(shape), found)


def _filled(real: Callable[..., Any], shape: Any, dtype: Any = float, *args: Any, **kwargs: Any) -> Any:
    """numpy.zeros, numpy.ones: bytes written; a few integers are a shape, which is real."""
    if np.dtype(dtype).kind == "i" and np.ndim(shape) == 0 and shape <= _DIMENSIONS:
        return real(shape, dtype)
    new = _empty(shape, dtype)
    counter.moved(new.nbytes)
    return new


def _full(shape: Any, fill_value: Any, dtype: Any = None, *args: Any, **kwargs: Any) -> Any:
    """numpy.full: bytes written."""
    return _filled(np.zeros, shape, _asarray(fill_value).dtype if dtype is None else dtype)


def _matrix(N: int, M: int | None = None, k: int = 0, dtype: Any = float, *args: Any, **kwargs: Any) -> Any:
    """numpy.eye, numpy.tri: bytes written."""
    return _filled(np.zeros, (N, N if M is None else M), dtype)


def _broadcast(*arrays: Any) -> np.broadcast:
    """numpy.broadcast: of shapes alone."""
    return np.broadcast(*[probe(each.shape, each.dtype) for each in map(_asarray, arrays)])


def _isinstance(value: Any, kinds: Any) -> bool:
    """Return whether a value is of some classes; an abstract array counts as one of NumPy's."""
    if type(value) is AbstractArray:
        return issubclass(value.dtype.type if value.is_scalar else np.ndarray, kinds)
    return isinstance(value, kinds)


class _Builtins(ModuleType):
    """Python's own functions; an abstract truth value stays abstract, as the result of numpy.allclose."""

    def bool(self, value: Any) -> Any:
        """Return the truth of a value."""
        return value if type(value) is AbstractArray else bool(value)

    def __getattr__(self, name: str) -> Any:
        return getattr(builtins, name)


class _Converter:
    """NumPy's own converter of arguments to arrays, and of results to what the arguments were."""

    def __init__(self, *values: Any) -> None:
        self._values, self._arrays = values, tuple(map(_asarray, values))
        self.scalar_input = tuple(np.ndim(value) == 0 for value in values)

    def __len__(self) -> int:
        return len(self._arrays)

    def __getitem__(self, place: Any) -> Any:
        return self._arrays[place]

    def _weakly(self) -> tuple[Any, ...]:
        """Return the arrays, but Python numbers as they are."""
        pairs = zip(self._values, self._arrays, strict=True)
        return tuple(value if type(value) in (int, float, complex) else array for value, array in pairs)

    def as_arrays(self, subok: bool = True, pyscalars: str = "convert") -> tuple[Any, ...]:
        """Return the arguments as arrays."""
        return self._weakly() if pyscalars == "preserve" else self._arrays

    def result_type(self, extra_dtype: Any = None, ensure_inexact: bool = False) -> Any:
        """Return the dtype that the arguments promote to."""
        kinds = [getattr(each, "dtype", each) for each in self._weakly()]
        return np.result_type(*kinds, *([0.0] if ensure_inexact else []), *([extra_dtype] if extra_dtype else []))

    def wrap(self, made: Any, /, to_scalar: bool | None = None) -> Any:
        """Return a result without axes as a scalar if all arguments were."""
        scalar = all(self.scalar_input) if to_scalar is None else to_scalar
        return made[()] if scalar and not made.ndim else made


_OURS: dict[str, Any] = {
    **dict.fromkeys(("asarray", "asanyarray", "ascontiguousarray"), _asarray),
    **dict.fromkeys(("eye", "tri"), _matrix),
    "array": _array, "arange": partial(arange, np.arange), "empty": _empty, "full": _full, "broadcast": _broadcast,
    "identity": lambda n, dtype=None: _matrix(n, dtype=dtype or float),
    "zeros": partial(_filled, np.zeros), "ones": partial(_filled, np.ones),
    "_array_converter": _Converter, "_concatenate": np.concatenate, "builtins": _Builtins("builtins"),
    "triu_indices": np.triu_indices, "tril_indices": np.tril_indices,  # real: they depend on shapes alone
}  # fmt: skip
_MARK = "is this NumPy's code on abstract arrays?"  # a key of its globals
_globals: dict[str, dict[str, Any]] = {}


class _Proxy(ModuleType):
    """A module of NumPy with some functions replaced."""

    def __init__(self, module: ModuleType) -> None:
        super().__init__(module.__name__)
        self.__dict__.update({name: ours for name, ours in _OURS.items() if hasattr(module, name)})
        self._module = module

    def __getattr__(self, name: str) -> Any:
        return getattr(self._module, name)


def _globals_of(function: FunctionType) -> dict[str, Any]:
    """Return a NumPy function's globals with what makes arrays, and all Python functions of NumPy's, replaced."""
    given = function.__globals__
    found = _globals.get(given["__name__"])
    if found is None:
        found = _globals[given["__name__"]] = {**given, _MARK: True, "isinstance": _isinstance}
        for name, value in list(found.items()):
            if name in _OURS:
                found[name] = _OURS[name]
            elif isinstance(value, ModuleType) and value.__name__.partition(".")[0] == "numpy":
                found[name] = _Proxy(value)
            elif isinstance(value, FunctionType) and _is_numpys(value) and name not in _REAL:
                found[name] = _rebuilt(value)
    return found


def _is_numpys(function: FunctionType) -> bool:
    """Return whether a function stands in a module of NumPy."""
    return str(function.__globals__.get("__name__")).partition(".")[0] == "numpy"


def _rebuilt(function: FunctionType) -> FunctionType:
    """Return a function with the globals of abstract runs."""
    made = FunctionType(
        function.__code__, _globals_of(function), function.__name__, function.__defaults__, function.__closure__
    )  # fmt: skip
    made.__kwdefaults__ = function.__kwdefaults__
    return made


@lru_cache(maxsize=1 << 10)
def own(function: Any) -> Callable[..., Any] | None:
    """Return NumPy's code of a function for abstract arrays; None if it is not written in Python."""
    code = inspect.unwrap(function)
    return _rebuilt(code) if isinstance(code, FunctionType) and _is_numpys(code) else None


TABLE["own"] = own
TABLE["usual"] = usual
