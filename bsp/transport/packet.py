"""Packets: the requests of one element's processes to another's in one superstep, as bytes.

A packet is a marshalled list of records in the order of (source pid, issue).  Values under DIRECT_BYTES are inside the
records.  Larger values follow as blocks of their own, which are received directly into the memory of their owner where
that is safe, so that a large put is not copied on the way.  Sender and receiver walk the records in the same order, so
blocks need no names.
"""

from __future__ import annotations

import marshal
import pickle
from collections.abc import Callable
from dataclasses import dataclass, field
from math import prod
from typing import Any, NamedTuple

import numpy as np

from bsp.source import SourceLine
from bsp.values.effects import Effect, Get, Put, PutEach, Row, Send, range_of
from bsp.values.memory import LARGE, empty
from bsp.values.operations import combination
from bsp.values.parts import read_part
from bsp.values.payload import array_in, is_single, items_in
from bsp.values.records import ASK, COMBINE, FOR_ALL, KINDS, MESSAGE, PART, PUT, VALUE, each, message_in
from bsp.values.region import Region

DIRECT_BYTES = LARGE  # of values that follow a packet as blocks: all of them are received where a page begins

_MARSHAL = 2  # the last version in which equal values have equal bytes, however often they are referenced
_PUT, _PLAIN, _EACH, _GET, _SEND, _PICKLE, _ROW, _SMALL = range(8)


@dataclass(slots=True)
class Packet:
    """The requests collected for one other element."""

    records: list[tuple[Any, ...]] = field(default_factory=list)
    blocks: list[np.ndarray] = field(default_factory=list)
    texts: list[tuple[int, bytes]] = field(default_factory=list)
    lends: bool = False  # whether some block may be memory that the program writes to

    def add(self, effect: Effect, dests: tuple[int, ...] | None = None) -> None:
        """Append an effect; `dests` are the receivers of a Send on that element, None for a pooled one."""
        if isinstance(effect, Put):
            region = effect.region
            if region.index is None and effect.op is None and not effect.line and effect.values.nbytes < DIRECT_BYTES:
                self.records.append(
                    (_PLAIN, effect.source, effect.dest, effect.context, effect.coarray, region.start, region.stop,
                     effect.values.tobytes())
                )  # fmt: skip
                return
            self.lends = self.lends or effect.borrowed
            index = None if region.index is None else pickle.dumps(region.index, 5)
            self.records.append(
                (_PUT, effect.source, effect.dest, effect.context, effect.coarray, region.shape, region.start,
                 region.stop, index, effect.op, tuple(effect.line), self._data(effect.values))
            )  # fmt: skip
        elif isinstance(effect, PutEach):
            self.records.append(
                (_EACH, effect.source, effect.dest, effect.context, effect.coarray, effect.positions.itemsize,
                 effect.positions.size, self._data(effect.positions), effect.op, tuple(effect.line),
                 self._data(effect.values))
            )  # fmt: skip
        elif isinstance(effect, Get):
            where = effect.region if effect.positions is None else effect.positions
            self.records.append(
                (_GET, effect.source, effect.dest, effect.context, effect.coarray, pickle.dumps(where, 5),
                 tuple(effect.line))
            )  # fmt: skip
        elif isinstance(effect, Row):
            self.records.append((_ROW, effect.source, effect.first, effect.context, effect.values))
        elif effect.pickled is not None:
            pickled, data = effect.pickled, effect.pickled
            if len(pickled) >= DIRECT_BYTES or type(pickled) is not bytes:
                # marshal writes no bytes object over 2 GiB, and would copy one of any size
                data = self._data(np.frombuffer(pickled, np.uint8))  # type: ignore[assignment]
            to = dests or _ends(effect.dests)
            self.records.append(
                (_PICKLE, effect.source, to, effect.context, effect.tag, len(pickled), data, effect.pooled)
            )  # fmt: skip
        else:
            array = effect.array
            assert array is not None
            self.lends = self.lends or (effect.borrowed and not effect.shared)
            to = dests or _ends(effect.dests)
            self.records.append(
                (_SEND, effect.source, to, effect.context, effect.tag, None, _dtype_out(array.dtype), array.shape,
                 self._data(array), effect.pooled)
            )  # fmt: skip

    def _data(self, values: np.ndarray) -> bytes | None:
        """Return the bytes of small values, or queue large ones as a block and return None.

        A block is one range of memory, so a strided part of an array is copied here.
        """
        if values.nbytes < DIRECT_BYTES:
            return values.tobytes()
        self.blocks.append(values if values.flags.c_contiguous else np.ascontiguousarray(values))
        return None

    def encode(self) -> bytes:
        """Return the packet's bytes; empty if it holds nothing."""
        if not self.records and not self.texts:
            return b""
        return marshal.dumps((self.records, self.texts), _MARSHAL)

    @property
    def block_bytes(self) -> int:
        """The bytes that follow the packet as blocks."""
        return sum(block.nbytes for block in self.blocks)


