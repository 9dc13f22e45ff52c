"""Abstract data for ordinary scripts: inside `abstract_numpy()` NumPy's creating functions return shapes.

Rule 1: zeros, ones, empty, full and their _like, random numbers, and what is read from files are *data*:
        always abstract.  Arrays of Python objects stay real.
Rule 2: arange, linspace, eye, array and similar functions make the *indices* that programs compute with: real up to
        INDEX_BYTES, abstract beyond.  A list that holds an abstract number makes an abstract array.
Rule 3: only the program's own calls are replaced.  Libraries (`_LIBRARIES`) and this package call the real functions,
        but for a module that has the name CALLS_FOR_THE_PROGRAM.
Rule 4: on exit, by exception too, every name has its old value; a replacement that the program has kept then
        calls the real function.
"""

from __future__ import annotations

import contextlib
import functools
import sys
from collections.abc import Callable, Iterator, Mapping
from math import ceil, prod
from typing import Any

import numpy as np

from bsp.abstract import expectation
from bsp.abstract.array import AbstractArray, copied, owned, viewing
from bsp.abstract.elementwise import from_sequence, holds_abstract, operand
from bsp.abstract.generator import AbstractGenerator, AbstractRandomState, abstract_generator
from bsp.abstract.probe import checked_shape
from bsp.abstract.table import TABLE
from bsp.abstract.work import counter
from bsp.errors import ValueNeeded

INDEX_BYTES = 1 << 16
_LIBRARIES = frozenset({"bsp", "formulaic", "numcodecs", "numpy", "pandas", "pyarrow", "scipy", "zarr"})

_depth = 0  # abstract_numpy() blocks that are open
_kept: list[tuple[Any, str, Any]] = []  # (module, name, real function) to restore
_replacements: list[tuple[Any, str, Any]] = []  # (module, name, replacement)


def active() -> bool:
    """Return whether creating functions are replaced now."""
    return _depth > 0


@contextlib.contextmanager
def abstract_numpy() -> Iterator[None]:
    """Replace NumPy's creating functions inside the block; blocks may be nested."""
    global _depth
    if not _depth:
        expectation.forget()
        for module, name, replacement in _replacements:
            _kept.append((module, name, getattr(module, name)))
            setattr(module, name, replacement)
    _depth += 1
    try:
        yield
    finally:
        _depth -= 1
        if not _depth:
            while _kept:
                setattr(*_kept.pop())


def numpys_own(name: str) -> Any:
    """Return NumPy's own function of this name, or None: inside `abstract_numpy()`, too."""
    return next((real for module, kept, real in _kept if module is np and kept == name), getattr(np, name, None))


def carried(array: np.ndarray) -> Any:
    """Return real data as an abstract array; an array of Python objects as it is."""
    if array.dtype.hasobject:
        return array
    new = owned(array.shape, array.dtype)
    counter.moved(new.nbytes)
    return new


def _bounded(array: Any) -> Any:
    """Return an array as it is while it is small, else as an abstract one (rule 2)."""
    return carried(array) if type(array) is np.ndarray and array.nbytes > INDEX_BYTES else array


@functools.lru_cache(maxsize=1 << 10)
def _is_library(module: str) -> bool:
    """Return whether a module's calls of NumPy are a library's, which are not replaced (rule 3)."""
    return module.partition(".")[0] in _LIBRARIES


def _replace(module: Any, name: str, function: Callable[..., Any]) -> None:
    """Enter a replacement for `module.name`; `function` gets the real function and the arguments."""
    real = getattr(module, name, None)
    if real is None:
        return

    @functools.wraps(real)
    def replacement(*args: Any, **kwargs: Any) -> Any:
        caller = sys._getframe(1).f_globals
        if not _depth or (_is_library(caller.get("__name__", "")) and "CALLS_FOR_THE_PROGRAM" not in caller):
            return real(*args, **kwargs)
        return function(real, *args, **kwargs)

    _replacements.append((module, name, replacement))


def _of_another_library(value: Any) -> bool:
    """Return whether a value is an array, neither NumPy's nor abstract, whose class carries out NumPy's functions."""
    return hasattr(type(value), "__array_function__") and not isinstance(value, (np.ndarray, AbstractArray))


