"""Objects that stay on the processes of a session, and the handles that stand for them in the caller's interpreter.

A value of a class with the attribute `_stays`, such as a distributed array or a coarray, belongs to its process:
it is not sent to the caller.  Where the result of a call contains such a value, the process keeps it under a key, and
the caller receives a handle with that key.  Where the arguments of a later call contain the handle, every process finds
the value that it has kept itself.  So handles may be inside lists, tuples, objects, and among the names that a function
uses.

The key is (number of the call, position among the values kept in the result).  It depends on the calls and on nothing
else, so all processes give the parts of a distributed array the same key.
"""

from __future__ import annotations

import io
import pickle
import sys
import weakref
from collections import deque
from collections.abc import Callable
from typing import Any, NamedTuple, NoReturn

from bsp.errors import CannotMove, NotRegistered
from bsp.notebook import hide_ours
from bsp.values.by_value import ByValue

Key = tuple[int, int]


class Description(NamedTuple):
    """A description of a handle's value, which one process makes of its own.  Describing it is not collective.

    text : its repr.  html : its picture for notebooks, from process 0.  shape, dtype : of an array.
    """

    text: str
    html: str | None = None
    shape: tuple[int, ...] | None = None
    dtype: Any = None


def description(value: Any, drawn: bool) -> Description:
    """Return the description of a value that stays on its process; `drawn`: with the picture for notebooks."""
    html = getattr(value, "_repr_html_", None) if drawn else None
    return Description(
        repr(value), html() if html is not None else None, getattr(value, "shape", None), getattr(value, "dtype", None)
    )


def _refused(use: str) -> Callable[..., NoReturn]:
    """Return an operator of handles, which raises TypeError with the call to write; use: of `value`, as Python."""

    def refuse(*operands: Any) -> NoReturn:
        raise _without_us(TypeError(_advice("operators", use)))

    return refuse


def _advice(lacks: str, use: str) -> str:
    """Return what a handle lacks, and the call that does it."""
    return (
        f"a handle has no {lacks}; what it stands for is on the processes, where functions use it: "
        f"s.run(lambda proc, value: {use}, handle)"
    )


def _without_us(error: Exception) -> Exception:
    """Return an error that IPython prints without the frames of this package: its message says all."""
    hide_ours(error)
    return error


def stays(value: Any) -> bool:
    """Return whether a value belongs to its process, so that the caller of a session receives a handle."""
    return getattr(type(value), "_stays", False) is True


class Handle:
    """A value that stays on the processes of a `bsp.Session`, such as a distributed array.

    `Session.run` returns handles in the place of such values, and passes each process its own value in the place of a
    handle.  In a notebook, the handle of an array shows its blocks and their owners.
    """

    def __init__(self, owner: Any, key: Key, described: Description) -> None:
        """Make a handle.

        owner : the session.  key : of the value on every process that has kept one.
        """
        self._owner = owner
        self._key = key
        self._described = described
        self._seen = -1  # the number of calls when it was described again
        self._pids: set[int] = set()

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of the array."""
        if self._described.shape is None:
            raise AttributeError  # `__getattr__` tells more
        return self._described.shape

    @property
    def dtype(self) -> Any:
        """The element type of the array."""
        if self._described.dtype is None:
            raise AttributeError  # as above
        return self._described.dtype

    def __getattr__(self, name: str) -> NoReturn:
        if name.startswith("_"):  # asked for by IPython, pickle and copy
            raise AttributeError(name)
        raise _without_us(AttributeError(_advice(repr(name), f"value.{name}")))

    __getitem__ = _refused("value[...]")
    __add__ = __radd__ = _refused("value + ...")
    __sub__ = __rsub__ = _refused("value - ...")
    __mul__ = __rmul__ = _refused("value * ...")
    __truediv__ = __rtruediv__ = _refused("value / ...")
    __matmul__ = __rmatmul__ = _refused("value @ ...")
    __pow__ = __rpow__ = _refused("value ** ...")
    __lt__, __le__ = _refused("value < ..."), _refused("value <= ...")
    __gt__, __ge__ = _refused("value > ..."), _refused("value >= ...")
    __neg__ = _refused("-value")
    __float__ = _refused("float(value)")

    def compute(self) -> Any:
        """Return the whole array as a NumPy array, as `Array.compute` does.  Gathers it: its size should be small."""
        return self._owner.run(_computed, self)[0]

    def __repr__(self) -> str:
        return f"<on {self._where()}: {self._owner._describe(self).text}>"

    def _repr_html_(self) -> str | None:
        """Return the picture of an array's blocks, for notebooks."""
        return self._owner._describe(self).html  # type: ignore[no-any-return]

    def _where(self) -> str:
        """Return the processes that keep a value."""
        pids = sorted(self._pids)
        if len(pids) == 1:
            return f"process {pids[0]}"
        return f"{len(pids)} processes"

    def __reduce__(self) -> NoReturn:
        raise CannotMove(self._only_here())

    def __array__(self, *args: Any, **kwargs: Any) -> NoReturn:  # NumPy would make an array of one object
        raise CannotMove(self._only_here())

    def _only_here(self) -> str:
        return (
            f"{self!r} is a handle of a bsp.Session: only its `run` and `put` accept it; "
            "its compute() returns a NumPy array, which goes anywhere"
        )


