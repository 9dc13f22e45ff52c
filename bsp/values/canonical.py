"""Canonical pickles: equal values give equal bytes, whatever the values have gone through.

pickle writes an object that it meets again as a reference, and recognises it by its identity.  Two equal
strings may be one object or two, depending on where they were made: in a clone that received its
state from another one they are two.  Here immutable values (strings, tuples of them, named ones, too, numbers, dtypes)
are recognised by value, and sets are written in the order of their elements' pickles.  Mutable objects keep
their identity, which is part of a value.

Cloned execution compares such pickles between clones (N11).
"""

from __future__ import annotations

import contextlib
import functools
import io
import pickle
import struct
from collections.abc import Callable, Iterator
from typing import Any, ClassVar

import numpy as np

from bsp.values.payload import NUMBER_TYPES, is_single

_PLAIN = (
    int,
    float,
    complex,
    bool,
    str,
    bytes,
    type(None),
)  # they hold no objects, so none can be met twice


_PythonPickler: Any = pickle._Pickler
_alone = False


@contextlib.contextmanager
def alone() -> Iterator[None]:
    """Have what is pickled inside take no superstep: one process looks at a value, or takes a state, by itself."""
    global _alone  # no other process of this interpreter has a turn meanwhile
    before, _alone = _alone, True
    try:
        yield
    finally:
        _alone = before


def is_alone() -> bool:
    """Return whether objects must be pickled without a superstep."""
    return _alone


def pickled(
    value: Any, persistent: Callable[[Any], Any] | None = None, reduced: Callable[[Any], Any] | None = None
) -> bytes:
    """Return the canonical pickle of a value.

    persistent : as pickle's persistent_id: returns an identifier to write instead of an object, or None.
    reduced : as pickle's reducer_override.
    """
    if persistent is None and type(value) in _PLAIN:
        return pickle.dumps(value, 5)
    out = io.BytesIO()
    pickler = _Canonical(out, persistent)
    if reduced is not None:
        pickler.reducer_override = reduced
    pickler.dump(value)
    return out.getvalue()


class _Canonical(_PythonPickler):
    """A pickler with its own rules for strings and sets; based on pickle's in Python, as the one in C has no hooks."""

    dispatch: ClassVar[dict[type, Any]] = dict(_PythonPickler.dispatch)

    def __init__(self, out: io.BytesIO, persistent: Callable[[Any], Any] | None) -> None:
        super().__init__(out, 5)
        self._known: dict[Any, Any] = {}
        self._persistent = persistent

    def persistent_id(self, value: Any) -> Any:
        """Return the identifier to write instead of an object, or None to pickle it."""
        return None if self._persistent is None else self._persistent(value)

    def save(self, obj: Any, save_persistent_id: bool = True) -> Any:
        """Pickle any object; an immutable one that equals an earlier one is written as that one."""
        if type(obj) not in _NEVER_REFERRED_TO:
            key = _key(obj)
            if key is not None:
                obj = self._known.setdefault(key, obj)
        return super().save(obj, save_persistent_id)

    def in_order(self, elements: set[Any] | frozenset[Any]) -> list[Any]:
        """Return the elements of a set in the order of their pickles; of equal ones, that met first stands first."""
        return sorted(elements, key=lambda each: (pickled(each), self.memo.get(id(each), (len(self.memo),))[0]))


_NEVER_REFERRED_TO = {int, float, bool, type(None), list, dict, set, np.ndarray}
_ABSENT: dict[str, Any] = {"_fill_value": None, "_mask": np.ma.nomask}  # of a masked array
_BY_REPR = {"datetime", "decimal", "fractions", "uuid"}  # modules of types whose repr holds the whole value


def _key(value: Any) -> Any:
    """Return a key that is equal for values with equal pickles; None for a mutable value, or one that may be."""
    kind = type(value)
    if kind in (str, bytes, int, bool, type(None)):
        return kind, value
    if kind is float:
        return kind, struct.pack("<d", value)  # -0.0 is not 0.0
    if kind is complex:
        return kind, struct.pack("<2d", value.real, value.imag)
    named = issubclass(kind, tuple) and hasattr(kind, "_fields") and not hasattr(value, "__dict__")
    if named or kind in (tuple, frozenset):
        parts = [_key(part) for part in value]
        return None if None in parts else (kind, frozenset(parts) if kind is frozenset else tuple(parts))
    if kind in (slice, range):
        return _key((kind.__name__, value.start, value.stop, value.step))
    if isinstance(value, np.generic):
        return None if value.dtype.hasobject else (kind, value.dtype.str, value.tobytes())
    if isinstance(value, np.dtype):
        return None if value.metadata else (np.dtype, value, value.num, value.isalignedstruct)  # `l` equals `q`
    return (kind, repr(value)) if kind.__module__ in _BY_REPR else None