def _replacing(*names: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Return a decorator that enters a replacement; its first argument is the real function."""

    def enter(function: Callable[..., Any]) -> Callable[..., Any]:
        for name in names:
            _replace(np, name, function)
        return function

    return enter


# --------------------------------------------------------------------------------------- data


@_replacing("zeros", "ones")
def _filled(real: Any, shape: Any, dtype: Any = float, order: str = "C", **kwargs: Any) -> Any:
    """numpy.zeros, numpy.ones: bytes written."""
    found = np.dtype(dtype)
    if found.hasobject:
        return real(shape, dtype)
    new = owned(checked_shape(shape), found)
    counter.moved(new.nbytes)
    return new


@_replacing("empty")
def _empty(real: Any, shape: Any, dtype: Any = float, order: str = "C", **kwargs: Any) -> Any:
    """numpy.empty: memory, and no work."""
    found = np.dtype(dtype)
    return real(shape, dtype) if found.hasobject else owned(checked_shape(shape), found)


@_replacing("full")
def _full(real: Any, *args: Any, **kwargs: Any) -> Any:
    """numpy.full: bytes written."""
    return TABLE["own"](real)(*args, **kwargs)


@_replacing("empty_like", "zeros_like", "ones_like", "full_like")
def _like(real: Any, a: Any, *args: Any, **kwargs: Any) -> Any:
    """numpy.zeros_like and similar functions: of an abstract array, also where the given one is real."""
    if _of_another_library(a):
        return real(a, *args, **kwargs)
    array = operand(a)
    if type(array) is not AbstractArray and not array.dtype.hasobject:
        array = viewing(owned((0,), array.dtype), array.shape, array.dtype, 0)  # it takes no memory
    return real(array, *args, **kwargs)


@_replacing("loadtxt", "genfromtxt", "fromfile", "frombuffer", "fromstring", "fromregex")
def _read(real: Any, *args: Any, **kwargs: Any) -> Any:
    """numpy.loadtxt and the other readers: read the file, and keep the shapes."""
    made = real(*args, **kwargs)
    return [carried(column) for column in made] if isinstance(made, list) else carried(made)


@_replacing("load")
def _load(real: Any, *args: Any, **kwargs: Any) -> Any:
    """numpy.load: load the file, and keep the shapes."""
    made = real(*args, **kwargs)
    if isinstance(made, np.ndarray):
        return carried(np.asarray(made))
    return Archive(made) if isinstance(made, np.lib.npyio.NpzFile) else made


class Archive(Mapping[str, Any]):
    """The result of np.load for an .npz file, whose arrays are abstract."""

    def __init__(self, file: Any) -> None:
        self._file = file
        self.files: list[str] = file.files

    def __getitem__(self, name: str) -> Any:
        return carried(self._file[name])

    def __iter__(self) -> Iterator[str]:
        return iter(self._file)

    def __len__(self) -> int:
        return len(self._file)

    def __enter__(self) -> Archive:
        return self

    def __exit__(self, *raised: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the file."""
        self._file.close()


# ------------------------------------------------------------------------------------- indices


@_replacing("array", "asarray", "asanyarray", "ascontiguousarray", "asfortranarray")
def _array(real: Any, object: Any, dtype: Any = None, *args: Any, **kwargs: Any) -> Any:
    """numpy.array, numpy.asarray and similar functions: real while small; abstract from an abstract array or number."""
    if type(object) is AbstractArray:
        return _from_abstract(object, dtype, kwargs.get("copy", True if real is _real_array else None), kwargs)
    try:
        return _bounded(real(object, dtype, *args, **kwargs))
    except ValueNeeded:
        if isinstance(object, (list, tuple)) and holds_abstract(object):
            return _with_ndmin(from_sequence(object, dtype), kwargs)
        raise


_real_array = np.array


def _from_abstract(given: AbstractArray, dtype: Any, copy: bool | None, kwargs: dict[str, Any]) -> Any:
    """Return np.array of an abstract array: a copy where NumPy makes one."""
    found = given.dtype if dtype is None else np.dtype(dtype)
    if copy or found != given.dtype:
        given = copied(given, given.shape, found)
    elif given.is_scalar:
        given = owned((), found)
    return _with_ndmin(given, kwargs)


def _with_ndmin(given: AbstractArray, kwargs: dict[str, Any]) -> AbstractArray:
    """Return the array with axes added in front for `ndmin`."""
    missing = kwargs.get("ndmin", 0) - given.ndim
    return given.reshape((1,) * missing + given.shape) if missing > 0 else given


@_replacing("arange")
def arange(real: Any, *args: Any, **kwargs: Any) -> Any:
    """numpy.arange: the length from the arguments; real while small."""
    given = dict(zip(("start", "stop", "step"), args, strict=False), **kwargs)
    start, stop, step = given.get("start", 0), given.get("stop"), given.get("step", 1)
    if stop is None:
        start, stop = 0, start
    try:
        length = max(ceil((stop - start) / (1 if step is None else step)), 0)
    except (TypeError, ZeroDivisionError, ValueError, OverflowError):
        return _bounded(real(*args, **kwargs))
    if 8 * length <= INDEX_BYTES:
        return real(*args, **kwargs)
    options = {name: value for name, value in kwargs.items() if name in ("dtype", "like")}
    dtype = real(start, start, 1 if step is None else step, **options).dtype
    if isinstance(stop, (float, np.floating)) and "dtype" not in options:
        dtype = np.result_type(dtype, float)
    return owned((length,), dtype) if length * dtype.itemsize > INDEX_BYTES else real(*args, **kwargs)


@_replacing("linspace", "logspace", "geomspace", "eye", "tri", "indices")
def _indices(real: Any, *args: Any, **kwargs: Any) -> Any:
    """numpy.linspace, numpy.eye and similar functions: real while small; NumPy's code finds out what they make."""
    made = TABLE["own"](real)(*args, **kwargs)
    parts = made if isinstance(made, tuple) else (made,)
    if not holds_abstract((*args, *kwargs.values())) and all(each.nbytes <= INDEX_BYTES for each in parts):
        return real(*args, **kwargs)
    return tuple(map(_bounded, made)) if isinstance(made, tuple) else _bounded(made)


@_replacing("identity")
def _identity(real: Any, n: Any, dtype: Any = None, **kwargs: Any) -> Any:
    """numpy.identity: as numpy.eye."""
    return _indices(_real_eye, n, dtype=dtype or float, **kwargs)


@_replacing("fromfunction")
def _fromfunction(real: Any, function: Any, shape: Any, *, dtype: Any = float, **kwargs: Any) -> Any:
    """numpy.fromfunction: the function called with indices that are real while small."""
    return function(*_indices(_real_indices, shape, dtype), **kwargs)


_real_eye, _real_indices = np.eye, np.indices


@_replacing("meshgrid")
def _meshgrid(real: Any, *xi: Any, **kwargs: Any) -> Any:
    """numpy.meshgrid: real while small."""
    if any(map(_of_another_library, xi)):
        return real(*xi, **kwargs)
    parts = [operand(x) for x in xi]
    if any(type(part) is AbstractArray for part in parts):
        return real(*parts, **kwargs)
    total = prod(part.size for part in parts) * max((part.itemsize for part in parts), default=1)
    if kwargs.get("sparse") or total <= INDEX_BYTES:
        return real(*parts, **kwargs)
    return real(*[owned((part.size,), part.dtype) for part in parts], **kwargs)


@_replacing("fromiter", "triu_indices", "tril_indices")
def _then_bounded(real: Any, *args: Any, **kwargs: Any) -> Any:
    """numpy.fromiter and similar functions: made for real, kept while small."""
    made = real(*args, **kwargs)
    return tuple(map(_bounded, made)) if isinstance(made, tuple) else _bounded(made)


@_replacing("stack", "concatenate", "vstack", "hstack", "column_stack", "dstack")
def _put_together(real: Any, arrays: Any, *args: Any, **kwargs: Any) -> Any:
    """numpy.stack, numpy.concatenate and similar functions, of which some parts may be lists."""
    if isinstance(arrays, (list, tuple)) and any(isinstance(part, (list, tuple)) for part in arrays):
        arrays = [operand(part) if isinstance(part, (list, tuple)) else part for part in arrays]
    return real(arrays, *args, **kwargs)


# -------------------------------------------------------------------------------- random numbers

_global = AbstractRandomState()


def _legacy(name: str) -> None:
    """Enter the replacement of a function of numpy.random."""
    method = getattr(_global, name)
    _replace(np.random, name, lambda real, *args, **kwargs: method(*args, **kwargs))


for _name in np.random.__all__:
    if hasattr(AbstractRandomState, _name) and _name != "bytes":
        _legacy(_name)
# their compiled code calls np.zeros and np.asarray; called from here, those are a library's calls
for _name in (
    "PCG64", "PCG64DXSM", "MT19937", "Philox", "SFC64", "SeedSequence", "get_state", "set_state", "bytes",
    "get_bit_generator", "set_bit_generator",
):  # fmt: skip
    _replace(np.random, _name, lambda real, *args, **kwargs: real(*args, **kwargs))
_replace(np.random, "default_rng", lambda real, seed=None: abstract_generator(seed))
_replacements.append((np.random, "Generator", AbstractGenerator))
_replacements.append((np.random, "RandomState", AbstractRandomState))