def _computed(proc: Any, value: Any) -> Any:
    """Return a computed array from process 0, where the caller reads it; every process takes part."""
    found = value.compute()
    return found if proc.pid == 0 else None


# ------------------------------------------------------------------------------------------ on the processes


class Kept:
    """The values that one process keeps for the caller's handles."""

    def __init__(self, pid: int) -> None:
        self._pid = pid
        self._values: dict[Key, Any] = {}

    def dumps(self, value: Any, call: int | None) -> bytes:
        """Return the pickle of the result of a call, and keep the values in it that stay here; call None: none do."""
        keys: dict[int, Key] = {}
        kept: dict[Key, Any] = {}

        def key_of(found: Any) -> Any:
            if call is None or not stays(found):
                return None
            if id(found) not in keys:
                keys[id(found)] = key = call, len(keys)
                kept[key] = found
            return keys[id(found)], description(found, drawn=self._pid == 0)

        data = _dumps(value, key_of)
        self._values |= kept
        return data

    def loads(self, data: bytes) -> Any:
        """Return the function and the arguments of a call, with this process's own values for the handles in them."""
        return _Importer(io.BytesIO(data), self._values.__getitem__).load()

    def drop(self, keys: list[Key]) -> None:
        """Forget the values of handles that the caller no longer has."""
        for key in keys:
            self._values.pop(key, None)


# ------------------------------------------------------------------------------------------ at the caller


class Handles:
    """The handles that a session has given out."""

    def __init__(self, owner: Any) -> None:
        self._owner = weakref.ref(owner)
        self._nprocs: int = owner.nprocs
        self._dropped: deque[Key] = deque()

    def dumps(self, value: Any) -> bytes:
        """Return the pickle of a function and its arguments, with keys for the handles in them.

        Raises NotRegistered for a handle of another session, or one whose value not every process has.
        """

        def key_of(found: Any) -> Any:
            if not isinstance(found, Handle):
                return None
            if found._owner is not self._owner():
                raise NotRegistered(f"{found!r} is a handle of another session, not of {self._owner()!r}")
            if len(found._pids) < self._nprocs:
                raise NotRegistered(
                    f"{found!r}: only {len(found._pids)} of {self._nprocs} processes have returned a value there, and "
                    "a call passes every process its own; return it from all processes"
                )
            return found._key

        return _dumps(value, key_of)

    def loads(self, parts: list[bytes]) -> list[Any]:
        """Return the results of all processes, by pid, with one handle for each key in them."""
        made: dict[Key, Handle] = {}

        def found(pid: int) -> Callable[[Any], Handle]:
            def handle_of(told: tuple[Key, Description]) -> Handle:
                key, described = told
                if key not in made:
                    made[key] = handle = Handle(self._owner(), key, described)
                    weakref.finalize(handle, self._dropped.append, key).atexit = False
                made[key]._pids.add(pid)
                return made[key]

            return handle_of

        return [_Unpickler(io.BytesIO(part), found(pid)).load() for pid, part in enumerate(parts)]

    def dropped(self) -> list[Key]:
        """Return the keys of handles that the caller has lost since the last time."""
        return [self._dropped.popleft() for _ in range(len(self._dropped))]


# ------------------------------------------------------------------------------------------------- pickles


class _Pickler(ByValue):
    """A pickler that writes `key_of(value)` in the place of values for which it is not None."""

    def __init__(self, file: Any, key_of: Callable[[Any], Any]) -> None:
        super().__init__(file)
        self._key_of = key_of

    def persistent_id(self, value: Any) -> Any:
        return self._key_of(value)


class _Unpickler(pickle.Unpickler):
    """An unpickler that returns `value_of(key)` for the keys that `_Pickler` has written."""

    def __init__(self, file: Any, value_of: Callable[[Any], Any]) -> None:
        super().__init__(file)
        self._value_of = value_of

    def persistent_load(self, key: Any) -> Any:
        return self._value_of(key)


_MAKES_CLASSES = ("_make_skeleton_class", "_make_skeleton_enum")  # functions of cloudpickle
_callers: weakref.WeakSet[type] = weakref.WeakSet()  # classes of the caller's notebook or script


class _Importer(_Unpickler):
    """An unpickler that also puts the classes of the caller's `__main__` into that of the process.

    cloudpickle makes them without a name that leads to them, so a message with an instance could not be pickled.
    """

    def find_class(self, module: str, name: str) -> Any:
        found = super().find_class(module, name)
        if name not in _MAKES_CLASSES:
            return found

        def made(*parts: Any) -> type:
            of_caller: type = found(*parts)
            names = vars(sys.modules["__main__"])
            known = names.get(of_caller.__name__)
            if of_caller.__module__ == "__main__" and (known is None or known in _callers):
                names[of_caller.__name__] = of_caller
            _callers.add(of_caller)
            return of_caller

        return made


def _dumps(value: Any, key_of: Callable[[Any], Any]) -> bytes:
    """Return a pickle with `key_of(value)` in the place of the values that have one."""
    out = io.BytesIO()
    _Pickler(out, key_of).dump(value)
    return out.getvalue()
