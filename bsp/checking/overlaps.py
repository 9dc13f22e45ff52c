"""The checks of `--check`: overlapping accesses, schedule independence, and the rehearsal of joins.

Overlaps: two accesses of one superstep that touch the same elements of a coarray, so that the outcome depends on the
library's order of application: puts of different processes without a common `op`, and gets of what a put of the same
superstep overwrites.

Schedule independence: the program runs again, and the processes of every element take turns in a seeded random order.
The effects, the text and the coarray contents of every superstep must be the same bytes.  They differ if processes
communicate through what they share (modules, files), or use unseeded random numbers or the clock.

Rehearsal: programs with `proc.rounds` run twice more, and every process is made again at a head
(`bsp.checking.rehearsal`).  If the bytes differ, a round needs more of the last one than its bsp.State contains.
"""

from __future__ import annotations

import os
import pickle
from collections.abc import Callable, Sequence
from hashlib import blake2b
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

from bsp.checking.names import fingerprint, naming, watched
from bsp.checking.record import AGAIN, END, KEPT, RECORD, TURNS, Record, undeclared
from bsp.checking.rehearsal import Rehearsal
from bsp.engine.delivery import address_range
from bsp.engine.reordering import Reordering
from bsp.engine.task import END as END_OF_ALL
from bsp.errors import BspError, LaunchError, Overlap, ScheduleDependence, SyncMismatch
from bsp.host import is_own
from bsp.values import payload
from bsp.values.effects import Effect, Get, Put, PutEach, Row, Send

if TYPE_CHECKING:
    from bsp.engine.element import Element
    from bsp.engine.task import Task
    from bsp.transport.base import Transport

_TURN_SEED = 1  # of the order of turns


class Checker:
    """The check of one pass: records what every superstep does, and compares it with the reference pass."""

    def __init__(
        self,
        name: str = RECORD,
        known: Record | None = None,
        path: str | None = None,
        watch: tuple[int, int] | None = None,
    ) -> None:
        """Prepare the pass `name`.

        known : the record of the reference pass; None: this is the reference pass.
        path : the file for this pass's record, on element 0.
        watch : (superstep, pid) whose variables to record up to that superstep.
        """
        self.silent = name != RECORD  # only the first pass prints
        self.record = Record()
        if known is not None:
            self.record.loops, self.record.once, self.record.clocks = known.loops, known.once, known.clocks
        self.rehearsal = Rehearsal(name, self.record, known)
        self._name = name
        self._known = known
        self._path = path
        self._watch = watch
        self._merged = False

    @classmethod
    def of(cls, settings: dict[str, Any], transport: Transport) -> Checker | None:
        """Return the checker of the pass that bsprun asks for, or None.  Collective over the elements.

        Element 0 reads the reference record from its file, if there is one, and all elements receive it.
        """
        asked = settings.get("check")
        if asked is None:
            return None
        payload.canonical = True  # for this whole pass: equal values pickle to equal bytes, whatever their history
        known: Record | None = None
        if asked["known"] is not None:
            if transport.index == 0:
                if not is_own(os.path.dirname(asked["known"])):
                    raise LaunchError(f"--check: {os.path.dirname(asked['known'])} is not the folder that bsprun made")
                with open(asked["known"], "rb") as file:
                    known = pickle.load(file)
            known = transport.gather(known)[0]
        return cls(asked["pass"], known, asked["record"], tuple(asked["watch"]) if asked["watch"] else None)

    def keep(self, transport: Transport) -> None:
        """Write the records of all elements to the file for the next pass.  Collective if not merged before."""
        if not self._merged:  # the pass failed before its end
            self._merge(transport)
        if transport.index == 0 and self._path is not None and is_own(os.path.dirname(self._path)):
            with open(self._path, "wb") as file:
                pickle.dump(self.record, file, 5)  # large arrays of a state are PickleBuffers: protocol 5 or later

    def _merge(self, transport: Transport) -> None:
        """Add the records of all other elements to this one's.  Collective."""
        for k, part in enumerate(transport.gather(self.record)):
            if k != transport.index:
                self.record.merge(part)
        self._merged = True

    def attach(self, element: Element) -> None:
        """Connect the checker to an element before it has processes.

        Its heads then go to the rehearsal, its agreed times are those of the first pass, and in the pass TURNS its
        processes take turns in another order.
        """
        element.recovery = self.rehearsal
        if self._name == TURNS:
            element.reordering = Reordering(_TURN_SEED)
        clock = element.transport.agreed_clock

        def agreed() -> float:
            return self.record.clocks.setdefault(element.superstep, clock())

        element.transport.agreed_clock = agreed  # type: ignore[method-assign]

    # ------------------------------------------------------------------ at every boundary

    def judge(self, element: Element, sent: Sequence[Effect], received: Sequence[Effect]) -> BspError | None:
        """Return the problem found at this boundary, the same on every element, or None.  Collective over the elements.

        sent : the effects that the processes here have issued.  received : those that arrive here.
        """
        problem = self._observe(element, sent) or self.overlap(element, received)
        told = element.transport.gather((problem, self.rehearsal.passed))
        for found, _ in told:
            if found is not None:
                said: BspError = found
                return said
        if element.tasks[0].call is END_OF_ALL:
            self._merge(element.transport)
        if len({passed for _, passed in told}) > 1:
            counts = ", ".join(f"element {k}: {passed}" for k, (_, passed) in enumerate(told))
            return SyncMismatch(
                f"processes have passed different numbers of heads of proc.rounds before superstep {element.superstep} "
                f"ends ({counts}); every process stands at the head of the same round in the same superstep"
            )
        return None

    def _observe(self, element: Element, drained: Sequence[Effect]) -> BspError | None:
        """Digest the superstep of each process here: effects, text and coarrays; return the first problem.

        Called before the effects are applied.
        """
        sent: dict[int, list[Effect]] = {}
        for effect in drained:
            sent.setdefault(effect.source, []).append(effect)
        problem, self.rehearsal.problem = self.rehearsal.problem, None
        for task in element.tasks:
            key = (element.superstep, task.pid)
            digest = self.record.digests[key] = _digest(task, sent.get(task.pid, ()))
            if self._watch is not None and self._watch[1] == task.pid and element.superstep <= self._watch[0]:
                self.record.watched[element.superstep] = watched(task)
            compares = problem is None and self._known is not None and self._name != AGAIN
            if compares and self._known is not None and self._known.digests.get(key) != digest:
                problem = self._departs(task, element.superstep)
        return problem

    def _departs(self, task: Task, superstep: int) -> BspError:
        """Return the error for a process that does something else than in the reference pass."""
        where = f"does something else in superstep {superstep} ({task.call.text} at {task.line()})"
        if self._name == TURNS:
            return ScheduleDependence(
                f"process {task.pid} {where} when processes take their turns in another order: "
                "it depends on what processes of one interpreter share (modules, files, environment)"
            )
        assert self._known is not None
        return undeclared(self._known, self._name, self.rehearsal.joined, task.pid, where)

    def overlap(self, element: Element, effects: Sequence[Effect]) -> BspError | None:
        """Return the error for two conflicting accesses of the same memory on a process here, or None."""
        touched: dict[tuple[int, int], list[Put | PutEach | Get]] = {}  # by memory, as an array may be registered twice
        for effect in effects:
            if not isinstance(effect, Send | Row):
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
    """Return two conflicting accesses of one array and the flat position where they meet, or None.

    accesses : in order of application.  Two puts conflict if they come from different processes and have no common
    `op`; a get conflicts with every put.
    """
    writer = np.full(prod(shape), -1)  # by flat position: the number of the last write there, -1 for none
    writes = [access for access in accesses if not isinstance(access, Get)]
    for k, write in enumerate(writes):
        positions = _positions(write, shape)
        for other in np.unique(writer[positions]):
            if other >= 0:
                earlier = writes[int(other)]
                same = earlier.source == write.source or (write.op is not None and earlier.op == write.op)
                if not same:
                    return earlier, write, int(positions[writer[positions] == other][0])
        # where a process accumulates onto its own plain put, keep the put as the writer: any access of another process
        # conflicts with the put, while the accumulate alone might have their `op`
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
    """Return the flat positions of an array of this shape that an access touches."""
    if isinstance(access, Put):
        return access.region.positions(shape)
    if access.positions is not None:
        return access.positions
    assert isinstance(access, Get) and access.region is not None
    return access.region.positions(shape)


