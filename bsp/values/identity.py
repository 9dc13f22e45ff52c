"""Objects that keep their identity while their content is replaced by that of another process.

A process that is made again has run the script up to the loop: its variables refer to the objects that stood in the
`bsp.State` at the loop's entry.  Where a State still holds such an object, the process must go on with its own one, not
with a copy of the sibling's: `model` and `state.model` stay one object.  So pickle writes a reference to the own object
instead of a call that makes one, and then its content as usual; loading fills the own object.
"""

from __future__ import annotations

import array
import copyreg
import random
from collections import Counter, OrderedDict, defaultdict, deque
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np

_SEQUENCES = (list, deque)
_MAPPINGS = (dict, OrderedDict, defaultdict, Counter)
_CLEARED: tuple[Any, ...] = (list, deque, OrderedDict, dict, set)  # an OrderedDict before the dict that it is, too
_BY_DEFAULT = (object.__reduce__, SimpleNamespace.__reduce__)  # the latter also calls the class without arguments


class Own:
    """A reference to the own object of whoever loads the pickle, by name; a `persistent_id` must replace it."""

    def __init__(self, name: str) -> None:
        self.name = name


def keeps_identity(value: Any) -> bool:
    """Return whether an object can be filled with another's content.

    These are Python's containers that can change, its bytes and arrays, namespaces, NumPy's arrays of numbers that are
    alone in their memory, generators of numbers, and objects of classes that pickle makes by `__new__` without
    arguments, or that have methods `_keeps_identity`, `_content` and `_fill`.
    """
    kind: Any = type(value)
    if kind is np.ndarray:
        base = value if value.base is None else value.base
        alone = type(base) is np.ndarray and base.base is None and base.nbytes == value.nbytes and value.flags.forc
        return alone and value.flags.writeable and not value.dtype.hasobject
    if kind in (*_SEQUENCES, *_MAPPINGS, *_BY_STATE, set):
        return True
    if hasattr(kind, "_keeps_identity"):
        return bool(value._keeps_identity())
    by_default = kind.__reduce_ex__ is object.__reduce_ex__ and kind.__reduce__ in _BY_DEFAULT
    return (
        by_default and kind.__module__ != "builtins" and kind not in copyreg.dispatch_table
        and not isinstance(value, type) and not {"__getnewargs__", "__getnewargs_ex__"} & {*dir(kind)}
    )  # fmt: skip


def reduced(value: Any, own: Own) -> Any:
    """Return what pickle's `reducer_override` returns for an object that is filled, not made; it is no NumPy array."""
    kind: Any = type(value)
    if kind in _SEQUENCES:
        return _emptied, (own,), None, iter(value)
    if kind in _MAPPINGS:
        return _emptied, (own,), getattr(value, "__dict__", None) or None, None, iter(value.items())
    if kind is set:
        return _emptied, (own,), frozenset(value), None, None, set.update
    if kind in _BY_STATE:
        read, write = _BY_STATE[kind]
        return _emptied, (own,), read(value), None, None, write
    if hasattr(kind, "_keeps_identity"):
        return _emptied, (own,), value._content(), None, None, kind._fill
    return _emptied, (own,), *value.__reduce_ex__(5)[2:]


def _emptied(value: Any) -> Any:
    """Return an object itself, without the attributes and items that its content is going to replace."""
    container = next((kind for kind in _CLEARED if isinstance(value, kind)), None)
    if container is not None:
        container.clear(value)
    attributes = object.__getstate__(value)
    if isinstance(attributes, tuple):  # those of `__dict__`, and those in slots
        for name in attributes[1]:
            object.__delattr__(value, name)
    getattr(value, "__dict__", {}).clear()
    return value


def _state_of(generator: np.random.Generator) -> Any:
    """Return the state of a generator, and how many others have been spawned from it."""
    reduced: Any = generator.bit_generator.__reduce__()
    return reduced[2]


def _set_state(generator: np.random.Generator, state: Any) -> None:
    """Set what `_state_of` returns."""
    bits: Any = generator.bit_generator
    bits.__setstate__(state)


def _set_bytes(value: bytearray, data: bytes) -> None:
    value[:] = data


def _set_items(value: array.array[Any], data: bytes) -> None:
    del value[:]
    value.frombytes(data)


_BY_STATE: dict[type, tuple[Callable[[Any], Any], Callable[[Any, Any], None]]] = {  # how to read it, and to replace it
    bytearray: (bytes, _set_bytes),
    array.array: (array.array.tobytes, _set_items),
    random.Random: (random.Random.getstate, random.Random.setstate),
    np.random.Generator: (_state_of, _set_state),
    np.random.RandomState: (np.random.RandomState.get_state, np.random.RandomState.set_state),
}
