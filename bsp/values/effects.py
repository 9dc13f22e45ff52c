"""Effects: the puts, gets and messages that a process issues in a superstep, in issue order until the boundary.

An effect is plain data.  It is made by a coarray or by `send`, routed by the element (applied in
place when its owner is a process here, put into a packet when not), and applied under D1: all gets are read
first, then puts and accumulates in order of (source pid, issue order).

`source` is always the pid that issues the effect, `dest` the pid that owns the memory or gets the message.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable
from dataclasses import dataclass, field
from math import prod
from typing import Any

import numpy as np

from bsp.source import NOWHERE, SourceLine
from bsp.values.operations import combination
from bsp.values.parts import read_part
from bsp.values.payload import array_in, items_in
from bsp.values.records import (
    ARRAY,
    ASK,
    COMBINE,
    LENT,
    MESSAGE,
    PART,
    PUT,
    VALUE,
    Record,
    address_of,
    message_in,
    message_out,
    parts_of,
)
from bsp.values.region import Region


@dataclass(slots=True)
class Put:
    """A block of values for one region of a coarray on process `dest`."""

    source: int
    dest: int
    context: int
    coarray: int
    region: Region
    values: np.ndarray
    op: str | None
    line: SourceLine = NOWHERE
    borrowed: bool = False  # values is the caller's own memory (buffered=False)


@dataclass(slots=True)
class PutEach:
    """One value for each flat position of a coarray on process `dest`; positions may repeat."""

    source: int
    dest: int
    context: int
    coarray: int
    positions: np.ndarray
    values: np.ndarray
    op: str | None
    line: SourceLine = NOWHERE
    scalars: bool = False  # a batch of puts of one number each: the cost counts no words for their positions


@dataclass(slots=True)
class Get:
    """A request for the contents of a region, or of flat positions, of a coarray on process `dest`.

    deliver : called with the values on the process that asks; None on the element of the owner, if another.
    """

    source: int
    dest: int
    context: int
    coarray: int
    region: Region | None
    positions: np.ndarray | None
    deliver: Callable[[np.ndarray], None] | None
    line: SourceLine = NOWHERE


@dataclass(slots=True)
class Send:
    """A message for each process in `dests`; the payload is an array, or the bytes of a pickle."""

    source: int
    dests: tuple[int, ...] | range  # a range if pooled
    context: int
    tag: bytes | None
    array: np.ndarray | None
    pickled: bytes | None
    borrowed: bool = False  # array is the sender's own memory: every receiver takes a copy
    shared: bool = False  # array is never written to: receivers on the sender's element get it without a copy
    line: SourceLine = NOWHERE
    kept: bool = False  # the sender is the receiver, and only reads what arrives: it gets no copy
    pooled: bool = False  # an element keeps it once, for all receivers there (`bsp.engine.pool`)
    counted: bool = False  # it is counted, and not delivered: the traffic of a declared cost, which nobody reads

    def to(self, dests: tuple[int, ...] | range, borrowed: bool) -> Send:
        """Return the same message for some of its receivers."""
        return Send(
            self.source, dests, self.context, self.tag, self.array, self.pickled, borrowed, self.shared, self.line,
            self.kept, self.pooled,
        )  # fmt: skip


@dataclass(slots=True)
class Row:
    """A message with a small value for each of the processes from `first` on; an element keeps its part as it is.

    values : pickles, or Python's numbers as they are, which nobody can change.
    """

    source: int
    first: int
    context: int
    values: list[Any]
    line: SourceLine = NOWHERE

    def pickles(self) -> list[bytes]:
        """Return each value as a pickle."""
        return [each if type(each) is bytes else pickle.dumps(each, 5) for each in self.values]

    def sizes(self) -> list[int]:
        """Return the bytes of each value's pickle."""
        return list(map(len, self.pickles()))

    def part(self, pids: range) -> Row:
        """Return the part for some of its receivers."""
        return Row(self.source, pids.start, self.context, self.values[pids.start - self.first : pids.stop - self.first])


