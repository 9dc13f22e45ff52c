"""The module that stands for NumPy in a script: its names are those of `bsp.arrays`, or NumPy's own.

A function is NumPy's where its arguments are small arrays (`small_arrays`), for names that `bsp.arrays` lacks, and for
elements that its arrays do not hold.  So are random numbers, which are to be the same as ever: every process makes
those arrays whole, and keeps its part.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator
from types import FunctionType, ModuleType
from typing import Any

import numpy as np

import bsp
import bsp.arrays as ba
from bsp.abstract import creation
from bsp.arrays.api.signatures import NotTakenError
from bsp.arrays.execution.world import world
from bsp.arrays.expressions.element_types import KINDS, ElementTypeError
from bsp.arrays.namespace import OF_NUMPY
from bsp.arrays.scripts import small_arrays as small
from bsp.values.payload import is_abstract

_UNSEEDED = "generators of scripts for NumPy"  # in `Task.libraries`: how many were made without a seed
CALLS_FOR_THE_PROGRAM = True  # of NumPy: a run without values takes them for the script's (`bsp.abstract.creation`)
_SAVING = frozenset({"save", "savetxt", "savez", "savez_compressed"})


class NumPyInstead(ModuleType):
    """A module that stands for NumPy, or one of its parts: names of `bsp.arrays`, else NumPy's own."""

    def __init__(self, ours: Any, theirs: Any) -> None:
        super().__init__(theirs.__name__)
        self._ours, self._theirs = ours, theirs

    def __getattr__(self, name: str) -> Any:
        """Return what stands for NumPy's object of a name; raise NumPy's AttributeError if both modules lack it."""
        found = vars(self)[name] = self._found(name)  # the next look-up does not come here
        return found

    def _found(self, name: str) -> Any:
        theirs = getattr(self._theirs, name, None)
        if isinstance(theirs, ModuleType):
            return NumPyInstead(None if name == "random" else getattr(self._ours, name, None), theirs)
        if hasattr(self._ours, name):
            ours = getattr(self._ours, name)
            plain = isinstance(ours, FunctionType) and callable(theirs) and not isinstance(theirs, type)
            return _either(ours, theirs) if plain else ours
        for known, ours in _IN_PLACE_OF:
            if theirs is known:
                return ours
        if callable(theirs) and not isinstance(theirs, type):
            return theirs if theirs in OF_NUMPY else _dealing(theirs)
        return getattr(self._theirs, name)

    def _public(self) -> dict[str, Any]:
        """Return the objects that `from numpy import *` binds."""
        return {name: getattr(self, name) for name in self._theirs.__all__}


class _Instances(type):
    """Take distributed arrays for instances of a class; those without axes are numbers to NumPy."""

    def __instancecheck__(cls, value: Any) -> bool:
        return isinstance(value, np.ndarray) or (isinstance(value, ba.Array) and value.ndim > 0)


class _NDArray(np.ndarray, metaclass=_Instances):
    """Stand for `numpy.ndarray` in a script: `isinstance(x, np.ndarray)` holds for distributed arrays, too."""


class _Dealing:
    """A random generator of NumPy's, or a function of `np.frompyfunc`, whose arrays are dealt."""

    def __init__(self, theirs: Any) -> None:
        self._theirs = theirs

    @property  # type: ignore[misc]
    def __class__(self) -> Any:
        """Return NumPy's class, for `isinstance(rng, np.random.Generator)`."""
        return type(self._theirs)

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._theirs, name)
        if callable(found):
            found = vars(self)[name] = _dealing(found)  # the next look-up does not come here
        return found

    def __reduce__(self) -> Any:
        return type(self), (self._theirs,)

    def __repr__(self) -> str:
        return repr(self._theirs)

    def __str__(self) -> str:
        return str(self._theirs)


class _DealingFunction(_Dealing):
    """A function of `np.frompyfunc`, whose results are Python objects."""

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return _dealing(self._theirs)(*args, **kwargs)


def _either(ours: Any, theirs: Any) -> Any:
    """Return a function of ours that leaves to NumPy what is small, and what ours does not take.

    That is open files, elements that our arrays do not hold, and arguments that ours lacks.
    """
    name = theirs.__name__
    gives_data = name in ("array", "asarray")
    whole = _dealing(_saving(theirs) if name in _SAVING else theirs)
    of_small: Any = np.asanyarray if theirs is np.asarray else theirs  # keeps a small array itself

    @functools.wraps(ours)
    def function(*args: Any, **kwargs: Any) -> Any:
        if small.is_quick(name, args, kwargs) or small.are_small(name, args, kwargs):
            found = small.settled(of_small(*args, **kwargs))
            return _as_data(found) if gives_data and creation.active() else found
        if small.writes(name, args) or any(_is_numpys(each) for each in (*args, *kwargs.values())):
            return whole(*args, **kwargs)
        try:
            found = ours(*args, **kwargs)
            if type(found) is not ba.Array or found.size > small.LIMIT or not small.are_whole(name, args, kwargs):
                return found
        except (ElementTypeError, NotTakenError):
            pass
        except Exception as wrong:
            lacks = isinstance(wrong, TypeError) and "unexpected keyword argument" in str(wrong)
            if not lacks and not small.are_whole(name, args, kwargs):
                raise
        return whole(*args, **kwargs)

    return function


