"""Everything one element has for another in one superstep, as bytes.

A packet is a marshalled list of records in (source pid, issue order).  Values under DIRECT_BYTES
stand inside it; larger ones follow as blocks of their own, received straight into their owner where
that is safe, so that a large put is never copied on the way.  Both sides walk the records in the
same order, so blocks need no names.
"""

from __future__ import annotations

import marshal
import pickle
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from bsp.effects import Effect, Get, Put, PutEach, Send
from bsp.region import Region
from bsp.source import NOWHERE, Line

DIRECT_BYTES = 1 << 15

_PUT, _EACH, _GET, _SEND = range(4)

Buffer = Any  # what the buffer protocol takes


@dataclass(slots=True)
class Packet:
    """What is being collected for one other element."""

    records: list[tuple[Any, ...]] = field(default_factory=list)
    blocks: list[np.ndarray] = field(default_factory=list)
    texts: list[tuple[int, bytes]] = field(default_factory=list)

    def add(self, effect: Effect, dests: tuple[int, ...] | None = None) -> None:
        """Append an effect; `dests` are the receivers of a Send that live on that element."""
        line = effect.line if isinstance(effect, (Put, PutEach, Get)) else NOWHERE
        if isinstance(effect, Put):
            region = effect.region
            index = None if region.index is None else pickle.dumps(region.index, 5)
            record: tuple[Any, ...] = (
                _PUT, effect.source, effect.dest, effect.context, effect.coarray, region.shape, region.start,
                region.stop, index, effect.op, tuple(line), effect.values.dtype.str, self._data(effect.values),
            )  # fmt: skip
        elif isinstance(effect, PutEach):
            record = (
                _EACH, effect.source, effect.dest, effect.context, effect.coarray, effect.positions.dtype.str,
                effect.positions.size, self._data(effect.positions), effect.op, tuple(line),
                effect.values.dtype.str, self._data(effect.values),
            )  # fmt: skip
        elif isinstance(effect, Get):
            where = effect.region if effect.positions is None else effect.positions
            record = (
                _GET, effect.source, effect.dest, effect.context, effect.coarray, pickle.dumps(where, 5), tuple(line)
            )  # fmt: skip
        elif effect.array is None:
            record = (_SEND, effect.source, dests, effect.context, effect.tag, effect.pickled)
        else:
            array = effect.array
            record = (
                _SEND, effect.source, dests, effect.context, effect.tag, None, _dtype_out(array.dtype), array.shape,
                self._data(array),
            )  # fmt: skip
        self.records.append(record)

    def _data(self, values: np.ndarray) -> bytes | None:
        """The values to stand inside the record, or None: a block follows."""
        if values.nbytes < DIRECT_BYTES:
            return values.tobytes()
        self.blocks.append(values)
        return None

    def encode(self) -> bytes:
        """The packet's bytes; empty if there is nothing to say."""
        if not self.records and not self.texts:
            return b""
        return marshal.dumps((self.records, self.texts))

    @property
    def block_bytes(self) -> int:
        """Bytes that follow the packet as blocks."""
        return sum(block.nbytes for block in self.blocks)


@dataclass(slots=True)
class Arrival:
    """A decoded packet: effects whose large values are arrays still to be received into."""

    effects: list[Effect]
    blocks: list[np.ndarray]  # in the sender's order; each is received whole
    direct: list[Put | None]  # the put a block is the value of, if it might go straight to its owner
    texts: list[tuple[int, bytes]]


def decode(data: bytes | memoryview) -> Arrival:
    """The effects in a packet.  Values of blocks are not allocated yet: see `Arrival.blocks`."""
    arrival = Arrival([], [], [], [])
    if not len(data):
        return arrival
    records, arrival.texts = marshal.loads(data)
    for record in records:
        kind = record[0]
        if kind == _PUT:
            _, source, dest, context, coarray, shape, start, stop, index, op, line, dtype, inline = record
            region = Region(shape, start, stop, None if index is None else pickle.loads(index))
            put = Put(source, dest, context, coarray, region, _EMPTY, op, Line(line))
            put.values = _values(arrival, inline, np.dtype(dtype), region.shape, put)
            arrival.effects.append(put)
        elif kind == _EACH:
            _, source, dest, context, coarray, ptype, count, pinline, op, line, dtype, inline = record
            positions = _values(arrival, pinline, np.dtype(ptype), (count,), None)
            values = _values(arrival, inline, np.dtype(dtype), (count,), None)
            arrival.effects.append(PutEach(source, dest, context, coarray, positions, values, op, Line(line)))
        elif kind == _GET:
            _, source, dest, context, coarray, where, line = record
            place = pickle.loads(where)
            flat = isinstance(place, np.ndarray)
            get = Get(
                source, dest, context, coarray, None if flat else place, place if flat else None, None, Line(line)
            )
            arrival.effects.append(get)
        elif record[5] is not None:
            _, source, dests, context, tag, pickled = record
            arrival.effects.append(Send(source, dests, context, tag, None, pickled))
        else:
            _, source, dests, context, tag, _, dtype, shape, inline = record
            array = _values(arrival, inline, _dtype_in(dtype), shape, None)
            if inline is not None:
                array = array.copy()  # the receiver's own: aligned and writable (D9)
            arrival.effects.append(Send(source, dests, context, tag, array, None))
    return arrival


_EMPTY = np.empty(0)


def _values(
    arrival: Arrival, inline: bytes | None, dtype: np.dtype[Any], shape: tuple[int, ...], put: Put | None
) -> np.ndarray:
    if inline is not None:
        return np.frombuffer(inline, dtype).reshape(shape)
    # np.empty reserves addresses only: a block that goes straight to its owner never touches this one
    block = np.empty(shape, dtype)
    arrival.blocks.append(block)
    arrival.direct.append(put)
    return block


def _dtype_out(dtype: np.dtype[Any]) -> str | bytes:
    plain = dtype.names is None and dtype.subdtype is None and dtype.metadata is None
    return dtype.str if plain else pickle.dumps(dtype, 5)


def _dtype_in(described: str | bytes) -> np.dtype[Any]:
    return np.dtype(described) if isinstance(described, str) else pickle.loads(described)
