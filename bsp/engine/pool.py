"""Pools: an element keeps together what every process gives to all others in one superstep.

Where each process of a collective sends one value to all, the processes of an element receive the same values.  The
element keeps each value once instead of copying it for every receiver, and what follows from the values, such as their
sum, is made by the first process that needs it.  So the work on an element grows with p, not with p times the number of
processes there.  Where each sends one small value to each, the element keeps them in rows, one for each sender, and a
receiver takes its column: nothing is done message by message.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from bsp.values.effects import Row
from bsp.values.payload import Packed, array_in


class Pool:
    """The values of one superstep, for the processes of one element.

    Who takes values that can change from it calls `take`, which says whether nobody else does so after it.

    given : values for all, by source, in the order of the pids; an array that came as a record may be a bytearray.
    rows : values for each, likewise.
    shared : whether several processes read the pool.
    plain : the values for all combined, or all their prefixes, where nobody can change them; None before.
    """

    __slots__ = ("_made", "_packed", "_readers", "given", "plain", "rows", "shared")

    def __init__(self, readers: int, given: dict[int, Packed | bytearray]) -> None:
        self.given = given
        self._packed: dict[int, Packed] | None = None
        self.rows: list[Row] = []
        self.shared = readers > 1
        self.plain: Any = None
        self._readers = readers
        self._made: dict[Any, Any] = {}

    def add(self, values: Mapping[int, Packed | bytearray]) -> None:
        """Add values for all, by source."""
        behind = not self.given or next(reversed(self.given)) < next(iter(values))
        self.given.update(values)
        if not behind:
            self.given = dict(sorted(self.given.items()))

    @property
    def packed(self) -> dict[int, Packed]:
        """The values for all, by source, arrays as arrays; to be read when all have been added."""
        if self._packed is None:
            self._packed = {
                source: array_in(value) if isinstance(value, bytearray) else value
                for source, value in self.given.items()
            }
        return self._packed

    def take(self) -> bool:
        """Count that one more process reads the values; return whether it is the last, to which they belong."""
        self._readers -= 1
        return not self._readers

    def column(self, pid: int) -> dict[int, Any]:
        """Return what the rows have for a process, by source."""
        return {row.source: row.values[pid - row.first] for row in self.rows}

    def once(self, what: Any, make: Callable[[], Any]) -> Any:
        """Return what `make` makes of the values, under the name `what`; the next process gets the same object.

        An exception of `make` goes to the caller, and the next process tries again.
        """
        if what not in self._made:
            self._made[what] = make()
        return self._made[what]
