"""The recorder of a run: it counts work, words and messages of each superstep, and measures its time.

The same recorder serves traces, where its element is real and times are measured, and predictions, where one
interpreter hosts all processes as if they were on the elements of some machine.  During the run it only appends to
lists.  `_fold` turns many supersteps at once into sums, and the elements' sums are gathered every few thousand
supersteps, outside the measured time.

Counting rules.  A word is 8 bytes, rounded up for each process and superstep.  Traffic of a process to itself is not
counted.  put, get and send count their data, `put_each` two words an item, `get_each` one each way, pickled objects
their length.  A message is an ordered pair of processes with traffic.  The price follows from what crosses elements: a
value sent to several processes of an element crosses once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import starmap
from math import prod
from time import perf_counter
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from bsp.cost.model import WORD, Machine, Traffic
from bsp.cost.record.account import Account, SuperstepSums, starts
from bsp.values.effects import Effect, Get, Put, PutEach, Row
from bsp.values.operations import combination
from bsp.values.parts import read_part
from bsp.values.payload import array_in, size_of
from bsp.values.records import ASK, BLOCKS, COMBINE, FOR_ALL, MESSAGE, PART, VALUE, Record, message_in, parts_of

if TYPE_CHECKING:
    from bsp.cost.choice import Choice
    from bsp.engine.task import Task
    from bsp.transport.base import Transport

_CHUNK = 1 << 18  # processes times supersteps that are folded at once
_RAW = 1 << 21  # numbers that are folded before the chunk is full, to bound memory
BLOCK, FINE, SEND, STAGED = range(4)  # how data reaches its place; see model.Traffic


class Exchanged(NamedTuple):
    """Traffic of all processes in one superstep."""

    pairs: np.ndarray  # (rows, 4): source, destination, bytes, and how they travel, one of the four kinds
    out: np.ndarray  # (p,): bytes sent beside, to so many that pairs are not listed
    into: np.ndarray
    messages: int  # beside


class Recorder:
    """The record of one element, with the processes `pids`; `elements` is the number that prices are made for."""

    def __init__(self, nprocs: int, elements: int, pids: range, machine: Machine) -> None:
        self.nprocs = nprocs
        self.elements = elements
        self.pids = pids
        self.machine = machine
        self.owner = np.repeat(np.arange(elements), np.diff(starts(nprocs, elements)))
        self.bins = min(nprocs, 128)
        self.chunk = max(16, _CHUNK // nprocs)
        self.after_a_turn: Callable[[], None] | None = None
        self.clock: Callable[[], float] = perf_counter  # the clock that times turns
        self.work_of: Callable[[float], float] = float  # returns the seconds that a turn of so many counts as
        # of the supersteps not folded yet
        self._work: list[float] = []
        self._wall: list[float] = []
        self._single: list[int] = []  # superstep, source, dest, bytes, kind of each effect, one after the other
        self._multi: list[tuple[int, int, tuple[int, ...] | range, int]] = []  # superstep, source, dests, bytes of each
        self._rows: list[tuple[int, Row]] = []
        self._registers: list[int] = []
        self._folded: list[SuperstepSums] = []
        self._settled = 0
        self.account = Account(machine, nprocs, elements) if pids.start == 0 else None
        self._mark = perf_counter()
        self._worked = self.clock()  # when a lone process began to compute
        self.choices: list[tuple[int, Choice]] = []  # the choices made, with their supersteps

    # ------------------------------------------------------------------ during the run

    def begin(self) -> None:
        """Start the clock; the next turn is the program's first."""
        self._mark = perf_counter()
        self._worked = self.clock()

    def turn(self, began: float) -> None:
        """Add the work of a process that has computed since `began`, a time of `clock`."""
        self._work.append(self.work_of(self.clock() - began))
        if self.after_a_turn is not None:
            self.after_a_turn()

    def alone(self) -> None:
        """Add the work of the only process here since the last superstep."""
        self._work.append(self.work_of(self.clock() - self._worked))

    def packed(self, records: Sequence[Record]) -> None:
        """Count the records of a process here."""
        step, single = len(self._wall), self._single
        for record in records:
            source, dests, size, kind = _of_record(record)
            if isinstance(dests, range):
                self._multi.append((step, source, dests, size))
            else:
                single += (step, source, dests, size, kind)

    def issued(self, effects: Sequence[Effect]) -> None:
        """Count the effects that processes here issued in this superstep."""
        step, single = len(self._wall), self._single
        for effect in effects:
            if isinstance(effect, Put):
                single += (
                    step,
                    effect.source,
                    effect.dest,
                    effect.values.nbytes,
                    BLOCK if effect.region.index is None else STAGED,
                )
            elif isinstance(effect, PutEach):
                size = effect.values.nbytes if effect.scalars else 2 * WORD * effect.values.size
                single += (step, effect.source, effect.dest, size, FINE)
            elif isinstance(effect, Get):
                size = 0 if effect.positions is None else WORD * effect.positions.size
                single += (step, effect.source, effect.dest, size, FINE)
            elif isinstance(effect, Row):
                self._rows.append((step, effect))
            else:
                size = size_of(effect.pickled) if effect.array is None else effect.array.nbytes  # type: ignore[arg-type]
                if len(effect.dests) == 1:
                    single += (step, effect.source, effect.dests[0], size, SEND)
                else:
                    self._multi.append((step, effect.source, effect.dests, size))

    def registered(self) -> None:
        """Count that processes exchange the tables of new coarrays in this superstep."""
        self._registers.append(len(self._wall))

    def answered(self, gets: Sequence[tuple[Get, Any]]) -> None:
        """Count the replies to gets, which are given with the coarrays that they read."""
        step, single = len(self._wall), self._single
        for get, coarray in gets:
            if get.positions is not None:
                single += (step, get.dest, get.source, WORD * get.positions.size, FINE)
            elif get.region is not None:
                single += (step, get.dest, get.source, prod(get.region.shape) * coarray.dtype.itemsize, STAGED)

    def replied(self, replies: Iterable[tuple[int, int, bytes]]) -> None:
        """Count replies to small gets, each as (the process that asks, the owner of the memory, contents)."""
        step = len(self._wall)
        for source, owner, contents in replies:
            self._single += (step, owner, source, len(contents), STAGED)

    def ended(self, tasks: Sequence[Task], transport: Transport) -> None:
        """Add the superstep that has ended.  Every few thousand supersteps collective: gathers all elements' sums."""
        if self.account is not None:
            task = tasks[0]
            self.account.told.append((task.label, task.call.text, str(task.line()), transport.moved))
            if transport.moved is not None and transport.chosen is not None:
                self.account.exchanged(transport.chosen)
        choice = next((task.choice for task in tasks if task.choice is not None), None)
        if choice is not None:
            self.choices.append((self.superstep, choice))
        for task in tasks:
            task.label = task.choice = None
        transport.moved = None
        now = perf_counter()
        self._wall.append(now - self._mark)
        if len(self._wall) == self.chunk:
            self._fold()
            self._meet(transport.gather)
            now = perf_counter()
        elif len(self._single) > _RAW:
            self._fold()
            now = perf_counter()
        self._mark = now
        self._worked = self.clock()

    # ------------------------------------------------------------------ sums

    @property
    def superstep(self) -> int:
        """The number of supersteps that have ended."""
        return self._settled + len(self._wall) + sum(len(sums.wall) for sums in self._folded)

    def _forget_unfinished(self) -> None:
        """Drop what was counted in a superstep that a mistake has ended before its boundary."""
        ended = len(self._wall)
        counts = zip(*[iter(self._single)] * 5, strict=True)
        self._single = [number for effect in counts if effect[0] < ended for number in effect]
        self._multi = [several for several in self._multi if several[0] < ended]
        self._rows = [row for row in self._rows if row[0] < ended]
        self._registers = [step for step in self._registers if step < ended]

    def _fold(self) -> None:
        """Turn the lists into sums, with one row for each superstep since the last fold."""
        rows, p = len(self._wall), self.nprocs
        single = np.concatenate([np.array(self._single, np.int64).reshape(-1, 5), *starmap(_listed, self._rows)])
        step, source, dest, size, kind = single.T
        each = [len(dests) for _, _, dests, _ in self._multi]
        if each:
            spread = np.array([(s, source, size) for s, source, _, size in self._multi], np.int64)
            to = np.concatenate([np.array(dests, np.int64) for _, _, dests, _ in self._multi])
            which = np.repeat(np.arange(len(each)), each)
            spread = spread[which]
            step, source, size = (np.concatenate(both) for both in zip((step, source, size), spread.T, strict=True))
            dest, kind = np.concatenate([dest, to]), np.concatenate([kind, np.full(len(to), SEND)])
        other = source != dest
        at, of, to_, bytes_ = step[other], source[other], dest[other], size[other]
        traffic = (bytes_ > 0) | (kind[other] == SEND)
        pairs = (at[traffic] * p + of[traffic]) * p + to_[traffic]
        pairs.sort(kind="stable")  # a few ascending runs
        pairs = pairs[np.concatenate([[True], pairs[1:] != pairs[:-1]])] if len(pairs) else pairs
        bin_of = np.arange(p) * self.bins // p
        multi = self._crossing()
        self._folded.append(
            SuperstepSums(
                work=np.array(self._work).reshape(rows, len(self.pids)),
                wall=np.array(self._wall),
                sent=added_up(at, of, bytes_, (rows, p)),
                received=added_up(at, to_, bytes_, (rows, p)),
                messages=np.bincount(pairs // (p * p), minlength=rows),
                landed=self._landed(single, multi, rows),
                registers=np.bincount(self._registers, minlength=rows),
                between=self._between(single, multi, rows),
                inside=self._inside(single, multi, rows),
                heat=added_up(bin_of[of], bin_of[to_], bytes_, (self.bins, self.bins)),
            )
        )
        for waiting in (self._work, self._wall, self._single, self._multi, self._rows, self._registers):
            waiting.clear()

    def _crossing(self) -> np.ndarray:
        """Return multiple sends as rows (superstep, source element, destination element, bytes, copies made there).

        Of a pooled value, whose receivers are a range, an element keeps one.
        """
        if not self._multi:
            return np.zeros((0, 5), np.int64)
        reached: dict[tuple[int, ...] | range, np.ndarray] = {}  # elements, and the copies there
        for _, _, dests, _ in self._multi:
            if dests not in reached:
                elements, counts = np.unique(self.owner[list(dests)], return_counts=True)
                reached[dests] = np.stack([elements, np.ones_like(counts) if isinstance(dests, range) else counts], 1)
        ends = [reached[dests] for _, _, dests, _ in self._multi]
        each = np.array([(step, source, size) for step, source, _, size in self._multi], np.int64)
        step, source, size = np.repeat(each, [len(end) for end in ends], axis=0).T
        element, copies = np.concatenate(ends).T
        return np.stack([step, self.owner[source], element, size, copies], axis=1)

    def _between(self, single: np.ndarray, multi: np.ndarray, rows: int) -> tuple[tuple[Traffic, Traffic], ...]:
        """Return the traffic out of and into the ports of each level between elements."""
        step, source, dest, size, kind = single.T
        step = np.concatenate([step, multi[:, 0]])
        source = np.concatenate([self.owner[source], multi[:, 1]])
        dest = np.concatenate([self.owner[dest], multi[:, 2]])
        size = np.concatenate([size, multi[:, 3]]) / WORD
        kind = np.concatenate([kind, np.full(len(multi), SEND)])
        found = []
        levels = self.machine.outer
        for k, level in enumerate(levels):
            crosses = level.port_of(source) != level.port_of(dest)
            if k + 1 < len(levels):  # traffic that crosses the next level as well is counted there
                crosses &= levels[k + 1].port_of(source) == levels[k + 1].port_of(dest)
            ports = int(level.port_of(self.elements - 1)) + 1
            out, into = (
                _traffic(step[crosses], level.port_of(end[crosses]), size[crosses], kind[crosses], (rows, ports))
                for end in (source, dest)
            )
            found.append((out, into))
        return tuple(found)

    def _inside(self, single: np.ndarray, multi: np.ndarray, rows: int) -> Traffic:
        """Return the copies made inside elements: between their processes, and for receivers of a multiple send."""
        step, source, dest, size, kind = single.T
        here = self.owner[source] == self.owner[dest]
        shape = rows, self.elements
        singles = _traffic(step[here], self.owner[dest[here]], size[here] / WORD, kind[here], shape)
        copies = multi[:, 4] - (multi[:, 1] != multi[:, 2])
        words = added_up(multi[:, 0], multi[:, 2], copies * multi[:, 3] / WORD, shape)
        return singles + Traffic(added_up(multi[:, 0], multi[:, 2], copies, shape), words, np.zeros(shape), words)

    def _landed(self, single: np.ndarray, multi: np.ndarray, rows: int) -> np.ndarray:
        """Return the words that arrive in memory of their own; every receiver of a multiple send has a copy."""
        step, _, dest, size, kind = single.T
        staged = kind >= SEND
        return added_up(
            np.concatenate([step[staged], multi[:, 0]]),
            np.concatenate([self.owner[dest[staged]], multi[:, 2]]),
            np.concatenate([size[staged], multi[:, 3] * multi[:, 4]]) / WORD,
            (rows, self.elements),
        )

    def _meet(self, gather: Callable[[Any], list[Any]]) -> None:
        """Gather all elements' sums since the last time; element 0 adds them to its account.  Collective."""
        everybody = _together(gather(_joined(self._folded)))
        self._folded = []
        self._settled += len(everybody.wall)
        if self.account is not None:
            self.account.absorb(everybody)

    def finish(self, gather: Callable[[Any], list[Any]]) -> None:
        """Gather what is left when the program has ended, and the work after the last boundary.  Collective."""
        wall, settled = perf_counter() - self._mark, len(self._wall) * len(self.pids)
        tail = gather((np.array(self._work[settled:]), wall, self.choices))
        del self._work[settled:]
        self._forget_unfinished()
        self._fold()
        self._meet(gather)
        if self.account is not None:
            work = np.concatenate([work for work, _, _ in tail])
            self.account.end(work, tail[0][1], [made for *_, some in tail for made in some])


def _of_record(record: Record) -> tuple[int, int | range, int, int]:
    """Return the source of a record, its receivers, the bytes of its data, and how they travel."""
    kind, dest, address, start, data, _ = record
    source = parts_of(address)[2]
    if kind in FOR_ALL:
        return source, range(dest, start), len(data) if kind == VALUE else array_in(data).nbytes, SEND
    if kind == MESSAGE:
        _, array, pickled = message_in(data)
        return source, dest, len(pickled) if array is None else array.nbytes, SEND  # type: ignore[arg-type]
    if kind == ASK:
        return source, dest, 0, FINE
    if kind == PART:
        return source, dest, len(read_part(data).items), STAGED
    if kind == COMBINE:
        _, part = combination(data)
        return source, dest, len(part.items), STAGED if part.lengths else BLOCK
    return source, dest, data.nbytes if kind in BLOCKS else len(data), BLOCK


def _listed(step: int, row: Row) -> np.ndarray:
    """Return the messages of a row as rows (superstep, source, destination, bytes, kind)."""
    size = np.array(row.sizes())
    to = row.first + np.arange(len(size))
    return np.stack(np.broadcast_arrays(step, row.source, to, size, SEND), axis=-1)


def added_up(row: np.ndarray, column: np.ndarray, values: np.ndarray, shape: tuple[int, int]) -> np.ndarray:
    """Return an array of this shape with `values` added up at their rows and columns."""
    flat = np.bincount(row * shape[1] + column, values, shape[0] * shape[1])
    return flat.reshape(shape)


def _traffic(
    step: np.ndarray, port: np.ndarray, words: np.ndarray, kind: np.ndarray, shape: tuple[int, int]
) -> Traffic:
    return Traffic(
        added_up(step, port, np.ones(len(step)), shape),
        added_up(step, port, np.where(kind == FINE, 0.0, words), shape),
        added_up(step, port, np.where(kind == FINE, words, 0.0), shape),
        added_up(step, port, np.where(kind >= SEND, words, 0.0), shape),
    )


def _joined(parts: Sequence[SuperstepSums]) -> SuperstepSums:
    """Return sums of consecutive supersteps as one, one after the other."""
    if len(parts) == 1:
        return parts[0]
    join = np.concatenate
    return SuperstepSums(
        join([part.work for part in parts]), join([part.wall for part in parts]),
        join([part.sent for part in parts]), join([part.received for part in parts]),
        join([part.messages for part in parts]), join([part.landed for part in parts]),
        join([part.registers for part in parts]),
        tuple(
            tuple(Traffic(*map(join, zip(*ends, strict=True))) for ends in zip(*level, strict=True))  # type: ignore[misc]
            for level in zip(*[part.between for part in parts], strict=True)
        ),
        Traffic(*map(join, zip(*[part.inside for part in parts], strict=True))),
        sum((part.heat for part in parts[1:]), parts[0].heat),
    )  # fmt: skip


def _together(parts: Sequence[SuperstepSums]) -> SuperstepSums:
    """Return sums of the same supersteps on different elements as one; the wall clock is element 0's."""
    if len(parts) == 1:
        return parts[0]

    def total(arrays: Sequence[Any]) -> Any:
        return sum(arrays[1:], arrays[0])

    return SuperstepSums(
        np.concatenate([part.work for part in parts], axis=1), parts[0].wall,
        total([part.sent for part in parts]), total([part.received for part in parts]),
        total([part.messages for part in parts]), total([part.landed for part in parts]), parts[0].registers,
        tuple(
            tuple(total(ends) for ends in zip(*level, strict=True))
            for level in zip(*[part.between for part in parts], strict=True)
        ),
        total([part.inside for part in parts]), total([part.heat for part in parts]),
    )  # fmt: skip