def _describe(access: Put | PutEach | Get) -> str:
    """Return an access in words: its kind, line and process."""
    kind = "get" if isinstance(access, Get) else "put"
    op = f" (op '{access.op}')" if not isinstance(access, Get) and access.op else ""
    return f"{kind}{op} at {access.line} by process {access.source}"


def _advice(first: Put | PutEach | Get, second: Put | PutEach | Get) -> str:
    """Return in words which of two accesses takes effect, and how to avoid the conflict."""
    if isinstance(second, Get):
        return "the get reads the old contents; read in one superstep and write in another if that is not meant"
    return "the put of the higher pid wins; give both the same op, or other places"


def _digest(task: Task, effects: Sequence[Effect]) -> bytes:
    """Return a digest of what a process does in a superstep: its call, effects, coarray contents and text.

    At the end of the program its result is included too.
    """
    state = blake2b(task.call.digest, digest_size=16)
    for effect in effects:
        if isinstance(effect, Send):
            said: tuple[Any, ...] = ("send", effect.dests, effect.tag, effect.pickled)
            arrays = [effect.array]
        elif isinstance(effect, Row):
            said, arrays = ("row", effect.first, effect.pickles()), []
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
    if task.call is END_OF_ALL:
        state.update(fingerprint(task.result, naming(task, None)) or b"")
    return state.digest()


def twice(once: Callable[[Checker], list[Any]], agreed: Callable[[Any], Any] = lambda value: value) -> list[Any]:
    """Run all passes in this interpreter; return the results of the first if the others do the same.

    once : runs the program with a checker and returns its results.
    agreed : returns the first rank's value on all ranks that make this call together; some may have no process.
    Cost: two runs of the program, and two more if it has loops of rounds.  Raises the error of the first pass that
    differs.
    """
    kept, payload.canonical = payload.canonical, True
    try:
        first = Checker()
        results = once(first)
        second = Checker(TURNS, first.record)
        once(second)
        known = second.record
        nprocs = 1 + max((pid for _, pid in known.digests), default=0)
        for name in agreed([name for name in (KEPT, END) if known.joins(name, nprocs)]):
            _join(once, Checker(name, known), known)
    finally:
        payload.canonical = kept
    return results


def _join(once: Callable[[Checker], list[Any]], checker: Checker, known: Record) -> None:
    """Run a pass that makes processes again; an exception of the program in it becomes `Undeclared`."""
    try:
        once(checker)
    except BspError:
        raise
    except Exception as error:
        what = f"raises {type(error).__name__} ({error})"
        raise undeclared(known, checker._name, checker.rehearsal.joined, 0, what) from error