def _save_array(pickler: _Canonical, value: np.ndarray) -> None:
    """Pickle an array without gaps: a copy that a clone has received has none, and a gap changes the pickle.

    Protocol 5 writes the bytes of a read-only array as a new object, which those of no byte and of one byte are not:
    Python keeps one of each.  Those that are written as protocol 4 does are read back in the machine's byte order.
    """
    if not value.size and value.dtype.itemsize and value.dtype.byteorder in "<>":  # the other byte order
        pickler.save_reduce(np.empty, (value.shape, value.dtype), obj=value)
        return
    if not value.flags.forc:
        value = np.ascontiguousarray(value)
    pickler.save_reduce(*value.__reduce_ex__(5 if value.nbytes > 1 else 4), obj=value)


def _save_masked(pickler: _Canonical, value: Any) -> None:
    """Pickle a masked array as it is: NumPy's own pickle gives it a mask and a value to fill it with."""
    absent = [name for name, default in _ABSENT.items() if getattr(value, name) is default]
    pickler.save_reduce(_masked, (*value.__reduce__(), absent), obj=value)


def _masked(function: Any, arguments: Any, state: Any, absent: list[str]) -> Any:
    array = function(*arguments)
    array.__setstate__(state)
    for name in absent:
        setattr(array, name, _ABSENT[name])
    return array


def _save_mapped(pickler: _Canonical, value: np.memmap[Any, Any]) -> None:
    """Pickle a memory-mapped array as it is: NumPy's own pickle makes it writable and forgets the file's name and mode.

    The values travel, not the map: it may be one for writing, or a part of one.
    """
    kept = {name: getattr(value, name) for name in ("filename", "offset", "mode")}
    pickler.save_reduce(_mapped, (*value.__reduce__(), value.flags.writeable, kept), obj=value)


def _mapped(function: Any, arguments: Any, state: Any, writeable: bool, kept: dict[str, Any]) -> Any:
    array = function(*arguments)
    array.__setstate__(state)
    vars(array).update(kept)
    array.flags.writeable = writeable
    return array


def _save_number_type(pickler: _Canonical, value: np.dtype[Any]) -> None:
    """Pickle the dtype of plain numbers by its character: read back, NumPy's own pickle is another object, or `q` `l`.

    How an array travels depends on both, and must not depend on whether a clone was given its state.
    """
    pickler.save_reduce(*((np.dtype, (value.char,)) if is_single(value) else value.__reduce__()), obj=value)


def _save_partial(pickler: _Canonical, value: functools.partial[Any]) -> None:
    """Pickle a partial function without its `__dict__` if that is empty: a mere look at the `__dict__` makes one."""
    reduced: Any = value.__reduce__()
    function, arguments, state = reduced
    pickler.save_reduce(function, arguments, (*state[:-1], state[-1] or None), obj=value)


def _save_set(pickler: _Canonical, value: set[Any]) -> None:
    """Pickle a set in the order of its elements' pickles: its own order depends on hashes and history (D6)."""
    pickler.save_reduce(set, (pickler.in_order(value),), obj=value)


def _save_frozenset(pickler: _Canonical, value: frozenset[Any]) -> None:
    """Pickle a frozenset like a set."""
    pickler.save_reduce(frozenset, (pickler.in_order(value),), obj=value)


_Canonical.dispatch |= {type(np.dtype(each)): _save_number_type for each in NUMBER_TYPES}
_Canonical.dispatch[np.ndarray] = _save_array
_Canonical.dispatch[np.ma.MaskedArray] = _save_masked
_Canonical.dispatch[np.memmap] = _save_mapped
_Canonical.dispatch[functools.partial] = _save_partial
_Canonical.dispatch[set] = _save_set
_Canonical.dispatch[frozenset] = _save_frozenset