class Pickle(NamedTuple):
    """A large pickle that has not arrived: its message, and the memory that it is received into."""

    send: Send
    block: np.ndarray


@dataclass(slots=True)
class Arrival:
    """A decoded packet, whose blocks have not arrived."""

    effects: list[Effect]
    awaited: list[np.ndarray | Put | Pickle]  # the place of each block, in the sender's order
    texts: list[tuple[int, bytes]]


Record = tuple[Any, ...]


def opened(data: bytes | memoryview) -> tuple[list[Record], list[tuple[int, bytes]]]:
    """Return the records and the texts in a packet."""
    if data and data[0] in KINDS:
        return [(_SMALL, *record) for record in each(data)], []
    records, texts = marshal.loads(data)
    return records, texts


def plain_put(record: Record) -> tuple[int, int, int, int, int, bytes] | None:
    """Return (dest, context, coarray, start, stop, bytes) if a record puts small values into one range, else None."""
    return record[2:] if record[0] == _PLAIN else None


def pooled_pickle(record: Record) -> tuple[int, bytes] | None:
    """Return (source, pickle) of a record that gives a small pickle to all processes, else None."""
    return (record[1], record[6]) if record[0] == _PICKLE and record[7] and record[6] is not None else None


def decode(
    records: list[Record],
    texts: list[tuple[int, bytes]],
    dtype_of: Callable[[int, int, int], np.dtype[Any]],
    landing: Callable[[int, tuple[int, ...] | range, int], np.ndarray | None],
) -> Arrival:
    """Return the effects in a packet that has been opened.

    dtype_of : returns the dtype of a coarray here, from (pid, context, coarray).
    landing : returns the memory that a receiver has for the next array of a message, or None, from (source, dests,
        context).
    """
    awaited: list[np.ndarray | Put | Pickle] = []
    effects: list[Effect] = []

    def values(inline: bytes | None, dtype: np.dtype[Any], count: int) -> np.ndarray:
        if inline is not None:
            return items_in(inline, dtype, count)
        block = empty(count, dtype)
        awaited.append(block)
        return block

    for record in records:
        kind = record[0]
        if kind == _SMALL:
            _, of_kind, context, coarray, source, dest, start, size, data = record
            if of_kind in FOR_ALL:
                array, pickled = (None, data) if of_kind == VALUE else (array_in(data), None)
                effects.append(Send(source, range(dest, start), context, None, array, pickled, pooled=True))
                continue
            if of_kind == MESSAGE:
                effects.append(Send(source, (dest,), context, *message_in(data)))
                continue
            dtype = dtype_of(dest, context, coarray)
            if of_kind == ASK:
                asked = read_part(data, filled=False).region(start, dtype.itemsize)
                effects.append(Get(source, dest, context, coarray, asked, None, None))
                continue
            if of_kind in (PART, COMBINE):
                op, part = combination(data) if of_kind == COMBINE else (None, read_part(data))
                written = part.region(start, dtype.itemsize)
                items = items_in(part.items, dtype, prod(written.shape))
                effects.append(Put(source, dest, context, coarray, written, items, op))
                continue
            region = range_of(start, size, dtype)
            known = items_in(data, dtype, region.shape[0]) if of_kind == PUT else _AWAITED
            put = Put(source, dest, context, coarray, region, known, None)
            if of_kind != PUT:
                awaited.append(put)
            effects.append(put)
        elif kind == _PLAIN:
            _, source, dest, context, coarray, start, stop, inline = record
            known = items_in(inline, dtype_of(dest, context, coarray), stop - start)
            effects.append(Put(source, dest, context, coarray, Region(known.shape, start, stop), known, None))
        elif kind == _PUT:
            _, source, dest, context, coarray, shape, start, stop, index, op, line, inline = record
            region = Region(shape, start, stop, None if index is None else pickle.loads(index))
            dtype = dtype_of(dest, context, coarray)
            known = _AWAITED if inline is None else items_in(inline, dtype, prod(shape))
            put = Put(source, dest, context, coarray, region, known, op, SourceLine(line))
            if inline is None:
                awaited.append(put)
            effects.append(put)
        elif kind == _EACH:
            _, source, dest, context, coarray, width, count, where, op, line, inline = record
            positions = values(where, _POSITIONS[width], count)
            items = values(inline, dtype_of(dest, context, coarray), count)
            effects.append(PutEach(source, dest, context, coarray, positions, items, op, SourceLine(line)))
        elif kind == _GET:
            _, source, dest, context, coarray, pickled, line = record
            place = pickle.loads(pickled)
            get = Get(source, dest, context, coarray, None, None, None, SourceLine(line))
            if isinstance(place, Region):
                get.region = place
            else:
                get.positions = place
            effects.append(get)
        elif kind == _ROW:
            effects.append(Row(*record[1:]))
        elif kind == _PICKLE:
            _, source, dests, context, tag, size, inline, pooled = record
            send = Send(source, range(*dests) if pooled else dests, context, tag, None, inline, pooled=pooled)
            if inline is None:
                awaited.append(Pickle(send, np.empty(size, np.uint8)))
            effects.append(send)
        else:
            _, source, dests, context, tag, _, described, shape, inline, pooled = record
            to = range(*dests) if pooled else dests
            place, dtype = landing(source, to, context), _dtype_in(described)
            if inline is None and place is not None and place.dtype == dtype and place.size == prod(shape):
                awaited.append(place)
                array = place.reshape(shape)
            else:
                array = values(inline, dtype, prod(shape)).reshape(shape)
            if inline is not None:
                array = array.copy()  # the receiver's own: aligned and writable (D9)
            effects.append(Send(source, to, context, tag, array, None, pooled=pooled))
    return Arrival(effects, awaited, texts)


def _ends(dests: tuple[int, ...] | range) -> tuple[int, int]:
    """Return the first and the last of a range of receivers, the last exclusive."""
    return dests[0], dests[-1] + 1


_AWAITED = np.empty(0)  # the values of a put until the place where they are received is chosen
_POSITIONS: dict[int, np.dtype[Any]] = {4: np.dtype(np.int32), 8: np.dtype(np.int64)}


def _dtype_out(dtype: np.dtype[Any]) -> str | bytes:
    if is_single(dtype):
        return dtype.char  # `str` is the same for `l` and `q`
    plain = dtype.names is None and dtype.subdtype is None and dtype.metadata is None
    return dtype.str if plain else pickle.dumps(dtype, 5)


def _dtype_in(described: str | bytes) -> np.dtype[Any]:
    return np.dtype(described) if isinstance(described, str) else pickle.loads(described)