def _saving(theirs: Any) -> Any:
    """Return a function of NumPy's that writes a file, once: process 0 does, and its error is raised everywhere."""

    @functools.wraps(theirs)
    def save(file: Any, *args: Any, **kwargs: Any) -> None:
        def attempt() -> Exception | None:
            try:
                theirs(file, *args, **kwargs)
            except Exception as wrong:  # noqa: BLE001  any error must reach all processes
                return wrong
            return None

        here = world()
        if hasattr(file, "write"):  # each process has opened it
            error = attempt()
        else:
            error = here.private.allgather(here.proc.once(attempt) if here.pid == 0 else None)[0]
        if error is not None:
            raise error

    return save


def _as_data(found: Any) -> Any:
    """Return an array of a run without values: one of fractions without them, since it may be written to.

    Integers keep their values, which may be indices.
    """
    return creation.carried(found) if type(found) is small.SmallArray and found.dtype.kind in "fc" else found


def _is_numpys(value: Any) -> bool:
    """Return whether an argument is an open file, lines of text, or an array of elements that ours do not hold."""
    if isinstance(value, np.ndarray):
        return value.dtype.kind not in KINDS
    if isinstance(value, list) and value and isinstance(value[0], (str, bytes)):
        return True
    return hasattr(value, "read") or hasattr(value, "write")


def _dealing(function: Any) -> Any:
    """Return a function of NumPy's that takes arrays whole, on every process alike, and whose results are dealt.

    What it writes into an array, as `shuffle` does and `out=` asks for, is written into the distributed one.
    """

    @functools.wraps(function)
    def dealt(*args: Any, **kwargs: Any) -> Any:
        if small.are_numbers(args, kwargs):
            return _given(function(*args, **kwargs))
        arrays = list(_arrays_in([*args, *kwargs.values()]))
        whole = [each.compute().copy() if isinstance(each, ba.Array) else small.plain(each) for each in arrays]
        before = [new.copy() if isinstance(each, ba.Array) else new for each, new in zip(arrays, whole, strict=True)]
        place = {id(each): new for each, new in zip(arrays, whole, strict=True)}
        found = function(*_with(args, place), **{key: _with(each, place) for key, each in kwargs.items()})
        for array, old, new in zip(arrays, before, whole, strict=True):
            if new is not old and not is_abstract(new) and new.tobytes() != old.tobytes():
                array[...] = new
        for array, new in zip(arrays, whole, strict=True):
            if found is new:
                return array
        return _given(found)

    return dealt


def _given(found: Any) -> Any:
    """Return what a function of NumPy's has returned, with what stands for it in a script."""
    if isinstance(found, (np.random.Generator, np.random.RandomState)):
        return _Dealing(found)
    return _DealingFunction(found) if isinstance(found, np.ufunc) else small.settled(found)


def _arrays_in(value: Any) -> Iterator[Any]:
    """Iterate over the distributed and small arrays in an argument: itself, or those in lists and tuples."""
    if isinstance(value, (ba.Array, small.SmallArray)):
        yield value
    elif type(value) in (list, tuple):
        for each in value:
            yield from _arrays_in(each)


def _with(value: Any, place: dict[int, np.ndarray]) -> Any:
    """Return an argument with other arrays in place of some, by the ids of these."""
    if type(value) in (list, tuple):
        return type(value)([_with(each, place) for each in value])
    return place.get(id(value), value)


def _default_rng(seed: Any = None) -> Any:
    """Return NumPy's generator; one without a seed has the job's, and its number among those without."""
    if isinstance(seed, _Dealing):
        return seed
    if seed is None:
        proc = bsp.process()
        number = proc._task.libraries[_UNSEEDED] = proc._task.libraries.get(_UNSEEDED, 0) + 1
        seed = [proc._task.element.seed, number]
    return _dealing(np.random.default_rng)(seed)


def _isscalar(element: Any) -> bool:
    """Return what NumPy does; a number that an array gives is one."""
    return np.isscalar(element) or (isinstance(element, ba.Array) and not element.ndim)


def _nditer(op: Any, flags: Any = None, op_flags: Any = None, *args: Any, **kwargs: Any) -> Any:
    """Return NumPy's iterator; TypeError if it would write, because what it iterates over are copies."""
    operands = op if isinstance(op, (list, tuple)) else [op]
    if any(isinstance(each, ba.Array) for each in operands) and "write" in str(op_flags):
        raise TypeError(
            "np.nditer reads a copy of a distributed array, so that what it writes would be lost: write a statement of "
            "arrays, as x[...] = 2 * x, or assign to x[index] for index in np.ndindex(x.shape)"
        )
    return np.nditer(op, flags, op_flags, *args, **kwargs)


_IN_PLACE_OF: tuple[tuple[Any, Any], ...] = (
    (np.ndarray, _NDArray), (np.random.default_rng, _default_rng), (np.isscalar, _isscalar), (np.nditer, _nditer),
)  # fmt: skip
