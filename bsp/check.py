"""--check: mistakes that a healthy-looking run hides.

Overlaps: two accesses of one superstep that touch the same elements of a coarray, where the outcome
hangs on the library's order of application: puts of different processes without a common `op`, and
reads of what a put of the same superstep overwrites.

Schedule independence: the program runs twice, in pid order and with the processes of every element
taking turns in a seeded random order.  Every superstep's effects, text and coarray contents must be
the same bytes.  They differ if processes talk through what they share: modules, files, the clock.
"""

from __future__ import annotations

import os
import pickle
from collections.abc import Callable, Sequence
from hashlib import blake2b
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

from bsp.delivery import address_range
from bsp.effects import Effect, Get, Put, PutEach, Send
from bsp.errors import BspError, Overlap, ScheduleDependence

if TYPE_CHECKING:
    from bsp.element import Element
    from bsp.task import Task
    from bsp.transport import Transport

Digests = dict[tuple[int, int], bytes]  # by (superstep, pid)


class Checker:
    """Watches one pass of a program."""

    def __init__(self, expected: Digests | None = None, turn_seed: int = 1, path: str | None = None) -> None:
        """`expected` are the digests of the pass in pid order; without them this is that pass."""
        self.shuffles = expected is not None
        self.turn_seed = turn_seed
        self.digests: Digests = {}
        self._expected = expected
        self._path = path

    @classmethod
    def of(cls, settings: dict[str, Any], transport: Transport) -> Checker | None:
        """The checker that bsprun asks for; digests live in a file on element 0's machine."""
        mode, path = settings.get("check"), settings.get("digests")
        if mode is None:
            return None
        expected: Digests | None = None
        if mode == "compare":
            found: Digests | None = None
            if transport.index == 0 and path is not None:
                with open(path, "rb") as file:
                    found = pickle.load(file)
            expected = transport.gather(found)[0]
        return cls(expected, path=path)

    def keep(self, transport: Transport) -> None:
        """After the first pass: all digests, for the second."""
        parts = transport.gather(self.digests)
        if (
            transport.index == 0
            and self._path is not None
            and not self.shuffles
            and os.path.isdir(os.path.dirname(self._path))
        ):
            with open(self._path, "wb") as file:
                pickle.dump({key: value for part in parts for key, value in part.items()}, file)

    # ------------------------------------------------------------------ at every boundary

    def observe(self, element: Element, drained: Sequence[Effect]) -> BspError | None:
        """Before the exchange: what the processes here send, print and hold."""
        sent: dict[int, list[Effect]] = {}
        for effect in drained:
            sent.setdefault(effect.source, []).append(effect)
        problem: BspError | None = None
        for task in element.tasks:
            key = (element.superstep, task.pid)
            self.digests[key] = self.digests.get(key, b"") + _digest(task, sent.get(task.pid, ()))
            if self._expected is not None and self._expected.get(key) != self.digests[key] and problem is None:
                problem = ScheduleDependence(
                    f"process {task.pid} does something else in superstep {element.superstep} "
                    f"({task.call.text} at {task.line()}) when processes take their turns in another order: "
                    "it depends on what processes of one interpreter share (modules, files, environment)"
                )
        return problem

    def overlap(self, element: Element, effects: Sequence[Effect]) -> BspError | None:
        """After the exchange: two accesses of the same memory on a process here."""
        touched: dict[tuple[int, int], list[Put | PutEach | Get]] = {}  # by memory: an array may be registered twice
        for effect in effects:
            if not isinstance(effect, Send):
                touched.setdefault(address_range(element.coarray(effect).local), []).append(effect)
        for accesses in touched.values():
            if len(accesses) > 1:
                coarray = element.coarray(accesses[0])
                found = _conflict(accesses, coarray.local.shape)
                if found is not None:
                    first, second, position = found
                    return Overlap(
                        f"{_describe(first)} and {_describe(second)} touch the same element, flat position {position} "
                        f"of {coarray._name} on process {first.dest}, in superstep {element.superstep}; "
                        f"{_advice(first, second)}"
                    )
        return None


def _conflict(
    accesses: list[Put | PutEach | Get], shape: tuple[int, ...]
) -> tuple[Put | PutEach | Get, Put | PutEach | Get, int] | None:
    writer = np.full(prod(shape), -1)
    writes = [access for access in accesses if not isinstance(access, Get)]
    for k, write in enumerate(writes):
        positions = _positions(write, shape)
        for other in np.unique(writer[positions]):
            if other >= 0:
                earlier = writes[int(other)]
                same = earlier.source == write.source or (write.op is not None and earlier.op == write.op)
                if not same:
                    return earlier, write, int(positions[writer[positions] == other][0])
        # an accumulate over one's own plain put leaves that put what others conflict with
        if write.op is not None:
            plain = [j for j, other in enumerate(writes[:k]) if other.op is None and other.source == write.source]
            positions = positions[~np.isin(writer[positions], plain)]
        writer[positions] = k
    for access in accesses:
        if isinstance(access, Get):
            positions = _positions(access, shape)
            hit = positions[writer[positions] >= 0]
            if hit.size:
                return writes[int(writer[hit[0]])], access, int(hit[0])
    return None


def _positions(access: Put | PutEach | Get, shape: tuple[int, ...]) -> np.ndarray:
    if isinstance(access, Put):
        return access.region.positions(shape)
    if access.positions is not None:
        return access.positions
    assert isinstance(access, Get) and access.region is not None
    return access.region.positions(shape)


def _describe(access: Put | PutEach | Get) -> str:
    kind = "get" if isinstance(access, Get) else "put"
    op = f" (op '{access.op}')" if not isinstance(access, Get) and access.op else ""
    return f"{kind}{op} at {access.line} by process {access.source}"


def _advice(first: Put | PutEach | Get, second: Put | PutEach | Get) -> str:
    if isinstance(second, Get):
        return "the get reads the old contents; read in one superstep and write in another if that is not meant"
    return "the put of the higher pid wins; give both the same op, or other places"


def _digest(task: Task, effects: Sequence[Effect]) -> bytes:
    state = blake2b(digest_size=16)
    for effect in effects:
        if isinstance(effect, Send):
            said: tuple[Any, ...] = ("send", effect.dests, effect.tag, effect.pickled)
            arrays = [effect.array]
        elif isinstance(effect, Put):
            said = ("put", effect.dest, effect.coarray, effect.region.shape, effect.region.start, effect.op)
            arrays = [effect.values, *(part for part in effect.region.index or () if isinstance(part, np.ndarray))]
        elif isinstance(effect, PutEach):
            said = ("put_each", effect.dest, effect.coarray, effect.op)
            arrays = [effect.positions, effect.values]
        else:
            region = effect.region
            said = ("get", effect.dest, effect.coarray, region.start if region else 0, region.stop if region else 0)
            index = (region.index or ()) if region else ()
            arrays = [effect.positions, *(part for part in index if isinstance(part, np.ndarray))]
        state.update(repr(said).encode())
        for array in arrays:
            if array is not None:
                state.update(np.ascontiguousarray(array).view(np.uint8).data if array.ndim else array.tobytes())
    for context in task.contexts.values():
        for coarray in context.coarrays:
            if coarray is not None:
                state.update(coarray.local.tobytes())
    if task.text is not None:
        state.update(task.text.getvalue())
    return state.digest()


def twice(once: Callable[[Checker], list[Any]]) -> list[Any]:
    """Both passes in this interpreter: the results of the first, if the second is the same."""
    first = Checker()
    results = once(first)
    once(Checker(first.digests))
    return results