@dataclass(slots=True)
class Deferred:
    """A put or get on a coarray whose remote shapes are unknown until this boundary (B3); `resolve` then checks it."""

    resolve: Callable[[], list[Effect]]
    line: SourceLine = NOWHERE


class ScalarPuts:
    """A batch of puts of one number each, so that ten thousand of them cost one conversion to arrays.

    items : (dest, position, number) of each put.  `finish(items)` returns the effects.
    """

    __slots__ = ("finish", "items", "line")

    def __init__(self, finish: Callable[[list[tuple[int, int, Any]]], list[PutEach]], line: SourceLine) -> None:
        self.items: list[tuple[int, int, Any]] = []
        self.finish = finish
        self.line = line


Effect = Put | PutEach | Get | Send | Row
_FEW_MESSAGES = 64  # effects of a superstep up to which messages are records: many do not fit where records travel


def range_of(start: int, size: int, dtype: np.dtype[Any]) -> Region:
    """Return the region of `size` bytes from byte `start` on."""
    first, items = start // dtype.itemsize, size // dtype.itemsize
    return Region((items,), first, first + items)


def effect_of(record: Record) -> Effect:
    """Return the effect of a record (`bsp.values.records`) as an object."""
    kind, dest, address, start, data, coarray = record
    context, index, source = parts_of(address)
    if kind == VALUE:
        return Send(source, range(dest, start), context, None, None, data, pooled=True)
    if kind == ARRAY:
        return Send(source, range(dest, start), context, None, array_in(data), None, pooled=True)
    if kind == MESSAGE:
        return Send(source, (dest,), context, *message_in(data))
    if kind == ASK:
        coarray, region, deliver = coarray
        return Get(source, dest, context, index, region, None, deliver)
    if kind in (PART, COMBINE):
        coarray, region = coarray
        op, part = combination(data) if kind == COMBINE else (None, read_part(data))
        values = items_in(part.items, coarray.dtype, prod(region.shape))
        return Put(source, dest, context, index, region, values, op)
    region = range_of(start, len(data), coarray.dtype)
    # a view of a block keeps its base, by which the memory of copies is known
    values = items_in(data, coarray.dtype, region.shape[0]) if kind == PUT else data.view(coarray.dtype)
    return Put(source, dest, context, index, region, values, None, borrowed=kind == LENT)


@dataclass(slots=True)
class Outbox:
    """The effects that one process has issued in one context since its last boundary."""

    effects: list[Effect | Deferred | ScalarPuts | Record] = field(default_factory=list)

    def send(
        self, source: int, dests: tuple[int, ...], context: int, tag: bytes | None, array: np.ndarray | None,
        pickled: bytes | None, *, borrowed: bool = False, shared: bool = False, line: SourceLine = NOWHERE,
        kept: bool = False,
    ) -> None:  # fmt: skip
        """Queue a message, as a `Send`, which has these arguments; a small one for one process as a record.

        A record holds a copy, whatever `borrowed` and `shared` say.  Only the first few effects are records.
        """
        if len(self.effects) < _FEW_MESSAGES and len(dests) == 1 and not (kept or line):
            data = message_out(tag, array, pickled)
            if data is not None:
                self.effects.append((MESSAGE, dests[0], address_of(context, 0, source), 0, data, None))
                return
        self.effects.append(Send(source, dests, context, tag, array, pickled, borrowed, shared, line, kept))

    def take(self) -> list[Any]:
        """Return what has been issued, as it is, and empty the outbox."""
        effects, self.effects = self.effects, []
        return effects

    def put_back(self, effects: list[Any]) -> None:
        """Put what `take` has returned before what has been issued since."""
        self.effects[:0] = effects

    def drain(self) -> list[Effect]:
        """Return all effects in issue order, and empty the outbox."""
        found: list[Effect] = []
        for effect in self.take():
            if type(effect) is tuple:
                found.append(effect_of(effect))
            elif isinstance(effect, ScalarPuts):
                found += effect.finish(effect.items)
            elif isinstance(effect, Deferred):
                found += effect.resolve()
            else:
                found.append(effect)
        return found
