"""The result of a get: a value that is there after the next boundary."""

from __future__ import annotations

from typing import Any, NoReturn

from bsp.errors import NotReady
from bsp.interpreter.stand_ins import IN_PLACE, NotAValue
from bsp.source import here

_SIGNS = {"add": "+", "multiply": "*", "and": "&", "or": "|", "xor": "^"}


class Pending(NotAValue):
    """The result of a `get`: its `.value` can be read after the boundary that follows the get.

    The value holds the contents as they stood when every process reached that boundary, before any
    put of the same superstep was applied (D1).
    """

    __slots__ = ("_ready", "_value")

    def __init__(self) -> None:
        self._value: Any = None
        self._ready = False

    def _set(self, value: Any) -> None:
        """Store the value; called by the boundary that delivers it."""
        self._value = value
        self._ready = True

    def _advice(self, what: str) -> str:
        if what in IN_PLACE:
            op = next((name for name, sign in _SIGNS.items() if sign == what[:-1]), None)
            instead = f"x.put(pid, values, at=index, op={op!r})" if op else "its .value after a boundary, and a put"
            return f"x[pid, index] {what} values would read and write in one superstep: use {instead} ({here()})"
        when = "" if self._ready else " after the next boundary"
        return f"{what} needs a value, and x[pid] gives a Pending: use its .value{when} ({here()})"

    def __getitem__(self, index: object) -> NoReturn:
        raise TypeError(self._advice("[]"))

    def __setitem__(self, index: object, values: object) -> NoReturn:
        raise TypeError(self._advice("[]"))

    def __getattr__(self, name: str) -> NoReturn:
        # a private name is nobody's mistake: copy and pickle ask for some, before the object has what `_advice` reads
        raise AttributeError(name if name.startswith("_") else self._advice(f".{name}"))

    def __repr__(self) -> str:
        return f"<Pending: {self._value!r}>" if self._ready else "<Pending: .value is there after the next boundary>"

    @property
    def ready(self) -> bool:
        """True once the boundary that delivers the value has passed."""
        return self._ready

    @property
    def value(self) -> Any:
        """The values read: an array of the selected shape, the receiver's own copy (D9), or a scalar.

        Raises NotReady before the boundary that follows the get.
        """
        if not self._ready:
            raise NotReady(f"the value of a get is there after the next boundary, not before ({here()})")
        return self._value
